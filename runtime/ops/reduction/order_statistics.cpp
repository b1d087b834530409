// kthvalue, median, nanmedian, mode, quantile, nanquantile.
#include "runtime/engine/layers/lane_layer.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/lanes.h"
#include "runtime/reference/pytorch_words.h"
#include "runtime/reference/reduction_call.h"
#include "runtime/reference/views.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tscompile {
namespace {

template <class T>
bool isUnordered(T v) {
  return v != v;
}
// The order of sorting: NaN is larger than any number.
template <class T>
bool isLess(T a, T b) {
  return a < b || (isUnordered(b) && !isUnordered(a));
}

// The element of a lane and its position: results are the values and the indices.
template <class T>
struct Found {
  T value;
  int64_t index;
};

void inferAlongDim(InferCall& call) {
  TensorInfo t = call.tensor(0);
  size_t at = argumentIndex(call.op(), "dim");
  if (t.hasRank && t.rank() > 0) {
    int64_t dim = call.dim(at, t.rank());
    call.require(t.sizes[static_cast<size_t>(dim)] != 0, "{}(): expected reduction dim {} to have non-zero size",
                 call.op().kind().name(), dim);
  }
  inferReductions(call, {t.dtype, DType::Int64});
}

// Results that have a lane of one element for each lane of `in`.
Tensor withDim(const Tensor& out, const Tensor& in, int64_t dim) {
  if (in.rank() == 0) return out;
  Dims sizes(in.sizes());
  sizes[static_cast<size_t>(dim)] = 1;
  return reshaped(out, sizes);
}

// Calls find(lane, length) -> Found for every lane along the argument `dim`.
template <class T, class F>
void findInLanes(KernelCall& call, F&& find) {
  Tensor in = call.tensor(0);
  int64_t dim = call.dim(argumentIndex(call.op(), "dim"), in.rank());
  Tensor values = withDim(call.out(0), in, dim), indices = withDim(call.out(1), in, dim);
  auto f = [&](const T* lane, int64_t n, T* value, int64_t* index) {
    Found<T> found = find(lane, n);
    *value = found.value;
    *index = found.index;
  };
  forEachLane(f, Lanes<T>(in, dim), Lanes<T>(values, dim), Lanes<int64_t>(indices, dim));
}

// ---- kthvalue ----

void inferKthValue(InferCall& call) {
  inferAlongDim(call);
  TensorInfo t = call.tensor(0);
  if (!t.hasRank) return;
  int64_t k = call.integer(1), dim = call.dim(2, t.rank()), n = t.rank() ? t.sizes[static_cast<size_t>(dim)] : 1;
  call.require(k >= 1 && (!isKnownSize(n) || k <= n), "kthvalue(): selected number k out of range for dimension {}",
               dim);
}

// Hoare's selection around the median of three, in this very order of exchanges: among equal elements it finds the one
// that PyTorch finds.
template <class T>
void selectKth(std::vector<Found<T>>& items, int64_t k) {
  auto at = [&](int64_t i) -> Found<T>& { return items[static_cast<size_t>(i)]; };
  auto more = [&](int64_t a, int64_t b) { return isLess(at(b).value, at(a).value); };
  auto exchange = [&](int64_t a, int64_t b) { std::swap(at(a), at(b)); };
  int64_t low = 0, high = static_cast<int64_t>(items.size()) - 1;
  while (low + 1 < high) {
    exchange(low + (high - low) / 2, low + 1);
    if (more(low + 1, high)) exchange(low + 1, high);
    if (more(low, high)) exchange(low, high);
    if (more(low + 1, low)) exchange(low + 1, low);
    int64_t i = low + 1, j = high;
    while (true) {
      while (more(low, ++i)) {
      }
      while (more(--j, low)) {
      }
      if (j < i) break;
      exchange(i, j);
    }
    exchange(low, j);
    if (j <= k) low = i;
    if (j >= k) high = j - 1;
  }
  if (low + 1 == high && more(low, high)) exchange(low, high);
}

void kthValueKernel(KernelCall& call) {
  int64_t k = call.integer(1);
  withRealCompute(call.tensor(0).dtype(), [&](auto sample) {
    using T = decltype(sample);
    std::vector<Found<T>> items;
    findInLanes<T>(call, [&](const T* lane, int64_t n) {
      items.resize(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) items[static_cast<size_t>(i)] = {lane[i], i};
      selectKth(items, k - 1);
      return items[static_cast<size_t>(k - 1)];
    });
  });
}

// ---- median, nanmedian: the lower of two middle elements ----

template <class T>
Found<T> medianOf(const T* lane, int64_t n, bool skipNan, std::vector<int64_t>& positions) {
  int64_t nans = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!isUnordered(lane[i])) continue;
    if (!skipNan) return {lane[i], i};
    ++nans;
  }
  positions.resize(static_cast<size_t>(n));
  std::iota(positions.begin(), positions.end(), 0);
  auto middle = positions.begin() + std::max<int64_t>(n - nans - 1, 0) / 2;
  // Of equal elements the first counts as the smaller one.
  std::nth_element(positions.begin(), middle, positions.end(),
                   [&](int64_t a, int64_t b) { return isLess(lane[a], lane[b]) || (lane[a] == lane[b] && a < b); });
  return {lane[*middle], *middle};
}

