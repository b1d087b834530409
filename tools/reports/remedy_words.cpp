#include "tools/reports/remedy_words.h"

#include "api/compile_settings.h"
#include "ir/support/text.h"

#include <algorithm>

namespace tscompile {
namespace {

using Kind = Remedy::Kind;

std::string quotedForShell(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string commandText(const Remedy& r) {
  std::string out = "tscompile compile " + (r.names[1].empty() ? std::string("MODEL") : quotedForShell(r.names[1]));
  if (r.names[1].empty()) out += " --weights WEIGHTS";
  const size_t weights = static_cast<size_t>(r.numbers[0]);
  for (size_t i = 2; i < r.names.size(); ++i)
    for (const std::string& word :
         i < 2 + weights ? std::vector<std::string>{"--weights", r.names[i]} : optionWords(r.names[i]))
      out += " " + quotedForShell(word);
  return out + " -o " + quotedForShell(r.names[0]);
}

std::string marksText(const Remedy& r) {
  constexpr const char* kOptions[] = {"--torch-executed-op ", "--torch-executed-module ", "--torch-executed-node "};
  std::vector<std::string> marks;
  for (size_t i = 0; i < r.names.size(); ++i) marks.push_back(kOptions[r.numbers[i]] + r.names[i]);
  return marks.size() == 1 ? marks[0] : "the one that names it of " + someOf(marks, ", ...");
}

// "compile --bind n=VALUE --bind m=None", at most `most` of them.
std::string bindText(const Remedy& r, size_t most) {
  constexpr const char* kValues[] = {"=VALUE", "=None", "=None (or VALUE)", "=None (or VALUE)"};
  std::string out = "compile";
  for (size_t i = 0; i < std::min(r.names.size(), most); ++i) out += " --bind " + r.names[i] + kValues[r.numbers[i]];
  return r.names.size() > most ? out + " and others" : out;
}

// ", --shape mask=SIZES says that it is given"
std::string givenText(const Remedy& r) {
  const auto optional = std::find(r.numbers.begin(), r.numbers.end(), Remedy::NoneOrTensor);
  if (optional == r.numbers.end()) return "";
  const std::string& name = r.names[static_cast<size_t>(optional - r.numbers.begin())];
  return ", --shape " + name + "=SIZES says that " + (r.names.size() == 1 ? "it" : "%" + name) + " is given";
}

std::string ifNone(const Remedy& r) {
  return r.numbers[0] ? "compile --bind " + r.names[0] + "=None if it is None; " : "";
}

std::string sizesText(const Remedy& r) {
  return "fixed sizes of %" + someOf(r.names, " and others", ", %") + " (--shape " + r.names[0] + "=SIZES" +
         (r.names.size() > 1 ? " and so on" : "") + ", or in the text)";
}

std::string minimumText(const Remedy& r) {
  std::string out = "--min-block-size " + std::to_string(r.numbers[0]);
  return r.numbers[1]
             ? out + ", or --strategy minimal: an engine of " + counted(static_cast<uint64_t>(r.numbers[1]), "node")
             : out;
}

}  // namespace

std::vector<std::string> optionWords(const std::string& setting) {
  const size_t equal = setting.find('=');
  const std::string option = "--" + setting.substr(0, equal);
  if (equal == std::string::npos) return {option};
  const CompileSetting* known = findCompileSetting(setting.substr(0, equal));
  if (known && known->valueOptional) return {"--" + setting};
  return {option, setting.substr(equal + 1)};
}

std::string optionText(const std::string& setting) {
  return join(optionWords(setting), " ",
              [](const std::string& word) { return word.find(' ') == std::string::npos ? word : "'" + word + "'"; });
}

std::string commandLineWords(const Remedy& r) {
  switch (r.kind) {
    case Kind::RaiseLimit:
      return "the limit is set by --limit " + r.names[0] + "=N";
    case Kind::SupplyExactTensor:
      return "supply a tensor '" + r.names[0] + "' with --weights for its exact data";
    case Kind::SupplyTensor:
      return "supply a tensor '" + r.names[0] + "' with --weights FILE.safetensors";
    case Kind::SupplyWeights:
      return "supply it with --weights FILE.safetensors; export_torchscript.py writes such a file";
    case Kind::ExportMethods:
      return "export a text that holds it: print(model.inlined_graph) has no calls, export_torchscript.py --form dump "
             "writes all methods";
    case Kind::ExportFunctions:
      return "export a text that holds it: print(model.inlined_graph) has no calls";
    case Kind::GiveWeightFiles:
      return "give them with --weights " + (r.names[0].empty() ? "FILE" : r.names[0]) + "; the first is '" +
             r.names[1] + "'";
    case Kind::LoadOperators:
      return "if it is your own, --custom-torch-ops LIB loads an operator (docs/writing_converters.md), --plugin LIB a "
             "plugin (docs/plugins.md)";
    case Kind::LoadPlugins:
      return "--plugin LIB, or TSCOMPILE_LOAD_PLUGINS, loads a library with plugins";
    case Kind::CompileAgain:
      return std::string(r.numbers[1] ? "compile it again here: " : "compile it again: ") + commandText(r);
    case Kind::MakeRefittable:
      return "compile --refittable keeps what that needs, build does so unless use_refit is false";
    case Kind::KeepOthers:
      return "--partial keeps those that are not given as they are";
    case Kind::AllowOperator:
      return "leave out --torch-executed-op " + r.names[0];
    case Kind::AllowMarked:
      return "leave out " + (r.names.empty() ? "what names it" : marksText(r));
    case Kind::ReplaceInputs:
      return bindText(r, SIZE_MAX) +
             (r.names.size() == 1 ? " puts a constant in its place" : " puts constants in their places") + givenText(r);
    case Kind::SupplyInputs:
      return bindText(r, 3);
    case Kind::CannotBind:
      return ifNone(r) + "compile --bind has no words for %" + r.names[0] +
             ": what is needed of it, as an input of its own";
    case Kind::CannotBindWritten:
      return ifNone(r) + "compile --bind does not take tensors of %" + r.names[0] + ", as " + writerText(r);
    case Kind::FixSizes:
      return sizesText(r);
    case Kind::LowerMinimum:
      return minimumText(r);
    case Kind::AskForJson:
      return "--format json tells of every node";
    case Kind::UseStrategy:
      return "--strategy " + r.names[0];
    case Kind::AvoidGains:
      return "--strategy " + r.names[0] + " does not ask for gains";
    default:
      return plainWords(r);
  }
}

}  // namespace tscompile
