// Matching: a search for what the names of a pattern stand for.
#include "ir/analysis/verifier.h"
#include "ir/graph/printer.h"
#include "passes/rewrite/compiled_pattern.h"
#include "passes/rewrite/edits.h"

#include <fmt/core.h>

#include <functional>
#include <re2/re2.h>

namespace tscompile {
namespace {

// "__torch__.Net.forward", the name of a function, or of the class of a module; "" for other nodes.
std::string calledName(const Node* n) {
  if (n->kind() == sym::GetAttr && n->outputCount() == 1 && n->output()->type()->is(TypeKind::Class))
    return std::string(n->output()->type()->name());
  const Node* named = n->kind() == sym::CallFunction && n->inputCount() ? n->input(0)->node() : n;
  const IValue* name = named ? named->attributeValue(sym::name) : nullptr;
  if (!name || !name->isString() || n->inputCount() == 0) return "";
  if (n->kind() == sym::CallFunction) return std::string(name->toString());
  if (n->kind() != sym::CallMethod) return "";
  return std::string(n->input(0)->type()->name()) + "." + std::string(name->toString());
}

// Whole names between dots at the end: "Net.forward" of "__torch__.Net.forward".
bool endsWithName(std::string_view full, std::string_view wanted) {
  return endsWith(full, wanted) && (full.size() == wanted.size() || full[full.size() - wanted.size() - 1] == '.');
}

// A number, whatever its type.
std::optional<double> plainNumber(const IValue& v) {
  if (v.isFloat()) return v.toFloat();
  if (v.isBool()) return v.toBool();
  // Larger ones would be rounded.
  constexpr int64_t kExact = int64_t{1} << 53;
  if (v.isInt() && v.toInt() >= -kExact && v.toInt() <= kExact) return static_cast<double>(v.toInt());
  return std::nullopt;
}

bool sameConstant(const Value* a, const Value* b) {
  if (a == b) return true;
  const IValue* x = GraphFacts::constant(a);
  const IValue* y = GraphFacts::constant(b);
  if (x && y) return sameBits(*x, *y);
  // Tensors as the text gives them.
  auto isConstant = [](const Value* v) { return v->node() && v->node()->kind() == sym::Constant; };
  return isConstant(a) && isConstant(b) && sameAttributes(*a->node(), *b->node());
}

// Whether what is known of a value meets what the pattern's text asks for.
bool meets(const Value* value, TypePtr wanted, GraphFacts& facts) {
  if (wanted == untypedInPattern()) return true;
  if (!wanted->isTensor()) return isSubtype(withoutRefinement(value->type()), wanted);
  if (!value->type()->isTensor()) return false;
  const TensorFacts& w = wanted->tensor();
  if (w.dtype == DType::Undefined && !w.hasRank) return true;
  const TensorFacts t = facts.told(value);
  if (w.dtype != DType::Undefined && w.dtype != t.dtype) return false;
  if (!w.hasRank) return true;
  if (!t.hasRank || t.sizes.size() != w.sizes.size()) return false;
  for (size_t i = 0; i < w.sizes.size(); ++i)
    if (w.sizes[i] >= 0 && w.sizes[i] != t.sizes[i]) return false;
  return true;
}

bool isFixedKind(const CompiledPattern& p, const Node* wanted, const Node* n) {
  const auto& pn = p.nodes[p.nodeIndex[wanted]];
  return pn.kindVariable >= 0 || isNamed(wanted->kind()) || (n && n->kind() == wanted->kind());
}

// Looks at the kinds of what is around a node: most nodes are no part of a match, and this costs no memory. Both err on
// the side of true. First what a node is made from, in either order:
bool isMadeAsWanted(const CompiledPattern& p, const Node* wanted, const Node* n, int depth) {
  if (!isFixedKind(p, wanted, n)) return false;
  if (depth == 0 || isNamed(wanted->kind()) || p.nodes[p.nodeIndex[wanted]].kindVariable >= 0) return true;
  size_t count = std::min(wanted->inputCount(), n->inputCount());
  for (size_t i = 0; i < count; ++i) {
    const Node* producer = wanted->input(i)->node();
    if (!producer || producer->kind() == sym::Constant) continue;
    auto comesFrom = [&](size_t input) {
      const Node* from = n->input(input)->node();
      return from && isMadeAsWanted(p, producer, from, depth - 1);
    };
    if (!comesFrom(i) && (i > 1 || count < 2 || !comesFrom(1 - i))) return false;
  }
  return true;
}

// And what is made from it.
bool isPlausible(const CompiledPattern& p, const Node* wanted, const Node* n, int depth) {
  if (!isMadeAsWanted(p, wanted, n, depth)) return false;
  if (depth == 0 || wanted->outputCount() != n->outputCount()) return true;
  for (size_t o = 0; o < n->outputCount(); ++o) {
    for (Use& w : wanted->output(o)->uses()) {
      if (w.user->isReturn()) continue;
      constexpr int kMost = 8;
      int looked = 0;
      bool found = false;
      for (Use& u : n->output(o)->uses()) {
        found = ++looked > kMost || (!u.user->isReturn() && isPlausible(p, w.user, u.user, depth - 1));
        if (found) break;
      }
      if (!found) return false;
    }
  }
  return true;
}

}  // namespace

// Subgraph isomorphism by backtracking (Ullmann 1976): depth-first search with undo. Goals are pairs of a pattern's
// value or node and the graph's; reaching one may add more.
class Matcher {
 public:
  // Where a search got furthest before something did not fit.
  struct Mismatch {
    size_t reached = 0;
    const Node* node = nullptr;
    std::string text = {};
  };

