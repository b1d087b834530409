#include "runtime/trtllm/attention/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tscompile {
namespace {

constexpr double kPi = std::numbers::pi;

double llama3Frequency(const GptAttentionParams& params, double frequency) {
  const double wavelength = 2 * kPi / frequency, low = params.llama3LowFactor, high = params.llama3HighFactor;
  const double length = static_cast<double>(params.rotaryOriginalMaxPositions), factor = params.rotaryScale;
  if (wavelength < length / high) return frequency;
  if (wavelength > length / low) return frequency / factor;
  const double t = (length / wavelength - low) / (high - low);
  return (1 - t) * frequency / factor + t * frequency;
}

double yarnFrequency(const GptAttentionParams& params, const YarnRange& range, int64_t i, double frequency) {
  // A range of no width would divide by zero: it is a step then.
  const double width = std::max(range.high - range.low, 0.001);
  const double ramp = std::clamp((static_cast<double>(i) - range.low) / width, 0.0, 1.0);
  return ramp * frequency / params.rotaryScale + (1 - ramp) * frequency;
}

}  // namespace

YarnRange yarnRange(int64_t dim, double base, int64_t original) {
  auto index = [&](double rotations) {
    return static_cast<double>(dim) * std::log(static_cast<double>(original) / (2 * kPi * rotations)) /
           (2 * std::log(base));
  };
  return {std::max(std::floor(index(32)), 0.0), std::min(std::ceil(index(1)), static_cast<double>(dim - 1))};
}

double yarnMagnitude(double scale, double m) { return scale <= 1 ? 1 : 0.1 * m * std::log(scale) + 1; }

double longRopeMagnitude(int64_t most, int64_t original) {
  if (most <= original) return 1;
  const double whole = static_cast<double>(original);
  return std::sqrt(1 + std::log(static_cast<double>(most) / whole) / std::log(whole));
}

std::vector<double> rotaryFrequencies(const GptAttentionParams& params, int64_t length) {
  const double dim = static_cast<double>(params.rotaryDim), most = static_cast<double>(params.rotaryMaxPositions);
  const RotaryScaling scaling = params.effectiveScaling();
  double base = params.rotaryBase;
  if (scaling == RotaryScaling::Dynamic && length > params.rotaryMaxPositions && params.rotaryDim > 2) {
    const double scale = params.rotaryScale;
    base *= std::pow(scale * static_cast<double>(length) / most - (scale - 1), dim / (dim - 2));
  }
  YarnRange range{};
  if (scaling == RotaryScaling::Yarn)
    range = yarnRange(params.rotaryDim, params.rotaryBase, params.rotaryOriginalMaxPositions);
  std::vector<double> frequencies;
  for (int64_t i = 0; i < params.rotaryDim / 2; ++i) {
    double f = std::pow(base, -2 * static_cast<double>(i) / dim);
    if (scaling == RotaryScaling::Linear) f /= params.rotaryScale;
    if (scaling == RotaryScaling::Llama3) f = llama3Frequency(params, f);
    if (scaling == RotaryScaling::Yarn) f = yarnFrequency(params, range, i, f);
    frequencies.push_back(f);
  }
  return frequencies;
}

double rotaryMagnitude(const GptAttentionParams& params, int64_t length) {
  switch (params.effectiveScaling()) {
    case RotaryScaling::Yarn:
      return yarnMagnitude(params.rotaryScale, params.yarnMScale) /
             yarnMagnitude(params.rotaryScale, params.yarnMScaleAll);
    case RotaryScaling::LongRope: {
      const double given =
          length <= params.rotaryOriginalMaxPositions ? params.rotaryShortMScale : params.rotaryLongMScale;
      return given > 0 ? given : longRopeMagnitude(params.rotaryMaxPositions, params.rotaryOriginalMaxPositions);
    }
    default:
      return 1;
  }
}

int64_t visionPosition(int64_t position, int64_t start, int64_t length) {
  if (start < 0 || length <= 0 || position <= start) return position;
  return position <= start + length ? start + 1 : position - (length - 1);
}

void rotaryAngles(const std::vector<double>& frequencies, double magnitude, int64_t position, float* to) {
  for (double f : frequencies) {
    const double angle = static_cast<double>(position) * f;
    *to++ = static_cast<float>(std::cos(angle) * magnitude);
    *to++ = static_cast<float>(std::sin(angle) * magnitude);
  }
}

std::vector<float> rotaryTable(const GptAttentionParams& params, int64_t positions) {
  const std::vector<double> frequencies = rotaryFrequencies(params, positions);
  const double magnitude = rotaryMagnitude(params, positions);
  std::vector<float> table(static_cast<size_t>(positions) * frequencies.size() * 2);
  for (int64_t p = 0; p < positions; ++p)
    rotaryAngles(frequencies, magnitude, p, table.data() + static_cast<size_t>(p) * frequencies.size() * 2);
  return table;
}

void rotate(float* values, const float* angles, int64_t dim, bool neox) {
  const int64_t half = dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    // Products of floats are exact in double, so that it does not matter whether a compiler fuses them with the sums.
    const double cosine = angles[2 * i], sine = angles[2 * i + 1];
    float& first = neox ? values[i] : values[2 * i];
    float& second = neox ? values[i + half] : values[2 * i + 1];
    const double a = first, b = second;
    first = static_cast<float>(a * cosine - b * sine);
    second = static_cast<float>(b * cosine + a * sine);
  }
}

}  // namespace tscompile
