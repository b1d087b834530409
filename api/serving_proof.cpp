#include "api/serving_proof.h"

#include "api/language_model.h"
#include "ir/values/random.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tscompile {
namespace {

// A text, and how many of its tokens each step computes; the first `prompts` pieces are those of a prompt.
struct Text {
  std::vector<TokenId> ids;
  std::vector<int64_t> pieces;
  size_t prompts = 0;
  size_t next = 0;     // piece
  int64_t past = 0;    // tokens
  int64_t prompt = 0;  // tokens of all pieces of the prompt
  // Of the last token of each piece: how many tokens there are up to it, and its logits.
  std::vector<std::pair<int64_t, std::vector<float>>> logits;
};

struct Plan {
  int64_t prompt[4];  // pieces; 0: none
  int64_t single;     // tokens one by one after them
};
// A prompt after a part of itself, a short one, one that begins with a single token, and a long one.
constexpr Plan kPlans[] = {{{7, 3}, 3}, {{5}, 4}, {{1, 4, 6}, 2}, {{19}, 2}};

class Proof {
 public:
  Proof(const Module& given, const Entrance& entrance, const BuiltModel& built, Diagnostics& diagnostics)
      : given_(given), entrance_(entrance), built_(built), diagnostics_(diagnostics) {}

  bool run(const Module& served) {
    makeTexts();
    LanguageModel::Options options;
    options.cacheBlocks = 1;
    for (const Text& t : texts_) options.cacheBlocks += built_.cache.blocksFor(static_cast<int64_t>(t.ids.size()));
    std::unique_ptr<LanguageModel> model = LanguageModel::of(served, built_, options, diagnostics_);
    if (!model || !serve(*model)) return false;
    return std::all_of(texts_.begin(), texts_.end(), [&](const Text& t) { return compare(t); });
  }

 private:
  // Ends of the vocabulary, which may mean something, and others at random.
  TokenId idOf(size_t text, size_t at) const {
    int64_t words = built_.shape.vocabulary;
    if (text == 1 && at < 4) return static_cast<TokenId>((at == 3 ? words - 1 : static_cast<int64_t>(at)) % words);
    return static_cast<TokenId>(random::bits(text, at) % static_cast<uint64_t>(words));
  }

  // The texts as long as the settings allow.
  void makeTexts() {
    const BuildConfig& c = built_.config;
    int64_t longest = c.maxSeqLen;
    if (c.window) longest = std::min(longest, c.window);
    for (const Plan& plan : kPlans) {
      Text t;
      auto add = [&](int64_t count) {
        count = std::min({count, c.maxNumTokens, longest - t.past});
        if (count <= 0) return false;
        t.pieces.push_back(count);
        t.past += count;
        return true;
      };
      for (int64_t count : plan.prompt)
        if (count) add(count);
      t.prompts = t.pieces.size();
      t.prompt = t.past;
      for (int64_t i = 0; i < plan.single; ++i) add(1);
      for (int64_t i = 0; i < t.past; ++i) t.ids.push_back(idOf(texts_.size(), static_cast<size_t>(i)));
      t.past = 0;
      texts_.push_back(std::move(t));
    }
  }

  // Steps that are as full as the settings allow; of each text one piece at most, prompts first.
  bool serve(LanguageModel& model) {
    KvBlocks blocks(model.cache());
    for (size_t i = 0; i < texts_.size(); ++i)
      if (!blocks.addSequence(static_cast<SequenceId>(i), texts_[i].ids, diagnostics_)) return false;
    while (true) {
      std::vector<size_t> rows;
      int64_t tokens = 0;
      for (bool prompts : {true, false})
        for (size_t i = 0; i < texts_.size(); ++i) {
          const Text& t = texts_[i];
          if (t.next == t.pieces.size() || (t.next < t.prompts) != prompts) continue;
          if (static_cast<int64_t>(rows.size()) == built_.config.maxBatchSize) continue;
          if (tokens + t.pieces[t.next] > built_.config.maxNumTokens) continue;
          tokens += t.pieces[t.next];
          rows.push_back(i);
        }
      if (rows.empty()) return true;
      if (!step(model, blocks, rows)) return false;
    }
  }

  bool step(LanguageModel& model, KvBlocks& blocks, const std::vector<size_t>& rows) {
    StepBatch batch;
    for (size_t i : rows)
      batch.maxBlocks =
          std::max(batch.maxBlocks, static_cast<int64_t>(blocks.table(static_cast<SequenceId>(i), 0).size()));
    for (size_t i : rows) {
      const Text& t = texts_[i];
      int64_t count = t.pieces[t.next];
      bool isPrompt = t.next < t.prompts;
      for (int64_t at = t.past; at < t.past + count; ++at) {
        batch.tokens.push_back(t.ids[static_cast<size_t>(at)]);
        batch.positions.push_back(at);
      }
      batch.requestTypes.push_back(static_cast<int32_t>(isPrompt ? RequestType::Context : RequestType::Generation));
      batch.pastLengths.push_back(static_cast<int32_t>(t.past));
      batch.contextLengths.push_back(static_cast<int32_t>(isPrompt ? count : t.prompt));
      batch.sequenceLengths.push_back(static_cast<int32_t>(t.past + count));
      batch.lastTokenIds.push_back(static_cast<int32_t>(batch.tokens.size()));
      size_t size = static_cast<size_t>(2 * batch.maxBlocks), at = batch.blockTable.size();
      batch.blockTable.resize(at + size);
      blocks.exportTable(static_cast<SequenceId>(i), 0, std::span(batch.blockTable).subspan(at, size));
    }
    Diagnostics failure;
    Result<Tensor> logits = model.step(batch, failure);
    if (!logits) return cannot(failure, "this model cannot be served: ");
    const float* row = logits->data<float>();
    for (size_t i : rows) {
      Text& t = texts_[i];
      t.past += t.pieces[t.next++];
      t.logits.emplace_back(t.past, std::vector<float>(row, row + built_.shape.vocabulary));
      row += built_.shape.vocabulary;
    }
    return true;
  }

