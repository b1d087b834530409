// What peephole takes away, and the near misses that would change a bit, a dtype or what memory is shared.
#include "ir/graph/printer.h"
#include "tests/support/pass_checks.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

void expectAfter(const std::string& before, const std::string& after) {
  EXPECT_EQ(afterPass(pass("peephole"), before), printed(after));
}
void expectLeft(const char* text) { expectAfter(text, text); }

// One node between constants and a use: what the output becomes, "%x" for an input, or the text of the node that is
// left.
std::string becomes(const std::string& inputs, const std::string& constants, const std::string& node,
                    const std::string& use = "aten::neg(%y)") {
  std::unique_ptr<Graph> g = readGraph("graph(" + inputs + "):\n" + constants + "  %y : " + node +
                                       "\n  %z : Tensor = " + use + "\n  return (%z)\n");
  applyPass(pass("peephole"), *g);
  const Value* v = g->output(0)->node()->input(0);
  return v->node() ? std::string(v->node()->kind().text()) : "%" + v->name();
}

const char* kNumbers = R"(  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %zero : float = prim::Constant[value=0.]()
  %minus : float = prim::Constant[value=-0.]()
  %one : float = prim::Constant[value=1.]()
)";

TEST(Peephole, NeutralNumbersBesideTensors) {
  struct Row {
    const char* type;
    const char* node;
    const char* becomes;
  };
  const Row rows[] = {
      {"Float(*, *)", "aten::mul(%x, %1)", "%x"},
      {"Float(*, *)", "aten::mul(%x, %one)", "%x"},
      {"Half(*, *)", "aten::mul(%x, %one)", "%x"},
      {"Long(*, *)", "aten::mul(%x, %1)", "%x"},
      {"Long(*, *)", "aten::mul(%x, %one)", "aten::mul"},        // a float
      {"Bool(*, *)", "aten::mul(%x, %1)", "aten::mul"},          // an int
      {"ComplexFloat(*, *)", "aten::mul(%x, %1)", "aten::mul"},  // inf * 0i
      {"Tensor", "aten::mul(%x, %1)", "aten::mul"},              // who knows
      {"Float(*, *)", "aten::mul(%x, %2)", "aten::mul"},
      {"Float(*, *)", "aten::div(%x, %1)", "%x"},
      {"Long(*, *)", "aten::div(%x, %1)", "aten::div"},
      {"Long(*, *)", "aten::add(%x, %0, %2)", "aten::add"},  // only the usual factor
      {"Long(*, *)", "aten::add(%x, %0, %1)", "%x"},
      {"Int(*, *)", "aten::sub(%x, %0, %1)", "%x"},
      {"Long(*, *)", "aten::add(%x, %zero, %1)", "aten::add"},
      {"Float(*, *)", "aten::add(%x, %0, %1)", "aten::add"},  // -0.0 + 0 is 0.0
      {"Float(*, *)", "aten::add(%x, %zero, %1)", "aten::add"},
      {"Float(*, *)", "aten::add(%x, %minus, %1)", "%x"},
      {"Float(*, *)", "aten::sub(%x, %0, %1)", "%x"},
      {"Double(*, *)", "aten::sub(%x, %zero, %1)", "%x"},
      {"Float(*, *)", "aten::sub(%x, %minus, %1)", "aten::sub"},
  };
  for (const Row& row : rows)
    EXPECT_EQ(becomes("%x : " + std::string(row.type), kNumbers, std::string("Tensor = ") + row.node), row.becomes)
        << row.type << " " << row.node;
}

TEST(Peephole, NothingThatWouldShareMemoryVisibly) {
  // Results that are inputs, writes to either.
  expectLeft(R"(graph(%x : Float(*, *), %z : Float(*, *)):
  %1 : int = prim::Constant[value=1]()
  %y : Tensor = aten::mul(%x, %1)
  %b : Tensor = aten::mul(%z, %1)
  %w : Tensor = aten::relu_(%b)
  return (%y, %b)
)");
  expectAfter(R"(graph(%x : Float(*, *)):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %y : Tensor = aten::mul(%a, %1)
  %z : Tensor = aten::div(%y, %1)
  return (%a, %z)
)",
              R"(graph(%x : Float(*, *)):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %z : Tensor = aten::div(%a, %1)
  return (%a, %z)
)");
  expectAfter(R"(graph(%x : Float(*, *)):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %y : Tensor = aten::mul(%a, %1)
  return (%y)
)",
              R"(graph(%x : Float(*, *)):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  return (%a)
)");
}

