#include "ir/analysis/verifier.h"

#include "ir/analysis/node_form.h"
#include "ir/operators/overload_cache.h"
#include "ir/support/text.h"
#include "ir/values/literal.h"

#include <unordered_map>

namespace tscompile {
namespace {

class Verifier {
 public:
  Verifier(const OpRegistry& registry, Diagnostics& diagnostics)
      : registry_(registry), overloads_(registry), diagnostics_(diagnostics) {}

  bool run(const Graph& top) {
    // Subgraphs of attributes wait here, so that their nesting costs no stack.
    std::vector<const Graph*> todo{&top};
    while (!todo.empty() && !diagnostics_.full()) {
      const Graph* g = todo.back();
      todo.pop_back();
      graph(*g);
      forEachNode(*g, [&](Node* n) {
        for (const Attribute& a : n->attributes()) {
          if (a.graph()) todo.push_back(a.graph());
          if (auto* list = std::get_if<std::vector<std::unique_ptr<Graph>>>(&a.payload))
            for (const auto& inner : *list) todo.push_back(inner.get());
        }
      });
    }
    return good_;
  }

  bool one(const Node& n) {
    for (const Use& u : n.inputs())
      if (!dominates(u.value, &n)) fail(&n, "value %" + u.value->name() + " is used before it is defined");
    node(&n);
    for (const Block* b : n.blocks()) results(b);
    return good_;
  }

 private:
  Diagnostic& fail(const Node* n, std::string message, ErrorKind kind = ErrorKind::Input) {
    good_ = false;
    return diagnostics_.error(n->range, std::move(message), kind);
  }

  void graph(const Graph& g) {
    struct Open {
      const Node* node;
      size_t block;
    };
    std::vector<Open> stack;
    current_.clear();
    const Block* block = g.block();
    const Node* n = block->first();
    while (true) {
      current_[block] = n ? n : block->returnNode();
      if (n) {
        uses(n, block);
        node(n);
        if (n->hasBlocks()) {
          stack.push_back({n, 0});
          block = n->block(0);
          n = block->first();
        } else {
          n = n->next();
        }
        continue;
      }
      uses(block->returnNode(), block);
      if (block->owner()) results(block);
      current_.erase(block);
      if (stack.empty()) return;
      Open& open = stack.back();
      if (++open.block < open.node->blocks().size()) {
        block = open.node->block(open.block);
        n = block->first();
      } else {
        block = open.node->block();
        n = open.node->next();
        stack.pop_back();
      }
    }
  }

  // ---- definitions before uses ----

  void uses(const Node* user, const Block* block) {
    for (const Use& u : user->inputs()) {
      const Value* v = u.value;
      if (u.user != user) fail(user, "internal: a use does not know its node");
      const Block* home = v->block();
      const Node* at = user;
      if (home != block) {
        auto open = home ? current_.find(home) : current_.end();
        if (open == current_.end()) {
          Diagnostic& d = fail(user, "value %" + v->name() + " is used outside of the block that defines it");
          if (v->node()) d.note(v->node()->range, "it is defined here");
          continue;
        }
        at = open->second;
      }
      // The node that holds the user, in the block of the definition, must stand after it.
      if (v->node() && (v->node() == at || !v->node()->isBefore(at))) {
        Diagnostic& d = fail(user, "value %" + v->name() + " is used before it is defined");
        d.note(v->node()->range, "it is defined here");
      }
    }
  }

  // ---- nodes ----

  bool expectOutputs(const Node* n, size_t count) {
    if (n->outputCount() == count) return true;
    fail(n, std::string(n->kind().text()) + " has " + counted(count, "output") + ", not " +
                std::to_string(n->outputCount()));
    return false;
  }
  void expectType(const Node* n, size_t input, TypePtr type, const char* what) {
    TypePtr found = n->input(input)->type();
    if (isSubtype(withoutRefinement(found), type)) return;
    // Texts of PyTorch 1.0 type everything as a tensor.
    if (found == types().tensor && (type == types().boolean || type == types().integer)) return;
    fail(n, std::string("the ") + what + " of " + std::string(n->kind().text()) + " is " + typeText(type) + ", but %" +
                n->input(input)->name() + " is " + typeText(found));
  }

  void node(const Node* n) {
    if (std::string problem = formProblem(*n); !problem.empty()) {
      fail(n, problem);
      return;
    }
    if (n->kind() == sym::If) return ifNode(n);
    if (n->kind() == sym::Loop) return loopNode(n);
    if (n->kind() == sym::Constant) return constantNode(n);
    if (n->kind() == sym::PythonOp) return;
    if (n->kind().nameSpace() == "prim" && structural(n)) return;
    schema(n);
  }

