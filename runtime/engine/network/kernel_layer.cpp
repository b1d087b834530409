// The layer that calls an operator's reference kernel.
#include "ir/values/error.h"
#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/interpreter/call_operator.h"
#include "runtime/reference/loops/copy.h"

#include <atomic>

namespace tscompile {
namespace {

// Moves the tensors of a value into a list of the layer; in their place stay positions in that list, so that whoever
// exchanges a tensor there exchanges it for the kernel.
void collect(NetValue& v, std::vector<TensorId>& into) {
  if (v.kind == NetValue::Kind::Tensor) {
    into.push_back(v.tensor);
    v.tensor = static_cast<TensorId>(into.size() - 1);
  }
  for (NetValue& item : v.items) collect(item, into);
}

class KernelLayer : public Layer {
 public:
  KernelLayer(const Node* node, const Operator& op, std::vector<NetValue> arguments, std::vector<NetValue> results,
              std::string_view why)
      : Layer(node), op_(op), arguments_(std::move(arguments)), results_(std::move(results)), why_(why) {
    for (NetValue& v : arguments_) collect(v, inputs);
    for (NetValue& v : results_) collect(v, outputs);
  }
  std::string name() const override { return "kernel " + op_.fullName(); }
  bool isNative() const override { return false; }
  std::string_view whyKernel() const override { return why_; }

  void run(Frame& frame) const override {
    std::vector<IValue> values;
    values.reserve(arguments_.size());
    for (const NetValue& v : arguments_) values.push_back(argument(frame, v));
    std::vector<const IValue*> pointers;
    pointers.reserve(values.size());
    for (const IValue& v : values) pointers.push_back(&v);
    std::vector<IValue> results(results_.size() + 1);
    // A kernel of others must set its results: whether it does shows where they are not there before.
    const bool isFirst = op_.def().session && !hasRun_.load(std::memory_order_relaxed);
    const bool aside = op_.isInPlaceVariant() || op_.outCount() || isFirst;
    for (size_t i = 0; i < results_.size() && !aside; ++i)
      if (results_[i].kind == NetValue::Kind::Tensor) results[i] = frame.tensor(outputs[results_[i].tensor]);
    callOperator(op_, pointers.data(), pointers.size(), results.data(), results_.size(), frame.context());
    for (size_t i = 0; i < results_.size(); ++i) store(frame, results_[i], results[i]);
    if (isFirst) hasRun_ = true;
  }

 private:
  IValue argument(Frame& frame, const NetValue& v) const {
    if (v.kind == NetValue::Kind::Tensor) return frame.tensor(inputs[v.tensor]);
    if (v.kind == NetValue::Kind::Known) return v.known;
    std::vector<IValue> items;
    items.reserve(v.items.size());
    for (const NetValue& item : v.items) items.push_back(argument(frame, item));
    return Ref<ListValue>::make(v.elementType, std::move(items));
  }

  // Kernels that make their results themselves, or return an argument, are copied from.
  void store(Frame& frame, const NetValue& planned, const IValue& made) const {
    if (planned.kind == NetValue::Kind::Tensor) {
      const Tensor& to = frame.tensor(outputs[planned.tensor]);
      if (made.tensorImpl() == to.impl() || made.tensorImpl()->data() == to.raw()) return;
      // The interpreter takes what a kernel gives.
      if (Dims(made.toTensor().sizes()) != Dims(to.sizes()))
        throw ExecutionError(ErrorKind::Model, "a kernel gave other sizes than were planned for");
      copyTensor(to, made.toTensor());
      return;
    }
    for (size_t i = 0; i < planned.items.size(); ++i) store(frame, planned.items[i], made.toList().items[i]);
  }

  const Operator& op_;
  std::vector<NetValue> arguments_;  // tensors: positions in `inputs`
  std::vector<NetValue> results_;    // positions in `outputs`
  std::string why_;
  mutable std::atomic<bool> hasRun_{false};
};

}  // namespace

void convertToKernel(ConvertCall& call, std::string_view why) {
  std::vector<NetValue> arguments, results;
  for (size_t i = 0; i < call.size(); ++i) arguments.push_back(call.argumentValue(i));
  for (size_t i = 0; i < call.resultCount(); ++i) {
    if (!call.hasResult(i)) call.makeResults(i);
    results.push_back(call.resultValue(i));
  }
  call.add<KernelLayer>(call.op(), std::move(arguments), std::move(results), why);
}

}  // namespace tscompile
