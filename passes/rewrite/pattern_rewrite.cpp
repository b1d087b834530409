// Patterns as rewrites: what matches is replaced, where that is safe.
#include "passes/rewrite/compiled_pattern.h"
#include "passes/rewrite/transaction.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

// Whether the match may be computed at its point from the memory as it is there.
bool isUndisturbed(const Match& m, RewriteContext& context, bool& mustBeFresh) {
  mustBeFresh = false;
  if (!context.facts.graphHasWrites()) return true;
  Node* only = nullptr;
  bool written = false, single = true;
  for (Node* n : m.nodes()) {
    if (n->kind() == sym::Constant) continue;
    single &= only == nullptr;
    only = n;
    written |= !context.facts.isUndisturbed(n);
  }
  if (!written) return true;
  mustBeFresh = true;
  return single && only && context.facts.isFresh(only);
}

bool areFresh(const Replacement& r, RewriteContext& context) {
  for (const auto& [from, to] : r.values())
    if (to && AliasAnalysis::canRefer(to->type()) && (!to->node() || !context.facts.isFresh(to->node()))) return false;
  return true;
}

// Those that go with the match, though they may have effects.
std::vector<Node*> callsOf(const Match& m) {
  std::vector<Node*> calls;
  for (Node* n : m.nodes())
    if (n->kind() == sym::CallMethod || n->kind() == sym::CallFunction) calls.push_back(n);
  return calls;
}

bool arePure(const Match& m, RewriteContext& context) {
  return std::all_of(m.nodes().begin(), m.nodes().end(), [&](Node* n) { return context.facts.isPure(n); });
}

}  // namespace

std::function<std::optional<std::vector<Symbol>>(const KindTable&)> rarestOf(std::vector<Symbol> kinds, bool fromAny) {
  return [kinds = std::move(kinds), fromAny](const KindTable& table) -> std::optional<std::vector<Symbol>> {
    if (kinds.empty() || !fromAny) return kinds;
    Symbol rarest;
    size_t least = SIZE_MAX;
    for (Symbol k : kinds) {
      size_t count = table.count(k);
      if (count == 0) return std::nullopt;
      // Of two, the later: what makes its inputs is one node each, what uses its outputs may be many.
      if (count <= least) {
        least = count;
        rarest = k;
      }
    }
    return std::vector<Symbol>{rarest};
  };
}

NodeRewrite patternRewrite(std::string name, Pattern from,
                           std::function<Replacement(const Match&, RewriteContext&)> build) {
  NodeRewrite rewrite;
  rewrite.name = std::move(name);
  rewrite.kinds = from.kinds();
  bool calls = from.holdsCalls();
  // Nothing, and why, where the match must stay.
  auto make = [build = std::move(build), calls](const Match& m, RewriteContext& c, std::string_view& why) {
    bool mustBeFresh = false;
    why = "its nodes have effects, or some node writes memory that they read or make";
    if (!calls && (!arePure(m, c) || !isUndisturbed(m, c, mustBeFresh))) return Replacement();
    Replacement r = build(m, c);
    if (r.kind() == Replacement::Kind::Outputs) {
      std::vector<Value*> outputs = m.outputs();
      if (outputs.size() != r.outputs().size()) return r;
      std::vector<std::pair<Value*, Value*>> pairs;
      for (size_t i = 0; i < outputs.size(); ++i) pairs.emplace_back(outputs[i], r.outputs()[i]);
      r = Replacement::of(std::move(pairs), callsOf(m));
    }
    if (mustBeFresh && !areFresh(r, c)) {
      why = "some node writes memory that its nodes read or make, and what takes their place is no new memory";
      return Replacement();
    }
    if (!r) why = "no replacement can be made of it";
    return r;
  };
  rewrite.whyNot = [from, make](RewriteContext& c) -> std::string {
    std::string why = from.whyNot(c);
    if (!why.empty()) return why;
    std::string_view problem;
    for (const Match& m : from.findAll(c)) {
      Transaction tried(c.graph, c.registry);
      const bool isMade = static_cast<bool>(make(m, c, problem));
      tried.rollback();
      c.facts.refresh();
      if (isMade) return "";
    }
    return fmt::format("the pattern matches, but {}", problem);
  };
  rewrite.seeds = rarestOf(rewrite.kinds, !from.isAssociative());
  if (calls) rewrite.kinds.insert(rewrite.kinds.end(), {sym::CallMethod, sym::CallFunction});
  rewrite.apply = [from = std::move(from), make = std::move(make)](Node* n, RewriteContext& c) -> Replacement {
    std::optional<Match> m = from.match(n, c);
    std::string_view ignored;
    return m ? make(*m, c, ignored) : Replacement();
  };
  return rewrite;
}

NodeRewrite patternRewrite(std::string name, Pattern from, Pattern to) {
  return patternRewrite(std::move(name), std::move(from),
                        [to = std::move(to)](const Match& m, RewriteContext& c) -> Replacement {
                          Builder builder = c.before(m.point());
                          // What one of the nodes was marked with holds for what takes the place of all.
                          for (const Node* n : m.nodes())
                            if (n->hasAttribute(sym::toCompile)) builder.setPlaceOf(n);
                          std::optional<std::vector<Value*>> made = to.reify(m, c, builder);
                          if (!made) return {};
                          return *made;
                        });
}

}  // namespace tscompile
