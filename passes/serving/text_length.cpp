#include "passes/serving/text_length.h"

#include "passes/lowering/clean_up.h"
#include "passes/rewrite/plan.h"
#include "passes/serving/serving_passes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

namespace tscompile {
namespace {

using Elements = SmallInstance::Elements;

// Longer texts are not looked at.
constexpr int64_t kMostTokens = int64_t{1} << 17;

// Texts of several lengths, made when they are asked for.
class Texts {
 public:
  Texts(RewriteContext& context, const Value* positions) : context_(context), positions_(positions) {}

  // What a question comes to for each of the lengths; nothing if not the same, or not known.
  std::optional<Elements> answer(const Value* v, const std::set<int64_t>& lengths) {
    const Answers found = answers(v, lengths);
    return found.areKnown && !found.differ ? found.first : std::nullopt;
  }
  // Whether two of the lengths are known to have other answers.
  bool differ(const Value* v, const std::set<int64_t>& lengths) { return answers(v, lengths).differ; }

  // Adds the lengths at which a question may have another answer: about the numbers that it is asked with, what two of
  // them give together, and multiples, as far as they are from 2 to `most`. False if there are too many, or one is
  // above a `most` that not all texts keep to.
  bool addBends(const Value* question, int64_t most, bool isBound, std::set<int64_t>& lengths) const {
    constexpr size_t kMostNumbers = 4, kMostLengths = 96;
    std::optional<std::vector<Node*>> nodes = nodesBehind(question, {positions_}, context_);
    if (!nodes) return false;
    std::set<int64_t> numbers;
    for (const Node* n : *nodes)
      for (const Use& u : n->inputs())
        if (const IValue* c = GraphFacts::constant(u.value); c && (c->isInt() || c->isFloat()) && c->toDouble() > 1)
          numbers.insert(static_cast<int64_t>(std::min(c->toDouble(), 2.0 * static_cast<double>(kMostTokens))));
    if (numbers.size() > kMostNumbers || (!numbers.empty() && *numbers.rbegin() > most && !isBound)) return false;
    std::set<int64_t> bends = numbers;
    for (int64_t a : numbers)
      for (int64_t b : numbers) bends.insert({a + b, a - b, a * b, a / b, 3 * a});
    for (int64_t bend : bends)
      for (int64_t tokens : {bend - 1, bend, bend + 1})
        if (tokens >= 2 && tokens <= most) lengths.insert(tokens);
    return lengths.size() <= kMostLengths;
  }

 private:
  struct Answers {
    std::optional<Elements> first;
    bool areKnown = true, differ = false;
  };
  Answers answers(const Value* v, const std::set<int64_t>& lengths) {
    Answers out;
    for (int64_t tokens : lengths) {
      std::optional<Elements> e = made_.try_emplace(tokens, context_, 1, tokens, positions_).first->second.compute(v);
      out.areKnown = out.areKnown && e;
      out.differ = out.differ || (e && out.first && e->values != out.first->values);
      if (e && !out.first) out.first = std::move(e);
    }
    return out;
  }

  RewriteContext& context_;
  const Value* positions_;
  std::map<int64_t, SmallInstance> made_;
};

class TextLengths {
 public:
  TextLengths(RewriteContext& context, const Value* ids, const Value* positions, int64_t longest, int64_t most)
      : context_(context),
        positions_(positions),
        few_(context, 1, 6, positions),
        some_(context, 1, 23, positions),
        all_(context, 1, std::clamp<int64_t>(longest, 1, kMostTokens), positions),
        most_(std::clamp<int64_t>(most, all_.tokens, kMostTokens)),
        texts_(context, positions),
        isBound_(most <= kMostTokens) {
    ofText_.insert(ids);
    ofTokens_.insert(positions);
  }

  TextLengthFindings run() {
    isLong_ = few_.fits() && some_.fits() && all_.fits() && all_.tokens > some_.tokens;
    for (const Node* n : context_.graph.block()->nodes()) visit(n);
    return out_;
  }

