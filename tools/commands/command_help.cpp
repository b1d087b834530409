// Help texts, made from the option tables.
#include "ir/support/split.h"
#include "ir/support/text.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/session/terminal.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

constexpr size_t kWidth = 100;

// How lines are laid out: names of options at the left, what they do from a column on.
struct HelpForm {
  size_t width = kWidth;
  size_t column() const { return width < 66 ? 8 : 33; }
};

HelpForm formOfHelp() {
  const size_t columns = helpColumns();
  return {columns == 0 ? kWidth : std::clamp<size_t>(columns, 40, kWidth)};
}

// Words from column `at` on, further lines from column `indent` on.
void wrap(std::string_view words, size_t at, size_t indent, const HelpForm& form, std::string& out) {
  bool first = true;
  while (!words.empty()) {
    const size_t end = words.find(' ');
    const std::string_view word = words.substr(0, end);
    if (at + (first ? 0 : 1) + word.size() > form.width && at > indent) {
      out += '\n';
      out.append(at = indent, ' ');
    } else if (!first) {
      out += ' ';
      ++at;
    }
    first = false;
    out += word;
    at += word.size();
    words.remove_prefix(end == std::string_view::npos ? words.size() : end + 1);
  }
  out += '\n';
}

// "  --name VALUE    what it does", wrapped.
void entry(const std::string& left, std::string_view help, const HelpForm& form, std::string& out) {
  out += "  " + left;
  size_t at = left.size() + 2;
  if (at + 1 >= form.column()) {
    out += '\n';
    at = 0;
  }
  out.append(form.column() - at, ' ');
  wrap(help, form.column(), form.column(), form, out);
}

// Texts are broken for kWidth; where there is less, their paragraphs are broken anew, but for what is indented.
void prose(std::string_view text, const HelpForm& form, std::string& out) {
  if (form.width >= kWidth) {
    out += text;
    return;
  }
  std::string paragraph;
  auto end = [&] {
    if (!paragraph.empty()) wrap(paragraph, 0, 0, form, out);
    paragraph.clear();
  };
  std::vector<std::string_view> lines = split(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  for (std::string_view line : lines) {
    if (!line.empty() && line[0] != ' ') {
      paragraph += (paragraph.empty() ? "" : " ") + std::string(line);
      if (!line.ends_with(':')) continue;
      end();
    } else {
      end();
      out += std::string(line) + '\n';
    }
  }
  end();
}

// Those of one group, or that belong to none.
void options(const std::string& title, std::span<const OptionSpec> specs, const HelpForm& form, std::string& out,
             std::string_view group = {}) {
  if (std::none_of(specs.begin(), specs.end(), [&](const OptionSpec& o) { return o.group == group; })) return;
  prose("\n" + title + ":\n", form, out);
  for (const OptionSpec& spec : specs) {
    if (spec.group != group) continue;
    std::string left;
    for (char c : spec.names) left += c == ',' ? ", " : std::string(1, c);
    if (spec.names.find(',') == std::string_view::npos) left = "    " + left;
    if (!spec.value.empty())
      left += spec.valueOptional ? "[=" + std::string(spec.value) + "]" : " " + std::string(spec.value);
    entry(left, std::string(spec.help) + (spec.repeats ? "; may be given several times" : ""), form, out);
  }
}

struct Topic {
  std::string_view name, text;
};
constexpr Topic kGroups[] = {{"cutting", "Which nodes go to engines, and how the graph is cut into segments"}};

// The options of a group, those of the same commands together.
std::string groupHelp(const Topic& group, const HelpForm& form) {
  std::vector<OptionSpec> all;
  std::vector<std::string> takers;  // of each
  for (const VerbSpec& verb : verbSpecs())
    for (const OptionSpec& o : verb.options) {
      if (o.group != group.name) continue;
      auto known = std::find_if(all.begin(), all.end(), [&](const OptionSpec& a) { return a.names == o.names; });
      if (known == all.end()) {
        all.push_back(o);
        takers.emplace_back(verb.name);
      } else {
        takers[static_cast<size_t>(known - all.begin())] += ", " + std::string(verb.name);
      }
    }
  std::string out;
  prose(std::string(group.text) + ": docs/partitioning.md explains it.\n", form, out);
  std::vector<std::string> titles;
  for (const std::string& t : takers)
    if (std::find(titles.begin(), titles.end(), t) == titles.end()) titles.push_back(t);
  for (const std::string& title : titles) {
    std::vector<OptionSpec> specs;
    for (size_t i = 0; i < all.size(); ++i)
      if (takers[i] == title) specs.push_back(all[i]);
    options("Options of " + title, specs, form, out, group.name);
  }
  return out;
}

// Where options are explained that other commands take as well.
void groupHints(const VerbSpec& verb, const HelpForm& form, std::string& out) {
  for (const Topic& group : kGroups)
    if (std::any_of(verb.options.begin(), verb.options.end(),
                    [&](const OptionSpec& o) { return o.group == group.name; }))
      prose(fmt::format("\nOptions of {}: see 'tscompile help {}'.\n", group.name, group.name), form, out);
}

std::string limitsHelp(const HelpForm& form) {
  std::string out;
  prose("Bounds on what inputs may ask for. Each is changed by --limit KEY=VALUE.\n\n", form, out);
  for (const LimitName& limit : kLimitNames)
    entry(limit.name, std::string(limit.what) + " (" + std::to_string(Limits().*limit.field) + ")", form, out);
  prose(
      "\nTensors have at most " + std::to_string(kMaxRank) + " dimensions and " + std::to_string(kMaxElements) +
          " elements; these bounds are fixed.\nMemory and time of a run are bounded by --limit-mem and --limit-time.\n",
      form, out);
  return out;
}

}  // namespace

