#include "runtime/reference/sorting.h"

#include "ir/values/error.h"
#include "runtime/reference/loops/lanes.h"

#include <algorithm>
#include <bit>

namespace tscompile {
namespace {

// ---- keys: unsigned integers in the order of the elements ----

template <class Key, class T>
Key floatKey(T v) {
  constexpr Key kSign = Key{1} << (sizeof(Key) * 8 - 1);
  if (v != v) return ~Key{0};
  Key bits = std::bit_cast<Key>(v + T(0));  // -0 becomes 0
  return bits & kSign ? ~bits : bits | kSign;
}
uint32_t keyOf(float v) { return floatKey<uint32_t>(v); }
uint64_t keyOf(double v) { return floatKey<uint64_t>(v); }
uint64_t keyOf(int64_t v) {
  return static_cast<uint64_t>(v) ^ uint64_t { 1 } << 63;
}

// A key and a position. No two items of a run are equal, so that any sort by `<` is stable.
struct Item32 {
  uint64_t packed;
  Item32() = default;
  Item32(uint32_t key, uint32_t index) : packed(uint64_t{key} << 32 | index) {}
  uint32_t key() const { return static_cast<uint32_t>(packed >> 32); }
  uint32_t index() const { return static_cast<uint32_t>(packed); }
  friend bool operator<(const Item32& a, const Item32& b) { return a.packed < b.packed; }
};
struct Item64 {
  uint64_t key_;
  uint32_t index_;
  Item64() = default;
  Item64(uint64_t key, uint32_t index) : key_(key), index_(index) {}
  uint64_t key() const { return key_; }
  uint32_t index() const { return index_; }
  friend bool operator<(const Item64& a, const Item64& b) {
    return a.key_ != b.key_ ? a.key_ < b.key_ : a.index_ < b.index_;
  }
};
template <class T>
using ItemOf = std::conditional_t<std::is_same_v<T, float>, Item32, Item64>;

// From the lowest byte of the keys to the highest, each pass stable. Bytes that all keys share need no pass. Returns
// where the sorted items are: in `items` or in `other`.
template <class Item>
Item* radixSort(Item* items, Item* other, int64_t n) {
  constexpr int kBytes = sizeof(decltype(items->key()));
  uint32_t counts[kBytes][256] = {};
  for (int64_t i = 0; i < n; ++i)
    for (int b = 0; b < kBytes; ++b) ++counts[b][items[i].key() >> (8 * b) & 0xff];
  for (int b = 0; b < kBytes; ++b) {
    uint32_t* count = counts[b];
    if (count[items[0].key() >> (8 * b) & 0xff] == n) continue;
    uint32_t start = 0;
    for (int v = 0; v < 256; ++v) start += std::exchange(count[v], start);
    for (int64_t i = 0; i < n; ++i) other[count[items[i].key() >> (8 * b) & 0xff]++] = items[i];
    std::swap(items, other);
    RunContext::current().checkInterrupt(n);
  }
  return items;
}

constexpr int64_t kRadixFrom = 256;  // shorter runs are sorted by comparing

}  // namespace

template <class Item>
Item* Sorter::items(int64_t n) {
  auto words = static_cast<int64_t>(sizeof(Item) / sizeof(int64_t));
  if (!scratch_.defined() || scratch_.numel() < 2 * n * words) {
    scratch_ = Tensor();
    scratch_ = Tensor::empty(DType::Int64, Dims{2 * n * words});
    order_ = Tensor::empty(DType::Int32, Dims{n});
  }
  return reinterpret_cast<Item*>(scratch_.raw());
}

template <class T>
std::span<const uint32_t> Sorter::order(const T* run, int64_t n, bool descending, bool stable) {
  using Item = ItemOf<T>;
  if (n > int64_t{UINT32_MAX})
    throw ExecutionError(ErrorKind::Unsupported, "dimensions of 2^32 elements and more cannot be sorted");
  if (n == 0) return {};
  Item* sorted = items<Item>(n);
  for (int64_t i = 0; i < n; ++i) {
    auto key = keyOf(run[i]);
    sorted[i] = Item(descending ? ~key : key, static_cast<uint32_t>(i));
  }
  if (!stable)
    std::sort(sorted, sorted + n, [](const Item& a, const Item& b) { return a.key() < b.key(); });
  else if (n < kRadixFrom)
    std::sort(sorted, sorted + n);
  else
    sorted = radixSort(sorted, sorted + n, n);
  auto* out = reinterpret_cast<uint32_t*>(order_.raw());
  for (int64_t i = 0; i < n; ++i) out[i] = sorted[i].index();
  return {out, static_cast<size_t>(n)};
}

template std::span<const uint32_t> Sorter::order(const float*, int64_t, bool, bool);
template std::span<const uint32_t> Sorter::order(const double*, int64_t, bool, bool);
template std::span<const uint32_t> Sorter::order(const int64_t*, int64_t, bool, bool);

void sortInto(const Tensor& in, int64_t dim, bool descending, bool stable, const Tensor& values,
              const Tensor& indices) {
  Sorter sorter;
  withRealCompute(in.dtype(), [&](auto sample) {
    using T = decltype(sample);
    auto sortLane = [&](const T* lane, int64_t n, int64_t* at) {
      std::span<const uint32_t> order = sorter.order(lane, n, descending, stable);
      std::copy(order.begin(), order.end(), at);
      return order;
    };
    if (!values.defined()) return forEachLane(sortLane, Lanes<T>(in, dim), Lanes<int64_t>(indices, dim));
    forEachLane(
        [&](const T* lane, int64_t n, T* out, int64_t* at) {
          for (uint32_t i : sortLane(lane, n, at)) *out++ = lane[i];
        },
        Lanes<T>(in, dim), Lanes<T>(values, dim), Lanes<int64_t>(indices, dim));
  });
}

}  // namespace tscompile
