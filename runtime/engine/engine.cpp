#include "runtime/engine/engine.h"

#include "ir/values/quantization.h"
#include "runtime/call/run_observer.h"
#include "runtime/call/session_functions.h"
#include "runtime/call/thread_pool.h"
#include "runtime/engine/number_inputs.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/engine/refusal_watch.h"
#include "runtime/engine/tracer.h"

#include <algorithm>
#include <bit>

namespace tscompile {

Engine::~Engine() = default;
const Graph& Engine::graph() const { return traced_->graph(); }

std::shared_ptr<Engine> Engine::make(const Graph& graph, const OpRegistry& registry, const ProgramSources& sources,
                                     const EngineOptions& options, std::optional<Refusal>& refusal) {
  std::optional<TracedGraph> traced =
      TracedGraph::make(graph, registry, sources, refusal, options.keepStrides, options.strideAsker);
  if (!traced) return nullptr;
  std::shared_ptr<Engine> engine(new Engine);
  engine->traced_ = std::make_unique<TracedGraph>(std::move(*traced));
  engine->options_ = options;
  return engine;
}

bool Engine::sign(std::span<const IValue> inputs, Signature& into, std::vector<Tensor>& tensors) const {
  // What is no part of a plan says only of which kind it is.
  for (size_t i = 0; i < inputs.size(); ++i) {
    const IValue& v = inputs[i];
    const bool isNumber = traced_->isNumberOfRun(i) && v.isNumber();
    const IValue like = !isNumber     ? IValue()
                        : v.isFloat() ? IValue(0.0)
                        : v.isBool()  ? IValue(false)
                                      : IValue(int64_t{0});
    if (!sign(isNumber ? like : v, into, tensors)) return false;
  }
  return true;
}

// Every kind of value starts with a number of its own, so no signature is the start of another.
bool Engine::sign(const IValue& v, Signature& into, std::vector<Tensor>& tensors, int depth) {
  // Lists may hold themselves, or each other many times over: the interpreter takes those.
  constexpr int kMaxDepth = 16;
  constexpr size_t kMaxSigned = size_t{1} << 20;
  if (depth > kMaxDepth || into.size() > kMaxSigned) return false;
  enum : int64_t {
    kNone = -1,
    kTensor = -2,
    kList = -3,
    kInt = -4,
    kFloat = -5,
    kBool = -6,
    kUndefined = -7,
    kGrid = -8
  };
  if (v.isTensor()) {
    if (!v.tensorImpl()) {
      into.push_back(kUndefined);
      return true;
    }
    const TensorImpl& t = *v.tensorImpl();
    if (isQuantized(t.dtype())) {
      const Quantization* q = t.storage()->quantization();
      if (!q || !q->isPerTensor() || t.dtype() == DType::QInt32) return false;
      into.insert(into.end(), {kGrid, std::bit_cast<int64_t>(q->scale), q->zeroPoint});
    }
    into.insert(into.end(), {kTensor, static_cast<int64_t>(t.dtype()), t.rank()});
    into.insert(into.end(), t.sizes().begin(), t.sizes().end());
    into.insert(into.end(), t.strides().begin(), t.strides().end());
    tensors.push_back(v.toTensor());
    return true;
  }
  if (v.isList()) {
    const auto& items = v.toList().items;
    into.insert(into.end(), {kList, static_cast<int64_t>(items.size())});
    return std::all_of(items.begin(), items.end(),
                       [&](const IValue& item) { return sign(item, into, tensors, depth + 1); });
  }
  if (v.isNone()) return into.push_back(kNone), true;
  if (v.isInt()) return into.insert(into.end(), {kInt, v.toInt()}), true;
  if (v.isFloat()) return into.insert(into.end(), {kFloat, std::bit_cast<int64_t>(v.toFloat())}), true;
  if (v.isBool()) return into.insert(into.end(), {kBool, v.toBool()}), true;
  return false;
}

namespace {

// Of a run that has failed: nothing is to be cut out for it.
Refusal failureOf(const ExecutionError& e) {
  const bool isOfOthers = dynamic_cast<const SessionFailure*>(&e) != nullptr;
  return {.node = nullptr,
          .verdict = {Reason::Limit, e.message(), {}},
          .isFailure = isOfOthers,
          .isOutOfRoom = !isOfOthers && e.kind() == ErrorKind::Limit};
}

}  // namespace

std::shared_ptr<const EnginePlan> Engine::find(const Signature& signature, std::span<const IValue> inputs,
                                               RunContext& context, std::optional<Refusal>* refusal) const {
  auto known = [&]() -> std::shared_ptr<Entry> {
    auto at = places_.find(signature);
    if (at == places_.end()) return nullptr;
    plans_.splice(plans_.begin(), plans_, at->second);
    return plans_.front();
  };
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard lock(mutex_);
    entry = known();
  }
  if (!entry) {
    entry = std::make_shared<Entry>();
    entry->signature = signature;
    try {
      std::unique_ptr<Network> network = traced_->trace(inputs, context, options_.optimize || options_.trial);
      if (options_.optimize) optimize(*network, store_, options_);
      entry->plan = std::make_shared<EnginePlan>(std::move(network), arenas_);
    } catch (const Refusal& r) {
      entry->refusal = r;
    } catch (const ExecutionError& e) {
      // The interpreter will say it with the node. The next run may have a larger limit.
      if (e.kind() == ErrorKind::Interrupted) throw;
      if (e.kind() == ErrorKind::Limit) {
        if (refusal) *refusal = failureOf(e);
        return nullptr;
      }
    }
    std::lock_guard lock(mutex_);
    if (std::shared_ptr<Entry> other = known()) {
      entry = other;
    } else {
      plans_.push_front(entry);
      places_[signature] = plans_.begin();
      planBytes_ += entry->bytes();
      forgetOldest();
    }
  }
  if (refusal) *refusal = entry->refusal;
  return entry->plan;
}

