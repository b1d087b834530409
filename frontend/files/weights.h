// Tensor files: safetensors, .npy, members of .npz. Nothing in them is executed; every size is checked against the
// bytes that are there before anything is allocated.
#pragma once

#include "frontend/files/file_io.h"
#include "ir/support/diagnostics.h"
#include "ir/support/limits.h"
#include "ir/support/result.h"
#include "ir/values/tensor.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tscompile {

class FileWriter;
using Metadata = std::map<std::string, std::string, std::less<>>;

// The tensors of one or several weights files by name, all of them read-only. Those of safetensors files are mapped
// into memory without a copy; the mapping lives as long as a tensor of it.
class Weights {
 public:
  // What a file has under a name, and why that is not read.
  struct Refused {
    std::string name, why, file;
  };
  // Reads a safetensors file; a recipe: text with lines `name = 64x3:f32:randn(seed=1)` (docs/values.md); a checkpoint
  // of PyTorch; an .npz file; or an index that names such files (`model.safetensors.index.json`). `FILE#model.ema`
  // reads only what is below that path, without it in the names. What a checkpoint has that is no weight is passed over
  // unless nothing else is there. A name that an earlier file has is an error. False after a report; then nothing was
  // added, of an index perhaps its first files.
  bool addFile(const std::string& path, Diagnostics& diagnostics, const Limits& limits = {});
  // Adds a tensor under a name that is new; false if it is not.
  bool add(std::string name, Tensor tensor);
  void addMetadata(Metadata metadata) { metadata_.merge(std::move(metadata)); }

  bool empty() const { return tensors_.empty(); }
  // The tensor of this name, or null; remembers that it was asked for. A checkpoint whose tensors are all in one dict
  // of others, {"model": {...}, "epoch": 3}, answers to their names with and without "model.".
  const Tensor* find(std::string_view name);
  // The same, and forgets it.
  const Tensor* peek(std::string_view name) const {
    const Entry* entry = lookUp(name);
    return entry ? &entry->tensor : nullptr;
  }
  bool has(std::string_view name) const { return lookUp(name) != nullptr; }
  // A name of names() in the shortest form that find() takes.
  std::string_view shortest(std::string_view name) const;
  // What was passed over under this name, which may lack what find() lets it lack; or null.
  const Refused* refusedAt(std::string_view name) const;
  // How to read them if they have this name below some path: "FILE has 'module.fc.weight': FILE#module reads what is
  // below 'module'", or why they do not have it; "" if nothing is known.
  std::string adviceFor(std::string_view name) const;
  // `__metadata__` of the files: free text by key. Where files differ the first has its way.
  const Metadata& metadata() const { return metadata_; }
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
    mutable bool used = false;
  };
  using Named = std::vector<std::pair<std::string, Tensor>>;
  bool addSafetensors(const std::string& path, const std::string& inside, const FileMapping& file,
                      Diagnostics& diagnostics, const Limits& limits);
  bool addNpz(const std::string& path, const std::string& inside, const FileMapping& file, Diagnostics& diagnostics,
              const Limits& limits);
  bool addFile(const std::string& name, bool mayBeIndex, Diagnostics& diagnostics, const Limits& limits);
  const Entry* lookUp(std::string_view name) const;
  bool addCheckpoint(const std::string& path, const std::string* inside, const FileMapping& file,
                     Diagnostics& diagnostics, const Limits& limits);
  bool addIndex(const std::string& path, std::string_view text, Diagnostics& diagnostics, const Limits& limits);
  bool addRecipe(const std::string& path, const std::string& inside, std::string_view text, Diagnostics& diagnostics,
                 const Limits& limits);
  bool addBelow(const std::string& inside, Named tensors, const std::string& path, Diagnostics& diagnostics);
  bool addAll(Named tensors, const std::string& path, Diagnostics& diagnostics, const std::string& prefix = "");

  std::map<std::string, Entry, std::less<>> tensors_;
  std::vector<std::string> prefixes_;  // that names may be asked for without
  std::vector<Refused> refused_;
  Metadata metadata_;
};

// What a safetensors header says. The ranges tile the bytes after the header; they agree with dtype and sizes where we
// know the dtype.
struct TensorEntry {
  std::string name;
  std::string dtype;  // "F32", as the file has it
  Dims sizes;
  uint64_t begin = 0, end = 0;  // bytes after the header
};
struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // in the order of their bytes
  Metadata metadata;
  uint64_t dataOffset = 0;
};
Result<SafetensorsHeader> readSafetensorsHeader(const std::string& path, Diagnostics& diagnostics,
                                                const Limits& limits = {});
// The dtype behind the name that safetensors gives it; none for those that we do not compute with.
std::optional<DType> dtypeFromSafetensors(std::string_view name);

// What an .npy header says.
struct NpyHeader {
  DType dtype = DType::Undefined;
  bool fortranOrder = false;
  Dims sizes;
  uint64_t dataOffset = 0;
};
Result<NpyHeader> readNpyHeader(const std::string& path, Diagnostics& diagnostics, const Limits& limits = {});
// The names of an .npz file's members, in their order, without ".npy".
Result<std::vector<std::string>> readNpzNames(const std::string& path, Diagnostics& diagnostics,
                                              const Limits& limits = {});

// These read one tensor into memory of its own. The first looks at the file's bytes, not at its name, for the format;
// the name of a member is needed where a file has several.
Result<Tensor> readTensorFile(const std::string& path, std::optional<std::string_view> member, Diagnostics& diagnostics,
                              const Limits& limits = {});
Result<Tensor> readSafetensor(const std::string& path, std::string_view name, Diagnostics& diagnostics,
                              const Limits& limits = {});
// A whole .npy file (versions 1 to 3, little-endian). Arrays in Fortran order keep it in their strides.
Result<Tensor> readNpy(const std::string& path, Diagnostics& diagnostics, const Limits& limits = {});
// A member of an .npz file, which must be stored, not compressed; the name with or without ".npy".
Result<Tensor> readNpz(const std::string& path, std::string_view member, Diagnostics& diagnostics,
                       const Limits& limits = {});

// Whether numpy has this dtype: all but bfloat16 and floating point of 8 bits.
bool hasNpyType(DType dtype);
// To a file that the caller commits, as numpy.save writes it, of a dtype that numpy has.
bool putNpy(FileWriter& file, const Tensor& tensor);
// The same, committed.
bool writeNpy(const std::string& path, const Tensor& tensor, Diagnostics& diagnostics);
// To a file that the caller commits. The bytes are in an order that aligns all elements, otherwise as given.
bool putSafetensors(FileWriter& file, const std::vector<std::pair<std::string, Tensor>>& tensors,
                    const Metadata& metadata = {});
// The same, committed. Two tensors of one name are an error.
bool writeSafetensors(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                      Diagnostics& diagnostics, const Metadata& metadata = {});

}  // namespace tscompile
