#include "tools/tasks/generation_settings.h"

#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

std::string optionOf(const TextSetting& s) {
  std::string name = *s.option ? s.option : s.name;
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

TokenId tokenNumber(const std::string& option, const std::string& text) {
  int64_t id = numberOfText(option, text);
  return static_cast<TokenId>(checked(id <= INT32_MAX ? std::optional(id) : std::nullopt, option, "a token", text));
}

// A value as the command line has it.
void take(const std::string& option, const std::string& text, int64_t& into) { into = numberOfText(option, text); }
void take(const std::string& option, const std::string& text, uint64_t& into) {
  into = static_cast<uint64_t>(numberOfText(option, text));
}
void take(const std::string& option, const std::string& text, double& into) { into = realNumber(option, text); }
void take(const std::string&, const std::string&, bool& into) { into = true; }
void take(const std::string& option, const std::string& text, std::vector<TokenId>& into) {
  into.push_back(tokenNumber(option, text));
}
void take(const std::string& option, const std::string& text, std::vector<std::string>& into) {
  if (text.empty()) throw UsageError{option + " takes a text that is not empty"};
  into.push_back(text);
}

}  // namespace

OptionSpecs generationOptions(TextRequest& (*requestOf)(Options&)) {
  OptionSpecs out;
  for (const TextSetting& s : textSettings()) {
    bool repeats = s.place.index() >= 4;
    out.push_back({optionOf(s), s.value, withOptions(s.help),
                   [&s, requestOf](Options& o, const std::string& v) {
                     TextRequest& request = requestOf(o);
                     request.draws |= s.draws;
                     std::visit([&](auto place) { take(optionOf(s), v, place(request)); }, s.place);
                   },
                   repeats});
  }
  return out;
}

void checkGenerationOptions(const Options& options, const TextRequest& request) {
  auto isSaid = [&](std::string_view name) {
    return std::any_of(options.said.begin(), options.said.end(),
                       [&](const SaidOption& said) { return said.name == name; });
  };
  struct Dependence {
    bool isMet;
    std::vector<std::string_view> names;
    std::string_view needs;
  };
  const Dependence kDependences[] = {
      {isSaid("--top-p"), {"--top-p-decay", "--top-p-min", "--top-p-reset-id"}, "changes --top-p, which is missing"},
      {isSaid("--presence-penalty") || isSaid("--frequency-penalty"),
       {"--prompt-ignore-length"},
       "is of --presence-penalty and --frequency-penalty, which are missing"},
      {request.sampling.beamWidth > 1,
       {"--beam-diversity", "--length-penalty", "--early-stopping"},
       "is of a search with beams, and --beam-width is missing"},
      {!isSaid("--temperature") || request.sampling.temperature > 0,
       {"--top-k", "--top-p", "--min-p", "--seed"},
       "draws, and --temperature 0 takes the likeliest token"},
  };
  for (const Dependence& d : kDependences)
    for (std::string_view name : d.names)
      if (!d.isMet && isSaid(name)) throw UsageError{fmt::format("{} {}", name, d.needs)};
}

void checkGenerationRanges(const TextRequest& request) {
  Diagnostics found;
  if (validateSampling(request.sampling, 0, found)) return;
  std::string message = found.list()[0].message;
  for (const TextSetting& s : textSettings())
    if (const std::string name(s.name); message.starts_with(name + " is "))
      throw UsageError{optionOf(s) + message.substr(name.size())};
  throw UsageError{std::move(message)};
}

std::vector<TokenId> parseIds(std::string_view option, const std::string& text) {
  std::vector<TokenId> ids;
  for (std::string_view word : split(text, ',')) {
    std::optional<uint64_t> id = parseCount(trim(word));
    if (!id || *id > INT32_MAX)
      throw UsageError{
          fmt::format("{} takes numbers with commas between them, not '{}'", option, abbreviate(text, 80))};
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

}  // namespace tscompile
