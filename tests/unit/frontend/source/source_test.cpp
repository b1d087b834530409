// The source language of archives: what functions become, and what mistakes say.
#include "frontend/source/library.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tscompile {
namespace {

class SourceTest : public testing::Test {
 protected:
  // The graph of a function of the code, or what is wrong with it.
  std::string compiled(const std::string& code, const std::string& name = "f") {
    Diagnostics diagnostics;
    SourcePtr file = SourceFile::make("code/__torch__.py", code);
    source::Library library([&](const std::string& m) { return m == "__torch__" ? file : nullptr; }, allOps(),
                            diagnostics, limits_);
    library.setConstants({IValue(7)});
    source::MethodInfo* f = library.findFunction("__torch__." + name);
    if (f) library.request(*f);
    bool good = library.compile();
    if (good && f) verify(*f->graph, allOps(), diagnostics);
    std::string problems;
    for (const Diagnostic& d : diagnostics.list()) {
      LineColumn at = d.range.valid() ? d.range.file->lineColumn(d.range.begin) : LineColumn{};
      problems += std::to_string(at.line) + ":" + std::to_string(at.column) + ": " + d.message + "\n";
      for (const Diagnostic& note : d.notes) notes_ += note.message + "\n";
    }
    EXPECT_EQ(good, problems.empty());
    return good && f ? graphText(*f->graph, {.locations = false}) : problems;
  }
  Limits limits_;
  std::string notes_;  // of what went wrong
};

// As PyTorch prints them: None is of NoneType whatever a variable may hold, complex numbers are one constant.
TEST_F(SourceTest, ConstantsAreThoseOfPyTorch) {
  std::string text = compiled(R"(
def f(x: Tensor,
    n: int) -> Tuple[complex, complex, Optional[Tensor], float, float]:
  y: Optional[Tensor] = None
  if torch.gt(n, 0):
    y0: Optional[Tensor] = x
  else:
    y0 = y
  return (-1.+2.j, 0.5-1.j, y0, -inf, -nan)
)");
  for (const char* constant : {"%y : NoneType = prim::Constant()", "complex = prim::Constant[value=-1.+2.j]()",
                               "complex = prim::Constant[value=0.5-1.j]()", "float = prim::Constant[value=-inf]()",
                               "float = prim::Constant[value=nan]()"})
    EXPECT_NE(text.find(constant), std::string::npos) << text;
}

// A tuple that could hold what may be written is made where it stands; of the forms of an operator the newest is meant.
TEST_F(SourceTest, TuplesAndCallsAreThoseOfPyTorch) {
  std::string text = compiled(R"(
class Held(NamedTuple):
  n : int
  names : Optional[List[int]]
class Plain(NamedTuple):
  n : int
  most : Optional[int]
def f(x: Tensor) -> Tuple[__torch__.Held, __torch__.Plain, Tensor]:
  y = torch.scaled_dot_product_attention(x, x, x, None, 0., True)
  return (__torch__.Held(1, None), __torch__.Plain(2, None), y)
)");
  EXPECT_NE(text.find("(n : int, names : int[]?) = prim::TupleConstruct("), std::string::npos) << text;
  EXPECT_NE(text.find("(n : int, most : int?) = prim::Constant[value=(2, None)]()"), std::string::npos) << text;
  const size_t call = text.find("aten::scaled_dot_product_attention(");
  const std::string arguments = text.substr(call, text.find(')', call) - call);
  EXPECT_EQ(std::count(arguments.begin(), arguments.end(), ','), 7) << text;
}

TEST_F(SourceTest, BranchesMergeWhatBothKnow) {
  EXPECT_EQ(compiled(R"(
def f(x: Tensor,
    n: int) -> Tensor:
  if torch.gt(n, 0):
    y = torch.add(x, 1)
    only = 3
  else:
    y = x
  return y
)"),
            R"(graph(%x : Tensor,
      %n : int):
  %2 : int = prim::Constant[value=0]()
  %4 : int = prim::Constant[value=1]()
  %3 : bool = aten::gt(%n, %2)
  %y : Tensor = prim::If(%3)
    block0():
      %y.1 : Tensor = aten::add(%x, %4, %4)
      -> (%y.1)
    block1():
      -> (%x)
  return (%y)
)");
}

