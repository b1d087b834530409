// What a command works with: the streams, what was reported, the texts that reports point into.
#pragma once

#include "api/module.h"
#include "frontend/text/parse.h"
#include "ir/operators/unknown_operators.h"
#include "ir/support/diagnostics.h"
#include "tools/options/options.h"
#include "tools/session/input_lines.h"
#include "tools/session/progress.h"

#include <istream>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

namespace tscompile {

// Exit codes besides those of errors; see docs/diagnostics.md.
inline constexpr int kExitDone = 0, kExitNegative = 1, kExitUsage = 2, kExitInternal = 70;
int exitCode(ErrorKind kind);

// How messages begin that tell a mistake of ours.
inline constexpr std::string_view kInternalError = "internal error: ";

class Session {
 public:
  Session(const CommonOptions& common, std::istream& in, std::ostream& out, std::ostream& err);

  std::ostream& out;
  std::ostream& err;
  const CommonOptions& common;
  Diagnostics diagnostics;
  // With the operators and converters of --custom-torch-ops; null: none are given.
  std::shared_ptr<const Extensions> extensions;
  // All operators there are.
  const OpRegistry& operators() const;
  // Names of rewrites that lowering has applied, if rules of --rules are among what it asks.
  std::set<std::string> applied;
  // Ended by whatever writes to the terminal.
  Progress progress;

  // The bytes of a file, or of standard input for "-".
  Result<std::string> read(const std::string& path);
  // Lines of standard input as they come.
  Result<InputLines> readLines();
  // The same for a file that must hold graph text: files of another kind are refused by their name. Of an engine file
  // its graph.
  Result<SourcePtr> readGraphText(const std::string& path, UnknownOperators unknown = UnknownOperators::Refused);
  // Texts may have unknown operators always.
  Result<ParsedText> parse(const std::string& path, ParseOptions options = {},
                           UnknownOperators unknown = UnknownOperators::Refused);
  // A text with its weights, or an engine file.
  Result<Module> loadModule(const std::string& path, const std::vector<std::string>& weights);

  // Says something that is not an error, unless that is not wanted.
  void note(const std::string& text);
  // The same at the end, if there was no error: of one it would not be the cause.
  void noteUnlessFailed(std::string text) { notesUnlessFailed_.push_back(std::move(text)); }
  // The same at the end, unless an error says it.
  void noteUnlessSaid(std::string text) { notesUnlessSaid_.push_back(std::move(text)); }
  // The same behind the error if a node of the model fails.
  void noteIfModelFails(std::string text) { notesIfModelFails_.push_back(std::move(text)); }
  // Says the latter now: the model has not failed, but returns nothing of use.
  void tellOfInputs();
  // Reports that a text was longer than may be printed.
  void failAtPrintLimit();
  void noteUnusedWeights(const std::vector<std::string>& names);
  // Writes what was reported to `err` and forgets it.
  void report();
  // Reports, and tells the exit code: that of the first error, or `otherwise`.
  int finish(int otherwise = kExitDone);
  // What a run on behalf of this command may take.
  RunOptions runLimits() const;
  // Whether text for this stream is to be coloured.
  bool wantsColor(const std::ostream& stream) const;

 private:
  void tellOfRules();
  Result<std::string> readInput(uint64_t most);
  Result<SourcePtr> readExportText(const std::string& path, UnknownOperators unknown);
  Result<SourcePtr> readEngineText(const std::string& path);

  std::istream& in_;
  std::vector<SourcePtr> sources_;
  std::vector<std::string> notesUnlessFailed_, notesUnlessSaid_, notesIfModelFails_;
};

// One line of JSON for each diagnostic.
std::string diagnosticJson(const Diagnostic& diagnostic);

}  // namespace tscompile
