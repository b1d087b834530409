// Which writes functionalise turns into values, and which it must leave.
#include "ir/graph/printer.h"
#include "tests/support/pass_checks.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

void expectAfter(const std::string& before, const std::string& after) {
  EXPECT_EQ(afterPass(functionalise, before), printed(after));
}
void expectLeft(const char* text) { expectAfter(text, text); }

TEST(Functionalise, LaterUsesTakeTheNewValue) {
  expectAfter(R"(graph(%x : Tensor):
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::abs(%a)
  %c : Tensor = aten::relu_(%a)
  %d : Tensor = aten::neg(%a)
  %e : Tensor = aten::relu_(%c)
  %f : Tensor = aten::mul(%a, %b)
  return (%a, %d, %f)
)",
              R"(graph(%x : Tensor):
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::abs(%a)
  %c : Tensor = aten::relu(%a)
  %d : Tensor = aten::neg(%c)
  %e : Tensor = aten::relu(%c)
  %f : Tensor = aten::mul(%e, %b)
  return (%e, %d, %f)
)");
}

// What is cut off is gone: nobody else knows that memory.
TEST(Functionalise, APartThatIsAllThatIsUsed) {
  expectAfter(R"(graph(%x : Float(2, 3, 4), %y : Float(2, 2, 4)):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %a : Tensor = aten::neg(%x)
  %p : Float(2, 2, 4) = aten::slice(%a, %1, %0, %2, %1)
  %b : Tensor = aten::add_(%p, %y, %1)
  %c : Tensor = aten::relu(%b)
  return (%c)
)",
              R"(graph(%x : Float(2, 3, 4), %y : Float(2, 2, 4)):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %a : Tensor = aten::neg(%x)
  %p : Float(2, 2, 4) = aten::slice(%a, %1, %0, %2, %1)
  %b : Tensor = aten::add(%p, %y, %1)
  %c : Tensor = aten::relu(%b)
  return (%c)
)");
}

// A traced LSTMCell: a sum over the memory of its first operand, whose pieces are then written one after the other.
TEST(Functionalise, PiecesOfAWholeThatIsUsedNoMore) {
  const std::string graph = R"(graph(%x : Float(2, 8), %y : Float(2, 8), %c : Float(2, 4)):
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %a : Float(2, 8) = aten::neg(%x)
  %b : Float(2, 8) = aten::add{0}(%a, %y, %1)
  %l : Tensor[] = aten::unsafe_chunk(%b, %2, %1)
  %p : Float(2, 4), %q : Float(2, 4) = prim::ListUnpack(%l)
  %i : Tensor = aten::sigmoid{0}(%p)
  %f : Tensor = aten::add{0}(%q, %c, %1)
  %g : Tensor = aten::tanh{0}(%f)
  %r : Tensor = aten::mul(%i, %g)
  return (%r)
)";
  auto with = [&](const std::string& suffix) {
    std::string text = graph;
    for (size_t at; (at = text.find("{0}")) != std::string::npos;) text.replace(at, 3, suffix);
    return text;
  };
  expectAfter(with("_"), with(""));
}

// The whole, or the list of its pieces, is used once more; another view of a piece is written.
TEST(Functionalise, PiecesThatStay) {
  for (const char* uses :
       {"  %c : Tensor = aten::relu(%a)\n  return (%c)\n", "  %c : Tensor = aten::cat(%l, %0)\n  return (%c)\n",
        "  %v : Tensor = aten::select(%q, %0, %0)\n  %c : Tensor = aten::neg_(%v)\n"
        "  %d : Tensor = aten::abs(%q)\n  return (%d)\n"})
    expectLeft((R"(graph(%x : Float(2, 8)):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %a : Float(2, 8) = aten::neg(%x)
  %l : Tensor[] = aten::chunk(%a, %2, %1)
  %p : Float(2, 4), %q : Float(2, 4) = prim::ListUnpack(%l)
  %i : Tensor = aten::sigmoid_(%p)
)" + std::string(uses))
                   .c_str());
}

// The whole is used once more, a view asks for strides, the caller gets the part, or each turn writes it again.
TEST(Functionalise, PartsThatStay) {
  for (const char* uses : {"  %c : Tensor = aten::relu(%a)\n", "  %c : Tensor = aten::view(%b, %s)\n",
                           "  %c : Tensor = aten::neg(%b)\n  %d : Tensor = aten::select(%a, %0, %0)\n"})
    expectLeft((R"(graph(%x : Float(2, 3, 4), %y : Float(2, 2, 4), %s : int[]):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %a : Tensor = aten::neg(%x)
  %p : Float(2, 2, 4) = aten::slice(%a, %1, %0, %2, %1)
  %b : Tensor = aten::add_(%p, %y, %1)
)" + std::string(uses) +
                "  return (%c)\n")
                   .c_str());
}

