// Mistakes that lowering has made elsewhere, each as a graph that must keep its meaning.
#include "ir/graph/clone.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "passes/catalog.h"
#include "runtime/interpreter/evaluator.h"
#include "runtime/registry.h"
#include "tests/support/pass_checks.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

const Query kDefault = Query().including({"default"});
const Query kEverything = Query().including({"default", "decomposition"});

bool lower(Graph& graph, const Query& query) {
  Diagnostics diagnostics;
  RewriteContext context(graph, allOps(), diagnostics);
  std::unique_ptr<Evaluator> evaluator = makeEvaluator(allOps());
  context.evaluator = evaluator.get();
  PlanSettings settings;
  settings.verify = true;
  bool changed = loweringDatabase().query(query).run(context, settings).changed;
  EXPECT_EQ(diagnostics.errorCount(), 0u) << renderDiagnostics(diagnostics, "test");
  return changed;
}

// The lowered text, after runs on these arguments gave the same results and writes, to the last bit.
std::string lowered(const std::string& text, const Query& query = kEverything,
                    const std::vector<std::vector<double>>& arguments = {}, DimSpan sizes = {}) {
  std::unique_ptr<Graph> graph = readGraph(text), before = cloneGraph(*graph);
  lower(*graph, query);
  std::string after = graphText(*graph);
  EXPECT_FALSE(lower(*graph, query)) << "a second run says that it changed something\n" << after;
  if (arguments.empty()) {
    expectSameRuns(*before, *graph);
    return after;
  }
  auto make = [&] {
    std::vector<IValue> values;
    for (const auto& a : arguments) {
      std::vector<float> floats(a.begin(), a.end());
      values.emplace_back(Tensor::of<float>(sizes, floats));
    }
    for (size_t i = values.size(); i < before->inputs().size(); ++i) values.emplace_back(true);
    return values;
  };
  RunOutcome expected = runGraph(*before, make()), found = runGraph(*graph, make());
  EXPECT_TRUE(expected.ok) << expected.error;
  EXPECT_TRUE(found.ok) << found.error << after;
  EXPECT_TRUE(expected.results == found.results) << after;
  EXPECT_TRUE(expected.arguments == found.arguments) << "other writes\n" << after;
  return after;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST(Defects, BranchesOfTwoWritesAreNoChecksOfRanks) {
  std::string after = lowered(R"(graph(%x : Tensor, %c : bool):
  %1 : int = prim::Constant[value=1]()
   = prim::If(%c)
    block0():
      %a : Tensor = aten::add_(%x, %1, %1)
      %b : Tensor = aten::neg_(%x)
      -> ()
    block1():
      -> ()
  return (%x)
)",
                              kEverything, {{1, 2, 3}}, Dims{3});
  EXPECT_TRUE(has(after, "aten::add_") && has(after, "aten::neg_")) << after;
  after = lowered(R"(graph(%x : Tensor, %y : Tensor, %c : bool):
  %l : Tensor[] = prim::ListConstruct(%x)
   = prim::If(%c)
    block0():
      %a : Tensor[] = aten::append(%l, %x)
      %b : Tensor[] = aten::append(%l, %y)
      -> ()
    block1():
      -> ()
  return (%l)
)",
                  kEverything, {{1, 2}, {3, 4}}, Dims{2});
  EXPECT_EQ(count(after, "aten::append"), 2u) << after;
}

TEST(Defects, ExactGeluStaysExact) {
  std::string text = R"(graph(%x : Float(2)):
  %form : str = prim::Constant[value="none"]()
  %y : Tensor = aten::gelu(%x, %form)
  return (%y)
)";
  std::unique_ptr<Graph> graph = readGraph(text);
  lower(*graph, kEverything);
  EXPECT_TRUE(has(graphText(*graph), "aten::erf")) << graphText(*graph);
  EXPECT_FALSE(has(graphText(*graph), "aten::tanh")) << graphText(*graph);
  // Without being asked for, nothing is unpacked.
  graph = readGraph(text);
  lower(*graph, kDefault);
  EXPECT_TRUE(has(graphText(*graph), "aten::gelu")) << graphText(*graph);
}

TEST(Defects, LogSoftmaxReachesFarTails) {
  std::string after = lowered(R"(graph(%x : Float(2)):
  %none : NoneType = prim::Constant()
  %dim : int = prim::Constant[value=0]()
  %y : Tensor = aten::log_softmax(%x, %dim, %none)
  return (%y)
)",
                              kEverything, {{0, -200}}, Dims{2});
  EXPECT_TRUE(has(after, "aten::amax") && !has(after, "softmax(")) << after;
}

