// Tensor files: safetensors, .npy, members of .npz. Nothing in them is executed; every size is checked against the bytes
// that are there before anything is allocated.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/support/diagnostics.h"
#include "ir/support/limits.h"
#include "ir/support/result.h"
#include "ir/tensor.h"

namespace tscompile {

// The tensors of one or several safetensors files by name. They are mapped into memory, read-only and without a copy;
// the mapping lives as long as a tensor of it.
class Weights {
 public:
  // Reads a file's header and adds its tensors. A name that an earlier file has is an error. False after a report.
  bool addFile(const std::string& path, Diagnostics& diagnostics, const Limits& limits = {});
  // Adds a tensor under a name that is new; false if it is not.
  bool add(std::string name, Tensor tensor);

  bool empty() const { return tensors_.empty(); }
  // The tensor of this name, or null; remembers that it was asked for.
  const Tensor* find(std::string_view name);
  bool has(std::string_view name) const;
  // `__metadata__` of the files: free text by key.
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  // Names that nobody asked for, sorted.
  std::vector<std::string> unused() const;
  // All names, sorted.
  std::vector<std::string> names() const;
  // The file that a tensor came from, or "".
  std::string_view fileOf(std::string_view name) const;

 private:
  struct Entry {
    Tensor tensor;
    std::string file;
    bool used = false;
  };
  std::map<std::string, Entry, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

// What a safetensors header says, for listings: nothing is mapped.
struct TensorEntry {
  std::string name;
  std::string dtype;  // "F32", as the file has it
  Dims sizes;
  uint64_t begin = 0, end = 0;  // bytes behind the header
};
struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // in the order of the file
  std::map<std::string, std::string, std::less<>> metadata;
  uint64_t dataOffset = 0;
};
Result<SafetensorsHeader> readSafetensorsHeader(const std::string& path, Diagnostics& diagnostics, const Limits& limits = {});

// One tensor of a safetensors file.
Result<Tensor> readSafetensor(const std::string& path, std::string_view name, Diagnostics& diagnostics, const Limits& limits = {});
// A whole .npy file (versions 1 to 3, C or Fortran order, little-endian).
Result<Tensor> readNpy(const std::string& path, Diagnostics& diagnostics, const Limits& limits = {});
// A member of an .npz file, which must be stored, not compressed; the name with or without ".npy".
Result<Tensor> readNpz(const std::string& path, std::string_view member, Diagnostics& diagnostics, const Limits& limits = {});

// Writes by way of a temporary file that is renamed, so a reader sees the old file or the new one.
bool writeNpy(const std::string& path, const Tensor& tensor, Diagnostics& diagnostics);  // not bfloat16: numpy has none
bool writeSafetensors(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                      Diagnostics& diagnostics, const std::map<std::string, std::string>& metadata = {});
bool writeFile(const std::string& path, std::string_view bytes, Diagnostics& diagnostics);
// The whole file, or a report: not found, not a regular file, larger than `limit` bytes.
Result<std::string> readFile(const std::string& path, uint64_t limit, Diagnostics& diagnostics);

}  // namespace tscompile
