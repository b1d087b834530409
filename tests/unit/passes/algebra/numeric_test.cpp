// Every golden of an entry is run on random arguments before and after: the results must be the same to the last bit,
// or as near as the file's "# tolerance:" says.
#include "api/lower.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "runtime/reference/loops/copy.h"
#include "tests/support/choices.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>

namespace tscompile::test {
namespace {

struct Golden {
  Module module;
  Query::Tags entries;
  double tolerance = 0;
  bool finite = false;  // an entry that takes numbers to be finite, or sums to be the same in any order
};

// What stands after "# KEY" in the text, up to a blank.
std::string setting(const std::string& text, const std::string& key) {
  size_t at = text.find(key);
  if (at == std::string::npos) return "";
  at += key.size();
  return text.substr(at, text.find_first_of(" \n", at) - at);
}

std::optional<Golden> goldenOf(const std::filesystem::path& path) {
  std::string text = readText(path);
  Diagnostics diagnostics;
  Result<Module> module = Module::fromText(text, path, {}, diagnostics);
  EXPECT_TRUE(module.ok()) << renderDiagnostics(diagnostics, "test");
  if (!module) return std::nullopt;
  Golden g{*module, {}, 0, false};
  std::istringstream entries(setting(text, "--passes="));
  for (std::string entry; std::getline(entries, entry, ',');) g.entries.insert(entry);
  for (const RewriteDatabase::Entry& e : loweringDatabase().allEntries())
    if (g.entries.contains(e.name)) g.finite |= e.tags.contains("fast_math") || e.tags.contains("reassoc");
  g.finite |= text.find("# finite inputs\n") != std::string::npos;
  if (g.finite) g.tolerance = 1e-4;
  if (std::string t = setting(text, "# tolerance: "); !t.empty()) g.tolerance = std::stod(t);
  return g;
}

// ---- arguments ----

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSpecial[] = {NAN, kInfinity, -kInfinity, -0.0, 0.0, 1e30, -1e-30};

double randomNumber(Choices& c, bool special, bool integral) {
  double v = static_cast<double>(c.below(65)) / 8 - 4;
  if (integral) return std::floor(v);
  return special && c.oneIn(6) ? kSpecial[c.below(std::size(kSpecial))] : v;
}

IValue randomArgument(Choices& c, TypePtr type, bool special) {
  if (type->is(TypeKind::Bool)) return IValue(c.oneIn(2));
  if (type->is(TypeKind::Int)) return IValue(static_cast<int64_t>(c.below(20)) - 6);
  if (type->is(TypeKind::Float)) return IValue(randomNumber(c, special, false));
  const TensorFacts& facts = type->tensor();
  EXPECT_TRUE(facts.hasRank && facts.hasAllSizes() && facts.dtype != DType::Undefined)
      << "an input needs a type such as Float(2, 3, strides=[3, 1]), not " << typeText(type);
  Tensor t = facts.hasStrides ? Tensor::emptyStrided(facts.dtype, facts.sizes, facts.strides)
                              : Tensor::empty(facts.dtype, facts.sizes);
  Tensor numbers = Tensor::empty(DType::Float64, facts.sizes);
  bool integral = facts.dtype == DType::Bool || kIntegerTypes.contains(facts.dtype);
  for (int64_t i = 0; i < t.numel(); ++i) numbers.data<double>()[i] = randomNumber(c, special, integral);
  copyTensor(t, numbers);
  return IValue(t);
}

std::vector<IValue> randomArguments(const Method& method, uint64_t seed, bool finite) {
  Choices c(seed);
  std::vector<IValue> out;
  for (const ValueInfo& v : method.inputs()) out.push_back(randomArgument(c, v.type, !finite && seed % 2 == 1));
  return out;
}

// ---- runs ----

// `inputs` is the method that says what is given.
std::optional<std::vector<IValue>> run(const Method& method, const Method& inputs, uint64_t seed, bool finite,
                                       std::string& message) {
  Diagnostics diagnostics;
  std::vector<IValue> arguments = randomArguments(inputs, seed, finite);
  Result<std::vector<IValue>> results = method.run(arguments, diagnostics);
  message = renderDiagnostics(diagnostics, "test");
  if (!results) return std::nullopt;
  // What was written to arguments counts as a result.
  for (IValue& a : arguments) results->push_back(a);
  return std::move(*results);
}

// What is not finite before is out of scope of an entry that takes all numbers to be.
bool areNear(double a, double b, double tolerance, bool finite) {
  if (finite && !std::isfinite(a)) return true;
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (tolerance == 0) return a == b && std::signbit(a) == std::signbit(b);
  return a == b || std::abs(a - b) <= tolerance * (1 + std::abs(a));
}

std::string difference(const IValue& a, const IValue& b, const Golden& g) {
  if (a.tag() != b.tag()) return "values of different kinds";
  if (a.isTuple() || a.isList()) {
    const auto& x = a.isTuple() ? a.toTuple().items : a.toList().items;
    const auto& y = b.isTuple() ? b.toTuple().items : b.toList().items;
    if (x.size() != y.size()) return "different numbers of values";
    for (size_t i = 0; i < x.size(); ++i)
      if (std::string d = difference(x[i], y[i], g); !d.empty()) return d;
    return "";
  }
  if (!a.isTensor()) return valuesEqual(a, b) ? "" : "different values";
  Tensor x = a.toTensor(), y = b.toTensor();
  if (x.dtype() != y.dtype()) return "different dtypes";
  if (!std::equal(x.sizes().begin(), x.sizes().end(), y.sizes().begin(), y.sizes().end())) return "different sizes";
  for (int64_t i = 0; i < x.numel(); ++i)
    if (!areNear(x.complex(i).real(), y.complex(i).real(), g.tolerance, g.finite))
      return "element " + std::to_string(i) + ": " + std::to_string(x.complex(i).real()) + ", then " +
             std::to_string(y.complex(i).real());
  return "";
}

class PassNumbers : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(PassNumbers, AreTheSameBeforeAndAfter) {
  std::optional<Golden> g = goldenOf(GetParam());
  ASSERT_TRUE(g);
  Diagnostics diagnostics;
  LowerOptions options;
  options.query = Query().including(g->entries);
  options.settings.verify = true;
  Result<Module> after = g->module.lowered(options, diagnostics);
  ASSERT_TRUE(after.ok()) << renderDiagnostics(diagnostics, "test");
  std::string text = graphText(*after->graph());
  EXPECT_NE(text, graphText(*g->module.graph())) << "the entry has nothing to do";
  Result<Module> again = after->lowered(options, diagnostics);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(graphText(*again->graph()), text) << "a second run changes something";
  Result<Method> one = g->module.prepare(diagnostics), other = after->prepare(diagnostics);
  ASSERT_TRUE(one.ok() && other.ok()) << renderDiagnostics(diagnostics, "test") << text;
  int ran = 0;
  std::string message;
  constexpr uint64_t kRuns = 32;
  for (uint64_t seed = 0; seed < kRuns; ++seed) {
    std::optional<std::vector<IValue>> expected = run(*one, *one, seed, g->finite, message);
    if (!expected) continue;
    ++ran;
    std::optional<std::vector<IValue>> found = run(*other, *one, seed, g->finite, message);
    ASSERT_TRUE(found) << message << text;
    // flatten_outputs takes a tuple apart.
    if (found->size() != expected->size() && (*expected)[0].isTuple()) {
      std::vector<IValue> items = (*expected)[0].toTuple().items;
      expected->erase(expected->begin());
      expected->insert(expected->begin(), items.begin(), items.end());
    }
    ASSERT_EQ(found->size(), expected->size());
    for (size_t i = 0; i < found->size(); ++i)
      ASSERT_EQ(difference((*expected)[i], (*found)[i], *g), "") << "seed " << seed << ", value " << i << "\n" << text;
  }
  EXPECT_GT(ran, 0) << "the golden never runs: " << message;
}

std::vector<std::filesystem::path> goldens() {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(TSCOMPILE_TESTS_DIR "/golden/passes"))
    if (entry.path().extension() == ".ir") out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

INSTANTIATE_TEST_SUITE_P(Goldens, PassNumbers, ::testing::ValuesIn(goldens()),
                         [](const auto& info) { return std::string(info.param.stem()); });

}  // namespace
}  // namespace tscompile::test
