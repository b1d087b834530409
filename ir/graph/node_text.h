// How messages and reports call nodes and values.
#pragma once

#include "ir/graph/node.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace tscompile {

// "%y".
std::string valueName(const Value* value);
// "aten::relu (%y)", or the kind alone.
std::string nodeName(const Node* node);
// "%y", or the kind of a node without outputs.
std::string shortName(const Node* node);
// "aten::relu (%y, line 4)".
std::string placeName(const Node* node);
// Of the text that the node was read from; 0: it was not read.
uint32_t lineOf(const Node* node);

// At most `most` of the items, and how many more there are.
template <class List, class ToText>
std::string someOf(const List& list, size_t most, ToText toText) {
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(list.size(), most); ++i) out += (i ? ", " : "") + toText(list[i]);
  if (list.size() > most) out += " and " + std::to_string(list.size() - most) + " more";
  return out;
}

}  // namespace tscompile
