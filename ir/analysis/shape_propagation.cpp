#include "ir/analysis/shape_propagation.h"

#include "ir/analysis/alias.h"
#include "ir/analysis/node_form.h"
#include "ir/analysis/size_arithmetic.h"
#include "ir/values/aten.h"
#include "ir/values/carried_types.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

namespace tscompile {

SymbolicValue symbolicTensor(DType dtype, DimSpan sizes) {
  TensorFacts f;
  f.dtype = dtype;
  f.hasRank = true;
  f.sizes = sizes;
  SymbolicValue v;
  v.type = tensorType(f);
  return v;
}

namespace {

// Symbols of one analysis mean nothing outside of it.
int64_t lasting(int64_t size) {
  return isKnownSize(size) || SizeExpression::ofSize(size).isNamed() ? size : kUnknownSize;
}

// As a text or by its bounds, where those are all that is known: "2*N", "1..8", "*".
std::string textOfSize(int64_t size) {
  SizeExpression e = SizeExpression::ofSize(size);
  if (e.isNamed()) return e.text();
  SizeRange range = e.range();
  if (e.isUnknown() || range.most == INT64_MAX) return "*";
  return std::to_string(range.least) + ".." + std::to_string(range.most);
}

// Shape functions write what stands for a size as the number that it is.
std::string withTextsOfSizes(std::string_view message) {
  constexpr int64_t kLastSymbol = -(int64_t{1} << 31), kFirstSymbol = -(int64_t{1} << 33);
  std::string out;
  while (!message.empty()) {
    int64_t number = 0;
    const char* end = message.data() + message.size();
    auto [after, error] = std::from_chars(message.data(), end, number);
    const bool isSize = error == std::errc() && number <= kLastSymbol && number >= kFirstSymbol;
    size_t length = error == std::errc() ? static_cast<size_t>(after - message.data()) : 1;
    out += isSize ? textOfSize(number) : std::string(message.substr(0, length));
    message.remove_prefix(length);
  }
  return out;
}

// Only dtype, rank and sizes: strides, gradient and device do not flow through operators.
TypePtr shapeOnly(TypePtr type) {
  if (!type->isTensor()) return withoutRefinement(type);
  const TensorFacts& t = type->tensor();
  TensorFacts f;
  f.dtype = t.dtype;
  f.hasRank = t.hasRank;
  for (int64_t size : t.sizes) f.sizes.push_back(lasting(size));
  return tensorType(f);
}

SymbolicValue symbolicSpec(const TensorSpec& s) {
  TensorFacts f;
  f.dtype = s.dtype;
  f.hasRank = s.hasRank;
  if (s.hasRank) f.sizes = s.sizes;
  SymbolicValue v;
  v.type = tensorType(f);
  return v;
}

std::optional<IValue> mergeConstants(const std::optional<IValue>& a, const std::optional<IValue>& b) {
  return a && b && valuesEqual(*a, *b) ? a : std::nullopt;
}

// What holds of either value.
SymbolicValue merge(const SymbolicValue& a, const SymbolicValue& b) {
  SymbolicValue m;
  TypePtr unified = unifyTypes(a.type, b.type);
  m.type = unified ? unified : types().any;
  m.constant = mergeConstants(a.constant, b.constant);
  if (a.integers && b.integers && a.integers->size() == b.integers->size()) {
    Dims both;
    for (size_t i = 0; i < a.integers->size(); ++i)
      both.push_back((*a.integers)[i] == (*b.integers)[i] ? (*a.integers)[i] : kUnknownInteger);
    m.integers = both;
  }
  if (a.hasItems && b.hasItems && a.items.size() == b.items.size()) {
    m.hasItems = true;
    for (size_t i = 0; i < a.items.size(); ++i) m.items.push_back(merge(a.items[i], b.items[i]));
  }
  return m;
}

bool same(const SymbolicValue& a, const SymbolicValue& b) {
  if (a.type != b.type || a.constant.has_value() != b.constant.has_value() || a.integers != b.integers ||
      a.hasItems != b.hasItems || a.items.size() != b.items.size())
    return false;
  if (a.constant && !valuesEqual(*a.constant, *b.constant)) return false;
  for (size_t i = 0; i < a.items.size(); ++i)
    if (!same(a.items[i], b.items[i])) return false;
  return true;
}

}  // namespace

SymbolicValue symbolicOf(const IValue& value) {
  SymbolicValue v;
  v.type = shapeOnly(dynamicType(value));
  if (value.isLiteral()) {
    v.type = types().tensor;
    if (value.toLiteral().data.defined()) return symbolicOf(IValue(value.toLiteral().data));
    return v;
  }
  v.constant = value;
  // Numbers that would be read as unknown ones are left out.
  if (value.isInt() && !isUnknownInteger(value.toInt())) v.integers = Dims{value.toInt()};
  if (value.isList()) {
    v.hasItems = true;
    bool integers = true;
    Dims dims;
    for (const IValue& item : value.toList().items) {
      integers &= item.isInt() && !isUnknownInteger(item.toInt());
      if (item.isInt()) dims.push_back(item.toInt());
      v.items.push_back(symbolicOf(item));
    }
    if (integers) v.integers = dims;
  }
  return v;
}

SymbolicValue symbolicOf(TypePtr type) {
  SymbolicValue v;
  v.type = shapeOnly(type);
  if (type->is(TypeKind::None)) v.constant = IValue();
  return v;
}

class ShapeWalker {
 public:
  ShapeWalker(ShapePropagation& out, const Graph& graph, const OpRegistry& registry, const ShapeOptions& options)
      : out_(out), graph_(graph), registry_(registry), options_(options) {}

