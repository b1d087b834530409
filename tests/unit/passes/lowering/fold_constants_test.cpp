#include "api/value_text.h"
#include "ir/graph/clone.h"
#include "passes/lowering/clean_up.h"
#include "passes/lowering/whole_weights.h"
#include "runtime/interpreter/program.h"
#include "runtime/registry.h"
#include "tests/support/module_checks.h"
#include "tests/support/property.h"
#include "tests/support/random_graph.h"

namespace tscompile::test {
namespace {

std::string folded(const std::string& text) {
  ModuleCase c(text);
  c.apply(foldConstants);
  return c.text();
}
// Makes tensors of the constants whose text says all.
void giveData(Graph& graph) {
  forEachNode(graph, [](Node* n) {
    const IValue* v = n->attributeValue(sym::value);
    if (v && v->isLiteral()) n->setAttribute(sym::value, IValue(v->toLiteral().data));
  });
}
// The same text, as it is printed.
std::string printedText(const std::string& text) { return graphText(*readGraph(text)); }

}  // namespace

TEST(FoldConstants, ComputesInEveryBlock) {
  EXPECT_EQ(folded(R"(graph(%x : Tensor, %c : bool):
  %1 : int = prim::Constant[value=2]()
  %2 : int = prim::Constant[value=3]()
  %sum : int = aten::add(%1, %2)
  %r : Tensor = prim::If(%c)
    block0():
      %l : int[] = prim::ListConstruct(%sum, %1) # model.py:7:3
      %y : Tensor = aten::reshape(%x, %l)
      -> (%y)
    block1():
      -> (%x)
  return (%r)
)"),
            R"(graph(%x : Tensor,
      %c : bool):
  %r : Tensor = prim::If(%c)
    block0():
      %l : int[] = prim::Constant[value=[5, 2]]() # model.py:7:3
      %y : Tensor = aten::reshape(%x, %l)
      -> (%y)
    block1():
      -> (%x)
  return (%r)
)");
}

TEST(FoldConstants, ConditionsDecide) {
  EXPECT_EQ(folded(R"(graph(%x : Tensor):
  %t : bool = prim::Constant[value=1]()
  %n : int = prim::Constant[value=0]()
  %f : bool = aten::__not__(%t)
  %r : Tensor, %s : Tensor = prim::If(%f)
    block0():
      %a : Tensor = aten::relu(%x)
      -> (%a, %x)
    block1():
      %b : Tensor = aten::neg(%x)
      %1 : Tensor = prim::If(%t)
        block0():
          %2 : Tensor = aten::abs(%b)
          -> (%2)
        block1():
           = prim::RaiseException(%n)
          -> (%x)
      -> (%1, %x)
  %l : Tensor = prim::Loop(%n, %t, %r)
    block0(%i : int, %v : Tensor):
      %w : Tensor = aten::relu(%v)
      -> (%t, %w)
  return (%l, %s)
)"),
            R"(graph(%x : Tensor):
  %b : Tensor = aten::neg(%x)
  %r : Tensor = aten::abs(%b)
  return (%r, %x)
)");
}

