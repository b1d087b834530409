#include "api/compile_settings.h"

#include "api/symbolic_ranges.h"
#include "ir/support/quantities.h"
#include "ir/values/dtype_words.h"
#include "passes/catalog.h"
#include "runtime/engine/network/tactics.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

using Texts = std::vector<std::string>;

constexpr std::pair<std::string_view, DType> kPrecisions[] = {
    {"f32", DType::Float32}, {"f16", DType::Float16}, {"bf16", DType::BFloat16}, {"int8", DType::Int8}};

// What a setting says that is either there or not.
Texts flag(bool said) { return said ? Texts{""} : Texts{}; }

template <auto member>
bool append(CompileSpec& s, const std::string& v) {
  (s.*member).push_back(v);
  return true;
}
template <auto member>
Texts textsOf(const CompileSpec& s) {
  return s.*member;
}

template <auto member>
bool appendRange(CompileSpec& s, const std::string& v) {
  std::optional<InputRange> range = parseInputRange(v);
  if (range) addInputRange(s.*member, std::move(*range));
  return range.has_value();
}
template <auto member>
Texts rangesOf(const CompileSpec& s) {
  Texts out;
  for (const InputRange& range : s.*member) out.push_back(inputRangeText(range));
  return out;
}

// A number from 1 to `most`.
std::optional<uint64_t> numberUpTo(const std::string& v, uint64_t most) {
  std::optional<uint64_t> n = parseCount(v);
  return n && *n > 0 && *n <= most ? n : std::nullopt;
}

bool setStrategy(CompileSpec& spec, const std::string& v) {
  for (Strategy s : {Strategy::Greedy, Strategy::Dependency, Strategy::Minimal, Strategy::Cost})
    if (v == strategyName(s)) return spec.strategy = s, true;
  return false;
}

TacticCache& tacticsOf(CompileSpec& spec) {
  if (!spec.engine.tactics) spec.engine.tactics = std::make_shared<TacticCache>();
  return *spec.engine.tactics;
}

bool setTactics(CompileSpec& spec, const std::string& v) {
  spec.engine.measureTactics = v == "measure";
  if (spec.engine.measureTactics) tacticsOf(spec);
  return v == "measure" || v == "model";
}

Texts workspaceOf(const CompileSpec& spec) {
  const TacticCache* tactics = spec.engine.tactics.get();
  return tactics && tactics->workspaceLimit != SIZE_MAX ? Texts{std::to_string(tactics->workspaceLimit)} : Texts{};
}

bool setCoverage(CompileSpec& spec, const std::string& v) {
  std::optional<double> part = v.empty() ? 1 : partOfPercent(v);
  if (!part || !(*part >= 0 && *part <= 1)) return false;
  spec.requiredCoverage = *part;
  return true;
}

// The shortest percentage that stands for the part of the nodes, to the last bit.
Texts coverageOf(const CompileSpec& spec) {
  if (spec.requiredCoverage <= 0) return {};
  // Wider than a double, so that the product is exact.
  long double percent = static_cast<long double>(spec.requiredCoverage) * 100;
  for (int digits = 1; digits < 17; ++digits) {
    std::string text = fmt::format("{:.{}g}", percent, digits);
    if (partOfPercent(text) == spec.requiredCoverage) return {text};
  }
  return {fmt::format("{:.17g}", percent)};
}

bool setQuery(CompileSpec& spec, const std::string& v) {
  Diagnostics problems;
  Result<Query> query = Query::parse(v, problems);
  if (!query) return false;  // names are those of what the module was loaded with
  // What only leaves out, leaves out of what there would be.
  const bool isWhole = !query->included().empty();
  spec.lowering.query = isWhole ? *query : query->including(LowerOptions().query.included());
  return true;
}

bool isUsual(const PlanSettings& s) {
  const PlanSettings usual;
  return s.onFailure == usual.onFailure && s.maxUseRatio == usual.maxUseRatio && s.provenance == usual.provenance &&
         s.from.empty() && s.maxPasses == usual.maxPasses && s.maxNodes == usual.maxNodes;
}

using S = CompileSpec;
constexpr std::string_view kSizes = "NAME=SIZES such as x=1..8x3x224x224, x=2x10:i64, or x=Nx8 beside N=1..8";

