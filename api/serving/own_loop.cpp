#include "api/serving/own_loop.h"

#include "api/serving/held_weights.h"
#include "api/serving/kept_texts.h"
#include "api/serving/longest_text.h"
#include "ir/support/text.h"
#include "ir/values/aten.h"
#include "passes/rewrite/facts.h"
#include "passes/serving/input_roles.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

constexpr int64_t kFew = 6, kLast = 2;  // tokens of a short text, and calls behind the first one of any

// Cannot: calls do not fit each other. NotRun: not even the whole text runs, which is told elsewhere.
enum class LoopOutcome : uint8_t { Same, Other, Cannot, NotRun };

bool holdsTensors(TypePtr type) { return type->isTensor() || std::ranges::any_of(type->elements(), holdsTensors); }

void collectTensors(const IValue& v, std::vector<Tensor>& out) {
  if (v.isTensor() && v.toTensor().defined()) out.push_back(v.toTensor());
  if (v.isList())
    for (const IValue& e : v.toList().items) collectTensors(e, out);
  if (v.isTuple())
    for (const IValue& e : v.toTuple().items) collectTensors(e, out);
  if (v.isDict()) v.toDict().forEach([&](const IValue&, const IValue& e) { collectTensors(e, out); });
}
std::vector<Tensor> tensorsOf(const IValue& v) {
  std::vector<Tensor> out;
  collectTensors(v, out);
  return out;
}

// What stands beside logits, which are the first.
std::vector<IValue> besideLogits(std::vector<IValue> returned) {
  while (returned.size() == 1 && returned[0].isTuple()) returned = std::vector<IValue>(returned[0].toTuple().items);
  if (returned.size() == 1 && returned[0].isDict()) {
    const Tensor logits = logitsOf(returned);
    std::vector<IValue> others;
    returned[0].toDict().forEach([&](const IValue&, const IValue& v) {
      if (!v.isTensor() || v.tensorImpl() != IValue(logits).tensorImpl()) others.push_back(v);
    });
    returned = others;
  } else if (!returned.empty()) {
    returned.erase(returned.begin());
  }
  std::erase_if(returned, [](const IValue& v) { return v.isNone(); });
  return returned;
}

// The dimension in which two tensors of one form differ, if it is one alone.
std::optional<size_t> otherDim(const Tensor& a, const Tensor& b) {
  std::optional<size_t> dim;
  if (a.rank() != b.rank()) return std::nullopt;
  for (int64_t d = 0; d < a.rank(); ++d) {
    if (a.size(d) == b.size(d)) continue;
    if (dim) return std::nullopt;
    dim = static_cast<size_t>(d);
  }
  return dim;
}

// Values of these types, of tensors in their order.
class Refill {
 public:
  explicit Refill(std::span<const Tensor> tensors) : left_(tensors) {}

  bool run(const std::vector<TypePtr>& types, std::vector<IValue>& out) {
    int64_t lists = 0, fixed = 0;
    for (TypePtr type : types) (isList(type) ? lists : fixed) += isList(type) ? 1 : countOf(type);
    const int64_t rest = static_cast<int64_t>(left_.size()) - fixed;
    if (rest < 0 || (lists != 0 && rest % lists != 0)) return false;
    perList_ = lists ? rest / lists : 0;
    for (TypePtr type : types)
      if (std::optional<IValue> v = valueOf(type))
        out.push_back(*v);
      else
        return false;
    return true;
  }

 private:
  static TypePtr plain(TypePtr type) { return type->is(TypeKind::Optional) ? type->element() : type; }
  static bool isList(TypePtr type) { return plain(type)->is(TypeKind::List); }
  // Keys and values, if a list does not tell.
  static int64_t countOf(TypePtr type) {
    type = plain(type);
    if (type->isTensor()) return 1;
    if (type->is(TypeKind::List)) return 2 * countOf(type->element());
    int64_t sum = 0;
    for (TypePtr e : type->elements()) sum += countOf(e);
    return sum;
  }

  std::optional<IValue> valueOf(TypePtr type, bool isInner = false) {
    type = plain(type);
    if (type->isTensor()) {
      if (left_.empty()) return std::nullopt;
      const IValue first(left_.front());
      left_ = left_.subspan(1);
      return first;
    }
    const bool isTuple = type->is(TypeKind::Tuple);
    if (!isTuple && !type->is(TypeKind::List)) return std::nullopt;
    const int64_t each = isTuple ? 0 : countOf(type->element());
    const int64_t count = isTuple   ? static_cast<int64_t>(type->elements().size())
                          : isInner ? 2
                          : each    ? perList_ / each
                                    : 0;
    std::vector<IValue> items;
    for (int64_t i = 0; i < count; ++i)
      if (std::optional<IValue> item = valueOf(type->element(isTuple ? static_cast<size_t>(i) : 0), true))
        items.push_back(*item);
      else
        return std::nullopt;
    if (isTuple) return tuple(std::move(items));
    return IValue(Ref<ListValue>::make(type->element(), std::move(items)));
  }

