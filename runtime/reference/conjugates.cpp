#include "runtime/reference/conjugates.h"

#include "runtime/reference/linalg.h"
#include "runtime/reference/loops/copy.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace tscompile {
namespace {

struct Shown {
  Tensor computed, of;
  const Storage* storage = nullptr;  // that borrows what was computed
};

// Those of all runs; a storage is in few of them. Never destroyed: tensors may go later than anything else.
struct Registry {
  std::mutex mutex;
  std::vector<Shown*> shown;
  std::atomic<size_t> count{0};
};
Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

void forget(void* context) {
  std::unique_ptr<Shown> shown(static_cast<Shown*>(context));
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  std::erase(all.shown, shown.get());
  all.count = all.shown.size();
}

}  // namespace

Tensor shownConjugate(Tensor computed, Tensor of) {
  auto shown = std::make_unique<Shown>(Shown{std::move(computed), std::move(of)});
  const Tensor& t = shown->computed;
  const bool readOnly = shown->of.storage()->readOnly();
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  all.shown.reserve(all.shown.size() + 1);
  Ref<Storage> storage = Storage::borrow(t.storage()->data(), t.storage()->bytes(), forget, shown.get(), readOnly);
  Shown* made = shown.release();
  made->storage = storage.get();
  all.shown.push_back(made);
  all.count = all.shown.size();
  return Tensor::view(t.dtype(), std::move(storage), t.sizes(), t.strides(), t.offset());
}

bool hasShownConjugates() { return registry().count.load(std::memory_order_relaxed) != 0; }

bool isShownConjugate(const Tensor& t) {
  if (!hasShownConjugates()) return false;
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  return std::ranges::any_of(all.shown, [&](const Shown* s) { return s->storage == t.storage().get(); });
}

namespace {

struct Copy {
  Tensor to, from;
};

// What writes to a tensor are seen through, in the order in which it follows.
std::vector<Copy> copiesAfter(const Tensor& written) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  std::vector<Copy> copies;
  std::vector<const Storage*> changed{written.storage().get()};
  std::vector<const Shown*> done;
  for (size_t i = 0; i < changed.size(); ++i)
    for (const Shown* s : all.shown) {
      const bool isShown = s->storage == changed[i];
      if (!isShown && s->of.storage().get() != changed[i]) continue;
      if (std::ranges::find(done, s) != done.end()) continue;
      done.push_back(s);
      copies.push_back(isShown ? Copy{s->of, s->computed} : Copy{s->computed, s->of});
      changed.push_back(isShown ? s->of.storage().get() : s->storage);
    }
  return copies;
}

}  // namespace

// Runs of other threads do not wait for the copies.
void followWrites(const Tensor& written) {
  for (const Copy& c : copiesAfter(written)) copyTensor(c.to, conjugated(c.from));
}

}  // namespace tscompile
