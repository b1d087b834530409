// The named rewrites of tensor algebra together: each phase ends, with everything switched on as well, what is on by
// default keeps every bit, and sums and products get their one form.
#include "ir/analysis/verifier.h"
#include "ir/graph/clone.h"
#include "ir/graph/expression.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "passes/catalog.h"
#include "runtime/registry.h"
#include "tests/support/choices.h"
#include "tests/support/pass_checks.h"
#include "tests/support/property.h"

#include <limits>
#include <map>

namespace tscompile::test {
namespace {

// ---- random programs whose shapes are known ----

struct ShapeKind {
  char letter;
  const char* type;
};
constexpr ShapeKind kKinds[] = {{'A', "Float(2, 3)"}, {'B', "Float(3, 2)"}, {'C', "Float(1, 2, 3)"},
                                {'V', "Float(3)"},    {'S', "Float()"},     {'I', "Int(2, 3)"},
                                {'L', "Bool(2, 3)"},  {'D', "Double(2, 3)"}};

constexpr const char* kConstants = R"(
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %two : int = prim::Constant[value=2]()
  %three : int = prim::Constant[value=3]()
  %minus : int = prim::Constant[value=-1]()
  %half : float = prim::Constant[value=0.5]()
  %end : int = prim::Constant[value=9223372036854775807]()
  %f32 : int = prim::Constant[value=6]()
  %f64 : int = prim::Constant[value=7]()
  %no : bool = prim::Constant[value=0]()
  %yes : bool = prim::Constant[value=1]()
  %true : Bool() = prim::Constant[value={1}]()
  %none : NoneType = prim::Constant()
  %s23 : int[] = prim::Constant[value=[2, 3]]()
  %s32 : int[] = prim::Constant[value=[3, 2]]()
  %s123 : int[] = prim::Constant[value=[1, 2, 3]]()
  %p01 : int[] = prim::Constant[value=[0, 1]]()
  %p10 : int[] = prim::Constant[value=[1, 0]]()
  %d0 : int[] = prim::Constant[value=[0]]()
  %dnone : int[] = prim::Constant[value=annotate(List[int], [])]()
)";

// A result's letter and an operator whose $X are values of kind X.
constexpr const char* kStatements[] = {
    "A aten::relu($A)",
    "A aten::neg($A)",
    "A aten::abs($A)",
    "A aten::exp($A)",
    "A aten::log($A)",
    "A aten::reciprocal($A)",
    "A aten::erf($A)",
    "A aten::sigmoid($A)",
    "A aten::add($A, $A, %one)",
    "A aten::sub($A, $A, %one)",
    "A aten::mul($A, $A)",
    "A aten::div($A, $A)",
    "A aten::maximum($A, $A)",
    "A aten::add($A, $V, %one)",
    "A aten::mul($A, $S)",
    "A aten::mul($V, $A)",
    "A aten::add($A, %zero, %one)",
    "A aten::sub($A, %zero, %one)",
    "A aten::mul($A, %one)",
    "A aten::mul($A, %zero)",
    "A aten::mul($A, %two)",
    "A aten::mul($A, %minus)",
    "A aten::add($A, %one, %one)",
    "A aten::sub($A, %one, %one)",
    "A aten::rsub($A, %one, %one)",
    "A aten::div($A, %two)",
    "A aten::div($A, %one)",
    "A aten::pow($A, %one)",
    "A aten::t($B)",
    "A aten::reshape($B, %s23)",
    "A aten::view($A, %s23)",
    "A aten::expand($V, %s23, %no)",
    "A aten::squeeze($C, %zero)",
    "A aten::select($C, %zero, %zero)",
    "A aten::slice($A, %zero, %none, %end, %one)",
    "A aten::slice($A, %one, %zero, %three, %one)",
    "A aten::to($D, %f32, %no, %no, %none)",
    "A aten::to($I, %f32, %no, %yes, %none)",
    "A aten::where($L, $A, $A)",
    "A aten::where($L, %zero, $A)",
    "A aten::mm($A, %w)",
    "A aten::matmul($A, %w)",
    "A aten::permute($A, %p01)",
    "A aten::contiguous($A, %zero)",
    "A aten::full(%s23, %half, %f32, %none, %none, %none)",
    "A aten::zeros_like($A, %none, %none, %none, %none, %none)",
    "A aten::softmax($A, %one, %none)",
    "A aten::mul($A, $I)",
    "A aten::expand_as($V, $A)",
    "A aten::type_as($D, $A)",
    "B aten::t($A)",
    "B aten::transpose($A, %zero, %one)",
    "B aten::permute($A, %p10)",
    "B aten::reshape($A, %s32)",
    "B aten::relu($B)",
    "B aten::mul($B, $B)",
    "B aten::neg($B)",
    "B aten::view($B, %s32)",
    "C aten::unsqueeze($A, %zero)",
    "C aten::exp($C)",
    "C aten::mul($C, $A)",
    "C aten::add($C, $C, %one)",
    "C aten::reshape($A, %s123)",
    "V aten::select($A, %zero, %one)",
    "V aten::sum($A, %d0, %no, %none)",
    "V aten::amax($A, %d0, %no)",
    "V aten::neg($V)",
    "V aten::mul($V, $V)",
    "V aten::select($B, %one, %zero)",
    "S aten::sum($A, %none)",
    "S aten::sum($V, %d0, %no, %none)",
    "S aten::amax($V, %d0, %no)",
    "S aten::select($V, %zero, %two)",
    "S aten::mul($S, $S)",
    "S aten::amax($S, %dnone, %no)",
    "S aten::sum($S, %none)",
    "I aten::add($I, $I, %one)",
    "I aten::sub($I, $I, %one)",
    "I aten::mul($I, %two)",
    "I aten::mul($I, %zero)",
    "I aten::neg($I)",
    "I aten::bitwise_not($I)",
    "I aten::bitwise_xor($I, $I)",
    "I aten::maximum($I, $I)",
    "I aten::mul($I, $I)",
    "I aten::add($I, %two, %one)",
    "L aten::eq($I, $I)",
    "L aten::eq($A, $A)",
    "L aten::lt($A, $A)",
    "L aten::logical_not($L)",
    "L aten::logical_and($L, $L)",
    "L aten::bitwise_or($L, $L)",
    "L aten::bitwise_and($L, %true)",
    "D aten::to($A, %f64, %no, %no, %none)",
    "D aten::mul($D, $D)",
    "D aten::mul($D, %two)",
    "D aten::neg($D)",
};

class ProgramMaker {
 public:
  explicit ProgramMaker(Choices& choices) : c_(choices) {
    for (const ShapeKind& k : kKinds) values_[k.letter] = {std::string("%") + k.letter};
  }

