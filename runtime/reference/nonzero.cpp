#include "runtime/reference/nonzero.h"

#include "runtime/call/run_context.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/copy.h"

#include <algorithm>
#include <complex>
#include <cstring>

namespace tscompile {

int64_t countTrue(const Tensor& mask) {
  Tensor flat = contiguous(mask);
  const uint8_t* p = flat.data<uint8_t>();
  int64_t count = 0;
  for (int64_t i = 0; i < flat.numel(); ++i) count += p[i];
  return count;
}

namespace {
// A conversion to bool would look at the real part of complex numbers alone.
Tensor truthOf(const Tensor& t) {
  if (!isComplex(t.dtype())) return convertTensor(t, DType::Bool);
  Tensor mask = Tensor::empty(DType::Bool, t.sizes());
  mapTensors<kC128>(
      t.dtype(), [](std::complex<double> x) { return x != 0.0; }, mask, t);
  return mask;
}

// Where a row is true, in order, to memory that has room for so many; how often.
int64_t placesOfTrue(const bool* row, int64_t length, int64_t* to, int64_t room) {
  int64_t found = 0, i = 0;
  // Eight at a time: none is true, or each is written, and stays if it is.
  for (; i + 8 <= length && found + 8 <= room; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, row + i, sizeof(eight));
    if (eight == 0) continue;
    for (int64_t k = i; k < i + 8; ++k) {
      to[found] = k;
      found += row[k];
    }
  }
  for (; i < length; ++i)
    if (row[i]) to[found++] = i;
  return found;
}
}  // namespace

Tensor nonzeroOf(const Tensor& t) {
  Tensor mask = truthOf(t);
  int rank = t.rank();
  const int64_t count = countTrue(mask);
  // The places along one dimension lie beside each other, as PyTorch has them.
  Tensor columns = Tensor::empty(DType::Int64, Dims{rank, count}), out = columns.permuted(Dims{1, 0});
  if (out.numel() == 0) return out;
  const bool* p = mask.data<bool>();
  int64_t* to = columns.data<int64_t>();
  int64_t left = count;
  int64_t length = t.size(rank - 1), rows = mask.numel() / length;
  Dims index(static_cast<size_t>(rank), 0);
  RunContext& context = RunContext::current();
  for (int64_t row = 0; row < rows; ++row, p += length) {
    const int64_t found = placesOfTrue(p, length, to + (rank - 1) * count, left);
    left -= found;
    for (int d = 0; d + 1 < rank; ++d) std::fill_n(to + d * count, found, index[static_cast<size_t>(d)]);
    to += found;
    for (int d = rank - 2; d >= 0; --d) {
      if (++index[static_cast<size_t>(d)] < t.size(d)) break;
      index[static_cast<size_t>(d)] = 0;
    }
    context.checkInterrupt(length);
  }
  return out;
}

}  // namespace tscompile
