// Properties of every pass on random graphs: a verified graph, nothing left to do for a second run, and the same runs
// bit for bit wherever the original does not fail.
#include "frontend/text/parse.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/clone.h"
#include "ir/graph/edit_log.h"
#include "ir/graph/module.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "passes/catalog.h"
#include "passes/rewrite/journal.h"
#include "runtime/interpreter/evaluator.h"
#include "runtime/registry.h"
#include "tests/support/memory_program.h"
#include "tests/support/pass_checks.h"
#include "tests/support/property.h"
#include "tests/support/random_graph.h"
#include "tests/support/text_file.h"

#include <filesystem>

namespace tscompile::test {
namespace {

// Operators that seldom refuse what a random program gives them, those that write, and those that give views.
const std::vector<std::string> kAgreeable{
    "aten::abs",       "aten::abs_",        "aten::neg",          "aten::neg_",        "aten::relu",
    "aten::relu_",     "aten::add",         "aten::add_",         "aten::mul",         "aten::mul_",
    "aten::sub",       "aten::zero_",       "aten::fill_",        "aten::clone",       "aten::view_as",
    "aten::unsqueeze", "aten::t",           "aten::detach",       "aten::squeeze",     "aten::flatten",
    "aten::expand",    "aten::expand_as",   "aten::type_as",      "aten::size",        "aten::dim",
    "aten::len",       "aten::append",      "aten::__getitem__",  "prim::NumToTensor", "aten::Int",
    "aten::Float",     "aten::Bool",        "prim::Print",        "aten::copy_",       "aten::eq",
    "aten::__is__",    "aten::__isnot__",   "aten::cat",          "aten::stack",       "aten::dropout",
    "aten::dropout_",  "aten::rand_like",   "aten::squeeze_",     "aten::select",      "aten::slice",
    "aten::sum",       "prim::dtype",       "aten::masked_fill_", "aten::unsqueeze_",  "aten::lt",
    "aten::gt",        "aten::__not__",     "aten::floordiv",     "aten::div",         "aten::is_floating_point",
    "aten::numel",     "prim::TupleUnpack", "aten::_set_item",    "aten::sigmoid_",    "aten::t_",
};

// Adds what random programs lack: tuples through branches and loops, casts, assertions.
class Decorator {
 public:
  Decorator(Choices& choices, Graph& graph) : c_(choices), graph_(graph) {}

  void run() {
    std::vector<Node*> nodes;
    forEachNode(graph_, [&](Node* n) { nodes.push_back(n); });
    for (Node* n : nodes) {
      if (!c_.oneIn(3)) continue;
      if (n->kind() == sym::If && n->outputCount())
        packResults(n);
      else if (n->kind() == sym::Loop && n->outputCount())
        packCarried(n);
      else if (n->outputCount() == 1 && n->output()->type() != types().none)
        decorate(n);
    }
  }

 private:
  Builder after(Node* n) {
    Builder b(graph_, n);
    b.setPointAfter(n);
    return b;
  }
  // All uses but one.
  static void replaceOthers(Value* v, Value* by, const Node* except) {
    for (Use& u : v->uses())
      if (u.user != except) u.user->replaceInput(u.index(), by);
  }
  static std::vector<Value*> unpack(Builder b, Value* tuple) {
    Node* n = b.insert(sym::TupleUnpack, {tuple}, tuple->type()->elements().size());
    for (size_t i = 0; i < n->outputCount(); ++i) n->output(i)->setType(tuple->type()->element(i));
    return {n->outputs().begin(), n->outputs().end()};
  }

  void decorate(Node* n) {
    Value* v = n->output();
    Builder b = after(n);
    switch (c_.below(4)) {
      case 0: {
        Node* cast = b.insert(sym::unchecked_cast, {v});
        cast->output()->setType(v->type());
        return replaceOthers(v, cast->output(), cast);
      }
      case 1: {
        Value* t = b.tuple(std::vector<Value*>{v, v});
        return replaceOthers(v, unpack(b, t)[c_.below(2)], t->node());
      }
      case 2: {
        Value* other = b.constant(7);
        Value* t = b.tuple(std::vector<Value*>{other, v, other});
        Value* item = b.call(sym::TupleIndex, {t, b.constant(c_.oneIn(2) ? 1 : -2)}, v->type());
        return replaceOthers(v, item, t->node());
      }
      default:
        assertion(b, v);
    }
  }

  void assertion(Builder b, Value* v) {
    bool good = c_.oneIn(2);
    Value* condition = b.constant(good);
    if (v->type()->isTensor() && c_.oneIn(2)) {
      Value* rank = b.call(Symbol::of("aten::dim"), {v}, types().integer);
      condition = b.call(Symbol::of(good ? "aten::lt" : "aten::ge"), {rank, b.constant(3)}, types().boolean);
    }
    Value *message = b.constant("no"), *none = b.constant(IValue(), types().none);
    Node* n = b.insert(sym::If, {condition}, 0);
    n->addBlock();
    n->addBlock();
    b.setPointAtEnd(n->block(good ? 1 : 0));
    b.insert(sym::RaiseException, {message, none}, 0);
  }

