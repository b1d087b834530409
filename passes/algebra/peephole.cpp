// Small rewrites of one node each that leave every bit as it was: operators that do nothing, questions whose answer the
// types give, containers that are taken apart again, sums of known integers.
#include "passes/lowering/passes.h"
#include "passes/rewrite/edits.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace tscompile {
namespace {

using Values = std::vector<Value*>;  // one for each output; none: no change

class Peephole {
 public:
  Peephole(Graph& graph, RewriteContext& context) : graph_(graph), context_(context), facts_(context.facts) {}

  // One walk in text order.
  bool run() {
    std::vector<Node*> nodes;
    forEachNode(graph_, [&](Node* n) { nodes.push_back(n); });
    std::vector<Node*> gone;
    for (Node* n : nodes) {
      auto rule = rules().find(n->kind());
      if (rule == rules().end() || n->inputCount() < rule->second.inputs || !isUsed(n)) continue;
      Values by = (this->*rule->second.apply)(n);
      if (by.empty()) continue;
      for (size_t i = 0; i < by.size(); ++i) {
        if (!by[i] || !n->output(i)->hasUses()) continue;
        replaceValue(n->output(i), by[i]);
        changed_ = true;
      }
      if (!n->hasBlocks() && !isUsed(n)) gone.push_back(n);
    }
    for (size_t i = gone.size(); i-- > 0;) gone[i]->destroy();
    return changed_;
  }

 private:
  struct Rule {
    Values (Peephole::*apply)(Node*);
    size_t inputs = 1;  // at least; nodes of overloads that nobody knows may have any number
  };
  static bool isUsed(const Node* n) {
    for (const Value* v : n->outputs())
      if (v->hasUses()) return true;
    return false;
  }

  static const std::unordered_map<Symbol, Rule>& rules() {
    static const auto* const kRules = new std::unordered_map<Symbol, Rule>{
        {Symbol::of("aten::t"), {&Peephole::twiceTransposed}},
        {Symbol::of("aten::expand"), {&Peephole::expand}},
        {Symbol::of("aten::expand_as"), {&Peephole::expandAs, 2}},
        {Symbol::of("aten::type_as"), {&Peephole::typeAs, 2}},
        {Symbol::of("aten::add"), {&Peephole::add, 2}},
        {Symbol::of("aten::sub"), {&Peephole::subtract, 2}},
        {Symbol::of("aten::mul"), {&Peephole::multiply, 2}},
        {Symbol::of("aten::div"), {&Peephole::divide, 2}},
        {Symbol::of("aten::floordiv"), {&Peephole::floorDivide, 2}},
        {Symbol::of("aten::dim"), {&Peephole::dim}},
        {Symbol::of("aten::size"), {&Peephole::size}},
        {Symbol::of("aten::numel"), {&Peephole::numel}},
        {Symbol::of("prim::dtype"), {&Peephole::dtype}},
        {Symbol::of("prim::device"), {&Peephole::device}},
        {Symbol::of("prim::is_cuda"), {&Peephole::never}},
        {Symbol::of("aten::is_grad_enabled"), {&Peephole::gradEnabled, 0}},
        {Symbol::of("aten::is_autocast_enabled"), {&Peephole::noAutocast, 0}},
        {Symbol::of("prim::is_nested"), {&Peephole::never}},
        {Symbol::of("prim::is_sparse"), {&Peephole::never}},
        {Symbol::of("prim::is_mkldnn"), {&Peephole::never}},
        {Symbol::of("prim::is_quantized"), {&Peephole::never}},
        {Symbol::of("prim::requires_grad"), {&Peephole::never}},
        {Symbol::of("aten::is_floating_point"), {&Peephole::isFloatingPoint}},
        {Symbol::of("aten::is_complex"), {&Peephole::isComplex}},
        {Symbol::of("aten::Int"), {&Peephole::numberOfTensor}},
        {Symbol::of("aten::Float"), {&Peephole::numberOfTensor}},
        {Symbol::of("aten::Bool"), {&Peephole::numberOfTensor}},
        {Symbol::of("aten::IntImplicit"), {&Peephole::numberOfTensor}},
        {Symbol::of("aten::FloatImplicit"), {&Peephole::numberOfTensor}},
        {sym::If, {&Peephole::conditionItself}},
        {Symbol::of("aten::__is__"), {&Peephole::isNone, 2}},
        {Symbol::of("aten::__isnot__"), {&Peephole::isNone, 2}},
        {Symbol::of("aten::_unwrap_optional"), {&Peephole::unwrap}},
        {Symbol::of("aten::len"), {&Peephole::length}},
        {Symbol::of("aten::__getitem__"), {&Peephole::item, 2}},
        {sym::ListUnpack, {&Peephole::unpackList}},
        {Symbol::of("aten::slice"), {&Peephole::sliceOfList}},
        {sym::TupleUnpack, {&Peephole::unpackTuple}},
        {sym::TupleIndex, {&Peephole::tupleItem, 2}},
        {sym::TupleSlice, {&Peephole::tupleSlice}},
    };
    return *kRules;
  }