  std::span<const Tensor> left_;
  int64_t perList_ = 0;
};

class Calls {
 public:
  Calls(const OwnLoop& loop, Diagnostics& diagnostics) : loop_(loop), diagnostics_(diagnostics) {
    for (const Value* v : loop.graph.inputs())
      if (isHandedOn(v)) handed_.push_back(v);
    double scale = 1e-3;
    if (areHalf(heldWeights(loop.graph))) scale = 3e-2;
    forEachNode(loop.graph, [&](const Node* n) {
      if (startsWith(n->kind().text(), "quantized::")) scale = 0.3;
    });
    tolerance_ = scale;
  }

  // Tokens of the longest text that calls run with, where whole texts may be longer; else 0.
  int64_t most() const { return most_; }

  bool run() {
    if (handed_.empty()) return true;
    LoopOutcome outcome = tryText(kFew, false);
    if (outcome == LoopOutcome::Cannot && isCallRefused_) outcome = tryPairs();
    // Of a model that chooses by numbers some are nearly equal.
    if (outcome == LoopOutcome::Other) outcome = tryText(kFew, true);
    if (outcome == LoopOutcome::NotRun) return true;
    if (loop_.keepsPlaces) {
      if (outcome == LoopOutcome::Other) report(outcome);
      return outcome != LoopOutcome::Other;
    }
    if (outcome != LoopOutcome::Other) tryLong(outcome);
    if (outcome == LoopOutcome::Same) return true;
    const bool mayLeaveOut = loop_.mayLeaveOut && (outcome != LoopOutcome::Other || !knowsOneToken());
    if (!mayLeaveOut)
      report(outcome);
    else if (outcome == LoopOutcome::Other && grows_)
      warn();
    return mayLeaveOut;
  }

 private:
  bool isOfText(const Value* v) const {
    return std::ranges::find(loop_.entrance.names, v->name()) != loop_.entrance.names.end();
  }
  bool isHandedOn(const Value* v) const {
    return holdsTensors(v->type()) && !isOfText(v) && !roleByName(v) && !isFirstPlace(v);
  }

  // Past what slices cut, where all of it would take too long.
  int64_t longText() const {
    constexpr int64_t kMostTokens = 4100, kLittleWork = int64_t{1} << 31, kMostWork = int64_t{1} << 37;
    const Graph& graph = loop_.graph;
    int64_t weights = 1, cut = 0;
    for (const Tensor& t : heldWeights(graph)) weights += t.numel();
    forEachNode(graph, [&](const Node* n) {
      if (n->kind() != aten::slice) return;
      for (size_t i : {size_t{2}, size_t{3}}) {
        const IValue* at = n->inputCount() > i ? GraphFacts::constant(n->input(i)) : nullptr;
        if (at && at->isInt() && std::abs(at->toInt()) < kMostTokens) cut = std::max(cut, std::abs(at->toInt()));
      }
    });
    const int64_t most = std::min(loop_.longest, kMostTokens);
    const int64_t least = std::min(cut > 1 && cut + kFew <= kMostWork / weights ? cut + kFew : 0, most);
    return std::max(std::min(most, kLittleWork / weights), least);
  }

  // A program may be for two tokens a call or more.
  LoopOutcome tryPairs() {
    const std::string refusal = refusal_;
    step_ = 2;
    const LoopOutcome outcome = tryText(kFew, false);
    if (outcome != LoopOutcome::Cannot) return outcome;
    step_ = 1, refusal_ = refusal, isCallRefused_ = true;
    return outcome;
  }

  // Tables end somewhere, and so may what a program was exported for.
  void tryLong(LoopOutcome& outcome) {
    int64_t runs = 0, fails = 0;
    for (int64_t tokens = longText(); tokens > kFew && runs == 0; tokens /= 2) {
      const LoopOutcome longer = tryText(tokens, false);
      if (longer == LoopOutcome::Same || longer == LoopOutcome::Other) outcome = longer, runs = tokens;
      if (longer == LoopOutcome::Cannot && isCallRefused_) fails = tokens;
    }
    if (runs == 0 && outcome == LoopOutcome::Same) runs = kFew;
    while (fails != 0 && runs != 0 && outcome == LoopOutcome::Same && fails - runs > 1) {
      const int64_t middle = runs + (fails - runs) / 2;
      const LoopOutcome between = tryText(middle, false);
      (between == LoopOutcome::Cannot || between == LoopOutcome::NotRun ? fails : runs) = middle;
      if (between == LoopOutcome::Other) outcome = between;
    }
    if (fails != 0) most_ = runs;
  }

