// Values as constants, and as nodes that make containers of them which no constant holds.
#pragma once

#include "ir/graph/builder.h"
#include "ir/values/ivalue.h"

#include <algorithm>

namespace tscompile {

inline bool isContainer(const IValue& value) { return value.isList() || value.isTuple() || value.isDict(); }

template <class Visit>
void forEachItem(const IValue& value, const Visit& visit) {
  if (value.isList()) std::for_each(value.toList().items.begin(), value.toList().items.end(), visit);
  if (value.isTuple()) std::for_each(value.toTuple().items.begin(), value.toTuple().items.end(), visit);
  if (value.isDict())
    value.toDict().forEach([&](const IValue& key, const IValue& item) {
      visit(key);
      visit(item);
    });
}

// Whether makeConstants() has a form for it.
bool canMakeConstants(const IValue& value, bool fresh);
// The value as nodes; `fresh`: containers are made of their items, never constants.
Value* makeConstants(Builder& b, const IValue& value, TypePtr type, bool fresh);

}  // namespace tscompile
