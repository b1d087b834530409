// Trees of inputs and outputs: the containers that the arguments and results of a program come in.
#pragma once

#include "frontend/export/export_builder.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tscompile::exported {

struct Tree {
  enum class Kind : uint8_t { Leaf, Tuple, List, Dict };  // Dict: also objects with named parts
  Kind kind = Kind::Leaf;
  std::string type;                     // as the file names it: "builtins.dict"
  std::vector<std::string> keys;        // of a dict
  bool hasNumbers = false;              // the keys are numbers
  std::vector<std::string> fields;      // of a named tuple or an object that is a tuple here
  std::vector<std::string> noneFields;  // of an object, which are no parts
  std::vector<Tree> parts;

  size_t leafCount() const;
  IValue keyValue(size_t i) const;
  TypePtr keyType() const;
};

// Reads an `in_spec` or `out_spec`: a JSON text in a string. `namedTuples` has the fields of named tuples by the names
// of their types. Nothing after a report.
std::optional<Tree> readTree(ExportBuilder& builder, Json spec, Json namedTuples);

// Where each leaf is in the tree ("0", "key"); `byFields`: by the names of fields where there are some.
std::vector<std::vector<std::string>> leafPaths(const Tree& tree, bool byFields);

// The value that a model returns whose leaves are these, as many as the tree has. Dicts whose values have different
// types become named tuples, and so do named tuples and objects, whose fields without a value come last.
Value* packOutput(ExportBuilder& builder, const Tree& tree, std::span<Value* const> leaves);

// The type of an argument whose leaves are tensors; null if TorchScript has none, such as for dicts with values of
// different types.
TypePtr inputType(const Tree& tree);
// The leaves of an argument of this type, and where each is in it ("0", "key").
struct InputLeaf {
  Value* value;
  std::vector<std::string> path;
};
void unpackInput(ExportBuilder& builder, const Tree& tree, Value* value, std::vector<std::string> path,
                 std::vector<InputLeaf>& out);

}  // namespace tscompile::exported
