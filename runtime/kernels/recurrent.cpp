// A unit of work is a run, or some of its sequences where they are many: it goes through all steps alone. A single unit
// with much to do at each step shares the columns of that product among the threads.
#include "runtime/kernels/recurrent.h"

#include "runtime/call/scratch.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/packed_weights.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/recurrent.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/simd_math-inl.h"
#include "runtime/kernels/vectors-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// One step of one sequence: x is the input's part of the gates, g that of the state; h and c become the new state.
void cellStep(RecurrentCell cell, const float* x, const float* g, int64_t size, float* h, float* c) {
  overVectors(size, [&](auto d, auto&& load, auto&& store) HWY_ATTR {
    auto gate = [&](int64_t i) HWY_ATTR { return hn::Add(load(x + i * size), load(g + i * size)); };
    switch (cell) {
      case RecurrentCell::Lstm: {
        const auto in = sigmoid(d, gate(0)), forget = sigmoid(d, gate(1)), fresh = tanh(d, gate(2)),
                   out = sigmoid(d, gate(3));
        const auto next = hn::MulAdd(forget, load(c), hn::Mul(in, fresh));
        store(next, c);
        return store(hn::Mul(out, tanh(d, next)), h);
      }
      case RecurrentCell::Gru: {
        const auto reset = sigmoid(d, gate(0)), update = sigmoid(d, gate(1));
        const auto fresh = tanh(d, hn::MulAdd(reset, load(g + 2 * size), load(x + 2 * size)));
        return store(hn::MulAdd(hn::Sub(load(h), fresh), update, fresh), h);
      }
      case RecurrentCell::Tanh:
        return store(tanh(d, gate(0)), h);
      case RecurrentCell::Relu:
        return store(atLeast(d, 0.0f, gate(0)), h);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

constexpr int64_t kRowsOfUnit = 8;  // with fewer the weights would be read for too little

int64_t padded(int64_t v) { return (v + kBlock - 1) / kBlock * kBlock; }

// A product of all sequences of a unit, their rows lying `depth` floats apart with zeros after their end.
class RowsProduct {
 public:
  RowsProduct(const PackedMatrix& b, const float* bias, const float* a, int64_t rows, float* c, int64_t cRow) {
    const int64_t depth = packedDepth(b.k, b.storage), most = maxTileRows();
    panels_ = padded(b.n) / kBlock;
    p_.a = a;
    p_.rowStride = depth;
    // Weights that are stored smaller are brought to f32 some steps at a time.
    p_.depth = b.storage == WeightStorage::F32 ? depth : kBlock;
    for (int64_t k = 0; k < depth; k += p_.depth) steps_.push_back(k);
    p_.steps = steps_.data();
    p_.stepCount = static_cast<int64_t>(steps_.size());
    p_.b = b.data;
    p_.storage = b.storage;
    p_.scales = PackedWeights{panels_, depth, b.storage}.scales(b.data, 0);
    p_.columns = b.n;
    p_.c = c;
    p_.cRow = cRow;
    p_.cPanel = kBlock;
    p_.paddedColumns = true;
    p_.epilogue.bias = bias;
    for (int64_t r = 0; r < rows; r += most)
      tiles_.push_back({r * depth, r * cRow, static_cast<int>(std::min(most, rows - r))});
    cost_ = static_cast<double>(depth * b.n) * (2e-5 * static_cast<double>(rows) + 2e-4);
  }
  RowsProduct(const RowsProduct&) = delete;

  void run(int threads) const {
    const int64_t groups = (panels_ + 3) / 4;
    const int64_t pieces =
        cost_ < 40 ? 1 : std::min(groups, std::clamp<int64_t>(static_cast<int64_t>(cost_ / 20), 1, 16));
    parallelFor(pieces, threads, [&](int64_t i) {
      const Piece part = pieceOf(groups, pieces, i);
      runTiles(p_, tiles_.data(), static_cast<int64_t>(tiles_.size()), part.begin * 4, std::min(panels_, part.end * 4));
    });
  }

 private:
  std::vector<int64_t> steps_;
  Product p_{};
  int64_t panels_;
  std::vector<RowTile> tiles_;
  double cost_;  // microseconds, roughly
};

// Sequences [rows) of a run through all steps.
void runUnit(const RecurrentRun& r, Piece rows, int threads) {
  const int64_t count = rows.end - rows.begin, gates = gatesOf(r.cell) * r.hidden;
  const int64_t gatesRow = padded(gates) + kBlock, stateRow = packedDepth(r.output, r.weights.storage),
                fullRow = packedDepth(r.hidden, r.projection.storage);
  const bool projects = r.projection.data;
  const int64_t stateFloats = count * stateRow, fullFloats = projects ? count * fullRow : 0;
  // Not the thread's own: products of other threads are in it.
  std::vector<float> memory(static_cast<size_t>(stateFloats + fullFloats + count * gatesRow + kBlock));
  auto address = (reinterpret_cast<uintptr_t>(memory.data()) + 63) & ~uintptr_t{63};
  auto* state = reinterpret_cast<float*>(address);
  float *full = state + stateFloats, *parts = full + fullFloats;
  const RowsProduct product(r.weights, r.bias, state, count, parts, gatesRow);
  std::optional<RowsProduct> projection;
  if (projects) projection.emplace(r.projection, nullptr, full, count, state, stateRow);
  auto copyRow = [](const float* from, int64_t floats, float* to) {
    std::memcpy(to, from, static_cast<size_t>(floats) * sizeof(float));
  };
  for (int64_t i = 0; i < count; ++i) {
    copyRow(r.firstHidden + (rows.begin + i) * r.output, r.output, state + i * stateRow);
    if (r.firstCell)
      copyRow(r.firstCell + (rows.begin + i) * r.hidden, r.hidden, r.lastCell + (rows.begin + i) * r.hidden);
  }
  auto step = TS_SIMD(cellStep);
  for (int64_t t = 0; t < r.steps; ++t) {
    const int64_t at = r.backwards ? r.steps - 1 - t : t;
    product.run(threads);
    for (int64_t i = 0; i < count; ++i)
      step(r.cell, r.gates + at * r.gatesStep + (rows.begin + i) * r.gatesRow, parts + i * gatesRow, r.hidden,
           projects ? full + i * fullRow : state + i * stateRow,
           r.lastCell ? r.lastCell + (rows.begin + i) * r.hidden : nullptr);
    if (projects) projection->run(threads);
    for (int64_t i = 0; r.out && i < count; ++i)
      copyRow(state + i * stateRow, r.output, r.out + at * r.outStep + (rows.begin + i) * r.outRow);
  }
  for (int64_t i = 0; i < count; ++i)
    copyRow(state + i * stateRow, r.output, r.lastHidden + (rows.begin + i) * r.output);
}

}  // namespace

void runRecurrent(std::span<const RecurrentRun> runs, int threads) {
  const int64_t pieces = std::clamp<int64_t>(runs[0].batch / kRowsOfUnit, 1, 16);
  const auto units = static_cast<int64_t>(runs.size()) * pieces;
  if (units == 1) return runUnit(runs[0], {0, runs[0].batch}, threads);
  double flops = 0;
  for (const RecurrentRun& r : runs)
    flops += static_cast<double>(r.steps * r.batch) * static_cast<double>(gatesOf(r.cell) * r.hidden * r.output);
  parallelFor(units, flops < 1e6 ? 1 : threads, [&](int64_t i) {
    const RecurrentRun& r = runs[static_cast<size_t>(i / pieces)];
    runUnit(r, pieceOf(r.batch, pieces, i % pieces), 1);
  });
}

}  // namespace tscompile
#endif
