// What the verbs that execute a graph share: loading it, compiling it, the settings of a run.
#pragma once

#include "api/compile.h"
#include "api/module.h"
#include "tools/options/options.h"
#include "tools/session/process.h"
#include "tools/session/session.h"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tscompile {

// Where the nodes of a method run, in words and numbers; all 0: nobody has cut it.
struct CutText {
  size_t nodes = 0, inEngines = 0, engines = 0, segments = 0;
  std::string firstReason;  // why the first node that is not in an engine is not
  std::string hint;         // what would help most of them,
  size_t hinted = 0;        // so many
  // Of the nodes in engines those that call the operator's reference kernel, having no converter, by operator.
  std::map<std::string, size_t> byKernels = {};

  struct KernelFields {
    std::string_view name;
    size_t nodes;

    template <class Visit>
    void fields(Visit&& visit) const {
      visit("operator", name);
      visit("nodes", nodes);
    }
  };

  bool known() const { return segments > 0; }
  // "483 of 1089 nodes in 121 engines, 484 segments"
  std::string summary() const;
  // Notes of the first reason, the hint and reference kernels, as far as there are such.
  void tellReasons(Session& session) const;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("nodes", nodes);
    visit("nodes_in_engines", inEngines);
    visit("engines", engines);
    visit("segments", segments);
    if (!firstReason.empty()) visit("first_reason", firstReason);
    if (!hint.empty()) visit("hint", hint);
    std::vector<KernelFields> kernels;
    for (const auto& [name, count] : byKernels) kernels.push_back({name, count});
    if (!kernels.empty()) visit("reference_kernels", kernels);
  }
};
// `sized`: the sizes of the inputs are known.
CutText cutText(const Prepared& prepared, const Partition& partition, bool sized);

struct Executable {
  Module module;
  Method method;
  std::map<std::string, IValue> defaults = {};  // of inputs, as the module was given
};

// Adds the warnings of a compilation that went well to what is reported.
void warnAgain(const Diagnostics& found, Diagnostics& diagnostics);

// The method of the text, or the engine file, that the command line names, as it is. Nothing after a report.
std::optional<Executable> loadAsGiven(const Options& options, Session& session);
// The same with engines where the command line asks for them: `given` itself if it has them, and if it cannot be
// compiled and need not be. They are made for --shape and, if `sized`, for `inputs`: for the sizes of tensors, and for
// what is None. That and what --bind names is no input of the result any more and goes from the list. Nothing after a
// report. `cut` is told how the graph was cut.
std::optional<Executable> withEngines(Executable given, const Options& options, Session& session,
                                      std::vector<IValue>& inputs, bool sized = true, CutText* cut = nullptr);
// Has lowering put None in the place of the inputs that are None.
void bindNone(CompileSpec& spec, std::span<const ValueInfo> infos, std::span<const IValue> inputs);
// The positions of inputs that lowering puts constants in the place of.
std::vector<size_t> boundInputs(const CompileSpec& spec, std::span<const ValueInfo> infos);
void removeAt(std::vector<IValue>& values, const std::vector<size_t>& ascending);

// The arguments that an exported program comes with, by input; none unless there is one of its type for each.
std::map<std::string, IValue> exportedInputs(const std::string& path, const std::string& method,
                                             std::span<const ValueInfo> inputs, const Limits& limits);

// What the time of a run depends on, "x=1x3x224x224:float32": dtypes and sizes of tensors, and other values.
std::vector<std::string> givenTexts(std::span<const ValueInfo> infos, std::span<const IValue> values);
// Of a file that can be read; else "".
std::string checksumOfFile(const std::string& path);

// What the command line gives as inputs, for the method as it was loaded. `makes`: tensors that are not given are
// random where --shape, the range of an engine file or the graph tells their sizes. Nothing after a report.
Result<std::vector<IValue>> readInputs(const Executable& given, const Options& options, bool makes, Session& session,
                                       std::vector<std::string>* random = nullptr);

// Settings of a run on behalf of the user; `session` and `interrupts` must outlive it.
RunOptions runOptions(const RunCommand& command, const InterruptScope& interrupts, Session& session);
// The same for runs that are measured again and again: what a model prints is heard of the first one.
RunOptions silent(RunOptions options);

}  // namespace tscompile