  void run() {
    forgetChangedValues();
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      const Value* v = graph_.input(i);
      if (i < options_.inputs.size() && options_.inputs[i])
        set(v, *options_.inputs[i]);
      else
        set(v, symbolicOf(v->type()));
    }
    walk();
  }

  // ---- nodes without blocks ----

  void node(const Node* n) {
    if (structure(n)) return;
    const Operator* op = n->kind() == sym::PythonOp || n->subgraph() ? nullptr : registry_.resolve(*n);
    if (!op || !op->isImplemented() || !infer(n, *op))
      for (const Value* o : n->outputs()) set(o, symbolicOf(withoutRefinement(o->type())));
  }

 private:
  // A block that is being walked. Loops are walked again with wider assumptions until these hold.
  struct Open {
    const Node* node;
    size_t block = 0;
    int pass = 0;
    bool constantBranch = false;  // the condition of an If is known: only this block counts
    std::vector<SymbolicValue> merged;
  };

  // Facts do not flow along with time, so of what is changed where it stands nothing is known at all: tensors that take
  // results, lists and dicts that are written to. Of tensors that are given other sizes the dtype is.
  void forgetChangedValues() {
    std::vector<const Value*> changed, resized;
    forEachNode(graph_, [&](Node* n) {
      if (n->inputCount() == 0 || n->hasBlocks() || n->subgraph()) return;
      const Operator* op = registry_.resolve(*n);
      if (!op || !op->schema().isMutable()) return;
      const std::vector<Argument>& arguments = op->schema().arguments;
      for (size_t i = 0; i < n->inputCount() && i < arguments.size(); ++i) {
        if (!arguments[i].isWritten()) continue;
        bool takesResult = op->outCount() && i + op->outCount() >= arguments.size();
        bool container = !arguments[i].type->isTensor() && !arguments[i].type->isListOf(TypeKind::Tensor);
        const bool resizes = op->has(Trait::ChangesGeometry);
        if (takesResult || container || (resizes && op->has(Trait::TakesOverMemory)))
          changed.push_back(n->input(i));
        else if (resizes)
          resized.push_back(n->input(i));
      }
    });
    if (changed.empty() && resized.empty()) return;
    out_.changesInPlace_ = true;
    aliases_.emplace(graph_, registry_);
    for (const Value* v : changed) changed_.add(aliases_->locations(v));
    for (const Value* v : resized) resized_.add(aliases_->locations(v));
  }

