// Texts that a language model that was built reads and goes on with, to be measured.
#pragma once

#include "api/language_model.h"
#include "tools/session/session.h"

#include <memory>
#include <string>
#include <vector>

namespace tscompile {

// What bench, profile and report take.
inline constexpr const char* kMeasuredModels =
    "a model (.pt, .pt2, graph text, a module dump), an engine file, or a folder that build has made; -: text from "
    "standard input";

// Whether a path names what 'tscompile build' has made.
bool isBuiltModel(const std::string& path);
// The path of the engine file of such a folder; empty: it is none.
std::string builtEngineOf(const std::string& folder);
// The folder of such a model whose engine file this is; empty: of none.
std::string builtModelOf(const std::string& engine);
// Throws UsageError for options of the command that are not among `meant`, if its argument is such a folder.
void checkBuiltModelOptions(const Options& options, std::initializer_list<std::string_view> meant);

// Tokens of a text.
struct TextLengths {
  int64_t prompt = 0, more = 0;  // `more`: steps of one token each, after the one that follows from the prompt
};

class MeasuredTexts {
 public:
  // Null after a report.
  static std::unique_ptr<MeasuredTexts> load(const std::string& folder, int threads, Session& session);

  const LanguageModel& model() const { return *model_; }
  LanguageModel& model() { return *model_; }
  // The path of its engine file.
  const std::string& engine() const { return engine_; }
  // "paged, 1.5 MB": what is kept of the tokens before.
  std::string cacheText() const;
  // Lengths of `texts` at a time: what was said, as sizes of "prompt" and "new", or what is usual and fits. Throws
  // UsageError for other names; fails after reporting lengths that the model was not built for.
  Result<TextLengths> lengths(std::span<const InputRange> said, int64_t texts, Diagnostics& diagnostics) const;

  // Other texts of these lengths in each call, all at the same time: milliseconds until all prompts are read and each
  // has its first token, and of each step that follows. False after a report; then too there may be some.
  bool run(const TextLengths& lengths, int64_t texts, std::vector<double>& prompts, std::vector<double>& steps,
           Diagnostics& diagnostics);

 private:
  MeasuredTexts() = default;

  std::unique_ptr<LanguageModel> model_;
  std::string engine_;
  std::vector<int64_t> marked_;  // ids that no prompt has, as they are no words: ends, padding
  uint64_t drawn_ = 0;           // ids of prompts
};

}  // namespace tscompile
