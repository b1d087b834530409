#include "ir/graph/expression.h"

#include "ir/graph/operation_text.h"
#include "ir/support/small_vector.h"

#include <optional>

namespace tscompile {
namespace {

// ---- what stands where ----

// How the output of a node shows where it is used.
enum class Form : uint8_t {
  Name,      // the node has a line of its own
  Constant,  // by its literal
  Inline,    // as an operation
  Shared,    // as an operation the first time, by its number from then on
};

// Whether something outside the node changes.
bool hasEffects(const Node& n, const ExpressionOptions& options) {
  if (n.kind() == sym::CallMethod || n.kind() == sym::CallFunction || n.subgraph()) return true;
  if (n.outputCount() == 0 && !n.hasBlocks()) return true;
  std::string_view name = n.kind().name();
  if (name.ends_with("_") && !name.ends_with("__")) return true;
  return options.hasEffects && !n.hasBlocks() && options.hasEffects(n);
}

bool isLongConstant(const Node& n) {
  constexpr size_t kShort = 32;
  std::string text, name;
  appendConstant(n, text);
  if (text.size() <= kShort) return false;
  appendShortName(*n.output(), name);
  return text != name;
}

// Calls visit(node) for every node in text order, return nodes included.
template <class Visit>
void forEachNodeAndReturn(const Graph& graph, Visit&& visit) {
  std::vector<std::pair<const Node*, size_t>> stack;  // node whose blocks are being walked, index of the open block
  auto start = [](const Block* b) { return b->empty() ? b->returnNode() : b->first(); };
  const Node* n = start(graph.block());
  while (true) {
    visit(n);
    if (n->hasBlocks()) {
      stack.emplace_back(n, 0);
      n = start(n->block(0));
    } else if (!n->isReturn()) {
      n = n->next() ? n->next() : n->block()->returnNode();
    } else {
      while (!stack.empty() && stack.back().second + 1 == stack.back().first->blocks().size()) {
        n = stack.back().first;
        stack.pop_back();
        if (n->next()) break;
        n = n->block()->returnNode();
        visit(n);
      }
      if (!n->isReturn()) {
        n = n->next();
      } else if (stack.empty()) {
        return;
      } else {
        auto& [owner, block] = stack.back();
        n = start(owner->block(++block));
      }
    }
  }
}

class Forms {
 public:
  Forms(const Graph& graph, const ExpressionOptions& options) {
    // A node may be written at its user only if no effect lies between.
    std::unordered_map<const Node*, uint32_t> effectsBefore;
    uint32_t effects = 0;
    forEachNodeAndReturn(graph, [&](const Node* n) {
      effectsBefore[n] = effects;
      if (!n->isReturn() && hasEffects(*n, options)) ++effects;
    });
    forEachNode(graph, [&](const Node* n) {
      bool near = true, sameBlock = true;
      if (n->outputCount() == 1)
        for (const Use& u : n->output()->uses()) {
          near &= effectsBefore[u.user] == effectsBefore[n];
          sameBlock &= u.user->block() == n->block();
        }
      forms_[n] =
          choose(*n, n->outputCount() == 1 ? n->output()->useCount() : 0, near, sameBlock, hasEffects(*n, options));
    });
  }
  // Of what a value is computed from.
  explicit Forms(const Value* value) {
    std::unordered_map<const Node*, size_t> references;
    std::vector<std::pair<const Node*, size_t>> stack;  // node, index of its next input
    auto meet = [&](const Value* v) {
      if (const Node* n = v->node(); n && ++references[n] == 1) stack.emplace_back(n, 0);
    };
    std::vector<const Node*> order;  // inputs first
    meet(value);
    while (!stack.empty()) {
      auto& [n, next] = stack.back();
      if (n->outputCount() == 1 && !n->hasBlocks() && next < n->inputCount()) {
        meet(n->input(next++));
      } else {
        order.push_back(n);
        stack.pop_back();
      }
    }
    for (const Node* n : order) forms_[n] = choose(*n, references[n], true, true, false);
  }

