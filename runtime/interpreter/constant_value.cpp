#include "runtime/interpreter/constant_value.h"

#include "ir/support/remedy.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

// `key`: the name to supply the data by.
IValue literal(const Node* n, const LiteralValue& l, const std::string& key, Diagnostics& diagnostics) {
  std::string name = n->output()->name();
  switch (l.kind) {
    case LiteralValue::Kind::ExactTensor:
      return l.data;
    case LiteralValue::Kind::RoundedTensor:
      diagnostics.warning(n->range, fmt::format("%{} is used as printed, to about four digits", name))
          .note(textOf(Remedy(Remedy::Kind::SupplyExactTensor, {key})));
      return l.data;
    case LiteralValue::Kind::MissingTensor:
      diagnostics.error(n->range, fmt::format("the data of %{} is not part of the text", name))
          .note(textOf(Remedy(Remedy::Kind::SupplyTensor, {key})));
      return {};
    case LiteralValue::Kind::Object:
    case LiteralValue::Kind::Variable:
      diagnostics.error(n->range, fmt::format("the object behind %{} is not part of the text", name),
                        ErrorKind::Unsupported);
      return {};
  }
  return {};
}

// Replaces the literals inside of containers, which are copies.
void resolveLiterals(const Node* n, const IValue& container, Diagnostics& diagnostics) {
  std::vector<IValue> todo{container};
  auto resolve = [&](IValue& item) {
    if (!item.isLiteral()) {
      if (item.isReference()) todo.push_back(item);
    } else if (item.toLiteral().data.defined()) {
      item = item.toLiteral().data;
    } else {
      diagnostics.error(n->range,
                        fmt::format("the data of a tensor in %{} is not part of the text", n->output()->name()));
      item.reset();
    }
  };
  while (!todo.empty()) {
    IValue v = std::move(todo.back());
    todo.pop_back();
    if (v.isList())
      for (IValue& item : v.toList().items) resolve(item);
    else if (v.isTuple())
      for (IValue& item : v.toTuple().items) resolve(item);
    else if (v.isDict())
      v.toDict().forEachValue(resolve);
  }
}

}  // namespace

IValue constantValue(const Node* n, const ProgramSources& sources, Diagnostics& diagnostics) {
  auto opaque = sources.constants.find(n);
  bool isOpaque = opaque != sources.constants.end();
  if (isOpaque && opaque->second.data) return *opaque->second.data;
  if (n->output()->type()->is(TypeKind::Function)) {
    const IValue* f = n->attributeValue(sym::name);
    return Ref<FunctionValue>::make(f && f->isString() ? f->toString() : "");
  }
  const IValue* v = n->attributeValue(sym::value);
  if (!v) {
    if (n->hasAttribute(sym::value))
      diagnostics.error(n->range, "a constant that is a type or a graph cannot be run", ErrorKind::Unsupported);
    return {};
  }
  if (v->isLiteral())
    return literal(n, v->toLiteral(), isOpaque ? opaque->second.key : n->output()->name(), diagnostics);
  if (!v->isList() && !v->isTuple() && !v->isDict()) return *v;
  IValue copy = copyContainers(*v, true);  // all runs share it
  resolveLiterals(n, copy, diagnostics);
  return copy;
}

}  // namespace tscompile
