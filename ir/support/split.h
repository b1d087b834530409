// Lists in one text: "a,b,c".
#pragma once

#include <string_view>
#include <vector>

namespace tscompile {

// The pieces between separators, as many as there are separators and one.
inline std::vector<std::string_view> split(std::string_view list, char separator) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at <= list.size(); at += out.back().size() + 1)
    out.push_back(list.substr(at, list.find(separator, at) - at));
  return out;
}

}  // namespace tscompile
