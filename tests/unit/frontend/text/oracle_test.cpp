// Thousands of small questions that PyTorch 1.13 has answered: what its reader accepts and prints back, how it writes
// values, which schemas it reads, which overloads it picks.
#include "frontend/text/parse.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/support/text.h"
#include "ir/values/literal.h"
#include "runtime/registry.h"
#include "tests/support/cli.h"
#include "tests/support/json.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>

namespace tscompile {
namespace {

test::Json cases(const std::string& name) {
  return test::readJson(std::string(TSCOMPILE_TESTS_DIR) + "/data/corpus/" + name + ".json");
}

// What `parse --like-parse-ir` prints, or the first message.
struct Reprint {
  bool accepted = false;
  std::string text;
};
Reprint reprint(const std::string& text, bool likeParseIr) {
  Diagnostics diagnostics;
  ParseOptions options;
  options.registry = &allOps();
  options.likeParseIr = likeParseIr;
  Result<ParsedText> parsed = parseText(SourceFile::make("case", text), diagnostics, options);
  if (parsed) return {true, graphText(*parsed->graphs[0])};
  for (const Diagnostic& d : diagnostics.list()) {
    EXPECT_TRUE(d.range.valid()) << d.message;
    EXPECT_LE(d.range.end, text.size());
  }
  return {false, diagnostics.list()[0].message};
}

std::string constant(const std::string& type, const std::string& value) {
  return "graph(%x : Tensor):\n  %y : " + type + " = prim::Constant[value=" + value + "]()\n  return (%y)\n";
}
std::string result(const std::string& type) {
  return "graph(%x : Tensor):\n  %y : " + type + " = foo::bar(%x)\n  return (%y)\n";
}
std::string printedConstant(const std::string& type, const std::string& value) {
  return "graph(%x : Tensor):\n  %1 : " + type + " = prim::Constant[value=" + value + "]()\n  return (%1)\n";
}
std::string printedResult(const std::string& type) {
  return "graph(%x : Tensor):\n  %1 : " + type + " = foo::bar(%x)\n  return (%1)\n";
}

// Texts that PyTorch accepts and misreads, and what we make of them: what they say, or a message.
const std::map<std::string, Reprint>& misread() {
  static const std::map<std::string, Reprint> kTable = {
      {constant("int", "1E5"), {true, printedConstant("int", "100000.")}},
      {constant("int", "0x10"), {false, "hexadecimal numbers are not supported"}},
      {constant("int", "0x1p3"), {false, "hexadecimal numbers are not supported"}},
      {constant("int", "[]"), {true, printedConstant("int", "annotate(List[Any], [])")}},
      {constant("int", "annotate(List[int], [])"), {true, printedConstant("int", "annotate(List[int], [])")}},
      {constant("int", "annotate(List[List[int]], [])"),
       {true, printedConstant("int", "annotate(List[List[int]], [])")}},
      {constant("int", "annotate(Dict[str, Tensor],{})"),
       {true, printedConstant("int", "annotate(Dict[str, Tensor],{})")}},
      {result("Float(*, 3, strides=[3, 1])"), {true, printedResult("Float(*, 3, strides=[3, 1])")}},
      {result("Float(2.5)"), {false, "expected name, integer, ')' or '*' before float"}},
  };
  return kTable;
}

TEST(ParseIr, PrintsBackAsPyTorchDoes) {
  size_t accepted = 0, seenMisread = 0;
  test::Json all = cases("parse_ir_cases");
  EXPECT_EQ(all["cases"].size(), 385u);
  for (const test::Json& c : all["cases"].items) {
    const std::string& text = c["text"].text;
    SCOPED_TRACE(text);
    Reprint ours = reprint(text, true);
    if (auto it = misread().find(text); it != misread().end()) {
      ++seenMisread;
      EXPECT_EQ(ours.accepted, it->second.accepted);
      EXPECT_EQ(ours.text, it->second.text);
    } else if (c["accepts"].boolean) {
      ++accepted;
      EXPECT_TRUE(ours.accepted);
      EXPECT_EQ(ours.text, c["reprint"].text);
    } else if (c["accepts_tensor_constants"].boolean) {
      EXPECT_TRUE(ours.accepted) << ours.text;
    }
  }
  EXPECT_EQ(accepted + seenMisread, 219u);
  EXPECT_EQ(seenMisread, misread().size());
}

// What PyTorch's printer writes and its reader refuses, we read; what is no graph text at all, we refuse as well.
TEST(ParseIr, ReadsMoreThanPyTorchDoes) {
  for (const char* value :
       {"-inf", "1.+2.j", "True", "None", "[True]", "[[1], [2]]", "(1, 2)", "(1,)", "{1.5}", "{1: 2}", "<Tensor>",
        "[<Tensors>]", " 1  2 [ CPUFloatType{2} ]", "annotate(List[int], [1])", "torch.device(\"cpu\")",
        "object(0x55aa00001000)", "__torch__.Color.RED"})
    EXPECT_TRUE(reprint(constant("int", value), false).accepted) << value;
  for (const char* type :
       {"PyObject", "Function", "Future[Tensor]", "RRef[int]", "Await(int)", "__torch__.a.b.___torch_mangle_3.C",
        "InterfaceType<Foo>", "Enum<__torch__.Color>", "ClassType<Foo>", "NamedTuple(a : int, b : Tensor)",
        "Float(2, device=meta)", "FloatTensor", "Float(2:3, 3:1)", "Float(2!)", "Tensor(2, 3)", "Tensor[Undefined]",
        "Float8_e5m2(2)", "Dynamic", "Union(, str, Scalar)"})
    EXPECT_TRUE(reprint(result(type), false).accepted) << type;
  for (const char* value :
       {"+3", "Infinity", "9223372036854775808", "1_000", "[1,]", "{1, 2}", "<Foo>", "1 2", "", "1e999"})
    EXPECT_FALSE(reprint(constant("int", value), false).accepted) << value;
  for (const char* type : {"SymFloat", "T", "(int,)", "Dict[str, Tensor]", "List[int]", "int[2]", "Float", "Float(-1)",
                           "Tensor(a!)", "int(a)", "Float(2, 3, strides=[3])", "Float(2, foo=1)"})
    EXPECT_FALSE(reprint(result(type), false).accepted) << type;
}

// ---- how values are written ----

double hexDouble(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

TEST(PrintCases, Floats) {
  test::Json all = cases("print_cases");
  EXPECT_EQ(all["floats"].size(), 96u);
  for (const test::Json& c : all["floats"].items) EXPECT_EQ(valueText(hexDouble(c[0].text)), c[1].text) << c[0].text;
}

TEST(PrintCases, FloatsReadBack) {
  Diagnostics diagnostics;
  test::Json all = cases("print_cases");
  for (const test::Json& c : all["floats"].items) {
    Result<IValue> v = parseValue(c[1].text, diagnostics, types().floating);
    ASSERT_TRUE(v && v->isFloat()) << c[1].text;
    double wanted = hexDouble(c[0].text);
    if (std::isnan(wanted))
      EXPECT_TRUE(std::isnan(v->toFloat()));
    else
      EXPECT_EQ(v->toFloat(), wanted) << c[1].text;
  }
}

TEST(PrintCases, Complex) {
  test::Json all = cases("print_cases");
  EXPECT_EQ(all["complex"].size(), 8u);
  for (const test::Json& c : all["complex"].items)
    EXPECT_EQ(valueText(std::complex<double>(hexDouble(c[0].text), hexDouble(c[1].text))), c[2].text);
}

TEST(PrintCases, StringsBothWays) {
  Diagnostics diagnostics;
  test::Json all = cases("print_cases");
  EXPECT_EQ(all["strings"].size(), 139u);
  for (const test::Json& c : all["strings"].items) {
    std::string bytes;
    for (const test::Json& b : c[0].items) bytes += static_cast<char>(static_cast<int>(b.number));
    EXPECT_EQ(valueText(IValue(bytes)), c[1].text);
    Result<IValue> v = parseValue(c[1].text, diagnostics, types().string);
    ASSERT_TRUE(v && v->isString()) << c[1].text;
    EXPECT_EQ(v->toString(), bytes) << c[1].text;
  }
}

Tensor tensorOf(const test::Json& c) {
  Dims sizes;
  for (const test::Json& s : c["shape"].items) sizes.push_back(static_cast<int64_t>(s.number));
  Tensor t = Tensor::empty(*dtypeFromName(c["dtype"].text), sizes);
  size_t at = 0;
  auto next = [&] { return hexDouble(c["values"][at++].text); };
  visitDType(t.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < t.numel(); ++i) {
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
        t.data<T>()[i] = T(static_cast<float>(next()));
      } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
        const test::Json& pair = c["values"][at++];
        t.data<T>()[i] = T(static_cast<typename T::value_type>(hexDouble(pair[0].text)),
                           static_cast<typename T::value_type>(hexDouble(pair[1].text)));
      } else {
        t.data<T>()[i] = static_cast<T>(next());
      }
    }
  });
  return t;
}