TEST(FoldConstants, LeavesWhatMayChange) {
  for (const char* text : {// a constant that is written
                           R"(graph():
  %t : Float(2) = prim::Constant[value= 1  2 [ CPUFloatType{2} ]]()
  %one : int = prim::Constant[value=1]()
  %w : Tensor = aten::add_(%t, %one, %one)
  %y : Tensor = aten::mul(%t, %one)
  return (%y)
)",
                           // a result that is written
                           R"(graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %l : int[] = prim::ListConstruct(%one, %one)
  %m : int[] = aten::append(%l, %one)
  return (%l)
)",
                           // a list that is told from another
                           R"(graph():
  %one : int = prim::Constant[value=1]()
  %a : int[] = prim::ListConstruct(%one)
  %b : int[] = prim::ListConstruct(%one)
  %r : bool = aten::__is__(%a, %b)
  return (%r)
)",
                           // what fails
                           R"(graph():
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %r : int = aten::floordiv(%one, %zero)
  return (%r)
)",
                           // random numbers, and what depends on the run
                           R"(graph():
  %one : int[] = prim::Constant[value=[2]]()
  %none : NoneType = prim::Constant()
  %r : Tensor = aten::rand(%one, %none, %none, %none, %none)
  %g : bool = aten::is_grad_enabled()
  return (%r, %g)
)",
                           // a result that is larger than the limit
                           R"(graph():
  %n : int[] = prim::Constant[value=[1000, 1000]]()
  %none : NoneType = prim::Constant()
  %r : Tensor = aten::zeros(%n, %none, %none, %none, %none)
  return (%r)
)",
                           // strides that a copy would not have
                           R"(graph():
  %n : int[] = prim::Constant[value=[4, 4]]()
  %none : NoneType = prim::Constant()
  %d : int = prim::Constant[value=1]()
  %one : int = prim::Constant[value=2]()
  %t : Float(4) = prim::Constant[value= 1  2  3  4 [ CPUFloatType{4} ]]()
  %r : Tensor = aten::slice(%t, %none, %none, %none, %one)
  return (%r)
)"}) {
    ModuleCase c(text);
    giveData(*c.graph);
    EXPECT_FALSE(c.apply(foldConstants)) << c.text();
  }
}

TEST(FoldConstants, KeepsNanAndStrides) {
  ModuleCase c(R"(graph():
  %z : float = prim::Constant[value=0.]()
  %i : float = prim::Constant[value=inf]()
  %t : Float(2, 2) = prim::Constant[value= 1  2  3  4 [ CPUFloatType{2,2} ]]()
  %nan : float = aten::mul(%z, %i)
  %u : Tensor = aten::t(%t)
  %v : Tensor = aten::mul(%u, %i)
  return (%nan, %u, %v)
)");
  giveData(*c.graph);
  EXPECT_TRUE(c.apply(foldConstants));
  EXPECT_EQ(c.text(), R"(graph():
  %nan : float = prim::Constant[value=nan]()
  %u : Float(2, 2, strides=[1, 2], requires_grad=0, device=cpu) = prim::Constant[value= 1  3  2  4 [ CPUFloatType{2,2} ]]()
  %v : Float(2, 2, strides=[1, 2], requires_grad=0, device=cpu) = prim::Constant[value=inf inf inf inf [ CPUFloatType{2,2} ]]()
  return (%nan, %u, %v)
)");
}

TEST(FoldConstants, WithoutAnEvaluatorOnlyConditionsDecide) {
  std::unique_ptr<Graph> graph = readGraph(R"(graph(%x : Tensor):
  %t : bool = prim::Constant[value=1]()
  %f : bool = aten::__not__(%t)
  %r : Tensor = prim::If(%t)
    block0():
      -> (%x)
    block1():
      %a : Tensor = aten::relu(%x)
      -> (%a)
  return (%r, %f)
)");
  Diagnostics diagnostics;
  RewriteContext context(*graph, allOps(), diagnostics);
  EXPECT_TRUE(foldConstants(*graph, context));
  EXPECT_EQ(graphText(*graph), printedText(R"(graph(%x : Tensor):
  %t : bool = prim::Constant[value=1]()
  %f : bool = aten::__not__(%t)
  return (%x, %f)
)"));
}

TEST(FoldConstants, WholeWeightsAreAsLargeAsTheirConstants) {
  const std::string text = R"(graph(%x : Tensor):
  %w : Float(4) = prim::Constant[value=<Tensor>]()
  %size : int[] = prim::Constant[value=[4]]()
  %none : NoneType = prim::Constant()
  %scaled : Tensor = aten::mul(%w, %w)
  %mask : Tensor = aten::ones(%size, %none, %none, %none, %none)
  %y : Tensor = aten::mul(%x, %scaled)
  %z : Tensor = aten::mul(%y, %mask)
  return (%z)
)";
  const auto has = [&](bool whole, const std::string& what) {
    ModuleCase c(text);
    forEachNode(*c.graph, [](Node* n) {
      if (n->output()->name() == "w") n->setAttribute(sym::value, IValue(Tensor::zeros(DType::Float32, {4})));
    });
    const std::unique_ptr<Evaluator> evaluator = makeEvaluator(allOps());
    RewriteContext context(*c.graph, allOps(), c.diagnostics);
    context.module = &c.module;
    context.evaluator = evaluator.get();
    context.foldBytes = 8;
    if (whole) context.arguments.emplace(kWholeWeights, true);
    foldConstants(*c.graph, context);
    return c.text().find(what) != std::string::npos;
  };
  EXPECT_TRUE(has(false, "aten::mul(%w, %w)"));
  EXPECT_FALSE(has(true, "aten::mul(%w, %w)"));
  EXPECT_TRUE(has(true, "aten::ones"));
}

