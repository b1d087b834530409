#include "ir/graph/dot.h"

#include "ir/graph/operation_text.h"
#include "ir/graph/side_table.h"

#include <vector>

namespace tscompile {
namespace {

class DotWriter {
 public:
  DotWriter(const Graph& graph, BoundedText& out) : graph_(graph), numbers_(graph), out_(out), order_(graph) {}

  void write(std::string_view name) {
    out_.text += "digraph ";
    quote(name);
    out_.text += " {\n  node [shape=box];\n";
    parameters(graph_.block());
    block(graph_.block());
    for (const std::string& e : edges_) {
      out_.text += e;
      out_.flushIfLong();
    }
    out_.text += "}\n";
  }

 private:
  void quote(std::string_view text) {
    out_.text += '"';
    for (char c : text) {
      if (c == '"' || c == '\\') out_.text += '\\';
      c == '\n' ? out_.text += "\\n" : out_.text += c;
    }
    out_.text += '"';
  }
  std::string idOf(const Node* n) {
    if (!order_[n]) order_[n] = ++count_;
    return "n" + std::to_string(order_[n]);
  }
  // What the edges of a value start from.
  std::string sourceOf(const Value* v) { return v->node() ? idOf(v->node()) : "\"%" + v->name() + "\""; }

  void parameters(const Block* b) {
    for (const Value* v : b->parameters()) {
      out_.text += "  \"%" + v->name() + "\" [shape=oval, label=";
      quote("%" + v->name() + " : " + typeText(v->type()));
      out_.text += "];\n";
    }
  }

  // Blocks inside from an explicit stack.
  void block(const Block* outermost) {
    struct Open {
      const Node* owner;  // null: the outermost block
      size_t index;
      const Node* next;
    };
    std::vector<Open> open{{nullptr, 0, outermost->first()}};
    while (!open.empty() && !out_.full()) {
      Open& top = open.back();
      if (const Node* n = top.next) {
        top.next = n->next();
        if (n->kind() != sym::Constant) node(n);
        if (n->hasBlocks()) open.push_back({n, 0, beginFrame(n, 0)});
        continue;
      }
      result(top.owner ? top.owner->block(top.index) : outermost);
      if (top.owner) out_.text += "  }\n";
      if (top.owner && ++top.index < top.owner->blocks().size())
        top.next = beginFrame(top.owner, top.index);
      else
        open.pop_back();
    }
  }
  // Returns the first node inside.
  const Node* beginFrame(const Node* owner, size_t index) {
    out_.text += "  subgraph cluster" + std::to_string(++frames_) + " {\n  label=";
    quote("block" + std::to_string(index) + " of " + std::string(owner->kind().text()));
    out_.text += ";\n";
    parameters(owner->block(index));
    return owner->block(index)->first();
  }

  void node(const Node* n) {
    std::string label;
    numbers_.appendCall(*n, label);
    std::string constants;
    for (const Use& u : n->inputs())
      if (u.value->node() && u.value->node()->kind() == sym::Constant) {
        constants += constants.empty() ? "\n" : ", ";
        appendConstant(*u.value->node(), constants);
      }
    out_.text += "  " + idOf(n) + " [label=";
    quote(label + constants);
    out_.text += "];\n";
    inputs(n);
    out_.flushIfLong();
  }
  void result(const Block* b) {
    if (b->results().empty()) return;
    out_.text += "  " + idOf(b->returnNode()) + " [shape=oval, label=\"return\"];\n";
    inputs(b->returnNode());
  }
  void inputs(const Node* n) {
    for (const Use& u : n->inputs()) {
      const Node* from = u.value->node();
      if (from && from->kind() == sym::Constant) {
        if (!n->isReturn()) continue;
        out_.text += "  " + idOf(from) + " [label=";
        std::string text;
        appendConstant(*from, text);
        quote(text);
        out_.text += "];\n";
      }
      std::string edge = "  " + sourceOf(u.value) + " -> " + idOf(n);
      if (from) edge += " [label=\"%" + u.value->name() + "\"]";
      edges_.push_back(edge + ";\n");
    }
  }

  const Graph& graph_;
  SubgraphNumbers numbers_;
  BoundedText& out_;
  NodeTable<uint32_t> order_;
  uint32_t count_ = 0, frames_ = 0;
  std::vector<std::string> edges_;  // after all frames: an edge makes its ends members of the frame it stands in
};

}  // namespace

bool printDot(const Graph& graph, std::string_view name, const TextSink& sink, uint64_t maxBytes) {
  BoundedText out(sink, maxBytes);
  DotWriter(graph, out).write(name);
  return out.flush();
}

std::string dotText(const Graph& graph, std::string_view name) {
  std::string text;
  printDot(graph, name, [&text](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace tscompile