  // ---- what rules ask ----

  static const Node* madeBy(const Value* v, Symbol kind) {
    return v->node() && v->node()->kind() == kind ? v->node() : nullptr;
  }
  static bool isInt(const Value* v) { return v->type()->is(TypeKind::Int); }
  Values constant(Node* n, const IValue& v) { return {context_.before(n).constant(v, n->output()->type())}; }

  // The first input for the output, a new tensor with the same elements.
  Values inputForCopy(Node* n) {
    Value* x = n->input(0);
    if (facts_.isWritten(x) || facts_.isWritten(n->output()) || !facts_.mayReplace(n->output(), x)) return {};
    facts_.replaced(n->output(), x);
    return {x};
  }
  // For views of the whole: memory stays as shared as it was, unless somebody gives one of them another shape.
  Values inputForView(Node* n, Value* x) {
    if (facts_.isWritten(x) || facts_.isWritten(n->output())) return {};
    return {x};
  }
  bool keepsDType(const Node* n, DTypeSet set) {
    DType x = facts_.dtype(n->input(0));
    return x != DType::Undefined && set.contains(x) && facts_.dtype(n->output()) == x;
  }
  bool isOne(const Value* v) { return !v->type()->isTensor() && facts_.number(v) == 1.0; }
  bool isZero(const Value* v) { return facts_.integer(v) == 0; }
  // A number that is added: -0.0 leaves every float as it is, 0 every integer; 0.0 makes 0.0 of -0.0.
  bool isNeutral(const Value* v, bool negated) {
    const IValue* c = GraphFacts::constant(v);
    if (!c || !(c->isInt() || c->isFloat()) || c->toDouble() != 0) return false;
    bool minus = c->isFloat() && std::signbit(c->toFloat());
    return minus != negated;
  }

  // ---- tensors ----

  Values twiceTransposed(Node* n) {
    const Node* inner = madeBy(n->input(0), n->kind());
    if (!inner || n->inputCount() != 1 || inner->inputCount() != 1 || !n->input(0)->type()->isTensor()) return {};
    return inputForView(n, inner->input(0));
  }
  Values expand(Node* n) {
    if (!n->input(0)->type()->isTensor()) return {};
    return sameKnownSizes(n, n->output());
  }
  Values expandAs(Node* n) { return sameKnownSizes(n, n->input(1)); }
  Values sameKnownSizes(Node* n, Value* like) {
    std::optional<Dims> from = facts_.sizes(n->input(0)), to = facts_.sizes(like);
    if (!from || !to || *from != *to) return {};
    return inputForView(n, n->input(0));
  }
  // Gives the tensor itself if nothing is to be done.
  Values typeAs(Node* n) {
    const TensorFacts &x = facts_.tensor(n->input(0)), &like = facts_.tensor(n->input(1));
    if (n->input(0) != n->input(1)) {
      if (x.dtype == DType::Undefined || x.dtype != like.dtype) return {};
      if (x.hasDevice && like.hasDevice && x.device != like.device) return {};
    }
    return {n->input(0)};
  }

