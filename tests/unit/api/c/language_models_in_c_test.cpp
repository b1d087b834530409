// Language models through the C interface: built, asked for several texts at once, cancelled, and what is wrong told.
#include "api/c/tscompile.h"
#include "api/texts/text_server.h"
#include "ir/support/diagnostic_printer.h"
#include "tests/support/cli.h"
#include "tests/support/json.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tscompile::test {
namespace {

template <auto free>
struct Given {
  template <class T>
  void operator()(T* p) const {
    free(p);
  }
};
using ErrorHandle = std::unique_ptr<tscompile_error, Given<tscompile_error_free>>;
using Model = std::unique_ptr<tscompile_language_model, Given<tscompile_language_model_free>>;

const std::string kModel = TSCOMPILE_SOURCE_DIR "/samples/language/byte_gpt/model";

class LanguageModelsInC : public testing::Test {
 protected:
  void SetUp() override {
    const std::string weights = kModel + ".weights", text = kModel + ".ir";
    const char* files[] = {weights.c_str()};
    tscompile_load_options loading{};
    loading.size = sizeof loading, loading.weights = files, loading.weight_count = 1;
    tscompile_module* module = nullptr;
    ASSERT_EQ(tscompile_load(text.c_str(), &loading, &module, nullptr), TSCOMPILE_OK);
    std::unique_ptr<tscompile_module, Given<tscompile_module_free>> owner(module);
    const char* settings[] = {"max_seq_len=200", "max_beam_width=3"};
    tscompile_build_options building{};
    building.size = sizeof building, building.settings = settings, building.setting_count = 2;
    tscompile_error* e = nullptr;
    ASSERT_EQ(tscompile_language_model_build(module, folder_.c_str(), &building, &e), TSCOMPILE_OK)
        << tscompile_error_text(e);
    const char* wrong[] = {"max_seq_lenn=200"};
    building.settings = wrong, building.setting_count = 1;
    EXPECT_EQ(tscompile_language_model_build(module, folder_.c_str(), &building, &e), TSCOMPILE_INPUT);
    EXPECT_NE(std::string(tscompile_error_text(e)).find("max_seq_len"), std::string::npos) << tscompile_error_text(e);
    ErrorHandle told(e);
    tscompile_language_model* loaded = nullptr;
    ASSERT_EQ(tscompile_language_model_load(folder_.c_str(), nullptr, &loaded, nullptr), TSCOMPILE_OK);
    model_.reset(loaded);
  }
  size_t ask(const char* request) {
    size_t number = 0;
    tscompile_error* e = nullptr;
    EXPECT_EQ(tscompile_language_model_add(model_.get(), request, &number, &e), TSCOMPILE_OK)
        << tscompile_error_text(e);
    return number;
  }
  // Lines of the next step; nothing once all has ended.
  std::vector<Json> step(bool& more) {
    char* events = nullptr;
    int isMore = 0;
    EXPECT_EQ(tscompile_language_model_step(model_.get(), &events, &isMore, nullptr), TSCOMPILE_OK);
    more = isMore;
    const std::unique_ptr<char, Given<tscompile_string_free>> owner(events);
    std::vector<Json> out;
    const std::string all = events;
    for (size_t begin = 0, end; begin < all.size(); begin = end + 1) {
      end = all.find('\n', begin);
      out.push_back(parseJson(all.substr(begin, end - begin)));
      EXPECT_EQ(out.back()["schema"].text, "tscompile.generate_event/1");
    }
    return out;
  }

