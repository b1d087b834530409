#include "api/exported_sizes.h"

#include "api/named_inputs.h"
#include "api/support/bounded_json.h"
#include "api/symbolic_ranges.h"
#include "ir/support/text.h"
#include "ir/values/size_symbols.h"
#include "passes/lowering/bound_inputs.h"
#include "passes/serving/input_roles.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace tscompile {
namespace {

// Where a program has one size only.
constexpr const char* kFixed = "torch.export takes dynamic_shapes= for dimensions that are to vary";

// The first dimension that had a symbol.
struct Known {
  int64_t size;
  const ExportedInput* input;
  int dim;
};

std::string boundsText(const ExportedSize& s) {
  if (s.least == s.most) return std::to_string(s.least);
  if (s.most == std::numeric_limits<int64_t>::max()) return fmt::format("{} and above", s.least);
  return fmt::format("{}..{}", s.least, s.most);
}

// The same as --shape has it.
std::string rangeText(const ExportedSize& s) {
  if (s.least == s.most) return std::to_string(s.least);
  return fmt::format("{}..{}", s.least,
                     s.most == std::numeric_limits<int64_t>::max() ? std::string() : std::to_string(s.most));
}

class SizeChecker {
 public:
  explicit SizeChecker(Diagnostics& diagnostics, ErrorKind kind = ErrorKind::Model)
      : diagnostics_(diagnostics), kind_(kind) {}

  bool check(const ExportedInput& input, const Tensor& t) {
    if (static_cast<size_t>(t.rank()) != input.sizes.size())
      return fail(fmt::format("input %{} has {}, not {}", input.name,
                              counted(static_cast<size_t>(t.rank()), "dimension"), input.sizes.size()));
    bool good = true;
    for (int d = 0; d < t.rank(); ++d) good = check(input, d, t.size(d)) && good;
    return good;
  }

  // After all inputs: sizes that are expressions of symbols, which others may tell.
  bool checkExpressions() {
    if (expressions_.empty()) return true;
    SizeSymbols symbols;
    auto bind = [&](SizeExpression told, int64_t size) {
      const int64_t as = told.size();
      symbols.bind(DimSpan(&as, 1), DimSpan(&size, 1));
    };
    for (const auto& [name, known] : symbols_) bind(SizeExpression::symbol(name), known.size);
    for (const Expression& e : expressions_) bind(e.told, e.size);
    bool good = true;
    for (const Expression& e : expressions_)
      if (auto value = symbols.valueOf(e.told); value && *value != e.size)
        good = fail(fmt::format("dimension {} of input %{} is {}, but the program was exported for {}", e.dim,
                                partName(e.input->name, e.input->path), e.size, e.told.text()));
    return good;
  }

 private:
  bool fail(std::string message, bool isFixed = false) {
    Diagnostic& d = diagnostics_.error(std::move(message), kind_);
    if (isFixed && !std::exchange(toldOfFixed_, true)) d.note(kFixed);
    return false;
  }
  bool check(const ExportedInput& input, int d, int64_t size) {
    const ExportedSize& s = input.sizes[static_cast<size_t>(d)];
    if (size < s.least || size > s.most)
      return fail(fmt::format("dimension {} of input %{} is {}, but the program was exported for {}", d,
                              partName(input.name, input.path), size, boundsText(s)),
                  s.least == s.most);
    if (s.symbol.empty()) return true;
    if (!isName(s.symbol)) return checkLater(input, d, size, s.symbol);
    auto [at, isNew] = symbols_.try_emplace(s.symbol, Known{size, &input, d});
    if (isNew || at->second.size == size) return true;
    return fail(
        fmt::format("dimension {} of input %{} is {}, but dimension {} of input %{}, which must be the same, is {}", d,
                    partName(input.name, input.path), size, at->second.dim,
                    partName(at->second.input->name, at->second.input->path), at->second.size));
  }