 private:
  void visit(const Node* n) {
    const bool asksSizes = isSizeQuestion(n, context_.facts);
    const std::optional<size_t> form = slotOfForm(n, context_.facts);
    bool isOfText = n->hasBlocks(), isOfTokens = asksSizes;
    for (const Use& u : n->inputs()) {
      isOfText = isOfText || (!asksSizes && u.index() != form && ofText_.contains(u.value));
      isOfTokens = isOfTokens || ofTokens_.contains(u.value) || ofText_.contains(u.value);
    }
    if (isOfText || isOfTokens)
      for (const Value* v : n->outputs()) (isOfText ? ofText_ : ofTokens_).insert(v);
    if (!out_.choice && n->hasBlocks() && hasEffect(n) && !isChosenAlike(n)) out_.choice = n;
    if (!out_.byLength && n->kind() == sym::If && hasEffect(n) && asksLength(n->input(0))) out_.byLength = n;
    if (!isOfText || !isLong_) return;
    for (const Use& u : n->inputs())
      if (u.value != positions_ && ofTokens_.contains(u.value) && isRead(n, u.value) && changes(u.value))
        out_.changing.insert(u.value);
  }

  // Checks that raise are none of a text's.
  bool hasEffect(const Node* n) {
    return std::ranges::any_of(n->outputs(), [](const Value* v) { return v->hasUses(); }) ||
           !context_.facts.aliases().writes(n).empty();
  }

  // Whether the branches and rounds of a node, and of all that is inside of it, are the same for any tokens.
  bool isChosenAlike(const Node* n) {
    const bool isLoop = n->kind() == sym::Loop;
    bool isAlike = (!isLoop && n->kind() != sym::If) || (isAlways(n->input(0)) && (!isLoop || isAlways(n->input(1))));
    for (const Block* b : n->blocks()) {
      if (isLoop) isAlike = isAlike && GraphFacts::constant(b->result(0));
      for (const Node* inner : b->nodes()) isAlike = isAlike && (!inner->hasBlocks() || isChosenAlike(inner));
    }
    return isAlike;
  }

  // Whether texts of two tokens and more have other answers.
  bool asksLength(const Value* v) {
    if (v->block() != context_.graph.block() || ofText_.contains(v) || !ofTokens_.contains(v)) return false;
    std::set<int64_t> lengths{2, few_.tokens, some_.tokens, all_.tokens};
    texts_.addBends(v, all_.tokens, true, lengths);
    return texts_.differ(v, lengths);
  }

  bool isAlways(const Value* v) {
    if (GraphFacts::constant(v)) return true;
    if (v->block() != context_.graph.block() || ofText_.contains(v)) return false;
    if (!ofTokens_.contains(v)) return true;
    std::set<int64_t> lengths{1, few_.tokens, some_.tokens, all_.tokens, most_};
    return texts_.addBends(v, most_, isBound_, lengths) && texts_.answer(v, lengths);
  }

  // Sizes are asked for anew.
  bool isRead(const Node* n, const Value* v) {
    if (v->type()->isTensor()) return true;
    const Operator* op = context_.facts.resolve(n);
    const bool isNumber = v->type()->is(TypeKind::Float) || v->type()->is(TypeKind::Int);
    return isNumber && op && op->has(Trait::Elementwise);
  }

  bool changes(const Value* v) {
    for (Node* n = quietNode(v, context_); n && n->inputCount() && hasOneSource(n); n = quietNode(v, context_))
      v = n->input(0);
    if (v == positions_) return false;
    auto [known, isNew] = changes_.try_emplace(v, false);
    if (isNew) known->second = isOther(v);
    return known->second;
  }

  bool hasOneSource(const Node* n) {
    return (context_.facts.movesElements(n) || context_.facts.keepsElements(n)) && ofTokens_.contains(n->input(0)) &&
           std::none_of(n->inputs().begin() + 1, n->inputs().end(),
                        [&](const Use& u) { return u.value->type()->isTensor() && ofTokens_.contains(u.value); });
  }

  bool isOther(const Value* v) {
    if (isOfPairs(v) || hasAnyElements(v)) return false;
    std::optional<Elements> few = few_.compute(v), some = some_.compute(v), all = all_.compute(v);
    if (!few || !some || !all) return false;
    return !beginsWith(*all, *few, few_.tokens) || !beginsWith(*all, *some, some_.tokens);
  }

  // Memory that is to be written.
  bool hasAnyElements(const Value* v) const {
    std::optional<std::vector<Node*>> nodes = nodesBehind(v, {positions_}, context_);
    return !nodes || std::ranges::any_of(*nodes, [&](const Node* n) {
      const Operator* op = context_.facts.resolve(n);
      return op && op->has(Trait::Uninitialized);
    });
  }

