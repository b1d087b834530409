#include "ir/graph/written_operator.h"

#include "ir/support/text.h"

#include <functional>
#include <map>

namespace tscompile {

std::string_view writtenOperator(const Node& node) {
  const std::string_view own = node.kind().text();
  const size_t name = own.rfind(':') + 1;
  if (name == 0 || own.substr(name, 1) != "_" || own.substr(name, 2) == "__") return own;
  // "%y : Tensor = aten::conv2d(%x)": of the same namespace, and public.
  const std::string_view text = node.range.text();
  constexpr std::string_view kIs = " = ";
  const size_t is = text.find(kIs);
  if (is == std::string_view::npos) return own;
  const std::string_view call = text.substr(is + kIs.size());
  const std::string_view written = call.substr(0, call.find_first_of("([ \n"));
  const bool isPublic = written.size() > name && written.starts_with(own.substr(0, name)) && written[name] != '_';
  return isPublic ? written : own;
}

std::string nearestOperator(const Graph& graph, std::string_view asked) {
  const bool isShort = asked.find(':') == std::string_view::npos;
  NearestName nearest(asked);
  std::map<std::string, std::string, std::less<>> wholes;  // by what is held against the name
  forEachNode(graph, [&](const Node* n) {
    const std::string_view whole = n->kind().text(), known = isShort ? whole.substr(whole.rfind(':') + 1) : whole;
    nearest.consider(known);
    wholes.emplace(known, whole);
  });
  return nearest.found() ? wholes.at(nearest.name()) : "";
}

}  // namespace tscompile
