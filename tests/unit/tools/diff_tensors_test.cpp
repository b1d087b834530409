#include "tools/reports/diff_tensors.h"

#include <gtest/gtest.h>

namespace tscompile {
namespace {

std::string textOf(const std::vector<TensorChange>& changes) {
  std::string out;
  for (const TensorChange& c : changes) out += c.name + ": " + c.text + "\n";
  return out;
}

TEST(DiffTensors, NumbersAreNoNamesOfConstants) {
  const Tensor small = Tensor::of({2}, std::vector<float>{1, 2}), large = Tensor::of({3}, std::vector<float>{1, 2, 3});
  const Tensor other = Tensor::of({2}, std::vector<float>{1, 5});
  // As constants are numbered in files that were compiled for other sizes.
  EXPECT_EQ(textOf(changedConstants({{"229.0", small}, {"230", large}}, {{"767", large}, {"229.0", small}})), "");
  EXPECT_EQ(textOf(changedConstants({{"1", small}, {"2", large}}, {{"1", large}, {"2", other}})),
            "1: the elements differ by 3 at most\n");
  const Tensor half = Tensor::of({2}, std::vector<double>{1, 2});
  EXPECT_EQ(textOf(changedConstants({{"9", small}, {"10", other}}, {{"10", half}, {"11", half}, {"12", half}})),
            "10: f32 [2], then f64 [2]\n12: f64 [2], only in the second\n9: f32 [2], then f64 [2]\n");
  EXPECT_EQ(textOf(changedConstants({{"1", small}, {"2", small}}, {{"3", small}})), "2: f32 [2], only in the first\n");
}

TEST(DiffTensors, NumbersAreNamesOfWeights) {
  const Tensor one = Tensor::of({2}, std::vector<float>{1, 2}), other = Tensor::of({2}, std::vector<float>{1, 5});
  EXPECT_EQ(textOf(changedTensors({{"0", one}, {"1", other}}, {{"0", other}, {"1", one}})),
            "0: the elements differ by 3 at most\n1: the elements differ by 3 at most\n");
  const std::set<std::string> constants[] = {{"7"}, {"8"}};
  EXPECT_EQ(textOf(changedConstants({{"0", one}, {"1", other}, {"7", one}}, {{"0", other}, {"1", one}, {"8", one}},
                                    constants)),
            "0: the elements differ by 3 at most\n1: the elements differ by 3 at most\n");
}

TEST(DiffTensors, NamesAre) {
  const Tensor one = Tensor::of({2}, std::vector<float>{1, 2}), other = Tensor::of({2}, std::vector<float>{1, 5});
  EXPECT_EQ(textOf(changedTensors({{"a.0", one}}, {{"b.0", one}})),
            "a.0: f32 [2], only in the first\nb.0: f32 [2], only in the second\n");
  EXPECT_EQ(textOf(changedTensors({{"a", one}}, {{"a", other}})), "a: the elements differ by 3 at most\n");
}

}  // namespace
}  // namespace tscompile