TEST_F(SourceTest, LoopsCarryWhatTheyAssign) {
  EXPECT_EQ(compiled(R"(
def f(n: int) -> int:
  k = 0
  for i in range(n):
    k0 = torch.add(k, i)
    k = k0
  while torch.lt(k, 9):
    k = torch.add(k, 1)
  return k
)"),
            R"(graph(%n : int):
  %2 : bool = prim::Constant[value=1]()
  %k.1 : int = prim::Constant[value=0]()
  %7 : int = prim::Constant[value=9223372036854775807]()
  %8 : int = prim::Constant[value=9]()
  %12 : int = prim::Constant[value=1]()
  %k.5 : int = prim::Loop(%n, %2, %k.1)
    block0(%i : int, %k.3 : int):
      %k0 : int = aten::add(%k.3, %i)
      -> (%2, %k0)
  %9 : bool = aten::lt(%k.5, %8)
  %k : int = prim::Loop(%7, %9, %k.5)
    block0(%10 : int, %k.7 : int):
      %k.9 : int = aten::add(%k.7, %12)
      %14 : bool = aten::lt(%k.9, %8)
      -> (%14, %k.9)
  return (%k)
)");
}

TEST_F(SourceTest, ArgumentsBecomeWhatSchemasTake) {
  std::string text = compiled(R"(
def f(x: Tensor) -> Tensor:
  a = torch.max_pool2d(x, 2)
  b = torch.zeros([int(x)], dtype=6)
  c = torch.mul(a, annotate(number, 2.5))
  return torch.view(c, (1, -1))
)");
  EXPECT_NE(text.find("aten::max_pool2d"), std::string::npos) << text;
  EXPECT_NE(text.find("int[] = prim::ListConstruct"), std::string::npos) << text;
}

TEST_F(SourceTest, ItemsOfTuplesAreChosenWhenItRuns) {
  EXPECT_EQ(compiled(R"(
def f(sizes: Tuple[int, int],
    i: int) -> Tuple[int, int]:
  return (sizes[i], sizes[-1])
)"),
            R"(graph(%sizes : (int, int),
      %i : int):
  %3 : int = prim::Constant[value=-1]()
  %2 : int = prim::TupleIndex(%sizes, %i)
  %4 : int = prim::TupleIndex(%sizes, %3)
  %5 : (int, int) = prim::TupleConstruct(%2, %4)
  return (%5)
)");
}

TEST_F(SourceTest, AListThatMayBeNoneIsNotMadeOfTheRest) {
  std::string text = compiled(R"(
def g(x: Tensor,
    targets: Optional[List[Tensor]]=None) -> Tensor:
  return x
def f(x: Tensor,
    targets: Optional[List[Tensor]]) -> Tensor:
  return __torch__.g(x, targets, )
)");
  EXPECT_EQ(text.substr(0, 6), "graph(") << text;
}

TEST_F(SourceTest, EntriesOfADictHaveTheTypeThatIsAskedFor) {
  std::string text = compiled(R"(
def f(x: Tensor) -> Dict[str, Union[Tensor, List[Tensor]]]:
  d = annotate(Dict[str, Union[Tensor, List[Tensor]]], {"one": x, "all": [x, x]})
  e = annotate(Dict[str, Any], {"one": x, "count": 3})
  return d
)");
  EXPECT_EQ(text.substr(0, 6), "graph(") << text;
}

// Only what the tool for inference makes has that reason.
TEST_F(SourceTest, NodesWithAttributesAreMissedForAReason) {
  auto told = [&](const std::string& call) {
    notes_.clear();
    compiled("def f(x: Tensor) -> Tensor:\n  return torch.add(x, " + call + ")\n");
    return notes_;
  };
  EXPECT_NE(told("ops.prim.ConstantMKLDNNTensor()").find("save the model before"), std::string::npos);
  const std::string others = told("ops.prim.ConstantChunk(x)");
  EXPECT_EQ(others.find("save the model before"), std::string::npos) << others;
  EXPECT_NE(others.find("attributes of nodes are not in archives"), std::string::npos) << others;
}