  Matcher(const Pattern& pattern, RewriteContext& context, Mismatch* furthest = nullptr)
      : source_(pattern), p_(*pattern.pattern_), context_(context), furthest_(furthest) {
    m_.pattern_ = pattern.pattern_;
    m_.nodes_.resize(p_.nodes.size());
    m_.values_.resize(p_.values.size());
    m_.rests_.resize(p_.values.size());
    m_.attributes_.resize(p_.variables.size());
    m_.kinds_.resize(p_.kindVariables.size());
  }

  std::optional<Match> run(Node* node, size_t seed) {
    goals_.push_back({.node = node, .index = static_cast<uint32_t>(seed)});
    if (!solve(0)) return std::nullopt;
    return std::move(m_);
  }

 private:
  struct Goal {
    Value* value = nullptr;  // of the graph, or
    Node* node = nullptr;
    uint32_t index = 0;  // of the pattern's value or node
  };
  // How to go back to here.
  struct Mark {
    size_t goals, trail;
  };
  Mark mark() const { return {goals_.size(), trail_.size()}; }
  bool backTo(Mark m) {
    goals_.resize(m.goals);
    while (trail_.size() > m.trail) {
      trail_.back()();
      trail_.pop_back();
    }
    return false;
  }
  // Remembers what did not fit, if somebody asks; false.
  template <class Text>
  bool miss(size_t at, const Node* node, Text&& text) {
    if (furthest_ && (at > furthest_->reached || !furthest_->node)) *furthest_ = {at, node, text()};
    return false;
  }
  template <class T>
  void bind(T& slot, T value) {
    trail_.push_back([&slot, old = slot] { slot = old; });
    slot = value;
  }

  bool solve(size_t at) {
    if (at == goals_.size()) return reachRest(at);
    Goal goal = goals_[at];
    Mark here = mark();
    bool found = goal.value ? value(goal, at) : node(goal, at);
    return found || backTo(here);
  }