template <bool kSkipNan>
void medianDimKernel(KernelCall& call) {
  withRealCompute(call.tensor(0).dtype(), [&](auto sample) {
    using T = decltype(sample);
    std::vector<int64_t> positions;
    findInLanes<T>(call, [&](const T* lane, int64_t n) { return medianOf(lane, n, kSkipNan, positions); });
  });
}

void inferMedian(InferCall& call) { call.result(call.tensor(0).dtype, Dims{}); }

template <bool kSkipNan>
void medianKernel(KernelCall& call) {
  Tensor in = call.tensor(0), out = call.out();
  if (in.numel() == 0) {
    // NaN, or what NaN becomes when a processor converts it.
    bool is32 = in.dtype() == DType::Int32;
    return copyTensor(
        out, scalarTensor(isFloating(in.dtype()) ? IValue(std::nan("")) : IValue(is32 ? INT32_MIN : INT64_MIN)));
  }
  if (in.dtype() == DType::Bool) throw DTypeRefused(in.dtype());
  withRealCompute(in.dtype(), [&](auto sample) {
    using T = decltype(sample);
    Tensor all = convertTensor(in, kDTypeOf<T>);
    std::vector<T> values(all.data<T>(), all.data<T>() + all.numel());
    auto numbers = std::partition(values.begin(), values.end(), [](T v) { return !isUnordered(v); });
    bool isAllNan = numbers == values.begin();
    T median = values.back();
    if (!isAllNan && (kSkipNan || numbers == values.end())) {
      auto middle = values.begin() + (numbers - values.begin() - 1) / 2;
      std::nth_element(values.begin(), middle, numbers);
      median = *middle;
    }
    tileStorer(kComputeOf<T>, out.dtype())(&median, out.raw(), 0, 1);
  });
}

// ---- mode: the most frequent element, of several the smallest ----

// PyTorch sorts by `<`, which knows no place for NaN: of few elements, one after the other is moved before those that
// it is less than, so that NaN divides them. Of more its result would be any; here NaN comes last then.
template <class T>
void sortForMode(std::vector<Found<T>>& items) {
  constexpr size_t kFew = 16;
  if (items.size() > kFew)
    return std::sort(items.begin(), items.end(),
                     [](const Found<T>& a, const Found<T>& b) { return isLess(a.value, b.value); });
  for (size_t i = 1; i < items.size(); ++i) {
    const Found<T> item = items[i];
    size_t to = item.value < items[0].value ? 0 : i;
    while (to > 0 && item.value < items[to - 1].value) --to;
    std::move_backward(items.begin() + static_cast<ptrdiff_t>(to), items.begin() + static_cast<ptrdiff_t>(i),
                       items.begin() + static_cast<ptrdiff_t>(i) + 1);
    items[to] = item;
  }
}

