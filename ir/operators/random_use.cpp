#include "ir/operators/random_use.h"

#include "ir/graph/node.h"

namespace tscompile {
namespace {

bool isSwitch(std::string_view name) {
  return name == "train" || name == "training" || name == "dropout" || name == "dropout_p";
}

bool isOff(const Value* v) {
  const Node* n = v->node();
  if (!n || n->kind() != sym::Constant) return false;
  const IValue* value = n->attributeValue(sym::value);
  if (!value) return false;
  return value->isBool() ? !value->toBool() : value->isFloat() && value->toFloat() == 0;
}

}  // namespace

bool mayDrawNothing(const Operator& op) {
  if (!op.isImplemented() || !op.def().random) return false;
  for (const Argument& a : op.schema().arguments)
    if (isSwitch(a.name)) return true;
  return false;
}

bool drawsRandom(const Node& node, const Operator& op) {
  if (!op.isImplemented() || !op.def().random) return false;
  const std::vector<Argument>& arguments = op.schema().arguments;
  for (size_t i = 0; i < arguments.size() && i < node.inputCount(); ++i)
    if (isSwitch(arguments[i].name) && isOff(node.input(i))) return false;
  return true;
}

}  // namespace tscompile
