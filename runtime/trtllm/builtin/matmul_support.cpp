#include "runtime/trtllm/builtin/matmul_support.h"

#include "runtime/call/scratch.h"

#include <algorithm>

namespace tscompile {

std::vector<tsc_dtype> resultTypes() { return {TSC_NONE, TSC_F32, TSC_F16, TSC_BF16}; }
std::vector<tsc_dtype> floatTypes() { return {TSC_F32, TSC_F16, TSC_BF16}; }

DType storageOf(tsc_dtype dtype) {
  switch (dtype) {
    case TSC_F16:
      return DType::Float16;
    case TSC_BF16:
      return DType::BFloat16;
    case TSC_I8:
      return DType::Int8;
    case TSC_U8:
      return DType::Float8E4M3FN;
    default:
      return DType::Float32;
  }
}

void expectEqual(const tsc::Dim& a, const tsc::Dim& b, const std::string& what, const std::string& like) {
  int64_t x, y;
  if (a.known(&x) && b.known(&y) && x != y)
    tsc::invalid(what + " is " + std::to_string(x) + ", expected " + std::to_string(y) + " as " + like);
}

void expectRank(const tsc::Shape& s, size_t rank, const std::string& name) {
  if (s.present() && s.rank() != rank)
    tsc::invalid(name + " must have " + std::to_string(rank) + (rank == 1 ? " dimension" : " dimensions") + ", not " +
                 std::to_string(s.rank()));
}
void expectRankFrom(const tsc::Shape& s, size_t least, const std::string& name) {
  if (s.rank() < least)
    tsc::invalid(name + " must have " + std::to_string(least) + (least == 1 ? " dimension" : " dimensions") +
                 " at least, not " + std::to_string(s.rank()));
}

static tsc::Dim elementsOf(const tsc::Shapes& s, size_t input) {
  tsc::Dim all = s.constant(1);
  for (const tsc::Dim& d : s.input(input).dims) all = all * d;
  return all;
}
void expectCount(const tsc::Shapes& s, size_t input, const tsc::Dim& count, const std::string& name,
                 const std::string& like) {
  if (s.has(input)) expectEqual(elementsOf(s, input), count, "the number of " + name, like);
}
void expectOne(const tsc::Shapes& s, size_t input, const std::string& name) {
  if (s.has(input)) s.expect(elementsOf(s, input), 1, "the number of elements of " + name);
}

int64_t rowsOf(const tsc::Tensor& t) {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < t.rank(); ++d) rows *= t.sizes()[d];
  return rows;
}

size_t rowGrain(int64_t width) { return static_cast<size_t>(std::max<int64_t>(1, 4096 / std::max<int64_t>(1, width))); }

size_t floatBytes(const tsc::Tensor& t) {
  return t.present() && t.dtype() != TSC_F32 ? Room::bytesOf(t.numel(), sizeof(float)) : 0;
}

const float* asFloats(const tsc::Run& run, const tsc::Tensor& t, Room& room) {
  if (!t.present()) return nullptr;
  if (t.dtype() == TSC_F32) return t.data<float>();
  float* to = room.take<float>(t.numel());
  const ValueFormat format{storageOf(t.dtype())};
  const int64_t item = format.itemBytes();
  constexpr size_t kGrain = 16384;
  run.parallelFor(static_cast<size_t>(t.numel()), kGrain, [&](size_t begin, size_t end) {
    loadValues(format, t.data<std::byte>() + static_cast<int64_t>(begin) * item, static_cast<int64_t>(end - begin),
               to + begin);
  });
  return to;
}

size_t sumsBytes(const tsc::Tensor& out) {
  return out.dtype() == TSC_F32 ? 0 : Room::bytesOf(out.numel(), sizeof(float));
}
float* sumsFor(const tsc::Tensor& out, Room& room) {
  return out.dtype() == TSC_F32 ? out.data<float>() : room.take<float>(out.numel());
}

namespace {

template <class T>
void store(const tsc::Run& run, int64_t m, int64_t n, T* sums, const ResultScales& s, const tsc::Tensor& out) {
  const bool same = static_cast<const void*>(sums) == out.data<void>() && out.dtype() == TSC_F32;
  const bool scaled = s.all != 1 || s.rows || s.columns;
  if (same && !scaled) return;
  const ValueFormat format{storageOf(out.dtype()), s.quantize};
  const int64_t item = format.itemBytes();
  run.parallelFor(static_cast<size_t>(m), rowGrain(n), [&](size_t begin, size_t end) {
    float* scratch = threadScratch(n);
    for (auto r = static_cast<int64_t>(begin); r < static_cast<int64_t>(end); ++r) {
      const T* from = sums + r * n;
      float* to = format.storage == DType::Float32 ? out.data<float>() + r * n : scratch;
      const float factor = s.all * (s.rows ? s.rows[r] : 1.0f);
      if (s.columns)
        for (int64_t c = 0; c < n; ++c) to[c] = static_cast<float>(from[c]) * (factor * s.columns[c]);
      else
        for (int64_t c = 0; c < n; ++c) to[c] = static_cast<float>(from[c]) * factor;
      if (to == scratch) storeValues(format, scratch, n, out.data<std::byte>() + r * n * item);
    }
  });
}

}  // namespace

void storeResult(const tsc::Run& run, int64_t m, int64_t n, float* sums, const ResultScales& scales,
                 const tsc::Tensor& out) {
  store(run, m, n, sums, scales, out);
}
void storeResult(const tsc::Run& run, int64_t m, int64_t n, const int32_t* sums, const ResultScales& scales,
                 const tsc::Tensor& out) {
  store(run, m, n, sums, scales, out);
}

ResultScales scalesOf(const tsc::Tensor& rows, bool isEachRow, const tsc::Tensor& columns, bool isEachColumn) {
  ResultScales scales;
  if (isEachRow)
    scales.rows = rows.data<float>();
  else
    scales.all *= oneFloat(rows);
  if (isEachColumn)
    scales.columns = columns.data<float>();
  else
    scales.all *= oneFloat(columns);
  return scales;
}

}  // namespace tscompile
