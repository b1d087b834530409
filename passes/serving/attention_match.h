// Finds causal attention that is written out in single operators, or in one, and says what it attends to.
#pragma once

#include "passes/serving/bends.h"
#include "passes/serving/head_source.h"
#include "passes/serving/score_map.h"

#include <array>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace tscompile {

// A size of a tensor: a factor of the number of texts, of tokens, of both or of none.
struct NamedSize {
  int64_t factor = 1;
  bool ofBatch = false, ofTokens = false;
};

struct AttentionMatch {
  Value* result = nullptr;  // [batch, heads, tokens, size] row by row, in these sizes
  std::vector<NamedSize> sizes = {};
  HeadSource q, k, v;
  double scale = 1;                // of the products of queries and keys
  double softcap = 0;              // 0: none
  ScoreRule rule;                  // of the keys that are seen
  std::vector<double> sinks = {};  // of each head: the score of one more key that has no value; empty: there is none
};

class AttentionMatcher {
 public:
  // `positions`: the input [batch, tokens] that counts the tokens of each text from 0, or null.
  // `longest`: no text has more tokens; 0: not known.
  explicit AttentionMatcher(RewriteContext& context, const Value* positions = nullptr, int64_t longest = 0);
  // Whether the sizes of the graph can be known at all.
  bool works() const;
  // What is in the way, if something is.
  std::optional<ShapeConflict> conflict() const;
  // The attention whose result this node computes.
  std::optional<AttentionMatch> match(Node* node);
  // A value [batch, tokens, heads * size] that is nothing but the match's result in other order; null if there is none.
  Value* resultInRows(const AttentionMatch& match);

  // Of what looked like attention and was none: the node, and why.
  struct Miss {
    const Node* node;
    std::string reason;
  };
  const std::vector<Miss>& misses() const { return misses_; }
  // Two instances that differ in all sizes which may differ.
  std::array<const SmallInstance*, 2> instances() const { return {&small_[0], &small_[1]}; }

 private:
  struct Scores {
    Value* value = nullptr;
    double scale = 1, softcap = 0;
    bool causal = false;                            // without a mask
    std::vector<Value*> fills, additions, choices;  // masks: where to fill, what to add, which to keep
    std::map<const Value*, const Value*> masked;    // of each mask: the scores that have it
    // Or all that is done to the products of queries and keys, which follows from what they are.
    Value *whole = nullptr, *products = nullptr;
    ScoreRule rule;             // what the masks say
    std::vector<double> sinks;  // see AttentionMatch
  };
  Node* quiet(const Value* value, Symbol kind = Symbol()) { return quietNode(value, context_, kind); }
  bool keepsRows(const Node* n);
  bool handsOn(const Node* n);
  std::optional<double> number(const Value* value);
  bool isFar(const Value* value);
  bool computable(const Value* value) { return small_[0].compute(value).has_value(); }
  std::optional<AttentionMatch> matchProduct(Node* product);
  std::optional<AttentionMatch> matchOperator(Node* node);
  bool stepBack(Scores& s, Node* n);
  bool takeMask(Scores& s, Node* n);
  bool takeSoftcap(Scores& s, Node* n);
  Node* withoutHiddenRows(Node* weights);
  bool takeSinks(Scores& s);
  Value* withoutFactors(Value* value, double& scale);
  bool readMask(Scores& s, int64_t heads, std::string& reason);
  std::optional<ScoreMap> mapOf(const Scores& s, int64_t heads, const SmallInstance& instance);
  std::optional<std::vector<NamedSize>> sizesOf(const Value* value);
  std::optional<ScoreRule> ruleOf(const Scores& s, int64_t heads, std::string& reason);
  std::optional<ScoreMap> largestMap(const Scores& s, int64_t heads, const Bends& bends);
  bool fitScale(Scores& s);
  Node* productBehind(Value* scores);
  std::optional<Bends> bendsOfMasks(const Scores& s);
  std::vector<int64_t> tokensToTry(const Scores& s, const Bends& bends) const;
  // One text of so many tokens, and of as many as there may be.
  const SmallInstance& ofTokens(int64_t tokens);
  const SmallInstance& longInstance();
  Value* uncut(Value* mask);
  void takeFactorsOfRows(HeadSource& s, double& scale);
  // `product`: of queries and keys, whose last dimensions are swapped there; null: they are not.
  std::optional<AttentionMatch> complete(Value* q, Value* k, Value* v, const Node* product, Scores& s, Node* node);
  std::optional<AttentionMatch> miss(const Node* node, std::string reason);

  RewriteContext& context_;
  const Value* positions_;
  int64_t longest_;
  // Of masks that were read, and heads; and why there is no rule.
  using Masks = std::pair<std::array<std::vector<Value*>, 3>, int64_t>;
  std::map<Masks, std::optional<ScoreRule>> rules_;
  std::map<Masks, std::string> reasons_;
  std::deque<SmallInstance> small_;
  std::optional<HeadSources> heads_;  // if there are instances
  bool isFixed_ = false;
  std::vector<Miss> misses_;
};

}  // namespace tscompile