TEST(Defects, VarianceOfLargeNumbersIsNotLost) {
  std::string after = lowered(R"(graph(%x : Float(4)):
  %dims : int[] = prim::Constant[value=[0]]()
  %no : bool = prim::Constant[value=0]()
  %y : Tensor = aten::var(%x, %dims, %no, %no)
  return (%y)
)",
                              kEverything, {{10001, 10002, 10003, 10004}}, Dims{4});
  EXPECT_FALSE(has(after, "aten::var") || has(after, "prim::If")) << after;
}

// Texts may hold nodes that fit no schema; what they lack must not be read.
TEST(Defects, NodesWithTooFewInputsAreLeftAlone) {
  const Query everything = Query().including({"default", "decomposition", "fast_run", "fast_math", "reassoc"});
  for (const char* kind : {"aten::__is__",     "aten::__isnot__",   "aten::_unwrap_optional",
                           "aten::t",          "aten::dim",         "aten::size",
                           "aten::numel",      "aten::len",         "aten::add",
                           "aten::sub",        "aten::mul",         "aten::div",
                           "aten::expand",     "aten::expand_as",   "aten::type_as",
                           "aten::slice",      "aten::__getitem__", "aten::floordiv",
                           "aten::Int",        "aten::is_complex",  "prim::dtype",
                           "prim::device",     "prim::NumToTensor", "prim::TupleIndex",
                           "prim::TupleSlice", "aten::view",        "aten::to",
                           "aten::softmax",    "aten::dropout",     "aten::contiguous"})
    for (const char* inputs : {"", "%x"}) {
      std::unique_ptr<Graph> graph =
          readGraph("graph(%x : Tensor):\n  %y : Tensor = " + std::string(kind) + "(" + inputs +
                    ")\n  %i : int = aten::Int(%y)\n  %z : Tensor = aten::mul(%y, %y)\n"
                    "  return (%y, %i, %z)\n");
      Diagnostics diagnostics;
      RewriteContext context(*graph, allOps(), diagnostics);
      loweringDatabase().query(everything).run(context);
      EXPECT_EQ(graph->outputs().size(), 3u) << kind;
    }
}

TEST(Defects, PartsKeepTheirStrides) {
  std::string after = lowered(R"(graph(%x : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %r : Tensor = aten::relu(%x)
  %s : Tensor = aten::select(%r, %1, %0)
  %strides : int[] = aten::stride(%s)
  return (%strides)
)",
                              Query().including({"default", "fast_run", "reassoc"}), {{1, 2, 3, 4, 5, 6}}, Dims{2, 3});
  EXPECT_TRUE(has(after, "aten::select(%r")) << after;
}

// Each list of the chain written down in full would be as many items as the square of its length.
TEST(Defects, LongChainsOfListsStayShort) {
  std::string text = "graph(%x : Tensor):\n  %l0 : Tensor[] = prim::ListConstruct(%x)\n";
  constexpr int kLength = 1000;
  for (int i = 0; i < kLength; ++i)
    text += "  %l" + std::to_string(i + 1) + " : Tensor[] = aten::add(%l" + std::to_string(i) + ", %l0)\n";
  std::unique_ptr<Graph> graph = readGraph(text + "  return (%l" + std::to_string(kLength) + ")\n");
  applyPass(pass("peephole"), *graph);
  size_t items = 0;
  forEachNode(*graph, [&](const Node* n) { items += n->inputCount(); });
  EXPECT_LT(items, 100000u);
}

TEST(Defects, WritesThatOthersSeeStay) {
  for (const std::string& call :
       {std::string("aten::hardswish_(%v)"), std::string("aten::hardsigmoid_(%v)"),
        std::string("aten::masked_fill_(%v, %mask, %1)"), std::string("aten::scatter_(%v, %0, %index, %one)"),
        std::string("aten::dropout_(%v, %p, %no)"), std::string("aten::silu_(%v)")}) {
    // Of an argument, through a view.
    lowered(R"(graph(%x : Float(2, 2)):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %two : float = prim::Constant[value=2.]()
  %p : float = prim::Constant[value=0.5]()
  %no : bool = prim::Constant[value=0]()
  %v : Tensor = aten::select(%x, %0, %1)
  %w : Tensor = aten::detach(%x)
  %mask : Tensor = aten::gt(%v, %1)
  %index : Tensor = aten::argmax(%v, %0, %no)
  %index.1 : Tensor = aten::unsqueeze(%index, %0)
  %one : float = prim::Constant[value=1.]()
  %r : Tensor = )" +
                [&] {
                  std::string c = call;
                  if (size_t at = c.find("%index"); at != std::string::npos) c.replace(at, 6, "%index.1");
                  return c;
                }() +
                R"(
  %y : Tensor = aten::mul(%w, %two)
  return (%x, %y, %r)
)",
            kEverything, {{1, 2, 3, -0.5}}, Dims{2, 2});
  }
}

