// What built-in plugins say about fields and sizes that do not go together.
#include "api/extensions.h"
#include "api/module.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

// The message of a node whose inputs have these types ("Float(2, 3)").
std::string problemOf(const std::string& node, const std::vector<std::string>& types, int outputs) {
  std::string inputs, arguments, results = outputs == 1 ? "%y : Tensor" : "%y : Tensor, %z : Tensor";
  for (size_t i = 0; i < types.size(); ++i) {
    std::string name = "%i" + std::to_string(i);
    inputs += (i ? ", " : "") + name + " : Tensor";
    arguments += (i ? ", " : "") + name;
  }
  LoadOptions options;
  options.extensions = std::make_shared<Extensions>();
  Diagnostics diagnostics;
  auto module = Module::fromText(
      "graph(" + inputs + "):\n  " + results + " = tensorrt_llm::" + node + "(" + arguments + ")\n  return (%y)\n",
      "test", options, diagnostics);
  std::vector<IValue> values;
  for (const std::string& type : types) {
    DType dtype = type.starts_with("Char")   ? DType::Int8
                  : type.starts_with("Byte") ? DType::UInt8
                  : type.starts_with("Int")  ? DType::Int32
                                             : DType::Float32;
    Dims sizes;
    for (size_t at = type.find('(') + 1; at < type.size(); at = type.find_first_of(",)", at) + 1)
      sizes.push_back(std::atoll(type.c_str() + at));
    values.emplace_back(Tensor::zeros(dtype, sizes));
  }
  if (module && module->forward(values, diagnostics)) return "none";
  for (const Diagnostic& d : diagnostics.list())
    if (d.severity == Severity::Error) return d.message;
  return "no message";
}

void expectProblem(const std::string& node, const std::vector<std::string>& types, const std::string& want,
                   int outputs = 1) {
  std::string got = problemOf(node, types, outputs);
  EXPECT_NE(got.find(want), std::string::npos) << node << ": " << got;
}

TEST(BuiltinPlugins, SayWhichSizesDoNotFit) {
  expectProblem("Gemm", {"Float(2, 3)", "Float(4, 5)"}, "K of B is 4, expected 3 as that of A");
  expectProblem("Gemm[transb=1]", {"Float(2, 3)", "Float(3, 5)"}, "K of B is 5, expected 3 as that of A");
  expectProblem("Gemm", {"Float(3)", "Float(3, 5)"}, "A must have 2 dimensions at least, not 1");
  expectProblem("Gemm", {"Float(2, 3)", "Char(3, 5)"}, "the input B is of type int8, expected float");
  expectProblem("SmoothQuantGemm[has_per_token_scaling=1]", {"Char(2, 3)", "Char(4, 3)", "Float(3)", "Float(1)"},
                "the number of scale_tokens is 3, expected 2 as the rows of mat1");
  expectProblem("SmoothQuantGemm", {"Char(2, 3)", "Char(4, 3)"}, "scale_tokens and scale_channels are needed");
  expectProblem("WeightOnlyQuantMatmul[weight_type_id=\"int4\"]", {"Float(2, 8)", "Char(8, 5)", "Float(5)"},
                "the number of per_channel_scale is 5, expected 10 as N of weight");
  expectProblem("WeightOnlyQuantMatmul", {"Float(2, 8)", "Char(7, 5)", "Float(5)"},
                "K of weight is 7, expected 8 as that of activation");
  expectProblem("WeightOnlyGroupwiseQuantMatmul[group_size=4, inputs=[\"activation\", \"weight\", \"scales\"]]",
                {"Float(2, 10)", "Char(10, 3)", "Float(2, 6)"},
                "the number of rows of scales is 2, expected 3 as the groups of weight");
  expectProblem("Layernorm", {"Float(2, 8)", "Float(7)"}, "the size of weight is 7, expected 8 as the last one of x");
  expectProblem("QuantizeTensor", {"Float(2, 8)", "Float(2)"}, "the number of elements of scale is 2, expected 1");
  expectProblem("QuantizeToFP4", {"Float(2, 8)", "Float(1)"}, "the last size of x is 8, expected a multiple of 16", 2);
  expectProblem("GemmSwiglu", {"Float(2, 8)", "Float(5, 8)"}, "mat2 has 5 rows, expected an even number");
  expectProblem("QServeGemm", {"Char(2, 8)", "Byte(3, 4)", "Float(3)", "Float(2)"},
                "s1_szeros and act_sums are needed without groups");
  expectProblem("BertAttention[num_heads=2, head_size=4]", {"Float(2, 5, 23)", "Int(2)"},
                "the last size of qkv is 23, expected 24");
  expectProblem("BertAttention[num_heads=2, head_size=4, remove_padding=1]", {"Float(2, 5, 24)", "Int(2)"},
                "packed qkv must have 2 dimensions, not 3");
}