// What four decimals of the printed numbers can be off by: they are printed as they are, or scaled if all are small.
double roundingOf(const Tensor& t) {
  double greatest = 0;
  for (int64_t i = 0; i < t.numel(); ++i)
    if (std::isfinite(t.real(i))) greatest = std::max(greatest, std::abs(t.real(i)));
  return 6e-5 * (greatest < 0.1 ? 10 * greatest : std::max(greatest, 1.0));
}

TEST(PrintCases, Tensors) {
  size_t checked = 0, opaque = 0;
  test::Json all = cases("print_cases");
  for (const test::Json& c : all["tensors"].items) {
    if (!c.has("printed")) continue;  // sparse and MKL-DNN tensors, which PyTorch could not print
    SCOPED_TRACE(c["printed"].text);
    // Quantized tensors are carried as the text shows them.
    Diagnostics diagnostics;
    Result<IValue> v = parseValue(c["printed"].text, diagnostics);
    ASSERT_TRUE(v.ok());
    EXPECT_EQ(valueText(*v), c["printed"].text);
    if (c["layout"].text != "strided" || !dtypeFromName(c["dtype"].text) ||
        !isSupported(*dtypeFromName(c["dtype"].text)) || c["values"].isNull()) {
      ++opaque;
      continue;
    }
    EXPECT_EQ(valueText(IValue(tensorOf(c))), c["printed"].text);
    ++checked;
  }
  EXPECT_EQ(checked + opaque, 48u);
}

