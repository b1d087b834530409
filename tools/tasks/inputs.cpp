#include "tools/tasks/inputs.h"

#include "api/named_inputs.h"
#include "api/value_text.h"
#include "frontend/files/file_kind.h"
#include "ir/support/split.h"
#include "ir/support/text.h"
#include "ir/values/shape.h"
#include "ir/values/size_symbols.h"
#include "tools/tasks/partitioning.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

namespace tscompile {
namespace {

std::string describeInput(const ValueInfo& v) { return "%" + v.name + " : " + typeText(withoutRefinement(v.type)); }

// A value that the user may start from.
std::string example(TypePtr type);

// Within a list or dict, whose quotes are around all of it.
std::string exampleInside(TypePtr type) {
  std::string out = example(type);
  return out[0] == '\'' ? out.substr(1, out.size() - 2) : out;
}

std::string example(TypePtr type) {
  switch (type->kind()) {
    case TypeKind::Int:
      return "3";
    case TypeKind::Float:
    case TypeKind::Number:
      return "2.5";
    case TypeKind::Bool:
      return "true";
    case TypeKind::String:
      return "'\"text\"'";
    case TypeKind::Device:
      return "'\"cpu\"'";
    case TypeKind::Enum:
      return std::string(type->name().substr(type->name().rfind('.') + 1)) + ".MEMBER";
    case TypeKind::Optional:
      return example(type->element());
    case TypeKind::List:
      return "'[" + exampleInside(type->element()) + "]'";
    case TypeKind::Tuple:
      return "'(...)'";
    case TypeKind::Dict:
      return "'{" + exampleInside(type->element()) + ": " + exampleInside(type->element(1)) + "}'";
    default:
      return "@FILE.npy";
  }
}

// A line of a file of inputs, where no shell takes quotes away.
std::string lineOf(const ValueInfo& input) {
  std::string value = example(input.type);
  if (value.starts_with('\'')) value = value.substr(1, value.size() - 2);
  return input.name + "=" + value;
}

// Sizes that most models take where any are allowed, and those that follow from inputs that were given: one symbol is
// one number in all inputs. A batch is of one.
class LikelySizes {
 public:
  void learn(const ValueInfo& input, const IValue& given) {
    if (!input.type->isTensor() || !given.isTensor() || !given.tensorImpl()) return;
    const DimSpan said = input.type->tensor().sizes, sizes = given.toTensor().sizes();
    if (said.size() == sizes.size()) symbols_.bind(said, sizes);
  }
  // Whether an input may have this value beside those that were learnt.
  bool allow(const ValueInfo& input, const IValue& value) const {
    if (!input.type->isTensor() || !value.isTensor() || !value.tensorImpl()) return true;
    const DimSpan said = input.type->tensor().sizes, sizes = value.toTensor().sizes();
    return said.size() != sizes.size() || !symbols_.firstOther(said, sizes);
  }
  // The type with the sizes that follow from those that were learnt.
  TypePtr followed(TypePtr type) const {
    if (!type->isTensor() || !type->tensor().hasRank) return type;
    TensorFacts facts = type->tensor();
    for (int64_t& size : facts.sizes)
      if (!isKnownSize(size) && size != kUnknownSize)
        if (const std::optional<int64_t> value = symbols_.valueOf(SizeExpression::ofSize(size)); value && *value >= 0)
          size = *value;
    return tensorType(facts);
  }
  int64_t at(DimSpan sizes, size_t d) {
    if (isKnownSize(sizes[d])) return sizes[d];
    const bool isTold = sizes[d] != kUnknownSize;
    const SizeExpression told = SizeExpression::ofSize(sizes[d]);
    if (std::optional<int64_t> follows = isTold ? symbols_.valueOf(told) : std::nullopt; follows && *follows >= 0)
      return *follows;
    const SizeRange range = isTold ? told.range() : SizeRange{0, INT64_MAX};
    const int64_t most = std::max<int64_t>(range.most, 1);
    const int64_t likely =
        std::clamp<int64_t>(d == 0 && sizes.size() > 1 ? 1 : 32, std::clamp<int64_t>(range.least, 1, most), most);
    if (isTold) symbols_.bind(sizes.subspan(d, 1), DimSpan(&likely, 1));
    return likely;
  }