  static bool isName(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)); });
  }
  bool checkLater(const ExportedInput& input, int d, int64_t size, const std::string& text) {
    auto told = SizeExpression::parse(text, [](std::string_view name) { return SizeExpression::symbol(name); });
    if (told) expressions_.push_back({*told, size, &input, d});
    return true;
  }

  struct Expression {
    SizeExpression told;
    int64_t size;
    const ExportedInput* input;
    int dim;
  };
  Diagnostics& diagnostics_;
  ErrorKind kind_;
  bool toldOfFixed_ = false;
  std::map<std::string, Known, std::less<>> symbols_;
  std::vector<Expression> expressions_;
};

const IValue* partOf(std::string_view input, const std::vector<std::string>& path, std::span<const ValueInfo> inputs,
                     std::span<const IValue> values) {
  for (size_t i = 0; i < std::min(inputs.size(), values.size()); ++i)
    if (inputs[i].name == input) return valueAt(values[i], path);
  return nullptr;
}

std::optional<InputCondition::Number> numberOf(const InputCondition::Source& source, const IValue& value) {
  if (value.isTensor()) {
    const Tensor t = Tensor::share(value.tensorImpl());
    if (source.kind == InputCondition::Source::Kind::Value || source.dim >= t.rank()) return std::nullopt;
    return source.kind == InputCondition::Source::Kind::Size ? t.size(source.dim) : t.stride(source.dim);
  }
  if (source.kind != InputCondition::Source::Kind::Value) return std::nullopt;
  if (value.isInt()) return value.toInt();
  if (value.isBool()) return int64_t{value.toBool()};
  return value.isFloat() ? std::optional<InputCondition::Number>(value.toFloat()) : std::nullopt;
}

std::string numberText(InputCondition::Number number) {
  return std::holds_alternative<int64_t>(number) ? std::to_string(std::get<int64_t>(number))
                                                 : fmt::format("{}", std::get<double>(number));
}

bool checkCondition(const InputCondition& condition, std::span<const ValueInfo> inputs, std::span<const IValue> values,
                    Diagnostics& diagnostics, ErrorKind kind = ErrorKind::Model) {
  std::vector<std::optional<InputCondition::Number>> numbers;
  for (const InputCondition::Source& s : condition.sources()) {
    const IValue* value = partOf(s.input, s.path, inputs, values);
    numbers.push_back(value ? numberOf(s, *value) : std::nullopt);
    if (!numbers.back()) return true;  // a wrong input is refused as such
  }
  if (condition.holds(numbers).value_or(false)) return true;
  std::string given;
  for (size_t i = 0; i < numbers.size(); ++i)
    given += fmt::format("{}{} is {}", i ? ", " : "", condition.sources()[i].text(), numberText(*numbers[i]));
  Diagnostic& refusal = diagnostics.error(
      fmt::format("{}, but the program was exported for inputs where {}", given, condition.words()), kind);
  if (condition.asksForStrides())
    refusal.note(
        "the example did not lie in order (a slice): exported with x.contiguous(), the program asks for no strides");
  return false;
}

}  // namespace

bool checkExportedInputs(const ExportedInputs& exported, std::span<const ValueInfo> inputs,
                         std::span<const IValue> values, Diagnostics& diagnostics) {
  SizeChecker checker(diagnostics);
  bool good = true;
  for (const ExportedInput& size : exported.tensors)
    if (const IValue* value = partOf(size.name, size.path, inputs, values); value && value->isTensor())
      good = checker.check(size, Tensor::share(value->tensorImpl())) && good;
  good = checker.checkExpressions() && good;
  for (const InputCondition& condition : exported.conditions)
    good = good && checkCondition(condition, inputs, values, diagnostics);
  return good;
}