  bool value(const Goal& g, size_t at) {
    Value*& bound = m_.values_[g.index];
    const Value* wanted = p_.values[g.index];
    auto fits = [&](bool good, auto&& text) { return good || miss(at, latest_, text); };
    if (bound)
      return fits(bound == g.value || sameConstant(bound, g.value),
                  [&] { return named(wanted) + " is " + named(bound) + " already, not " + named(g.value); }) &&
             solve(at + 1);
    if (!fits(meets(g.value, wanted->type(), context_.facts), [&] {
          TypePtr known = g.value->type()->isTensor() ? tensorType(context_.facts.told(g.value))
                                                      : context_.facts.symbolic(g.value).type;
          return named(wanted) + " is to be " + typeText(wanted->type()) + ", but " + named(g.value) + " is " +
                 typeText(known);
        }))
      return false;
    for (const auto& [index, predicate] : source_.valuePredicates_)
      if (index == g.index &&
          !fits(predicate(g.value, context_), [&] { return "the condition on " + named(wanted) + " does not hold"; }))
        return false;
    bind(bound, g.value);
    if (const Node* producer = wanted->node()) {
      if (!fits(g.value->node() && g.value->index() == wanted->index(), [&] {
            return named(wanted) + " is to come from " + std::string(producer->kind().text()) + ", but " +
                   named(g.value) + " is " + (g.value->node() ? "another output" : "an input");
          }))
        return false;
      goals_.push_back({.node = g.value->node(), .index = p_.nodeIndex[producer]});
    }
    return solve(at + 1);
  }

  bool node(const Goal& g, size_t at) {
    Node*& bound = m_.nodes_[g.index];
    if (bound) return bound == g.node && solve(at + 1);
    const CompiledPattern::PatternNode& p = p_.nodes[g.index];
    if (!nodeFits(p, g.node, at)) return false;
    if (makesOther(g.index, g.node))
      return miss(at, g.node, [&] { return std::string(g.node->kind().text()) + " makes another result already"; });
    bind(bound, g.node);
    latest_ = g.node;
    if (!p.isConstant && !block_) bind(block_, g.node->block());
    for (size_t i = 0; i < g.node->outputCount(); ++i)
      goals_.push_back({.value = g.node->output(i), .index = p_.indexOf[p.node->output(i)]});
    size_t fixed = p.node->inputCount() - (p.rest >= 0 ? 1 : 0);
    if (isAssociative(p.node->kind()) && p.rest < 0) return terms(p, g.node, at);
    Mark before = mark();
    if (inputs(p, g.node, fixed, false) && solve(at + 1)) return true;
    backTo(before);
    return fixed >= 2 && isCommutative(g.node) && inputs(p, g.node, fixed, true) && solve(at + 1);
  }

  // Whether the node of the graph makes another result already: those of several nodes of a pattern come from as many
  // of the graph, or one linear layer would be two of the same input.
  bool makesOther(uint32_t index, const Node* n) const {
    auto makes = [&](uint32_t output) {
      const Node* maker = p_.values[output]->node();
      return maker ? static_cast<uint32_t>(p_.nodeIndex[maker]) : UINT32_MAX;
    };
    bool isMaker = false, isTaken = false;
    for (uint32_t o : p_.outputs) {
      const uint32_t maker = makes(o);
      isMaker |= maker == index;
      isTaken |= maker != index && maker != UINT32_MAX && m_.nodes_[maker] == n;
    }
    return isMaker && isTaken;
  }

  // The node by itself: kind, counts, attributes.
  bool nodeFits(const CompiledPattern::PatternNode& p, const Node* n, size_t at) {
    auto fits = [&](bool good, auto&& text) { return good || miss(at, n, text); };
    auto kind = [](const Node* of) { return std::string(of->kind().text()); };
    if (context_.unmatched && context_.unmatched->contains(n)) return false;
    if (!fits(kindFits(p, n), [&] { return "expected " + kind(p.node) + ", found " + kind(n); })) return false;
    if (!fits(n->outputCount() == p.node->outputCount() && !n->hasBlocks(),
              [&] { return fmt::format("{} has {}", kind(n), counted(n->outputCount(), "output")); }))
      return false;
    if (!fits(p.isConstant || !block_ || n->block() == block_, [&] { return kind(n) + " stands in another block"; }))
      return false;
    size_t fixed = p.node->inputCount() - (p.rest >= 0 ? 1 : 0), has = n->inputCount() - skipped(p, n);
    if (!fits(p.rest >= 0 ? has >= fixed : has == fixed,
              [&] { return fmt::format("{} has {}, the pattern {}", kind(n), counted(has, "input"), fixed); }))
      return false;
    return fits(attributesFit(p, n), [&] { return "attributes of " + kind(n) + " differ, or its value does"; });
  }

