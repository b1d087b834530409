#include "frontend/files/weights.h"

#include "frontend/files/file_kind.h"
#include "frontend/files/recipe.h"
#include "frontend/files/tensor_formats.h"
#include "ir/support/text.h"

#include <fmt/core.h>

namespace tscompile {

namespace {

// A recipe goes by its name or by its first line; a safetensors file may have any name.
bool isRecipe(const std::string& path, FileKind kind) {
  bool isText = kind == FileKind::Text || kind == FileKind::Empty;
  return kind == FileKind::WeightsRecipe || (isText && endsWith(path, ".weights"));
}

}  // namespace

bool Weights::addFile(const std::string& path, Diagnostics& diagnostics, const Limits& limits) {
  Ref<FileMapping> file = FileMapping::open(path, diagnostics);
  if (!file) return false;
  FileKind kind = detectFileKind(file->bytes().substr(0, kFileKindBytes));
  if (isRecipe(path, kind)) return addRecipe(path, file->bytes(), diagnostics, limits);
  return addSafetensors(path, *file, diagnostics, limits);
}

bool Weights::addRecipe(const std::string& path, std::string_view text, Diagnostics& diagnostics,
                        const Limits& limits) {
  if (text.size() > limits.textBytes) {
    diagnostics.fileError(path, {}, fmt::format("the recipe has more than {} bytes", limits.textBytes),
                          ErrorKind::Limit);
    return false;
  }
  Result<Named> tensors = parseRecipe(SourceFile::make(path, std::string(text)), diagnostics, limits);
  if (!tensors) return false;
  for (auto& [name, tensor] : *tensors) tensor = asReadOnly(tensor);
  return addAll(std::move(*tensors), path, diagnostics);
}

bool Weights::addSafetensors(const std::string& path, const FileMapping& file, Diagnostics& diagnostics,
                             const Limits& limits) {
  std::string_view bytes = file.bytes();
  Result<SafetensorsHeader> header = parseSafetensorsHeader(bytes, bytes.size(), path, diagnostics, limits);
  if (!header) return false;
  Named tensors;
  for (TensorEntry& e : header->tensors) {
    Result<Tensor> t = loadSafetensor(bytes, *header, e, &file, path, diagnostics);
    if (!t) return false;
    tensors.emplace_back(std::move(e.name), std::move(*t));
  }
  if (!addAll(std::move(tensors), path, diagnostics)) return false;
  metadata_.merge(std::move(header->metadata));
  return true;
}

bool Weights::addAll(Named tensors, const std::string& path, Diagnostics& diagnostics) {
  size_t twins = 0;
  const std::string* first = nullptr;
  for (const auto& [name, tensor] : tensors)
    if (has(name) && twins++ == 0) first = &name;
  if (twins > 0) {
    Diagnostic& d =
        diagnostics.fileError(path, {}, fmt::format("{} is also in {}", tensorText(*first), fileOf(*first)));
    if (twins > 1) d.note(fmt::format("{} more of its names are taken, too", twins - 1));
    return false;
  }
  for (auto& [name, tensor] : tensors) tensors_.emplace(std::move(name), Entry{std::move(tensor), path});
  return true;
}

bool Weights::add(std::string name, Tensor tensor) {
  return tensors_.emplace(std::move(name), Entry{std::move(tensor), ""}).second;
}

const Tensor* Weights::find(std::string_view name) {
  auto found = tensors_.find(name);
  if (found == tensors_.end()) return nullptr;
  found->second.used = true;
  return &found->second.tensor;
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
  auto found = tensors_.find(name);
  return found == tensors_.end() ? std::string_view() : found->second.file;
}

}  // namespace tscompile