template <class T>
Found<T> modeOf(const T* lane, int64_t n, std::vector<Found<T>>& items) {
  items.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) items[static_cast<size_t>(i)] = {lane[i], i};
  sortForMode(items);
  Found<T> best = items[0];
  size_t most = 0;
  for (size_t start = 0, i = 0; i < items.size(); ++i) {
    bool ends = i + 1 == items.size() || items[i].value != items[i + 1].value;
    if (!ends) continue;
    if (i + 1 - start > most) {
      most = i + 1 - start;
      best = items[i];
    }
    start = i + 1;
  }
  return best;
}

void modeKernel(KernelCall& call) {
  withRealCompute(call.tensor(0).dtype(), [&](auto sample) {
    using T = decltype(sample);
    std::vector<Found<T>> items;
    findInLanes<T>(call, [&](const T* lane, int64_t n) { return modeOf(lane, n, items); });
  });
}

// ---- quantile, nanquantile ----

[[noreturn]] void failQuantile(const KernelCall& call, double q) {
  if (call.argument(1).isTensor()) call.fail("quantile() q values must be in the range [0, 1]");
  call.fail("quantile() q must be in the range [0, 1] but got {}", q);
}

void inferQuantile(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  call.require(t.dtype == DType::Float32 || t.dtype == DType::Float64 || t.dtype == DType::Undefined,
               "{}() input tensor must be either float or double dtype", call.op().kind().name());
  call.require(knownNumel(t.sizes) != 0, "{}() input tensor must be non-empty", call.op().kind().name());
  Dims reduced, sizes;
  bool all = call.isNone(2);
  if (all)
    for (size_t d = 0; d < t.rank(); ++d) reduced.push_back(static_cast<int64_t>(d));
  else
    reduced.push_back(call.dim(2, t.rank()));
  if (call.isTensor(1)) {
    TensorInfo q = call.rankedTensor(1);
    call.require(q.rank() <= 1, "q must be a number or have one dimension, not {}", q.rank());
    call.require(q.dtype == t.dtype || q.dtype == DType::Undefined || t.dtype == DType::Undefined,
                 "q must have the dtype {} of the input, not {}", pythonName(t.dtype), pythonName(q.dtype));
    sizes = Dims(q.sizes);
  }
  for (int64_t s : reducedSizes(t.sizes, reduced, call.flag(3))) sizes.push_back(s);
  call.result(t.dtype, sizes);
}

enum class Interpolation { Linear, Lower, Higher, Midpoint, Nearest };
Interpolation interpolationOf(const KernelCall& call) {
  const std::string& name = call.text(4);
  constexpr const char* kNames[] = {"linear", "lower", "higher", "midpoint", "nearest"};
  for (int i = 0; i < 5; ++i)
    if (name == kNames[i]) return static_cast<Interpolation>(i);
  call.fail("interpolation must be one of linear, lower, higher, midpoint or nearest, but got '{}'", name);
}

// The element of a sorted run at a rank between its positions.
template <class T>
T atRank(const std::vector<T>& sorted, T rank, Interpolation how) {
  auto at = [&](T r) { return sorted[static_cast<size_t>(r)]; };
  switch (how) {
    case Interpolation::Lower:
      return at(std::floor(rank));
    case Interpolation::Higher:
      return at(std::ceil(rank));
    case Interpolation::Nearest:
      return at(std::nearbyint(rank));
    default:
      break;
  }
  T below = at(std::floor(rank)), above = at(std::ceil(rank));
  T weight = how == Interpolation::Midpoint ? T(0.5) : rank - std::floor(rank);
  return weight < T(0.5) ? below + weight * (above - below) : above - (above - below) * (T(1) - weight);
}

