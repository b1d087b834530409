// What engines can run, as partitioning asks it: the rules that the making of an engine goes by.
#pragma once

#include "ir/engine_support.h"
#include "ir/op_registry.h"
#include "ir/overload_cache.h"

#include <memory>

namespace tscompile {

// Whether a node can be a part of an engine, as far as the node and its types tell. What they do not tell is found out
// when a plan is made; what cannot be planned then is interpreted.
Verdict nodeVerdict(const Node& node, OverloadCache& overloads, const OpRegistry& registry);

std::unique_ptr<EngineSupport> engineSupport(const OpRegistry& registry);

}  // namespace tscompile
