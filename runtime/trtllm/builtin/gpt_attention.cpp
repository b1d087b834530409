// GPTAttention: attention of language models with a cache of keys and values; attention/ has the mathematics.
#include "runtime/trtllm/attention/gpt_attention.h"

#include "runtime/plugin/plugin_sdk.h"
#include "runtime/trtllm/builtin/host_tensor.h"

#include <array>

namespace tscompile {
namespace {

constexpr uint32_t kAttentionTypes = tsc::kF32 | tsc::kF16 | tsc::kBF16;

// An input: its name, what the mathematics calls it, what it may be.
struct Input {
  std::string_view name;
  Tensor GptAttentionInputs::*member;
  uint32_t dtypes;
  std::string_view doc;
};
using In = GptAttentionInputs;
constexpr uint32_t kI32 = tsc::kI32;
const std::array kInputs = {
    Input{"qkv", &In::qkv, kAttentionTypes,
          "[B, S, (H + 2 Hkv) D], or [T, ..] of packed tokens; with k and v: the queries alone"},
    Input{"k", &In::k, kAttentionTypes, "keys [.., Hkv D], with unfuse_qkv_gemm"},
    Input{"v", &In::v, kAttentionTypes, "values [.., Hkv D], with unfuse_qkv_gemm"},
    Input{"attention_mask", &In::attentionMask, tsc::kBool, "[tokens, keys], of custom_mask"},
    Input{"attention_packed_mask", &In::attentionPackedMask, kI32, "[tokens, words], 32 columns a word"},
    Input{"sequence_length", &In::sequenceLength, kI32, "[B] tokens up to now, the new ones included"},
    Input{"host_past_key_value_lengths", &In::hostPastKeyValueLengths, kI32, "[B] tokens in the cache"},
    Input{"host_max_attention_window_sizes", &In::hostMaxAttentionWindowSizes, kI32, "[layers]"},
    Input{"host_sink_token_length", &In::hostSinkTokenLength, kI32, "[1]"},
    Input{"context_lengths", &In::contextLengths, kI32, "[B] tokens of the prompt"},
    Input{"cache_indirection", &In::cacheIndirection, kI32, "[B, beams, longest] the beam that a past token is of"},
    Input{"host_request_types", &In::hostRequestTypes, kI32, "[B] 0: prompt, 1: generation"},
    Input{"kv_cache_block_offsets", &In::kvCacheBlockOffsets, kI32, "[B, 2, blocks]"},
    Input{"kv_cache_pool", &In::kvCachePool, kAttentionTypes | tsc::kI8 | tsc::kU8,
          "blocks of [Hkv, tokens_per_block, D]"},
    Input{"host_kv_cache_pool_mapping", &In::hostKvCachePoolMapping, kI32, "[layers, 2]"},
    Input{"past_key_value", &In::pastKeyValue, kAttentionTypes | tsc::kI8 | tsc::kU8, "[B, 2, Hkv, longest, D]"},
    Input{"kv_cache_quantization_scale", &In::kvCacheQuantizationScale, tsc::kF32, "[1]"},
    Input{"kv_cache_dequantization_scale", &In::kvCacheDequantizationScale, tsc::kF32, "[1]"},
    Input{"attention_output_quantization_scale", &In::attentionOutputQuantizationScale, tsc::kF32, "[1]"},
    Input{"rotary_inv_freq", &In::rotaryInvFreq, tsc::kF32, "[rotary / 2]"},
    Input{"rotary_cos_sin", &In::rotaryCosSin, tsc::kF32, "[positions, rotary], pairs"},
    Input{"alibi_slopes", &In::alibiSlopes, tsc::kF32, "[H]"},
    Input{"relative_attention_bias", &In::relativeAttentionBias, tsc::kF32, "[H, S, S], or [H, buckets]"},
    Input{"cross_kv", &In::crossKv, kAttentionTypes, "[.., 2 Hkv D]"},
    Input{"encoder_input_lengths", &In::encoderInputLengths, kI32, "[B]"},
    Input{"host_context_lengths", &In::hostContextLengths, kI32, "[B], of packed tokens"},
    Input{"qkv_bias", &In::qkvBias, kAttentionTypes, "[(H + 2 Hkv) D]"},
    Input{"long_rope_rotary_inv_freq", &In::longRopeRotaryInvFreq, tsc::kF32, "[rotary / 2]"},
    Input{"long_rope_rotary_cos_sin", &In::longRopeRotaryCosSin, tsc::kF32, "[positions, rotary], pairs"},
    Input{"mrope_rotary_cos_sin", &In::mropeRotaryCosSin, tsc::kF32, "[B, positions, rotary], pairs"},
    Input{"mrope_position_deltas", &In::mropePositionDeltas, kI32, "[B]"},
    Input{"skip_attn", &In::skipAttention, tsc::kBool, "[1]"},
    Input{"logn_scaling", &In::lognScaling, tsc::kF32, "[positions]"},
    Input{"attention_sinks", &In::attentionSinks, tsc::kF32, "[H] learnt logits that take weight from the keys"},
};
int inputIndex(std::string_view name) {
  for (size_t i = 0; i < kInputs.size(); ++i)
    if (kInputs[i].name == name) return static_cast<int>(i);
  return -1;
}
const int kPoolInput = inputIndex("kv_cache_pool"), kPastInput = inputIndex("past_key_value");

// What the fields of these names may be.
constexpr std::string_view kMasks =
    "padding|causal|sliding_window_causal|bidirectional|bidirectionalglm|blocksparse|custom_mask";
constexpr std::string_view kPositions =
    "learned_absolute|rope_gptj|rope_gpt_neox|long_rope|alibi|alibi_with_scale|relative|chatglm|yarn|mrope";
constexpr std::string_view kScalings = "none|linear|dynamic|longrope|llama3|yarn|mrope";

struct GptAttention : GptAttentionParams {
  // Fields of the original whose values mean nothing to the result here, or nothing beside a field that is refused.
  int64_t contextFmhaType = 0, maxContextLength = 0, cpRank = 0, specDecodingMaxLength = 0;
  int64_t qLoraRank = 0, kvLoraRank = 0, qkNopeHeadDim = 0, qkRopeHeadDim = 0, vHeadDim = 0;
  bool usePagedContextFmha = false, useFp8ContextFmha = false, enableXqa = true, multiBlockMode = false,
       specDecodingVariable = false;
  std::vector<int64_t> cpGroup;

