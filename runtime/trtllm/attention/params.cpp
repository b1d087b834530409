// Names of the enumerations, and what follows from fields alone.
#include "runtime/trtllm/attention/params.h"

namespace tscompile {
namespace {

constexpr std::string_view kMasks[] = {
    "padding", "causal", "sliding_window_causal", "bidirectional", "bidirectionalglm", "blocksparse", "custom_mask"};
constexpr std::string_view kPositions[] = {"learned_absolute", "rope_gptj", "rope_gpt_neox", "long_rope", "alibi",
                                           "alibi_with_scale", "relative",  "chatglm",       "yarn",      "mrope"};
constexpr std::string_view kScalings[] = {"none", "linear", "dynamic", "longrope", "llama3", "yarn", "mrope"};

template <class Enum>
std::optional<Enum> valueOf(std::span<const std::string_view> names, std::string_view name) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace

std::string_view nameOf(AttentionMask mask) { return kMasks[static_cast<size_t>(mask)]; }
std::string_view nameOf(PositionEmbedding type) { return kPositions[static_cast<size_t>(type)]; }
std::string_view nameOf(RotaryScaling type) { return kScalings[static_cast<size_t>(type)]; }
std::optional<AttentionMask> attentionMaskFromName(std::string_view name) {
  return valueOf<AttentionMask>(kMasks, name);
}
std::optional<PositionEmbedding> positionEmbeddingFromName(std::string_view name) {
  return valueOf<PositionEmbedding>(kPositions, name);
}
std::optional<RotaryScaling> rotaryScalingFromName(std::string_view name) {
  return valueOf<RotaryScaling>(kScalings, name);
}
std::span<const std::string_view> attentionMaskNames() { return kMasks; }
std::span<const std::string_view> positionEmbeddingNames() { return kPositions; }
std::span<const std::string_view> rotaryScalingNames() { return kScalings; }

bool GptAttentionParams::usesRotary() const {
  switch (positionEmbedding) {
    case PositionEmbedding::RopeGptJ:
    case PositionEmbedding::RopeGptNeox:
    case PositionEmbedding::LongRope:
    case PositionEmbedding::Yarn:
    case PositionEmbedding::Mrope:
      return !crossAttention;
    default:
      return false;
  }
}

RotaryScaling GptAttentionParams::effectiveScaling() const {
  switch (positionEmbedding) {
    case PositionEmbedding::LongRope:
      return RotaryScaling::LongRope;
    case PositionEmbedding::Yarn:
      return RotaryScaling::Yarn;
    case PositionEmbedding::Mrope:
      return RotaryScaling::Mrope;
    default:
      return rotaryScaling;
  }
}

}  // namespace tscompile