 private:
  SizeSymbols symbols_;
};

// ", or random numbers with --shape x=1x3x224x224"; where the type says nothing, some sizes.
std::string shapeHint(const ValueInfo& input, LikelySizes& sizesOf,
                      const std::function<std::string(const ValueInfo&)>& likely) {
  // What is in a list or dict has names; images are what most such lists have.
  if (const std::string parts = input.type->isTensor() || !likely ? "" : likely(input); !parts.empty())
    return ", or random numbers with " + parts;
  if (input.type->is(TypeKind::List) && input.type->element()->isTensor())
    return ", or random numbers with --shape " + input.name + ".0=3x224x224";
  if (input.type->is(TypeKind::Dict) && input.type->element(1)->isTensor())
    return ", or random numbers with --shape " + input.name + ".KEY=2x3:f32 for each of its keys";
  if (!input.type->isTensor()) return "";
  const TensorFacts& f = input.type->tensor();
  if (f.hasRank && f.sizes.empty()) return "";
  if (std::string sizes = likely ? likely(input) : ""; !sizes.empty())
    return ", or random numbers with --shape " + input.name + "=" + sizes;
  const bool isFloat = f.dtype == DType::Undefined || f.dtype == DType::Float32;
  std::string sizes = f.hasRank ? "" : "2x3";
  for (size_t d = 0; f.hasRank && d < f.sizes.size(); ++d)
    sizes += (d ? "x" : "") + std::to_string(sizesOf.at(f.sizes, d));
  return ", or random numbers with --shape " + input.name + "=" + sizes +
         (isFloat ? (f.hasRank ? "" : ":f32") : ":" + std::string(shortName(f.dtype)));
}

// What a message quotes: "2x4" of "'2x4' is not a number".
std::string_view quotedIn(std::string_view message) {
  const size_t begin = message.find('\''), end = message.rfind('\'');
  return begin == end ? std::string_view() : message.substr(begin + 1, end - begin - 1);
}

// What a value that cannot be read may be meant as.
std::string meantAs(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  std::error_code ignored;
  if (!text.empty() && text[0] != '@' && std::filesystem::is_regular_file(std::string(text), ignored))
    return "a file is written with @ before its name: @" + abbreviate(text, 80);
  for (std::string_view ending : {".npy", ".npz", ".safetensors"})
    if (text.ends_with(ending) && text[0] != '@')
      return "a file is written with @ before its name: @" + abbreviate(text, 80);
  // Only sizes, or a dtype as well: 1x3x224x224, 1,3,224,224, 1x9:i64.
  const size_t colon = text.find(':');
  const std::optional<DType> said =
      colon == std::string_view::npos ? DType::Float32 : dtypeFromName(text.substr(colon + 1));
  if (!said) return "";
  std::string sizes(text.substr(0, colon));
  std::replace(sizes.begin(), sizes.end(), ',', 'x');
  if (sizes.size() > 60 || sizes.find('x') == std::string::npos ||
      sizes.find_first_not_of("x0123456789") != std::string::npos || kDigits.find(sizes.back()) == std::string::npos)
    return "";
  return fmt::format("a tensor of random numbers is {}:{}:{}", sizes, shortName(*said),
                     isFloating(*said) || isComplex(*said) ? "randn(seed=0)" : "randint(0, 2, seed=0)");
}

}  // namespace

std::optional<std::string> randomText(TypePtr type, uint64_t seed) {
  if (!type->isTensor()) return std::nullopt;
  const TensorFacts& f = type->tensor();
  if (f.dtype == DType::Undefined || !f.hasRank || !allKnown(f.sizes)) return std::nullopt;
  std::string sizes = f.sizes.empty() ? "scalar" : join(f.sizes, "x", [](int64_t n) { return std::to_string(n); });
  bool continuous = isFloating(f.dtype) || isComplex(f.dtype);
  return fmt::format("{}:{}:{}seed={})", sizes, shortName(f.dtype), continuous ? "randn(" : "randint(0, 2, ", seed);
}

namespace {

// The line with the paths in it, `@x.npy`, taken from `folder`.
std::string withFolder(std::string_view line, const std::string& folder) {
  std::string out;
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    out += line[i];
    if (quoted && line[i] == '\\' && i + 1 < line.size())
      out += line[++i];
    else if (line[i] == '"')
      quoted = !quoted;
    if (quoted || line[i] != '@') continue;
    if (i + 1 < line.size() && line[i + 1] == '"') out += line[++i], quoted = true;
    if (i + 1 < line.size() && line[i + 1] != '/') out += folder;
  }
  return out;
}

}  // namespace

