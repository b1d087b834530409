// Properties of random valid graphs: what reads, copies, analyses and runs them must agree.
#include "frontend/text/parse.h"
#include "ir/analysis/shape_propagation.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/clone.h"
#include "ir/graph/liveness.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/values/size_expression.h"
#include "runtime/interpreter/program.h"
#include "runtime/registry.h"
#include "tests/support/analysis_checks.h"
#include "tests/support/property.h"
#include "tests/support/random_graph.h"

#include <map>

namespace tscompile::test {
namespace {

std::unique_ptr<Graph> parsed(const std::string& text) {
  Diagnostics diagnostics;
  ParseOptions options;
  options.registry = &allOps();
  Result<std::unique_ptr<Graph>> g = parseGraph(SourceFile::make("text", text), diagnostics, options);
  EXPECT_TRUE(g.ok()) << renderDiagnostics(diagnostics, "test") << text;
  return g ? std::move(*g) : nullptr;
}

Result<std::vector<IValue>> run(const Graph& graph, std::span<const IValue> inputs, Diagnostics& diagnostics) {
  ProgramSources sources;
  sources.boundInputs.resize(graph.inputs().size());
  Result<std::shared_ptr<const Program>> program = Program::compile(graph, allOps(), std::move(sources), diagnostics);
  if (!program) return Failed{};
  RunOptions options;
  options.memoryLimit = 64 << 20;
  options.timeLimit = std::chrono::seconds(5);  // some count to a number from the input
  options.print = options.warn = [](std::string_view) {};
  return (*program)->run(inputs, options, diagnostics);
}

// A value as bytes: results are compared to the last bit.
void appendBytes(const IValue& v, std::string& out) {
  out += static_cast<char>('a' + static_cast<int>(v.tag()));
  if (v.isTensor()) {
    Tensor t = v.toTensor();
    if (!t.defined()) return;
    out += dimsText(t.sizes()) + std::to_string(static_cast<int>(t.dtype()));
    for (int64_t i = 0; i < t.numel(); ++i) {
      std::complex<double> c = t.complex(i);
      double parts[2] = {c.real(), c.imag()};
      for (double& p : parts)
        if (p != p) p = NAN;
      out.append(reinterpret_cast<const char*>(parts), sizeof parts);
    }
  } else if (v.isList() || v.isTuple()) {
    for (const IValue& i : v.isList() ? v.toList().items : v.toTuple().items) appendBytes(i, out);
  } else if (v.isInt()) {
    out += std::to_string(v.toInt());
  } else if (v.isFloat()) {
    double d = v.toFloat() != v.toFloat() ? NAN : v.toFloat();
    out.append(reinterpret_cast<const char*>(&d), sizeof d);
  } else if (v.isBool()) {
    out += v.toBool() ? '1' : '0';
  } else if (v.isString()) {
    out += v.toString();
  }
}
std::string bytesOf(const std::vector<IValue>& values) {
  std::string out;
  for (const IValue& v : values) appendBytes(v, out);
  return out;
}

}  // namespace

TEST(GraphProperty, VerifiesAndPrintsToAFixpoint) {
  forEachSeed(300, [](uint64_t seed) {
    Choices choices(seed);
    std::unique_ptr<Graph> graph = randomGraph(choices, allOps());
    Diagnostics diagnostics;
    ASSERT_TRUE(verify(*graph, allOps(), diagnostics)) << renderDiagnostics(diagnostics, "test") << graphText(*graph);
    std::string once = graphText(*graph);
    std::unique_ptr<Graph> again = parsed(once);
    ASSERT_TRUE(again);
    EXPECT_EQ(graphText(*again), once);
    EXPECT_EQ(graphText(*cloneGraph(*again)), once);
    ASSERT_TRUE(verify(*again, allOps(), diagnostics)) << renderDiagnostics(diagnostics, "test") << once;
  });
}

TEST(GraphProperty, RunsAreRepeatable) {
  forEachSeed(300, [](uint64_t seed) {
    Choices choices(seed);
    std::unique_ptr<Graph> graph = randomGraph(choices, allOps());
    if (!isRepeatable(*graph)) return;
    std::unique_ptr<Graph> copy = parsed(graphText(*graph));
    ASSERT_TRUE(copy);
    // Arguments are made anew for each run: graphs may write to them.
    Choices one = choices, two = choices;
    Diagnostics first, second;
    Result<std::vector<IValue>> a = run(*graph, randomInputs(one, *graph), first);
    Result<std::vector<IValue>> b = run(*copy, randomInputs(two, *copy), second);
    ASSERT_EQ(a.ok(), b.ok()) << graphText(*graph) << renderDiagnostics(first, "a") << renderDiagnostics(second, "b");
    if (a) {
      EXPECT_EQ(bytesOf(*a), bytesOf(*b)) << graphText(*graph);
    } else {
      EXPECT_GE(first.errorCount(), 1u);
    }
  });
}

TEST(GraphProperty, LivenessAgreesWithItsDefinition) {
  forEachSeed(100, [](uint64_t seed) {
    Choices choices(seed);
    std::unique_ptr<Graph> graph = randomGraph(choices, allOps());
    Liveness liveness(*graph);
    std::vector<const Node*> order;
    forEachNode(*graph, [&](Node* n) { order.push_back(n); });
    for (size_t i = 1; i < order.size(); ++i) EXPECT_LT(liveness.place(order[i - 1]), liveness.place(order[i]));
    forEachNode(*graph, [&](Node* n) {
      for (const Value* v : n->outputs()) {
        const Node* last = nullptr;
        for (Use& u : v->uses()) {
          const Node* user = u.user;
          while (user->block() != v->block()) user = user->block()->owner();
          if (!last || last->isBefore(user)) last = user;
        }
        const uint32_t place = liveness.lastUseIn(v, 0, UINT32_MAX - 1);
        EXPECT_EQ(place == UINT32_MAX ? nullptr : liveness.ancestorIn(v->block(), place), last);
      }
    });
  });
}

TEST(GraphProperty, PropagatedShapesAreThoseOfTheRun) {
  forEachSeed(400, [](uint64_t seed) {
    Choices choices(seed);
    RandomGraphOptions options;
    options.nodes = 6;
    std::unique_ptr<Graph> graph = randomGraph(choices, allOps(), options);
    returnEverything(*graph);
    std::vector<IValue> inputs = randomInputs(choices, *graph);
    std::vector<ShapePropagation> told;
    for (Knowledge k : {Knowledge::All, Knowledge::Ranks, Knowledge::Types})
      told.emplace_back(*graph, allOps(), knownInputs(*graph, inputs, k));
    Diagnostics diagnostics;
    Result<std::vector<IValue>> results = run(*graph, inputs, diagnostics);
    if (!results) return;
    for (const ShapePropagation& shapes : told)
      EXPECT_EQ(wrongShapes(*graph, shapes, inputs, *results), "") << graphText(*graph);
  });
}

// Tensors of the same ranks and dtypes, in which equal sizes stay equal, most of them.
std::vector<IValue> resized(Choices& choices, std::span<const IValue> inputs) {
  std::map<int64_t, int64_t> sizes;
  std::vector<IValue> out;
  for (const IValue& v : inputs) {
    if (!v.isTensor() || !v.toTensor().defined()) {
      out.push_back(v);
      continue;
    }
    Dims other;
    for (int64_t s : v.toTensor().sizes()) {
      auto [at, isNew] = sizes.try_emplace(s, s);
      if (isNew && (s != 1 || choices.oneIn(4))) at->second = static_cast<int64_t>(choices.below(7));
      other.push_back(at->second);
    }
    out.emplace_back(Tensor::zeros(v.toTensor().dtype(), other));
  }
  return out;
}

TEST(GraphProperty, ExpressionsOfSizesHoldForOtherSizes) {
  RandomGraphOptions options;
  options.nodes = 12;
  options.operators = {
      "aten::size",
      "aten::add",
      "aten::mul",
      "aten::relu",
      "aten::cat",
      "aten::transpose",
      "aten::matmul",
      "aten::reshape",
      "aten::view",
      "aten::flatten",
      "aten::slice",
      "aten::select",
      "aten::unsqueeze",
      "aten::expand",
      "aten::repeat",
      "aten::sum",
      "aten::arange",
      "aten::zeros",
      "aten::sub",
      "aten::floordiv",
      "aten::remainder",
      "prim::min",
      "prim::max",
      "aten::eq",
      "aten::lt",
      "aten::le",
      "aten::ne",
      "aten::len",
      "aten::__getitem__",
      "aten::numel",
      "aten::dim",
      "aten::chunk",
      "aten::split_with_sizes",
      "aten::constant_pad_nd",
      "aten::squeeze",
      "aten::permute",
      "aten::where",
      "aten::max_pool1d",
      "aten::avg_pool1d",
      "aten::unfold",
      "aten::diagonal",
  };
  size_t runs = 0, expressions = 0;
  forEachSeed(1500, [&](uint64_t seed) {
    Choices choices(seed);
    std::unique_ptr<Graph> graph = randomGraph(choices, allOps(), options);
    returnEverything(*graph);
    std::vector<IValue> inputs = randomInputs(choices, *graph);
    ShapePropagation told(*graph, allOps(), knownInputs(*graph, inputs, Knowledge::Ranks));
    for (int i = 0; i < 4; ++i, inputs = resized(choices, inputs)) {
      Diagnostics diagnostics;
      Result<std::vector<IValue>> results = run(*graph, inputs, diagnostics);
      if (!results) continue;
      ++runs;
      for (size_t o = 0; o < graph->outputs().size(); ++o)
        for (int64_t s : told.of(graph->output(o)).type->isTensor() ? told.tensor(graph->output(o)).sizes : Dims())
          expressions += !isKnownSize(s) && !SizeExpression::ofSize(s).isSymbol();
      EXPECT_EQ(wrongShapes(*graph, told, inputs, *results), "") << graphText(*graph);
    }
  });
  EXPECT_GT(runs, 1000u);
  EXPECT_GT(expressions, 100u);
}

TEST(GraphProperty, SharedMemoryIsPredicted) {
  forEachSeed(600, [](uint64_t seed) {
    Choices choices(seed);
    RandomGraphOptions options;
    options.nodes = 6;
    std::unique_ptr<Graph> graph = randomGraph(choices, allOps(), options);
    std::vector<IValue> inputs = randomInputs(choices, *graph);
    Diagnostics diagnostics;
    Result<std::vector<IValue>> results = run(*graph, inputs, diagnostics);
    if (!results) return;
    EXPECT_EQ(unpredictedSharing(*graph, allOps(), inputs, *results), "") << graphText(*graph);
    EXPECT_EQ(wrongOrder(*graph, allOps(), inputs, *results), "") << graphText(*graph);
  });
}

}  // namespace tscompile::test