TEST(BuiltinPlugins, SayWhichFieldsAreWrong) {
  expectProblem("Gemm[transA=1]", {"Float(2, 3)", "Float(3, 5)"}, "there is no field transA, did you mean transa?");
  expectProblem("BertAttention[num_heads=2]", {"Float(2, 5, 24)", "Int(2)"}, "the field head_size (int) is missing");
  expectProblem("BertAttention[num_heads=2, head_size=4, q_scaling=0.]", {"Float(2, 5, 24)", "Int(2)"},
                "q_scaling is 0, expected a positive number");
  expectProblem("WeightOnlyQuantMatmul[weight_type_id=\"int2\"]", {"Float(2, 8)", "Char(8, 5)", "Float(5)"},
                "weight_type_id");
  expectProblem("QuantizePerToken[clamp_enabled=1]", {"Float(2, 8)"}, "clamp_val goes with the field clamp_enabled", 2);
}

TEST(BuiltinPlugins, LengthsThatAreNotThereAreRefused) {
  auto run = [](std::vector<int32_t> lengths, bool packed) {
    LoadOptions options;
    options.extensions = std::make_shared<Extensions>();
    Diagnostics diagnostics;
    auto module =
        Module::fromText(std::string("graph(%x : Tensor, %n : Tensor):\n  %y : Tensor = "
                                     "tensorrt_llm::BertAttention[num_heads=1, head_size=2, remove_padding=") +
                             (packed ? "1" : "0") + "](%x, %n)\n  return (%y)\n",
                         "test", options, diagnostics);
    Tensor x = packed ? Tensor::zeros(DType::Float32, Dims{4, 6}) : Tensor::zeros(DType::Float32, Dims{2, 4, 6});
    Tensor n = Tensor::of<int32_t>(Dims{static_cast<int64_t>(lengths.size())}, lengths);
    return module && module->forward(std::vector<IValue>{x, n}, diagnostics) ? "" : diagnostics.list().at(0).message;
  };
  EXPECT_EQ(run({4, 1}, false), "");
  EXPECT_EQ(run({3, 1}, true), "");
  EXPECT_NE(run({5, 1}, false), "");
  EXPECT_NE(run({-1, 1}, false), "");
  EXPECT_NE(run({3, 2}, true), "");
  EXPECT_NE(run({3}, true), "");
}

