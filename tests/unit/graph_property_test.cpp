// Properties of random valid graphs: what reads, copies, analyses and runs them must agree.
#include "frontend/parse.h"
#include "ir/alias.h"
#include "ir/clone.h"
#include "ir/liveness.h"
#include "ir/printer.h"
#include "ir/shape_propagation.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/verifier.h"
#include "runtime/ops/ops.h"
#include "runtime/program.h"
#include "tests/support/property.h"
#include "tests/support/random_graph.h"

namespace tscompile::testing {
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

void tensorsOf(const IValue& v, std::vector<Tensor>& out) {
  if (v.isTensor() && v.toTensor().defined()) out.push_back(v.toTensor());
  if (v.isList())
    for (const IValue& i : v.toList().items) tensorsOf(i, out);
  if (v.isTuple())
    for (const IValue& i : v.toTuple().items) tensorsOf(i, out);
  if (v.isDict()) v.toDict().forEach([&](const IValue&, const IValue& value) { tensorsOf(value, out); });
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
        EXPECT_EQ(liveness.lastUser(v), last);
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
    std::vector<IValue> inputs = randomInputs(choices, *graph);
    ShapeOptions known;
    for (const IValue& v : inputs) known.inputs.emplace_back(v.isTensor() ? symbolicTensor(v.toTensor().dtype(), v.toTensor().sizes()) : symbolicOf(v));
    ShapePropagation shapes(*graph, allOps(), known);
    Diagnostics diagnostics;
    Result<std::vector<IValue>> results = run(*graph, inputs, diagnostics);
    if (!results) return;
    for (size_t i = 0; i < results->size(); ++i) {
      const IValue& got = (*results)[i];
      const SymbolicValue& told = shapes.of(graph->output(i));
      if (got.isInt() && told.integers && told.integers->size() == 1 && !isUnknownInteger((*told.integers)[0])) {
        EXPECT_EQ((*told.integers)[0], got.toInt()) << graphText(*graph);
      }
      if (!got.isTensor() || !got.toTensor().defined() || !told.type->isTensor()) continue;
      Tensor t = got.toTensor();
      const TensorFacts& facts = told.type->tensor();
      if (facts.dtype != DType::Undefined) {
        EXPECT_EQ(static_cast<int>(facts.dtype), static_cast<int>(t.dtype())) << graphText(*graph);
      }
      if (!facts.hasRank) continue;
      ASSERT_EQ(static_cast<int>(facts.sizes.size()), t.rank()) << graphText(*graph);
      for (int d = 0; d < t.rank(); ++d)
        if (facts.sizes[d] >= 0) {
          EXPECT_EQ(facts.sizes[d], t.size(d)) << graphText(*graph);
        }
    }
  });
}

TEST(GraphProperty, SharedMemoryIsPredicted) {
  forEachSeed(600, [](uint64_t seed) {
    Choices choices(seed);
    RandomGraphOptions options;
    options.nodes = 6;
    std::unique_ptr<Graph> graph = randomGraph(choices, allOps(), options);
    std::vector<IValue> inputs = randomInputs(choices, *graph);
    AliasAnalysis alias(*graph, allOps());
    Diagnostics diagnostics;
    Result<std::vector<IValue>> results = run(*graph, inputs, diagnostics);
    if (!results) return;
    std::vector<std::pair<const Value*, std::vector<Tensor>>> held;
    for (size_t i = 0; i < inputs.size(); ++i) tensorsOf(inputs[i], held.emplace_back(graph->input(i), std::vector<Tensor>()).second);
    for (size_t i = 0; i < results->size(); ++i) tensorsOf((*results)[i], held.emplace_back(graph->output(i), std::vector<Tensor>()).second);
    for (size_t i = 0; i < held.size(); ++i)
      for (size_t j = i + 1; j < held.size(); ++j)
        for (const Tensor& a : held[i].second)
          for (const Tensor& b : held[j].second)
            if (a.numel() && b.numel() && a.storage().get() == b.storage().get()) {
              ASSERT_TRUE(alias.mayShareMemory(held[i].first, held[j].first))
                  << "%" << held[i].first->name() << " and %" << held[j].first->name() << " share memory:\n" << graphText(*graph);
            }
  });
}

}  // namespace tscompile::testing