  Values add(Node* n) {
    if (n->inputCount() == 2) return addNumbersOrLists(n);
    if (n->inputCount() != 3 || !n->input(0)->type()->isTensor() || n->input(1)->type()->isTensor()) return {};
    if (facts_.number(n->input(2)) != 1.0) return {};
    bool integers = keepsDType(n, kIntegerTypes) && isZero(n->input(1));
    bool floats = keepsDType(n, kFloatingTypes) && isNeutral(n->input(1), false);
    return integers || floats ? inputForCopy(n) : Values{};
  }
  Values subtract(Node* n) {
    if (n->inputCount() == 2) return subtractNumbers(n);
    if (n->inputCount() != 3 || !n->input(0)->type()->isTensor() || n->input(1)->type()->isTensor()) return {};
    if (facts_.number(n->input(2)) != 1.0) return {};
    bool integers = keepsDType(n, kIntegerTypes) && isZero(n->input(1));
    bool floats = keepsDType(n, kFloatingTypes) && isNeutral(n->input(1), true);
    return integers || floats ? inputForCopy(n) : Values{};
  }
  Values multiply(Node* n) {
    if (n->inputCount() != 2) return {};
    if (isInt(n->input(0)) && isInt(n->input(1))) {
      if (facts_.integer(n->input(1)) == 1) return {n->input(0)};
      if (facts_.integer(n->input(0)) == 1) return {n->input(1)};
      return {};
    }
    if (!n->input(0)->type()->isTensor() || !isOne(n->input(1)) || !keepsDType(n, kRealAndBool)) return {};
    return inputForCopy(n);
  }
  Values divide(Node* n) {
    if (n->inputCount() != 2 || !n->input(0)->type()->isTensor() || !isOne(n->input(1))) return {};
    return keepsDType(n, kFloatingTypes) ? inputForCopy(n) : Values{};
  }

  // ---- questions to tensors ----

  Values dim(Node* n) {
    std::optional<size_t> rank = facts_.rank(n->input(0));
    return rank ? constant(n, static_cast<int64_t>(*rank)) : Values{};
  }
  // The tensor's size in a dimension, if both are known.
  std::optional<int64_t> sizeAt(const Value* tensor, const Value* dimension) {
    const TensorFacts& t = facts_.tensor(tensor);
    std::optional<int64_t> d = facts_.integer(dimension);
    if (!t.hasRank || !d) return std::nullopt;
    if (*d < 0) *d += static_cast<int64_t>(t.sizes.size());
    if (*d < 0 || *d >= static_cast<int64_t>(t.sizes.size())) return std::nullopt;
    int64_t s = t.sizes[static_cast<size_t>(*d)];
    return isKnownSize(s) ? std::optional(s) : std::nullopt;
  }
  Values size(Node* n) {
    if (!n->input(0)->type()->isTensor()) return {};
    if (n->inputCount() == 1) {
      std::optional<Dims> sizes = facts_.sizes(n->input(0));
      if (!sizes) return {};
      Builder b = context_.before(n);
      std::vector<Value*> items;
      for (int64_t s : *sizes) items.push_back(b.constant(s));
      return {b.list(items, types().integer)};
    }
    std::optional<int64_t> size = isInt(n->output()) ? sizeAt(n->input(0), n->input(1)) : std::nullopt;
    return size ? constant(n, *size) : Values{};
  }
  Values numel(Node* n) {
    std::optional<Dims> sizes = facts_.sizes(n->input(0));
    std::optional<int64_t> count = sizes ? knownNumel(*sizes) : std::nullopt;
    return count ? constant(n, *count) : Values{};
  }
  Values dtype(Node* n) {
    DType d = facts_.dtype(n->input(0));
    return d == DType::Undefined ? Values{} : constant(n, static_cast<int64_t>(d));
  }
  Values isFloatingPoint(Node* n) {
    DType d = facts_.dtype(n->input(0));
    return d == DType::Undefined ? Values{} : constant(n, kFloatingTypes.contains(d));
  }
  Values isComplex(Node* n) {
    DType d = facts_.dtype(n->input(0));
    return d == DType::Undefined ? Values{} : constant(n, kComplexTypes.contains(d));
  }
  // Everything runs on the CPU, whatever device the text was made on; a text that names another one keeps its
  // questions, for --device to answer.
  static bool namesOther(const Value* v) {
    return v->type()->isTensor() && v->type()->tensor().hasDevice && v->type()->tensor().device.kind != DeviceKind::CPU;
  }
  Values device(Node* n) { return namesOther(n->input(0)) ? Values{} : constant(n, Device{}); }
  // Properties that no tensor has there.
  Values never(Node* n) { return namesOther(n->input(0)) ? Values{} : constant(n, false); }

  // Runs start with gradients enabled, as PyTorch's do, though none are computed; nothing in the graph changes it.
  Values gradEnabled(Node* n) {
    static const Symbol kChangers[] = {Symbol::of("aten::set_grad_enabled"), sym::Enter, sym::CallMethod,
                                       sym::CallFunction, sym::fork};
    for (Symbol kind : kChangers)
      if (graph_.kinds().count(kind)) return {};
    return n->inputCount() == 0 ? constant(n, true) : Values{};
  }
  Values noAutocast(Node* n) { return constant(n, false); }

  // ---- numbers ----

