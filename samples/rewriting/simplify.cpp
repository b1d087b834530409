// x * y / y -> x in three ways: a rewrite of whole graphs, one of nodes, and a pattern. None of them is exact where y
// is 0, infinite or NaN; that is for whoever applies them to know.
#include "passes/lowering/clean_up.h"
#include "samples/rewriting/sample.h"

using namespace tscompile;

namespace {

const Symbol kDiv = Symbol::of("aten::div"), kMul = Symbol::of("aten::mul");

// What a quotient is equal to; null if that is not known.
Value* simplified(const Node* n) {
  const Node* product = n->kind() == kDiv ? n->input(0)->node() : nullptr;
  if (!product || product->kind() != kMul) return nullptr;
  if (product->input(1) == n->input(1)) return product->input(0);
  return product->input(0) == n->input(1) ? product->input(1) : nullptr;
}

// 1. A graph rewrite looks at everything itself, and tells whether it changed anything.
GraphRewrite graphRewrite() {
  return {"simplify", [](Graph& graph, RewriteContext&) {
            std::vector<Node*> done;
            forEachNode(graph, [&](Node* n) {
              Value* x = simplified(n);
              if (!x) return;
              n->output()->replaceAllUsesWith(x);
              done.push_back(n);
            });
            for (Node* n : done) n->destroy();
            return !done.empty();
          }};
}

// 2. A node rewrite is asked about the nodes of some kinds. What is no longer used is removed by whoever applies it.
NodeRewrite nodeRewrite() {
  return {"local_simplify", {kDiv}, [](Node* n, RewriteContext&) -> Replacement {
            Value* x = simplified(n);
            return x ? Replacement(x) : Replacement();
          }};
}

// 3. A pattern. Multiplication commutes, so that y * x / y is found as well.
NodeRewrite patternRewriteOfText() {
  return patternRewrite("pattern_simplify",
                        sample::pattern("graph(%x, %y):\n"
                                        "  %product = aten::mul(%x, %y)\n"
                                        "  %quotient = aten::div(%product, %y)\n"
                                        "  return (%quotient)\n"),
                        sample::pattern("graph(%x):\n  return (%x)\n"));
}

constexpr const char* kGraph = R"(
graph(%x : Tensor, %y : Tensor, %z : Tensor):
  %one : int = prim::Constant[value=1]()
  %yx = aten::mul(%y, %x)
  %quotient = aten::div(%yx, %y)
  %zx = aten::div(%z, %x)
  %product = aten::mul(%quotient, %zx)
  %sum = aten::add(%z, %product, %one)
  return (%sum)
)";

// Two sums that are equal, but not one value.
constexpr const char* kTwice = R"(
graph(%x : Tensor, %y : Tensor, %z : Tensor):
  %one : int = prim::Constant[value=1]()
  %a = aten::add(%y, %z, %one)
  %b = aten::add(%y, %z, %one)
  %product = aten::mul(%a, %x)
  %quotient = aten::div(%product, %b)
  return (%quotient)
)";

}  // namespace

int main() {
  std::unique_ptr<Graph> g = sample::graph(kGraph);
  sample::print("before", *g);
  // What nothing uses any more goes by itself after a node rewrite, not after a graph rewrite.
  Plan cleanUp = Plan::of({"remove_dead_code", removeDeadCode});
  sample::run("graph rewrite", *g, Plan::sequence("simplify", {Plan::of(graphRewrite()), cleanUp}));
  g = sample::graph(kGraph);
  sample::run("node rewrite", *g, Plan::walk("simplify", {nodeRewrite()}));
  g = sample::graph(kGraph);
  sample::run("pattern", *g, Plan::walk("simplify", {patternRewriteOfText()}));

  g = sample::graph(kTwice);
  sample::print("before", *g);
  sample::run("pattern", *g, Plan::walk("simplify", {patternRewriteOfText()}));
  sample::run("merged", *g, Plan::of({"merge", mergeCommonSubexpressions}));
  sample::run("pattern, then", *g, Plan::walk("simplify", {patternRewriteOfText()}));
  return 0;
}