bool checkExportedRanges(std::span<const ExportedInput> sizes, std::span<const InputRange> ranges,
                         Diagnostics& diagnostics) {
  bool good = true, toldOfFixed = false;
  auto fail = [&](std::string message, bool isFixed = false) {
    Diagnostic& d = diagnostics.error(std::move(message), ErrorKind::Input);
    if (isFixed && !std::exchange(toldOfFixed, true)) d.note(kFixed);
    good = false;
  };
  for (const ExportedInput& input : sizes)
    for (const InputRange& range : ranges) {
      if (range.name != partName(input.name, input.path)) continue;
      if (range.most.size() != input.sizes.size()) {
        fail(fmt::format("input %{} has {}, not {}", range.name, counted(input.sizes.size(), "dimension"),
                         range.most.size()));
        continue;
      }
      for (size_t d = 0; d < range.most.size(); ++d) {
        const SizeRange asked = boundsOf(range, d);
        if (asked.least < input.sizes[d].least || asked.most > input.sizes[d].most)
          fail(fmt::format("dimension {} of input %{} is to be {}, but the program was exported for {}", d, range.name,
                           boundsText({asked.least, asked.most, {}}), boundsText(input.sizes[d])),
               input.sizes[d].least == input.sizes[d].most);
      }
    }
  return good;
}

std::optional<ExportedInputs> withBoundInputs(const ExportedInputs& exported, const RewriteArguments& arguments,
                                              Diagnostics& diagnostics) {
  std::vector<ValueInfo> inputs;
  std::vector<IValue> values;
  for (const auto& [name, value] : arguments) {
    if (!name.starts_with(kBoundInput)) continue;
    inputs.push_back({name.substr(kBoundInput.size()), dynamicType(value)});
    values.push_back(value);
  }
  ExportedInputs out;
  std::map<std::string, int64_t, std::less<>> symbols;  // sizes of known tensors
  SizeChecker checker(diagnostics, ErrorKind::Input);
  bool good = true;
  for (const ExportedInput& input : exported.tensors) {
    if (std::ranges::find(inputs, input.name, &ValueInfo::name) == inputs.end()) {
      out.tensors.push_back(input);
      continue;
    }
    const IValue* value = partOf(input.name, input.path, inputs, values);
    if (!value || !value->isTensor() || !value->tensorImpl()) continue;
    const Tensor t = Tensor::share(value->tensorImpl());
    good = checker.check(input, t) && good;
    for (size_t d = 0; good && d < input.sizes.size(); ++d)
      symbols.try_emplace(input.sizes[d].symbol, t.size(static_cast<int>(d)));
  }
  for (ExportedInput& input : out.tensors)
    for (ExportedSize& s : input.sizes)
      if (auto found = symbols.find(s.symbol); !s.symbol.empty() && found != symbols.end())
        s.least = s.most = found->second;
  for (const InputCondition& condition : exported.conditions) {
    std::optional<InputCondition> rest = condition.knowing([&](const InputCondition::Source& s) {
      const IValue* value = partOf(s.input, s.path, inputs, values);
      return value ? numberOf(s, *value) : std::nullopt;
    });
    if (!rest) continue;
    if (!rest->sources().empty()) {
      out.conditions.push_back(std::move(*rest));
    } else if (!rest->holds({}).value_or(false)) {
      good = checkCondition(condition, inputs, values, diagnostics, ErrorKind::Input) && good;
    }
  }
  return good ? std::optional(std::move(out)) : std::nullopt;
}

