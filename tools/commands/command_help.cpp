// Help texts, made from the option tables.
#include "ir/support/text.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

constexpr size_t kColumn = 33, kWidth = 100;

// "  --name VALUE    what it does", wrapped.
void entry(std::string left, std::string_view help, std::string& out) {
  out += "  " + left;
  size_t at = left.size() + 2;
  if (at + 1 >= kColumn) {
    out += '\n';
    at = 0;
  }
  out.append(kColumn - at, ' ');
  at = kColumn;
  while (!help.empty()) {
    size_t end = help.find(' ');
    std::string_view word = help.substr(0, end);
    if (at + word.size() > kWidth) {
      out += '\n';
      out.append(kColumn, ' ');
      at = kColumn;
    }
    out += word;
    at += word.size();
    help.remove_prefix(end == std::string_view::npos ? help.size() : end + 1);
    if (!help.empty() && at + 1 + help.substr(0, help.find(' ')).size() <= kWidth) {
      out += ' ';
      ++at;
    } else if (!help.empty()) {
      out += '\n';
      out.append(kColumn, ' ');
      at = kColumn;
    }
  }
  out += '\n';
}

// Those of one group, or that belong to none.
void options(const std::string& title, std::span<const OptionSpec> specs, std::string& out,
             std::string_view group = {}) {
  if (std::none_of(specs.begin(), specs.end(), [&](const OptionSpec& o) { return o.group == group; })) return;
  out += "\n" + title + ":\n";
  for (const OptionSpec& spec : specs) {
    if (spec.group != group) continue;
    std::string left;
    for (char c : spec.names) left += c == ',' ? ", " : std::string(1, c);
    if (spec.names.find(',') == std::string_view::npos) left = "    " + left;
    if (!spec.value.empty())
      left += spec.valueOptional ? "[=" + std::string(spec.value) + "]" : " " + std::string(spec.value);
    entry(left, std::string(spec.help) + (spec.repeats ? "; may be given several times" : ""), out);
  }
}

struct Topic {
  std::string_view name, text;
};
constexpr Topic kGroups[] = {{"cutting", "Which nodes go to engines, and how the graph is cut into segments"}};

// The options of a group, those of the same commands together.
std::string groupHelp(const Topic& group) {
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
  std::string out = std::string(group.text) + ": docs/partitioning.md explains it.\n";
  std::vector<std::string> titles;
  for (const std::string& t : takers)
    if (std::find(titles.begin(), titles.end(), t) == titles.end()) titles.push_back(t);
  for (const std::string& title : titles) {
    std::vector<OptionSpec> specs;
    for (size_t i = 0; i < all.size(); ++i)
      if (takers[i] == title) specs.push_back(all[i]);
    options("Options of " + title, specs, out, group.name);
  }
  return out;
}

// Where options are explained that other commands take as well.
void groupHints(const VerbSpec& verb, std::string& out) {
  for (const Topic& group : kGroups)
    if (std::any_of(verb.options.begin(), verb.options.end(),
                    [&](const OptionSpec& o) { return o.group == group.name; }))
      out += fmt::format("\nOptions of {}: see 'tscompile help {}'.\n", group.name, group.name);
}

std::string limitsHelp() {
  std::string out = "Bounds on what inputs may ask for. Each is changed by --limit KEY=VALUE.\n\n";
  for (const LimitName& limit : kLimitNames)
    entry(limit.name, std::string(limit.what) + " (" + std::to_string(Limits().*limit.field) + ")", out);
  return out + "\nTensors have at most " + std::to_string(kMaxRank) + " dimensions and " +
         std::to_string(kMaxElements) +
         " elements; these bounds are fixed.\nMemory and time of a run are bounded by --limit-mem and --limit-time.\n";
}

}  // namespace

std::string generalHelp() {
  std::string out =
      "Usage: tscompile COMMAND [options] ...\n"
      "       tscompile FILE          the same as 'tscompile inspect FILE'\n\n"
      "Reads the graph text that PyTorch prints for TorchScript models and runs it on the CPU.\n\nCommands:\n";
  for (const VerbSpec& verb : verbSpecs()) entry(std::string(verb.name), verb.summary, out);
  options("Options of every command", commonOptionSpecs(), out);
  return out +
         "\nExit codes: 0 done, 1 a negative result, 2 the command line is at fault, 3 an input was\n"
         "rejected, 4 not supported, 5 input or output failed, 6 a limit was hit, 7 an engine file of\n"
         "another version or for another processor, 8 the model failed, 70 internal error, 130 and 143\n"
         "interrupted.\n";
}

std::string verbHelp(const VerbSpec& verb) {
  std::string out = "Usage: tscompile " + std::string(verb.name) + " [options]";
  if (!verb.argument.empty()) {
    std::string argument(verb.argument);
    if (verb.argumentRepeats) argument += "...";
    out += verb.argumentRequired ? " " + argument : " [" + argument + "]";
  }
  std::string summary(verb.summary);
  summary[0] = static_cast<char>(summary[0] - 'a' + 'A');
  out += "\n\n" + summary + ".\n";
  if (!verb.argument.empty()) {
    out += "\nArguments:\n";
    entry(std::string(verb.argument), verb.argumentHelp, out);
  }
  options("Options", verb.options, out);
  groupHints(verb, out);
  options("Options of every command", commonOptionSpecsOf(verb), out);
  if (!verb.details.empty()) out += "\n" + std::string(verb.details);
  return out;
}

static int runHelp(const Options& options, Session& session) {
  const std::string topic = options.arguments.empty() ? "" : options.arguments[0];
  if (topic.empty()) {
    session.out << generalHelp();
  } else if (topic == "limits") {
    session.out << limitsHelp();
  } else if (auto group =
                 std::find_if(std::begin(kGroups), std::end(kGroups), [&](const Topic& t) { return t.name == topic; });
             group != std::end(kGroups)) {
    session.out << groupHelp(*group);
  } else if (const VerbSpec* verb = findVerb(topic)) {
    session.out << verbHelp(*verb);
  } else {
    UsageError error{"there is no help on '" + abbreviate(topic, 80) + "'"};
    NearestName nearest(topic);
    nearest.consider("limits");
    for (const Topic& group : kGroups) nearest.consider(group.name);
    for (const VerbSpec& v : verbSpecs()) nearest.consider(v.name);
    if (nearest.found()) error.notes.push_back("did you mean '" + nearest.name() + "'?");
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
