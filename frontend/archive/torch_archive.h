// TorchScript archives (`torch.jit.save`): the zip, its pickles and the sources of its classes. What the sources say is
// for frontend/source.
#pragma once

#include "frontend/files/zip.h"
#include "frontend/pickle/pickle.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

class TorchArchive {
 public:
  // The newest version of the format; later ones are refused.
  static constexpr int64_t kNewestVersion = 10;

  // Opens a file, maps its storages and reads its pickles. Reports what is not such an archive, or one that cannot be
  // read: the model.json form before PyTorch 1.4, mobile files without sources, checkpoints.
  static Result<std::shared_ptr<const TorchArchive>> open(const std::string& path, Diagnostics& diagnostics,
                                                          const Limits& limits = {});
  // The same of bytes in memory; `owner`, if not null, keeps them there.
  static Result<std::shared_ptr<const TorchArchive>> read(const FilePart& file, const RefCounted* owner,
                                                          Diagnostics& diagnostics, const Limits& limits = {});

  const std::string& path() const { return zip_->path(); }
  // The first part of all names: "model".
  std::string_view root() const { return std::string_view(root_).substr(0, root_.size() - 1); }
  // Of the file format and of the operators' semantics: 1 to 10.
  int64_t version() const { return version_; }
  bool isBigEndian() const { return bigEndian_; }
  // Written for mobile: has bytecode beside its sources.
  bool isMobile() const { return has("bytecode.pkl"); }

  // Names below the root, sorted: "code/__torch__/torch/nn/modules/conv.py".
  std::vector<std::string> codeFiles() const;
  // The file that a class or function is in, whether there is one or not: "__torch__.a.b.C" is in
  // "code/__torch__/a/b.py".
  static std::string codeFileOf(std::string_view qualifiedName);
  // Whether the archive has a member of this name below the root.
  bool has(std::string_view name) const { return zip_->find(root_ + std::string(name)) != nullptr; }
  // The text of a source file; it goes by "model.pt:code/__torch__/x.py" in messages.
  Result<SourcePtr> code(std::string_view name, Diagnostics& diagnostics) const;
  // The pickle beside a source file that tells where its lines come from (`.debug_pkl`); null if there is none.
  Result<std::shared_ptr<const PickleTree>> debugInfo(std::string_view codeFile, Diagnostics& diagnostics) const;

  // The module: an object whose class is in the sources. Its tensors are read-only and mapped: a model that writes to
  // one needs a copy. Tensors that share a storage in the file share it here, and shared values are shared pointers.
  const PickleValue& data() const { return data_->root(); }
  // What CONSTANTS.c0, CONSTANTS.c1 … stand for.
  const std::vector<PickleRef>& constants() const { return constants_->root().items(); }

 private:
  bool readVersion(Diagnostics& diagnostics);
  bool readByteOrder(Diagnostics& diagnostics);
  // A small member's text without its line end; fails if there is no such member.
  Result<std::string> word(std::string_view name, Diagnostics& diagnostics) const;
  Result<std::shared_ptr<const PickleTree>> pickle(std::string_view name, PickleStorages* storages,
                                                   Diagnostics& diagnostics) const;
  // A pickle whose tensors are in the folder of its name.
  std::shared_ptr<const PickleTree> values(const std::string& name, Diagnostics& diagnostics) const;
  bool checkValues(Diagnostics& diagnostics) const;

  std::string root_;  // with its slash
  int64_t version_ = 0;
  bool bigEndian_ = false;
  Limits limits_;
  std::shared_ptr<const ZipArchive> zip_;
  std::shared_ptr<const PickleTree> data_, constants_;
};

}  // namespace tscompile