Result<std::vector<std::string>> givenInputs(const RunCommand& command, Session& session) {
  std::vector<std::string> out;
  for (const std::string& path : command.inputFiles) {
    Result<std::string> text = session.read(path);
    if (!text) return Failed{};
    const FileKind kind = detectFileKind(std::string_view(*text).substr(0, kFileKindBytes));
    if (kind == FileKind::Npy || kind == FileKind::Npz || kind == FileKind::Safetensors) {
      reportFileKind(path, "lines NAME=VALUE", kind, session.diagnostics)
          .note("tensors of files are given by --input NAME=@FILE, or by such lines");
      return Failed{};
    }
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
    for (std::string_view line : split(*text, '\n'))
      if (line = trim(line); !line.empty() && line[0] != '#') out.push_back(withFolder(line, folder));
  }
  out.insert(out.end(), command.inputs.begin(), command.inputs.end());
  return out;
}

Result<std::vector<IValue>> InputReader::read(const std::vector<std::string>& texts) {
  if (!readTexts(texts)) return Failed{};
  takeExamples();
  return complete();
}

Result<std::vector<std::optional<IValue>>> InputReader::readGiven(const std::vector<std::string>& texts) {
  if (!readTexts(texts)) return Failed{};
  return given_;
}

// A single input needs no name: "1x3x224x224:f32:randn(seed=0)" has '=' only behind a bracket.
static bool isNamed(std::string_view text) {
  const size_t equal = text.find('=');
  return equal != std::string_view::npos && equal > 0 && text.find_first_of("(:@[{\"") > equal;
}

bool InputReader::readTexts(const std::vector<std::string>& texts) {
  bool good = true;
  for (const std::string& text : texts)
    if (isNamed(text)) good &= one(text);
  for (const std::string& text : texts)
    if (!isNamed(text)) good &= one(text);
  return good;
}

void InputReader::takeExamples() {
  if (examples_.empty()) return;
  LikelySizes sizes;
  std::vector<IValue> all;
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const auto example = examples_.find(wanted_[i].name);
    const IValue* known = defaultOf(wanted_[i]);
    if (given_[i]) sizes.learn(wanted_[i], *given_[i]);
    all.push_back(given_[i] ? *given_[i] : known ? *known : example == examples_.end() ? IValue() : example->second);
  }
  const bool agree = agree_(all);
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const auto example = examples_.find(wanted_[i].name);
    if (given_[i] || defaultOf(wanted_[i]) || example == examples_.end()) continue;
    if (!agree && !(wanted_[i].type->isTensor() && sizes.allow(wanted_[i], example->second))) continue;
    given_[i] = example->second;
    ofExamples_.push_back(wanted_[i].name);
  }
  if (ofExamples_.empty()) return;
  session_.note(ofExamples_.size() == wanted_.size()
                    ? "the inputs are those that the program was exported with"
                    : fmt::format("%{} {} the program was exported with", fmt::join(ofExamples_, ", %"),
                                  ofExamples_.size() == 1 ? "is what" : "are those that"));
}

Result<std::vector<IValue>> InputReader::readOrMake(const std::vector<std::string>& texts, uint64_t seed) {
  bool good = readTexts(texts);
  if (good) takeExamples();
  LikelySizes sizes;
  for (size_t i = 0; i < wanted_.size(); ++i)
    if (given_[i]) sizes.learn(wanted_[i], *given_[i]);
  for (size_t i = 0; i < wanted_.size() && good; ++i) {
    const bool isKnown = given_[i] || defaultOf(wanted_[i]);
    std::optional<std::string> text = isKnown ? std::nullopt : randomText(sizes.followed(wanted_[i].type), seed + i);
    if (!text) continue;
    Result<IValue> value = parseValueText(*text, "input %" + wanted_[i].name, session_.diagnostics, wanted_[i].type,
                                          session_.common.limits);
    good &= bool(value);
    if (value) given_[i] = std::move(*value);
  }
  if (!good) return Failed{};
  return complete();
}