  // Inputs that the pattern does not write: of a call of a function, that function.
  static size_t skipped(const CompiledPattern::PatternNode& p, const Node* n) {
    return p.node->kind() == kMatchCall && n->kind() == sym::CallFunction ? 1 : 0;
  }
  static std::string named(const Value* v) { return "%" + v->name(); }

  bool kindFits(const CompiledPattern::PatternNode& p, const Node* n) {
    if (p.node->kind() == kMatchModule) return n->kind() == sym::GetAttr;
    if (p.node->kind() == kMatchCall) return n->kind() == sym::CallMethod || n->kind() == sym::CallFunction;
    if (p.kindVariable < 0) return n->kind() == p.node->kind();
    if (n->kind() == sym::Constant) return false;
    Symbol& bound = m_.kinds_[static_cast<size_t>(p.kindVariable)];
    if (!bound.empty()) return bound == n->kind();
    bind(bound, n->kind());
    return true;
  }

  bool inputs(const CompiledPattern::PatternNode& p, const Node* n, size_t fixed, bool swapped) {
    for (size_t i = 0; i < fixed; ++i) {
      size_t from = swapped && i < 2 ? 1 - i : i;
      goals_.push_back({.value = n->input(from + skipped(p, n)), .index = p_.indexOf[p.node->input(i)]});
    }
    if (p.rest < 0) return true;
    std::vector<Value*> rest;
    for (size_t i = fixed + skipped(p, n); i < n->inputCount(); ++i) rest.push_back(n->input(i));
    auto slot = static_cast<size_t>(p.rest);
    if (m_.values_[slot]) return m_.rests_[slot] == rest;
    bind(m_.rests_[slot], rest);
    // Marks that the rest is bound, though it may be empty.
    bind(m_.values_[slot], n->outputCount() ? n->output(0) : n->input(0));
    return true;
  }

  bool attributesFit(const CompiledPattern::PatternNode& p, const Node* n) {
    // A constant without attribute is None.
    if (p.isConstant && p.attributes.empty()) return GraphFacts::isNone(n->output());
    for (const auto& test : p.attributes) {
      if (isNamed(p.node->kind()) && test.name == sym::name && test.variable < 0) {
        std::string name = calledName(n);
        if (test.regex ? !RE2::FullMatch(name, *test.regex)
                       : !test.value->isString() || !endsWithName(name, test.value->toString()))
          return false;
        continue;
      }
      const IValue* v = n->attributeValue(test.name);
      static const IValue kNone;
      if (!v && p.isConstant && !n->hasAttribute(test.name)) v = &kNone;
      if (!v || v->isLiteral()) return false;
      if (test.regex) {
        if (!v->isString() || !RE2::FullMatch(v->toString(), *test.regex)) return false;
      } else if (test.value) {
        if (sameBits(*v, *test.value)) continue;
        std::optional<double> number = source_.byValue_ && p.isConstant ? plainNumber(*test.value) : std::nullopt;
        if (!number || number != plainNumber(*v)) return false;
      } else {
        const IValue*& bound = m_.attributes_[static_cast<size_t>(test.variable)];
        if (bound && !sameBits(*bound, *v)) return false;
        if (!bound) bind(bound, v);
      }
    }
    return true;
  }