  void ifNode(const Node* n) {
    expectType(n, 0, types().boolean, "condition");
    for (const Block* b : n->blocks())
      if (!b->parameters().empty()) fail(n, "the blocks of prim::If have no parameters");
  }

  void loopNode(const Node* n) {
    expectType(n, 0, types().integer, "trip count");
    expectType(n, 1, types().boolean, "condition");
    size_t carried = n->inputCount() - 2;
    if (!expectOutputs(n, carried)) return;
    const Block* b = n->block(0);
    if (b->parameters().size() != carried + 1) {
      fail(n, "the block of this prim::Loop has " + counted(carried + 1, "parameter") + ", not " +
                  std::to_string(b->parameters().size()));
      return;
    }
    for (size_t i = 0; i < carried; ++i)
      if (!compatible(n->input(i + 2)->type(), b->parameter(i + 1)->type()))
        fail(n, "%" + n->input(i + 2)->name() + " is " + typeText(n->input(i + 2)->type()) + ", but the block takes " +
                    typeText(b->parameter(i + 1)->type()));
  }

  // Shapes may differ from one branch or iteration to the next; only what they refine must fit.
  static bool compatible(TypePtr given, TypePtr wanted) {
    TypePtr g = withoutRefinement(given), w = withoutRefinement(wanted);
    return isSubtype(g, w) || g == types().tensor || isSubtype(w, g);
  }

  // The results of a nested block against the outputs of its node.
  void results(const Block* b) {
    const Node* n = b->owner();
    const Node* ret = b->returnNode();
    size_t skip = 0;
    if (n->kind() == sym::Loop) {
      skip = 1;
      if (n->outputCount() + 2 != n->inputCount()) return;  // reported at the node
      if (ret->inputCount() && !compatible(ret->input(0)->type(), types().boolean))
        fail(n, "the first result of a prim::Loop's block is the condition, but %" + ret->input(0)->name() + " is " +
                    typeText(ret->input(0)->type()));
    } else if (n->kind() != sym::If) {
      return;
    }
    if (ret->inputCount() != n->outputCount() + skip) {
      good_ = false;
      diagnostics_
          .error(b->range, "this block has " + counted(ret->inputCount(), "result") + ", but its node needs " +
                               std::to_string(n->outputCount() + skip))
          .note(n->range, "the node is here");
      return;
    }
    for (size_t i = 0; i < n->outputCount(); ++i)
      if (!compatible(ret->input(i + skip)->type(), n->output(i)->type()))
        fail(n, "output %" + n->output(i)->name() + " is " + typeText(n->output(i)->type()) + ", but a block gives %" +
                    ret->input(i + skip)->name() + " of type " + typeText(ret->input(i + skip)->type()));
  }

  void constantNode(const Node* n) {
    const IValue* v = n->attributeValue(sym::value);
    if (!v || v->isLiteral()) return;
    TypePtr t = n->output()->type();
    bool fits = isInstance(*v, withoutRefinement(t));
    if (v->isBool() && t->is(TypeKind::Int)) fits = true;
    if (v->isInt() && (t->is(TypeKind::Bool) || t->is(TypeKind::Float) || t == types().tensor))
      fits = t->is(TypeKind::Bool) ? v->toInt() == 0 || v->toInt() == 1 : true;
    if (v->isFloat() && t == types().tensor) fits = true;
    if (v->isList() && t->is(TypeKind::List) && v->toList().items.empty()) fits = true;
    if (v->isString() && (t->is(TypeKind::Device) || t->is(TypeKind::Function))) fits = true;
    if (v->isList() && t->is(TypeKind::List) &&
        (t->element()->is(TypeKind::Optional) || t->element()->isTensor() || t->element()->is(TypeKind::Enum)))
      fits = true;
    if (v->isDict() && t->is(TypeKind::Dict)) fits = true;
    if (v->isTuple() && t->is(TypeKind::Tuple)) fits = v->toTuple().items.size() == t->elements().size();
    if (t->is(TypeKind::Any) || t->is(TypeKind::Number) || t->is(TypeKind::Optional) || t->is(TypeKind::Union))
      fits = true;
    if (!fits)
      fail(n,
           "a constant of type " + typeText(t) + " cannot hold " + abbreviate(valueText(*v, LiteralStyle::Schema), 60));
  }

