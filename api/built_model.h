// The folder of a language model that was built: what config.json says of it, and whether the engine beside it is the
// one that it says it of. Reading it executes nothing, and needs no library.
#pragma once

#include "api/build_config.h"
#include "passes/serving/incremental.h"
#include "runtime/llm/kv_blocks.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tscompile {

class Module;

inline constexpr int kBuiltModelFormat = 1;
inline constexpr uint64_t kMostConfigBytes = uint64_t{1} << 24;
// A build over a model writes an engine of another name, which config.json names until this one is replaced.
inline constexpr const char* kBuiltModelEngine = "rank0.engine";

// What a build found out about a model.
struct LanguageModelShape {
  int64_t layers = 0, heads = 0, kvHeads = 0, headSize = 0;
  int64_t hidden = 0, vocabulary = 0;
  int64_t positions = 0;     // that it has embeddings for; 0: not known
  bool tokensFirst = false;  // without a cache: it takes [tokens, batch]
};

struct BuiltModel {
  std::string version;  // of the tscompile that built it
  BuildConfig config;   // with all that was left open settled
  LanguageModelShape shape;
  KvCacheConfig cache;  // of one layer
  std::vector<std::string> inputs, plugins;
  std::vector<int64_t> marked;    // ids of the vocabulary that it treats in a way of their own: ends, padding
  std::vector<KeptState> states;  // of each text, where there are no pools; inputs behind the others
  std::string path;               // of config.json
  std::string engine;             // its path
  uint64_t engineBytes = 0;

  // `config` with what is derived of the others: the tokens of a usual step, the blocks of the cache.
  BuildConfig usedConfig() const;
};
Result<BuiltModel> readBuiltModel(const std::string& folder, Diagnostics& diagnostics);

// Writes what was compiled and what is said of it into a folder that there is; of `model`, its configuration, shape,
// inputs and states count. A model that is there already stays whole until this one takes its place. False after a
// report.
bool writeBuiltModel(const BuiltModel& model, const Module& compiled, const OpRegistry& registry,
                     const std::string& folder, const Limits& limits, Diagnostics& diagnostics);

// What the numbers of a cache are multiplied by when they are read.
double cacheScaleOf(const BuildConfig& config);
// The cache of one layer.
KvCacheConfig cacheOf(const BuildConfig& config, const LanguageModelShape& shape);

// How the plugin calls a cache of these numbers.
int64_t quantMode(DType stored);
// Sizes of an input of a graph that serves texts from a cache in blocks, from least to most.
struct CompileInput;
CompileInput rangeOfServed(const std::string& name, const BuildConfig& config, const LanguageModelShape& shape,
                           const KvCacheConfig& cache);

// Tokens of a text where neither a setting nor the model says how many.
constexpr int64_t kUsualTokens = 1024;

// Takes what the model says for settings that were left open, and refuses what it cannot do.
bool settle(BuildConfig& config, const LanguageModelShape& shape, int64_t exportedFor, Diagnostics& diagnostics);

}  // namespace tscompile
