#include "frontend/weights.h"

#include "frontend/file_kind.h"
#include "frontend/tensor_formats.h"
#include "ir/support/text.h"

#include <fmt/core.h>

namespace tscompile {

bool Weights::addFile(const std::string& path, Diagnostics& diagnostics, const Limits& limits) {
  Ref<FileMapping> file = FileMapping::open(path, diagnostics);
  if (!file) return false;
  std::string_view bytes = file->bytes();
  Result<SafetensorsHeader> header = parseSafetensorsHeader(bytes, bytes.size(), path, diagnostics, limits);
  if (!header) return false;
  Named tensors;
  for (TensorEntry& e : header->tensors) {
    Result<Tensor> t = loadSafetensor(bytes, *header, e, file.get(), path, diagnostics);
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