  TemporaryFolder work_;
  std::string folder_ = work_ / "built";
  Model model_;
};

TEST_F(LanguageModelsInC, NumbersOfNoRequestGiveNothing) {
  Diagnostics d;
  std::unique_ptr<TextServer> server = TextServer::open(folder_, {}, d);
  ASSERT_TRUE(server);
  TextRequest request;
  request.promptIds = {72, 105};
  request.maxNewTokens = 2;
  const size_t number = server->add(request, d);
  EXPECT_FALSE(server->take(number + 1, d));
  EXPECT_TRUE(server->take(number, d));
  EXPECT_FALSE(server->take(number, d));
  EXPECT_FALSE(d.hasErrors());
}

TEST_F(LanguageModelsInC, AFolderTellsWhatOpensIt) {
  tscompile_module* module = nullptr;
  tscompile_error* error = nullptr;
  EXPECT_EQ(tscompile_load(folder_.c_str(), nullptr, &module, &error), TSCOMPILE_INPUT);
  ASSERT_NE(error, nullptr);
  EXPECT_NE(std::string(tscompile_error_text(error)).find("which tscompile_language_model_load opens"),
            std::string::npos);
  tscompile_error_free(error);
  Diagnostics d;
  EXPECT_FALSE(Module::load(folder_, {}, d));
  EXPECT_NE(renderDiagnostics(d, "").find("which LanguageModel::load opens"), std::string::npos);
}

TEST_F(LanguageModelsInC, TextsThatRunTogetherAreThoseOfTheTool) {
  const size_t one = ask(R"({"prompt": "ab", "max_new_tokens": 5, "log_probs": true})");
  const size_t other = ask(R"({"prompt_ids": [99], "max_new_tokens": 3, "id": "c"})");
  std::map<size_t, Json> ends;
  std::map<size_t, size_t> tokens;
  for (bool more = true; more;)
    for (const Json& e : step(more)) {
      const auto number = static_cast<size_t>(e["prompt"].number);
      if (e["finished"].text.empty()) {
        ++tokens[number];
        EXPECT_GE(e["ms"].number, 0);
      } else {
        ends[number] = e;
      }
    }
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(tokens[one], 5u);
  EXPECT_EQ(tokens[other], 3u);
  EXPECT_EQ(ends[other]["id"].text, "c");
  EXPECT_EQ(ends[one]["log_probs"].items.size(), 5u);
  EXPECT_LE(ends[one]["first_token_ms"].number, ends[one]["ms"].number);
  const Json tool =
      parseJson(runCli({"generate", folder_, "-q", "--prompt", "ab", "--max-new-tokens", "5", "--format", "json"}).out);
  EXPECT_EQ(ends[one]["text"].text, tool["results"].items.at(0)["text"].text);
  EXPECT_GT(tool["results"].items.at(0)["first_token_ms"].number, 0);
}

TEST_F(LanguageModelsInC, AreCancelledAndTellWhatIsWrong) {
  const size_t one = ask(R"({"prompt": "ab", "max_new_tokens": 150})");
  bool more = false;
  step(more);
  EXPECT_TRUE(more);
  tscompile_language_model_cancel(model_.get(), one);
  tscompile_language_model_cancel(model_.get(), 77);
  std::vector<Json> last;
  while (more)
    for (const Json& e : step(more)) last.push_back(e);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0]["finished"].text, "cancelled");
  for (const char* request : {R"({"prompt": "ab", "max_new_tokenz": 1})", R"({"prompt_ids": [999]})", "{", "{}"}) {
    tscompile_error* e = nullptr;
    EXPECT_EQ(tscompile_language_model_add(model_.get(), request, nullptr, &e), TSCOMPILE_INPUT) << request;
    const ErrorHandle told(e);
    EXPECT_GT(tscompile_error_count(e), 0u);
  }
  EXPECT_TRUE(step(more).empty()) << "what is wrong was never begun";
  EXPECT_FALSE(more);
}

TEST_F(LanguageModelsInC, TextsAreTokensAndBack) {
  tscompile_value* tokens = nullptr;
  ASSERT_EQ(tscompile_language_model_encode(model_.get(), "ab", &tokens, nullptr), TSCOMPILE_OK);
  const std::unique_ptr<tscompile_value, Given<tscompile_value_free>> owner(tokens);
  ASSERT_EQ(tscompile_value_count(tokens), 2u);
  const int32_t back[] = {98, 97};
  char* text = nullptr;
  ASSERT_EQ(tscompile_language_model_decode(model_.get(), back, 2, &text, nullptr), TSCOMPILE_OK);
  const std::unique_ptr<char, Given<tscompile_string_free>> given(text);
  EXPECT_EQ(std::string(text), "ba");
}

TEST(LanguageModelsOfC, NullIsAFailureOfTheCall) {
  EXPECT_EQ(tscompile_language_model_build(nullptr, "x", nullptr, nullptr), TSCOMPILE_USAGE);
  EXPECT_EQ(tscompile_language_model_load("x", nullptr, nullptr, nullptr), TSCOMPILE_USAGE);
  EXPECT_EQ(tscompile_language_model_add(nullptr, "{}", nullptr, nullptr), TSCOMPILE_USAGE);
  char* text = nullptr;
  EXPECT_EQ(tscompile_language_model_step(nullptr, &text, nullptr, nullptr), TSCOMPILE_USAGE);
  tscompile_language_model_cancel(nullptr, 0);
  tscompile_language_model_free(nullptr);
}

}  // namespace
}  // namespace tscompile::test
