#include "partition/estimate.h"

#include <algorithm>

namespace tscompile {
namespace {

// A core of our day: what an engine and the reference kernels reach of its arithmetic and of its memory.
struct Speed {
  double flops, bytes, perNode;
};
constexpr Speed kEngine{40e9, 10e9, 3e-7};
constexpr Speed kReference{4e9, 4e9, 2e-6};
// What crosses a border is handed over as it lies, but has left the cache by then.
constexpr double kCrossingBytes = 20e9;
// Of values whose sizes are not known.
constexpr double kUnknownElements = 1024;

std::optional<double> elements(const TensorFacts& t) {
  if (!t.hasRank) return std::nullopt;
  std::optional<int64_t> n = knownNumel(t.sizes);
  if (!n) return std::nullopt;
  return static_cast<double>(*n);
}
std::optional<double> elements(const Value* v, const ShapePropagation& shapes) {
  if (!v->type()->isTensor()) return 0;
  return elements(shapes.tensor(v));
}
double sizeAt(const Value* v, const ShapePropagation& shapes, size_t fromEnd) {
  if (!v->type()->isTensor()) return 1;
  const TensorFacts& t = shapes.tensor(v);
  if (!t.hasRank || t.sizes.size() <= fromEnd) return 1;
  return static_cast<double>(std::max<int64_t>(t.sizes[t.sizes.size() - 1 - fromEnd], 1));
}

// Elements of the matrices among the arguments after the first, those in lists too.
double matrixElements(const Node* n, const ShapePropagation& shapes) {
  double sum = 0;
  auto add = [&](const SymbolicValue& v) {
    if (v.type->isTensor() && v.type->tensor().hasRank && v.type->tensor().sizes.size() == 2)
      sum += elements(v.type->tensor()).value_or(0);
  };
  for (size_t i = 1; i < n->inputCount(); ++i) {
    const SymbolicValue& v = shapes.of(n->input(i));
    add(v);
    for (const SymbolicValue& item : v.items) add(item);
  }
  return sum;
}

// Multiplications and additions of one element of the result.
double operationsPerElement(const Node* n, Cost cost, const ShapePropagation& shapes) {
  switch (cost) {
    case Cost::Step:
    case Cost::Reduction:
      return 1;
    case Cost::Function:
      return 10;
    case Cost::Product:
      return n->inputCount() > 0 ? 2 * sizeAt(n->input(0), shapes, 0) : 1;
    case Cost::AddedProduct:
      return n->inputCount() > 1 ? 2 * sizeAt(n->input(1), shapes, 0) : 1;
    case Cost::Attention:
      return n->inputCount() > 1 ? 4 * sizeAt(n->input(1), shapes, 1) : 1;
    case Cost::Layers:
      return n->outputCount() > 0 ? 2 * matrixElements(n, shapes) / sizeAt(n->output(0), shapes, 0) : 1;
    case Cost::Convolution:
      break;
  }
  if (n->inputCount() < 2) return 1;
  std::optional<double> weight = elements(n->input(1), shapes);
  const TensorFacts& w = shapes.tensor(n->input(1));
  double outputs = w.hasRank && !w.sizes.empty() ? static_cast<double>(std::max<int64_t>(w.sizes[0], 1)) : 1;
  return 2 * weight.value_or(kUnknownElements) / outputs;
}

Cost costOf(const Node* n, const OpRegistry& registry) {
  const Operator* op = n->subgraph() ? nullptr : registry.resolve(*n);
  return op && op->isImplemented() ? op->def().cost : Cost::Step;
}

}  // namespace

Work workOf(const Node* node, const ShapePropagation& shapes) {
  Work work;
  if (node->hasBlocks()) return work;
  work.known = true;
  double results = 0, arguments = 0;
  for (const Value* v : node->outputs()) {
    std::optional<double> n = elements(v, shapes);
    work.known &= n.has_value();
    results += n.value_or(0);
    work.bytes += bytesOf(v, &shapes);
  }
  for (const Use& u : node->inputs()) {
    std::optional<double> n = elements(u.value, shapes);
    work.known &= n.has_value();
    arguments += n.value_or(0);
    work.bytes += bytesOf(u.value, &shapes);
  }
  if (!work.known) return {};
  Cost cost = costOf(node, shapes.registry());
  work.flops = std::max(results, cost == Cost::Reduction ? arguments : 0) * operationsPerElement(node, cost, shapes);
  return work;
}

double secondsOf(const Node* node, const Work& work, Target target) {
  const Speed& speed = target == Target::Accelerated ? kEngine : kReference;
  // Those hand on what they get.
  if (node->hasBlocks() || node->kind().nameSpace() == "prim") return speed.perNode;
  double flops = work.known ? work.flops : kUnknownElements, bytes = work.known ? work.bytes : 8 * kUnknownElements;
  return speed.perNode + std::max(flops / speed.flops, bytes / speed.bytes);
}

double crossingSeconds(double bytes) { return bytes / kCrossingBytes; }

double bytesOf(const Value* value, const ShapePropagation* shapes) {
  if (!value->type()->isTensor()) return value->type()->isListOf(TypeKind::Tensor) ? 4 * kUnknownElements : 8;
  TensorFacts facts = shapes && shapes->find(value) ? shapes->tensor(value) : value->type()->tensor();
  double item = facts.dtype == DType::Undefined ? 4 : static_cast<double>(itemSize(facts.dtype));
  return item * elements(facts).value_or(kUnknownElements);
}

void estimate(Partition& partition, const PartitionOptions& options) {
  partition.seconds = 0;
  for (Segment& s : partition.segments) {
    s.seconds = s.gainSeconds = s.borderSeconds = 0;
    auto add = [&](const Node* n) {
      if (partition.given.contains(n)) return;
      if (options.shapes) partition.work[n] = workOf(n, *options.shapes);
      s.seconds += secondsOf(n, partition.work[n], s.target);
      if (s.target == Target::Accelerated) s.gainSeconds += secondsOf(n, partition.work[n], Target::Fallback);
    };
    for (const Node* n : s.nodes) {
      add(n);
      if (s.target == Target::Accelerated)
        for (Block* b : n->blocks()) forEachNode(b, add);
    }
    for (const Node* n : s.recomputed) s.seconds += secondsOf(n, partition.work[n], s.target);
    if (s.target == Target::Accelerated) {
      s.gainSeconds -= s.seconds;
      double bytes = 0;
      for (const auto* values : {&s.inputs, &s.outputs})
        for (const Value* v : *values) bytes += bytesOf(v, options.shapes);
      s.borderSeconds = kEngineEntrySeconds + crossingSeconds(bytes);
    }
    partition.seconds += s.seconds + s.borderSeconds;
  }
}

}  // namespace tscompile
