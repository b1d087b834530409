#include "api/binding/foreign_texts.h"

#include "api/support/generation_files.h"
#include "frontend/files/file_io.h"
#include "ir/support/json_fields.h"

#include <filesystem>
#include <sstream>

namespace tscompile {
namespace {

template <class T>
std::string lineOf(const T& event) {
  std::ostringstream out;
  writeJson(out, event);
  std::string line = out.str();
  if (line.ends_with('\n')) line.pop_back();
  return line;
}

}  // namespace

bool buildFolder(const Module& module, const std::string& path, const std::string& folder, const std::string& config,
                 std::span<const std::string> settings, Diagnostics& diagnostics) {
  BuildConfig wanted;
  if (!config.empty()) {
    Result<std::string> text = readFile(config, Limits().textBytes, diagnostics);
    if (!text) return false;
    Result<BuildConfig> read = parseBuildConfig(*text, config, diagnostics);
    if (!read) return false;
    wanted = std::move(*read);
  }
  bool good = true;
  for (const std::string& setting : settings) good &= setBuildOption(wanted, setting, diagnostics);
  if (!good || !checkBuildConfig(wanted, diagnostics) || !buildLanguageModel(module, wanted, folder, diagnostics))
    return false;
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return true;
  const std::string beside = std::filesystem::path(path).parent_path().string();
  return copyGenerationFiles(beside.empty() ? "." : beside, folder, diagnostics);
}

std::unique_ptr<ForeignTexts> ForeignTexts::open(const std::string& folder, const std::string& tokenizer,
                                                 LanguageModel::Options options, Diagnostics& diagnostics) {
  auto out = std::make_unique<ForeignTexts>();
  TextServer::Options serving;
  serving.model = std::move(options);
  serving.tokenizer = tokenizer;
  serving.onToken = [texts = out.get()](const TextToken& t) { texts->events_.push_back(lineOf(t)); };
  out->server_ = TextServer::open(folder, std::move(serving), diagnostics);
  return out->server_ ? std::move(out) : nullptr;
}

Result<size_t> ForeignTexts::add(std::string_view json, Diagnostics& diagnostics) {
  const SourcePtr source = SourceFile::make("<request>", std::string(json));
  Result<JsonTree> tree = JsonTree::parse(source, diagnostics);
  TextRequest request;
  if (!tree || !readRequest(tree->root(), request, diagnostics)) {
    diagnostics.keepAlive(source);
    return Failed{};
  }
  const size_t number = server_->add(std::move(request), diagnostics);
  if (!diagnostics.hasErrors()) return number;
  Diagnostics told;
  server_->take(number, told);
  return Failed{};
}

void ForeignTexts::takeEnded() {
  for (size_t number : server_->ended()) {
    Diagnostics told;  // the line tells it
    events_.push_back(lineOf(TextEnd{*server_->take(number, told)}));
  }
}

bool ForeignTexts::step(std::vector<std::string>& events) {
  const bool more = server_->step();
  takeEnded();
  for (std::string& e : events_) events.push_back(std::move(e));
  events_.clear();
  return more || !server_->pending().empty();
}

const Tokenizer* ForeignTexts::tokenizer(Diagnostics& diagnostics) const {
  if (!server_->tokenizer())
    diagnostics.error("the model has no tokenizer: name a file, or put it into the folder", ErrorKind::Input);
  return server_->tokenizer();
}

Result<std::vector<TokenId>> ForeignTexts::encode(const std::string& text, Diagnostics& diagnostics) const {
  const Tokenizer* t = tokenizer(diagnostics);
  if (!t) return Failed{};
  return t->encode(text, diagnostics);
}

Result<std::string> ForeignTexts::decode(TokenSpan tokens, Diagnostics& diagnostics) const {
  const Tokenizer* t = tokenizer(diagnostics);
  if (!t) return Failed{};
  return t->decode(tokens);
}

}  // namespace tscompile
