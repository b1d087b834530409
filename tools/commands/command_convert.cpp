// `tscompile convert`: a model of any kind of file as graph text with its weights.
#include "api/lower.h"
#include "api/value_text.h"
#include "frontend/files/file_io.h"
#include "frontend/files/made_folder.h"
#include "frontend/files/weights.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/tasks/execution.h"
#include "tools/tasks/inputs.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>

namespace tscompile {
namespace {

struct ConvertCommand {
  std::vector<std::string> weights;
  std::string method;  // empty: forward, or each if there is none
  std::string folder;
};

// Without %self.
std::vector<ValueInfo> textInputsOf(const Graph& graph) {
  std::vector<ValueInfo> out;
  for (const Value* v : graph.inputs())
    if (!v->type()->is(TypeKind::Class)) out.push_back({v->name(), v->type()});
  return out;
}

constexpr std::string_view kInputValues = "inputs.safetensors";

// A line for each input, as --inputs takes them: the value that the file has for it, random elements where the sizes
// are known, otherwise a comment that says what is wanted.
struct ConvertedInputs {
  ConvertedInputs(std::span<const ValueInfo> wanted, const std::map<std::string, IValue>& known) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto& [name, type] = wanted[i];
      if (auto value = known.find(name); value != known.end() && add(name, value->second)) continue;
      if (std::optional<std::string> recipe = randomText(type, i)) {
        text += name + "=" + *recipe + "\n";
      } else {
        text += "# " + name + "=VALUE, of type " + typeText(withoutRefinement(type)) + "\n";
        missing += !type->is(TypeKind::Optional);
      }
    }
  }

  std::string text;
  std::vector<std::pair<std::string, Tensor>> tensors;  // that lines name
  size_t missing = 0;                                   // lines that are to be filled in

 private:
  bool add(const std::string& name, const IValue& value) {
    const size_t before = tensors.size();
    const std::optional<std::string> written = write(name, value);
    if (!written) tensors.resize(before);
    text += written ? name + "=" + *written + "\n" : "";
    return written.has_value();
  }

  // As docs/values.md has it; tensors inside are called NAME.0 and so on.
  std::optional<std::string> write(const std::string& name, const IValue& value) {
    if (value.isTensor()) {
      tensors.emplace_back(name, value.toTensor());
      return fmt::format("@{}#{}", kInputValues, name);
    }
    if (value.isString() || value.isNone() || value.isInt() || value.isFloat() || value.isBool())
      return valueToText(value);
    std::string out;
    bool good = value.isList() || value.isTuple() || value.isDict();
    size_t count = 0;
    auto item = [&](const IValue& v) {
      const std::optional<std::string> written = write(fmt::format("{}.{}", name, count++), v);
      good &= written.has_value();
      return written.value_or("");
    };
    if (value.isDict())
      value.toDict().forEach([&](const IValue& key, const IValue& v) {
        out += (out.empty() ? "" : ", ") + (key.isTensor() ? "" : valueToText(key)) + ": " + item(v);
        good &= !key.isTensor();
      });
    else if (good)
      for (const IValue& v : value.isList() ? value.toList().items : value.toTuple().items)
        out += (out.empty() ? "" : ", ") + item(v);
    if (value.isDict()) out = "{" + out + "}";
    if (value.isList()) out = "[" + out + "]";
    if (value.isTuple()) out = "(" + out + (count == 1 ? ",)" : ")");
    return good ? std::optional(out) : std::nullopt;
  }
};

bool writeText(const std::string& path, std::string_view text, Diagnostics& diagnostics) {
  FileWriter file(path, diagnostics);
  return file.write(text) && file.commit();
}

}  // namespace

