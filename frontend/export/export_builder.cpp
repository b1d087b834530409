#include "frontend/export/export_builder.h"

#include "ir/graph/printer.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace tscompile::exported {
namespace {

// The last frame of a Python stack trace: `File "net.py", line 12, in forward`.
CodeLocation locationOf(std::string_view trace) {
  constexpr std::string_view kFile = "File \"", kLine = "\", line ";
  size_t file = trace.rfind(kFile);
  if (file == std::string_view::npos) return {};
  trace.remove_prefix(file + kFile.size());
  size_t quote = trace.find(kLine);
  if (quote == std::string_view::npos || trace.substr(0, quote).find_first_of("\n:#,") != std::string_view::npos)
    return {};
  CodeLocation location;
  std::string_view digits = trace.substr(quote + kLine.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), location.line);
  location.file = Symbol::of(trace.substr(0, quote));
  return location;
}

// "L__self__,,net.Net;L__self__fc,fc,torch.nn.Linear" as a trace prints it: "net.Net::/torch.nn.Linear::fc".
Symbol scopeOf(std::string_view stack) {
  std::string out;
  std::string_view around;
  while (!stack.empty()) {
    std::string_view entry = stack.substr(0, stack.find(';'));
    stack.remove_prefix(std::min(entry.size() + 1, stack.size()));
    size_t path = entry.find(','), type = entry.rfind(',');
    constexpr std::string_view kNone = "_empty_nn_module_stack_from_metadata_hook";
    if (path == std::string_view::npos || path == type || entry.substr(0, path) == kNone) continue;
    std::string_view name = entry.substr(path + 1, type - path - 1);
    // Lists of modules are not called themselves: "layers.0" inside of the whole.
    const bool isInside =
        !around.empty() && name.size() > around.size() && name.starts_with(around) && name[around.size()] == '.';
    if (!out.empty()) out += '/';
    out += std::string(entry.substr(type + 1)) + "::" + std::string(isInside ? name.substr(around.size() + 1) : name);
    around = name;
  }
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/";
  return out.empty() || out.find_first_not_of(kPlain) != std::string::npos ? Symbol() : Symbol::of(out);
}

}  // namespace

ExportBuilder::ExportBuilder(const OpRegistry& registry, Diagnostics& diagnostics, UnknownOperators unknown)
    : registry_(registry),
      diagnostics_(diagnostics),
      unknown_(unknown),
      graph_(std::make_unique<Graph>()),
      block_(graph_->block()) {}

bool ExportBuilder::takesUnknown(std::string_view kind) {
  if (unknown_ == UnknownOperators::Kept) return true;
  if (!unknownMet_.emplace(kind).second) return false;
  const SourceRange at = node_.range();
  Diagnostic& d =
      diagnostics_.fileError(at.file ? at.file->path() : "", {},
                             fmt::format("unknown operator {}", abbreviate(kind, 100)), ErrorKind::Unsupported);
  adviseUnknown(d, registry_, kind);
  d.note(fmt::format("in the node '{}' that calls {}", abbreviate(textOf(node_.find("name")), 80),
                     abbreviate(textOf(node_.find("target")), 200)));
  if (location_.present())
    d.note(fmt::format("written at {}:{} of the model's own source", location_.file.text(), location_.line));
  return false;
}

bool ExportBuilder::fail(Json at, std::string message, ErrorKind kind) {
  if (!at) at = node_;
  Diagnostic& d = diagnostics_.error(at ? at.range() : SourceRange{}, std::move(message), kind);
  if (std::string_view target = textOf(node_.find("target")); !target.empty())
    d.note(fmt::format("in the node '{}' that calls {}", abbreviate(textOf(node_.find("name")), 80),
                       abbreviate(target, 200)));
  return false;
}

void ExportBuilder::remark(Json at, std::string message) { diagnostics_.remark(at.range(), std::move(message)); }

void ExportBuilder::setNode(Json node) {
  node_ = node;
  Json metadata = node.find("metadata");
  location_ = locationOf(textOf(metadata.find("stack_trace")));
  scope_ = scopeOf(textOf(metadata.find("nn_module_stack")));
}

void ExportBuilder::enterScope(Json json) {
  Scope& scope = scopes_.emplace_back();
  for (Json meta : items(json.find("tensor_values"))) scope.tensors.emplace(meta.key(), meta);
}

