#include "runtime/engine/network/calibration.h"

#include "runtime/engine/network/tactics.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tscompile {
namespace {

constexpr std::string_view kRange = "range ";
constexpr int64_t kParts = 2048;  // of a range, in which numbers are counted
constexpr int64_t kLevels = 256;  // of a byte

std::optional<ValueRange> rangeOf(std::string_view text) {
  ValueRange range;
  const char* end = text.data() + text.size();
  auto [space, failure] = std::from_chars(text.data(), end, range.low);
  if (failure != std::errc() || space == end || *space != ' ') return std::nullopt;
  auto [last, other] = std::from_chars(space + 1, end, range.high);
  if (other != std::errc() || last != end || !(range.low <= 0 && range.high >= 0)) return std::nullopt;
  return std::isfinite(range.low) && std::isfinite(range.high) ? std::optional(range) : std::nullopt;
}

// The Kullback-Leibler divergence (Migacz 2017, "8-bit inference with TensorRT").
// Of a distribution in `parts` parts, whose tails were cut off and added at its ends, from what levels make of it.
double divergence(std::span<const uint64_t> inner, uint64_t before, uint64_t behind) {
  const auto parts = static_cast<int64_t>(inner.size());
  double kept = 0;
  for (uint64_t count : inner) kept += static_cast<double>(count);
  const double all = kept + static_cast<double>(before + behind);
  if (kept == 0) return INFINITY;
  double sum = 0;
  for (int64_t level = 0; level < kLevels; ++level) {
    const int64_t begin = level * parts / kLevels, end = (level + 1) * parts / kLevels;
    double count = 0, filled = 0;
    for (int64_t i = begin; i < end; ++i) {
      count += static_cast<double>(inner[static_cast<size_t>(i)]);
      filled += inner[static_cast<size_t>(i)] > 0;
    }
    for (int64_t i = begin; i < end; ++i) {
      double p = static_cast<double>(inner[static_cast<size_t>(i)]);
      const double q = p > 0 ? count / filled / kept : 0;
      if (i == 0) p += static_cast<double>(before);
      if (i == parts - 1) p += static_cast<double>(behind);
      constexpr double kTiny = 1e-9;  // of a part that no level stands for
      if (p > 0) sum += p / all * std::log(p / all / std::max(q, kTiny));
    }
  }
  return sum;
}

// The mean of what bytes that reach over the parts [first, last) get wrong, squared, in parts: a level's width inside,
// the distance from the end outside.
double squaredError(std::span<const uint64_t> counts, size_t first, size_t last) {
  const double level = static_cast<double>(last - first) / static_cast<double>(kLevels);
  double error = 0, all = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double beyond = i < first   ? static_cast<double>(first - i)
                          : i >= last ? static_cast<double>(i + 1 - last)
                                      : 0;
    error += static_cast<double>(counts[i]) * (beyond > 0 ? beyond * beyond : level * level / 12);
    all += static_cast<double>(counts[i]);
  }
  return all > 0 ? error / all : 0;
}

}  // namespace

void ValueRange::include(const ValueRange& other) {
  low = std::min(low, other.low);
  high = std::max(high, other.high);
}

ElementType ValueRange::bytes() const {
  constexpr float kMost = kLevels - 1, kTiny = 1e-30f;
  const float scale = std::max((high - low) / kMost, kTiny);
  return {DType::UInt8, scale, std::nearbyint(-low / scale)};
}

void Calibration::note(const std::string& value, std::span<const float> numbers) {
  std::lock_guard lock(mutex_);
  Value& v = values_[value];
  if (!counts_) {
    for (float x : numbers)
      if (std::isfinite(x)) v.range.include({x, x});
    return;
  }
  v.counts.resize(kParts);
  const float width = std::max(v.range.high - v.range.low, 1e-30f);
  for (float x : numbers) {
    if (!std::isfinite(x)) continue;
    const auto part = static_cast<int64_t>((x - v.range.low) / width * static_cast<float>(kParts));
    ++v.counts[static_cast<size_t>(std::clamp<int64_t>(part, 0, kParts - 1))];
  }
}

// Both ends come nearer to 0 in the same measure, as long as numbers are not less exact for it on the whole.
ValueRange Calibration::leastDivergent(const Value& value) {
  ValueRange best = value.range;
  if (value.counts.empty()) return best;
  double least = INFINITY;
  const float width = value.range.high - value.range.low;
  const auto zero = static_cast<int64_t>(width > 0 ? -value.range.low / width * static_cast<float>(kParts) : 0);
  const std::span<const uint64_t> counts(value.counts);
  auto sumOf = [](std::span<const uint64_t> some) {
    uint64_t sum = 0;
    for (uint64_t count : some) sum += count;
    return sum;
  };
  const double most = squaredError(counts, 0, counts.size());
  for (int64_t kept = kParts; kept >= kLevels; kept -= 16) {
    const int64_t begin = zero - zero * kept / kParts, end = std::min(kParts, begin + kept);
    const auto first = static_cast<size_t>(begin), last = static_cast<size_t>(end);
    const double d =
        divergence(counts.subspan(first, last - first), sumOf(counts.first(first)), sumOf(counts.subspan(last)));
    if (d >= least || squaredError(counts, first, last) > most) continue;
    least = d;
    const float share = static_cast<float>(kept) / static_cast<float>(kParts);
    best = {value.range.low * share, value.range.high * share};
  }
  return best;
}

void Calibration::tell(TacticCache& cache) const {
  std::lock_guard lock(mutex_);
  for (const auto& [name, value] : values_) {
    const ValueRange range = method == Method::Entropy ? leastDivergent(value) : value.range;
    cache.add(std::string(kRange) + name, fmt::format("{} {}", range.low, range.high), TacticCache::Scope::OneEngine);
  }
}

std::optional<ValueRange> Calibration::find(const TacticCache& cache, const std::string& value) {
  const std::optional<std::string> text = cache.find(std::string(kRange) + value);
  return text ? rangeOf(*text) : std::nullopt;
}

bool Calibration::isRange(std::string_view text) {
  const size_t colon = text.rfind(": ");
  return text.starts_with(kRange) && colon != std::string_view::npos && rangeOf(text.substr(colon + 2));
}

}  // namespace tscompile
