// Properties of every pass on random graphs: a verified graph, nothing left to do for a second run, and the same runs
// bit for bit wherever the original does not fail.
#include "ir/clone.h"
#include "ir/edit_log.h"
#include "ir/printer.h"
#include "runtime/ops/ops.h"
#include "tests/support/pass_checks.h"
#include "tests/support/property.h"
#include "tests/support/random_graph.h"

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

std::unique_ptr<Graph> graphOfSeed(Choices& choices) {
  RandomGraphOptions options;
  if (!choices.oneIn(4)) options.operators = kAgreeable;
  if (choices.oneIn(3)) options.nodes = 8;
  return randomGraph(choices, allOps(), options);
}

// Memory that nobody has set holds something else each time, and which objects are the same is not a pass's promise.
bool isUncertain(const Graph& graph) {
  bool found = false;
  forEachNode(graph, [&](Node* n) {
    for (std::string_view name : {"empty", "resize"})
      found = found || n->kind().text().find(name) != std::string_view::npos;
    if (n->kind().name() != "__is__" && n->kind().name() != "__isnot__") return;
    found = found || (n->input(0)->type() != types().none && n->input(1)->type() != types().none);
  });
  return found;
}

class PassProperty : public ::testing::TestWithParam<std::pair<const char*, Pass>> {};

TEST_P(PassProperty, KeepsWhatGraphsDo) {
  Pass pass = GetParam().second;
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
  // The test would be empty if passes had nothing to do, or graphs never ran.
  EXPECT_GT(changed, 0);
  EXPECT_GT(ran, 0);
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
    size_t end = log.position();
    log.moveTo(0);
    EXPECT_EQ(graphText(*graph), before);
    log.moveTo(end);
    EXPECT_EQ(graphText(*graph), after);
  });
}

INSTANTIATE_TEST_SUITE_P(Passes, PassProperty,
                         ::testing::Values(std::pair{"removeDeadCode", &removeDeadCode},
                                           std::pair{"mergeCommonSubexpressions", &mergeCommonSubexpressions},
                                           std::pair{"poolConstants", &poolConstants},
                                           std::pair{"functionalise", &functionalise}),
                         [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace tscompile::test
