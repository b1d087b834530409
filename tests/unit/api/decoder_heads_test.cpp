// Heads of queries, keys and values are found however they are put in order.
#include "tests/unit/api/decoders.h"

namespace tscompile::test {

TEST_F(Decoders, HeadsMayBeOneDimensionWithTexts) {
  Decoder d;
  d.attention = kRows + "  %later : Tensor = aten::gt(%at.m, %row)\n  %all : int = aten::mul(%b, %2)\n" +
                "  %sizes : int[] = prim::ListConstruct(%s, %all, %4)\n  %x.t : Tensor = aten::transpose(%x, %0, %1)\n";
  for (const char* part : {"q", "k", "v"})
    d.attention += fmt::format(
        "  %{0}.l : Tensor = aten::linear(%x.t, %w{0}, %none)\n  %{0}.m : Tensor = aten::reshape(%{0}.l, %sizes)\n"
        "  %{0}.f : Tensor = aten::transpose(%{0}.m, %0, %1)\n",
        part);
  d.attention +=
      "  %k.t : Tensor = aten::transpose(%k.f, %1, %2)\n  %scores : Tensor = aten::bmm(%q.f, %k.t)\n"
      "  %masked : Tensor = aten::masked_fill(%scores, %later, %far)\n"
      "  %p : Tensor = aten::softmax(%masked, %m1, %none)\n  %o.f : Tensor = aten::bmm(%p, %v.f)\n"
      "  %o.t : Tensor = aten::transpose(%o.f, %0, %1)\n  %four : int[] = prim::ListConstruct(%s, %b, %2, %4)\n"
      "  %o.4 : Tensor = aten::reshape(%o.t, %four)\n  %order : int[] = prim::Constant[value=[1, 2, 0, 3]]()\n"
      "  %o : Tensor = aten::permute(%o.4, %order)\n";
  expectServed(d);
  EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::Paged) << messages();
}

// Keys of tokens before texts, put in the order of texts and turned at once.
TEST_F(Decoders, KeysMayBeTurnedAsTheyAreOrdered) {
  Decoder d;
  d.attention = kRows +
                "  %later : Tensor = aten::gt(%at.m, %row)\n  %sizes : int[] = prim::ListConstruct(%s, %b, %2, %4)\n"
                "  %x.first : Tensor = aten::transpose(%x, %0, %1)\n  %x.t : Tensor = aten::relu(%x.first)\n";
  for (auto [part, order] : {std::pair{"q", "1, 2, 0, 3"}, {"k", "1, 2, 3, 0"}, {"v", "1, 2, 0, 3"}})
    d.attention += fmt::format(
        "  %{0}.l : Tensor = aten::linear(%x.t, %w{0}, %none)\n  %{0}.m : Tensor = aten::reshape(%{0}.l, %sizes)\n"
        "  %{0}.order : int[] = prim::Constant[value=[{1}]]()\n  %{0}.f : Tensor = aten::permute(%{0}.m, %{0}.order)\n",
        part, order);
  d.attention +=
      "  %scores : Tensor = aten::matmul(%q.f, %k.f)\n"
      "  %masked : Tensor = aten::masked_fill(%scores, %later, %far)\n"
      "  %p : Tensor = aten::softmax(%masked, %m1, %none)\n  %o : Tensor = aten::matmul(%p, %v.f)\n";
  expectServed(d);
  EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::Paged) << messages();
}

// Heads that are turned in pairs and made rows at once.
TEST_F(Decoders, PairsMayBecomeRowsOfAllHeads) {
  Decoder d;
  d.attention = kRows +
                "  %later : Tensor = aten::gt(%at.m, %row)\n  %all : int = aten::mul(%b, %2)\n"
                "  %rows : int[] = prim::ListConstruct(%all, %s, %4)\n"
                "  %four : int[] = prim::ListConstruct(%b, %2, %s, %s)\n";
  for (const char* part : {"q", "k"})
    d.attention += fmt::format(
        "  %{0}.even : Tensor = aten::slice(%{0}, %3, %0, %max, %2)\n"
        "  %{0}.odd : Tensor = aten::slice(%{0}, %3, %1, %max, %2)\n  %{0}.less : Tensor = aten::neg(%{0}.odd)\n"
        "  %{0}.list : Tensor[] = prim::ListConstruct(%{0}.less, %{0}.even)\n"
        "  %{0}.pairs : Tensor = aten::stack(%{0}.list, %m1)\n  %{0}.f : Tensor = aten::reshape(%{0}.pairs, %rows)\n",
        part);
  d.attention +=
      "  %k.t : Tensor = aten::transpose(%k.f, %1, %2)\n  %scores.f : Tensor = aten::bmm(%q.f, %k.t)\n"
      "  %scores : Tensor = aten::reshape(%scores.f, %four)\n"
      "  %masked : Tensor = aten::masked_fill(%scores, %later, %far)\n"
      "  %p : Tensor = aten::softmax(%masked, %m1, %none)\n  %o : Tensor = aten::matmul(%p, %v)\n";
  expectServed(d);
  EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::Paged) << messages();
}

}  // namespace tscompile::test
