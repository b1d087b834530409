#include "frontend/archive/torch_archive.h"

#include "frontend/files/archive_kind.h"
#include "frontend/files/torch_storages.h"
#include "ir/support/number_of_text.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {

Result<std::shared_ptr<const TorchArchive>> TorchArchive::open(const std::string& path, Diagnostics& diagnostics,
                                                               const Limits& limits) {
  Ref<FileMapping> file = FileMapping::open(path, diagnostics);
  if (!file) return Failed{};
  return read({file->bytes(), path}, file.get(), diagnostics, limits);
}

Result<std::shared_ptr<const TorchArchive>> TorchArchive::read(const FilePart& file, const RefCounted* owner,
                                                               Diagnostics& diagnostics, const Limits& limits) {
  constexpr std::string_view kExpected = "a TorchScript archive";
  FileKind kind = detectFileKind(file.bytes.substr(0, kFileKindBytes));
  if (kind != FileKind::TorchArchive && kind != FileKind::Zip) {
    reportFileKind(file.path, kExpected, kind, diagnostics);
    return Failed{};
  }
  Result<std::shared_ptr<const ZipArchive>> zip = ZipArchive::read(file, owner, diagnostics, limits);
  if (!zip) return Failed{};
  if (kind = archiveKind(**zip); kind != FileKind::TorchScript) {
    reportFileKind(file.path, kExpected, kind, diagnostics);
    return Failed{};
  }
  auto archive = std::make_shared<TorchArchive>();
  archive->zip_ = std::move(*zip);
  archive->limits_ = limits;
  archive->root_ = archiveRoot(*archive->zip_);
  if (!archive->readVersion(diagnostics) || !archive->readByteOrder(diagnostics)) return Failed{};
  archive->data_ = archive->values("data", diagnostics);
  if (archive->data_) archive->constants_ = archive->values("constants", diagnostics);
  if (!archive->constants_ || !archive->checkValues(diagnostics)) return Failed{};
  return std::shared_ptr<const TorchArchive>(std::move(archive));
}

Result<std::string> TorchArchive::word(std::string_view name, Diagnostics& diagnostics) const {
  const ZipMember* member = zip_->find(root_ + std::string(name));
  if (!member) {
    diagnostics.fileError(path(), {}, fmt::format("the archive has no member '{}{}'", root_, name));
    return Failed{};
  }
  constexpr uint64_t kMost = 1000;
  Result<ZipContents> contents = zip_->contents(*member, kMost, diagnostics);
  if (!contents) return Failed{};
  std::string_view text = contents->part.bytes;
  text = text.substr(0, text.find_last_not_of(" \r\n") + 1);
  return abbreviate(text, 100);
}

bool TorchArchive::readVersion(Diagnostics& diagnostics) {
  // PyTorch 1.13 puts versions from 6 on beside its other records.
  Result<std::string> text = word(has("version") || !has(".data/version") ? "version" : ".data/version", diagnostics);
  if (!text) return false;
  version_ = numberOfText<int64_t>(*text).value_or(0);
  if (version_ < 1) {
    diagnostics.fileError(path(), {}, fmt::format("the version of the archive is a number, not '{}'", *text));
    return false;
  }
  if (version_ <= kNewestVersion) return true;
  diagnostics.fileError(path(), {},
                        fmt::format("the archive has version {}, the newest known is {}", version_, kNewestVersion),
                        ErrorKind::Unsupported);
  return false;
}

bool TorchArchive::readByteOrder(Diagnostics& diagnostics) {
  if (!has("byteorder")) return true;  // before 2.1
  Result<std::string> text = word("byteorder", diagnostics);
  if (!text) return false;
  bigEndian_ = *text == "big";
  if (bigEndian_ || *text == "little") return true;
  diagnostics.fileError(path(), {}, fmt::format("the byte order is 'little' or 'big', not '{}'", *text));
  return false;
}

Result<std::shared_ptr<const PickleTree>> TorchArchive::pickle(std::string_view name, PickleStorages* storages,
                                                               Diagnostics& diagnostics) const {
  const ZipMember* member = zip_->find(root_ + std::string(name));
  if (!member) return std::shared_ptr<const PickleTree>();
  Result<ZipContents> contents = zip_->contents(*member, limits_.textBytes, diagnostics);
  if (!contents) return Failed{};
  PickleOptions options;
  options.path = contents->part.path;
  options.offset = contents->part.offset;
  options.owner = contents->owner;
  options.storages = storages;
  options.limits = limits_;
  return readPickle(contents->part.bytes, options, diagnostics);
}

std::shared_ptr<const PickleTree> TorchArchive::values(const std::string& name, Diagnostics& diagnostics) const {
  ZipStorages storages(zip_, root_ + name + "/", bigEndian_, diagnostics);
  Result<std::shared_ptr<const PickleTree>> tree = pickle(name + ".pkl", &storages, diagnostics);
  return tree ? *tree : nullptr;
}

bool TorchArchive::checkValues(Diagnostics& diagnostics) const {
  using Kind = PickleValue::Kind;
  auto fail = [&](const PickleValue& value, std::string_view what) {
    diagnostics.fileError(path(), value.offset(), fmt::format("{} {}", what, describe(value.kind())));
    return false;
  };
  if (!data().is(Kind::Object)) return fail(data(), "data.pkl holds a module, not");
  if (!constants_->root().is(Kind::Tuple)) return fail(constants_->root(), "constants.pkl holds a tuple, not");
  return true;
}

std::vector<std::string> TorchArchive::codeFiles() const {
  std::vector<std::string> out;
  for (const ZipMember& m : zip_->members())
    if (startsWith(m.name, root_ + "code/") && endsWith(m.name, ".py")) out.push_back(m.name.substr(root_.size()));
  std::sort(out.begin(), out.end());
  return out;
}

std::string TorchArchive::codeFileOf(std::string_view qualifiedName) {
  std::string module(qualifiedName.substr(0, qualifiedName.rfind('.')));
  std::replace(module.begin(), module.end(), '.', '/');
  return "code/" + module + ".py";
}

Result<SourcePtr> TorchArchive::code(std::string_view name, Diagnostics& diagnostics) const {
  const ZipMember* member = zip_->find(root_ + std::string(name));
  if (!member) {
    diagnostics.fileError(path(), {}, fmt::format("the archive has no source '{}'", abbreviate(name, 200)));
    return Failed{};
  }
  Result<ZipContents> contents = zip_->contents(*member, limits_.textBytes, diagnostics);
  if (!contents) return Failed{};
  return SourceFile::make(fmt::format("{}:{}", path(), name), std::string(contents->part.bytes));
}

Result<std::shared_ptr<const PickleTree>> TorchArchive::debugInfo(std::string_view codeFile,
                                                                  Diagnostics& diagnostics) const {
  return pickle(std::string(codeFile) + ".debug_pkl", nullptr, diagnostics);
}

}  // namespace tscompile
