#include "tools/options/option_parts.h"

#include "api/compile_settings.h"
#include "api/input_range.h"
#include "ir/support/quantities.h"
#include "ir/support/split.h"
#include "ir/values/dtype_words.h"
#include "tools/options/following_sizes.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace tscompile {
namespace {

[[noreturn]] void wrongDuration(std::string_view option, std::string_view examples, const std::string& text) {
  UsageError error{fmt::format("{} takes a duration such as {}, not '{}'", option, examples, abbreviate(text, 80))};
  if (const std::string number(text, 0, text.size() - text.ends_with('m'));
      number.size() < text.size() && parseDuration(number))
    error.notes.push_back(fmt::format("minutes are {0}min, and milliseconds {0}ms", number));
  throw error;
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
    {"--limit-mem", "SIZE", "memory that it may take, such as 512M (default: 80 % of the machine's or the container's)",
     [](Options& o, const std::string& v) {
       o.common.memoryLimit = checked(parseSize(v), "--limit-mem", "a size such as 512M", v);
     }},
    {"--limit-time", "DURATION",
     "time that it may take, such as 250ms, 3s or 2min; without a unit: seconds (default: unlimited)",
     [](Options& o, const std::string& v) {
       constexpr std::string_view kExamples = "250ms, 3s or 2min";
       const std::chrono::nanoseconds time = duration("--limit-time", kExamples, v);
       if (time.count() == 0) wrongDuration("--limit-time", kExamples, v);
       o.common.timeLimit = time;
     }},
    {"--plugin", "LIB", "a shared library with plugins; see docs/plugins.md",
     [](Options& o, const std::string& v) { o.common.plugins.push_back(v); }, true},
    {"--custom-torch-ops,--custom-converters", "LIB",
     "a shared library with operators and converters; see docs/writing_converters.md",
     [](Options& o, const std::string& v) { o.common.libraries.push_back(v); }, true},
    {"--verify-plugins", "", "check around every run of a plugin that it does what it says; slow",
     [](Options& o, const std::string&) { o.common.verifyPlugins = true; }},
    {"--defaults", "FILE", "what options are that are not given, in TOML; see docs/cli.md",
     [](Options& o, const std::string& v) { o.defaultsFile = v; }},
    {"--print-defaults", "", "print the options that are given as a file for --defaults, and do nothing else",
     [](Options& o, const std::string&) { o.printDefaults = true; }},
    {"-v,--verbose", "", "tell what is registered, what plugins log, and all of long lists",
     [](Options& o, const std::string&) { o.common.verbose = true; }},
    {"-q,--quiet", "", "report errors only", [](Options& o, const std::string&) { o.common.quiet = true; }},
    {"-h,--help", "", "show this help", [](Options& o, const std::string&) { o.help = true; }},
};

// As torchtrtc writes dtypes.
void enablePrecision(Options& o, const std::string& v) {
  std::optional<DType> precision = dtypeFromName(v);
  if (!precision) precision = dtypeFromForeignName(v);
  // float32 is what is there when nothing is enabled.
  if (precision == DType::Float32) return;
  for (DType one : {DType::Float16, DType::BFloat16, DType::Int8})
    if (precision == one) {
      o.partition.spec.engine.precision = one;
      return;
    }
  throw UsageError{"--enable-precision takes f32, f16, bf16 or int8, not '" + abbreviate(v, 80) + "'"};
}

}  // namespace

std::span<const OptionSpec> commonOptionSpecs() { return kCommon; }

std::vector<OptionSpec> commonOptionSpecsOf(const VerbSpec& verb) {
  std::vector<OptionSpec> out;
  for (const OptionSpec& o : kCommon)
    if (std::none_of(verb.options.begin(), verb.options.end(), [&](const OptionSpec& v) { return v.names == o.names; }))
      out.push_back(o);
  return out;
}

std::chrono::nanoseconds duration(std::string_view option, std::string_view examples, const std::string& text) {
  if (std::optional<std::chrono::nanoseconds> time = parseDuration(text)) return *time;
  wrongDuration(option, examples, text);
}

double realNumber(std::string_view option, const std::string& text) {
  return checked(parseReal(text), option, "a number", text);
}

