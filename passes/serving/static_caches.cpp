#include "passes/serving/static_caches.h"

#include "ir/analysis/alias.h"
#include "ir/graph/builder.h"
#include "ir/graph/clone.h"
#include "ir/values/aten.h"
#include "passes/rewrite/rewrite.h"
#include "passes/serving/drop_caches.h"
#include "passes/serving/entrance.h"
#include "passes/serving/fixed_caches.h"
#include "passes/serving/input_roles.h"
#include "passes/serving/lookups.h"
#include "passes/serving/masks/mask_use.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace tscompile {
namespace {

const TensorFacts* factsOf(const Value* v) { return v->type()->isTensor() ? &v->type()->tensor() : nullptr; }

bool hasKnownSizes(const Value* v) {
  const TensorFacts* f = factsOf(v);
  return f && f->hasRank && f->dtype != DType::Undefined &&
         std::ranges::all_of(f->sizes, [](int64_t s) { return s >= 0; });
}

class WholeTexts {
 public:
  WholeTexts(Graph& graph, const OpRegistry& registry, bool isOneByOne)
      : graph_(graph), registry_(registry), isOneByOne_(isOneByOne) {}

  const std::string& unchanged() const { return unchanged_; }

  StaticCaches run(std::string& mask) {
    findInputs();
    if (!ids_ || !logitsOf(graph_) || !findCaches()) return StaticCaches::None;
    const bool isOneByOne = hasOneToken();
    if (isOneByOne && inputs_.size() > (places_ ? 2 : 1) + alsoPlaces_.size() + masks_.size() + given_.size())
      return StaticCaches::None;
    if (isOneByOne && !findReturned()) return StaticCaches::None;
    for (Node* n : attributes_) kept_.push_back({copyOf(n->output(), n->next())});
    for (const auto& [read, anew] : replaced_) kept_.push_back({copyOf(read->output(), read->next()), anew});
    returned_.resize(given_.size());
    for (size_t i = 0; i < given_.size(); ++i) beginWithZeros(given_[i], returned_[i]);
    if (isOneByOne)
      loopOverTokens();
    else
      giveAll();
    for (Value* start : starts_) {
      Builder b(graph_, graph_.block()->first() ? graph_.block()->first() : graph_.returnNode());
      start->replaceAllUsesWith(b.constant(firstPlaceOf(start)));
      eraseInput(start);
    }
    if (places_) eraseInput(places_);
    for (const Value* v : alsoPlaces_)
      if (isOneByOne) eraseInput(v);
    for (const Value* v : masks_) {
      mask = v->name();
      eraseInput(v);
    }
    dropLastWrites();
    return isOneByOne ? StaticCaches::OneByOne : StaticCaches::WholeText;
  }

 private:
  // What is written, or joined to, has the form of the result, and a stack that of its parts.
  static TypePtr formOf(const Value* v) {
    if (!v->type()->isTensor() || hasKnownSizes(v)) return v->type();
    int64_t parts = 0;
    const TensorFacts* part = nullptr;
    for (const Use& u : v->uses()) {
      const Symbol k = u.user->kind();
      const Value* list = k == sym::ListConstruct ? u.user->output() : nullptr;
      const Node* join = list && list->useCount() == 1 ? (*list->uses().begin()).user : nullptr;
      if (join && join->kind() == aten::cat && grows(join->output())) return join->output()->type();
      const bool writes = isOrWrites(k, kIndexCopy) || isOrWrites(k, kIndexPut);
      if (writes && u.index() == 0 && hasKnownSizes(u.user->output())) return u.user->output()->type();
      const IValue* dim = k == aten::select ? GraphFacts::constant(u.user->input(1)) : nullptr;
      const IValue* at = dim ? GraphFacts::constant(u.user->input(2)) : nullptr;
      if (!at || !at->isInt() || at->toInt() < 0 || dim->toInt() != 0 || !grows(u.user->output())) continue;
      parts = std::max(parts, at->toInt() + 1);
      part = factsOf(u.user->output());
    }
    if (!part) return v->type();
    TensorFacts all = *part;
    all.sizes.insert(0, parts);
    all.strides = {};
    return tensorType(all);
  }

  // Containers of tensors become tensors, and so do the parts of a stack, which are written one by one.
  void takeApart() {
    keys_ = takeInputsApart(graph_, formOf);
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      Value* input = graph_.input(i);
      if (!takesTokens(input, AliasAnalysis(graph_, registry_), false)) continue;
      const std::optional<StackParts> stack = partsOf(input);
      if (!stack) continue;
      TensorFacts one = *factsOf(input);
      one.strides = {}, one.sizes = {};
      for (size_t d = 0; d < factsOf(input)->sizes.size(); ++d)
        if (d != stack->dim) one.sizes.push_back(factsOf(input)->sizes[d]);
      for (Node* n : stack->asked) {
        Builder b(graph_, n);
        n->output()->replaceAllUsesWith(number(b, factsOf(input)->sizes[*dimOf(n, factsOf(input)->sizes.size())]));
        n->destroy();
      }
      Value* any = nullptr;
      for (const auto& [at, nodes] : stack->parts) {
        any = graph_.addInput(tensorType(one));
        for (Node* n : nodes) {
          n->output()->replaceAllUsesWith(any);
          n->destroy();
        }
      }
      // What is written is returned as well, which tells nothing.
      input->replaceAllUsesWith(any);
      eraseInput(graph_.input(i--));
    }
  }