// Made by tests/tools/make_tensor_prints.py.
TEST(PrintCases, ManyTensors) {
  test::Json all = test::readJson(std::string(TSCOMPILE_TESTS_DIR) + "/data/tensor_prints.json");
  EXPECT_GT(all.size(), 1000u);
  for (const test::Json& c : all.items) {
    const std::string& text = c["printed"].text;
    EXPECT_EQ(valueText(IValue(tensorOf(c))), text);
    // The text reads back as a literal that prints the same, and whose numbers are those that the text shows.
    Diagnostics diagnostics;
    Result<IValue> v = parseValue(text, diagnostics);
    ASSERT_TRUE(v.ok()) << text;
    EXPECT_EQ(valueText(*v), text);
    if (!v->isLiteral() || !v->toLiteral().data.defined()) continue;
    const Tensor& read = v->toLiteral().data;
    Tensor made = tensorOf(c);
    ASSERT_EQ(dimsText(read.sizes()), dimsText(made.sizes())) << text;
    EXPECT_EQ(read.dtype(), made.dtype()) << text;
    for (int64_t i = 0; i < made.numel(); ++i) {
      double a = read.real(i), b = made.real(i);
      bool same = std::isnan(b) ? std::isnan(a) : a == b || std::abs(a - b) <= 1e-4 * std::abs(b) + roundingOf(made);
      EXPECT_TRUE(same) << text << " at " << i << ": " << a << ", " << b;
    }
  }
}

TEST(PrintCases, Composites) {
  Diagnostics diagnostics;
  test::Json all = cases("print_cases");
  EXPECT_EQ(all["composites"].size(), 19u);
  for (const test::Json& c : all["composites"].items) {
    Result<IValue> v = parseValue(c[1].text, diagnostics);
    ASSERT_TRUE(v.ok()) << c[1].text;
    EXPECT_EQ(valueText(*v), c[1].text);
  }
}

// ---- schemas ----

