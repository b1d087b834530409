// `tscompile refit` puts other weights into an engine file or into the folder of a language model.
#include "api/language_model.h"
#include "api/refit.h"
#include "tools/commands/commands.h"

#include <fmt/core.h>

#include <chrono>
#include <filesystem>

namespace tscompile {

int runRefit(const Options& options, Session& session) {
  const RefitCommand& command = options.refit;
  const std::string& path = options.arguments[0];
  if (command.weights.empty()) throw UsageError{"refit needs weights", {"name them with --weights FILE"}};
  RefitOptions refit;
  refit.weights = command.weights;
  refit.partial = command.partial;
  refit.load.limits = session.common.limits;
  std::string output = command.output.empty() ? path : command.output;
  auto begin = std::chrono::steady_clock::now();
  std::error_code ignored;
  bool isFolder = std::filesystem::is_directory(path, ignored);
  if (!(isFolder ? refitLanguageModel : refitEngine)(path, refit, output, session.diagnostics)) return session.finish();
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  session.note(fmt::format("{} refitted in {:.2f} s", output, seconds.count()));
  return session.finish();
}

}  // namespace tscompile