void ExportBuilder::leaveScope() { scopes_.pop_back(); }

void ExportBuilder::bind(std::string_view name, Value* value) { scopes_.back().values[name] = value; }

void ExportBuilder::bindAttribute(std::string_view name, std::string_view path) {
  scopes_.back().attributes[name] = path;
}

std::string ExportBuilder::attributePath(std::string_view name) const {
  const auto& attributes = scopes_.back().attributes;
  auto at = attributes.find(name);
  return at == attributes.end() ? std::string() : std::string(at->second);
}

Value* ExportBuilder::find(Json name) {
  std::string_view text = textOf(name);
  Scope& scope = scopes_.back();
  if (auto at = scope.values.find(text); at != scope.values.end()) return at->second;  // null: was reported
  auto attribute = scope.attributes.find(text);
  if (attribute == scope.attributes.end()) {
    fail(name, fmt::format("there is no value '{}' before this place", abbreviate(text, 80)));
    return nullptr;
  }
  Builder builder = atStart();
  Node* n = builder.insert(sym::GetAttr, {graph_->input(0)});
  n->setAttribute(sym::name, IValue(attribute->second));
  ExportBuilder::name(n->output(), attribute->second);
  return scope.values[text] = n->output();
}

TypePtr ExportBuilder::tensorTypeOf(std::string_view name) const {
  auto at = scopes_.back().tensors.find(name);
  return at == scopes_.back().tensors.end() ? types().tensor : tensorType(factsOf(metaOf(at->second)));
}

Builder ExportBuilder::atStart() { return Builder(*graph_, firstNode_ ? firstNode_ : graph_->returnNode()); }

Node* ExportBuilder::insert(Symbol kind, std::span<Value* const> inputs, size_t outputs) {
  Node* n = graph_->create(kind, inputs, outputs);
  block_->append(n);
  if (!firstNode_) firstNode_ = n;
  n->location = location_;
  n->scope = scope_;
  return n;
}

Value* ExportBuilder::call(std::string_view kind, std::span<Value* const> inputs, Json at) {
  Node* n = insert(Symbol::of(kind), inputs, 1);
  TypeBindings bindings;
  const Operator* op = registry_.resolve(*n, &bindings);
  TypePtr type = nullptr;
  if (op && op->schema().returns.size() == 1) type = substituteTypeVariables(op->schema().returns[0].type, bindings);
  if (!type) {
    std::string given = join(inputs, ", ", [](Value* v) { return typeText(v->type()); });
    fail(at, fmt::format("{} cannot take ({})", kind, given));
    return nullptr;
  }
  n->output()->setType(type);
  return n->output();
}

Value* ExportBuilder::constant(const IValue& value, TypePtr type) {
  if (value.isList() && value.toList().items.empty()) return list({}, type->element());
  if (!type) type = value.isNone() ? types().none : dynamicType(value);
  Builder builder = atStart();
  Value* made = builder.constant(value, type);
  // The printed constant tells values apart as text does; what is known already goes again.
  std::string text = typeText(type);
  appendAttributes(*made->node(), false, 3, text);
  auto [at, isNew] = constants_.emplace(std::move(text), made);
  if (!isNew) made->node()->destroy();
  return at->second;
}

Value* ExportBuilder::list(std::span<Value* const> elements, TypePtr elementType) {
  Value* v = insert(sym::ListConstruct, elements, 1)->output();
  v->setType(listType(elementType));
  return v;
}

void ExportBuilder::dropUnused() {
  auto isUnused = [](const Node* n) {
    return std::none_of(n->outputs().begin(), n->outputs().end(), [](const Value* v) { return v->hasUses(); });
  };
  for (size_t i = droppable_.size(); i-- > 0;)
    if (isUnused(droppable_[i])) droppable_[i]->destroy();
  droppable_.clear();
}

void ExportBuilder::name(Value* value, std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  constexpr std::string_view kRest = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.";
  constexpr size_t kLongest = 1000;
  if (text.empty() || text.size() > kLongest || text.find_first_not_of(kRest) != std::string_view::npos) return;
  if (kLetters.find(text[0]) == std::string_view::npos) return;
  value->setName(text);
}

}  // namespace tscompile::exported
