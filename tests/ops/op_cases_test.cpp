// Runs the rows of tests/ops/*.cases; see README.md there.
#include "tests/support/op_cases.h"

#include "api/compiler.h"
#include "ir/graph/builder.h"
#include "ir/graph/clone.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/network/poison.h"
#include "runtime/engine/support.h"
#include "runtime/kernels/simd.h"
#include "runtime/registry.h"
#include "tests/support/analysis_checks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

namespace tscompile {
namespace {

using test::allCaseFiles;
using test::Case;
using test::Knowledge;
using test::knownInputs;
using test::read;
using test::readCases;
using test::Row;
using test::unpredictedSharing;
using test::wrongOrder;
using test::wrongShapes;

// TSCOMPILE_TEST_SIMD=AVX2, or baseline: the code of processors that have no more, in all cases.
class SimdEnvironment : public testing::Environment {
  void SetUp() override {
    const char* wanted = std::getenv("TSCOMPILE_TEST_SIMD");
    if (!wanted) return;
    for (SimdLevel level : {SimdLevel::Base, SimdLevel::Avx2, SimdLevel::Avx512, SimdLevel::Amx}) {
      if (std::string_view(wanted) != simdLevelName(level)) continue;
      limitSimdLevel(level);
      return;
    }
    FAIL() << "there is no instruction set '" << wanted << "'";
  }
};
const testing::Environment* const kSimdEnvironment = testing::AddGlobalTestEnvironment(new SimdEnvironment);

struct Tolerance {
  double rtol, atol;
};
Tolerance toleranceOf(DType d, const Case& c) {
  if (c.rtol >= 0) return {c.rtol, c.atol};
  switch (d) {
    case DType::Float16:
      return {1e-3, 1e-5};
    case DType::BFloat16:
      return {1.6e-2, 1e-5};
    case DType::Float32:
    case DType::Complex64:
      return {1.3e-6, 1e-5};
    default:
      return {1e-7, 1e-7};
  }
}

bool close(double a, double b, Tolerance t) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return std::isfinite(a) && std::isfinite(b) && std::fabs(a - b) <= t.atol + t.rtol * std::fabs(b);
}

void expectEqual(const IValue& got, const IValue& want, const Case& c, const std::string& where) {
  ASSERT_EQ(got.tag(), want.tag()) << where << ": got " << valueToText(got) << ", expected " << valueToText(want);
  switch (want.tag()) {
    case IValue::Tag::Tensor: {
      Tensor g = got.toTensor(), w = want.toTensor();
      ASSERT_EQ(g.dtype(), w.dtype()) << where << ": got " << pythonName(g.dtype()) << ", expected "
                                      << pythonName(w.dtype());
      ASSERT_EQ(dimsText(g.sizes()), dimsText(w.sizes())) << where;
      Tolerance t = toleranceOf(w.dtype(), c);
      for (int64_t i = 0; i < w.numel(); ++i) {
        bool same = w.dtype() == DType::Int64 ? g.integer(i) == w.integer(i)
                                              : close(g.complex(i).real(), w.complex(i).real(), t) &&
                                                    close(g.complex(i).imag(), w.complex(i).imag(), t);
        ASSERT_TRUE(same) << where << ": element " << i << " of\n  got      " << valueToText(got) << "\n  expected "
                          << valueToText(want);
      }
      return;
    }
    case IValue::Tag::Float:
      EXPECT_TRUE(close(got.toFloat(), want.toFloat(), toleranceOf(DType::Float32, c)))
          << where << ": got " << got.toFloat() << ", expected " << want.toFloat();
      return;
    case IValue::Tag::List:
    case IValue::Tag::Tuple: {
      const auto& g = got.isList() ? got.toList().items : got.toTuple().items;
      const auto& w = want.isList() ? want.toList().items : want.toTuple().items;
      ASSERT_EQ(g.size(), w.size()) << where;
      for (size_t i = 0; i < w.size(); ++i) expectEqual(g[i], w[i], c, where + "[" + std::to_string(i) + "]");
      return;
    }
    default:
      EXPECT_EQ(valueToText(got), valueToText(want)) << where;
  }
}

class OpCase : public ::testing::Test {
 public:
  explicit OpCase(Case c) : case_(std::move(c)) {}
  void TestBody() override {
    Diagnostics d;
    Result<Module> module = Module::fromText(case_.graph, case_.file + ": " + case_.name, {}, d);
    ASSERT_TRUE(module.ok()) << renderDiagnostics(d, "op_tests");
    Result<Method> method = module->prepare(d);
    ASSERT_TRUE(method.ok()) << renderDiagnostics(d, "op_tests");
    ASSERT_FALSE(case_.rows.empty()) << case_.file << ": " << case_.name << " has no rows";
    std::optional<Refusal> refusal;
    std::shared_ptr<Engine> engine = Engine::make(*module->graph(), allOps(), {}, {}, refusal);
    if (!engine) note(refusal->verdict, nullptr);
    for (const Row& row : case_.rows) {
      run(*method, *module->graph(), row);
      if (engine) runOnEngine(*engine, *method, row);
      runWithKnownNumbers(*module->graph(), *method, row);
    }
  }

