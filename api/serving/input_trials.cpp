#include "api/serving/input_trials.h"

#include "ir/support/text.h"
#include "ir/values/random.h"
#include "passes/serving/marked_ids.h"
#include "passes/serving/states/state_trials.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace tscompile {
namespace {

constexpr int64_t kTokens = 5;
constexpr const char* kOpenSizes =
    "a trace, or an export, may have the sizes of its example as numbers: x.shape[0] stays open without int() and "
    "len() "
    "around it, torch.jit.script keeps loops over tokens, and torch.export takes dynamic_shapes=({0: Dim.AUTO, 1: "
    "Dim.AUTO},), of torch.export.Dim, for each input";

class Trials {
 public:
  Trials(const RunModel& model, const Entrance& entrance, Diagnostics& diagnostics)
      : model_(model), entrance_(entrance), diagnostics_(diagnostics) {}

  bool run() {
    if (!fitsTexts()) return false;
    std::optional<Tensor> logits = logitsOf(ids());
    if (!logits) return true;  // told by who looks for them
    usual_ = *logits;
    if (hasNoNumbers(usual_)) {
      reportNoNumbers(entrance_, kTokens, diagnostics_);
      return false;
    }
    if (!seesLast()) return false;
    for (size_t i = 0; i < entrance_.inputs.size(); ++i) {
      if (entrance_.inputs[i] == ServingInput::Positions && !arePositions(i)) return false;
      if (entrance_.inputs[i] == ServingInput::Mask && !isMask(i)) return false;
    }
    return true;
  }

 private:
  // Two in turn, small ones, which every vocabulary has, and which the model gives no meaning.
  std::vector<int64_t> ids(int64_t count = kTokens) const {
    std::vector<int64_t> two, out;
    const int64_t words = entrance_.words ? entrance_.words : INT64_MAX;
    for (int64_t id = 1; two.size() < 2 && id < words; ++id)
      if (std::find(entrance_.marked.begin(), entrance_.marked.end(), id) == entrance_.marked.end()) two.push_back(id);
    if (two.size() < 2) two = {0, words - 1};
    for (int64_t i = 0; i < count; ++i) out.push_back(two[static_cast<size_t>(i % 2)]);
    return out;
  }

  // A trace, or an export, may know the sizes of its example alone.
  bool fitsTexts() const {
    for (int64_t count : {kTokens, kTokens - 2}) {
      const std::vector<int64_t> some = ids(count);
      std::vector<int32_t> text(some.begin(), some.end());
      Diagnostics failure;
      if (model_(inputsOfText(entrance_, text), failure)) continue;
      if (const size_t at = idsAt(); at < entrance_.dtypes.size() && isFloating(entrance_.dtypes[at])) {
        diagnostics_.error(fmt::format("input %{} takes {} numbers: a language model takes ids, int64 [batch, tokens]",
                                       entrance_.names[at], pythonName(entrance_.dtypes[at])),
                           ErrorKind::Unsupported);
        return false;
      }
      const Diagnostic* first = failure.list().empty() ? nullptr : &failure.list().front();
      Diagnostic& d = diagnostics_.error(
          first ? first->range : SourceRange{},
          fmt::format("the model does not run with a text of {}: {}", counted(static_cast<uint64_t>(count), "token"),
                      first ? first->message : "it was interrupted"),
          failure.firstErrorKind());
      if (first) d.notes.insert(d.notes.end(), first->notes.begin(), first->notes.end());
      d.note(takesRows(count)
                 ? "it runs with ids [tokens], and texts are [batch, tokens]: a module around the model can "
                   "take these, and return model(ids[0]).unsqueeze(0)"
                 : kOpenSizes);
      return false;
    }
    return true;
  }
  // Whether it runs with texts that have no dimension of texts.
  bool takesRows(int64_t count) const {
    std::vector<IValue> inputs;
    const std::vector<int64_t> some = ids(count);
    for (size_t i = 0; i < entrance_.inputs.size(); ++i) inputs.emplace_back(inputOf(entrance_, i, Dims{count}, some));
    Diagnostics ignored;
    return model_(inputs, ignored).ok();
  }
  Dims sizes(int64_t tokens) const { return entrance_.tokensFirst ? Dims{tokens, 1} : Dims{1, tokens}; }

