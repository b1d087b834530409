// Reads pickles (protocols 0 to 5 as far as PyTorch and the libraries around it write them) without executing them.
#pragma once

#include "frontend/pickle/pickle_value.h"
#include "ir/support/diagnostics.h"
#include "ir/support/limits.h"
#include "ir/support/result.h"

namespace tscompile {

// Where the storages are that a pickle refers to.
class PickleStorages {
 public:
  virtual ~PickleStorages() = default;
  // The bytes of a storage, at least `bytes` of them, in our byte order; null after a report.
  virtual Ref<Storage> find(std::string_view key, DType dtype, uint64_t bytes) = 0;
};

struct PickleOptions {
  std::string path;     // of the file, for messages, with
  uint64_t offset = 0;  // where the pickle begins in it
  // Classes of Python that are not on the list: kept as objects with a name, of which nothing is known, or refused.
  // `__torch__.…` is always taken.
  bool foreignObjects = false;
  // Lists and the like inside each other; 0: any number. What does not recurse may ask for that.
  uint64_t depth = 0;
  PickleStorages* storages = nullptr;  // null: tensors stay without data
  Limits limits;
};

// The tree of the pickle that `bytes` begin with. Its texts point into `bytes`, which `owner` may keep. `used` tells
// how many bytes it took.
Result<std::unique_ptr<PickleTree>> readPickle(std::string_view bytes, const PickleOptions& options,
                                               Diagnostics& diagnostics, size_t* used = nullptr);

}  // namespace tscompile
