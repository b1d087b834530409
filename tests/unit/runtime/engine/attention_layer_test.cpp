// Attention in engines: what becomes one layer, and that it computes what the interpreter does.
#include "tests/support/engine_case.h"

#include <fmt/core.h>

namespace tscompile::test {
namespace {

Tensor flags(std::initializer_list<int64_t> sizes, uint64_t seed) {
  Tensor numbers = randn(sizes, seed), t = Tensor::empty(DType::Bool, Dims(sizes));
  for (int64_t i = 0; i < t.numel(); ++i) t.data<bool>()[i] = numbers.data<float>()[i] > -0.5f;
  return t;
}

constexpr const char* kConstants = R"(
  %none : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %t : bool = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %three : int = prim::Constant[value=3]()
  %last : int = prim::Constant[value=-1]()
  %before : int = prim::Constant[value=-2]()
  %drop : float = prim::Constant[value=0.]()
  %eighth : float = prim::Constant[value=0.125]()
  %low : float = prim::Constant[value=-10000.]()
  %never : float = prim::Constant[value=-inf]()
)";

// A graph of q, k, v and a mask, [2, 4, n, 8] each but for the mask.
std::string graphOf(std::string_view body, std::string_view more = "") {
  return fmt::format("graph(%q : Tensor, %k : Tensor, %v : Tensor, %m : Tensor{}):{}{}  return (%y)\n", more,
                     kConstants, body);
}
std::vector<IValue> inputs(const Tensor& mask, int64_t queries = 9, int64_t keys = 11, int64_t keyHeads = 4) {
  return {randn({2, 4, queries, 8}, 1), randn({2, keyHeads, keys, 8}, 2), randn({2, keyHeads, keys, 8}, 3), mask};
}

// The scores, what `masking` makes of them, and the rest.
std::string written(std::string_view masking, std::string_view more = "") {
  return graphOf(fmt::format(R"(  %kt : Tensor = aten::transpose(%k, %last, %before)
  %p : Tensor = aten::matmul(%q, %kt)
  %s : Tensor = aten::mul(%p, %eighth)
{}  %w : Tensor = aten::softmax(%h, %last, %none)
  %y : Tensor = aten::matmul(%w, %v)
)",
                             masking),
                 more);
}

void expectOneLayer(const std::string& graph, const std::vector<IValue>& in) {
  SCOPED_TRACE(graph);
  EngineCase c(graph);
  EXPECT_EQ(c.layers(in), "attention");
  c.expectClose(in);
}

}  // namespace

TEST(AttentionLayer, OperatorWithMasks) {
  const std::string graph =
      graphOf("  %y : Tensor = aten::scaled_dot_product_attention(%q, %k, %v, %m, %drop, %f, %none, %f)\n");
  for (const Tensor& mask : {flags({9, 11}, 4), flags({2, 1, 1, 11}, 5), flags({2, 4, 9, 1}, 6),
                             randn({1, 4, 9, 11}, 7), randn({2, 4, 9, 11}, 8), randn({1, 1, 1, 1}, 9)})
    expectOneLayer(graph, inputs(mask));
  Tensor wide = randn({2, 1, 11, 9}, 8);
  expectOneLayer(graph, inputs(wide.permuted(Dims{0, 1, 3, 2})));
}

TEST(AttentionLayer, OperatorWithGroupedHeads) {
  const std::string graph =
      graphOf("  %y : Tensor = aten::scaled_dot_product_attention(%q, %k, %v, %m, %drop, %f, %eighth, %t)\n");
  expectOneLayer(graph, inputs(flags({2, 1, 9, 11}, 4), 9, 11, 2));
  expectOneLayer(graph, inputs(flags({1, 11}, 4), 1, 11, 1));
}