  // Parts that are taken along one dimension, each at places that are told; of what is handed on to callers none.
  struct StackParts {
    size_t dim = 0;
    std::map<int64_t, std::vector<Node*>> parts;
    std::vector<Node*> asked;  // for sizes
  };
  // The dimension that a node is given behind its tensor.
  static std::optional<size_t> dimOf(const Node* n, size_t rank) {
    const IValue* along = n->inputCount() > 1 ? GraphFacts::constant(n->input(1)) : nullptr;
    if (!along || !along->isInt()) return std::nullopt;
    const int64_t dim = along->toInt() + (along->toInt() < 0 ? static_cast<int64_t>(rank) : 0);
    return dim < 0 || dim >= static_cast<int64_t>(rank) ? std::nullopt : std::optional(static_cast<size_t>(dim));
  }
  static std::optional<StackParts> partsOf(const Value* v) {
    if (!v->type()->isTensor() || !hasKnownSizes(v)) return std::nullopt;
    const Dims& sizes = factsOf(v)->sizes;
    StackParts out;
    for (const Use& u : v->uses()) {
      if (isHandedOn(u)) continue;
      const std::optional<size_t> dim = u.index() == 0 ? dimOf(u.user, sizes.size()) : std::nullopt;
      if (!dim) return std::nullopt;
      if (u.user->kind() == aten::size) {
        out.asked.push_back(u.user);
        continue;
      }
      const IValue* at = u.user->kind() == aten::select ? GraphFacts::constant(u.user->input(2)) : nullptr;
      if (!at || !at->isInt() || (!out.parts.empty() && *dim != out.dim)) return std::nullopt;
      out.dim = *dim;
      const int64_t place = at->toInt() + (at->toInt() < 0 ? sizes[*dim] : 0);
      if (place < 0 || place >= sizes[*dim]) return std::nullopt;
      out.parts[place].push_back(u.user);
    }
    return out.parts.empty() ? std::nullopt : std::optional(std::move(out));
  }
  static bool isHandedOn(const Use& u) {
    const Symbol k = u.user->kind();
    if (k == sym::Return) return true;
    if (k != sym::TupleConstruct && k != sym::ListConstruct && k != sym::DictConstruct) return false;
    for (const Use& next : u.user->output()->uses())
      if (!isHandedOn(next)) return false;
    return true;
  }

  void findInputs() {
    takeApart();
    for (Value* v : graph_.inputs()) {
      const bool isNumber = v->type()->isTensor() && factsOf(v)->hasRank && factsOf(v)->sizes.empty();
      if (isFirstPlace(v) || (isNumber && !roleByName(v) && isWrittenAt(v)))
        starts_.push_back(v);
      else if (v->type()->isTensor())
        inputs_.push_back(v);
    }
    for (Value* v : inputs_)
      if (roleByName(v) == ServingInput::Ids && !ids_) ids_ = v;
    for (Value* v : inputs_)
      if (!ids_ && !roleByName(v)) ids_ = v;
    for (Value* v : inputs_)
      if (roleByName(v) == ServingInput::Mask && (isOfPlaces(v) || (hasOneToken() && isOfText(v)))) masks_.push_back(v);
    if (masks_.size() > 1) masks_.clear();  // nothing tells which of them hides more
    // Where several inputs count tokens, places of caches are those that these are written at.
    auto isMore = [this](const Value* v) {
      return !places_ || !isRow(places_) || (isRow(v) && isWrittenAt(v) && !isWrittenAt(places_));
    };
    for (Value* v : inputs_)
      if (roleByName(v) == ServingInput::Positions && isMore(v) &&
          (isRow(v) || (hasOneToken() && ((hasKnownSizes(v) && mayBePlaces(v)) || isPlaceOfEach(v))) ||
           (starts_.empty() && !masks_.empty() && isRowOfEach(v))))
        places_ = v;
    for (Value* v : inputs_)
      if (!places_ && v != ids_ && !roleByName(v) && isRow(v) && isWrittenAt(v)) places_ = v;
    for (Value* v : inputs_)
      if (hasOneToken() && v != places_ && roleByName(v) == ServingInput::Positions && mayBePlaces(v))
        alsoPlaces_.push_back(v);
  }

  // Numbers of one token, whatever they are repeated for: sections of a rotary embedding have the same.
  static bool mayBePlaces(const Value* v) {
    const TensorFacts* f = factsOf(v);
    return f->hasRank && (f->dtype == DType::Undefined || isIntegral(f->dtype, /*includeBool=*/false)) &&
           (f->sizes.empty() || f->sizes.back() < 0 || f->sizes.back() == 1);
  }

  // A mask of a number for each place of the caches, of each token or of one.
  bool isOfPlaces(const Value* v) const {
    const TensorFacts* f = factsOf(v);
    const int64_t places = placesInCaches(graph_);
    if (!f->hasRank || f->sizes.empty() || f->dtype == DType::Undefined || places < 2 || f->sizes.back() != places)
      return false;
    return std::all_of(f->sizes.begin(), f->sizes.end() - 1, [](int64_t s) { return s < 0 || s == 1; });
  }