constexpr CompileSetting kSettings[] = {
    {"method", "NAME", "the method to take (default: forward)",
     [](S& s, const std::string& v) { return s.lowering.method = v, true; },
     [](const S& s) { return Texts{s.lowering.method}; }},
    {"min-block-size", "N", "no engines of fewer nodes, unless one is the whole graph (default: 3)",
     [](S& s, const std::string& v) { return (s.minBlockSize = numberUpTo(v, UINT64_MAX)).has_value(); },
     [](const S& s) { return s.minBlockSize ? Texts{std::to_string(*s.minBlockSize)} : Texts{}; },
     "a number from 1 up"},
    {"strategy", "greedy|dependency|minimal|cost", "how to cut (default: dependency)", setStrategy,
     [](const S& s) { return Texts{std::string(strategyName(s.strategy))}; }},
    {"torch-executed-op",
     "OP",
     "keep an operator (aten::add) or an overload (aten::add.Tensor) out of engines",
     append<&S::torchExecutedOps>,
     textsOf<&S::torchExecutedOps>,
     {},
     true},
    {"torch-executed-module",
     "MODULE",
     "keep modules of this class, or the one at this path, out of engines",
     append<&S::torchExecutedModules>,
     textsOf<&S::torchExecutedModules>,
     {},
     true},
    {"torch-executed-node",
     "NAME",
     "keep the node that makes this value out of engines",
     append<&S::torchExecutedNodes>,
     textsOf<&S::torchExecutedNodes>,
     {},
     true},
    {"shape", "NAME=SIZES", "sizes of an input, such as x=1..8x3x224x224, x=2x10:i64, or x=Nx8 {shape} N=1..8",
     appendRange<&S::shapes>, rangesOf<&S::shapes>, kSizes, true},
    {"opt-shape", "NAME=SIZES", "sizes to estimate with (default: the largest of {shape})",
     appendRange<&S::usualShapes>, rangesOf<&S::usualShapes>, kSizes, true},
    {"without-converter",
     "OP",
     "keep an operator out of engines as if it had no converter of ours",
     append<&S::withoutConverters>,
     textsOf<&S::withoutConverters>,
     {},
     true},
    {"rewrite", "QUERY", "entries of lowering by tag or name (default: +default), such as '+default,fast_run'",
     setQuery, [](const S& s) { return Texts{s.lowering.query.text()}; },
     "a query of names and tags that 'tscompile passes' lists"},
    {"no-lower", "", "take the graph as it is", [](S& s, const std::string&) { return s.lower = false, true; },
     [](const S& s) { return flag(!s.lower); }},
    {"precision", "f32|f16|bf16|int8", "how engines store weights of products (default: f32)",
     [](S& s, const std::string& v) {
       std::optional<DType> precision = precisionFromName(v);
       if (precision) s.engine.precision = *precision;
       return precision.has_value();
     },
     [](const S& s) { return Texts{std::string(precisionName(s.engine.precision))}; }},
    {"tactics", "model|measure", "choose kernels by a model of their costs (default), or by timing them on {opt-shape}",
     setTactics, [](const S& s) { return Texts{s.engine.measureTactics ? "measure" : "model"}; }},
    {"threads", "N", "threads that {tactics} measure times kernels on (default: one for each processor)",
     [](S& s, const std::string& v) {
       std::optional<uint64_t> n = numberUpTo(v, 4096);
       if (n) s.engine.threads = static_cast<int>(*n);
       return n.has_value();
     },
     [](const S& s) { return s.engine.threads > 0 ? Texts{std::to_string(s.engine.threads)} : Texts{}; },
     "a number from 1 to 4096"},
    {"workspace-size", "SIZE", "memory that a kernel may need for itself, such as 1M, where another one does with less",
     [](S& s, const std::string& v) {
       std::optional<uint64_t> bytes = parseSize(v);
       if (bytes) tacticsOf(s).workspaceLimit = *bytes;
       return bytes.has_value();
     },
     workspaceOf, "a size such as 1M"},
    {"refittable", "",
     "keep what 'tscompile refit' needs to replace weights later; of graph text with weights, such as 'tscompile "
     "convert' writes",
     [](S& s, const std::string&) { return s.refittable = true; }, [](const S& s) { return flag(s.refittable); }},
    {kKeepState, "",
     "runs of one session go on where others ended: what the model writes to its buffers is kept (docs/cpp.md); "
     "without it, more is computed beforehand",
     [](S& s, const std::string&) { return s.lowering.keepsState = true; },
     [](const S& s) { return flag(s.lowering.keepsState); }},
    {.name = "require-full",
     .value = "PERCENT",
     .text = "fail unless so many of the nodes run in engines (default: 100)",
     .set = setCoverage,
     .get = coverageOf,
     .takes = "a percentage from 0 to 100",
     .valueOptional = true},
    // Of C++ alone: texts could not say them.
    {.name = "lowering.database", .get = [](const S& s) { return flag(s.lowering.database != nullptr); }},
    {.name = "lowering.settings", .get = [](const S& s) { return flag(!isUsual(s.lowering.settings)); }},
    {.name = "lowering.arguments", .get = [](const S& s) { return flag(!s.lowering.arguments.empty()); }},
    {.name = "lowering.records", .get = [](const S& s) { return flag(!s.lowering.records.empty()); }},
    {.name = "lowering.unpackPlugins", .get = [](const S& s) { return flag(s.lowering.unpackPlugins); }},
};

}  // namespace