// Constant masks that say what a flag says.
TEST(AttentionLayer, KnownMasksAreFlags) {
  const std::string graph = graphOf(R"(  %n : int = aten::size(%q, %two)
  %sizes : int[] = prim::ListConstruct(%n, %n)
  %dtype : int = prim::Constant[value=11]()
  %all : Tensor = aten::ones(%sizes, %dtype, %none, %none, %none)
  %lower : Tensor = aten::tril(%all, %zero)
  %a : Tensor = aten::scaled_dot_product_attention(%q, %k, %v, %lower, %drop, %f, %none, %f)
  %y : Tensor = aten::scaled_dot_product_attention(%a, %k, %v, %all, %drop, %f, %none, %f)
)");
  EngineCase c(graph);
  EXPECT_EQ(c.layers(inputs(randn({1}, 1), 9, 9)), "attention (causal), attention");
  c.expectClose(inputs(randn({1}, 1), 9, 9));
}

TEST(AttentionLayer, MasksWrittenOut) {
  expectOneLayer(written("  %h : Tensor = aten::add(%s, %m, %one)\n"), inputs(randn({2, 1, 1, 11}, 4)));
  expectOneLayer(written("  %h : Tensor = aten::masked_fill(%s, %m, %low)\n"), inputs(flags({2, 1, 9, 11}, 4)));
  expectOneLayer(written("  %h : Tensor = aten::masked_fill(%s, %m, %never)\n"), inputs(flags({9, 11}, 5)));
  const std::string seen = R"(  %list : int[] = prim::ListConstruct()
  %cpu : Device = prim::Constant[value="cpu"]()
  %number : Tensor = aten::full(%list, %low, %none, %none, %cpu, %none)
)";
  expectOneLayer(written(seen + "  %h : Tensor = aten::where(%m, %s, %number)\n"), inputs(flags({9, 11}, 5)));
  expectOneLayer(
      written(seen + "  %g : Tensor = aten::where(%m, %s, %number)\n  %h : Tensor = aten::add(%g, %b, %one)\n",
              ", %b : Tensor"),
      [] {
        std::vector<IValue> in = inputs(flags({9, 11}, 5));
        in.push_back(randn({2, 1, 1, 11}, 6));
        return in;
      }());
}

// As windows have it: a bias of each head, then a mask of each window, the batch apart.
TEST(AttentionLayer, TwoMasksOfOtherDimensions) {
  const std::string graph = written(R"(  %g : Tensor = aten::add(%s, %m, %one)
  %five : int[] = prim::Constant[value=[1, 2, 4, 9, 11]]()
  %four : int[] = prim::Constant[value=[2, 4, 9, 11]]()
  %a : Tensor = aten::view(%g, %five)
  %c : Tensor = aten::add(%a, %b, %one)
  %h : Tensor = aten::view(%c, %four)
)",
                                    ", %b : Tensor");
  std::vector<IValue> in = inputs(randn({1, 4, 9, 11}, 4));
  in.push_back(randn({1, 2, 1, 9, 11}, 5));
  expectOneLayer(graph, in);
}

// Pairs of batch and head in one dimension, as nn.MultiheadAttention has them; the mask is one of each batch.
TEST(AttentionLayer, PairsInOneDimension) {
  const std::string graph = graphOf(R"(  %pairs : int[] = prim::Constant[value=[8, -1, 8]]()
  %four : int[] = prim::Constant[value=[2, 4, 9, 11]]()
  %three3 : int[] = prim::Constant[value=[8, 9, 11]]()
  %qp : Tensor = aten::reshape(%q, %pairs)
  %kp : Tensor = aten::reshape(%k, %pairs)
  %vp : Tensor = aten::reshape(%v, %pairs)
  %kt : Tensor = aten::transpose(%kp, %one, %two)
  %p : Tensor = aten::bmm(%qp, %kt)
  %a : Tensor = aten::view(%p, %four)
  %g : Tensor = aten::add(%a, %m, %one)
  %h : Tensor = aten::view(%g, %three3)
  %w : Tensor = aten::softmax(%h, %last, %none)
  %y : Tensor = aten::bmm(%w, %vp)
)");
  expectOneLayer(graph, inputs(randn({2, 1, 1, 11}, 4)));
}

