#include "tools/options/defaults_file.h"

#include "frontend/files/file_io.h"
#include "ir/support/text.h"

// Values in values are of no use here, and each level takes stack.
#define TOML_MAX_NESTED_VALUES 8
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <fmt/core.h>

#include <algorithm>
#include <toml++/toml.h>

namespace tscompile {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;

// The same option with `-` and with `_`.
std::string normalized(std::string_view key) {
  std::string out(key);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

// Those that ask for something else than what the command does are no settings.
bool isSetting(std::string_view name) {
  return name.starts_with("--") && name != "--help" && name != "--defaults" && name != "--print-defaults";
}

std::vector<OptionSpec> settingsOf(const VerbSpec& verb) {
  std::vector<OptionSpec> out = verb.options;
  for (OptionSpec& common : commonOptionSpecsOf(verb)) out.push_back(std::move(common));
  std::erase_if(out, [](const OptionSpec& o) { return !isSetting(namesOf(o).back()); });
  return out;
}

bool isNamed(const OptionSpec& option, std::string_view key) {
  const std::vector<std::string> names = namesOf(option);
  return std::find(names.begin(), names.end(), "--" + normalized(key)) != names.end();
}

}  // namespace

class DefaultsReader {
 public:
  explicit DefaultsReader(DefaultsFile& file) : file_(file) {}

  void read() {
    const toml::parse_result parsed = toml::parse(file_.source_->text(), file_.source_->path());
    if (!parsed) fault(parsed.error().source(), lowered(parsed.error().description()));
    for (const auto& [key, node] : parsed.table())
      if (const toml::table* table = node.as_table())
        command(key, *table);
      else
        entry(std::span(verbSpecs()), "", key, node);
  }

 private:
  // Lines and columns of toml++ count characters.
  uint32_t offset(toml::source_position at) const {
    const std::string_view text = file_.source_->text();
    size_t i = 0;
    for (uint32_t line = 1; line < at.line && i < text.size(); ++i) line += text[i] == '\n';
    for (uint32_t column = 1; column < at.column && i < text.size() && text[i] != '\n'; ++column)
      i += std::max<size_t>(1, utf8Length(text.substr(i)));
    return static_cast<uint32_t>(i);
  }
  SourceRange range(const toml::source_region& region) const {
    const uint32_t begin = offset(region.begin), end = offset(region.end);
    return {file_.source_.get(), begin, std::max(begin, end)};
  }
  static std::string lowered(std::string_view text) {
    if (text.starts_with("Error while") && text.find(": ") != std::string_view::npos)
      text.remove_prefix(text.find(": ") + 2);
    std::string out(text.substr(0, text.find_last_not_of(". \n") + 1));
    if (!out.empty() && out[0] >= 'A' && out[0] <= 'Z') out[0] = static_cast<char>(out[0] - 'A' + 'a');
    return out;
  }
  [[noreturn]] void fault(const toml::source_region& where, std::string message, std::string meant = {}) const {
    UsageError error{std::move(message)};
    if (!meant.empty()) error.notes.push_back("did you mean '" + meant + "'?");
    error.range = range(where);
    error.source = file_.source_;
    throw error;
  }

  void command(const toml::key& name, const toml::table& table) {
    const VerbSpec* verb = findVerb(name.str());
    if (!verb) {
      NearestName nearest(name.str());
      for (const VerbSpec& v : verbSpecs()) nearest.consider(v.name);
      fault(name.source(), "there is no command '" + abbreviate(name.str(), 80) + "'", nearest.name());
    }
    for (const auto& [key, node] : table) entry(std::span(verb, 1), verb->name, key, node);
  }

  // One of these commands must have the option, and take such a value.
  void entry(std::span<const VerbSpec> verbs, std::string_view table, const toml::key& key, const toml::node& node) {
    NearestName nearest(normalized(key.str()));
    for (const VerbSpec& verb : verbs)
      for (const OptionSpec& option : settingsOf(verb)) {
        if (isNamed(option, key.str())) {
          const bool isFirst =
              file_.tables_[std::string(table)].try_emplace(normalized(key.str()), valueOf(option, key, node)).second;
          if (!isFirst) fault(key.source(), std::string(key.str()) + " is there twice");
          return;
        }
        for (const std::string& name : namesOf(option))
          if (isSetting(name)) nearest.consider(std::string_view(name).substr(2));
      }
    const std::string whose = table.empty() ? "no command has" : std::string(table) + " has no";
    fault(key.source(),
          fmt::format("{} option '--{}'", whose + (table.empty() ? " an" : ""), abbreviate(normalized(key.str()), 80)),
          nearest.name());
  }