  void set(const Value* v, SymbolicValue s) {
    if (options_.known)
      if (std::optional<SymbolicValue> k = options_.known(v)) s = std::move(*k);
    const bool mayChange = aliases_ && AliasAnalysis::canRefer(v->type());
    TensorFacts facts;
    if (s.type->isTensor()) facts.dtype = s.type->tensor().dtype;
    if (mayChange && changed_.intersects(aliases_->reachable(v)))
      s = symbolicOf(withoutRefinement(v->type()->isTensor() ? types().tensor : v->type()));
    else if (mayChange && resized_.intersects(aliases_->reachable(v)))
      s = symbolicOf(v->type()->isTensor() ? tensorType(facts) : withoutRefinement(v->type()));
    else
      nameUnknown(v, s);
    out_.at(v) = std::move(s);
  }

  // What is not known of a value is a symbol of its own: the same in every walk over a loop, and never that of another.
  static constexpr uint32_t kFirstInteger = kMaxRank;  // places of integers; before them those of dimensions
  static constexpr SizeRange kSizes{0, INT64_MAX};
  SizeExpression ownSymbol(const Value* v, uint32_t place, SizeRange range) {
    constexpr uint32_t kMostNamed = 1 << 16;
    out_.at(v);
    uint32_t number = out_.index_[v];
    return number < kMostNamed ? SizeExpression::anonymous(number, place, range) : SizeExpression::unknown();
  }
  void nameUnknown(const Value* v, SymbolicValue& s) {
    if (s.type->isTensor() && s.type->tensor().hasRank) {
      const Dims& sizes = s.type->tensor().sizes;
      if (std::find(sizes.begin(), sizes.end(), kUnknownSize) != sizes.end() && sizes.size() <= kMaxRank) {
        TensorFacts facts = s.type->tensor();
        for (uint32_t d = 0; d < facts.sizes.size(); ++d)
          if (facts.sizes[d] == kUnknownSize) facts.sizes[d] = ownSymbol(v, d, kSizes).size();
        s.type = tensorType(facts);
      }
    }
    if (!s.integers && !s.constant && s.type->is(TypeKind::Int)) s.integers = Dims{kUnknownInteger};
    if (!s.integers || s.integers->size() > kMostIntegers) return;
    for (uint32_t i = 0; i < s.integers->size(); ++i)
      if ((*s.integers)[i] == kUnknownInteger) (*s.integers)[i] = ownSymbol(v, kFirstInteger + i, {}).integer();
  }
  static constexpr size_t kMostIntegers = 64;
  const SymbolicValue& get(const Value* v) const { return out_.of(v); }

  void walk() {
    std::vector<Open> stack;
    const Node* n = graph_.block()->first();
    while (true) {
      if (n) {
        if (n->hasBlocks()) {
          stack.emplace_back();
          stack.back().node = n;
          n = enter(stack);
        } else {
          node(n);
          n = n->next();
        }
        continue;
      }
      if (stack.empty()) return;
      n = leave(stack);
    }
  }

  const Node* enter(std::vector<Open>& stack) {
    Open& open = stack.back();
    const Node* n = open.node;
    if (n->kind() == sym::If) {
      const SymbolicValue& c = get(n->input(0));
      // The other branch is walked too, for its own values, but says nothing about the outputs.
      open.constantBranch = c.constant && c.constant->isBool();
    } else if (n->kind() == sym::Loop) {
      const Block* b = n->block(0);
      SymbolicValue counter = symbolicOf(types().integer);
      counter.integers = Dims{ownSymbol(b->parameter(0), kFirstInteger, kSizes).integer()};
      set(b->parameter(0), std::move(counter));
      // Deeply nested loops start with nothing known, so that passes do not multiply.
      bool deep = loopDepth(stack) > 3;
      for (size_t i = 1; i < b->parameters().size(); ++i) {
        SymbolicValue initial = get(n->input(i + 1));
        if (deep) initial = symbolicOf(withoutRefinement(initial.type));
        open.merged.push_back(initial);
        set(b->parameter(i), std::move(initial));
      }
      if (deep) open.pass = 2;
    } else {
      for (const Block* b : n->blocks())
        for (const Value* p : b->parameters()) set(p, symbolicOf(p->type()));
    }
    return n->block(0)->first();
  }

