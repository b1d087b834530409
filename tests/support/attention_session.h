// Sequences that go through an attention layer step by step, each with its own tokens in a cache of any layout.
#pragma once

#include "runtime/trtllm/attention/gpt_attention.h"
#include "runtime/trtllm/attention/value_format.h"
#include "tests/support/engine_reference.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace tscompile::test {

inline Tensor ints(DimSpan sizes, const std::vector<int32_t>& values) { return Tensor::of<int32_t>(sizes, values); }
inline Tensor ints(const std::vector<int32_t>& values) {
  return ints(Dims{static_cast<int64_t>(values.size())}, values);
}
inline Tensor floats(DimSpan sizes, const std::vector<float>& values) { return Tensor::of<float>(sizes, values); }

inline Tensor valuesAs(DType dtype, DimSpan sizes, const std::vector<float>& values) {
  Tensor t = Tensor::empty(dtype, sizes);
  if (!values.empty()) storeValues({dtype}, values.data(), t.numel(), t.raw());
  return t;
}
inline std::vector<float> valuesOf(const Tensor& t) {
  std::vector<float> values(static_cast<size_t>(t.numel()));
  if (!values.empty()) loadValues({t.dtype()}, t.raw(), t.numel(), values.data());
  return values;
}

enum class Kernel { Reference, Fast };

struct CacheLayout {
  bool packed = true, paged = false;
  int64_t tokensPerBlock = 4;
  int64_t window = 0, sinks = 0;  // window 0: none
  int64_t capacity = 32;          // tokens of a sequence
  float scale = 1;                // of a quantised cache: one step
  int threads = 2;
};

struct AttentionRequest {
  int64_t sequence;
  bool context;
  std::vector<float> tokens;  // rows of q, k, v
};

class AttentionSession {
 public:
  AttentionSession(GptAttentionParams params, CacheLayout layout, Kernel kernel, int64_t sequences = 1)
      : params_(params), layout_(layout), kernel_(kernel), lengths_(static_cast<size_t>(sequences), 0) {
    params_.useCache = true;
    params_.pagedKvCache = layout.paged;
    params_.removeInputPadding = layout.packed;
    params_.tokensPerBlock = layout.tokensPerBlock;
    const int64_t rowValues = 2 * params.numKvHeads * layout.capacity * params.headSize;
    DType dtype = params.kvCacheQuantMode & kInt8KvCache  ? DType::Int8
                  : params.kvCacheQuantMode & kFp8KvCache ? DType::UInt8
                                                          : params.type;
    if (!layout.paged) {
      for (int64_t i = 0; i < sequences; ++i) caches_.push_back(poisoned(dtype, rowValues));
      return;
    }
    blocksPerRow_ = (layout.capacity + layout.tokensPerBlock - 1) / layout.tokensPerBlock +
                    (layout.sinks > 0 || params.oneMoreBlock ? 2 : 0);
    params_.layerIdxInCachePool = 1;
    blocks_.resize(static_cast<size_t>(sequences * 2 * blocksPerRow_));
    std::iota(blocks_.begin(), blocks_.end(), 0);
    std::shuffle(blocks_.begin(), blocks_.end(), std::mt19937(7));
    pool_ = poisoned(
        dtype, static_cast<int64_t>(blocks_.size() + 2) * params.numKvHeads * layout.tokensPerBlock * params.headSize);
  }

  // Inputs that every call has: tables, biases.
  GptAttentionInputs& shared() { return shared_; }
  GptAttentionParams& params() { return params_; }
  int64_t length(int64_t sequence) const { return lengths_[static_cast<size_t>(sequence)]; }
  Tensor cache(int64_t sequence) const { return caches_[static_cast<size_t>(sequence)]; }