// A bias that the product of the scores is added to, which is scaled.
TEST(AttentionLayer, ScoresAddedToABias) {
  const std::string graph = graphOf(R"(  %pairs : int[] = prim::Constant[value=[8, -1, 8]]()
  %qp : Tensor = aten::reshape(%q, %pairs)
  %kp : Tensor = aten::reshape(%k, %pairs)
  %vp : Tensor = aten::reshape(%v, %pairs)
  %kt : Tensor = aten::transpose(%kp, %one, %two)
  %h : Tensor = aten::baddbmm(%m, %qp, %kt, %one, %eighth)
  %w : Tensor = aten::softmax(%h, %last, %none)
  %y : Tensor = aten::bmm(%w, %vp)
)");
  expectOneLayer(graph, inputs(randn({8, 1, 11}, 4)));
}

// A fill that is not -inf forgets nothing that is added behind it, but all that was added before.
TEST(AttentionLayer, SumsBeforeAFillStayOutside) {
  EngineCase c(
      written("  %g : Tensor = aten::add(%s, %one, %one)\n  %a : Tensor = aten::add(%s, %b, %one)\n"
              "  %h : Tensor = aten::masked_fill(%a, %m, %low)\n",
              ", %b : Tensor"));
  std::vector<IValue> in = inputs(flags({9, 11}, 5));
  in.push_back(randn({2, 1, 9, 11}, 6));
  c.expectClose(in);
}

// Heads that are repeated for their groups, and rows that are brought in order, are read where they are.
TEST(AttentionLayer, CopiesAreReadThrough) {
  const std::string graph = graphOf(R"(  %five : int[] = prim::Constant[value=[2, 2, 2, 11, 8]]()
  %four : int[] = prim::Constant[value=[2, 4, 11, 8]]()
  %k1 : Tensor = aten::unsqueeze(%k, %two)
  %k2 : Tensor = aten::expand(%k1, %five, %f)
  %k3 : Tensor = aten::reshape(%k2, %four)
  %v1 : Tensor = aten::unsqueeze(%v, %two)
  %v2 : Tensor = aten::expand(%v1, %five, %f)
  %v3 : Tensor = aten::reshape(%v2, %four)
  %q1 : Tensor = aten::transpose(%q, %one, %two)
  %q2 : Tensor = aten::contiguous(%q1, %zero)
  %q3 : Tensor = aten::transpose(%q2, %one, %two)
  %y : Tensor = aten::scaled_dot_product_attention(%q3, %k3, %v3, %m, %drop, %f, %none, %f)
)");
  expectOneLayer(graph, inputs(flags({2, 1, 9, 11}, 4), 9, 11, 2));
}

