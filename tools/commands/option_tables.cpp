// The verbs and their options as tables.
#include "ir/support/quantities.h"
#include "ir/support/split.h"
#include "ir/support/text.h"
#include "tools/commands/commands.h"
#include "tools/options/options.h"

#include <algorithm>

namespace tscompile {
namespace {

template <class T>
T checked(std::optional<T> value, std::string_view option, std::string_view wanted, const std::string& text) {
  if (value) return *value;
  throw UsageError{std::string(option) + " takes " + std::string(wanted) + ", not '" + abbreviate(text, 80) + "'"};
}

void setLimit(Options& o, const std::string& text) {
  size_t equal = text.find('=');
  if (equal == std::string::npos)
    throw UsageError{"--limit takes KEY=VALUE, not '" + abbreviate(text, 80) + "'",
                     {"'tscompile help limits' lists the keys"}};
  std::string key = text.substr(0, equal), value = text.substr(equal + 1);
  NearestName nearest(key);
  for (const LimitName& limit : kLimitNames) {
    if (limit.name == key) {
      uint64_t number = checked(parseSize(value), "--limit " + key, "a number", value);
      // Types are walked by recursion.
      constexpr uint64_t kDeepest = 1000;
      if (key == "type-depth" && number > kDeepest)
        throw UsageError{"--limit type-depth takes a number up to " + std::to_string(kDeepest)};
      o.common.limits.*limit.field = number;
      return;
    }
    nearest.consider(limit.name);
  }
  UsageError error{"unknown limit '" + abbreviate(key, 80) + "'"};
  if (nearest.found()) error.notes.push_back("did you mean '" + nearest.name() + "'?");
  error.notes.push_back("'tscompile help limits' lists the keys");
  throw error;
}

const OptionSpec kCommon[] = {
    {"--format", "text|json", "form of the output (default: text)",
     [](Options& o, const std::string& v) { o.common.json = v == "json"; }},
    {"--error-format", "text|json", "form of what is reported on standard error; json: one object a line",
     [](Options& o, const std::string& v) { o.common.jsonErrors = v == "json"; }},
    {"--color", "auto|always|never", "colours in reports; auto: on a terminal, unless NO_COLOR is set",
     [](Options& o, const std::string& v) {
       o.common.color = v == "always" ? ColorMode::Always : v == "never" ? ColorMode::Never : ColorMode::Auto;
     }},
    {"--max-errors", "N", "stop after N errors (default: 20; 0: no limit)",
     [](Options& o, const std::string& v) {
       o.common.maxErrors = checked(parseCount(v), "--max-errors", "a number", v);
     }},
    {"--limit", "KEY=VALUE", "change a bound on what inputs may ask for; see 'tscompile help limits'", setLimit, true},
    {"--plugin", "LIB", "a shared library with plugins; see docs/plugins.md",
     [](Options& o, const std::string& v) { o.common.plugins.push_back(v); }, true},
    {"--verify-plugins", "", "check around every run of a plugin that it does what it says; slow",
     [](Options& o, const std::string&) { o.common.verifyPlugins = true; }},
    {"-v,--verbose", "", "tell what is registered, and what plugins log",
     [](Options& o, const std::string&) { o.common.verbose = true; }},
    {"-q,--quiet", "", "report errors only", [](Options& o, const std::string&) { o.common.quiet = true; }},
    {"-h,--help", "", "show this help", [](Options& o, const std::string&) { o.help = true; }},
};

const std::vector<OptionSpec> kParse = {
    {"-o,--output", "FILE", "write there instead of to standard output",
     [](Options& o, const std::string& v) { o.parse.output = v; }},
    {"--as", "text|expr|tree|dot",
     "graph text (default), formulas, a tree of nodes with their inputs below them, or a picture for Graphviz",
     [](Options& o, const std::string& v) {
       o.parse.form = v == "expr"   ? GraphForm::Expression
                      : v == "tree" ? GraphForm::Tree
                      : v == "dot"  ? GraphForm::Dot
                                    : GraphForm::Text;
     }},
    {"--brackets", "few|all", "in formulas: where they are needed (default), or around every operation",
     [](Options& o, const std::string& v) { o.parse.allBrackets = v == "all"; }},
    {"--like-parse-ir", "", "read as torch._C.parse_ir does: only the first graph, names of node outputs are dropped",
     [](Options& o, const std::string&) { o.parse.likeParseIr = true; }},
    {"--type-verbosity", "0|1|2|3|20",
     "types: 0 none, 1 sizes, 2 and strides, 3 everything (default), 20 symbolic sizes as well",
     [](Options& o, const std::string& v) { o.parse.typeVerbosity = static_cast<int>(*parseCount(v)); }},
    {"--no-locations", "", "leave out '# file:line:column'",
     [](Options& o, const std::string&) { o.parse.locations = false; }},
};

void addNames(std::vector<std::string>& names, const std::string& list) {
  for (std::string_view name : split(list, ',')) names.emplace_back(name);
}

// Options of everything that rewrites, behind those of one verb.
std::vector<OptionSpec> withRewriting(std::vector<OptionSpec> own) {
  const OptionSpec kRewriting[] = {
      {"--rewrite", "QUERY", "entries by tag or name, such as '+default &canonicalize -merge'",
       [](Options& o, const std::string& v) { o.rewrite.query = v; }},
      {"--rewrite-cutoff", "POSITION", "only entries before this position",
       [](Options& o, const std::string& v) {
         o.rewrite.cutoff = checked(parseReal(v), "--rewrite-cutoff", "a number", v);
       }},
      {"--rules", "FILE", "rules of your own; see docs/rewriting.md",
       [](Options& o, const std::string& v) { o.rewrite.rules.push_back(v); }, true},
      {"--print-after", "NAME", "print the graph after this entry; all: after each that changes it",
       [](Options& o, const std::string& v) { addNames(o.rewrite.printAfter, v); }, true},
      {"--check", "", "verify the graph after each entry",
       [](Options& o, const std::string&) { o.rewrite.check = true; }},
      {"--verify-rewrites", "", "compare the graph before and after each rewrite on sample inputs",
       [](Options& o, const std::string&) { o.rewrite.verifyRewrites = true; }},
      {"--plan", "", "tell what would be applied, in which order, and do nothing",
       [](Options& o, const std::string&) { o.rewrite.plan = true; }},
      {"--trace", "", "a line on standard error for each rewrite that is applied",
       [](Options& o, const std::string&) { o.rewrite.trace = true; }},
      {"--trace-ignore", "NAMES", "of these, separated by commas, --trace does not tell",
       [](Options& o, const std::string& v) { addNames(o.rewrite.traceIgnore, v); }, true},
      {"--profile", "text|json", "write what each rewrite cost and did to standard error",
       [](Options& o, const std::string& v) {
         o.rewrite.profile = v == "json" ? ProfileForm::Json : ProfileForm::Text;
       }},
  };
  own.insert(own.end(), std::begin(kRewriting), std::end(kRewriting));
  return own;
}

const std::vector<OptionSpec> kRewrite = withRewriting({
    {"--why", "RULE", "tell why this rule does not apply: where it fits best, and what does not fit there",
     [](Options& o, const std::string& v) { o.rewrite.why = v; }},
    {"-o,--output", "FILE", "write there instead of to standard output",
     [](Options& o, const std::string& v) { o.rewrite.output = v; }},
});

const std::vector<OptionSpec> kLower = withRewriting({
    {"-w,--weights", "FILE", "tensors by attribute path or value name, in safetensors format",
     [](Options& o, const std::string& v) { o.lower.weights.push_back(v); }, true},
    {"--method", "NAME", "the method to lower (default: forward)",
     [](Options& o, const std::string& v) { o.lower.method = v; }},
    {"--bind", "NAME=VALUE", "make a constant of this input",
     [](Options& o, const std::string& v) { o.lower.bind.push_back(v); }, true},
    {"--record", "KIND", "remember calls of this function, or nodes of this kind, and tell what became of them",
     [](Options& o, const std::string& v) { o.lower.records.push_back(v); }, true},
    {"--unpack-plugins", "", "replace nodes of plugins by the graphs that they decompose into",
     [](Options& o, const std::string&) { o.lower.unpackPlugins = true; }},
    {"--fall-back", "WHAT", "mark nodes with to_compile=0: %NAME of a value, or the class or path of a module",
     [](Options& o, const std::string& v) { o.lower.fallBack.push_back(v); }, true},
    {"-o,--output", "FILE", "write there, and the tensors to FILE with .safetensors in place of .ir",
     [](Options& o, const std::string& v) { o.lower.output = v; }},
    {"--mode", "min|merge|o0|o1|o2|o3|o4|stabilize|unsafe",
     "a query by its name (default: o2): from inlining alone over all that is exact to all that is fast",
     [](Options& o, const std::string& v) { o.rewrite.mode = v; }},
    {"--passes", "NAMES", "only these entries, separated by commas, in the order of their positions",
     [](Options& o, const std::string& v) { addNames(o.rewrite.passes, v); }, true},
});

const OptionSpec kExecutor = {"--executor", "interpreter|engine", "what runs the graph (default: engine)",
                              [](Options& o, const std::string& v) {
                                o.run.executor = v == "engine" ? ExecutorChoice::Engine : ExecutorChoice::Interpreter;
                              }};

// Options of everything that executes, around those of one verb.
std::vector<OptionSpec> withModel(std::vector<OptionSpec> own) {
  std::vector<OptionSpec> all = {
      {"-w,--weights", "FILE", "tensors by attribute path or value name, in safetensors format",
       [](Options& o, const std::string& v) { o.run.weights.push_back(v); }, true},
      {"-i,--input", "NAME=VALUE", "an input by its name, or by its position, from 0, where %self is not counted",
       [](Options& o, const std::string& v) { o.run.inputs.push_back(v); }, true},
      {"--method", "NAME", "the method to run (default: forward)",
       [](Options& o, const std::string& v) { o.run.method = v; }},
      {"--seed", "N", "of the random numbers that operators draw (default: 0)",
       [](Options& o, const std::string& v) { o.run.seed = checked(parseCount(v), "--seed", "a number", v); }},
  };
  all.insert(all.end(), own.begin(), own.end());
  const std::vector<OptionSpec> cutting = cuttingOptionSpecs();
  all.insert(all.end(), cutting.begin(), cutting.end());
  return all;
}

}  // namespace

int threadCount(std::string_view text, const std::string& all) {
  auto n = parseCount(text);
  return static_cast<int>(
      checked(n && *n > 0 && *n <= 4096 ? n : std::nullopt, "--threads", "a number from 1 to 4096", all));
}

namespace {

const std::vector<OptionSpec> kRun = withModel({
    {"--outputs", "DIR", "write outputs.json and the tensors there",
     [](Options& o, const std::string& v) { o.run.outputs = v; }},
    {"--print", "", "print the returned values in full, one a line",
     [](Options& o, const std::string&) { o.run.print = true; }},
    kExecutor,
    {"--custom-torch-ops,--custom-converters", "LIB",
     "a shared library with operators and converters; see docs/writing_converters.md",
     [](Options& o, const std::string& v) { o.run.libraries.push_back(v); }, true},
    {"--threads", "N", "threads to use at most; the interpreter runs on one",
     [](Options& o, const std::string& v) { o.run.threads = static_cast<uint64_t>(threadCount(v, v)); }},
    {"--limit-mem", "SIZE", "memory for tensors, such as 512M (default: 80 % of the machine's or the container's)",
     [](Options& o, const std::string& v) {
       o.run.memoryLimit = checked(parseSize(v), "--limit-mem", "a size such as 512M", v);
     }},
    {"--limit-time", "DURATION", "time that the run may take, such as 250ms, 3s or 2min (default: unlimited)",
     [](Options& o, const std::string& v) {
       o.run.timeLimit = checked(parseDuration(v), "--limit-time", "a duration such as 250ms, 3s or 2min", v);
     }},
});

const std::vector<OptionSpec> kBench = withModel({
    kExecutor,
    {"--threads", "N,N...", "threads to use; a measurement for each number (default: one for each processor)",
     [](Options& o, const std::string& v) {
       for (std::string_view n : split(v, ',')) o.bench.threads.push_back(threadCount(n, v));
     }},
    {"--duration", "DURATION", "how long each measurement takes, such as 500ms or 10s (default: 3s)",
     [](Options& o, const std::string& v) {
       o.bench.duration = checked(parseDuration(v), "--duration", "a duration such as 500ms or 10s", v);
     }},
});

const std::vector<OptionSpec> kProfile = withModel({
    {"--threads", "N", "threads to use at most (default: one for each processor)",
     [](Options& o, const std::string& v) { o.run.threads = static_cast<uint64_t>(threadCount(v, v)); }},
    {"--runs", "N", "how many runs to take the mean of (default: as many as fit in a second)",
     [](Options& o, const std::string& v) {
       auto n = parseCount(v);
       o.profile.runs = checked(n && *n > 0 ? n : std::nullopt, "--runs", "a number from 1 up", v);
     }},
    {"--trace", "FILE", "write when each part of the last run began and ended there, for chrome://tracing",
     [](Options& o, const std::string& v) { o.profile.trace = v; }},
});

const std::vector<OptionSpec> kOps = {
    {"--coverage", "FILE", "tell which operators of a graph or module dump are there; exit 1 if one is missing",
     [](Options& o, const std::string& v) { o.ops.coverage.push_back(v); }, true},
    {"--implemented", "", "list what can run (the default)", [](Options& o, const std::string&) { o.ops.all = false; }},
    {"--all", "", "list also what PyTorch has and tscompile has not",
     [](Options& o, const std::string&) { o.ops.all = true; }},
};

const std::vector<OptionSpec> kDiff = {
    {"--method", "NAME", "the method to compare (default: forward)",
     [](Options& o, const std::string& v) { o.diff.method = v; }},
    {"--ignore-names", "", "values may have other names; not for graphs with engines",
     [](Options& o, const std::string&) { o.diff.ignoreNames = true; }},
};

const std::vector<OptionSpec> kPlugins = {
    {"--limit-time", "DURATION", "time that each check may take, such as 250ms, 3s or 2min (default: 1min)",
     [](Options& o, const std::string& v) {
       o.plugins.checkLimit = checked(parseDuration(v), "--limit-time", "a duration such as 250ms, 3s or 2min", v);
     }},
};

const std::vector<OptionSpec> kInspect = {
    {"--emit", "summary|graph", "tell what the file is (default), or print the graph of an engine file",
     [](Options& o, const std::string& v) { o.inspect.emitGraph = v == "graph"; }},
};

constexpr std::string_view kRunDetails = R"(Values are written so:
  3  2.5  -inf  true  None  "text"  [1, 2]  (1, "a")  {"k": 1}
  @file.npy  @file.safetensors#tensor  @file.npz#member
  1x3x224x224:f32:randn(seed=0)  and zeros, ones, arange, randint(lo,hi), uniform(lo,hi)
  2x2:f32=[1 2; 3 4]

Engines run what they can of the graph, the interpreter the rest, or all of it if the graph cannot be
compiled. --torch-executed-op and the like keep nodes out of engines; see docs/partitioning.md.

What the model prints goes to standard error. Without --outputs and --print, one line
tells the type, shape, least, greatest and mean value of each output.

Examples:
  tscompile run model.ir --weights model.safetensors --input x=1x3x224x224:f32:randn(seed=0)
  tscompile run model.ir -w model.safetensors -i x=@cat.npy --outputs out
)";

constexpr std::string_view kBenchDetails =
    R"(Inputs are written as for 'tscompile run'; tensors that are not given are random if the graph tells
their sizes. Runs before the times have settled are not counted. A quantile is told if there are at
least ten times beyond it.

Examples:
  tscompile bench model.ir --weights model.safetensors --threads 1,2
  tscompile bench model.ir --weights model.safetensors --format json
)";

