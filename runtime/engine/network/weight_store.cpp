#include "runtime/engine/network/weight_store.h"

#include "ir/support/file_pages.h"
#include "ir/values/encoded.h"
#include "ir/values/memory.h"

#include <fmt/core.h>

#include <utility>

namespace tscompile {

namespace {
// Weights that differ by a factor have equal codes, which files hold once: their scales tell them apart.
std::string memoryOf(const Storage& storage) {
  const EncodedElements* encoding = storage.encoding();
  if (!encoding) return fmt::format("{}", static_cast<const void*>(storage.data()));
  const void* scales = encoding->scales().defined() ? encoding->scales().raw() : nullptr;
  return fmt::format("{}*{}/{}", static_cast<const void*>(encoding->values().raw()), scales, encoding->inner());
}
}  // namespace

Tensor WeightStore::get(const std::string& name, const Tensor& source, FunctionRef<Tensor()> make) {
  const Storage& storage = *source.storage();
  const EncodedElements* encoding = storage.encoding();
  std::string key = fmt::format("{} {}+{} {} {} {}", name, memoryOf(storage), source.offset(),
                                static_cast<int>(source.dtype()), dimsText(source.sizes()), dimsText(source.strides()));
  std::lock_guard lock(mutex_);
  auto it = entries_.find(key);
  if (it == entries_.end()) {
    BudgetScope unlimited(nullptr);  // it outlives the run that needs it first
    // Making may fail for lack of memory: the next one that asks tries again.
    Tensor made = make();
    it = entries_.emplace(std::move(key), Entry{source, std::move(made)}).first;
    encoding ? encoding->forget(0, encoding->values().numel()) : releaseFilePages(storage.data(), storage.bytes());
  }
  return it->second.made;
}

std::string WeightStore::nameWith(std::string_view what, const Tensor& contiguous) {
  std::string name(what);
  name.append(reinterpret_cast<const char*>(contiguous.raw()),
              static_cast<size_t>(contiguous.numel()) * itemSize(contiguous.dtype()));
  return name;
}

Tensor WeightStore::buffer(int64_t bytes) {
  constexpr int64_t kLarge = 1 << 20, kSmallModel = 2 << 20, kShared = 8 << 20;
  const int64_t whole = (bytes + 63) / 64 * 64;
  made_ += whole;
  if (bytes >= kLarge || made_ <= kSmallModel) return Tensor::empty(DType::UInt8, Dims{bytes});
  if (!shared_.defined() || cut_ + whole > shared_.numel()) {
    shared_ = Tensor::empty(DType::UInt8, Dims{kShared});
    cut_ = 0;
  }
  return shared_.withGeometry(Dims{bytes}, Dims{1}, std::exchange(cut_, cut_ + whole));
}

}  // namespace tscompile
