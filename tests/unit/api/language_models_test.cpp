// The language models of samples/language generate the tokens that PyTorch generated, token by token with past keys and
// values, and from all tokens each time. Where PyTorch's first two logits are nearer than 1e-4 either may come first;
// what follows is then another text.
#include "api/module.h"
#include "ir/support/diagnostic_printer.h"
#include "tests/support/json.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace tscompile::test {
namespace {

struct Golden {
  std::vector<int64_t> prompt, tokens;
  std::vector<double> gaps;
};

Golden goldenOf(const std::string& name) {
  Json json = readJson(TSCOMPILE_TESTS_DIR "/data/language/" + name + ".json");
  Golden g;
  for (const Json& t : json["prompt"].items) g.prompt.push_back(static_cast<int64_t>(t.number));
  for (const Json& t : json["tokens"].items) g.tokens.push_back(static_cast<int64_t>(t.number));
  for (const Json& t : json["gaps"].items) g.gaps.push_back(t.number);
  EXPECT_EQ(g.tokens.size(), 200u) << name;
  EXPECT_EQ(g.gaps.size(), g.tokens.size());
  return g;
}

Method methodOf(const std::string& name, const std::string& text) {
  const std::string folder = TSCOMPILE_SOURCE_DIR "/samples/language/" + name + "/";
  bool isSeeded = std::filesystem::exists(folder + "model.weights");
  Diagnostics diagnostics;
  LoadOptions options;
  options.weights = {folder + (isSeeded ? "model.weights" : "weights.safetensors")};
  Result<Module> m = Module::load(folder + text, options, diagnostics);
  EXPECT_TRUE(m.ok()) << renderDiagnostics(diagnostics, "test");
  Result<Method> method = m ? m->prepare(diagnostics) : Result<Method>(Failed{});
  EXPECT_TRUE(method.ok()) << renderDiagnostics(diagnostics, "test");
  return method ? *method : Method();
}

Tensor row(const std::vector<int64_t>& values) {
  return Tensor::of<int64_t>(Dims{1, static_cast<int64_t>(values.size())}, values);
}

std::vector<IValue> run(const Method& method, std::vector<IValue> inputs) {
  Diagnostics diagnostics;
  Result<std::vector<IValue>> out = method.run(inputs, diagnostics);
  EXPECT_TRUE(out.ok()) << renderDiagnostics(diagnostics, "test");
  return out ? *out : std::vector<IValue>{};
}

// Of the last row.
int64_t likeliest(const Tensor& logits) {
  int64_t words = logits.size(logits.rank() - 1), first = logits.numel() - words, best = 0;
  for (int64_t i = 1; i < words; ++i)
    if (logits.real(first + i) > logits.real(first + best)) best = i;
  return best;
}

// next(tokens up to now) is the logits of the next one.
template <class Next>
void expectTokens(const Golden& g, Next next) {
  std::vector<int64_t> ids = g.prompt;
  for (size_t i = 0; i < g.tokens.size(); ++i) {
    Tensor logits = next(ids);
    ASSERT_TRUE(logits.defined());
    int64_t token = likeliest(logits);
    if (token != g.tokens[i] && g.gaps[i] < 1e-4) return;
    ASSERT_EQ(token, g.tokens[i]) << "token " << i;
    ids.push_back(token);
  }
}

class LanguageModel : public testing::TestWithParam<const char*> {};

TEST_P(LanguageModel, GeneratesFromAllTokens) {
  Method model = methodOf(GetParam(), "model.ir");
  expectTokens(goldenOf(GetParam()), [&](const std::vector<int64_t>& ids) {
    std::vector<int64_t> places(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) places[i] = static_cast<int64_t>(i);
    std::vector<IValue> out = run(model, {row(ids), row(places)});
    return out.size() == 1 ? out[0].toTensor() : Tensor();
  });
}

TEST_P(LanguageModel, GeneratesWithPastKeysAndValues) {
  Method step = methodOf(GetParam(), "decode.ir");
  // All of them have four layers and heads of 16 numbers.
  bool isQwen = std::string_view(GetParam()) == "byte_qwen";
  int64_t heads = isQwen ? 2 : std::string_view(GetParam()) == "byte_gpt" ? 4 : 6;
  Tensor none = Tensor::zeros(DType::Float32, Dims{4, 1, heads, 0, 16});
  IValue k(none), v(none);
  size_t seen = 0;
  expectTokens(goldenOf(GetParam()), [&](const std::vector<int64_t>& ids) {
    Tensor logits;
    for (; seen < ids.size(); ++seen) {
      std::vector<IValue> out = run(step, {row({ids[seen]}), row({static_cast<int64_t>(seen)}), k, v});
      if (out.size() == 1 && out[0].isTuple()) out = std::vector<IValue>(out[0].toTuple().items);
      if (out.size() != 3) return Tensor();
      logits = out[0].toTensor();
      k = out[1];
      v = out[2];
    }
    return logits;
  });
}

INSTANTIATE_TEST_SUITE_P(Samples, LanguageModel, testing::Values("byte_gpt", "byte_qwen", "documentation_gpt"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tscompile::test