constexpr std::string_view kProfileDetails =
    R"(The graph runs on engines. Each of their layers is a line, and each node that the interpreter runs;
those that take longest first. GFLOP/s are of layers that compute products, KB those of the tensors
that are taken and given. The last lines are what is left: the borders of engines, with what crosses
them, steps of the interpreter that belong to no node, and what is around all that.

Examples:
  tscompile profile model.ir --weights model.safetensors
  tscompile profile model.ir --weights model.safetensors --threads 1 --trace trace.json
)";

constexpr std::string_view kRewriteDetails =
    R"(All rules of the files are applied until nothing changes, unless --rewrite chooses among them.

Example:
  tscompile rewrite model.ir --rules fuse.rules -o fused.ir
)";

constexpr std::string_view kLowerDetails =
    R"(Calls are inlined, attributes that nothing writes become constants, and the graph is simplified:
every entry of 'tscompile passes' with the tag 'default' is applied. Without weights, what attributes
hold stays an attribute.

Examples:
  tscompile lower model.dump
  tscompile lower model.dump --weights weights.safetensors -o lowered.ir
  tscompile run lowered.ir --weights lowered.safetensors --input x=1x3x224x224:f32:randn(seed=0)
)";

constexpr std::string_view kPartitionDetails =
    R"(The graph is lowered first, without its weights unless they are given; --no-lower takes it as it is.