  // With another tensor for one of its inputs. Nothing if it does not run.
  std::optional<Tensor> logitsOf(const std::vector<int64_t>& ids, std::optional<size_t> input = std::nullopt,
                                 const Dims& sizes = {}, std::span<const int64_t> numbers = {}) const {
    std::vector<int32_t> text(ids.begin(), ids.end());
    std::vector<IValue> inputs = inputsOfText(entrance_, text);
    if (input) inputs[*input] = inputOf(entrance_, *input, sizes, numbers);
    Diagnostics ignored;
    Result<std::vector<IValue>> out = model_(inputs, ignored);
    Tensor logits = out ? tscompile::logitsOf(*out) : Tensor();
    if (!logits.defined() || logits.rank() == 0 || logits.numel() == 0 || !isFloating(logits.dtype()))
      return std::nullopt;
    return logits;
  }

  static int64_t rowsOf(const Tensor& t) { return t.numel() / t.size(t.rank() - 1); }

  // Whether the logits of a token differ, the last one's if there are no others.
  static bool differ(const Tensor& a, const Tensor& b, int64_t token) {
    if (a.numel() != b.numel()) return true;
    const int64_t words = a.size(a.rank() - 1), row = rowsOf(a) == kTokens ? token : rowsOf(a) - 1;
    double most = 0, off = 0;
    for (int64_t i = row * words; i < (row + 1) * words; ++i) {
      if (a.real(i) == b.real(i)) continue;
      most = std::max(most, std::abs(a.real(i)));
      off = std::max(off, std::abs(a.real(i) - b.real(i)));
    }
    return !(off <= 1e-5 * most);
  }
  bool changesLast(const std::optional<Tensor>& logits) const { return logits && differ(usual_, *logits, kTokens - 1); }

  // A trace has as many rounds of a loop over tokens as its example has, and a model that takes one token a call passes
  // by all others.
  bool seesLast() const {
    std::vector<int64_t> last = ids(), first = last;
    last.back() = last[1];  // another id
    first.front() = first[1];
    const std::optional<Tensor> byLast = logitsOf(last);
    if (!changesLast(logitsOf(first))) return true;
    if (!byLast || changesLast(byLast)) {
      if (!seesBetween(kTokens) && !seesBetween(kTokens + 2)) warnOfOneToken();
      return true;
    }
    diagnostics_
        .error(fmt::format("of a text of {} the model looks at the first ones alone: the last one changes nothing",
                           counted(static_cast<uint64_t>(kTokens), "token")),
               ErrorKind::Input)
        .note(
            "a trace has the rounds of a loop over the tokens of its example, and torch.jit.script keeps the loop; "
            "torch.export with an example of one token says of a model that it takes one token a call");
    return false;
  }

  // A model for one token a call may take the first of several, and add the others to what follows from it.
  void warnOfOneToken() const {
    diagnostics_
        .warning({}, fmt::format("of a text of {} the model looks at the first and the last one: those between change "
                                 "nothing",
                                 counted(static_cast<uint64_t>(kTokens), "token")))
        .note(
            "a trace of a model for one token a call loses attributes that become other tensors: write into them, "
            "with copy_, or use torch.jit.script");
  }
  // Texts of two lengths tell, since one may be as long as what a convolution leaves out.
  bool seesBetween(int64_t count) const {
    const std::optional<Tensor> usual = logitsOf(ids(count));
    auto changes = [&](size_t at) {
      std::vector<int64_t> other = ids(count);
      other[at] = other[at + 1 < other.size() ? at + 1 : at - 1];
      const std::optional<Tensor> logits = logitsOf(other);
      return !logits || differ(*usual, *logits, kTokens - 1);
    };
    if (!usual || !changes(0)) return true;
    for (size_t at = 1; at + 1 < static_cast<size_t>(count); ++at)
      if (changes(at)) return true;
    return false;
  }