  // [texts, .., tokens], of the token and those before it.
  static bool isOfText(const Value* v) {
    const TensorFacts* f = factsOf(v);
    return f->hasRank && f->sizes.size() >= 2 && f->sizes.back() < 0 && f->dtype != DType::Undefined &&
           hasOneOfEach(f->sizes, 1, f->sizes.size() - 1);
  }
  // Of one text, or of as many as there are.
  static bool hasOneOfEach(const Dims& sizes, size_t from, size_t to) {
    return (sizes[0] == 1 || sizes[0] < 0) &&
           std::all_of(sizes.begin() + static_cast<long>(from), sizes.begin() + static_cast<long>(to),
                       [](int64_t s) { return s == 1; });
  }
  static bool isRowOfEach(const Value* v) {
    const TensorFacts* f = factsOf(v);
    return f->hasRank && f->sizes.size() == 2 && (f->sizes[0] == 1 || f->sizes[0] < 0) && f->sizes[1] < 0;
  }
  static bool isPlaceOfEach(const Value* v) {
    const TensorFacts* f = factsOf(v);
    return f->hasRank && f->sizes.size() >= 2 && f->dtype != DType::Undefined &&
           hasOneOfEach(f->sizes, 1, f->sizes.size());
  }

  bool hasOneToken() const {
    if (isOneByOne_) return true;
    const TensorFacts* f = ids_ ? factsOf(ids_) : nullptr;
    if (!f || !f->hasRank) return false;
    if (f->sizes.size() == 1) return f->sizes[0] == 1 || isEachOfText();
    return f->sizes.empty() || (f->sizes.size() == 2 && f->sizes[1] == 1 && isOfTexts());
  }
  // Ids of one dimension that all states share are tokens of as many texts.
  bool isEachOfText() const {
    auto isBesideIds = [&](const Value* v) { return v != ids_ && !roleByName(v); };
    return texts() < kUnknownSize && std::ranges::any_of(inputs_, isBesideIds) && isOfTexts();
  }
  // What each text keeps is there for each of them, else an open size of [*, 1] is that of tokens.
  bool isOfTexts() const {
    const int64_t open = texts();
    if (open >= kUnknownSize) return true;
    return std::ranges::all_of(inputs_, [&](const Value* v) {
      const TensorFacts& f = *factsOf(v);
      return v == ids_ || roleByName(v) || !f.hasRank || std::ranges::find(f.sizes, open) != f.sizes.end();
    });
  }

  // Places of one dimension are those that a dimension of a tensor is written or read at.
  static bool isRow(const Value* v) {
    const TensorFacts* f = factsOf(v);
    return f->hasRank ? f->sizes.size() == 1 : isWrittenAt(v);
  }
  static bool isWrittenAt(const Value* v) {
    for (const Use& u : v->uses()) {
      const Node* n = u.user;
      if (isOrWrites(n->kind(), kIndexCopy) && u.index() == 2) return true;
      const bool isView = n->kind() == aten::reshape || n->kind() == aten::view;
      if ((isView || n->kind() == kRemainder) && u.index() == 0 && isWrittenAt(n->output())) return true;
      if (n->kind() != sym::ListConstruct || n->inputCount() < 2) continue;
      for (const Use& list : n->output()->uses()) {
        const Symbol k = list.user->kind();
        const bool isIndexed = k == kIndex || isOrWrites(k, kIndexPut);
        if (isIndexed && list.index() == 1 && isOnlyTensor(n, u.index())) return true;
      }
    }
    return false;
  }

  static bool isOnlyTensor(const Node* list, size_t at) {
    for (size_t i = 0; i < list->inputCount(); ++i)
      if (i != at && !GraphFacts::isNone(list->input(i))) return false;
    return true;
  }

  // Attributes and inputs that calls write. Each call begins with copies of attributes of its own.
  bool findCaches() {
    if (!mergeReads()) return false;
    splitStacks();
    const AliasAnalysis alias(graph_, registry_);
    for (Node* n : graph_.block()->nodes()) {
      if (n->kind() == sym::GetAttr && n->output()->type()->isTensor() && alias.isWritten(n->output()))
        attributes_.push_back(n);
      // Programs of torch.export copy what they write, and a model may write into a copy that it puts back itself.
      const bool isCopy = n->kind() == aten::clone && isAttribute(n->input(0)) && alias.isWritten(n->output()) &&
                          !alias.isWritten(n->input(0));
      if (isCopy && !replaced_.contains(n->input(0)->node())) kept_.push_back({n});
    }
    for (Value* v : inputs_) {
      if (v == ids_ || v == places_ || !hasKnownSizes(v) || std::ranges::find(masks_, v) != masks_.end()) continue;
      if (takesTokens(v, alias)) given_.push_back(v);
    }
    forgetUnwritten();
    takeStates();
    return !kept_.empty() || !attributes_.empty() || areStates_ || areReplaced_ ||
           ((places_ || !starts_.empty()) && !given_.empty()) || (places_ && !hasOneToken());
  }

