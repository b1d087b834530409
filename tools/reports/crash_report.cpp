#include "tools/reports/crash_report.h"

#include "frontend/files/file_io.h"
#include "frontend/files/file_kind.h"
#include "ir/support/text.h"
#include "tools/reports/build_info.h"
#include "tools/reports/processor.h"

#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <unistd.h>
#include <vector>

namespace tscompile {
namespace {

std::vector<std::string>& commandLine() {
  static std::vector<std::string> args;
  return args;
}

// Text that the command line names, as itself or behind "=@"; of other files what they are.
void addFile(std::string_view word, std::string& out) {
  constexpr uint64_t kMostBytes = uint64_t{4} << 20;
  const size_t at = word.find('@');
  const std::string path(at == std::string_view::npos ? word : word.substr(at + 1));
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  Diagnostics unheard;
  Result<std::string> text = readFileStart(path, kMostBytes, unheard);
  if (!text) return;
  const FileKind kind = detectFileKind(std::string_view(*text).substr(0, kFileKindBytes));
  const bool isText = kind == FileKind::GraphText || kind == FileKind::ModuleDump || kind == FileKind::Text;
  out += fmt::format("\n==== {}: {}\n", path, counted(std::filesystem::file_size(path, ignored), "byte"));
  if (isText) out += *text;
}

}  // namespace

const std::vector<std::string>& rememberedCommandLine() { return commandLine(); }
void rememberCommandLine(std::span<const std::string> args) { commandLine().assign(args.begin(), args.end()); }

std::string writeCrashReport(const std::string& failure) {
  const BuildInfo& build = buildInfo();
  std::string out = fmt::format("{}\ntscompile {} ({}), {}, {}, {}\n{}\n\ntscompile", failure, build.version,
                                build.commit, build.instructionSet, build.compiler, build.buildType, processorName());
  for (const std::string& arg : commandLine()) out += ' ' + jsonQuote(arg);
  out += '\n';
  for (const std::string& arg : commandLine()) addFile(arg, out);
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(failed);
  if (failed) return "";
  const std::string path = (folder / fmt::format("tscompile-crash-{}.txt", getpid())).string();
  Diagnostics unheard;
  return writeFile(path, out, unheard) ? path : "";
}

}  // namespace tscompile
