#include "runtime/trtllm/builtin/graph_text.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "" : ", ") + n;
  return out;
}

}  // namespace

GraphText::Argument::Argument(double value) : type_("float"), text_(fmt::format("{:.17g}", value)) {
  if (text_.find_first_of(".en") == std::string::npos) text_ += ".";
}

std::string GraphText::input(std::string_view name) {
  std::string value = fmt::format("%{}", name);
  inputs_ += (inputs_.empty() ? "" : ", ") + value + " : Tensor";
  return value;
}

std::string GraphText::resolve(const Argument& a) {
  if (a.type_.empty()) return a.text_;
  std::string& value = known_[std::string(a.type_) + a.text_];
  if (value.empty()) {
    value = name();
    constants_ += fmt::format("  {} : {} = prim::Constant{}()\n", value, a.type_,
                              a.text_.empty() ? "" : "[value=" + a.text_ + "]");
  }
  return value;
}

std::string GraphText::joinedArguments(Arguments arguments) {
  std::vector<std::string> values;
  for (const Argument& a : arguments) values.push_back(resolve(a));
  return joined(values);
}

std::string GraphText::typed(std::string_view type, std::string_view kind, Arguments arguments) {
  std::string result = name();
  body_ += fmt::format("{}{} : {} = {}({})\n", indent_, result, type, kind, joinedArguments(arguments));
  return result;
}

std::pair<std::string, std::string> GraphText::two(std::string_view kind, Arguments arguments) {
  std::string first = name(), second = name();
  body_ +=
      fmt::format("{}{} : Tensor, {} : Tensor = {}({})\n", indent_, first, second, kind, joinedArguments(arguments));
  return {first, second};
}

std::string GraphText::list(std::string_view type, const std::vector<Argument>& items) {
  std::vector<std::string> values;
  for (const Argument& a : items) values.push_back(resolve(a));
  std::string result = name();
  body_ += fmt::format("{}{} : {} = prim::ListConstruct({})\n", indent_, result, type, joined(values));
  return result;
}

std::vector<std::string> GraphText::openLoop(const Argument& count, const std::vector<std::string>& carried) {
  std::vector<std::string> arguments{resolve(count), resolve(true)}, inside, typedResults, parameters;
  std::string index = name();
  parameters.push_back(index + " : int");
  loopResults_.clear();
  for (const std::string& c : carried) {
    arguments.push_back(c);
    loopResults_.push_back(name());
    typedResults.push_back(loopResults_.back() + " : Tensor");
    inside.push_back(name());
    parameters.push_back(inside.back() + " : Tensor");
  }
  body_ += fmt::format("  {} = prim::Loop({})\n    block0({}):\n", joined(typedResults), joined(arguments),
                       joined(parameters));
  indent_ = "      ";
  inside.push_back(index);
  return inside;
}

std::vector<std::string> GraphText::closeLoop(const std::vector<std::string>& results) {
  std::vector<std::string> back{resolve(true)};
  back.insert(back.end(), results.begin(), results.end());
  body_ += fmt::format("      -> ({})\n", joined(back));
  indent_ = "  ";
  return loopResults_;
}

std::string GraphText::finish(const std::vector<std::string>& results) {
  return fmt::format("graph({}):\n{}{}  return ({})\n", inputs_, constants_, body_, joined(results));
}

}  // namespace tscompile
