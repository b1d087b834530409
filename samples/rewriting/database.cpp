// A pattern among the entries of a database, with a tag and a position; a query of the database; an analysis.
#include "passes/catalog.h"
#include "passes/rewrite/managers.h"
#include "samples/rewriting/sample.h"

#include <map>

using namespace tscompile;

namespace {

constexpr const char* kGraph = R"(
graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %a = aten::relu(%x)
  %b = aten::relu(%a)
  %c = aten::neg(%b)
  %y = aten::add(%c, %x, %one)
  return (%y)
)";

NodeRewrite reluOfRelu() {
  return patternRewrite("relu_relu",
                        sample::pattern("graph(%x):\n"
                                        "  %a = aten::relu(%x)\n"
                                        "  %b = aten::relu(%a)\n"
                                        "  return (%b)\n"),
                        sample::pattern("graph(%x):\n  %a = aten::relu(%x)\n  return (%a)\n"));
}

// Counts nodes by kind. An analysis sees a graph that it cannot change.
void countNodes(const Graph& graph) {
  std::map<std::string, int> counts;
  AnalysisPatternManager manager;
  Diagnostics diagnostics;
  PatternAnalyzer counter;
  counter.match = [](const Node*, const RewriteArguments&) { return true; };
  counter.analyze = [&](const std::vector<const Node*>& nodes, const RewriteArguments&) {
    for (const Node* n : nodes) ++counts[std::string(n->kind().text())];
  };
  (void)manager.add("count_nodes", counter, 0, diagnostics);
  sample::check(diagnostics);
  manager.analyze(graph);
  for (const auto& [kind, count] : counts) std::printf("  %d %s\n", count, kind.c_str());
}

}  // namespace

int main() {
  Diagnostics diagnostics;
  RewriteDatabase database = loweringDatabase();
  EntryOptions options;
  options.tags = {"fast_run"};
  options.position = 0.5;
  options.purpose = "relu of relu is relu";
  (void)database.add("relu_relu", reluOfRelu(), options, diagnostics);
  sample::check(diagnostics);
  // A name is given once.
  Diagnostics twice;
  if (!database.add("relu_relu", reluOfRelu(), options, twice)) std::printf("%s\n", twice.list()[0].message.c_str());

  std::unique_ptr<Graph> g = sample::graph(kGraph);
  sample::print("before", *g);
  countNodes(*g);
  // Entries with the tag fast_run that stand before position 0.9: of those that the library has, none.
  Query query = Query().including({"fast_run"}).before(0.9);
  Plan plan = database.query(query);
  std::printf("plan for '%s':\n%s", query.text().c_str(), plan.describe().c_str());
  Outcome outcome = sample::run("after", *g, plan);
  std::printf("applied: %zu\n", outcome.applied);
  countNodes(*g);
  // Without it, nothing is to be done.
  g = sample::graph(kGraph);
  sample::run("excluded", *g, database.query(query.excluding({"relu_relu"})));
  return 0;
}
