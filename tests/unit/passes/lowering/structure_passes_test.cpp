// Passes on guards, assertions, loops and tuples.
#include "ir/graph/printer.h"
#include "tests/support/pass_checks.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

void expectAfter(const Pass& pass, const std::string& before, const std::string& after) {
  EXPECT_EQ(afterPass(pass, before), printed(after));
}
void expectLeft(const Pass& pass, const char* text) { expectAfter(pass, text, text); }

TEST(RemoveGuards, HandsInputsOn) {
  expectAfter(pass("remove_guards"), R"(graph(%x : Tensor, %c : bool, %n : int, %o : Tensor?):
  %a : Tensor = prim::profile(%x)
   = prim::profile()
  %b : Tensor = prim::If(%c)
    block0():
      %d : Float(*, *) = prim::Guard(%a)
      -> (%d)
    block1():
      %e : Tensor = prim::unchecked_cast(%a)
      %f : Tensor = prim::unchecked_cast(%o)
      %g : Tensor = aten::mul(%e, %f)
      -> (%g)
  %h : int = prim::profile_ivalue(%n)
  %i : Tensor, %j : Tensor, %k : bool = prim::TypeCheck(%b, %x)
  return (%i, %j, %h)
)",
              R"(graph(%x : Tensor, %c : bool, %n : int, %o : Tensor?):
  %b : Tensor = prim::If(%c)
    block0():
      -> (%x)
    block1():
      %f : Tensor = prim::unchecked_cast(%o)
      %g : Tensor = aten::mul(%x, %f)
      -> (%g)
  return (%b, %x, %n)
)");
}

TEST(RemoveGuards, AnswersOfTypeChecksAreNotGuessed) {
  expectLeft(pass("remove_guards"), R"(graph(%x : Tensor):
  %i : Tensor, %k : bool = prim::TypeCheck(%x)
  return (%i, %k)
)");
}

TEST(RemoveUnreachableExceptions, ByConstantsAndShapes) {
  expectAfter(pass("remove_unreachable_exceptions"), R"(graph(%x : Float(2, 3), %n : int):
  %2 : int = prim::Constant[value=2]()
  %message : str = prim::Constant[value="no"]()
  %none : NoneType = prim::Constant()
  %true : bool = prim::Constant[value=1]()
  %d : int = aten::dim(%x)
  %bad : bool = aten::ne(%d, %2)
   = prim::If(%bad)
    block0():
       = prim::RaiseException(%message, %none)
      -> ()
    block1():
      -> ()
  %a : Tensor = prim::Loop(%n, %true, %x)
    block0(%i : int, %p : Tensor):
      %y : Tensor = prim::If(%true)
        block0():
          %q : Tensor = aten::neg(%p)
          -> (%q)
        block1():
           = prim::RaiseException(%message, %none)
          %u : Tensor = prim::Uninitialized()
          -> (%u)
      -> (%true, %y)
  return (%a)
)",
              R"(graph(%x : Float(2, 3), %n : int):
  %2 : int = prim::Constant[value=2]()
  %message : str = prim::Constant[value="no"]()
  %none : NoneType = prim::Constant()
  %true : bool = prim::Constant[value=1]()
  %d : int = aten::dim(%x)
  %bad : bool = aten::ne(%d, %2)
  %a : Tensor = prim::Loop(%n, %true, %x)
    block0(%i : int, %p : Tensor):
      %q : Tensor = aten::neg(%p)
      -> (%true, %q)
  return (%a)
)");
}

TEST(RemoveUnreachableExceptions, AssertionsThatMayFireStay) {
  expectLeft(pass("remove_unreachable_exceptions"), R"(graph(%x : Tensor, %c : bool):
  %2 : int = prim::Constant[value=2]()
  %message : str = prim::Constant[value="no"]()
  %none : NoneType = prim::Constant()
  %false : bool = prim::Constant[value=0]()
  %d : int = aten::dim(%x)
  %bad : bool = aten::ne(%d, %2)
   = prim::If(%bad)
    block0():
       = prim::RaiseException(%message, %none)
      -> ()
    block1():
      -> ()
   = prim::If(%c)
    block0():
      -> ()
    block1():
       = prim::RaiseException(%message, %none)
      -> ()
   = prim::If(%false)
    block0():
       = prim::Print(%x)
      -> ()
    block1():
       = prim::Print(%d)
      -> ()
  return (%x)
)");
}

