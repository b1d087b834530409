#include "api/serving_proof.h"

#include "api/compile_settings.h"
#include "api/language_model.h"
#include "api/serving/input_trials.h"
#include "ir/graph/clone.h"
#include "ir/support/text.h"
#include "ir/values/random.h"
#include "passes/serving/forms/rounded_results.h"
#include "passes/serving/marked_ids.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace tscompile {
namespace {

// A text, and how many of its tokens each step computes; the first `prompts` pieces are those of a prompt.
struct Text {
  std::vector<TokenId> ids;
  std::vector<int64_t> pieces;
  size_t prompts = 0;
  size_t next = 0;        // piece
  int64_t past = 0;       // tokens
  int64_t prompt = 0;     // tokens of all pieces of the prompt
  bool isBeside = false;  // it is not compared: what it does to others is
  // Of the last token of each piece: how many tokens there are up to it, and its logits.
  std::vector<std::pair<int64_t, std::vector<float>>> logits;
};

struct Plan {
  int64_t prompt[4];  // pieces; 0: none
  int64_t single;     // tokens one by one after them
};
// A prompt after a part of itself, a short one, one that begins with a single token, a long one, and a single token.
constexpr Plan kPlans[] = {{{7, 3}, 3}, {{5}, 4}, {{1, 4, 6}, 2}, {{19}, 2}, {{1}, 0}};

class Proof {
 public:
  Proof(const ServingSteps& steps, const BuiltModel& built, Diagnostics& diagnostics)
      : steps_(steps), entrance_(steps.entrance), built_(built), diagnostics_(diagnostics) {}

  bool run() {
    makeTexts();
    if (steps_.longest && steps_.longest->ids.size() > 2) addLongest();
    std::unique_ptr<LanguageModel> model = modelOf(steps_.compiled, diagnostics_);
    if (!model || !serve(*model)) return false;
    if (!std::all_of(texts_.begin(), texts_.end(), [&](const Text& t) { return compare(t); })) return false;
    if (chosen_ > 0 && steps_.remarks)
      steps_.remarks->remark(
          {},
          fmt::format("some logits of texts of random ids are off by {:.2g} times their spread: the model chooses by "
                      "numbers that are nearly equal, and its own are off by as much if it is rounded in other ways",
                      chosen_));
    return true;
  }

 private:
  std::unique_ptr<LanguageModel> modelOf(const Module& module, Diagnostics& diagnostics) const {
    LanguageModel::Options options;
    options.cacheBlocks = 1;
    for (const Text& t : texts_) options.cacheBlocks += built_.cache.blocksFor(static_cast<int64_t>(t.ids.size()));
    return LanguageModel::of(module, built_, options, diagnostics);
  }

  // Ends of the vocabulary, which may mean something, and others at random. The first text has none that mean
  // something, so that it shows what those of others do beside it.
  TokenId idOf(size_t text, size_t at) const {
    int64_t words = built_.shape.vocabulary;
    if (text == 0) return plainId(random::bits(text, at), words, entrance_.marked);
    // Some begin with one that does.
    if (text > 1 && at == 0 && !entrance_.marked.empty()) {
      const int64_t first = entrance_.marked[(text - 2) % entrance_.marked.size()];
      if (first >= 0 && first < words) return static_cast<TokenId>(first);
    }
    if (text == 1 && at < 4) return static_cast<TokenId>((at == 3 ? words - 1 : static_cast<int64_t>(at)) % words);
    const size_t from = placeOfId(random::bits(text, at), at, words);
    if (from < at) return idOf(text, from);
    return drawnId(random::bits(text, at), words, entrance_.marked);
  }

  // Each piece of the prompt is as long as all before it: wherever the model bends, half of the tokens before that have
  // been computed without those behind. The last two tokens come one by one. Another text as long runs beside it.
  void addLongest() {
    constexpr int64_t kFirst = 7;
    Text t;
    t.ids = steps_.longest->ids;
    const auto length = static_cast<int64_t>(t.ids.size());
    while (t.past < length) {
      int64_t left = length - 2 - t.past, next = std::min(std::max(kFirst, t.past), built_.config.maxNumTokens);
      t.pieces.push_back(left > 0 ? std::min(left, next) : 1);
      t.past += t.pieces.back();
      if (left > 0) t.prompts = t.pieces.size(), t.prompt = t.past;
    }
    t.past = 0;
    Text other = t;
    other.isBeside = true;
    for (size_t i = 0; i < other.ids.size(); ++i)
      other.ids[i] = drawnId(random::bits(2, i), built_.shape.vocabulary, entrance_.marked);
    texts_.push_back(std::move(other));
    texts_.push_back(std::move(t));
  }