  // Logits of the first `count` tokens, [tokens or 1, vocabulary], by the model as it was given.
  Result<Tensor> expected(const Text& t, int64_t count) {
    std::vector<int64_t> ids(t.ids.begin(), t.ids.begin() + count), places(ids.size());
    for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i);
    Dims sizes{1, count};
    std::vector<IValue> inputs;
    for (size_t i = 0; i < entrance_.inputs.size(); ++i) {
      DType mask = entrance_.dtypes[i] == DType::Undefined ? DType::Int64 : entrance_.dtypes[i];
      inputs.emplace_back(entrance_.inputs[i] == ServingInput::Ids         ? Tensor::of<int64_t>(sizes, ids)
                          : entrance_.inputs[i] == ServingInput::Positions ? Tensor::of<int64_t>(sizes, places)
                                                                           : ones(mask, sizes));
    }
    Diagnostics failure;
    Result<std::vector<IValue>> out = given_.forward(inputs, failure);
    if (!out) {
      cannot(failure, fmt::format("the model does not run with a text of {} tokens: ", count));
      return Failed{};
    }
    Tensor logits = logitsOf(*out);
    int64_t words = built_.shape.vocabulary, rows = logits.defined() ? logits.numel() / words : 0;
    if (!logits.defined() || logits.numel() != rows * words || (rows != count && rows != 1)) {
      diagnostics_.error(fmt::format("for {} tokens the model gives no logits of {} tokens", count, words),
                         ErrorKind::Input);
      return Failed{};
    }
    return logits;
  }

  static Tensor ones(DType dtype, const Dims& sizes) {
    Tensor t = Tensor::empty(dtype, sizes);
    size_t count = static_cast<size_t>(t.numel());
    if (dtype == DType::Bool) std::memset(t.data<bool>(), 1, count);
    if (dtype == DType::Int64) std::fill_n(t.data<int64_t>(), count, 1);
    if (dtype == DType::Int32) std::fill_n(t.data<int32_t>(), count, 1);
    if (dtype == DType::Float32) std::fill_n(t.data<float>(), count, 1.0f);
    return t;
  }

  bool compare(const Text& t) {
    if (t.ids.empty()) return true;
    int64_t words = built_.shape.vocabulary, length = static_cast<int64_t>(t.ids.size());
    Result<Tensor> whole = expected(t, length);
    if (!whole) return false;
    bool all = whole->numel() == length * words;
    for (const auto& [count, got] : t.logits) {
      Result<Tensor> last = all || count == length ? whole : expected(t, count);
      if (!last) return false;
      if (!agrees(*last, all ? (count - 1) * words : 0, got)) return differs(count);
    }
    return true;
  }

  // Differences in the scale of what tells logits apart.
  bool agrees(const Tensor& want, int64_t first, const std::vector<float>& got) const {
    double sum = 0, squares = 0, off = 0, most = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      double w = want.real(first + static_cast<int64_t>(i)), d = got[i] - w;
      sum += w;
      squares += w * w;
      off += d * d;
      most = std::max(most, std::abs(w));
    }
    double n = static_cast<double>(got.size()), spread = std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n)));
    return std::sqrt(off / n) <= tolerance() * spread + 1e-6 * most;
  }

  double tolerance() const {
    const BuildConfig& c = built_.config;
    if (c.weightPrecision == DType::Int8 || c.kvCacheDtype != DType::Float32) return 0.3;
    return c.weightPrecision == DType::Float32 ? 1e-3 : 3e-2;
  }

  // Tells what stopped a run, where it did.
  bool cannot(const Diagnostics& failure, const std::string& what) {
    const Diagnostic* first = failure.list().empty() ? nullptr : &failure.list().front();
    diagnostics_.error(first ? first->range : SourceRange{}, what + (first ? first->message : "it was interrupted"),
                       ErrorKind::Unsupported);
    return false;
  }

  bool differs(int64_t count) {
    diagnostics_.error(fmt::format("this model cannot be served: the logits of token {} of a text are not those that "
                                   "the model gives for the whole text",
                                   count),
                       ErrorKind::Unsupported);
    return false;
  }

  const Module& given_;
  const Entrance& entrance_;
  const BuiltModel& built_;
  Diagnostics& diagnostics_;
  std::vector<Text> texts_;
};

}  // namespace

bool proveServing(const Module& given, const Entrance& entrance, const Module& served, const BuiltModel& built,
                  Diagnostics& diagnostics) {
  return Proof(given, entrance, built, diagnostics).run(served);
}

}  // namespace tscompile