  // `a + alpha * b` commutes only with alpha 1.
  bool isCommutative(const Node* n) {
    const Operator* op = context_.facts.resolve(n);
    if (!op || !op->has(Trait::Commutative)) return false;
    if (n->inputCount() < 3) return true;
    return n->inputCount() == 3 && context_.facts.number(n->input(2)) == 1.0;
  }

  // ---- sums of many ----

  bool isAssociative(Symbol kind) const {
    return std::find(source_.associative_.begin(), source_.associative_.end(), kind) != source_.associative_.end();
  }

  // A node and those of its kind that make its first two inputs for nobody else, with what they add up.
  struct Sum {
    std::vector<const Node*> nodes;
    std::vector<Value*> terms;
  };
  template <class MayOpen>
  static Sum flattened(const Node* root, const MayOpen& mayOpen) {
    Sum sum;
    std::vector<Value*> todo;
    auto open = [&](const Node* n) {
      sum.nodes.push_back(n);
      todo.push_back(n->input(1));
      todo.push_back(n->input(0));
    };
    open(root);
    while (!todo.empty() && sum.terms.size() <= kMostTerms) {
      Value* v = todo.back();
      todo.pop_back();
      const Node* n = v->node();
      if (n && n->kind() == root->kind() && v->useCount() == 1 && n->inputCount() == root->inputCount() && mayOpen(n))
        open(n);
      else
        sum.terms.push_back(v);
    }
    return sum;
  }

  bool terms(const CompiledPattern::PatternNode& p, const Node* root, size_t at) {
    if (!isCommutative(root)) return miss(at, root, [&] { return std::string(root->kind().text()) + " is scaled"; });
    Sum wanted = flattened(p.node, [&](const Node* n) { return !isOutput(p_.indexOf[n->output()]); });
    Sum found = flattened(root, [&](const Node* n) { return n->block() == root->block() && isCommutative(n); });
    if (wanted.terms.size() != found.terms.size() || found.terms.size() > kMostTerms)
      return miss(at, root, [&] {
        return fmt::format("the terms are {}, the pattern has {}", found.terms.size(), wanted.terms.size());
      });
    for (size_t i = 0; i < wanted.nodes.size(); ++i) {
      if (i) bind(m_.nodes_[p_.nodeIndex[wanted.nodes[i]]], const_cast<Node*>(found.nodes[i]));
      if (i) bind(m_.values_[p_.indexOf[wanted.nodes[i]->output()]], found.nodes[i]->output());
      for (size_t k = 2; k < wanted.nodes[i]->inputCount(); ++k)
        goals_.push_back({.value = found.nodes[i]->input(k), .index = p_.indexOf[wanted.nodes[i]->input(k)]});
    }
    // What must come from a certain node first: fewer of the terms fit.
    std::stable_sort(wanted.terms.begin(), wanted.terms.end(),
                     [](const Value* a, const Value* b) { return (a->node() != nullptr) > (b->node() != nullptr); });
    std::vector<bool> used(found.terms.size());
    return assign(wanted.terms, found.terms, used, 0, at);
  }

  bool assign(const std::vector<Value*>& wanted, const std::vector<Value*>& found, std::vector<bool>& used, size_t i,
              size_t at) {
    if (i == wanted.size()) return solve(at + 1);
    constexpr int kMostTries = 20000;
    const Node* producer = wanted[i]->node();
    for (size_t k = 0; k < found.size(); ++k) {
      if (used[k] || (producer && !isFixedKind(p_, producer, found[k]->node()))) continue;
      if (++tries_ > kMostTries) return false;
      Mark here = mark();
      used[k] = true;
      goals_.push_back({.value = found[k], .index = p_.indexOf[wanted[i]]});
      if (assign(wanted, found, used, i + 1, at)) return true;
      used[k] = false;
      backTo(here);
    }
    return false;
  }

