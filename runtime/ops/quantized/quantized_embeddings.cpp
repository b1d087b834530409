// Embeddings whose tables are quantised row by row. Only the rows that are asked for become numbers.
#include "runtime/engine/layers/quantized_layer.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/quantized/packed_params.h"
#include "runtime/reference/loops/copy.h"

#include <cstring>

namespace tscompile {
namespace {

// An element of a row is `scale * step + bias`.
struct Row {
  const uint8_t* steps;
  float scale, bias;
};

template <int kBits>
float stepOf(const Row& row, int64_t i) {
  constexpr int kPerByte = 8 / kBits;
  return static_cast<float>(row.steps[i / kPerByte] >> (i % kPerByte * kBits) & ((1 << kBits) - 1));
}

// A quantised tensor, whose scales and zero points are numbers of their own.
class PackedTable {
 public:
  static constexpr int kBits = 8;
  explicit PackedTable(const KernelCall& call) : weight_(contiguous(unpacked(call.argument(0)).weight)) {
    const Quantization& q = quantizationOf(weight_);
    call.require(weight_.rank() == 2 && q.scheme == Quantization::Scheme::PerChannelAffineFloatParams && q.axis == 0 &&
                     weight_.dtype() == DType::QUInt8,
                 "expected a table of quint8 with a scale and a float zero point for each row");
    scales_ = contiguous(convertTensor(q.scales, DType::Float32));
    zeros_ = contiguous(convertTensor(q.zeroPoints, DType::Float32));
    steps_ = integersOf(weight_).data<uint8_t>();
  }
  int64_t rows() const { return weight_.size(0); }
  int64_t columns() const { return weight_.size(1); }
  Row row(int64_t i) const {
    float scale = scales_.data<float>()[i];
    return {steps_ + i * columns(), scale, -scale * zeros_.data<float>()[i]};
  }

 private:
  Tensor weight_, scales_, zeros_;
  const uint8_t* steps_;
};

// Bytes, packed or not: behind the steps of a row stand its scale and its bias, as floats, or as halves if a step is
// part of a byte.
template <int kStepBits>
class FusedTable {
 public:
  static constexpr int kBits = kStepBits;
  explicit FusedTable(const KernelCall& call) {
    const IValue table = call.argument(0);
    bytes_ = contiguous(table.isTensor() && table.tensorImpl() ? call.tensor(0) : unpacked(table).weight);
    call.require(bytes_.rank() == 2 && bytes_.dtype() == DType::UInt8 && steps() >= 0,
                 "expected a table of uint8 whose rows end in a scale and a bias");
  }
  int64_t rows() const { return bytes_.size(0); }
  int64_t columns() const { return steps() * (8 / kBits); }
  Row row(int64_t i) const {
    const uint8_t* begin = bytes_.data<uint8_t>() + i * bytes_.size(1);
    Number numbers[2];
    std::memcpy(numbers, begin + steps(), sizeof numbers);
    return {begin, static_cast<float>(numbers[0]), static_cast<float>(numbers[1])};
  }

 private:
  using Number = std::conditional_t<kBits == 8, float, Half>;
  int64_t steps() const { return bytes_.size(1) - int64_t{2 * sizeof(Number)}; }