  // Attributes may be said to be written for fear that they share memory; copies share none.
  void forgetUnwritten() {
    std::vector<Node*> copies;
    for (Node* n : attributes_) copies.push_back(copyOf(n->output(), n->next()));
    const AliasAnalysis alias(graph_, registry_);
    std::erase_if(attributes_, [&](const Node* n) {
      return std::ranges::none_of(
          copies, [&](const Node* copy) { return copy->input(0) == n->output() && alias.isWritten(copy->output()); });
    });
    for (Node* copy : copies) {
      copy->output()->replaceAllUsesWith(copy->input(0));
      copy->destroy();
    }
  }

  // With a place for each token before, in one dimension.
  static bool grows(const Value* v) { return hasOpenSizes(v, 1); }
  static bool hasOpenSizes(const Value* v, int64_t count, int64_t other = kUnknownSize) {
    const TensorFacts* f = factsOf(v);
    return f && f->hasRank && f->dtype != DType::Undefined && std::ranges::count_if(f->sizes, [=](int64_t s) {
                                                                return s < 0 && (s != other || s == kUnknownSize);
                                                              }) == count;
  }
  // The symbol of how many texts there are, if it is open.
  int64_t texts() const {
    const TensorFacts* f = factsOf(ids_);
    const bool isOpen = f && f->hasRank && (f->sizes.size() == 2 || (f->sizes.size() == 1 && f->sizes[0] < 0));
    return isOpen ? f->sizes[0] : kUnknownSize;
  }

  // A cache of as many tokens as calls before had, for one text or as many as there are, which other passes drop.
  bool growsBehind(const Value* v) const { return hasOpenSizes(v, 1, texts()) && isJoinedTo(v); }
  // As it is, or as a view.
  bool isJoinedTo(const Value* v) const {
    std::vector<const Value*> views{v};
    while (!views.empty()) {
      v = views.back();
      views.pop_back();
      for (const Use& u : v->uses()) {
        const Node* n = u.user;
        if (u.index() != 0 || n->outputCount() != 1) continue;
        if (n->kind() == sym::ListConstruct && n->inputCount() == 2) {
          for (const Use& join : n->output()->uses())
            if (join.user->kind() == aten::cat) return true;
        } else if (isViewOfFirst(n)) {
          views.push_back(n->output());
        }
      }
    }
    return false;
  }
  bool isViewOfFirst(const Node* n) const {
    const Operator* op = registry_.resolve(*n);
    if (!op || op->schema().arguments.empty()) return false;
    const Argument& first = op->schema().arguments[0];
    return first.alias && !first.isWritten() && n->output()->type()->isTensor();
  }

  // What is given beside the tokens, if the call returns as many tensors of the same forms. What grows is of no tokens
  // at first, which calls for one token alone are right for; beside calls for many it is left to be dropped.
  void takeStates() {
    const std::vector<Value*> written = given_;
    auto isOf = [](const std::vector<Value*>& all, const Value* v) { return std::ranges::find(all, v) != all.end(); };
    std::vector<Value*> states;
    for (Value* v : inputs_) {
      if (v == ids_ || v == places_ || isOf(alsoPlaces_, v) || isOf(masks_, v) || isOf(written, v)) continue;
      if (!hasOneToken() && (roleByName(v) || growsBehind(v))) continue;
      if (roleByName(v) || !(hasOpenSizes(v, 0, texts()) || (hasOneToken() && hasOpenSizes(v, 1, texts())))) return;
      states.push_back(v);
    }
    if (states.empty()) return;
    given_.clear();
    for (Value* v : inputs_)
      if (isOf(written, v) || isOf(states, v)) given_.push_back(v);
    areStates_ = findReturned();
    returned_.clear();
    if (!areStates_) given_ = written;
  }

  // Whether new tokens are put at places of it, or of parts of it, or these are written: not what else it might share
  // its memory with.
  static bool takesTokens(const Value* v, const AliasAnalysis& alias, bool mayPutElsewhere = true) {
    for (const Use& u : v->uses()) {
      const Node* n = u.user;
      const Symbol k = n->kind();
      if (u.index() != 0) continue;
      if (mayPutElsewhere && (k == kIndexCopy || k == kIndexPut || k == kSliceScatter)) return true;
      if (!n->hasBlocks() && !alias.writes(n).empty()) return true;
      auto isPart = [&](const Value* made) {
        return alias.mayShareMemory(made, v) && takesTokens(made, alias, mayPutElsewhere);
      };
      if (std::ranges::any_of(n->outputs(), isPart)) return true;
    }
    return false;
  }

