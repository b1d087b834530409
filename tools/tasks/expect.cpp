#include "tools/tasks/expect.h"

#include "api/value_text.h"
#include "frontend/files/file_io.h"
#include "frontend/files/weights.h"
#include "ir/support/quantities.h"
#include "ir/support/text.h"
#include "ir/values/literal.h"
#include "ir/values/quantization.h"
#include "tools/options/option_parts.h"
#include "tools/tasks/inputs.h"
#include "tools/tasks/run_outputs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

namespace tscompile {
namespace {

// The bits of an f32 or f64 on a line on which neighbours differ by one.
int64_t place(double v, bool isDouble) {
  if (isDouble) {
    int64_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    return bits < 0 ? INT64_MIN - bits : bits;
  }
  const auto f = static_cast<float>(v);
  int32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  return bits < 0 ? int64_t{INT32_MIN} - bits : bits;
}

size_t classOf(uint64_t ulps) {
  constexpr uint64_t kEnds[] = {0, 1, 4, 16, 1024};
  return static_cast<size_t>(std::lower_bound(std::begin(kEnds), std::end(kEnds), ulps) - std::begin(kEnds));
}

// The tensors among values in the order in which outputs.json numbers them.
void tensorsOf(const IValue& v, const std::string& name, std::vector<std::pair<std::string, Tensor>>& out,
               int depth = 0) {
  constexpr int kDeepest = 64;
  if (depth > kDeepest) return;
  if (v.isTensor()) {
    if (v.tensorImpl()) out.emplace_back(name, v.toTensor());
    return;
  }
  size_t at = 0;
  if (v.isList())
    for (const IValue& i : v.toList().items) tensorsOf(i, name + "." + std::to_string(at++), out, depth + 1);
  if (v.isTuple())
    for (const IValue& i : v.toTuple().items) tensorsOf(i, name + "." + std::to_string(at++), out, depth + 1);
  if (v.isDict())
    v.toDict().forEach([&](const IValue& key, const IValue& value) {
      // As --expect NAME=@FILE takes it.
      const std::string word = key.isString() ? key.toString() : valueText(key, LiteralStyle::Plain);
      tensorsOf(value, name + "." + abbreviate(word, 60), out, depth + 1);
    });
}

// A word that is no value: a folder that is not there.
bool meansFolder(const std::string& text) {
  for (const char* word : {"true", "True", "false", "False", "None", "null", "inf", "nan"})
    if (text == word) return false;
  const bool isPath = text.starts_with('/') || text.starts_with("./") || text.starts_with("../");
  const bool isWord = !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) != 0;
  return (isPath || isWord) && text.find_first_of("=@:\"[({,") == std::string::npos;
}

class Comparer {
 public:
  Comparer(std::span<const IValue> outputs, const Expectations& expectations, Session& session)
      : outputs_(outputs), expectations_(expectations), session_(session) {}

  Result<ExpectationReport> run() {
    std::error_code ignored;
    for (const std::string& text : expectations_.texts)
      if (!(std::filesystem::is_directory(text, ignored) ? folder(text) : value(text))) return Failed{};
    for (const ExpectedOutput& row : report_.outputs) tellOfNan(row);
    return std::move(report_);
  }

 private:
  void tellOfNan(const ExpectedOutput& row) {
    const Difference& d = row.difference;
    if (d.notNumbers == 0 || !d.wrong.empty()) return;
    const bool isOne = d.notNumbers == 1 && d.numbers > 0;
    session_.note(fmt::format("{} of {} {} NaN, as expected, which tells nothing of what was computed",
                              d.numbers == 0 ? "all floats" : counted(d.notNumbers, "number"), row.name,
                              isOne ? "is" : "are"));
  }

  Tolerance toleranceOf(size_t output) const {
    auto own = expectations_.ofOutput.find(output);
    return own == expectations_.ofOutput.end() ? expectations_.tolerance : own->second;
  }

