// `tscompile completion`: scripts for shells, made from the option tables.
#include "ir/support/text.h"
#include "passes/catalog.h"
#include "tools/commands/commands.h"
#include "tools/commands/schema_names.h"
#include "tools/options/option_parts.h"

#include <algorithm>
#include <initializer_list>
#include <set>

namespace tscompile {
namespace {

bool isOneOf(std::string_view value, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), value) != names.end();
}
bool takesFile(std::string_view value) { return isOneOf(value, {"FILE", "GRAPH", "LIB", "PATH", "MODEL"}); }
bool takesFolder(std::string_view value) { return isOneOf(value, {"DIR", "FOLDER"}); }
bool argumentIsPath(const VerbSpec& verb) { return takesFile(verb.argument) || takesFolder(verb.argument); }

// Options of a verb, its own first.
std::vector<const OptionSpec*> optionsOf(const VerbSpec& verb) {
  std::vector<const OptionSpec*> out;
  for (const OptionSpec& o : verb.options) out.push_back(&o);
  for (const OptionSpec& o : commonOptionSpecs())
    if (std::none_of(verb.options.begin(), verb.options.end(), [&](const OptionSpec& v) { return v.names == o.names; }))
      out.push_back(&o);
  return out;
}

// What the argument of a verb may be, besides files.
std::vector<std::string> argumentWords(const VerbSpec& verb) {
  if (verb.name == "completion") return {"bash", "zsh", "fish"};
  if (verb.name == "plugins") return {"list", "show", "check"};
  if (verb.name == "schema") return schemaNames();
  if (verb.name != "help") return {};
  std::vector<std::string> out{"limits", "cutting"};
  for (const VerbSpec& v : verbSpecs()) out.emplace_back(v.name);
  return out;
}

// Names of the entries that lowering goes through.
std::vector<std::string> entryNames() {
  std::set<std::string> out;
  for (const RewriteDatabase::Entry& entry : loweringDatabase().allEntries()) out.insert(entry.name);
  return {out.begin(), out.end()};
}

// What the value of an option may be, besides files.
std::vector<std::string> valueWords(const OptionSpec& option) {
  const std::string name = namesOf(option).back();
  std::vector<std::string> out;
  if (name == "--limit")
    for (const LimitName& limit : kLimitNames) out.push_back(std::string(limit.name) + "=");
  else if (name == "--passes" || name == "--print-after" || name == "--trace-ignore")
    out = entryNames();
  else
    for (std::string_view choice : choicesOf(option)) out.emplace_back(choice);
  return out;
}

std::string spaced(const std::vector<std::string>& words) {
  return join(words, " ", [](const std::string& w) { return w; });
}

std::string verbNames() {
  return join(verbSpecs(), " ", [](const VerbSpec& v) { return std::string(v.name); });
}

// In single quotes for any shell.
std::string shellQuoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Names of files may have blanks: one a line, and as they are, not as they were typed.
constexpr std::string_view kBashStart =
    R"(# bash completion of tscompile; load it with: source <(tscompile completion bash)