  // An attribute is read once, before it is written. Where it becomes another tensor, that one is read after it; false
  // if some calls may leave it as it was, or if it grows from token to token, of a graph for one token.
  bool mergeReads() {
    using Attribute = std::pair<const Value*, std::string>;
    std::map<Attribute, Value*> now;
    std::vector<Node*> all;
    bool mayStay = false;
    forEachNode(graph_, [&](Node* n) {
      const bool isAttribute = (n->kind() == sym::GetAttr || n->kind() == sym::SetAttr) && n->attributeValue(sym::name);
      if (isAttribute) all.push_back(n);
      mayStay |= n->kind() == sym::SetAttr && (!isAttribute || n->block() != graph_.block());
    });
    if (mayStay) return false;
    std::map<Attribute, Node*> reads;
    for (Node* n : all) {
      const Attribute attribute{n->input(0), std::string(n->attributeValue(sym::name)->toString())};
      if (n->kind() == sym::SetAttr) {
        auto read = reads.find(attribute);
        if (hasOneToken() && (read == reads.end() || !isOfForm(n->input(1), read->second->output()))) return false;
        if (hasOneToken()) replaced_[read->second] = n->input(1);
        now[attribute] = n->input(1);
        areReplaced_ = true;
        n->destroy();
        continue;
      }
      auto [at, isNew] = now.try_emplace(attribute, n->output());
      if (isNew && n->block() == graph_.block()) reads.try_emplace(attribute, n);
      const Node* from = at->second->node();
      if (isNew || (from && from->block() != graph_.block())) continue;
      n->output()->replaceAllUsesWith(at->second);
      n->destroy();
    }
    return true;
  }

  // Tensors that lie side by side in an attribute, each taken at a place of its own, are kept one by one.
  void splitStacks() {
    const AliasAnalysis alias(graph_, registry_);
    std::vector<Node*> stacks;
    for (Node* n : graph_.block()->nodes())
      if (n->kind() == sym::GetAttr && n->output()->type()->isTensor() && alias.isWritten(n->output()))
        stacks.push_back(n);
    for (Node* n : stacks) split(n->output());
  }
  bool split(Value* stack) {
    std::map<int64_t, std::vector<Node*>> parts;
    std::optional<int64_t> dim;
    for (const Use& u : stack->uses()) {
      Node* n = u.user;
      if (n->kind() == aten::size) continue;
      const IValue* along = n->kind() == aten::select ? GraphFacts::constant(n->input(1)) : nullptr;
      const IValue* at = along ? GraphFacts::constant(n->input(2)) : nullptr;
      if (!at || !at->isInt() || !along->isInt() || at->toInt() < 0 || along->toInt() < 0 ||
          along->toInt() != dim.value_or(along->toInt()))
        return false;
      dim = along->toInt();
      parts[at->toInt()].push_back(n);
    }
    for (const auto& [at, nodes] : parts) {
      Builder b(graph_, stack->node()->next());
      Value* part = b.call(aten::select, {stack, number(b, *dim), number(b, at)}, nodes[0]->output()->type());
      begins_.insert(part->node());
      for (Node* n : nodes) {
        n->output()->replaceAllUsesWith(part);
        n->destroy();
      }
      if (!split(part)) kept_.push_back({copyOf(part, part->node()->next())});
    }
    return !parts.empty();
  }

  // Or a part of one.
  static bool isAttribute(const Value* v) {
    while (v->node() && v->node()->kind() == aten::slice) v = v->node()->input(0);
    return v->node() && (v->node()->kind() == sym::GetAttr || v->node()->kind() == sym::Constant);
  }

  // What is written last is for the next call.
  void dropLastWrites() {
    const AliasAnalysis alias(graph_, registry_);
    std::vector<Node*> all;
    for (Node* n : graph_.block()->nodes()) all.push_back(n);
    LocationSet read = alias.reads(graph_.returnNode());
    for (const Use& u : graph_.outputs()) read.add(alias.reachable(u.value));
    for (size_t i = all.size(); i-- > 0;) {
      Node* n = all[i];
      const LocationSet written = alias.writes(n);
      const bool isUsed = std::ranges::any_of(n->outputs(), [](const Value* v) { return v->hasUses(); });
      if (written.empty() || written.reachOutside() || written.intersects(read) || isUsed || n->hasBlocks()) {
        read.add(alias.reads(n));
        continue;
      }
      n->destroy();
    }
  }

  // Takes the place of a value.
  Node* copyOf(Value* v, Node* before) {
    Builder b(graph_, before);
    Node* copy = cloneOf(v, b)->node();
    v->replaceAllUsesWith(copy->output());
    copy->replaceInput(0, v);
    return copy;
  }

