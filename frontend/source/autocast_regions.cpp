// Conversions in regions of autocast:
//
//   %region : autocast = prim::CreateObject()               …
//    = prim::SetAttr[name="fast_dtype"](%region, %dtype)    …
//   %1 : autocast = prim::Enter(%region)                    %1 : autocast = prim::Enter(%region)
//   %y : Tensor = aten::mm(%a, %b)                      →   %2 : Tensor = aten::_autocast_to_reduced_precision(%a, …)
//                                                           %3 : Tensor = aten::_autocast_to_reduced_precision(%b, …)
//                                                           %y : Tensor = aten::mm(%2, %3)
//   %4 : Tensor = prim::Exit(%region)                       %4 : Tensor = prim::Exit(%region)
//
// Which operators convert to what is PyTorch's list for TorchScript, which differs from that of Python: softmax and
// lists of tensors stay as they are.
#include "frontend/source/autocast_regions.h"

#include "ir/analysis/context_kind.h"
#include "ir/graph/builder.h"
#include "ir/values/kind_set.h"

#include <map>
#include <optional>

namespace tscompile {
namespace {

const KindSet& reducedKinds() {
  static const KindSet kKinds{"aten::_convolution",
                              "aten::_convolution_nogroup",
                              "aten::conv1d",
                              "aten::conv2d",
                              "aten::conv3d",
                              "aten::conv_tbc",
                              "aten::conv_transpose1d",
                              "aten::convolution",
                              "aten::prelu",
                              "aten::addmm",
                              "aten::addmv",
                              "aten::addr",
                              "aten::matmul",
                              "aten::mm",
                              "aten::mv",
                              "aten::linear",
                              "aten::addbmm",
                              "aten::baddbmm",
                              "aten::bmm",
                              "aten::lstm_cell",
                              "aten::gru_cell",
                              "aten::rnn_tanh_cell",
                              "aten::rnn_relu_cell"};
  return kKinds;
}

const KindSet& fullKinds() {
  static const KindSet kKinds{"aten::native_layer_norm",
                              "aten::acos",
                              "aten::asin",
                              "aten::cosh",
                              "aten::erfinv",
                              "aten::exp",
                              "aten::expm1",
                              "aten::log",
                              "aten::log10",
                              "aten::log2",
                              "aten::log1p",
                              "aten::reciprocal",
                              "aten::rsqrt",
                              "aten::sinh",
                              "aten::tan",
                              "aten::pow",
                              "aten::softplus",
                              "aten::gelu",
                              "aten::layer_norm",
                              "aten::group_norm",
                              "aten::frobenius_norm",
                              "aten::nuclear_norm",
                              "aten::cosine_similarity",
                              "aten::cosine_embedding_loss",
                              "aten::nll_loss",
                              "aten::nll_loss2d",
                              "aten::hinge_embedding_loss",
                              "aten::kl_div",
                              "aten::l1_loss",
                              "aten::smooth_l1_loss",
                              "aten::mse_loss",
                              "aten::margin_ranking_loss",
                              "aten::multilabel_margin_loss",
                              "aten::soft_margin_loss",
                              "aten::triplet_margin_loss",
                              "aten::multi_margin_loss",
                              "aten::binary_cross_entropy_with_logits",
                              "aten::dist",
                              "aten::pdist",
                              "aten::cdist",
                              "aten::renorm",
                              "aten::logsumexp"};
  return kKinds;
}

// Those that take a dtype convert only where it is None.
const KindSet& kindsWithDtype() {
  static const KindSet kKinds{"aten::prod", "aten::log_softmax", "aten::cumprod", "aten::cumsum", "aten::sum"};
  return kKinds;
}

// In float32 as soon as one input may have it.
const KindSet& widestKinds() {
  static const KindSet kKinds{"aten::addcdiv", "aten::addcmul", "aten::atan2",     "aten::bilinear",  "aten::cross",
                              "aten::dot",     "aten::equal",   "aten::index_put", "aten::tensordot", "aten::add",
                              "aten::sub",     "aten::mul",     "aten::div"};
  return kKinds;
}

bool hasAutocast(const Value* v) {
  return v->type()->is(TypeKind::Class) && contextKindOf(v->type()->name()) == ContextKind::Autocast;
}

std::optional<IValue> knownValue(const Value* v, int depth = 0);

// Whether the first branch is taken; only tests for None are looked at.
std::optional<bool> knownTest(const Node* test, int depth) {
  static const Symbol kIs = Symbol::of("aten::__is__"), kIsNot = Symbol::of("aten::__isnot__");
  if (!test || (test->kind() != kIs && test->kind() != kIsNot)) return std::nullopt;
  std::optional<IValue> a = knownValue(test->input(0), depth), b = knownValue(test->input(1), depth);
  if (!a || !b || !b->isNone()) return std::nullopt;
  return a->isNone() == (test->kind() == kIs);
}

// What the constructor of autocast makes of its arguments.
std::optional<IValue> knownValue(const Value* v, int depth) {
  static const Symbol kDefault = Symbol::of("aten::get_autocast_dtype");
  constexpr int kMostSteps = 8;
  const Node* n = v->node();
  if (!n || depth > kMostSteps) return std::nullopt;
  if (n->kind() == sym::Constant) {
    const IValue* value = n->attributeValue(sym::value);
    return value ? *value : IValue();
  }
  if (n->kind() == sym::unchecked_cast) return knownValue(n->input(0), depth + 1);
  if (n->kind() == kDefault) {
    std::optional<IValue> device = knownValue(n->input(0), depth + 1);
    bool isCpu = device && device->isString() && device->toString() == "cpu";
    return IValue(static_cast<int64_t>(isCpu ? DType::BFloat16 : DType::Float16));
  }
  if (n->kind() != sym::If) return std::nullopt;
  std::optional<bool> first = knownTest(n->input(0)->node(), depth + 1);
  if (!first) return std::nullopt;
  size_t place = 0;
  while (n->output(place) != v) ++place;
  return knownValue(n->block(*first ? 0 : 1)->result(place), depth + 1);
}

// The dtype of a region on the CPU; none: it is switched off.
struct Region {
  std::optional<DType> dtype;
};

// Nothing for another device, and for a region that PyTorch would refuse, as its settings are no constants.
std::optional<Region> regionOf(const Value* instance) {
  std::map<std::string, IValue> settings;
  for (const Use& use : instance->uses()) {
    const IValue* name = use.user->kind() == sym::SetAttr ? use.user->attributeValue(sym::name) : nullptr;
    std::optional<IValue> value = name ? knownValue(use.user->input(1)) : std::nullopt;
    if (value) settings[name->toString()] = *value;
  }
  const IValue &enabled = settings["_enabled"], &device = settings["device"], &dtype = settings["fast_dtype"];
  if (!enabled.isBool() || !dtype.isInt() || !device.isString() || device.toString() != "cpu") return std::nullopt;
  return Region{enabled.toBool() ? dtypeFromNumber(dtype.toInt()) : std::nullopt};
}

class Regions {
 public:
  explicit Regions(const OpRegistry& registry) : registry_(registry) {}

