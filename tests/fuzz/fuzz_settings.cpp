// Any text as each of the small files that lie beside a model or tell the tool what to do: an index of weights, a
// timing cache, the settings of a build, a request for a text, defaults of options.
#include "api/build_config.h"
#include "api/texts/text_request.h"
#include "frontend/files/weights_index.h"
#include "runtime/engine/network/tactics.h"
#include "tests/support/memory_file.h"
#include "tools/options/defaults_file.h"

#include <cstdlib>

using namespace tscompile;

namespace {

void check(bool ok, const Diagnostics& diagnostics) {
  if (ok == diagnostics.hasErrors()) std::abort();
  for (const Diagnostic& d : diagnostics.list())
    if (d.message.empty()) std::abort();
}

void readTactics(std::string_view text) {
  TacticCache cache, again;
  Diagnostics diagnostics;
  const bool read = cache.read(text, "fuzz", diagnostics);
  check(read, diagnostics);
  if (!read) return;
  if (!again.read(cache.textOfEngine(), "written", diagnostics) || again.textOfEngine() != cache.textOfEngine())
    std::abort();
}

void readSettings(std::string_view text) {
  Diagnostics diagnostics;
  Result<BuildConfig> config = parseBuildConfig(text, "fuzz", diagnostics);
  check(config.ok(), diagnostics);
  if (!config) return;
  const std::string written = buildConfigJson(*config);
  Result<BuildConfig> again = parseBuildConfig(written, "written", diagnostics);
  if (!again || buildConfigJson(*again) != written) std::abort();
  (void)checkBuildConfig(*config, diagnostics);
}

void readLine(std::string_view text) {
  Diagnostics diagnostics;
  Result<JsonTree> tree = JsonTree::parse(SourceFile::make("fuzz", std::string(text)), diagnostics);
  check(tree.ok(), diagnostics);
  if (!tree) return;
  (void)idToCancel(tree->root());
  TextRequest request;
  const bool read = readRequest(tree->root(), request, diagnostics);
  check(read, diagnostics);
}

void readDefaults(std::string_view text) {
  test::MemoryFile file(text);
  try {
    DefaultsFile defaults(file.path());
    for (const VerbSpec& verb : verbSpecs())
      for (const OptionSpec& option : verb.options) (void)defaults.find(verb, option);
  } catch (const UsageError& error) {
    if (error.message.empty()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  Diagnostics index;
  check(parseWeightsIndex({text, "fuzz"}, index, {}).ok(), index);
  readTactics(text);
  readSettings(text);
  readLine(text);
  readDefaults(text);
  return 0;
}
