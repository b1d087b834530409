#include "ir/graph/written_operator.h"

#include "ir/support/text.h"

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

namespace tscompile {

namespace {

std::string_view identifierOf(std::string_view text) {
  return text.substr(0, text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"));
}

// Whether the bracket that opens at `open` is closed by the last character: no index or the like follows the call.
bool closesAtEnd(std::string_view text, size_t open) {
  int depth = 0;
  char quote = 0;
  for (size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (quote) {
      if (c == '\\')
        ++i;
      else if (c == quote)
        quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')' && --depth == 0) {
      return i + 1 == text.size();
    }
  }
  return false;
}

// "aten::conv2d" of "%y : Tensor = aten::conv2d(%x)", and in an archive's code of "torch.conv2d(x, w)" and
// "ops.aten.conv2d(x, w)"; empty: it is no call of an operator.
std::string calledIn(std::string_view text) {
  constexpr std::string_view kIs = " = ", kTorch = "torch.", kOps = "ops.";
  const auto named = [](std::string_view space, std::string_view name) {
    return std::string(space) + "::" + std::string(name);
  };
  if (text.starts_with(kTorch)) {
    const std::string_view name = identifierOf(text.substr(kTorch.size()));
    const size_t open = kTorch.size() + name.size();
    return text.substr(open).starts_with('(') && closesAtEnd(text, open) ? named("aten", name) : "";
  }
  if (text.starts_with(kOps)) {
    const std::string_view space = identifierOf(text.substr(kOps.size()));
    return named(space, identifierOf(text.substr(std::min(text.size(), kOps.size() + space.size() + 1))));
  }
  const size_t is = text.find(kIs);
  if (is == std::string_view::npos) return "";
  const std::string_view call = text.substr(is + kIs.size());
  return std::string(call.substr(0, call.find_first_of("([ \n")));
}

}  // namespace

std::string writtenOperator(const Node& node) {
  const std::string_view own = node.kind().text();
  const size_t name = own.rfind(':') + 1;
  if (name == 0 || own.substr(name, 1) != "_" || own.substr(name, 2) == "__") return std::string(own);
  // Of the same namespace, and public.
  std::string written = calledIn(node.range.text());
  const bool isPublic = written.size() > name && written.starts_with(own.substr(0, name)) && written[name] != '_';
  return isPublic ? written : std::string(own);
}

std::string calledOperator(const Node& node) {
  const std::string_view space = node.kind().nameSpace();
  std::string called = space.empty() ? "" : calledIn(node.range.text());
  const bool isOfSpace = called.size() > space.size() && called.starts_with(space) && called[space.size()] == ':';
  return isOfSpace ? called : std::string(node.kind().text());
}

std::string nearestOperator(const Graph& graph, std::string_view asked) {
  const bool isShort = asked.find(':') == std::string_view::npos;
  NearestName nearest(asked);
  std::string same;                                        // another one's name is the same but for the namespace
  std::map<std::string, std::string, std::less<>> wholes;  // by what is held against the name
  forEachNode(graph, [&](const Node* n) {
    const std::string own(n->kind().text());
    for (const std::string& whole : {own, writtenOperator(*n)}) {
      const std::string known = isShort ? whole.substr(whole.rfind(':') + 1) : whole;
      if (known == asked) same = whole;
      nearest.consider(known);
      wholes.emplace(known, whole);
    }
  });
  if (!same.empty()) return same;
  return nearest.found() ? wholes.at(nearest.name()) : "";
}

std::string someOperators(const Graph& graph) {
  constexpr size_t kMost = 6;
  constexpr std::string_view kStructure = "prim";
  std::vector<std::string> names;
  forEachNode(graph, [&](const Node* n) {
    const std::string name = writtenOperator(*n);
    if (!name.starts_with(kStructure) && std::ranges::count(names, name) == 0) names.push_back(name);
  });
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) out += (i ? ", " : "") + names[i];
  return names.size() > kMost ? out + " and " + std::to_string(names.size() - kMost) + " more" : out;
}

}  // namespace tscompile