  Form of(const Node* node) const {
    auto it = forms_.find(node);
    return it == forms_.end() ? Form::Name : it->second;
  }

 private:
  Form choose(const Node& n, size_t uses, bool near, bool sameBlock, bool effects) {
    if (n.outputCount() != 1 || n.hasBlocks() || effects) return Form::Name;
    if (n.kind() == sym::Constant) {
      if (uses < 2 || !isLongConstant(n)) return Form::Constant;
      return sameBlock ? Form::Shared : Form::Name;
    }
    if (isShortPath(n)) return Form::Inline;
    if (uses == 0 || !near || !sameBlock) return Form::Name;
    return uses == 1 ? Form::Inline : Form::Shared;
  }
  // Submodules are written by their path wherever they are used: `self.layer1.conv`.
  bool isShortPath(const Node& n) {
    constexpr uint8_t kLongest = 8;
    if (n.kind() != sym::GetAttr || n.inputCount() != 1 || n.output()->type()->kind() != TypeKind::Class) return false;
    const Node* from = n.input(0)->node();
    auto it = from ? pathLength_.find(from) : pathLength_.end();
    uint8_t length = it == pathLength_.end() ? 1 : it->second + 1;
    if (length > kLongest) return false;
    pathLength_[&n] = length;
    return true;
  }

  std::unordered_map<const Node*, Form> forms_;
  std::unordered_map<const Node*, uint8_t> pathLength_;
};

// ---- formulas ----

// Writes values as operations on other values, from an explicit stack.
class FormulaWriter {
 public:
  FormulaWriter(const SubgraphNumbers& numbers, const Forms& forms, const ExpressionOptions& options, BoundedText& out,
                size_t& lastLabel)
      : numbers_(numbers), forms_(forms), options_(options), out_(out), lastLabel_(lastLabel) {}

  void value(const Value* v) {
    stack_.push_back({v, {}, binding::kNone});
    run();
  }
  void values(std::span<const Use> uses) {
    push(list(uses));
    run();
  }
  // The node's operation, whatever its form.
  void operation(const Node& n) {
    open(n, binding::kNone);
    run();
  }

 private:
  struct Piece {
    const Value* value;  // or
    std::string_view text;
    int binding = 0;  // how tightly the value must hold together
  };
  using Pieces = SmallVector<Piece, 16>;

  void run() {
    while (!stack_.empty() && !out_.full()) {
      Piece p = stack_.back();
      stack_.pop_back();
      if (p.value)
        open(p.value, p.binding);
      else
        out_.text += p.text;
      out_.flushIfLong();
    }
    stack_.clear();
  }

  void push(const Pieces& pieces) { stack_.insert(stack_.end(), pieces.rbegin(), pieces.rend()); }

  static Pieces list(std::span<const Use> uses) {
    Pieces pieces;
    addList(pieces, uses);
    return pieces;
  }
  static void addList(Pieces& pieces, std::span<const Use> uses) {
    for (size_t i = 0; i < uses.size(); ++i) {
      if (i) pieces.push_back({nullptr, ", "});
      pieces.push_back({uses[i].value, {}});
    }
  }

  void open(const Value* v, int binding) {
    const Node* n = v->node();
    switch (n ? forms_.of(n) : Form::Name) {
      case Form::Name:
        appendShortName(*v, out_.text);
        return;
      case Form::Constant:
        constant(*n, binding);
        return;
      case Form::Inline:
        open(*n, binding);
        return;
      case Form::Shared:
        shared(*n, binding);
        return;
    }
  }

  void constant(const Node& n, int binding) {
    std::string text;
    appendConstant(n, text);
    bool brackets = text.starts_with('-') && binding > binding::kSign;
    out_.text += brackets ? "(" + text + ")" : text;
  }

