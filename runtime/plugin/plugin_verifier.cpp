#include "runtime/plugin/plugin_verifier.h"

#include "runtime/plugin/told_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>

namespace tscompile {
namespace {

constexpr size_t kGuard = 64;  // bytes on either side
constexpr unsigned char kCanary = 0xc9;

size_t bytesOf(const Tensor& t) { return static_cast<size_t>(t.numel()) * itemSize(t.dtype()); }

// Memory with canaries around it, and pages beyond these that nobody may touch: what is written a little way off is
// found afterwards, what is written further off stops there.
class Guarded {
 public:
  explicit Guarded(size_t bytes) : bytes_(bytes) {
    auto pages = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_t rows = (bytes + kGuard - 1) / kGuard * kGuard;
    size_t inner = (rows + 2 * kGuard + pages - 1) / pages * pages;
    auto mapping = std::make_unique<Mapping>(inner + 2 * pages);
    std::byte* begin = mapping->data + pages;
    if (mprotect(begin, inner, PROT_READ | PROT_WRITE) != 0)
      throw ExecutionError(ErrorKind::Limit, "out of memory: a plugin cannot be checked");
    size_t held = rows + 2 * kGuard;
    storage_ = Storage::borrow(begin + inner - held, held, Mapping::release, mapping.release(), false);
    std::memset(storage_->data(), kCanary, storage_->bytes());
  }
  std::byte* data() const { return storage_->data() + kGuard; }
  size_t bytes() const { return bytes_; }
  void fill(unsigned char value) const { std::memset(data(), value, bytes_); }
  Tensor like(const Tensor& t) const {
    auto item = static_cast<int64_t>(itemSize(t.dtype()));
    return Tensor::view(t.dtype(), storage_, t.sizes(), t.strides(), static_cast<int64_t>(kGuard) / item);
  }
  Ref<Storage> workspace() const { return Storage::borrow(data(), bytes_, nullptr, nullptr, false); }
  bool intact() const {
    auto isCanary = [](std::byte b) { return b == std::byte{kCanary}; };
    return std::all_of(storage_->data(), data(), isCanary) &&
           std::all_of(data() + bytes_, storage_->data() + storage_->bytes(), isCanary);
  }

 private:
  struct Mapping {
    explicit Mapping(size_t bytes) : bytes(bytes) {
      void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (at == MAP_FAILED) throw ExecutionError(ErrorKind::Limit, "out of memory: a plugin cannot be checked");
      data = static_cast<std::byte*>(at);
    }
    ~Mapping() { munmap(data, bytes); }
    Mapping(const Mapping&) = delete;
    static void release(void* context) { delete static_cast<Mapping*>(context); }

    std::byte* data = nullptr;
    size_t bytes;
  };

  size_t bytes_;
  Ref<Storage> storage_;
};

}  // namespace

struct PluginVerifier::Observed {
  std::vector<std::vector<std::byte>> outputs;
};

PluginVerifier::Observed PluginVerifier::once(const PluginTensors& inputs, const PluginTensors& outputs,
                                              unsigned char poison) {
  auto fail = [&](std::string problem) { plugin_.fail(TSC_FAILED, problem); };
  PluginTensors in, out;
  std::vector<Guarded> inMemory, outMemory;
  for (const Tensor& t : inputs) {
    inMemory.emplace_back(t.defined() ? bytesOf(t) : 0);
    if (t.defined() && bytesOf(t)) std::memcpy(inMemory.back().data(), t.raw(), bytesOf(t));
    in.push_back(t.defined() ? inMemory.back().like(t) : Tensor());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    int32_t alias = plugin_.alias(i);
    bool over = alias >= 0 && inputs[static_cast<size_t>(alias)].defined();
    outMemory.emplace_back(over ? 0 : bytesOf(outputs[i]));
    outMemory.back().fill(poison);
    out.push_back(over ? in[static_cast<size_t>(alias)] : outMemory.back().like(outputs[i]));
  }
  Guarded space(context_.workspaceBytes);
  space.fill(poison);
  Ref<Storage> kept = std::exchange(context_.workspace, space.workspace());
  try {
    plugin_.call(context_, in, out, state_);
  } catch (...) {
    context_.workspace = std::move(kept);
    throw;
  }
  context_.workspace = std::move(kept);
  checkRows(plugin_.creator(), outputs, state_.rows);
  if (!space.intact())
    fail(fmt::format("it writes past the end of its workspace of {} bytes", context_.workspaceBytes));
  auto isAliased = [&](size_t input) {
    for (size_t i = 0; i < outputs.size(); ++i)
      if (plugin_.alias(i) == static_cast<int32_t>(input)) return true;
    return false;
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    std::string name(tsc::view(plugin_.creator().inputs()[i].name));
    if (!inMemory[i].intact()) fail("it writes past the end of the input " + name);
    if (!isAliased(i) && std::memcmp(inMemory[i].data(), inputs[i].raw(), inMemory[i].bytes()) != 0)
      fail("it writes to the input " + name + ", which no output is said to be written over");
  }
  Observed seen;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outMemory[i].intact()) fail(fmt::format("it writes past the end of the output {}", tsc::view(output(i).name)));
    const std::byte* data = out[i].raw();
    seen.outputs.emplace_back(data, data + bytesOf(out[i]));
  }
  return seen;
}

void PluginVerifier::run(const PluginTensors& inputs, const PluginTensors& outputs) {
  constexpr unsigned char kFirst = 0xa5, kSecond = 0x5a;
  Observed first = once(inputs, outputs, kFirst), second = once(inputs, outputs, kSecond);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto &a = first.outputs[i], &b = second.outputs[i];
    size_t item = itemSize(outputs[i].dtype()), used = a.size();
    if (state_.rows[i] >= 0 && outputs[i].rank() && outputs[i].size(0))
      used = a.size() / static_cast<size_t>(outputs[i].size(0)) * static_cast<size_t>(state_.rows[i]);
    for (size_t at = 0; at + item <= used; at += item) {
      auto left = [&](const std::vector<std::byte>& v, unsigned char poison) {
        return std::all_of(v.begin() + static_cast<std::ptrdiff_t>(at),
                           v.begin() + static_cast<std::ptrdiff_t>(at + item),
                           [&](std::byte byte) { return byte == std::byte{poison}; });
      };
      if (left(a, kFirst) && left(b, kSecond))
        plugin_.fail(TSC_FAILED, fmt::format("it does not write the element {} of the output {}", at / item,
                                             tsc::view(output(i).name)));
      if (plugin_.isDeterministic() && std::memcmp(a.data() + at, b.data() + at, item) != 0)
        plugin_.fail(
            TSC_FAILED,
            fmt::format("two runs on the same inputs give other values in the output {}, from the element {} on",
                        tsc::view(output(i).name), at / item));
    }
    if (!second.outputs[i].empty()) std::memcpy(outputs[i].raw(), b.data(), b.size());
  }
}

}  // namespace tscompile