  static size_t loopDepth(const std::vector<Open>& stack) {
    size_t depth = 0;
    for (const Open& o : stack) depth += o.node->kind() == sym::Loop;
    return depth;
  }

  // The end of a block: the next one, the same again, or the node after.
  const Node* leave(std::vector<Open>& stack) {
    Open& open = stack.back();
    const Node* n = open.node;
    const Block* b = n->block(open.block);
    if (n->kind() == sym::Loop) {
      if (loopChanged(open, b)) return b->first();
      for (size_t i = 0; i < n->outputCount(); ++i) set(n->output(i), open.merged[i]);
    } else if (n->kind() == sym::If) {
      bool counts = !open.constantBranch || get(n->input(0)).constant->toBool() == (open.block == 0);
      for (size_t i = 0; counts && i < n->outputCount() && i < b->results().size(); ++i) {
        const SymbolicValue& r = get(b->result(i));
        if (open.merged.size() <= i)
          open.merged.push_back(r);
        else
          open.merged[i] = merge(open.merged[i], r);
      }
      if (open.block + 1 < n->blocks().size()) return n->block(++open.block)->first();
      for (size_t i = 0; i < n->outputCount(); ++i)
        set(n->output(i),
            i < open.merged.size() ? open.merged[i] : symbolicOf(withoutRefinement(n->output(i)->type())));
    } else {
      if (open.block + 1 < n->blocks().size()) return n->block(++open.block)->first();
      for (const Value* o : n->outputs()) set(o, symbolicOf(withoutRefinement(o->type())));
    }
    const Node* next = n->next();
    stack.pop_back();
    return next;
  }

  static constexpr int kLastPass = 4;  // over the body of a loop

  bool loopChanged(Open& open, const Block* b) {
    bool changed = false;
    for (size_t i = 0; i < open.merged.size() && i + 1 < b->results().size(); ++i) {
      SymbolicValue wider = merge(open.merged[i], get(b->result(i + 1)));
      if (same(wider, open.merged[i])) continue;
      changed = true;
      // After two passes nothing that changes is known any more.
      open.merged[i] = open.pass < 1 ? std::move(wider) : symbolicOf(withoutRefinement(b->parameter(i + 1)->type()));
    }
    if (!changed || open.pass == kLastPass) return false;
    // Chains of carried values change one after the other: the last pass starts with nothing known of any.
    if (++open.pass == kLastPass)
      for (size_t i = 0; i < open.merged.size(); ++i)
        open.merged[i] = symbolicOf(withoutRefinement(b->parameter(i + 1)->type()));
    for (size_t i = 0; i < open.merged.size(); ++i) set(b->parameter(i + 1), open.merged[i]);
    return true;
  }

  // Containers in containers are copied, so what is known of them ends at a depth, and where there are many: lists that
  // hold each other would double with each.
  void addItem(SymbolicValue& container, const SymbolicValue& item) {
    constexpr int kMaxDepth = 8;
    size_t nested = item.items.empty() ? 0 : nestedItems(item, kMaxDepth);
    if (nested == 0) {
      container.items.push_back(item);
      return;
    }
    constexpr size_t kMaxNested = size_t{1} << 20;
    if (nested <= kMaxItemsNested && (nestedItems_ += nested) <= kMaxNested) {
      container.items.push_back(item);
      return;
    }
    SymbolicValue outline = symbolicOf(item.type);
    outline.integers = item.integers;
    container.items.push_back(std::move(outline));
  }
  static constexpr size_t kMaxItemsNested = 1024;
  // How many values an item holds; more than kMaxItemsNested also if it is nested more deeply than `depth`.
  static size_t nestedItems(const SymbolicValue& v, int depth) {
    size_t count = v.items.size();
    if (depth == 0 && count) return kMaxItemsNested + 1;
    for (const SymbolicValue& item : v.items) {
      if (count > kMaxItemsNested) break;
      if (!item.items.empty()) count += nestedItems(item, depth - 1);
    }
    return count;
  }

