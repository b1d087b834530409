#include "frontend/files/shared_parts.h"

#include "ir/support/number_of_text.h"
#include "ir/support/split.h"
#include "ir/support/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

namespace tscompile {
namespace {

// A tensor among others, and which elements of its storage it touches.
struct Part {
  size_t index;
  int64_t begin, end;
};

std::optional<Part> partOf(const Tensor& t, size_t index) {
  if (t.numel() == 0) return std::nullopt;
  Part p{index, t.offset(), t.offset() + 1};
  for (int d = 0; d < t.rank(); ++d) (t.stride(d) < 0 ? p.begin : p.end) += (t.size(d) - 1) * t.stride(d);
  return p;
}

class SharedMemory {
 public:
  SharedMemory(NamedTensors& tensors, const std::function<std::string()>& newName, Metadata& metadata,
               Diagnostics& diagnostics)
      : tensors_(tensors), newName_(newName), metadata_(metadata), diagnostics_(diagnostics) {}

  bool take(size_t count) {
    gone_.resize(tensors_.size());
    std::vector<std::vector<Part>> storages;
    std::map<const Storage*, size_t> known;
    for (size_t i = 0; i < count; ++i)
      if (std::optional<Part> part = partOf(tensors_[i].second, i)) {
        auto [at, isNew] = known.try_emplace(tensors_[i].second.storage().get(), storages.size());
        if (isNew) storages.emplace_back();
        storages[at->second].push_back(*part);
      }
    for (std::vector<Part>& parts : storages) {
      std::ranges::stable_sort(parts, {}, &Part::begin);
      for (size_t first = 0, last; first < parts.size(); first = last) {
        int64_t end = parts[first].end;
        for (last = first + 1; last < parts.size() && parts[last].begin < end; ++last)
          end = std::max(end, parts[last].end);
        if (last - first > 1 && !takeOverlap(std::span(parts).subspan(first, last - first), end)) return false;
      }
    }
    size_t at = 0;
    std::erase_if(tensors_, [&](const auto&) { return gone_[at++]; });
    tensors_.insert(tensors_.end(), whole_.begin(), whole_.end());
    return true;
  }

 private:
  bool takeOverlap(std::span<Part> parts, int64_t end) {
    const Tensor& first = tensors_[parts[0].index].second;
    for (const Part& p : parts)
      if (tensors_[p.index].second.dtype() != first.dtype()) return refuse(parts[0].index, p.index);
    auto hasAll = [&](const Part& p) {
      const Tensor& t = tensors_[p.index].second;
      return p.begin == parts[0].begin && p.end == end && t.isContiguous();
    };
    auto found = std::ranges::find_if(parts, hasAll);
    const Part* base = found == parts.end() ? nullptr : &*found;
    const int64_t count = end - parts[0].begin;
    Tensor whole = base ? tensors_[base->index].second : first.withGeometry(Dims{count}, Dims{1}, parts[0].begin);
    const std::string name = base ? tensors_[base->index].first : newName_();
    if (!base) whole_.emplace_back(name, whole);
    for (const Part& p : parts)
      if (&p != base) tell(p.index, name, whole);
    return true;
  }

  void tell(size_t index, const std::string& name, const Tensor& whole) {
    const auto& [path, t] = tensors_[index];
    gone_[index] = true;
    auto list = [](DimSpan numbers) { return numbers.empty() ? "-" : fmt::format("{}", fmt::join(numbers, ",")); };
    metadata_[std::string(kMemoryOf) + path] =
        t == whole ? name
                   : fmt::format("{} {} {} {}", name, t.offset() - whole.offset(), list(t.sizes()), list(t.strides()));
  }

  bool refuse(size_t a, size_t b) {
    diagnostics_.error(fmt::format("'{}' and '{}' share memory, but are of different dtypes: files cannot say that",
                                   tensors_[a].first, tensors_[b].first),
                       ErrorKind::Unsupported);
    return false;
  }

  NamedTensors& tensors_;
  const std::function<std::string()>& newName_;
  Metadata& metadata_;
  Diagnostics& diagnostics_;
  std::vector<bool> gone_;
  NamedTensors whole_;  // memory that no tensor has all of
};

std::optional<Dims> numbersOf(std::string_view text) {
  Dims out;
  if (text == "-") return out;
  for (std::string_view item : split(text, ',')) {
    std::optional<int64_t> number = numberOfText<int64_t>(item);
    if (!number || *number < 0) return std::nullopt;
    out.push_back(*number);
  }
  return out;
}

// The view of `whole` that a text tells of; nothing if it is not one.
std::optional<Tensor> viewOf(const Tensor& whole, std::span<const std::string_view> words) {
  std::optional<int64_t> offset = numberOfText<int64_t>(words[0]);
  std::optional<Dims> sizes = numbersOf(words[1]), strides = numbersOf(words[2]);
  constexpr size_t kMostRank = 64;
  if (!offset || *offset < 0 || !sizes || !strides || sizes->size() != strides->size() || sizes->size() > kMostRank)
    return std::nullopt;
  const auto bytes = static_cast<size_t>(whole.numel()) * itemSize(whole.dtype());
  if (!whole.isContiguous() || !fitsStorage(whole.dtype(), *sizes, *strides, *offset, bytes)) return std::nullopt;
  return whole.withGeometry(*sizes, *strides, whole.offset() + *offset);
}

}  // namespace

bool takeSharedMemory(NamedTensors& tensors, size_t count, const std::function<std::string()>& newName,
                      Metadata& metadata, Diagnostics& diagnostics) {
  return SharedMemory(tensors, newName, metadata, diagnostics).take(count);
}

bool restoreSharedMemory(Weights& weights, Diagnostics& diagnostics) {
  for (const auto& [key, text] : weights.metadata()) {
    if (!startsWith(key, kMemoryOf)) continue;
    const std::string path = key.substr(kMemoryOf.size());
    std::vector<std::string_view> words = split(text, ' ');
    const Tensor* whole = weights.find(words.empty() ? std::string_view() : words[0]);
    std::optional<Tensor> shared;
    if (whole && words.size() == 1) shared = *whole;
    if (whole && words.size() == 4) shared = viewOf(*whole, std::span(words).subspan(1));
    if (shared && weights.add(path, *shared)) continue;
    diagnostics.error(fmt::format("the weights do not tell of which memory '{}' is a part", abbreviate(path, 80)),
                      ErrorKind::Input);
    return false;
  }
  return true;
}

bool tellsOfSharing(const Metadata& metadata) {
  return std::ranges::any_of(metadata, [](const auto& entry) {
    return startsWith(entry.first, kMemoryOf) || startsWith(entry.first, kSameAs);
  });
}

}  // namespace tscompile