// Puts the elements around these ranks where they stand in order. [begin, end) are numbers.
template <class It, class T>
void placeRanks(It begin, It end, const std::vector<T>& qs) {
  constexpr size_t kFew = 4;  // of more, all are put in order
  if (qs.size() > kFew) return std::sort(begin, end);
  const auto last = static_cast<T>(end - begin - 1);
  SmallVector<int64_t, 2 * kFew> places;
  for (T q : qs)
    for (T rank : {std::floor(q * last), std::ceil(q * last)}) places.push_back(static_cast<int64_t>(rank));
  std::sort(places.begin(), places.end());
  It from = begin;
  for (int64_t place : places) {
    if (begin + place < from) continue;
    std::nth_element(from, begin + place, end);
    from = begin + place + 1;
  }
}

// `out`: [lanes of `in`, number of qs].
template <class T>
void quantiles(const Tensor& in, int64_t dim, const std::vector<T>& qs, bool skipNan, Interpolation how,
               const Tensor& out) {
  std::vector<T> sorted;
  T* to = out.data<T>();
  Lanes<T> walk(in, dim);
  RunContext& context = RunContext::current();
  for (; walk.count() > 0; walk.next()) {
    walk.load();
    sorted.assign(walk.lane(0), walk.lane(0) + walk.length());
    auto numbers = std::partition(sorted.begin(), sorted.end(), [](T v) { return !isUnordered(v); });
    if (numbers != sorted.begin()) placeRanks(sorted.begin(), numbers, qs);
    bool nan = skipNan ? numbers == sorted.begin() : numbers != sorted.end();
    auto last = static_cast<T>(numbers - sorted.begin() - 1);
    for (T q : qs) *to++ = nan ? std::numeric_limits<T>::quiet_NaN() : atRank(sorted, q * last, how);
    context.checkInterrupt(walk.length() * 16);
  }
}

// The result, and the same elements in the order that they are computed in: those of one lane lie beside each other, as
// PyTorch has them.
std::pair<Tensor, Tensor> quantileResult(const KernelCall& call) {
  Dims sizes(call.spec().sizes);
  const bool areSeveral = call.argument(1).isTensor() && call.tensor(1).rank() == 1;
  if (areSeveral) std::rotate(sizes.begin(), sizes.begin() + 1, sizes.end());
  Tensor computed = Tensor::empty(call.spec().dtype, sizes);
  Dims order;
  for (int64_t d = 0; d < computed.rank(); ++d) order.push_back(areSeveral ? (d == 0 ? computed.rank() : d) - 1 : d);
  return {computed.permuted(order), computed};
}

template <bool kSkipNan>
void quantileKernel(KernelCall& call) {
  Tensor in = call.tensor(0);
  const std::pair<Tensor, Tensor> result = quantileResult(call);
  bool all = call.isNone(2);
  Interpolation how = interpolationOf(call);
  if (all) in = reshaped(in, Dims{in.numel()});
  int64_t dim = all ? 0 : call.dim(2, in.rank());
  call.require(in.rank() == 0 || in.size(static_cast<int>(dim)) <= 1 << 24, "quantile() input tensor is too large");
  withRealCompute(in.dtype(), [&](auto sample) {
    using T = decltype(sample);
    std::vector<T> qs;
    if (call.argument(1).isTensor()) {
      Tensor q = contiguous(call.tensor(1));
      qs.assign(q.data<T>(), q.data<T>() + q.numel());
    } else {
      qs.push_back(static_cast<T>(call.number(1)));
    }
    for (T q : qs)
      if (!(q >= 0 && q <= 1)) failQuantile(call, static_cast<double>(q));
    if constexpr (std::is_floating_point_v<T>) quantiles<T>(in, dim, qs, kSkipNan, how, result.second);
  });
  call.setResult(result.first);
}

