// Language models that are built once and then serve requests: a folder with config.json and an engine file, made from
// graph text, and the model that runs from it under a batcher (runtime/llm/batching.h).
#pragma once

#include "api/built_model.h"
#include "api/module.h"
#include "api/refit.h"
#include "api/serving/kept_texts.h"
#include "passes/serving/entrance.h"
#include "passes/serving/layer_offers.h"
#include "runtime/llm/batching.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace tscompile {

// Makes `folder` (or what it has anew) from a model of ids [batch, tokens], and a mask and positions if it takes them,
// whose weights are given. Attention becomes the plugin GPTAttention with a paged cache, tokens are packed, all of it
// becomes engines. What was made is compared with the model as it was given. Where that is not possible or differs, and
// kv_cache_type is auto, a warning tells the node, and the model is compiled as it is: each step then computes whole
// texts. config.json is written last: until then the folder is refused. `offers` gets the layers that there are plugins
// for, and which of them these took.
bool buildLanguageModel(const Module& module, const BuildConfig& config, const std::string& folder,
                        Diagnostics& diagnostics, std::vector<LayerOffer>* offers = nullptr);

// Makes `folder` again with other weights in `output`, which may be the same folder. See api/refit.h. The result is
// that of a build with these weights.
bool refitLanguageModel(const std::string& folder, const RefitOptions& options, const std::string& output,
                        Diagnostics& diagnostics);

// A model that runs. Not for several threads at once.
class LanguageModel : public StepModel {
 public:
  struct Options {
    int threads = 0;          // 0: as many as there are processors
    int64_t cacheBlocks = 0;  // 0: as it was built
    LoadOptions load = {};    // extensions with plugins, limits
    RunOptions run = {};      // of each step: limits of memory and time, interruption
  };
  // Reads config.json and the engine, and allocates the cache. Null after a report.
  static std::unique_ptr<LanguageModel> load(const std::string& folder, const Options& options,
                                             Diagnostics& diagnostics);
  // The same of a compiled module in memory.
  static std::unique_ptr<LanguageModel> of(const Module& module, const BuiltModel& built, const Options& options,
                                           Diagnostics& diagnostics);

  // What each step runs.
  const Module& module() const { return *module_; }
  const LanguageModelShape& shape() const { return shape_; }
  const BuildConfig& config() const { return config_; }
  // What a batcher is made with: Batcher::make(*model, model->cache(), model->limits(), diagnostics).
  const KvCacheConfig& cache() const { return cache_; }
  BatchLimits limits() const;
  // Whether something is kept of the tokens before; else each step computes whole texts.
  bool isCached() const { return config_.kvCacheType != KvCacheType::Disabled; }
  // Bytes of the pools: 2 * layers * kvHeads * headSize * bytes of an element * tokensPerBlock * blocks.
  int64_t cacheBytes() const;

  int64_t vocabularySize() const override { return shape_.vocabulary; }
  // Logits of the last token of each row; with gather_context_logits allLogits() has those of all tokens.
  Result<Tensor> step(const StepBatch& batch, Diagnostics& diagnostics) override;
  // All that the graph gives for a step, logits first, of a model with a cache.
  Result<std::vector<IValue>> outputs(const StepBatch& batch, Diagnostics& diagnostics);
  // How often the graph ran in steps: of a model that keeps states, texts of some sizes run together and others do not.
  int64_t runs() const { return runs_; }
  // Stops steps from now on when it is set.
  void interruptBy(const std::atomic<bool>* flag) { run_.interrupt = flag; }
  // Of the last step, [tokens, vocabulary]; undefined unless it was built with gather_context_logits.
  const Tensor& allLogits() const { return allLogits_; }

 private:
  LanguageModel() = default;
  Result<std::vector<IValue>> inputsOf(const StepBatch& batch, Diagnostics& diagnostics) const;
  bool findRoles(Diagnostics& diagnostics);
  static void unknownInput(const std::string& name, Diagnostics& diagnostics);
  Failed noLogits(int64_t rows, Diagnostics& diagnostics) const;
  bool hasPools() const { return tscompile::hasPools(config_.kvCacheType); }
  struct Row;
  IValue rowsFrom(const IValue& input, int64_t first) const;
  void findKept(Row& row);
  bool mayJoin(const std::vector<Row*>& group, const Row& row) const;
  bool computeTexts(const std::vector<Row*>& rows, Diagnostics& diagnostics);
  void keepAll(const std::vector<Row*>& rows, std::span<const IValue> states);
  Result<Tensor> stepTexts(const StepBatch& batch, Diagnostics& diagnostics);

  BuildConfig config_;
  LanguageModelShape shape_;
  KvCacheConfig cache_;  // of one layer
  RunOptions run_;
  std::unique_ptr<Module> module_;
  std::unique_ptr<Method> method_;
  std::vector<std::string> inputs_;  // names
  Entrance entrance_;                // without pools: what these stand for
  KeptTexts kept_;                   // those of this step and the one before
  std::vector<Tensor> pools_;        // by layer, [blocks, 2, kvHeads, tokensPerBlock, headSize]
  Tensor allLogits_;
  int64_t runs_ = 0;
};

}  // namespace tscompile