  void add(size_t output, std::string name, const IValue& got, const IValue& want) {
    const Tolerance t = toleranceOf(output);
    ExpectedOutput& row = report_.outputs.emplace_back();
    row.name = std::move(name);
    row.tolerance = t;
    row.difference = difference(got, want, t);
    if (got.isTensor() && want.isTensor()) row.ulps = ulpHistogram(got.toTensor(), want.toTensor());
  }

  // What a name means: an output by its number, or of a single one that is a tuple, list or dict, an item by number or
  // key.
  const IValue* find(const std::string& name, bool isWhole) const {
    const std::optional<uint64_t> at = parseCount(name);
    const IValue* only = outputs_.size() == 1 ? &outputs_[0] : nullptr;
    if (only && only->isDict())
      if (const IValue* found = itemOf(*only, name)) return found;
    if (only && at && only->isTuple() && !isWhole) return itemOf(*only, name);
    if (at) return *at < outputs_.size() ? &outputs_[*at] : nullptr;
    // "0.1", "boxes.0": an item of what is called so.
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      if (const IValue* whole = find(name.substr(0, dot), true))
        if (const IValue* item = itemAlong(*whole, name.substr(dot + 1))) return item;
    return nullptr;
  }

  // By number or key; null if there is none.
  static const IValue* itemOf(const IValue& whole, const std::string& name) {
    if (whole.isDict()) {
      const IValue* found = nullptr;
      whole.toDict().forEach([&](const IValue& key, const IValue& value) {
        if (valueText(key, LiteralStyle::Plain) == name || (key.isString() && key.toString() == name)) found = &value;
      });
      return found;
    }
    if (!whole.isTuple() && !whole.isList()) return nullptr;
    const std::vector<IValue>& items = whole.isTuple() ? whole.toTuple().items : whole.toList().items;
    const std::optional<uint64_t> at = parseCount(name);
    return at && *at < items.size() ? &items[*at] : nullptr;
  }
  static const IValue* itemAlong(const IValue& whole, const std::string& path) {
    if (const IValue* item = itemOf(whole, path)) return item;
    const size_t dot = path.find('.');
    const IValue* next = dot == std::string::npos ? nullptr : itemOf(whole, path.substr(0, dot));
    return next ? itemAlong(*next, path.substr(dot + 1)) : nullptr;
  }

  std::vector<std::string> names() const {
    const IValue* only = outputs_.size() == 1 ? &outputs_[0] : nullptr;
    std::vector<std::string> out;
    size_t count = outputs_.size();
    if (only && only->isTuple()) count = only->toTuple().items.size();
    if (only && only->isDict())
      only->toDict().forEach([&](const IValue& key, const IValue&) {
        out.push_back(abbreviate(key.isString() ? key.toString() : valueText(key, LiteralStyle::Plain), 40));
      });
    else
      for (size_t i = 0; i < count; ++i) out.push_back(std::to_string(i));
    return out;
  }

  // "what is returned is a dict: its keys are logits, weights".
  std::string namesText() const {
    const std::string all = join(names(), ", ", [](const std::string& name) { return name; });
    if (outputs_.size() != 1 || !(outputs_[0].isDict() || outputs_[0].isTuple()))
      return "what is returned has the names " + all;
    return std::string("what is returned is a ") +
           (outputs_[0].isDict() ? "dict: its keys are " : "tuple: its items are ") + all;
  }