  bool structure(const Node* n) {
    if (!formProblem(*n).empty()) return false;
    if (n->kind() == sym::Constant) {
      constant(n);
      return true;
    }
    if (n->kind() == sym::ListConstruct || n->kind() == sym::TupleConstruct) {
      SymbolicValue v = symbolicOf(withoutRefinement(n->output()->type()));
      v.hasItems = true;
      Dims integers;
      bool allIntegers = true, allConstant = true;
      std::vector<IValue> constants;
      for (const Use& u : n->inputs()) {
        const SymbolicValue& item = get(u.value);
        addItem(v, item);
        allIntegers &= item.integers && item.integers->size() == 1;
        if (allIntegers) integers.push_back((*item.integers)[0]);
        allConstant &= item.constant.has_value();
        if (allConstant) constants.push_back(*item.constant);
      }
      if (n->kind() == sym::ListConstruct) {
        bool ofInts = v.type->isListOf(TypeKind::Int);
        if (ofInts && allIntegers) v.integers = integers;
        if (allConstant && v.type->is(TypeKind::List))
          v.constant = IValue(Ref<ListValue>::make(v.type->element(), std::move(constants)));
      }
      set(n->output(), std::move(v));
      return true;
    }
    if (n->kind() == sym::ListUnpack || n->kind() == sym::TupleUnpack) {
      const SymbolicValue& from = get(n->input(0));
      for (size_t i = 0; i < n->outputCount(); ++i) set(n->output(i), itemOf(from, i, n->output(i)));
      return true;
    }
    if (n->kind() == sym::TupleIndex && n->inputCount() == 2) {
      const SymbolicValue& index = get(n->input(1));
      bool known = index.integers && (*index.integers)[0] >= 0;
      set(n->output(), known ? itemOf(get(n->input(0)), static_cast<size_t>((*index.integers)[0]), n->output())
                             : symbolicOf(withoutRefinement(n->output()->type())));
      return true;
    }
    if (n->kind() == sym::unchecked_cast && n->inputCount() == 1) {
      SymbolicValue v = get(n->input(0));
      if (v.type->is(TypeKind::Optional)) v.type = v.type->element();
      set(n->output(), std::move(v));
      return true;
    }
    return false;
  }

  SymbolicValue itemOf(const SymbolicValue& from, size_t i, const Value* output) {
    if (from.hasItems && i < from.items.size()) return from.items[i];
    SymbolicValue v = symbolicOf(withoutRefinement(output->type()));
    if (from.integers && i < from.integers->size()) v.integers = Dims{(*from.integers)[i]};
    return v;
  }

  void constant(const Node* n) {
    const Value* o = n->output();
    const IValue* v = n->attributeValue(sym::value);
    if (!v) {
      SymbolicValue none = symbolicOf(o->type());
      if (!n->hasAttribute(sym::name) && !n->hasAttribute(sym::value)) none.constant = IValue();
      return set(o, std::move(none));
    }
    if (v->isLiteral() && !v->toLiteral().data.defined()) return set(o, symbolicOf(o->type()));
    set(o, symbolicOf(*v));
  }