std::vector<IValue> InputReader::complete() const {
  std::vector<IValue> out;
  std::string none;
  UsageError missing;
  LikelySizes sizes;
  for (size_t i = 0; i < wanted_.size(); ++i)
    if (given_[i]) sizes.learn(wanted_[i], *given_[i]);
  for (size_t i = 0; i < wanted_.size(); ++i) {
    if (given_[i]) {
      out.push_back(*given_[i]);
      continue;
    }
    if (const IValue* known = defaultOf(wanted_[i])) {
      out.push_back(*known);
      continue;
    }
    if (wanted_[i].type->is(TypeKind::Optional)) {
      none += (none.empty() ? "%" : ", %") + wanted_[i].name;
      out.emplace_back();
      continue;
    }
    if (missing.message.empty()) missing.message = "no value was given for input " + describeInput(wanted_[i]);
    missing.notes.push_back(isOfFile_
                                ? "give it by a line " + lineOf(wanted_[i]) + " in " + files_[0]
                                : "give it with " + exampleOf(wanted_[i]) + shapeHint(wanted_[i], sizes, likely_));
  }
  if (!missing.message.empty()) {
    if (missing.notes.size() > 1) missing.message += fmt::format(", nor for {} more", missing.notes.size() - 1);
    if (!files_.empty() && !isOfFile_)
      missing.notes.push_back(fmt::format("or by a line NAME=VALUE in {}", fmt::join(files_, ", ")));
    throw missing;
  }
  if (!none.empty()) session_.note("None is given for " + none);
  return out;
}

std::string exampleOf(const ValueInfo& input, const std::string& option) {
  return option + " " + input.name + "=" + example(input.type);
}

std::string valueHint(std::string_view text, std::string_view message) {
  std::string hint = meantAs(text);
  return hint.empty() ? meantAs(quotedIn(message)) : hint;  // an item of a list
}

// {"scale": 2} of scale:2, scale=2 and {scale: 2}; empty: it is none of these.
static std::string withKeysInQuotes(std::string_view text) {
  text = trim(text);
  if (text.starts_with('{') && text.ends_with('}')) text = text.substr(1, text.size() - 2);
  std::string out;
  for (std::string_view part : split(text, ',')) {
    const size_t at = part.find_first_of(":=");
    if (at == std::string_view::npos) return "";
    out += (out.empty() ? "{" : ", ") + jsonQuote(trim(part.substr(0, at))) + ": " +
           std::string(trim(part.substr(at + 1)));
  }
  return out.empty() ? "" : out + "}";
}

std::string meantValue(const ValueInfo& input, std::string_view written, const std::string& option) {
  constexpr size_t kLongest = 200;
  if (written.size() > kLongest || written.find_first_of("'\"") != std::string_view::npos) return "";
  const TypePtr type = withoutRefinement(input.type);
  for (const std::string& text : {"[" + std::string(written) + "]", withKeysInQuotes(written), jsonQuote(written)}) {
    Diagnostics unheard;
    Result<IValue> value = parseValueText(text, "", unheard, type, {});
    if (value && isInstance(*value, type)) return "did you mean " + option + " " + input.name + "='" + text + "'?";
  }
  return "";
}

const IValue* InputReader::defaultOf(const ValueInfo& input) const {
  // Compilers number the names of the source: %mask.1.
  auto known = defaults_.find(input.name);
  if (known == defaults_.end()) known = defaults_.find(input.name.substr(0, input.name.rfind('.')));
  // None is no default any more of what was compiled for a tensor.
  const bool fits = known != defaults_.end() && !(known->second.isNone() && input.type->isTensor());
  return fits ? &known->second : nullptr;
}

std::optional<size_t> InputReader::onlyRequired() const {
  std::vector<size_t> required;
  for (size_t i = 0; i < wanted_.size(); ++i)
    if (!defaultOf(wanted_[i]) && !wanted_[i].type->is(TypeKind::Optional)) required.push_back(i);
  if (required.size() == 1) return required[0];
  return wanted_.size() == 1 ? std::optional<size_t>(0) : std::nullopt;
}

size_t InputReader::nextRequired(const std::string& text) const {
  const std::optional<size_t> only = onlyRequired();
  if (only && !given_[*only]) return *only;
  for (size_t i = 0; i < wanted_.size() && !isOfFile_ && !text.ends_with(".npz"); ++i)
    if (!given_[i]) return i;
  if (only) return *only;
  throw UsageError{"--input takes NAME=VALUE, not '" + abbreviate(text, 80) + "'",
                   {"the graph takes " + join(wanted_, ", ", describeInput),
                    text.starts_with('@') && text.ends_with(".npz") && !wanted_.empty()
                        ? "one input is one member of such a file: --input " + wanted_[0].name + "=" +
                              abbreviate(text, 80) + "#" + wanted_[0].name
                        : "NAME may be a position as well, from 0 on: --input 0=" + abbreviate(text, 80)}};
}