// As above, with the types of inputs and the outputs in the text.
TEST(BuiltinPlugins, SayWhatIsWrong) {
  struct Wrong {
    const char *inputs, *node, *message;
  };
  constexpr const char* kExperts = "%x : Float(5, 4), %s : Float(5, 3), %u : Float(3, 12, 4), %d : Float(3, 4, 6)";
  const Wrong all[] = {
      {"%x : Int(3), %w : Char(5, 4)", "%y : Tensor = tensorrt_llm::Lookup(%x, %w)",
       "int8 weights need the input per_token_scale"},
      {"%x : Float(2, 3)", "%y : Tensor, %i : Tensor = tensorrt_llm::TopkLastDim[k=4](%x)",
       "k is 4, and the last size of x only 3"},
      {"%x : Float(2, 3)", "%y : Tensor = tensorrt_llm::CumsumLastDim[input_length=4](%x)",
       "the last size of x is 3, expected 4"},
      {"%x : Float(2, 5, 4), %s : Float(2, 2, 4), %w : Float(1, 4, 4)",
       "%y : Tensor, %n : Tensor = tensorrt_llm::MambaConv1d[dim=4, dconv=3](%x, %s, %w)",
       "size 1 of weight is 4, expected 3"},
      {"%x : Float(5, 4), %s : Float(2, 2, 4), %w : Float(1, 3, 4)",
       "%y : Tensor, %n : Tensor = tensorrt_llm::MambaConv1d[dim=4, dconv=3, remove_input_padding=1](%x, %s, %w)",
       "remove_input_padding needs the input last_token_ids"},
      {"%x : Float(2, 3, 4), %h : Float(2, 2, 4)",
       "%y : Tensor, %n : Tensor = tensorrt_llm::SelectiveScan[dim=4, dstate=2, nheads=3, is_mamba2=1, "
       "inputs=[\"input_tensor\", \"state\", \"delta\", \"A\", \"BC\"]](%x, %h, %x, %h, "
       "%x)",
       "dim must be a multiple of nheads"},
      {kExperts,
       "%y : Tensor = tensorrt_llm::MixtureOfExperts[number_of_experts=3, expert_hidden_size=4, expert_inter_size=6, "
       "experts_per_token=4](%x, %s, %u, %d)",
       "experts_per_token is 4, and there are 3 experts"},
      {kExperts,
       "%y : Tensor = tensorrt_llm::MixtureOfExperts[number_of_experts=3, expert_hidden_size=4, expert_inter_size=6, "
       "normalization_mode=\"sparse_mixer\"](%x, %s, %u, %d)",
       "normalization_mode sparse_mixer is not implemented"},
      {kExperts,
       "%y : Tensor = tensorrt_llm::MixtureOfExperts[number_of_experts=3, expert_hidden_size=4, expert_inter_size=6, "
       "activation_type=\"relu\"](%x, %s, %u, %d)",
       "size 1 of expert_weights_1 is 12, expected 6"},
      {"%x : Float(2, 3, 4), %r : Int(2, 1), %a : Float(2, 1, 2, 4), %b : Float(2, 5, 2)",
       "%y : Tensor = tensorrt_llm::Lora[in_hidden_size=4, out_hidden_sizes=[5, 2], max_low_rank=2](%x, %x, %r, %a, "
       "%b)",
       "out_hidden_sizes has 2 numbers, and num_lora_modules is 1"},
      {"%x : Float(2, 3, 4), %a : Float(4), %h : Float(2, 4)",
       "%y : Tensor, %n : Tensor = tensorrt_llm::LRU[dim=4, block_size=2](%x, %a, %h)",
       "with these fields, the input y is missing"},
      {"%x : Float(3, 4)", "%y : Tensor = tensorrt_llm::ReduceScatter[group=[0, 1]](%x)",
       "x has 3 rows, which 2 shards cannot share"},
      {"%l : Float(1, 9), %p : Int(1, 1, 2), %d : Int(1, 1)",
       "%y : Tensor, %n : Tensor = tensorrt_llm::EagleDecodeDraftTokens[use_dynamic_tree=1](%l, %p, %d)",
       "use_dynamic_tree is not implemented"},
  };
  for (const Wrong& w : all) {
    Diagnostics diagnostics;
    LoadOptions options;
    options.extensions = std::make_shared<Extensions>();
    std::string text = std::string("graph(") + w.inputs + "):\n  " + w.node + "\n  return (%y)\n";
    Result<Module> m = Module::fromText(text, "test", options, diagnostics);
    ASSERT_TRUE(m) << text;
    std::vector<IValue> inputs;
    for (const Value* v : m->graph()->inputs())
      inputs.emplace_back(Tensor::zeros(v->type()->tensor().dtype, v->type()->tensor().sizes));
    EXPECT_FALSE(m->forward(inputs, diagnostics)) << text;
    ASSERT_FALSE(diagnostics.list().empty()) << text;
    EXPECT_NE(diagnostics.list()[0].message.find(w.message), std::string::npos) << diagnostics.list()[0].message << "\n"
                                                                                << w.message;
  }
}

}  // namespace
}  // namespace tscompile::test