  std::string make() {
    std::string inputs, body = kConstants;
    for (const ShapeKind& k : kKinds) inputs += std::string("%") + k.letter + " : " + k.type + ", ";
    body += statements("  ", 3 + c_.below(14));
    auto outside = values_;
    std::string inner = statements("      ", 2 + c_.below(8));
    std::string result = pick('A');
    values_ = outside;
    body += "  %branch : Tensor = prim::If(%flag)\n    block0():\n" + inner + "      -> (" + result +
            ")\n    block1():\n      -> (" + pick('A') + ")\n";
    std::string outputs = "%branch";
    for (char letter : {'A', 'B', 'V', 'S', 'I', 'L'}) outputs += ", " + values_[letter].back();
    return "graph(" + inputs + "%w : Float(3, 3), %flag : bool):\n" + body + "  return (" + outputs + ")\n";
  }

 private:
  // Mostly what was made last, so that operators meet.
  std::string pick(char letter) {
    const std::vector<std::string>& all = values_[letter];
    return c_.oneIn(3) ? all[c_.below(all.size())] : all.back();
  }
  std::string statements(const std::string& indent, size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) {
      std::string_view statement = c_.oneOf(kStatements);
      std::string text, name = "%v" + std::to_string(++count_);
      for (size_t at = 2; at < statement.size(); ++at)
        text += statement[at] == '$' ? pick(statement[++at]) : std::string(1, statement[at]);
      out += indent + name + " : Tensor = " + text + "\n";
      values_[statement[0]].push_back(name);
    }
    return out;
  }

