#include "tools/reports/graph_summary.h"

#include "ir/graph/text_graphs.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace tscompile {
namespace {

// Paths of attributes below the graph's inputs: "layer1.0.conv1.weight".
class AttributePaths {
 public:
  explicit AttributePaths(const Graph& graph) {
    for (const Value* v : graph.inputs()) paths_.emplace(v, "");
  }

  // The path that this node reads, if it is one of a chain from an input; chains come in text order.
  const std::string* add(const Node& n) {
    if (n.kind() != sym::GetAttr || n.inputCount() != 1 || n.outputCount() != 1) return nullptr;
    const IValue* name = n.attributeValue(sym::name);
    auto from = paths_.find(n.input(0));
    if (!name || !name->isString() || from == paths_.end()) return nullptr;
    // Long chains of long names would add up to more than the text.
    if (from->second.size() > kMostBytes) return nullptr;
    std::string path = from->second.empty() ? name->toString() : from->second + "." + name->toString();
    return &paths_.insert_or_assign(n.output(), std::move(path)).first->second;
  }

 private:
  static constexpr size_t kMostBytes = 4096;
  std::unordered_map<const Value*, std::string> paths_;
};

bool isSubmodule(const Value* v) {
  TypePtr t = v->type();
  if (t->is(TypeKind::Class) || t->is(TypeKind::Interface)) return true;
  if (!t->isTensor() || !v->hasUses()) return false;
  for (Use& u : v->uses())
    if (u.user->kind() != sym::GetAttr) return false;
  return true;  // texts without types
}

}  // namespace

GraphSummary summarize(const Graph& graph) {
  GraphSummary s;
  for (const Value* v : graph.inputs()) s.inputs.push_back({v->name(), typeText(v->type())});
  for (const Use& u : graph.outputs()) s.outputs.push_back({u.value->name(), typeText(u.value->type())});
  std::map<std::string, size_t> kinds;
  std::set<std::string> seen;
  forEachGraph({&graph}, [&](const Graph& g) {
    s.subgraphs += &g != &graph;
    AttributePaths paths(g);
    const Block* at = g.block();
    size_t depth = 0;
    forEachNode(g, [&](Node* n) {
      // From block to block as the walk goes: counting each node's depth from the top takes quadratic time.
      while (at != n->block()) {
        Node* owner = n->block()->owner();
        bool isInside = owner && owner->block() == at;
        at = isInside ? n->block() : at->owner()->block();
        depth += isInside ? 1 : -1;
      }
      ++s.nodes;
      ++kinds[n->python ? "^" + n->python->name : std::string(n->kind().text())];
      s.depth = std::max(s.depth, depth);
      if (n->kind() == sym::Constant && n->outputCount() == 1) {
        ++s.constants;
        const IValue* v = n->attributeValue(sym::value);
        if (v && v->isLiteral() && v->toLiteral().kind == LiteralValue::Kind::MissingTensor)
          s.missing.push_back({n->output()->name(), typeText(n->output()->type())});
      }
      if (&g != &graph) return;
      if (const std::string* path = paths.add(*n); path && !isSubmodule(n->output()) && seen.insert(*path).second)
        s.attributes.push_back({*path, typeText(n->output()->type())});
    });
  });
  for (auto& [name, count] : kinds) s.operators.push_back({name, count});
  std::stable_sort(s.operators.begin(), s.operators.end(), [](auto& a, auto& b) { return a.count > b.count; });
  return s;
}

namespace {

template <class T, class Line>
void section(const char* label, const std::vector<T>& items, const std::string& margin, std::string& out, Line line) {
  for (size_t i = 0; i < items.size(); ++i)
    out += margin + fmt::format("{:<12}", i ? "" : label) + line(items[i]) + "\n";
}

}  // namespace

void writeSummary(const GraphSummary& s, const std::string& margin, std::string& out) {
  out += margin + fmt::format("{:<12}{} of {} kinds", "nodes", s.nodes, s.operators.size());
  if (s.depth) out += fmt::format(", in blocks up to {} deep", s.depth);
  if (s.subgraphs) out += fmt::format(", {} subgraph{}", s.subgraphs, s.subgraphs == 1 ? "" : "s");
  out += "\n";
  auto value = [](const GraphSummary::Named& v) { return "%" + v.name + " : " + v.type; };
  section("inputs", s.inputs, margin, out, value);
  section("outputs", s.outputs, margin, out, value);
  section("operators", s.operators, margin, out, [](auto& o) { return fmt::format("{:5} {}", o.count, o.name); });
  section("attributes", s.attributes, margin, out, [](auto& v) { return v.name + " : " + v.type; });
  section("no data", s.missing, margin, out, value);
}

}  // namespace tscompile
