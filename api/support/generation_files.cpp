#include "api/support/generation_files.h"

#include "frontend/files/file_io.h"
#include "frontend/files/json_tree.h"

#include <filesystem>

namespace tscompile {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr const char* kFiles[] = {"tokenizer.json", "vocab.json", "merges.txt", kTokenizerConfig, kGeneration};

bool isFile(const fs::path& path) {
  std::error_code unknown;
  return fs::is_regular_file(path, unknown);
}

Result<JsonTree> readTree(const fs::path& path, Diagnostics& diagnostics) {
  Result<std::string> text = readFile(path.string(), kMaxTokenizerBytes, diagnostics);
  if (!text) return Failed{};
  return JsonTree::parse(SourceFile::make(path.string(), std::move(*text)), diagnostics);
}

bool copyFile(const fs::path& from, const fs::path& to, Diagnostics& diagnostics) {
  Result<std::string> bytes = readFile(from.string(), kMaxTokenizerBytes, diagnostics);
  FileWriter file(to.string(), diagnostics);
  return bytes && file.write(*bytes) && file.commit();
}

bool removeFile(const fs::path& path, Diagnostics& diagnostics) {
  std::error_code error;
  fs::remove(path, error);
  if (!error) return true;
  diagnostics.fileError(path.string(), {}, "cannot remove what another model left: " + error.message(), ErrorKind::Io);
  return false;
}

bool takeToken(const JsonTree::Value& v, std::vector<TokenId>& out, Diagnostics& diagnostics) {
  std::optional<int64_t> id = v.integer();
  if (id && *id >= 0 && *id <= INT32_MAX) {
    out.push_back(static_cast<TokenId>(*id));
    return true;
  }
  diagnostics.error(v.range(), "expected the number of a token, 0 or more");
  return false;
}

}  // namespace

bool copyGenerationFiles(const std::string& from, const std::string& to, Diagnostics& diagnostics) {
  std::error_code error;
  if (fs::equivalent(from, to, error)) return true;
  for (const char* name : kFiles) {
    fs::path source = fs::path(from) / name, target = fs::path(to) / name;
    if (!(isFile(source) ? copyFile(source, target, diagnostics) : removeFile(target, diagnostics))) return false;
  }
  return true;
}

std::optional<std::string> tokenizerIn(const std::string& folder) {
  bool isThere = isFile(fs::path(folder) / "tokenizer.json") || isFile(fs::path(folder) / "vocab.json");
  return isThere ? std::optional(folder) : std::nullopt;
}

Result<std::vector<TokenId>> endTokensIn(const std::string& folder, const Tokenizer* tokenizer,
                                         Diagnostics& diagnostics) {
  std::vector<TokenId> out;
  if (fs::path path = fs::path(folder) / kGeneration; isFile(path)) {
    Result<JsonTree> tree = readTree(path, diagnostics);
    if (!tree) return Failed{};
    JsonTree::Value ids = tree->root().find("eos_token_id");
    if (ids.is(JsonTree::Kind::Array)) {
      for (JsonTree::Value v = ids.first(); v; v = v.next())
        if (!takeToken(v, out, diagnostics)) return Failed{};
    } else if (ids.present() && !takeToken(ids, out, diagnostics)) {
      return Failed{};
    }
    if (!out.empty()) return out;
  }
  if (fs::path path = fs::path(folder) / kTokenizerConfig; tokenizer && isFile(path)) {
    Result<JsonTree> tree = readTree(path, diagnostics);
    if (!tree) return Failed{};
    JsonTree::Value token = tree->root().find("eos_token");
    if (token.is(JsonTree::Kind::Object)) token = token.find("content");
    std::optional<TokenId> id = token.is(JsonTree::Kind::String) ? tokenizer->find(token.text()) : std::nullopt;
    if (id) out.push_back(*id);
  }
  return out;
}

}  // namespace tscompile