  Choices& c_;
  std::map<char, std::vector<std::string>> values_;
  int count_ = 0;
};

std::vector<IValue> argumentsFor(Choices& c, const Graph& graph) {
  constexpr float kFloats[] = {0,
                               -0.0f,
                               1,
                               -1,
                               0.5f,
                               -2.5f,
                               3,
                               1e-30f,
                               3e38f,
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN()};
  constexpr int32_t kIntegers[] = {0, 1, -1, 7, 2147483647, -2147483647 - 1};
  std::vector<IValue> out;
  for (const Value* v : graph.inputs()) {
    if (!v->type()->isTensor()) {
      out.emplace_back(c.oneIn(2));
      continue;
    }
    const TensorFacts& t = v->type()->tensor();
    Tensor x = Tensor::zeros(t.dtype, t.sizes);
    for (int64_t i = 0; i < x.numel(); ++i) {
      if (t.dtype == DType::Float32) x.data<float>()[i] = c.oneOf(kFloats);
      if (t.dtype == DType::Float64) x.data<double>()[i] = c.oneOf(kFloats);
      if (t.dtype == DType::Int32) x.data<int32_t>()[i] = c.oneOf(kIntegers);
      if (t.dtype == DType::Bool) x.data<bool>()[i] = c.oneIn(2);
    }
    out.emplace_back(x);
  }
  return out;
}

constexpr const char* kPhases[] = {"canonicalize", "stabilize", "linalg", "specialize", "uncanonicalize"};

// Runs entries until nothing changes, and again: then nothing may change.
bool reachesFixedPoint(Graph& graph, const Query& query) {
  std::string before = graphText(graph);
  bool changed = false;
  for (int i = 0; i < 2; ++i) {
    Diagnostics diagnostics;
    RewriteContext context(graph, allOps(), diagnostics);
    Outcome outcome = loweringDatabase().query(query).run(context);
    EXPECT_TRUE(outcome.converged && !outcome.failed)
        << renderDiagnostics(diagnostics, "test") << before << graphText(graph);
    EXPECT_TRUE(verify(graph, allOps(), diagnostics)) << renderDiagnostics(diagnostics, "test") << before;
    if (i == 0) changed = outcome.changed;
    EXPECT_FALSE(i == 1 && outcome.changed) << "the second run goes on\n" << before << graphText(graph);
  }
  return changed;
}

}  // namespace

TEST(NamedRewrites, EachPhaseEnds) {
  forEachSeed(300, [](uint64_t seed) {
    Choices choices(seed);
    std::string text = ProgramMaker(choices).make();
    for (const char* phase : kPhases) {
      std::unique_ptr<Graph> graph = readGraph(text);
      reachesFixedPoint(*graph, Query().including({phase}));
    }
  });
}

TEST(NamedRewrites, AllPhasesTogetherEnd) {
  Query everything = Query().including({"default", "fast_run", "fast_math", "reassoc", "decomposition"});
  forEachSeed(300, [&](uint64_t seed) {
    Choices choices(seed);
    std::string text = ProgramMaker(choices).make();
    std::unique_ptr<Graph> graph = readGraph(text);
    Diagnostics diagnostics;
    RewriteContext context(*graph, allOps(), diagnostics);
    Outcome outcome = loweringDatabase().query(everything).run(context);
    EXPECT_TRUE(outcome.converged && !outcome.failed) << renderDiagnostics(diagnostics, "test") << text;
    EXPECT_TRUE(verify(*graph, allOps(), diagnostics)) << renderDiagnostics(diagnostics, "test") << text;
  });
}