  static TypePtr tupleOfOutputs(const Node* n) {
    std::vector<TypePtr> elements;
    for (const Value* v : n->outputs()) elements.push_back(v->type());
    return tupleType(elements);
  }
  Value* packed(Builder b, std::span<const Use> values, size_t from, TypePtr type) {
    std::vector<Value*> items;
    for (size_t i = from; i < values.size(); ++i) items.push_back(values[i].value);
    Value* t = b.tuple(items);
    t->setType(type);
    return t;
  }

  void packResults(Node* n) {
    TypePtr type = tupleOfOutputs(n);
    for (Block* block : n->blocks()) {
      Value* t = packed(Builder(graph_, block->returnNode()), block->results(), 0, type);
      block->addResult(t);
    }
    size_t count = n->outputCount();
    std::vector<Value*> items = unpack(after(n), n->addOutput(type));
    for (size_t i = 0; i < count; ++i) n->output(i)->replaceAllUsesWith(items[i]);
  }

  void packCarried(Node* n) {
    TypePtr type = tupleOfOutputs(n);
    Block* body = n->block(0);
    size_t count = n->outputCount();
    n->addInput(packed(Builder(graph_, n), n->inputs(), 2, type));
    body->addResult(packed(Builder(graph_, body->returnNode()), body->results(), 1, type));
    Value* parameter = body->addParameter(type);
    Builder top(graph_, body->returnNode());
    top.setPointAtStart(body);
    std::vector<Value*> inside = unpack(top, parameter), outside = unpack(after(n), n->addOutput(type));
    for (size_t i = 0; i < count; ++i) {
      body->parameter(i + 1)->replaceAllUsesWith(inside[i]);
      n->output(i)->replaceAllUsesWith(outside[i]);
    }
  }

  Choices& c_;
  Graph& graph_;
};

std::unique_ptr<Graph> graphOfSeed(Choices& choices) {
  RandomGraphOptions options;
  if (!choices.oneIn(4)) options.operators = kAgreeable;
  if (choices.oneIn(3)) options.nodes = 8;
  std::unique_ptr<Graph> graph = randomGraph(choices, allOps(), options);
  if (choices.oneIn(2)) Decorator(choices, *graph).run();
  return graph;
}

// Whether a node tells one object from another: `is`, and == of lists, which equal themselves even where they hold NaN.
bool tellsObjects(const Node* n) {
  const std::string_view name = n->kind().name();
  if (name == "__is__" || name == "__isnot__")
    return n->input(0)->type() != types().none && n->input(1)->type() != types().none;
  TypePtr list = name == "eq" || name == "ne" ? n->input(0)->type() : nullptr;
  return list && list->is(TypeKind::List) && !list->element()->is(TypeKind::Int);
}

// What is no pass's promise, besides what differs from run to run: which objects are the same. PyTorch merges equal
// lists, too.
bool isUncertain(const Graph& graph) {
  bool found = !isRepeatable(graph);
  forEachNode(graph, [&](Node* n) { found = found || tellsObjects(n); });
  return found;
}

class PassProperty : public ::testing::TestWithParam<std::pair<const char*, Pass>> {};

TEST_P(PassProperty, KeepsWhatGraphsDo) {
  const Pass& pass = GetParam().second;
  int changed = 0, ran = 0;
  forEachSeed(400, [&](uint64_t seed) {
    Choices choices(seed);
    std::unique_ptr<Graph> graph = graphOfSeed(choices);
    std::unique_ptr<Graph> before = cloneGraph(*graph);
    if (!applyPass(pass, *graph)) return;
    ++changed;
    if (isUncertain(*before)) return;
    ran += expectSameRuns(*before, *graph, 4, seed);
  });
  RecordProperty("changed", changed);
  RecordProperty("ran", ran);
  // The test would be empty if passes had nothing to do, or graphs never ran.
  EXPECT_GT(changed, 0);
  EXPECT_GT(ran, 0);
}

TEST_P(PassProperty, KeepsWhatMemoryHolds) {
  forEachSeed(400, [&](uint64_t seed) {
    Choices choices(seed);
    std::unique_ptr<Graph> graph = memoryProgram(choices, 4 + choices.below(16));
    if (choices.oneIn(3)) Decorator(choices, *graph).run();
    std::unique_ptr<Graph> before = cloneGraph(*graph);
    if (applyPass(GetParam().second, *graph)) expectSameRuns(*before, *graph, 4, seed, memoryProgramInputs);
  });
}

TEST_P(PassProperty, HoldsOnRealTexts) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TSCOMPILE_TESTS_DIR) + "/data/corpus/text"))
    if (entry.path().extension() == ".ir") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());
  for (const auto& file : files) {
    SCOPED_TRACE(file.filename());
    Diagnostics diagnostics;
    ParseOptions options;
    options.registry = &allOps();
    Result<ParsedText> text = parseText(SourceFile::make(file, readText(file)), diagnostics, options);
    ASSERT_TRUE(text.ok());
    std::vector<Graph*> graphs;
    for (const auto& g : text->graphs) graphs.push_back(g.get());
    if (text->module)
      for (const DumpedModule& m : text->module->modules)
        for (const DumpedMethod& method : m.methods)
          if (method.graph) graphs.push_back(method.graph.get());
    for (Graph* g : graphs)
      if (verify(*g, allOps(), diagnostics)) applyPass(GetParam().second, *g);
  }
}

