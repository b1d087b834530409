// Writes graphs that plugins decompose into: values are names, "%3".
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tscompile {

class GraphLines {
 public:
  using Value = std::string;

  // The inputs of the graph, in order; those that are absent are left out.
  Value input(std::string_view name) {
    inputs_ += fmt::format("{}%{} : Tensor", inputs_.empty() ? "" : ", ", name);
    return fmt::format("%{}", name);
  }

  Value integer(int64_t v) { return constant("int", std::to_string(v)); }
  Value real(double v) {
    std::string text = fmt::format("{:.17g}", v);
    if (text.find_first_of(".en") == std::string::npos) text += '.';
    return constant("float", text);
  }
  Value boolean(bool v) { return constant("bool", v ? "1" : "0"); }
  Value none() { return statement("NoneType", "prim::Constant()"); }
  Value integers(std::initializer_list<int64_t> items) {
    std::string text;
    for (int64_t i : items) text += (text.empty() ? "" : ", ") + std::to_string(i);
    return constant("int[]", "[" + text + "]");
  }
  // A list of values of one type: "int[]", "Tensor[]", "Tensor?[]".
  Value list(std::string_view type, const std::vector<Value>& items) {
    return statement(type, "prim::ListConstruct(" + joined(items) + ")");
  }

  // op("mul", {a, b}) is aten::mul(a, b).
  Value op(std::string_view name, const std::vector<Value>& arguments, std::string_view type = "Tensor") {
    return statement(type, fmt::format("aten::{}({})", name, joined(arguments)));
  }
  // The first and the second half of the last dimension.
  std::pair<Value, Value> halves(const Value& x) {
    Value all = size(x, -1), half = op("floordiv", {all, integer(2)}, "int");
    return {slice(x, -1, integer(0), half), slice(x, -1, half, all)};
  }

  Value add(const Value& a, const Value& b) { return op("add", {a, b, integer(1)}); }
  Value sub(const Value& a, const Value& b) { return op("sub", {a, b, integer(1)}); }
  Value mul(const Value& a, const Value& b) { return op("mul", {a, b}); }
  Value div(const Value& a, const Value& b) { return op("div", {a, b}); }
  Value matmul(const Value& a, const Value& b) { return op("matmul", {a, b}); }
  // `dtype`: as tsc_dtype has them.
  Value to(const Value& x, int dtype) {
    Value no = boolean(false);
    return op("to", {x, integer(dtype), no, no, none()});
  }
  // The dimensions from the back are swapped.
  Value transposed(const Value& x) { return op("transpose", {x, integer(-2), integer(-1)}); }
  Value size(const Value& x, int64_t dim) { return op("size", {x, integer(dim)}, "int"); }
  Value view(const Value& x, const std::vector<Value>& sizes) { return op("reshape", {x, list("int[]", sizes)}); }
  Value slice(const Value& x, int64_t dim, const Value& begin, const Value& end) {
    return op("slice", {x, integer(dim), begin, end, integer(1)});
  }

  std::string returning(const std::vector<Value>& results) const {
    return fmt::format("graph({}):\n{}  return ({})\n", inputs_, body_, joined(results));
  }

 private:
  Value next() { return "%" + std::to_string(++count_); }
  Value statement(std::string_view type, const std::string& text) {
    Value v = next();
    body_ += fmt::format("  {} : {} = {}\n", v, type, text);
    return v;
  }
  Value constant(std::string_view type, const std::string& text) {
    return statement(type, "prim::Constant[value=" + text + "]()");
  }
  static std::string joined(const std::vector<Value>& items) {
    std::string text;
    for (const Value& v : items) text += (text.empty() ? "" : ", ") + v;
    return text;
  }

  std::string inputs_, body_;
  int count_ = 0;
};

}  // namespace tscompile
