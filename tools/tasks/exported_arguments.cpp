#include "tools/tasks/exported_arguments.h"

#include "api/named_inputs.h"
#include "ir/support/text.h"
#include "tools/session/session.h"

#include <algorithm>
#include <functional>

namespace tscompile {
namespace {

// The names of the arguments of a call, in their order: of inputs, constants, and containers of these.
std::vector<std::string> namesInCall(std::span<const ValueInfo> inputs, const ExportedInputs& exported) {
  std::vector<std::string> out;
  auto add = [&](const std::string& name) {
    const auto part = std::ranges::find(exported.parts, name, &ExportedPart::name);
    const std::string& whole = part == exported.parts.end() ? name : part->argument;
    if (out.empty() || out.back() != whole) out.push_back(whole);
  };
  auto constant = exported.constants.begin();
  for (size_t i = 0; i <= inputs.size(); ++i) {
    for (; constant != exported.constants.end() && constant->inputsBefore <= i; ++constant) add(constant->name);
    if (i < inputs.size()) add(inputs[i].name);
  }
  return out;
}

bool isPosition(std::string_view name) {
  return !name.empty() && name.size() < 10 && name.find_first_not_of("0123456789") == std::string_view::npos;
}

// What is before the first '=', if it is a name.
std::string_view nameIn(std::string_view text) {
  const size_t equal = text.find('=');
  return equal == std::string_view::npos || text.find_first_of("(:@[{\"") < equal ? std::string_view()
                                                                                  : text.substr(0, equal);
}

constexpr std::string_view kOpening = "([{", kClosing = ")]}";

// Calls f(position) for what is neither in quotes nor inside of brackets; false if these do not fit each other.
bool forEachOutside(std::string_view text, const std::function<void(size_t)>& f) {
  bool isQuoted = false;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (isQuoted && c == '\\')
      ++i;
    else if (c == '"')
      isQuoted = !isQuoted;
    if (isQuoted) continue;
    if (kClosing.find(c) != std::string_view::npos && --depth < 0) return false;
    if (depth == 0) f(i);
    if (kOpening.find(c) != std::string_view::npos) ++depth;
  }
  return depth == 0 && !isQuoted;
}

// Whether a text may be of this input: a tensor is a file or begins with its sizes.
bool mayBe(const ValueInfo& input, std::string_view text) {
  text = trim(text);
  return !input.type->isTensor() || text.starts_with('@') || text.find(':') < text.find_first_of("[({\"");
}

// A value in a container, and the way to it: indices and keys.
struct Leaf {
  std::vector<std::string> path;
  std::string_view text;
};

// False if the text is no container that can be read.
bool addLeaves(std::string_view text, const std::vector<std::string>& path, std::vector<Leaf>& out) {
  constexpr size_t kDeepest = 64;
  text = trim(text);
  if (path.size() > kDeepest || text.empty()) return false;
  if (kOpening.find(text[0]) == std::string_view::npos) {
    out.push_back({path, text});
    return true;
  }
  const bool isDict = text[0] == '{';
  if (text.size() < 2 || text.back() != kClosing[kOpening.find(text[0])]) return false;
  const std::string_view inside = text.substr(1, text.size() - 2);
  std::vector<size_t> ends;
  if (!forEachOutside(inside, [&](size_t i) {
        if (inside[i] == ',') ends.push_back(i);
      }))
    return false;
  ends.push_back(inside.size());
  for (size_t item = 0, begin = 0; item < ends.size(); begin = ends[item++] + 1) {
    std::string_view value = trim(inside.substr(begin, ends[item] - begin));
    if (value.empty() && item + 1 == ends.size()) break;  // after the last comma, or of nothing
    std::vector<std::string> at = path;
    at.push_back(std::to_string(item));
    if (isDict) {
      size_t colon = std::string_view::npos;
      forEachOutside(value, [&](size_t i) {
        if (value[i] == ':') colon = std::min(colon, i);
      });
      if (colon == std::string_view::npos) return false;
      std::string_view key = trim(value.substr(0, colon));
      if (key.size() >= 2 && key.front() == '"' && key.back() == '"') key = key.substr(1, key.size() - 2);
      at.back() = key;
      value = value.substr(colon + 1);
    }
    if (!addLeaves(value, at, out)) return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> ofInputs(std::vector<std::string> texts, std::span<const ValueInfo> inputs,
                                  const ExportedInputs& exported) {
  const bool differs = !exported.constants.empty() || !exported.parts.empty();
  const bool isByCall = differs && std::ranges::any_of(texts, [&](const std::string& text) {
                          const std::string_view name = nameIn(text);
                          const size_t at = isPosition(name) ? findInput(inputs, name) : 0;
                          return isPosition(name) &&
                                 (at == kNoInput || !mayBe(inputs[at], std::string_view(text).substr(name.size() + 1)));
                        });
  const std::vector<std::string> names = isByCall ? namesInCall(inputs, exported) : std::vector<std::string>();
  std::vector<std::string> out;
  for (std::string& text : texts) {
    std::string_view name = nameIn(text);
    if (isByCall && isPosition(name))
      if (const size_t at = std::stoul(std::string(name)); at < names.size()) {
        text.replace(0, name.size(), names[at]);
        name = nameIn(text);
      }
    std::vector<Leaf> leaves;
    auto isOf = [&](const ExportedPart& p) { return p.argument == name; };
    if (name.empty() || findInput(inputs, name) != kNoInput || std::ranges::none_of(exported.parts, isOf) ||
        !addLeaves(std::string_view(text).substr(name.size() + 1), {}, leaves)) {
      out.push_back(std::move(text));
      continue;
    }
    for (const Leaf& leaf : leaves) {
      auto part =
          std::ranges::find_if(exported.parts, [&](const ExportedPart& p) { return isOf(p) && p.path == leaf.path; });
      if (part == exported.parts.end() && leaf.text == "None") continue;  // of fields of objects, which are left out
      if (part == exported.parts.end())
        throw UsageError{"'" + abbreviate(name, 80) + "' has no part '" +
                         abbreviate(join(leaf.path, ".", std::identity()), 80) + "' in the program"};
      out.push_back(part->name + "=" + std::string(leaf.text));
    }
  }
  return out;
}

}  // namespace tscompile
