// Language models from graph text to a folder, and from the folder in a batcher: the tokens are PyTorch's, and every
// setting of a build has its effect or is refused by name.
#include "api/language_model.h"
#include "frontend/files/file_io.h"
#include "ir/support/diagnostic_printer.h"
#include "tests/support/json.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <gmock/gmock.h>
#include <thread>

namespace tscompile::test {
namespace {

const std::string kSamples = TSCOMPILE_SOURCE_DIR "/samples/language/";

struct Golden {
  std::vector<TokenId> prompt, tokens;
  std::vector<double> gaps;
};
Golden goldenOf(const std::string& name) {
  Json json = readJson(TSCOMPILE_TESTS_DIR "/data/language/" + name + ".json");
  Golden g;
  for (const Json& t : json["prompt"].items) g.prompt.push_back(static_cast<TokenId>(t.number));
  for (const Json& t : json["tokens"].items) g.tokens.push_back(static_cast<TokenId>(t.number));
  for (const Json& t : json["gaps"].items) g.gaps.push_back(t.number);
  return g;
}

class BuiltModelTest : public testing::Test {
 protected:
  std::string messages() const { return renderDiagnostics(diagnostics, "test"); }
  bool build(const std::string& name, const std::vector<std::string>& settings = {}, std::string folder = "") {
    std::string from = kSamples + name + "/";
    LoadOptions options;
    options.weights = {from +
                       (std::filesystem::exists(from + "model.weights") ? "model.weights" : "weights.safetensors")};
    Result<Module> module = Module::load(from + "model.ir", options, diagnostics);
    BuildConfig config;
    bool good = module.ok();
    for (const std::string& s : settings) good = good && setBuildOption(config, s, diagnostics);
    good = good && checkBuildConfig(config, diagnostics);
    return good && buildLanguageModel(*module, config, folder.empty() ? folder_ : folder, diagnostics);
  }
  std::unique_ptr<LanguageModel> load(int threads = 1) {
    LanguageModel::Options options;
    options.threads = threads;
    return LanguageModel::load(folder_, options, diagnostics);
  }
  std::unique_ptr<LanguageModel> built(const std::string& name, const std::vector<std::string>& settings = {}) {
    bool good = build(name, settings);
    EXPECT_TRUE(good) << messages();
    auto model = good ? load() : nullptr;
    EXPECT_TRUE(model) << messages();
    return model;
  }
  // What requests that are served together give.
  std::vector<RequestResult> serve(LanguageModel& model, std::vector<Request> requests) {
    auto batcher = Batcher::make(model, model.cache(), model.limits(), diagnostics);
    EXPECT_TRUE(batcher) << messages();
    std::vector<RequestId> ids;
    std::vector<RequestResult> results;
    if (!batcher) return results;
    for (Request& r : requests) {
      Result<RequestId> id = batcher->add(std::move(r), diagnostics);
      EXPECT_TRUE(id) << messages();
      if (id) ids.push_back(*id);
    }
    EXPECT_TRUE(batcher->run(diagnostics)) << messages();
    steps = batcher->counters().steps;
    EXPECT_EQ(batcher->cache().usedBlocks(), 0) << "blocks are left behind";
    for (RequestId id : ids) results.push_back(*batcher->take(id));
    return results;
  }
  static Request request(std::vector<TokenId> prompt, int64_t tokens) {
    Request r;
    r.prompt = std::move(prompt);
    r.maxNewTokens = tokens;
    return r;
  }
  // The first `count` tokens of the golden; another one where PyTorch's first two logits were close ends the
  // comparison.
  static void expectGolden(const Golden& g, const std::vector<TokenId>& tokens, size_t count = 200) {
    ASSERT_EQ(tokens.size(), count);
    for (size_t i = 0; i < count; ++i) {
      if (tokens[i] != g.tokens[i] && g.gaps[i] < 1e-4) return;
      ASSERT_EQ(tokens[i], g.tokens[i]) << "token " << i;
    }
  }
  std::string firstError() const {
    for (const Diagnostic& d : diagnostics.list())
      if (d.severity == Severity::Error) return d.message;
    return "";
  }
  const TemporaryFolder temporary_;
  std::string folder_ = temporary_.path() + "/model";
  Diagnostics diagnostics;
  int64_t steps = 0;
};

class BuiltModels : public BuiltModelTest, public testing::WithParamInterface<const char*> {};

TEST_P(BuiltModels, GenerateWhatPyTorchDoes) {
  Golden g = goldenOf(GetParam());
  auto model = built(GetParam());
  ASSERT_TRUE(model);
  std::vector<RequestResult> alone = serve(*model, {request(g.prompt, 200)});
  expectGolden(g, alone.at(0).tokens);
}

// Prompts in pieces of 3 tokens, 3 rows a step, shared beginnings.
TEST_P(BuiltModels, GenerateTheSameTogether) {
  Golden g = goldenOf(GetParam());
  auto model = built(GetParam(), {"max_num_tokens=7", "max_batch_size=4", "tokens_per_block=4"});
  ASSERT_TRUE(model);
  std::vector<Request> requests;
  std::vector<std::vector<TokenId>> prompts;
  for (size_t cut : {0, 1, 2, 5}) {
    std::vector<TokenId> prompt(g.prompt.begin(), g.prompt.end() - static_cast<std::ptrdiff_t>(cut));
    prompts.push_back(prompt);
    requests.push_back(request(prompt, 30));
  }
  std::vector<RequestResult> together = serve(*model, std::move(requests));
  int64_t stepsTogether = steps;
  expectGolden(g, together.at(0).tokens, 30);
  int64_t stepsAlone = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    std::vector<RequestResult> alone = serve(*model, {request(prompts[i], 30)});
    stepsAlone += steps;
    EXPECT_EQ(alone.at(0).tokens, together[i].tokens) << i;
  }
  EXPECT_LT(stepsTogether * 2, stepsAlone);
}

TEST_P(BuiltModels, AreTheSameBytesEachTime) {
  std::string other = folder_ + "_again";
  ASSERT_TRUE(build(GetParam()) && build(GetParam(), {}, other)) << messages();
  for (const char* file : {"config.json", "rank0.engine"}) {
    Result<std::string> a = readFile(folder_ + "/" + file, 1 << 28, diagnostics);
    Result<std::string> b = readFile(other + "/" + file, 1 << 28, diagnostics);
    ASSERT_TRUE(a && b);
    EXPECT_TRUE(*a == *b) << file;
  }
  std::filesystem::remove_all(other);
}

TEST_P(BuiltModels, TellWhereSettingsAreNotTheirs) {
  ASSERT_TRUE(build(GetParam(), {"max_seq_len=128"})) << messages();
  const std::string path = folder_ + "/config.json";
  Result<std::string> text = readFile(path, 1 << 20, diagnostics);
  ASSERT_TRUE(text);
  constexpr std::string_view kBuilt = "\"max_seq_len\": 128";
  const size_t at = text->find(kBuilt);
  ASSERT_NE(at, std::string::npos);
  ASSERT_TRUE(writeFile(path, text->replace(at, kBuilt.size(), "\"max_seq_len\": 90000"), diagnostics));
  EXPECT_FALSE(LanguageModel::load(folder_, {}, diagnostics));
  EXPECT_NE(messages().find("max_seq_len is 90000, but the engine was built for texts of up to 128 tokens\n"
                            "note: build again with max_seq_len=90000"),
            std::string::npos)
      << messages();
}

INSTANTIATE_TEST_SUITE_P(All, BuiltModels, testing::Values("byte_gpt", "byte_qwen", "documentation_gpt"),
                         [](const auto& info) { return std::string(info.param); });

// ---- other weights ----

// Folders with the weights of the recipe, but for those that a random number generator started elsewhere gives.
class RefittedModel : public BuiltModelTest {
 protected:
  // The recipe of byte_gpt, with other seeds.
  std::string otherWeights() {
    Result<std::string> recipe = readFile(kSamples + "byte_gpt/model.weights", 1 << 20, diagnostics);
    EXPECT_TRUE(recipe);
    std::string text = recipe ? *recipe : "";
    size_t changed = 0;
    for (size_t at = text.find("seed="); at != std::string::npos; at = text.find("seed=", at + 9), ++changed)
      text.replace(at, 5, "seed=7000");
    EXPECT_GT(changed, 10u);
    return write("other.weights", text);
  }
  std::string write(const std::string& name, const std::string& text) {
    std::string path = folder_ + "_" + name;
    FileWriter file(path, diagnostics);
    EXPECT_TRUE(file.write(text) && file.commit());
    return path;
  }
  bool buildWith(const std::string& weights, const std::vector<std::string>& settings, const std::string& folder) {
    LoadOptions options;
    options.weights = {weights};
    Result<Module> module = Module::load(kSamples + "byte_gpt/model.ir", options, diagnostics);
    BuildConfig config;
    bool good = module.ok();
    for (const std::string& s : settings) good = good && setBuildOption(config, s, diagnostics);
    return good && buildLanguageModel(*module, config, folder, diagnostics);
  }
  bool refit(const std::string& weights, const std::string& output, bool partial = false) {
    RefitOptions options;
    options.weights = {weights};
    options.partial = partial;
    return refitLanguageModel(folder_, options, output, diagnostics);
  }
  void expectSameFolders(const std::string& x, const std::string& y) {
    for (const char* file : {"config.json", "rank0.engine"}) {
      Result<std::string> a = readFile(x + "/" + file, 1 << 28, diagnostics);
      Result<std::string> b = readFile(y + "/" + file, 1 << 28, diagnostics);
      ASSERT_TRUE(a && b) << messages();
      EXPECT_TRUE(*a == *b) << file;
    }
  }
};

TEST_F(RefittedModel, IsTheOneThatIsBuiltWithTheWeights) {
  std::string weights = otherWeights(), wanted = folder_ + "_wanted";
  for (const char* setting : {"weight_precision=float32", "weight_precision=float16", "weight_precision=int8",
                              "kv_cache_dtype=int8", "kv_cache_type=continuous"}) {
    ASSERT_TRUE(build("byte_gpt", {setting})) << messages();
    ASSERT_TRUE(buildWith(weights, {setting}, wanted)) << messages();
    ASSERT_TRUE(refit(weights, folder_)) << messages();
    expectSameFolders(folder_, wanted);
  }
  auto model = load();
  ASSERT_TRUE(model) << messages();
  EXPECT_NE(serve(*model, {request({1, 2, 3}, 8)}).at(0).tokens, goldenOf("byte_gpt").tokens);
  std::filesystem::remove_all(wanted);
}

TEST_F(RefittedModel, MayReplaceSomeWeights) {
  ASSERT_TRUE(build("byte_gpt")) << messages();
  std::string other = folder_ + "_other";
  EXPECT_FALSE(refit(write("wrong.weights", "head.weigth = 64:f32:randn(seed=1)\n"), other, true));
  EXPECT_NE(messages().find("weight 'head.weigth' is not in the model, did you mean 'head.weight'?"), std::string::npos)
      << messages();
  EXPECT_FALSE(std::filesystem::exists(other));
  diagnostics = Diagnostics();
  // All of them again are what was there before.
  std::string recipe = kSamples + "byte_gpt/model.weights";
  ASSERT_TRUE(refit(otherWeights(), other)) << messages();
  std::string back = folder_ + "_back";
  std::swap(folder_, other);
  ASSERT_TRUE(refit(recipe, back)) << messages();
  std::swap(folder_, other);
  expectSameFolders(folder_, back);
  std::filesystem::remove_all(other);
  std::filesystem::remove_all(back);
}

TEST_F(RefittedModel, TakesTheFilesOfTextsAlong) {
  ASSERT_TRUE(build("byte_gpt")) << messages();
  const std::string tokenizer = folder_ + "/generation_config.json", other = folder_ + "_other";
  ASSERT_TRUE(writeFile(tokenizer, "{\"eos_token_id\": 7}", diagnostics));
  ASSERT_TRUE(refit(otherWeights(), other)) << messages();
  Result<std::string> copied = readFile(other + "/generation_config.json", 1 << 10, diagnostics);
  ASSERT_TRUE(copied) << messages();
  EXPECT_EQ(*copied, "{\"eos_token_id\": 7}");
  ASSERT_TRUE(refit(otherWeights(), folder_)) << messages();
  EXPECT_TRUE(std::filesystem::exists(tokenizer));
  std::filesystem::remove_all(other);
}

TEST_F(BuiltModelTest, HasSettingsThatAnotherBuildTakes) {
  ASSERT_TRUE(build("byte_gpt", {"max_seq_len=96", "max_batch_size=3"})) << messages();
  Result<std::string> written = readFile(folder_ + "/config.json", 1 << 20, diagnostics);
  ASSERT_TRUE(written);
  Result<BuildConfig> config = parseBuildConfig(*written, "config.json", diagnostics);
  ASSERT_TRUE(config) << messages();
  EXPECT_EQ(config->maxSeqLen, 96);
  EXPECT_EQ(config->maxBatchSize, 3);
}

TEST_F(RefittedModel, NeedsWhatUseRefitKeeps) {
  ASSERT_TRUE(build("byte_gpt", {"use_refit=false"})) << messages();
  auto small = std::filesystem::file_size(folder_ + "/rank0.engine");
  EXPECT_FALSE(refit(otherWeights(), folder_));
  EXPECT_EQ(firstError(), "the engine was not made to be refitted");
  diagnostics = Diagnostics();
  ASSERT_TRUE(build("byte_gpt")) << messages();
  auto large = std::filesystem::file_size(folder_ + "/rank0.engine");
  std::printf("what a refit needs: %zu of %zu bytes\n", static_cast<size_t>(large - small), static_cast<size_t>(large));
  EXPECT_LT(large - small, large / 10);
  // The engine alone is not a model.
  RefitOptions options;
  options.weights = {otherWeights()};
  EXPECT_FALSE(refitEngine(folder_ + "/rank0.engine", options, folder_ + "/rank0.engine", diagnostics));
  EXPECT_EQ(firstError(), "this engine belongs to a language model, whose folder is refitted as a whole");
}

// ---- settings ----

// The settings that have an effect and what tests it; all others are refused by name, see below.
TEST_F(BuiltModelTest, SettingsThatAreKnown) {
  std::vector<std::string> names;
  for (const auto& [name, value] : buildOptionTexts({})) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "max_batch_size",             // BatchesAreNoLargerThanBuilt
                       "max_input_len",              // LimitsHold
                       "max_seq_len",                // LimitsHold
                       "max_beam_width",             // BeamsFindLikelierTexts
                       "max_num_tokens",             // PromptsComeInPiecesOfMaxNumTokens
                       "opt_num_tokens",             // UsualTokensAreInTheEngine
                       "tokens_per_block",           // CachesHaveTheirBlocks
                       "kv_cache_blocks",            // CachesHaveTheirBlocks
                       "max_attention_window_size",  // WindowsBoundTheCache
                       "sink_token_length",          // SinksStay
                       "kv_cache_type",              // ContinuousCachesGiveTheSame
                       "kv_cache_dtype",             // QuantisedCachesAreClose
                       "kv_cache_scale",             // ScalesOfCachesCount
                       "weight_precision",           // WeightsIn8BitsAgree, WeightsAreStoredSmaller
                       "gather_context_logits",      // ContextLogitsAreThoseOfAllTokens
                       "use_refit",                  // NeedsWhatUseRefitKeeps
                   }));
}

