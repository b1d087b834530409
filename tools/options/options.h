// What a command line asks for, and the tables that say which options each verb has. Help, completion and the parser
// are all made from these tables.
#pragma once

#include "api/compile.h"
#include "ir/support/limits.h"
#include "runtime/llm/sampling.h"

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
  bool verbose = false;              // tell what plugins log
  bool verifyPlugins = false;        // observe every run of a plugin
  std::vector<std::string> plugins;  // libraries
  Limits limits;
};

enum class GraphForm : uint8_t { Text, Expression, Tree, Dot };

struct ParseCommand {
  std::string output;
  GraphForm form = GraphForm::Text;
  bool allBrackets = false;
  bool likeParseIr = false;
  int typeVerbosity = 3;
  bool locations = true;
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

struct LowerCommand {
  std::vector<std::string> weights;
  std::vector<std::string> fallBack;  // classes, paths, %names
  std::vector<std::string> bind;      // NAME=VALUE
  std::vector<std::string> records;   // functions and kinds of nodes
  bool unpackPlugins = false;
  std::string method = "forward";
  std::string output;
};

// What runs a graph. EngineIfPossible: engines, or the interpreter for a graph that cannot be compiled.
enum class ExecutorChoice : uint8_t { Interpreter, Engine, EngineIfPossible };

struct RunCommand {
  std::vector<std::string> weights, libraries;
  std::vector<std::string> inputs;  // NAME=VALUE
  std::string outputs;
  bool print = false;
  std::string method = "forward";
  ExecutorChoice executor = ExecutorChoice::EngineIfPossible;
  uint64_t threads = 0;
  std::optional<uint64_t> memoryLimit;
  std::optional<std::chrono::nanoseconds> timeLimit;
  uint64_t seed = 0;
};

// What bench takes beside the settings of run.
struct BenchCommand {
  std::vector<int> threads;  // one measurement each; none: as many as there are processors
  std::chrono::nanoseconds duration = std::chrono::seconds(3);
};

// What profile takes beside the settings of run.
struct ProfileCommand {
  uint64_t runs = 0;  // 0: as many as fit in a second
  std::string trace;  // a file for the times of one run
};

enum class PartitionForm : uint8_t { Text, Json, Dot };

// Of all that partitions.
struct PartitionCommand {
  CompileSpec spec;  // the settings of api/compile_settings.h
  std::vector<std::string> weights, libraries;
  std::vector<size_t> sweep;  // values for minBlockSize
  PartitionForm form = PartitionForm::Text;
  bool explain = false;
  bool emitGraph = false;  // the stitched graph
  std::string output;
  bool oneEngine = false;    // of compile: nothing stays outside of it
  std::string timingCache;   // of compile: a file with what was measured
  std::string checkSupport;  // a method of which to list what engines cannot take
};

struct VerifyCommand {
  std::vector<std::string> inputs;  // NAME=VALUE
  double relative = 1e-3, absolute = 1e-4;
  bool checkThreshold = true;
  bool bisect = false;
};

struct InspectCommand {
  bool emitGraph = false;  // of an engine file
};

struct BuildCommand {
  std::vector<std::string> weights;
  std::string config, output;         // a JSON file, a folder
  std::vector<std::string> settings;  // NAME=VALUE
};

struct RefitCommand {
  std::vector<std::string> weights;
  std::string output;  // empty: what is refitted
  bool partial = false;
};

struct GenerateCommand {
  std::vector<std::string> prompts, promptIds;
  std::string tokenizer;
  uint64_t maxNewTokens = 64, threads = 0;
  SamplingConfig sampling;
  bool draws = false;  // --temperature or --seed was given
};

struct DiffCommand {
  std::string method = "forward";
  bool ignoreNames = false;
};

struct OpsCommand {
  std::vector<std::string> coverage;
  bool all = false;
};

struct VerbSpec;

struct PluginsCommand {
  std::chrono::nanoseconds checkLimit = std::chrono::minutes(1);  // of one check
};

struct Options {
  const VerbSpec* verb = nullptr;
  std::vector<std::string> arguments;  // those that belong to no option
  bool help = false;                   // of this verb, instead of what it does
  CommonOptions common;
  ParseCommand parse;
  LowerCommand lower;
  RewriteCommand rewrite;
  RunCommand run;
  BenchCommand bench;
  ProfileCommand profile;
  PartitionCommand partition;
  VerifyCommand verify;
  InspectCommand inspect;
  DiffCommand diff;
  OpsCommand ops;
  BuildCommand build;
  RefitCommand refit;
  GenerateCommand generate;
  PluginsCommand plugins;
};

struct OptionSpec {
  std::string names;       // "-o,--output"
  std::string_view value;  // "FILE", "text|json" for a choice; empty for a flag
  std::string help;
  // Throws UsageError for a value that cannot be. Choices were checked before.
  std::function<void(Options&, const std::string& value)> set;
  bool repeats = false;
  bool valueOptional = false;  // "--name" or "--name=VALUE"; `set` gets an empty text for the first
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

// "-o", "--output" of "-o,--output".
std::vector<std::string> namesOf(const OptionSpec& option);

std::span<const VerbSpec> verbSpecs();
const VerbSpec* findVerb(std::string_view name);
std::span<const OptionSpec> commonOptionSpecs();
// The same without those that the verb has in a form of its own.
std::vector<OptionSpec> commonOptionSpecsOf(const VerbSpec& verb);
// The number of an option --threads that was given as `all`; throws UsageError.
int threadCount(std::string_view text, const std::string& all);
// How to cut: what all that makes engines takes.
std::vector<OptionSpec> cuttingOptionSpecs();
// What partition, explain and compile share, and with what only partition and only compile have.
std::vector<OptionSpec> partitioningOptionSpecs();
std::vector<OptionSpec> partitionOptionSpecs();
std::vector<OptionSpec> verifyOptionSpecs();
// Why an option of torchtrtc is none here; empty if it is not one of these.
std::string_view reasonWithoutOption(std::string_view name);
std::vector<OptionSpec> compileOptionSpecs();
// "text", "json" of "text|json"; nothing if the value is no choice.
std::vector<std::string_view> choicesOf(const OptionSpec& option);

// The command line is at fault. Leaves the reader, caught by the driver.
struct UsageError {
  std::string message;
  std::vector<std::string> notes = {};
};

Options readCommandLine(std::span<const std::string> args);

}  // namespace tscompile