  // Int(NumToTensor(i)) -> i
  Values numberOfTensor(Node* n) {
    const Node* made = n->inputCount() == 1 ? madeBy(n->input(0), sym::NumToTensor) : nullptr;
    if (!made || made->inputCount() != 1 || made->input(0)->type() != n->output()->type()) return {};
    return {made->input(0)};
  }

  Values addNumbersOrLists(Node* n) {
    if (const Node* a = unwritten(n->input(0)))
      if (const Node* b = unwritten(n->input(1))) {
        std::vector<Value*> items;
        for (const Node* list : {a, b})
          for (const Use& u : list->inputs()) items.push_back(u.value);
        return listOf(n, items);
      }
    if (!isInt(n->input(0)) || !isInt(n->input(1))) return {};
    if (isZero(n->input(1))) return {n->input(0)};
    if (isZero(n->input(0))) return {n->input(1)};
    return mergedSum(n, false);
  }
  Values subtractNumbers(Node* n) {
    if (!isInt(n->input(0)) || !isInt(n->input(1))) return {};
    if (isZero(n->input(1))) return {n->input(0)};
    return mergedSum(n, true);
  }
  Values floorDivide(Node* n) {
    bool ints = n->inputCount() == 2 && isInt(n->input(0)) && isInt(n->input(1));
    return ints && facts_.integer(n->input(1)) == 1 ? Values{n->input(0)} : Values{};
  }
  // a + c1 + c2 -> a + c, likewise with differences; what runs over wraps as the operators do.
  Values mergedSum(Node* n, bool minus) {
    static const Symbol kAdd = Symbol::of("aten::add"), kSub = Symbol::of("aten::sub");
    std::optional<int64_t> outer = facts_.integer(n->input(1));
    const Node* inner = n->input(0)->node();
    if (!outer || !inner || inner->inputCount() != 2 || (inner->kind() != kAdd && inner->kind() != kSub)) return {};
    if (!isInt(inner->input(0)) || facts_.integer(inner->input(0))) return {};
    std::optional<int64_t> first = isInt(inner->input(1)) ? facts_.integer(inner->input(1)) : std::nullopt;
    if (!first) return {};
    auto signedBy = [](int64_t v, bool negative) {
      return negative ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
    };
    uint64_t sum = signedBy(*first, inner->kind() == kSub) + signedBy(*outer, minus);
    Builder b = context_.before(n);
    return {b.call(kAdd, {inner->input(0), b.constant(static_cast<int64_t>(sum))}, types().integer)};
  }

  // ---- conditions ----

  // If(c) -> (true) else (false): c itself.
  Values conditionItself(Node* n) {
    Values by(n->outputCount());
    bool any = false;
    for (size_t i = 0; i < n->outputCount(); ++i) {
      if (facts_.boolean(n->block(0)->result(i)) != true || facts_.boolean(n->block(1)->result(i)) != false) continue;
      by[i] = n->input(0);
      any = true;
    }
    return any ? by : Values{};
  }

  static bool maybeNone(TypePtr t) {
    switch (t->kind()) {
      case TypeKind::None:
      case TypeKind::Optional:
      case TypeKind::Any:
      case TypeKind::Union:
      case TypeKind::Variable:
        return true;
      default:
        return false;
    }
  }
  Values isNone(Node* n) {
    TypePtr none = types().none;
    Value *x = n->input(0), *y = n->input(1);
    if (y->type() != none) std::swap(x, y);
    if (y->type() != none) return {};
    bool is = x->type() == none;
    // Old texts type everything as a tensor, None included.
    if (!is && (maybeNone(x->type()) || GraphFacts::isNone(x) || x->type()->tensor().undefinedTensor)) return {};
    return constant(n, is == (n->kind().name() == "__is__"));
  }
  Values unwrap(Node* n) {
    if (maybeNone(n->input(0)->type()) || !isSubtype(n->input(0)->type(), withoutRefinement(n->output()->type())))
      return {};
    return {n->input(0)};
  }

  // ---- containers ----

  // The node that makes a list which nobody changes.
  const Node* unwritten(const Value* v) {
    const Node* made = madeBy(v, sym::ListConstruct);
    if (!made || !v->type()->is(TypeKind::List)) return nullptr;
    return staysAsMade(v) ? made : nullptr;
  }
  bool staysAsMade(const Value* list) {
    if (!facts_.graphHasWrites()) return true;
    return facts_.aliases().knows(list) && !facts_.aliases().isWrittenItself(list);
  }
  static bool fits(const Value* v, const Value* output) {
    return isSubtype(v->type(), withoutRefinement(output->type()));
  }
  Values listOf(Node* n, std::span<Value* const> items) {
    if (items.size() > kMostItems) return {};
    return {context_.before(n).list(items, n->output()->type()->element())};
  }