  // The context of each request's tokens. Context requests come first.
  std::vector<std::vector<float>> step(const std::vector<AttentionRequest>& requests) {
    const int64_t batch = static_cast<int64_t>(requests.size()), width = params_.qkvWidth();
    GptAttentionInputs in = shared_;
    std::vector<int32_t> types, lengths, total, past;
    int64_t tokens = 0, longest = 0;
    for (const AttentionRequest& r : requests) {
      const int64_t n = static_cast<int64_t>(r.tokens.size()) / width,
                    before = lengths_[static_cast<size_t>(r.sequence)];
      types.push_back(r.context ? 0 : 1);
      lengths.push_back(static_cast<int32_t>(r.context ? n : before));
      total.push_back(static_cast<int32_t>(before + n));
      past.push_back(static_cast<int32_t>(r.context ? 0 : before));
      tokens += n;
      longest = std::max(longest, n);
    }
    in.hostRequestTypes = ints(types);
    in.contextLengths = in.hostContextLengths = ints(lengths);
    in.sequenceLength = ints(total);
    in.hostPastKeyValueLengths = ints(past);
    if (layout_.window > 0) in.hostMaxAttentionWindowSizes = ints({static_cast<int32_t>(layout_.window)});
    if (layout_.sinks > 0) in.hostSinkTokenLength = ints({static_cast<int32_t>(layout_.sinks)});
    in.kvCacheQuantizationScale = floats(Dims{1}, {1 / layout_.scale});
    in.kvCacheDequantizationScale = floats(Dims{1}, {layout_.scale});
    // Padding is poison: nobody may read it.
    std::vector<float> rows;
    for (const AttentionRequest& r : requests) {
      rows.insert(rows.end(), r.tokens.begin(), r.tokens.end());
      if (!layout_.packed) rows.resize(rows.size() + static_cast<size_t>(longest * width) - r.tokens.size(), NAN);
    }
    Dims sizes = layout_.packed ? Dims{tokens, width} : Dims{batch, longest, width};
    in.qkv = valuesAs(params_.type, sizes, rows);
    sizes[sizes.size() - 1] = params_.numHeads * params_.headSize;
    Tensor context =
        valuesAs(params_.type, sizes,
                 std::vector<float>(
                     rows.size() / static_cast<size_t>(width) * static_cast<size_t>(sizes[sizes.size() - 1]), NAN));
    gather(requests, in);
    auto problem = kernel_ == Kernel::Fast ? gptAttention(params_, in, context, layout_.threads)
                                           : gptAttentionReference(params_, in, context);
    if (problem) {
      ADD_FAILURE() << problem->message;
      return {};
    }
    scatter(requests, in);
    return split(requests, longest, valuesOf(context));
  }

 private:
  static Tensor poisoned(DType dtype, int64_t count) {
    Tensor t = Tensor::empty(dtype, Dims{count});
    std::memset(t.raw(), 0xff, static_cast<size_t>(count) * itemSize(dtype));
    return t;
  }

  void gather(const std::vector<AttentionRequest>& requests, GptAttentionInputs& in) const {
    const int64_t batch = static_cast<int64_t>(requests.size());
    if (!layout_.paged) {
      const Tensor& first = caches_[0];
      in.pastKeyValue =
          Tensor::empty(first.dtype(), Dims{batch, 2, params_.numKvHeads, layout_.capacity, params_.headSize});
      const size_t bytes = static_cast<size_t>(first.numel()) * itemSize(first.dtype());
      for (size_t i = 0; i < requests.size(); ++i)
        std::memcpy(in.pastKeyValue.raw() + i * bytes, cache(requests[i].sequence).raw(), bytes);
      return;
    }
    in.kvCachePool = pool_;
    std::vector<int32_t> offsets;
    for (const AttentionRequest& r : requests)
      offsets.insert(offsets.end(), blocks_.begin() + r.sequence * 2 * blocksPerRow_,
                     blocks_.begin() + (r.sequence + 1) * 2 * blocksPerRow_);
    in.kvCacheBlockOffsets = ints(Dims{batch, 2, blocksPerRow_}, offsets);
  }

  void scatter(const std::vector<AttentionRequest>& requests, const GptAttentionInputs& in) {
    for (size_t i = 0; i < requests.size(); ++i) {
      const AttentionRequest& r = requests[i];
      lengths_[static_cast<size_t>(r.sequence)] += static_cast<int64_t>(r.tokens.size()) / params_.qkvWidth();
      if (layout_.paged) continue;
      const Tensor& to = caches_[static_cast<size_t>(r.sequence)];
      const size_t bytes = static_cast<size_t>(to.numel()) * itemSize(to.dtype());
      std::memcpy(to.raw(), in.pastKeyValue.raw() + i * bytes, bytes);
    }
  }

  std::vector<std::vector<float>> split(const std::vector<AttentionRequest>& requests, int64_t longest,
                                        const std::vector<float>& context) const {
    const int64_t width = params_.numHeads * params_.headSize;
    std::vector<std::vector<float>> results;
    auto at = context.begin();
    for (const AttentionRequest& r : requests) {
      const int64_t n = static_cast<int64_t>(r.tokens.size()) / params_.qkvWidth();
      results.emplace_back(at, at + n * width);
      at += n * width;
      if (layout_.packed) continue;
      for (auto end = at + (longest - n) * width; at != end; ++at) EXPECT_EQ(*at, 0) << "padding";
    }
    return results;
  }

  GptAttentionParams params_;
  CacheLayout layout_;
  Kernel kernel_;
  GptAttentionInputs shared_;
  std::vector<int64_t> lengths_;
  std::vector<Tensor> caches_;
  Tensor pool_;
  std::vector<int32_t> blocks_;
  int64_t blocksPerRow_ = 0;
};

// Tokens [begin, end) of rows of this width.
inline std::vector<float> rowsOf(const std::vector<float>& all, int64_t width, int64_t begin, int64_t end) {
  return {all.begin() + begin * width, all.begin() + end * width};
}

inline double largestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(a[i]) - b[i]);
    if (!(difference <= most)) most = std::isnan(difference) ? INFINITY : difference;
  }
  return most;
}

}  // namespace tscompile::test
