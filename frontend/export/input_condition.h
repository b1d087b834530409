// Conditions on the inputs of an exported program that no bounds of sizes can say: the `guards_code` of its file, which
// are Python: `(L['tokens'].size()[1] / 16) <= 1.0`.
#pragma once

#include "ir/values/size_expression.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tscompile {

class InputCondition {
 public:
  // A number that the inputs of a call tell.
  struct Source {
    enum class Kind : uint8_t { Value, Size, Stride };
    std::string input;              // its name, without "%"
    std::vector<std::string> path;  // to the tensor or number in it, if the input is a container: indices and keys
    Kind kind = Kind::Value;
    int dim = 0;  // of a size or stride
    friend bool operator==(const Source&, const Source&) = default;
    std::string text() const;  // "%tokens.size(1)"
  };
  // As Python has them; a bool is an integer.
  using Number = std::variant<int64_t, double>;

  // `text` names inputs as the file does, by the steps to them from all arguments ("tokens", or "pair" and "0");
  // `resolve` gives the input and path of such a place. Nothing if it is no condition that can be computed.
  using Resolve = std::function<std::optional<Source>(std::span<const std::string> place)>;
  static std::optional<InputCondition> parse(std::string_view text, const Resolve& resolve);
  // What text() gave.
  static std::optional<InputCondition> parse(std::string_view text);

  // As parse() reads it, with the names of sources.
  std::string text() const;
  // The same for people: "%tokens.size(1) / 16 <= 1.0".
  std::string words() const;
  std::span<const Source> sources() const { return sources_; }
  bool asksForStrides() const;
  // Whether it holds for these values of the sources; nothing if one is not there, or where Python would raise.
  std::optional<bool> holds(std::span<const std::optional<Number>> values) const;

  // The same with numbers in place of the sources that are known; nothing if these cannot be written.
  std::optional<InputCondition> knowing(const std::function<std::optional<Number>(const Source&)>& known) const;

  // What it says of sizes that are such expressions, unknown for sources that are none: that it holds in each run, or
  // that it is the same as bounds of one symbol.
  struct Meaning {
    bool isCertain = false;
    std::optional<SizeExpression> symbol;  // that has these bounds
    SizeRange range;
  };
  Meaning meaningOf(std::span<const SizeExpression> sizes) const;

 private:
  friend class ConditionReader;
  // Operations in the order of a stack machine.
  enum class Code : uint8_t {
    Number,
    Source,
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
    Negate,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Equal,
    Unequal,
    And,
    Or,
    Not,
    Least,
    Greatest,
    Absolute,
    Floor,
    Ceiling,
    Truncate,
    Round,
    Root,
    ToInt,
    ToFloat,
  };
  struct Operation {
    Code code;
    InputCondition::Number number;  // of Number
    size_t source = 0;              // of Source
  };
  static bool takesTwo(Code code);
  static std::optional<Number> applied(Code code, Number a, Number b);

  std::vector<Operation> operations_;
  std::vector<Source> sources_;
  std::vector<std::string> pieces_;  // of the text, around its sources
  std::vector<size_t> places_;       // sources between the pieces
};

}  // namespace tscompile