  // Pairs of tokens, which attention looks at.
  bool isOfPairs(const Value* v) const {
    std::optional<Dims> few = few_.sizes(v), all = all_.sizes(v);
    if (!few || !all || few->size() != all->size()) return false;
    size_t growing = 0;
    for (size_t i = 0; i < few->size(); ++i) growing += (*few)[i] != (*all)[i];
    return growing > 1;
  }

  // Whether rows of a text begin with those of a shorter one.
  bool beginsWith(const Elements& all, const Elements& part, int64_t tokens) const {
    if (all.sizes.size() != part.sizes.size()) return false;
    std::optional<size_t> dim;
    for (size_t i = 0; i < all.sizes.size(); ++i) {
      if (all.sizes[i] == part.sizes[i]) continue;
      if (dim || all.sizes[i] != all_.tokens || part.sizes[i] != tokens) return true;
      dim = i;
    }
    size_t inner = 1;
    for (size_t i = dim.value_or(all.sizes.size()) + 1; i < all.sizes.size(); ++i)
      inner *= static_cast<size_t>(all.sizes[i]);
    const size_t run = dim ? inner * static_cast<size_t>(tokens) : part.values.size(),
                 step = dim ? inner * static_cast<size_t>(all_.tokens) : run;
    for (size_t i = 0; i < part.values.size(); ++i) {
      const double want = part.values[i], is = all.values[i / run * step + i % run];
      if (!(want == is || std::abs(want - is) <= 1e-5 * (1 + std::abs(want)))) return false;
    }
    return true;
  }

  RewriteContext& context_;
  const Value* positions_;
  const SmallInstance few_, some_, all_;
  const int64_t most_;  // tokens of a step
  Texts texts_;
  const bool isBound_;   // there are no longer texts
  bool isLong_ = false;  // whether there are texts that could be other
  std::unordered_set<const Value*> ofText_, ofTokens_;
  std::unordered_map<const Value*, bool> changes_;
  TextLengthFindings out_;
};

}  // namespace

TextLengthFindings findTextLengths(RewriteContext& context, const Value* ids, const Value* positions, int64_t longest,
                                   int64_t most) {
  return TextLengths(context, ids, positions, longest, most).run();
}

bool answerForTexts(RewriteContext& context, const Value* positions, int64_t longest) {
  constexpr int64_t kUsual = 1024;
  const bool isBound = longest != 0 && longest <= kMostTokens;
  const int64_t most = std::min(longest ? longest : kUsual, kMostTokens);
  Texts texts(context, positions);
  auto answer = [&](const Value* v) -> std::optional<double> {
    std::set<int64_t> lengths{2, std::min<int64_t>(6, most), std::min<int64_t>(23, most), most};
    if (!texts.addBends(v, most, isBound, lengths)) return std::nullopt;
    std::optional<Elements> e = texts.answer(v, lengths);
    return e && e->values.size() == 1 ? std::optional(e->values[0]) : std::nullopt;
  };
  bool isAny = false;
  for (Node* n : context.graph.block()->nodes()) {
    Value* v = n->outputCount() == 1 && n->kind() != sym::Constant ? n->output() : nullptr;
    if (!v || !v->type()->is(TypeKind::Bool) || !v->hasUses()) continue;
    std::optional<double> known = answer(v);
    if (!known) continue;
    Builder b(context.graph, n);
    v->replaceAllUsesWith(b.constant(IValue(*known != 0)));
    isAny = true;
  }
  return isAny;
}

void answerQuestions(RewriteContext& context, const Value* positions, int64_t longest) {
  std::vector<NodeRewrite> peephole;
  for (NamedRewrite& r : peepholeRewrites()) peephole.push_back(std::move(r.rewrite));
  const Plan told = Plan::walk("answers", std::move(peephole));
  auto fold = [&] {
    for (auto pass : {foldConstants, removeGuards, removeDeadCode}) {
      context.facts.refresh();
      pass(context.graph, context);
    }
    context.facts.refresh();
  };
  bool isAny = false;
  context.facts.refresh();
  while (answerForTexts(context, positions, longest)) {
    isAny = true;
    constexpr int kMostRounds = 8;
    fold();
    for (int round = 0; round < kMostRounds && told.run(context).changed; ++round) fold();
  }
  if (!isAny) return;
  writePlainly(context.graph, context);  // what was in branches
  context.facts.refresh();
}

}  // namespace tscompile