Nothing is compiled. docs/partitioning.md explains the reasons and the strategies.

Examples:
  tscompile partition model.ir --explain
  tscompile partition model.ir --torch-executed-op aten::lgamma --min-block-size 1
  tscompile partition model.ir --sweep min-block-size=1,2,4,8
)";

constexpr std::string_view kVerifyDetails =
    R"(The method is compiled as 'run' does. Each engine runs on the values that the
interpreter has computed ('own'), and on those of the engines in front of it ('carried'). An element
passes if |got - want| <= atol + rtol * |want|. The exit code is 1 if one does not. An engine file is
taken as it is; its outputs are compared with those of its graph without engines.

Examples:
  tscompile verify model.tse
  tscompile verify model.ir -w model.safetensors --shape x=1x3x224x224
  tscompile verify model.ir -w model.safetensors -i x=@cat.npy --rtol 1e-5 --bisect
)";

constexpr std::string_view kDiffDetails =
    R"(A line for each node that only one of them has: '-' of the first, '+' of the second, each with the
line of its text. If one of them has engines (an engine file, 'partition --emit graph'), nodes are
found by what they make, in any order, and '~' tells those that run on another side. Of two engine
files the weights are compared as well. The exit code is 1 if there is a difference.

Of two measurements ('bench --format json') the times are compared: the exit code is 1 if the second is
slower by more than 3 % in both its least and its median time, with the same number of threads.