  bool infer(const Node* n, const Operator& op) {
    std::vector<SymbolicValue> arguments;
    for (const Use& u : n->inputs()) arguments.push_back(get(u.value));
    if (query(n, arguments) || scalar(n, op, arguments)) return true;
    if (!op.def().infer) return false;
    // Quantised tensors have a record of their own, which may take what this one refuses.
    bool onQuantized = op.quantized() && !arguments.empty() && isQuantized(dtypeOf(arguments[0]));
    InferCall call(op, arguments);
    try {
      op.def().infer(call);
    } catch (const InferCall::NotKnown&) {
      // What was said before it stopped holds.
    } catch (const ExecutionError& e) {
      if (!onQuantized && !alreadyReported(n)) out_.conflicts_.push_back({n, withTextsOfSizes(e.message())});
      return false;
    }
    for (size_t i = 0; i < n->outputCount(); ++i) {
      if (i >= call.resultCount()) {
        set(n->output(i), symbolicOf(withoutRefinement(n->output(i)->type())));
        continue;
      }
      InferredResult& result = call.inferred(i);
      // What takes the result keeps its element type.
      if (result.kind == InferredResult::Kind::Tensor) {
        if (op.outCount() && i < op.outCount())
          result.tensor.dtype = dtypeOf(arguments[arguments.size() - op.outCount() + i]);
        if (op.isInPlaceVariant() && i == 0) result.tensor.dtype = dtypeOf(arguments[0]);
      }
      set(n->output(i), fromResult(result, n->output(i)));
    }
    return true;
  }

  static DType dtypeOf(const SymbolicValue& v) {
    return v.type->isTensor() ? v.type->tensor().dtype : DType::Undefined;
  }

  bool alreadyReported(const Node* n) const { return !out_.conflicts_.empty() && out_.conflicts_.back().node == n; }

  static SymbolicValue fromResult(const InferredResult& r, const Value* output) {
    switch (r.kind) {
      case InferredResult::Kind::Tensor:
        return symbolicSpec(r.tensor);
      case InferredResult::Kind::Tensors: {
        SymbolicValue v = symbolicOf(withoutRefinement(output->type()));
        v.hasItems = true;
        for (const TensorSpec& t : r.tensors) v.items.push_back(symbolicSpec(t));
        return v;
      }
      case InferredResult::Kind::Integers:
        return integersOf(r.tensor.sizes, output);
      default:
        return symbolicOf(withoutRefinement(output->type()));
    }
  }

  // `dims` are integers, which may be unknown.
  static SymbolicValue integersOf(const Dims& dims, const Value* output) {
    SymbolicValue v = symbolicOf(withoutRefinement(output->type()));
    v.integers = dims;
    if (output->type()->is(TypeKind::Int)) {
      if (dims.size() == 1 && !isUnknownInteger(dims[0])) v.constant = IValue(dims[0]);
    } else if (output->type()->isListOf(TypeKind::Int)) {
      v.hasItems = true;
      bool known = true;
      for (int64_t d : dims) {
        SymbolicValue item = symbolicOf(types().integer);
        item.integers = Dims{d};
        if (!isUnknownInteger(d)) item.constant = IValue(d);
        known &= !isUnknownInteger(d);
        v.items.push_back(std::move(item));
      }
      if (known) v.constant = intList(dims);
    }
    return v;
  }

  bool passesNumber(const Node* n) {
    const Operator* op = registry_.resolve(*n);
    return op && op->has(Trait::PassesNumber);
  }

