// Finds which of many texts begin another one; as many steps as bytes agree.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tscompile {

class PrefixTree {
 public:
  // Of equal texts the first one counts.
  void add(std::string_view text, uint32_t index) {
    uint32_t node = 0;
    for (char c : text) {
      auto [edge, isNew] = next_.try_emplace(uint64_t{node} << 8 | static_cast<unsigned char>(c), ends_.size());
      if (isNew) ends_.push_back(kNone);
      node = edge->second;
    }
    if (ends_[node] == kNone) ends_[node] = index;
  }

  // Calls `found(bytes, index)` for each text that begins this one, the shortest first.
  template <class F>
  void each(std::string_view text, const F& found) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size();) {
      auto edge = next_.find(uint64_t{node} << 8 | static_cast<unsigned char>(text[i++]));
      if (edge == next_.end()) return;
      node = edge->second;
      if (ends_[node] != kNone) found(i, ends_[node]);
    }
  }

  // The index of the longest text that begins this one.
  std::optional<uint32_t> longest(std::string_view text) const {
    std::optional<uint32_t> last;
    each(text, [&](size_t, uint32_t index) { last = index; });
    return last;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  std::unordered_map<uint64_t, uint32_t> next_;  // by node and byte
  std::vector<uint32_t> ends_ = std::vector<uint32_t>(1, kNone);
};

}  // namespace tscompile
