// Reads pickles (the instructions of protocols 2 to 5) without executing them. Names of classes and functions are taken
// from a closed list; sizes, counts and nesting are bounded, and nothing recurses.
#pragma once

#include "frontend/pickle/pickle_value.h"
#include "ir/support/diagnostics.h"
#include "ir/support/limits.h"
#include "ir/support/result.h"

namespace tscompile {

// The name of an object that is a sparse tensor; in TorchScript its arguments begin with layout, sizes, whether it
// needs gradients, places and elements.
inline constexpr std::string_view kSparseTensor = "torch._utils._rebuild_sparse_tensor";

// Where the storages are that a pickle refers to.
class PickleStorages {
 public:
  virtual ~PickleStorages() = default;
  // Read-only memory with the elements of a storage in our byte order, at least `count` of them, aligned for the dtype
  // (which has a size). Asked for the same key again, it answers with the same storage. Null after a report.
  virtual Ref<Storage> find(std::string_view key, DType dtype, uint64_t count) = 0;
  // The storage that torch.save wrote as these bytes, which stay where they are. Null after a report, or without one if
  // there are no such storages here.
  virtual const PickleStorage* ofBytes(std::string_view) { return nullptr; }
};

struct PickleOptions {
  std::string path;     // of the file, for messages, with
  uint64_t offset = 0;  // where the pickle begins in it
  // Keeps the bytes in memory for the texts of the tree; null: whoever calls does.
  std::shared_ptr<const void> owner;
  // Names that are not on the list: taken as objects of which nothing is known, or refused. Those of TorchScript
  // (`__torch__.…`) are always taken.
  bool foreignNames = false;
  PickleStorages* storages = nullptr;  // null: storages are refused
  Limits limits;
};

// The tree of the pickle that `bytes` begin with; `used` becomes its length. Walking the tree in order, and into no
// value twice, is not deeper than `limits.typeDepth`.
Result<std::shared_ptr<const PickleTree>> readPickle(std::string_view bytes, const PickleOptions& options,
                                                     Diagnostics& diagnostics, size_t* used = nullptr);

}  // namespace tscompile