TEST_F(BuiltModelTest, BatchesAreNoLargerThanBuilt) {
  for (int64_t rows : {1, 3}) {
    auto model = built("byte_gpt", {"max_batch_size=" + std::to_string(rows)});
    ASSERT_TRUE(model);
    auto batcher = Batcher::make(*model, model->cache(), model->limits(), diagnostics);
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(batcher->add(request({1, 2, static_cast<TokenId>(i)}, 6), diagnostics));
    ASSERT_TRUE(batcher->run(diagnostics)) << messages();
    EXPECT_EQ(batcher->counters().mostRows, rows);
  }
}

TEST_F(BuiltModelTest, PromptsComeInPiecesOfMaxNumTokens) {
  std::vector<TokenId> prompt(20, 7);
  for (auto [most, pieces] : {std::pair(20, 1), std::pair(10, 2), std::pair(3, 7)}) {
    auto model = built("byte_gpt", {"max_num_tokens=" + std::to_string(most), "max_batch_size=2", "opt_num_tokens=1"});
    ASSERT_TRUE(model);
    serve(*model, {request(prompt, 1)});
    EXPECT_EQ(steps, pieces) << most;
  }
}

TEST_F(BuiltModelTest, UsualTokensAreInTheEngine) {
  ASSERT_TRUE(build("byte_gpt", {"opt_num_tokens=32"})) << messages();
  Result<Module> engine = Module::load(folder_ + "/rank0.engine", {}, diagnostics);
  ASSERT_TRUE(engine) << messages();
  EXPECT_THAT(engine->engineInfo()->options, testing::Contains("opt-shape=input_ids=1x32:int64"));
}

