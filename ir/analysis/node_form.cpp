#include "ir/analysis/node_form.h"

#include "ir/support/text.h"

#include <climits>
#include <unordered_map>

namespace tscompile {
namespace {

struct Range {
  uint32_t least, most;
};
constexpr uint32_t kMany = UINT_MAX;
constexpr Range kAny{0, kMany}, kZero{0, 0}, kOne{1, 1};

struct Form {
  const char* kind;
  Range inputs, outputs, blocks = kZero;
};
constexpr Form kForms[] = {
    {"prim::Constant", kZero, kOne},
    {"prim::If", kOne, kAny, {2, 2}},
    {"prim::Loop", {2, kMany}, kAny, kOne},
    {"prim::ListConstruct", kAny, kOne},
    {"prim::ListUnpack", kOne, kAny},
    {"prim::TupleConstruct", kAny, kOne},
    {"prim::TupleUnpack", kOne, kAny},
    {"prim::TupleIndex", {2, 2}, kOne},
    {"prim::TupleSlice", kOne, kOne},
    {"prim::DictConstruct", kAny, kOne},
    {"prim::GetAttr", kOne, kOne},
    {"prim::SetAttr", {2, 2}, kZero},
    {"prim::CallMethod", {1, kMany}, kAny},
    {"prim::CallFunction", {1, kMany}, kAny},
    {"prim::CreateObject", kZero, kOne},
    {"prim::Enter", kOne, {0, 1}},
    {"prim::Exit", kOne, {0, 1}},
    {"prim::EnumName", kOne, kOne},
    {"prim::EnumValue", kOne, kOne},
    {"prim::isinstance", kOne, kOne},
    {"prim::unchecked_cast", kOne, kOne},
    {"prim::unchecked_unwrap_optional", kOne, kOne},
    {"prim::Uninitialized", kZero, kAny},
    {"prim::RaiseException", kAny, kAny},
    {"prim::Print", kAny, kAny},
    {"prim::profile", kAny, kAny},
    {"prim::ConstantChunk", kOne, kAny},
    {"prim::tolist", {3, 3}, kOne},
    {"prim::awaitable_wait", kOne, kOne},
    {"prim::awaitable_nowait", kOne, kOne},
    {"aten::wait", kOne, kOne},
};

const Form* formOf(Symbol kind) {
  static const auto kTable = [] {
    std::unordered_map<Symbol, const Form*> table;
    for (const Form& f : kForms) table.emplace(Symbol::of(f.kind), &f);
    return table;
  }();
  auto it = kTable.find(kind);
  return it == kTable.end() ? nullptr : it->second;
}

std::string mismatch(const Node& n, const Range& range, size_t found, const char* verb, const char* thing) {
  if (found >= range.least && found <= range.most) return "";
  const char* bound = range.least == range.most ? "" : found < range.least ? "at least " : "at most ";
  uint32_t wanted = found < range.least ? range.least : range.most;
  return std::string(n.kind().text()) + " " + verb + " " + bound + counted(wanted, thing) + ", not " +
         std::to_string(found);
}

// An engine computes its subgraph, whatever a text or a file says of the node around it.
std::string engineProblem(const Node& n) {
  const Graph* inside = n.subgraph();
  if (!inside) return "";
  if (size_t wanted = inside->inputs().size(); wanted != n.inputCount())
    return "the subgraph of this engine takes " + counted(wanted, "input") + ", not " + std::to_string(n.inputCount());
  if (size_t given = inside->outputs().size(); given != n.outputCount())
    return "the subgraph of this engine has " + counted(given, "output") + ", not " + std::to_string(n.outputCount());
  return "";
}

}  // namespace

std::string formProblem(const Node& n) {
  if (n.kind() == sym::Engine) return engineProblem(n);
  const Form* form = formOf(n.kind());
  if (!form) return "";
  std::string problem = mismatch(n, form->inputs, n.inputCount(), "takes", "input");
  if (problem.empty()) problem = mismatch(n, form->outputs, n.outputCount(), "has", "output");
  if (problem.empty()) problem = mismatch(n, form->blocks, n.blocks().size(), "has", "block");
  return problem;
}

bool hasForm(Symbol kind) { return formOf(kind) != nullptr; }

bool isReservedKind(Symbol kind) { return kind == sym::Return || kind == sym::PythonOp; }

}  // namespace tscompile