  // Each token has one of its own, and what only its own logits depend on does not change those of others.
  bool arePositions(size_t input) {
    std::vector<int64_t> places(kTokens);
    std::iota(places.begin(), places.end(), int64_t{0});
    std::optional<Tensor> fewer =
        logitsOf(ids(), input, sizes(kTokens - 1), std::span(places).first(static_cast<size_t>(kTokens - 1)));
    const bool followsIt = fewer && rowsOf(usual_) == kTokens && rowsOf(*fewer) == kTokens - 1;
    if (followsIt || (fewer && !entrance_.isNamed[input] && matters(input)))
      return fail(input, fmt::format("it need not be as long as %{}", entrance_.names[idsAt()]));
    if (entrance_.isNamed[input]) return true;
    std::vector<int64_t> other = ids();
    other.back() = other[1];
    places.back() = kTokens - 2;
    std::optional<Tensor> byId = logitsOf(other), byPlace = logitsOf(ids(), input, sizes(kTokens), places);
    if (byId && byPlace && rowsOf(usual_) == kTokens && !differ(usual_, *byId, 0) && differ(usual_, *byPlace, 0))
      return fail(input, "the first token sees the last one's");
    return true;
  }
  bool matters(size_t input) const {
    const std::vector<int64_t> others{0, 0, 1, 1, 3};
    return changesLast(logitsOf(ids(), input, sizes(kTokens), others));
  }
  size_t idsAt() const {
    return static_cast<size_t>(std::find(entrance_.inputs.begin(), entrance_.inputs.end(), ServingInput::Ids) -
                               entrance_.inputs.begin());
  }

  bool isMask(size_t input) {
    if (hidesOnes(input))
      return fail(input, "tokens are hidden where it is 1",
                  "a module around the model can invert it: forward(ids, attention_mask) with 1 - attention_mask");
    return !isOfPairs(input) ||
           fail(input, "it has a number for each two tokens", "the model can make it inside of its forward");
  }

  // Whether a mask with a 0 for the first token shows that one alone. A model that counts ones, and looks at no other
  // token anyhow, sees no more where there is no 0.
  bool hidesOnes(size_t input) const {
    std::vector<int64_t> ones(kTokens, 1), withoutFirst = ones;
    withoutFirst[0] = 0;
    return seesFirstAlone(input, withoutFirst) && !seesFirstAlone(input, ones);
  }
  bool seesFirstAlone(size_t input, const std::vector<int64_t>& mask) const {
    const std::optional<Tensor> usual = logitsOf(ids(), input, sizes(kTokens), mask);
    auto changes = [&](size_t token) {
      std::vector<int64_t> text = ids();
      text[token] = text[token + 1];  // another id
      const std::optional<Tensor> other = logitsOf(text, input, sizes(kTokens), mask);
      return other && !hasNoNumbers(*other) && differ(*usual, *other, kTokens - 1);
    };
    if (!usual || hasNoNumbers(*usual) || !changes(0)) return false;
    for (size_t token = 1; token + 1 < kTokens; ++token)
      if (changes(token)) return false;
    return true;
  }

  // Whether [tokens, tokens] is a mask of one text, of which all rows count: texts of a batch have one each.
  bool isOfPairs(size_t input) const {
    std::vector<int64_t> ones(kTokens * kTokens, 1), hidden = ones;
    for (int64_t row = 1; row < kTokens; ++row) hidden[static_cast<size_t>(row * kTokens)] = 0;
    std::optional<Tensor> a = logitsOf(ids(), input, Dims{kTokens, kTokens}, ones),
                          b = logitsOf(ids(), input, Dims{kTokens, kTokens}, hidden);
    return a && b && a->numel() == usual_.numel() && b->numel() == usual_.numel() && differ(*a, *b, kTokens - 1);
  }

  bool fail(size_t input, const std::string& why, const std::string& help = "") {
    const bool isMask = entrance_.inputs[input] == ServingInput::Mask;
    Diagnostic& d =
        diagnostics_.error(fmt::format("%{} is taken for {}, and is none: {}", entrance_.names[input],
                                       isMask ? "a mask that is 1 where tokens are" : "the positions of tokens", why),
                           ErrorKind::Input);
    d.note(!help.empty()
               ? help
               : "a model of two texts, an encoder's and a decoder's, is not served; a module around the model "
                 "can give what else it takes inside of its own forward, which takes ids alone");
    return false;
  }

  const RunModel& model_;
  const Entrance& entrance_;
  Diagnostics& diagnostics_;
  Tensor usual_;
};

}  // namespace

bool tryInputs(const RunModel& model, const Entrance& entrance, Diagnostics& diagnostics) {
  return Trials(model, entrance, diagnostics).run();
}

std::string givenText(const Entrance& entrance) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < entrance.inputs.size(); ++i)
    if (entrance.inputs[i] != ServingInput::Ids)
      parts.push_back((entrance.inputs[i] == ServingInput::Mask ? "ones for %" : "0, 1, .. for %") + entrance.names[i]);
  return join(parts, " and ", [](const std::string& part) { return part; });
}

