#include "partition/store_weights.h"

#include "ir/graph/builder.h"
#include "ir/support/file_pages.h"
#include "ir/values/encoded.h"

#include <optional>
#include <unordered_map>
#include <vector>

namespace tscompile {
namespace {

Symbol decodeKind() { return Symbol::of("tscompile::decode"); }

constexpr int64_t kLeastElements = 1024;  // of less, a node more costs what is saved

// Which dimension of a weight has the columns of the product. Behind the last one where it is counted from the end.
struct WeightArgument {
  std::string_view name;
  int columns;
};
constexpr int kLast = -1;
constexpr WeightArgument kWeightArguments[] = {{"weight", 0}, {"w_ih", 0},     {"w_hh", 0},
                                               {"params", 0}, {"mat2", kLast}, {"other", kLast}};

class WeightEncoder {
 public:
  WeightEncoder(Graph& stitched, DType precision, const OpRegistry& registry)
      : precision_(precision), registry_(registry) {
    find(stitched, false);
  }

  void run() {
    for (const auto& [node, axis] : found_)
      if (known_.at(tensorOf(node).raw()).isWeight) encodeConstant(node, axis);
  }

 private:
  struct Known {
    bool isWeight = true;  // and nothing else, wherever it is read
    std::optional<Encoded> encoded;
  };

  static Tensor tensorOf(const Node* n) {
    const IValue* v = n->kind() == sym::Constant && n->outputCount() == 1 ? n->attributeValue(sym::value) : nullptr;
    return v && v->isTensor() && v->tensorImpl() ? v->toTensor() : Tensor();
  }

  void find(Graph& graph, bool isEngine) {
    forEachNode(graph, [&](Node* n) {
      if (n->subgraph()) find(*n->subgraph(), n->kind() == sym::Engine);
      const Tensor t = tensorOf(n);
      if (!t.defined()) return;
      std::optional<int> axis = isEngine && mayBeStored(t) ? columnsOf(*n->output(), t.rank()) : std::nullopt;
      known_[t.raw()].isWeight &= axis.has_value();
      if (axis) found_.emplace_back(n, *axis);
    });
  }

  static bool mayBeStored(const Tensor& t) {
    return t.dtype() == DType::Float32 && t.isContiguous() && t.rank() >= 2 && t.numel() >= kLeastElements;
  }

  // The dimension that all readers take for the columns.
  std::optional<int> columnsOf(const Value& weight, int rank) const {
    std::optional<int> axis;
    for (const Use& u : weight.uses()) {
      const bool isItem = u.user->kind() == sym::ListConstruct && u.user->output()->useCount() == 1;
      std::optional<int> own = columnsOf(isItem ? *u.user->output()->uses().begin() : u, rank);
      if (!own || (axis && axis != own)) return std::nullopt;
      axis = own;
    }
    return axis;
  }
  std::optional<int> columnsOf(const Use& use, int rank) const {
    const Operator* op = use.user->isReturn() ? nullptr : registry_.resolve(*use.user);
    if (!op || !op->def().convert || op->def().hasSessionConverter()) return std::nullopt;
    const std::string_view name = op->schema().arguments[use.index()].name;
    for (const WeightArgument& w : kWeightArguments)
      if (w.name == name && takesStored(*op, use, rank)) return w.columns == kLast ? rank - 1 : w.columns;
    return std::nullopt;
  }

  // Whether the layer reads such a weight by itself.
  bool takesStored(const Operator& op, const Use& use, int rank) const {
    switch (op.def().cost) {
      case Cost::Convolution:
        // Transposed ones have their channels elsewhere.
        return precision_ != DType::Int8 || !transposes(op.schema(), *use.user);
      case Cost::Product:
      case Cost::AddedProduct:
        return rank == 2 || (precision_ != DType::Int8 && op.schema().argumentIndex("offs"));
      default:
        return use.index() == 0 && rank == 2;  // a table of rows
    }
  }
  static bool transposes(const Schema& convolution, const Node& node) {
    std::optional<size_t> flag = convolution.argumentIndex("transposed");
    if (!flag) return convolution.argumentIndex("output_padding").has_value();
    const IValue* said = node.input(*flag)->node()->attributeValue(sym::value);
    return !said || !said->isBool() || said->toBool();
  }

  void encodeConstant(Node* constant, int axis) {
    const Tensor elements = tensorOf(constant);
    if (!keepsDigits(elements, precision_)) return;
    std::optional<Encoded>& encoded = known_.at(elements.raw()).encoded;
    if (!encoded) {
      encoded = encode(elements, precision_, axis);
      releaseFilePages(elements.storage()->data(), elements.storage()->bytes());
    }
    Builder b(*constant->graph(), constant);
    b.setPlaceOf(constant);
    Value* old = constant->output();
    Value* values = b.constant(IValue(encoded->values));
    Value* scales = encoded->scales.defined() ? b.constant(IValue(encoded->scales)) : b.constant(IValue());
    Value* made = b.call(decodeKind(), {values, scales, b.constant(IValue(int64_t{axis}))}, old->type());
    old->replaceAllUsesWith(made);
    constant->destroy();
  }

  const DType precision_;
  const OpRegistry& registry_;
  std::unordered_map<const void*, Known> known_;  // by the memory of a tensor
  std::vector<std::pair<Node*, int>> found_;
};

}  // namespace

bool isStoredWeight(const Node* node) { return node->kind() == decodeKind(); }

void storeWeights(Graph& stitched, DType precision, const OpRegistry& registry) {
  if (precision != DType::Float32) WeightEncoder(stitched, precision, registry).run();
}

}  // namespace tscompile