// Nodes that are looked up by kind are those that a walk meets.
void expectAllByKind(const Graph& graph) {
  std::vector<Node*> walked;
  std::map<Symbol, size_t> counts;
  forEachNode(graph, [&](Node* n) {
    walked.push_back(n);
    ++counts[n->kind()];
  });
  EXPECT_EQ(graph.nodesOf([](Symbol) { return true; }), walked) << graphText(graph);
  for (const auto& [kind, count] : counts) EXPECT_EQ(graph.kinds().count(kind), count) << kind.text();
}

TEST_P(PassProperty, CanBeTakenBack) {
  forEachSeed(100, [&](uint64_t seed) {
    Choices choices(seed);
    std::unique_ptr<Graph> graph = graphOfSeed(choices);
    std::string before = graphText(*graph);
    EditLog log(*graph);
    Diagnostics diagnostics;
    RewriteContext context(*graph, allOps(), diagnostics);
    GetParam().second(*graph, context);
    std::string after = graphText(*graph);
    expectAllByKind(*graph);
    size_t end = log.position();
    log.moveTo(0);
    EXPECT_EQ(graphText(*graph), before);
    expectAllByKind(*graph);
    log.moveTo(end);
    EXPECT_EQ(graphText(*graph), after);
    expectAllByKind(*graph);
  });
}

// What `lower` does without options.
bool lowering(Graph& graph, RewriteContext& context) {
  PlanSettings settings;
  settings.verify = true;
  Outcome outcome = loweringDatabase().query(Query().including({"default"})).run(context, settings);
  EXPECT_FALSE(outcome.failed) << renderDiagnostics(context.diagnostics, "test") << graphText(graph);
  EXPECT_TRUE(outcome.converged) << outcome.stoppedBy << graphText(graph);
  return outcome.changed;
}

// The default pipeline on programs with views, writes, branches, loops and lists: no graph that does not verify after
// some entry, nothing left for a second run, the same runs, and a journal that leads back to the original text.
TEST(LoweringProperty, KeepsRunsAndCanBeTakenBack) {
  static const std::unique_ptr<Evaluator> kEvaluator = makeEvaluator(allOps());
  int ran = 0, steps = 0;
  forEachSeed(600, [&](uint64_t seed) {
    Choices choices(seed);
    bool memory = choices.oneIn(2);
    std::unique_ptr<Graph> graph = memory ? memoryProgram(choices, 4 + choices.below(24)) : graphOfSeed(choices);
    std::unique_ptr<Graph> before = cloneGraph(*graph);
    std::string text = graphText(*graph);
    Diagnostics diagnostics;
    PlanSettings settings;
    settings.verify = true;
    Journal journal(*graph);
    settings.afterEntry = [&](const std::string& name, const Graph&, bool) { journal.step(name); };
    Plan plan = loweringDatabase().query(Query().including({"default"}));
    for (bool again : {false, true}) {
      RewriteContext context(*graph, allOps(), diagnostics);
      context.evaluator = kEvaluator.get();
      Outcome outcome = plan.run(context, settings);
      EXPECT_FALSE(outcome.failed || !outcome.converged) << renderDiagnostics(diagnostics, "test") << text;
      if (again) {
        EXPECT_FALSE(outcome.changed) << text << graphText(*graph);
      }
    }
    std::string lowered = graphText(*graph);
    if (!isUncertain(*before))
      ran += expectSameRuns(*before, *graph, 2, seed, memory ? memoryProgramInputs : randomInputs);
    steps += static_cast<int>(journal.size());
    journal.start();
    EXPECT_EQ(graphText(*graph), text);
    journal.end();
    EXPECT_EQ(graphText(*graph), lowered);
  });
  EXPECT_GT(ran, 0);
  EXPECT_GT(steps, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Passes, PassProperty,
    ::testing::Values(std::pair{"removeDeadCode", pass("remove_dead_code")},
                      std::pair{"mergeCommonSubexpressions", pass("merge")},
                      std::pair{"poolConstants", pass("pool_constants")},
                      std::pair{"functionalise", pass("functionalise")}, std::pair{"peephole", pass("peephole")},
                      std::pair{"unrollLoops", pass("unroll_loops")}, std::pair{"lowerTuples", pass("lower_tuples")},
                      std::pair{"removeGuards", pass("remove_guards")},
                      std::pair{"removeUnreachableExceptions", pass("remove_unreachable_exceptions")},
                      std::pair{"lowering", Pass(lowering)}),
    [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace tscompile::test