Examples:
  tscompile diff before.ir after.ir
  tscompile diff greedy.ir dependency.ir
  tscompile diff before.json after.json
)";

constexpr std::string_view kCompileDetails =
    R"(Takes what partition takes. The file holds the graph with its engines, the weights and the sizes
of --shape, which are checked at every run; docs/engine_files.md describes it. A file that is
there is replaced when the new one is complete.

Examples:
  tscompile compile model.ir --weights model.safetensors --shape x=1..8x3x224x224 -o model.tse
  tscompile compile model.ir -w model.safetensors --shape x=1x3x224x224 --tactics measure -o model.tse
  tscompile run model.tse --input x=1x3x224x224:f32:randn(seed=0)
)";

double realNumber(std::string_view option, const std::string& text) {
  return checked(parseReal(text), option, "a number", text);
}
int64_t wholeNumber(std::string_view option, const std::string& text) {
  return static_cast<int64_t>(checked(parseCount(text), option, "a number", text));
}

const std::vector<OptionSpec> kBuild = {
    {"-w,--weights", "FILE", "weights: safetensors, or a recipe of docs/values.md",
     [](Options& o, const std::string& v) { o.build.weights.push_back(v); }, true},
    {"-o,--output", "FOLDER", "where config.json and the engine go",
     [](Options& o, const std::string& v) { o.build.output = v; }},
    {"--config", "FILE", "settings as a JSON object; see docs/language_models.md",
     [](Options& o, const std::string& v) { o.build.config = v; }},
    {"--set", "NAME=VALUE", "one setting, such as max_seq_len=512",
     [](Options& o, const std::string& v) { o.build.settings.push_back(v); }, true},
};

