#include "ir/graph/operation_text.h"

#include "ir/graph/printer.h"
#include "ir/values/literal.h"

#include <array>

namespace tscompile {

SubgraphNumbers::SubgraphNumbers(const Graph& graph) {
  forEachNode(graph, [&](const Node* n) {
    if (!n->subgraph() || n->kind() == sym::PythonOp) return;
    numbers_[n] = nodes_.size();
    nodes_.push_back(n);
  });
}

namespace {

// Names that both aten and prim have: those of prim stay whole.
bool isShared(std::string_view name) {
  static constexpr std::array<std::string_view, 7> kShared = {"abs", "data", "device", "grad", "index", "max", "min"};
  return std::find(kShared.begin(), kShared.end(), name) != kShared.end();
}

std::string_view shortKind(Symbol kind) {
  std::string_view space = kind.nameSpace();
  if (space == "aten" || (space == "prim" && !isShared(kind.name()))) return kind.name();
  return kind.text();
}

}  // namespace

void SubgraphNumbers::appendName(const Node& node, std::string& out) const {
  if (node.kind() == sym::PythonOp && node.python) {
    out += '^';
    out += node.python->name;
    return;
  }
  out += shortKind(node.kind());
  auto it = numbers_.find(&node);
  if (it != numbers_.end()) out += "_" + std::to_string(it->second);
}

void SubgraphNumbers::appendCall(const Node& node, std::string& out) const {
  appendName(node, out);
  appendAttributes(node, numbers_.contains(&node), 1, out);
}

void forEachSubgraph(const Graph& graph, std::string& out,
                     const std::function<bool(const Graph&, const SubgraphNumbers&)>& write) {
  struct Open {
    SubgraphNumbers numbers;
    size_t next = 0;
  };
  std::vector<Open> stack;
  stack.push_back({SubgraphNumbers(graph)});
  if (!write(graph, stack.back().numbers)) return;
  while (!stack.empty()) {
    Open& top = stack.back();
    if (top.next == top.numbers.nodes().size()) {
      stack.pop_back();
      continue;
    }
    const Node* n = top.numbers.nodes()[top.next++];
    out += "with ";
    top.numbers.appendName(*n, out);
    out += " = ";
    const Graph& inner = *n->subgraph();
    stack.push_back({SubgraphNumbers(inner)});
    if (!write(inner, stack.back().numbers)) return;
  }
}

void appendShortName(const Value& value, std::string& out) {
  if (!value.isNamed()) out += '%';
  value.appendName(out);
}

void appendConstant(const Node& constant, std::string& out) {
  const IValue* v = constant.attributeValue(sym::value);
  if (!v) v = constant.attributeValue(sym::name);  // of a function
  if (!v) {
    out += "None";
  } else if (v->isLiteral() || (v->isTensor() && v->toTensor().defined() && v->toTensor().numel() != 1)) {
    appendShortName(*constant.output(), out);
  } else if (constant.output()->type()->kind() == TypeKind::Bool && v->isInt()) {
    out += v->toInt() ? "True" : "False";
  } else if (v == constant.attributeValue(sym::name) && v->isString()) {
    out += v->toString();
  } else {
    appendValue(*v, LiteralStyle::Plain, out);
  }
}

namespace {

using OperatorTable = std::unordered_map<Symbol, OperatorText>;

const OperatorTable& binaryOperators() {
  using namespace binding;
  static const OperatorTable kTable = [] {
    OperatorTable t;
    auto add = [&t](std::string_view name, std::string_view text, int binding) {
      t[Symbol::of("aten::" + std::string(name))] = {text, binding};
    };
    add("add", " + ", kSum);
    add("sub", " - ", kSum);
    add("mul", " * ", kProduct);
    add("div", " / ", kProduct);
    add("floordiv", " // ", kProduct);
    add("remainder", " % ", kProduct);
    add("matmul", " @ ", kProduct);
    add("pow", " ** ", kPower);
    add("eq", " == ", kComparison);
    add("ne", " != ", kComparison);
    add("lt", " < ", kComparison);
    add("gt", " > ", kComparison);
    add("le", " <= ", kComparison);
    add("ge", " >= ", kComparison);
    add("__is__", " is ", kComparison);
    add("__isnot__", " is not ", kComparison);
    add("__and__", " & ", kAnd);
    add("__or__", " | ", kOr);
    add("__xor__", " ^ ", kXor);
    add("__lshift__", " << ", kShift);
    add("__rshift__", " >> ", kShift);
    t[Symbol::of("aten::__contains__")] = {" in ", kComparison, false, true};
    return t;
  }();
  return kTable;
}

const OperatorTable& prefixOperators() {
  static const OperatorTable kTable = {
      {Symbol::of("aten::neg"), {"-", binding::kSign, true}},
      {Symbol::of("aten::bitwise_not"), {"~", binding::kSign, true}},
      {Symbol::of("aten::__not__"), {"not ", binding::kNot, true}},
  };
  return kTable;
}

// The alpha of sums that says nothing.
bool isOne(const Value* value) {
  const Node* n = value->node();
  if (!n || n->kind() != sym::Constant) return false;
  const IValue* v = n->attributeValue(sym::value);
  return v && v->isInt() && v->toInt() == 1;
}

}  // namespace

const OperatorText* operatorOf(const Node& node) {
  size_t count = node.inputCount();
  if (!node.attributes().empty() || count == 0 || count > 3) return nullptr;
  const OperatorTable& table = count == 1 ? prefixOperators() : binaryOperators();
  auto it = table.find(node.kind());
  if (it == table.end()) return nullptr;
  if (count == 3 && (it->second.binding != binding::kSum || !isOne(node.input(2)))) return nullptr;
  return &it->second;
}

}  // namespace tscompile