  static void describe(tsc::Description<GptAttention>& d) {
    using P = GptAttention;
    d.key("tensorrt_llm", "GPTAttention", "1", "attention with a cache of keys and values");
    d.field("layer_idx", &P::layerIdx, "which layer it is, from 0").mandatory().range(0, 1 << 20);
    d.field("num_heads", &P::numHeads, "heads of the queries").mandatory().range(1, 1 << 16);
    d.field("num_kv_heads", &P::numKvHeads, "heads of the keys and values; 0: num_heads").range(0, 1 << 16);
    d.field("head_size", &P::headSize, "numbers of a head").mandatory().range(1, 1 << 16);
    d.field("num_kv_heads_origin", &P::numKvHeadsOrigin, "before heads were split among ranks; -1: num_kv_heads");
    d.field("layer_idx_in_cache_pool", &P::layerIdxInCachePool, "where its blocks are in the pool").range(0, 1 << 20);
    d.field("vision_start", &P::visionStart, "first of the positions that images share; -1: none");
    d.field("vision_length", &P::visionLength, "how many positions images share");
    d.field("q_scaling", &P::qScaling, "scores are divided by q_scaling * sqrt(head_size)");
    d.field("attn_logit_softcapping_scale", &P::softcap, "c: scores become c * tanh(score / c); 0: they do not");
    d.field("attention_window", &P::attentionWindow, "tokens that one sees with itself, of those in the cache; 0: all")
        .range(0, int64_t{1} << 30);
    d.field("use_logn_scaling", &P::useLognScaling, "queries are multiplied by logn_scaling of their position");
    d.field("unidirectional", &P::unidirectional, "implicit relative biases look back only");
    d.choice("position_embedding_type", &P::positionEmbedding, kPositions, valuesOf<PositionEmbedding>(10),
             "how positions come in");
    d.field("rotary_embedding_dim", &P::rotaryDim, "numbers of a head that are rotated").range(0, 1 << 16);
    d.field("rotary_embedding_base", &P::rotaryBase, "of the frequencies");
    d.choice("rotary_embedding_scale_type", &P::rotaryScaling, kScalings, valuesOf<RotaryScaling>(7),
             "how frequencies are changed for long texts");
    d.field("rotary_embedding_scale", &P::rotaryScale, "its factor");
    d.field("rotary_embedding_short_m_scale", &P::rotaryShortMScale, "of long_rope; 0: from the lengths");
    d.field("rotary_embedding_long_m_scale", &P::rotaryLongMScale, "of long_rope; 0: from the lengths");
    d.field("rotary_embedding_max_positions", &P::rotaryMaxPositions, "longest text");
    d.field("rotary_embedding_original_max_positions", &P::rotaryOriginalMaxPositions, "before it was made longer");
    d.field("rotary_embedding_low_freq_factor", &P::llama3LowFactor, "of llama3");
    d.field("rotary_embedding_high_freq_factor", &P::llama3HighFactor, "of llama3");
    d.field("rotary_embedding_mscale", &P::yarnMScale, "of yarn");
    d.field("rotary_embedding_mscale_all_dim", &P::yarnMScaleAll, "of yarn");
    d.field("max_distance", &P::maxDistance, "of implicit relative biases; 0: they are explicit");
    d.choice("mask_type", &P::mask, kMasks, valuesOf<AttentionMask>(7), "which keys a query sees");
    d.field("block_sparse_block_size", &P::blockSparseBlockSize, "of blocksparse");
    d.field("block_sparse_homo_head_pattern", &P::blockSparseHomoHeads, "of blocksparse: all heads see the same");
    d.field("block_sparse_num_local_blocks", &P::blockSparseLocalBlocks, "of blocksparse");
    d.field("block_sparse_vertical_stride", &P::blockSparseVerticalStride, "of blocksparse");
    d.field("has_full_attention_mask", &P::fullAttentionMask, "attention_mask is given");
    d.field("unfuse_qkv_gemm", &P::unfuseQkvGemm, "keys and values are inputs of their own");
    d.field("qkv_bias_enabled", &P::qkvBiasEnabled, "qkv_bias is added first");
    d.field("remove_input_padding", &P::removeInputPadding, "tokens of all requests are packed in one row");
    d.choice("type_id", &P::type, "float32|float16|bfloat16", {DType::Float32, DType::Float16, DType::BFloat16},
             "the type of queries and results");
    d.field("max_context_length", &P::maxContextLength, "not needed");
    d.field("do_cross_attention", &P::crossAttention, "keys and values are those of an encoder");
    d.field("use_cache", &P::useCache, "keys and values are kept from call to call");
    d.field("kv_cache_quant_mode", &P::kvCacheQuantMode, "bits: 64 int8, 128 fp8");
    d.field("paged_kv_cache", &P::pagedKvCache, "the cache is a pool of blocks");
    d.field("tokens_per_block", &P::tokensPerBlock, "a power of two");
    d.field("use_one_more_block", &P::oneMoreBlock, "the ring of a cyclic cache is one block longer");
    d.field("context_fmha_type", &P::contextFmhaType, "not needed").range(0, 2);
    d.field("use_paged_context_fmha", &P::usePagedContextFmha, "not needed");
    d.field("use_fp8_context_fmha", &P::useFp8ContextFmha, "not implemented");
    d.field("fuse_fp4_quant", &P::fuseFp4Quant, "not implemented");
    d.field("pos_shift_enabled", &P::posShift, "positions are those in the cache (StreamingLLM)");
    d.field("dense_context_fmha", &P::denseContext, "prompts see all of themselves, whatever the window is");
    d.field("skip_attn", &P::skipAttention, "the input skip_attn may turn the layer off");
    d.field("multi_block_mode", &P::multiBlockMode, "not needed");
    d.field("enable_xqa", &P::enableXqa, "not needed");
    d.field("is_medusa_enabled", &P::isMedusa, "not implemented");
    d.field("is_spec_decoding_enabled", &P::isSpecDecoding, "not implemented");
    d.field("spec_decoding_is_generation_length_variable", &P::specDecodingVariable, "not implemented");
    d.field("spec_decoding_max_generation_length", &P::specDecodingMaxLength, "not implemented");
    d.field("tp_size", &P::tpSize, "ranks that share the heads").range(1, 1 << 16);
    d.field("tp_rank", &P::tpRank, "which of them it is").range(0, 1 << 16);
    d.field("cp_size", &P::cpSize, "not implemented but 1");
    d.field("cp_rank", &P::cpRank, "not implemented");
    d.field("cp_group", &P::cpGroup, "not implemented");
    d.field("is_mla_enabled", &P::isMla, "not implemented");
    d.field("q_lora_rank", &P::qLoraRank, "not implemented");
    d.field("kv_lora_rank", &P::kvLoraRank, "not implemented");
    d.field("qk_nope_head_dim", &P::qkNopeHeadDim, "not implemented");
    d.field("qk_rope_head_dim", &P::qkRopeHeadDim, "not implemented");
    d.field("v_head_dim", &P::vHeadDim, "not implemented");
    describePorts(d);
  }