std::string generalHelp() {
  const HelpForm form = formOfHelp();
  std::string out =
      "Usage: tscompile COMMAND [options] ...\n"
      "       tscompile FILE          the same as 'tscompile inspect FILE'\n\n"
      "Runs PyTorch's models on the CPU: what torch.jit.save and torch.export.save write, and graph "
      "text.\n\nCommands:\n";
  for (const VerbSpec& verb : verbSpecs()) entry(std::string(verb.name), verb.summary, form, out);
  options("Options of every command", commonOptionSpecs(), form, out);
  prose("\n@FILE in place of an argument stands for the words of that file.\n", form, out);
  out += "\nEnvironment:\n";
  entry("TSCOMPILE_NAME", "what --name says, of each option: TSCOMPILE_LIMIT_MEM=8G is --limit-mem 8G", form, out);
  entry("TSCOMPILE_DEFAULTS", "the file of --defaults", form, out);
  entry("TSCOMPILE_LOAD_PLUGINS", "libraries with plugins, absolute paths with colons between them", form, out);
  entry("NO_COLOR, CLICOLOR_FORCE", "no colours, colours everywhere", form, out);
  prose(
      "\nExit codes: 0 done, 1 a negative result, 2 the command line is at fault, 3 an input was\n"
      "rejected, 4 not supported, 5 input or output failed, 6 a limit was hit, 7 an engine file of\n"
      "another version or for another processor, 8 the model failed, 70 internal error, 130 and 143\n"
      "interrupted.\n",
      form, out);
  return out;
}

std::string verbHelp(const VerbSpec& verb) {
  const HelpForm form = formOfHelp();
  std::string out = "Usage: tscompile " + std::string(verb.name) + " [options]";
  if (!verb.argument.empty()) {
    std::string argument(verb.argument);
    if (verb.argumentRepeats) argument += "...";
    out += verb.argumentRequired ? " " + argument : " [" + argument + "]";
  }
  std::string summary(verb.summary);
  summary[0] = static_cast<char>(summary[0] - 'a' + 'A');
  prose("\n\n" + summary + ".\n", form, out);
  if (!verb.argument.empty()) {
    out += "\nArguments:\n";
    entry(std::string(verb.argument), verb.argumentHelp, form, out);
  }
  options("Options", verb.options, form, out);
  groupHints(verb, form, out);
  options("Options of every command", commonOptionSpecsOf(verb), form, out);
  if (!verb.details.empty()) prose("\n" + std::string(verb.details), form, out);
  return out;
}

static std::string topicsText() {
  std::string out = "there is help on limits";
  for (const Topic& group : kGroups) out += ", " + std::string(group.name);
  for (const VerbSpec& verb : verbSpecs()) out += ", " + std::string(verb.name);
  return out + "; docs/diagnostics.md has the exit codes";
}

static int runHelp(const Options& options, Session& session) {
  const std::string topic = options.arguments.empty() ? "" : options.arguments[0];
  if (topic.empty()) {
    session.out << generalHelp();
  } else if (topic == "limits") {
    session.out << limitsHelp(formOfHelp());
  } else if (auto group =
                 std::find_if(std::begin(kGroups), std::end(kGroups), [&](const Topic& t) { return t.name == topic; });
             group != std::end(kGroups)) {
    session.out << groupHelp(*group, formOfHelp());
  } else if (const VerbSpec* verb = findVerb(topic)) {
    session.out << verbHelp(*verb);
  } else {
    UsageError error{"there is no help on '" + abbreviate(topic, 80) + "'"};
    NearestName nearest(topic);
    nearest.consider("limits");
    for (const Topic& group : kGroups) nearest.consider(group.name);
    for (const VerbSpec& v : verbSpecs()) nearest.consider(v.name);
    if (nearest.found())
      error.notes.push_back("did you mean '" + nearest.name() + "'?");
    else
      error.notes.push_back(topicsText());
    throw error;
  }
  return kExitDone;
}

VerbSpec helpCommand() {
  return {.name = "help",
          .summary = "explain a command, or the limits",
          .argument = "TOPIC",
          .argumentHelp = "a command, 'cutting' or 'limits'",
          .command = runHelp};
}

}  // namespace tscompile
