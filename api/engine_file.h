// Engine files: a compiled module in one file, which needs no text, no weights and no lowering to run. It holds the
// stitched graph as text and the tensors in the form that any processor takes; what engines make of them is made when
// the file is loaded. docs/engine_files.md has the format.
#pragma once

#include "api/partition.h"
#include "api/support/graph_parts.h"
#include "frontend/export/exported_input.h"
#include "ir/support/diagnostics.h"
#include "ir/support/limits.h"
#include "ir/support/remedy.h"
#include "ir/support/result.h"
#include "runtime/engine/network/engine_options.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tscompile {

// Metadata of text and engine files: what an input is that a caller leaves out, after this and its name.
inline constexpr std::string_view kDefaultOf = "default:";

// What a compiled module tells of itself.
struct EngineInfo {
  std::string version;               // of the tscompile that compiled it
  std::string source;                // the name of the text, without folders
  std::string sourceHash;            // of its bytes, as 16 hexadecimal digits
  std::vector<std::string> weights;  // names of files, without folders
  std::vector<std::string> options;  // settings (api/compile_settings.h) that are not by default
  std::vector<std::string> cpu;      // features of the processor that it needs, such as "avx2"
  std::vector<InputRange> inputs;    // sizes that it was compiled for
  std::vector<std::string> bound;    // inputs of the text that became constants, as "NAME=VALUE"
  ExportedInputs exported;           // sizes that the program was exported for that it was made from
  DType precision = DType::Float32;
  bool roundsRows = true;            // EngineOptions
  std::vector<std::string> plugins;  // what each node of a plugin has saved, in the order of the graph
  bool takesHalf = false;  // tensors of f16 and bf16 are taken for f32: weights are stored smaller, and all were f32
  std::optional<uint64_t> workspaceLimit;  // bytes (TacticCache)
  int threads = 0;                         // that tactics were chosen for (EngineOptions)
  std::string tactics;                     // what measurements have found (TacticCache::text()), if there were any

  // What its engines are made with.
  Result<EngineOptions> engineOptions(const std::string& path, Diagnostics& diagnostics) const;
  // That it is to be compiled again, on this machine if `here`.
  Remedy compileAgain(const std::string& output, bool here) const;
};

inline constexpr uint32_t kEngineFormat = 1;

// What an engine was made from, as a file keeps it for api/refit.h. Weights that the engine holds as they were take no
// room of their own.
struct RefitSource {
  std::string name, text;                               // of the graph or module dump; the name without folders
  std::vector<std::string> files;                       // names of the weights files, without folders
  std::vector<std::pair<std::string, Tensor>> weights;  // sorted by name, without those that nothing reads
  std::vector<std::string> unread;                      // names of the others
  Metadata attributes;                                  // that are no tensors, as "attribute:PATH"
  ExportedInputs exported;                              // as EngineInfo has them, which keeps them
  bool isLanguageModel = false;                         // made by api/language_model.h, which makes it again
};

// The parts of an engine file.
struct EngineFile {
  EngineInfo info;
  std::string graph;  // text
  std::vector<std::pair<std::string, Tensor>> tensors;
  Metadata metadata;
  std::shared_ptr<const RefitSource> refit;  // null: nothing was kept
};

// Whether a file starts as engine files do. False if it cannot be read, and for "-", standard input.
bool isEngineFile(const std::string& path);

// Reads the bytes of a file. If `owner` keeps them in memory, tensors are not copied; the bytes must then be aligned as
// a mapping of the file is. Reports what is wrong: Input, Limit, or Incompatible for a file of another format or for
// another processor.
Result<EngineFile> parseEngineFile(std::string_view bytes, const RefCounted* owner, const std::string& path,
                                   Diagnostics& diagnostics, const Limits& limits = {});
// The old file, if there is one, stays until the new one is complete. Tensors with the same bytes are stored once.
bool writeEngineFile(const std::string& path, const EngineInfo& info, const GraphParts& parts, Diagnostics& diagnostics,
                     const Limits& limits = {}, const RefitSource* refit = nullptr);

// The version of this library.
std::string_view libraryVersion();

}  // namespace tscompile
