#include "runtime/engine/layers/bag_layer.h"

#include "ir/graph/value.h"
#include "ir/values/encoded.h"
#include "ir/values/error.h"
#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"

#include <algorithm>

namespace tscompile {
namespace {

// The interpreter does it again, and tells what is wrong.
void require(bool good) {
  if (!good) throw ExecutionError(ErrorKind::Model, "an index or an offset of a bag is out of range");
}

// int32 or int64.
class Integers {
 public:
  Integers(Frame& frame, TensorId id) : data_(frame.raw(id)), isLong_(frame.network()[id].dtype == DType::Int64) {}
  int64_t operator[](int64_t i) const {
    return isLong_ ? reinterpret_cast<const int64_t*>(data_)[i] : reinterpret_cast<const int32_t*>(data_)[i];
  }

 private:
  const std::byte* data_;
  bool isLong_;
};

bool areIntegers(const Tensor& t) { return t.dtype() == DType::Int64 || t.dtype() == DType::Int32; }

// The row that is left out; negative: none, unless the overload counts it from the end.
int64_t paddingOf(const ConvertCall& call, int64_t rows) {
  if (call.size() <= 8 || call.isNone(8)) return -1;
  const int64_t padding = call.integer(8);
  return padding < 0 && call.op().overload() == "padding_idx" ? padding + rows : padding;
}

}  // namespace

template <class Numbers>
void BagLayer::join(Frame& frame, const Bag& bag, const Numbers& numbers) const {
  const float* table = frame.data<float>(inputs[0]);
  const float* factors = weighted ? frame.data<float>(inputs[3]) : nullptr;
  float* to = frame.data<float>(outputs[0]) + bag.number * columns;
  std::fill_n(to, columns, 0.0f);
  int64_t found = 0;
  for (int64_t i = bag.begin; i < bag.counted; ++i) {
    const int64_t row = numbers[i];
    if (row == padding) continue;
    ++found;
    if (i >= bag.end) continue;
    const float* from = table + row * columns;
    const float factor = factors ? factors[i] : 1.0f;
    if (mode != Mode::Max)
      for (int64_t k = 0; k < columns; ++k) to[k] += factor * from[k];
    else
      for (int64_t k = 0; k < columns; ++k) to[k] = found > 1 && !(from[k] > to[k]) ? to[k] : from[k];
  }
  if (mode == Mode::Mean && found)
    for (int64_t k = 0; k < columns; ++k) to[k] /= static_cast<float>(found);
}

void BagLayer::run(Frame& frame) const {
  const Integers numbers(frame, inputs[1]), starts(frame, inputs[2]);
  auto end = [&](int64_t bag) { return bag + 1 < offsets ? starts[bag + 1] : count; };
  for (int64_t i = 0; i < count; ++i) require(numbers[i] >= 0 && numbers[i] < rows);
  require(!offsets || starts[0] == 0);
  for (int64_t b = 0; b < offsets; ++b) require(starts[b] <= end(b) && end(b) <= count);
  constexpr int64_t kParallelElements = 64 << 10;
  const int64_t pieces = std::clamp<int64_t>(count * columns >> 14, 1, std::clamp<int64_t>(bags, 1, 64));
  parallelFor(pieces, count * columns < kParallelElements ? 1 : frame.threads(), [&](int64_t p) {
    const Piece piece = pieceOf(bags, pieces, p);
    for (int64_t b = piece.begin; b < piece.end; ++b)
      join(frame, {b, starts[b], end(b), b + 1 == bags ? count : end(b)}, numbers);
  });
}

void convertEmbeddingBag(ConvertCall& call) {
  const Tensor table = call.tensor(0), numbers = call.tensor(1), offsets = call.tensor(2);
  const bool weighted = !call.isNone(6);
  if (!isF32(table) || (weighted && !isF32(call.tensor(6)))) return convertToKernel(call, kNotF32);
  if (!areIntegers(numbers) || !areIntegers(offsets)) return convertToKernel(call, "the numbers are no integers");
  if (!call.isNetworkTensor(0) && table.storage()->encoding()) return convertToKernel(call, "the table is encoded");
  const auto results = call.node()->outputs();
  if (results.size() != call.resultCount() ||
      std::any_of(results.begin() + 1, results.end(), [](const Value* v) { return v->hasUses(); }))
    return convertToKernel(call, "more than the bags is read");
  std::vector<TensorId> inputs{contiguousOperand(call, 0), contiguousOperand(call, 1), contiguousOperand(call, 2)};
  if (weighted) inputs.push_back(contiguousOperand(call, 6));
  std::vector<TensorId> outputs;
  for (size_t i = 0; i < call.resultCount(); ++i) outputs.push_back(call.makeResult(i));
  auto& layer = call.add<BagLayer>();
  layer.mode = static_cast<BagLayer::Mode>(call.integer(4));
  layer.weighted = weighted;
  layer.rows = table.size(0);
  layer.columns = table.size(1);
  layer.count = numbers.numel();
  layer.offsets = offsets.numel();
  layer.bags = call.spec().sizes[0];
  layer.padding = paddingOf(call, layer.rows);
  layer.inputs = std::move(inputs);
  layer.outputs = std::move(outputs);
}

}  // namespace tscompile