TEST(Functionalise, FillingWithATensor) {
  expectAfter(R"(graph(%x : Tensor, %v : Tensor):
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::fill_(%a, %v)
  return (%b)
)",
              R"(graph(%x : Tensor, %v : Tensor):
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::fill(%a, %v)
  return (%b)
)");
}

TEST(Functionalise, TheResultKeepsTheDType) {
  expectAfter(R"(graph(%x : Tensor, %y : Tensor):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::add_(%a, %y, %1)
  return (%b)
)",
              R"(graph(%x : Tensor, %y : Tensor):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::neg(%x)
  %4 : Tensor = aten::add(%a, %y, %1)
  %5 : Tensor = tscompile::check_in_place(%4, %a)
  %b : Tensor = aten::type_as(%5, %a)
  return (%b)
)");
  expectAfter(R"(graph(%x : Float(*, *), %y : Half(*, *)):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::add_(%a, %y, %1)
  %c : Tensor = aten::mul_(%a, %1)
  return (%b)
)",
              R"(graph(%x : Float(*, *), %y : Half(*, *)):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::neg(%x)
  %4 : Tensor = aten::add(%a, %y, %1)
  %b : Tensor = tscompile::check_in_place(%4, %a)
  %c : Tensor = aten::mul(%b, %1)
  return (%c)
)");
}

TEST(Functionalise, ChecksNothingThatIsProven) {
  expectAfter(R"(graph(%x : Float(2, 3), %y : Float(3), %z : Float(*, 3), %n : Float(1)):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::add_(%a, %y, %1)
  %c : Tensor = aten::neg(%z)
  %d : Tensor = aten::mul_(%c, %n)
  return (%b, %d)
)",
              R"(graph(%x : Float(2, 3), %y : Float(3), %z : Float(*, 3), %n : Float(1)):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::add(%a, %y, %1)
  %c : Tensor = aten::neg(%z)
  %d : Tensor = aten::mul(%c, %n)
  return (%b, %d)
)");
}

// Has a name of its own for leaks.supp: of a test some compilers name no more than TestBody.
void leaveListThatHoldsItself() {
  expectLeft(R"(graph(%x : Tensor):
  %l : Any[] = prim::ListConstruct(%x)
  %m : Any[] = aten::append(%l, %l)
  %n : int = aten::len(%l)
  return (%n)
)");
}
TEST(Functionalise, ListsThatHoldThemselvesAreLeft) { leaveListThatHoldsItself(); }

TEST(Functionalise, FillZeroAndCopy) {
  expectAfter(R"(graph(%x : Tensor, %y : Tensor):
  %no : bool = prim::Constant[value=0]()
  %v : float = prim::Constant[value=1.5]()
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::fill_(%a, %v)
  %c : Tensor = aten::neg(%x)
  %d : Tensor = aten::zero_(%c)
  %e : Tensor = aten::neg(%x)
  %f : Tensor = aten::copy_(%e, %y, %no)
  return (%a, %c, %e)
)",
              R"(graph(%x : Tensor, %y : Tensor):
  %no : bool = prim::Constant[value=0]()
  %v : float = prim::Constant[value=1.5]()
  %a : Tensor = aten::neg(%x)
  %10 : NoneType = prim::Constant()
  %b : Tensor = aten::full_like(%a, %v, %10, %10, %10, %10, %10)
  %c : Tensor = aten::neg(%x)
  %11 : NoneType = prim::Constant()
  %d : Tensor = aten::zeros_like(%c, %11, %11, %11, %11, %11)
  %e : Tensor = aten::neg(%x)
  %f : Tensor = aten::copy(%e, %y, %no)
  return (%b, %d, %f)
)");
}

TEST(Functionalise, LeavesInputsAttributesConstantsAndLiveViews) {
  expectLeft(R"(graph(%x : Tensor, %n : int):
  %a : Tensor = aten::relu_(%x)
  %b : Tensor = aten::neg(%x)
  %v : Tensor = aten::unsqueeze(%b, %n)
  %d : Tensor = aten::relu_(%b)
  %e : Tensor = aten::neg(%x)
  %w : Tensor = aten::unsqueeze(%e, %n)
  %f : Tensor = aten::relu_(%w)
  %c : Tensor = prim::Constant[value={3}]()
  %g : Tensor = aten::relu_(%c)
  return (%a, %v, %e)
)");
}

