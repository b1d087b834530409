// What conversion tells partitioning of one node: whether an engine can take it, else why not.
#pragma once

#include "ir/graph/node.h"
#include "ir/support/remedy.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace tscompile {

// Why a node is where it is. The list is closed; docs/partitioning.md explains each.
enum class Reason : uint8_t {
  Ok,             // runs in an engine
  NoOp,           // the operator is not known
  NoOverload,     // it is known, but no overload takes these arguments
  DType,          // the engine does not compute in this dtype
  Rank,           // nor with tensors of this rank
  DynamicShape,   // needs sizes that are not known when the engine is made
  DataDependent,  // the shape of a result, or a number, depends on what is in a tensor
  Aliasing,       // writes memory, or shares memory that is written, in a way that an engine must not
  ControlFlow,    // prim::If, prim::Loop, calls
  NonTensor,      // takes or gives what cannot cross the border of an engine
  SideEffect,     // prints, raises, changes an attribute
  Random,         // draws random numbers
  ConstArg,       // an argument must be a constant and is not
  UserExcluded,   // the user asked for it
  SmallBlock,     // the block would have fewer nodes than asked for
  Dependency,     // depends on a node that runs elsewhere in a way that allows no other place
  Interface,      // makes an input or output of the graph that is not a tensor
  Limit,          // a limit of the engine, or of its size
};
inline constexpr size_t kReasonCount = static_cast<size_t>(Reason::Limit) + 1;

// "OK", "NO_OP", ...: the codes of reports.
std::string_view reasonCode(Reason reason);

struct Verdict {
  Reason reason = Reason::Ok;
  std::string detail = {};  // one sentence without a full stop: what was expected and what was found
  Remedy remedy = {};       // what would change it; may be empty
  bool ok() const { return reason == Reason::Ok; }
};

// bool, int or float.
inline bool isNumber(TypePtr t) { return t->is(TypeKind::Int) || t->is(TypeKind::Float) || t->is(TypeKind::Bool); }

// The question that partitioning asks of each node with its types as they are known, weights or not. An implementation
// answers from the node's arguments; borders between blocks are not its business.
class EngineSupport {
 public:
  virtual ~EngineSupport() = default;
  virtual Verdict accepts(const Node& node) const = 0;
  // Whether an engine can take input `input` of the node, a number, at each run anew: as an operand, `x * n`, `x[n]`.
  virtual bool takesNumber(const Node&, size_t /*input*/) const { return false; }
};

}  // namespace tscompile
