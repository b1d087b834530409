#include "runtime/trtllm/builtin/graph_text.h"

#include "ir/support/check.h"

#include <fmt/core.h>

namespace tscompile {

std::pair<const char*, std::string> GraphText::Argument::constant() const {
  switch (kind_) {
    case Kind::Int:
      return {"int", std::to_string(integer_)};
    case Kind::Bool:
      return {"bool", integer_ ? "1" : "0"};
    case Kind::Float: {
      std::string text = fmt::format("{:.17g}", number_);
      return {"float", text.find_first_of(".en") == std::string::npos ? text + "." : text};
    }
    case Kind::Text:
      return {"str", fmt::format("\"{}\"", text_)};
    default:
      return {"NoneType", ""};
  }
}

ValueText GraphText::name(std::string name) {
  names_.push_back(std::move(name));
  return ValueText(names_.size());
}
const std::string& GraphText::nameOf(ValueText v) const {
  TS_CHECK(!v.empty());
  return names_[v.index_ - 1];
}
ValueText GraphText::name() { return name(fmt::format("%{}", ++count_)); }

// "%1, %2", or with a type "%1 : Tensor, %2 : Tensor".
std::string GraphText::joined(const std::vector<ValueText>& values, std::string_view type) const {
  std::string out;
  for (ValueText v : values) {
    out += (out.empty() ? "" : ", ") + nameOf(v);
    if (!type.empty()) out.append(" : ").append(type);
  }
  return out;
}

ValueText GraphText::input(std::string_view theName) {
  ValueText value = name(fmt::format("%{}", theName));
  inputs_ += (inputs_.empty() ? "" : ", ") + nameOf(value) + " : Tensor";
  return value;
}

std::vector<ValueText> GraphText::inputs(const tsc::Tensors& given, std::initializer_list<std::string_view> names) {
  std::vector<ValueText> values;
  for (std::string_view name : names) {
    const size_t i = values.size();
    values.push_back(i < given.inputs() && given.input(i).present() ? input(name) : ValueText());
  }
  return values;
}

ValueText GraphText::resolve(const Argument& a) {
  if (a.kind_ == Argument::Kind::Value) return ValueText(a.index_);
  auto [type, text] = a.constant();
  ValueText& value = known_[type + text];
  if (value.empty()) {
    value = name();
    constants_ += fmt::format("  {} : {} = prim::Constant{}()\n", nameOf(value), type,
                              text.empty() ? "" : "[value=" + text + "]");
  }
  return value;
}

std::string GraphText::joinedArguments(std::span<const Argument> arguments) {
  std::vector<ValueText> values;
  for (const Argument& a : arguments) values.push_back(resolve(a));
  return joined(values);
}

ValueText GraphText::op(std::string_view kind, Arguments arguments) { return typed("Tensor", kind, arguments); }
ValueText GraphText::typed(std::string_view type, std::string_view kind, Arguments arguments) {
  ValueText result = name();
  std::string joined = joinedArguments(arguments);
  body_ += fmt::format("{}{} : {} = {}({})\n", indent_, nameOf(result), type, kind, joined);
  return result;
}
std::pair<ValueText, ValueText> GraphText::two(std::string_view kind, Arguments arguments) {
  ValueText first = name(), second = name();
  std::string joined = joinedArguments(arguments);
  body_ += fmt::format("{}{} : Tensor, {} : Tensor = {}({})\n", indent_, nameOf(first), nameOf(second), kind, joined);
  return {first, second};
}
ValueText GraphText::list(std::string_view type, std::span<const Argument> items) {
  std::string joined = joinedArguments(items);
  ValueText result = name();
  body_ += fmt::format("{}{} : {} = prim::ListConstruct({})\n", indent_, nameOf(result), type, joined);
  return result;
}
ValueText GraphText::tensors(std::span<const Argument> items) { return list("Tensor[]", items); }
ValueText GraphText::ints(Arguments items) { return list("int[]", items); }

// ---- operators that decompositions are full of ----

ValueText GraphText::add(Argument a, Argument b) { return op("aten::add", {a, b, 1}); }
ValueText GraphText::sub(Argument a, Argument b) { return op("aten::sub", {a, b, 1}); }
ValueText GraphText::mul(Argument a, Argument b) { return op("aten::mul", {a, b}); }
ValueText GraphText::div(Argument a, Argument b) { return op("aten::div", {a, b}); }
ValueText GraphText::slice(Argument a, int dim, Argument from, Argument to) {
  return op("aten::slice", {a, dim, from, to, 1});
}
ValueText GraphText::unsqueeze(Argument a, int dim) { return op("aten::unsqueeze", {a, dim}); }
ValueText GraphText::select(Argument a, int dim, Argument i) { return op("aten::select", {a, dim, i}); }
ValueText GraphText::where(Argument c, Argument a, Argument b) { return op("aten::where", {c, a, b}); }
ValueText GraphText::matmul(Argument a, Argument b) { return op("aten::matmul", {a, b}); }
ValueText GraphText::transposed(Argument a) { return op("aten::transpose", {a, -1, -2}); }
ValueText GraphText::view(Argument a, Arguments sizes) { return op("aten::reshape", {a, ints(sizes)}); }
ValueText GraphText::size(Argument a, int dim) { return typed("int", "aten::size", {a, dim}); }
ValueText GraphText::index(Argument a, Arguments by) { return op("aten::index", {a, list("Tensor?[]", by)}); }
ValueText GraphText::to(Argument a, int dtype) { return op("aten::to", {a, dtype, false, false, nullptr}); }
ValueText GraphText::toFloat(Argument a) { return to(a, 6); }
ValueText GraphText::toLong(Argument a) { return to(a, 4); }
ValueText GraphText::range(Argument count) { return op("aten::arange", {count, 4, nullptr, nullptr, nullptr}); }

// ---- loops and the end ----

std::vector<ValueText> GraphText::openLoop(Argument count, const std::vector<ValueText>& carried) {
  std::vector<ValueText> arguments{resolve(count), resolve(true)}, inside;
  ValueText index = name();
  loopResults_.clear();
  for (ValueText c : carried) {
    arguments.push_back(c);
    loopResults_.push_back(name());
    inside.push_back(name());
  }
  body_ += fmt::format("  {} = prim::Loop({})\n    block0({} : int{}{}):\n", joined(loopResults_, "Tensor"),
                       joined(arguments), nameOf(index), inside.empty() ? "" : ", ", joined(inside, "Tensor"));
  indent_ = "      ";
  inside.push_back(index);
  return inside;
}

std::vector<ValueText> GraphText::closeLoop(const std::vector<ValueText>& results) {
  std::vector<ValueText> back{resolve(true)};
  back.insert(back.end(), results.begin(), results.end());
  body_ += fmt::format("      -> ({})\n", joined(back));
  indent_ = "  ";
  return loopResults_;
}

std::string GraphText::finish(const std::vector<ValueText>& results) {
  return fmt::format("graph({}):\n{}{}  return ({})\n", inputs_, constants_, body_, joined(results));
}

}  // namespace tscompile