  void shared(const Node& n, int binding) {
    auto [it, isNew] = labels_.try_emplace(&n, lastLabel_ + 1);
    std::string label = "*" + std::to_string(it->second);
    if (!isNew) {
      out_.text += label;
      return;
    }
    ++lastLabel_;
    if (binding > binding::kNone) {
      out_.text += '(';
      stack_.push_back({nullptr, ")"});
    }
    out_.text += label + " -> ";
    open(n, binding::kNone);
  }

  void open(const Node& n, int binding) {
    if (n.kind() == sym::Constant) return constant(n, binding);
    Pieces pieces;
    if (const OperatorText* op = operatorOf(n)) {
      operatorPieces(n, *op, pieces);
      if (op->binding < binding || options_.allBrackets) {
        out_.text += '(';
        pieces.push_back({nullptr, ")"});
      }
    } else if (!specialPieces(n, pieces)) {
      numbers_.appendCall(n, out_.text);
      out_.text += '(';
      if (n.python && !n.python->scalars.empty()) out_.text += n.python->scalars + (n.inputCount() ? ", " : "");
      addList(pieces, n.inputs());
      pieces.push_back({nullptr, ")"});
    }
    push(pieces);
  }

  static void operatorPieces(const Node& n, const OperatorText& op, Pieces& pieces) {
    if (op.prefix) {
      pieces.push_back({nullptr, op.text});
      pieces.push_back({n.input(0), {}, op.right()});
      return;
    }
    pieces.push_back({n.input(op.swapped ? 1 : 0), {}, op.left()});
    pieces.push_back({nullptr, op.text});
    pieces.push_back({n.input(op.swapped ? 0 : 1), {}, op.right()});
  }

  // Containers, attributes, calls, items. False for the rest.
  static bool specialPieces(const Node& n, Pieces& pieces) {
    static const Symbol kGetItem = Symbol::of("aten::__getitem__");
    auto text = [&](std::string_view t) { pieces.push_back({nullptr, t}); };
    const IValue* name = n.attributeValue(sym::name);
    if (n.inputCount() && name && name->isString() && n.attributes().size() == 1 &&
        (n.kind() == sym::GetAttr || n.kind() == sym::CallMethod)) {
      pieces.push_back({n.input(0), {}, binding::kCall});
      text(".");
      text(name->toString());
      if (n.kind() == sym::GetAttr) return n.inputCount() == 1;
      arguments(n.inputs().subspan(1), pieces);
      return true;
    }
    if (!n.attributes().empty()) return false;
    if (n.kind() == sym::CallFunction && n.inputCount()) {
      pieces.push_back({n.input(0), {}, binding::kCall});
      arguments(n.inputs().subspan(1), pieces);
    } else if (n.kind() == sym::ListConstruct || n.kind() == sym::TupleConstruct) {
      bool isList = n.kind() == sym::ListConstruct;
      text(isList ? "[" : "(");
      addList(pieces, n.inputs());
      text(isList ? "]" : n.inputCount() == 1 ? ",)" : ")");
    } else if (n.kind() == sym::DictConstruct && n.inputCount() % 2 == 0) {
      text("{");
      for (size_t i = 0; i < n.inputCount(); ++i) {
        if (i) text(i % 2 ? ": " : ", ");
        pieces.push_back({n.input(i), {}});
      }
      text("}");
    } else if ((n.kind() == kGetItem || n.kind() == sym::TupleIndex) && n.inputCount() == 2) {
      pieces.push_back({n.input(0), {}, binding::kCall});
      text("[");
      pieces.push_back({n.input(1), {}});
      text("]");
    } else {
      return false;
    }
    return true;
  }
  static void arguments(std::span<const Use> uses, Pieces& pieces) {
    pieces.push_back({nullptr, "("});
    addList(pieces, uses);
    pieces.push_back({nullptr, ")"});
  }