  // Questions about sizes, whose answers are known without data.
  bool query(const Node* n, const std::vector<SymbolicValue>& a) {
    if (n->outputCount() != 1 || a.empty()) return false;
    std::string_view kind = n->kind().text();
    auto answer = [&](const Dims& sizes) {
      Dims integers;
      for (int64_t s : sizes) integers.push_back(sizeAsInteger(s));
      set(n->output(), integersOf(integers, n->output()));
      return true;
    };
    if (a[0].type->isTensor() && a[0].type->tensor().hasRank) {
      const Dims& sizes = a[0].type->tensor().sizes;
      if (kind == "aten::size" && a.size() == 1) return answer(sizes);
      if (kind == "aten::size" && a.size() == 2 && a[1].integers) {
        int64_t d = (*a[1].integers)[0];
        if (wrapDim(d, static_cast<int64_t>(sizes.size())) && !sizes.empty()) return answer({sizes[d]});
      }
      if (kind == "aten::dim" || kind == "aten::ndimension") return answer({static_cast<int64_t>(sizes.size())});
      if (kind == "aten::len" && !sizes.empty()) return answer({sizes[0]});
      if (kind == "aten::numel") return answer({elementCount(sizes).size()});
    }
    if (kind == "aten::len" && a[0].integers && a[0].type->is(TypeKind::List))
      return answer({static_cast<int64_t>(a[0].integers->size())});
    if (kind == "aten::len" && a[0].hasItems) return answer({static_cast<int64_t>(a[0].items.size())});
    if (kind == "aten::__getitem__" && a.size() == 2 && a[1].integers && (a[0].hasItems || a[0].integers)) {
      int64_t i = (*a[1].integers)[0];
      auto length = static_cast<int64_t>(a[0].hasItems ? a[0].items.size() : a[0].integers->size());
      if (!a[1].constant) return false;
      if (i < 0) i += length;
      if (i < 0 || i >= length) return false;
      set(n->output(), itemOf(a[0], static_cast<size_t>(i), n->output()));
      return true;
    }
    if (kind == "prim::dtype" && dtypeOf(a[0]) != DType::Undefined)
      return answer({static_cast<int64_t>(dtypeOf(a[0]))});
    if (n->kind() == aten::is_floating_point && dtypeOf(a[0]) != DType::Undefined)
      return decide(n, isFloating(dtypeOf(a[0])) || isSmallFloat(dtypeOf(a[0])));
    // Parts and sums of lists of sizes.
    if (kind == "aten::slice" && a.size() == 4 && a[0].type->isListOf(TypeKind::Int) && a[0].integers)
      return slicedList(n, a);
    if (kind == "aten::add" && a.size() == 2 && a[0].type->isListOf(TypeKind::Int) && a[0].integers && a[1].integers &&
        a[1].type->isListOf(TypeKind::Int)) {
      Dims all = *a[0].integers;
      for (int64_t i : *a[1].integers) all.push_back(i);
      set(n->output(), integersOf(all, n->output()));
      return true;
    }
    bool lists = a.size() == 2 && a[0].integers && a[1].integers && a[0].type->isListOf(TypeKind::Int) &&
                 a[1].type->isListOf(TypeKind::Int);
    if (lists && decide(n, decided(kind, DimSpan(*a[0].integers), DimSpan(*a[1].integers)))) return true;
    if (a[0].integers && passesNumber(n)) {
      // Sizes that pass through a tensor without dimensions, as traces record them.
      SymbolicValue v = symbolicOf(withoutRefinement(n->output()->type()));
      if (v.type->isTensor()) v = symbolicTensor(DType::Int64, {});
      v.integers = a[0].integers;
      if (!v.type->isTensor() && !isUnknownInteger((*v.integers)[0])) v.constant = IValue((*v.integers)[0]);
      set(n->output(), std::move(v));
      return true;
    }
    return false;
  }

  bool slicedList(const Node* n, const std::vector<SymbolicValue>& a) {
    const Dims& list = *a[0].integers;
    int64_t length = static_cast<int64_t>(list.size());
    auto bound = [&](const SymbolicValue& v, int64_t otherwise) -> std::optional<int64_t> {
      if (v.constant && v.constant->isNone()) return otherwise;
      if (!v.constant || !v.constant->isInt()) return std::nullopt;
      int64_t i = v.constant->toInt();
      return std::clamp(i < 0 ? i + length : i, int64_t{0}, length);
    };
    std::optional<int64_t> begin = bound(a[1], 0), end = bound(a[2], length);
    if (!begin || !end || !a[3].constant || !a[3].constant->isInt() || a[3].constant->toInt() < 1) return false;
    Dims part;
    for (int64_t i = *begin; i < *end; i += a[3].constant->toInt()) part.push_back(list[static_cast<size_t>(i)]);
    set(n->output(), integersOf(part, n->output()));
    return true;
  }

