// How large the values between layers are on example inputs: int8 engines take their grids from it.
#pragma once

#include "runtime/engine/network/network.h"

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

class TacticCache;

// Reaches from a number up to 0 to one from 0 on.
struct ValueRange {
  float low = 0, high = 0;

  void include(const ValueRange& other);
  // Bytes that stand for the numbers of the range, 0 among them.
  ElementType bytes() const;
  bool operator==(const ValueRange&) const = default;
};

class Calibration {
 public:
  // MinMax: all that were seen. Entropy: what tells the least apart the numbers from the bytes that stand for them, by
  // the divergence of their distributions; the inputs are gone through twice.
  enum class Method : uint8_t { MinMax, Entropy } method = Method::MinMax;
  std::vector<std::string> inputs;  // files of examples

  // Some numbers of a value. What is infinite or NaN is left out.
  void note(const std::string& value, std::span<const float> numbers);
  // From now on it is noted how often numbers are where in the ranges found so far.
  void beginToCount() { counts_ = true; }
  // What was found, for the engine alone.
  void tell(TacticCache& cache) const;
  static std::optional<ValueRange> find(const TacticCache& cache, const std::string& value);
  static bool isRange(std::string_view text);

 private:
  struct Value {
    ValueRange range;
    std::vector<uint64_t> counts;  // of equal parts of the range
  };
  static ValueRange leastDivergent(const Value& value);

  bool counts_ = false;
  mutable std::mutex mutex_;
  std::map<std::string, Value> values_;
};

}  // namespace tscompile