TEST_F(BuiltModelTest, CachesHaveTheirBlocks) {
  auto model = built("byte_gpt", {"tokens_per_block=16", "kv_cache_blocks=5"});
  ASSERT_TRUE(model);
  const LanguageModelShape& s = model->shape();
  EXPECT_EQ(model->cache().blocks, 5);
  EXPECT_EQ(model->cacheBytes(), 2 * s.layers * s.kvHeads * s.headSize * 4 * 5 * 16);
  auto batcher = Batcher::make(*model, model->cache(), model->limits(), diagnostics);
  EXPECT_TRUE(batcher->add(request(std::vector<TokenId>(70, 1), 5), diagnostics)) << messages();
  EXPECT_FALSE(batcher->add(request(std::vector<TokenId>(81, 1), 5), diagnostics)) << "does not fit in 80 places";
}

// Keys in one piece for each row, keys in blocks: the same numbers in other places.
TEST_F(BuiltModelTest, ContinuousCachesGiveTheSame) {
  for (const char* name : {"byte_gpt", "byte_qwen"}) {
    Golden g = goldenOf(name);
    auto tokensOf = [&](const std::vector<std::string>& settings) {
      auto model = built(name, settings);
      std::vector<std::vector<TokenId>> out;
      if (!model) return out;
      std::vector<Request> requests;
      for (std::ptrdiff_t cut : {0, 1, 4, 6}) requests.push_back(request({g.prompt.begin(), g.prompt.end() - cut}, 40));
      if (settings.size() > 3) requests[1].sampling.beamWidth = 3;
      for (RequestResult& r : serve(*model, std::move(requests))) out.push_back(r.tokens);
      if (settings[0] == "kv_cache_type=continuous") {
        EXPECT_EQ(model->cache().blocks, 4);
        EXPECT_EQ(model->cache().tokensPerBlock, 256);
        EXPECT_EQ(model->cache().blocksFor(200), 1);
      }
      return out;
    };
    auto pieces = tokensOf({"kv_cache_type=continuous", "max_seq_len=200", "max_batch_size=4"});
    auto blocks = tokensOf({"kv_cache_type=paged", "max_seq_len=200", "max_batch_size=4"});
    EXPECT_EQ(pieces, blocks) << name;
    ASSERT_EQ(pieces.size(), 4u);
    expectGolden(g, pieces[0], 40);
    EXPECT_EQ(tokensOf({"kv_cache_type=continuous", "max_seq_len=200", "max_batch_size=4", "max_beam_width=3"}),
              tokensOf({"kv_cache_type=paged", "max_seq_len=200", "max_batch_size=4", "max_beam_width=3"}));
  }
}