 private:
  void run(const Method& method, const Graph& graph, const Row& row) {
    std::string where = case_.file + ":" + std::to_string(row.line);
    std::vector<ValueInfo> wanted = method.inputs();
    ASSERT_EQ(wanted.size(), row.inputs.size()) << where;
    std::vector<IValue> inputs;
    for (size_t i = 0; i < row.inputs.size(); ++i) inputs.push_back(read(row.inputs[i], wanted[i].type));
    std::vector<ShapePropagation> told;
    for (Knowledge k : {Knowledge::All, Knowledge::Ranks, Knowledge::Types})
      told.emplace_back(graph, allOps(), knownInputs(graph, inputs, k));
    Diagnostics d;
    Result<std::vector<IValue>> got = method.run(inputs, d);
    if (!row.error.empty()) {
      ASSERT_FALSE(got.ok()) << where << ": expected a failure";
      EXPECT_NE(renderDiagnostics(d, "op_tests").find(row.error), std::string::npos)
          << where << "\n"
          << renderDiagnostics(d, "op_tests");
      return;
    }
    ASSERT_TRUE(got.ok()) << where << "\n" << renderDiagnostics(d, "op_tests");
    ASSERT_EQ(got->size(), row.outputs.size()) << where;
    std::vector<ValueInfo> outputs = method.outputs();
    for (size_t i = 0; i < got->size(); ++i)
      expectEqual((*got)[i], read(row.outputs[i], outputs[i].type), case_, where);
    for (const ShapePropagation& shapes : told) EXPECT_EQ(wrongShapes(graph, shapes, inputs, *got), "") << where;
    EXPECT_EQ(unpredictedSharing(graph, allOps(), inputs, *got), "") << where;
    EXPECT_EQ(wrongOrder(graph, allOps(), inputs, *got), "") << where;
    for (const auto& [i, text] : row.after)
      expectEqual(inputs.at(i), read(text, wanted[i].type), case_, where + " after");
  }

  // What an engine does not take, for the list that TSCOMPILE_ENGINE_REPORT names.
  void note(const Verdict& verdict, const Row* row) {
    const char* report = std::getenv("TSCOMPILE_ENGINE_REPORT");
    if (!report) return;
    std::ofstream(report, std::ios::app) << std::filesystem::path(case_.file).stem().string() << "." << case_.name
                                         << (row ? ":" + std::to_string(row->line) : "") << ": "
                                         << reasonCode(verdict.reason) << " " << verdict.detail << "\n";
  }

  // Numbers are mostly constants in graphs, and operands of a run where they are inputs: engines are asked for both.
  void runWithKnownNumbers(const Graph& graph, const Method& method, const Row& row) {
    std::unique_ptr<Graph> bound = cloneGraph(graph);
    Builder b(*bound, bound->block()->first());
    bool any = false;
    for (size_t i = 0; i < row.inputs.size(); ++i) {
      TypePtr type = graph.inputs()[i]->type();
      if (!isNumber(type)) continue;
      any = true;
      bound->inputs()[i]->replaceAllUsesWith(b.constant(read(row.inputs[i], type), type));
    }
    if (!any) return;
    std::optional<Refusal> refusal;
    if (std::shared_ptr<Engine> engine = Engine::make(*bound, allOps(), {}, {}, refusal))
      runOnEngine(*engine, method, row);
  }

  // The whole graph as one engine, twice: the second run meets the plan and the memory of the first.
  void runOnEngine(const Engine& engine, const Method& method, const Row& row) {
    std::string where = "on an engine: " + case_.file + ":" + std::to_string(row.line);
    std::vector<ValueInfo> wanted = method.inputs(), outputs = method.outputs();
    PoisonScope poison;
    for (int again = 0; again < 2; ++again) {
      std::vector<IValue> inputs, got(outputs.size());
      for (size_t i = 0; i < row.inputs.size(); ++i) inputs.push_back(read(row.inputs[i], wanted[i].type));
      RunOptions options;
      RunContext context(options);
      RunScope scope(context);
      std::optional<Refusal> refusal;
      std::shared_ptr<const EnginePlan> plan = engine.planFor(inputs, context, &refusal);
      if (!plan) return note(refusal ? refusal->verdict : Verdict{Reason::Ok, "left to the interpreter"}, &row);
      try {
        if (!engine.run(inputs, got, context)) {
          EXPECT_FALSE(row.error.empty()) << where << ": left to the interpreter";
          continue;
        }
      } catch (const ExecutionError& e) {
        EXPECT_FALSE(row.error.empty()) << where << ": " << e.message();
        EXPECT_NE(e.message().find(row.error), std::string::npos) << where << ": " << e.message();
        continue;
      }
      ASSERT_TRUE(row.error.empty()) << where << ": expected a failure";
      for (size_t i = 0; i < got.size(); ++i) expectEqual(got[i], read(row.outputs[i], outputs[i].type), case_, where);
      for (const auto& [i, text] : row.after)
        expectEqual(inputs.at(i), read(text, wanted[i].type), case_, where + " after");
    }
  }