int64_t mostByConditions(const ExportedInputs& exported, const ExportedInput& input, size_t dim, int64_t most) {
  constexpr size_t kMostTried = size_t{1} << 16, kMostWork = size_t{1} << 28;
  auto expressionAt = [&](const InputCondition::Source& s) {
    const auto tensor = std::ranges::find_if(
        exported.tensors, [&](const ExportedInput& t) { return t.name == s.input && t.path == s.path; });
    const bool isSize = tensor != exported.tensors.end() && s.kind == InputCondition::Source::Kind::Size &&
                        static_cast<size_t>(s.dim) < tensor->sizes.size();
    if (!isSize) return SizeExpression::unknown();
    const ExportedSize& size = tensor->sizes[static_cast<size_t>(s.dim)];
    if (size.least == size.most) return SizeExpression(size.least);
    return SizeExpression::parse(size.symbol, [](std::string_view name) { return SizeExpression::symbol(name); })
        .value_or(SizeExpression::unknown());
  };
  std::vector<std::vector<SizeExpression>> sources;
  size_t work = 1;  // of each size that is tried
  for (const InputCondition& c : exported.conditions) {
    work += c.text().size();
    std::vector<SizeExpression>& sizes = sources.emplace_back();
    for (const InputCondition::Source& s : c.sources()) sizes.push_back(expressionAt(s));
  }
  auto hold = [&](int64_t size) {
    auto valueOf = [&](SizeExpression symbol) -> std::optional<int64_t> {
      for (size_t d = 0; d < input.sizes.size(); ++d)
        if (input.sizes[d].symbol == symbol.text()) return d == dim ? size : 1;
      return std::nullopt;
    };
    for (size_t i = 0; i < exported.conditions.size(); ++i) {
      std::vector<std::optional<InputCondition::Number>> numbers;
      for (SizeExpression e : sources[i]) {
        const std::optional<int64_t> value = e.evaluate(valueOf);
        numbers.push_back(value ? std::optional<InputCondition::Number>(*value) : std::nullopt);
      }
      const bool areKnown = std::ranges::all_of(numbers, [](const auto& n) { return n.has_value(); });
      if (areKnown && !exported.conditions[i].holds(numbers).value_or(false)) return false;
    }
    return true;
  };
  bool held = false;
  for (int64_t size = 1; size <= std::min(most, static_cast<int64_t>(std::min(kMostTried, kMostWork / work))); ++size) {
    const bool holds = hold(size);
    // Texts of two tokens may be left out by what tells none from one (`x[:, :-1]`), and longer ones hold again.
    if (held && !holds && (size != 2 || !hold(size + 1))) return size - 1;
    held = held || holds;
  }
  return most;
}

std::string exportedInputJson(const ExportedInput& input) {
  nlohmann::ordered_json sizes = nlohmann::ordered_json::array();
  for (const ExportedSize& s : input.sizes) {
    nlohmann::ordered_json& size = sizes.emplace_back(nlohmann::ordered_json::array());
    size.push_back(s.least), size.push_back(s.most);
    if (!s.symbol.empty()) size.push_back(s.symbol);
  }
  nlohmann::ordered_json out;
  out["name"] = input.name, out["path"] = input.path, out["sizes"] = std::move(sizes);
  const auto isOpen = [](const ExportedSize& s) { return s.least < s.most && s.example >= 0; };
  if (std::ranges::any_of(input.sizes, isOpen))
    for (const ExportedSize& s : input.sizes) out["example"].push_back(s.example);
  if (input.dtype != DType::Undefined) out["dtype"] = pythonName(input.dtype);
  return boundedJsonText(out);
}

std::optional<ExportedInput> parseExportedInput(std::string_view json) {
  const auto value = parseBoundedJson(json);
  auto list = [&](const char* key) -> const nlohmann::ordered_json* {
    auto at = value.is_object() ? value.find(key) : value.end();
    return at != value.end() && at->is_array() ? &*at : nullptr;
  };
  const auto *path = list("path"), *sizes = list("sizes");
  if (!path || !sizes || !value.contains("name") || !value["name"].is_string()) return std::nullopt;
  ExportedInput out;
  out.name = value["name"].get<std::string>();
  for (const auto& step : *path) {
    if (!step.is_string()) return std::nullopt;
    out.path.push_back(step.get<std::string>());
  }
  for (const auto& size : *sizes) {
    const bool isSize = size.is_array() && (size.size() == 2 || (size.size() == 3 && size[2].is_string())) &&
                        size[0].is_number_integer() && size[1].is_number_integer();
    if (!isSize) return std::nullopt;
    out.sizes.push_back({size[0].get<int64_t>(), size[1].get<int64_t>(),
                         size.size() == 3 ? size[2].get<std::string>() : std::string()});
  }
  const auto* example = list("example");
  for (size_t d = 0; example && example->size() == out.sizes.size() && d < out.sizes.size(); ++d)
    if ((*example)[d].is_number_integer()) out.sizes[d].example = (*example)[d].get<int64_t>();
  if (const auto dtype = value.find("dtype"); dtype != value.end() && dtype->is_string())
    out.dtype = dtypeFromName(dtype->get<std::string>()).value_or(DType::Undefined);
  return out;
}

