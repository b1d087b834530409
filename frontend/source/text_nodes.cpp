#include "frontend/source/text_nodes.h"

#include "frontend/text/parse.h"
#include "ir/graph/clone.h"
#include "ir/support/check.h"

namespace tscompile {

Value* insertText(std::string_view body, const NamedOperands& operands, Node* point, const Node* of) {
  std::string text = "graph(";
  for (const auto& [name, value] : operands) {
    text.append(text.back() == '(' ? "%" : ", %").append(name).append(" : ");
    text.append(value->type()->isTensor() ? "Tensor" : typeText(value->type()));
  }
  text.append("):").append(body).append("  return (%y)\n");
  Diagnostics problems;
  Result<std::unique_ptr<Graph>> parsed = parseGraph(text, problems);
  TS_CHECK(parsed.ok());
  const Graph& from = **parsed;
  ValueMap values;
  for (size_t i = 0; i < operands.size(); ++i) values[from.input(i)] = operands[i].second;
  Node* last = point->previous();
  cloneNodesBefore(*from.block(), point, values);
  for (Node* made = last ? last->next() : point->block()->first(); made && made != point; made = made->next())
    made->copyPlace(of);
  return values.at(from.output(0));
}

}  // namespace tscompile