int64_t numberOfText(std::string_view option, const std::string& text) {
  return static_cast<int64_t>(checked(parseCount(text), option, "a number", text));
}

double tolerance(std::string_view option, const std::string& v) {
  std::optional<double> value = parseReal(v);
  if (!value || !(*value >= 0))
    throw UsageError{std::string(option) + " takes a number from 0 up, not '" + abbreviate(v, 80) + "'"};
  return *value;
}

double percentage(std::string_view option, const std::string& text) {
  return tolerance(option, text.ends_with('%') ? text.substr(0, text.size() - 1) : text) / 100;
}

size_t blockSize(std::string_view option, const std::string& text) {
  std::optional<uint64_t> n = parseCount(text);
  if (!n || *n == 0)
    throw UsageError{std::string(option) + " takes a number from 1 up, not '" + abbreviate(text, 80) + "'"};
  return *n;
}

int threadCount(std::string_view text, const std::string& all) {
  auto n = parseCount(text);
  return static_cast<int>(
      checked(n && *n > 0 && *n <= 4096 ? n : std::nullopt, "--threads", "a number from 1 to 4096", all));
}

std::vector<int> countList(std::string_view option, const std::string& text, uint64_t most) {
  auto number = [&](std::string_view n) {
    const std::optional<uint64_t> value = parseCount(n);
    return checked(value && *value > 0 && *value <= most ? value : std::nullopt, option,
                   fmt::format("numbers from 1 to {} such as 1,2,4, 1..4 or 1..16*2", most), text);
  };
  std::vector<int> out;
  for (std::string_view part : split(text, ',')) {
    const size_t dots = part.find("..");
    if (dots == std::string_view::npos) {
      out.push_back(static_cast<int>(number(part)));
      continue;
    }
    const size_t star = std::min(part.find('*'), part.size());
    const uint64_t first = number(part.substr(0, dots)), last = number(part.substr(dots + 2, star - dots - 2));
    const uint64_t factor = star < part.size() ? number(part.substr(star + 1)) : 1;
    if (first > last)
      throw UsageError{fmt::format("{} goes from the smaller number to the larger one, not '{}'", option, part)};
    for (uint64_t n = first; n <= last; n = factor > 1 ? n * factor : n + 1) out.push_back(static_cast<int>(n));
  }
  return out;
}

void refuseBeside(const Options& options, std::initializer_list<std::string_view> names, std::string_view with) {
  for (const SaidOption& said : options.said)
    if (std::find(names.begin(), names.end(), said.name) != names.end())
      throw UsageError{said.name + " goes without " + std::string(with)};
}

// "x=1x3x224x224" of sizes as other tools write them, "x=[1,3,224,224]", "x:1x3x224x224", "x=1x3:float"; empty if it is
// none.
static std::string asSizes(const std::string& text) {
  const auto isRange = [](const std::string& t) {
    return parseInputRange(t.find('=') == std::string::npos ? "0=" + t : t).has_value();
  };
  if (const size_t colon = text.rfind(':'); colon != std::string::npos) {
    const std::string meant = dtypeMeantBy(std::string_view(text).substr(colon + 1));
    if (const std::string out = text.substr(0, colon + 1) + meant; !meant.empty() && isRange(out)) return out;
  }
  std::string out;
  for (char c : text)
    if (c == ',' || c == '*')
      out += 'x';
    else if (c == ':' && text.find('=') == std::string::npos)
      out += '=';
    else if (c != '[' && c != ']' && c != '(' && c != ')' && c != ' ')
      out += c;
  const bool isNamed = !out.empty() && std::isdigit(static_cast<unsigned char>(out[0])) == 0;
  return out != text && (isNamed || out.find('=') == std::string::npos) && isRange(out) ? out : "";
}

std::string withOptions(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '{' ? "--" : c == '}' ? "" : std::string(1, c);
  return out;
}

// "x=1..8x3" of "x=1-8x3"; empty: it is something else.
std::string withDots(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i)
    out += text[i] == '-' && i > 0 && std::isdigit(static_cast<unsigned char>(text[i - 1])) != 0
               ? ".."
               : std::string(1, text[i]);
  return out != text && parseInputRange(out.find('=') == std::string::npos ? "0=" + out : out) ? out : "";
}

