// Lowering: a method of a module becomes one graph that says everything itself.
#pragma once

#include "api/input_range.h"
#include "api/module.h"
#include "passes/catalog.h"
#include "passes/lowering/call_targets.h"
#include "passes/rewrite/call_records.h"

#include <functional>
#include <string>
#include <vector>

namespace tscompile {

struct LowerOptions {
  std::string method = "forward";
  // Which entries of the database run; null: those of lowering, with the rules of Extensions::addRules().
  Query query = Query().including({"default"});
  const RewriteDatabase* database = nullptr;
  PlanSettings settings;
  RewriteArguments arguments = {};                        // for rewrites that take some
  std::function<void(const CallSite&)> onCall = nullptr;  // told of each call that is inlined
  // Calls that are to be remembered: names of functions and methods ("__torch__.Net.forward", or the end of such a name
  // after a dot), and kinds of nodes. Rewrites find the records in their context.
  std::vector<std::string> records = {};
  std::function<void(const CallRecords&)> onRecords = nullptr;       // sees what is left of them at the end
  std::function<void(const RewriteArguments&)> onReports = nullptr;  // sees what rewrites reported
  // Runs that are given a RunState go on where others ended: what the method writes to attributes stays a write to
  // them. Else more can be computed beforehand, and what is lowered runs from the module as it was loaded only.
  bool keepsState = false;
  // Nodes of plugins become what they decompose into, and the plan runs on that as well. See api/unpack_plugins.h.
  bool unpackPlugins = false;
  // Sizes that inputs will have, unchecked: rewrites know those that are fixed. Partitioning puts in PartitionSpec's.
  std::vector<InputRange> shapes = {};
  // What the text says of dtypes and sizes is that of its example, and other inputs will come.
  bool forgetSizes = false;
  Limits limits;
};

// Writes a graph as text to `path`, and to a safetensors file of the same name all tensors that the text does not hold
// to the last bit: constants by the names of their values, lists of tensors as NAME.0, NAME.1 and so on, attributes
// that the graph still reads by their path below `self` (the object behind its first input; may be null). Values are
// renamed where their tensors would be taken for others. No second file is written if nothing belongs into it.
bool writeGraphWithWeights(const Graph& graph, const ObjectValue* self, const std::string& path,
                           Diagnostics& diagnostics, const Limits& limits = {});

}  // namespace tscompile
