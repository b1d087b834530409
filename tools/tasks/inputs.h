// Reads what --input gives to the inputs of a graph.
#pragma once

#include "api/module.h"
#include "frontend/export/exported_input.h"
#include "tools/session/session.h"

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tscompile {

// A text for random elements of the sizes and dtype that a type gives; nothing if it does not give them. Integers are 0
// or 1: few operators that take indices fail on them.
std::optional<std::string> randomText(TypePtr type, uint64_t seed);

// What --inputs and --input say, as NAME=VALUE. Lines of files that are blank or begin with # are left out; paths in a
// file are relative to its folder. Nothing after a report.
Result<std::vector<std::string>> givenInputs(const RunCommand& command, Session& session);

// A file that is wrong is an input; a value that cannot be read, of which the first message since `before` tells, is a
// fault of the command line: throws UsageError. `meant`: a note on what it may be meant as, or empty.
void blameCommandLine(const std::string& what, std::string_view written, size_t before, Diagnostics& diagnostics,
                      const std::string& meant);
// "did you mean --input sizes='[3,4]'?" where a text with brackets or quotes around it is of the input's type; or
// empty.
std::string meantValue(const ValueInfo& input, std::string_view written, const std::string& option);

class InputReader {
 public:
  // `defaults`: of inputs that are left out.
  InputReader(std::vector<ValueInfo> wanted, Session& session, std::map<std::string, IValue> defaults = {})
      : wanted_(std::move(wanted)), given_(wanted_.size()), defaults_(std::move(defaults)), session_(session) {}

  // Sizes and dtype for examples of tensors whose ranks are not known; for containers options that say those of what is
  // in them.
  void setLikely(std::function<std::string(const ValueInfo&)> likely) { likely_ = std::move(likely); }
  // What the program was exported with, for inputs that nothing else gives a value, if all values `agree`; else those
  // are left out of which a size may be another one than what was given tells of it.
  void setExamples(std::map<std::string, IValue> examples, std::function<bool(std::span<const IValue>)> agree) {
    examples_ = std::move(examples), agree_ = std::move(agree);
  }
  // The inputs that have taken theirs, once they were read.
  const std::vector<std::string>& ofExamples() const { return ofExamples_; }
  // The files that were read: they are told where they lack an input.
  void setFiles(std::vector<std::string> files) { files_ = std::move(files); }
  // Arguments that the graph does not take, what they are in it, and how that came: "the program was exported".
  void setConstants(std::vector<ExportedConstant> constants, std::string how) {
    constants_ = std::move(constants), how_ = std::move(how);
  }
  // Of a command whose inputs are in a file alone.
  void setOnlyFile(const std::string& file) { files_ = {file}, isOfFile_ = true; }

  // The one input that has to be given, or the one that there is.
  std::optional<size_t> onlyRequired() const;
  // Values for all inputs, in order, of texts such as "x=3". Throws UsageError, also for an input without value that
  // may not be None.
  Result<std::vector<IValue>> read(const std::vector<std::string>& texts);
  // Those that the texts give, each at its place.
  Result<std::vector<std::optional<IValue>>> readGiven(const std::vector<std::string>& texts);
  // The same as read(), but tensors that are not given, and have no default, are random if the graph tells their sizes,
  // or the symbols of those that were given do.
  Result<std::vector<IValue>> readOrMake(const std::vector<std::string>& texts, uint64_t seed);

 private:
  // Those without names are of the first inputs that have none.
  bool readTexts(const std::vector<std::string>& texts);
  bool one(const std::string& text);
  // Null: the input has none.
  const IValue* defaultOf(const ValueInfo& input) const;
  // Throws UsageError if no input is called so.
  size_t named(const std::string& name) const;
  // The input that a value without a name is of. Throws UsageError.
  size_t nextRequired(const std::string& text) const;
  void takeExamples();
  std::vector<IValue> complete() const;

  std::vector<ValueInfo> wanted_;
  std::vector<std::optional<IValue>> given_;
  std::map<std::string, IValue> defaults_, examples_;
  std::function<bool(std::span<const IValue>)> agree_;
  std::vector<std::string> ofExamples_;
  std::function<std::string(const ValueInfo&)> likely_;
  std::vector<std::string> files_;
  std::vector<ExportedConstant> constants_;
  std::string how_;
  bool isOfFile_ = false;
  Session& session_;
};

// "--input waves='[@FILE.npy]'": how a value for this input may be written.
std::string exampleOf(const ValueInfo& input, const std::string& option = "--input");
// What a value that cannot be read may be meant as, of the text and what the message quotes of it; empty: nothing.
std::string valueHint(std::string_view text, std::string_view message);

}  // namespace tscompile