const std::vector<OptionSpec> kRefit = {
    {"-w,--weights", "FILE", "the new weights by name: safetensors, or a recipe of docs/values.md",
     [](Options& o, const std::string& v) { o.refit.weights.push_back(v); }, true},
    {"-o,--output", "PATH", "where the result goes (default: what is refitted is replaced)",
     [](Options& o, const std::string& v) { o.refit.output = v; }},
    {"--partial", "", "weights that are not given stay as they are",
     [](Options& o, const std::string&) { o.refit.partial = true; }},
};

const std::vector<OptionSpec> kGenerate = {
    {"--prompt", "TEXT", "what the text begins with; several are served at the same time",
     [](Options& o, const std::string& v) { o.generate.prompts.push_back(v); }, true},
    {"--prompt-ids", "IDS", "the same as tokens: 12,7,99",
     [](Options& o, const std::string& v) { o.generate.promptIds.push_back(v); }, true},
    {"--tokenizer", "FILE", "tokenizer.json, vocab.json or a plain vocabulary; without it tokens are bytes",
     [](Options& o, const std::string& v) { o.generate.tokenizer = v; }},
    {"--max-new-tokens", "N", "tokens to generate at most (default: 64)",
     [](Options& o, const std::string& v) {
       o.generate.maxNewTokens = static_cast<uint64_t>(wholeNumber("--max-new-tokens", v));
     }},
    {"--temperature", "X", "draw tokens; logits are divided by it before. 0: the likeliest token",
     [](Options& o, const std::string& v) {
       o.generate.sampling.temperature = realNumber("--temperature", v);
       o.generate.draws = true;
     }},
    {"--top-k", "N", "draw from the N likeliest tokens",
     [](Options& o, const std::string& v) { o.generate.sampling.topK = wholeNumber("--top-k", v); }},
    {"--top-p", "X", "draw from the likeliest tokens whose probabilities sum to X",
     [](Options& o, const std::string& v) { o.generate.sampling.topP = realNumber("--top-p", v); }},
    {"--min-p", "X", "draw from tokens that are at least X times as likely as the likeliest",
     [](Options& o, const std::string& v) { o.generate.sampling.minP = realNumber("--min-p", v); }},
    {"--repetition-penalty", "X", "tokens that were there get less likely (above 1)",
     [](Options& o, const std::string& v) {
       o.generate.sampling.repetitionPenalty = realNumber("--repetition-penalty", v);
     }},
    {"--seed", "N", "draw tokens, with this seed (default: 0)",
     [](Options& o, const std::string& v) {
       o.generate.sampling.randomSeed = static_cast<uint64_t>(wholeNumber("--seed", v));
       o.generate.draws = true;
     }},
    {"--beam-width", "N", "search the likeliest texts with N beams",
     [](Options& o, const std::string& v) { o.generate.sampling.beamWidth = wholeNumber("--beam-width", v); }},
    {"--end-id", "N", "the token that ends a text",
     [](Options& o, const std::string& v) { o.generate.sampling.endId = wholeNumber("--end-id", v); }},
    {"--threads", "N", "threads to use at most",
     [](Options& o, const std::string& v) { o.generate.threads = static_cast<uint64_t>(threadCount(v, v)); }},
};