  Tensor bytes_;
};

std::vector<int64_t> integersFrom(const Tensor& t) {
  Tensor all = contiguous(convertTensor(t, DType::Int64));
  return {all.data<int64_t>(), all.data<int64_t>() + all.numel()};
}

std::vector<int64_t> indicesOf(const KernelCall& call) {
  const Tensor indices = call.tensor(1);
  call.require(indices.dtype() == DType::Int64 || indices.dtype() == DType::Int32,
               "expected 32 or 64 bit indices, but found {}", pythonName(indices.dtype()));
  call.require(indices.rank() == 1 || indices.rank() == 2, "supports 1 or 2d indices, got {}", indices.rank());
  return integersFrom(indices);
}

void checkIndex(const KernelCall& call, size_t at, int64_t index, int64_t count) {
  call.require(index >= 0 && index < count, "index {} is out of bounds: {}, range 0 to {}", at, index, count);
}

template <class Table>
void addRow(const Table& table, int64_t index, float weight, float* to) {
  Row row = table.row(index);
  row.scale *= weight;
  row.bias *= weight;
  for (int64_t i = 0; i < table.columns(); ++i) to[i] += row.scale * stepOf<Table::kBits>(row, i) + row.bias;
}

// (weight, indices, pruned_weights)
template <class Table>
void embed(KernelCall& call) {
  Table table(call);
  std::vector<int64_t> indices = indicesOf(call);
  call.require(!call.flag(2), "expected a table that nothing was pruned from");
  Dims sizes = call.tensor(1).sizes();
  sizes.push_back(table.columns());
  Tensor out = Tensor::zeros(DType::Float32, sizes);
  for (size_t i = 0; i < indices.size(); ++i) {
    checkIndex(call, i, indices[i], table.rows());
    addRow(table, indices[i], 1, out.data<float>() + static_cast<int64_t>(i) * table.columns());
  }
  call.setResult(out);
}

// Where bags begin, and where the last one ends.
std::vector<int64_t> bagsOf(const KernelCall& call, int64_t count) {
  std::vector<int64_t> begins;
  if (call.tensor(1).rank() == 2) {
    call.require(call.isNone(2),
                 "input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                 "sequences");
    int64_t length = call.tensor(1).size(1);
    call.require(length > 0, "step must be nonzero");
    for (int64_t at = 0; at < count; at += length) begins.push_back(at);
  } else {
    call.require(!call.isNone(2), "expects offsets to be set for 1D indices");
    begins = integersFrom(call.tensor(2));
  }
  if (!call.flag(8)) begins.push_back(count);
  for (size_t i = 0; i < begins.size(); ++i)
    call.require(begins[i] >= (i ? begins[i - 1] : 0) && begins[i] <= count,
                 "offsets must not decrease nor be greater than the number of indices, {}, but offset {} is {}", count,
                 i, begins[i]);
  return begins;
}

// Where the rows of a table are that others were pruned from: -1 for these.
std::vector<int64_t> prunedRows(const KernelCall& call) {
  if (!call.flag(5)) return {};
  call.require(!call.isNone(7), "expected the rows that are left of a table that others were pruned from");
  std::vector<int64_t> rows = integersFrom(call.tensor(7));
  return rows.size() == 1 && rows[0] == 0 ? std::vector<int64_t>() : rows;
}

// (weight, indices, offsets, scale_grad_by_freq, mode, pruned_weights, per_sample_weights, compressed_indices_mapping,
// include_last_offset): sums, whatever the mode.
template <class Table>
void embedBags(KernelCall& call) {
  Table table(call);
  std::vector<int64_t> indices = indicesOf(call), left = prunedRows(call);
  std::vector<int64_t> begins = bagsOf(call, static_cast<int64_t>(indices.size()));
  if (call.flag(8) && (Table::kBits < 8 || call.flag(5)) && !begins.empty())
    call.require(begins.back() == static_cast<int64_t>(indices.size()),
                 "last offset value should be the size of the indices tensor, {}, but it is {}", indices.size(),
                 begins.back());
  Tensor weights;
  if (!call.isNone(6)) {
    weights = contiguous(call.tensor(6));
    call.require(weights.dtype() == DType::Float32, "expected float32 weights, not {}", pythonName(weights.dtype()));
    call.require(weights.numel() >= static_cast<int64_t>(indices.size()), "expected {} weights, not {}", indices.size(),
                 weights.numel());
  }
  int64_t bags = std::max<int64_t>(static_cast<int64_t>(begins.size()) - 1, 0);
  Tensor out = Tensor::zeros(DType::Float32, {bags, table.columns()});
  for (int64_t bag = 0; bag < bags; ++bag) {
    auto end = static_cast<size_t>(begins[static_cast<size_t>(bag) + 1]);
    for (auto i = static_cast<size_t>(begins[static_cast<size_t>(bag)]); i < end; ++i) {
      int64_t row = indices[i];
      if (!left.empty()) {
        checkIndex(call, i, row, static_cast<int64_t>(left.size()));
        row = left[static_cast<size_t>(row)];
        if (row == -1) continue;
      }
      checkIndex(call, i, row, table.rows());
      addRow(table, row, weights.defined() ? weights.data<float>()[i] : 1, out.data<float>() + bag * table.columns());
    }
  }
  call.setResult(out);
}

}  // namespace

void registerQuantizedEmbeddingsOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, KernelFunction kernel) {
    ops.add({.schema = schema, .kernel = kernel, .convert = convertQuantizedToKernel, .dtypes = {}, .traits = {}});
  };
  add("quantized::embedding_byte", embed<PackedTable>);
  add("quantized::embedding_bag_byte", embedBags<PackedTable>);
  add("quantized::embedding_4bit", embed<FusedTable<4>>);
  add("quantized::embedding_bag_4bit", embedBags<FusedTable<4>>);
  add("quantized::embedding_bag_byte_rowwise_offsets", embedBags<FusedTable<8>>);
  add("quantized::embedding_bag_4bit_rowwise_offsets", embedBags<FusedTable<4>>);
  add("quantized::embedding_bag_2bit_rowwise_offsets", embedBags<FusedTable<2>>);
}

}  // namespace tscompile
