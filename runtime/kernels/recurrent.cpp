// A unit of work is a run, or some of its sequences where they are many: it goes through all steps alone. A single unit
// with much to do at each step shares the columns of that product among the threads, and with them what becomes of the
// gates where these are whole blocks.
#include "runtime/kernels/recurrent.h"

#include "runtime/call/scratch.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/packed_weights.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
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

// One step of `count` numbers of one sequence, whose gates are `size` apart: x is the input's part of them, g that of
// the state; `now` and c become the new state.
void cellStep(RecurrentCell cell, const float* x, const float* g, int64_t size, int64_t count, const float* before,
              float* now, float* c) {
  overVectors(count, [&](auto d, auto&& load, auto&& store) HWY_ATTR {
    auto gate = [&](int64_t i) HWY_ATTR { return hn::Add(load(x + i * size), load(g + i * size)); };
    switch (cell) {
      case RecurrentCell::Lstm: {
        const auto in = sigmoid(d, gate(0)), forget = sigmoid(d, gate(1)), fresh = tanh(d, gate(2)),
                   out = sigmoid(d, gate(3));
        const auto next = hn::MulAdd(forget, load(c), hn::Mul(in, fresh));
        store(next, c);
        return store(hn::Mul(out, tanh(d, next)), now);
      }
      case RecurrentCell::Gru: {
        const auto reset = sigmoid(d, gate(0)), update = sigmoid(d, gate(1));
        const auto fresh = tanh(d, hn::MulAdd(reset, load(g + 2 * size), load(x + 2 * size)));
        return store(hn::MulAdd(hn::Sub(load(before), fresh), update, fresh), now);
      }
      case RecurrentCell::Tanh:
        return store(tanh(d, gate(0)), now);
      case RecurrentCell::Relu:
        return store(atLeast(d, 0.0f, gate(0)), now);
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

  // Of so many groups of columns.
  int64_t piecesOf(int64_t groups) const {
    return cost_ < 40 ? 1 : std::min(groups, std::clamp<int64_t>(static_cast<int64_t>(cost_ / 20), 1, 16));
  }
  void run(int threads) const {
    const int64_t groups = (panels_ + 3) / 4, pieces = piecesOf(groups);
    parallelFor(pieces, threads, [&](int64_t i) {
      const Piece part = pieceOf(groups, pieces, i);
      runPanels(p_.a, part.begin * 4, std::min(panels_, part.end * 4));
    });
  }
  // Columns of some panels, of rows that lie at `a`.
  void runPanels(const float* a, int64_t begin, int64_t end) const {
    Product p = p_;
    p.a = a;
    runTiles(p, tiles_.data(), static_cast<int64_t>(tiles_.size()), begin, end);
  }

 private:
  std::vector<int64_t> steps_;
  Product p_{};
  int64_t panels_;
  std::vector<RowTile> tiles_;
  double cost_;  // microseconds, roughly
};

// Some sequences of a run on their way through all steps.
class RecurrentUnit {
 public:
  RecurrentUnit(const RecurrentRun& run, Piece rows)
      : r_(run),
        rows_(rows),
        count_(rows.end - rows.begin),
        gatesRow_(padded(gatesOf(run.cell) * run.hidden) + kBlock),
        stateRow_(packedDepth(run.output, run.weights.storage)),
        fullRow_(packedDepth(run.hidden, run.projection.storage)),
        // Not the thread's own: products of other threads are in it.
        memory_(static_cast<size_t>(count_ * (2 * stateRow_ + (projects() ? fullRow_ : 0) + gatesRow_) + kBlock)),
        state_(reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(memory_.data()) + 63) & ~uintptr_t{63})),
        next_(state_ + count_ * stateRow_),
        full_(next_ + count_ * stateRow_),
        parts_(full_ + (projects() ? count_ * fullRow_ : 0)),
        product_(run.weights, run.bias, state_, count_, parts_, gatesRow_) {
    if (projects()) projection_.emplace(run.projection, nullptr, full_, count_, state_, stateRow_);
    for (int64_t i = 0; i < count_; ++i) {
      copyRow(r_.firstHidden + (rows.begin + i) * r_.output, r_.output, state_ + i * stateRow_);
      if (r_.firstCell) copyRow(r_.firstCell + (rows.begin + i) * r_.hidden, r_.hidden, cellOf(i));
    }
  }
  RecurrentUnit(const RecurrentUnit&) = delete;

  void run(int threads) {
    for (int64_t t = 0; t < r_.steps; ++t) {
      const int64_t at = r_.backwards ? r_.steps - 1 - t : t;
      threads > 1 && canGoByColumns() ? stepByColumns(at, threads) : step(at, threads);
      for (int64_t i = 0; r_.out && i < count_; ++i)
        copyRow(state_ + i * stateRow_, r_.output, r_.out + at * r_.outStep + (rows_.begin + i) * r_.outRow);
    }
    for (int64_t i = 0; i < count_; ++i)
      copyRow(state_ + i * stateRow_, r_.output, r_.lastHidden + (rows_.begin + i) * r_.output);
  }

 private:
  bool projects() const { return r_.projection.data; }
  // Sums of smaller weights depend on the panels that are multiplied together.
  bool canGoByColumns() const {
    return !projects() && r_.hidden % kBlock == 0 && r_.weights.storage == WeightStorage::F32;
  }
  float* cellOf(int64_t i) const { return r_.lastCell ? r_.lastCell + (rows_.begin + i) * r_.hidden : nullptr; }
  static void copyRow(const float* from, int64_t floats, float* to) {
    std::memcpy(to, from, static_cast<size_t>(floats) * sizeof(float));
  }

  void step(int64_t at, int threads) const {
    product_.run(threads);
    for (int64_t i = 0; i < count_; ++i) {
      float* now = projects() ? full_ + i * fullRow_ : state_ + i * stateRow_;
      cells(at, i, 0, r_.hidden, now, now);
    }
    if (projects()) projection_->run(threads);
  }

  // Some numbers of all gates, and what becomes of them. Others still read the state.
  void stepByColumns(int64_t at, int threads) {
    const int64_t blocks = r_.hidden / kBlock, pieces = product_.piecesOf(blocks);
    parallelFor(pieces, threads, [&](int64_t p) {
      const Piece part = pieceOf(blocks, pieces, p);
      for (int64_t gate = 0; gate < gatesOf(r_.cell); ++gate)
        product_.runPanels(state_, gate * blocks + part.begin, gate * blocks + part.end);
      for (int64_t i = 0; i < count_; ++i)
        cells(at, i, part.begin * kBlock, part.end * kBlock, state_ + i * stateRow_, next_ + i * stateRow_);
    });
    std::swap(state_, next_);
  }

  // Numbers [begin, end) of sequence i.
  void cells(int64_t at, int64_t i, int64_t begin, int64_t end, const float* before, float* now) const {
    float* c = cellOf(i);
    TS_SIMD(cellStep)
    (r_.cell, r_.gates + at * r_.gatesStep + (rows_.begin + i) * r_.gatesRow + begin, parts_ + i * gatesRow_ + begin,
     r_.hidden, end - begin, before + begin, now + begin, c ? c + begin : nullptr);
  }

  const RecurrentRun& r_;
  const Piece rows_;
  const int64_t count_, gatesRow_, stateRow_, fullRow_;
  std::vector<float> memory_;
  float *state_, *next_, *full_, *parts_;
  RowsProduct product_;
  std::optional<RowsProduct> projection_;
};

}  // namespace

void recurrentStep(RecurrentCell cell, const float* x, const float* state, int64_t hidden, const float* before,
                   float* now, float* memory) {
  TS_SIMD(cellStep)(cell, x, state, hidden, hidden, before, now, memory);
}

void runRecurrent(std::span<const RecurrentRun> runs, int threads) {
  const int64_t pieces = std::clamp<int64_t>(runs[0].batch / kRowsOfUnit, 1, 16);
  const auto units = static_cast<int64_t>(runs.size()) * pieces;
  if (units == 1) return RecurrentUnit(runs[0], {0, runs[0].batch}).run(threads);
  double flops = 0;
  for (const RecurrentRun& r : runs)
    flops += static_cast<double>(r.steps * r.batch) * static_cast<double>(gatesOf(r.cell) * r.hidden * r.output);
  parallelFor(units, flops < 1e6 ? 1 : threads, [&](int64_t i) {
    const RecurrentRun& r = runs[static_cast<size_t>(i / pieces)];
    RecurrentUnit(r, pieceOf(r.batch, pieces, i % pieces)).run(1);
  });
}

}  // namespace tscompile
#endif
