#include "ir/graph/expression.h"
#include "ir/graph/operation_text.h"

#include <optional>

namespace tscompile {
namespace {

// A: 0, Z: 25, BA: 26.
std::string letters(size_t number) {
  std::string out;
  do out.insert(out.begin(), static_cast<char>('A' + number % 26));
  while (number /= 26);
  return out;
}

// Shows nodes with what is below them, from an explicit stack.
class TreeWriter {
 public:
  TreeWriter(const SubgraphNumbers& numbers, BoundedText& out) : numbers_(numbers), out_(out) {}

  void write(const Graph& graph) {
    out_.text += "graph";
    open(*graph.block());
    run();
  }
  void write(const Value* value) {
    show(value, "");
    run();
  }

 private:
  // What has lines below it: the inputs and blocks of a node, or what stands in a block.
  struct Open {
    const Node* node = nullptr;  // or
    const Block* block = nullptr;
    std::vector<const Node*> unused = {};  // nodes of the block whose outputs nothing uses
    size_t next = 0;
    size_t margin = 0;  // how much of the margin its lines share

    size_t count() const {
      return node ? node->inputCount() + node->blocks().size() : unused.size() + block->results().size();
    }
  };

  void run() {
    while (!stack_.empty() && !out_.full()) {
      Open& top = stack_.back();
      if (top.next == top.count()) {
        stack_.pop_back();
        continue;
      }
      child(top.next++);
      out_.flushIfLong();
    }
    out_.flush();
  }

  void child(size_t i) {
    Open& top = stack_.back();
    bool last = i + 1 == top.count();
    margin_.resize(top.margin);
    writeMargin();
    out_.text += " |";
    margin_ += last ? "  " : " |";
    if (top.block) {
      bool isResult = i >= top.unused.size();
      if (isResult)
        show(top.block->result(i - top.unused.size()), "-> ");
      else
        show(*top.unused[i], std::nullopt);
    } else if (i < top.node->inputCount()) {
      show(top.node->input(i), "");
    } else {
      size_t index = i - top.node->inputCount();
      out_.text += "block" + std::to_string(index);
      open(*top.node->block(index));
    }
  }

  void writeMargin() {
    // Deep ones in pieces: a line may be longer than what is left to write.
    constexpr size_t kPiece = size_t{32} << 10;
    for (size_t at = 0; at < margin_.size() && !out_.full(); at += kPiece) {
      out_.text.append(margin_, at, kPiece);
      out_.flushIfLong();
    }
  }

  void show(const Value* v, std::string_view mark) {
    out_.text += mark;
    if (v->node()) return show(*v->node(), v->index());
    appendShortName(*v, out_.text);
    out_.text += " [id " + id(v) + "]\n";
  }

  void show(const Node& n, std::optional<size_t> output) {
    bool again = ids_.contains(&n);
    if (n.kind() == sym::Constant && n.outputCount() == 1)
      constant(n, again);
    else
      numbers_.appendCall(n, out_.text);
    if (output && n.outputCount() > 1) out_.text += "." + std::to_string(*output);
    out_.text += " [id " + id(&n) + "]";
    if (n.kind() != sym::Constant && n.outputCount()) {
      out_.text += " '";
      for (size_t i = output.value_or(0); i < (output ? *output + 1 : n.outputCount()); ++i) {
        if (i > output.value_or(0)) out_.text += ", ";
        n.output(i)->appendName(out_.text);
      }
      out_.text += '\'';
    }
    out_.text += '\n';
    if (!again) stack_.push_back({.node = &n, .margin = margin_.size()});
  }

  void constant(const Node& n, bool again) {
    constexpr size_t kShort = 32;
    std::string text;
    appendConstant(n, text);
    out_.text += again && text.size() > kShort ? "..." : text;
  }

  void open(const Block& b) {
    out_.text += '(';
    for (const Value* p : b.parameters()) {
      if (p->index()) out_.text += ", ";
      appendShortName(*p, out_.text);
    }
    out_.text += "):\n";
    Open opened{.block = &b, .margin = margin_.size()};
    for (const Node* n : b.nodes()) {
      bool used = false;
      for (const Value* v : n->outputs()) used |= v->hasUses();
      if (!used) opened.unused.push_back(n);
    }
    stack_.push_back(std::move(opened));
  }

  std::string id(const void* of) { return letters(ids_.try_emplace(of, ids_.size()).first->second); }

  const SubgraphNumbers& numbers_;
  BoundedText& out_;
  std::string margin_;
  std::unordered_map<const void*, size_t> ids_;
  std::vector<Open> stack_;
};

}  // namespace

bool printTree(const Graph& graph, const TextSink& sink, uint64_t maxBytes) {
  BoundedText out(sink, maxBytes);
  forEachSubgraph(graph, out.text, [&](const Graph& g, const SubgraphNumbers& numbers) {
    TreeWriter(numbers, out).write(g);
    return !out.full();
  });
  return out.flush();
}

std::string treeText(const Graph& graph) {
  std::string text;
  printTree(graph, [&text](std::string_view piece) { text += piece; });
  return text;
}

std::string treeText(const Value* value) {
  std::string text;
  TextSink sink = [&text](std::string_view piece) { text += piece; };
  BoundedText out(sink, Limits().printBytes);
  SubgraphNumbers numbers(*value->graph());
  TreeWriter(numbers, out).write(value);
  return text;
}

}  // namespace tscompile
