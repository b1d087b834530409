#include "api/language_model.h"

#include "frontend/files/file_io.h"
#include "frontend/files/section_file.h"
#include "ir/support/text.h"
#include "runtime/reference/loops/copy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace tscompile {
namespace {

// Of config.json; 0: there is none.
uint64_t sumOfConfig(const std::string& folder) {
  Diagnostics ignored;
  Result<std::string> text = readFile(folder + "/config.json", kMostConfigBytes, ignored);
  return text ? checksumOf(*text) : 0;
}

}  // namespace

std::unique_ptr<LanguageModel> LanguageModel::load(const std::string& folder, const Options& options,
                                                   Diagnostics& diagnostics) {
  // A build in this place replaces config.json before it touches the engine that the old one names: what was read
  // between two equal ones belongs together.
  constexpr int kMostBuilds = 20;
  for (int i = 0;; ++i) {
    const uint64_t config = sumOfConfig(folder);
    Diagnostics failures;
    Result<BuiltModel> built = readBuiltModel(folder, failures);
    Result<Module> module = built ? Module::load(built->engine, options.load, failures) : Result<Module>(Failed{});
    if (i < kMostBuilds && sumOfConfig(folder) != config) continue;
    if (module) return of(*module, *built, options, diagnostics);
    for (const Diagnostic& d : failures.list()) diagnostics.add(d);
    return nullptr;
  }
}

// What an engine was made for is not changed by what the settings beside it say.
static bool fitsEngine(const BuiltModel& built, const Module& module, Diagnostics& diagnostics) {
  if (!module.engineInfo()) return true;
  for (const InputRange& range : module.engineInfo()->inputs) {
    if (range.name != "kv_cache_block_offsets" || range.most.size() != 3) continue;
    const int64_t blocks = range.most[2];
    if (isKnownSize(blocks) && blocks != built.cache.blocksFor(built.config.maxSeqLen)) {
      diagnostics
          .fileError(built.path, {},
                     fmt::format("max_seq_len is {}, but the engine was built for texts of up to {} tokens",
                                 built.config.maxSeqLen, blocks * built.cache.tokensPerBlock),
                     ErrorKind::Incompatible)
          .note(fmt::format("build again with max_seq_len={}", built.config.maxSeqLen));
      return false;
    }
  }
  return true;
}

std::unique_ptr<LanguageModel> LanguageModel::of(const Module& module, const BuiltModel& built, const Options& options,
                                                 Diagnostics& diagnostics) {
  std::unique_ptr<LanguageModel> m(new LanguageModel);
  m->module_ = std::make_unique<Module>(module);
  Result<Method> method = m->module_->prepare(diagnostics);
  if (!method) return nullptr;
  m->method_ = std::make_unique<Method>(std::move(*method));
  if (built.inputs.size() != m->method_->inputs().size()) {
    diagnostics.fileError(built.path, {}, "the inputs that it names are not those of the engine",
                          ErrorKind::Incompatible);
    return nullptr;
  }
  m->config_ = built.config;
  m->shape_ = built.shape;
  m->inputs_ = built.inputs;
  m->cache_ = built.cache;
  m->kept_ = KeptTexts(built.states, static_cast<size_t>(2 * built.config.maxBatchSize));
  if (!m->hasPools() && !m->findRoles(diagnostics)) return nullptr;
  LanguageModelShape& s = m->shape_;
  // Before memory is taken for that many caches.
  auto isPool = [](const std::string& name) { return startsWith(name, "kv_cache_pool_"); };
  if (std::count_if(built.inputs.begin(), built.inputs.end(), isPool) != s.layers) {
    diagnostics.fileError(built.path, {}, fmt::format("the engine has no caches of {} layers", s.layers),
                          ErrorKind::Incompatible);
    return nullptr;
  }
  if (!fitsEngine(built, module, diagnostics)) return nullptr;
  if (options.cacheBlocks) m->cache_.blocks = options.cacheBlocks;
  if (!validateKvCache(m->cache_, diagnostics)) return nullptr;
  try {
    for (int64_t layer = 0; layer < s.layers; ++layer) {
      Tensor pool = makeKvPool(m->cache_);
      Dims sizes{m->cache_.blocks, 2, s.kvHeads, m->cache_.tokensPerBlock, s.headSize};
      DType type = pool.dtype();
      if (m->cache_.dtype == DType::Float8E4M3FN) type = DType::UInt8;
      m->pools_.push_back(Tensor::view(type, pool.storage(), sizes, contiguousStrides(sizes), 0));
    }
  } catch (const ExecutionError& e) {
    diagnostics.error("the KV cache: " + e.message(), e.kind());
    return nullptr;
  }
  m->run_ = options.run;
  m->run_.threads = options.threads;
  return m;
}