  Values length(Node* n) {
    if (const Node* list = unwritten(n->input(0))) return constant(n, static_cast<int64_t>(list->inputCount()));
    const Node* unbound = madeBy(n->input(0), Symbol::of("aten::unbind"));
    if (!unbound || unbound->inputCount() != 2 || !staysAsMade(n->input(0))) return {};
    std::optional<int64_t> size = sizeAt(unbound->input(0), unbound->input(1));
    return size ? constant(n, *size) : Values{};
  }
  Values item(Node* n) {
    const Node* list = n->inputCount() == 2 ? unwritten(n->input(0)) : nullptr;
    return list ? itemAt(n, list) : Values{};
  }
  Values itemAt(Node* n, const Node* made) {
    std::optional<int64_t> i = facts_.integer(n->input(1));
    auto count = static_cast<int64_t>(made->inputCount());
    if (i && *i < 0) *i += count;
    if (!i || *i < 0 || *i >= count) return {};
    Value* v = made->input(static_cast<size_t>(*i));
    return fits(v, n->output()) ? Values{v} : Values{};
  }
  Values unpackList(Node* n) {
    const Node* list = unwritten(n->input(0));
    return list ? unpack(n, list) : Values{};
  }
  static Values unpack(Node* n, const Node* made) {
    if (made->inputCount() != n->outputCount()) return {};
    Values by;
    for (size_t i = 0; i < n->outputCount(); ++i) {
      if (!fits(made->input(i), n->output(i))) return {};
      by.push_back(made->input(i));
    }
    return by;
  }
  Values sliceOfList(Node* n) {
    const Node* list = n->inputCount() == 4 ? unwritten(n->input(0)) : nullptr;
    if (!n->output()->type()->is(TypeKind::List)) return {};
    std::optional<int64_t> step = list ? facts_.integer(n->input(3)) : std::nullopt;
    if (!step || *step <= 0) return {};
    auto count = static_cast<int64_t>(list->inputCount());
    int64_t bounds[2] = {0, count};
    for (size_t k = 0; k < 2; ++k) {
      if (GraphFacts::isNone(n->input(k + 1))) continue;
      std::optional<int64_t> at = facts_.integer(n->input(k + 1));
      if (!at) return {};
      bounds[k] = std::clamp<int64_t>(*at < 0 ? std::max<int64_t>(*at, -count) + count : *at, 0, count);
    }
    std::vector<Value*> items;
    for (int64_t i = bounds[0]; i < bounds[1]; i += std::min(*step, count))
      items.push_back(list->input(static_cast<size_t>(i)));
    return listOf(n, items);
  }

  Values unpackTuple(Node* n) {
    const Node* made = madeBy(n->input(0), sym::TupleConstruct);
    return made ? unpack(n, made) : Values{};
  }
  Values tupleItem(Node* n) {
    const Node* made = madeBy(n->input(0), sym::TupleConstruct);
    return made && n->inputCount() == 2 ? itemAt(n, made) : Values{};
  }
  Values tupleSlice(Node* n) {
    static const Symbol kBegin = Symbol::of("beg"), kEnd = Symbol::of("end");
    const Node* made = madeBy(n->input(0), sym::TupleConstruct);
    const IValue *begin = n->attributeValue(kBegin), *end = n->attributeValue(kEnd);
    if (!made || !begin || !end || !begin->isInt() || !end->isInt()) return {};
    auto count = static_cast<int64_t>(made->inputCount());
    if (begin->toInt() < 0 || end->toInt() > count || begin->toInt() > end->toInt()) return {};
    if (static_cast<size_t>(end->toInt() - begin->toInt()) > kMostItems) return {};
    std::vector<Value*> items;
    for (int64_t i = begin->toInt(); i < end->toInt(); ++i) items.push_back(made->input(static_cast<size_t>(i)));
    Value* v = context_.before(n).tuple(items);
    if (v->type() != n->output()->type()) v->setType(n->output()->type());
    return {v};
  }

  Graph& graph_;
  RewriteContext& context_;
  GraphFacts& facts_;
  bool changed_ = false;
};

}  // namespace

bool peephole(Graph& graph, RewriteContext& context) {
  bool changed = false;
  while (Peephole(graph, context).run()) {
    changed = true;
    context.facts.refresh();
  }
  return changed;
}

}  // namespace tscompile
