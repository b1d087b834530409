// What a language model is built for, and what is known of one that was built: config.json of its folder.
#pragma once

#include "ir/support/diagnostics.h"
#include "ir/support/result.h"
#include "ir/values/dtype.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tscompile {

enum class KvCacheType : uint8_t {
  Auto,        // paged where that is right for the model, else state, else disabled
  Paged,       // blocks of tokens_per_block
  Continuous,  // one block for all that a sequence keeps
  Disabled,    // each step computes whole texts
  State,       // each text keeps tensors of its own, of the sizes that the model makes of them
};
// Whether keys and values of all texts share pools of blocks.
inline bool hasPools(KvCacheType type) { return type != KvCacheType::Disabled && type != KvCacheType::State; }

// Names in JSON are those of TensorRT-LLM's build_config: "max_batch_size" and so on.
struct BuildConfig {
  int64_t maxBatchSize = 8;  // rows of a step: requests, or their beams
  int64_t maxInputLen = 0;   // tokens of a prompt; 0: max_seq_len
  int64_t maxSeqLen = 0;     // tokens of a prompt and what follows it; 0: as many as the model has positions for,
                             // or 1024 where that is not known
  int64_t maxBeamWidth = 1;
  int64_t maxNumTokens = 512;   // tokens of a step; longer prompts come in pieces
  int64_t optNumTokens = 0;     // tokens of a usual step; 0: max_batch_size
  int64_t tokensPerBlock = 64;  // of the KV cache
  int64_t kvCacheBlocks = 0;    // 0: enough for max_batch_size sequences of max_seq_len
  int64_t window = 0;           // max_attention_window_size: tokens that a sequence keeps; 0: all
  int64_t sinks = 0;            // sink_token_length: first tokens that are kept for ever
  KvCacheType kvCacheType = KvCacheType::Auto;
  DType kvCacheDtype = DType::Float32;     // or Int8, or Float8E4M3FN, which is called fp8
  double kvCacheScale = 0;                 // of int8 and fp8: numbers are scale * what is stored; 0: 1/32 or 1
  DType weightPrecision = DType::Float32;  // or Float16, BFloat16, Int8
  bool gatherContextLogits = false;        // logits of all tokens of a step, not of the last ones
  bool useRefit = true;                    // the folder keeps what api/refit.h needs to replace weights

  // What is refused by name if it is asked for.
  int64_t maxPromptEmbeddingTableSize = 0, maxDraftLen = 0, maxEncoderInputLen = 0, maxDecoderInputLen = 0,
          mropeRotaryCosSinSize = 0;
  std::string speculativeDecodingMode = "none";
  bool specDecodingIsGenerationLengthVariable = false;
  std::vector<std::string> loraTargetModules;
};

// Strict: unknown names, wrong types and numbers that cannot be are all reported, with the nearest name; whether the
// settings go together is for checkBuildConfig() to say. What is known
// but not implemented is Unsupported.
Result<BuildConfig> parseBuildConfig(std::string_view json, const std::string& path, Diagnostics& diagnostics);
// "max_batch_size=4" over what `config` has; checkBuildConfig() tells whether it goes with the others.
bool setBuildOption(BuildConfig& config, std::string_view assignment, Diagnostics& diagnostics);
bool checkBuildConfig(const BuildConfig& config, Diagnostics& diagnostics);
// Tokens of a usual step, where `optNumTokens` leaves them open.
int64_t usualTokens(const BuildConfig& config);
// Names and values of those that are implemented, the values as setBuildOption() takes them.
std::vector<std::pair<std::string, std::string>> buildOptionTexts(const BuildConfig& config);
// All of it as JSON; the same bytes for the same settings.
std::string buildConfigJson(const BuildConfig& config);

}  // namespace tscompile