TEST(NamedRewrites, DefaultsKeepEveryBit) {
  int changed = 0, ran = 0;
  forEachSeed(300, [&](uint64_t seed) {
    Choices choices(seed);
    std::string text = ProgramMaker(choices).make();
    for (const char* phase : kPhases) {
      std::unique_ptr<Graph> graph = readGraph(text);
      std::unique_ptr<Graph> before = cloneGraph(*graph);
      if (!reachesFixedPoint(*graph, Query().including({phase}).requiring({"default"}))) continue;
      ++changed;
      for (uint64_t run = 0; run < 3; ++run) {
        Choices one(seed * 10 + run), two = one;
        RunOutcome expected = runGraph(*before, argumentsFor(one, *before));
        if (!expected.ok) continue;
        ++ran;
        RunOutcome got = runGraph(*graph, argumentsFor(two, *graph));
        EXPECT_TRUE(got.ok) << got.error << graphText(*before) << graphText(*graph);
        EXPECT_TRUE(got.results == expected.results) << phase << "\n" << graphText(*before) << graphText(*graph);
      }
    }
  });
  EXPECT_GT(changed, 0);
  EXPECT_GT(ran, 0);
}

// ---- parts of parts ----

// Slices of slices and elements of slices with any bounds, of sizes that are known and that are not.
TEST(NamedRewrites, PartsOfPartsAreThoseOfTheWhole) {
  Query query = Query().including({"subtensor_merge", "useless_subtensor"});
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  int changed = 0;
  forEachSeed(600, [&](uint64_t seed) {
    Choices c(seed);
    auto size = static_cast<int64_t>(c.below(7));
    std::string constants, nodes;
    int count = 0;
    auto constant = [&](int64_t v) {
      std::string name = "%c" + std::to_string(++count);
      constants += "  " + name + " : int = prim::Constant[value=" + std::to_string(v) + "]()\n";
      return name;
    };
    auto bound = [&](bool isEnd) {
      if (c.oneIn(4)) return constant(isEnd ? kEnd : 0);
      if (c.oneIn(5)) return std::string("%none");
      return constant(static_cast<int64_t>(c.below(17)) - (c.oneIn(2) ? 8 : 0));
    };
    auto slice = [&](const std::string& x) {
      std::string begin = bound(false), end = bound(true);
      return "aten::slice(" + x + ", " + constant(c.oneIn(4) ? -1 : 0) + ", " + begin + ", " + end + ", " +
             constant(1 + static_cast<int64_t>(c.below(3))) + ")\n";
    };
    nodes += "  %a : Tensor = " + slice("%x") + "  %b : Tensor = " + slice("%a");
    bool element = c.oneIn(2);
    if (element)
      nodes += "  %r : Tensor = aten::select(%b, " + constant(0) + ", " +
               constant(static_cast<int64_t>(c.below(8)) - 4) + ")\n";
    std::string type = c.oneIn(2) ? "Tensor" : "Float(" + std::to_string(size) + ")";
    std::string text = "graph(%x : " + type + "):\n  %none : NoneType = prim::Constant()\n" + constants + nodes +
                       "  %y : Tensor = aten::neg(" + (element ? "%r" : "%b") + ")\n  return (%y)\n";
    std::unique_ptr<Graph> graph = readGraph(text), before = readGraph(text);
    changed += reachesFixedPoint(*graph, query);
    Tensor x = Tensor::zeros(DType::Float32, Dims{size});
    for (int64_t i = 0; i < size; ++i) x.data<float>()[i] = static_cast<float>(i + 1);
    RunOutcome expected = runGraph(*before, {x}), got = runGraph(*graph, {x});
    EXPECT_EQ(expected.ok, got.ok) << text << graphText(*graph);
    EXPECT_TRUE(expected.results == got.results) << text << graphText(*graph);
  });
  EXPECT_GT(changed, 100);
}