  const SubgraphNumbers& numbers_;
  const Forms& forms_;
  const ExpressionOptions& options_;
  BoundedText& out_;
  size_t& lastLabel_;
  std::unordered_map<const Node*, size_t> labels_;
  std::vector<Piece> stack_;
};

// ---- lines ----

// What a prim::Loop is in other words.
struct LoopShape {
  bool counted = false;      // it ends after so many rounds
  bool conditional = false;  // it ends when a condition fails
};

bool isConstant(const Value* v, bool (*test)(const IValue&)) {
  const Node* n = v->node();
  if (!n || n->kind() != sym::Constant) return false;
  const IValue* value = n->attributeValue(sym::value);
  return value && test(*value);
}

std::optional<LoopShape> loopShape(const Node& n) {
  if (n.kind() != sym::Loop || n.blocks().size() != 1 || n.inputCount() != n.outputCount() + 2) return {};
  const Block& body = *n.block(0);
  if (body.parameters().size() != n.outputCount() + 1 || body.results().size() != n.outputCount() + 1) return {};
  auto isTrue = [](const IValue& v) { return v.isBool() ? v.toBool() : v.isInt() && v.toInt() == 1; };
  LoopShape shape;
  shape.conditional = !isConstant(n.input(1), isTrue) || !isConstant(body.result(0), isTrue);
  bool endless = isConstant(n.input(0), [](const IValue& v) { return v.isInt() && v.toInt() == INT64_MAX; });
  shape.counted = !endless || !shape.conditional || body.parameter(0)->hasUses();
  return shape;
}

bool isPlainIf(const Node& n) {
  return n.kind() == sym::If && n.inputCount() == 1 && n.blocks().size() == 2 && n.block(0)->parameters().empty() &&
         n.block(1)->parameters().empty();
}

// The lines of one graph, blocks inside included, from an explicit stack.
class StatementWriter {
 public:
  StatementWriter(const Graph& graph, const SubgraphNumbers& numbers, const ExpressionOptions& options,
                  BoundedText& out, size_t& lastLabel)
      : graph_(graph), forms_(graph, options), out_(out), write_(numbers, forms_, options, out, lastLabel) {}

  void write() {
    out_.text += "graph(";
    names(graph_.inputs());
    out_.text += "):\n";
    const Node* n = graph_.block()->first();
    while (!out_.full()) {
      if (n) {
        if (hasLine(*n)) line(*n);
        if (n->hasBlocks()) {
          stack_.push_back({n, level(), loopShape(*n), isPlainIf(*n)});
          n = openBlock();
        } else {
          n = n->next();
        }
      } else if (stack_.empty()) {
        break;
      } else {
        closeBlock();
        Open& top = stack_.back();
        if (++top.block < top.node->blocks().size()) {
          n = openBlock();
        } else {
          n = top.node->next();
          stack_.pop_back();
        }
      }
    }
    results("return", graph_.outputs());
    out_.text += '\n';
    out_.flush();
  }

 private:
  struct Open {
    const Node* node;
    size_t level;  // of the node
    std::optional<LoopShape> loop;
    bool isIf;
    size_t block = 0;
    bool empty = true;  // no line was written into the block
    bool isOther() const { return !loop && !isIf; }
  };

  bool hasLine(const Node& n) const { return forms_.of(&n) == Form::Name; }

  size_t level() const { return stack_.empty() ? 1 : stack_.back().level + (stack_.back().isOther() ? 2 : 1); }
  void indent() { out_.blanks(2 * level()); }

  void names(std::span<Value* const> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (i) out_.text += ", ";
      appendShortName(*values[i], out_.text);
    }
  }
  void results(std::string_view word, std::span<const Use> uses) {
    indent();
    out_.text += word;
    if (!uses.empty()) out_.text += ' ';
    write_.values(uses);
  }