  // Arithmetic on numbers: done now where all are known; what is made of sizes is an expression of them.
  bool scalar(const Node* n, const Operator& op, const std::vector<SymbolicValue>& a) {
    if (!op.def().scalar || n->outputCount() != 1 || a.size() < op.schema().arguments.size()) return false;
    bool allConstant = true;
    SmallVector<const IValue*, 8> pointers;
    for (const SymbolicValue& v : a) {
      allConstant &= v.constant && (v.constant->isNumber() || v.constant->isString() || v.constant->isNone());
      pointers.push_back(v.constant ? &*v.constant : nullptr);
    }
    if (allConstant && !op.has(Trait::SideEffects) && !op.has(Trait::Random)) {
      IValue result;
      try {
        op.def().scalar(pointers.data(), result);
      } catch (const ExecutionError&) {
        return false;  // fails when it runs, if it runs
      }
      set(n->output(), symbolicOf(result));
      return true;
    }
    std::vector<SizeExpression> integers;
    for (const SymbolicValue& v : a) {
      if (!v.type->is(TypeKind::Int) || !v.integers || v.integers->size() != 1) return false;
      integers.push_back((*v.integers)[0]);
    }
    if (n->output()->type()->is(TypeKind::Int)) {
      int64_t result = integerResult(n->kind().text(), integers).integer();
      set(n->output(), integersOf({result}, n->output()));
      return true;
    }
    return integers.size() == 2 && decide(n, decided(n->kind().text(), integers[0], integers[1]));
  }

  bool decide(const Node* n, std::optional<bool> answer) {
    if (!answer || !n->output()->type()->is(TypeKind::Bool)) return false;
    set(n->output(), symbolicOf(IValue(*answer)));
    return true;
  }

  ShapePropagation& out_;
  const Graph& graph_;
  const OpRegistry& registry_;
  const ShapeOptions& options_;
  std::optional<AliasAnalysis> aliases_;  // only if something is changed where it stands
  LocationSet changed_, resized_;
  size_t nestedItems_ = 0;  // of containers in containers, so far
};

ShapePropagation::ShapePropagation(const Graph& graph, const OpRegistry& registry, const ShapeOptions& options)
    : index_(graph), registry_(&registry) {
  ShapeWalker(*this, graph, registry, options).run();
}

const SymbolicValue* ShapePropagation::find(const Value* value) const {
  uint32_t i = index_.get(value);
  return i ? &store_[i - 1] : nullptr;
}

const SymbolicValue& ShapePropagation::extend(const Value* value) {
  ShapeOptions none;
  ShapeWalker walker(*this, *value->graph(), *registry_, none);
  std::vector<const Value*> todo{value};
  while (!todo.empty()) {
    const Value* v = todo.back();
    const Node* n = v->node();
    if (find(v)) {
      todo.pop_back();
    } else if (!n || n->hasBlocks() || changesInPlace_) {
      at(v) = symbolicOf(withoutRefinement(v->type()));
    } else {
      size_t before = todo.size();
      for (const Use& u : n->inputs())
        if (!find(u.value)) todo.push_back(u.value);
      if (todo.size() == before) walker.node(n);
    }
  }
  return *find(value);
}

SymbolicValue& ShapePropagation::at(const Value* value) {
  uint32_t& i = index_[value];
  if (!i) {
    store_.emplace_back();
    i = static_cast<uint32_t>(store_.size());
  }
  return store_[i - 1];
}

const SymbolicValue& ShapePropagation::of(const Value* value) const {
  static const SymbolicValue kUnknown = symbolicOf(types().any);
  const SymbolicValue* known = find(value);
  return known ? *known : kUnknown;
}

void ShapePropagation::applyTo(Graph& graph) const {
  auto apply = [this](Value* v) {
    const SymbolicValue& s = of(v);
    if (s.type->isTensor() && v->type()->isTensor()) v->setType(shapeOnly(s.type));
  };
  for (Value* v : graph.inputs()) apply(v);
  forEachNode(graph, [&](Node* n) {
    for (Value* o : n->outputs()) apply(o);
    for (Block* b : n->blocks())
      for (Value* p : b->parameters()) apply(p);
  });
}

}  // namespace tscompile
