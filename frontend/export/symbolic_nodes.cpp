#include "frontend/export/symbolic_nodes.h"

#include "frontend/export/arguments.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile::exported {
namespace {

struct SymbolicOperator {
  std::string_view target, kind;
};
constexpr SymbolicOperator kOperators[] = {
    {"_operator.add", "aten::add"},
    {"_operator.sub", "aten::sub"},
    {"_operator.mul", "aten::mul"},
    {"_operator.truediv", "aten::div"},
    {"_operator.floordiv", "aten::floordiv"},
    {"_operator.mod", "aten::remainder"},
    {"_operator.pow", "aten::pow"},
    {"_operator.neg", "aten::neg"},
    {"_operator.eq", "aten::eq"},
    {"_operator.ne", "aten::ne"},
    {"_operator.lt", "aten::lt"},
    {"_operator.le", "aten::le"},
    {"_operator.gt", "aten::gt"},
    {"_operator.ge", "aten::ge"},
    {"_operator.and_", "aten::__and__"},
    {"_operator.or_", "aten::__or__"},
    {"_operator.xor", "aten::__xor__"},
    {"_operator.not_", "aten::__not__"},
    {"_operator.lshift", "aten::__lshift__"},
    {"_operator.rshift", "aten::__rshift__"},
    {"math.floor", "aten::floor"},
    {"math.ceil", "aten::ceil"},
    {"math.trunc", "aten::Int"},
    {"math.sqrt", "aten::sqrt"},
    {"round", "aten::round"},
    {"builtins.round", "aten::round"},
    {"torch.sym_int", "aten::Int"},
    {"torch.sym_float", "aten::Float"},
    {"torch.sym_not", "aten::__not__"},
    {"torch.sym_min", "prim::min"},
    {"torch.sym_max", "prim::max"},
    {"torch._sym_sqrt", "aten::sqrt"},
    {"torch._sym_exp", "aten::exp"},
    {"torch._sym_log", "aten::log"},
    {"torch._sym_log2", "aten::log2"},
    {"torch._sym_sin", "aten::sin"},
    {"torch._sym_cos", "aten::cos"},
    {"torch._sym_tanh", "aten::tanh"},
    {"torch.sym_sqrt", "aten::sqrt"},
    {"torch.sym_sum", ""},  // a chain of additions
    {"torch.sym_ite", ""},  // an If
    {"_operator.pos", ""},  // the number itself
    {"_operator.getitem", ""},
};

const SymbolicOperator* findOperator(std::string_view target) {
  // PyTorch also names the wrappers that it calls: `torch.fx.experimental.symbolic_shapes.sym_max`.
  auto at = std::find_if(std::begin(kOperators), std::end(kOperators),
                         [&](const SymbolicOperator& o) { return o.target == target; });
  return at == std::end(kOperators) ? nullptr : at;
}

Value* sum(ExportBuilder& b, Value* terms, Json node) {
  Node* list = terms->node();
  if (list->kind() != sym::ListConstruct || list->inputCount() == 0) {
    b.fail(node, "the sum is not one of a list of numbers");
    return nullptr;
  }
  Value* total = list->input(0);
  for (size_t i = 1; total && i < list->inputCount(); ++i) total = b.call("aten::add", {total, list->input(i)}, node);
  return total;
}

Value* choice(ExportBuilder& b, std::span<Value* const> inputs) {
  Node* n = b.insert(sym::If, {inputs[0]}, 1);
  n->output()->setType(inputs[1]->type());
  for (size_t i : {1, 2}) n->addBlock()->addResult(inputs[i]);
  return n->output();
}

Value* element(ExportBuilder& b, std::span<Value* const> inputs, Json node) {
  TypePtr list = inputs[0]->type();
  if (!list->is(TypeKind::List)) {
    b.fail(node, "only lists have items here");
    return nullptr;
  }
  Value* v = b.insert(Symbol::of("aten::__getitem__"), inputs, 1)->output();
  v->setType(list->element());
  return v;
}

// How many inputs the targets without an operator take.
size_t arityOf(std::string_view target) {
  return target == "torch.sym_ite" ? 3 : target == "_operator.getitem" ? 2 : 1;
}

Value* compute(ExportBuilder& b, const SymbolicOperator& o, std::span<Value* const> inputs, Json node) {
  if (!o.kind.empty()) return b.call(o.kind, inputs, node);
  if (inputs.size() != arityOf(o.target)) {
    b.fail(node, fmt::format("it takes {}, not {}", counted(arityOf(o.target), "argument"), inputs.size()));
    return nullptr;
  }
  if (o.target == "torch.sym_sum") return sum(b, inputs[0], node);
  if (o.target == "torch.sym_ite") return choice(b, inputs);
  if (o.target == "_operator.getitem") return element(b, inputs, node);
  return inputs[0];
}

TypePtr numberType(std::string_view kind) {
  if (kind == "as_sym_int" || kind == "as_int") return types().integer;
  if (kind == "as_sym_float" || kind == "as_float") return types().floating;
  if (kind == "as_sym_bool" || kind == "as_bool") return types().boolean;
  return nullptr;
}

}  // namespace

bool isSymbolicTarget(std::string_view target) { return findOperator(target) != nullptr; }

Value* convertNumber(ExportBuilder& b, Value* number, std::string_view kind, Json at) {
  TypePtr wanted = numberType(kind);
  if (!wanted || number->type() == wanted) return number;
  std::string_view conversion = wanted == types().integer    ? "aten::Int"
                                : wanted == types().floating ? "aten::Float"
                                                             : "aten::Bool";
  return b.call(conversion, {number}, at);
}

bool readSymbolicNode(ExportBuilder& b, Json node, std::string_view target) {
  std::vector<Value*> inputs;
  for (Json input : items(node.find("inputs"))) {
    Value* v = readFreeArgument(b, input.find("arg"));
    if (!v) return false;
    inputs.push_back(v);
  }
  std::vector<Json> outputs = items(node.find("outputs"));
  if (outputs.size() != 1) return b.fail(node, "the node does not have one output");
  Value* result = compute(b, *findOperator(target), inputs, node);
  if (!result) return false;
  Json kind = alternative(outputs[0]);
  result = kind ? convertNumber(b, result, kind.key(), node) : nullptr;
  std::vector<Json> names = namesOf(outputs[0]);
  if (!result || names.size() != 1) return b.fail(outputs[0], "the output has no name");
  if (result->node() && !result->isNamed() && result->node()->kind() != sym::Constant)
    ExportBuilder::name(result, textOf(names[0]));
  b.bind(textOf(names[0]), result);
  return true;
}

}  // namespace tscompile::exported
