#include "api/language_model.h"

#include "frontend/files/file_io.h"
#include "frontend/files/section_file.h"
#include "ir/support/text.h"
#include "runtime/reference/loops/copy.h"

#include <fmt/core.h>

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
  m->states_ = built.states;
  if (!m->hasPools() && !m->findRoles(diagnostics)) return nullptr;
  LanguageModelShape& s = m->shape_;
  // Before memory is taken for that many caches.
  auto isPool = [](const std::string& name) { return startsWith(name, "kv_cache_pool_"); };
  if (std::count_if(built.inputs.begin(), built.inputs.end(), isPool) != s.layers) {
    diagnostics.fileError(built.path, {}, fmt::format("the engine has no caches of {} layers", s.layers),
                          ErrorKind::Incompatible);
    return nullptr;
  }
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
  if (inputs.size() > states_.size()) inputs.resize(inputs.size() - states_.size());
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

// What was kept after these tokens, which is taken from where it is if no other text can ask for it; else what a text
// begins with, and `past` is 0.
std::vector<IValue> LanguageModel::takeStates(TokenSpan text, int64_t& past) {
  for (size_t i = kept_.size(); past > 0 && i-- > 0;) {
    if (!std::ranges::equal(kept_[i].text, text.first(static_cast<size_t>(past)))) continue;
    std::vector<IValue> states = kept_[i].states;
    if (config_.maxBeamWidth == 1) kept_.erase(kept_.begin() + static_cast<ptrdiff_t>(i));
    return states;
  }
  past = 0;
  std::vector<IValue> states;
  for (const KeptState& s : states_) states.emplace_back(Tensor::empty(s.dtype, s.sizes));
  return states;
}

// Those of rows of this step and the one before.
void LanguageModel::keep(TokenSpan text, std::span<const IValue> states) {
  const auto most = static_cast<size_t>(2 * config_.maxBatchSize);
  if (kept_.size() >= most) kept_.erase(kept_.begin());
  kept_.push_back({{text.begin(), text.end()}, {states.begin(), states.end()}});
}

// Logits of the last `count` tokens of a text, [count, vocabulary] at `to`. `past` tokens were computed before.
bool LanguageModel::computeText(TokenSpan text, int64_t past, int64_t count, float* to, Diagnostics& diagnostics) {
  std::vector<IValue> inputs = inputsOfText(entrance_, text);
  if (isCached()) {
    std::vector<IValue> states = takeStates(text, past);
    for (IValue& input : inputs) input = rowsFrom(input, past);
    inputs.insert(inputs.end(), states.begin(), states.end());
  } else {
    past = 0;
  }
  Result<std::vector<IValue>> out = method_->run(inputs, diagnostics, run_);
  if (!out) return false;
  Tensor logits = logitsOf(*out);
  if (isCached() && out->size() == states_.size() + 1) keep(text, std::span(*out).subspan(1));
  int64_t length = static_cast<int64_t>(text.size()) - past, words = shape_.vocabulary;
  bool fits = logits.defined() && isFloating(logits.dtype()) && logits.rank() > 0 &&
              logits.size(logits.rank() - 1) == words && logits.numel() >= count * words &&
              (logits.numel() == length * words || logits.numel() == words);
  if (!fits) {
    noLogits(count, diagnostics);
    return false;
  }
  for (int64_t i = 0, first = logits.numel() - count * words; i < count * words; ++i)
    to[i] = static_cast<float>(logits.real(first + i));
  return true;
}

// Each row by itself, so that what a text gets does not depend on the others.
Result<Tensor> LanguageModel::stepTexts(const StepBatch& batch, Diagnostics& diagnostics) {
  TS_CHECK(static_cast<int64_t>(batch.texts.size()) == batch.rows());
  int64_t words = shape_.vocabulary;
  Tensor last = Tensor::empty(DType::Float32, Dims{batch.rows(), words});
  bool all = config_.gatherContextLogits;
  if (all) allLogits_ = Tensor::empty(DType::Float32, Dims{static_cast<int64_t>(batch.tokens.size()), words});
  for (int64_t r = 0, token = 0; r < batch.rows(); ++r) {
    size_t row = static_cast<size_t>(r);
    int64_t count = all ? batch.lastTokenIds[row] - token : 1;
    float* own = last.data<float>() + r * words;
    float* to = all ? allLogits_.data<float>() + token * words : own;
    if (!computeText(batch.texts[row], batch.pastLengths[row], count, to, diagnostics)) return Failed{};
    token = batch.lastTokenIds[row];
    if (all) std::memcpy(own, to + (count - 1) * words, static_cast<size_t>(words) * sizeof(float));
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
