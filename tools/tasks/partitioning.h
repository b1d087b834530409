// From the options of partition, explain and compile to what the library takes.
#pragma once

#include "api/compile.h"
#include "api/named_inputs.h"
#include "tools/options/options.h"
#include "tools/session/session.h"

#include <span>
#include <string>
#include <vector>

namespace tscompile {

CompileSpec compileSpecOf(const PartitionCommand& command, Session& session);
// The module of the first argument, verified, and the names of the sizes of the spec checked; nothing after reporting
// what is wrong. `numbersBy`: the option that gives the value of an input that has no sizes.
Result<Module> loadForPartition(const Options& options, CompileSpec& spec, Session& session,
                                const std::string& numbersBy = "--bind");
// The inputs that are given as NAME=VALUE, and random numbers for tensors whose sizes only the spec tells.
std::vector<std::string> inputTexts(std::vector<std::string> given, const PartitionSpec& spec,
                                    std::span<const ValueInfo> inputs);
// The sizes of tensors that are given, as if they had been said with --shape, where nothing was said.
void addSizes(PartitionSpec& spec, std::span<const ValueInfo> infos, std::span<const IValue> values);
// The same of what --input and --inputs say, which need not be all inputs. False after a report.
bool addSizesOfInputs(PartitionSpec& spec, const Options& options, const Module& module, Session& session);
// What findInput() finds, or a UsageError that tells what inputs there are.
size_t inputOf(std::span<const ValueInfo> inputs, const std::string& name);
// Gives the sizes of the spec the names that the graph has. Throws UsageError for those of no input.
void checkShapes(PartitionSpec& spec, const Graph& graph, const std::string& numbersBy = "--input");

}  // namespace tscompile
