// Operators that programs call and that are others under another name or in another dress: decomposed forms become what
// lowering and engines know.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/schema.h"

#include <memory>
#include <string_view>

namespace tscompile::exported {

struct Composite {
  Schema schema;
  // Takes the arguments of the schema. May return fewer values than the schema: what it leaves out, programs for
  // inference do not use.
  std::unique_ptr<Graph> graph;
};

// By "aten::native_layer_norm"; null for all others. Lives as long as the process.
const Composite* findComposite(std::string_view fullName);

// The operator that this one is, argument by argument; the name itself if it is nobody else.
std::string_view otherName(std::string_view fullName);
// Whether the results of the operator are copies of what `base` returns: "aten::view_copy" and "aten::view".
bool isCopyOf(std::string_view fullName, std::string& base);

}  // namespace tscompile::exported