// Sets of memory in a sorted order: PyTorch writes them in the order of a hash.
std::string sortedSets(const std::string& schema) {
  static const std::regex kSet("\\(([a-z0-9*$| ]+)(!?)( -> )?([a-z0-9*|]*)\\)");
  auto sorted = [](const std::string& list) {
    std::vector<std::string> names;
    for (size_t at = 0; at <= list.size();) {
      size_t end = std::min(list.find('|', at), list.size());
      names.push_back(list.substr(at, end - at));
      at = end + 1;
    }
    std::sort(names.begin(), names.end());
    return join(names, "|", [](const std::string& n) { return n; });
  };
  std::string out, rest = schema;
  for (std::smatch m; std::regex_search(rest, m, kSet); rest = m.suffix())
    out += m.prefix().str() + "(" + sorted(m[1]) + m[2].str() + m[3].str() + sorted(m[4]) + ")";
  return out + rest;
}

TEST(Schemas, AreReadAndPrintedAsPyTorchDoes) {
  test::Json all = cases("schema_cases");
  EXPECT_EQ(all["cases"].size(), 116u);
  for (const test::Json& c : all["cases"].items) {
    SCOPED_TRACE(c["text"].text);
    Diagnostics diagnostics;
    Result<Schema> schema = parseSchema(c["text"].text, diagnostics);
    EXPECT_EQ(schema.ok(), c["accepts"].boolean) << renderDiagnostics(diagnostics, "test");
    if (!schema || !c["accepts"].boolean) continue;
    EXPECT_EQ(sortedSets(schemaText(*schema)), sortedSets(c["printed"].text));
  }
}

// Every schema of a catalog is read, and printed as it was; how many they are.
size_t checkCatalog(const char* name) {
  std::ifstream file(std::string(TSCOMPILE_SOURCE_DIR) + "/runtime/ops/" + name);
  size_t count = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    ++count;
    Diagnostics diagnostics;
    Result<Schema> schema = parseSchema(line, diagnostics);
    EXPECT_TRUE(schema.ok()) << renderDiagnostics(diagnostics, "test");
    if (!schema) continue;
    EXPECT_EQ(sortedSets(schemaText(*schema)), sortedSets(line));
  }
  return count;
}

TEST(Schemas, AllOfPyTorchPrintBack) {
  EXPECT_EQ(checkCatalog("catalog.txt"), 4211u);
  EXPECT_EQ(checkCatalog("catalog_later.txt"), 330u);
}

// ---- overloads ----

TEST(Overloads, AreThoseThatPyTorchPicks) {
  test::Json all = cases("overload_cases");
  EXPECT_EQ(all["cases"].size(), 1073u);
  for (const test::Json& c : all["cases"].items) {
    std::string parameters, inputs;
    for (size_t i = 0; i < c["args"].size(); ++i) {
      parameters += (i ? ", " : "") + ("%a" + std::to_string(i)) + " : " + c["args"][i].text;
      inputs += (i ? ", %a" : "%a") + std::to_string(i);
    }
    std::string text = "graph(" + parameters + "):\n  %y = " + c["op"].text + "(" + inputs + ")\n  return (%y)\n";
    SCOPED_TRACE(text);
    Diagnostics diagnostics;
    ParseOptions options;
    options.registry = &allOps();
    options.likeParseIr = true;
    Result<std::unique_ptr<Graph>> g = parseGraph(SourceFile::make("case", text), diagnostics, options);
    if (c.has("error")) continue;  // PyTorch's reader cannot name these types
    ASSERT_TRUE(g.ok()) << renderDiagnostics(diagnostics, "test");
    const Node* n = (*g)->block()->first();
    const Operator* op = allOps().resolve(*n);
    EXPECT_EQ(op ? sortedSets(schemaText(op->schema())) : "", sortedSets(c["schema"].text));
    EXPECT_EQ(typeText(n->output()->type()), c["result_type"].text);
  }
}

TEST(Schemas, SetsWithoutANameReadBack) {
  Diagnostics diagnostics;
  Result<Schema> schema = parseSchema("aten::f(Tensor! x, Tensor! y) -> ()", diagnostics);
  ASSERT_TRUE(schema.ok());
  std::string text = schemaText(*schema);
  EXPECT_EQ(text, "aten::f(Tensor($0! -> ) x, Tensor($1! -> ) y) -> ()");
  Result<Schema> again = parseSchema(text, diagnostics);
  ASSERT_TRUE(again.ok()) << renderDiagnostics(diagnostics, "test");
  EXPECT_EQ(schemaText(*again), text);
}

}  // namespace
}  // namespace tscompile
