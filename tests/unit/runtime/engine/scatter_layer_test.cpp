// Scatters in engines: every way to join, along each dimension, by indices that are expanded or not.
#include "tests/support/engine_case.h"

#include <fmt/core.h>

namespace tscompile::test {
namespace {

Tensor indices(DimSpan sizes, int64_t below) {
  Tensor t = Tensor::empty(DType::Int64, sizes);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<int64_t>()[i] = i * 7919 % 104729 % below;
  return t;
}

// `call`: the operator and what follows its index, of which %s is a source.
std::string graphOf(int dim, std::string_view op, std::string_view behind) {
  return fmt::format(R"(graph(%x : Tensor, %i0 : Tensor, %s : Tensor):
  %dim : int = prim::Constant[value={}]()
  %how : str = prim::Constant[value="amax"]()
  %least : str = prim::Constant[value="amin"]()
  %product : str = prim::Constant[value="prod"]()
  %add : str = prim::Constant[value="add"]()
  %sum : str = prim::Constant[value="sum"]()
  %mean : str = prim::Constant[value="mean"]()
  %t : bool = prim::Constant[value=1]()
  %v : float = prim::Constant[value=2.5]()
  %f : bool = prim::Constant[value=0]()
  %i : Tensor = aten::expand_as(%i0, %s)
  %y : Tensor = aten::{}(%x, %dim, %i, {})
  return (%y)
)",
                     dim, op, behind);
}

}  // namespace

TEST(ScatterLayer, JoinsAsTheInterpreterDoes) {
  const Dims sizes{40, 30, 50};
  for (int dim : {0, 1, 2})
    for (bool expands : {false, true})
      for (auto [op, behind] :
           {std::pair("scatter", "%s"), std::pair("scatter", "%v"), std::pair("scatter", "%s, %add"),
            std::pair("scatter_add", "%s"), std::pair("scatter_reduce", "%s, %how, %t"),
            std::pair("scatter_reduce", "%s, %least, %t"), std::pair("scatter_reduce", "%s, %product, %t"),
            std::pair("scatter_reduce", "%s, %mean, %t"), std::pair("scatter_reduce", "%s, %mean, %f"),
            std::pair("scatter_reduce", "%s, %how, %f"), std::pair("scatter_reduce", "%s, %sum, %f")}) {
        Dims of = sizes;
        if (expands)
          for (size_t d = 0; d < 3; ++d) of[d] = d == static_cast<size_t>(dim) ? sizes[d] : 1;
        const std::string graph = graphOf(dim, op, behind);
        SCOPED_TRACE(graph);
        EngineCase c(graph);
        const Tensor x = randn(sizes, 1), i = indices(of, sizes[static_cast<size_t>(dim)]), s = randn(sizes, 2);
        EXPECT_NE(c.layers({x, i, s}).find("scatter"), std::string::npos);
        EXPECT_EQ(c.layers({x, i, s}).find("kernel"), std::string::npos) << c.layers({x, i, s}, true);
        c.expectClose({x, i, s}, 0);
      }
}

TEST(ScatterLayer, ManyElementsOfOneRow) {
  const std::string graph = R"(graph(%x : Tensor, %i : Tensor, %s : Tensor):
  %dim : int = prim::Constant[value=0]()
  %y : Tensor = aten::scatter_add(%x, %dim, %i, %s)
  return (%y)
)";
  EngineCase c(graph);
  const Tensor x = randn({1000}, 1), i = indices(Dims{50000}, 1000), s = randn({50000}, 2);
  EXPECT_EQ(c.layers({x, i, s}), "scatter");
  c.expectClose({x, i, s}, 0);
}

}  // namespace tscompile::test
