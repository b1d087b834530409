#include "runtime/engine/network/weight_store.h"

#include "ir/support/file_pages.h"
#include "ir/values/encoded.h"
#include "ir/values/memory.h"

#include <fmt/core.h>

namespace tscompile {

Tensor WeightStore::get(const std::string& name, const Tensor& source, FunctionRef<Tensor()> make) {
  const Storage& storage = *source.storage();
  const EncodedElements* encoding = storage.encoding();
  const void* memory = encoding ? encoding->values().raw() : storage.data();
  std::string key = fmt::format("{} {}+{} {} {} {}", name, memory, source.offset(), static_cast<int>(source.dtype()),
                                dimsText(source.sizes()), dimsText(source.strides()));
  std::lock_guard lock(mutex_);
  auto [it, isNew] = entries_.try_emplace(key);
  if (isNew) {
    BudgetScope unlimited(nullptr);  // it outlives the run that needs it first
    it->second = {source, make()};
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

Tensor packedBuffer(int64_t bytes) { return Tensor::empty(DType::UInt8, Dims{bytes}); }

}  // namespace tscompile