  // Whether the last token of a text that is given at once knows of no other: what is handed on is all that does.
  bool knowsOneToken() const {
    const std::vector<TokenId> ids = textOf(kFew);
    std::vector<TokenId> others = ids;
    std::rotate(others.begin(), others.begin() + 1, others.end() - 1);
    const std::optional<std::vector<IValue>> usual = wholeOf(ids, kFew), other = wholeOf(others, kFew);
    return ids != others && usual && other && !differ(*usual, *other);
  }

  std::vector<TokenId> textOf(int64_t tokens) const {
    return tscompile::longText(tokens, loop_.entrance.words ? loop_.entrance.words : 3, loop_.entrance.marked).plain;
  }

  LoopOutcome tryText(int64_t tokens, bool isOther) {
    std::vector<TokenId> ids = textOf(tokens);
    if (isOther) std::ranges::reverse(ids);
    int64_t past = tokens - kLast * step_;
    isCallRefused_ = false;
    refusal_.clear();
    std::optional<std::vector<IValue>> returned = wholeOf(ids, past);
    if (!returned) return LoopOutcome::NotRun;
    std::vector<IValue> given;
    bool isOff = false;
    for (bool isFirst = true; past < tokens; past += step_, isFirst = false) {
      const std::optional<std::vector<IValue>> all = wholeOf(ids, past + step_);
      if (!all) return LoopOutcome::NotRun;
      const std::optional<std::vector<IValue>> next =
          isFirst ? firstCall(*returned, ids, past, given, *all) : call(given, ids, past);
      isCallRefused_ = !next;
      if (!next) return LoopOutcome::Cannot;
      isOff = isOff || differ(*all, *next);
      given = handOn(given, *next, past);
      if (given.empty()) return isOff ? LoopOutcome::Other : LoopOutcome::Cannot;
    }
    return isOff ? LoopOutcome::Other : LoopOutcome::Same;
  }

  std::optional<std::vector<IValue>> wholeOf(const std::vector<TokenId>& ids, int64_t tokens) const {
    Diagnostics ignored;
    Result<std::vector<IValue>> out =
        loop_.whole(inputsOfText(loop_.entrance, std::span(ids).first(static_cast<size_t>(tokens))), ignored);
    return out ? std::optional(*out) : std::nullopt;
  }

  // Finds which of what is returned is handed on, and how long masks are: what says the same, else what runs.
  std::optional<std::vector<IValue>> firstCall(const std::vector<IValue>& returned, const std::vector<TokenId>& ids,
                                               int64_t past, std::vector<IValue>& given,
                                               const std::vector<IValue>& whole) {
    std::optional<std::vector<IValue>> any;
    std::vector<IValue> anyGiven;
    std::optional<int64_t> anyOffset;
    bool anyMask = false;
    const int64_t last = offset_.value_or(static_cast<int64_t>(tensorsOf(tuple(besideLogits(returned))).size()));
    for (int64_t offset = offset_.value_or(-1); offset <= last; ++offset)
      for (bool isWhole : {true, false}) {
        if (offset_ && isWhole != masksAll_) continue;
        std::vector<IValue> some = partsOf(returned, offset);
        if (some.empty()) continue;
        masksAll_ = isWhole;
        std::optional<std::vector<IValue>> next = call(some, ids, past);
        if (!next) continue;
        const bool isSame = !differ(whole, *next);
        if (!any || isSame) any = next, anyGiven = some, anyOffset = offset, anyMask = isWhole;
        if (isSame) offset = last + 1;
        if (isSame) break;
      }
    if (anyOffset) offset_ = anyOffset, masksAll_ = anyMask;
    given = anyGiven;
    return any;
  }

  // -1: as they are returned; else so many tensors are passed by.
  std::vector<IValue> partsOf(const std::vector<IValue>& returned, int64_t offset) const {
    const std::vector<IValue> beside = besideLogits(returned);
    std::vector<TypePtr> types;
    for (const Value* v : handed_) types.push_back(v->type());
    if (offset < 0) {
      if (beside.size() != types.size()) return {};
      for (size_t i = 0; i < types.size(); ++i)
        if (!isInstance(beside[i], types[i])) return {};
      return beside;
    }
    std::vector<IValue> out;
    const std::vector<Tensor> all = tensorsOf(tuple(beside));
    const auto at = std::min(static_cast<size_t>(offset), all.size());
    return Refill(std::span(all).subspan(at)).run(types, out) ? out : std::vector<IValue>();
  }