TEST_F(SourceTest, MistakesHaveTheirPlace) {
  const std::pair<const char*, const char*> kCases[] = {
      {"def f(x: Tensor) -> Tensor:\n  return y\n", "2:10: 'y' is not defined\n"},
      {"def f(x: Tensor) -> Tensor:\n  return torch.reluu(x)\n", "2:10: unknown operator aten::reluu\n"},
      {"def f(x: Tensor) -> int:\n  return \"a\"\n", "2:3: the function returns int, not str\n"},
      {"def f(x: Thing) -> int:\n  return 1\n", "1:10: unknown type\n"},
      {"def f(x: int) -> int:\n  return torch.neg(x, x)\n", "2:10: no overload of aten::neg takes (int, int)\n"},
      {"def f(x: Tensor) -> Tensor:\n  return torch.add(x, ops.prim.ConstantMKLDNNTensor())\n",
       "2:23: the archive does not hold what prim::ConstantMKLDNNTensor needs\n"},
      {"def f(x: int) -> int:\n  return (x\n", "3:1: unexpected"},
      {"def f(x: int) -> int:\n    y = 1\n  return y\n", "3:3: the indentation fits no line above\n"},
      {"def f(x: int) -> int:\n  return 99999999999999999999\n", "2:10: the integer does not fit in 64 bits\n"},
      {"def f(x: int) -> int:\n  return CONSTANTS.c5\n", "2:10: the archive has no such constant\n"},
      {"def f(x: int) -> int:\n  a, b = (1, 2, 3)\n  return a\n", "2:3: expected a tuple of 2 elements"},
      {"def f(t: Tuple[int, str], i: int) -> int:\n  return t[i]\n",
       "2:10: a tuple of several types needs a literal as its index\n"},
      {"class A(NamedTuple):\n  a : __torch__.A\ndef f(x: __torch__.A) -> int:\n  return 1\n",
       "2:7: a named tuple holds itself\n"},
  };
  for (const auto& [code, problem] : kCases) {
    std::string told = compiled(code);
    EXPECT_EQ(told.substr(0, std::string(problem).size()), problem) << code << told;
  }
}

// What follows from a wrong guess of what such an operator gives is not reported.
TEST_F(SourceTest, UnknownOperatorsAreToldAllAtOnce) {
  EXPECT_EQ(compiled(R"(
def f(x: Tensor) -> List[int]:
  a, b = ops.mine.pair(x, by=2)
  c = ops.mine.one(torch.add(a, b))
  d = ops.mine.one(c)
  e = __torch__.g(d)
  return ops.mine.sizes(e)
def g(x: Tensor) -> Tensor:
  return torch.nothing(x)
)"),
            "3:10: unknown operator mine::pair\n4:7: unknown operator mine::one\n7:10: unknown operator mine::sizes\n"
            "9:10: unknown operator aten::nothing\n");
}

TEST_F(SourceTest, DepthIsLimited) {
  std::string open(1000, '('), close(1000, ')');
  EXPECT_NE(compiled("def f(x: int) -> int:\n  return " + open + "x" + close + "\n"), "");
  std::string deep = "x";
  for (int i = 0; i < 1000; ++i) deep = "torch.neg(" + deep + ")";
  EXPECT_EQ(compiled("def f(x: int) -> int:\n  return " + deep + "\n").find("graph("), std::string::npos);
  std::string lines = "def f(x: int) -> int:\n";
  for (size_t i = 1; i < 1000; ++i) lines += std::string(i, ' ') + "if torch.gt(x, 0):\n";
  EXPECT_EQ(compiled(lines + std::string(1000, ' ') + "pass\n").find("graph("), std::string::npos);
}

// A variable that a loop or a branch goes on with stays a value.
TEST_F(SourceTest, VariablesDoNotBecomeNames) {
  EXPECT_EQ(compiled(R"(
def f(n: int) -> int:
  total = 0
  for i in range(n):
    total = torch.a
  return total
)"),
            "5:5: expected a value\n");
  EXPECT_EQ(compiled(R"(
def f(n: int) -> int:
  total = 0
  if torch.gt(n, 0):
    total = range(n)
  else:
    pass
  return total
)"),
            "5:5: expected a value\n");
}

// What nobody knows how many results it has may be unpacked again, to fewer.
TEST_F(SourceTest, UnknownResultsAreUnpackedTwice) {
  EXPECT_EQ(compiled(R"(
def f(x: Tensor) -> Tensor:
  a = torch.nobody_knows(x)
  b, c, d, = a
  e, = a
  return e
)"),
            "3:7: unknown operator aten::nobody_knows\n");
}

}  // namespace
}  // namespace tscompile
