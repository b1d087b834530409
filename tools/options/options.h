// What a command line asks for, and what says which options each verb has. Help, completion and the parser are all made
// from that.
#pragma once

#include "api/compile.h"
#include "ir/support/limits.h"
#include "ir/support/source.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <unordered_map>
#include <vector>

namespace tscompile {

class Session;

enum class ColorMode : uint8_t { Auto, Always, Never };

struct CommonOptions {
  bool json = false;        // --format json
  bool jsonErrors = false;  // --error-format json
  ColorMode color = ColorMode::Auto;
  size_t maxErrors = 20;
  bool quiet = false;
  bool verbose = false;                         // tell what plugins log
  bool verifyPlugins = false;                   // observe every run of a plugin
  std::vector<std::string> plugins, libraries;  // libraries with plugins, with operators and converters
  std::vector<std::string> rules;               // files of rules that models are lowered with
  Limits limits;
  std::optional<uint64_t> memoryLimit;                // bytes; none: 80 % of what there is
  std::optional<std::chrono::nanoseconds> timeLimit;  // of the whole command
};

enum class ProfileForm : uint8_t { None, Text, Json };

// Of lower and rewrite.
struct RewriteCommand {
  std::vector<std::string> passes;  // names of entries
  std::string query;
  std::optional<double> cutoff;
  std::vector<std::string> rules;  // files
  std::vector<std::string> printAfter;
  bool check = false;
  bool verifyRewrites = false;
  bool trace = false;
  std::vector<std::string> traceIgnore;  // names of rewrites that it is not to tell of
  bool plan = false;                     // tell what would be done
  std::string mode;                      // a query by its name
  std::string why;                       // a rule of which to tell why it does not apply
  ProfileForm profile = ProfileForm::None;
  std::string output;
};

// What runs a graph. EngineIfPossible: engines, or the interpreter for a graph that cannot be compiled.
enum class ExecutorChoice : uint8_t { Interpreter, Engine, EngineIfPossible };

struct RunCommand {
  std::vector<std::string> weights;
  std::vector<std::string> inputs, inputFiles;  // NAME=VALUE, and files of such lines
  std::string outputs;
  bool print = false;
  std::string method = "forward";
  ExecutorChoice executor = ExecutorChoice::EngineIfPossible;
  uint64_t threads = 0;
  uint64_t seed = 0;
  uint64_t calls = 1;  // of `run`: one after the other, each going on where the last one ended
};

enum class PartitionForm : uint8_t { Text, Json, Dot };

// Of all that partitions.
struct PartitionCommand {
  CompileSpec spec;  // the settings of api/compile_settings.h
  std::vector<std::string> weights;
  std::vector<size_t> sweep;  // values for minBlockSize
  PartitionForm form = PartitionForm::Text;
  bool explain = false;
  bool emitGraph = false;  // the stitched graph
  std::string output;
  bool oneEngine = false;    // of compile: nothing stays outside of it
  std::string timingCache;   // of compile: a file with what was measured
  std::string checkSupport;  // a method of which to list what engines cannot take
};

struct VerbSpec;

// What one command alone takes: each has a type of its own.
class OwnOptions {
 public:
  template <class T>
  T& of() {
    std::shared_ptr<void>& slot = slots_[typeid(T)];
    if (!slot) slot = std::make_shared<T>();
    return *static_cast<T*>(slot.get());
  }
  template <class T>
  const T& of() const {
    static const T usual;
    auto slot = slots_.find(typeid(T));
    return slot == slots_.end() ? usual : *static_cast<const T*>(slot->second.get());
  }

 private:
  std::unordered_map<std::type_index, std::shared_ptr<void>> slots_;
};

// What the command line, the environment or a file says of an option.
struct SaidOption {
  std::string name;                 // "--threads"
  std::vector<std::string> values;  // "" of a flag
};

struct Options {
  const VerbSpec* verb = nullptr;
  std::vector<std::string> arguments;  // those that belong to no option
  bool help = false;                   // of this verb, instead of what it does
  bool printDefaults = false;          // what was said, instead
  std::string defaultsFile;            // what options are that nothing else says
  std::vector<SaidOption> said;
  CommonOptions common;
  RewriteCommand rewrite;
  RunCommand run;
  PartitionCommand partition;
  OwnOptions own;
};

// What an option names that its command writes.
enum class Written : uint8_t {
  Nothing,
  File,
  Folder,      // made if it is not there
  AsArgument,  // a file or a folder, as the argument is one
  Cache,       // a file that is read before, and written only if there is something new
};

struct OptionSpec {
  std::string names;       // "-o,--output"
  std::string_view value;  // "FILE", "text|json" for a choice; empty for a flag
  std::string help;
  // Throws UsageError for a value that cannot be. Choices were checked before.
  std::function<void(Options&, const std::string& value)> set;
  bool repeats = false;
  bool valueOptional = false;  // "--name" or "--name=VALUE"; `set` gets an empty text for the first
  // Options that several commands take are explained by 'tscompile help GROUP', not by each of them.
  std::string_view group = {};
  Written written = Written::Nothing;
};

struct VerbSpec {
  std::string_view name;
  std::string_view summary = {};   // one line
  std::string_view argument = {};  // "FILE"; empty: takes none
  std::string_view argumentHelp = {};
  bool argumentRequired = false;
  bool argumentRepeats = false;
  std::string_view details = {};  // what else its help says
  std::vector<OptionSpec> options = {};
  void (*defaults)(Options&) = nullptr;  // where they are not those of Options
  int (*command)(const Options&, Session&) = nullptr;
};

OptionSpec writing(Written what, OptionSpec option);
// "-o", "--output" of "-o,--output".
std::vector<std::string> namesOf(const OptionSpec& option);

std::span<const VerbSpec> verbSpecs();
const VerbSpec* findVerb(std::string_view name);
std::span<const OptionSpec> commonOptionSpecs();
// The same without those that the verb has in a form of its own.
std::vector<OptionSpec> commonOptionSpecsOf(const VerbSpec& verb);
// Why an option of torchtrtc is none here; empty if it is not one of these.
std::string_view reasonWithoutOption(std::string_view name);
// "text", "json" of "text|json"; nothing if the value is no choice.
std::vector<std::string_view> choicesOf(const OptionSpec& option);

// The command line is at fault. Leaves the reader, caught by the driver.
struct UsageError {
  std::string message;
  std::vector<std::string> notes = {};
  SourceRange range = {};  // in a file of options
  SourcePtr source = nullptr;
};

Options readCommandLine(std::span<const std::string> args);

}  // namespace tscompile
