#include "api/forgotten_weights.h"

#include "api/model_file.h"
#include "ir/graph/text_graphs.h"
#include "ir/support/remedy.h"
#include "ir/support/text.h"
#include "ir/values/literal.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <unordered_set>

namespace tscompile {
namespace {

// Constants that stand in the text, which nobody has verified yet, without their data.
std::vector<const Value*> constantsWithoutData(const ParsedText& text) {
  std::vector<const Value*> out;
  forEachGraph(topGraphs(text), [&](const Graph& g) {
    forEachNode(g, [&](const Node* n) {
      const bool constant = n->kind() == sym::Constant && n->outputs().size() == 1;
      const IValue* v = constant ? n->attributeValue(sym::value) : nullptr;
      if (v && v->isLiteral() && v->toLiteral().kind == LiteralValue::Kind::MissingTensor) out.push_back(n->output());
    });
  });
  return out;
}

// Where weights of a text usually are: beside it, under its name or as `weights`.
std::string weightsBeside(const std::string& path) {
  const size_t slash = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  std::error_code ignored;
  for (const std::string& name : {path.substr(0, path.rfind('.')), path.substr(0, slash) + "weights"})
    if (std::string file = name + ".safetensors"; std::filesystem::exists(file, ignored)) return file;
  return "";
}

// `given`: the names of weights that were given and that the text does not ask for; `advice`: what is known of them.
void reportForgotten(const std::string& path, size_t count, const std::string& first,
                     const std::vector<std::string>& given, const std::string& advice, Diagnostics& diagnostics) {
  if (modelFileOf(path) == ModelFile::Export && given.empty()) {  // what it holds was found
    diagnostics
        .fileError(path, {},
                   fmt::format("the file has no data of {} that its program takes; the first is '{}'",
                               counted(count, "tensor"), abbreviate(first, 200)))
        .note(
            "torch.export wrote what was made during a strict trace without data, and cannot load such a file either: "
            "export with strict=False, or make these tensors before forward()");
    return;
  }
  const std::string why =
      given.empty() ? "no weights were given"
                    : fmt::format("none of the {} in the weights is one of them", counted(given.size(), "tensor"));
  Diagnostic& d = diagnostics.fileError(path, {},
                                        fmt::format("the text names {} without {} data, and {}",
                                                    counted(count, "tensor"), count == 1 ? "its" : "their", why));
  const std::string file = weightsBeside(path);
  if (!advice.empty()) {
    d.note(advice);
    return;
  }
  d.note(textOf(Remedy(Remedy::Kind::GiveWeightFiles, {file, first})));
  if (given.empty()) return;
  d.note(fmt::format("the first of the weights is '{}'", abbreviate(given.front(), 200)));
  d.note("a model file, such as this text may have been made from, takes weights of a checkpoint, too");
}

}  // namespace

bool hasForgottenWeights(const std::string& path, const Module& module, Diagnostics& diagnostics) {
  if (modelFileOf(path) != ModelFile::Text) return false;  // which hold them
  std::vector<const Value*> missing = constantsWithoutData(module.text());
  if (missing.size() < 2) return false;
  const std::vector<std::string> given = module.unusedWeights();
  const std::unordered_set<std::string_view> names(given.begin(), given.end());
  auto isGiven = [&](const Value* v) { return names.count(v->name()) || names.count(std::string(v->name()) + ".0"); };
  if (std::any_of(missing.begin(), missing.end(), isGiven)) return false;
  reportForgotten(path, missing.size(), missing.front()->name(), given, "", diagnostics);
  return true;
}

void summarizeForgotten(const std::string& path, const std::vector<std::string>& given, Diagnostics& diagnostics) {
  constexpr std::string_view kStart = "weight '", kEnd = "' was not supplied";
  const std::vector<Diagnostic>& list = diagnostics.list();
  auto isMissing = [&](const Diagnostic& d) { return d.message.ends_with(kEnd); };
  auto isWeight = [&](const Diagnostic& d) { return d.message.starts_with(kStart); };
  const auto weight = std::find_if(list.begin(), list.end(), isWeight);
  if (list.size() < 2 || weight == list.end() || !std::all_of(list.begin(), list.end(), isMissing)) return;
  std::string first = weight->message.substr(kStart.size());
  first.resize(first.size() - kEnd.size());
  const size_t others = list.size() - static_cast<size_t>(std::count_if(list.begin(), list.end(), isWeight));
  const size_t count = diagnostics.errorCount() - others;
  const std::string advice = given.empty() || weight->notes.empty() ? "" : weight->notes[0].message;
  diagnostics.clear();
  reportForgotten(path, count, first, given, advice, diagnostics);
}

Result<Method> prepareGiven(const std::string& path, const Module& module, const std::string& method,
                            Diagnostics& diagnostics) {
  if (hasForgottenWeights(path, module, diagnostics)) return Failed{};
  const std::vector<std::string> given = module.unusedWeights();
  Result<Method> out = module.prepare(diagnostics, method);
  if (!out && module.unusedWeights().size() == given.size()) summarizeForgotten(path, given, diagnostics);
  return out;
}

}  // namespace tscompile
