// Values that share and hold each other: what walks over them ends, and looks at each once.
#include "ir/values/ivalue.h"

#include "ir/support/diagnostics.h"
#include "ir/support/result.h"
#include "ir/values/error.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace tscompile::test {
namespace {

// Each list holds the one before it twice.
IValue doubled(int levels) {
  IValue v = 1;
  for (int i = 0; i < levels; ++i) v = Ref<ListValue>::make(types().any, std::vector<IValue>{v, v});
  return v;
}

}  // namespace

TEST(IValue, ComparesWhatIsSharedOnce) {
  EXPECT_TRUE(valuesEqual(doubled(100), doubled(100)));
  EXPECT_FALSE(valuesEqual(doubled(100), doubled(99)));
}

TEST(IValue, ComparesListsThatHoldThemselves) {
  auto a = Ref<ListValue>::make(types().any, std::vector<IValue>{IValue(1)});
  auto b = Ref<ListValue>::make(types().any, std::vector<IValue>{IValue(1)});
  a->items.push_back(IValue(a));
  b->items.push_back(IValue(b));
  EXPECT_TRUE(valuesEqual(IValue(a), IValue(b)));
  b->items[0] = int64_t{2};
  EXPECT_FALSE(valuesEqual(IValue(a), IValue(b)));
  a->items.clear();
  b->items.clear();
}

TEST(IValue, CopiesWhatIsSharedOnce) {
  IValue copy = copyContainers(doubled(100), true);
  ListValue& outer = copy.toList();
  EXPECT_TRUE(outer.items[0].isSame(outer.items[1]));
  EXPECT_TRUE(outer.items[0].toList().shared);
  auto own = Ref<ListValue>::make(types().any, std::vector<IValue>());
  own->items.push_back(IValue(own));
  IValue itself = copyContainers(IValue(own), false);
  EXPECT_TRUE(itself.toList().items[0].isSame(itself));
  EXPECT_FALSE(itself.isSame(IValue(own)));
  itself.toList().items.clear();
  own->items.clear();
}

std::string refusal(const std::function<void()>& read) {
  try {
    read();
  } catch (const ExecutionError& e) {
    return e.message();
  }
  return "";
}

TEST(IValue, ReadAsSomethingElseIsAnError) {
  const IValue number = 3, tensor = Tensor::zeros(DType::Float32, {2, 3}), none;
  EXPECT_EQ(refusal([&] { number.toTensor(); }), "expected Tensor, found int");
  EXPECT_EQ(refusal([&] { tensor.toTuple(); }), "expected tuple, found Tensor");
  EXPECT_EQ(refusal([&] { none.toInt(); }), "expected int, found None");
  EXPECT_EQ(refusal([&] { number.toFloat(); }), "expected float, found int");
  EXPECT_EQ(refusal([&] { tensor.toString(); }), "expected str, found Tensor");
  EXPECT_EQ(refusal([&] { number.toInt(), tensor.toTensor(), number.toDouble(); }), "");
}

TEST(IValue, ElementsOfAnotherSizeAreAnError) {
  const Tensor t = Tensor::zeros(DType::Float32, {2, 3});
  EXPECT_EQ(refusal([&] { t.data<double>(); }), "elements of float32, which have 4 bytes, were read as if they had 8");
  EXPECT_EQ(refusal([&] { t.data<float>(); }), "");
  EXPECT_EQ(refusal([&] { t.data<std::byte>(); }), "");
}

TEST(IValue, ElementsOfAnotherKindAreAnError) {
  const Tensor whole = Tensor::zeros(DType::Int64, {2}), floats = Tensor::zeros(DType::Float64, {2});
  EXPECT_EQ(refusal([&] { whole.data<double>(); }), "elements of int64 were read as float64");
  EXPECT_EQ(refusal([&] { floats.data<int64_t>(); }), "elements of float64 were read as int64");
  EXPECT_EQ(refusal([&] { Tensor::zeros(DType::Int32, {2}).data<float>(); }), "elements of int32 were read as float32");
  EXPECT_EQ(refusal([&] { floats.data<uint64_t>(); }), "");
  EXPECT_EQ(refusal([&] { Tensor::zeros(DType::Complex64, {2}).data<float>(); }), "");
}

TEST(IValue, TensorsAreCopiesOfVectors) {
  const std::vector<float> values = {1, 2, 3};
  EXPECT_EQ(Tensor::of({1, 3}, values).data<float>()[2], 3);
  EXPECT_EQ(Tensor::of<float>({3, 1}, values).size(0), 3);
  EXPECT_EQ(refusal([&] { Tensor::of({2, 2}, values); }), "a tensor of size [2, 2] has 4 elements, and 3 were given");
  EXPECT_EQ(IValue(3u).toInt(), 3);
}

TEST(ResultDeathTest, FailedOnesAreTheCallersMistake) {
  Diagnostics d;
  d.error("there is no such file", ErrorKind::Io);
  const Result<int> failed = Failed{};
  EXPECT_DEATH(failed.value(), "mistake of the program that calls this library: a failed Result was used: there is no");
}

TEST(IValue, SizesAreWrittenInBraces) {
  const float elements[] = {1, 2, 3, 4};
  const Tensor borrowed = Tensor::borrow(DType::Float32, {2, 2}, elements);
  EXPECT_TRUE(borrowed.storage()->readOnly());
  EXPECT_EQ(borrowed.raw(), reinterpret_cast<const std::byte*>(elements));
  float own[] = {1, 2};
  EXPECT_FALSE(Tensor::borrow(DType::Float32, {2}, own).storage()->readOnly());
  EXPECT_EQ(Tensor::zeros(DType::Int64, {}).rank(), 0);
  EXPECT_EQ(intList({1, 2}).toList().items.size(), 2u);
}

TEST(IValue, SmallContainersAreCounted) {
  auto budget = Ref<MemoryBudget>::make(uint64_t{1} << 20);
  BudgetScope scope(budget.get());
  {
    IValue v = tuple({});
    for (int i = 0; i < 100; ++i) v = tuple({v});
    EXPECT_GT(budget->used(), 100u * 64);
  }
  EXPECT_EQ(budget->used(), 0u);
}

}  // namespace tscompile::test