// "--shape imgs.0=3x4 --shape imgs.1=5x6" of "imgs=[3x4,5x6]"; nothing of what is no list.
std::string ofList(std::string_view text) {
  const size_t begin = text.find('['), end = text.rfind(']');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return "";
  const std::string name(begin > 1 && text[begin - 1] == '=' ? text.substr(0, begin - 1) : "0");
  std::string out;
  size_t index = 0;
  for (std::string_view part : split(text.substr(begin + 1, end - begin - 1), ',')) {
    const bool isSize = parseInputRange("x=" + std::string(trim(part))).has_value() && !trim(part).empty();
    out +=
        fmt::format("{}--shape {}.{}={}", index ? " " : "", name, index, isSize ? std::string(trim(part)) : "1..8x3");
    ++index;
  }
  return out;
}

OptionSpec settingOption(std::string_view name, const std::string& aliases) {
  const CompileSetting& s = *findCompileSetting(name);
  const std::string option = "--" + std::string(name);
  return {aliases + option,
          s.value,
          withOptions(s.text),
          [&s, option](Options& o, const std::string& v) {
            const bool unnamed = option.ends_with("shape") && v.find('=') == std::string::npos;
            const PartitionSpec& spec = o.partition.spec;
            const std::string name =
                unnamed ? unnamedSizes(option == "--shape" ? spec.shapes : spec.usualShapes) + "=" : "";
            const bool isOfUsers = !option.ends_with("shape") || !isUnnamed(v);
            if (isOfUsers && s.set(o.partition.spec, name + v)) return;
            UsageError error{option + " takes " + std::string(s.takes) + ", not '" + abbreviate(v, 80) + "'"};
            if (option.ends_with("shape"))
              if (std::string fault = sizesFault(v); !fault.empty()) error.notes.push_back(std::move(fault));
            const bool isShape = option.ends_with("shape");
            // Numbers in brackets are sizes of one tensor; sizes in brackets are those of several.
            const bool isOne = v.substr(std::min(v.find('['), v.size())).find_first_of("x.") == std::string::npos;
            std::string meant = isShape && isOne ? asSizes(v) : "";
            if (const std::string parts = ofList(v); meant.empty() && isShape && !parts.empty())
              error.notes.push_back("the tensors of a list are said one by one: " + parts);
            else if (isShape && meant.empty())
              if ((meant = asSizes(v)).empty()) meant = withDots(v);
            if (!meant.empty()) error.notes.push_back("did you mean '" + meant + "'?");
            throw error;
          },
          s.repeats,
          s.valueOptional};
}

OptionSpec requireFullOption() { return settingOption("require-full", "--require-full-compilation,"); }

OptionSpecs precisionOptions() {
  return {settingOption("precision"),
          {"-p,--enable-precision", "DTYPE", "the same as --precision in the words of torchtrtc: half, fp16, char",
           enablePrecision, true}};
}

OptionSpec weightsOption() {
  return {"-w,--weights", "FILE",
          "tensors by attribute path or value name: safetensors, checkpoints, .npz; see docs/files.md",
          [](Options& o, const std::string& v) { o.partition.weights.push_back(v); }, true};
}

OptionSpec executorOption() {
  return {"--executor", "interpreter|engine", "what runs the graph (default: engine)",
          [](Options& o, const std::string& v) {
            o.run.executor = v == "engine" ? ExecutorChoice::Engine : ExecutorChoice::Interpreter;
          }};
}

OptionSpec bindOption() {
  return {"--bind", "NAME=VALUE", "make a constant of this input",
          [](Options& o, const std::string& v) { o.own.of<BoundInputs>().texts.push_back(v); }, true};
}

