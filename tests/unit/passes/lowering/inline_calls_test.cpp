#include "tests/support/module_checks.h"

namespace tscompile::test {
namespace {

constexpr const char* kHelper = R"(graph(%x.1 : Tensor, %n.1 : int):
  %two : int = prim::Constant[value=2]()
  %y.1 : Tensor = aten::add(%x.1, %n.1, %two) # model.py:12:8
  %r : Tensor = aten::mul(%y.1, %two) # model.py:13:11
  return (%r)
)";

}  // namespace

// As in PyTorch's inliner, what is made takes its name, and older values give way; inputs keep theirs.
TEST(InlineCalls, MethodsAndFunctionsInEveryBlock) {
  ModuleCase c(R"(graph(%self : __torch__.Net, %x.1 : Tensor, %c : bool):
  %three : int = prim::Constant[value=3]()
  %f : Function = prim::Constant[name="helper"]()
  %y.1 : Tensor = prim::CallMethod[name="double"](%self, %x.1) # model.py:3:0
  %z : Tensor = prim::If(%c)
    block0():
      %5 : Tensor = prim::CallFunction(%f, %y.1, %three)
      -> (%5)
    block1():
      -> (%y.1)
  return (%z)
)");
  c.add("", "helper", kHelper);
  c.add("__torch__.Net", "double", R"(graph(%self : __torch__.Net, %x.1 : Tensor):
  %f.1 : Function = prim::Constant[name="helper"]()
  %two : int = prim::Constant[value=2]()
  %r.1 : Tensor = prim::CallFunction(%f.1, %x.1, %two)
  return (%r.1)
)");
  EXPECT_TRUE(c.apply(pass("inline_calls")));
  EXPECT_EQ(c.text(), R"(graph(%self : __torch__.Net,
      %x.1 : Tensor,
      %c : bool):
  %three : int = prim::Constant[value=3]()
  %two.1 : int = prim::Constant[value=2]()
  %two.3 : int = prim::Constant[value=2]()
  %y.4 : Tensor = aten::add(%x.1, %two.1, %two.3) # model.py:12:8
  %y.2 : Tensor = aten::mul(%y.4, %two.3) # model.py:13:11
  %z : Tensor = prim::If(%c)
    block0():
      %two : int = prim::Constant[value=2]()
      %y.1 : Tensor = aten::add(%y.2, %three, %two) # model.py:12:8
      %r : Tensor = aten::mul(%y.1, %two) # model.py:13:11
      -> (%r)
    block1():
      -> (%y.2)
  return (%z)
)");
}

TEST(InlineCalls, LeavesCalleesAndUnknownCallsAsTheyAre) {
  ModuleCase c(R"(graph(%self : __torch__.Net, %other : __torch__.Other, %i : InterfaceType<Face>, %x : Tensor):
  %0 : Tensor = prim::CallMethod[name="known"](%self, %x)
  %1 : Tensor = prim::CallMethod[name="forward"](%other, %0)
  %2 : Tensor = prim::CallMethod[name="known"](%self, %1, %1)
  return (%2)
)");
  const Graph* callee = c.add("__torch__.Net", "known", R"(graph(%self : __torch__.Net, %x : Tensor):
  return (%x)
)");
  std::string before = graphText(*callee);
  EXPECT_TRUE(c.apply(pass("inline_calls")));
  EXPECT_EQ(graphText(*callee), before);
  // Inputs keep their names; a call with too many arguments is left for the run to fail on.
  EXPECT_EQ(c.text(), R"(graph(%self : __torch__.Net,
      %other : __torch__.Other,
      %i : InterfaceType<Face>,
      %x : Tensor):
  %1 : Tensor = prim::CallMethod[name="forward"](%other, %x)
  %2 : Tensor = prim::CallMethod[name="known"](%self, %1, %1)
  return (%2)
)");
  EXPECT_FALSE(c.apply(pass("inline_calls")));
}

TEST(InlineCalls, TellsOfEachCallWhenItsInsidesAreDone) {
  ModuleCase c(R"(graph(%self : __torch__.Net, %x : Tensor):
  %y : Tensor = prim::CallMethod[name="outer"](%self, %x)
  %z : Tensor = prim::CallMethod[name="inner"](%self, %y)
  return (%z)
)");
  c.add("__torch__.Net", "inner", R"(graph(%self : __torch__.Net, %v : Tensor):
  %a : Tensor = aten::neg(%v)
  %b : Tensor = aten::relu(%a)
  return (%b)
)");
  c.add("__torch__.Net", "outer", R"(graph(%self : __torch__.Net, %t : Tensor):
  %u : Tensor = aten::abs(%t)
  %w : Tensor = prim::CallMethod[name="inner"](%self, %u)
  return (%w)
)");
  std::vector<CallSite> sites;
  c.module.onCall = [&](const CallSite& s) { sites.push_back(s); };
  EXPECT_TRUE(c.apply(pass("inline_calls")));
  auto shown = [](const CallSite& s) {
    std::string out = s.callee + "(";
    for (const auto& [name, value] : s.arguments) out += name + "=%" + value->name() + " ";
    out += ") ->";
    for (const Value* v : s.outputs) out += " %" + v->name();
    out += ":";
    for (const Node* n : s.nodes) out += " " + std::string(n->kind().text());
    return out;
  };
  ASSERT_EQ(sites.size(), 3u);
  EXPECT_EQ(shown(sites[0]), "__torch__.Net.inner(self=%self v=%u ) -> %y: aten::neg aten::relu");
  EXPECT_EQ(shown(sites[1]), "__torch__.Net.outer(self=%self t=%x ) -> %y: aten::abs aten::neg aten::relu");
  EXPECT_EQ(shown(sites[2]), "__torch__.Net.inner(self=%self v=%y ) -> %z: aten::neg aten::relu");
}

