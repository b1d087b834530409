// What would help, as data. Whoever reports it finds the words: here are those for people who call the library; the
// command line tool has its own, which name its options.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tscompile {

struct Remedy {
  enum class Kind : uint8_t {
    None,
#define TS_REMEDY(kind, words) kind,
#include "ir/support/remedies.def"
#undef TS_REMEDY
    // ---- reading and running; `names`:
    RaiseLimit,         // of Limits
    SupplyExactTensor,  // the weight
    SupplyTensor,       // the weight
    SupplyWeights,
    ExportMethods,
    ExportFunctions,
    GiveWeightFiles,  // one, or "", and the first weight that is missing
    LoadOperators,
    ConvertToText,
    LoadPlugins,
    // ---- engine files
    CompileAgain,  // where to, the text, `numbers[0]` weights files, settings as "name=value"; `numbers[1]`: here
    MakeRefittable,
    KeepOthers,
    // ---- what keeps a node out of an engine
    NewPart,            // the operator that makes it, the tensor, whose result goes in, or "" for a copy's source
    NewParts,           // the tensor and what goes in, then operators and the tensors that they take
    AllowOperator,      // what is kept out by its name
    AllowMarked,        // names that mark it; `numbers` of each: 0 an operator, 1 a module, 2 a node
    ReplaceInputs,      // by constants: their names; `numbers` of each: a Binding
    SupplyInputs,       // the same as a part of a sentence
    CannotBind,         // the input; `numbers[0]`: it may be None
    CannotBindWritten,  // the input, what writes its tensors; `numbers`: it may be None, the writer is known to write
    FixSizes,           // of these inputs
    SupplyAttributes,
    KnowCondition,  // with all `parts`
    KnowCount,      // of iterations, with all `parts`, if there are some; `numbers`: most nodes, those of one iteration
    KnowLater,      // the list that is changed on the way, with `parts`; `numbers[0]`: a number of iterations
    KnowNothing,    // `parts[0]`: what it depends on; `numbers[0]` as before
    CountIterations,  // what a loop asks in each iteration; `numbers[0]` as before
    LowerMinimum,     // `numbers`: nodes, and those of an engine of the strategy minimal, or 0
    UseStrategy,      // its name
    AskForJson,
    AvoidGains,  // the name of a strategy that does not ask for them
  };
  enum Binding : uint8_t { Value, NoneValue, NoneOrValue, NoneOrTensor };

  Remedy() = default;
  Remedy(Kind kind, std::vector<std::string> names = {}, std::vector<int64_t> numbers = {},
         std::vector<Remedy> parts = {})
      : kind(kind), names(std::move(names)), numbers(std::move(numbers)), parts(std::move(parts)) {}

  bool empty() const { return kind == Kind::None; }
  // A document is what helps.
  bool isToRead() const { return kind == Kind::ReadOfPlugins || kind == Kind::ReadOfConverters; }

  Kind kind = Kind::None;
  std::vector<std::string> names;
  std::vector<int64_t> numbers;
  std::vector<Remedy> parts;
};

using RemedyWords = std::string (*)(const Remedy&);
// A sentence without a full stop, in the words that are in force. Of None it is empty.
std::string textOf(const Remedy& remedy);
// The words for C++, which are in force unless somebody else's are.
std::string plainWords(const Remedy& remedy);

// Other words, in the whole process, for as long as this lives.
class RemedyWordsScope {
 public:
  explicit RemedyWordsScope(RemedyWords words);
  ~RemedyWordsScope();
  RemedyWordsScope(const RemedyWordsScope&) = delete;
  RemedyWordsScope& operator=(const RemedyWordsScope&) = delete;

 private:
  RemedyWords before_;
};

// "aten::add_ writes it", of CannotBindWritten.
std::string writerText(const Remedy& remedy);
// At most three of the names, then `rest`.
std::string someOf(const std::vector<std::string>& names, std::string_view rest, std::string_view separator = ", ");

}  // namespace tscompile
