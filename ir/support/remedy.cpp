#include "ir/support/remedy.h"

#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <span>

namespace tscompile {
namespace {

std::atomic<RemedyWords> wordsInForce = plainWords;

std::string same(const std::string& text) { return text; }

// "n and %m", as constants or None.
std::string constantsText(const Remedy& r) {
  std::vector<std::string> all;
  for (size_t i = 0; i < r.names.size(); ++i)
    all.push_back((r.numbers[i] == Remedy::Value       ? "a constant for %"
                   : r.numbers[i] == Remedy::NoneValue ? "None for %"
                                                       : "None or a constant for %") +
                  r.names[i]);
  return someOf(all, " and others");
}

std::string givenText(const Remedy& r) {
  const auto optional = std::ranges::find(r.numbers, Remedy::NoneOrTensor);
  if (optional == r.numbers.end()) return "";
  return ", or sizes of %" + r.names[static_cast<size_t>(optional - r.numbers.begin())] + " if it is given";
}

std::string ifNone(const Remedy& r) {
  return r.numbers[0] ? "None in place of %" + r.names[0] + " if it is None; " : "";
}

std::string marksText(const Remedy& r) {
  constexpr const char* kSettings[] = {"torchExecutedOps ", "torchExecutedModules ", "torchExecutedNodes "};
  std::vector<std::string> marks;
  for (size_t i = 0; i < r.names.size(); ++i) marks.push_back(kSettings[r.numbers[i]] + r.names[i]);
  return marks.size() == 1 ? marks[0] : "the one that names it of " + someOf(marks, ", ...");
}

std::string againText(const Remedy& r) {
  const std::vector<std::string> settings(r.names.begin() + 2 + r.numbers[0], r.names.end());
  return std::string(r.numbers[1] ? "compile it again here" : "compile it again") +
         (r.names[1].empty() ? "" : " from " + r.names[1]) +
         (settings.empty() ? "" : " with " + join(settings, ", ", same));
}

std::string minimumText(const Remedy& r) {
  std::string out = fmt::format("a minBlockSize of {}", r.numbers[0]);
  return r.numbers[1] ? out + fmt::format(", or Strategy::Minimal: an engine of {}", counted(r.numbers[1], "node"))
                      : out;
}

std::string meansText(const Remedy& r) { return join(r.parts, " and ", textOf); }

std::string conditionText(const Remedy& r) {
  return "its condition is known with " + meansText(r) + ": the branch that is not taken goes";
}

std::string countText(const Remedy& r) {
  const std::string limit = fmt::format("lowering unrolls what becomes at most {} nodes, and an iteration has {}",
                                        r.numbers[0], r.numbers[1]);
  return r.parts.empty() ? limit : "its number of iterations is known with " + meansText(r) + ": " + limit;
}

// "its condition depends on "
std::string dependsText(const Remedy& r) {
  return std::string("its ") + (r.numbers[0] ? "number of iterations" : "condition") + " depends on ";
}

std::string laterText(const Remedy& r) {
  return dependsText(r) + r.names[0] + ", which is changed on the way: it may be known once loops are unrolled and " +
         "branches decided" + (r.parts.empty() ? "" : " with " + meansText(r));
}

std::string iterationsText(const Remedy& r) {
  return dependsText(r) + r.names[0] + ", which a loop asks in each iteration: written as a loop that counts, with " +
         "true for its condition, it is unrolled when the number is known; if what an iteration computes decides, " +
         "nothing could be said before the run";
}

// " from aten::relu's result, which engines take, if ...": what a new value of `base` is made of.
std::string newPartText(const std::string& base, const std::string& source) {
  return (source.empty() ? " from the source, expanded to the size of that part" : " from " + source + "'s result") +
         ", which engines take, if all that reads %" + base + " or a view of it later takes that";
}

std::string newPartsText(const Remedy& r) {
  std::vector<std::string> steps;
  for (size_t i = 2; i + 1 < r.names.size(); i += 2) steps.push_back(r.names[i] + " into %" + r.names[i + 1]);
  return join(steps, ", then ", same) + " make a new value of %" + r.names[0] + newPartText(r.names[0], r.names[1]);
}

std::string sentence(const char* words, const std::vector<std::string>& names) {
  auto name = [&](size_t i) { return names.size() > i ? names[i] : ""; };
  return fmt::format(fmt::runtime(words), name(0), name(1));
}

}  // namespace

std::string plainWords(const Remedy& r) {
  using Kind = Remedy::Kind;
  switch (r.kind) {
    case Kind::None:
      return "";
#define TS_REMEDY(kind, words) \
  case Kind::kind:             \
    return sentence(words, r.names);
#include "ir/support/remedies.def"
#undef TS_REMEDY
    case Kind::RaiseLimit:
      return "the limit is '" + r.names[0] + "' of Limits";
    case Kind::SupplyExactTensor:
      return "supply weights with a tensor '" + r.names[0] + "' for its exact data";
    case Kind::SupplyTensor:
      return "supply weights with a tensor '" + r.names[0] + "'";
    case Kind::SupplyWeights:
      return "supply it among the weights; export_torchscript.py writes a file of them";
    case Kind::ExportMethods:
      return "export a text that holds it: a module dump has all methods, an inlined graph has no calls";
    case Kind::ExportFunctions:
      return "export a text that holds it: an inlined graph has no calls";
    case Kind::GiveWeightFiles:
      return fmt::format("give them as 'weights'{}; the first is '{}'",
                         r.names[0].empty() ? "" : ", such as " + r.names[0], r.names[1]);
    case Kind::LoadOperators:
      return "if it is your own, it is added before the model is loaded: by Extensions in C++, "
             "tscompile_register_operator in C, @tscompile.operator in Python (docs/writing_converters.md), or with a "
             "library of plugins (docs/plugins.md)";
    case Kind::ConvertToText:
      return "'tscompile convert' writes graph text, which takes any";
    case Kind::LoadPlugins:
      return "loadPluginLibrary(), or TSCOMPILE_LOAD_PLUGINS, loads a library with plugins";
    case Kind::CompileAgain:
      return againText(r);
    case Kind::MakeRefittable:
      return "compiling with 'refittable' keeps what that needs, building does so unless use_refit is false";
    case Kind::KeepOthers:
      return "'partial' keeps those that are not given as they are";
    case Kind::NewPart:
      return r.names[0] + " makes a new value of %" + r.names[1] + newPartText(r.names[1], r.names[2]);
    case Kind::NewParts:
      return newPartsText(r);
    case Kind::AllowOperator:
      return "leave out torchExecutedOps " + r.names[0];
    case Kind::AllowMarked:
      return "leave out " + (r.names.empty() ? "what names it" : marksText(r));
    case Kind::ReplaceInputs:
      return constantsText(r) + givenText(r);
    case Kind::SupplyInputs:
      return constantsText(r);
    case Kind::CannotBind:
      return ifNone(r) + "no text says what %" + r.names[0] + " is: what is needed of it, as an input of its own";
    case Kind::CannotBindWritten:
      return ifNone(r) + "tensors of %" + r.names[0] + " cannot be constants, as " + writerText(r);
    case Kind::FixSizes:
      return "fixed sizes of %" + someOf(r.names, " and others", ", %");
    case Kind::SupplyAttributes:
      return "the weights or a module dump";
    case Kind::KnowCondition:
      return conditionText(r);
    case Kind::KnowCount:
      return countText(r);
    case Kind::KnowLater:
      return laterText(r);
    case Kind::KnowNothing:
      return "nothing that could be said before the run: " + dependsText(r) + textOf(r.parts[0]);
    case Kind::CountIterations:
      return iterationsText(r);
    case Kind::LowerMinimum:
      return minimumText(r);
    case Kind::AskForJson:
      return "writePartitionJson() tells of every node";
    case Kind::UseStrategy:
      return "the strategy " + r.names[0];
    case Kind::AvoidGains:
      return "the strategy " + r.names[0] + " does not ask for gains";
  }
  return "";
}

std::string textOf(const Remedy& remedy) { return wordsInForce.load()(remedy); }

RemedyWordsScope::RemedyWordsScope(RemedyWords words) : before_(wordsInForce.exchange(words)) {}
RemedyWordsScope::~RemedyWordsScope() { wordsInForce = before_; }

std::string writerText(const Remedy& r) { return r.names[1] + (r.numbers[1] ? " writes it" : " may write it"); }

std::string someOf(const std::vector<std::string>& names, std::string_view rest, std::string_view separator) {
  constexpr size_t kMost = 3;
  std::string some = join(std::span(names).first(std::min(names.size(), kMost)), separator, same);
  return names.size() > kMost ? some + std::string(rest) : some;
}

}  // namespace tscompile