const VerbSpec kVerbs[] = {
    {.name = "parse",
     .summary = "read graph text or a module dump and print it as PyTorch 1.13 does",
     .argument = "FILE",
     .argumentHelp = "graph text or a module dump; -: standard input",
     .argumentRequired = true,
     .details = "Checks syntax and names. 'tscompile lint' checks types and structure as well.\n",
     .options = kParse,
     .command = runParse},
    {.name = "lint",
     .summary = "report everything that is wrong or suspicious in texts",
     .argument = "FILE",
     .argumentHelp = "graph text or a module dump; -: standard input",
     .argumentRequired = true,
     .argumentRepeats = true,
     .details = "Findings go to standard output. The exit code is 1 if one of them is an error, 3 if a text\n"
                "cannot be read.\n",
     .command = runLint},
    {.name = "lower",
     .summary = "make one graph of a method and all that it calls, and simplify it",
     .argument = "FILE",
     .argumentHelp = "graph text or a module dump; -: standard input",
     .argumentRequired = true,
     .details = kLowerDetails,
     .options = kLower,
     .command = runLower},
    {.name = "rewrite",
     .summary = "apply rules of your own to a graph",
     .argument = "FILE",
     .argumentHelp = "graph text or a module dump; -: standard input",
     .argumentRequired = true,
     .details = kRewriteDetails,
     .options = kRewrite,
     .command = runRewrite},
    {.name = "passes",
     .summary = "list the steps of lowering with their positions and tags",
     .argument = "NAME",
     .argumentHelp = "show entries that have this tag, or whose name contains this",
     .argumentRepeats = true,
     .command = runPasses},
    {.name = "run",
     .summary = "execute a graph",
     .argument = "GRAPH",
     .argumentHelp = "graph text, a module dump or an engine file; -: text from standard input",
     .argumentRequired = true,
     .details = kRunDetails,
     .options = kRun,
     .command = runRun},
    {.name = "bench",
     .summary = "measure how long a run takes",
     .argument = "GRAPH",
     .argumentHelp = "graph text or a module dump; -: standard input",
     .argumentRequired = true,
     .details = kBenchDetails,
     .options = kBench,
     .defaults = [](Options& o) { o.run.executor = ExecutorChoice::Engine; },
     .command = runBench},
    {.name = "profile",
     .summary = "tell where the time of a run goes, layer by layer",
     .argument = "GRAPH",
     .argumentHelp = "graph text or a module dump; -: standard input",
     .argumentRequired = true,
     .details = kProfileDetails,
     .options = kProfile,
     .defaults = [](Options& o) { o.run.executor = ExecutorChoice::Engine; },
     .command = runProfile},
    {.name = "partition",
     .summary = "cut a graph into segments for engines and for the interpreter, and tell why",
     .argument = "FILE",
     .argumentHelp = "graph text or a module dump; -: standard input",
     .argumentRequired = true,
     .details = kPartitionDetails,
     .options = partitionOptionSpecs(),
     .command = runPartition},
    {.name = "explain",
     .summary = "tell where a node runs, why, and what would change it",
     .argument = "FILE",
     .argumentHelp = "graph text or a module dump, then values (%name) or operators (aten::relu)",
     .argumentRequired = true,
     .argumentRepeats = true,
     .details = "Example:\n  tscompile explain model.ir %12 aten::lgamma\n",
     .options = partitioningOptionSpecs(),
     .command = runExplain},
    {.name = "verify",
     .summary = "compare every engine of a graph with the interpreter",
     .argument = "FILE",
     .argumentHelp = "graph text, a module dump or an engine file; -: text from standard input",
     .argumentRequired = true,
     .details = kVerifyDetails,
     .options = verifyOptionSpecs(),
     .command = runVerify},
    {.name = "compile",
     .summary = "write a graph with its engines and its weights to an engine file",
     .argument = "FILE",
     .argumentHelp = "graph text or a module dump; -: standard input",
     .argumentRequired = true,
     .details = kCompileDetails,
     .options = compileOptionSpecs(),
     .command = runCompile},
    {.name = "diff",
     .summary = "tell what two graphs, engine files or measurements differ in",
     .argument = "FILE",
     .argumentHelp = "two files: graph text, module dumps, engine files or measurements",
     .argumentRequired = true,
     .argumentRepeats = true,
     .details = kDiffDetails,
     .options = kDiff,
     .command = runDiff},
    {.name = "ops",
     .summary = "list operators, or tell which operators of a graph are there",
     .argument = "PATTERN",
     .argumentHelp = "show operators whose name contains this, or matches it if it holds * or ?",
     .argumentRepeats = true,
     .details = "Examples:\n  tscompile ops 'aten::*pool*'\n  tscompile ops --coverage model.ir\n",
     .options = kOps,
     .command = runOps},
    {.name = "build",
     .summary = "make a folder that serves a language model",
     .argument = "MODEL",
     .argumentHelp = "graph text of forward(input_ids, position_ids) -> logits",
     .argumentRequired = true,
     .details = "Example:\n  tscompile build model.ir -w model.safetensors --set max_seq_len=512 -o built\n",
     .options = kBuild,
     .command = runBuild},
    {.name = "refit",
     .summary = "replace weights of an engine file or of a language model that was built",
     .argument = "PATH",
     .argumentHelp = "an engine file that was compiled with --refittable, or a folder that build has made",
     .argumentRequired = true,
     .details = "Needs no graph text. The result is, to the last byte, what compiling or building with these\n"
                "weights gives. Names, sizes and dtypes must be those of the model; all that are not are\n"
                "reported at once.\n\n"
                "Examples:\n  tscompile refit model.tse --weights tuned.safetensors -o tuned.tse\n"
                "  tscompile refit built --weights head.safetensors --partial\n",
     .options = kRefit,
     .command = runRefit},
    {.name = "generate",
     .summary = "continue texts with a language model that was built",
     .argument = "FOLDER",
     .argumentHelp = "what build has made",
     .argumentRequired = true,
     .details = "Examples:\n  tscompile generate built --prompt 'The graph' --max-new-tokens 100\n"
                "  tscompile generate built --prompt-ids 464,4823 --top-k 50 --seed 7\n",
     .options = kGenerate,
     .command = runGenerate},
    {.name = "plugins",
     .summary = "list plugins, show what one takes, or check the plugins of a library",
     .argument = "WHAT",
     .argumentHelp = "list, show NAME, or check LIB",
     .argumentRequired = true,
     .argumentRepeats = true,
     .details =
         "Examples:\n  tscompile plugins show Identity\n  tscompile plugins check ./libmine.so\n"
         "The exit code of check is 1 if it finds something. Plugins are checked in processes of their own: one\n"
         "that crashes, or does not come to an end, is a finding.\n",
     .options = kPlugins,
     .command = runPlugins},
    {.name = "inspect",
     .summary = "tell what a file is and what it holds, without executing anything",
     .argument = "FILE",
     .argumentHelp = "any file; -: standard input",
     .argumentRequired = true,
     .argumentRepeats = true,
     .details = "Knows graph text, module dumps, engine files, folders of build, safetensors, .npy and .npz, and\n"
                "names other formats. 'tscompile FILE' means the same.\n",
     .options = kInspect,
     .command = runInspect},
    {.name = "version", .summary = "tell the version and how it was built", .command = runVersion},
    {.name = "completion",
     .summary = "print a completion script for a shell",
     .argument = "SHELL",
     .argumentHelp = "bash, zsh or fish",
     .argumentRequired = true,
     .details = "Examples:\n  source <(tscompile completion bash)\n"
                "  tscompile completion fish > ~/.config/fish/completions/tscompile.fish\n",
     .command = runCompletion},
    {.name = "help",
     .summary = "explain a command, or the limits",
     .argument = "TOPIC",
     .argumentHelp = "a command, or 'limits'",
     .command = runHelp},
};

}  // namespace

std::span<const VerbSpec> verbSpecs() { return kVerbs; }
std::span<const OptionSpec> commonOptionSpecs() { return kCommon; }

std::vector<OptionSpec> commonOptionSpecsOf(const VerbSpec& verb) {
  std::vector<OptionSpec> out;
  for (const OptionSpec& o : kCommon)
    if (std::none_of(verb.options.begin(), verb.options.end(), [&](const OptionSpec& v) { return v.names == o.names; }))
      out.push_back(o);
  return out;
}

const VerbSpec* findVerb(std::string_view name) {
  auto it = std::find_if(std::begin(kVerbs), std::end(kVerbs), [&](const VerbSpec& v) { return v.name == name; });
  return it == std::end(kVerbs) ? nullptr : &*it;
}

std::vector<std::string> namesOf(const OptionSpec& option) {
  std::vector<std::string_view> names = split(option.names, ',');
  return {names.begin(), names.end()};
}

std::vector<std::string_view> choicesOf(const OptionSpec& option) {
  if (option.value.find('|') == std::string_view::npos) return {};
  return split(option.value, '|');
}

}  // namespace tscompile
