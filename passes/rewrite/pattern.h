// Patterns: graph text that stands for subgraphs. Matched against graphs and, on the other side of a rewrite, built
// from a match. docs/rewriting.md describes the notation.
#pragma once

#include "ir/support/result.h"
#include "passes/rewrite/rewrite.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

// What may use the inner values of a match, those that are neither inputs nor outputs of the pattern. Constants and
// values that are no tensors (numbers, lists of sizes) may always be shared.
enum class Sharing : uint8_t {
  SingleUse,     // only the match itself
  SameUseCount,  // exactly as many uses as in the pattern, as PyTorch's SubgraphRewriter asks
  Shared,        // anything; shared nodes stay behind
};

struct CompiledPattern;

// What the names of a pattern stand for.
class Match {
 public:
  // The value behind %name; null if the pattern has no such value.
  Value* operator[](std::string_view name) const;
  // The values behind %name... .
  std::span<Value* const> rest(std::string_view name) const;
  // The value of attribute variable $name, or null.
  const IValue* attribute(std::string_view name) const;
  // The operator behind any::name; empty if there is none.
  Symbol kind(std::string_view name) const;
  // The nodes, in the order of the pattern; constants included.
  const std::vector<Node*>& nodes() const { return nodes_; }
  // The values that the pattern returns.
  std::vector<Value*> outputs() const;
  // Where a replacement may be inserted: in front of this node.
  Node* point() const { return point_; }

 private:
  friend class Matcher;
  friend class Pattern;
  std::shared_ptr<const CompiledPattern> pattern_;
  std::vector<Node*> nodes_;
  std::vector<Value*> values_;
  std::vector<std::vector<Value*>> rests_;
  std::vector<const IValue*> attributes_;
  std::vector<Symbol> kinds_;
  Node* point_ = nullptr;
};

class Pattern {
 public:
  using ValuePredicate = std::function<bool(Value*, RewriteContext&)>;
  using MatchPredicate = std::function<bool(const Match&, RewriteContext&)>;

  // Reports what is wrong with the text where it is.
  static Result<Pattern> parse(SourcePtr text, Diagnostics& diagnostics);
  static Result<Pattern> parse(std::string_view text, Diagnostics& diagnostics);

  // Conditions; all must hold. One on a value is asked as soon as the name is bound.
  Pattern& where(std::string_view name, ValuePredicate predicate);
  // `text` is what messages call the condition; `isKnown` tells one that is false from one that cannot be answered.
  Pattern& where(MatchPredicate predicate, std::string text = {}, MatchPredicate isKnown = nullptr);
  Pattern& sharing(Sharing sharing);
  // Nested nodes of one of these kinds, which commute, match as sums of many: any nesting and order of as many terms,
  // 8 at most. Only such nodes as nothing else uses. Their factor, if there is one, is 1.
  Pattern& associative(std::vector<Symbol> kinds);

  // Numbers of the pattern match constants of the same value whatever their type: 2 also 2.0, and 1 also True.
  Pattern& constantsByValue();

  // Finds the match whose node for the pattern's node `seed` is this one. Matches lie in one block; constants may stand
  // outside of it. Operators that are declared commutative match with their first two inputs either way, as written
  // first.
  std::optional<Match> match(Node* node, size_t seed, RewriteContext& context) const;
  // The same with any node of the pattern.
  std::optional<Match> match(Node* node, RewriteContext& context) const;
  // Of the nodes of the graph the one where most of the pattern fits, and what does not fit there; "" if there is a
  // match.
  std::string whyNot(RewriteContext& context) const;
  // All matches in the order of the node that each ends with; they may overlap.
  std::vector<Match> findAll(RewriteContext& context) const;

  // Builds the pattern's nodes with a builder, taking for parameters and variables what they stand for in a match.
  // Returns the values of its outputs; nothing if a value is not bound.
  std::optional<std::vector<Value*>> reify(const Match& match, RewriteContext& context, Builder& builder) const;

  const Graph& graph() const;
  bool isAssociative() const { return !associative_.empty(); }
  // Whether it has match::call nodes, which stand for what may have any effect.
  bool holdsCalls() const;
  // Whether some attribute is the variable $name.
  bool hasVariable(std::string_view name) const;
  // The kinds of its nodes without constants and any:: nodes; none if only such are there.
  std::vector<Symbol> kinds() const;
  // Whether this pattern can be built from matches of the other; reports names that the other one does not bind.
  bool isBuiltFrom(const Pattern& other, Diagnostics& diagnostics) const;

 private:
  friend class Matcher;
  // Of the node that makes the first output; SIZE_MAX if there is none.
  size_t rootIndex() const;
  std::shared_ptr<const CompiledPattern> pattern_;
  std::vector<std::pair<size_t, ValuePredicate>> valuePredicates_;
  struct WholeCondition {
    MatchPredicate holds;
    std::string text;
    MatchPredicate isKnown;  // null: always
  };
  std::vector<WholeCondition> matchPredicates_;
  std::vector<Symbol> associative_;
  bool byValue_ = false;
  Sharing sharing_ = Sharing::SingleUse;
};

// Replaces what matches `from` by `to`. Only where no node writes what the match reads or makes, unless it is a single
// node whose result is new memory, as is then that of the replacement. Calls that the pattern names are taken to have
// no other effects than their results.
NodeRewrite patternRewrite(std::string name, Pattern from, Pattern to);
// The same with code that builds the replacement in front of match.point(): one value for each output of the pattern,
// or Replacement::of(...).
NodeRewrite patternRewrite(std::string name, Pattern from,
                           std::function<Replacement(const Match&, RewriteContext&)> build);

// Two patterns that mean the same: a rewrite in either direction. Values are shared by name.
struct Relation {
  std::string name;
  Pattern left, right;
  NodeRewrite forward() const { return patternRewrite(name, left, right); }
  NodeRewrite backward() const { return patternRewrite(name + "_backward", right, left); }
};

}  // namespace tscompile
