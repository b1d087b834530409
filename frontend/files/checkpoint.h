// Checkpoints (`torch.save`): a zip with a pickle and its storages, or before PyTorch 1.6 a stream of pickles and
// storages. Nothing in them is executed.
#pragma once

#include "frontend/files/zip.h"
#include "frontend/pickle/pickle.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

struct NamedTensor {
  std::string name;  // as a key of state_dict(): "layer1.0.weight"
  const PickleTensor* tensor;
};
// An object of a class of which nothing is known; it may be a tensor of another kind.
struct NamedObject {
  std::string name;
  PickleRef object;
};
// All tensors below `container`, in order, with their paths in it: keys of dicts, numbers of list items, names of
// submodules, parameters and buffers (of TorchScript: attributes). Optimizers inside are left out. `others` get the
// objects that stand where tensors may. Fails after a report on the file `path`: two tensors have one name.
Result<std::vector<NamedTensor>> namedTensors(const PickleValue& container, const std::string& path,
                                              Diagnostics& diagnostics, const Limits& limits,
                                              std::vector<NamedObject>* others = nullptr);

class Checkpoint {
 public:
  // Of bytes that `owner` keeps in memory (if it is null, storages are copied). With `foreignNames`, objects of Python
  // that are not on the list of known names are objects of which nothing is known; otherwise they are refused.
  static Result<std::shared_ptr<const Checkpoint>> read(const FilePart& file, const RefCounted* owner,
                                                        bool foreignNames, Diagnostics& diagnostics,
                                                        const Limits& limits = {});

  const PickleValue& root() const { return tree_->root(); }
  bool isBigEndian() const { return bigEndian_; }

  // See namedTensors().
  Result<std::vector<NamedTensor>> tensors(const PickleValue& container, Diagnostics& diagnostics,
                                           std::vector<NamedObject>* others = nullptr) const;
  // What is at a path of keys ("optimizer.state"); null if nothing is. Keys may have dots.
  PickleRef find(std::string_view path) const;
  // The way to the tensors, if only one dict of another has them, which may have some beside it: "model." for
  // {"model": {…}, "epoch": 3}.
  std::string onlyContainer() const;

 private:
  const PickleValue::Entry* onlyEntry(const PickleValue& dict) const;
  bool readZip(const FilePart& file, const RefCounted* owner, const PickleOptions& options, Diagnostics& diagnostics);
  bool readStream(const FilePart& file, const RefCounted* owner, const PickleOptions& options,
                  Diagnostics& diagnostics);

  bool bigEndian_ = false;
  Limits limits_;
  std::string path_;
  std::shared_ptr<const PickleTree> tree_;
};

// The state of an optimizer: {"state": …, "param_groups": …}.
bool isOptimizer(const PickleValue& value);

}  // namespace tscompile