TEST_F(BuiltModelTest, WithoutACacheTextsAreTheSame) {
  Golden g = goldenOf("byte_gpt");
  auto tokensOf = [&](const std::string& type, int64_t beams) {
    auto model = built("byte_gpt", {"kv_cache_type=" + type, "max_seq_len=128", "max_beam_width=2"});
    std::vector<std::vector<TokenId>> out;
    if (!model) return out;
    EXPECT_EQ(model->isCached(), type == "paged");
    Request first = request(g.prompt, 12), second = request({g.prompt[0], 3, 5}, 9);
    second.sampling.beamWidth = beams;
    for (RequestResult& r : serve(*model, {first, second, first})) out.push_back(r.tokens);
    return out;
  };
  for (int64_t beams : {1, 2}) EXPECT_EQ(tokensOf("disabled", beams), tokensOf("paged", beams)) << beams;
  diagnostics = Diagnostics();
  auto model = built("byte_gpt", {"kv_cache_type=disabled", "max_seq_len=64", "gather_context_logits=true"});
  ASSERT_TRUE(model);
  serve(*model, {request({1, 2, 3, 4}, 1)});
  EXPECT_EQ(model->allLogits().sizes(), (Dims{4, 256}));
  EXPECT_EQ(model->cacheBytes(), 0);
}