TEST(Defects, NestedBlocksAreLowered) {
  std::string after = lowered(R"(graph(%x : Float(2, 3), %w : Float(4, 3), %b : Float(4), %c : bool):
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %yes : bool = prim::Constant[value=1]()
  %n : int = aten::size(%w, %1)
  %mode : str = prim::Constant[value="reflect"]()
  %pad : int[] = prim::Constant[value=[1, 1]]()
  %none : NoneType = prim::Constant()
  %r : Tensor = prim::If(%c)
    block0():
      %s : Tensor = prim::Loop(%n, %yes, %x)
        block0(%i : int, %carried : Tensor):
          %d : Tensor = aten::detach(%carried)
          %e : Tensor = aten::true_divide(%d, %2)
          %f : Tensor = prim::If(%c)
            block0():
              %t : Tensor = aten::t(%w)
              %g : Tensor = aten::addmm(%b, %x, %t, %1, %1)
              -> (%g)
            block1():
              %t.2 : Tensor = aten::t(%w)
              %h : Tensor = aten::matmul(%x, %t.2)
              %k : Tensor = aten::add(%h, %b, %1)
              -> (%k)
          %m : Tensor = aten::sum(%f, %none)
          %a : Tensor = aten::mul(%e, %m)
          -> (%yes, %a)
      %q : Tensor = aten::pad(%s, %pad, %mode, %none)
      -> (%q)
    block1():
      -> (%x)
  return (%r)
)",
                              kEverything);
  for (const char* gone : {"aten::detach", "aten::true_divide", "aten::addmm", "aten::pad"})
    EXPECT_FALSE(has(after, gone)) << gone << "\n" << after;
}

TEST(Defects, ArithmeticOfIntegersHasItsOperators) {
  std::string after = lowered(R"(graph(%n : int, %m : int):
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %mode : str = prim::Constant[value="floor"]()
  %a : Tensor = prim::NumToTensor(%n)
  %b : Tensor = prim::NumToTensor(%m)
  %q : Tensor = aten::floor_divide(%a, %2)
  %d : Tensor = aten::div(%b, %2, %mode)
  %s : Tensor = aten::add(%q, %d, %1)
  %r : int = aten::Int(%s)
  return (%r)
)",
                              kDefault);
  EXPECT_EQ(count(after, "aten::floordiv"), 2u) << after;
  EXPECT_FALSE(has(after, "aten::div") || has(after, "floor_divide")) << after;
  // Division that is cut towards zero is another one, as is one with a fraction.
  for (const char* mode : std::initializer_list<const char*>{"\"trunc\"", nullptr}) {
    std::string constant =
        mode ? "str = prim::Constant[value=" + std::string(mode) + "]()" : std::string("NoneType = prim::Constant()");
    after = lowered("graph(%n : int):\n  %2 : int = prim::Constant[value=2]()\n  %mode : " + constant +
                        "\n  %a : Tensor = prim::NumToTensor(%n)\n  %q : Tensor = aten::div(%a, %2, %mode)\n"
                        "  return (%q)\n",
                    kDefault);
    EXPECT_TRUE(has(after, "aten::div")) << after;
  }
}

TEST(Defects, ExceptionsOfUsersAreRaised) {
  std::string after = lowered(R"(graph(%x : Tensor, %c : bool):
  %message : str = prim::Constant[value="no"]()
  %none : NoneType = prim::Constant()
   = prim::If(%c)
    block0():
       = prim::RaiseException(%message, %none)
      -> ()
    block1():
      -> ()
  %y : Tensor = aten::neg(%x)
  return (%y)
)");
  EXPECT_TRUE(has(after, "prim::RaiseException")) << after;
}