TEST(Peephole, ViewsThatShowTheSame) {
  expectAfter(R"(graph(%x : Float(2, 3), %w : Tensor, %like : Float(*), %c : bool):
  %1 : int = prim::Constant[value=2]()
  %2 : int = prim::Constant[value=3]()
  %no : bool = prim::Constant[value=0]()
  %sizes : int[] = prim::ListConstruct(%1, %2)
  %a : Tensor = aten::expand(%x, %sizes, %no)
  %b : Tensor = aten::t(%w)
  %t : Tensor = prim::If(%c)
    block0():
      %d : Tensor = aten::t(%b)
      -> (%d)
    block1():
      %e : Tensor = aten::type_as(%a, %like)
      -> (%e)
  %y : Tensor = aten::neg(%t)
  return (%y)
)",
              R"(graph(%x : Float(2, 3), %w : Tensor, %like : Float(*), %c : bool):
  %1 : int = prim::Constant[value=2]()
  %2 : int = prim::Constant[value=3]()
  %no : bool = prim::Constant[value=0]()
  %sizes : int[] = prim::ListConstruct(%1, %2)
  %b : Tensor = aten::t(%w)
  %t : Tensor = prim::If(%c)
    block0():
      -> (%w)
    block1():
      -> (%x)
  %y : Tensor = aten::neg(%t)
  return (%y)
)");
}

TEST(Peephole, QuestionsThatTypesAnswer) {
  expectAfter(R"(graph(%x : Float(2, *, 5, device=cpu), %w : Long(4, 6)):
  %0 : int = prim::Constant[value=0]()
  %-1 : int = prim::Constant[value=-1]()
  %d : int = aten::dim(%x)
  %s : int = aten::size(%x, %-1)
  %u : int = aten::size(%x, %d)
  %n : int = aten::numel(%w)
  %t : int = prim::dtype(%w)
  %f : bool = aten::is_floating_point(%x)
  %c : bool = prim::is_cuda(%x)
  %l : int[] = aten::size(%w)
  return (%d, %s, %u, %n, %t, %f, %c, %l)
)",
              R"(graph(%x : Float(2, *, 5, device=cpu), %w : Long(4, 6)):
  %0 : int = prim::Constant[value=0]()
  %-1 : int = prim::Constant[value=-1]()
  %d : int = prim::Constant[value=3]()
  %s : int = prim::Constant[value=5]()
  %u : int = aten::size(%x, %d)
  %n : int = prim::Constant[value=24]()
  %t : int = prim::Constant[value=4]()
  %f : bool = prim::Constant[value=1]()
  %c : bool = prim::Constant[value=0]()
  %18 : int = prim::Constant[value=4]()
  %19 : int = prim::Constant[value=6]()
  %l : int[] = prim::ListConstruct(%18, %19)
  return (%d, %s, %u, %n, %t, %f, %c, %l)
)");
}

TEST(Peephole, NumbersThatWereTensors) {
  expectAfter(R"(graph(%i : int, %f : float):
  %a : Tensor = prim::NumToTensor(%i)
  %b : int = aten::Int(%a)
  %c : Tensor = prim::NumToTensor(%f)
  %d : float = aten::Float(%c)
  %e : int = aten::Int(%c)
  return (%b, %d, %e)
)",
              R"(graph(%i : int, %f : float):
  %a : Tensor = prim::NumToTensor(%i)
  %c : Tensor = prim::NumToTensor(%f)
  %e : int = aten::Int(%c)
  return (%i, %f, %e)
)");
}

TEST(Peephole, Integers) {
  expectAfter(R"(graph(%a : int, %b : int):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %5 : int = prim::Constant[value=5]()
  %most : int = prim::Constant[value=9223372036854775807]()
  %c : int = aten::add(%a, %0)
  %d : int = aten::add(%0, %c)
  %e : int = aten::mul(%1, %d)
  %f : int = aten::floordiv(%e, %1)
  %g : int = aten::add(%f, %5)
  %h : int = aten::sub(%g, %1)
  %i : int = aten::add(%h, %most)
  %j : int = aten::sub(%b, %0)
  %k : int = aten::sub(%5, %j)
  return (%i, %k)
)",
              R"(graph(%a : int, %b : int):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %5 : int = prim::Constant[value=5]()
  %most : int = prim::Constant[value=9223372036854775807]()
  %g : int = aten::add(%a, %5)
  %15 : int = prim::Constant[value=4]()
  %h : int = aten::add(%a, %15)
  %17 : int = prim::Constant[value=-9223372036854775805]()
  %i : int = aten::add(%a, %17)
  %k : int = aten::sub(%5, %b)
  return (%i, %k)
)");
}