TEST_F(BuiltModelTest, ContinuousCachesMayHaveWindows) {
  Golden g = goldenOf("documentation_gpt");
  auto tokensOf = [&](const std::string& type) {
    auto model =
        built("documentation_gpt", {"kv_cache_type=" + type, "max_attention_window_size=32", "sink_token_length=4"});
    return model ? serve(*model, {request(g.prompt, 60)}).at(0).tokens : std::vector<TokenId>();
  };
  std::vector<TokenId> pieces = tokensOf("continuous");
  EXPECT_EQ(pieces.size(), 60u);
  EXPECT_EQ(pieces, tokensOf("paged"));
}

TEST_F(BuiltModelTest, SinksStay) {
  Golden g = goldenOf("documentation_gpt");
  auto tokensOf = [&](int sinks) {
    auto model = built("documentation_gpt", {"max_attention_window_size=16", "tokens_per_block=4",
                                             "sink_token_length=" + std::to_string(sinks)});
    return model ? serve(*model, {request(g.prompt, 60)}).at(0).tokens : std::vector<TokenId>();
  };
  std::vector<TokenId> with = tokensOf(8), without = tokensOf(0);
  ASSERT_EQ(with.size(), 60u);
  EXPECT_NE(with, without);
}

// A scale that is far too large rounds every key and value to zero.
TEST_F(BuiltModelTest, ScalesOfCachesCount) {
  Golden g = goldenOf("documentation_gpt");
  auto tokensOf = [&](const std::string& scale) {
    auto model = built("documentation_gpt", {"kv_cache_dtype=int8", "kv_cache_scale=" + scale});
    return model ? serve(*model, {request(g.prompt, 20)}).at(0).tokens : std::vector<TokenId>();
  };
  EXPECT_EQ(tokensOf("0.03125"), tokensOf("0"));
  // Numbers that are all rounded to zero make another model.
  EXPECT_FALSE(build("documentation_gpt", {"kv_cache_dtype=int8", "kv_cache_scale=1000"}));
  EXPECT_NE(firstError().find("this model cannot be served"), std::string::npos) << messages();
}

TEST_F(BuiltModelTest, WeightsAreStoredSmaller) {
  Golden g = goldenOf("documentation_gpt");
  for (const char* precision : {"float16", "bfloat16"}) {
    ASSERT_TRUE(build("documentation_gpt", {std::string("weight_precision=") + precision})) << messages();
    Result<Module> engine = Module::load(folder_ + "/rank0.engine", {}, diagnostics);
    ASSERT_TRUE(engine) << messages();
    EXPECT_EQ(engine->engineInfo()->precision, precision[0] == 'b' ? DType::BFloat16 : DType::Float16);
    auto model = load();
    ASSERT_TRUE(model) << messages();
    std::vector<TokenId> tokens = serve(*model, {request(g.prompt, 10)}).at(0).tokens;
    expectGolden(g, tokens, 10);
  }
}

// What could be built and then never run.
TEST_F(BuiltModelTest, SizesThatCannotRunAreRefused) {
  struct Case {
    std::vector<std::string> settings;
    const char* message;
  };
  for (const Case& c : {
           Case{{"max_input_len=30", "max_seq_len=20"}, "max_input_len 30 is more than max_seq_len 20"},
           Case{{"max_input_len=1000"}, "max_seq_len is 1000, but the model has 512 positions"},
           Case{{"max_batch_size=-1"}, "max_batch_size takes a number from 1 to 65536, not -1"},
           Case{{"max_num_tokens=0"}, "max_num_tokens takes a number from 1 to 16777216, not 0"},
           Case{{"max_num_tokens=4"}, "max_num_tokens 4 is less than max_batch_size 8: each row of a step has a token"},
           Case{{"opt_num_tokens=600"}, "opt_num_tokens is more than max_num_tokens"},
           Case{{"kv_cache_blocks=-3"}, "kv_cache_blocks takes a number from 0 to 268435456, not -3"},
           Case{{"kv_cache_scale=-1"}, "kv_cache_scale takes a number that is not negative, not -1"},
           Case{{"max_attention_window_size=8", "sink_token_length=8"},
                "sink_token_length must be less than max_attention_window_size"},
           Case{{"sink_token_length=8"}, "sink_token_length needs max_attention_window_size"},
           Case{{"max_seq_len=1"}, "max_seq_len 1 leaves no token to generate"},
       }) {
    diagnostics = Diagnostics();
    EXPECT_FALSE(build("byte_gpt", c.settings));
    EXPECT_EQ(firstError(), c.message);
  }
}