  // The prim:: nodes without a schema. True if the kind is one of them.
  bool structural(const Node* n) {
    std::string_view kind = n->kind().name();
    if (kind == "TupleConstruct") {
      TypePtr t = withoutOptional(n->output()->type());
      if (t->is(TypeKind::Tuple) && t->elements().size() != n->inputCount())
        fail(n, "a tuple of " + counted(t->elements().size(), "element") + " is made from " +
                    counted(n->inputCount(), "input"));
      return true;
    }
    if (kind == "TupleUnpack") {
      TypePtr t = n->input(0)->type();
      if (t->is(TypeKind::Tuple) && t->elements().size() != n->outputCount())
        fail(n, "a tuple of " + counted(t->elements().size(), "element") + " is taken apart into " +
                    counted(n->outputCount(), "output"));
      return true;
    }
    if (kind == "ListConstruct") {
      TypePtr t = withoutOptional(n->output()->type());
      if (!t->is(TypeKind::List) && t != types().tensor)
        fail(n, "prim::ListConstruct makes a list, not " + typeText(t));
      if (t->is(TypeKind::List))
        for (const Use& u : n->inputs())
          if (!compatible(u.value->type(), t->element()))
            fail(n,
                 "%" + u.value->name() + " of type " + typeText(u.value->type()) + " is no element of " + typeText(t));
      return true;
    }
    if (kind == "DictConstruct") {
      if (n->inputCount() % 2) fail(n, "prim::DictConstruct takes keys and values in turn");
      return true;
    }
    if (kind == "GetAttr" || kind == "SetAttr" || kind == "CallMethod") {
      const IValue* name = n->attributeValue(sym::name);
      if (!name || !name->isString()) fail(n, std::string(n->kind().text()) + " needs an attribute 'name'");
      return true;
    }
    return hasForm(n->kind()) || kind == "fork";
  }

  // ---- operators ----

  // A type in a schema, in which the inputs of a node tell what variables stand for.
  static TypePtr withVariablesOf(const Node& n, const Schema& schema, TypePtr type) {
    std::vector<TypePtr> inputs;
    for (const Use& u : n.inputs()) inputs.push_back(u.value->type());
    TypeBindings bindings;
    const TypePtr bound = matchesSchema(schema, inputs, bindings) ? substituteTypeVariables(type, bindings) : nullptr;
    return bound ? bound : type;
  }

  void schema(const Node* n) {
    const Operator* op = overloads_.resolve(*n);
    if (op && n->hasBlocks() && n->kind().nameSpace() == "aten") {
      fail(n, op->fullName() + " has no blocks");
      return;
    }
    if (!op) {
      if (OperatorProblem problem = registry_.problemOf(*n); !problem.text.empty()) fail(n, problem.text, problem.kind);
      return;
    }
    const Schema& s = op->schema();
    if (!s.varReturns && n->outputCount() > std::max<size_t>(s.returns.size(), 1)) {
      fail(n, op->fullName() + " returns " + counted(s.returns.size(), "value") + ", not " +
                  std::to_string(n->outputCount()));
      return;
    }
    for (size_t i = 0; i < n->outputCount() && i < s.returns.size(); ++i) {
      TypePtr wanted = s.returns[i].type;
      if (wanted->hasVariables()) wanted = withVariablesOf(*n, s, wanted);
      if (wanted->hasVariables() || n->output(i)->type()->hasVariables()) continue;
      if (!compatible(n->output(i)->type(), wanted))
        fail(n, "output %" + n->output(i)->name() + " is " + typeText(n->output(i)->type()) + ", but " +
                    op->fullName() + " returns " + typeText(wanted));
    }
  }

  const OpRegistry& registry_;
  OverloadCache overloads_;
  Diagnostics& diagnostics_;
  bool good_ = true;
  std::unordered_map<const Block*, const Node*> current_;  // open blocks and the node that each is at
};

}  // namespace

bool verifyNode(const Node& node, const OpRegistry& registry, Diagnostics& diagnostics) {
  return Verifier(registry, diagnostics).one(node);
}

bool dominates(const Value* value, const Node* user) {
  const Block* home = value->block();
  const Node* at = user;
  while (at->block() != home) {
    at = at->block() ? at->block()->owner() : nullptr;
    if (!at) return false;
  }
  return !value->node() || (value->node() != at && (at->isReturn() || value->node()->isBefore(at)));
}

bool verify(const Graph& graph, const OpRegistry& registry, Diagnostics& diagnostics) {
  return Verifier(registry, diagnostics).run(graph);
}

}  // namespace tscompile