  bool run(Graph& graph) {
    todo_.emplace_back(graph.block(), Region());
    while (!todo_.empty()) {
      auto [block, region] = todo_.back();
      todo_.pop_back();
      visit(block, region);
    }
    return changed_;
  }

 private:
  void visit(Block* block, Region outer) {
    std::vector<Region> open{outer};
    for (Node* n : block->nodes()) {
      if (n->kind() == sym::Enter && hasAutocast(n->input(0)))
        open.push_back(regionOf(n->input(0)).value_or(open.back()));
      else if (n->kind() == sym::Exit && hasAutocast(n->input(0)) && open.size() > 1)
        open.pop_back();
      else if (open.back().dtype)
        visit(n, *open.back().dtype);
      for (Block* inner : n->blocks()) todo_.emplace_back(inner, open.back());
    }
  }

  void visit(Node* n, DType dtype) {
    static const Symbol kUnsafe = Symbol::of("aten::binary_cross_entropy");
    const Operator* op = registry_.resolve(*n);
    if (!op || op->schema().isMutable()) return;
    if (n->kind() == kUnsafe) return refuse(n);
    if (reducedKinds().contains(n->kind())) return cast(n, dtype);
    bool full = fullKinds().contains(n->kind()) || (kindsWithDtype().contains(n->kind()) && !givesDtype(n, *op)) ||
                (widestKinds().contains(n->kind()) && mayHaveFloat(n));
    if (full) cast(n, std::nullopt);
  }

  static bool givesDtype(const Node* n, const Operator& op) {
    const auto& arguments = op.schema().arguments;
    for (size_t i = 0; i < std::min(arguments.size(), n->inputCount()); ++i)
      if (arguments[i].name == "dtype") return !n->input(i)->type()->is(TypeKind::None);
    return false;
  }

  static bool mayHaveFloat(const Node* n) {
    for (const Use& in : n->inputs()) {
      if (!in.value->type()->isTensor()) continue;
      DType known = in.value->type()->tensor().dtype;
      if (known == DType::Undefined || known == DType::Float32) return true;
    }
    return false;
  }

  // As PyTorch's pass does: the logarithm of what was rounded would be lost.
  void refuse(Node* n) {
    Builder b(*n->graph(), n);
    b.setPlaceOf(n);
    b.insert(sym::RaiseException, {b.constant(IValue("Unsafe to autocast")), b.constant(IValue())}, 0);
    changed_ = true;
  }

  // To `dtype`, or from 16 bits to float32.
  void cast(Node* n, std::optional<DType> dtype) {
    static const Symbol kReduced = Symbol::of("aten::_autocast_to_reduced_precision"),
                        kFull = Symbol::of("aten::_autocast_to_full_precision");
    Builder b(*n->graph(), n);
    b.setPlaceOf(n);
    std::map<Value*, Value*> known;
    for (size_t i = 0; i < n->inputCount(); ++i) {
      Value* v = n->input(i);
      if (!v->type()->isTensor() || (v->node() && v->node()->kind() == (dtype ? kReduced : kFull))) continue;
      Value*& converted = known[v];
      if (!converted) {
        Value *no = b.constant(IValue(false)), *yes = b.constant(IValue(true));
        Value* number = dtype ? b.constant(IValue(static_cast<int64_t>(*dtype))) : nullptr;
        converted = dtype ? b.call(kReduced, {v, no, yes, number, number}, types().tensor)
                          : b.call(kFull, {v, no, yes}, types().tensor);
      }
      n->replaceInput(i, converted);
      changed_ = true;
    }
  }

  const OpRegistry& registry_;
  std::vector<std::pair<Block*, Region>> todo_;
  bool changed_ = false;
};

}  // namespace

bool entersAutocast(const Graph& graph) {
  bool enters = false;
  if (graph.kinds().count(sym::Enter) == 0) return false;
  forEachNode(graph, [&](const Node* n) { enters |= n->kind() == sym::Enter && hasAutocast(n->input(0)); });
  return enters;
}

bool castInRegions(Graph& graph, const OpRegistry& registry) { return Regions(registry).run(graph); }

}  // namespace tscompile
