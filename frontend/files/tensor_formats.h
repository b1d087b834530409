// Tensor formats at the level of bytes: what the readers of files, of archive members and the fuzz targets share.
#pragma once

#include "frontend/files/weights.h"

#include <string>
#include <string_view>

namespace tscompile {

// The bytes of a file or of a part of it, and how messages name the place.
struct FilePart {
  std::string_view bytes;
  std::string path;
  uint64_t offset = 0;  // of the first byte in the file
};

// `start` is at least the header of a file that has `fileSize` bytes.
Result<SafetensorsHeader> parseSafetensorsHeader(std::string_view start, uint64_t fileSize, const std::string& path,
                                                 Diagnostics& diagnostics, const Limits& limits);
// A tensor of a whole safetensors file with this header. If `owner` keeps the bytes in memory they are not copied, and
// the tensor is read-only.
Result<Tensor> loadSafetensor(std::string_view file, const SafetensorsHeader& header, const TensorEntry& entry,
                              const RefCounted* owner, const std::string& path, Diagnostics& diagnostics);

// The tensor of this name in a whole safetensors file, copied.
Result<Tensor> parseSafetensor(const FilePart& file, std::string_view name, Diagnostics& diagnostics,
                               const Limits& limits);

// A whole .npy file, copied.
Result<Tensor> parseNpy(const FilePart& file, Diagnostics& diagnostics, const Limits& limits);
// All members of a whole .npz file, by their names without ".npy", copied; together they are bounded by one limit.
Result<std::vector<std::pair<std::string, Tensor>>> parseNpz(const FilePart& file, Diagnostics& diagnostics,
                                                             const Limits& limits);
// A member of a whole .npz file, copied.
Result<Tensor> parseNpz(const FilePart& file, std::string_view member, Diagnostics& diagnostics, const Limits& limits);

// An uninitialized tensor, or a report that there is not enough memory for it.
Result<Tensor> allocateTensor(DType dtype, DimSpan sizes, const std::string& path, Diagnostics& diagnostics);
// A read-only tensor of row-major bytes that `owner` keeps in memory.
Tensor readOnlyTensor(DType dtype, DimSpan sizes, std::string_view bytes, const RefCounted* owner);
// The same elements, not to be written to.
Tensor asReadOnly(const Tensor& tensor);
// Writes the elements row by row, whatever the strides.
bool writeElements(FileWriter& file, const Tensor& tensor);
// Calls f(std::byte*) for each element, row by row.
template <class F>
void forEachElement(const Tensor& t, F&& f) {
  int64_t item = static_cast<int64_t>(itemSize(t.dtype())), at = 0;
  Dims index(static_cast<size_t>(t.rank()));
  for (int64_t n = t.numel(); n > 0; --n) {
    f(t.raw() + at * item);
    for (int d = t.rank(); d-- > 0;) {
      at += t.stride(d);
      if (++index[d] < t.size(d)) break;
      at -= t.stride(d) * t.size(d);
      index[d] = 0;
    }
  }
}
// The first byte of a bool tensor's data that is neither 0 nor 1.
std::optional<size_t> findBadBool(std::string_view bytes);
// "F32". The dtype is one that we compute with.
std::string_view safetensorsName(DType dtype);
// A tensor's name for messages: "tensor 'x'".
std::string tensorText(std::string_view name);

}  // namespace tscompile