TEST(UnrollLoops, SmallLoops) {
  expectAfter(pass("unroll_loops"), R"(graph(%x : Tensor, %c : bool):
  %2 : int = prim::Constant[value=2]()
  %true : bool = prim::Constant[value=1]()
  %y : Tensor = prim::If(%c)
    block0():
      %a : Tensor = prim::Loop(%2, %true, %x)
        block0(%i : int, %p : Tensor):
          %q : Tensor = aten::add(%p, %i, %2)
          -> (%true, %q)
      -> (%a)
    block1():
      -> (%x)
  return (%y)
)",
              R"(graph(%x : Tensor, %c : bool):
  %2 : int = prim::Constant[value=2]()
  %true : bool = prim::Constant[value=1]()
  %y : Tensor = prim::If(%c)
    block0():
      %9 : int = prim::Constant[value=0]()
      %10 : Tensor = aten::add(%x, %9, %2)
      %11 : int = prim::Constant[value=1]()
      %q : Tensor = aten::add(%10, %11, %2)
      -> (%q)
    block1():
      -> (%x)
  return (%y)
)");
}

TEST(UnrollLoops, LoopsWithoutTrips) {
  expectAfter(pass("unroll_loops"), R"(graph(%x : Tensor, %n : int):
  %0 : int = prim::Constant[value=-5]()
  %true : bool = prim::Constant[value=1]()
  %false : bool = prim::Constant[value=0]()
  %a : Tensor = prim::Loop(%0, %true, %x)
    block0(%i : int, %p : Tensor):
       = prim::Print(%i)
      -> (%true, %p)
  %b : Tensor, %m : int = prim::Loop(%n, %false, %a, %0)
    block0(%j : int, %q : Tensor, %k : int):
      -> (%true, %q, %n)
  %d : Tensor = prim::Loop(%m, %true, %b)
    block0(%l : int, %r : Tensor):
      %s : Tensor = aten::neg(%r)
      -> (%true, %s)
  return (%d)
)",
              R"(graph(%x : Tensor, %n : int):
  %m : int = prim::Constant[value=-5]()
  %true : bool = prim::Constant[value=1]()
  %false : bool = prim::Constant[value=0]()
  return (%x)
)");
}

TEST(UnrollLoops, ValuesThatChangePlacesAndInnerLoops) {
  expectAfter(pass("unroll_loops"), R"(graph(%x : Tensor, %y : Tensor):
  %2 : int = prim::Constant[value=2]()
  %3 : int = prim::Constant[value=3]()
  %true : bool = prim::Constant[value=1]()
  %a : Tensor, %b : Tensor = prim::Loop(%3, %true, %x, %y)
    block0(%i : int, %p : Tensor, %q : Tensor):
       = prim::Loop(%2, %true)
        block0(%j : int):
           = prim::Print(%p)
          -> (%true)
      -> (%true, %q, %p)
  return (%a, %b)
)",
              R"(graph(%x : Tensor, %y : Tensor):
  %2 : int = prim::Constant[value=2]()
  %3 : int = prim::Constant[value=3]()
  %true : bool = prim::Constant[value=1]()
   = prim::Print(%x)
   = prim::Print(%x)
   = prim::Print(%y)
   = prim::Print(%y)
   = prim::Print(%x)
   = prim::Print(%x)
  return (%y, %x)
)");
}