  // "@y.npy", "0=@y.npy", "1=[1, 2]", "logits=@y.npy"; without a name: what is returned as a whole.
  bool value(const std::string& text) {
    if (meansFolder(text)) {
      std::error_code ignored;
      const bool isFile = std::filesystem::exists(text, ignored);
      Diagnostic& error = session_.diagnostics.fileError(
          text, {}, isFile ? "this is no folder" : "cannot read: there is no such folder", ErrorKind::Io);
      if (isFile) error.note("a file is written with @ before its name: --expect @" + abbreviate(text, 80));
      return false;
    }
    const size_t equal = text.find('=');
    const bool named = equal != std::string::npos && equal > 0 && text.find_first_of("(:@[{\"") > equal;
    const std::string name = named ? text.substr(0, equal) : "0";
    const IValue* got = named ? find(name, text[equal + 1] == '(') : outputs_.empty() ? nullptr : &outputs_[0];
    const std::string value = named ? text.substr(equal + 1) : text;
    if (named && value.starts_with('@') && got && got->isList() && !got->toList().items.empty())
      throw UsageError{"--expect " + abbreviate(text, 80) + " is a tensor, and this output is a list",
                       {"--expect " + name + ".0=" + abbreviate(value, 80) + " is its first item, --expect " + name +
                        "=[" + abbreviate(value, 80) + "] all of one"}};
    const bool holdsItems = got && (got->isDict() || got->isTuple());
    if (value.starts_with('@') && holdsItems && !names().empty())
      throw UsageError{fmt::format("--expect {} is a tensor, and {} a {}", abbreviate(text, 80),
                                   named ? "this output is" : "the result is", got->isDict() ? "dict" : "tuple"),
                       {namesText() + ": --expect " + names()[0] + "=" + abbreviate(value, 80)}};
    if (!got && named) {
      UsageError error{"there is no output '" + abbreviate(name, 80) + "'", {}};
      NearestName nearest(name);
      for (const std::string& known : names()) nearest.consider(known);
      if (nearest.found()) error.notes.push_back("did you mean '" + nearest.name() + "'?");
      error.notes.push_back(namesText());
      throw error;
    }
    if (!got || (!named && value.starts_with('@') && !got->isTensor()))
      throw UsageError{"--expect takes a folder, @FILE or NAME=VALUE, not '" + abbreviate(text, 80) + "'",
                       {namesText()}};
    Result<IValue> want =
        parseValueText(value, "--expect " + name, session_.diagnostics, dynamicType(*got), session_.common.limits);
    if (want) add(parseCount(name.substr(0, name.find('.'))).value_or(0), "output " + name, *got, *want);
    if (!want && !value.starts_with('@'))
      if (const std::string hint = valueHint(value, session_.diagnostics.list().back().message); !hint.empty()) {
        UsageError error{session_.diagnostics.list().back().message, {hint}};
        if (!error.message.starts_with("--expect")) error.message = "--expect " + name + ": " + error.message;
        session_.diagnostics.clear();
        throw error;
      }
    return bool(want);
  }

  bool folder(const std::string& path) {
    size_t number = 0;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      std::vector<std::pair<std::string, Tensor>> tensors;
      tensorsOf(outputs_[i], "output " + std::to_string(i), tensors);
      for (auto& [name, given] : tensors) {
        const Tensor tensor = isQuantized(given.dtype()) ? integersOf(given) : given;
        const bool npy = hasNpyType(tensor.dtype());
        const std::string file = path + "/" + std::to_string(number++) + (npy ? ".npy" : ".safetensors");
        Result<Tensor> want = npy ? readNpy(file, session_.diagnostics, session_.common.limits)
                                  : readSafetensor(file, "value", session_.diagnostics, session_.common.limits);
        if (!want) return false;
        add(i, name, IValue(tensor), IValue(*want));
      }
    }
    return rest(path);
  }

  // Numbers, texts and how all is put together: the list of the folder must be the one that these outputs have.
  bool rest(const std::string& path) {
    std::error_code ignored;
    const std::string list = path + "/outputs.json";
    if (!std::filesystem::exists(list, ignored)) return true;
    Result<std::string> want = readFile(list, session_.common.limits.textBytes, session_.diagnostics);
    if (!want) return false;
    auto plain = [](std::string_view text) {  // PyTorch's exporter indents
      std::string out;
      bool quoted = false;
      for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
        if (quoted || !std::strchr(" \n\r\t", text[i])) out += text[i];
      }
      return out;
    };
    if (plain(*want) == plain(outputListText(outputs_))) return true;
    ExpectedOutput& row = report_.outputs.emplace_back();
    row.name = "outputs.json";
    row.difference = wrongBy("numbers, texts, types or sizes are others than those of " + list);
    return true;
  }

  std::span<const IValue> outputs_;
  const Expectations& expectations_;
  Session& session_;
  ExpectationReport report_;
};

}  // namespace

