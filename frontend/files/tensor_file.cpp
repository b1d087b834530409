// Tensors of files whatever their format.
#include "frontend/files/archive_kind.h"
#include "frontend/files/checkpoint.h"
#include "frontend/files/tensor_formats.h"
#include "frontend/files/zip.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

// A file of tensors that have names.
class TensorMembers {
 public:
  TensorMembers(const FilePart& file, FileKind kind, const RefCounted* owner, Diagnostics& diagnostics,
                const Limits& limits)
      : file_(file), kind_(kind), owner_(owner), diagnostics_(diagnostics), limits_(limits) {}

  // Without a name, the only one.
  Result<Tensor> read(std::optional<std::string_view> member) {
    if (!readNames()) return Failed{};
    if (!member && names_.size() == 1) member = names_[0];
    if (!member) return tellNames(fmt::format("{} holds tensors by name: {}#NAME", describe(kind_), file_.path));
    if (kind_ == FileKind::Safetensors) return parseSafetensor(file_, *member, diagnostics_, limits_);
    return isCheckpoint(kind_) ? saved(*member) : parseNpz(file_, *member, diagnostics_, limits_);
  }

 private:
  bool readNames() {
    if (isCheckpoint(kind_)) return readSaved();
    if (kind_ == FileKind::Safetensors) {
      auto header = parseSafetensorsHeader(file_.bytes, file_.bytes.size(), file_.path, diagnostics_, limits_);
      if (!header) return false;
      for (TensorEntry& e : header->tensors) names_.push_back(std::move(e.name));
      return true;
    }
    auto archive = ZipArchive::read(file_, nullptr, diagnostics_, limits_);
    if (!archive) return false;
    for (const ZipMember& m : (*archive)->members())
      names_.push_back(endsWith(m.name, ".npy") ? m.name.substr(0, m.name.size() - 4) : m.name);
    return true;
  }

  bool readSaved() {
    auto checkpoint = Checkpoint::read(file_, owner_, /*foreignNames=*/true, diagnostics_, limits_);
    if (!checkpoint) return false;
    checkpoint_ = std::move(*checkpoint);
    auto found = checkpoint_->tensors(checkpoint_->root(), diagnostics_);
    if (!found) return false;
    tensors_ = std::move(*found);
    for (const NamedTensor& t : tensors_) names_.push_back(t.name);
    return true;
  }

  // A copy without holes, as of other formats.
  Result<Tensor> saved(std::string_view name) {
    const auto found = std::ranges::find(tensors_, name, &NamedTensor::name);
    if (found == tensors_.end()) {
      NearestName nearest(name);
      for (const std::string& n : names_) nearest.consider(n);
      return tellNames(fmt::format("the file has no tensor '{}'", abbreviate(name, 200)), nearest.name());
    }
    const PickleTensor& t = *found->tensor;
    if (t.quantization || !t.tensor.defined()) {
      diagnostics_.fileError(file_.path, {},
                             fmt::format("tensors of the dtype {} are not read from such files", pythonName(t.dtype)),
                             ErrorKind::Unsupported);
      return Failed{};
    }
    Result<Tensor> copy = allocateTensor(t.tensor.dtype(), t.tensor.sizes(), file_.path, diagnostics_);
    if (!copy) return Failed{};
    const size_t item = itemSize(t.tensor.dtype());
    std::byte* to = copy->raw();
    forEachElement(t.tensor, [&](const std::byte* element) { to = std::copy(element, element + item, to); });
    return copy;
  }

  Failed tellNames(std::string message, const std::string& meant = "") {
    Diagnostic& d = diagnostics_.fileError(file_.path, {}, std::move(message));
    if (!meant.empty()) d.note("did you mean '" + meant + "'?");
    constexpr size_t kShown = 10;
    const size_t more = names_.size() > kShown ? names_.size() - kShown : 0;
    names_.resize(names_.size() - more);
    const std::string list = join(names_, ", ", [](const std::string& n) { return abbreviate(n, 80); });
    d.note(names_.empty() ? "it has none"
                          : fmt::format("it has {}{}", list, more ? fmt::format(" and {} more", more) : ""));
    return {};
  }

  FilePart file_;
  FileKind kind_;
  const RefCounted* owner_;
  Diagnostics& diagnostics_;
  const Limits& limits_;
  std::vector<std::string> names_;
  std::shared_ptr<const Checkpoint> checkpoint_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace

Result<Tensor> readTensorFile(const std::string& path, std::optional<std::string_view> member, Diagnostics& diagnostics,
                              const Limits& limits) {
  Ref<FileMapping> mapping = FileMapping::open(path, diagnostics);
  if (!mapping) return Failed{};
  FilePart file{mapping->bytes(), path};
  FileKind kind = detectWholeFileKind(file.bytes, limits);
  if (kind == FileKind::Npy) {
    if (!member) return parseNpy(file, diagnostics, limits);
    diagnostics.fileError(
        path, {}, fmt::format("an .npy file holds one tensor without a name, not '{}'", abbreviate(*member, 80)));
    return Failed{};
  }
  if (kind == FileKind::Zip) kind = FileKind::Npz;
  if (kind == FileKind::Npz || kind == FileKind::Safetensors || isCheckpoint(kind))
    return TensorMembers(file, kind, mapping.get(), diagnostics, limits).read(member);
  Diagnostic& d =
      reportFileKind(path, "a file of tensors: .npy, .npz, safetensors or of torch.save", kind, diagnostics);
  if (kind == FileKind::Binary) d.note("elements alone are read as a tensor of given sizes: 2x3:f32=@" + path);
  if (kind == FileKind::Image) d.note("numpy.save writes what a library of images makes of it");
  return Failed{};
}

}  // namespace tscompile