  // All goals are reached. Nodes that none led to use a value that is bound.
  bool reachRest(size_t at) {
    for (size_t i = 0; i < p_.nodes.size(); ++i) {
      if (m_.nodes_[i]) continue;
      const Node* wanted = p_.nodes[i].node;
      for (size_t slot = 0; slot < wanted->inputCount(); ++slot) {
        Value* v = m_.values_[p_.indexOf[wanted->input(slot)]];
        if (!v || isRest(wanted->input(slot))) continue;
        for (Use& u : v->uses()) {
          Mark here = mark();
          goals_.push_back({.node = u.user, .index = static_cast<uint32_t>(i)});
          if (!u.user->isReturn() && solve(at)) return true;
          backTo(here);
        }
        return false;
      }
    }
    return accept(at);
  }

  // ---- conditions on the whole ----

  bool accept(size_t at) {
    auto fits = [&](bool good, auto&& text) { return good || miss(at + 1, m_.nodes_.back(), text); };
    const Value* shared = sharedValue();
    if (!fits(!shared, [&] { return "something else uses " + named(shared) + ", an inner value of the match"; }))
      return false;
    if (!fits(findPoint(), [] { return "there is no place where all inputs are there and no output is used yet"; }))
      return false;
    for (const auto& condition : source_.matchPredicates_)
      if (!fits(condition.holds(m_, context_), [&] {
            bool known = !condition.isKnown || condition.isKnown(m_, context_);
            return (known ? "not so: " : "not known: ") +
                   (condition.text.empty() ? "a condition in C++" : condition.text);
          }))
        return false;
    return true;
  }

  bool isOutput(uint32_t value) const {
    return std::find(p_.outputs.begin(), p_.outputs.end(), value) != p_.outputs.end();
  }
  bool isMatched(const Node* n) const { return std::find(m_.nodes_.begin(), m_.nodes_.end(), n) != m_.nodes_.end(); }

  // An inner value that is used otherwise than the pattern allows, or null.
  const Value* sharedValue() const {
    if (source_.sharing_ == Sharing::Shared) return nullptr;
    for (uint32_t i = 0; i < p_.values.size(); ++i) {
      const Value* wanted = p_.values[i];
      if (!wanted->node() || isOutput(i) || p_.nodes[p_.nodeIndex[wanted->node()]].isConstant) continue;
      const Value* v = m_.values_[i];
      if (source_.sharing_ == Sharing::SameUseCount) {
        if (v->useCount() != wanted->useCount()) return v;
      } else if (!v->type()->is(TypeKind::Int) && !v->type()->is(TypeKind::List) && !v->type()->is(TypeKind::Bool) &&
                 !v->type()->is(TypeKind::Float)) {
        for (Use& u : v->uses())
          if (!isMatched(u.user)) return v;
      }
    }
    return nullptr;
  }

  // In front of the first node that makes an output, if everything that the match takes is there; else of the last, if
  // no output is used before.
  bool findPoint() {
    Node *first = nullptr, *last = nullptr;
    for (uint32_t o : p_.outputs) {
      Node* n = m_.values_[o]->node();
      if (!n || !p_.values[o]->node()) return false;
      if (!first || n->isBefore(first)) first = n;
      if (!last || last->isBefore(n)) last = n;
    }
    if (!first) return false;
    auto available = [&](Node* at) {
      for (uint32_t i = 0; i < p_.values.size(); ++i) {
        if (p_.values[i]->node()) continue;
        if (isRest(p_.values[i])) {
          for (const Value* v : m_.rests_[i])
            if (!dominates(v, at)) return false;
        } else if (m_.values_[i] && !dominates(m_.values_[i], at)) {
          return false;
        }
      }
      return true;
    };
    m_.point_ = first;
    if (first == last || available(first)) return true;
    for (uint32_t o : p_.outputs)
      for (Use& u : m_.values_[o]->uses())
        if (!isMatched(u.user) && u.user->isBefore(last)) return false;
    m_.point_ = last;
    return true;
  }