// What the inputs of a model without pools stand for. Those of states are the last ones.
bool LanguageModel::findRoles(Diagnostics& diagnostics) {
  entrance_.tokensFirst = shape_.tokensFirst;
  std::vector<ValueInfo> inputs = method_->inputs();
  if (inputs.size() > kept_.states()) inputs.resize(inputs.size() - kept_.states());
  for (const ValueInfo& input : inputs) {
    const std::string& name = inputs_[entrance_.inputs.size()];
    std::optional<ServingInput> role = servingInputNamed(name);
    if (!role) {
      unknownInput(name, diagnostics);
      return false;
    }
    entrance_.inputs.push_back(*role);
    entrance_.dtypes.push_back(input.type && input.type->isTensor() ? input.type->tensor().dtype : DType::Undefined);
  }
  return true;
}

void LanguageModel::unknownInput(const std::string& name, Diagnostics& diagnostics) {
  diagnostics.error("the model has an input " + abbreviate(name, 80) + " that nothing is known of",
                    ErrorKind::Incompatible);
}

BatchLimits LanguageModel::limits() const {
  BatchLimits l;
  l.maxBatchSize = config_.maxBatchSize;
  // Texts that are computed one by one cost the same in one piece.
  l.maxNumTokens = hasPools() ? config_.maxNumTokens : std::max(config_.maxNumTokens, config_.maxSeqLen);
  l.maxSequenceLength = config_.maxSeqLen;
  l.maxPromptLength = config_.maxInputLen;
  l.maxBeamWidth = config_.maxBeamWidth;
  return l;
}

int64_t LanguageModel::cacheBytes() const { return shape_.layers * cache_.blocks * cache_.bytesPerBlock(); }

Result<std::vector<IValue>> LanguageModel::inputsOf(const StepBatch& batch, Diagnostics& diagnostics) const {
  int64_t tokens = static_cast<int64_t>(batch.tokens.size()), rows = batch.rows();
  int64_t blocks = cache_.blocksFor(config_.maxSeqLen);
  auto ints = [](const std::vector<int32_t>& v) {
    return Tensor::of<int32_t>(Dims{static_cast<int64_t>(v.size())}, v);
  };
  // As many columns for every step: engines are made for sizes.
  auto table = [&] {
    Tensor t = Tensor::empty(DType::Int32, Dims{rows, 2, blocks});
    std::fill_n(t.data<int32_t>(), t.numel(), -1);
    for (int64_t r = 0; r < rows * 2; ++r)
      std::copy_n(batch.blockTable.data() + r * batch.maxBlocks, std::min(batch.maxBlocks, blocks),
                  t.data<int32_t>() + r * blocks);
    return t;
  };
  auto scale = [&](double v) { return Tensor::of<float>(Dims{1}, std::vector<float>{static_cast<float>(v)}); };
  std::vector<IValue> out;
  size_t layer = 0;
  for (const std::string& name : inputs_) {
    if (name == "input_ids")
      out.emplace_back(Tensor::of<int64_t>(Dims{1, tokens}, batch.tokens));
    else if (name == "position_ids")
      out.emplace_back(Tensor::of<int64_t>(Dims{1, tokens}, batch.positions));
    else if (name == "sequence_length")
      out.emplace_back(ints(batch.sequenceLengths));
    else if (name == "host_past_key_value_lengths")
      out.emplace_back(ints(batch.pastLengths));
    else if (name == "context_lengths")
      out.emplace_back(ints(batch.contextLengths));
    else if (name == "host_request_types")
      out.emplace_back(ints(batch.requestTypes));
    else if (name == "last_token_ids")
      out.emplace_back(ints(batch.lastTokenIds));
    else if (name == "kv_cache_block_offsets")
      out.emplace_back(table());
    else if (name == "host_max_attention_window_sizes")
      out.emplace_back(
          ints(std::vector<int32_t>(static_cast<size_t>(shape_.layers),
                                    static_cast<int32_t>(config_.window ? config_.window : config_.maxSeqLen))));
    else if (name == "host_sink_token_length")
      out.emplace_back(ints({static_cast<int32_t>(config_.sinks)}));
    else if (name == "kv_cache_quantization_scale")
      out.emplace_back(scale(1 / cacheScaleOf(config_)));
    else if (name == "kv_cache_dequantization_scale")
      out.emplace_back(scale(cacheScaleOf(config_)));
    else if (startsWith(name, "kv_cache_pool_") && layer < pools_.size())
      out.emplace_back(pools_[layer++]);
    else {
      unknownInput(name, diagnostics);
      return Failed{};
    }
  }
  return out;
}

