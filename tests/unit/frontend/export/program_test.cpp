#include "frontend/export/program.h"

#include "frontend/export/program_json.h"
#include "ir/graph/printer.h"
#include "runtime/registry.h"
#include "tests/support/files.h"

namespace tscompile {
namespace {

// A program of one input %x and one parameter, whose nodes and outputs are given.
std::string programText(const std::string& nodes, const std::string& output = R"({"as_tensor":{"name":"y"}})",
                        const std::string& version = R"({"major":8,"minor":99})") {
  std::string tensors = R"("tensor_values":{"x":{"dtype":7,"sizes":[{"as_int":2},{"as_expr":{"expr_str":"s0"}}]}})";
  std::string inputs = R"("input_specs":[{"parameter":{"arg":{"name":"w"},"parameter_name":"fc.weight"}},)"
                       R"({"user_input":{"arg":{"as_tensor":{"name":"x"}}}}])";
  return R"({"graph_module":{"graph":{"inputs":[],"nodes":[)" + nodes + R"(],"outputs":[)" + output + "]," + tensors +
         R"(},"signature":{)" + inputs + R"(,"output_specs":[{"user_output":{"arg":)" + output +
         R"(}}]},"module_call_graph":[]},"range_constraints":{"s0":{"min_val":3,"max_val":9}},"schema_version":)" +
         version + ",\"new_field\":[1]}";
}

std::string node(const std::string& target, const std::string& inputs,
                 const std::string& outputs = R"({"as_tensor":{"name":"y"}})") {
  return R"({"target":")" + target + R"(","inputs":[)" + inputs + R"(],"outputs":[)" + outputs +
         R"(],"metadata":{},"name":"n"})";
}
std::string input(const std::string& name, const std::string& argument) {
  return R"({"name":")" + name + R"(","arg":{)" + argument + "}}";
}
const std::string kX = R"("as_tensor":{"name":"x"})", kW = R"("as_tensor":{"name":"w"})";

Result<ExportedProgram> read(const std::string& text, Diagnostics& d) {
  Result<JsonTree> json = JsonTree::parse(SourceFile::make("p", exported::quoteNonFinite(text)), d);
  if (!json) return Failed{};
  return readProgram(*json, "", allOps(), d);
}

// The nodes as text, or the first report and its note.
std::string shownProgram(const std::string& text) {
  Diagnostics d;
  Result<ExportedProgram> program = read(text, d);
  if (!program) {
    const Diagnostic& first = d.list().at(0);
    return first.message + (first.notes.empty() ? "" : " / " + first.notes[0].message);
  }
  return graphText(*program->graph);
}
std::string shownNode(const std::string& n) { return shownProgram(programText(n)); }

TEST(ExportedPrograms, NodesTakeDefaultsAndAttributes) {
  EXPECT_EQ(shownNode(node("torch.ops.aten.linear.default", input("input", kX) + "," + input("weight", kW))),
            "graph(%self : __torch__.torch.export.ExportedProgram,\n"
            "      %x : Float(2, s0)):\n"
            "  %fc.weight : Tensor = prim::GetAttr[name=\"fc.weight\"](%self)\n"
            "  %3 : NoneType = prim::Constant()\n"
            "  %y : Tensor = aten::linear(%x, %fc.weight, %3)\n"
            "  return (%y)\n");
}

TEST(ExportedPrograms, NumbersForTensorsChooseTheOverload) {
  std::string text =
      shownNode(node("torch.ops.aten.mul.Tensor", input("self", kX) + "," + input("other", R"("as_float":-Infinity)")));
  EXPECT_NE(text.find("float = prim::Constant[value=-inf]()"), std::string::npos) << text;
  EXPECT_NE(text.find("%y : Tensor = aten::mul(%x, "), std::string::npos) << text;
  text = shownNode(node("torch.ops.aten.maximum.default", input("self", kX) + "," + input("other", R"("as_int":3)")));
  EXPECT_NE(text.find("prim::NumToTensor"), std::string::npos) << text;
}

// What `1.0 - mask` of integers decomposes to: PyTorch gives float32, the default dtype.
TEST(ExportedPrograms, NumbersGiveWayToTensors) {
  auto shown = [](const std::string& number, int dtype, const std::string& sizes) {
    std::string nodes = node("torch.ops.aten.maximum.default", input("self", number) + "," + input("other", kX));
    std::string text = programText(nodes);
    const std::string given = R"("x":{"dtype":7,"sizes":[{"as_int":2},{"as_expr":{"expr_str":"s0"}}]})";
    text.replace(text.find(given), given.size(), fmt::format(R"("x":{{"dtype":{},"sizes":[{}]}})", dtype, sizes));
    return shownProgram(text);
  };
  const std::string number = R"("as_float":1.5)", one = R"({"as_int":3})";
  auto madeAs = [](int dtype) { return fmt::format("int = prim::Constant[value={}]()", dtype); };
  for (auto [dtype, sizes, made] :
       {std::tuple(5, one, 6), {5, std::string(), 6}, {7, std::string(), 6}, {6, std::string(), 5}}) {
    std::string text = shown(number, dtype, sizes);
    EXPECT_NE(text.find(madeAs(made)), std::string::npos) << text;
    EXPECT_NE(text.find("aten::to("), std::string::npos) << text;
  }
  for (auto [text, dtype] : {std::pair(number, 7), {R"("as_int":1)", 12}, {R"("as_bool":true)", 7}})
    EXPECT_EQ(shown(text, dtype, one).find("aten::to("), std::string::npos) << text;
}

TEST(ExportedPrograms, EnumerationsAreThoseOfGraphText) {
  std::string text = shownNode(
      node("torch.ops.aten._to_copy.default", input("self", kX) + "," + input("dtype", R"("as_scalar_type":8)")));
  EXPECT_NE(text.find("int = prim::Constant[value=7]()"), std::string::npos) << text;
  EXPECT_NE(text.find("aten::to("), std::string::npos) << text;
}

TEST(ExportedPrograms, OlderUnionsNameAllAlternatives) {
  std::string old = R"("as_none":null,"as_tensor":{"name":"x"},"as_int":null)";
  std::string text = shownProgram(programText(
      node("torch.ops.aten.relu.default", input("self", old), R"({"as_tensor":{"name":"y"},"as_tensors":null})"),
      R"({"as_none":null,"as_tensor":{"name":"y"}})", "2"));
  EXPECT_NE(text.find("%y : Tensor = aten::relu(%x)"), std::string::npos) << text;
}

TEST(ExportedPrograms, UnusedResultsOfDecomposedFormsGo) {
  std::string text =
      shownNode(node("torch.ops.aten.native_layer_norm.default",
                     input("input", kX) + "," + input("normalized_shape", R"("as_ints":[4])") + "," +
                         input("weight", R"("as_none":true)") + "," + input("bias", R"("as_none":true)") + "," +
                         input("eps", R"("as_float":0.5)"),
                     R"({"as_tensor":{"name":"y"}},{"as_tensor":{"name":"m"}},{"as_tensor":{"name":"r"}})"));
  EXPECT_NE(text.find("%y : Tensor = aten::layer_norm("), std::string::npos) << text;
  EXPECT_EQ(text.find("native_layer_norm"), std::string::npos) << text;
}

TEST(ExportedPrograms, NumbersThatNothingReadsHaveNoName) {
  std::string text = shownNode(node("torch.ops.aten.item.default", input("self", kX), R"({"as_none":true})") + "," +
                               node("torch.ops.aten.relu.default", input("self", kX)));
  EXPECT_NE(text.find("%y : Tensor = aten::relu(%x)"), std::string::npos) << text;
}

TEST(ExportedPrograms, SizesHaveBoundsAndSymbols) {
  Diagnostics d;
  Result<ExportedProgram> p = read(programText(node("torch.ops.aten.relu.default", input("self", kX))), d);
  ASSERT_TRUE(p.ok()) << test::shown(d);
  ASSERT_EQ(p->inputs.tensors.size(), 1u);
  const std::vector<ExportedSize>& sizes = p->inputs.tensors[0].sizes;
  ASSERT_EQ(sizes.size(), 2u);
  EXPECT_EQ(sizes[0].least, 2);
  EXPECT_EQ(sizes[0].most, 2);
  EXPECT_EQ(sizes[1].least, 3);
  EXPECT_EQ(sizes[1].most, 9);
  EXPECT_EQ(sizes[1].symbol, "s0");
  EXPECT_EQ(sizes[1].example, -1);
}

TEST(ExportedPrograms, SizesHaveExamples) {
  const std::string relu = programText(node("torch.ops.aten.relu.default", input("self", kX)));
  for (const char* hint : {R"("expr_str":"s0","hint":{"as_int":5})", R"("expr_str":"s0","hint":5)"}) {
    std::string text = relu;
    const std::string open = R"("expr_str":"s0")";
    text.replace(text.find(open), open.size(), hint);
    Diagnostics d;
    Result<ExportedProgram> p = read(text, d);
    ASSERT_TRUE(p.ok()) << test::shown(d);
    EXPECT_EQ(p->inputs.tensors[0].sizes[1].example, 5) << hint;
  }
}

// Arguments by their place.
std::string inputs(std::initializer_list<std::string> arguments) {
  std::string out;
  for (const std::string& a : arguments) out += (out.empty() ? "" : ",") + input("", a);
  return out;
}
const std::string kNone = R"("as_tensors":[])", kRows = R"("as_tensors":[{"name":"x"}])";
const std::string kNoGraph = R"("as_graph":{"name":"g","graph":{"inputs":[],"outputs":[],"nodes":[]}})";
const std::string kRowGraph =
    R"("as_graph":{"name":"g","graph":{"inputs":[{"as_tensor":{"name":"r"}}],"outputs":[{"as_tensor":{"name":"r"}}],)"
    R"("nodes":[]}})";

TEST(ExportedPrograms, GraphsOfRowsBecomeLoops) {
  std::string text = shownNode(node("torch.ops.higher_order.map_impl", inputs({kRowGraph, kRows, kNone})));
  EXPECT_NE(text.find(" = aten::select(%x, "), std::string::npos) << text;
  EXPECT_NE(text.find("%y : Tensor = aten::stack("), std::string::npos) << text;
}

TEST(ExportedPrograms, ValuesOfARegionAreNotThereAfterIt) {
  constexpr const char* kPrefix = "torch._functorch.predispatch.";
  auto mark = [&](const std::string& name, const std::string& in, const std::string& out) {
    return node(kPrefix + name, in, out);
  };
  std::string region =
      mark("_vmap_increment_nesting", inputs({R"("as_int":2)"}), R"({"as_none":true})") + "," +
      mark("_add_batch_dim", inputs({kX, R"("as_int":0)", R"("as_int":1)"}), R"({"as_tensor":{"name":"r"}})") + "," +
      mark("_vmap_decrement_nesting", "", R"({"as_none":true})") + ",";
  EXPECT_EQ(shownNode(region + node("torch.ops.aten.relu.default", input("self", R"("as_tensor":{"name":"r"})"))),
            "there is no value 'r' before this place / in the node 'n' that calls torch.ops.aten.relu.default");
}

struct Refused {
  std::string program, report;
};

TEST(ExportedPrograms, WhatIsWrongIsNamed) {
  std::string relu = node("torch.ops.aten.relu.default", input("self", kX));
  const Refused cases[] = {
      {programText(relu, R"({"as_tensor":{"name":"y"}})", R"({"major":9,"minor":1})"),
       "programs of version 9 are not known, only those up to 8"},
      {programText(relu, R"({"as_tensor":{"name":"y"}})", "null"), "the program does not say of which version it is"},
      {programText(relu, R"({"as_tensor":{"name":"z"}})"), "there is no value 'z' before this place"},
      {programText(node("torch.ops.aten.relux.default", input("self", kX))),
       "unknown operator aten::relux / did you mean aten::relu?"},
      {programText(node("torch.ops.aten.relu.default", "")),
       "aten::relu needs the argument 'self' / in the node 'n' that calls torch.ops.aten.relu.default"},
      {programText(node("torch.ops.aten.relu.default", input("self", kX) + "," + input("self", kX))),
       "'self' is given twice / in the node 'n' that calls torch.ops.aten.relu.default"},
      {programText(node("torch.ops.aten.relu.default", input("self", kX) + "," + input("slope", R"("as_int":1)"))),
       "aten::relu has no argument 'slope' / in the node 'n' that calls torch.ops.aten.relu.default"},
      {programText(node("torch.ops.aten.relu.default", input("self", R"("as_string":"x")"))),
       "aten::relu cannot take (str) / in the node 'n' that calls torch.ops.aten.relu.default"},
      {programText(node("torch.ops.aten.relu.default", input("self", R"("as_custom_obj":{"name":"x"})"))),
       "arguments of the kind 'as_custom_obj' are not supported / in the node 'n' that calls "
       "torch.ops.aten.relu.default"},
      {programText(node("torch.ops.higher_order.flex_attention", "")),
       "the higher order operator 'flex_attention' is not supported / in the node 'n' that calls "
       "torch.ops.higher_order.flex_attention"},
      {programText(node("torch.ops.higher_order.while_loop", "")),
       "it takes 4 arguments, not 0 / in the node 'n' that calls torch.ops.higher_order.while_loop"},
      {programText(node("torch.ops.higher_order.while_loop", inputs({kX, kX, kX, kX}))),
       "the loop does not have two graphs / in the node 'n' that calls torch.ops.higher_order.while_loop"},
      {programText(node("torch.ops.higher_order.while_loop", inputs({kNoGraph, kNoGraph, kNone, kNone}))),
       "the condition does not return one value / in the node 'n' that calls torch.ops.higher_order.while_loop"},
      {programText(node("torch.ops.higher_order.map_impl", inputs({kX, kX, kX}))),
       "the node has no graph / in the node 'n' that calls torch.ops.higher_order.map_impl"},
      {programText(node("torch.ops.higher_order.map_impl", inputs({kNoGraph, kNone, kNone}))),
       "there is nothing to go through / in the node 'n' that calls torch.ops.higher_order.map_impl"},
      {programText(node("torch.ops.higher_order.map_impl", inputs({kRowGraph, kRows, kNone}), "")),
       "the graph does not return as many values as the node has / in the node 'n' that calls "
       "torch.ops.higher_order.map_impl"},
      {programText(node("torch.ops.higher_order.scan", inputs({kNoGraph, kRows, kRows, kNone}))),
       "the graph takes 0 inputs, but 2 are given / in the node 'n' that calls torch.ops.higher_order.scan"},
      {programText(node("torch.ops.higher_order.with_effects", inputs({kX, kX}))),
       "the node does not name an operator / in the node 'n' that calls torch.ops.higher_order.with_effects"},
      {programText(node("torch._functorch.predispatch._vmap_increment_nesting", inputs({R"("as_int":2)"}))),
       "the region has no end or no size / in the node 'n' that calls "
       "torch._functorch.predispatch._vmap_increment_nesting"},
      {programText(node("builtins.print", "")),
       "builtins.print is not an operator of a graph / in the node 'n' that calls builtins.print"},
      {programText(node("_operator.add", input("a", R"("as_string":"x")"), R"({"as_sym_int":{"as_name":"y"}})")),
       "aten::add cannot take (str) / in the node 'n' that calls _operator.add"},
      {"[]", "the program does not say of which version it is"},
      {R"({"schema_version":8})", "the program has no graph"},
  };
  for (const Refused& c : cases) EXPECT_EQ(shownProgram(c.program), c.report) << c.program;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

TEST(ExportedPrograms, NamesThatAreNotThereAreTold) {
  const std::string relu = programText(node("torch.ops.aten.relu.default", input("self", kX)));
  EXPECT_EQ(shownProgram(replaced(relu, R"({"arg":{"name":"w"})", R"({"arg":{})")), "the input has no name");
  EXPECT_EQ(shownProgram(replaced(relu, R"("parameter_name":"fc.weight")", R"("parameter_name":"")")),
            "the input has no name");
  const std::string old = replaced(relu, R"("input_specs":)", R"("inputs_to_parameters":{},"no_specs":)");
  EXPECT_EQ(shownProgram(replaced(old, R"("inputs":[])", R"("inputs":[{"as_tensors":[{"name":"x"},{"name":"z"}]}])")),
            "the input has no name");
  const std::string result = R"({"user_output":{"arg")";
  EXPECT_EQ(shownProgram(replaced(relu, result, R"({"buffer_mutation":{"buffer_name":"b","arg")")),
            "what is written is not there");
  Diagnostics d;
  EXPECT_FALSE(read(replaced(relu, result, R"({"user_input_mutation":{"user_input_name":"z","arg")"), d).ok());
  ASSERT_EQ(d.list().size(), 1u) << test::shown(d);
  EXPECT_EQ(d.list()[0].message, "there is no value 'z' before this place");
  const std::string oldOutputs = replaced(relu, R"("output_specs")", R"("buffers_to_mutate":{"y":"b"},"no_specs")");
  EXPECT_EQ(shownProgram(oldOutputs), "what is written is not there");
}

TEST(ExportedPrograms, TensorsThatWrapOthersAreParameters) {
  const std::string target = "torch.ops.export.access_subclass_inner_tensor.default";
  const std::string scale = R"("as_string":"scale")";
  std::string text = shownNode(node(target, inputs({kW, scale})));
  EXPECT_NE(text.find("prim::GetAttr[name=\"fc.weight.scale\"](%self)"), std::string::npos) << text;
  for (const std::string& other :
       {node(target, inputs({kX, scale})), node(target, inputs({kW})), node(target, inputs({kW, R"("as_string":"")"}))})
    EXPECT_EQ(shownNode(other),
              "only parameters and buffers may be tensors that wrap others / in the node 'n' that calls " + target);
}

}  // namespace
}  // namespace tscompile