  // Among what is returned beside logits, in the order of the inputs; null for one that is written itself. Nothing is
  // looked for if all are.
  bool findReturned() {
    const AliasAnalysis alias(graph_, registry_);
    auto isWritten = [&](const Value* v) { return takesTokens(v, alias, false); };
    if (std::ranges::all_of(given_, isWritten)) return true;
    const bool isMixed = std::ranges::any_of(given_, isWritten);
    bool areHandedOn = true;
    std::vector<ReturnedTensor> all = returnedTensors(graph_);
    if (!all.empty()) all.erase(all.begin());
    passByUnread(all);
    for (const Value* v : given_) {
      const auto key = keys_.find(v);
      auto found = all.end();
      if (key != keys_.end())
        found = std::ranges::find_if(
            all, [&](const ReturnedTensor& r) { return r.key == key->second && haveOneForm(r.value, v); });
      if (found == all.end())
        found = std::ranges::find_if(all, [&](const ReturnedTensor& r) { return haveOneForm(r.value, v); });
      if (found == all.end()) found = std::ranges::find_if(all, [&](const auto& r) { return joinOf(v, r.value); });
      if (found == all.end() && isWritten(v)) {
        returned_.push_back(nullptr);
        continue;
      }
      if (found == all.end()) return false;
      const bool isSame = found->value == v;
      // What is read and never becomes another is no state, but such as an encoder returned.
      if (isSame && !isWritten(v) && (isMixed || v->useCount() > 1)) {
        unchanged_ = v->name();
        return false;
      }
      Value* joined = joinOf(v, found->value);
      returned_.push_back(joined ? joined : isSame ? nullptr : found->value);
      areHandedOn = areHandedOn && isSame;
      all.erase(key != keys_.end() ? found : all.begin(), found + 1);
    }
    return given_.empty() || isMixed || !areHandedOn;  // what is handed on knows nothing of the text
  }
  // What comes back for inputs that nothing reads, which stand among others of their form.
  void passByUnread(std::vector<ReturnedTensor>& all) const {
    auto isState = [&](const Value* v) { return v != ids_ && v != places_ && !roleByName(v) && !keys_.contains(v); };
    std::set<const Value*> unread;
    for (const Value* v : inputs_)
      if (isState(v) && !v->hasUses() && std::ranges::find(given_, v) == given_.end()) unread.insert(v);
    std::vector<ReturnedTensor> left = all;
    std::set<const Value*> taken;
    for (const Value* v : inputs_) {
      if (unread.empty() || !isState(v)) continue;
      const auto found = std::ranges::find_if(left, [&](const ReturnedTensor& r) { return haveOneForm(r.value, v); });
      if (found == left.end()) return;  // not all come back
      if (unread.contains(v)) taken.insert(found->value);
      left.erase(found);
    }
    std::erase_if(all, [&](const ReturnedTensor& r) { return taken.contains(r.value); });
  }
  static bool isOfForm(const Value* a, const Value* b) {
    return hasKnownSizes(a) && hasKnownSizes(b) && factsOf(a)->sizes == factsOf(b)->sizes &&
           factsOf(a)->dtype == factsOf(b)->dtype;
  }
  void beginWithZeros(Value* input, Value* returned) {
    Builder b(graph_, graph_.block()->first());
    Value* zeros = zerosLike(input, b);
    Node* first = zeros->node()->next();
    input->replaceAllUsesWith(zeros);
    Node* copy = copyOf(zeros, first);
    kept_.push_back({copy, returned});
    // Another state may become this one: (a, b) -> (b, x).
    std::ranges::replace(returned_, input, copy->output());
    for (Kept& k : kept_)
      if (k.anew == input) k.anew = copy->output();
    eraseInput(input);
  }

  // For as many texts as there are; of what grows there is nothing yet.
  Value* zerosLike(const Value* input, Builder& b) {
    const TensorFacts& f = *factsOf(input);
    const int64_t open = texts();
    auto isOfTexts = [=](int64_t size) { return size == open && open < kUnknownSize; };
    Dims sizes = f.sizes;
    std::ranges::replace_if(
        sizes, [&](int64_t s) { return s < 0 && !isOfTexts(s); }, 0);
    if (std::ranges::none_of(sizes, isOfTexts)) return b.constant(IValue(Tensor::zeros(f.dtype, sizes)));
    Value* count = b.call(aten::size, {ids_, number(b, 0)}, types().integer);
    std::vector<Value*> all;
    for (int64_t s : sizes) all.push_back(isOfTexts(s) ? count : number(b, s));
    Value *list = b.list(all, types().integer), *dtype = number(b, static_cast<int64_t>(f.dtype));
    Value* zeros = b.call(aten::zeros, {list, dtype, none(b), none(b), none(b)}, types().tensor);
    for (const Value* v : {count, list, zeros}) begins_.insert(v->node());
    return zeros;
  }

  void eraseInput(const Value* input) {
    std::span<Value* const> inputs = graph_.inputs();
    graph_.block()->removeParameter(
        static_cast<size_t>(std::find(inputs.begin(), inputs.end(), input) - inputs.begin()));
  }

  static Value* none(Builder& b) { return b.constant(IValue(), types().none); }
  static Value* number(Builder& b, int64_t n) { return b.constant(IValue(n)); }
  static Value* cloneOf(Value* v, Builder& b) { return b.call(aten::clone, {v, none(b)}, types().tensor); }
  // a + b, of tensors too
  static Value* sum(Value* v, Value* more, Builder& b) {
    if (!v->type()->isTensor()) return b.call(aten::add, {v, more}, v->type());
    return b.call(aten::add, {v, more, number(b, 1)}, v->type());
  }
  static Value* tokens(Builder& b, Value* ids) { return b.call(aten::size, {ids, number(b, 1)}, types().integer); }

  void giveAll() {
    Builder b(graph_, graph_.block()->first());
    if (places_) {
      const Dims sizes = factsOf(places_)->sizes;
      Value* row = countedFrom0(b, factsOf(places_)->dtype);
      if (sizes.size() == 2) row = forEachText(b.call(aten::unsqueeze, {row, number(b, 0)}, types().tensor), sizes, b);
      places_->replaceAllUsesWith(row);
    }
    for (Value* mask : masks_) mask->replaceAllUsesWith(maskLike(mask, countedFrom0(b, DType::Int64), b));
  }