_tscompile_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$word"); }
_tscompile_files() { mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word"); }
_tscompile_folders() { mapfile -t COMPREPLY < <(compgen -d -- "$word"); }
_tscompile() {
  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"
  # The shell takes --name=value apart.
  if [[ $word == "=" ]]; then word="" before="${COMP_WORDS[COMP_CWORD-1]}"
  elif [[ $before == "=" ]]; then before="${COMP_WORDS[COMP_CWORD-2]}"; fi
  word="${word//\\/}"
  word="${word#[\"\']}"
  COMPREPLY=()
  if [[ $word == @* ]]; then
    mapfile -t COMPREPLY < <(compgen -P @ -f -- "${word#@}")
    return
  fi
)";

std::string bashOption(const VerbSpec& verb, const OptionSpec& option) {
  std::string names =
      join(namesOf(option), "|", [&](const std::string& n) { return "\"" + std::string(verb.name) + " " + n + "\""; });
  std::string action;
  if (std::vector<std::string> words = valueWords(option); !words.empty())
    action = "_tscompile_words \"" + spaced(words) + "\"; return";
  else if (takesFolder(option.value))
    action = "_tscompile_folders; return";
  else if (takesFile(option.value))
    action = "_tscompile_files; return";
  else
    action = "return";
  return "    " + names + ") " + action + " ;;\n";
}

std::string bash() {
  std::string out(kBashStart);
  out += "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    _tscompile_words \"" + verbNames() +
         "\"\n    _tscompile_files\n    return\n  fi\n  case \"${COMP_WORDS[1]} $before\" in\n";
  for (const VerbSpec& verb : verbSpecs())
    for (const OptionSpec* o : optionsOf(verb))
      if (!o->value.empty() && !o->valueOptional) out += bashOption(verb, *o);
  out += "  esac\n  case \"${COMP_WORDS[1]}\" in\n";
  for (const VerbSpec& verb : verbSpecs()) {
    std::vector<std::string> names;
    for (const OptionSpec* o : optionsOf(verb))
      for (const std::string& n : namesOf(*o)) names.push_back(n);
    out += "    " + std::string(verb.name) + ") if [[ $word == -* ]]; then _tscompile_words \"" + spaced(names) +
           "\"; else _tscompile_words \"" + spaced(argumentWords(verb)) + "\"";
    if (argumentIsPath(verb)) out += "; _tscompile_files";
    out += "; fi ;;\n";
  }
  return out + "    *) _tscompile_files ;;\n  esac\n}\ncomplete -o filenames -F _tscompile tscompile\n";
}

// "--name[help]:value:action" of zsh's _arguments.
std::string zshOption(const OptionSpec& o) {
  std::string help;
  for (char c : o.help) help += c == '[' || c == ']' || c == ':' ? std::string("\\") + c : std::string(1, c);
  std::string action;
  if (!o.value.empty() && !o.valueOptional) {
    const std::vector<std::string> words = valueWords(o);
    action = words.empty() ? ":" + std::string(o.value) + ":" : ":value:";
    if (!words.empty())
      action += "(" + spaced(words) + ")";
    else if (takesFolder(o.value))
      action += "_files -/";
    else if (takesFile(o.value))
      action += "_files";
  }
  std::string out;
  for (const std::string& name : namesOf(o))
    out += " \\\n        " + shellQuoted((o.repeats ? "*" : "") + name +
                                         (name[1] == '-' && !action.empty() ? "=" : "") + "[" + help + "]" + action);
  return out;
}

std::string zsh() {
  std::string out =
      "#compdef tscompile\n# zsh completion of tscompile; save it as _tscompile in a folder of $fpath\n"
      "_tscompile() {\n  local -a verbs\n  verbs=(\n";
  for (const VerbSpec& verb : verbSpecs())
    out += "    " + shellQuoted(std::string(verb.name) + ":" + std::string(verb.summary)) + "\n";
  out +=
      "  )\n  if (( CURRENT == 2 )); then\n    _describe command verbs\n    _files\n    return\n  fi\n  case $words[2] "
      "in\n";
  for (const VerbSpec& verb : verbSpecs()) {
    out += "    " + std::string(verb.name) + ")\n      shift words; (( CURRENT-- ))\n      _arguments";
    for (const OptionSpec* o : optionsOf(verb)) out += zshOption(*o);
    std::vector<std::string> words = argumentWords(verb);
    if (!words.empty())
      out += " \\\n        " + shellQuoted("1:" + std::string(verb.argument) + ":(" + spaced(words) + ")");
    else if (argumentIsPath(verb))
      out += " \\\n        " + shellQuoted("*:" + std::string(verb.argument) + ":_files");
    out += " ;;\n";
  }
  return out + "    *) _files ;;\n  esac\n}\n_tscompile \"$@\"\n";
}

std::string fish() {
  std::string out = "# fish completion of tscompile; save it as ~/.config/fish/completions/tscompile.fish\n";
  for (const VerbSpec& verb : verbSpecs())
    out += "complete -c tscompile -n __fish_use_subcommand -a " + std::string(verb.name) + " -d " +
           shellQuoted(verb.summary) + "\n";
  for (const VerbSpec& verb : verbSpecs()) {
    std::string lead = "complete -c tscompile -n '__fish_seen_subcommand_from " + std::string(verb.name) + "'";
    if (std::vector<std::string> words = argumentWords(verb); !words.empty())
      out += lead + " -f -a " + shellQuoted(spaced(words)) + "\n";
    for (const OptionSpec* o : optionsOf(verb)) {
      out += lead;
      for (const std::string& name : namesOf(*o))
        out += name[1] == '-' ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (std::vector<std::string> words = o->valueOptional ? std::vector<std::string>() : valueWords(*o);
          !words.empty())
        out += " -x -a " + shellQuoted(spaced(words));
      else if (takesFolder(o->value) || takesFile(o->value))
        out += " -r -F";
      else if (!o->value.empty() && !o->valueOptional)
        out += " -x";
      out += " -d " + shellQuoted(o->help) + "\n";
    }
  }
  return out;
}

}  // namespace

static int runCompletion(const Options& options, Session& session) {
  const std::string& shell = options.arguments[0];
  if (shell == "bash")
    session.out << bash();
  else if (shell == "zsh")
    session.out << zsh();
  else if (shell == "fish")
    session.out << fish();
  else
    throw UsageError{"completion takes bash, zsh or fish, not '" + abbreviate(shell, 80) + "'"};
  return kExitDone;
}

VerbSpec completionCommand() {
  return {.name = "completion",
          .summary = "print a completion script for a shell",
          .argument = "SHELL",
          .argumentHelp = "bash, zsh or fish",
          .argumentRequired = true,
          .details =
              "Examples:\n  source <(tscompile completion bash)\n"
              "  tscompile completion fish > ~/.config/fish/completions/tscompile.fish\n",
          .command = runCompletion};
}

}  // namespace tscompile
