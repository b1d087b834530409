// What two models differ in beside their graphs and tensors: what inputs they take and what inputs are that are left
// out, the values of attributes; of engine files, in which precision and by which tactics they compute.
#pragma once

#include "api/module.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tscompile {

struct SettingChange {
  std::string name;                          // "range of %x"
  std::optional<std::string> first, second;  // "1..8x3"; nothing: it does not say it

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", name);
    visit("first", first);
    visit("second", second);
  }
};

// A model as it is compared: a method, and the values of the attributes that it reads, by their path.
struct ComparedModule {
  const Module& module;
  std::string method;
  std::map<std::string, std::string> attributes;
};

// Texts of settings by their names.
using SettingTexts = std::map<std::string, std::string>;
std::vector<SettingChange> changedTexts(const SettingTexts& first, const SettingTexts& second);
// By name.
std::vector<SettingChange> changedSettings(const ComparedModule& first, const ComparedModule& second);

}  // namespace tscompile
