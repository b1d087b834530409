#include "ir/graph/printer.h"

#include "ir/values/literal.h"

#include <charconv>

namespace tscompile {
namespace {

void appendPayload(const Attribute& a, int typeVerbosity, std::string& out) {
  if (const IValue* v = a.value()) {
    appendValue(*v, LiteralStyle::Attribute, out);
  } else if (TypePtr t = a.type()) {
    appendTypeAtVerbosity(t, typeVerbosity, out);
  } else if (auto* list = std::get_if<std::vector<TypePtr>>(&a.payload)) {
    out += '[';
    for (size_t i = 0; i < list->size(); ++i) {
      if (i) out += ", ";
      appendTypeAtVerbosity((*list)[i], typeVerbosity, out);
    }
    out += ']';
  } else {
    out += a.graph() ? "<Graph>" : "[<Graphs>]";
  }
}

}  // namespace

void appendAttributes(const Node& node, bool skipSubgraph, int typeVerbosity, std::string& out) {
  bool first = true;
  for (const Attribute& a : node.attributes()) {
    if (skipSubgraph && a.name == sym::Subgraph) continue;
    out += first ? "[" : ", ";
    first = false;
    out += a.name.text();
    out += '=';
    appendPayload(a, std::max(typeVerbosity, 1), out);
  }
  if (!first) out += ']';
}

namespace {

class Printer {
 public:
  Printer(const TextSink& sink, const PrintOptions& options) : bounded_(sink, options.maxBytes), options_(options) {}

  bool graph(const Graph& g, const std::string& margin) {
    margin_ = margin;
    std::vector<Pending> pending;
    startGraph(g, pending);
    // Subgraphs follow their graph, each before the next of its parent: the innermost pending list goes first.
    while (!pending.empty() && !bounded_.full()) {
      Pending& p = pending.back();
      if (p.next == p.nodes.size()) {
        pending.pop_back();
        continue;
      }
      const Node* n = p.nodes[p.next];
      out_ += margin_ + "with ";
      out_ += n->kind().text();
      out_ += '_';
      number(p.next++);
      out_ += " = ";
      startGraph(*n->subgraph(), pending, false);
    }
    return !bounded_.full();
  }

  void module(const ModuleDump& tree) {
    struct Open {
      size_t module, child;
    };
    std::vector<Open> stack;
    auto begin = [&](size_t index) {
      const DumpedModule& m = tree.modules[index];
      std::string in(4 * stack.size(), ' ');
      out_ += in + "module " + m.className + " {\n";
      for (bool parameters : {true, false}) {
        out_ += in + (parameters ? "  parameters {\n" : "  attributes {\n");
        for (const ModuleAttribute& a : m.attributes)
          if (a.isParameter == parameters) out_ += in + "    " + a.name + " = " + a.text + "\n";
        out_ += in + "  }\n";
      }
      if (!methods(m.methods, "method", in)) return;
      out_ += in + "  submodules {\n";
      stack.push_back({index, 0});
    };
    begin(0);
    while (!stack.empty() && !bounded_.full()) {
      Open& top = stack.back();
      const DumpedModule& m = tree.modules[top.module];
      if (top.child < m.children.size()) {
        begin(m.children[top.child++]);
        continue;
      }
      stack.pop_back();
      std::string in(4 * stack.size(), ' ');
      out_ += in + "  }\n";
      if (stack.empty() && !tree.functions.empty() && !methods(tree.functions, "function", in)) return;
      out_ += in + "}\n";
    }
  }

  bool methods(const std::vector<DumpedMethod>& list, const std::string& word, const std::string& in) {
    out_ += in + "  " + word + "s {\n";
    for (const DumpedMethod& method : list) {
      out_ += in + "    " + word + " " + method.name + " {\n";
      if (method.graph && !graph(*method.graph, in + "      ")) return false;
      if (method.graph) out_ += in + "  \n";
      out_ += in + "    }\n";
    }
    out_ += in + "  }\n";
    return true;
  }

  bool flush() { return bounded_.flush(); }

  void nodeLine(const Node& n, const std::string* suffixed) {
    for (size_t i = 0; i < n.outputCount(); ++i) {
      if (i) out_ += ", ";
      typed(n.output(i));
    }
    out_ += " = ";
    if (n.kind() == sym::PythonOp && n.python) {
      out_ += '^';
      out_ += n.python->name;
      if (n.python->hasBrackets || !n.attributes().empty()) attributes(n, false, true);
      out_ += '(';
      out_ += n.python->scalars;
      out_ += ')';
    } else if (suffixed) {
      out_ += *suffixed;
      if (n.attributes().size() > 1 && n.kind() != sym::DifferentiableGraph) attributes(n, true, false);
    } else {
      out_ += n.kind().text();
      if (!n.attributes().empty()) attributes(n, false, false);
    }
    out_ += '(';
    names(n.inputs());
    out_ += ')';
    if (!n.scope.empty()) {
      out_ += ", scope: ";
      out_ += n.scope.text();
    }
    if (options_.locations && n.location.present()) {
      out_ += " # ";
      out_ += n.location.file.text();
      out_ += ':';
      number(n.location.line);
      out_ += ':';
      number(n.location.column);
    }
  }

