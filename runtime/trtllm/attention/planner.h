// Makes the plan of a call step by step; each step checks the inputs that it reads.
#pragma once

#include "ir/values/error.h"
#include "runtime/trtllm/attention/plan.h"

#include <fmt/core.h>

#include <optional>
#include <utility>

namespace tscompile {

class AttentionPlanner {
 public:
  AttentionPlanner(const GptAttentionParams& params, const GptAttentionInputs& inputs, const Tensor& context)
      : params_(params), inputs_(inputs), context_(context) {}
  AttentionPlan make();

 private:
  template <class... Args>
  [[noreturn]] static void fail(fmt::format_string<Args...> text, Args&&... args) {
    throw ExecutionError(ErrorKind::Input, fmt::format(text, std::forward<Args>(args)...));
  }
  [[noreturn]] static void refuse(std::string feature) {
    throw ExecutionError(ErrorKind::Unsupported, feature + " is not supported");
  }
  // The int32 or int64 values of a contiguous tensor; `count` -1: any number of them.
  static std::vector<int64_t> integers(const char* name, const Tensor& tensor, int64_t count);
  static std::vector<float> floats(const char* name, const Tensor& tensor, int64_t count);
  static const float* floatTable(const char* name, const Tensor& tensor);
  static float scaleOf(const char* name, const Tensor& tensor);
  static Dims expectShape(const char* name, const Tensor& tensor, int rank);

  // plan_tokens.cpp: the projections, the result, rows and their lengths.
  void planTokens();
  void planProjections();
  TokenRows rowsOf(const char* name, const Tensor& tensor, int64_t heads) const;
  void splitJoint();
  void planBias();
  void planOutput();
  void planRows();
  int64_t countRows();
  void planContextRow(AttentionRow& row, int64_t index);
  void planGenerationRow(AttentionRow& row, int64_t index);
  void planPast(AttentionRow& row, int64_t index, const std::vector<int64_t>& total,
                const std::vector<int64_t>& past) const;
  void planEncoder();
  void planCrossAttention();

  // plan_cache.cpp: windows, caches, beams.
  void planWindow();
  void planBeams();
  void planCache();
  void planContiguous();
  void planPaged();
  void planBlocks(const Tensor& offsets, int64_t pool, int64_t layer, int64_t blockCount);
  void checkBlockSharing() const;
  void checkCapacity() const;

  // plan_positions.cpp: masks, rotary tables, biases.
  void planMasks();
  void narrowMasks(int64_t window);
  void planCustomMask();
  void planRotary();
  void planShift();
  const float* givenAngles(const AttentionRow& row, int64_t index, int64_t position) const;
  void planPositionBias();
  void planLogn();

  const GptAttentionParams& params_;
  const GptAttentionInputs& inputs_;
  const Tensor& context_;
  AttentionPlan plan_;
  int64_t batch_ = 0, perBatch_ = 0;  // padded
  int64_t contexts_ = 0;              // context rows; they come first
  int64_t beams_ = 1;
  int64_t window_ = kNoWindow, sinks_ = 0;
  int64_t firstCacheLayer_ = 0;
  std::vector<int64_t> lengths_;  // of context_lengths
};

}  // namespace tscompile
