#include "runtime/plugin/plugin_host.h"

#include "ir/support/limits.h"
#include "ir/support/once.h"
#include "ir/support/thread_end.h"
#include "ir/values/error.h"
#include "runtime/call/run_context.h"
#include "runtime/call/thread_pool.h"
#include "runtime/plugin/told_rows.h"

#include <algorithm>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <mutex>

namespace tscompile {
namespace {

// So much that the clock is looked at.
constexpr int64_t kCallWork = int64_t{1} << 40;

// What a plugin has said of its failure, until somebody takes it.
constinit thread_local std::string* tFailure = nullptr;

void setFailure(std::string_view message) {
  static const ThreadEnd end(
      [](void* failure) { delete std::exchange(*static_cast<std::string**>(failure), nullptr); });
  delete std::exchange(tFailure, new std::string(message));
  end.note(&tFailure);
}

std::mutex logMutex;
std::function<void(int, std::string_view)> pluginLog;

struct Resource {
  Once once;
  void* object = nullptr;
  void (*drop)(void*) = nullptr;
  std::shared_ptr<void> library;  // that drop() is in
  int64_t users = 0;
};
std::mutex resourceMutex;  // of the map and of `users`; not held while a plugin makes or drops one
std::map<std::string, std::shared_ptr<Resource>, std::less<>>& resources() {
  static auto* all = new std::map<std::string, std::shared_ptr<Resource>, std::less<>>;
  return *all;
}

// Keeps the library open that a function is in.
std::shared_ptr<void> libraryOf(void (*function)(void*)) {
  Dl_info info;
  if (!function || !dladdr(reinterpret_cast<void*>(function), &info) || !info.dli_fname) return nullptr;
  void* handle = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_NOW);
  return handle ? std::shared_ptr<void>(handle, [](void* h) { dlclose(h); }) : nullptr;
}

ShapeBuild& buildOf(void* build) { return *static_cast<ShapeBuild*>(build); }
PluginRun& runOf(void* run) { return *static_cast<PluginRun*>(run); }

const tsc_dim* constant(void* build, int64_t value) { return &buildOf(build).dims.emplace_back(tsc_dim{value}); }

std::optional<int64_t> apply(uint32_t op, int64_t a, int64_t b) {
  int64_t r = 0;
  auto floorDiv = [&](bool up) -> std::optional<int64_t> {
    if (b == 0 || (a == INT64_MIN && b == -1)) return {};
    int64_t q = a / b, rest = a % b;
    bool down = rest != 0 && ((rest < 0) != (b < 0));
    return up ? q + (rest != 0 && !down) : q - down;
  };
  switch (op) {
    case TSC_DIM_ADD:
      return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case TSC_DIM_SUB:
      return __builtin_sub_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case TSC_DIM_MUL:
      return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case TSC_DIM_MAX:
      return std::max(a, b);
    case TSC_DIM_MIN:
      return std::min(a, b);
    case TSC_DIM_FLOOR_DIV:
      return floorDiv(false);
    case TSC_DIM_CEIL_DIV:
      return floorDiv(true);
    case TSC_DIM_EQUAL:
      return a == b;
    case TSC_DIM_LESS:
      return a < b;
    default:
      return {};
  }
}

const tsc_dim* applyDims(void* build, uint32_t op, const tsc_dim* a, const tsc_dim* b) {
  tsc_dim made;
  if (a && b && a->value && b->value) {
    made.value = apply(op, *a->value, *b->value);
    if (!made.value) buildOf(build).problem = "a size cannot be computed";
  }
  return &buildOf(build).dims.emplace_back(made);
}

int dimValue(const tsc_dim* dim, int64_t* value) {
  if (!dim || !dim->value) return 0;
  *value = *dim->value;
  return 1;
}

void setShape(void* build, size_t index, int32_t dtype, const tsc_dim* const* dims, uint32_t rank) {
  ShapeBuild& b = buildOf(build);
  if (index >= b.outputs.size() || rank > kMaxRank || (rank && !dims)) {
    b.problem = "it sets the shape of an output that there is not";
    return;
  }
  ShapeBuild::Output& out = b.outputs[index];
  out.dtype = dtype;
  out.set = true;
  out.dims.clear();
  for (uint32_t d = 0; d < rank; ++d) out.dims.push_back(dims[d] ? *dims[d] : tsc_dim{});
}

void parallel(void* run, size_t n, size_t grain, tsc_task task, void* user) {
  if (n == 0) return;
  grain = std::clamp<size_t>(grain, 1, n);
  auto chunks = static_cast<int64_t>(n / grain + (n % grain != 0));
  if (runOf(run).threads == kBackwards) {
    for (size_t i = static_cast<size_t>(chunks); i-- > 0;)
      task(user, i * grain, i * grain + std::min(grain, n - i * grain));
    return;
  }
  try {
    parallelFor(chunks, runOf(run).threads, [&](int64_t i) {
      size_t begin = static_cast<size_t>(i) * grain;
      task(user, begin, begin + std::min(grain, n - begin));
    });
  } catch (const ExecutionError&) {
    // The run is over, which PluginInstance::run says: nothing may pass through the plugin.
  }
}

int cancelled(void* run) {
  RunContext* context = runOf(run).context;
  if (!context) return 0;
  const std::atomic<bool>* interrupt = context->options().interrupt;
  if (interrupt && interrupt->load(std::memory_order_relaxed)) return 1;
  if (context != &RunContext::current()) return 0;  // a worker, which leaves the clock to the run's own thread
  try {
    context->checkInterrupt(kCallWork);
  } catch (const ExecutionError&) {
    return 1;
  }
  return 0;
}

void setRows(void* run, size_t output, int64_t rows) {
  PluginRun& r = runOf(run);
  if (output < r.rows.size()) r.rows[output] = rows < 0 ? kNegativeRows : rows;
}

void release(tsc_str key) {
  std::shared_ptr<Resource> gone;
  {
    std::lock_guard lock(resourceMutex);
    auto it = resources().find(tsc::view(key));
    if (it == resources().end() || --it->second->users > 0) return;
    gone = std::move(it->second);
    resources().erase(it);
  }
  if (gone->drop && gone->object) gone->drop(gone->object);
}

void* acquire(tsc_str key, void* (*make)(void*), void (*drop)(void*), void* user) {
  std::shared_ptr<Resource> resource;
  {
    std::lock_guard lock(resourceMutex);
    std::shared_ptr<Resource>& entry = resources()[std::string(tsc::view(key))];
    if (!entry) entry = std::make_shared<Resource>();
    ++entry->users;
    resource = entry;
  }
  resource->once.call([&] {
    resource->drop = drop;
    resource->library = libraryOf(drop);
    try {
      resource->object = make ? make(user) : nullptr;
    } catch (const std::exception& e) {
      setFailure(e.what());
    } catch (...) {
      setFailure("a shared resource cannot be made");
    }
  });
  if (!resource->object) release(key);
  return resource->object;
}

void logLine(int level, tsc_str message) {
  std::function<void(int, std::string_view)> to;
  {
    std::lock_guard lock(logMutex);
    to = pluginLog;
  }
  if (to) to(level, tsc::view(message));
}

}  // namespace

const tsc_host& pluginHost() {
  static const tsc_host host = {
      .size = sizeof(tsc_host),
      .abi = TSC_ABI_VERSION,
      .log = logLine,
      .fail = [](tsc_str message) { setFailure(tsc::view(message)); },
      .dim_constant = constant,
      .dim_apply = applyDims,
      .dim_value = dimValue,
      .set_shape = setShape,
      .parallel_for = parallel,
      .cancelled = cancelled,
      .set_rows = setRows,
      .resource = acquire,
      .resource_release = release,
  };
  return host;
}

std::string takeFailure() {
  const std::unique_ptr<std::string> failure(std::exchange(tFailure, nullptr));
  return failure ? std::move(*failure) : std::string();
}

void setPluginLog(std::function<void(int, std::string_view)> log) {
  std::lock_guard lock(logMutex);
  pluginLog = std::move(log);
}

size_t sharedResources() {
  std::lock_guard lock(resourceMutex);
  return resources().size();
}

}  // namespace tscompile