  std::string take() { return std::move(out_); }

 private:
  struct Pending {
    std::vector<const Node*> nodes;  // with subgraphs, in the order of their suffixes
    size_t next = 0;
  };
  struct OpenNode {
    const Node* node;
    size_t block;
  };

  void startGraph(const Graph& g, std::vector<Pending>& pending, bool indentHeader = true) {
    if (indentHeader) out_ += margin_;
    out_ += "graph(";
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      if (i) out_ += ",\n" + margin_ + "      ";
      typed(g.input(i));
    }
    out_ += "):\n";
    Pending own;
    body(g.block(), own);
    out_ += margin_ + "  return (";
    names(g.outputs());
    out_ += ")\n";
    flush();
    pending.push_back(std::move(own));
  }

  // All nodes of a graph, blocks inside included, from an explicit stack.
  void body(const Block* top, Pending& own) {
    std::vector<OpenNode> stack;
    const Node* n = top->first();
    while (!bounded_.full()) {
      if (n) {
        size_t level = 1 + 2 * stack.size();
        indent(level);
        if (n->subgraph() && n->kind() != sym::PythonOp) {
          std::string suffixed = std::string(n->kind().text()) + "_" + std::to_string(own.nodes.size());
          own.nodes.push_back(n);
          nodeLine(*n, &suffixed);
        } else {
          nodeLine(*n, nullptr);
        }
        out_ += '\n';
        bounded_.flushIfLong();
        if (n->hasBlocks()) {
          stack.push_back({n, 0});
          n = openBlock(stack);
        } else {
          n = n->next();
        }
        continue;
      }
      if (stack.empty()) return;
      OpenNode& open = stack.back();
      indent(1 + 2 * stack.size());
      out_ += "-> (";
      names(open.node->block(open.block)->results());
      out_ += ")\n";
      bounded_.flushIfLong();
      if (++open.block < open.node->blocks().size()) {
        n = openBlock(stack);
      } else {
        n = open.node->next();
        stack.pop_back();
      }
    }
  }

  const Node* openBlock(const std::vector<OpenNode>& stack) {
    const OpenNode& open = stack.back();
    const Block* b = open.node->block(open.block);
    indent(2 * stack.size());
    out_ += "block";
    number(open.block);
    out_ += '(';
    for (size_t i = 0; i < b->parameters().size(); ++i) {
      if (i) out_ += ", ";
      typed(b->parameter(i));
    }
    out_ += "):\n";
    return b->first();
  }

  void indent(size_t level) {
    out_ += margin_;
    bounded_.blanks(2 * level);
  }

  void attributes(const Node& n, bool skipSubgraph, bool always) {
    size_t before = out_.size();
    appendAttributes(n, skipSubgraph, options_.typeVerbosity, out_);
    if (always && out_.size() == before) out_ += "[]";
  }

  void typed(const Value* v) {
    out_ += '%';
    v->appendName(out_);
    if (options_.typeVerbosity > 0) {
      out_ += " : ";
      appendTypeAtVerbosity(v->type(), options_.typeVerbosity, out_);
    }
  }

  void names(std::span<const Use> uses) {
    for (size_t i = 0; i < uses.size(); ++i) {
      if (i) out_ += ", ";
      out_ += '%';
      uses[i].value->appendName(out_);
    }
  }

  void number(uint64_t v) {
    char buffer[24];
    auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, v);
    out_.append(buffer, end);
  }

  BoundedText bounded_;
  std::string& out_ = bounded_.text;
  PrintOptions options_;
  std::string margin_;
};

}  // namespace

bool printGraph(const Graph& graph, const TextSink& sink, const PrintOptions& options) {
  Printer printer(sink, options);
  printer.graph(graph, "");
  return printer.flush();
}

bool printDump(const ModuleDump& module, const TextSink& sink, const PrintOptions& options) {
  Printer printer(sink, options);
  printer.module(module);
  return printer.flush();
}

std::string graphText(const Graph& graph, const PrintOptions& options) {
  std::string text;
  TextSink sink = [&text](std::string_view piece) { text += piece; };
  printGraph(graph, sink, options);
  return text;
}

std::string nodeText(const Node& node, const PrintOptions& options) {
  TextSink none = [](std::string_view) {};
  Printer printer(none, options);
  printer.nodeLine(node, nullptr);
  return printer.take();
}

}  // namespace tscompile