  // What tokens at these places see of the caches: all places up to their own, in one row those up to the last one's.
  // Where nothing is told, numbers are 1 where they see, or are added to scores if they are floats of rows.
  Value* maskLike(const Value* mask, Value* places, Builder& b) {
    const TensorFacts& f = *factsOf(mask);
    const size_t rank = f.sizes.size();
    const std::optional<MaskUse> use = useOfMask(graph_, registry_, mask);
    const bool isOfRows =
        rank > 2 ||
        (rank == 2 && ((f.sizes[0] < 0 && f.sizes.back() >= 0) || (use && use->kind == MaskUse::Kind::Added)));
    const auto usual = isOfRows && isFloating(f.dtype) ? MaskUse::Kind::Added : MaskUse::Kind::Shown;
    const MaskUse::Kind kind = use ? use->kind : usual;
    Value* own = isOfRows ? b.call(aten::unsqueeze, {places, number(b, 1)}, types().tensor)
                          : b.call(aten::select, {places, number(b, 0), number(b, -1)}, types().tensor);
    Value* count = f.sizes.back() < 0 ? sum(b.call(aten::Int, {places}, types().integer), number(b, 1), b)
                                      : number(b, f.sizes.back());
    Value* all = b.call(aten::arange, {count, number(b, static_cast<int64_t>(DType::Int64)), none(b), none(b), none(b)},
                        types().tensor);
    Value* out = b.call(aten::le, {all, own}, types().tensor);
    auto as = [&](Value* v) {
      Value* no = b.constant(IValue(false));
      return b.call(aten::to, {v, number(b, static_cast<int64_t>(f.dtype)), no, no, none(b)}, types().tensor);
    };
    if (kind != MaskUse::Kind::Shown) out = b.call(aten::logical_not, {out}, types().tensor);
    if (kind == MaskUse::Kind::Added) {
      Value* nothing = b.call(aten::zeros_like, {as(out), none(b), none(b), none(b), none(b), none(b)}, types().tensor);
      Value* far = b.constant(IValue(-std::numeric_limits<double>::infinity()));
      out = b.call(aten::masked_fill, {nothing, out, far}, types().tensor);
    } else {
      out = as(out);
    }
    for (size_t r = isOfRows ? 2 : 1; r < rank; ++r) out = b.call(aten::unsqueeze, {out, number(b, 0)}, types().tensor);
    return f.sizes.back() < 0 ? forEachText(out, f.sizes, b) : out;
  }

  // [1, ..] becomes [texts, ..] where the number of texts is open.
  Value* forEachText(Value* one, const Dims& sizes, Builder& b) const {
    if (sizes[0] >= 0) return one;
    std::vector<Value*> all(sizes.size(), number(b, -1));
    all[0] = b.call(aten::size, {ids_, number(b, 0)}, types().integer);
    return b.call(aten::expand, {one, b.list(all, types().integer), b.constant(IValue(false))}, types().tensor);
  }

  // [tokens]
  Value* countedFrom0(Builder b, DType known) {
    Value* dtype = number(b, static_cast<int64_t>(known == DType::Undefined ? DType::Int64 : known));
    return b.call(aten::arange, {tokens(b, ids_), dtype, none(b), none(b), none(b)}, types().tensor);
  }