  std::optional<std::vector<IValue>> call(const std::vector<IValue>& given, const std::vector<TokenId>& ids,
                                          int64_t past) {
    std::vector<IValue> inputs;
    size_t handed = 0;
    for (const Value* v : loop_.graph.inputs()) {
      if (v->type()->is(TypeKind::Class)) continue;
      if (isHandedOn(v))
        inputs.push_back(given[handed++]);
      else if (isOfText(v))
        inputs.push_back(
            ofText(v, std::span(ids).subspan(static_cast<size_t>(past), static_cast<size_t>(step_)), past));
      else if (isFirstPlace(v))
        inputs.push_back(placeFor(v, past));
      else if (roleByName(v) == ServingInput::Mask && loop_.ownMask)
        inputs.push_back(ownMask(past));
      else if (auto known = loop_.defaults.find(std::string(v->givenName())); known != loop_.defaults.end())
        inputs.push_back(known->second);
      else
        inputs.push_back(unread(v, past));
    }
    Diagnostics failure;
    Result<std::vector<IValue>> out = loop_.called(inOrder(std::move(inputs)), failure);
    if (!out && refusal_.empty() && !failure.list().empty()) refusal_ = failure.list().front().message;
    return out ? std::optional(*out) : std::nullopt;
  }

  IValue ofText(const Value* v, std::span<const TokenId> ids, int64_t past) const {
    const Entrance& e = loop_.entrance;
    const auto at = static_cast<size_t>(std::ranges::find(e.names, v->name()) - e.names.begin());
    if (e.inputs[at] == ServingInput::Mask) {
      const int64_t count = masksAll_ ? past + step_ : step_;
      return inputOf(e, at, e.tokensFirst ? Dims{count, 1} : Dims{1, count},
                     std::vector<int64_t>(static_cast<size_t>(count), 1));
    }
    std::vector<int64_t> numbers;
    for (TokenId id : ids)
      numbers.push_back(e.inputs[at] == ServingInput::Ids ? int64_t{id} : past + static_cast<int64_t>(numbers.size()));
    return inputOf(e, at, e.tokensFirst ? Dims{step_, 1} : Dims{1, step_}, numbers);
  }
  // What the model takes and does not look at, as positions of attention that needs none: its sizes may be checked.
  IValue unread(const Value* v, int64_t past) const {
    if (!v->type()->isTensor()) return {};
    const TensorFacts& f = v->type()->tensor();
    const bool isMask = roleByName(v) == ServingInput::Mask;
    Dims sizes = f.hasRank ? f.sizes : Dims{1, 1};
    for (size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] < 0) sizes[d] = isMask && masksAll_ && d + 1 == sizes.size() ? past + step_ : 1;
    Tensor t = Tensor::zeros(f.dtype == DType::Undefined ? DType::Int64 : f.dtype, sizes);
    visitDType(t.dtype(), [&](auto sample) {
      using T = decltype(sample);
      if constexpr (std::is_arithmetic_v<T>) std::fill_n(t.data<T>(), t.numel(), static_cast<T>(isMask ? 1 : past));
    });
    return t;
  }
  static IValue placeFor(const Value* v, int64_t past) {
    if (!v->type()->isTensor()) return past;
    const TensorFacts& f = v->type()->tensor();
    Tensor place = Tensor::zeros(DType::Int64, f.hasRank && f.sizes.size() == 1 ? Dims{1} : Dims{});
    place.data<int64_t>()[0] = past;
    return place;
  }
  IValue ownMask(int64_t past) const {
    Dims sizes(loop_.ownMask->rank, 1);
    if (masksAll_) sizes.back() = past + step_;
    Tensor mask = Tensor::zeros(loop_.ownMask->dtype, sizes);
    if (loop_.ownMask->kind == PairMaskForm::Kind::Shown)
      visitDType(mask.dtype(), [&](auto sample) {
        using T = decltype(sample);
        if constexpr (std::is_arithmetic_v<T>) std::fill_n(mask.data<T>(), mask.numel(), static_cast<T>(1));
      });
    return mask;
  }

  // What the next call is given: what came back, behind what was given where new tokens come back alone.
  std::vector<IValue> handOn(const std::vector<IValue>& given, const std::vector<IValue>& returned, int64_t past) {
    std::vector<IValue> next = partsOf(returned, *offset_);
    for (size_t i = 0; i < next.size(); ++i) next[i] = joined(given[i], next[i], past);
    return next;
  }
  IValue joined(const IValue& given, const IValue& got, int64_t past) {
    if (given.isTensor() && got.isTensor()) {
      const Tensor a = given.toTensor(), b = got.toTensor();
      const std::optional<size_t> dim = a.defined() && b.defined() ? otherDim(a, b) : std::nullopt;
      if (!dim) return got;
      const auto d = static_cast<int64_t>(*dim);
      grows_ = grows_ || b.size(d) == a.size(d) + step_;
      return b.size(d) == step_ && a.size(d) == past ? IValue(joinTensors({a, b}, d)) : got;
    }
    if (given.isTuple() && got.isTuple()) {
      std::vector<IValue> items = got.toTuple().items;
      joinItems(given.toTuple().items, items, past);
      return tuple(std::move(items));
    }
    if (given.isList() && got.isList()) {
      std::vector<IValue> items = got.toList().items;
      joinItems(given.toList().items, items, past);
      return IValue(Ref<ListValue>::make(got.toList().elementType, std::move(items)));
    }
    return got;
  }
  void joinItems(const std::vector<IValue>& given, std::vector<IValue>& items, int64_t past) {
    for (size_t i = 0; i < std::min(given.size(), items.size()); ++i) items[i] = joined(given[i], items[i], past);
  }

  bool differ(const std::vector<IValue>& wanted, const std::vector<IValue>& found) const {
    return areOtherLogits(logitsOf(wanted), logitsOf(found), tolerance_);
  }

  static constexpr const char* kHelp =
      "caches are to come back in the order of the inputs, with new keys and values behind all that were given, which "
      "stay as they are; a model that forgets some tokens is to hide them with its mask in one call as well";

  std::string names() const {
    return join(handed_, ", ", [](const Value* v) { return "%" + v->name(); });
  }
  void report(LoopOutcome outcome) {
    Diagnostic& d = diagnostics_.error(
        loop_.graph.range,
        outcome == LoopOutcome::Other
            ? fmt::format("calls that are given for {} what the one before returned say another text than one call "
                          "with all tokens, without any",
                          names())
            : fmt::format("what a call returns beside logits cannot be given to the next one for {}", names()),
        ErrorKind::Unsupported);
    if (outcome == LoopOutcome::Cannot && isCallRefused_ && !refusal_.empty())
      d.note("the next one fails: " + refusal_);
    d.note(kHelp);
  }
  void warn() {
    diagnostics_
        .warning(loop_.graph.range,
                 fmt::format("what is built says what the model says without {}: calls that are given what the one "
                             "before returned say another text",
                             names()))
        .note(kHelp);
  }

  const OwnLoop& loop_;
  Diagnostics& diagnostics_;
  std::vector<const Value*> handed_;
  std::optional<int64_t> offset_;  // see partsOf()
  bool masksAll_ = true;           // a mask has numbers for the tokens before, too
  bool grows_ = false;
  bool isCallRefused_ = false;  // by a model that runs with as many tokens at once
  std::string refusal_;         // what it said
  int64_t step_ = 1;            // tokens of calls behind the first one
  int64_t most_ = 0;
  double tolerance_ = 0;
};

}  // namespace

bool areOtherLogits(const Tensor& want, const Tensor& got, double tolerance) {
  if (!want.defined() || !got.defined() || want.rank() == 0 || got.rank() == 0) return true;
  const int64_t words = want.size(want.rank() - 1);
  if (got.size(got.rank() - 1) != words || words == 0 || want.numel() == 0 || got.numel() == 0) return true;
  double sum = 0, squares = 0, off = 0, most = 0;
  for (int64_t i = 0; i < words; ++i) {
    const double w = want.real(want.numel() - words + i), d = got.real(got.numel() - words + i) - w;
    if (std::isinf(w) && !std::isfinite(d)) continue;
    sum += w, squares += w * w, off += d * d;
    most = std::max(most, std::abs(w));
  }
  const auto n = static_cast<double>(words);
  const double spread = std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n))), root = std::sqrt(off / n);
  return !(root <= 1e-5 * most || root <= tolerance * spread);
}

bool saysWhatItsCallsSay(const OwnLoop& loop, int64_t& most, Diagnostics& diagnostics) {
  Calls calls(loop, diagnostics);
  if (!calls.run()) return false;
  most = calls.most();
  return true;
}

}  // namespace tscompile
