#include "frontend/files/weights.h"

#include "frontend/files/archive_kind.h"
#include "frontend/files/checkpoint.h"
#include "frontend/files/recipe.h"
#include "frontend/files/tensor_formats.h"
#include "frontend/files/weights_folder.h"
#include "frontend/files/weights_index.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace tscompile {

namespace {

// A recipe goes by its name or by its first line; a safetensors file may have any name.
bool isRecipe(const std::string& path, FileKind kind) {
  bool isText = kind == FileKind::Text || kind == FileKind::Empty;
  return kind == FileKind::WeightsRecipe || (isText && endsWith(path, ".weights"));
}

bool namesFile(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// A tensor of a file as weights are: without holes, not to be written to.
Result<Tensor> rowMajor(const std::string& name, const Tensor& from, const std::string& path, Diagnostics& diagnostics,
                        const Limits& limits) {
  if (from.isContiguous()) return from.storage()->readOnly() ? from : asReadOnly(from);
  const size_t item = itemSize(from.dtype());
  const uint64_t bytes = static_cast<uint64_t>(from.numel()) * item;
  if (bytes > limits.generatedBytes) {
    diagnostics.fileError(
        path, {}, fmt::format("{}: it has {} bytes, the limit is {}", tensorText(name), bytes, limits.generatedBytes),
        ErrorKind::Limit);
    return diagnostics.metLimit("generated", Failed{});
  }
  Result<Tensor> copy = allocateTensor(from.dtype(), from.sizes(), path, diagnostics);
  if (!copy) return Failed{};
  std::byte* to = copy->raw();
  forEachElement(from, [&](const std::byte* element) { to = std::copy(element, element + item, to); });
  return asReadOnly(*copy);
}

// Why a tensor of a checkpoint cannot be one of the weights; "" if it can.
std::string refusalOf(const PickleTensor& t) {
  if (t.quantization) return "quantised tensors are not supported as weights";
  return t.tensor.defined() ? "" : fmt::format("the dtype {} is not supported", pythonName(t.dtype));
}

std::string refusalOf(const PickleValue& object) {
  const std::string_view name = object.object().name;
  if (name == "numpy.ndarray") return "arrays of this dtype are not supported";
  return fmt::format("'{}' is not on the list of what a pickle may ask for", abbreviate(name, 200));
}

}  // namespace

bool Weights::addFile(const std::string& path, Diagnostics& diagnostics, const Limits& limits) {
  return addFile(path, true, diagnostics, limits);
}

bool Weights::addFile(const std::string& name, bool mayBeIndex, Diagnostics& diagnostics, const Limits& limits) {
  size_t hash = namesFile(name) ? std::string::npos : name.rfind('#');
  std::string path = name.substr(0, hash), inside = hash == std::string::npos ? "" : name.substr(hash + 1);
  if (refuseWeightsFolder(path, diagnostics)) return false;
  Ref<FileMapping> file = FileMapping::open(path, diagnostics);
  if (!file) return false;
  FileKind kind = detectWholeFileKind(file->bytes(), limits);
  if (isCheckpoint(kind) || kind == FileKind::TorchScript)
    return addCheckpoint(path, hash == std::string::npos ? nullptr : &inside, *file, diagnostics, limits);
  if (kind == FileKind::Npz) return addNpz(path, inside, *file, diagnostics, limits);
  if (isRecipe(path, kind)) return addRecipe(path, inside, file->bytes(), diagnostics, limits);
  if (kind == FileKind::Json && mayBeIndex && hash == std::string::npos)
    return addIndex(path, file->bytes(), diagnostics, limits);
  if (kind != FileKind::Safetensors && kind != FileKind::Binary) {
    Diagnostic& d = reportFileKind(path, hash == std::string::npos ? "a file of weights" : "one file of weights", kind,
                                   diagnostics);
    noteFilesInside(file->bytes(), d);
    return false;
  }
  return addSafetensors(path, inside, *file, diagnostics, limits);
}

namespace {

bool reportNothingAt(const std::string& inside, const std::string& path, Diagnostics& diagnostics) {
  diagnostics.fileError(path, {}, fmt::format("the file has nothing at '{}'", abbreviate(inside, 200)));
  return false;
}

}  // namespace

bool Weights::addCheckpoint(const std::string& path, const std::string* inside, const FileMapping& file,
                            Diagnostics& diagnostics, const Limits& limits) {
  auto checkpoint = Checkpoint::read({file.bytes(), path}, &file, /*foreignNames=*/true, diagnostics, limits);
  if (!checkpoint) return false;
  // Keys may have dots themselves: what no container is at may begin the names in one further out.
  std::string outer = inside ? *inside : "", rest;
  PickleRef container = inside ? (*checkpoint)->find(outer) : &(*checkpoint)->root();
  while (!container && !outer.empty()) {
    const size_t dot = outer.rfind('.');
    const std::string last = outer.substr(dot == std::string::npos ? 0 : dot + 1);
    rest = rest.empty() ? last : last + "." + rest;
    outer.resize(dot == std::string::npos ? 0 : dot);
    container = outer.empty() ? &(*checkpoint)->root() : (*checkpoint)->find(outer);
  }
  std::vector<NamedObject> others;
  auto found = (*checkpoint)->tensors(*container, diagnostics, &others);
  if (!found) return false;
  const std::string below = rest.empty() ? "" : rest + ".";
  std::vector<Refused> refused;
  Named tensors;
  for (const auto& [name, tensor] : *found) {
    if (!name.starts_with(below)) continue;
    if (std::string why = refusalOf(*tensor); !why.empty()) {
      refused.push_back({name.substr(below.size()), std::move(why), path});
      continue;
    }
    Result<Tensor> t = rowMajor(name, tensor->tensor, path, diagnostics, limits);
    if (!t) return false;
    tensors.emplace_back(name.substr(below.size()), std::move(*t));
  }
  for (const auto& [name, object] : others)
    if (name.starts_with(below)) refused.push_back({name.substr(below.size()), refusalOf(*object), path});
  if (tensors.empty() && !found->empty() && !refused.empty()) {
    diagnostics.fileError(path, {}, tensorText(refused[0].name) + ": " + refused[0].why, ErrorKind::Unsupported);
    return false;
  }
  if (found->empty() && refused.empty() && detectFileKind(file.bytes().substr(0, kFileKindBytes)) == FileKind::Pickle) {
    reportFileKind(path, "a PyTorch checkpoint", FileKind::Pickle, diagnostics);
    return false;
  }
  if (found->empty()) {
    Diagnostic& d = diagnostics.fileError(path, {}, "the checkpoint has no tensors",
                                          refused.empty() ? ErrorKind::Input : ErrorKind::Unsupported);
    if (!refused.empty()) d.note(refused[0].why);
    return false;
  }
  if (tensors.empty()) return reportNothingAt(*inside, path, diagnostics);
  if (!addAll(std::move(tensors), path, diagnostics, inside ? "" : (*checkpoint)->onlyContainer())) return false;
  std::move(refused.begin(), refused.end(), std::back_inserter(refused_));
  return true;
}

bool Weights::addIndex(const std::string& path, std::string_view text, Diagnostics& diagnostics, const Limits& limits) {
  Result<WeightsIndex> index = parseWeightsIndex({text, path}, diagnostics, limits);
  if (!index) return false;
  std::string folder = path.substr(0, path.rfind('/') + 1);
  for (const std::string& file : index->files)
    if (!addFile(folder + file, false, diagnostics, limits)) return false;
  for (const auto& [name, file] : index->tensors) {
    if (fileOf(name) == folder + file) continue;
    diagnostics.fileError(path, {}, fmt::format("{} is not in {}", tensorText(name), folder + file));
    return false;
  }
  return true;
}

bool Weights::addRecipe(const std::string& path, const std::string& inside, std::string_view text,
                        Diagnostics& diagnostics, const Limits& limits) {
  if (text.size() > limits.textBytes) {
    diagnostics.fileError(path, {}, fmt::format("the recipe has more than {} bytes", limits.textBytes),
                          ErrorKind::Limit);
    return diagnostics.metLimit("text", false);
  }
  Result<Named> tensors = parseRecipe(SourceFile::make(path, std::string(text)), diagnostics, limits);
  if (!tensors) return false;
  for (auto& [name, tensor] : *tensors) tensor = asReadOnly(tensor);
  return addBelow(inside, std::move(*tensors), path, diagnostics);
}

bool Weights::addSafetensors(const std::string& path, const std::string& inside, const FileMapping& file,
                             Diagnostics& diagnostics, const Limits& limits) {
  std::string_view bytes = file.bytes();
  Result<SafetensorsHeader> header = parseSafetensorsHeader(bytes, bytes.size(), path, diagnostics, limits);
  if (!header) return false;
  const std::string below = inside.empty() ? "" : inside + ".";
  Named tensors;
  for (TensorEntry& e : header->tensors) {
    if (!e.name.starts_with(below)) continue;
    Result<Tensor> t = loadSafetensor(bytes, *header, e, &file, path, diagnostics);
    if (!t) return false;
    tensors.emplace_back(e.name, std::move(*t));
  }
  if (!addBelow(inside, std::move(tensors), path, diagnostics)) return false;
  metadata_.merge(std::move(header->metadata));
  return true;
}

bool Weights::addNpz(const std::string& path, const std::string& inside, const FileMapping& file,
                     Diagnostics& diagnostics, const Limits& limits) {
  Result<Named> all = parseNpz({file.bytes(), path}, diagnostics, limits);
  if (!all) return false;
  for (auto& [name, tensor] : *all) {
    Result<Tensor> t = rowMajor(name, tensor, path, diagnostics, limits);
    if (!t) return false;
    tensor = std::move(*t);
  }
  return addBelow(inside, std::move(*all), path, diagnostics);
}

bool Weights::addBelow(const std::string& inside, Named tensors, const std::string& path, Diagnostics& diagnostics) {
  const std::string below = inside.empty() ? "" : inside + ".";
  std::erase_if(tensors, [&](const auto& t) { return !t.first.starts_with(below); });
  if (tensors.empty() && !below.empty()) return reportNothingAt(inside, path, diagnostics);
  for (auto& [name, tensor] : tensors) name.erase(0, below.size());
  return addAll(std::move(tensors), path, diagnostics);
}

// The names answer to what follows the prefix as well.
bool Weights::addAll(Named tensors, const std::string& path, Diagnostics& diagnostics, const std::string& prefix) {
  size_t twins = 0;
  std::string first;
  for (const auto& [name, tensor] : tensors) {
    const std::string brief = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    if ((has(name) || has(brief)) && twins++ == 0) first = has(name) ? name : brief;
  }
  if (twins > 0) {
    Diagnostic& d = diagnostics.fileError(path, {}, fmt::format("{} is also in {}", tensorText(first), fileOf(first)));
    if (twins > 1) d.note(fmt::format("{} more of its names are taken, too", twins - 1));
    return false;
  }
  for (auto& [name, tensor] : tensors) tensors_.emplace(std::move(name), Entry{std::move(tensor), path});
  if (!prefix.empty()) prefixes_.push_back(prefix);
  return true;
}

bool Weights::add(std::string name, Tensor tensor) {
  return tensors_.emplace(std::move(name), Entry{std::move(tensor), ""}).second;
}

const Weights::Entry* Weights::lookUp(std::string_view name) const {
  auto found = tensors_.find(name);
  for (size_t i = 0; found == tensors_.end() && i < prefixes_.size(); ++i)
    found = tensors_.find(prefixes_[i] + std::string(name));
  return found == tensors_.end() ? nullptr : &found->second;
}

const Tensor* Weights::find(std::string_view name) {
  const Entry* found = lookUp(name);
  if (!found) return nullptr;
  found->used = true;
  return &found->tensor;
}

std::string_view Weights::shortest(std::string_view name) const {
  for (const std::string& prefix : prefixes_)
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return name;
}

const Weights::Refused* Weights::refusedAt(std::string_view name) const {
  for (const Refused& r : refused_) {
    if (r.name == name) return &r;
    if (!r.name.ends_with(name)) continue;
    const std::string_view prefix = std::string_view(r.name).substr(0, r.name.size() - name.size());
    if (std::find(prefixes_.begin(), prefixes_.end(), prefix) != prefixes_.end()) return &r;
  }
  return nullptr;
}

std::string Weights::adviceFor(std::string_view name) const {
  if (const Refused* r = refusedAt(name)) return fmt::format("{} has '{}': {}", r->file, r->name, r->why);
  const std::string end = fmt::format(".{}", name);
  for (const auto& [inner, entry] : tensors_) {
    if (!inner.ends_with(end)) continue;
    const std::string outer = inner.substr(0, inner.size() - end.size());
    if (entry.file.empty())
      return fmt::format("the weights have '{}': without '{}.' in front their names are those of the model", inner,
                         outer);
    return fmt::format("{0} has '{1}': {0}#{2} reads what is below '{2}'", entry.file, inner, outer);
  }
  return "";
}

std::vector<std::string> Weights::unused() const {
  std::vector<std::string> out;
  for (const auto& [name, entry] : tensors_)
    if (!entry.used) out.push_back(name);
  return out;
}

std::vector<std::string> Weights::names() const {
  std::vector<std::string> out;
  for (const auto& [name, entry] : tensors_) out.push_back(name);
  return out;
}

std::string_view Weights::fileOf(std::string_view name) const {
  const Entry* found = lookUp(name);
  return found ? std::string_view(found->file) : std::string_view();
}

}  // namespace tscompile
