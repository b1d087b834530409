// `tscompile convert`: a model of any kind of file as graph text with its weights.
#include "api/lower.h"
#include "frontend/files/file_io.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/tasks/inputs.h"

#include <filesystem>

namespace tscompile {
namespace {

struct ConvertCommand {
  std::vector<std::string> weights;
  std::string method = "forward";
  std::string folder;
};

// A line for each input, as --inputs takes them: random elements where the sizes are known, otherwise a comment that
// says what is wanted.
std::string inputLines(const Graph& graph) {
  std::string out;
  uint64_t seed = 0;
  for (const Value* v : graph.inputs()) {
    if (v->type()->kind() == TypeKind::Class) continue;  // %self
    std::optional<std::string> text = randomText(v->type(), seed++);
    out += text ? v->name() + "=" + *text + "\n"
                : "# " + v->name() + "=VALUE, of type " + typeText(withoutRefinement(v->type())) + "\n";
  }
  return out;
}

bool makeFolder(const std::string& path, Diagnostics& diagnostics) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) diagnostics.fileError(path, {}, "the folder cannot be made: " + error.message(), ErrorKind::Io);
  return !error;
}

bool writeText(const std::string& path, std::string_view text, Diagnostics& diagnostics) {
  FileWriter file(path, diagnostics);
  return file.write(text) && file.commit();
}

}  // namespace

static int runConvert(const Options& options, Session& session) {
  const ConvertCommand& command = options.own.of<ConvertCommand>();
  if (command.folder.empty()) throw UsageError{"convert needs a folder for what it writes", {"name it with -o DIR"}};
  Result<Module> module = session.loadModule(options.arguments[0], command.weights);
  if (!module) return session.finish();
  LowerOptions inlining;
  inlining.method = command.method;
  inlining.query = Query().including({"inline_calls"});
  inlining.limits = session.common.limits;
  Result<Module> inlined = module->lowered(inlining, session.diagnostics);
  if (!inlined || !makeFolder(command.folder, session.diagnostics)) return session.finish();
  session.noteUnusedWeights(module->unusedWeights());
  const std::string model = command.folder + "/model.ir", weights = command.folder + "/model.safetensors";
  if (!inlined->write(model, session.diagnostics, session.common.limits)) return session.finish();
  if (!writeText(command.folder + "/inputs.txt", inputLines(*inlined->graph()), session.diagnostics))
    return session.finish();
  session.note("tscompile run " + model + (std::filesystem::exists(weights) ? " --weights " + weights : "") +
               " --inputs " + command.folder + "/inputs.txt");
  return session.finish();
}

namespace {

OptionSpecs convertOptions() {
  return {
      {"-w,--weights", "FILE", "tensors by attribute path or value name, of graph text; other files have them inside",
       [](Options& o, const std::string& v) { o.own.of<ConvertCommand>().weights.push_back(v); }, true},
      {"--method", "NAME", "the method to convert (default: forward)",
       [](Options& o, const std::string& v) { o.own.of<ConvertCommand>().method = v; }},
      {"-o,--output", "DIR", "the folder to write to; it is made if it is not there",
       [](Options& o, const std::string& v) { o.own.of<ConvertCommand>().folder = v; }},
  };
}

}  // namespace

VerbSpec convertCommand() {
  return {.name = "convert",
          .summary = "write a TorchScript archive or a torch.export program as graph text with weights",
          .argument = "FILE",
          .argumentHelp = "a model: .pt, .pt2, graph text, a module dump",
          .argumentRequired = true,
          .details =
              "One method, with all that it calls inlined and nothing simplified, as PyTorch prints inlined_graph:\n"
              "  DIR/model.ir           its graph\n"
              "  DIR/model.safetensors  the weights that it reads\n"
              "  DIR/inputs.txt         a line NAME=VALUE for each input; what sizes the file does not tell\n"
              "                         is for you to fill in\n"
              "The text computes the same bits as the file.\n\n"
              "Example:\n"
              "  tscompile convert model.pt -o model\n",
          .options = convertOptions(),
          .command = runConvert};
}

}  // namespace tscompile