// Heads that share keys are rows of the product, and a mask is by query: in every order of the dimensions, and where
// there are as many heads as queries.
TEST(AttentionLayer, HeadsInRowsOfTheProduct) {
  struct Spelling {
    const char* scores;
    const char* values;
    bool queriesFirst = false;  // the mask is by the dimension before the heads
  };
  for (const Spelling& e :
       {Spelling{"gtd,sd->gts", "gts,sd->gtd"}, Spelling{"tgd,sd->gts", "gts,sd->tgd"},
        Spelling{"bhtd,bsd->bhts", "bhts,bsd->bhtd"}, Spelling{"bthd,bshd->bhts", "bhts,bshd->bthd"},
        Spelling{"bkgtd,bksd->bkgts", "bkgts,bksd->bkgtd"}, Spelling{"btkgd,bskd->bkgts", "bkgts,bskd->btkgd"},
        Spelling{"tgd,sd->tgs", "tgs,sd->tgd", true}, Spelling{"btgd,bsd->btgs", "btgs,bsd->btgd", true}})
    for (const char* masking : {"  %h : Tensor = aten::masked_fill(%p, %hide, %never)\n",
                                "  %h : Tensor = aten::masked_fill(%p, %hide, %low)\n",
                                "  %b : Tensor = aten::mul(%hide, %low)\n  %h : Tensor = aten::add(%p, %b, %one)\n",
                                "  %h : Tensor = aten::masked_fill(%p, %m, %never)\n"})
      for (int64_t group : {3, 5}) {
        const std::string graph = graphOf(fmt::format(
            R"(  %five : int = prim::Constant[value=5]()
  %e0 : str = prim::Constant[value="{}"]()
  %e1 : str = prim::Constant[value="{}"]()
  %n : Tensor = aten::arange(%five, %none, %none, %none, %none)
  %row : Tensor = aten::unsqueeze(%n, %zero)
  %column : Tensor = aten::unsqueeze(%n, %one)
  %after : Tensor = aten::gt(%row, %column)
  %hide : Tensor = {}
  %qk : Tensor[] = prim::ListConstruct(%q, %k)
  %p : Tensor = aten::einsum(%e0, %qk, %none)
{}  %w : Tensor = aten::softmax(%h, %last, %none)
  %wv : Tensor[] = prim::ListConstruct(%w, %v)
  %y : Tensor = aten::einsum(%e1, %wv, %none)
)",
            e.scores, e.values,
            e.queriesFirst ? "aten::unsqueeze(%after, %one)" : "aten::slice(%after, %zero, %none, %none, %one)",
            masking));
        SCOPED_TRACE(fmt::format("{} of {}: {}", e.scores, group, masking));
        const std::map<char, int64_t> sizes{{'b', 2}, {'k', 2}, {'h', group}, {'g', group},
                                            {'t', 5}, {'s', 5}, {'d', 8}};
        auto tensor = [&](std::string_view letters, uint64_t seed) {
          Dims dims;
          for (char c : letters) dims.push_back(sizes.at(c));
          return randn(dims, seed);
        };
        const std::string_view scores = e.scores, values = e.values;
        const size_t comma = scores.find(','), arrow = scores.find("->");
        Tensor seen = e.queriesFirst ? flags({5, 1, 5}, 4) : flags({5, 5}, 4);
        for (int64_t i = 0; i < 5; ++i) seen.data<bool>()[6 * i] = false;  // each query sees itself
        EngineCase(graph).expectClose(
            {tensor(scores.substr(0, comma), 1), tensor(scores.substr(comma + 1, arrow - comma - 1), 2),
             tensor(values.substr(values.find(',') + 1, values.find("->") - values.find(',') - 1), 3), seen});
      }
}

// Scores that change places before the mask are no longer by the queries of the product, though sizes are the same.
TEST(AttentionLayer, ScoresThatChangePlaces) {
  for (const char* masking :
       {"  %h : Tensor = aten::masked_fill(%turned, %m, %never)\n", "  %h : Tensor = aten::mul(%turned, %eighth)\n"}) {
    EngineCase c(graphOf(fmt::format(R"(  %kt : Tensor = aten::transpose(%k, %last, %before)
  %p : Tensor = aten::matmul(%q, %kt)
  %turned : Tensor = aten::transpose(%p, %one, %two)
{}  %a : Tensor = aten::softmax(%h, %last, %none)
  %w : Tensor = aten::transpose(%a, %one, %two)
  %y : Tensor = aten::matmul(%w, %v)
)",
                                     masking)));
    Tensor seen = flags({4, 6}, 4);
    for (int64_t i = 0; i < 4; ++i) seen.data<bool>()[6 * i] = false;
    c.expectClose(inputs(seen, 4, 6));
  }
}

// What is added to scores may be made of them.
TEST(AttentionLayer, ScoresAddedToThemselves) {
  for (const char* masking :
       {"  %h : Tensor = aten::add(%p, %p, %one)\n", "  %h : Tensor = aten::add(%p, %p, %two)\n",
        "  %r : Tensor = aten::transpose(%p, %last, %before)\n  %h : Tensor = aten::add(%p, %r, %one)\n",
        "  %r : Tensor = aten::relu(%p)\n  %h : Tensor = aten::add(%r, %p, %one)\n",
        "  %e : Tensor = aten::mul(%p, %eighth)\n  %h : Tensor = aten::add(%e, %e, %one)\n"}) {
    SCOPED_TRACE(masking);
    EngineCase(graphOf(fmt::format(R"(  %kt : Tensor = aten::transpose(%k, %last, %before)
  %p : Tensor = aten::matmul(%q, %kt)
{}  %w : Tensor = aten::softmax(%h, %last, %none)
  %y : Tensor = aten::matmul(%w, %v)
)",
                                   masking)))
        .expectClose(inputs(randn({1}, 4), 6, 6));
  }
}

}  // namespace tscompile::test