  static void describePorts(tsc::Description<GptAttention>& d) {
    for (const Input& in : kInputs) {
      auto port = d.input(in.name, in.dtypes, in.doc);
      if (in.name != "qkv") port.optional();
    }
    d.output("context", kAttentionTypes | tsc::kU8, "[.., H D] as qkv");
    d.output("kv_cache", kAttentionTypes | tsc::kI8 | tsc::kU8, "the cache with the new keys and values");
  }

  template <class E>
  static std::vector<E> valuesOf(int count) {
    std::vector<E> out;
    for (int i = 0; i < count; ++i) out.push_back(static_cast<E>(i));
    return out;
  }

  static std::string_view example() {
    return "graph(%qkv : Float(2, 5, 24), %lengths : Int(2)):\n"
           "  %y : Tensor = tensorrt_llm::GPTAttention[layer_idx=0, num_heads=4, num_kv_heads=2, head_size=3, "
           "inputs=[\"qkv\"]](%qkv)\n"
           "  return (%y)\n";
  }

  static void raise(const std::optional<GptAttentionProblem>& problem) {
    if (!problem) return;
    throw tsc::Error(statusOf(problem->kind), problem->message);
  }

  void prepare() {
    if (numKvHeads == 0) numKvHeads = numHeads;
    raise(gptAttentionProblem(*this));
    if (useFp8ContextFmha) tsc::unsupported("use_fp8_context_fmha is not implemented");
  }
  size_t outputs() const { return useCache ? 2 : 1; }
  int aliasOf(size_t output) const { return output == 0 ? -1 : pagedKvCache ? kPoolInput : kPastInput; }

  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(0);
    if (x.rank() < 2) tsc::invalid("qkv must have two dimensions at least");
    for (const char* name : {"k", "v"})
      if (auto i = static_cast<size_t>(inputIndex(name)); s.has(i) && s.input(i).rank() != x.rank())
        tsc::invalid(std::string(name) + " must have as many dimensions as qkv");
    int64_t width = unfuseQkvGemm ? numHeads * headSize : qkvWidth();
    std::string formula = unfuseQkvGemm ? "num_heads * head_size"
                                        : "(" + std::to_string(numHeads) + "+2*" + std::to_string(numKvHeads) + ")*" +
                                              std::to_string(headSize);
    int64_t last;
    if (x.dims.back().known(&last) && last != width)
      tsc::invalid("the last size of qkv is " + std::to_string(last) + ", expected " + std::to_string(width) + " = " +
                   formula);
    bool quantised = s.has(static_cast<size_t>(inputIndex("attention_output_quantization_scale")));
    x.dims.back() = s.constant(numHeads * headSize);
    s.output(0, quantised ? TSC_U8 : x.dtype, x.dims);
    if (!useCache) return;
    auto cache = static_cast<size_t>(aliasOf(1));
    if (!s.has(cache)) tsc::invalid("use_cache needs the input " + std::string(kInputs[cache].name));
    s.output(1, s.input(cache));
  }

  void run(tsc::Run& r) const {
    GptAttentionInputs in;
    for (size_t i = 0; i < kInputs.size(); ++i)
      if (r.has(i)) in.*kInputs[i].member = hostTensor(r.input(i));
    Tensor context = hostTensor(r.output(0));
    // Packed tokens may come as the one row of a batch.
    if (removeInputPadding && context.rank() == 3 && context.size(0) == 1)
      for (auto* t : {&in.qkv, &in.k, &in.v, &context})
        if (t->defined()) *t = t->withGeometry(t->sizes().subspan(1), t->strides().subspan(1), t->offset());
    raise(gptAttention(*this, in, context, hostThreads(r)));
  }
};

}  // namespace

const tsc_plugin* makeGptAttention() { return tsc::Definition<GptAttention>::table(); }

}  // namespace tscompile