// What is written of one method, and how it is run; nothing after a report.
static std::optional<std::string> convertMethod(const Module& module, const std::string& method,
                                                const std::string& folder, const std::string& file, Session& session) {
  LowerOptions inlining;
  inlining.method = method;
  inlining.query = Query().including({"inline_calls"});
  inlining.limits = session.common.limits;
  Result<Module> inlined = module.lowered(inlining, session.diagnostics);
  if (!inlined) return std::nullopt;
  const MadeFolder made(folder);
  if (!made.check(session.diagnostics)) return std::nullopt;
  const std::string model = folder + "/model.ir", weights = folder + "/model.safetensors";
  if (!inlined->write(model, session.diagnostics, session.common.limits)) return std::nullopt;
  const std::string inputs = folder + "/inputs.txt";
  const std::vector<ValueInfo> wanted = textInputsOf(*inlined->graph());
  std::map<std::string, IValue> known = exportedInputs(file, method, wanted, session.common.limits);
  for (const auto& [name, value] : inlined->defaults()) {
    // Archives say "x" of an input that a text may call "x.1".
    auto isMeant = [&name = name](const ValueInfo& v) { return v.name.substr(0, v.name.rfind('.')) == name; };
    auto input = std::ranges::find(wanted, name, &ValueInfo::name);
    if (input == wanted.end()) input = std::ranges::find_if(wanted, isMeant);
    if (input != wanted.end()) known.emplace(input->name, value);
  }
  const ConvertedInputs lines(wanted, known);
  if (!lines.tensors.empty() &&
      !writeSafetensors(folder + "/" + std::string(kInputValues), lines.tensors, session.diagnostics))
    return std::nullopt;
  if (!writeText(inputs, lines.text, session.diagnostics)) return std::nullopt;
  const std::string call = "tscompile run " + model +
                           (std::filesystem::exists(weights) ? " --weights " + weights : "") + " --inputs " + inputs;
  return lines.missing ? "fill in " + inputs + ", then: " + call : call;
}

static int runConvert(const Options& options, Session& session) {
  const ConvertCommand& command = options.own.of<ConvertCommand>();
  if (command.folder.empty()) throw UsageError{"convert needs a folder for what it writes", {"name it with -o DIR"}};
  Result<Module> module = session.loadModule(options.arguments[0], command.weights);
  if (!module) return session.finish();
  // Programs that were packed together have names of their own, each.
  const std::vector<std::string> methods = module->methods();
  auto isFolder = [](const std::string& name) {  // of its own, below another
    return name != "." && name != ".." && std::filesystem::path(name).filename() == name;
  };
  const bool isAll = command.method.empty() && methods.size() > 1 &&
                     std::ranges::find(methods, "forward") == methods.end() && std::ranges::all_of(methods, isFolder);
  std::vector<std::string> calls;
  if (isAll) {
    const MadeFolder folder(command.folder);
    if (!folder.check(session.diagnostics)) return session.finish();
  }
  for (const std::string& method : isAll ? methods : std::vector{command.method.empty() ? "forward" : command.method}) {
    auto call = convertMethod(*module, method, isAll ? command.folder + "/" + method : command.folder,
                              options.arguments[0], session);
    if (!call) return session.finish();
    calls.push_back(std::move(*call));
  }
  session.noteUnusedWeights(module->unusedWeights());
  for (const std::string& call : calls) session.note(call);
  return session.finish();
}

namespace {

OptionSpecs convertOptions() {
  return {
      {"-w,--weights", "FILE", "tensors by attribute path or value name, of graph text; other files have them inside",
       [](Options& o, const std::string& v) { o.own.of<ConvertCommand>().weights.push_back(v); }, true},
      {"--method", "NAME", "the method to convert (default: forward, or all of a file of several programs)",
       [](Options& o, const std::string& v) { o.own.of<ConvertCommand>().method = v; }},
      writing(Written::Folder, {"-o,--output", "DIR", "the folder to write to; it is made if it is not there",
                                [](Options& o, const std::string& v) { o.own.of<ConvertCommand>().folder = v; }}),
  };
}

}  // namespace

VerbSpec convertCommand() {
  return {
      .name = "convert",
      .summary = "write a TorchScript archive or a torch.export program as graph text with weights",
      .argument = "FILE",
      .argumentHelp = "a model: .pt, .pt2, graph text, a module dump",
      .argumentRequired = true,
      .details =
          "One method, with all that it calls inlined and nothing simplified, as PyTorch prints inlined_graph:\n"
          "  DIR/model.ir           its graph\n"
          "  DIR/model.safetensors  the weights that it reads\n"
          "  DIR/inputs.txt         a line NAME=VALUE for each input: the values that the program was\n"
          "                         exported with (in DIR/inputs.safetensors), or random ones; where the\n"
          "                         file does not tell sizes it is for you to fill in\n"
          "The text computes the same bits as the file. Of several programs in a file each gets a folder in DIR.\n\n"
          "Example:\n"
          "  tscompile convert model.pt -o model\n",
      .options = convertOptions(),
      .command = runConvert};
}

}  // namespace tscompile
