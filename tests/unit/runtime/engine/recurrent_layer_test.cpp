// Recurrent networks in engines: one layer for all layers and directions, and that it computes what the interpreter
// does.
#include "tests/support/engine_case.h"

#include <fmt/core.h>

namespace tscompile::test {
namespace {

struct Network {
  std::string op;
  int64_t gates, layers = 1;
  bool both = false, batchFirst = false, biases = true;
  int64_t projection = 0;
};

constexpr int64_t kFeatures = 5, kHidden = 6;

// The operator with constant weights, which lie around zero.
std::string graphOf(const Network& n) {
  const bool hasCell = n.op == "lstm";
  const int64_t directions = n.both ? 2 : 1, output = n.projection ? n.projection : kHidden;
  std::string text = fmt::format(
      "graph(%x : Tensor, %h : Tensor, %c : Tensor):\n"
      "  %t : bool = prim::Constant[value=1]()\n  %f : bool = prim::Constant[value=0]()\n"
      "  %p : float = prim::Constant[value=0.]()\n  %half : float = prim::Constant[value=0.5]()\n"
      "  %one : int = prim::Constant[value=1]()\n  %layers : int = prim::Constant[value={}]()\n",
      n.layers);
  std::string list;
  int count = 0;
  auto weight = [&](std::string_view sizes) {
    text += fmt::format(
        "  %w{0} : Float({1}) = prim::Constant[value={{0}}]()\n  %v{0} : Tensor = aten::sub(%w{0}, %half, %one)\n",
        count, sizes);
    list += fmt::format("{}%v{}", count ? ", " : "", count);
    ++count;
  };
  for (int64_t i = 0; i < n.layers * directions; ++i) {
    const int64_t rows = n.gates * kHidden;
    weight(fmt::format("{}, {}", rows, i < directions ? kFeatures : directions * output));
    weight(fmt::format("{}, {}", rows, output));
    if (n.biases) weight(fmt::format("{}", rows)), weight(fmt::format("{}", rows));
    if (n.projection) weight(fmt::format("{}, {}", output, kHidden));
  }
  text += fmt::format("  %weights : Tensor[] = prim::ListConstruct({})\n", list);
  if (hasCell) text += "  %state : Tensor[] = prim::ListConstruct(%h, %c)\n";
  text += fmt::format("  %y : Tensor, %a : Tensor{} = aten::{}(%x, {}, %weights, {}, %layers, %p, %f, {}, {})\n",
                      hasCell ? ", %b : Tensor" : "", n.op, hasCell ? "%state" : "%h", n.biases ? "%t" : "%f",
                      n.both ? "%t" : "%f", n.batchFirst ? "%t" : "%f");
  return text + (hasCell ? "  return (%y, %a, %b)\n" : "  return (%y, %a)\n");
}

void check(const Network& n) {
  SCOPED_TRACE(graphOf(n));
  EngineCase c(graphOf(n));
  const int64_t states = n.layers * (n.both ? 2 : 1);
  for (int64_t batch : {1, 3})
    for (int64_t steps : {1, 4}) {
      std::vector<IValue> in{n.batchFirst ? randn({batch, steps, kFeatures}, 1) : randn({steps, batch, kFeatures}, 1),
                             randn({states, batch, n.projection ? n.projection : kHidden}, 2),
                             randn({states, batch, kHidden}, 3)};
      EXPECT_EQ(c.layers(in), n.op);
      c.expectClose(in);
    }
}

}  // namespace

TEST(RecurrentLayer, NetworksOfAllOptions) {
  for (auto [op, gates] :
       {std::pair("lstm", 4), std::pair("gru", 3), std::pair("rnn_tanh", 1), std::pair("rnn_relu", 1)}) {
    check({op, gates});
    check({op, gates, 2, true, true});
    check({op, gates, 3, false, true, false});
  }
  check({"lstm", 4, 2, true, false, true, 4});
  check({"lstm", 4, 1, false, true, false, 3});
}

TEST(RecurrentLayer, StatesAndInputsWithStrides) {
  EngineCase c(R"(graph(%x : Tensor, %h : Tensor):
  %none : NoneType = prim::Constant()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %p : float = prim::Constant[value=0.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %w : Float(6, 5) = prim::Constant[value={0}]()
  %v : Float(6, 6) = prim::Constant[value={0}]()
  %weights : Tensor[] = prim::ListConstruct(%w, %v)
  %xt : Tensor = aten::transpose(%x, %zero, %two)
  %ht : Tensor = aten::transpose(%h, %one, %two)
  %y : Tensor, %a : Tensor = aten::rnn_tanh(%xt, %ht, %weights, %f, %one, %p, %f, %f, %f)
  return (%y, %a)
)");
  std::vector<IValue> in{randn({5, 3, 4}, 1), randn({1, 6, 3}, 2)};
  EXPECT_EQ(c.layers(in), "copy, copy, rnn_tanh");
  c.expectClose(in);
}

TEST(RecurrentLayer, Cells) {
  for (auto [op, gates] :
       {std::pair("lstm", 4), std::pair("gru", 3), std::pair("rnn_tanh", 1), std::pair("rnn_relu", 1)})
    for (bool biases : {true, false}) {
      const bool hasCell = std::string_view(op) == "lstm";
      EngineCase c(fmt::format(R"(graph(%x : Tensor, %h : Tensor, %c : Tensor):
  %none : NoneType = prim::Constant()
  %w : Float({0}, 5) = prim::Constant[value={{0}}]()
  %v : Float({0}, 6) = prim::Constant[value={{0}}]()
  %i : Float({0}) = prim::Constant[value={{0}}]()
  %j : Float({0}) = prim::Constant[value={{0}}]()
  %state : Tensor[] = prim::ListConstruct(%h, %c)
  %y : Tensor{1} = aten::{2}_cell(%x, {3}, %w, %v, {4})
  return (%y{5})
)",
                               gates * 6, hasCell ? ", %z : Tensor" : "", op, hasCell ? "%state" : "%h",
                               biases ? "%i, %j" : "%none, %none", hasCell ? ", %z" : ""));
      std::vector<IValue> in{randn({3, 5}, 1), randn({3, 6}, 2), randn({3, 6}, 3)};
      EXPECT_EQ(c.layers(in), op);
      c.expectClose(in);
    }
}

TEST(RecurrentLayer, WeightsThatAreInputsAreAReason) {
  EngineCase c(R"(graph(%x : Tensor, %h : Tensor, %w : Tensor, %v : Tensor):
  %none : NoneType = prim::Constant()
  %y : Tensor = aten::gru_cell(%x, %h, %w, %v, %none, %none)
  return (%y)
)");
  std::vector<IValue> in{randn({3, 5}, 1), randn({3, 6}, 2), randn({18, 5}, 3), randn({18, 6}, 4)};
  EXPECT_EQ(c.layers(in, true), "kernel aten::gru_cell: the weight or the bias is an input, or not float32");
  c.expectClose(in);
}

}  // namespace tscompile::test
