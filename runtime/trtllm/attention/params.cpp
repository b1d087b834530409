// What follows from fields alone.
#include "runtime/trtllm/attention/params.h"

namespace tscompile {

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
