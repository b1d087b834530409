#include "tests/support/pass_checks.h"

#include "ir/analysis/verifier.h"
#include "ir/graph/clone.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/values/literal.h"
#include "passes/catalog.h"
#include "runtime/engine/engine.h"
#include "runtime/interpreter/evaluator.h"
#include "runtime/interpreter/program.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tscompile::test {

std::string printed(const std::string& text) { return graphText(*readGraph(text)); }

namespace {

// A value as bytes, to compare to the last bit.
void appendBytes(const IValue& v, std::string& out) {
  out += static_cast<char>('a' + static_cast<int>(v.tag()));
  if (v.isTensor()) {
    Tensor t = v.toTensor();
    if (!t.defined()) return;
    out += dimsText(t.sizes()) + std::to_string(static_cast<int>(t.dtype()));
    // One element may have been expanded to more than memory holds.
    constexpr int64_t kMost = 1 << 20;
    for (int64_t i = 0; i < std::min(t.numel(), kMost); ++i) {
      std::complex<double> c = t.complex(i);
      double parts[2] = {c.real(), c.imag()};
      for (double& p : parts)
        if (p != p) p = NAN;
      out.append(reinterpret_cast<const char*>(parts), sizeof parts);
    }
  } else if (v.isList() || v.isTuple()) {
    const std::vector<IValue>& items = v.isList() ? v.toList().items : v.toTuple().items;
    out += std::to_string(items.size());
    for (const IValue& i : items) appendBytes(i, out);
  } else if (v.isDict()) {
    v.toDict().forEach([&](const IValue& key, const IValue& value) {
      appendBytes(key, out);
      appendBytes(value, out);
    });
  } else if (v.isFloat()) {
    double d = v.toFloat() != v.toFloat() ? NAN : v.toFloat();
    out.append(reinterpret_cast<const char*>(&d), sizeof d);
  } else {
    appendValue(v, LiteralStyle::Plain, out);
  }
}

std::string bytesOf(const std::vector<IValue>& values) {
  std::string out;
  for (const IValue& v : values) appendBytes(v, out);
  return out;
}

// Which tensors share memory, by the first of each that do.
void appendSharing(const IValue& v, std::vector<const void*>& seen, std::string& out) {
  if (v.isTensor() && v.toTensor().defined() && v.toTensor().numel()) {
    const void* memory = v.toTensor().storage().get();
    size_t first = static_cast<size_t>(std::find(seen.begin(), seen.end(), memory) - seen.begin());
    if (first == seen.size()) seen.push_back(memory);
    out += "@" + std::to_string(first);
  }
  if (v.isList() || v.isTuple())
    for (const IValue& i : v.isList() ? v.toList().items : v.toTuple().items) appendSharing(i, seen, out);
}

}  // namespace

RunOutcome runGraph(const Graph& graph, std::vector<IValue> arguments, std::chrono::milliseconds limit,
                    const EngineOptions& engine) {
  RunOutcome outcome;
  Diagnostics diagnostics;
  ProgramSources sources;
  sources.boundInputs.resize(graph.inputs().size());
  sources.compileSegment = engineCompiler(engine);
  Result<std::shared_ptr<const Program>> program = Program::compile(graph, allOps(), std::move(sources), diagnostics);
  if (!program) {
    outcome.error = renderDiagnostics(diagnostics, "test");
    return outcome;
  }
  RunOptions options;
  options.memoryLimit = 64 << 20;
  options.timeLimit = limit;
  options.print = options.warn = [&](std::string_view text) { outcome.printed += text; };
  Result<std::vector<IValue>> results = (*program)->run(arguments, options, diagnostics);
  outcome.ok = results.ok();
  outcome.arguments = bytesOf(arguments);
  if (results) {
    outcome.results = bytesOf(*results);
    std::vector<const void*> seen;
    for (const auto* values : {&arguments, &*results})
      for (const IValue& v : *values) appendSharing(v, seen, outcome.results);
  } else
    outcome.error = renderDiagnostics(diagnostics, "test");
  return outcome;
}

Pass pass(std::string name) {
  return [name = std::move(name)](Graph& graph, RewriteContext& context) {
    const RewriteDatabase::Entry* entry = loweringDatabase().find(name);
    if (const auto* rewrite = entry ? std::get_if<GraphRewrite>(&entry->object) : nullptr)
      return rewrite->apply(graph, context);
    Outcome outcome = loweringDatabase().query(Query().including({name})).run(context);
    EXPECT_FALSE(outcome.failed) << graphText(graph);
    return outcome.changed;
  };
}

bool applyPass(const Pass& pass, Graph& graph) {
  static const std::unique_ptr<Evaluator> kEvaluator = makeEvaluator(allOps());
  std::string before = graphText(graph);
  bool flag[2];
  std::string text[2];
  for (int i = 0; i < 2; ++i) {
    Diagnostics diagnostics;
    RewriteContext context(graph, allOps(), diagnostics);
    context.evaluator = kEvaluator.get();
    flag[i] = pass(graph, context);
    text[i] = graphText(graph);
    EXPECT_TRUE(verify(graph, allOps(), diagnostics)) << renderDiagnostics(diagnostics, "test") << before << text[i];
  }
  EXPECT_EQ(flag[0], text[0] != before) << before;
  EXPECT_FALSE(flag[1]) << "a second run says that it changed something\n" << before << text[0] << text[1];
  EXPECT_EQ(text[0], text[1]) << before;
  return flag[0];
}

std::string afterPass(const Pass& pass, const std::string& text) {
  std::unique_ptr<Graph> graph = readGraph(text);
  std::unique_ptr<Graph> before = cloneGraph(*graph);
  applyPass(pass, *graph);
  expectSameRuns(*before, *graph);
  return graphText(*graph);
}

int expectSameRuns(const Graph& before, const Graph& after, int runs, uint64_t seed, MakeInputs inputs,
                   const EngineOptions& engine) {
  int good = 0;
  for (int i = 0; i < runs; ++i) {
    // Arguments are made anew for each run: graphs may write to them.
    Choices one(seed * 1000 + static_cast<uint64_t>(i)), two = one;
    RunOutcome expected = runGraph(before, inputs(one, before));
    if (!expected.ok) continue;
    ++good;
    RunOutcome got = runGraph(after, inputs(two, after), std::chrono::seconds(20), engine);
    EXPECT_TRUE(got.ok) << got.error << graphText(before) << graphText(after);
    if (!got.ok) return good;
    EXPECT_TRUE(got.results == expected.results) << "other results\n" << graphText(before) << graphText(after);
    EXPECT_TRUE(got.arguments == expected.arguments) << "other writes\n" << graphText(before) << graphText(after);
    EXPECT_EQ(got.printed, expected.printed) << graphText(before) << graphText(after);
  }
  return good;
}

}  // namespace tscompile::test