TEST_F(BuiltModelTest, MissingWeightsAreNamed) {
  Result<Module> module = Module::load(kSamples + "byte_gpt/model.ir", {}, diagnostics);
  ASSERT_TRUE(module);
  EXPECT_FALSE(buildLanguageModel(*module, {}, folder_, diagnostics));
  EXPECT_NE(messages().find("was not supplied"), std::string::npos) << messages();
  EXPECT_NE(messages().find("supply it among the weights"), std::string::npos) << messages();
}

TEST_F(BuiltModelTest, BeamsFindLikelierTexts) {
  Golden g = goldenOf("documentation_gpt");
  auto model = built("documentation_gpt", {"max_beam_width=4"});
  ASSERT_TRUE(model);
  auto score = [&](int64_t beams) {
    Request r = request(g.prompt, 12);
    r.sampling.beamWidth = beams;
    r.sampling.logProbs = true;
    RequestResult result = serve(*model, {std::move(r)}).at(0);
    double sum = 0;
    for (double p : result.logProbs) sum += p;
    return sum;
  };
  EXPECT_GE(score(4), score(1) - 1e-6);
}

TEST_F(BuiltModelTest, OneSeedGivesOneText) {
  Golden g = goldenOf("byte_gpt");
  auto model = built("byte_gpt");
  ASSERT_TRUE(model);
  auto textOf = [&](uint64_t seed, size_t others) {
    std::vector<Request> requests;
    for (size_t i = 0; i <= others; ++i) {
      Request r = request(g.prompt, 40);
      r.sampling.topK = 50;
      r.sampling.randomSeed = i == others ? seed : 1000 + i;
      requests.push_back(std::move(r));
    }
    return serve(*model, std::move(requests)).back().tokens;
  };
  std::vector<TokenId> alone = textOf(7, 0);
  EXPECT_EQ(alone, textOf(7, 3));
  EXPECT_NE(alone, textOf(8, 0));
}

TEST_F(BuiltModelTest, ContextLogitsAreThoseOfAllTokens) {
  auto model = built("byte_gpt", {"gather_context_logits=true"});
  ASSERT_TRUE(model);
  Golden g = goldenOf("byte_gpt");
  expectGolden(g, serve(*model, {request(g.prompt, 1)}).at(0).tokens, 1);
  EXPECT_EQ(model->allLogits().size(0), static_cast<int64_t>(g.prompt.size()));
}

TEST_F(BuiltModelTest, QuantisedCachesAreClose) {
  Golden g = goldenOf("documentation_gpt");
  for (const char* dtype : {"int8", "fp8"}) {
    auto model = built("documentation_gpt", {std::string("kv_cache_dtype=") + dtype});
    ASSERT_TRUE(model);
    std::vector<TokenId> tokens = serve(*model, {request(g.prompt, 40)}).at(0).tokens;
    size_t same = 0;
    while (same < tokens.size() && tokens[same] == g.tokens[same]) ++same;
    EXPECT_GE(same, 8u) << dtype;
    EXPECT_EQ(model->cacheBytes() * 4, 2 * model->shape().layers * model->shape().kvHeads * model->shape().headSize *
                                           4 * model->cache().blocks * model->cache().tokensPerBlock);
  }
}

// The likeliest token after each of 1,000 positions of text, with weights in 8 bits and in 32.
TEST_F(BuiltModelTest, WeightsIn8BitsAgree) {
  Result<std::string> text = readFile(TSCOMPILE_SOURCE_DIR "/docs/architecture.md", 1 << 20, diagnostics);
  ASSERT_TRUE(text && text->size() > 1000);
  auto likeliest = [&](const std::string& precision) {
    auto model = built("documentation_gpt", {"gather_context_logits=true", "weight_precision=" + precision});
    std::vector<int64_t> best;
    for (size_t part = 0; part < 2 && model; ++part) {
      std::vector<TokenId> prompt;
      for (size_t i = 0; i < 500; ++i) prompt.push_back(static_cast<unsigned char>((*text)[part * 500 + i]));
      serve(*model, {request(prompt, 1)});
      const Tensor& logits = model->allLogits();
      EXPECT_EQ(logits.size(0), 500);
      for (int64_t t = 0; t < logits.size(0); ++t) {
        const float* row = logits.data<float>() + t * logits.size(1);
        best.push_back(std::max_element(row, row + logits.size(1)) - row);
      }
    }
    return best;
  };
  std::vector<int64_t> whole = likeliest("float32"), small = likeliest("int8");
  ASSERT_EQ(whole.size(), 1000u);
  size_t same = 0;
  for (size_t i = 0; i < whole.size(); ++i) same += whole[i] == small[i];
  EXPECT_GE(same, 985u) << "of 1000";
  std::printf("weights in 8 bits: the likeliest token is the same at %zu of 1000 positions\n", same);
}