namespace {

std::optional<std::vector<IValue>> runOnce(const Graph& graph, std::vector<IValue> inputs) {
  Diagnostics diagnostics;
  Result<std::shared_ptr<const Program>> program = Program::compile(graph, allOps(), {}, diagnostics);
  if (!program) return std::nullopt;
  RunOptions options;
  options.memoryLimit = 64 << 20;
  Result<std::vector<IValue>> results = (*program)->run(inputs, options, diagnostics);
  if (!results) return std::nullopt;
  return std::move(*results);
}

// Gives the inputs of a graph their values, as constants in front.
void bindInputs(Graph& graph, std::span<const IValue> inputs, RewriteContext& context) {
  for (size_t i = inputs.size(); i-- > 0;) {
    Value* input = graph.input(i);
    bool fixed = inputs[i].isTensor() || inputs[i].isNumber();
    if (!fixed || context.facts.isWritten(input)) continue;
    IValue v = inputs[i];
    if (v.isTensor()) v.toTensor().storage()->makeReadOnly();
    Node* constant = graph.create(sym::Constant, {});
    constant->setAttribute(sym::value, v);
    constant->output()->setType(input->type()->isTensor() ? dynamicType(v) : input->type());
    graph.block()->prepend(constant);
    input->replaceAllUsesWith(constant->output());
  }
  context.facts.refresh();
}

}  // namespace

TEST(FoldConstantsProperty, FoldedGraphsGiveTheSameResults) {
  forEachSeed(300, [](uint64_t seed) {
    Choices choices(seed);
    std::unique_ptr<Graph> graph = randomGraph(choices, allOps());
    bool compares = isRepeatable(*graph);
    // Functions that take their time for large degrees.
    for (const char* word : {"polynomial", "gamma", "zeta"})
      forEachNode(*graph, [&](Node* n) { compares &= n->kind().text().find(word) == std::string_view::npos; });
    if (!compares) return;
    Choices one = choices, two = choices;
    std::optional<std::vector<IValue>> expected = runOnce(*graph, randomInputs(one, *graph));
    if (!expected) return;
    std::vector<IValue> inputs = randomInputs(two, *graph);
    std::unique_ptr<Evaluator> evaluator = makeEvaluator(allOps());
    std::unique_ptr<Graph> lowered = cloneGraph(*graph);
    Diagnostics diagnostics;
    RewriteContext context(*lowered, allOps(), diagnostics);
    context.evaluator = evaluator.get();
    bindInputs(*lowered, inputs, context);
    std::string bound = graphText(*lowered);
    foldConstants(*lowered, context);
    ASSERT_TRUE(verify(*lowered, allOps(), diagnostics))
        << renderDiagnostics(diagnostics, "test") << bound << graphText(*lowered);
    EXPECT_FALSE(foldConstants(*lowered, context)) << bound << graphText(*lowered);
    std::optional<std::vector<IValue>> found = runOnce(*lowered, inputs);
    ASSERT_TRUE(found) << bound << graphText(*lowered);
    ASSERT_EQ(found->size(), expected->size());
    for (size_t i = 0; i < found->size(); ++i)
      EXPECT_EQ(valueToText((*found)[i]), valueToText((*expected)[i])) << bound << graphText(*lowered);
  });
}

}  // namespace tscompile::test