// (self, q, dim, keepdim, interpolation), q a number
void convertQuantile(ConvertCall& call) {
  Tensor x = call.tensor(0);
  const std::string& how = call.text(4);
  if (call.argument(1).isTensor() || (how != "linear" && how != "lower" && how != "higher"))
    return convertToKernel(call, "there are several quantiles, or another interpolation than linear, lower, higher");
  const float q = static_cast<float>(call.number(1));
  if (!(q >= 0 && q <= 1)) return convertToKernel(call, "the quantile is not in the range [0, 1]");
  const bool all = call.isNone(2);
  if (all) x = call.compute("aten::reshape", {x, intList(Dims{-1})}).toTensor();
  const int64_t dim = all ? 0 : call.dim(2, x.rank());
  auto layer = std::make_unique<SortLayer>(call.node());
  for (int d = 0; d < x.rank(); ++d)
    (d < dim ? layer->shape.outer : d == dim ? layer->shape.count : layer->shape.inner) *= x.size(d);
  if (!isF32(x)) return convertToKernel(call, kNotF32);
  if (x.numel() == 0 || layer->shape.count > (1 << 24))
    return convertToKernel(call, "there are too many elements, or none");
  const Tensor sorted = call.makeTensor(DType::Float32, x.sizes());
  const TensorId from = call.idOf(x);
  layer->inputs = {call.network()[from].contiguous ? from : addCopy(call, from)};
  layer->outputs = {call.idOf(sorted), call.idOf(call.makeTensor(DType::Int64, x.sizes()))};
  call.network().layers.push_back(std::move(layer));
  auto at = [&](int64_t i) { return call.compute("aten::narrow", {sorted, dim, i, 1}); };
  const float last = static_cast<float>(sorted.size(static_cast<int>(dim)) - 1), rank = q * last;
  const auto below = static_cast<int64_t>(std::floor(rank)), above = static_cast<int64_t>(std::ceil(rank));
  IValue value = at(how == "higher" ? above : below);
  if (how == "linear") {  // between equal ones, too: of an infinite one, PyTorch makes NaN
    const float weight = rank - std::floor(rank);
    const IValue step = call.compute("aten::sub.Tensor", {at(above), value, 1});
    value = weight < 0.5F ? call.compute("aten::add.Tensor", {value, step, static_cast<double>(weight)})
                          : call.compute("aten::sub.Tensor", {at(above), step, static_cast<double>(1 - weight)});
  }
  // NaN stands behind all numbers.
  const IValue most = at(static_cast<int64_t>(last));
  value = call.compute("aten::where.self", {call.compute("aten::isnan", {most}), most, value});
  call.setResult(0, call.compute("aten::reshape", {value, intList(call.spec().sizes)}));
}

}  // namespace

void registerOrderStatisticsOps(OpRegistry& ops) {
  ops.add({.schema = "aten::kthvalue", .infer = inferKthValue, .kernel = kthValueKernel, .dtypes = kRealTypes});
  ops.add({.schema = "aten::median",
           .infer = inferMedian,
           .kernel = medianKernel<false>,
           .convert = convertMedian<false>,
           .dtypes = kRealAndBool});
  ops.add({.schema = "aten::nanmedian",
           .infer = inferMedian,
           .kernel = medianKernel<true>,
           .convert = convertMedian<true>,
           .dtypes = kRealAndBool});
  ops.add({.schema = "aten::median.dim",
           .infer = inferAlongDim,
           .kernel = medianDimKernel<false>,
           .convert = convertMedian<false>,
           .dtypes = kRealTypes});
  ops.add({.schema = "aten::nanmedian.dim",
           .infer = inferAlongDim,
           .kernel = medianDimKernel<true>,
           .convert = convertMedian<true>,
           .dtypes = kRealTypes});
  ops.add({.schema = "aten::mode", .infer = inferAlongDim, .kernel = modeKernel});
  for (auto schema : {"aten::quantile", "aten::quantile.scalar"})
    ops.add({.schema = schema,
             .infer = inferQuantile,
             .kernel = quantileKernel<false>,
             .convert = convertQuantile,
             .traits = {Trait::OwnStrides}});
  for (auto schema : {"aten::nanquantile", "aten::nanquantile.scalar"})
    ops.add({.schema = schema, .infer = inferQuantile, .kernel = quantileKernel<true>, .traits = {Trait::OwnStrides}});
}

}  // namespace tscompile
