// A decoder as graph text, whose parts can be replaced.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace tscompile::test {

inline constexpr int64_t kWords = 13, kPositions = 24;

// A matrix of sines of squares, which is no table of waves. `dtype`: its number, 6 for float32.
inline std::string weight(const std::string& name, int64_t rows, int64_t columns, double factor, int dtype = 6) {
  return fmt::format(
      "  %{0}.n : int = prim::Constant[value={1}]()\n"
      "  %{0}.a : Tensor = aten::arange(%{0}.n, %6, %none, %none, %none)\n"
      "  %{0}.f : float = prim::Constant[value={2}]()\n"
      "  %{0}.q : Tensor = aten::mul(%{0}.a, %{0}.a)\n"
      "  %{0}.m : Tensor = aten::mul(%{0}.q, %{0}.f)\n"
      "  %{0}.s : Tensor = aten::sin(%{0}.m)\n"
      "  %{0}.d : int[] = prim::Constant[value=[{3}, {4}]]()\n"
      "  %{0}.32 : Tensor = aten::reshape(%{0}.s, %{0}.d)\n"
      "  %{0}.t : int = prim::Constant[value={5}]()\n"
      "  %{0} : Tensor = aten::to(%{0}.32, %{0}.t, %no, %no, %none)\n",
      name, rows * columns, factor, rows, columns, dtype);
}

// One layer with two heads. Parts are text: %x.ids and %x.positions become %x, heads %q, %k, %v [batch, 2, tokens, 4]
// become %o, and %logits are there when `returned` is read.
struct Decoder {
  std::string inputs = "%input_ids : Tensor, %position_ids : Tensor";
  std::string before =
      "  %b : int = aten::size(%input_ids, %0)\n  %s : int = aten::size(%input_ids, %1)\n"
      "  %x.ids : Tensor = aten::embedding(%words, %input_ids, %m1, %no, %no)\n";
  std::string positions = "  %x.positions : Tensor = aten::embedding(%places, %position_ids, %m1, %no, %no)\n";
  std::string mixing = "  %x : Tensor = aten::add(%x.ids, %x.positions, %1)\n";
  std::string attention = "  %o : Tensor = aten::scaled_dot_product_attention(%q, %k, %v, %none, %drop, %yes)\n";
  std::string returned = "  return (%logits)\n";
  int64_t words = kWords;
  int dtype = 6;  // of weights, by its number

  std::string text() const {
    std::string out = "graph(" + inputs + "):\n";
    for (int i : {0, 1, 2, 3, 4, 6, 8}) out += fmt::format("  %{0} : int = prim::Constant[value={0}]()\n", i);
    out +=
        "  %m1 : int = prim::Constant[value=-1]()\n  %none : NoneType = prim::Constant()\n"
        "  %no : bool = prim::Constant[value=0]()\n  %yes : bool = prim::Constant[value=1]()\n"
        "  %drop : float = prim::Constant[value=0.]()\n  %far : float = prim::Constant[value=-1e30]()\n"
        "  %max : int = prim::Constant[value=9223372036854775807]()\n";
    out += weight("words", words, 8, 1.7, dtype) + weight("places", kPositions, 8, 2.3, dtype) +
           weight("wq", 8, 8, 0.9, dtype) + weight("wk", 8, 8, 1.3, dtype) + weight("wv", 8, 8, 2.9, dtype) +
           weight("wo", 8, 8, 3.1, dtype);
    out += before + positions + mixing + "  %heads : int[] = prim::ListConstruct(%b, %s, %2, %4)\n";
    for (const char* part : {"q", "k", "v"})
      out += fmt::format(
          "  %{0}.rows : Tensor = aten::linear(%x, %w{0}, %none)\n"
          "  %{0}.split : Tensor = aten::reshape(%{0}.rows, %heads)\n"
          "  %{0} : Tensor = aten::transpose(%{0}.split, %1, %2)\n",
          part);
    out += attention;
    return out +
           "  %o.split : Tensor = aten::transpose(%o, %1, %2)\n  %o.rows : Tensor = aten::flatten(%o.split, %2, %3)\n"
           "  %o.out : Tensor = aten::linear(%o.rows, %wo, %none)\n  %y : Tensor = aten::add(%x, %o.out, %1)\n"
           "  %logits : Tensor = aten::linear(%y, %words, %none)\n" +
           returned;
  }
};

// Scores with a mask, and their softmax.
inline std::string written(const std::string& masked) {
  return "  %k.t : Tensor = aten::transpose(%k, %2, %3)\n  %scores : Tensor = aten::matmul(%q, %k.t)\n" + masked +
         "  %p : Tensor = aten::softmax(%masked, %m1, %none)\n  %o : Tensor = aten::matmul(%p, %v)\n";
}
inline const std::string kCounted =
    "  %at : Tensor = aten::arange(%s, %none, %none, %none, %none)\n"
    "  %x.positions : Tensor = aten::embedding(%places, %at, %m1, %no, %no)\n";
// Rows and columns of a mask, by number.
inline const std::string kRows =
    "  %at.m : Tensor = aten::arange(%s, %none, %none, %none, %none)\n  %row : Tensor = aten::unsqueeze(%at.m, %1)\n";

// Positions come from a table of which only some ids make use: nothing says how long texts may be.
inline Decoder decoderOfUncountedPlaces() {
  Decoder d;
  d.mixing = "  %z : Tensor = aten::add(%x.ids, %x.positions, %1)\n  %x : Tensor = aten::cumsum(%z, %1, %none)\n";
  d.positions =
      "  %flat : Tensor = aten::cumsum(%input_ids, %1, %none)\n  %zero : Tensor = aten::mul(%flat, %0)\n"
      "  %at : Tensor = aten::add(%position_ids, %zero, %1)\n"
      "  %x.positions : Tensor = aten::embedding(%places, %at, %m1, %no, %no)\n";
  return d;
}

}  // namespace tscompile::test