  DefaultsFile::Entry valueOf(const OptionSpec& option, const toml::key& key, const toml::node& node) const {
    DefaultsFile::Entry out;
    out.place = range(node.source());
    const toml::array* list = node.as_array();
    if (list && !option.repeats) fault(node.source(), std::string(key.str()) + " takes one value");
    if (!list) {
      add(option, key, node, out.values);
      return out;
    }
    for (const toml::node& item : *list) add(option, key, item, out.values);
    return out;
  }

  void add(const OptionSpec& option, const toml::key& key, const toml::node& node,
           std::vector<std::string>& into) const {
    const bool isFlag = option.value.empty();
    if (auto truth = node.value_exact<bool>(); truth && (isFlag || option.valueOptional)) {
      if (*truth) into.emplace_back();
    } else if (auto text = node.value_exact<std::string>(); text && !isFlag) {
      into.push_back(*text);
    } else if (auto whole = node.value_exact<int64_t>(); whole && !isFlag) {
      into.push_back(std::to_string(*whole));
    } else if (auto real = node.value_exact<double>(); real && !isFlag) {
      into.push_back(fmt::format("{}", *real));
    } else {
      fault(node.source(), std::string(key.str()) + " takes " + (isFlag ? "true or false" : "a text or a number"));
    }
  }

  DefaultsFile& file_;
};

DefaultsFile::DefaultsFile(const std::string& path) {
  Diagnostics diagnostics;
  Result<std::string> text = readFile(path, kMostBytes, diagnostics);
  if (!text)
    throw UsageError{"the options in " + abbreviate(path, 200) +
                     " cannot be read: " + (diagnostics.list().empty() ? "" : diagnostics.list().front().message)};
  source_ = SourceFile::make(path, std::move(*text));
  DefaultsReader(*this).read();
}

const DefaultsFile::Entry* DefaultsFile::find(const VerbSpec& verb, const OptionSpec& option) const {
  for (const std::string& table : {std::string(verb.name), std::string()}) {
    auto entries = tables_.find(table);
    if (entries == tables_.end()) continue;
    for (const auto& [key, entry] : entries->second)
      if (isNamed(option, key)) return &entry;
  }
  return nullptr;
}

namespace {

std::string tomlText(std::string_view value) {
  const bool isNumber = !value.empty() && value.size() < 18 && (value == "0" || value[0] != '0') &&
                        std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (isNumber) return std::string(value);
  std::string out;
  for (char c : jsonQuote(value)) out += c == '\x7f' ? std::string("\\u007f") : std::string(1, c);
  return out;
}

std::string tomlValue(const OptionSpec& option, const std::vector<std::string>& values) {
  if (option.value.empty() || (option.valueOptional && values == std::vector<std::string>{""})) return "true";
  if (!option.repeats) return tomlText(values.back());
  return "[" + join(values, ", ", [](const std::string& v) { return tomlText(v); }) + "]";
}

// "# weights = ["FILE"]", or "true" of a flag.
std::string unsaid(const OptionSpec& option) {
  return "# " + namesOf(option).back().substr(2) + " = " + tomlValue(option, {std::string(option.value)});
}

}  // namespace

std::string defaultsText(const Options& options) {
  const VerbSpec& verb = *options.verb;
  std::string out = fmt::format("# 'tscompile {} --defaults FILE' reads this.\n[{}]\n", verb.name, verb.name);
  for (const OptionSpec& option : settingsOf(verb)) {
    auto said = std::find_if(options.said.begin(), options.said.end(),
                             [&](const SaidOption& s) { return s.name == namesOf(option).back(); });
    if (said != options.said.end()) {
      out += namesOf(option).back().substr(2) + " = " + tomlValue(option, said->values) + "\n";
      continue;
    }
    out += fmt::format("{}  # {}\n", unsaid(option), option.help);
  }
  return out;
}

}  // namespace tscompile
