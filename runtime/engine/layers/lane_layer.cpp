#include "runtime/engine/layers/lane_layer.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/engine/layers/reduction_layer.h"
#include "runtime/reference/reduction_call.h"

#include <algorithm>

namespace tscompile {

void RunningTotalLayer::run(Frame& frame) const {
  auto total = [&](auto in, auto out) {
    runningTotal(isProduct, shape, frame.data<decltype(in)>(inputs[0]), frame.data<decltype(out)>(outputs[0]),
                 frame.threads());
  };
  switch (frame.network()[inputs[0]].dtype) {
    case DType::Float32:
      return total(float(), float());
    case DType::Float64:
      return total(double(), double());
    case DType::Int32:
      return total(int32_t(), int64_t());
    case DType::Bool:
      return total(bool(), int64_t());
    default:
      return total(int64_t(), int64_t());
  }
}

void RunningExtremesLayer::run(Frame& frame) const {
  auto extremes = [&](auto sample) {
    using T = decltype(sample);
    runningExtremes(isLargest, shape, frame.data<T>(inputs[0]), frame.data<T>(outputs[0]),
                    frame.data<int64_t>(outputs[1]), frame.threads());
  };
  const DType dtype = frame.network()[inputs[0]].dtype;
  if (dtype == DType::Float32) return extremes(float());
  dtype == DType::Float64 ? extremes(double()) : extremes(int64_t());
}

void ExtremesLayer::run(Frame& frame) const {
  if (isWhole)
    return extremes(isLargest, shape, frame.data<int64_t>(inputs[0]),
                    outputs.size() > 1 ? frame.data<int64_t>(outputs[0]) : nullptr, frame.data<int64_t>(outputs.back()),
                    frame.threads());
  float* values = outputs.size() > 1 ? frame.data<float>(outputs[0]) : nullptr;
  extremes(isLargest, shape, frame.data<float>(inputs[0]), values, frame.data<int64_t>(outputs.back()),
           frame.workspace(), frame.threads());
}

void TopLayer::run(Frame& frame) const {
  firstOfLanes(isLargest, isSorted, k, shape, frame.data<float>(inputs[0]), frame.data<float>(outputs[0]),
               frame.data<int64_t>(outputs[1]), frame.workspace(), frame.threads());
}

void SortLayer::run(Frame& frame) const {
  if (isWhole)
    return sortedLanes(isDescending, isStable, shape, frame.data<int64_t>(inputs[0]),
                       outputs.size() > 1 ? frame.data<int64_t>(outputs[0]) : nullptr,
                       frame.data<int64_t>(outputs.back()), frame.workspace(), frame.threads());
  float* values = outputs.size() > 1 ? frame.data<float>(outputs[0]) : nullptr;
  sortedLanes(isDescending, isStable, shape, frame.data<float>(inputs[0]), values, frame.data<int64_t>(outputs.back()),
              frame.workspace(), frame.threads());
}

void MedianLayer::run(Frame& frame) const {
  int64_t* places = outputs.size() > 1 ? frame.data<int64_t>(outputs[1]) : nullptr;
  mediansOfLanes(skipsNan, shape, frame.data<float>(inputs[0]), frame.data<float>(outputs[0]), places,
                 frame.workspace(), frame.threads());
}

namespace {

// How many of the boundaries lie before the value, for which alone `isBefore` is true. It looks where PyTorch does,
// which tells where boundaries are not in order or NaN. Without branches, which nobody could foretell.
template <class T, class IsBefore>
int64_t countBefore(const T* boundaries, int64_t n, IsBefore isBefore) {
  int64_t low = 0;
  for (int64_t length = n; length > 0;) {
    const int64_t half = length / 2, before = isBefore(boundaries[low + half]);
    low += (half + 1) & -before;
    length = half - (before & ~length);  // of an even number, there is one less behind than before
  }
  return low;
}

template <class T, class Place>
void search(Frame& frame, TensorId of, TensorId wanted, TensorId found, bool isRight) {
  constexpr int64_t kPiece = 1024;  // values, at least, that a thread takes together
  const NetTensor &boundaries = frame.network()[of], &values = frame.network()[wanted];
  const int64_t n = boundaries.sizes.back();
  const int64_t run = boundaries.rank() > 1 ? values.sizes.back() : values.numel;
  const T *b = frame.data<T>(of), *v = frame.data<T>(wanted);
  auto* to = frame.data<Place>(found);
  const int64_t pieces = std::clamp<int64_t>(values.numel / kPiece, 1, 64);
  parallelFor(pieces, pieces == 1 ? 1 : frame.threads(), [&](int64_t p) {
    const Piece piece = pieceOf(values.numel, pieces, p);
    for (int64_t i = piece.begin; i < piece.end; ++i) {
      const T x = v[i];
      const T* own = b + i / run * n;
      to[i] = static_cast<Place>(isRight ? countBefore(own, n, [x](T bound) { return !(bound > x); })
                                         : countBefore(own, n, [x](T bound) { return !(bound >= x); }));
    }
  });
}

}  // namespace

void SearchLayer::run(Frame& frame) const {
  auto searchFor = [&](auto sample) {
    using T = decltype(sample);
    frame.network()[outputs[0]].dtype == DType::Int32
        ? search<T, int32_t>(frame, inputs[0], inputs[1], outputs[0], isRight)
        : search<T, int64_t>(frame, inputs[0], inputs[1], outputs[0], isRight);
  };
  frame.network()[inputs[0]].dtype == DType::Float32 ? searchFor(float()) : searchFor(int64_t());
}

namespace {

constexpr std::string_view kTooLong = "a run has 2^31 elements or more";

LaneShape shapeAlong(const Tensor& x, int64_t dim) {
  LaneShape s;
  for (int d = 0; d < x.rank(); ++d) (d < dim ? s.outer : d == dim ? s.count : s.inner) *= x.size(d);
  return s;
}

// Why a lane layer of f32 cannot take the first argument; empty if it can.
std::string_view obstacle(const Tensor& x, const LaneShape& shape, bool takesIntegers = false) {
  const bool is = isF32(x) || (takesIntegers && x.dtype() == DType::Int64);
  return !is ? kNotF32 : x.numel() == 0 ? kEmpty : shape.count > INT32_MAX ? kTooLong : "";
}

// The input and all results of the call, in order.
void connect(ConvertCall& call, Layer& layer) {
  layer.inputs = {contiguousOperand(call, 0)};
  for (size_t i = 0; i < call.resultCount(); ++i) layer.outputs.push_back(call.makeResult(i));
}

template <class L>
void addLane(ConvertCall& call, std::unique_ptr<L> layer) {
  connect(call, *layer);
  call.network().layers.push_back(std::move(layer));
}

// `x.max(dim)[0]`, whose places nobody reads.
bool wantsValuesOnly(const ConvertCall& call) {
  return call.resultCount() == 2 && call.node()->outputs().size() == 2 && !call.node()->outputs()[1]->hasUses();
}
void addValues(ConvertCall& call, RowReduction kind, const LaneShape& shape) {
  auto layer = std::make_unique<ReductionLayer>(call.node());
  layer->kind = kind;
  layer->outer = shape.outer;
  layer->count = shape.count;
  layer->inner = shape.inner;
  addLane(call, std::move(layer));
}

}  // namespace

template <bool kProduct>
void convertRunningTotal(ConvertCall& call) {
  Tensor x = call.tensor(0);
  const DType from = x.dtype(), to = call.spec().dtype;
  const bool whole = to == DType::Int64 && (from == DType::Int64 || from == DType::Int32 || from == DType::Bool);
  if (!whole && !((isF32(x) || from == DType::Float64) && to == from))
    return convertToKernel(call, "its dtype is none of float32, float64, int64, int32, bool");
  if (x.numel() == 0) return convertToKernel(call, kEmpty);
  auto layer = std::make_unique<RunningTotalLayer>(call.node());
  layer->shape = shapeAlong(x, call.dim(1, x.rank()));
  layer->isProduct = kProduct;
  addLane(call, std::move(layer));
}
template void convertRunningTotal<true>(ConvertCall& call);
template void convertRunningTotal<false>(ConvertCall& call);

template <bool kLargest>
void convertRunningExtremes(ConvertCall& call) {
  const Tensor x = call.tensor(0);
  if (!isF32(x) && x.dtype() != DType::Float64 && x.dtype() != DType::Int64)
    return convertToKernel(call, "its dtype is none of float32, float64, int64");
  if (x.numel() == 0) return convertToKernel(call, kEmpty);
  auto layer = std::make_unique<RunningExtremesLayer>(call.node());
  layer->shape = shapeAlong(x, call.dim(1, x.rank()));
  layer->isLargest = kLargest;
  addLane(call, std::move(layer));
}
template void convertRunningExtremes<true>(ConvertCall& call);
template void convertRunningExtremes<false>(ConvertCall& call);

void convertRunningLog(ConvertCall& call) {
  const Tensor x = call.tensor(0);
  auto layer = std::make_unique<RunningLogLayer>(call.node());
  layer->shape = shapeAlong(x, call.dim(1, x.rank()));
  if (std::string_view why = obstacle(x, layer->shape); !why.empty()) return convertToKernel(call, why);
  addLane(call, std::move(layer));
}

template <bool kLargest>
void convertExtremes(ConvertCall& call) {
  Tensor x = call.tensor(0);
  auto layer = std::make_unique<ExtremesLayer>(call.node());
  if (call.isNone(1))
    layer->shape.count = x.numel();
  else
    layer->shape = shapeAlong(x, call.dim(1, x.rank()));
  if (std::string_view why = obstacle(x, layer->shape, true); !why.empty()) return convertToKernel(call, why);
  layer->isWhole = !isF32(x);
  if (wantsValuesOnly(call) && isF32(x))
    return addValues(call, kLargest ? RowReduction::Max : RowReduction::Min, layer->shape);
  layer->isLargest = kLargest;
  addLane(call, std::move(layer));
}
template void convertExtremes<true>(ConvertCall& call);
template void convertExtremes<false>(ConvertCall& call);

// (self, k, dim, largest, sorted)
void convertTopk(ConvertCall& call) {
  Tensor x = call.tensor(0);
  auto layer = std::make_unique<TopLayer>(call.node());
  layer->shape = shapeAlong(x, call.dim(2, x.rank()));
  std::string_view why = obstacle(x, layer->shape);
  if (why.empty() && call.integer(1) == 0) why = kEmpty;
  if (!why.empty()) return convertToKernel(call, why);
  layer->k = x.rank() ? call.integer(1) : 1;
  layer->isLargest = call.flag(3);
  layer->isSorted = call.flag(4);
  addLane(call, std::move(layer));
}

void convertSort(ConvertCall& call) {
  Tensor x = call.tensor(0);
  auto layer = std::make_unique<SortLayer>(call.node());
  layer->shape = shapeAlong(x, call.dim(argumentIndex(call.op(), "dim"), x.rank()));
  if (std::string_view why = obstacle(x, layer->shape, true); !why.empty()) return convertToKernel(call, why);
  layer->isWhole = !isF32(x);
  layer->isDescending = call.flag(argumentIndex(call.op(), "descending"));
  const size_t stable = argumentIndex(call.op(), "stable");
  layer->isStable = stable < call.size() && !call.isNone(stable) && call.flag(stable);
  addLane(call, std::move(layer));
}

template <bool kSkipNan>
void convertMedian(ConvertCall& call) {
  Tensor x = call.tensor(0);
  auto layer = std::make_unique<MedianLayer>(call.node());
  if (call.size() > 1)
    layer->shape = shapeAlong(x, call.dim(1, x.rank()));
  else
    layer->shape.count = x.numel();
  if (std::string_view why = obstacle(x, layer->shape); !why.empty()) return convertToKernel(call, why);
  layer->skipsNan = kSkipNan;
  addLane(call, std::move(layer));
}
template void convertMedian<false>(ConvertCall& call);
template void convertMedian<true>(ConvertCall& call);

void addSearch(ConvertCall& call, const Tensor& boundaries, const Tensor& values, bool isRight) {
  const DType dtype = boundaries.dtype();
  if (values.dtype() != dtype || (dtype != DType::Float32 && dtype != DType::Int64))
    return convertToKernel(call, "boundaries and values are not both float32, or int64");
  if (boundaries.numel() == 0 || values.numel() == 0) return convertToKernel(call, kEmpty);
  if (dtype == DType::Int64 && !(boundaries.isContiguous() && values.isContiguous()))
    return convertToKernel(call, "integers do not lie one behind the other");
  auto layer = std::make_unique<SearchLayer>(call.node());
  for (const Tensor& t : {boundaries, values}) {
    const TensorId id = call.idOf(t);
    layer->inputs.push_back(call.network()[id].contiguous ? id : addCopy(call, id));
  }
  layer->outputs = {call.makeResult(0)};
  layer->isRight = isRight;
  call.network().layers.push_back(std::move(layer));
}

}  // namespace tscompile