TEST(Functionalise, ViewsAfterTheLastWriteAreFine) {
  expectAfter(R"(graph(%x : Tensor):
  %n : int = prim::Constant[value=0]()
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::relu_(%a)
  %v : Tensor = aten::unsqueeze(%a, %n)
  %l : Tensor[] = prim::ListConstruct(%a, %v)
  return (%l)
)",
              R"(graph(%x : Tensor):
  %n : int = prim::Constant[value=0]()
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::relu(%a)
  %v : Tensor = aten::unsqueeze(%b, %n)
  %l : Tensor[] = prim::ListConstruct(%b, %v)
  return (%l)
)");
}

TEST(Functionalise, WritesInBranchesBecomeResults) {
  expectAfter(R"(graph(%x : Tensor, %c : bool, %d : bool):
  %a : Tensor = aten::neg(%x)
   = prim::If(%c)
    block0():
      %b : Tensor = aten::relu_(%a)
       = prim::If(%d)
        block0():
          -> ()
        block1():
          %e : Tensor = aten::sqrt_(%a)
          -> ()
       = prim::Print(%a)
      -> ()
    block1():
       = prim::Print(%a)
      -> ()
  return (%a)
)",
              R"(graph(%x : Tensor, %c : bool, %d : bool):
  %a : Tensor = aten::neg(%x)
  %9 : Tensor = prim::If(%c)
    block0():
      %b : Tensor = aten::relu(%a)
      %8 : Tensor = prim::If(%d)
        block0():
          -> (%b)
        block1():
          %5 : Tensor = aten::sqrt(%b)
          %6 : Tensor = tscompile::check_in_place(%5, %b)
          %e : Tensor = aten::type_as(%6, %b)
          -> (%e)
       = prim::Print(%8)
      -> (%8)
    block1():
       = prim::Print(%a)
      -> (%a)
  return (%9)
)");
}

TEST(Functionalise, NoResultWhereNobodyReadsOn) {
  expectAfter(R"(graph(%x : Tensor, %c : bool):
  %a : Tensor = aten::neg(%x)
   = prim::If(%c)
    block0():
      %b : Tensor = aten::relu_(%a)
       = prim::Print(%b)
      -> ()
    block1():
      -> ()
  return (%x)
)",
              R"(graph(%x : Tensor, %c : bool):
  %a : Tensor = aten::neg(%x)
   = prim::If(%c)
    block0():
      %b : Tensor = aten::relu(%a)
       = prim::Print(%b)
      -> ()
    block1():
      -> ()
  return (%x)
)");
}

TEST(Functionalise, WritesInLoopsAreCarried) {
  expectAfter(R"(graph(%x : Tensor):
  %3 : int = prim::Constant[value=3]()
  %true : bool = prim::Constant[value=1]()
  %a : Tensor = aten::neg(%x)
   = prim::Loop(%3, %true)
    block0(%i : int):
       = prim::Print(%a)
      %b : Tensor = aten::relu_(%a)
      -> (%true)
  return (%a)
)",
              R"(graph(%x : Tensor):
  %3 : int = prim::Constant[value=3]()
  %true : bool = prim::Constant[value=1]()
  %a : Tensor = aten::neg(%x)
  %7 : Tensor = prim::Loop(%3, %true, %a)
    block0(%i : int, %6 : Tensor):
       = prim::Print(%6)
      %b : Tensor = aten::relu(%6)
      -> (%true, %b)
  return (%7)
)");
}

TEST(Functionalise, ViewsInALoopSeeTheNextIteration) {
  expectLeft(R"(graph(%x : Tensor):
  %3 : int = prim::Constant[value=3]()
  %true : bool = prim::Constant[value=1]()
  %a : Tensor = aten::neg(%x)
  %l : Tensor[] = prim::ListConstruct(%x)
   = prim::Loop(%3, %true)
    block0(%i : int):
      %b : Tensor = aten::relu_(%a)
      %m : Tensor[] = aten::append(%l, %a)
      -> (%true)
  return (%l)
)");
}

