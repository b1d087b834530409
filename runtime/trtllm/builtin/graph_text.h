// Writes graph text: decompositions of plugins, whose constants and names would drown the mathematics.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tscompile {

class GraphText {
 public:
  // A value ("%x") or a constant.
  class Argument {
   public:
    Argument(std::string value) : text_(std::move(value)) {}
    Argument(const char* value) : text_(value) {}
    Argument(int value) : Argument(int64_t{value}) {}
    Argument(int64_t value) : type_("int"), text_(std::to_string(value)) {}
    Argument(bool value) : type_("bool"), text_(value ? "1" : "0") {}
    Argument(double value);
    Argument(std::nullptr_t) : type_("NoneType") {}

   private:
    friend class GraphText;
    std::string_view type_;  // of a constant; empty: a value
    std::string text_;
  };
  using Arguments = std::initializer_list<Argument>;
  // A constant that is a text.
  static Argument text(std::string_view value) {
    Argument a(fmt::format("\"{}\"", value));
    a.type_ = "str";
    return a;
  }

  // An input: in the order of calls. Returns what it is called.
  std::string input(std::string_view name);
  // The inputs of a plugin; "" for those that are absent.
  template <class Tensors>
  std::vector<std::string> inputs(const Tensors& given, std::initializer_list<std::string_view> names) {
    std::vector<std::string> values;
    for (std::string_view name : names) {
      const size_t i = values.size();
      values.push_back(i < given.inputs() && given.input(i).present() ? input(name) : "");
    }
    return values;
  }
  // A node with one result, a tensor or another `type`.
  std::string op(std::string_view kind, Arguments arguments) { return typed("Tensor", kind, arguments); }
  std::string typed(std::string_view type, std::string_view kind, Arguments arguments);
  // A node with two tensors as results.
  std::pair<std::string, std::string> two(std::string_view kind, Arguments arguments);
  // A list: `type` is that of the list ("int[]", "Tensor?[]").
  std::string list(std::string_view type, const std::vector<Argument>& items);
  std::string tensors(const std::vector<Argument>& items) { return list("Tensor[]", items); }
  std::string ints(const std::vector<Argument>& items) { return list("int[]", items); }

  // for i in range(count): the body gives tensors that the next pass is given; returns those of the last one.
  template <class Body>  // std::vector<std::string>(const std::string& i, const std::vector<std::string>& carried)
  std::vector<std::string> loop(const Argument& count, const std::vector<std::string>& carried, Body&& body) {
    std::vector<std::string> inside = openLoop(count, carried);
    std::string index = inside.back();
    inside.pop_back();
    return closeLoop(body(std::as_const(index), std::as_const(inside)));
  }

  // Operators that decompositions are full of.
  std::string add(const Argument& a, const Argument& b) { return op("aten::add", {a, b, 1}); }
  std::string sub(const Argument& a, const Argument& b) { return op("aten::sub", {a, b, 1}); }
  std::string mul(const Argument& a, const Argument& b) { return op("aten::mul", {a, b}); }
  std::string div(const Argument& a, const Argument& b) { return op("aten::div", {a, b}); }
  std::string slice(const Argument& a, int dim, const Argument& from, const Argument& to) {
    return op("aten::slice", {a, dim, from, to, 1});
  }
  std::string unsqueeze(const Argument& a, int dim) { return op("aten::unsqueeze", {a, dim}); }
  std::string select(const Argument& a, int dim, const Argument& i) { return op("aten::select", {a, dim, i}); }
  std::string where(const Argument& c, const Argument& a, const Argument& b) { return op("aten::where", {c, a, b}); }
  std::string matmul(const Argument& a, const Argument& b) { return op("aten::matmul", {a, b}); }
  std::string transposed(const Argument& a) { return op("aten::transpose", {a, -1, -2}); }
  std::string view(const Argument& a, const std::vector<Argument>& sizes) {
    return op("aten::reshape", {a, ints(sizes)});
  }
  std::string size(const Argument& a, int dim) { return typed("int", "aten::size", {a, dim}); }
  // a[b, c], with tensors of indices.
  std::string index(const Argument& a, const std::vector<Argument>& by) {
    return op("aten::index", {a, list("Tensor?[]", by)});
  }
  // Of PyTorch's number of a dtype.
  std::string to(const Argument& a, int dtype) { return op("aten::to", {a, dtype, false, false, nullptr}); }
  std::string toFloat(const Argument& a) { return to(a, 6); }
  std::string toLong(const Argument& a) { return to(a, 4); }
  // 0 .. count - 1.
  std::string range(const Argument& count) { return op("aten::arange", {count, 4, nullptr, nullptr, nullptr}); }

  // The whole text.
  std::string finish(const std::vector<std::string>& results);

 private:
  std::string name() { return fmt::format("%{}", ++count_); }
  std::string resolve(const Argument& a);
  std::string joinedArguments(Arguments arguments);
  std::vector<std::string> openLoop(const Argument& count, const std::vector<std::string>& carried);
  std::vector<std::string> closeLoop(const std::vector<std::string>& results);

  std::string inputs_, constants_, body_, indent_ = "  ";
  std::vector<std::string> loopResults_;
  std::map<std::string, std::string> known_;  // constants
  int count_ = 0;
};

}  // namespace tscompile