  // logits = graph(ids, places) -> logits of a loop over tokens. What is written goes from turn to turn; so does the
  // place, since a text may go on where another loop stopped.
  void loopOverTokens() {
    std::vector<Node*> body;
    for (Node* n : graph_.block()->nodes())
      if (n->kind() != sym::Constant && n->kind() != sym::GetAttr && !isCopy(n) && !begins_.contains(n))
        body.push_back(n);
    Builder b(graph_);
    Value *rows = b.list({}, types().tensor), *yes = b.constant(IValue(true));
    std::vector<Value*> begin{tokens(b, ids_), yes, b.constant(IValue(Tensor::zeros(DType::Int64, Dims{1})))};
    for (const Kept& cache : kept_) begin.push_back(cache.copy->input(0));
    Node* loop = b.insert(sym::Loop, begin, 1 + kept_.size());
    Block* turn = loop->addBlock();
    Value* at = turn->addParameter(types().integer);
    Value* place = turn->addParameter(types().tensor);
    ValueMap values;
    b.setPointAtEnd(turn);
    const size_t idsRank = factsOf(ids_)->hasRank ? factsOf(ids_)->sizes.size() : 2;
    const bool hasTexts = idsRank == 2;
    values[ids_] =
        hasTexts ? b.call(aten::slice, {ids_, number(b, 1), at, sum(at, number(b, 1), b), number(b, 1)}, types().tensor)
                 : b.call(aten::select, {ids_, number(b, 1), at}, types().tensor);
    if (idsRank == 0) values[ids_] = b.call(aten::select, {values[ids_], number(b, 0), number(b, 0)}, types().tensor);
    if (places_) values[places_] = placeLike(place, places_, b);
    for (Value* v : alsoPlaces_) values[v] = placeLike(place, v, b);
    for (Value* mask : masks_) values[mask] = maskLike(mask, place, b);
    for (Value* start : starts_)
      values[start] = !start->type()->isTensor() ? b.call(aten::Int, {place}, types().integer)
                      : factsOf(start)->sizes == Dims{1}
                          ? place
                          : b.call(aten::select, {place, number(b, 0), number(b, 0)}, types().tensor);
    std::vector<Value*> left;
    for (const Kept& cache : kept_) {
      Value* own = turn->addParameter(types().tensor);
      left.push_back(cloneOf(own, b));
      values[cache.copy->output()] = left.back();
    }
    for (const Node* n : body) cloneNode(*n, graph_, values)->insertBefore(turn->returnNode());
    for (size_t i = 0; i < kept_.size(); ++i)
      if (kept_[i].anew) left[i] = values.contains(kept_[i].anew) ? values.at(kept_[i].anew) : kept_[i].anew;
    Value* logits = logitsOf(graph_);
    const TensorFacts& facts = logits->type()->tensor();
    const bool isRow = facts.hasRank && facts.sizes.size() <= 2, isAlone = isRow && facts.sizes.size() == 1;
    b.call(aten::append, {rows, values.contains(logits) ? values.at(logits) : logits}, rows->type());
    turn->addResult(yes);
    turn->addResult(sum(place, number(b, 1), b));
    for (Value* v : left) turn->addResult(v);

    b.setPoint(graph_.returnNode());
    Value* all = b.call(isRow ? aten::stack : aten::cat, {rows, number(b, isAlone ? 0 : 1)}, types().tensor);
    if (isAlone) all = b.call(aten::unsqueeze, {all, number(b, 0)}, types().tensor);
    while (graph_.outputs().size() > 0) graph_.returnNode()->removeInput(graph_.outputs().size() - 1);
    graph_.addOutput(all);
    for (size_t i = body.size(); i-- > 0;) body[i]->destroy();
    for (const Kept& cache : kept_) cache.copy->destroy();
    TensorFacts ids = *factsOf(ids_);
    ids.sizes = Dims{texts() < kUnknownSize ? texts() : 1, 1}, ids.strides = {};
    if (!hasTexts) ids_->setType(tensorType(ids));
  }

  // [1], in the form of the input: as often as there are texts, or as its sizes say.
  Value* placeLike(Value* place, const Value* input, Builder& b) const {
    const TensorFacts& f = input->type()->tensor();
    const Dims ones(f.hasRank ? f.sizes.size() : 1, 1);
    if (ones.size() != 1) place = b.call(aten::reshape, {place, b.constant(intList(ones))}, types().tensor);
    if (ones.size() > 1) place = forEachText(place, f.sizes, b);
    if (std::ranges::any_of(f.sizes, [](int64_t s) { return s > 1; })) {
      std::vector<Value*> sizes;
      for (const int64_t s : f.sizes) sizes.push_back(number(b, s > 1 ? s : -1));
      place = b.call(aten::expand, {place, b.list(sizes, types().integer), b.constant(IValue(false))}, types().tensor);
    }
    if (f.dtype == DType::Undefined || f.dtype == DType::Int64) return place;
    Value* no = b.constant(IValue(false));
    return b.call(aten::to, {place, number(b, static_cast<int64_t>(f.dtype)), no, no, none(b)}, types().tensor);
  }

  // A copy, which a call writes, or what becomes of it.
  struct Kept {
    Node* copy;
    Value* anew = nullptr;
  };
  bool isCopy(const Node* n) const {
    return std::ranges::any_of(kept_, [n](const Kept& k) { return k.copy == n; });
  }

  Graph& graph_;
  const OpRegistry& registry_;
  const bool isOneByOne_;  // whatever it is for
  Value *ids_ = nullptr, *places_ = nullptr;
  std::vector<Value*> inputs_, given_;        // tensors; those that are written
  std::map<const Value*, std::string> keys_;  // of inputs that dicts held
  std::vector<Value*> alsoPlaces_;            // of one token
  std::vector<Value*> masks_;                 // of places
  std::vector<Value*> starts_;                // numbers, or tensors of one: places of the first of the tokens
  std::vector<Node*> attributes_;             // that are written
  std::map<Node*, Value*> replaced_;          // reads of those that become others, of a graph for one token
  std::vector<Value*> returned_;              // what becomes of those that are given
  std::string unchanged_;                     // what is read and comes back as it was given
  bool areReplaced_ = false;                  // attributes become other tensors
  bool areStates_ = false;                    // what is given has no places for tokens
  std::vector<Kept> kept_;
  std::set<const Node*> begins_;  // that make what calls begin with
};

}  // namespace

StaticCaches readWholeTexts(Graph& graph, const OpRegistry& registry, StaticCacheFacts* facts, bool oneByOne) {
  StaticCacheFacts found;
  found.tokens = placesInCaches(graph);
  WholeTexts texts(graph, registry, oneByOne);
  const StaticCaches caches = texts.run(found.mask);
  found.unchanged = texts.unchanged();
  if (facts) *facts = found;
  return caches;
}

}  // namespace tscompile
