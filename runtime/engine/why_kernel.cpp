#include "runtime/engine/why_kernel.h"

#include "ir/graph/builder.h"
#include "ir/graph/clone.h"
#include "runtime/engine/tracer.h"

#include <algorithm>

namespace tscompile {
namespace {

constexpr int kMostSteps = 8;  // from an argument to the constants that it is made of

// A graph of one node with the constants that it uses; its tensors that only a run knows are inputs.
class SingleNode {
 public:
  SingleNode(const Node& node, const ShapePropagation& shapes) : shapes_(shapes) {
    known_ = std::all_of(node.inputs().begin(), node.inputs().end(),
                         [&](const Use& u) { return bring(u.value, kMostSteps); });
    if (!known_) return;
    copy(node);
    for (const Value* o : node.outputs()) graph_.addOutput(values_.at(o));
  }

  bool isKnown() const { return known_; }
  const Graph& graph() const { return graph_; }
  std::span<const IValue> inputs() const { return inputs_; }

 private:
  // Puts a value, or what it is made of, into the graph; false if too little is known of it.
  bool bring(const Value* v, int steps) {
    if (values_.contains(v)) return true;
    const Node* n = v->node();
    if (n && n->kind() == sym::Constant) return bringConstant(*n);
    if (const std::optional<IValue>& known = shapes_.of(v).constant) {
      values_[v] = Builder(graph_).constant(*known, v->type());
      return true;
    }
    if (n && (n->kind() == sym::ListConstruct || isMadeOfConstants(*n, steps))) {
      for (const Use& u : n->inputs())
        if (steps == 0 || !bring(u.value, steps - 1)) return false;
      copy(*n);
      return true;
    }
    return bringInput(v);
  }

  // Weights whose data is not there have sizes: converters look at no elements to find out what they can take.
  bool bringConstant(const Node& n) {
    const IValue* value = n.attributeValue(sym::value);
    Node* made = copy(n);
    if (!n.output()->type()->isTensor() || (value && value->isTensor())) return true;
    if (value && value->isLiteral() && value->toLiteral().data.defined()) return true;
    std::optional<Tensor> empty = makeTensor(n.output(), false);
    if (empty) made->setAttribute(sym::value, IValue(*empty));
    return empty.has_value();
  }

  bool bringInput(const Value* v) {
    std::optional<Tensor> t = v->type()->isTensor() ? makeTensor(v, true) : std::nullopt;
    if (!t) return false;
    values_[v] = graph_.addInput(types().tensor);
    inputs_.push_back(IValue(*t));
    return true;
  }

  std::optional<Tensor> makeTensor(const Value* v, bool symbolic) const {
    constexpr int64_t kMostElements = int64_t{1} << 28;
    const TensorFacts& f = shapes_.tensor(v);
    std::optional<int64_t> count = f.hasRank ? knownNumel(f.sizes) : std::nullopt;
    if (f.dtype == DType::Undefined || !count || *count > kMostElements) return std::nullopt;
    if (!symbolic) return Tensor::zeros(f.dtype, f.sizes);
    Ref<Storage> storage = Storage::symbolic(static_cast<size_t>(*count) * itemSize(f.dtype));
    return Tensor::view(f.dtype, std::move(storage), f.sizes, contiguousStrides(f.sizes), 0);
  }

  bool isMadeOfConstants(const Node& n, int steps) const {
    if (steps == 0 || n.hasBlocks() || n.subgraph() || n.inputCount() == 0) return false;
    return std::all_of(n.inputs().begin(), n.inputs().end(), [&](const Use& u) {
      const Node* from = u.value->node();
      return from && (from->kind() == sym::Constant || isMadeOfConstants(*from, steps - 1));
    });
  }

  Node* copy(const Node& n) {
    Node* made = cloneNode(n, graph_, values_);
    graph_.block()->append(made);
    return made;
  }

  const ShapePropagation& shapes_;
  Graph graph_;
  ValueMap values_;
  std::vector<IValue> inputs_;
  bool known_ = false;
};

}  // namespace

std::string whyKernel(const Node& node, const ShapePropagation& shapes, const OpRegistry& registry) {
  const Operator* op = node.hasBlocks() || node.subgraph() ? nullptr : registry.resolve(node);
  if (!op || !op->isImplemented() || !op->def().convert) return {};
  try {
    RunOptions options;
    RunContext context(options);
    RunScope scope(context);
    SingleNode single(node, shapes);
    if (!single.isKnown()) return {};
    std::optional<Refusal> refusal;
    std::optional<TracedGraph> traced = TracedGraph::make(single.graph(), registry, {}, refusal);
    if (!traced) return {};
    std::unique_ptr<Network> network = traced->trace(single.inputs(), context, true);
    for (const auto& layer : network->layers)
      if (!layer->whyKernel().empty()) return std::string(layer->whyKernel());
  } catch (const Refusal&) {
  } catch (const ExecutionError&) {
  }
  return {};
}

}  // namespace tscompile
