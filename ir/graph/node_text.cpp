#include "ir/graph/node_text.h"

#include "ir/graph/written_operator.h"

namespace tscompile {

std::string valueName(const Value* value) { return "%" + value->name(); }

std::string nodeName(const Node* node) {
  std::string kind = writtenOperator(*node);
  return node->outputCount() ? kind + " (" + valueName(node->output()) + ")" : kind;
}

std::string shortName(const Node* node) {
  return node->outputCount() ? valueName(node->output(0)) : std::string(node->kind().text());
}

std::string placeName(const Node* node) {
  std::string inside = node->outputCount() ? valueName(node->output()) : "";
  if (uint32_t line = lineOf(node)) inside += (inside.empty() ? "line " : ", line ") + std::to_string(line);
  std::string kind = writtenOperator(*node);
  return inside.empty() ? kind : kind + " (" + inside + ")";
}

uint32_t lineOf(const Node* node) {
  return node->range.valid() ? node->range.file->lineColumn(node->range.begin).line : 0;
}

}  // namespace tscompile
