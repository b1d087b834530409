// What the text of an attribute of a model leaves out. Tensors in tuples, lists and dicts: weights files keep them by
// the places that they have in there ("table.0", "table.1.2"), and None in their place in the text of the attribute;
// in that of a constant <Tensor>, as PyTorch prints it.
// Members of enums, which text names alone: what they stand for is kept as if it were an attribute of their class,
// "attribute:__torch__.Mode.SUM".
#pragma once

#include "frontend/files/weights.h"
#include "ir/graph/graph.h"
#include "ir/values/ivalue.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tscompile {

// The value and all that it holds, keys included.
template <class Visit>
void forEachPart(const IValue& value, Visit&& visit) {
  std::vector<const IValue*> todo{&value};
  while (!todo.empty()) {
    const IValue& v = *todo.back();
    todo.pop_back();
    visit(v);
    if (v.isList() || v.isTuple())
      for (const IValue& item : v.isList() ? v.toList().items : v.toTuple().items) todo.push_back(&item);
    if (v.isDict())
      v.toDict().forEach([&](const IValue& key, const IValue& item) {
        todo.push_back(&key);
        todo.push_back(&item);
      });
  }
}

// The value without its tensors, which are appended to `data`, and `instead` in their places.
IValue withoutTensors(const IValue& value, const std::string& path, std::vector<std::pair<std::string, Tensor>>& data,
                      const IValue& instead = {});

// The value that withoutTensors() had, as one that runs share.
IValue withTensors(const IValue& value, const std::string& path, Weights& weights);
// A value whose text shows tensors without their data, with these, as one that runs share; nothing if it shows none, or
// the weights lack one.
std::optional<IValue> withMissingTensors(const IValue& value, const std::string& path, Weights& weights);

// Under which key it is kept what a member of an enum stands for; without a name the start of all its members' keys.
std::string memberKey(TypePtr type, std::string_view member);
// Adds what the enums in a value stand for.
void writeEnumMembers(const IValue& value, Metadata& metadata);
// Gives the enums in a value what they stand for, as far as it is known.
void readEnumMembers(const IValue& value, const Metadata& metadata);
// The same for the constants of a graph and of its subgraphs.
void readEnumMembers(const Graph& graph, const Metadata& metadata);

}  // namespace tscompile