Result<std::vector<IValue>> LanguageModel::outputs(const StepBatch& batch, Diagnostics& diagnostics) {
  for (const Tensor& pool : pools_) copyBlocks(cache_, pool, batch.copies);
  Result<std::vector<IValue>> inputs = inputsOf(batch, diagnostics);
  if (!inputs) return Failed{};
  ++runs_;
  return method_->run(*inputs, diagnostics, run_);
}

Failed LanguageModel::noLogits(int64_t rows, Diagnostics& diagnostics) const {
  diagnostics.error(fmt::format("the engine does not give float32 logits of {} tokens for {} rows, as config.json says",
                                shape_.vocabulary, rows),
                    ErrorKind::Incompatible);
  return {};
}

// The inputs of some rows of tokens.
IValue LanguageModel::rowsFrom(const IValue& input, int64_t first) const {
  Tensor t = input.toTensor();
  const int dim = entrance_.tokensFirst ? 0 : 1;
  Dims sizes(t.sizes().begin(), t.sizes().end());
  sizes[static_cast<size_t>(dim)] -= first;
  return t.withGeometry(sizes, contiguousStrides(sizes), t.offset() + first);
}

// A text of a step: its tokens, how many of them were computed before, and of how many of the last logits are wanted.
struct LanguageModel::Row {
  TokenSpan text;
  int64_t past, wanted;
  float* logits;  // [wanted, vocabulary]
  KeptTexts::Part kept;
  int64_t fresh() const { return static_cast<int64_t>(text.size()) - past; }
};

// Where nothing is kept of the tokens before (any more) all are computed anew.
void LanguageModel::findKept(Row& row) {
  std::optional<KeptTexts::Part> part;
  const TokenSpan before = row.text.first(isCached() ? static_cast<size_t>(row.past) : 0);
  if (isCached()) part = kept_.after(before);
  if (!part) row.past = 0, part = kept_.after({});
  row.kept = std::move(*part);
  // No other text can ask for it.
  if (row.past > 0 && config_.maxBeamWidth == 1) kept_.forget(before);
}

bool LanguageModel::mayJoin(const std::vector<Row*>& group, const Row& row) const {
  const auto texts = static_cast<int64_t>(group.size()) + 1;
  return isCached() && kept_.mayShare() && texts <= config_.maxBatchSize &&
         texts * row.fresh() <= config_.maxNumTokens && group[0]->fresh() == row.fresh() &&
         kept_.fit(group[0]->kept, row.kept);
}

// The logits of some texts that run together.
bool LanguageModel::computeTexts(const std::vector<Row*>& rows, Diagnostics& diagnostics) {
  const int64_t batch = entrance_.tokensFirst ? 1 : 0, texts = static_cast<int64_t>(rows.size());
  std::vector<std::vector<Tensor>> own(entrance_.inputs.size());
  std::vector<KeptTexts::Part> parts;
  for (const Row* r : rows) {
    std::vector<IValue> inputs = inputsOfText(entrance_, r->text);
    for (size_t i = 0; i < inputs.size(); ++i) own[i].push_back(rowsFrom(inputs[i], r->past).toTensor());
    parts.push_back(r->kept);
  }
  std::vector<IValue> inputs;
  for (const std::vector<Tensor>& input : own) inputs.emplace_back(joinTensors(input, batch));
  if (isCached()) {
    std::vector<IValue> states = kept_.joined(parts);
    inputs.insert(inputs.end(), states.begin(), states.end());
  }
  ++runs_;
  Result<std::vector<IValue>> out = method_->run(inputs, diagnostics, run_);
  if (!out) return false;
  if (isCached() && out->size() == kept_.states() + 1) keepAll(rows, std::span(*out).subspan(1));
  Tensor logits = logitsOf(*out);
  // Models that read, or return, the last tokens alone give logits of fewer.
  const int64_t fresh = rows[0]->fresh(), words = shape_.vocabulary,
                given = logits.defined() ? logits.numel() / (texts * words) : 0;
  bool fits = logits.defined() && isFloating(logits.dtype()) && logits.rank() > 0 &&
              logits.size(logits.rank() - 1) == words && logits.numel() == given * texts * words && given <= fresh;
  for (const Row* r : rows) fits = fits && r->wanted <= given;
  if (!fits) {
    noLogits(rows[0]->wanted, diagnostics);
    return false;
  }
  for (int64_t t = 0; t < texts; ++t) {
    const Row& r = *rows[static_cast<size_t>(t)];
    for (int64_t i = 0; i < r.wanted; ++i) {
      const int64_t token = given - r.wanted + i;
      const int64_t row = entrance_.tokensFirst ? token * texts + t : t * given + token;
      for (int64_t w = 0; w < words; ++w) r.logits[i * words + w] = static_cast<float>(logits.real(row * words + w));
    }
  }
  return true;
}

