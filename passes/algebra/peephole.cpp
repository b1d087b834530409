// Small rewrites of one node each that leave every bit as it was: operators that do nothing, questions whose answer the
// types give, containers that are taken apart again, sums of known integers.
#include "ir/analysis/instance_of.h"
#include "ir/operators/view_twins.h"
#include "ir/values/aten.h"
#include "ir/values/rounded_number.h"
#include "passes/rewrite/database.h"
#include "passes/rewrite/edits.h"
#include "passes/rewrite/operator_names.h"

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

using Values = std::vector<Value*>;

// What the rules find; each gives one value for each output of the node, or none at all: no change.
class Peephole {
 public:
  explicit Peephole(RewriteContext& context) : context_(context), facts_(context.facts) {}

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

  Values addZero(Node* n) {
    if (n->inputCount() != 3 || !n->input(0)->type()->isTensor() || n->input(1)->type()->isTensor()) return {};
    if (facts_.number(n->input(2)) != 1.0) return {};
    bool integers = keepsDType(n, kIntegerTypes) && isZero(n->input(1));
    bool floats = keepsDType(n, kFloatingTypes) && isNeutral(n->input(1), false);
    return integers || floats ? inputForCopy(n) : Values{};
  }
  Values subtractZero(Node* n) {
    if (n->inputCount() != 3 || !n->input(0)->type()->isTensor() || n->input(1)->type()->isTensor()) return {};
    if (facts_.number(n->input(2)) != 1.0) return {};
    bool integers = keepsDType(n, kIntegerTypes) && isZero(n->input(1));
    bool floats = keepsDType(n, kFloatingTypes) && isNeutral(n->input(1), true);
    return integers || floats ? inputForCopy(n) : Values{};
  }
  Values multiplyByOne(Node* n) {
    if (n->inputCount() != 2 || !n->input(0)->type()->isTensor() || !isOne(n->input(1)) || !keepsDType(n, kRealAndBool))
      return {};
    return inputForCopy(n);
  }
  Values divideByOne(Node* n) {
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
  Values roundedFactor(Node* n) {
    DType d = facts_.dtype(n->input(1));
    if (d == DType::Undefined) return {};
    if (!hasSixteenBits(d)) return {n->input(0)};
    const IValue* factor = GraphFacts::constant(n->input(0));
    return factor && factor->isFloat() ? constant(n, roundedTo(d, factor->toDouble())) : Values{};
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

  Values layout(Node* n) { return n->input(0)->type()->isTensor() ? constant(n, int64_t{0}) : Values{}; }

  // Runs start with gradients enabled, as PyTorch's do, though none are computed; nothing in the graph changes it.
  Values gradEnabled(Node* n) {
    static const Symbol kChangers[] = {aten::set_grad_enabled, sym::Enter, sym::CallMethod, sym::CallFunction,
                                       sym::fork};
    for (Symbol kind : kChangers)
      if (context_.graph.kinds().count(kind)) return {};
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

  // i + 0, i - 0, i * 1, i // 1 and, where that is the same, with the operands exchanged.
  Values neutralInteger(Node* n) {
    if (n->inputCount() != 2 || !isInt(n->input(0)) || !isInt(n->input(1))) return {};
    bool isProduct = n->kind() == aten::mul, commutes = isProduct || n->kind() == aten::add;
    int64_t neutral = isProduct || n->kind() == aten::floordiv ? 1 : 0;
    if (facts_.integer(n->input(1)) == neutral) return {n->input(0)};
    if (commutes && facts_.integer(n->input(0)) == neutral) return {n->input(1)};
    return {};
  }
  Values joinLists(Node* n) {
    const Node *a = n->inputCount() == 2 ? unwritten(n->input(0)) : nullptr, *b = a ? unwritten(n->input(1)) : nullptr;
    if (!b) return {};
    std::vector<Value*> items;
    for (const Node* list : {a, b})
      for (const Use& u : list->inputs()) items.push_back(u.value);
    return listOf(n, items);
  }
  // a + c1 + c2 -> a + c, likewise with differences; what runs over wraps as the operators do.
  Values mergeSums(Node* n) {
    if (n->inputCount() != 2 || !isInt(n->input(0)) || !isInt(n->input(1))) return {};
    bool minus = n->kind() == aten::sub;
    std::optional<int64_t> outer = facts_.integer(n->input(1));
    const Node* inner = n->input(0)->node();
    if (!outer || !inner || inner->inputCount() != 2 || (inner->kind() != aten::add && inner->kind() != aten::sub))
      return {};
    if (!isInt(inner->input(0)) || facts_.integer(inner->input(0))) return {};
    std::optional<int64_t> first = isInt(inner->input(1)) ? facts_.integer(inner->input(1)) : std::nullopt;
    if (!first) return {};
    auto signedBy = [](int64_t v, bool negative) {
      return negative ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
    };
    uint64_t sum = signedBy(*first, inner->kind() == aten::sub) + signedBy(*outer, minus);
    Builder b = context_.before(n);
    return {b.call(aten::add, {inner->input(0), b.constant(static_cast<int64_t>(sum))}, types().integer)};
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
    if (x == y) return constant(n, n->kind().name() == "__is__");
    if (y->type() != none) std::swap(x, y);
    if (y->type() != none) {
      // Files keep what tensors hold, not which attributes are one object.
      const IValue *a = GraphFacts::constant(x), *b = GraphFacts::constant(y);
      if (a && b && a->isTensor() && b->isTensor()) return constant(n, a->isSame(*b) == (n->kind().name() == "__is__"));
      if (!areTwoTensors(x, y)) return {};
      return constant(n, n->kind().name() != "__is__");
    }
    bool is = x->type() == none || (x->type()->is(TypeKind::Optional) && GraphFacts::isNone(x));
    // Old texts type everything as a tensor, None included.
    if (!is && (maybeNone(x->type()) || GraphFacts::isNone(x) || x->type()->tensor().undefinedTensor)) return {};
    return constant(n, is == (n->kind().name() == "__is__"));
  }
  // Calls that are written out give a type to what the function took as one of several.
  Values isInstance(Node* n) {
    const Attribute* a = n->attribute(sym::types);
    const auto* wanted = a ? std::get_if<std::vector<TypePtr>>(&a->payload) : nullptr;
    const Value* x = n->input(0);
    const bool mayBeNone = x->type()->isTensor() && (GraphFacts::isNone(x) || x->type()->tensor().undefinedTensor);
    if (!wanted || mayBeNone) return {};
    // Which classes fit an interface, no text tells.
    auto isOpen = [](TypePtr t) { return t->is(TypeKind::Interface) || t->is(TypeKind::Variable); };
    if (isOpen(x->type()) || std::any_of(wanted->begin(), wanted->end(), isOpen)) return {};
    const std::optional<bool> known = isInstanceOf(x->type(), *wanted);
    return known ? constant(n, *known) : Values{};
  }
  // Tensors of which neither is made of the other's memory. Constants may stand twice for one.
  bool areTwoTensors(const Value* x, const Value* y) {
    auto isMade = [&](const Value* v) {
      return v->type()->isTensor() && v->node() && v->node()->kind() != sym::Constant && facts_.aliases().knows(v);
    };
    return isMade(x) && isMade(y) && !facts_.aliases().mayShareMemory(x, y);
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
  // What a dict holds that nobody changes, if its keys are numbers or texts that are known, no two of them the same.
  struct Entry {
    const IValue* key;
    Value* value;
  };
  std::optional<std::vector<Entry>> unwrittenEntries(const Value* v) {
    const Node* made = madeBy(v, Symbol::of("prim::DictConstruct"));
    if (!made || !v->type()->is(TypeKind::Dict) || made->inputCount() > kMostItems || !staysAsMade(v)) return {};
    std::vector<Entry> entries;
    for (size_t i = 0; i + 1 < made->inputCount(); i += 2) {
      const IValue* key = facts_.constant(made->input(i));
      if (!key || (!key->isInt() && !key->isString())) return {};
      for (const Entry& e : entries)
        if (sameBits(*e.key, *key)) return {};
      entries.push_back({key, made->input(i + 1)});
    }
    return entries;
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
    if (std::optional<std::vector<Entry>> entries = unwrittenEntries(n->input(0)))
      return constant(n, static_cast<int64_t>(entries->size()));
    const Node* unbound = madeBy(n->input(0), aten::unbind);
    if (!unbound || unbound->inputCount() != 2 || !staysAsMade(n->input(0))) return {};
    std::optional<int64_t> size = sizeAt(unbound->input(0), unbound->input(1));
    return size ? constant(n, *size) : Values{};
  }
  Values item(Node* n) {
    const Node* list = n->inputCount() == 2 ? unwritten(n->input(0)) : nullptr;
    if (list) return itemAt(n, list);
    const IValue* key = n->inputCount() == 2 ? facts_.constant(n->input(1)) : nullptr;
    std::optional<std::vector<Entry>> entries = key ? unwrittenEntries(n->input(0)) : std::nullopt;
    if (!entries) return {};
    for (const Entry& e : *entries)
      if (sameBits(*e.key, *key)) return fits(e.value, n->output()) ? Values{e.value} : Values{};
    return {};
  }
  Values hasKey(Node* n) {
    const IValue* key = n->inputCount() == 2 ? facts_.constant(n->input(1)) : nullptr;
    std::optional<std::vector<Entry>> entries = key ? unwrittenEntries(n->input(0)) : std::nullopt;
    if (!entries) return {};
    return constant(n, std::ranges::any_of(*entries, [&](const Entry& e) { return sameBits(*e.key, *key); }));
  }
  // Keys, values or both, in a list of its own.
  Values partsOf(Node* n) {
    const std::string_view what = n->kind().name();
    std::optional<std::vector<Entry>> entries = n->inputCount() == 1 ? unwrittenEntries(n->input(0)) : std::nullopt;
    if (!entries) return {};
    const Node* made = n->input(0)->node();
    Builder b = context_.before(n);
    std::vector<Value*> items;
    for (size_t i = 0; i + 1 < made->inputCount(); i += 2) {
      Value *key = made->input(i), *value = made->input(i + 1);
      Value* both[] = {key, value};
      items.push_back(what == "items" ? b.tuple(both) : what == "keys" ? key : value);
      if (!isSubtype(items.back()->type(), n->output()->type()->element())) return {};
    }
    return {b.list(items, n->output()->type()->element())};
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
    if (!step || *step == 0) return {};
    const auto count = static_cast<int64_t>(list->inputCount()), low = *step < 0 ? int64_t{-1} : 0;
    int64_t bounds[2] = {*step < 0 ? count - 1 : 0, *step < 0 ? -1 : count};
    for (size_t k = 0; k < 2; ++k) {
      if (GraphFacts::isNone(n->input(k + 1))) continue;
      std::optional<int64_t> at = facts_.integer(n->input(k + 1));
      if (!at) return {};
      bounds[k] = std::clamp<int64_t>(*at < 0 ? std::max(*at, -count - 1) + count : *at, low, count + low);
    }
    const int64_t stride = std::clamp(*step, -count - 1, count + 1);
    std::vector<Value*> items;
    for (int64_t i = bounds[0]; stride < 0 ? i > bounds[1] : i < bounds[1]; i += stride)
      items.push_back(list->input(static_cast<size_t>(i)));
    return listOf(n, items);
  }

  // A dict of pairs, or of what another one holds.
  Values copyOfDict(Node* n) {
    if (n->inputCount() != 1 || !n->output()->type()->is(TypeKind::Dict)) return {};
    std::vector<Value*> parts;
    if (const Node* pairs = unwritten(n->input(0))) {
      for (const Use& u : pairs->inputs()) {
        const Node* pair = madeBy(u.value, sym::TupleConstruct);
        if (!pair || pair->inputCount() != 2 || parts.size() > kMostItems) return {};
        parts.insert(parts.end(), {pair->input(0), pair->input(1)});
      }
    } else if (unwrittenEntries(n->input(0))) {
      for (const Use& u : n->input(0)->node()->inputs()) parts.push_back(u.value);
    } else {
      return {};
    }
    Value* copy = context_.before(n).insert(sym::DictConstruct, parts)->output();
    copy->setType(n->output()->type());
    return {copy};
  }
  // Items of a list so many times in a list of its own.
  Values repeatOfList(Node* n) {
    const bool isFactorFirst = n->inputCount() == 2 && n->input(1)->type()->is(TypeKind::List);
    const Node* list = n->output()->type()->is(TypeKind::List) ? unwritten(n->input(isFactorFirst)) : nullptr;
    const std::optional<int64_t> times = n->inputCount() == 1 ? 1 : facts_.integer(n->input(!isFactorFirst));
    if (!list || !times || *times > static_cast<int64_t>(kMostItems)) return {};
    std::vector<Value*> items;
    for (int64_t i = 0; i < *times && items.size() <= kMostItems; ++i)
      for (const Use& u : list->inputs()) items.push_back(u.value);
    return listOf(n, items);
  }

  Values unpackTuple(Node* n) {
    const Node* made = madeBy(n->input(0), sym::TupleConstruct);
    return made ? unpack(n, made) : Values{};
  }
  // What was made of a tensor by putting a part into it takes its place.
  Values copyOfScatter(Node* n) {
    if (n->inputCount() != 3) return {};
    const Node* made = n->input(1)->node();
    if (!made || !isScatter(made->kind(), context_.registry) || made->input(0) != n->input(0)) return {};
    return {n->input(1)};
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

 private:
  RewriteContext& context_;
  GraphFacts& facts_;
};

struct Rule {
  const char* name;
  std::vector<Symbol> kinds;
  Values (Peephole::*apply)(Node*);
  const char* purpose;
  size_t inputs = 1;  // at least; nodes of overloads that nobody knows may have any number
};

const std::vector<Rule>& rules() {
  using P = Peephole;
  static const auto* const kRules = new std::vector<Rule>{
      {"double_transpose", {aten::t}, &P::twiceTransposed, "a matrix transposed twice"},
      {"useless_expand", {aten::expand}, &P::expand, "an expansion to the sizes that are there"},
      {"useless_expand_as", {aten::expand_as}, &P::expandAs, "the same for expand_as", 2},
      {"useless_type_as", {aten::type_as}, &P::typeAs, "a conversion to the dtype that is there", 2},
      {"add_nothing", {aten::add}, &P::addZero, "the zero that leaves every element as it is", 2},
      {"subtract_nothing", {aten::sub}, &P::subtractZero, "the same for differences", 2},
      {"multiply_by_one", {aten::mul}, &P::multiplyByOne, "a factor of 1", 2},
      {"divide_by_one", {aten::div}, &P::divideByOne, "a divisor of 1", 2},
      {"neutral_integer",
       {aten::add, aten::sub, aten::mul, aten::floordiv},
       &P::neutralInteger,
       "integers plus 0 or times 1",
       2},
      {"merge_integer_sums", {aten::add, aten::sub}, &P::mergeSums, "i + 1 + 2 is i + 3", 2},
      {"join_lists", {aten::add}, &P::joinLists, "a sum of lists that were just made", 2},
      {"known_rank", {aten::dim}, &P::dim, "ranks that are known"},
      {"known_size", {aten::size}, &P::size, "sizes that are known"},
      {"known_numel", {aten::numel}, &P::numel, "counts of elements that are known"},
      {"known_dtype", {Symbol::of("prim::dtype")}, &P::dtype, "dtypes that are known"},
      {"known_factor",
       {Symbol::of("tscompile::rounded_factor")},
       &P::roundedFactor,
       "factors of which it is known how they are rounded"},
      {"known_device", {Symbol::of("prim::device")}, &P::device, "everything runs on the CPU"},
      {"known_layout", {Symbol::of("prim::layout")}, &P::layout, "tensors are strided"},
      {"never_so",
       {Symbol::of("prim::is_cuda"), Symbol::of("prim::is_nested"), Symbol::of("prim::is_sparse"),
        Symbol::of("prim::is_mkldnn"), Symbol::of("prim::requires_grad")},
       &P::never,
       "properties that no tensor has"},
      {"gradients_enabled", {aten::is_grad_enabled}, &P::gradEnabled, "runs start with gradients enabled", 0},
      {"no_autocast", {aten::is_autocast_enabled}, &P::noAutocast, "nothing is cast by itself", 0},
      {"known_floating_point", {aten::is_floating_point}, &P::isFloatingPoint, "questions that dtypes answer"},
      {"known_complex", {aten::is_complex}, &P::isComplex, "the same for complex numbers"},
      {"number_of_tensor",
       {aten::Int, aten::Float, aten::Bool, aten::IntImplicit, aten::FloatImplicit},
       &P::numberOfTensor,
       "a number that was made a tensor is a number again"},
      {"condition_itself", {sym::If}, &P::conditionItself, "True if a condition holds, else False"},
      {"known_none",
       {aten::is_, aten::isnot_},
       &P::isNone,
       "whether a value is None, if its type tells, itself, or another tensor",
       2},
      {"known_instance", {sym::isinstance}, &P::isInstance, "whether a value is of a type, if its own tells"},
      {"useless_unwrap", {aten::_unwrap_optional}, &P::unwrap, "what cannot be None needs no check"},
      {"known_length", {aten::len}, &P::length, "the length of a list or dict that was just made"},
      {"known_key", {Symbol::of("aten::__contains__")}, &P::hasKey, "whether a dict that was just made has a key"},
      {"parts_of_dict",
       {Symbol::of("aten::keys"), Symbol::of("aten::values"), Symbol::of("aten::items")},
       &P::partsOf,
       "keys and values of a dict that was just made"},
      {"item_of_list", {aten::getitem_}, &P::item, "an item of a list or dict that was just made", 2},
      {"unpack_list", {sym::ListUnpack}, &P::unpackList, "all items of a list that was just made"},
      {"slice_of_list", {aten::slice}, &P::sliceOfList, "a part of a list that was just made"},
      {"copy_of_dict", {named("dict"), aten::copy}, &P::copyOfDict, "a dict of pairs or of a dict that were just made"},
      {"repeat_of_list",
       {aten::mul, named("list"), aten::copy},
       &P::repeatOfList,
       "a list that was just made, copied or so many times"},
      {"copy_of_scatter", {aten::copy}, &P::copyOfScatter, "a tensor that takes the place of what it was made from", 3},
      {"unpack_tuple", {sym::TupleUnpack}, &P::unpackTuple, "all items of a tuple"},
      {"item_of_tuple", {sym::TupleIndex}, &P::tupleItem, "an item of a tuple", 2},
      {"slice_of_tuple", {sym::TupleSlice}, &P::tupleSlice, "a part of a tuple"},
  };
  return *kRules;
}

bool isUsed(const Node* n) {
  return std::any_of(n->outputs().begin(), n->outputs().end(), [](const Value* v) { return v->hasUses(); });
}

// Values that take another one's place take its name as well, made by the rule or not.
Replacement applyRule(const Rule& rule, Node* n, RewriteContext& context) {
  if (n->inputCount() < rule.inputs || !isUsed(n)) return {};
  Values by = (Peephole(context).*rule.apply)(n);
  bool changed = false;
  for (size_t i = 0; i < by.size(); ++i) {
    if (!by[i] || !n->output(i)->hasUses()) continue;
    replaceValue(n->output(i), by[i]);
    changed = true;
  }
  if (!changed) return {};
  if (!n->hasBlocks() && !isUsed(n)) n->destroy();
  return Replacement::done();
}

}  // namespace

std::vector<NamedRewrite> peepholeRewrites() {
  std::vector<NamedRewrite> rewrites;
  for (const Rule& rule : rules()) {
    NodeRewrite r{.name = rule.name, .kinds = rule.kinds, .apply = nullptr};
    r.apply = [&rule](Node* n, RewriteContext& context) { return applyRule(rule, n, context); };
    rewrites.push_back({"peephole", std::move(r), rule.purpose, {"default", "canonicalize"}});
  }
  return rewrites;
}

}  // namespace tscompile