// A container with the part of this name.
static std::string wholeWith(TypePtr type, const std::string& step) {
  if (type->is(TypeKind::Optional)) type = type->element();
  if (type->is(TypeKind::Dict)) return "{" + jsonQuote(step) + ": @" + step + ".npy, ...}";
  return type->is(TypeKind::Tuple) ? "(@0.npy, @1.npy, ...)" : "[@0.npy, @1.npy, ...]";
}

size_t InputReader::named(const std::string& name) const {
  if (findInput(wanted_, name) != kNoInput) return inputOf(wanted_, name);
  for (const ExportedConstant& c : constants_)
    if (c.name == name)
      throw UsageError{"'" + abbreviate(name, 80) + "' is no input: " + how_ + " with " + abbreviate(c.value, 40) +
                       " for it"};
  if (const ContainedInput part = findPart(wanted_, name); part.input != kNoInput && !part.isWhole()) {
    const ValueInfo& whole = wanted_[part.input];
    const std::string& step = part.path.front();
    throw UsageError{
        "'" + abbreviate(name, 80) + "' is in input " + describeInput(whole) + ", which is given as a whole",
        {fmt::format("such as --input {}='{}'", whole.name, wholeWith(whole.type, abbreviate(step, 40)))}};
  }
  return inputOf(wanted_, name);
}

// Whether a text gives a constant its value: numbers and truths as JSON or Python has them, texts with quotes or
// without.
static bool saysConstant(std::string_view text, const ExportedConstant& constant) {
  const size_t equal = text.find('=');
  if (equal == std::string_view::npos || text.substr(0, equal) != constant.name) return false;
  const std::string_view given = trim(text.substr(equal + 1)), value = constant.value;
  if (given == value || (given == "True" && value == "true") || (given == "False" && value == "false")) return true;
  return value.size() >= 2 && value.front() == '"' && given == value.substr(1, value.size() - 2);
}

bool InputReader::one(const std::string& text) {
  size_t equal = text.find('=');
  const bool hasName = isNamed(text);
  if (hasName && findInput(wanted_, std::string_view(text).substr(0, equal)) == kNoInput &&
      std::ranges::any_of(constants_, [&](const ExportedConstant& c) { return saysConstant(text, c); }))
    return true;
  size_t i = hasName ? named(text.substr(0, equal)) : nextRequired(text);
  const std::string where = isOfFile_ ? files_[0] + ": " : "";
  if (given_[i]) throw UsageError{where + "input %" + wanted_[i].name + " was given twice"};
  Diagnostics& diagnostics = session_.diagnostics;
  size_t before = diagnostics.list().size();
  const std::string_view written = std::string_view(text).substr(hasName ? equal + 1 : 0);
  const auto meant = [&]() -> std::string { return isOfFile_ ? "" : meantValue(wanted_[i], written, "--input"); };
  Result<IValue> value =
      parseValueText(written, "--input " + wanted_[i].name, diagnostics, wanted_[i].type, session_.common.limits);
  if (value) {
    if (value->isString() && wanted_[i].type->is(TypeKind::Device))
      if (std::optional<Device> device = deviceFromText(value->toString())) *value = *device;
    if (TypePtr t = withoutRefinement(wanted_[i].type); !isInstance(*value, t)) {
      const std::string better = meant();
      throw UsageError{
          where + "input %" + wanted_[i].name + " takes " + typeText(t) + ", not " +
              typeText(withoutRefinement(dynamicType(*value))),
          {!better.empty() ? better : "such as " + (isOfFile_ ? lineOf(wanted_[i]) : exampleOf(wanted_[i]))}};
    }
    given_[i] = std::move(*value);
    return true;
  }
  blameCommandLine("--input " + wanted_[i].name, written, before, diagnostics, meant());
  return false;
}

void blameCommandLine(const std::string& what, std::string_view written, size_t before, Diagnostics& diagnostics,
                      const std::string& meant) {
  if (diagnostics.list().size() <= before) return;
  const Diagnostic d = diagnostics.list()[before];
  if (d.kind != ErrorKind::Input || !d.path.empty()) return;
  diagnostics.clear();
  UsageError error{what + ": " + d.message};
  for (const Diagnostic& note : d.notes) error.notes.push_back(note.message);
  std::string hint = valueHint(written, d.message);
  if (!meant.empty()) hint = meant;
  if (!hint.empty()) error.notes.assign(1, std::move(hint));
  throw error;
}

}  // namespace tscompile