  Case case_;
};

std::set<std::string> listed(const char* file) {
  std::set<std::string> names;
  std::ifstream in(std::string(TSCOMPILE_TESTS_DIR "/data/") + file);
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') names.insert(line);
  return names;
}

// For each listed overload, whether some case ran as an engine with it, and what kept others from it.
struct EngineRuns {
  size_t planned = 0;
  std::set<std::string> refusals;
};

void planCase(const Case& c, std::map<std::string, EngineRuns>& runs) {
  Diagnostics d;
  Result<Module> module = Module::fromText(c.graph, c.name, {}, d);
  if (!module) return;
  std::set<std::string> used;
  forEachNode(*module->graph(), [&](const Node* n) {
    if (const Operator* op = n->hasBlocks() ? nullptr : allOps().resolve(*n))
      if (runs.contains(op->fullName())) used.insert(op->fullName());
  });
  if (used.empty()) return;
  std::optional<Refusal> refusal;
  std::shared_ptr<Engine> engine = Engine::make(*module->graph(), allOps(), {}, {}, refusal);
  Result<Method> method = module->prepare(d);
  for (const Row& row : c.rows) {
    if (!row.error.empty() || !method) continue;
    std::vector<IValue> inputs;
    std::vector<ValueInfo> wanted = method->inputs();
    for (size_t i = 0; i < row.inputs.size(); ++i) inputs.push_back(read(row.inputs[i], wanted[i].type));
    RunOptions options;
    RunContext context(options);
    RunScope scope(context);
    bool planned = engine && engine->planFor(inputs, context, &refusal);
    for (const std::string& name : used) {
      runs[name].planned += planned;
      // Only what stands in the way itself counts against an operator.
      if (planned || !refusal || !refusal->node) continue;
      const Operator* op = refusal->node->hasBlocks() ? nullptr : allOps().resolve(*refusal->node);
      if (op && op->fullName() == name && refusal->verdict.reason != Reason::DataDependent &&
          refusal->verdict.reason != Reason::NonTensor)
        runs[name].refusals.insert(c.name + ": " + refusal->verdict.detail);
    }
  }
}

TEST(TorchTensorrt, EveryConverterOfItsRunsInAnEngine) {
  std::map<std::string, EngineRuns> runs;
  for (const std::string& name : listed("torch_tensorrt_converters.txt")) {
    runs[name];
    const Operator* op = allOps().find(name);
    ASSERT_NE(op, nullptr) << name;
    EXPECT_FALSE(engineUse(*op).converter.empty()) << name;
  }
  ASSERT_EQ(runs.size(), 187u);
  for (const std::string& file : allCaseFiles())
    for (const Case& c : readCases(file)) planCase(c, runs);
  // Arguments of aten::split are those of aten::split.sizes, which comes first.
  runs.erase("aten::split");
  for (const auto& [name, run] : runs) {
    EXPECT_GT(run.planned, 0u) << name << " never ran in an engine";
    EXPECT_TRUE(run.refusals.empty()) << name << " was refused by " << *run.refusals.begin();
  }
}

TEST(TorchTensorrt, EveryEvaluatorOfItsHasOneHere) {
  std::set<std::string> kinds = listed("torch_tensorrt_evaluators.txt");
  ASSERT_EQ(kinds.size(), 67u);
  // They have effects, which belong to the run.
  kinds.erase("prim::RaiseException");
  kinds.erase("aten::warn");
  for (const std::string& kind : kinds) {
    bool evaluated = !engineUseOfStructure(Symbol::of(kind)).evaluated.empty();
    for (const Operator* op : allOps().overloads(Symbol::of(kind))) {
      EngineUse use = engineUse(*op);
      // What writes to a tensor is a layer.
      evaluated |= !use.evaluated.empty() || use.converter == "kernel";
    }
    EXPECT_TRUE(evaluated) << kind;
  }
}

// One test for each case, named after its file and case.
const bool kRegistered = [] {
  for (const std::string& file : allCaseFiles())
    for (Case& c : readCases(file)) {
      std::string family = std::filesystem::path(file).stem().string();
      std::string name = c.name;
      ::testing::RegisterTest(family.c_str(), name.c_str(), nullptr, nullptr, file.c_str(), 1,
                              [c]() -> ::testing::Test* { return new OpCase(c); });
    }
  return true;
}();

}  // namespace
}  // namespace tscompile