TEST(Peephole, Conditions) {
  expectAfter(R"(graph(%x : Tensor, %o : Tensor?, %c : bool):
  %none : NoneType = prim::Constant()
  %true : bool = prim::Constant[value=1]()
  %false : bool = prim::Constant[value=0]()
  %a : bool, %b : int = prim::If(%c)
    block0():
      %1 : int = prim::Constant[value=1]()
      -> (%true, %1)
    block1():
      %2 : int = prim::Constant[value=2]()
      -> (%false, %2)
  %d : bool = aten::__is__(%x, %none)
  %e : bool = aten::__isnot__(%x, %none)
  %f : bool = aten::__is__(%none, %none)
  %g : bool = aten::__is__(%o, %none)
  %h : Tensor = aten::_unwrap_optional(%x)
  return (%a, %b, %d, %e, %f, %g, %h)
)",
              R"(graph(%x : Tensor, %o : Tensor?, %c : bool):
  %none : NoneType = prim::Constant()
  %true : bool = prim::Constant[value=1]()
  %false : bool = prim::Constant[value=0]()
  %a : bool, %b : int = prim::If(%c)
    block0():
      %1 : int = prim::Constant[value=1]()
      -> (%true, %1)
    block1():
      %2 : int = prim::Constant[value=2]()
      -> (%false, %2)
  %d : bool = prim::Constant[value=0]()
  %e : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=1]()
  %g : bool = aten::__is__(%o, %none)
  return (%c, %b, %d, %e, %f, %g, %x)
)");
}

TEST(Peephole, ListsThatAreTakenApart) {
  expectAfter(R"(graph(%x : Tensor, %y : Tensor, %i : int):
  %1 : int = prim::Constant[value=1]()
  %-1 : int = prim::Constant[value=-1]()
  %none : NoneType = prim::Constant()
  %l : Tensor[] = prim::ListConstruct(%x, %y)
  %n : int = aten::len(%l)
  %a : Tensor = aten::__getitem__(%l, %-1)
  %b : Tensor, %c : Tensor = prim::ListUnpack(%l)
  %m : Tensor[] = aten::add(%l, %l)
  %s : Tensor[] = aten::slice(%m, %1, %none, %1)
  %u : Tensor = aten::__getitem__(%l, %i)
  return (%n, %a, %b, %c, %s, %u)
)",
              R"(graph(%x : Tensor, %y : Tensor, %i : int):
  %1 : int = prim::Constant[value=1]()
  %-1 : int = prim::Constant[value=-1]()
  %none : NoneType = prim::Constant()
  %l : Tensor[] = prim::ListConstruct(%x, %y)
  %n : int = prim::Constant[value=2]()
  %m : Tensor[] = prim::ListConstruct(%x, %y, %x, %y)
  %s : Tensor[] = prim::ListConstruct(%y, %x, %y)
  %u : Tensor = aten::__getitem__(%l, %i)
  return (%n, %y, %x, %y, %s, %u)
)");
  expectLeft(R"(graph(%x : int, %i : int):
  %1 : int = prim::Constant[value=1]()
  %l : int[] = prim::ListConstruct(%x, %i)
  %0 : int[] = aten::append(%l, %i)
  %n : int = aten::len(%l)
  return (%n)
)");
}

TEST(Peephole, TuplesThatAreTakenApart) {
  expectAfter(R"(graph(%x : Tensor, %y : int):
  %-2 : int = prim::Constant[value=-2]()
  %t : (Tensor, int) = prim::TupleConstruct(%x, %y)
  %a : Tensor, %b : int = prim::TupleUnpack(%t)
  %c : Tensor = prim::TupleIndex(%t, %-2)
  %d : (int) = prim::TupleSlice[beg=1, end=2](%t)
  return (%a, %b, %c, %d)
)",
              R"(graph(%x : Tensor, %y : int):
  %-2 : int = prim::Constant[value=-2]()
  %t : (Tensor, int) = prim::TupleConstruct(%x, %y)
  %d : (int) = prim::TupleConstruct(%y)
  return (%x, %y, %x, %d)
)");
}

}  // namespace
}  // namespace tscompile::test
