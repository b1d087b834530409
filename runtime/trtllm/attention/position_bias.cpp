#include "runtime/trtllm/attention/position_bias.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tscompile {

std::vector<float> alibiSlopes(int64_t numHeads, int64_t tpSize, int64_t tpRank) {
  const int64_t all = numHeads * tpSize;
  const double closest = static_cast<double>(std::bit_floor(static_cast<uint64_t>(all)));
  std::vector<float> slopes;
  for (int64_t h = tpRank * numHeads; h < (tpRank + 1) * numHeads; ++h) {
    const double i = static_cast<double>(h);
    const double exponent = i < closest ? -8 * (i + 1) / closest : -4 * (2 * (i - closest) + 1) / closest;
    slopes.push_back(static_cast<float>(std::exp2(exponent)));
  }
  return slopes;
}

int64_t relativeBucket(int64_t distance, int64_t buckets, int64_t maxDistance, bool unidirectional) {
  int64_t first = 0;
  if (!unidirectional) {
    buckets /= 2;
    if (distance < 0) first = buckets;  // keys ahead
    distance = std::abs(distance);
  }
  distance = std::max<int64_t>(distance, 0);
  const int64_t exact = buckets / 2;
  if (distance < exact || buckets < 2) return first + std::min(distance, std::max<int64_t>(exact, 0));
  // In double: else exact powers fall into the lower bucket.
  const double half = static_cast<double>(exact);
  const double share =
      std::log(static_cast<double>(distance) / half) / std::log(static_cast<double>(maxDistance) / half);
  // Past the last bucket the logarithm may be anything, and with maxDistance <= exact infinite.
  const double far = share * static_cast<double>(buckets - exact);
  if (!(far < static_cast<double>(buckets))) return first + buckets - 1;
  return first + std::clamp<int64_t>(exact + static_cast<int64_t>(far), exact, buckets - 1);
}

double lognScaling(int64_t position, int64_t trained) {
  return position > trained && trained > 1
             ? std::log(static_cast<double>(position)) / std::log(static_cast<double>(trained))
             : 1;
}

}  // namespace tscompile
