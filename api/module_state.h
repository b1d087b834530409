// What a module and its prepared methods share, and where the values of attributes and constants come from.
#pragma once

#include "api/engine_file.h"
#include "frontend/export/export_file.h"
#include "frontend/files/weights.h"
#include "ir/graph/module.h"
#include "ir/values/ivalue.h"
#include "runtime/interpreter/program.h"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

namespace tscompile {

class Extensions;

constexpr size_t kNoGraph = SIZE_MAX;

struct ModuleState {
  ParsedText text;
  Weights weights;
  const OpRegistry* registry = nullptr;
  std::vector<Ref<ObjectValue>> objects;  // after the modules of a dump, in its order
  // Of a lowered module: the one that it was made from, which has the weights and what is still called; whether the
  // first input of the graph is still that module.
  std::shared_ptr<ModuleState> origin;
  size_t originGraph = 0;              // of which it was made; kNoGraph: whose inputs are none of its own
  const Graph* originEntry = nullptr;  // the same of any module; null: it takes other inputs, or was read from a file
  bool takesSelf = true;
  EngineOptions engine;                                           // of the engines that its graphs hold
  SourcePtr source;                                               // the text
  std::string archive;                                            // the path of the archive that it was read from
  std::string archiveHash;                                        // of an archive whose path was not to last
  std::string name;                                               // empty: that of the file
  std::map<std::string, std::map<std::string, IValue>> defaults;  // of an archive: by method and input
  // Of exported programs: what the inputs of each graph may be; the names of the graphs, if there are several.
  std::vector<ExportedInputs> exported;
  std::optional<ExportedInputs> exportedRest;  // of a lowered graph, some of whose inputs are bound
  std::vector<std::string> graphNames;
  std::vector<std::string> weightFiles;
  // Of a model file into which weights were loaded: names of those that it does not have.
  std::optional<std::vector<std::string>> unknownWeights;
  std::shared_ptr<const EngineInfo> info;  // of a compiled module
  bool forgetsState = false;               // of a lowered module: what it writes to buffers may be gone
  bool takesInOrder = false;               // of a lowered module: it serves inputs that lie in order, and no others
  // Of a module that was compiled by the sizes of its text: what runs for inputs of others. The same for inputs that
  // lie in another order than that of their dimensions.
  std::shared_ptr<const class OtherInputs> otherSizes, anyOrder;
  std::shared_ptr<const RefitSource> refit;      // what its file keeps to be refitted; may be null
  std::vector<std::string> unread;               // names of weights that were left out, since nothing reads them
  std::shared_ptr<const Extensions> extensions;  // which have the registry; may be null
  // What Module::forward() runs: prepared at its first call, so that engines plan and pack once.
  std::mutex forwardMutex;
  std::shared_ptr<const Program> forwardProgram;
  std::shared_ptr<const CallInputs> forwardCall;
  // Of plain graph text, whose objects are made anew for each method that is prepared: what a RunState knows them by.
  struct Identities {
    std::mutex mutex;
    std::map<std::string, Ref<ObjectValue>> byPath;
  };
  const std::unique_ptr<Identities> identities = std::make_unique<Identities>();
  // What runs have told of engines whose making failed, each once.
  struct Told {
    std::mutex mutex;
    std::unordered_set<std::string> failures;
  };
  const std::unique_ptr<Told> told = std::make_unique<Told>();
};

// Gives enums in the constants of all graphs what the weights say that they stand for.
void readConstantEnums(ModuleState& state);
// Makes the objects of a dump from its attributes and the weights.
void bindDump(ModuleState& state);
// What becomes of attributes that no weights file has: they are reported, left out, or tensors of unknown elements.
enum class Unsupplied { Reported, LeftOut, Assumed };
// The value behind %self of a method's graph; nothing if it has none. For plain graph text it is made from the chains
// of prim::GetAttr.
std::optional<IValue> bindSelf(ModuleState& state, const Graph& graph, Unsupplied unsupplied, Diagnostics& diagnostics);
// All that is needed to run `entry`, but for %self. Reports what is wrong with the graphs.
ProgramSources collectSources(ModuleState& state, const Graph& entry, Diagnostics& diagnostics);
// A copy of a graph whose constants hold their data, as far as it is known, subgraphs included.
std::unique_ptr<Graph> copyWithData(const Graph& graph, const ProgramSources& sources);

// What engines call a module that was read.
std::string sourceName(const ModuleState& origin);

// What an exported program asks of the inputs of this graph, or of the one that it was made from.
const ExportedInputs& exportedInputsOf(const ModuleState& state, const Graph& graph);

// Whether regions of autocast in the graphs lack their conversions: archives get them when they are opened, and what
// was lowered has them.
inline bool isUncastText(const ModuleState& state) { return state.archive.empty() && !state.origin && !state.info; }

// What the members of enums among the inputs of a graph of this module stand for, as far as that is known.
Metadata membersOfInputs(const ModuleState& state, const Graph& graph);

// What inputs are that a caller leaves out, and what members of enums stand for: graph text has no place for it, so
// that files written beside it, and engine files, keep it: defaults as "default:NAME". Of a lowered module, whose graph
// is its method:
void writeDefaults(const ModuleState& state, Metadata& metadata);
// Of a module with one graph.
void readDefaults(ModuleState& state, const Metadata& metadata);
// Constants in the place of inputs other than tensors that have a default, or may be None. False if there are none.
bool bindDefaults(Graph& graph, const std::map<std::string, IValue>& defaults);

// The operators that a model is read with.
const OpRegistry& registryOf(const LoadOptions& options);

}  // namespace tscompile