// Of a range of sizes each has its plan as long as they are small together; the latest ones stay in any case.
void Engine::forgetOldest() const {
  constexpr size_t kLeast = 8, kMost = 1024, kMostBytes = size_t{64} << 20;
  for (; plans_.size() > kMost || (plans_.size() > kLeast && planBytes_ > kMostBytes); plans_.pop_back()) {
    planBytes_ -= plans_.back()->bytes();
    places_.erase(plans_.back()->signature);
  }
}

size_t Engine::SignatureHash::operator()(const Signature& signature) const {
  uint64_t hash = 0;
  for (int64_t n : signature) hash = (hash ^ static_cast<uint64_t>(n)) * 0x9e3779b97f4a7c15 + (hash >> 29);
  return hash;
}

std::shared_ptr<const EnginePlan> Engine::planFor(std::span<const IValue> inputs, RunContext& context,
                                                  std::optional<Refusal>* refusal) const {
  Signature signature;
  std::vector<Tensor> tensors;
  if (!sign(inputs, signature, tensors)) return nullptr;
  return find(signature, inputs, context, refusal);
}

namespace {

// Whether an input that the engine writes shares memory with another one: then the order of reads and writes counts.
bool sharesWritten(const Network& network, std::span<const Tensor> tensors) {
  for (uint32_t written : network.writtenInputs) {
    const Storage& w = *tensors[written].storage();
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Storage& s = *tensors[i].storage();
      if (i != written && s.data() < w.data() + w.bytes() && w.data() < s.data() + s.bytes()) return true;
    }
  }
  return false;
}

}  // namespace

bool Engine::run(std::span<const IValue> inputs, std::span<IValue> outputs, RunContext& context) const {
  std::optional<Refusal> refusal;
  if (compute(inputs, outputs, context, refusal)) return true;
  RefusalWatch::note(graph(), refusal);
  return false;
}

bool Engine::compute(std::span<const IValue> inputs, std::span<IValue> outputs, RunContext& context,
                     std::optional<Refusal>& refusal) const {
  RunObserver* observer = RunObserver::current();
  RunObserver::Clock::time_point begin = observer ? RunObserver::Clock::now() : RunObserver::Clock::time_point();
  Signature signature;
  std::vector<Tensor> tensors;
  if (!sign(inputs, signature, tensors)) return false;
  std::shared_ptr<const EnginePlan> plan = find(signature, inputs, context, &refusal);
  if (!plan) return false;
  for (const NetNumber& n : plan->network().numbers) {
    std::optional<Tensor> number = tensorOf(inputs[n.input], n);
    if (!number) return false;
    tensors.push_back(std::move(*number));
  }
  if (sharesWritten(plan->network(), tensors)) return false;
  int threads = context.options().threads;
  try {
    plan->run(tensors, outputs, context, threads > 0 ? threads : defaultThreads());
  } catch (const ExecutionError& e) {
    // Nothing was written: the interpreter does it again and tells where and why it fails, if it does.
    const Network& network = plan->network();
    if (network.writes || !network.writtenInputs.empty() || e.kind() == ErrorKind::Interrupted) throw;
    refusal = failureOf(e);
    return false;
  }
  if (observer) observer->onEngine(plan->network(), begin, RunObserver::Clock::now());
  return true;
}

SegmentCompiler engineCompiler(EngineOptions options) {
  return [options = std::move(options)](const Graph& graph, const OpRegistry& registry, const ProgramSources& sources) {
    std::optional<Refusal> refusal;
    return Engine::make(graph, registry, sources, options, refusal);
  };
}

}  // namespace tscompile
