#include "passes/serving/masks/mask_use.h"

#include "ir/values/aten.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

namespace tscompile {
namespace {

using Kind = MaskUse::Kind;

// The operator itself, or the one that writes its result in place.
bool isOp(Symbol kind, Symbol op) { return kind == op || kind.text() == std::string(op.text()) + "_"; }

// A number that a tensor has everywhere.
struct Alike {
  double number;
  bool isBool;
};

// What becomes of a mask that has one number everywhere, up to the scores that it meets.
class Meeting {
 public:
  Meeting(const Graph& graph, const Value* mask, Alike number, GraphFacts& facts) : facts_(facts) {
    known_[mask] = number;
    forEachNode(graph, [&](const Node* n) { look(*n); });
  }

  // Whether what meets it is shown; nothing if nothing does, or if it becomes some other number.
  std::optional<bool> isShown() const { return shown_ == hidden_ || isOdd_ ? std::nullopt : std::optional(shown_); }

 private:
  void look(const Node& n) {
    if (n.outputCount() != 1 || n.inputCount() == 0) return;
    const Symbol k = n.kind();
    size_t own = n.inputCount();  // where what follows from the mask goes in
    for (size_t i = n.inputCount(); i-- > 0;)
      if (known_.contains(n.input(i))) own = i;
    if (own == n.inputCount()) return;
    const Alike x = known_.at(n.input(own));
    auto is = [&](Symbol op) { return isOp(k, op); };
    auto give = [&](double number, bool isBool) { known_[n.output()] = {number, isBool}; };
    if (k.name().ends_with("scaled_dot_product_attention")) {
      if (own == 3) x.isBool ? meet(x.number != 0) : add(x.number);
    } else if (is(aten::masked_fill)) {
      const std::optional<Alike> before = alike(n.input(0)), where = alike(n.input(1)), fill = alike(n.input(2));
      if (before && where && fill) give(where->number != 0 ? fill->number : before->number, before->isBool);
      if (!before && own == 1) meet(x.number == 0);
    } else if (k == aten::where && own == 0 && n.inputCount() == 3) {
      const std::optional<Alike> yes = alike(n.input(1)), no = alike(n.input(2));
      if (yes && no)
        give(x.number != 0 ? yes->number : no->number, false);
      else if (yes || no)
        meet((x.number != 0) == !yes);
    } else if (is(aten::logical_not) || is(aten::bitwise_not)) {
      give(x.number == 0, true);
    } else if (is(aten::neg)) {
      give(-x.number, false);
    } else if (is(aten::log)) {
      give(std::log(x.number), false);
    } else if (k.name().starts_with("clamp") && own == 0) {
      if (const std::optional<double> number = clamped(n, x.number)) give(*number, false);
    } else if (own == 0 && (facts_.movesElements(&n) || facts_.keepsElements(&n))) {
      keep(n, x);
    } else if (n.inputCount() > 1 && own < 2) {
      pair(n, alike(n.input(0)), alike(n.input(1)), x);
    }
  }

  // Between two bounds, or one of them; nothing where they are not known.
  std::optional<double> clamped(const Node& n, double number) const {
    const bool isMost = n.kind().name().starts_with("clamp_max");
    for (size_t i = 1; i < n.inputCount(); ++i) {
      if (GraphFacts::isNone(n.input(i))) continue;
      const std::optional<double> bound = facts_.number(n.input(i));
      if (!bound) return std::nullopt;
      number = isMost || i == 2 ? std::min(number, *bound) : std::max(number, *bound);
    }
    return number;
  }

  // Elements stay, if in another dtype.
  void keep(const Node& n, Alike x) {
    const IValue* dtype = n.kind() == aten::to ? GraphFacts::constant(n.input(1)) : nullptr;
    const TypePtr type = n.output()->type();
    const bool isBool = dtype && dtype->isInt() ? dtype->toInt() == static_cast<int64_t>(DType::Bool)
                        : type->isTensor() && type->tensor().dtype != DType::Undefined
                            ? type->tensor().dtype == DType::Bool
                            : x.isBool;
    known_[n.output()] = {isBool && !std::isnan(x.number) ? static_cast<double>(x.number != 0) : x.number, isBool};
  }

  // Two operands, of which one at least is known.
  void pair(const Node& n, std::optional<Alike> a, std::optional<Alike> b, Alike own) {
    const Symbol k = n.kind();
    auto is = [&](Symbol op) { return isOp(k, op); };
    const bool isAnd = is(aten::bitwise_and) || is(aten::logical_and) || k == aten::and_ || k == aten::minimum;
    const bool isOr = is(aten::bitwise_or) || is(aten::logical_or) || k == aten::or_ || k == aten::maximum;
    // The second operand of add and sub, the first of rsub, so many times.
    const bool isSum = is(aten::add) || is(aten::sub) || is(aten::rsub);
    const double times = isSum && n.inputCount() > 2 ? facts_.number(n.input(2)).value_or(1) : 1;
    if (!a || !b) {
      if (is(aten::add)) add(b ? scaled(own.number, times) : own.number);
      if (is(aten::sub) && b) add(-scaled(own.number, times));
      if (isAnd || isOr) known_[n.output()] = own;  // the other one does not stand in the way
      return;
    }
    const double x = a->number, y = b->number;
    const bool areBool = a->isBool && b->isBool;
    auto give = [&](double number, bool isBool = false) { known_[n.output()] = {number, isBool}; };
    if (is(aten::add)) give(x + scaled(y, times));
    if (is(aten::sub)) give(x - scaled(y, times));
    if (is(aten::rsub)) give(y - scaled(x, times));
    if (is(aten::mul)) give(scaled(x, y));
    if (is(aten::div)) give(x / y);
    if (k == aten::eq) give(x == y, true);
    if (k == aten::ne) give(x != y, true);
    if (k == aten::lt) give(x < y, true);
    if (k == aten::le) give(x <= y, true);
    if (k == aten::gt) give(x > y, true);
    if (k == aten::ge) give(x >= y, true);
    if (isAnd) give(std::min(x, y), areBool);
    if (isOr) give(std::max(x, y), areBool);
  }