void setTolerance(Expectations& expectations, double Tolerance::*which, std::string_view option,
                  const std::string& text) {
  expectations.saysTolerance = true;
  const size_t equal = text.find('=');
  const double value = tolerance(option, equal == std::string::npos ? text : text.substr(equal + 1));
  if (equal == std::string::npos) {
    expectations.tolerance.*which = value;
    for (auto& [at, own] : expectations.ofOutput) own.*which = value;
    return;
  }
  const std::optional<uint64_t> at = parseCount(text.substr(0, equal));
  if (!at) throw UsageError{std::string(option) + " takes X or N=X for an output, not '" + abbreviate(text, 80) + "'"};
  expectations.ofOutput.try_emplace(*at, expectations.tolerance).first->second.*which = value;
}

size_t UlpHistogram::all() const { return std::accumulate(std::begin(counts), std::end(counts), size_t{0}); }

UlpHistogram ulpHistogram(const Tensor& got, const Tensor& want) {
  UlpHistogram out;
  const bool isDouble = want.dtype() == DType::Float64;
  if (got.dtype() != want.dtype() || (want.dtype() != DType::Float32 && !isDouble) ||
      !std::equal(got.sizes().begin(), got.sizes().end(), want.sizes().begin(), want.sizes().end()))
    return out;
  for (int64_t i = 0; i < want.numel(); ++i) {
    const double g = got.complex(i).real(), w = want.complex(i).real();
    if (std::isnan(g) || std::isnan(w)) {
      ++out.counts[std::isnan(g) && std::isnan(w) ? 0 : UlpHistogram::kClasses - 1];
      continue;
    }
    const int64_t a = place(g, isDouble), b = place(w, isDouble);
    const uint64_t apart = a > b ? static_cast<uint64_t>(a) - static_cast<uint64_t>(b)
                                 : static_cast<uint64_t>(b) - static_cast<uint64_t>(a);
    ++out.counts[classOf(apart)];
  }
  return out;
}

bool ExpectationReport::passed() const {
  return std::all_of(outputs.begin(), outputs.end(), [](const ExpectedOutput& o) { return o.difference.within; });
}

void ExpectationReport::writeText(std::ostream& out, bool judges) const {
  for (const ExpectedOutput& o : outputs) {
    const Difference& d = o.difference;
    if (!d.wrong.empty()) {
      out << fmt::format("{}: wrong: {}\n", o.name, d.wrong);
      continue;
    }
    constexpr double kExact = 100;  // decibels: the rounding of float32 says nothing
    const double decibels = d.signalToNoise();
    out << fmt::format("{}: largest difference {:.2g}, {} rtol {:g}, atol {:g}{}\n", o.name, d.largest,
                       d.within ? "within" : "beyond", o.tolerance.relative, o.tolerance.absolute,
                       decibels < kExact ? fmt::format(", signal to noise {:.1f} dB", decibels) : "");
    if (o.ulps.all() == 0) continue;
    out << "  ulps";
    for (size_t i = 0; i < UlpHistogram::kClasses; ++i)
      if (o.ulps.counts[i] > 0)
        out << fmt::format("  {}: {:.1f} %", UlpHistogram::kNames[i],
                           100 * static_cast<double>(o.ulps.counts[i]) / static_cast<double>(o.ulps.all()));
    out << '\n';
  }
  if (judges) out << (passed() ? "PASSED\n" : "FAILED\n");
}

Result<ExpectationReport> compareOutputs(std::span<const IValue> outputs, const Expectations& expectations,
                                         Session& session) {
  return Comparer(outputs, expectations, session).run();
}

void tellRandomInputs(const Options& options, Session& session) {
  if (options.partition.spec.shapes.empty() || !options.run.inputs.empty() || !options.run.inputFiles.empty()) return;
  session.note("the inputs were random, of the sizes that --shape tells: --input gives those that the outputs are of");
}

}  // namespace tscompile
