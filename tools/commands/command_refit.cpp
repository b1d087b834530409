// `tscompile refit` puts other weights into an engine file or into the folder of a language model.
#include "api/language_model.h"
#include "api/refit.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"

#include <fmt/core.h>

#include <chrono>
#include <filesystem>

namespace tscompile {
namespace {

struct RefitCommand {
  std::vector<std::string> weights;
  std::string output;  // empty: what is refitted
  bool partial = false;
};

}  // namespace

static int runRefit(const Options& options, Session& session) {
  const RefitCommand& command = options.own.of<RefitCommand>();
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

namespace {

OptionSpecs refitOptions() {
  return OptionSpecs{
      {"-w,--weights", "FILE", "the new weights by name: safetensors, or a recipe of docs/values.md",
       [](Options& o, const std::string& v) { o.own.of<RefitCommand>().weights.push_back(v); }, true},
      writing(Written::AsArgument,
              {"-o,--output", "PATH", "where the result goes (default: what is refitted is replaced)",
               [](Options& o, const std::string& v) { o.own.of<RefitCommand>().output = v; }}),
      {"--partial", "", "weights that are not given stay as they are",
       [](Options& o, const std::string&) { o.own.of<RefitCommand>().partial = true; }},
  };
}

}  // namespace

VerbSpec refitCommand() {
  return {.name = "refit",
          .summary = "replace weights of an engine file or of a language model that was built",
          .argument = "PATH",
          .argumentHelp = "an engine file that was compiled with --refittable, or a folder that build has made",
          .argumentRequired = true,
          .details =
              "Needs no graph text. The result is, to the last byte, what compiling or building with these\n"
              "weights gives. Sizes and dtypes must be those of the model, and so must names that are nearly\n"
              "its own; all that are not are reported at once. Other names are passed over.\n\n"
              "Examples:\n  tscompile refit model.tse --weights tuned.safetensors -o tuned.tse\n"
              "  tscompile refit built --weights head.safetensors --partial\n",
          .options = refitOptions(),
          .command = runRefit};
}

}  // namespace tscompile
