#include "frontend/source/emitter.h"

#include "frontend/source/scope.h"
#include "ir/support/text.h"

#include <algorithm>
#include <bit>

namespace tscompile::source {

std::unique_ptr<Graph> compileDefinition(Library& library, MethodInfo& method) {
  auto graph = std::make_unique<Graph>();
  for (const SourcePtr& s : library.sources())
    if (s.get() == method.file) graph->keepAlive(s);
  graph->range = {method.file, method.def->span.begin, method.def->span.end};
  Emitter(library, method.file, *graph).emitMethod(method);
  cleanUp(*graph, library.registry());
  return graph;
}

void Emitter::emitMethod(MethodInfo& method) {
  const Schema& schema = library_.schemaOf(method);
  Scope scope(*this);
  span_ = method.def->span;
  for (const Argument& a : schema.arguments) {
    Value* v = graph_.addInput(a.type);
    v->setName(a.name);
    setValue(a.name, v);
  }
  returns_ = schema.returns[0].type;
  emitStatements(method.def->body);
  if (returned_) return;
  if (!isSubtype(types().none, returns_)) fail("the function ends without a return");
  graph_.addOutput(constant({}));
}

void Emitter::emitClosure(const Def& def) {
  Scope scope(*this);
  emitStatements(def.body);
  if (!returned_) graph_.addOutput(constant({}));
  cleanUp(graph_, library_.registry());
}

void Emitter::fail(std::string message, ErrorKind kind, std::string note) {
  throw SourceError{span_, std::move(message), kind, std::move(note)};
}

// ---- nodes ----

Node* Emitter::insert(Symbol kind, std::span<Value* const> inputs, size_t outputs) {
  if (!library_.chargeNode()) fail("the code has too many nodes", ErrorKind::Limit);
  Node* n = builder_.insert(kind, inputs, outputs);
  n->range = {file_, span_.begin, span_.end};
  n->location = library_.placeOf(file_, span_.begin);
  return n;
}

Value* Emitter::make(Symbol kind, std::initializer_list<Value*> inputs, TypePtr type) {
  Value* v = insert(kind, {inputs.begin(), inputs.size()})->output();
  v->setType(type);
  return v;
}

Value* Emitter::constant(const IValue& value, TypePtr type) {
  Node* n = insert(sym::Constant, {});
  if (!value.isNone()) n->setAttribute(sym::value, value);
  n->output()->setType(type ? type : value.isTensor() ? types().tensor : dynamicType(value));
  return n->output();
}

Value* Emitter::literal(const IValue& number) {
  uint64_t bits = number.isInt() ? static_cast<uint64_t>(number.toInt()) : std::bit_cast<uint64_t>(number.toFloat());
  Value*& known = literals_[{number.isInt(), bits}];
  if (known) return known;
  InsertionGuard guard(builder_);
  builder_.setPointAtStart(graph_.block());
  return known = constant(number);
}

Value* Emitter::tuple(std::span<Value* const> elements, TypePtr type) {
  std::vector<TypePtr> each;
  for (Value* v : elements) each.push_back(v->type());
  Value* v = insert(sym::TupleConstruct, elements)->output();
  v->setType(type ? type : tupleType(each));
  return v;
}

// ---- names ----

const Meaning* Emitter::find(std::string_view name) {
  for (Frame* f = frame_; f; f = f->parent)
    if (auto at = f->names.find(name); at != f->names.end()) return &at->second;
  const Meaning* outside = outer_ ? outer_->find(name) : nullptr;
  if (!outside || outside->kind != Meaning::Kind::Value) return outside;
  Frame* outermost = frame_;
  while (outermost->parent) outermost = outermost->parent;
  Meaning here{Meaning::Kind::Value, captureOf(outside->value)};
  return &outermost->names.emplace(std::string(name), here).first->second;
}

const Meaning* Emitter::findInParents(std::string_view name) {
  Frame* here = std::exchange(frame_, frame_->parent);
  const Meaning* found = frame_ ? find(name) : nullptr;
  frame_ = here;
  return found;
}

Value* Emitter::captureOf(Value* value) {
  auto [at, isNew] = captures_.emplace(value, nullptr);
  if (isNew) {
    at->second = graph_.addInput(value->type());
    if (value->isNamed()) at->second->setName(value->givenName());
    captured_.push_back(value);
  }
  return at->second;
}

namespace {

// Not what the serialiser numbers: `_12`.
bool isTelling(std::string_view name) {
  return name.size() > 1
             ? name[0] != '_' || !std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; })
             : name != "_";
}

}  // namespace

void Emitter::set(const std::string& name, Meaning meaning) {
  if (const Meaning* outside = findInParents(name)) {
    if (outside->kind == Meaning::Kind::Value) {
      TypePtr type = withoutRefinement(outside->value->type());
      meaning = {Meaning::Kind::Value, converted(asValue(meaning), type, true)};
      if (!isSubtype(meaning.value->type(), type))
        fail("the variable had type " + typeText(type) + " before and cannot become " +
             typeText(meaning.value->type()));
    }
  }
  if (meaning.kind == Meaning::Kind::Value && !meaning.value->isNamed() && isTelling(name))
    meaning.value->setName(name);
  frame_->names.insert_or_assign(name, std::move(meaning));
}

}  // namespace tscompile::source