TEST(Defects, PaddingSaidInWordsIsNoListOfNumbers) {
  for (const char* padding : {"same", "valid"}) {
    std::string after = lowered(R"(graph(%x : Float(1, 1, 4, 4), %w : Float(1, 1, 2, 3)):
  %none : NoneType = prim::Constant()
  %1 : int = prim::Constant[value=1]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %padding : str = prim::Constant[value=")" +
                                    std::string(padding) +
                                    R"("]()
  %y : Tensor = aten::conv2d(%x, %w, %none, %ones, %padding, %ones, %1)
  return (%y)
)",
                                kDefault);
    EXPECT_TRUE(has(after, "aten::_convolution(")) << after;
    EXPECT_FALSE(has(after, "value=\"")) << after;
  }
}

TEST(Defects, ConvolutionsWithoutBatchesStay) {
  std::string after = lowered(R"(graph(%x : Float(1, 4, 4), %w : Float(1, 1, 2, 3)):
  %none : NoneType = prim::Constant()
  %1 : int = prim::Constant[value=1]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %y : Tensor = aten::conv2d(%x, %w, %none, %ones, %ones, %ones, %1)
  return (%y)
)",
                              kDefault);
  EXPECT_TRUE(has(after, "aten::conv2d(")) << after;
}

TEST(Defects, TileWithFewCountsIsCompleted) {
  std::string after = lowered(R"(graph(%x : Float(2, 3)):
  %counts : int[] = prim::Constant[value=[2]]()
  %y : Tensor = aten::tile(%x, %counts)
  return (%y)
)",
                              kDefault, {{1, 2, 3, 4, 5, 6}}, Dims{2, 3});
  EXPECT_TRUE(has(after, "value=[1, 2]") && has(after, "aten::repeat")) << after;
}

TEST(Defects, TheNumberInAMadeTensorIsTheNumber) {
  // Real graphs have prim::NumToTensor.
  std::string after = lowered(R"(graph(%x : Float(2, 3)):
  %0 : int = prim::Constant[value=0]()
  %2 : int = prim::Constant[value=2]()
  %n : int = aten::size(%x, %0)
  %a : Tensor = prim::NumToTensor(%n)
  %b : Tensor = aten::mul(%a, %2)
  %i : int = aten::Int(%b)
  %y : Tensor = aten::mul(%x, %i)
  return (%y)
)",
                              kDefault, {{1, 2, 3, 4, 5, 6}}, Dims{2, 3});
  EXPECT_FALSE(has(after, "prim::NumToTensor(%n)") && has(after, "aten::mul(%a")) << after;
}

TEST(Defects, DropoutOfATrainingModelStays) {
  std::string after = lowered(R"(graph(%x : Tensor, %train : bool):
  %p : float = prim::Constant[value=0.5]()
  %yes : bool = prim::Constant[value=1]()
  %y : Tensor = aten::dropout(%x, %p, %train)
  return (%y)
)",
                              kEverything);
  EXPECT_TRUE(has(after, "aten::dropout")) << after;
}

TEST(Defects, ViewsOfWrittenMemoryStayViews) {
  lowered(R"(graph(%x : Float(2, 2)):
  %1 : int = prim::Constant[value=1]()
  %sizes : int[] = prim::Constant[value=[4]]()
  %v : Tensor = aten::view(%x, %sizes)
  %w : Tensor = aten::add_(%v, %1, %1)
  return (%x)
)",
          kEverything, {{1, 2, 3, 4}}, Dims{2, 2});
}