// ---- memory ----

// What the caller gets, what is written, and what is seen as `aten::view` sees it stays a tensor of its own.
TEST(NamedRewrites, MemoryIsSharedOnlyWhereNobodyMaySeeIt) {
  constexpr const char* kKept[] = {
      "  %r = aten::mul(%x, %one)\n  return (%r)\n",
      "  %r = aten::mul(%x, %one)\n  %w = aten::add_(%r, %one, %one)\n  %y = aten::neg(%r)\n  return (%y)\n",
      "  %r = aten::mul(%x, %one)\n  %w = aten::add_(%x, %one, %one)\n  %y = aten::neg(%r)\n  return (%y)\n",
      "  %r = aten::mul(%x, %one)\n  %s = aten::stride(%r)\n  return (%s)\n",
      "  %t = aten::t(%x)\n  %r = aten::contiguous(%t, %zero)\n  %s = aten::is_contiguous(%r)\n  return (%s)\n",
      "  %f = aten::slice(%x, %zero, %zero, %one, %one)\n  %g = aten::slice(%f, %zero, %zero, %one, %one)\n"
      "  %w = aten::add_(%g, %one, %one)\n  return (%w)\n",
  };
  for (const char* nodes : kKept) {
    std::string text = "graph(%x : Float(2, 3)):\n  %one : int = prim::Constant[value=1]()\n";
    text.append("  %zero : int = prim::Constant[value=0]()\n").append(nodes);
    std::unique_ptr<Graph> graph = readGraph(text);
    Query exact = Query().including({"canonicalize", "specialize"}).requiring({"fast_run"});
    EXPECT_FALSE(reachesFixedPoint(*graph, exact.excluding({"fast_math", "reassoc"}))) << text << graphText(*graph);
  }
  // A new tensor that only this result has may be given away.
  std::unique_ptr<Graph> graph = readGraph(
      "graph(%x : Float(2, 3)):\n  %one : int = prim::Constant[value=1]()\n  %n = aten::neg(%x)\n"
      "  %r = aten::mul(%n, %one)\n  %s = aten::mul(%n, %one)\n  return (%r, %s)\n");
  EXPECT_TRUE(reachesFixedPoint(*graph, Query().including({"mul_specialize"})));
  EXPECT_EQ(graph->nodeCount(), 3u) << "one of the two only\n" << graphText(*graph);
}

// ---- the form of sums and products ----

namespace {

// The expression that a graph of matrices a, b, c, d, x, y, z and these nodes has after the canonizers.
std::string canonical(const std::string& nodes, const std::string& entries) {
  std::string inputs;
  for (const char* name : {"a", "b", "c", "d", "x", "y", "z"})
    inputs += std::string(inputs.empty() ? "" : ", ") + "%" + name + " : Float(2, 3)";
  std::unique_ptr<Graph> graph =
      readGraph("graph(" + inputs + ", %i : Int(2, 3), %row : Float(3)):\n  %one : int = prim::Constant[value=1]()\n" +
                "  %two : int = prim::Constant[value=2]()\n  %four : int = prim::Constant[value=4]()\n" + nodes +
                "  %out = aten::relu(%r)\n  return (%out)\n");
  Diagnostics diagnostics;
  RewriteContext context(*graph, allOps(), diagnostics);
  Result<Query> query = Query::parse(entries, diagnostics);
  EXPECT_TRUE(query.ok());
  loweringDatabase().query(*query).run(context);
  EXPECT_TRUE(diagnostics.list().empty()) << renderDiagnostics(diagnostics, "test");
  return expressionText(*graph);
}

struct Case {
  const char *nodes, *expected;
};

}  // namespace

