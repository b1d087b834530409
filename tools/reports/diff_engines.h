// What two engine files differ in beside their graphs and weights: what inputs they take, and in which precision they
// compute.
#pragma once

#include "api/module.h"

#include <optional>
#include <string>
#include <vector>

namespace tscompile {

struct EngineChange {
  std::string name;                          // "range of %x"
  std::optional<std::string> first, second;  // "1..8x3"; nothing: it does not say it

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", name);
    visit("first", first);
    visit("second", second);
  }
};

// By name. Nothing if one of them is no engine file.
std::vector<EngineChange> changedEngines(const Module& first, const Module& second);

}  // namespace tscompile
