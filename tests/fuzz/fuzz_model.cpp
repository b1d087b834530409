// Any bytes as a model with weights inside. Bytes that do not start as a zip archive become the members of one, so that
// checksums are not in the way: each begins with a line "==== NAME". Where the model can be loaded, its methods are
// prepared to run.
#include "api/binding/load_bytes.h"
#include "tests/support/stored_zip.h"

#include <cstdlib>

using namespace tscompile;

namespace {

constexpr std::string_view kMember = "==== ";

std::string archiveOf(std::string_view bytes) {
  std::vector<std::pair<std::string, std::string_view>> members;
  while (bytes.starts_with(kMember)) {
    bytes.remove_prefix(kMember.size());
    const size_t line = std::min(bytes.find('\n'), bytes.size());
    std::string name(bytes.substr(0, line));
    bytes.remove_prefix(std::min(line + 1, bytes.size()));
    const size_t next = bytes.find("\n" + std::string(kMember));
    members.emplace_back(std::move(name), bytes.substr(0, next));
    bytes.remove_prefix(next == std::string_view::npos ? bytes.size() : next + 1);
  }
  return test::storedZip(members);
}

void check(bool ok, const Diagnostics& diagnostics) {
  if (ok == diagnostics.hasErrors()) std::abort();
  for (const Diagnostic& d : diagnostics.list())
    if (d.message.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.starts_with(kMember)) bytes = archiveOf(bytes);
  if (!bytes.starts_with("PK")) return 0;
  LoadOptions options;
  options.limits.values = options.limits.nodes = 10'000;
  options.limits.tensors = 1000;
  options.limits.textBytes = options.limits.generatedBytes = options.limits.printBytes = 1 << 20;
  SourceName said;
  Diagnostics diagnostics;
  Result<Module> module = loadBytes(bytes, "fuzz", options, said, diagnostics);
  check(module.ok(), diagnostics);
  if (!module) return 0;
  for (const std::string& method : module->methods()) {
    Diagnostics prepared;
    check(module->prepare(prepared, method).ok(), prepared);
  }
  return 0;
}
