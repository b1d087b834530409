#include "runtime/interpreter/evaluator.h"

#include "runtime/call/kernel_call.h"
#include "runtime/interpreter/call_operator.h"
#include "runtime/interpreter/structure_runner.h"

#include <chrono>
#include <cstring>
#include <optional>

namespace tscompile {
namespace {

// Copies what a node has returned, as long as it fits.
class Detacher {
 public:
  explicit Detacher(uint64_t maxBytes) : left_(maxBytes) {}

  bool detach(IValue& value) {
    value = copyContainers(value, true);
    std::vector<IValue*> todo{&value};
    while (!todo.empty()) {
      IValue& v = *todo.back();
      todo.pop_back();
      if (v.isTensor() && v.tensorImpl()) {
        if (!tensor(v)) return false;
      } else if (v.isString()) {
        if (!take(v.toString().size())) return false;
      } else if (v.isList() || v.isTuple()) {
        auto& items = v.isList() ? v.toList().items : v.toTuple().items;
        if (!take(items.size() * sizeof(IValue))) return false;
        for (IValue& item : items) todo.push_back(&item);
      } else if (v.isDict()) {
        if (!take(v.toDict().size() * 2 * sizeof(IValue))) return false;
        v.toDict().forEachValue([&](IValue& item) { todo.push_back(&item); });
      }
    }
    return true;
  }

 private:
  bool take(uint64_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

  bool tensor(IValue& v) {
    Tensor t = v.toTensor();
    uint64_t bytes = static_cast<uint64_t>(t.numel()) * itemSize(t.dtype());
    if (!take(bytes)) return false;
    // The elements between the first and the last one in memory.
    int64_t low = 0, high = -1;
    if (t.numel() > 0) {
      high = 0;
      for (int d = 0; d < t.rank(); ++d) (t.stride(d) < 0 ? low : high) += t.stride(d) * (t.size(d) - 1);
    }
    int64_t count = high - low + 1;
    if (count > t.numel()) return false;
    auto item = static_cast<int64_t>(itemSize(t.dtype()));
    Ref<Storage> storage = Storage::allocate(static_cast<size_t>(count * item));
    if (count) std::memcpy(storage->data(), t.raw() + low * item, static_cast<size_t>(count * item));
    storage->makeReadOnly();
    if (const Quantization* q = t.storage()->quantization()) storage->setQuantization(*q);
    v = Tensor::view(t.dtype(), std::move(storage), t.sizes(), t.strides(), -low);
    return true;
  }

  uint64_t left_;
};

class NodeEvaluator : public Evaluator {
 public:
  NodeEvaluator(const OpRegistry& registry, uint64_t runBytes) : registry_(registry), runBytes_(runBytes) {}

  std::optional<std::vector<IValue>> evaluate(const Node& node, std::span<const IValue> inputs,
                                              uint64_t maxBytes) override {
    if (node.hasBlocks() || node.subgraph() || inputs.size() != node.inputCount()) return std::nullopt;
    // Kernels may need copies of their arguments besides the results.
    uint64_t inputBytes = 0;
    for (const IValue& v : inputs)
      if (v.isTensor() && v.tensorImpl())
        inputBytes += static_cast<uint64_t>(v.tensorImpl()->numel()) * itemSize(v.tensorImpl()->dtype());
    constexpr uint64_t kRoom = 1 << 20;
    RunOptions options;
    options.memoryLimit = kRoom + 4 * (std::min(maxBytes, runBytes_) + inputBytes);
    options.timeLimit = patience_;
    auto begin = std::chrono::steady_clock::now();
    RunContext context(options);
    RunScope scope(context);
    try {
      std::vector<IValue> results(node.outputCount() + 1);
      if (!structure(node, inputs, results, context) && !operation(node, inputs, results, context)) return std::nullopt;
      results.resize(node.outputCount());
      Detacher detacher(maxBytes);
      for (IValue& v : results)
        if (!detacher.detach(v)) return std::nullopt;
      return results;
    } catch (const ExecutionError& e) {
      // Values may make a loop endless; what is asked again and again waits less and less.
      if (e.kind() == ErrorKind::Limit && std::chrono::steady_clock::now() - begin >= patience_) patience_ /= 8;
      return std::nullopt;
    } catch (const std::bad_alloc&) {
      return std::nullopt;
    }
  }

  std::optional<std::vector<IValue>> run(const Graph& graph, std::span<const IValue> inputs) override {
    Diagnostics diagnostics;
    Result<std::shared_ptr<const Program>> program = Program::compile(graph, registry_, {}, diagnostics);
    if (!program) return std::nullopt;
    RunOptions options;
    options.memoryLimit = runBytes_;
    Result<std::vector<IValue>> results = (*program)->run(inputs, options, diagnostics);
    if (!results) return std::nullopt;
    return std::move(*results);
  }

 private:
  bool operation(const Node& node, std::span<const IValue> inputs, std::vector<IValue>& results, RunContext& context) {
    const Operator* op = registry_.resolve(node);
    if (!op || !op->isImplemented()) return false;
    if (!op->schema().varReturns && op->schema().returns.size() != node.outputCount()) return false;
    std::vector<const IValue*> arguments;
    for (const IValue& v : inputs) arguments.push_back(&v);
    callOperator(*op, arguments.data(), arguments.size(), results.data(), node.outputCount(), context);
    return true;
  }

  bool structure(const Node& node, std::span<const IValue> inputs, std::vector<IValue>& results, RunContext& context) {
    if (!StructureRunner::runs(node.kind())) return false;
    if (!structures_) structures_.emplace(registry_);
    structures_->run(node, inputs, std::span(results).first(node.outputCount()), context);
    return true;
  }

  const OpRegistry& registry_;
  uint64_t runBytes_;
  std::chrono::nanoseconds patience_ = std::chrono::seconds(1);
  std::optional<StructureRunner> structures_;
};

}  // namespace

std::unique_ptr<Evaluator> makeEvaluator(const OpRegistry& registry, uint64_t runBytes) {
  return std::make_unique<NodeEvaluator>(registry, runBytes);
}

}  // namespace tscompile