TEST_F(BuiltModelTest, WindowsBoundTheCache) {
  Golden g = goldenOf("documentation_gpt");
  auto model =
      built("documentation_gpt", {"max_attention_window_size=32", "sink_token_length=0", "tokens_per_block=8"});
  ASSERT_TRUE(model);
  RequestResult r = serve(*model, {request(g.prompt, 100)}).at(0);
  EXPECT_EQ(r.tokens.size(), 100u);
  expectGolden(g, {r.tokens.begin(), r.tokens.begin() + 5}, 5);
  EXPECT_LE(model->cache().blocks, 8 * 5);
}

TEST_F(BuiltModelTest, LimitsHold) {
  auto model = built("byte_gpt", {"max_seq_len=20", "max_batch_size=2"});
  ASSERT_TRUE(model);
  RequestResult r = serve(*model, {request({1, 2, 3}, 100)}).at(0);
  EXPECT_EQ(r.tokens.size(), 17u);
  EXPECT_EQ(r.reason, FinishReason::Length);
  auto batcher = Batcher::make(*model, model->cache(), model->limits(), diagnostics);
  EXPECT_FALSE(batcher->add(request(std::vector<TokenId>(30, 1), 1), diagnostics));
  EXPECT_EQ(diagnostics.errorCount(), 1u) << messages();
  EXPECT_FALSE(built("byte_gpt", {}) == nullptr);
  auto strict = built("byte_gpt", {"max_input_len=5"});
  ASSERT_TRUE(strict);
  batcher = Batcher::make(*strict, strict->cache(), strict->limits(), diagnostics);
  EXPECT_TRUE(batcher->add(request(std::vector<TokenId>(5, 1), 1), diagnostics));
  diagnostics = Diagnostics();
  EXPECT_FALSE(batcher->add(request(std::vector<TokenId>(6, 1), 1), diagnostics));
  EXPECT_EQ(firstError(), "the prompt has 6 tokens, more than max_input_len 5");
  diagnostics = Diagnostics();
  Request beams = request({1, 2}, 1);
  beams.sampling.beamWidth = 2;
  EXPECT_FALSE(batcher->add(std::move(beams), diagnostics));
  EXPECT_EQ(firstError(), "beamWidth is 2, more than max_beam_width 1");
  EXPECT_FALSE(build("byte_gpt", {"max_seq_len=600"}));
  EXPECT_NE(messages().find("max_seq_len is 600, but the model has 512 positions"), std::string::npos) << messages();
}

// Sizes that are fine one by one may be too much together.
TEST_F(BuiltModelTest, SizesOfADamagedConfigAreRefused) {
  ASSERT_TRUE(build("byte_gpt")) << messages();
  std::string path = folder_ + "/config.json", good = *readFile(path, 1 << 20, diagnostics);
  auto with = [&](std::initializer_list<std::pair<const char*, const char*>> sizes) {
    std::string text = good;
    for (auto [name, value] : sizes) {
      size_t at = text.find(':', text.find("\"" + std::string(name) + "\"")) + 1;
      text.replace(at, text.find_first_of(",\n", at) - at, value);
    }
    diagnostics = Diagnostics();
    EXPECT_TRUE(writeFile(path, text, diagnostics));
    return readBuiltModel(folder_, diagnostics).ok() ? "" : firstError();
  };
  EXPECT_EQ(with({}), "");
  const char* most = "16777216";
  EXPECT_EQ(with({{"num_hidden_layers", most}, {"num_key_value_heads", most}, {"head_size", most}}),
            "the sizes are not what a build writes: kvHeads is 16777216, expected 1 to 65536");
  EXPECT_EQ(with({{"num_hidden_layers", most},
                  {"num_key_value_heads", "65536"},
                  {"head_size", "65536"},
                  {"tokens_per_block", "64"},
                  {"kv_cache_blocks", "512"}}),
            "the KV cache of all layers has more bytes than can be counted");
}

struct Refusal {
  const char* setting;
  const char* message;
  ErrorKind kind;
};

