#include "tools/tasks/refusals.h"

#include "ir/graph/node_text.h"
#include "ir/support/text.h"
#include "partition/partition.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {

std::vector<std::string> refusalTexts(const RefusalWatch& watch) {
  struct Told {
    std::string text, why;
    uint64_t more = 0;
  };
  std::vector<Told> all;  // in the order of the first of each reason
  for (const RefusalWatch::Row& row : watch.rows()) {
    const std::string why = row.refusal ? row.refusal->verdict.detail : "its inputs do not fit it";
    if (auto told = std::ranges::find(all, why, &Told::why); told != all.end()) {
      ++told->more;
      continue;
    }
    const GivenNodes given(*row.graph);
    size_t nodes = 0;
    forEachNode(*row.graph, [&](const Node* n) { nodes += !given.contains(n); });
    std::string text = "an engine of " + counted(nodes, "node") + " was left to the interpreter";
    if (row.nodes)
      text = fmt::format("{} of {} of an engine {} left to the interpreter", row.nodes, counted(nodes, "node"),
                         row.nodes == 1 ? "was" : "were");
    if (row.calls > 1) text += " " + std::to_string(row.calls) + " times";
    text += ": " + (row.refusal && row.refusal->node ? placeName(row.refusal->node) + ": " : "") + why;
    all.push_back({std::move(text), why});
  }
  std::vector<std::string> texts;
  for (Told& told : all)
    texts.push_back(told.more ? fmt::format("{}; and so in {}", told.text, counted(told.more, "other place"))
                              : told.text);
  return texts;
}

}  // namespace tscompile