TEST(UnrollLoops, UnknownAndLargeLoopsStay) {
  expectLeft(pass("unroll_loops"), R"(graph(%x : Tensor, %n : int, %c : bool):
  %many : int = prim::Constant[value=200]()
  %3 : int = prim::Constant[value=3]()
  %true : bool = prim::Constant[value=1]()
  %a : Tensor = prim::Loop(%n, %true, %x)
    block0(%i : int, %p : Tensor):
      %o : Tensor = aten::neg(%p)
      -> (%true, %o)
  %b : Tensor = prim::Loop(%3, %true, %a)
    block0(%j : int, %q : Tensor):
      %u : Tensor = aten::neg(%q)
      -> (%c, %u)
  %d : Tensor = prim::Loop(%many, %true, %b)
    block0(%k : int, %r : Tensor):
      %s : Tensor = aten::neg(%r)
      %t : Tensor = aten::neg(%s)
      -> (%true, %t)
  return (%d)
)");
}

TEST(LowerTuples, AcrossBranches) {
  expectAfter(pass("lower_tuples"), R"(graph(%x : Tensor, %n : int, %c : bool):
  %1 : int = prim::Constant[value=1]()
  %t : (Tensor, (int, Tensor)) = prim::If(%c)
    block0():
      %a : (int, Tensor) = prim::TupleConstruct(%n, %x)
      %b : (Tensor, (int, Tensor)) = prim::TupleConstruct(%x, %a)
      -> (%b)
    block1():
      %y : Tensor = aten::neg(%x)
      %d : (int, Tensor) = prim::TupleConstruct(%1, %y)
      %e : (Tensor, (int, Tensor)) = prim::TupleConstruct(%y, %d)
      -> (%e)
  %f : Tensor, %g : (int, Tensor) = prim::TupleUnpack(%t)
  %h : Tensor = prim::TupleIndex(%g, %1)
  return (%f, %h, %g)
)",
              R"(graph(%x : Tensor, %n : int, %c : bool):
  %1 : int = prim::Constant[value=1]()
  %f : Tensor, %16 : int, %h : Tensor = prim::If(%c)
    block0():
      %a : (int, Tensor) = prim::TupleConstruct(%n, %x)
      %b : (Tensor, (int, Tensor)) = prim::TupleConstruct(%x, %a)
      -> (%x, %n, %x)
    block1():
      %y : Tensor = aten::neg(%x)
      %d : (int, Tensor) = prim::TupleConstruct(%1, %y)
      %e : (Tensor, (int, Tensor)) = prim::TupleConstruct(%y, %d)
      -> (%y, %1, %y)
  %g : (int, Tensor) = prim::TupleConstruct(%16, %h)
  %t : (Tensor, (int, Tensor)) = prim::TupleConstruct(%f, %g)
  return (%f, %h, %g)
)");
}

TEST(LowerTuples, AroundLoops) {
  expectAfter(pass("lower_tuples"), R"(graph(%x : Tensor, %n : int):
  %true : bool = prim::Constant[value=1]()
  %s : (Tensor, int) = prim::TupleConstruct(%x, %n)
  %t : (Tensor, int) = prim::Loop(%n, %true, %s)
    block0(%i : int, %p : (Tensor, int)):
      %a : Tensor, %b : int = prim::TupleUnpack(%p)
      %d : Tensor = aten::add(%a, %b, %i)
      %e : (Tensor, int) = prim::TupleConstruct(%d, %i)
      -> (%true, %e)
  return (%t)
)",
              R"(graph(%x : Tensor, %n : int):
  %true : bool = prim::Constant[value=1]()
  %s : (Tensor, int) = prim::TupleConstruct(%x, %n)
  %12 : Tensor, %14 : int = prim::Loop(%n, %true, %x, %n)
    block0(%i : int, %a : Tensor, %b : int):
      %p : (Tensor, int) = prim::TupleConstruct(%a, %b)
      %d : Tensor = aten::add(%a, %b, %i)
      %e : (Tensor, int) = prim::TupleConstruct(%d, %i)
      -> (%true, %d, %i)
  %t : (Tensor, int) = prim::TupleConstruct(%12, %14)
  return (%t)
)");
}