TEST_F(BuiltModelTest, WhatIsNotThereIsRefusedByName) {
  for (const Refusal& r : {
           Refusal{"max_prompt_embedding_table_size=4", "max_prompt_embedding_table_size is not implemented",
                   ErrorKind::Unsupported},
           Refusal{"max_draft_len=2", "max_draft_len is not implemented", ErrorKind::Unsupported},
           Refusal{"speculative_decoding_mode=eagle", "speculative_decoding_mode is not implemented",
                   ErrorKind::Unsupported},
           Refusal{"lora_target_modules=[\"attn_q\"]", "lora_target_modules is not implemented",
                   ErrorKind::Unsupported},
           Refusal{"max_encoder_input_len=8", "max_encoder_input_len is not implemented", ErrorKind::Unsupported},
           Refusal{"max_decoder_input_len=8", "max_decoder_input_len is not implemented", ErrorKind::Unsupported},
           Refusal{"mrope_rotary_cos_sin_size=8", "mrope_rotary_cos_sin_size is not implemented",
                   ErrorKind::Unsupported},
           Refusal{"spec_decoding_is_generation_length_variable=true",
                   "spec_decoding_is_generation_length_variable is not implemented", ErrorKind::Unsupported},
           Refusal{"max_batch_sise=4", "there is no setting max_batch_sise, did you mean max_batch_size?",
                   ErrorKind::Input},
           Refusal{"max_batch_size=0", "max_batch_size takes a number from 1 to 65536, not 0", ErrorKind::Input},
           Refusal{"kv_cache_dtype=int3", "kv_cache_dtype takes one of float32|int8|fp8, not \"int3\"",
                   ErrorKind::Input},
           Refusal{"tokens_per_block=24", "tokens_per_block must be a power of two", ErrorKind::Input},
           Refusal{"max_beam_width=9", "max_beam_width is more than max_batch_size: each beam is a row of a step",
                   ErrorKind::Input},
       }) {
    diagnostics = Diagnostics();
    EXPECT_FALSE(build("byte_gpt", {r.setting}));
    EXPECT_EQ(firstError(), r.message);
    EXPECT_EQ(diagnostics.list().at(0).kind, r.kind) << r.setting;
  }
}

TEST_F(BuiltModelTest, StepsEndWithTheirRun) {
  ASSERT_TRUE(build("byte_gpt")) << messages();
  std::atomic<bool> stop{false};
  LanguageModel::Options options;
  options.run.interrupt = &stop;
  std::unique_ptr<LanguageModel> model = LanguageModel::load(folder_, options, diagnostics);
  ASSERT_TRUE(model) << messages();
  std::unique_ptr<Batcher> batcher = Batcher::make(*model, model->cache(), model->limits(), diagnostics);
  Request request;
  request.prompt = {1, 2, 3};
  RequestId id = *batcher->add(std::move(request), diagnostics);
  EXPECT_TRUE(batcher->step(diagnostics)) << messages();
  stop = true;
  batcher->step(diagnostics);
  EXPECT_EQ(diagnostics.firstErrorKind(), ErrorKind::Interrupted);
  EXPECT_EQ(batcher->result(id)->reason, FinishReason::Failed);
}

// Whatever is read while another build writes: one of both models.
TEST_F(BuiltModelTest, AFolderThatIsBuiltAnewServesOneOfBoth) {
  ASSERT_TRUE(build("byte_gpt", {"max_seq_len=32"})) << messages();
  std::atomic<bool> ends{false};
  std::thread writer([&] {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(build("byte_gpt", {i % 2 ? "max_seq_len=32" : "max_seq_len=64"}));
    ends = true;
  });
  int loads = 0;
  while (!ends) {
    Diagnostics own;
    std::unique_ptr<LanguageModel> model = LanguageModel::load(folder_, {}, own);
    EXPECT_TRUE(model) << renderDiagnostics(own, "test");
    loads += model != nullptr;
  }
  writer.join();
  EXPECT_GT(loads, 0);
}

TEST_F(BuiltModelTest, FoldersThatDoNotBelongTogetherAreRefused) {
  ASSERT_TRUE(build("byte_gpt")) << messages();
  {
    FileWriter file(folder_ + "/rank0.engine", diagnostics);
    ASSERT_TRUE(file.write("something else") && file.commit());
  }
  EXPECT_FALSE(load());
  EXPECT_EQ(firstError(), "this is not an engine file");
  // A config.json that asks for what the engine does not give.
  ASSERT_TRUE(build("byte_gpt"));
  Result<std::string> good = readFile(folder_ + "/config.json", 1 << 20, diagnostics);
  for (auto [from, to] : {std::pair("\"gather_context_logits\": false", "\"gather_context_logits\": true"),
                          std::pair("\"vocab_size\": 256", "\"vocab_size\": 64")}) {
    std::string text = *good;
    size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, std::string(from).size(), to);
    {
      FileWriter file(folder_ + "/config.json", diagnostics);
      ASSERT_TRUE(file.write(text) && file.commit());
    }
    auto model = load();
    ASSERT_TRUE(model);
    auto batcher = Batcher::make(*model, model->cache(), model->limits(), diagnostics);
    diagnostics = Diagnostics();
    ASSERT_TRUE(batcher->add(request({1, 2, 3, 4, 5}, 3), diagnostics));
    batcher->run(diagnostics);
    EXPECT_NE(firstError().find("the engine does not give float32 logits"), std::string::npos) << firstError();
  }
  diagnostics = Diagnostics();
  std::string deep = std::string(300000, '[');
  EXPECT_FALSE(parseBuildConfig("{\"max_batch_size\": " + deep, "deep.json", diagnostics));
  diagnostics = Diagnostics();
  for (const char* text : {"", "[]", "{}", "{\"format\": 1",
                           "{\"format\":1,\"pretrained_config\":[],\"build_config\":3,"
                           "\"engine\":7,\"inputs\":{}}"}) {
    FileWriter file(folder_ + "/config.json", diagnostics);
    ASSERT_TRUE(file.write(text) && file.commit());
    EXPECT_FALSE(load()) << text;
  }
}

}  // namespace
}  // namespace tscompile::test