TEST(NamedRewrites, ProductsHaveOneForm) {
  constexpr Case kCases[] = {
      {"  %r = aten::div(%x, %x)\n", "relu(full_like(x, 1., None, None, None, None, None))"},
      {"  %p = aten::mul(%x, %y)\n  %r = aten::div(%p, %x)\n", "relu(y)"},
      {"  %p = aten::div(%x, %y)\n  %r = aten::div(%p, %x)\n", "relu(reciprocal(y))"},
      {"  %p = aten::div(%x, %y)\n  %r = aten::div(%p, %z)\n", "relu(x / (y * z))"},
      {"  %p = aten::div(%y, %z)\n  %r = aten::div(%x, %p)\n", "relu(x * z / y)"},
      {"  %p = aten::div(%a, %b)\n  %q = aten::div(%b, %c)\n  %s = aten::div(%c, %d)\n  %t = aten::mul(%p, %q)\n"
       "  %r = aten::mul(%t, %s)\n",
       "relu(a / d)"},
      {"  %p = aten::mul(%x, %two)\n  %q = aten::mul(%y, %four)\n  %r = aten::div(%p, %q)\n", "relu(x * 0.5 / y)"},
      {"  %p = aten::mul(%x, %two)\n  %r = aten::div(%p, %two)\n", "relu(x)"},
      {"  %p = aten::neg(%x)\n  %r = aten::mul(%p, %y)\n", "relu(x * y * -1.)"},
      // What gives the result its size is not cancelled, and what is used elsewhere is an operand.
      {"  %p = aten::mul(%row, %x)\n  %r = aten::div(%p, %x)\n", "relu(row * x / x)"},
  };
  for (const Case& c : kCases) {
    std::string got = canonical(c.nodes, "+mul_canonizer_floats");
    EXPECT_NE(got.find(c.expected), std::string::npos) << got << c.nodes;
  }
}

TEST(NamedRewrites, SumsHaveOneForm) {
  constexpr Case kCases[] = {
      {"  %p = aten::add(%x, %y, %one)\n  %r = aten::sub(%p, %x, %one)\n", "relu(y)"},
      {"  %p = aten::sub(%x, %y, %one)\n  %r = aten::sub(%z, %p, %one)\n", "relu(z + y - x)"},
      {"  %p = aten::add(%x, %two, %one)\n  %q = aten::add(%y, %four, %one)\n  %r = aten::add(%p, %q, %one)\n",
       "relu(x + y + 6.)"},
      {"  %p = aten::rsub(%x, %two, %one)\n  %r = aten::sub(%p, %y, %one)\n", "relu(rsub(x + y, 2., 1))"},
      {"  %p = aten::sub(%x, %y, %one)\n  %r = aten::sub(%p, %x, %one)\n", "relu(-y)"},
  };
  for (const Case& c : kCases) {
    std::string got = canonical(c.nodes, "+add_canonizer_floats");
    EXPECT_NE(got.find(c.expected), std::string::npos) << got << c.nodes;
  }
  // Integers wrap around, so theirs are exact; floats are left alone then.
  EXPECT_NE(
      canonical("  %p = aten::add(%i, %two, %one)\n  %q = aten::sub(%p, %i, %one)\n  %s = aten::add(%q, %i, %one)\n"
                "  %r = aten::add(%s, %four, %one)\n",
                "+add_canonizer")
          .find("relu(i + 6)"),
      std::string::npos);
  EXPECT_NE(
      canonical("  %p = aten::add(%x, %y, %one)\n  %r = aten::sub(%p, %x, %one)\n", "+add_canonizer").find("x + y - x"),
      std::string::npos);
}

TEST(NamedRewrites, AFactorGoesIntoASumWhereADivisionGoes) {
  std::string got = canonical(
      "  %p = aten::div(%a, %x)\n  %q = aten::div(%b, %y)\n  %s = aten::add(%p, %q, %one)\n"
      "  %t = aten::mul(%s, %x)\n  %r = aten::mul(%t, %y)\n",
      "+greedy_distributor,mul_canonizer_floats");
  EXPECT_NE(got.find("relu(b * x + a * y)"), std::string::npos) << got;
}

}  // namespace tscompile::test