  void line(const Node& n) {
    if (!stack_.empty()) stack_.back().empty = false;
    indent();
    bool used = std::any_of(n.outputs().begin(), n.outputs().end(), [](const Value* v) { return v->hasUses(); });
    static const Symbol kListUnpack = Symbol::of("prim::ListUnpack");
    bool list = n.kind() == kListUnpack;
    if (n.outputCount() && (used || n.outputCount() > 1 || n.hasBlocks())) {
      if (list) out_.text += '[';
      names(n.outputs());
      out_.text += list ? "] = " : " = ";
    }
    if (n.hasBlocks())
      header(n);
    else if ((list || n.kind() == sym::TupleUnpack) && n.inputCount() == 1 && n.outputCount() > 1)
      write_.value(n.input(0));
    else
      write_.operation(n);
    out_.text += '\n';
    out_.flushIfLong();
  }

  void header(const Node& n) {
    if (isPlainIf(n)) {
      out_.text += "if ";
      write_.value(n.input(0));
    } else if (auto shape = loopShape(n)) {
      loopHeader(n, *shape);
    } else {
      write_.operation(n);
    }
    out_.text += ':';
  }

  void loopHeader(const Node& n, LoopShape shape) {
    if (shape.counted) {
      out_.text += "for ";
      appendShortName(*n.block(0)->parameter(0), out_.text);
      out_.text += " in range(";
      write_.value(n.input(0));
      out_.text += ')';
    }
    if (shape.conditional) {
      out_.text += shape.counted ? " while " : "while ";
      write_.value(n.input(1));
    }
    for (size_t i = 0; i < n.outputCount(); ++i) {
      out_.text += i ? ", " : " with ";
      appendShortName(*n.block(0)->parameter(i + 1), out_.text);
      out_.text += " = ";
      write_.value(n.input(i + 2));
    }
  }

  const Node* openBlock() {
    Open& top = stack_.back();
    const Block& b = *top.node->block(top.block);
    top.empty = true;
    if (top.isOther()) {
      out_.blanks(2 * (top.level + 1));
      out_.text += "block" + std::to_string(top.block) + "(";
      names(b.parameters());
      out_.text += "):\n";
    } else if (top.block == 1 && !(b.empty() && b.results().empty())) {
      out_.blanks(2 * top.level);
      out_.text += "else:\n";
    }
    return b.first();
  }

  void closeBlock() {
    const Open& top = stack_.back();
    std::span<const Use> uses = top.node->block(top.block)->results();
    if (top.loop && top.loop->conditional) {
      results("next", uses.subspan(1));
      out_.text += " while ";
      write_.value(uses[0].value);
    } else if (top.loop && uses.size() > 1) {
      results("next", uses.subspan(1));
    } else if (!top.loop && !uses.empty()) {
      results("yield", uses);
    } else if (top.empty && !(top.isIf && top.block == 1)) {
      results("pass", {});
    } else {
      return;
    }
    out_.text += '\n';
    out_.flushIfLong();
  }

  const Graph& graph_;
  Forms forms_;
  BoundedText& out_;
  FormulaWriter write_;
  std::vector<Open> stack_;
};

std::string collected(const std::function<void(const TextSink&)>& print) {
  std::string text;
  print([&text](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace

bool printExpression(const Graph& graph, const TextSink& sink, const ExpressionOptions& options) {
  BoundedText out(sink, options.maxBytes);
  size_t lastLabel = 0;
  forEachSubgraph(graph, out.text, [&](const Graph& g, const SubgraphNumbers& numbers) {
    StatementWriter(g, numbers, options, out, lastLabel).write();
    return !out.full();
  });
  return out.flush();
}

std::string expressionText(const Graph& graph, const ExpressionOptions& options) {
  return collected([&](const TextSink& sink) { printExpression(graph, sink, options); });
}

std::string expressionText(const Value* value, const ExpressionOptions& options) {
  return collected([&](const TextSink& sink) {
    BoundedText out(sink, options.maxBytes);
    size_t lastLabel = 0;
    SubgraphNumbers numbers(*value->graph());
    Forms forms(value);
    FormulaWriter(numbers, forms, options, out, lastLabel).value(value);
    out.flush();
  });
}

}  // namespace tscompile
