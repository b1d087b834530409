// Builds decoders, and compares the tokens of what was built with those of the model as it was given.
#pragma once

#include "api/language_model.h"
#include "ir/support/diagnostic_printer.h"
#include "passes/serving/entrance.h"
#include "tests/support/text_file.h"
#include "tests/unit/api/decoder_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tscompile::test {

class Decoders : public testing::Test {
 protected:
  Result<Module> loaded(const Decoder& decoder) {
    return Module::fromText(decoder.text(), "decoder.ir", {}, diagnostics_);
  }
  bool builds(const Decoder& decoder, const std::vector<std::string>& settings = {}) {
    diagnostics_ = Diagnostics();
    std::filesystem::remove_all(folder_);
    Result<Module> module = loaded(decoder);
    BuildConfig config;
    for (const std::string& s : settings) setBuildOption(config, s, diagnostics_);
    return module && buildLanguageModel(*module, config, folder_, diagnostics_);
  }
  std::string messages() const { return renderDiagnostics(diagnostics_, "test"); }

  // The tokens of three requests together.
  std::vector<std::vector<TokenId>> served(int64_t count) {
    std::vector<std::vector<TokenId>> out;
    auto model = LanguageModel::load(folder_, {}, diagnostics_);
    auto batcher = model ? Batcher::make(*model, model->cache(), model->limits(), diagnostics_) : nullptr;
    if (!batcher) return out;
    std::vector<RequestId> ids;
    for (const std::vector<TokenId>& prompt : kPrompts) {
      Request r;
      r.prompt = prompt;
      r.maxNewTokens = count;
      Result<RequestId> id = batcher->add(std::move(r), diagnostics_);
      if (id) ids.push_back(*id);
    }
    batcher->run(diagnostics_);
    for (RequestId id : ids) out.push_back(batcher->take(id)->tokens);
    return out;
  }

  // Those of the model as it is, from all tokens each time. `inputs`: i ids, m mask, p positions.
  std::vector<std::vector<TokenId>> expected(const Decoder& decoder, const std::string& inputs, int64_t count) {
    std::vector<std::vector<TokenId>> out;
    Result<Module> module = loaded(decoder);
    for (const std::vector<TokenId>& prompt : kPrompts) {
      std::vector<int64_t> ids(prompt.begin(), prompt.end());
      for (int64_t i = 0; module && i < count; ++i) {
        std::vector<int64_t> places(ids.size()), ones(ids.size(), 1);
        for (size_t p = 0; p < ids.size(); ++p) places[p] = static_cast<int64_t>(p);
        std::vector<IValue> arguments;
        for (char c : inputs)
          arguments.emplace_back(Tensor::of<int64_t>(Dims{1, static_cast<int64_t>(ids.size())}, c == 'i'   ? ids
                                                                                                : c == 'p' ? places
                                                                                                           : ones));
        Result<std::vector<IValue>> run = module->forward(arguments, diagnostics_);
        if (!run) return out;
        Tensor logits = logitsOf(*run);
        int64_t first = logits.numel() - decoder.words, best = 0;
        for (int64_t w = 1; w < decoder.words; ++w)
          if (logits.real(first + w) > logits.real(first + best)) best = w;
        ids.push_back(best);
      }
      out.emplace_back(ids.begin() + static_cast<ptrdiff_t>(prompt.size()), ids.end());
    }
    return out;
  }

  void expectServed(const Decoder& decoder, const std::string& inputs = "ip") {
    ASSERT_TRUE(builds(decoder)) << messages() << decoder.text();
    EXPECT_EQ(served(9), expected(decoder, inputs, 9)) << messages() << decoder.text();
  }
  void expectRefused(const Decoder& decoder, const std::string& message,
                     const std::vector<std::string>& settings = {}) {
    EXPECT_FALSE(builds(decoder, settings)) << decoder.text();
    EXPECT_NE(messages().find(message), std::string::npos) << messages() << "instead of\n" << message;
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/config.json"));
  }

  // Each text keeps what its next tokens need: so many tensors. Texts whose tensors have the same sizes run together.
  void expectServedByState(const Decoder& decoder, const std::string& inputs, int states) {
    expectServed(decoder, inputs);
    Result<BuiltModel> built = readBuiltModel(folder_, diagnostics_);
    ASSERT_TRUE(built) << messages();
    EXPECT_EQ(built->config.kvCacheType, KvCacheType::State) << messages();
    EXPECT_EQ(built->states.size(), static_cast<size_t>(states)) << decoder.text();
    EXPECT_TRUE(std::ranges::all_of(built->states, [](const KeptState& s) { return s.batch >= 0; }));
    EXPECT_EQ(diagnostics_.warningCount(), 0u) << messages();
  }

  const std::vector<std::vector<TokenId>> kPrompts{{3, 11, 7, 1}, {0, 12, 5, 5, 2, 9, 4}, {8}};
  Diagnostics diagnostics_;
  const TemporaryFolder temporary_;
  std::string folder_ = temporary_.path() + "/model";
};

}  // namespace tscompile::test
