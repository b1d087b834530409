#include "tools/tasks/refusals.h"

#include "ir/graph/node_text.h"
#include "ir/support/text.h"
#include "partition/partition.h"

#include <fmt/core.h>

namespace tscompile {

std::vector<std::string> refusalTexts(const RefusalWatch& watch) {
  std::vector<std::string> texts;
  for (const RefusalWatch::Row& row : watch.rows()) {
    const GivenNodes given(*row.graph);
    size_t nodes = 0;
    forEachNode(*row.graph, [&](const Node* n) { nodes += !given.contains(n); });
    std::string text = "an engine of " + counted(nodes, "node") + " was left to the interpreter";
    if (row.nodes)
      text = fmt::format("{} of {} of an engine were left to the interpreter", row.nodes, counted(nodes, "node"));
    if (row.calls > 1) text += " " + std::to_string(row.calls) + " times";
    if (!row.refusal)
      text += ": its inputs do not fit it";
    else
      text += ": " + (row.refusal->node ? placeName(row.refusal->node) + ": " : "") + row.refusal->verdict.detail;
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace tscompile
