// Writes graph text: decompositions of plugins, whose constants and names would drown the mathematics.
#pragma once

#include "runtime/plugin/plugin_sdk.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tscompile {

// A value of the text; there are none of those that are absent. Arguments are a handful of bytes: decompositions have
// thousands of them.
class ValueText {
 public:
  ValueText() = default;
  bool empty() const { return index_ == 0; }

 private:
  friend class GraphText;
  explicit ValueText(size_t index) : index_(index) {}
  size_t index_ = 0;  // among the names of the graph, from 1
};

class GraphText {
 public:
  // A value or a constant.
  class Argument {
   public:
    Argument(ValueText value) : kind_(Kind::Value), index_(value.index_) {}
    Argument(int value) : Argument(int64_t{value}) {}
    Argument(int64_t value) : kind_(Kind::Int), integer_(value) {}
    Argument(bool value) : kind_(Kind::Bool), integer_(value) {}
    Argument(double value) : kind_(Kind::Float), number_(value) {}
    Argument(std::nullptr_t) : kind_(Kind::None), integer_(0) {}

   private:
    friend class GraphText;
    enum class Kind : uint8_t { Value, Int, Bool, Float, None, Text };
    explicit Argument(std::string_view text) : kind_(Kind::Text), integer_(0), text_(text) {}
    std::pair<const char*, std::string> constant() const;  // its type and what it is written as

    Kind kind_;
    union {
      size_t index_;
      int64_t integer_;
      double number_;
    };
    std::string_view text_;
  };
  using Arguments = std::initializer_list<Argument>;
  // A constant that is a text, which must outlive the call that it is for.
  static Argument text(std::string_view value) { return Argument(value); }

  // An input: in the order of calls.
  ValueText input(std::string_view name);
  // The inputs of a plugin, those that are absent too.
  std::vector<ValueText> inputs(const tsc::Tensors& given, std::initializer_list<std::string_view> names);
  // A node with one result, a tensor or another `type`.
  ValueText op(std::string_view kind, Arguments arguments);
  ValueText typed(std::string_view type, std::string_view kind, Arguments arguments);
  // A node with two tensors as results.
  std::pair<ValueText, ValueText> two(std::string_view kind, Arguments arguments);
  // A list: `type` is that of the list ("int[]", "Tensor?[]").
  ValueText list(std::string_view type, std::span<const Argument> items);
  ValueText list(std::string_view type, Arguments items) { return list(type, std::span<const Argument>(items)); }
  ValueText tensors(std::span<const Argument> items);
  ValueText tensors(Arguments items) { return tensors(std::span<const Argument>(items)); }
  ValueText ints(Arguments items);

  // for i in range(count): the body gives tensors that the next pass is given; returns those of the last one.
  template <class Body>  // std::vector<ValueText>(ValueText i, const std::vector<ValueText>& carried)
  std::vector<ValueText> loop(Argument count, const std::vector<ValueText>& carried, Body&& body) {
    std::vector<ValueText> inside = openLoop(count, carried);
    ValueText index = inside.back();
    inside.pop_back();
    return closeLoop(body(std::as_const(index), std::as_const(inside)));
  }

  // Operators that decompositions are full of.
  ValueText add(Argument a, Argument b);
  ValueText sub(Argument a, Argument b);
  ValueText mul(Argument a, Argument b);
  ValueText div(Argument a, Argument b);
  ValueText slice(Argument a, int dim, Argument from, Argument to);
  ValueText unsqueeze(Argument a, int dim);
  ValueText select(Argument a, int dim, Argument i);
  ValueText where(Argument c, Argument a, Argument b);
  ValueText matmul(Argument a, Argument b);
  ValueText transposed(Argument a);
  ValueText view(Argument a, Arguments sizes);
  ValueText size(Argument a, int dim);
  ValueText index(Argument a, Arguments by);  // a[b, c], with tensors of indices
  ValueText to(Argument a, int dtype);        // of PyTorch's number of a dtype
  ValueText toFloat(Argument a);
  ValueText toLong(Argument a);
  ValueText range(Argument count);  // 0 .. count - 1

  // The whole text.
  std::string finish(const std::vector<ValueText>& results);

 private:
  ValueText name(std::string name);
  ValueText name();
  const std::string& nameOf(ValueText v) const;
  std::string joined(const std::vector<ValueText>& values, std::string_view type = {}) const;
  ValueText resolve(const Argument& a);
  std::string joinedArguments(std::span<const Argument> arguments);
  std::vector<ValueText> openLoop(Argument count, const std::vector<ValueText>& carried);
  std::vector<ValueText> closeLoop(const std::vector<ValueText>& results);

  std::string inputs_, constants_, body_, indent_ = "  ";
  std::vector<std::string> names_;
  std::vector<ValueText> loopResults_;
  std::map<std::string, ValueText> known_;  // constants
  int count_ = 0;
};

}  // namespace tscompile
