// What a converter sees: one call with its arguments, each known or a tensor of the network, and the network that the
// layers are added to.
#pragma once

#include "runtime/call/kernel_call.h"
#include "runtime/engine/network/network.h"
#include "runtime/engine/network/refusal.h"

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tscompile {

// The tensors of a network as values of the graph: symbolic ones, which have sizes but no memory.
class NetworkTensors {
 public:
  // Adds a layer that stores a tensor as another one of the same sizes, whose dtype is another.
  using AddConversion = void (*)(Network& network, const Node* node, TensorId from, TensorId to);
  NetworkTensors(Network& network, AddConversion addConversion) : network_(network), addConversion_(addConversion) {}

  // A symbolic tensor in a buffer of its own.
  Tensor make(DType dtype, DimSpan sizes);
  // The symbolic tensor for input `index`, seen through its sizes and strides.
  Tensor makeInput(uint32_t index, const Tensor& given);
  // A tensor of 16 bits with the elements of `wide`, a contiguous symbolic one of f32 whose elements 16 bits hold. It
  // gets memory, and a layer that stores it there, where its id is asked for.
  Tensor makeNarrow(const Node* node, DType dtype, const Tensor& wide);
  // What a tensor was made so of, seen as that is; undefined for all others.
  Tensor wideOf(const Tensor& narrow) const;
  // The tensor of the network that a symbolic tensor stands for, views included; other tensors become constants.
  TensorId idOf(const Tensor& tensor);
  NetValue valueOf(const IValue& value);
  Network& network() { return network_; }

  // Whether the value is, or holds, a symbolic tensor.
  static bool isSymbolic(const IValue& value);

 private:
  struct Narrow {
    const Node* node;
    DType dtype;
    Tensor wide;
  };
  BufferId bufferOf(const Storage* storage);

  Network& network_;
  AddConversion addConversion_;
  std::unordered_map<const Storage*, BufferId> buffers_;
  std::unordered_map<const Storage*, Narrow> narrow_;
  std::unordered_map<const TensorImpl*, TensorId> ids_;
  std::vector<Tensor> kept_;  // so that no address is used twice
};

// Carries out operators while an engine is made.
class OperatorTracer {
 public:
  // The result of an operator, which has one: layers are added for what depends on tensors of the network.
  virtual IValue trace(const Operator& op, std::span<const IValue> arguments) = 0;
  virtual const OpRegistry& registry() const = 0;

 protected:
  ~OperatorTracer() = default;
};

// Arguments that are tensors of the network have sizes and dtype, but no elements: tensor(i).sizes() is right,
// tensor(i).raw() is not. All other arguments are known.
class ConvertCall : public KernelCall {
 public:
  ConvertCall(const Node* node, const Operator& op, const IValue* const* arguments, size_t count,
              const InferCall* inferred, IValue* results, size_t resultCount, RunContext& context,
              NetworkTensors& tensors, OperatorTracer& tracer)
      : KernelCall(op, arguments, count, inferred, results, resultCount, context),
        node_(node),
        inferred_(inferred),
        results_(results),
        tensors_(tensors),
        tracer_(tracer) {}

  const Node* node() const { return node_; }
  Network& network() const { return tensors_.network(); }
  // Whether argument i is a tensor that only a run knows; else it is a weight, a number, a list, None.
  bool isNetworkTensor(size_t i) const { return NetworkTensors::isSymbolic(argument(i)); }
  // A tensor argument as a tensor of the network.
  TensorId operand(size_t i) const { return tensors_.idOf(tensor(i)); }
  TensorId idOf(const Tensor& t) const { return tensors_.idOf(t); }
  // Of kernels: here there are no elements to be written yet.
  Tensor out(size_t i = 0) = delete;
  // Result i as inference described it: a contiguous tensor in a buffer of its own. Refuses what is no tensor.
  TensorId makeResult(size_t i = 0);
  // A tensor between layers, symbolic and contiguous. Refuses dtypes that no memory has.
  Tensor makeTensor(DType dtype, DimSpan sizes) const;
  // The same for results that may be lists of tensors.
  void makeResults(size_t i);
  bool hasResult(size_t i) const { return !results_[i].isNone(); }
  // Whether result i has the dtype and sizes that inference told.
  bool fitsResult(size_t i) const;
  NetValue argumentValue(size_t i) const { return tensors_.valueOf(argument(i)); }
  NetValue resultValue(size_t i) const { return tensors_.valueOf(results_[i]); }
  // The result of another operator ("aten::relu", "aten::add.Tensor") on arguments like those of a call; the last ones
  // may be left out where the schema has defaults. Its layers are added; what is known already is computed at once.
  IValue compute(std::string_view op, std::vector<IValue> arguments) const;
  // Layers run in the order in which they are added: one that reads a tensor is added after the one that makes it.
  template <class L, class... Args>
  L& add(Args&&... args) {
    auto layer = std::make_unique<L>(node_, std::forward<Args>(args)...);
    L& added = *layer;
    if (op().def().hasSessionConverter()) added.ofOthers = op().kind().text();
    network().layers.push_back(std::move(layer));
    return added;
  }
  [[noreturn]] void refuse(Reason reason, std::string detail, Remedy remedy = {}) const {
    throw Refusal{node_, {reason, std::move(detail), std::move(remedy)}};
  }

 private:
  const Node* node_;
  const InferCall* inferred_;
  IValue* results_;
  NetworkTensors& tensors_;
  OperatorTracer& tracer_;
};

// Adds a layer that calls the operator's kernel. For every operator that computes without converter, and for arguments
// that a converter has no layer for: then it says why, for reports ("the weight is an input").
void convertToKernel(ConvertCall& call, std::string_view why = {});

// `convert` of operators whose functions carry something with them (session_functions.h).
void convertBySession(ConvertCall& call);

}  // namespace tscompile