void LanguageModel::keepAll(const std::vector<Row*>& rows, std::span<const IValue> states) {
  auto shared = std::make_shared<KeptTexts::Shared>();
  // Texts that go on together give them back as they are.
  for (const IValue& state : states) shared->states.push_back(contiguous(state.toTensor()));
  shared->texts = rows.size();
  for (size_t i = 0; i < rows.size(); ++i) kept_.keep(rows[i]->text, {shared, i});
}

// Texts run together where their sizes are the same; what each gets does not depend on the others.
Result<Tensor> LanguageModel::stepTexts(const StepBatch& batch, Diagnostics& diagnostics) {
  TS_CHECK(static_cast<int64_t>(batch.texts.size()) == batch.rows());
  int64_t words = shape_.vocabulary;
  Tensor last = Tensor::empty(DType::Float32, Dims{batch.rows(), words});
  bool all = config_.gatherContextLogits;
  if (all) allLogits_ = Tensor::empty(DType::Float32, Dims{static_cast<int64_t>(batch.tokens.size()), words});
  std::vector<Row> rows;
  for (int64_t r = 0, token = 0; r < batch.rows(); ++r) {
    size_t at = static_cast<size_t>(r);
    float* own = last.data<float>() + r * words;
    rows.push_back({batch.texts[at],
                    batch.pastLengths[at],
                    all ? batch.lastTokenIds[at] - token : 1,
                    all ? allLogits_.data<float>() + token * words : own,
                    {}});
    token = batch.lastTokenIds[at];
    findKept(rows.back());
  }
  std::vector<std::vector<Row*>> groups;
  for (Row& row : rows) {
    auto group = std::ranges::find_if(groups, [&](const auto& g) { return mayJoin(g, row); });
    if (group == groups.end()) group = groups.insert(groups.end(), std::vector<Row*>());
    group->push_back(&row);
  }
  for (const std::vector<Row*>& group : groups)
    if (!computeTexts(group, diagnostics)) return Failed{};
  for (int64_t r = 0; all && r < batch.rows(); ++r) {
    const Row& row = rows[static_cast<size_t>(r)];
    std::memcpy(last.data<float>() + r * words, row.logits + (row.wanted - 1) * words,
                static_cast<size_t>(words) * sizeof(float));
  }
  return last;
}

Result<Tensor> LanguageModel::step(const StepBatch& batch, Diagnostics& diagnostics) {
  if (!hasPools()) return stepTexts(batch, diagnostics);
  Result<std::vector<IValue>> out = outputs(batch, diagnostics);
  if (!out) return Failed{};
  Tensor logits = !out->empty() && out->at(0).isTensor() ? out->at(0).toTensor() : Tensor();
  int64_t rows = config_.gatherContextLogits ? static_cast<int64_t>(batch.tokens.size()) : batch.rows();
  if (!logits.defined() || logits.dtype() != DType::Float32 || logits.rank() == 0 ||
      logits.size(logits.rank() - 1) != shape_.vocabulary || logits.numel() != rows * shape_.vocabulary) {
    return noLogits(rows, diagnostics);
  }
  Dims flat{logits.numel() / shape_.vocabulary, shape_.vocabulary};
  logits = contiguous(logits);  // an engine may give one element expanded
  logits = logits.withGeometry(flat, contiguousStrides(flat), logits.offset());
  if (!config_.gatherContextLogits) return logits;
  allLogits_ = logits;
  Tensor last = Tensor::empty(DType::Float32, Dims{batch.rows(), shape_.vocabulary});
  for (int64_t r = 0; r < batch.rows(); ++r)
    std::memcpy(last.data<float>() + r * shape_.vocabulary,
                logits.data<float>() + (batch.lastTokenIds[static_cast<size_t>(r)] - 1) * shape_.vocabulary,
                static_cast<size_t>(shape_.vocabulary) * sizeof(float));
  return last;
}

}  // namespace tscompile
