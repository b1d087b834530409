// What engines can run, as partitioning asks it: the rules that the making of an engine goes by.
#pragma once

#include "ir/operators/engine_support.h"
#include "ir/operators/op_registry.h"
#include "ir/operators/overload_cache.h"

#include <memory>
#include <string_view>

namespace tscompile {

// Whether a node can be a part of an engine, as far as the node and its types tell. What they do not tell is found out
// when a plan is made; what cannot be planned then is interpreted.
Verdict nodeVerdict(const Node& node, OverloadCache& overloads, const OpRegistry& registry);

// Whether an engine can take this input of the node, a number, at each run anew.
bool takesNumber(const Node& node, size_t input, OverloadCache& overloads);

// What engines do with nodes of an overload, as far as it alone tells.
struct EngineUse {
  std::string_view converter;  // "native", "view", "kernel" for the generic one; empty: none
  std::string_view evaluated;  // while the engine is made: "always", "if known" (its arguments), or empty: never
};
EngineUse engineUse(const Operator& op);
// Whether its results are views of its first argument, for some arguments or for all: aten::view, aten::reshape.
bool mayGiveViews(const Operator& op);
// The same of prim::ListConstruct and its like.
EngineUse engineUseOfStructure(Symbol kind);

std::unique_ptr<EngineSupport> engineSupport(const OpRegistry& registry);

}  // namespace tscompile