bool mayBeginEmpty(const ExportedInputs& exported, std::span<const std::string> names, Diagnostics& diagnostics) {
  constexpr int64_t kUsualLeast = 2;  // older programs are exported so without having asked for it
  std::set<std::string> shared;
  int64_t tokens = 0;  // of a call, if they are known
  auto isNamed = [&](const ExportedInput& input) { return std::ranges::find(names, input.name) != names.end(); };
  for (const ExportedInput& input : exported.tensors)
    if (isNamed(input)) {
      for (const ExportedSize& size : input.sizes) shared.insert(size.symbol);
      if (!input.sizes.empty() && input.sizes.back().least == input.sizes.back().most)
        tokens = std::max(tokens, input.sizes.back().most);
    }
  for (const ExportedInput& input : exported.tensors)
    for (size_t d = 0; d < input.sizes.size() && !isNamed(input); ++d) {
      const ExportedSize& size = input.sizes[d];
      // A mask is of the call's own tokens as well.
      const bool isMask = roleOfName(input.name) == ServingInput::Mask;
      const int64_t least = kUsualLeast + (isMask ? tokens : 0);
      if (size.symbol.empty() || shared.contains(size.symbol) || size.least <= least) continue;
      diagnostics
          .error(fmt::format("the program was exported for %{} of {} or more in dimension {}, and a text begins with "
                             "none",
                             input.name, size.least, d),
                 ErrorKind::Input)
          .note(
              "what the model does with a cache, such as taking its last tokens, is to hold for an empty one as well");
      return false;
    }
  return true;
}

namespace {
constexpr std::string_view kInputEntry = "exported-input:", kConditionEntry = "exported-condition:";
// In the order of the entries' names.
std::string entryName(std::string_view kind, size_t index) { return fmt::format("{}{:04}", kind, index); }
}  // namespace

void writeExportedInputs(const ExportedInputs& exported, Metadata& metadata) {
  for (size_t i = 0; i < exported.tensors.size(); ++i)
    metadata[entryName(kInputEntry, i)] = exportedInputJson(exported.tensors[i]);
  for (size_t i = 0; i < exported.conditions.size(); ++i)
    metadata[entryName(kConditionEntry, i)] = exported.conditions[i].text();
}

ExportedInputs readExportedInputs(const Metadata& metadata) {
  ExportedInputs out;
  for (const auto& [name, value] : metadata) {
    if (startsWith(name, kInputEntry))
      if (std::optional<ExportedInput> input = parseExportedInput(value)) out.tensors.push_back(std::move(*input));
    if (startsWith(name, kConditionEntry))
      if (std::optional<InputCondition> c = InputCondition::parse(value)) out.conditions.push_back(std::move(*c));
  }
  return out;
}

std::string exportedInputText(const ExportedInput& input) {
  std::string out = input.name;
  for (const std::string& step : input.path) out += "." + step;
  out += "=";
  for (size_t d = 0; d < input.sizes.size(); ++d) {
    const ExportedSize& s = input.sizes[d];
    if (d) out += "x";
    out += s.symbol.empty() ? rangeText(s) : s.symbol + "[" + rangeText(s) + "]";
  }
  return out;
}

}  // namespace tscompile
