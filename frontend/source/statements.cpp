// Statements: assignments, and control flow with the variables that it carries.
#include "frontend/source/emitter.h"
#include "frontend/source/loops.h"
#include "frontend/source/scope.h"

#include <limits>

namespace tscompile::source {

using K = Expr::Kind;
using S = Stmt::Kind;

void Emitter::emitStatements(const Slice<Stmt*>& statements) {
  for (const Stmt* s : statements) {
    if (returned_) return;  // what follows is never reached
    emit(*s);
  }
}

void Emitter::emit(const Stmt& s) {
  Place place(*this, s.span);
  switch (s.kind) {
    case S::Expression:
      meaning(*s.value);
      return;
    case S::Assign:
      return emitAssign(s);
    case S::Declare:
      return;
    case S::Augment:
      return emitAugment(s);
    case S::If:
      return emitIf(s);
    case S::For:
      return emitFor(s);
    case S::While:
      return emitWhile(s);
    case S::With:
      return emitWith(s);
    case S::Return:
      return emitReturn(s);
    case S::Raise:
      return emitRaise(s);
    case S::Assert:
      return emitAssert(s);
    case S::Pass:
      return;
    case S::Define:
      set(std::string(s.def->name), {.kind = Meaning::Kind::Closure, .def = s.def});
      return;
    case S::Break:
    case S::Continue:
    case S::DefineClass:
      fail("PyTorch's serialiser does not write this statement inside a function", ErrorKind::Unsupported);
  }
}

// ---- assignments ----

void Emitter::emitAssign(const Stmt& s) {
  TypePtr type = s.type ? library_.typeOf(*s.type) : nullptr;
  Meaning m = meaning(*s.value, type);
  if (type && m.kind == Meaning::Kind::Value) {
    m.value = converted(m.value, type, true);
    if (m.value->type()->is(TypeKind::None)) m.value = constant({}, type);
  }
  assign(*s.targets[0], std::move(m));
}

void Emitter::assign(const Expr& target, Meaning m) {
  Place place(*this, target.span);
  switch (target.kind) {
    case K::Name:
      return set(std::string(target.text), std::move(m));
    case K::Attribute:
      return assignAttribute(target, asValue(m));
    case K::Subscript:
      return assignElement(target, asValue(m));
    case K::Tuple:
    case K::List: {
      if (m.kind == Meaning::Kind::Dynamic && m.parts.size() == target.items.size) {
        for (size_t i = 0; i < m.parts.size(); ++i) assign(*target.item(i), m.parts[i]);
        return;
      }
      std::vector<Value*> parts = unpack(asValue(m), target.items.size);
      for (size_t i = 0; i < parts.size(); ++i) assign(*target.item(i), {Meaning::Kind::Value, parts[i]});
      return;
    }
    default:
      fail("this cannot be assigned to");
  }
}

std::vector<Value*> Emitter::unpack(Value* value, size_t count) {
  if (unknown_.count(value)) {
    while (value->node()->outputCount() < count) value->node()->addOutput(types().tensor);
    const auto first = value->node()->outputs().begin();
    return {first, first + static_cast<std::ptrdiff_t>(count)};
  }
  TypePtr t = value->type();
  bool isTuple = t->is(TypeKind::Tuple);
  if (!isTuple && !t->is(TypeKind::List)) fail("expected a tuple or list to unpack, found " + typeText(t));
  if (isTuple && t->elements().size() != count)
    fail("expected a tuple of " + std::to_string(count) + " elements, found " + typeText(t));
  std::vector<Value*> out;
  if (value->node() && value->node()->kind() == sym::TupleConstruct) {
    for (const Use& u : value->node()->inputs()) out.push_back(u.value);
    return out;
  }
  Value* const inputs[] = {value};
  Node* n = insert(isTuple ? sym::TupleUnpack : sym::ListUnpack, inputs, count);
  for (size_t i = 0; i < count; ++i) {
    n->output(i)->setType(isTuple ? t->element(i) : t->element());
    out.push_back(n->output(i));
  }
  return out;
}

void Emitter::assignAttribute(const Expr& target, Value* v) {
  Value* object = value(*target.item());
  ClassInfo* info = infoOf(object->type());
  const AttributeInfo* a = info ? info->attribute(target.text) : nullptr;
  if (!a) fail("there is no such attribute to set");
  v = converted(v, a->type, true);
  if (!isSubtype(v->type(), a->type))
    fail("the attribute has type " + typeText(a->type) + " and cannot become " + typeText(v->type()));
  Value* const inputs[] = {object, v};
  insert(sym::SetAttr, inputs, 0)->setAttribute(sym::name, IValue(target.text));
}

void Emitter::assignElement(const Expr& target, Value* v) {
  Value* of = value(*target.item());
  if (of->type()->isTensor()) {
    Expr element = target;
    builtin("aten::copy_",
            {emitTensorSubscript(of, element), v->type()->isTensor() ? v : builtin("aten::tensor", {v})});
    return;
  }
  if (target.items.size != 2 || target.item(1)->is(K::Slice)) fail("only one element can be assigned to");
  builtin("aten::_set_item", {of, value(*target.item(1)), v});
}

void Emitter::emitAugment(const Stmt& s) {
  const Expr& target = *s.targets[0];
  Value* before = value(target);
  Value* with = value(*s.value);
  std::string_view name = s.op == "+"    ? "add"
                          : s.op == "-"  ? "sub"
                          : s.op == "*"  ? "mul"
                          : s.op == "/"  ? "div"
                          : s.op == "//" ? "floordiv"
                          : s.op == "%"  ? "remainder"
                          : s.op == "**" ? "pow"
                          : s.op == "|"  ? "__or__"
                          : s.op == "&"  ? "__and__"
                          : s.op == "^"  ? "__xor__"
                          : s.op == "<<" ? "__lshift__"
                          : s.op == ">>" ? "__rshift__"
                                         : "matmul";
  bool inPlace =
      before->type()->isTensor() && s.op.size() == 1 && std::string_view("+-*/").find(s.op) != std::string_view::npos;
  bool isList = before->type()->is(TypeKind::List) && s.op == "+";
  std::string kind = "aten::" + std::string(name) + (inPlace ? "_" : isList ? "_" : "");
  assign(target, {Meaning::Kind::Value, builtin(kind, {before, with})});
}

// ---- branches ----

void Emitter::emitIf(const Stmt& s) {
  Condition c = condition(*s.value);
  if (c.known) {
    refine(c, *c.known);
    return emitStatements(*c.known ? s.body : s.other);
  }
  Value* const inputs[] = {c.value};
  Node* n = insert(sym::If, inputs, 0);
  Branch yes{n->addBlock(), {}}, no{n->addBlock(), {}};
  auto branch = [&](Branch& b, bool holds) {
    InsertionGuard guard(builder_);
    builder_.setPointAtEnd(b.block);
    Scope scope(*this, b.frame);
    refine(c, holds);
    emitStatements(holds ? s.body : s.other);
    if (returned_) fail("a return inside a branch is not written by PyTorch's serialiser", ErrorKind::Unsupported);
  };
  branch(yes, true);
  branch(no, false);
  mergeBranches(n, yes, no);
}

// Variables that both branches know, and one of them sets, become outputs.
void Emitter::mergeBranches(Node* node, Branch& yes, Branch& no) {
  std::set<std::string> changed;
  for (const Branch* b : {&yes, &no})
    for (const auto& [name, m] : b->frame.names) changed.insert(name);
  auto of = [&](Branch& b, const std::string& name) -> const Meaning* {
    auto at = b.frame.names.find(name);
    return at != b.frame.names.end() ? &at->second : find(name);
  };
  for (const std::string& name : changed) {
    const Meaning *a = of(yes, name), *b = of(no, name);
    if (!a || !b || a->kind != Meaning::Kind::Value || b->kind != Meaning::Kind::Value) continue;
    TypePtr left = withoutRefinement(a->value->type()), right = withoutRefinement(b->value->type());
    TypePtr type = unifyTypes(left, right);
    if (!type) {
      TypePtr both[] = {left, right};
      type = unionType(both);
    }
    yes.block->addResult(a->value);
    no.block->addResult(b->value);
    setValue(name, node->addOutput(type));
  }
}

// ---- loops ----

void Emitter::emitFor(const Stmt& s) {
  emitEach(meaning(*s.value), *s.targets[0], assignedIn(s.body), [&] { emitStatements(s.body); });
}

void Emitter::emitWhile(const Stmt& s) {
  Value* most = literal(std::numeric_limits<int64_t>::max());
  emitLoop(most, s.value, assignedIn(s.body), [&](Value*) { emitStatements(s.body); });
}

void Emitter::emitWith(const Stmt& s) {
  std::vector<Value*> entered;
  for (const Expr* context : s.targets) {
    bool named = context->is(K::Tuple) && context->text == "as";
    Value* object = value(named ? *context->item() : *context);
    ClassInfo* info = infoOf(object->type());
    MethodInfo* enter = info ? info->method("__enter__") : nullptr;
    TypePtr type = enter ? library_.schemaOf(*enter).returns[0].type : types().none;
    if (enter) library_.request(*enter);
    if (MethodInfo* exit = info ? info->method("__exit__") : nullptr) library_.request(*exit);
    Value* v = make(sym::Enter, {object}, type);
    if (named) assign(*context->item(1), {Meaning::Kind::Value, v});
    entered.push_back(object);
  }
  emitStatements(s.body);
  if (returned_) fail("a return inside 'with' is not written by PyTorch's serialiser", ErrorKind::Unsupported);
  while (!entered.empty()) {
    make(sym::Exit, {entered.back()}, types().tensor);
    entered.pop_back();
  }
}

// ---- ends ----

void Emitter::emitReturn(const Stmt& s) {
  Value* v = s.value ? value(*s.value, returns_) : constant({});
  if (returns_) {
    v = converted(v, returns_, true);
    if (!isSubtype(v->type(), returns_))
      fail("the function returns " + typeText(returns_) + ", not " + typeText(v->type()));
  }
  // In branches the value stays unused: the caller reports them.
  if (builder_.point() == graph_.returnNode()) graph_.addOutput(v);
  returned_ = true;
}

void Emitter::emitRaise(const Stmt& s) {
  Value* message = constant(IValue("Exception"));
  if (s.value && s.value->is(K::Call) && s.value->items.size > 1) message = value(*s.value->item(1));
  if (!message->type()->is(TypeKind::String)) message = builtin("aten::str", {message});
  Value* const inputs[] = {message};
  insert(sym::RaiseException, inputs, 0);
}

void Emitter::emitAssert(const Stmt& s) {
  Condition c = condition(*s.value);
  if (c.known && *c.known) return refine(c, true);
  Value* const inputs[] = {c.value};
  Node* n = insert(sym::If, inputs, 0);
  n->addBlock();
  Block* no = n->addBlock();
  {
    InsertionGuard guard(builder_);
    builder_.setPointAtEnd(no);
    Value* message = s.type ? value(*s.type) : constant(IValue("AssertionError: "));
    Value* const raised[] = {message};
    insert(sym::RaiseException, raised, 0);
  }
  refine(c, true);
}

}  // namespace tscompile::source