OptionSpecs operator+(OptionSpecs first, const OptionSpecs& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

namespace {

OptionSpecs ofGroup(std::string_view group, OptionSpecs specs) {
  for (OptionSpec& spec : specs) spec.group = group;
  return specs;
}

}  // namespace

OptionSpecs cuttingOptions() {
  return ofGroup("cutting",
                 {settingOption("min-block-size", "--mbs,"),
                  settingOption("torch-executed-op", "--teo,"),
                  settingOption("torch-executed-module", "--tem,--torch-executed-mod,"),
                  settingOption("torch-executed-node"),
                  settingOption("strategy"),
                  {"--rules", "FILE", "rewrite rules of your own, applied beside ours; see docs/rewriting.md",
                   [](Options& o, const std::string& v) { o.common.rules.push_back(v); }, true},
                  settingOption("without-converter"),
                  bindOption(),
                  settingOption("opt-shape"),
                  settingOption("no-lower")});
}

OptionSpecs partitioningOptions() {
  return OptionSpecs{weightsOption(), settingOption("method")} + cuttingOptions() +
         ofGroup("cutting", {settingOption("shape")});
}

OptionSpecs rewritingOptions() {
  return {
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
}

OptionSpecs inputOptions(const std::string& help) {
  return {{"-i,--input", "NAME=VALUE", help, [](Options& o, const std::string& v) { o.run.inputs.push_back(v); }, true},
          {"--inputs", "FILE", "a line NAME=VALUE for each input, as convert and export_torchscript.py write them",
           [](Options& o, const std::string& v) { o.run.inputFiles.push_back(v); }, true}};
}

OptionSpecs modelOptions() {
  const OptionSpecs weights = {
      {"-w,--weights", "FILE",
       "tensors by attribute path or value name: safetensors, checkpoints, .npz; see docs/files.md",
       [](Options& o, const std::string& v) { o.run.weights.push_back(v); }, true}};
  return weights +
         inputOptions(
             "an input by its name, or by its position, from 0, where %self is not counted; without either, the next") +
         OptionSpecs{
             {"--method", "NAME", "the method to run (default: forward)",
              [](Options& o, const std::string& v) { o.run.method = v; }},
             {"--seed", "N", "of the random numbers that operators draw (default: 0)",
              [](Options& o, const std::string& v) { o.run.seed = checked(parseCount(v), "--seed", "a number", v); }},
         };
}

OptionSpecs sizesOfInputsOptions() {
  return ofGroup("cutting", inputOptions("an input, of which the sizes are taken where --shape says none"));
}

void addNames(std::vector<std::string>& names, const std::string& list) {
  for (std::string_view name : split(list, ',')) names.emplace_back(name);
}

std::string_view reasonWithoutOption(std::string_view name) {
  constexpr std::string_view kGpu = "engines run on the CPU",
                             kLevel = "-q reports errors only, and --explain tells why";
  constexpr std::pair<std::string_view, std::string_view> kReasons[] = {
      {"--verbose", kLevel},
      {"-v", kLevel},
      {"--info", kLevel},
      {"--i", kLevel},
      {"--warnings", kLevel},
      {"--build-debuggable-engine", "engines always know the nodes that they were made of"},
      {"--allow-gpu-fallback", kGpu},
      {"--disable-tf32", "float32 is computed in float32"},
      {"--sparse-weights", "engines have no sparse kernels"},
      {"--device-type", kGpu},
      {"--device", kGpu},
      {"--gpu", kGpu},
      {"-d", kGpu},
      {"--gpu-id", kGpu},
      {"--dla-core", kGpu},
      {"--dla-sram-size", kGpu},
      {"--dla-local-dram-size", kGpu},
      {"--dla-global-dram-size", kGpu},
      {"--engine-capability", kGpu},
      {"--calibration-cache-file", "compile --calibrate takes the inputs themselves"},
      {"--config", "--defaults FILE reads options from TOML, and @FILE stands for the words of a file"},
      {"--embed-engine", "an engine file holds the whole graph, and runs as it is"},
      {"--truncate", "64-bit numbers stay 64-bit numbers"},
      {"--truncate-long-double", "64-bit numbers stay 64-bit numbers"},
      {"--truncate-64bit", "64-bit numbers stay 64-bit numbers"},
      {"--allow-shape-tensors", "sizes are known when an engine meets its inputs"},
  };
  for (const auto& [option, reason] : kReasons)
    if (option == name) return reason;
  return {};
}

}  // namespace tscompile
