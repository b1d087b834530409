// Heads that share keys and values, in the ways that people write them down, get a cache of keys and values in blocks.
#include "tests/unit/api/decoders.h"

namespace tscompile::test {
namespace {

class DecoderGroups : public Decoders {
 protected:
  // Two heads of queries, of one head for keys and values: %q4 [b, s, 1, 2, 4], %k4 and %v4 [b, s, 1, 4], %k3 and %v3
  // [b, s, 4].
  void expectBlocks(const std::string& attention) {
    Decoder d;
    d.attention = kRows +
                  "  %later : Tensor = aten::gt(%at.m, %row)\n"
                  "  %g.q : int[] = prim::ListConstruct(%b, %s, %1, %2, %4)\n"
                  "  %q4 : Tensor = aten::reshape(%q.rows, %g.q)\n"
                  "  %k3 : Tensor = aten::slice(%k.rows, %2, %0, %4, %1)\n"
                  "  %v3 : Tensor = aten::slice(%v.rows, %2, %4, %8, %1)\n"
                  "  %k4 : Tensor = aten::unsqueeze(%k3, %2)\n  %v4 : Tensor = aten::unsqueeze(%v3, %2)\n" +
                  attention;
    expectServed(d);
    Result<BuiltModel> built = readBuiltModel(folder_, diagnostics_);
    ASSERT_TRUE(built) << messages();
    EXPECT_EQ(built->config.kvCacheType, KvCacheType::Paged) << messages() << attention;
    EXPECT_EQ(built->shape.heads, 2);
    EXPECT_EQ(built->shape.kvHeads, 1);
  }
  // einsum(letters, [a, b])
  static std::string product(const std::string& name, const std::string& letters, const std::string& a,
                             const std::string& b) {
    return fmt::format(
        "  %{0}.e : str = prim::Constant[value=\"{1}\"]()\n  %{0}.l : Tensor[] = prim::ListConstruct({2}, {3})\n"
        "  %{0} : Tensor = aten::einsum(%{0}.e, %{0}.l, %none)\n",
        name, letters, a, b);
  }
  const std::string softmax_ =
      "  %masked : Tensor = aten::masked_fill(%scores, %later, %far)\n"
      "  %p : Tensor = aten::softmax(%masked, %m1, %none)\n";
  const std::string rows_ = "  %o : Tensor = aten::flatten(%o.g, %1, %2)\n";
};

TEST_F(DecoderGroups, WithLettersForGroupsOfHeads) {
  const std::string outside = "  %q.o : Tensor = aten::permute(%q4, %o.dims)\n",
                    dims = "  %o.dims : int[] = prim::Constant[value=[0, 2, 3, 1, 4]]()\n";
  const std::string inRows =
      "  %o.f : Tensor = aten::flatten(%o.g, %2, %3)\n  %o : Tensor = aten::transpose(%o.f, %1, %2)\n";
  expectBlocks(product("scores", "btkgd,bskd->bkgts", "%q4", "%k4") + softmax_ +
               product("o.g", "bkgts,bskd->btkgd", "%p", "%v4") + inRows);
  expectBlocks(dims + outside + product("scores", "bkgtd,bskd->bkgts", "%q.o", "%k4") + softmax_ +
               product("o.g", "bkgts,bskd->bkgtd", "%p", "%v4") + rows_);
  // Keys and values come first.
  expectBlocks(product("scores", "bskd,btkgd->bkgts", "%k4", "%q4") + softmax_ +
               product("o.g", "bskd,bkgts->btkgd", "%v4", "%p") + inRows);
}

TEST_F(DecoderGroups, WithoutALetterForTheOneHeadOfKeys) {
  expectBlocks(product("scores", "bhtd,bsd->bhts", "%q", "%k3") + softmax_ +
               product("o", "bhts,bsd->bhtd", "%p", "%v3"));
  const std::string inside = "  %q.i : Tensor = aten::transpose(%q, %1, %2)\n";
  expectBlocks(inside + product("scores", "bthd,bsd->bhts", "%q.i", "%k3") + softmax_ +
               product("o.i", "bhts,bsd->bthd", "%p", "%v3") + "  %o : Tensor = aten::transpose(%o.i, %1, %2)\n");
}

TEST_F(DecoderGroups, AsRowsOfOneProduct) {
  // [b, heads * s, 4] @ [b, 4, s]
  const std::string folded =
      "  %q.f : Tensor = aten::flatten(%q, %1, %2)\n  %k.t : Tensor = aten::transpose(%k3, %1, %2)\n"
      "  %scores.f : Tensor = aten::bmm(%q.f, %k.t)\n  %four : int[] = prim::ListConstruct(%b, %2, %s, %s)\n"
      "  %scores : Tensor = aten::view(%scores.f, %four)\n";
  expectBlocks(folded + softmax_ +
               "  %three : int[] = prim::ListConstruct(%b, %m1, %s)\n  %p.f : Tensor = aten::view(%p, %three)\n"
               "  %o.f : Tensor = aten::bmm(%p.f, %v3)\n  %o.four : int[] = prim::ListConstruct(%b, %2, %s, %4)\n"
               "  %o : Tensor = aten::view(%o.f, %o.four)\n");
}

TEST_F(DecoderGroups, AsDimensionsThatKeysAreRepeatedIn) {
  const std::string five =
      "  %dims : int[] = prim::Constant[value=[0, 2, 3, 1, 4]]()\n  %q5 : Tensor = aten::permute(%q4, %dims)\n"
      "  %k.h : Tensor = aten::transpose(%k4, %1, %2)\n  %k5 : Tensor = aten::unsqueeze(%k.h, %2)\n"
      "  %v.h : Tensor = aten::transpose(%v4, %1, %2)\n  %v5 : Tensor = aten::unsqueeze(%v.h, %2)\n"
      "  %k5.t : Tensor = aten::transpose(%k5, %3, %4)\n  %scores : Tensor = aten::matmul(%q5, %k5.t)\n";
  expectBlocks(five + softmax_ + "  %o.g : Tensor = aten::matmul(%p, %v5)\n" + rows_);
  // Biases that grow with the distance, for each head of a group its own.
  expectBlocks(five + weight("slopes", 2, 1, 0.4) +
               "  %s.dims : int[] = prim::Constant[value=[1, 2, 1, 1]]()\n"
               "  %by : Tensor = aten::reshape(%slopes, %s.dims)\n  %bias : Tensor = aten::mul(%by, %at.m)\n"
               "  %biased : Tensor = aten::add(%scores, %bias, %1)\n"
               "  %masked : Tensor = aten::masked_fill(%biased, %later, %far)\n"
               "  %p : Tensor = aten::softmax(%masked, %m1, %none)\n  %o.g : Tensor = aten::matmul(%p, %v5)\n" +
               rows_);
}

// Groups in front of the heads of keys: the plugin has them behind, so that states are kept.
TEST_F(DecoderGroups, InAnotherOrderAreNotTakenForOurs) {
  Decoder d;
  d.attention = kRows +
                "  %later : Tensor = aten::gt(%at.m, %row)\n"
                "  %g.q : int[] = prim::ListConstruct(%b, %s, %2, %2, %2)\n"
                "  %q4 : Tensor = aten::reshape(%q.rows, %g.q)\n"
                "  %g.k : int[] = prim::ListConstruct(%b, %s, %2, %2)\n"
                "  %k2 : Tensor = aten::slice(%k.rows, %2, %0, %4, %1)\n"
                "  %v2 : Tensor = aten::slice(%v.rows, %2, %4, %8, %1)\n"
                "  %k4 : Tensor = aten::reshape(%k2, %g.k)\n  %v4 : Tensor = aten::reshape(%v2, %g.k)\n" +
                product("scores", "btgkd,bskd->bgkts", "%q4", "%k4") + softmax_ +
                product("o.g", "bgkts,bskd->btgkd", "%p", "%v4") +
                "  %o.r : Tensor = aten::flatten(%o.g, %2, %4)\n  %o.s : Tensor = aten::reshape(%o.r, %heads)\n"
                "  %o : Tensor = aten::transpose(%o.s, %1, %2)\n";
  expectServed(d);
}

}  // namespace
}  // namespace tscompile::test