// What PyTorch refuses by ranks, numbers or elements is refused after lowering as well, whatever the rewrites make of
// it.
TEST(Defects, WhatIsRefusedStaysRefused) {
  struct Refused {
    const char* text;
    Tensor x;
  };
  const std::vector<float> three{1, 2, 3};
  const std::vector<int64_t> four{0, 1, 2, 3};
  const Tensor floats = Tensor::of<float>(Dims{1, 1, 3}, three), integers = Tensor::of<int64_t>(Dims{2, 2}, four);
  const Refused all[] = {
      {R"(graph(%x : Tensor):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %row : Tensor = aten::select(%x, %0, %0)
  %t : Tensor = aten::t(%row)
  %y : Tensor = aten::addmm(%x, %x, %t, %1, %1)
  return (%y)
)",
       floats},
      {R"(graph(%x : Tensor):
  %0 : int = prim::Constant[value=0]()
  %row : Tensor = aten::select(%x, %0, %0)
  %t : Tensor = aten::t(%row)
  %y : Tensor = aten::mm(%x, %t)
  return (%y)
)",
       floats},
      {R"(graph(%x : Tensor):
  %pad : int[] = prim::Constant[value=[1, 1]]()
  %mode : str = prim::Constant[value="reflect"]()
  %value : float = prim::Constant[value=1.]()
  %y : Tensor = aten::pad(%x, %pad, %mode, %value)
  return (%y)
)",
       floats},
      {R"(graph(%x : Tensor):
  %p : float = prim::Constant[value=1.5]()
  %no : bool = prim::Constant[value=0]()
  %y : Tensor = aten::dropout(%x, %p, %no)
  return (%y)
)",
       floats},
      {R"(graph(%x : Tensor):
  %n : Scalar = aten::ScalarImplicit(%x)
  return (%n)
)",
       Tensor::of<float>(Dims{1}, std::span(three).first(1))},
      {R"(graph(%x : Long(2, 2)):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %q : Tensor = aten::floor_divide(%x, %x)
  %y : Tensor = aten::select(%q, %0, %1)
  return (%y)
)",
       integers},
      {R"(graph(%x : Long(2, 2)):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %q : Tensor = aten::remainder(%x, %0)
  %y : Tensor = aten::slice(%q, %0, %0, %0, %1)
  return (%y)
)",
       integers},
  };
  for (const Refused& r : all) {
    std::unique_ptr<Graph> graph = readGraph(r.text), before = cloneGraph(*graph);
    lower(*graph, kDefault);
    EXPECT_FALSE(runGraph(*before, {IValue(r.x)}).ok) << r.text;
    EXPECT_FALSE(runGraph(*graph, {IValue(r.x)}).ok) << graphText(*graph);
  }
}

// The product of halves is rounded before a vector is added to it: 66000 is infinite then.
TEST(Defects, SumsOfHalvesAreRoundedInBetween) {
  std::string after = lowered(R"(graph(%x : Half(1, 1), %w : Half(1, 1), %b : Half(1)):
  %1 : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %p : Tensor = aten::linear(%x, %w, %none)
  %y : Tensor = aten::add(%p, %b, %1)
  return (%y)
)");
  EXPECT_TRUE(has(after, "aten::add(")) << after;
}

// Weights that were divided by 0 would be infinite, and their sums no numbers.
TEST(Defects, WeightsTakeInNoFactorThatMakesThemInfinite) {
  for (const char* divisor : {"0.", "1.0e-45"})
    lowered(std::string(R"(graph(%x : Float(1, 2)):
  %sizes : int[] = prim::Constant[value=[1, 2]]()
  %none : NoneType = prim::Constant()
  %divisor : float = prim::Constant[value=)") +
                divisor + R"(]()
  %w : Tensor = aten::ones(%sizes, %none, %none, %none, %none)
  %p : Tensor = aten::linear(%x, %w, %none)
  %y : Tensor = aten::div(%p, %divisor)
  return (%y)
)",
            kDefault, {{1, -2}}, Dims{1, 2});
}

TEST(Defects, MemoryFormatsThatAreAskedForStay) {
  // A view of what would not be contiguous fails, and strides would be others.
  for (const char* user :
       {"%s : int[] = aten::stride(%c)\n  return (%s)\n", "%s : bool = aten::is_contiguous(%c)\n  return (%s)\n",
        "%n : Tensor = aten::neg(%c)\n  %s : int[] = aten::stride(%n)\n  return (%s)\n"}) {
    std::string after = lowered(
        "graph(%x : Float(2, 3)):\n  %0 : int = prim::Constant[value=0]()\n  %1 : int = prim::Constant[value=1]()\n"
        "  %t : Tensor = aten::transpose(%x, %0, %1)\n  %c : Tensor = aten::contiguous(%t, %0)\n  " +
            std::string(user),
        kEverything, {{1, 2, 3, 4, 5, 6}}, Dims{2, 3});
    EXPECT_TRUE(has(after, "aten::contiguous")) << after;
  }
  // Writes to the copy must not reach the original.
  std::string after = lowered(R"(graph(%x : Float(2, 3)):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %t : Tensor = aten::transpose(%x, %0, %1)
  %c : Tensor = aten::contiguous(%t, %0)
  %d : Tensor = aten::add_(%c, %1, %1)
  return (%x, %d)
)",
                              kDefault, {{1, 2, 3, 4, 5, 6}}, Dims{2, 3});
}

}  // namespace tscompile::test