TEST(LowerTuples, WhatOneBranchMakesIsTakenApartInTheOther) {
  expectAfter(pass("lower_tuples"), R"(graph(%t : (Tensor, int), %x : Tensor, %c : bool, %n : int):
  %0 : int = prim::Constant[value=0]()
  %u : (Tensor, int) = prim::If(%c)
    block0():
      -> (%t)
    block1():
      %d : (Tensor, int) = prim::TupleConstruct(%x, %n)
      -> (%d)
  %e : Tensor = prim::TupleIndex(%u, %0)
  return (%e)
)",
              R"(graph(%t : (Tensor, int), %x : Tensor, %c : bool, %n : int):
  %0 : int = prim::Constant[value=0]()
  %e : Tensor, %11 : int = prim::If(%c)
    block0():
      %8 : Tensor, %9 : int = prim::TupleUnpack(%t)
      -> (%8, %9)
    block1():
      %d : (Tensor, int) = prim::TupleConstruct(%x, %n)
      -> (%x, %n)
  %u : (Tensor, int) = prim::TupleConstruct(%e, %11)
  return (%e)
)");
  expectAfter(pass("lower_tuples"), R"(graph(%s : (Tensor, int), %n : int):
  %true : bool = prim::Constant[value=1]()
  %t : (Tensor, int) = prim::Loop(%n, %true, %s)
    block0(%i : int, %p : (Tensor, int)):
      %a : Tensor, %b : int = prim::TupleUnpack(%p)
      %d : Tensor = aten::add(%a, %b, %i)
      %e : (Tensor, int) = prim::TupleConstruct(%d, %i)
      -> (%true, %e)
  return (%t)
)",
              R"(graph(%s : (Tensor, int), %n : int):
  %true : bool = prim::Constant[value=1]()
  %10 : Tensor, %11 : int = prim::TupleUnpack(%s)
  %13 : Tensor, %15 : int = prim::Loop(%n, %true, %10, %11)
    block0(%i : int, %a : Tensor, %b : int):
      %p : (Tensor, int) = prim::TupleConstruct(%a, %b)
      %d : Tensor = aten::add(%a, %b, %i)
      %e : (Tensor, int) = prim::TupleConstruct(%d, %i)
      -> (%true, %d, %i)
  %t : (Tensor, int) = prim::TupleConstruct(%13, %15)
  return (%t)
)");
}

// Each branch asks what both of the one before give.
TEST(LowerTuples, LongChainsOfBranchesTakeNoLongerThanTheyAre) {
  std::string text = "graph(%t0 : (Tensor, int), %x : Tensor, %c : bool, %n : int):\n";
  constexpr int kBranches = 2000;
  for (int i = 1; i <= kBranches; ++i)
    text += fmt::format(
        "  %t{0} : (Tensor, int) = prim::If(%c)\n    block0():\n      -> (%t{1})\n"
        "    block1():\n      -> (%t{1})\n",
        i, i - 1);
  text += fmt::format(
      "  %u : (Tensor, int) = prim::If(%c)\n    block0():\n      -> (%t{})\n    block1():\n"
      "      %d : (Tensor, int) = prim::TupleConstruct(%x, %n)\n      -> (%d)\n"
      "  %a : Tensor, %b : int = prim::TupleUnpack(%u)\n  return (%a)\n",
      kBranches);
  const std::string lowered = afterPass(pass("lower_tuples"), text.c_str());
  EXPECT_NE(lowered.find("%a : Tensor, %b : int = prim::If(%c)"), std::string::npos);
}

TEST(LowerTuples, WhatIsNotMadeHereStays) {
  expectLeft(pass("lower_tuples"), R"(graph(%t : (Tensor, int), %s : (Tensor, int), %c : bool, %n : int):
  %a : Tensor, %b : int = prim::TupleUnpack(%t)
  %u : (Tensor, int) = prim::If(%c)
    block0():
      -> (%t)
    block1():
      -> (%s)
  %e : Tensor = prim::TupleIndex(%u, %n)
  return (%a, %b, %e)
)");
}

}  // namespace
}  // namespace tscompile::test
