// `tscompile build` makes a folder that serves a language model.
#include "api/language_model.h"
#include "api/support/generation_files.h"
#include "frontend/files/file_io.h"
#include "frontend/files/file_kind.h"
#include "ir/support/json_fields.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"

#include <fmt/core.h>

#include <chrono>
#include <filesystem>

namespace tscompile {
namespace {

struct BuildCommand {
  std::vector<std::string> weights;
  std::string config, output;         // a JSON file, a folder
  std::vector<std::string> settings;  // NAME=VALUE
  bool explain = false;
};

struct OfferRow {
  OfferRow(const LayerOffer& o) : offer(o) {}  // NOLINT: as JSON has it
  const LayerOffer& offer;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("layer", offer.layer);
    visit("plugin", offer.plugin);
    visit("node", offer.node);
    visit("taken", offer.refusal.empty());
    if (!offer.refusal.empty()) visit("reason", offer.refusal);
  }
};

struct BuildReport {
  std::vector<OfferRow> layers;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.build/1");
    visit("layers", Lines{layers, true});
  }
};

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

Result<BuildConfig> configOf(const BuildCommand& command, Session& session) {
  BuildConfig config;
  if (!command.config.empty()) {
    Result<std::string> text = session.read(command.config);
    if (!text) return Failed{};
    Result<BuildConfig> read = parseBuildConfig(*text, command.config, session.diagnostics);
    if (!read) return Failed{};
    config = std::move(*read);
  }
  bool good = true;
  for (const std::string& assignment : command.settings)
    good &= setBuildOption(config, assignment, session.diagnostics);
  if (!good || !checkBuildConfig(config, session.diagnostics)) return Failed{};
  return config;
}

void explain(const std::vector<LayerOffer>& offers, Session& session) {
  if (session.common.json)
    writeJson(session.out, BuildReport{{offers.begin(), offers.end()}});
  else
    session.out << offersText(offers);
}

}  // namespace

// Which has no weights, unlike other files of models.
static bool isText(const std::string& path) {
  Diagnostics unheard;
  const Ref<FileMapping> file = FileMapping::open(path, unheard);
  const FileKind kind = file ? detectFileKind(file->bytes()) : FileKind::Empty;
  return kind == FileKind::GraphText || kind == FileKind::ModuleDump;
}

static int runBuild(const Options& options, Session& session) {
  const BuildCommand& command = options.own.of<BuildCommand>();
  if (command.output.empty()) throw UsageError{"build needs -o FOLDER"};
  Result<BuildConfig> config = configOf(command, session);
  if (!config) return session.finish();
  const std::string& path = options.arguments[0];
  if (command.weights.empty() && (path == "-" || isText(path)))
    throw UsageError{"build needs the weights of the model",
                     {"name them with --weights FILE: safetensors, or a recipe of docs/values.md"}};
  Result<Module> module = session.loadModule(path, command.weights);
  if (!module) return session.finish();
  auto begin = Clock::now();
  session.progress.step("building " + command.output);
  std::vector<LayerOffer> offers;
  const bool isMade = buildLanguageModel(*module, *config, command.output, session.diagnostics, &offers);
  if (command.explain) explain(offers, session);
  if (!isMade) return session.finish();
  session.noteUnusedWeights(module->unusedWeights());
  const std::string beside = std::filesystem::path(path).parent_path().string();
  if (!copyGenerationFiles(beside.empty() ? "." : beside, command.output, session.diagnostics)) return session.finish();
  session.note(fmt::format("{} built in {:.2f} s", command.output, secondsSince(begin)));
  return session.finish();
}

namespace {

OptionSpecs buildOptions() {
  return OptionSpecs{
      {"-w,--weights", "FILE", "weights: safetensors, or a recipe of docs/values.md",
       [](Options& o, const std::string& v) { o.own.of<BuildCommand>().weights.push_back(v); }, true},
      writing(Written::Folder, {"-o,--output", "FOLDER", "where config.json and the engine go",
                                [](Options& o, const std::string& v) { o.own.of<BuildCommand>().output = v; }}),
      {"--config", "FILE", "settings as a JSON object; see docs/language_models.md",
       [](Options& o, const std::string& v) { o.own.of<BuildCommand>().config = v; }},
      {"--set", "NAME=VALUE", "one setting, such as max_seq_len=512",
       [](Options& o, const std::string& v) { o.own.of<BuildCommand>().settings.push_back(v); }, true},
      {"--explain", "", "tell which plugin took which layers, and why others did not",
       [](Options& o, const std::string&) { o.own.of<BuildCommand>().explain = true; }},
  };
}

}  // namespace

VerbSpec buildCommand() {
  return {.name = "build",
          .summary = "make a folder that serves a language model",
          .argument = "MODEL",
          .argumentHelp = "a decoder: graph text, a TorchScript archive or a file of torch.export",
          .argumentRequired = true,
          .details = "Example:\n  tscompile build model.ir -w model.safetensors --set max_seq_len=512 -o built\n",
          .options = buildOptions(),
          .command = runBuild};
}

}  // namespace tscompile
