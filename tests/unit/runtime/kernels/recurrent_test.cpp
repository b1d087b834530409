#include "runtime/kernels/recurrent.h"

#include "ir/values/dtype.h"
#include "tests/support/engine_reference.h"

#include <array>

namespace tscompile::test {
namespace {

struct RecurrentCase {
  RecurrentCell cell;
  int64_t steps, batch, hidden, output;
  bool backwards = false;
  WeightStorage storage = WeightStorage::F32;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A weight [n, k], of values that bfloat16 has, packed as the right side of a product.
struct Weight {
  Weight(int64_t n, int64_t k, uint32_t seed, WeightStorage storage)
      : n(n), k(k), storage(storage), values(randomFloats(n * k, seed, -0.4f, 0.4f)) {
    for (float& v : values) v = static_cast<float>(BFloat16(v));
    memory.resize(static_cast<size_t>(packedBytes(k, n, storage)) / sizeof(float) + 16);
    aligned = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) & ~uintptr_t{63});
    packMatrix(k, n, values.data(), 1, k, storage, aligned);
  }
  PackedMatrix packed() const { return {.k = k, .n = n, .storage = storage, .data = aligned}; }
  double dot(int64_t row, const std::vector<double>& x) const {
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += values[static_cast<size_t>(row * k + i)] * x[static_cast<size_t>(i)];
    return sum;
  }
  int64_t n, k;
  WeightStorage storage;
  std::vector<float> values, memory;
  float* aligned;
};

// What a run computes, written down: the sequence, then both states.
std::array<std::vector<double>, 3> expected(const RecurrentCase& c, const Weight& weights, const Weight& projection,
                                            const std::vector<float>& bias, const std::vector<float>& gates,
                                            const std::vector<float>& h0, const std::vector<float>& c0) {
  std::array<std::vector<double>, 3> out;
  out[0].resize(static_cast<size_t>(c.steps * c.batch * c.output));
  const int64_t size = c.hidden, all = gatesOf(c.cell) * size;
  for (int64_t b = 0; b < c.batch; ++b) {
    std::vector<double> h(h0.begin() + b * c.output, h0.begin() + (b + 1) * c.output),
        cell(c0.begin() + b * size, c0.begin() + (b + 1) * size), full(static_cast<size_t>(size));
    for (int64_t t = 0; t < c.steps; ++t) {
      const int64_t at = c.backwards ? c.steps - 1 - t : t;
      const float* x = gates.data() + (at * c.batch + b) * all;
      for (int64_t u = 0; u < size; ++u) {
        auto state = [&](int64_t g) { return weights.dot(g * size + u, h) + bias[static_cast<size_t>(g * size + u)]; };
        auto sum = [&](int64_t g) { return x[g * size + u] + state(g); };
        const auto i = static_cast<size_t>(u);
        switch (c.cell) {
          case RecurrentCell::Lstm:
            cell[i] = sigmoid(sum(1)) * cell[i] + sigmoid(sum(0)) * std::tanh(sum(2));
            full[i] = sigmoid(sum(3)) * std::tanh(cell[i]);
            break;
          case RecurrentCell::Gru: {
            const double fresh = std::tanh(x[2 * size + u] + sigmoid(sum(0)) * state(2));
            full[i] = (h[i] - fresh) * sigmoid(sum(1)) + fresh;
            break;
          }
          case RecurrentCell::Tanh:
            full[i] = std::tanh(sum(0));
            break;
          case RecurrentCell::Relu:
            full[i] = std::max(0.0, sum(0));
            break;
        }
      }
      for (int64_t o = 0; o < c.output; ++o)
        h[static_cast<size_t>(o)] = c.output == size ? full[static_cast<size_t>(o)] : projection.dot(o, full);
      std::copy(h.begin(), h.end(), out[0].begin() + (at * c.batch + b) * c.output);
    }
    out[1].insert(out[1].end(), h.begin(), h.end());
    out[2].insert(out[2].end(), cell.begin(), cell.end());
  }
  return out;
}

void check(const RecurrentCase& c, bool sequence = true) {
  SCOPED_TRACE(testing::Message() << "cell " << static_cast<int>(c.cell) << ", " << c.steps << " steps of " << c.batch
                                  << ", " << c.hidden << " -> " << c.output);
  const int64_t all = gatesOf(c.cell) * c.hidden;
  Weight weights(all, c.output, 1, c.storage), projection(c.output, c.hidden, 2, c.storage);
  std::vector<float> gates = randomFloats(c.steps * c.batch * all, 3), bias = randomFloats((all + 15) / 16 * 16, 4);
  std::vector<float> h0 = randomFloats(c.batch * c.output, 5), c0 = randomFloats(c.batch * c.hidden, 6);
  auto want = expected(c, weights, projection, bias, gates, h0, c0);
  std::vector<float> first;
  for (int threads : {1, 2, 3}) {
    std::vector<float> out(want[0].size()), h(want[1].size()), cell(want[2].size());
    RecurrentRun r{};
    r.cell = c.cell;
    r.steps = c.steps;
    r.batch = c.batch;
    r.hidden = c.hidden;
    r.output = c.output;
    r.backwards = c.backwards;
    r.weights = weights.packed();
    if (c.output != c.hidden) r.projection = projection.packed();
    r.bias = bias.data();
    r.gates = gates.data();
    r.gatesStep = c.batch * all;
    r.gatesRow = all;
    if (sequence) r.out = out.data();
    r.outStep = c.batch * c.output;
    r.outRow = c.output;
    r.firstHidden = h0.data();
    r.lastHidden = h.data();
    if (c.cell == RecurrentCell::Lstm) {
      r.firstCell = c0.data();
      r.lastCell = cell.data();
    }
    runRecurrent({&r, 1}, threads);
    if (!first.empty()) {
      EXPECT_TRUE(sameBytes(first, h));
      continue;
    }
    first = h;
    if (sequence) expectNear(out, want[0], 1e-5, 1e-5);
    expectNear(h, want[1], 1e-5, 1e-5);
    if (c.cell == RecurrentCell::Lstm) expectNear(cell, want[2], 1e-5, 1e-5);
  }
}

}  // namespace

TEST(EngineRecurrent, CellsAndSizes) {
  atEachSimdLevel([] {
    for (RecurrentCell cell : {RecurrentCell::Lstm, RecurrentCell::Gru, RecurrentCell::Tanh, RecurrentCell::Relu})
      for (int64_t batch : {1, 3, 19})
        for (int64_t hidden : {1, 5, 16, 33}) {
          check({cell, 3, batch, hidden, hidden});
          check({cell, 1, batch, hidden, hidden, true}, false);
          check({cell, 4, batch, hidden, hidden, true});
        }
  });
}

TEST(EngineRecurrent, Projections) {
  for (int64_t batch : {1, 9}) {
    check({RecurrentCell::Lstm, 3, batch, 20, 7});
    check({RecurrentCell::Lstm, 3, batch, 7, 20, true});
  }
}

// More rows of weights than are brought to f32 at a time.
TEST(EngineRecurrent, SmallWeightsOfLargeStates) {
  atEachSimdLevel([] {
    for (int64_t batch : {2, 9}) check({RecurrentCell::Gru, 2, batch, 304, 304, false, WeightStorage::BF16});
  });
}

// Threads share the columns of a step, or take sequences.
TEST(EngineRecurrent, LargeStepsAreShared) {
  check({RecurrentCell::Lstm, 3, 2, 300, 300});
  check({RecurrentCell::Gru, 5, 40, 64, 64});
}

}  // namespace tscompile::test
