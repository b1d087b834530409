// A relation is used in both directions: A @ (x + y) distributes to A @ x + A @ y, and the sum is collected again.
#include "runtime/registry.h"
#include "samples/rewriting/sample.h"

using namespace tscompile;

namespace {

Relation distributivity() {
  return {"distributivity",
          sample::pattern("graph(%A, %x : Tensor, %y : Tensor):\n"
                          "  %one : int = prim::Constant[value=1]()\n"
                          "  %sum = aten::add(%x, %y, %one)\n"
                          "  %r = aten::matmul(%A, %sum)\n"
                          "  return (%r)\n"),
          sample::pattern("graph(%A, %x : Tensor, %y : Tensor):\n"
                          "  %one : int = prim::Constant[value=1]()\n"
                          "  %Ax = aten::matmul(%A, %x)\n"
                          "  %Ay = aten::matmul(%A, %y)\n"
                          "  %r = aten::add(%Ax, %Ay, %one)\n"
                          "  return (%r)\n")};
}

void both(const char* text) {
  Relation relation = distributivity();
  std::unique_ptr<Graph> g = sample::graph(text);
  ExpressionOptions brackets;
  brackets.allBrackets = true;
  auto show = [&](const char* title) {
    std::printf("%-12s %s\n", title, expressionText(g->output(0), brackets).c_str());
  };
  auto apply = [&](const char* title, NodeRewrite rewrite) {
    Diagnostics diagnostics;
    RewriteContext context(*g, allOps(), diagnostics);
    Plan::Equilibrium parts;
    parts.nodes = {std::move(rewrite)};
    parts.revisit = Revisit::CreatedAndUsers;
    Plan::equilibrium("relation", std::move(parts)).run(context);
    sample::check(diagnostics);
    show(title);
  };
  show("before");
  apply("distributed", relation.forward());
  apply("collected", relation.backward());
}

}  // namespace

int main() {
  both(R"(
graph(%A : Tensor, %x : Tensor, %y : Tensor, %z : Tensor, %w : Tensor):
  %one : int = prim::Constant[value=1]()
  %xy = aten::add(%x, %y, %one)
  %zw = aten::add(%z, %w, %one)
  %sum = aten::add(%xy, %zw, %one)
  %r = aten::matmul(%A, %sum)
  return (%r)
)");
  both(R"(
graph(%A : Tensor, %B : Tensor, %x : Tensor, %y : Tensor, %z : Tensor, %w : Tensor):
  %one : int = prim::Constant[value=1]()
  %xy = aten::add(%x, %y, %one)
  %zw = aten::add(%z, %w, %one)
  %Bzw = aten::matmul(%B, %zw)
  %sum = aten::add(%xy, %Bzw, %one)
  %r = aten::matmul(%A, %sum)
  return (%r)
)");
  return 0;
}