  std::optional<Alike> alike(const Value* v) {
    if (const auto found = known_.find(v); found != known_.end()) return found->second;
    const IValue* constant = GraphFacts::constant(v);
    if (constant && constant->isTensor() && constant->toTensor().numel() == 1)
      return Alike{constant->toTensor().real(0), constant->toTensor().dtype() == DType::Bool};
    if (!v->type()->isTensor()) {
      const std::optional<double> number = facts_.number(v);
      return number ? std::optional(Alike{*number, v->type()->is(TypeKind::Bool)}) : std::nullopt;
    }
    const Node* n = v->node();
    if (!n || n->inputCount() == 0) return std::nullopt;
    const Symbol k = n->kind();
    if (k == aten::zeros || k == aten::zeros_like) return Alike{0, false};
    if (k == aten::ones || k == aten::ones_like) return Alike{1, false};
    if (k == aten::full || k == aten::full_like) return alike(n->input(1));
    const bool isSame = k.name() == "scalar_tensor" || facts_.movesElements(n) || facts_.keepsElements(n);
    return isSame ? alike(n->input(0)) : std::nullopt;
  }

  static double scaled(double x, double y) { return x == 0 || y == 0 ? 0 : x * y; }
  void add(double number) {
    constexpr double kFar = -100;  // what makes nothing of a probability
    if (number == 0 || number <= kFar)
      meet(number == 0);
    else
      isOdd_ = true;
  }
  void meet(bool isShown) { (isShown ? shown_ : hidden_) = true; }

  GraphFacts& facts_;
  std::map<const Value*, Alike> known_;
  bool shown_ = false, hidden_ = false, isOdd_ = false;
};

// Whether it is to be of bools: those of numbers are compared, or converted, first.
bool isOfBools(const Value* mask, GraphFacts& facts) {
  for (const Use& u : mask->uses()) {
    const Node& n = *u.user;
    const Symbol k = n.kind();
    if (isOp(k, aten::bitwise_not) || isOp(k, aten::bitwise_and) || isOp(k, aten::bitwise_or) ||
        (isOp(k, aten::masked_fill) && u.index() == 1) || (k == aten::where && u.index() == 0) ||
        k.name().ends_with("scaled_dot_product_attention"))
      return true;
    const bool isView = u.index() == 0 && n.outputCount() == 1 && n.kind() != aten::to && facts.movesElements(&n);
    if (isView && isOfBools(n.output(), facts)) return true;
  }
  return false;
}

}  // namespace

std::optional<MaskUse> useOfMask(const Graph& graph, const OpRegistry& registry, const Value* mask) {
  GraphFacts facts(graph, registry);
  const DType dtype = mask->type()->isTensor() ? mask->type()->tensor().dtype : DType::Undefined;
  if (!DTypeSet{DType::Undefined, DType::Bool, DType::Int64, DType::Float32}.contains(dtype)) return std::nullopt;
  const bool areBools = dtype == DType::Bool || (dtype == DType::Undefined && isOfBools(mask, facts));
  auto isShown = [&](double number, bool isBool) { return Meeting(graph, mask, {number, isBool}, facts).isShown(); };
  constexpr double kFar = -std::numeric_limits<double>::infinity();
  const DType number = dtype == DType::Undefined ? DType::Int64 : dtype;
  const bool mayBeAdded = !areBools && (dtype == DType::Undefined || dtype == DType::Float32);
  if (mayBeAdded && isShown(0, false) == true && isShown(kFar, false) == false)
    return MaskUse{Kind::Added, dtype == DType::Undefined ? DType::Float32 : dtype};
  for (const Kind kind : {Kind::Shown, Kind::Hidden})
    if (isShown(kind == Kind::Shown, areBools) == true && isShown(kind != Kind::Shown, areBools) == false)
      return MaskUse{kind, areBools ? DType::Bool : number};
  return std::nullopt;
}

int64_t dimsGivenToMask(const Value* mask) {
  int64_t most = 0;
  for (const Use& u : mask->uses()) {
    const Node* n = u.user;
    auto isOther = [&](const Use& in) {
      const Value* v = in.value;
      return v != mask && v->type()->isTensor() && v->node() && v->node()->kind() != sym::Constant;
    };
    if (u.index() != 0 || n->hasBlocks() || n->outputCount() != 1 || !n->output()->type()->isTensor()) continue;
    if (std::ranges::any_of(n->inputs(), isOther)) continue;
    most = std::max(most, (n->kind() == aten::unsqueeze ? 1 : 0) + dimsGivenToMask(n->output()));
  }
  return most;
}

}  // namespace tscompile