bool hasNoNumbers(const Tensor& logits) {
  for (int64_t i = 0; i < logits.numel(); ++i)
    if (std::isnan(logits.real(i))) return true;
  return false;
}

void reportUnchanged(const std::string& input, SourceRange place, Diagnostics& diagnostics) {
  const bool isNamed = !input.empty() && (input[0] < '0' || input[0] > '9');  // else it lay in another one
  diagnostics
      .error(place,
             fmt::format("what {} stands for is not known: it is read, and comes back as it was given",
                         isNamed ? "%" + input : "a tensor that is given"),
             ErrorKind::Input)
      .note(
          "a module around the model can give it inside of its own forward; a decoder that is given what an encoder "
          "returns is called in a session: 'Encoders and decoders' in docs/language_models.md");
}

std::string noteOfDropped(const Graph& graph, const Entrance& entrance) {
  std::vector<std::string> names;
  for (const Value* v : graph.inputs())
    if (!v->type()->is(TypeKind::Class) && std::ranges::find(entrance.names, v->name()) == entrance.names.end())
      names.push_back("%" + v->name());
  return fmt::format(
      "{} were taken for caches, which begin without tokens: states among them need sizes, which torch.export writes, "
      "and are to come back in the order of the inputs",
      join(names, ", ", [](const std::string& name) { return name; }));
}

void warnOfWidth(int64_t given, int64_t words, SourceRange place, Diagnostics& diagnostics) {
  if (words == 0 || (given * 2 > words && given < words * 2)) return;
  diagnostics
      .warning(place, fmt::format("the model gives {} for each token, and its ids choose from {}: are these logits?",
                                  counted(static_cast<uint64_t>(given), "number"),
                                  counted(static_cast<uint64_t>(words), "row")))
      .note("hidden values need the head of a language model, which a module around this one can add");
}

void warnOfCount(std::string_view name, SourceRange place, Diagnostics& diagnostics) {
  diagnostics.warning(place, fmt::format("%{} does not begin with 0: texts begin with what it counted", name))
      .note("a trace leaves in buffers what its example wrote: they are to be put back before torch.jit.save");
}

void reportNoNumbers(const Entrance& entrance, int64_t tokens, Diagnostics& diagnostics) {
  const std::string given = givenText(entrance);
  Diagnostic& d =
      diagnostics.error(fmt::format("the model as it is gives logits that are no numbers for a text of {}{}",
                                    counted(tokens, "token"), given.empty() ? "" : ", with " + given),
                        ErrorKind::Input);
  if (std::find(entrance.inputs.begin(), entrance.inputs.end(), ServingInput::Mask) != entrance.inputs.end())
    d.note("a mask is 1 where tokens are: one that marks padding is to be inverted by a module around the model");
}

void reportApart(const Entrance& entrance, int64_t filledTo, Diagnostics& diagnostics) {
  if (filledTo != 0)
    diagnostics
        .error(fmt::format("the program is for texts of {}, and shorter ones have no logits of their own: "
                           "tokens see those after them",
                           counted(static_cast<uint64_t>(filledTo), "token")),
               ErrorKind::Input)
        .note("torch.export takes dynamic_shapes=({1: Dim.AUTO},) for texts of any length");
  else
    diagnostics
        .error(fmt::format("the rows of %{} are no texts: what the last of them gives follows from those before",
                           entrance.names.front()),
               ErrorKind::Input)
        .note("tokens are to be the second dimension, and open in an export: dynamic_shapes=({1: Dim.AUTO},)");
}

// Of the first or last token of a text; none where it does not run.
std::vector<double> TextTrials::logitsOfToken(bool isFirst, std::span<const TokenId> ids,
                                              const Entrance& entrance) const {
  Diagnostics ignored;
  Result<std::vector<IValue>> out = model_(inputsOfText(entrance, ids), ignored);
  const Tensor logits = out ? tscompile::logitsOf(*out) : Tensor();
  std::vector<double> token;
  if (!logits.defined() || logits.rank() == 0) return token;
  const int64_t words = logits.size(logits.rank() - 1), rest = std::max<int64_t>(logits.numel() - words, 0);
  for (int64_t i = 0; i < std::min(words, logits.numel()); ++i) token.push_back(logits.real(isFirst ? i : rest + i));
  return token;
}