  // The texts as long as the settings allow.
  void makeTexts() {
    const BuildConfig& c = built_.config;
    int64_t longest = c.maxSeqLen;
    if (c.window) longest = std::min(longest, c.window);
    std::vector<Plan> plans(std::begin(kPlans), std::end(kPlans));
    // Texts of one length run together where each keeps states of its own.
    if (c.kvCacheType == KvCacheType::State) plans.insert(plans.begin(), kPlans[0]);
    for (const Plan& plan : plans) {
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

  // The next piece of each of these texts.
  StepBatch batchOf(const KvBlocks& blocks, const std::vector<size_t>& rows) const {
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
      batch.texts.push_back(TokenSpan(t.ids).first(static_cast<size_t>(t.past + count)));
      size_t size = static_cast<size_t>(2 * batch.maxBlocks), at = batch.blockTable.size();
      batch.blockTable.resize(at + size);
      blocks.exportTable(static_cast<SequenceId>(i), 0, std::span(batch.blockTable).subspan(at, size));
    }
    return batch;
  }

  bool step(LanguageModel& model, KvBlocks& blocks, const std::vector<size_t>& rows) {
    StepBatch batch = batchOf(blocks, rows);
    Diagnostics failure;
    Result<Tensor> logits = model.step(batch, failure);
    if (!logits) return cannotStep(texts_[rows[0]], failure);
    const float* row = logits->data<float>();
    for (size_t i : rows) {
      Text& t = texts_[i];
      t.past += t.pieces[t.next++];
      t.logits.emplace_back(t.past, std::vector<float>(row, row + built_.shape.vocabulary));
      row += built_.shape.vocabulary;
    }
    return true;
  }

  // Logits of the last ones of `count` tokens, [tokens or less, vocabulary], by the model as it was given.
  Result<Tensor> expected(const Text& t, int64_t count) {
    Diagnostics failure;
    Result<std::vector<IValue>> out =
        steps_.given.forward(inputsOfText(entrance_, TokenSpan(t.ids).first(static_cast<size_t>(count))), failure);
    if (!out) {
      cannot(failure,
             fmt::format("the model does not run with a text of {}: ", counted(static_cast<uint64_t>(count), "token")));
      return Failed{};
    }
    Tensor logits = logitsOf(*out);
    int64_t words = built_.shape.vocabulary, rows = logits.defined() ? logits.numel() / words : 0;
    if (!logits.defined() || logits.numel() != rows * words || rows < 1 || rows > count) {
      diagnostics_.error(fmt::format("for {} tokens the model gives no logits of {} tokens", count, words),
                         ErrorKind::Input);
      return Failed{};
    }
    return logits;
  }

  bool compare(const Text& t) {
    if (t.ids.empty() || t.isBeside) return true;
    int64_t words = built_.shape.vocabulary, length = static_cast<int64_t>(t.ids.size());
    if (steps_.longest && t.ids == steps_.longest->ids) return compareLongest(t, steps_.longest->logits);
    Result<Tensor> whole = expected(t, length);
    if (!whole) return false;
    // Without a cache a token need not have the same logits before the others come.
    bool all = steps_.packed && whole->numel() == length * words;
    for (const auto& [count, got] : t.logits) {
      Result<Tensor> last = all || count == length ? whole : expected(t, count);
      if (!last) return false;
      double off = offBy(*last, all ? (count - 1) * words : last->numel() - words, got);
      if (off <= tolerance()) continue;
      const int64_t run = all ? length : count;
      if (!followsFromRounding(t, run, *last, all ? (count - 1) * words : last->numel() - words, off))
        return differs(t, count, off);
      chosen_ = std::max(chosen_, off);
    }
    return true;
  }

  bool compareLongest(const Text& t, const Tensor& known) {
    const int64_t words = built_.shape.vocabulary, length = static_cast<int64_t>(t.ids.size());
    const bool all = steps_.packed && known.numel() == length * words;
    for (const auto& [count, got] : t.logits) {
      if (!all && count != length) continue;
      const int64_t row = all ? (count - 1) * words : known.numel() - words;
      double off = offBy(known, row, got);
      if (off <= tolerance()) continue;
      if (!followsFromRounding(t, length, known, row, off)) return differs(t, count, off);
      chosen_ = std::max(chosen_, off);
    }
    return true;
  }

  // Whether the model's own logits, a row of `want` from `first` on, change as much if its products are rounded in
  // other ways: it chooses by numbers that are nearly equal, and what was built is as near to it as another machine.
  bool followsFromRounding(const Text& t, int64_t tokens, const Tensor& want, int64_t first, double off) {
    constexpr double kMore = 2;  // a few ways show less than all
    changed_ = 0;
    if (!steps_.flat || !std::isfinite(off)) return false;
    if (roundedText_ != &t || roundedTokens_ != tokens) {
      roundedText_ = &t, roundedTokens_ = tokens;
      roundOften(TokenSpan(t.ids).first(static_cast<size_t>(tokens)));
    }
    changed_ = 0;
    for (const Tensor& other : rounded_) {
      std::vector<float> row;
      for (int64_t i = 0; i < built_.shape.vocabulary && other.numel() == want.numel(); ++i)
        row.push_back(static_cast<float>(other.real(first + i)));
      const double changed = row.empty() ? 0 : offBy(want, first, row);
      if (std::isfinite(changed)) changed_ = std::max(changed_, changed);
    }
    return off <= kMore * changed_;
  }

  // The logits of these tokens, rounded in several ways.
  void roundOften(TokenSpan ids) {
    const BuildConfig& c = built_.config;
    const DType precision = c.kvCacheDtype == DType::Float32 ? c.weightPrecision : c.kvCacheDtype;
    rounded_.clear();
    for (int way = 0; way < kWaysToRound; ++way) {
      std::unique_ptr<Graph> graph = cloneGraph(*steps_.flat->graph());
      roundOtherwise(*graph, precision, way);
      Diagnostics ignored;
      Result<std::vector<IValue>> out =
          steps_.flat->withGraph(std::move(graph)).forward(inputsOfText(entrance_, ids), ignored);
      if (Tensor logits = out ? logitsOf(*out) : Tensor(); logits.defined()) rounded_.push_back(std::move(logits));
    }
  }

  // How far they are off, in the scale of what tells logits apart; not a number counts as much, and is the result if
  // the model itself says it.
  static double offBy(const Tensor& want, int64_t first, const std::vector<float>& got) {
    double sum = 0, squares = 0, off = 0, most = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      double w = want.real(first + static_cast<int64_t>(i)), d = got[i] - w;
      if (std::isnan(w)) return w;
      if (std::isinf(w) && got[i] == w) continue;
      sum += w;
      squares += w * w;
      off += d * d;
      most = std::max(most, std::abs(w));
    }
    double n = static_cast<double>(got.size()), spread = std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n)));
    double root = std::sqrt(off / n);
    return root <= 1e-6 * most ? 0 : std::isfinite(root) ? root / spread : INFINITY;
  }

  double tolerance() const {
    const BuildConfig& c = built_.config;
    if (c.weightPrecision == DType::Int8 || c.kvCacheDtype != DType::Float32) return 0.3;
    return c.weightPrecision == DType::Float32 && !steps_.isHalf ? 1e-3 : 3e-2;
  }

  // Tells what stopped a run, where it did.
  bool cannot(const Diagnostics& failure, const std::string& what) {
    const Diagnostic* first = failure.list().empty() ? nullptr : &failure.list().front();
    diagnostics_.error(first ? first->range : SourceRange{}, what + (first ? first->message : "it was interrupted"),
                       ErrorKind::Unsupported);
    return false;
  }

  // A step may fail for what only all tokens of a text, and no others, should have part in.
  bool cannotStep(const Text& text, const Diagnostics& failure) {
    const Node* node = failure.firstErrorKind() == ErrorKind::Model ? firstDifference(text) : nullptr;
    if (!node) return cannot(failure, "this model cannot be served: ");
    reportDifference(node).note("a step fails with them: " + failure.list().front().message);
    return false;
  }

  bool differs(const Text& text, int64_t count, double off) {
    if (std::isnan(off)) {
      reportNoNumbers(entrance_, count, diagnostics_);
      return false;
    }
    const Node* node = firstDifference(text);
    Diagnostic& d = reportDifference(node);
    d.note(
        fmt::format("the logits of token {} of a text of random ids are off by {:.2g} times their spread", count, off));
    if (changed_ > tolerance())
      d.note(fmt::format("if it is rounded in other ways, the model's own are off by {:.2g} times their spread",
                         changed_));
    noteRounding(d);
    return false;
  }

  Diagnostic& reportDifference(const Node* node) {
    return diagnostics_.error(
        node ? node->range : SourceRange{},
        steps_.packed ? fmt::format("this model cannot be served: tokens that come piece by piece get other {} than in "
                                    "the whole text",
                                    node ? "numbers here" : "logits")
                      : "this model cannot be served: what was compiled gives other logits than the model as it is",
        ErrorKind::Unsupported);
  }

  // Settings that cost accuracy may be all that is in the way.
  void noteRounding(Diagnostic& d) const {
    const BuildConfig& c = built_.config;
    const std::string most = fmt::format(", and more than {:.2g} is refused; ", tolerance());
    if (c.weightPrecision != DType::Float32)
      d.note(fmt::format("weight_precision={} rounds weights{}weight_precision=float32 does not",
                         precisionName(c.weightPrecision), most));
    if (c.kvCacheDtype != DType::Float32)
      d.note(
          fmt::format("kv_cache_dtype={} rounds keys and values to multiples of kv_cache_scale{}"
                      "kv_cache_dtype=float32 does not",
                      c.kvCacheDtype == DType::Int8 ? "int8" : "fp8", most));
  }

  // The node of the lowered graph whose values for the tokens of a text are others in the packed graph, and come first.
  const Node* firstDifference(const Text& text) {
    if (!steps_.packed) return nullptr;
    Diagnostics ignored;
    std::unique_ptr<Graph> whole = cloneGraph(*steps_.lowered->graph()), packed = cloneGraph(*steps_.packed->graph());
    std::vector<const Node*> nodes;
    size_t known = packed->outputs().size();
    for (Node* n : whole->block()->nodes())
      for (Value* v : n->outputs()) {
        Value* twin = n->kind() == sym::Constant || !v->type()->isTensor() ? nullptr : packed->find(v->name());
        if (!twin || !twin->type()->isTensor() || twin->node() == nullptr) continue;
        whole->addOutput(v);
        packed->addOutput(twin);
        nodes.push_back(steps_.lowered->graph()->find(v->name())->node());
      }
    int64_t length = static_cast<int64_t>(text.ids.size());
    std::vector<int64_t> ids(text.ids.begin(), text.ids.end()), places(ids.size());
    for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i);
    std::vector<IValue> inputs{Tensor::of<int64_t>(Dims{1, length}, ids), Tensor::of<int64_t>(Dims{1, length}, places)};
    Result<std::vector<IValue>> want = steps_.lowered->withGraph(std::move(whole)).forward(inputs, ignored);
    std::unique_ptr<LanguageModel> model = modelOf(steps_.packed->withGraph(std::move(packed)), ignored);
    if (!want || !model) return nullptr;
    texts_ = {text};
    texts_[0].next = 0;
    texts_[0].past = 0;
    KvBlocks blocks(model->cache());
    if (!blocks.addSequence(0, text.ids, ignored)) return nullptr;
    size_t first = nodes.size();
    for (Text& t = texts_[0]; t.next < t.pieces.size(); t.past += t.pieces[t.next++]) {
      Result<std::vector<IValue>> got = model->outputs(batchOf(blocks, {0}), ignored);
      if (!got) break;
      for (size_t i = 0; i < first; ++i)
        if (!haveSameTokens((*want)[i + 1], (*got)[i + known], t.past, t.pieces[t.next], length, tolerance()))
          first = i;
    }
    return first < nodes.size() ? nodes[first] : nullptr;
  }

  // Whether some tokens of [1, length, ..] are [1, count, ..]; values of other forms are not compared.
  static bool haveSameTokens(const IValue& whole, const IValue& piece, int64_t past, int64_t count, int64_t length,
                             double tolerance) {
    if (!whole.isTensor() || !piece.isTensor()) return true;
    Tensor want = whole.toTensor(), got = piece.toTensor();
    if (!want.defined() || !got.defined() || want.rank() < 2 || want.rank() != got.rank() || want.size(0) != 1 ||
        want.size(1) != length || got.size(0) != 1 || got.size(1) != count)
      return true;
    int64_t width = want.numel() / length;
    if (got.numel() != width * count) return true;
    double most = 0, off = 0;
    for (int64_t i = 0; i < width * count; ++i) {
      double w = want.real(past * width + i);
      most = std::max(most, std::abs(w));
      off = std::max(off, std::abs(w - got.real(i)));
    }
    return off <= std::min(tolerance, 3e-2) * most + 1e-6;
  }

  const ServingSteps& steps_;
  const Entrance& entrance_;
  const BuiltModel& built_;
  Diagnostics& diagnostics_;
  std::vector<Text> texts_;
  std::vector<Tensor> rounded_;  // of the first tokens of a text
  const Text* roundedText_ = nullptr;
  int64_t roundedTokens_ = 0;
  double changed_ = 0;  // the most that a row of logits changed by, where it was asked for last
  double chosen_ = 0;   // the most that logits are off by which are taken for right
};

}  // namespace

bool proveServing(const ServingSteps& steps, const BuiltModel& built, Diagnostics& diagnostics) {
  return Proof(steps, built, diagnostics).run();
}

}  // namespace tscompile
