#include "tools/reports/repaired_text.h"

#include "ir/support/split.h"
#include "ir/support/text.h"

#include <map>
#include <vector>

namespace tscompile {
namespace {

// "%x", "%input.5" and so on in a text, with where they begin.
std::vector<std::pair<size_t, std::string>> namesIn(std::string_view text) {
  std::vector<std::pair<size_t, std::string>> out;
  for (size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 1)) {
    size_t end = at + 1;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_' ||
                                 text[end] == '.' || text[end] == ':'))
      ++end;
    while (end > at + 1 && text[end - 1] == ':') --end;
    if (end > at + 1) out.emplace_back(at, std::string(text.substr(at, end - at)));
  }
  return out;
}

// The same call as one of kLeftOut; empty if the line is none. `columns`: from 0, where errors begin.
std::string leftOut(std::string_view line, const std::set<size_t>& columns) {
  const size_t start = line.find_first_not_of(' ');
  if (start == std::string_view::npos || line[start] != '%') return "";
  size_t equal = line.find(" = ");
  const bool hasEqual = equal != std::string_view::npos;
  if (!hasEqual) {  // what the first name gives
    const auto names = namesIn(line);
    if (names.empty()) return "";
    equal = names.front().first + names.front().second.size();
  }
  std::string out(line.substr(0, equal));
  if (!hasEqual || (!columns.empty() && *columns.begin() < equal)) {
    out.assign(start, ' ');
    for (const auto& [at, name] : namesIn(line.substr(0, equal)))
      out += (out.size() > start ? ", " : "") + name + " : Tensor";
  }
  std::string taken;
  for (const auto& [at, name] : namesIn(line.substr(equal)))
    if (!columns.count(equal + at)) taken += (taken.empty() ? "" : ", ") + name;
  return out + " = ^" + kLeftOut + "()(" + taken + ")";
}

}  // namespace

std::string repairedText(const SourceFile& source, const Diagnostics& errors, std::set<uint32_t>& lines) {
  std::map<uint32_t, std::set<size_t>> columns;  // by line
  for (const Diagnostic& d : errors.list()) {
    if (d.severity != Severity::Error) continue;
    if (!d.range.valid()) return "";
    const LineColumn place = d.range.file->lineColumn(d.range.begin);
    columns[place.line].insert(place.column - 1);
  }
  std::string out;
  uint32_t number = 0;
  const std::vector<std::string_view> text = split(source.text(), '\n');
  for (std::string_view line : text) {
    ++number;
    const auto wrong = columns.find(number);
    if (wrong == columns.end()) {
      out.append(line).push_back('\n');
      continue;
    }
    // Blocks belong to the line before them.
    const bool hasBlocks = number < text.size() && trim(text[number]).starts_with("block");
    const std::string call = hasBlocks ? "" : leftOut(line, wrong->second);
    if (call.empty()) return "";
    lines.insert(number);
    out.append(call).push_back('\n');
  }
  return out;
}

}  // namespace tscompile