  const Pattern& source_;
  const CompiledPattern& p_;
  RewriteContext& context_;
  Match m_;
  Mismatch* furthest_;
  static constexpr size_t kMostTerms = 8;
  int tries_ = 0;
  const Node* latest_ = nullptr;  // that was bound, for messages
  Block* block_ = nullptr;
  std::vector<Goal> goals_;
  std::vector<std::function<void()>> trail_;
};

// ---- matches ----

Value* Match::operator[](std::string_view name) const {
  int i = pattern_->find(name);
  return i < 0 || !rests_[static_cast<size_t>(i)].empty() ? nullptr : values_[static_cast<size_t>(i)];
}

std::span<Value* const> Match::rest(std::string_view name) const {
  int i = pattern_->find(std::string(name) + "...");
  if (i < 0) return {};
  return rests_[static_cast<size_t>(i)];
}

const IValue* Match::attribute(std::string_view name) const {
  int i = CompiledPattern::indexIn(pattern_->variables, name);
  return i < 0 ? nullptr : attributes_[static_cast<size_t>(i)];
}

Symbol Match::kind(std::string_view name) const {
  int i = CompiledPattern::indexIn(pattern_->kindVariables, name);
  return i < 0 ? Symbol() : kinds_[static_cast<size_t>(i)];
}

std::vector<Value*> Match::outputs() const {
  std::vector<Value*> out;
  for (uint32_t o : pattern_->outputs) out.push_back(values_[o]);
  return out;
}

// ---- patterns ----

std::optional<Match> Pattern::match(Node* node, size_t seed, RewriteContext& context) const {
  return Matcher(*this, context).run(node, seed);
}

std::optional<Match> Pattern::match(Node* node, RewriteContext& context) const {
  for (size_t i = pattern_->nodes.size(); i-- > 0;) {
    const auto& p = pattern_->nodes[i];
    constexpr int kLookAhead = 2;
    if (p.isConstant) continue;
    // Inside of a sum every order is fine, so it is looked at from its end.
    if (associative_.empty() ? !isPlausible(*pattern_, p.node, node, kLookAhead) : i != rootIndex()) continue;
    if (std::optional<Match> m = match(node, i, context)) return m;
  }
  return std::nullopt;
}

size_t Pattern::rootIndex() const {
  const Node* root = pattern_->outputs.empty() ? nullptr : pattern_->values[pattern_->outputs[0]]->node();
  return root ? pattern_->nodeIndex[root] : SIZE_MAX;
}

std::string Pattern::whyNot(RewriteContext& context) const {
  size_t seed = rootIndex();
  if (seed == SIZE_MAX) return "the pattern returns nothing that it makes";
  Matcher::Mismatch furthest;
  bool found = false;
  const Symbol root = pattern_->nodes[seed].node->kind();
  // Of nodes that do not fit by themselves those come nearest that are of the wanted kind.
  bool isOfKind = false;
  forEachNode(context.graph, [&](Node* n) {
    Matcher::Mismatch here;
    found = found || Matcher(*this, context, &here).run(n, seed);
    const bool isNearer =
        here.reached != furthest.reached ? here.reached > furthest.reached : n->kind() == root && !isOfKind;
    if (furthest.node && !isNearer) return;
    furthest = std::move(here);
    isOfKind = n->kind() == root;
  });
  if (found) return "";
  if (!isAny(root) && !isNamed(root) && !context.graph.kinds().count(root))
    return "the graph has no " + std::string(root.text());
  if (!furthest.node) return "the graph has no nodes";
  return furthest.text + ", at " + std::string(trim(nodeText(*furthest.node)));
}

std::vector<Match> Pattern::findAll(RewriteContext& context) const {
  std::vector<Match> found;
  size_t seed = rootIndex();
  if (seed == SIZE_MAX) return found;
  forEachNode(context.graph, [&](Node* n) {
    if (std::optional<Match> m = match(n, seed, context)) found.push_back(std::move(*m));
  });
  return found;
}

}  // namespace tscompile