TEST(InlineCalls, ReachesSubgraphs) {
  ModuleCase c(R"(graph(%self : __torch__.Net, %x : Tensor):
  %y : Future(Tensor) = prim::fork_0(%self, %x)
  return (%y)
with prim::fork_0 = graph(%self : __torch__.Net, %x : Tensor):
  %y : Tensor = prim::CallMethod[name="inner"](%self, %x)
  return (%y)
)");
  c.add("__torch__.Net", "inner", R"(graph(%self : __torch__.Net, %v : Tensor):
  %a : Tensor = aten::neg(%v)
  return (%a)
)");
  EXPECT_TRUE(c.apply(pass("inline_calls")));
  EXPECT_NE(c.text().find("%y : Tensor = aten::neg(%x)"), std::string::npos) << c.text();
}

TEST(InlineCalls, RefusesRecursion) {
  ModuleCase c(R"(graph(%self : __torch__.Net, %x : Tensor):
  %y : Tensor = prim::CallMethod[name="a"](%self, %x)
  return (%y)
)");
  c.add("__torch__.Net", "a", R"(graph(%self : __torch__.Net, %x : Tensor):
  %y : Tensor = prim::CallMethod[name="b"](%self, %x)
  return (%y)
)");
  c.add("__torch__.Net", "b", R"(graph(%self : __torch__.Net, %x : Tensor):
  %y : Tensor = prim::CallMethod[name="a"](%self, %x)
  return (%y)
)");
  std::string before = c.text();
  EXPECT_FALSE(c.apply(pass("inline_calls")));
  EXPECT_EQ(c.text(), before);
  std::string report = renderDiagnostics(c.diagnostics, "test");
  EXPECT_NE(report.find("__torch__.Net.a calls itself, so its calls cannot be inlined"), std::string::npos) << report;
  EXPECT_NE(report.find("__torch__.Net.a -> __torch__.Net.b -> __torch__.Net.a"), std::string::npos) << report;
}

TEST(InlineCalls, CountsNodesBeforeItMakesThem) {
  ModuleCase c(R"(graph(%self : __torch__.Net, %x : Tensor):
  %y : Tensor = prim::CallMethod[name="f0"](%self, %x)
  return (%y)
)");
  constexpr int kLevels = 200;
  for (int i = 0; i < kLevels; ++i) {
    std::string next = "prim::CallMethod[name=\"f" + std::to_string(i + 1) + "\"]";
    c.add("__torch__.Net", "f" + std::to_string(i),
          "graph(%self : __torch__.Net, %x : Tensor):\n  %y : Tensor = " + next +
              "(%self, %x)\n  %z : Tensor = " + next + "(%self, %y)\n  return (%z)\n");
  }
  c.add("__torch__.Net", "f" + std::to_string(kLevels),
        "graph(%self : __torch__.Net, %x : Tensor):\n  %y : Tensor = aten::neg(%x)\n  return (%y)\n");
  EXPECT_FALSE(c.apply(pass("inline_calls")));
  EXPECT_EQ(c.diagnostics.firstErrorKind(), ErrorKind::Limit);
}

TEST(InlineCalls, DeepChainsTakeNoStack) {
  ModuleCase c(R"(graph(%self : __torch__.Net, %x : Tensor):
  %y : Tensor = prim::CallMethod[name="f0"](%self, %x)
  return (%y)
)");
  constexpr int kLevels = 5000;
  for (int i = 0; i < kLevels; ++i)
    c.add("__torch__.Net", "f" + std::to_string(i),
          "graph(%self : __torch__.Net, %x : Tensor):\n  %t : Tensor = aten::neg(%x)\n  %y : Tensor = "
          "prim::CallMethod[name=\"f" +
              std::to_string(i + 1) + "\"](%self, %t)\n  return (%y)\n");
  c.add("__torch__.Net", "f" + std::to_string(kLevels), "graph(%self : __torch__.Net, %x : Tensor):\n  return (%x)\n");
  EXPECT_TRUE(c.apply(pass("inline_calls")));
  EXPECT_EQ(c.graph->nodeCount(), static_cast<size_t>(kLevels));
}

}  // namespace tscompile::test