std::span<const CompileSetting> compileSettings() { return kSettings; }

const CompileSetting* findCompileSetting(std::string_view name) {
  auto found = std::find_if(std::begin(kSettings), std::end(kSettings), [&](const auto& s) { return s.name == name; });
  return found == std::end(kSettings) ? nullptr : found;
}

std::vector<std::pair<const CompileSetting*, std::string>> saidSettings(const CompileSpec& spec) {
  const CompileSpec usual;
  std::vector<std::pair<const CompileSetting*, std::string>> out;
  for (const CompileSetting& s : kSettings)
    if (Texts texts = s.get(spec); texts != s.get(usual))
      for (std::string& text : texts) out.emplace_back(&s, std::move(text));
  return out;
}

std::vector<std::string> settingTexts(const CompileSpec& spec) {
  Texts out;
  for (const auto& [setting, value] : saidSettings(spec))
    if (setting->set) out.push_back(std::string(setting->name) + (setting->value.empty() ? "" : "=" + value));
  return out;
}

bool applySetting(CompileSpec& spec, std::string_view text) {
  const size_t equal = text.find('=');
  const CompileSetting* s = findCompileSetting(text.substr(0, equal));
  const bool hasValue = equal != std::string_view::npos;
  if (!s || !s->set || (hasValue ? s->value.empty() : !s->value.empty() && !s->valueOptional)) return false;
  return s->set(spec, hasValue ? std::string(text.substr(equal + 1)) : "");
}

std::string settingProblem(std::string_view text, char separator) {
  const size_t equal = text.find('=');
  const std::string_view name = text.substr(0, equal);
  auto spelled = [&](std::string_view words) {
    std::string out = abbreviate(words, 80);
    std::replace(out.begin(), out.end(), '-', separator);
    return out;
  };
  auto meant = [](const NearestName& nearest, const std::string& as) {
    return nearest.found() ? ", did you mean '" + as + "'?" : "";
  };
  const CompileSetting* s = findCompileSetting(name);
  if (!s || !s->set) {
    NearestName nearest(name);
    for (const CompileSetting& known : kSettings)
      if (known.set) nearest.consider(known.name);
    std::string known;
    for (const CompileSetting& other : kSettings)
      if (other.set) known += (known.empty() ? "" : ", ") + spelled(other.name);
    return fmt::format("there is no setting '{}'{}", spelled(name),
                       nearest.found() ? meant(nearest, spelled(nearest.name())) : "; there are " + known);
  }
  if (s->value.empty()) return spelled(name) + " takes no value";
  const bool isChoice = s->value.find('|') != std::string_view::npos;
  if (equal == std::string_view::npos) return fmt::format("{} needs a value: {}", spelled(name), s->value);
  const std::string_view value = text.substr(equal + 1);
  NearestName nearest(value);
  std::string choices;
  for (std::string_view choice : split(s->value, '|')) {
    if (isChoice) nearest.consider(choice);
    choices += (choices.empty() ? "" : ", ") + std::string(choice);
  }
  return fmt::format("{} takes {}, not '{}'{}", spelled(name),
                     !s->takes.empty() ? std::string(s->takes)
                     : isChoice        ? "one of " + choices
                                       : std::string(s->value),
                     abbreviate(value, 80), meant(nearest, nearest.name()));
}

std::optional<double> partOfPercent(const std::string& text) {
  std::optional<double> percent = parseReal(text);
  if (!percent) return std::nullopt;
  // A number with an exponent of its own cannot have another one.
  std::optional<double> part = parseReal(text + "e-2");
  return part ? *part : *percent / 100;
}

std::string_view precisionName(DType precision) {
  for (const auto& [name, dtype] : kPrecisions)
    if (dtype == precision) return name;
  return {};
}

std::optional<DType> precisionFromName(std::string_view name) {
  constexpr std::string_view kTorch = "torch.";
  if (name.starts_with(kTorch)) name.remove_prefix(kTorch.size());
  std::optional<DType> said = dtypeFromName(name);
  if (!said) said = dtypeFromForeignName(name);
  for (const auto& [known, dtype] : kPrecisions)
    if (known == name || dtype == said) return dtype;
  return std::nullopt;
}

}  // namespace tscompile
