// What plugins that multiply matrices share: types, sizes, f32 copies of tensors, results in other types.
#pragma once

#include "runtime/plugin/plugin_sdk.h"
#include "runtime/trtllm/attention/value_format.h"
#include "runtime/trtllm/builtin/host_tensor.h"

#include <string>

namespace tscompile {

inline constexpr uint32_t kRowTypes = tsc::kF32 | tsc::kF16 | tsc::kBF16;
// Of fields that name the type of a result: that of an input, or another.
inline constexpr std::string_view kResultTypes = "input|float32|float16|bfloat16", kTypes = "float32|float16|bfloat16";
std::vector<tsc_dtype> resultTypes();  // TSC_NONE: as the input
std::vector<tsc_dtype> floatTypes();

// How such a tensor holds floats; uint8 are the bits of fp8.
DType storageOf(tsc_dtype dtype);

// Fails if both sizes are known and differ: "the size of x is 3, expected 4 as that of y".
void expectEqual(const tsc::Dim& a, const tsc::Dim& b, const std::string& what, const std::string& like);
// Fails if a tensor has another rank: "weight must have 2 dimensions, not 3".
void expectRank(const tsc::Shape& s, size_t rank, const std::string& name);
void expectRankFrom(const tsc::Shape& s, size_t least, const std::string& name);
// Fails unless the input is absent or has so many elements: "the number of biases is 3, expected 4 as N of weight".
void expectCount(const tsc::Shapes& s, size_t input, const tsc::Dim& count, const std::string& name,
                 const std::string& like);
void expectOne(const tsc::Shapes& s, size_t input, const std::string& name);
// For `run`, whose sizes are all known: fails if the sizes are not these.
int64_t rowsOf(const tsc::Tensor& t);  // all sizes but the last, multiplied
inline int64_t widthOf(const tsc::Tensor& t) { return t.size(-1); }

// A piece of workspace after the other, each at a multiple of 64 bytes.
class Room {
 public:
  explicit Room(std::span<std::byte> memory) : memory_(memory) {}
  template <class T>
  T* take(int64_t count) {
    T* at = reinterpret_cast<T*>(memory_.data() + used_);
    used_ += bytesOf(count, sizeof(T));
    return at;
  }
  static size_t bytesOf(int64_t count, size_t item) { return (static_cast<size_t>(count) * item + 63) / 64 * 64; }

 private:
  std::span<std::byte> memory_;
  size_t used_ = 0;
};

// The values of a tensor as f32: its own, or a copy in `room`.
const float* asFloats(const tsc::Run& run, const tsc::Tensor& t, Room& room);
// What that takes of a workspace.
size_t floatBytes(const tsc::Tensor& t);
// The value of a tensor with one f32.
inline float oneFloat(const tsc::Tensor& t) { return t.data<float>()[0]; }

// What a row of sums is multiplied by on its way into the result.
struct ResultScales {
  float all = 1;
  const float* rows = nullptr;     // one a row, or null
  const float* columns = nullptr;  // one a column, or null
  float quantize = 1;              // of int8 and fp8 results
};
// Each tensor: one scale for all, or one of each row and of each column.
ResultScales scalesOf(const tsc::Tensor& rows, bool isEachRow, const tsc::Tensor& columns, bool isEachColumn);
// out[m][n] = sums * scales; `sums` may be the memory of an f32 output.
void storeResult(const tsc::Run& run, int64_t m, int64_t n, float* sums, const ResultScales& scales,
                 const tsc::Tensor& out);
void storeResult(const tsc::Run& run, int64_t m, int64_t n, const int32_t* sums, const ResultScales& scales,
                 const tsc::Tensor& out);
// Where sums go before storeResult: the memory of an f32 output, else `room`.
float* sumsFor(const tsc::Tensor& out, Room& room);
size_t sumsBytes(const tsc::Tensor& out);

// Rows of about 16 KiB together.
size_t rowGrain(int64_t width);

}  // namespace tscompile