// Whether the last logits depend on an earlier token of a text.
bool TextTrials::seesToken(size_t at, const Entrance& entrance, size_t tokens) const {
  std::vector<TokenId> ids(tokens, 1), others = ids;
  others[at] = 2;
  return logitsOfToken(false, ids, entrance) != logitsOfToken(false, others, entrance);
}

bool TextTrials::run(const Entrance& entrance) const {
  const TokenId ids[] = {1, 2, 1, 2, 1};
  return !logitsOfToken(false, ids, entrance).empty() &&
         !logitsOfToken(false, std::span(ids).first(3), entrance).empty();
}

bool TextTrials::takesTokensFirst(const Entrance& entrance) const {
  Entrance first = entrance, second = entrance;
  first.tokensFirst = false;
  second.tokensFirst = true;
  return !seesToken(0, first) && seesToken(0, second);
}

bool TextTrials::showTokens(const Entrance& entrance, const std::string& mask, Diagnostics& diagnostics) const {
  Entrance texts = entrance;
  texts.tokensFirst = false;
  // A model may pass by what it keeps at some places.
  for (size_t tokens = 4; tokens < 7; ++tokens)
    for (size_t at = 0; at < 3; ++at)
      if (seesToken(at, texts, tokens)) return true;
  if (!run(texts)) return true;  // tryInputs() tells why
  if (mask.empty()) {
    diagnostics
        .error(
            "the model, which is for one token, forgets the tokens before it: what it writes for the next one has "
            "the sizes of its example",
            ErrorKind::Input)
        .note(
            "a cache that grows is to be an input and an output of torch.export, with a size that is left open "
            "and an example that has some tokens in it");
    return false;
  }
  diagnostics
      .error(fmt::format("%{} is taken for a mask that is 1 where tokens are, and is none: tokens are hidden where it "
                         "is 1",
                         mask),
             ErrorKind::Input)
      .note("a module around the model can invert it: forward(ids, attention_mask) with 1 - attention_mask");
  return false;
}

bool TextTrials::areOfTexts(const Entrance& entrance, Diagnostics& diagnostics) const {
  const TokenId ids[] = {1, 1, 1, 1}, others[] = {1, 1, 1, 2};
  const std::vector<double> first = logitsOfToken(true, ids, entrance);
  if (first == logitsOfToken(false, ids, entrance)) return true;  // the last one's
  if (areNear(first, logitsOfToken(true, others, entrance), kRounding)) return true;
  diagnostics
      .error(
          "the model shows its first token later ones, though it has a cache of keys and values: it is for one token a "
          "call, and its file does not say so",
          ErrorKind::Input)
      .note(
          "torch.export with an example of one token says so; or its attention hides later tokens itself, with "
          "is_causal or a mask");
  return false;
}

bool TextTrials::givesTheSame(const TextTrials& other, const Entrance& entrance) const {
  const TokenId ids[] = {1, 2, 1, 3};
  return areNear(logitsOfToken(false, ids, entrance), other.logitsOfToken(false, ids, entrance));
}

bool TextTrials::hidesLaterTokens(const Entrance& entrance) const {
  const TokenId ids[] = {1, 1, 1, 1}, others[] = {1, 1, 1, 2};
  Diagnostics ignored;
  Result<std::vector<IValue>> out = model_(inputsOfText(entrance, ids), ignored);
  const Tensor logits = out ? tscompile::logitsOf(*out) : Tensor();
  if (!logits.defined() || logits.rank() == 0 || logits.numel() != 4 * logits.size(logits.rank() - 1)) return false;
  return !hasNoNumbers(logits) &&
         areNear(logitsOfToken(true, ids, entrance), logitsOfToken(true, others, entrance), kRounding) &&
         seesToken(0, entrance) && seesToken(2, entrance);
}

bool TextTrials::givesProbabilities(const Entrance& entrance) const {
  constexpr double kHalf = 1e-2;  // of half precision
  const TokenId texts[][4] = {{1, 2, 1, 2}, {2, 2, 1, 1}};
  return std::ranges::all_of(texts, [&](std::span<const TokenId> ids) {
    const std::vector<double> token = logitsOfToken(false, ids, entrance);
    const double sum = std::accumulate(token.begin(), token.end(), 0.0);
    return token.size() > 1 && std::abs(sum - 1) <= kHalf &&
           std::ranges::all_of(token, [](double p) { return p >= 0; });
  });
}

}  // namespace tscompile
