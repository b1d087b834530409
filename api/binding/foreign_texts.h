// Language models for programs in other languages: what `tscompile build` and `generate` do, with requests and results
// as lines of JSON.
#pragma once

#include "api/texts/text_server.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tscompile {

// Makes a folder of a model, as `tscompile build` does. `path` is where the model comes from: files that tell how texts
// are made with it are taken from beside it. `config` is a file of settings, or empty; `settings` are
// "max_seq_len=512".
bool buildFolder(const Module& module, const std::string& path, const std::string& folder, const std::string& config,
                 std::span<const std::string> settings, Diagnostics& diagnostics);

// A model at work. Not for several threads at once.
class ForeignTexts {
 public:
  static std::unique_ptr<ForeignTexts> open(const std::string& folder, const std::string& tokenizer,
                                            LanguageModel::Options options, Diagnostics& diagnostics);

  // A request as a line of a file has it, {"prompt": "The", "max_new_tokens": 20}; its number.
  Result<size_t> add(std::string_view json, Diagnostics& diagnostics);
  void cancel(size_t request) { server_->cancel(request); }
  // Runs the model once. Lines of "tscompile.generate_event/1" are added: tokens, and what has ended. False if there is
  // nothing to do.
  bool step(std::vector<std::string>& events);
  // Stops steps from now on when it is set: all texts end as cancelled.
  void interruptBy(const std::atomic<bool>* flag) { server_->model().interruptBy(flag); }

  Result<std::vector<TokenId>> encode(const std::string& text, Diagnostics& diagnostics) const;
  Result<std::string> decode(TokenSpan tokens, Diagnostics& diagnostics) const;
  const BuildConfig& config() const { return server_->model().config(); }
  int64_t vocabularySize() const { return server_->model().vocabularySize(); }

 private:
  const Tokenizer* tokenizer(Diagnostics& diagnostics) const;
  void takeEnded();

  std::unique_ptr<TextServer> server_;
  std::vector<std::string> events_;
};

}  // namespace tscompile