TEST(Functionalise, TheOnlyNameOfWhatBranchesMade) {
  expectAfter(R"(graph(%x : Tensor, %c : bool):
  %y : Tensor = prim::If(%c)
    block0():
      %a : Tensor = aten::neg(%x)
      -> (%a)
    block1():
      %b : Tensor = aten::abs(%x)
      %d : Tensor = aten::relu_(%b)
      -> (%b)
  %z : Tensor = aten::relu_(%y)
  return (%y)
)",
              R"(graph(%x : Tensor, %c : bool):
  %y : Tensor = prim::If(%c)
    block0():
      %a : Tensor = aten::neg(%x)
      -> (%a)
    block1():
      %b : Tensor = aten::abs(%x)
      %d : Tensor = aten::relu(%b)
      -> (%d)
  %z : Tensor = aten::relu(%y)
  return (%z)
)");
  // One branch gives what has another name.
  expectLeft(R"(graph(%x : Tensor, %c : bool):
  %a : Tensor = aten::neg(%x)
  %y : Tensor = prim::If(%c)
    block0():
      -> (%a)
    block1():
      %b : Tensor = aten::abs(%x)
      -> (%b)
  %z : Tensor = aten::relu_(%y)
  return (%y, %a)
)");
  expectLeft(R"(graph(%x : Tensor, %c : bool):
  %y : Tensor, %w : Tensor = prim::If(%c)
    block0():
      %a : Tensor = aten::neg(%x)
      -> (%a, %a)
    block1():
      %b : Tensor = aten::abs(%x)
      -> (%b, %x)
  %z : Tensor = aten::relu_(%y)
  return (%y, %w)
)");
}

TEST(Functionalise, AppendsMakeALongerList) {
  expectAfter(R"(graph(%x : Tensor, %n : int):
  %l : int[] = prim::ListConstruct(%n)
  %1 : int[] = aten::append(%l, %n)
  %2 : int[] = aten::append(%1, %n)
  %size : int = aten::len(%l)
  %3 : int[] = aten::append(%l, %size)
  %y : Tensor = aten::sum(%x)
  return (%l, %y)
)",
              R"(graph(%x : Tensor, %n : int):
  %2 : int[] = prim::ListConstruct(%n, %n, %n)
  %size : int = aten::len(%2)
  %3 : int[] = prim::ListConstruct(%n, %n, %n, %size)
  %y : Tensor = aten::sum(%x)
  return (%3, %y)
)");
}

TEST(Functionalise, AppendsInOtherBlocksOrToOthersListsStay) {
  expectLeft(R"(graph(%x : int[], %c : bool, %n : int):
  %0 : int[] = aten::append(%x, %n)
  %l : int[] = prim::ListConstruct(%n)
   = prim::If(%c)
    block0():
      %1 : int[] = aten::append(%l, %n)
      -> ()
    block1():
      -> ()
  %m : int[] = prim::ListConstruct(%n)
  %k : int[][] = prim::ListConstruct(%m)
  %2 : int[] = aten::append(%m, %n)
  return (%l, %k)
)");
}

// What is written keeps its strides, which the functional form of some operators does not.
TEST(Functionalise, AViewOfWhatIsWrittenTellsHowItLies) {
  const std::string start = R"(graph(%x : Float(3, 4), %mask : Bool(4, 3)):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %half : float = prim::Constant[value=0.5]()
  %all : int[] = prim::Constant[value=[-1]]()
  %t : Float(4, 3) = aten::transpose(%x, %0, %1)
  %a : Float(4, 3) = aten::clone(%t, %none)
)";
  const std::string view = R"(  %b : Tensor = aten::transpose(%LATEST, %0, %1)
  %c : Tensor = aten::view(%b, %all)
  return (%c)
)";
  auto with = [](std::string text, const std::string& latest) { return text.replace(text.find("LATEST"), 6, latest); };
  expectAfter(start + "  %w : Float(4, 3) = aten::masked_fill_(%a, %mask, %half)\n" + with(view, "a"),
              start + "  %9 : Float(4, 3) = aten::masked_fill(%a, %mask, %half)\n" +
                  "  %w : Float(4, 3) = tscompile::strided_like(%9, %a)\n" + with(view, "w"));
  // One element after the other it is computed as it lies.
  expectAfter(start + "  %w : Float(4, 3) = aten::mul_(%a, %half)\n" + with(view, "a"),
              start + "  %w : Float(4, 3) = aten::mul(%a, %half)\n" + with(view, "w"));
  // Nobody asks.
  const std::string end = "  %c : Tensor = aten::neg(%LATEST)\n  return (%c)\n";
  expectAfter(start + "  %w : Float(4, 3) = aten::masked_fill_(%a, %mask, %half)\n" + with(end, "a"),
              start + "  %w : Float(4, 3) = aten::masked_fill(%a, %mask, %half)\n" + with(end, "w"));
}

}  // namespace
}  // namespace tscompile::test
