// Loops over counters, conditions and sequences, and the variables that they carry.
#include "frontend/source/loops.h"

#include "frontend/source/scope.h"

namespace tscompile::source {

using K = Expr::Kind;

void addTargets(const Expr& target, std::set<std::string>& names) {
  if (target.is(K::Name)) names.emplace(target.text);
  if (target.is(K::Tuple) || target.is(K::List))
    for (const Expr* e : target.items) addTargets(*e, names);
}

std::set<std::string> assignedIn(const Slice<Stmt*>& statements) {
  std::set<std::string> names;
  std::vector<const Slice<Stmt*>*> todo{&statements};
  while (!todo.empty()) {
    const Slice<Stmt*>& list = *todo.back();
    todo.pop_back();
    for (const Stmt* s : list) {
      bool isWith = s->kind == Stmt::Kind::With;
      for (const Expr* t : s->targets)
        if (!isWith)
          addTargets(*t, names);
        else if (t->is(K::Tuple) && t->text == "as")
          addTargets(*t->item(1), names);
      todo.push_back(&s->body);
      todo.push_back(&s->other);
    }
  }
  return names;
}

void Emitter::emitLoop(Value* count, const Expr* test, const std::set<std::string>& assigned,
                       const std::function<void(Value*)>& body) {
  Value* first = test ? toBool(condition(*test).value) : constant(true);
  std::vector<Value*> inputs{count, first};
  std::vector<std::string> carried;
  for (const std::string& name : assigned)
    if (const Meaning* m = find(name); m && m->kind == Meaning::Kind::Value) {
      carried.push_back(name);
      inputs.push_back(m->value);
    }
  Node* n = insert(sym::Loop, inputs, 0);
  Block* block = n->addBlock();
  Value* index = block->addParameter(types().integer);
  Frame frame;
  {
    InsertionGuard guard(builder_);
    builder_.setPointAtEnd(block);
    Scope scope(*this, frame);
    for (size_t i = 0; i < carried.size(); ++i)
      setValue(carried[i], block->addParameter(withoutRefinement(inputs[i + 2]->type())));
    body(index);
    if (returned_) fail("a return inside a loop is not written by PyTorch's serialiser", ErrorKind::Unsupported);
    block->addResult(test ? toBool(condition(*test).value) : first);
    for (const std::string& name : carried) block->addResult(find(name)->value);
  }
  for (const std::string& name : carried) setValue(name, n->addOutput(block->parameter(n->outputCount() + 1)->type()));
}

void Emitter::emitEach(const Meaning& sequence, const Expr& target, std::set<std::string> assigned,
                       const std::function<void()>& body) {
  addTargets(target, assigned);
  Meaning kept = sequence;
  if (sequence.kind == Meaning::Kind::Value && sequence.value->type()->is(TypeKind::Dict))
    kept.value = builtin("aten::keys", {sequence.value});
  emitLoop(lengthOf(kept), nullptr, assigned, [&](Value* index) {
    assign(target, elementOf(kept, index));
    body();
  });
}

Value* Emitter::emitChoice(Value* chosen, const std::function<Value*()>& yes, const std::function<Value*()>& no) {
  Value* const inputs[] = {chosen};
  Node* n = insert(sym::If, inputs, 0);
  TypePtr type = nullptr;
  for (auto* branch : {&yes, &no}) {
    Block* block = n->addBlock();
    InsertionGuard guard(builder_);
    builder_.setPointAtEnd(block);
    Scope scope(*this);
    Value* v = (*branch)();
    block->addResult(v);
    TypePtr t = withoutRefinement(v->type());
    TypePtr both[] = {type, t};
    TypePtr common = type ? unifyTypes(type, t) : t;
    type = common ? common : unionType(both);
  }
  return n->addOutput(type);
}

Value* Emitter::lengthOf(const Meaning& m) {
  if (m.kind != Meaning::Kind::Dynamic) {
    Value* v = asValue(m);
    TypePtr t = v->type();
    if (t->isTensor()) return builtin("aten::size", {v, constant(0)});
    if (!t->is(TypeKind::List) && !t->is(TypeKind::String)) fail("expected something to loop over");
    return builtin("aten::len", {v});
  }
  if (m.text == "range")
    return m.parts.size() == 1
               ? m.parts[0].value
               : builtin("aten::__range_length", {m.parts[0].value, m.parts[1].value, m.parts[2].value});
  if (m.text == "enumerate") return lengthOf(m.parts[0]);
  std::vector<Value*> lengths;
  for (const Meaning& part : m.parts) lengths.push_back(lengthOf(part));
  if (lengths.size() == 1) return lengths[0];
  Value* list = insert(sym::ListConstruct, lengths)->output();
  list->setType(types().intList);
  return builtin("prim::min", {list});
}

Meaning Emitter::elementOf(const Meaning& m, Value* index) {
  auto isValue = [](Value* v) { return Meaning{Meaning::Kind::Value, v}; };
  if (m.kind != Meaning::Kind::Dynamic) {
    Value* v = asValue(m);
    return isValue(v->type()->isTensor() ? builtin("aten::select", {v, constant(0), index})
                                         : builtin("aten::__getitem__", {v, index}));
  }
  if (m.text == "range")
    return isValue(m.parts.size() == 1 ? index
                                       : builtin("aten::__derive_index", {index, m.parts[0].value, m.parts[2].value}));
  Meaning tuple{.kind = Meaning::Kind::Dynamic, .text = "tuple"};
  if (m.text == "enumerate") {
    Value* start = m.parts.size() > 1 ? builtin("aten::add", {index, m.parts[1].value}) : index;
    tuple.parts = {isValue(start), elementOf(m.parts[0], index)};
  } else {
    for (const Meaning& part : m.parts) tuple.parts.push_back(elementOf(part, index));
  }
  return tuple;
}

Value* Emitter::emitObjectSort(Symbol kind, const Given& given) {
  static const Symbol kSorted = Symbol::of("aten::sorted"), kSort = Symbol::of("aten::sort");
  if ((kind != kSorted && kind != kSort) || given.values.empty()) return nullptr;
  TypePtr list = given.values[0]->type();
  ClassInfo* info = list->is(TypeKind::List) ? infoOf(list->element()) : nullptr;
  MethodInfo* less = info ? info->method("__lt__") : nullptr;
  if (!less) return nullptr;
  Value* reverse = given.values.size() > 1 ? given.values[1] : nullptr;
  for (const auto& [name, v] : given.keywords)
    if (name == "reverse") reverse = v;
  Value* objects = kind == kSorted ? builtin("aten::list", {given.values[0]}) : given.values[0];
  sortInPlace(objects, *less, reverse);
  return kind == kSorted ? objects : tuple({});
}

// By insertion, so that objects of which none is less stay in their order:
//   for i in range(len(l)):
//     for j in i, i - 1 ... 1, while l[j] < l[j - 1]: l[j - 1], l[j] = l[j], l[j - 1]
void Emitter::sortInPlace(Value* objects, MethodInfo& less, Value* reverse) {
  auto isLess = [&](Value* a, Value* b) { return emitMethod(a, less, {{b}, {}}); };
  auto carryBack = [&](Value* last, Value* step) {
    Value* at = builtin("aten::sub", {last, step});
    Value* before = builtin("aten::sub", {at, constant(1)});
    Value *item = builtin("aten::__getitem__", {objects, at}), *prior = builtin("aten::__getitem__", {objects, before});
    auto inOrder = [&] { return isLess(item, prior); };
    Value* moves = reverse ? emitChoice(
                                 reverse, [&] { return isLess(prior, item); }, inOrder)
                           : inOrder();
    emitChoice(
        moves,
        [&] {
          builtin("aten::_set_item", {objects, at, prior});
          builtin("aten::_set_item", {objects, before, item});
          return moves;
        },
        [&] { return moves; });
    return moves;
  };
  emitWhile(builtin("aten::len", {objects}), [&](Value* i) {
    emitWhile(i, [&](Value* k) { return carryBack(i, k); });
    return constant(true);
  });
}

// Runs at most `count` times, and again as long as the body's result is true.
void Emitter::emitWhile(Value* count, const std::function<Value*(Value*)>& body) {
  Value* const inputs[] = {count, constant(true)};
  Block* block = insert(sym::Loop, inputs, 0)->addBlock();
  Value* index = block->addParameter(types().integer);
  InsertionGuard guard(builder_);
  builder_.setPointAtEnd(block);
  Scope scope(*this);
  block->addResult(body(index));
}

}  // namespace tscompile::source
