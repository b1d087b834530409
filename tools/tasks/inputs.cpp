#include "tools/tasks/inputs.h"

#include "api/value_text.h"
#include "ir/support/split.h"
#include "ir/support/text.h"
#include "tools/tasks/partitioning.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

std::string describeInput(const ValueInfo& v) { return "%" + v.name + " : " + typeText(withoutRefinement(v.type)); }

// A value that the user may start from.
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
    case TypeKind::Optional:
      return example(type->element());
    case TypeKind::List: {
      std::string element = example(type->element());
      return "'[" + (element[0] == '\'' ? element.substr(1, element.size() - 2) : element) + "]'";
    }
    case TypeKind::Tuple:
      return "'(...)'";
    case TypeKind::Dict:
      return "'{...}'";
    default:
      return "@FILE.npy";
  }
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
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
    for (std::string_view line : split(*text, '\n'))
      if (line = trim(line); !line.empty() && line[0] != '#') out.push_back(withFolder(line, folder));
  }
  out.insert(out.end(), command.inputs.begin(), command.inputs.end());
  return out;
}

Result<std::vector<IValue>> InputReader::read(const std::vector<std::string>& texts) {
  bool good = true;
  for (const std::string& text : texts) good &= one(text);
  if (!good) return Failed{};
  return complete();
}

Result<std::vector<IValue>> InputReader::readOrMake(const std::vector<std::string>& texts, uint64_t seed) {
  bool good = true;
  for (const std::string& text : texts) good &= one(text);
  for (size_t i = 0; i < wanted_.size() && good; ++i) {
    std::optional<std::string> text = given_[i] ? std::nullopt : randomText(wanted_[i].type, seed + i);
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
  for (size_t i = 0; i < wanted_.size(); ++i) {
    if (given_[i]) {
      out.push_back(*given_[i]);
      continue;
    }
    // Compilers number the names of the source: %mask.1.
    const std::string& name = wanted_[i].name;
    auto known = defaults_.find(name);
    if (known == defaults_.end()) known = defaults_.find(name.substr(0, name.rfind('.')));
    if (known != defaults_.end()) {
      out.push_back(known->second);
      continue;
    }
    if (wanted_[i].type->is(TypeKind::Optional)) {
      none += (none.empty() ? "%" : ", %") + wanted_[i].name;
      out.emplace_back();
      continue;
    }
    if (missing.message.empty()) missing.message = "no value was given for input " + describeInput(wanted_[i]);
    missing.notes.push_back(
        "give it with --input " + wanted_[i].name + "=" + example(wanted_[i].type) +
        (wanted_[i].type->isTensor() ? ", or --input " + wanted_[i].name + "=2x3:f32:randn(seed=0)" : ""));
  }
  if (!missing.message.empty()) {
    if (missing.notes.size() > 1) missing.message += fmt::format(", nor for {} more", missing.notes.size() - 1);
    throw missing;
  }
  if (!none.empty()) session_.note("None is given for " + none);
  return out;
}

bool InputReader::one(const std::string& text) {
  size_t equal = text.find('=');
  // A single input needs no name: "1x3x224x224:f32:randn(seed=0)" has '=' only behind a bracket.
  const bool isNamed = equal != std::string::npos && equal > 0 && text.find_first_of("(:@[{\"") > equal;
  if (!isNamed && wanted_.size() != 1) throw UsageError{"--input takes NAME=VALUE, not '" + abbreviate(text, 80) + "'"};
  size_t i = isNamed ? inputOf(wanted_, text.substr(0, equal)) : 0;
  if (given_[i]) throw UsageError{"input %" + wanted_[i].name + " was given twice"};
  Diagnostics& diagnostics = session_.diagnostics;
  size_t before = diagnostics.list().size();
  Result<IValue> value =
      parseValueText(std::string_view(text).substr(isNamed ? equal + 1 : 0), "--input " + wanted_[i].name, diagnostics,
                     wanted_[i].type, session_.common.limits);
  if (value) {
    if (value->isString() && wanted_[i].type->is(TypeKind::Device))
      if (std::optional<Device> device = deviceFromText(value->toString())) *value = *device;
    if (TypePtr t = withoutRefinement(wanted_[i].type); !isInstance(*value, t))
      throw UsageError{"input %" + wanted_[i].name + " takes " + typeText(t) + ", not " +
                       typeText(withoutRefinement(dynamicType(*value)))};
    given_[i] = std::move(*value);
    return true;
  }
  // A file that is wrong is an input; a value that cannot be read is a fault of the command line.
  if (diagnostics.list().size() > before && diagnostics.list()[before].kind == ErrorKind::Input &&
      diagnostics.list()[before].path.empty()) {
    const Diagnostic d = diagnostics.list()[before];
    diagnostics.clear();
    UsageError error{"--input " + wanted_[i].name + ": " + d.message};
    for (const Diagnostic& note : d.notes) error.notes.push_back(note.message);
    throw error;
  }
  return false;
}

}  // namespace tscompile
