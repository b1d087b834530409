// Reads command lines with CLI11, from the tables of the commands.
#include "tools/options/options.h"

#include "api/compile_settings.h"
#include "frontend/files/file_io.h"
#include "ir/support/text.h"
#include "tools/options/defaults_file.h"
#include "tools/options/variables.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace tscompile {
namespace {

std::string longName(const OptionSpec& option) { return namesOf(option).back(); }

void checkChoice(const OptionSpec& option, const std::string& value) {
  std::vector<std::string_view> choices = choicesOf(option);
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) return;
  if (longName(option) == "--precision" && precisionFromName(value)) return;
  std::string list;
  for (size_t i = 0; i < choices.size(); ++i)
    list += (i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") + std::string(choices[i]);
  NearestName nearest(value);
  for (std::string_view choice : choices) nearest.consider(choice);
  UsageError error{longName(option) + " takes " + list + ", not '" + abbreviate(value, 80) + "'"};
  if (nearest.found()) error.notes.push_back("did you mean '" + nearest.name() + "'?");
  throw error;
}

// Options and what CLI11 has of them.
using Registered = std::vector<std::pair<const OptionSpec*, CLI::Option*>>;

void setAll(const OptionSpec& spec, const std::vector<std::string>& values, Options& options) {
  if (values.size() > 1 && !spec.repeats) throw UsageError{longName(spec) + " was given twice"};
  try {
    for (const std::string& value : values) {
      checkChoice(spec, value);
      spec.set(options, value);
    }
  } catch (UsageError& e) {
    const std::string variable = variableOf(spec);
    const char* said = variable.empty() ? nullptr : std::getenv(variable.c_str());
    if (said && values.size() == 1 && values[0] == said) e.notes.push_back("the variable " + variable + " says so");
    throw;
  }
}

// CLI11 would name the option alone.
void checkVariableOfFlag(const OptionSpec& spec) {
  const std::string variable = variableOf(spec);
  const char* said = variable.empty() ? nullptr : std::getenv(variable.c_str());
  if (!said || !*said) return;
  try {
    CLI::detail::to_flag_value(said);
  } catch (const std::exception&) {
    throw UsageError{"the variable " + variable + " takes true or false, not '" + abbreviate(said, 80) + "'"};
  }
}

// Of an option whose value may be left out: true, false or a value.
void setByVariable(const OptionSpec& spec, Options& options) {
  const std::string variable = variableOf(spec);
  const char* said = variable.empty() ? nullptr : std::getenv(variable.c_str());
  const std::string text = said ? said : "";
  if (text.empty() || text == "false" || text == "off") return;
  const std::string value = text == "true" || text == "on" ? "" : text;
  options.said.push_back({longName(spec), {value}});
  setAll(spec, {value}, options);
}

CLI::Option* addOption(CLI::App& app, const OptionSpec& spec, Options& options) {
  // Those whose value may be left out are flags to CLI11, and are read when it is done.
  if (spec.valueOptional) return app.add_flag(std::string(spec.names));
  if (spec.value.empty()) {
    checkVariableOfFlag(spec);
    return app.add_flag_callback(std::string(spec.names), [&spec, &options] { spec.set(options, ""); })
        ->envname(variableOf(spec))
        ->disable_flag_override();
  }
  auto set = [&spec, &options](const std::vector<std::string>& values) { setAll(spec, values, options); };
  return app.add_option_function<std::vector<std::string>>(std::string(spec.names), set)
      ->type_size(1)
      ->expected(1)
      ->envname(variableOf(spec))
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void addOptions(CLI::App& app, std::span<const OptionSpec> specs, Options& options, Registered& all) {
  for (const OptionSpec& spec : specs) all.emplace_back(&spec, addOption(app, spec, options));
}

// What was given: flags, and options whose value may be left out, have "" for their mere name.
std::vector<std::string> givenValues(const OptionSpec& spec, const CLI::Option& option) {
  std::vector<std::string> out = option.results();
  if (spec.value.empty() || spec.valueOptional)
    std::replace(out.begin(), out.end(), std::string("true"), std::string());
  return out;
}

// What the file of defaults says of options that were not given.
void setDefaults(const VerbSpec& verb, const Registered& all, Options& options) {
  if (options.defaultsFile.empty()) return;
  const DefaultsFile file(options.defaultsFile);
  for (const auto& [spec, option] : all) {
    const DefaultsFile::Entry* entry = option->count() ? nullptr : file.find(verb, *spec);
    if (!entry || entry->values.empty()) continue;
    try {
      setAll(*spec, entry->values, options);
    } catch (UsageError& e) {
      e.range = entry->place;
      e.source = file.source();
      throw;
    }
    options.said.push_back({longName(*spec), entry->values});
  }
}

std::string helpHint(const VerbSpec& verb) { return "see 'tscompile help " + std::string(verb.name) + "'"; }

// What options of other tools are called here.
using Words = std::pair<std::string_view, std::string_view>;
constexpr Words kWordsOfOthers[] = {{"--time", "--duration"},
                                    {"--seconds", "--duration"},
                                    {"--iterations", "--duration"},
                                    {"--iters", "--duration"},
                                    {"--runs", "--duration"},
                                    {"--repeat", "--duration"},
                                    {"--size", "--shape"},
                                    {"--input-shape", "--shape"},
                                    {"--batch-size", "--sizes"},
                                    {"--dtype", "--precision"},
                                    {"--fp16", "--precision f16"},
                                    {"--half", "--precision f16"},
                                    {"--bf16", "--precision bf16"},
                                    {"--int8", "--precision int8"},
                                    {"--quantize", "--precision int8"},
                                    {"--quantise", "--precision int8"},
                                    {"--quantization", "--precision int8"},
                                    {"--quantized", "--precision int8"},
                                    {"--out", "--output"},
                                    {"--compare", "--expect"},
                                    {"--reference", "--expect"},
                                    {"--num-threads", "--threads"},
                                    {"--checkpoint", "--weights"},
                                    {"--state-dict", "--weights"},
                                    {"--params", "--weights"},
                                    {"--json", "--format json"},
                                    {"--timeout", "--limit-time"},
                                    {"--memory", "--limit-mem"},
                                    {"--memory-limit", "--limit-mem"}};

std::string_view firstWord(std::string_view text) { return text.substr(0, text.find(' ')); }

// What the option of another tool is called here; empty: it is none that is known.
std::string_view wordHere(std::string_view name) {
  for (const auto& [there, here] : kWordsOfOthers)
    if (there == name) return here;
  return {};
}

std::vector<std::string> sortedWords(std::string_view name) {
  std::vector<std::string> words;
  while (!name.empty()) {
    const size_t end = std::min(name.find('-'), name.size());
    if (end > 0) words.emplace_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  std::ranges::sort(words);
  return words;
}

// What is meant by it, where the command has such an option.
std::string optionMeantBy(std::string_view name, const VerbSpec& verb) {
  const std::span<const OptionSpec> all[] = {verb.options, commonOptionSpecs()};
  const std::string_view here = wordHere(name);
  for (std::span<const OptionSpec> specs : all)
    for (const OptionSpec& spec : specs)
      if (longName(spec) == firstWord(here)) return std::string(here);
  // "--time-limit" for --limit-time.
  for (std::span<const OptionSpec> specs : all)
    for (const OptionSpec& spec : specs)
      for (const std::string& known : namesOf(spec))
        if (sortedWords(known) == sortedWords(name)) return known;
  // "--temp" for --temperature, if one alone begins so.
  std::string whole;
  for (std::span<const OptionSpec> specs : all)
    for (const OptionSpec& spec : specs)
      for (const std::string& known : namesOf(spec))
        if (name.size() >= 5 && known.starts_with(name) && whole != known) whole = whole.empty() ? known : "-";
  return whole == "-" ? "" : whole;
}

// The commands that have an option of this name.
std::vector<std::string_view> commandsWith(std::string_view name) {
  std::vector<std::string_view> commands;
  for (const VerbSpec& verb : verbSpecs())
    for (const OptionSpec& spec : verb.options)
      for (const std::string& known : namesOf(spec))
        if (known == name) commands.push_back(verb.name);
  return commands;
}

bool isOption(const std::string& word, const VerbSpec& verb) {
  for (std::span<const OptionSpec> specs : {std::span<const OptionSpec>(verb.options), commonOptionSpecs()})
    for (const OptionSpec& o : specs)
      if (std::ranges::count(namesOf(o), word) > 0) return true;
  return word == "--help" || word == "--version";
}

// "it is an option of verify and compile": of the option, or of what another tool's is called here. Empty: of none.
std::string whereItIs(std::string_view name, const VerbSpec& verb) {
  const std::string_view here = wordHere(name);
  const std::vector<std::string_view> commands = commandsWith(here.empty() ? name : firstWord(here));
  // Short names mean something else in many commands.
  constexpr size_t kFew = 2;
  if (commands.empty() || (!name.starts_with("--") && commands.size() > kFew)) return "";
  std::string out = (here.empty() ? "it" : "'" + std::string(here) + "'") + " is an option of ";
  for (size_t i = 0; i < commands.size(); ++i)
    out += (i == 0 ? "" : i + 1 < commands.size() ? ", " : " and ") + std::string(commands[i]);
  const bool isOfEngines = commands.size() <= kFew && std::ranges::count(commands, "compile") > 0;
  const bool makesNone = isOption("--input", verb) && !isOption("--precision", verb);
  return isOfEngines && makesNone ? out + ", and " + std::string(verb.name) + " takes the file that compile writes"
                                  : out;
}

[[noreturn]] void unknownOption(const std::string& given, const VerbSpec& verb) {
  std::string name = given.substr(0, given.find('='));
  if (name.size() < 2) name = given;
  NearestName nearest(name);
  for (std::span<const OptionSpec> specs : {std::span<const OptionSpec>(verb.options), commonOptionSpecs()})
    for (const OptionSpec& spec : specs)
      for (const std::string& known : namesOf(spec))
        if (known.size() > 2) nearest.consider(known);
  if (std::string_view reason = reasonWithoutOption(name); !reason.empty())
    throw UsageError{"there is no option '" + name + "': " + std::string(reason), {helpHint(verb)}};
  // "-o" for the first one of its own that begins so.
  std::string meant = optionMeantBy(name, verb);
  const std::string where = meant.empty() ? whereItIs(name, verb) : "";
  if (meant.empty() && nearest.found() && (where.empty() || wordHere(name).empty())) meant = nearest.name();
  if (meant.empty() && name.size() == 2 && name[0] == '-')
    for (const OptionSpec& spec : verb.options)
      if (meant.empty() && longName(spec).starts_with("-" + name)) meant = longName(spec);
  UsageError error{"unknown option '" + abbreviate(name, 80) + "' of " + std::string(verb.name)};
  if (!meant.empty()) error.notes.push_back("did you mean '" + meant + "'?");
  if (!where.empty() && (meant.empty() || name.size() == 2)) error.notes.push_back(where);
  error.notes.push_back(helpHint(verb));
  throw error;
}

// Words of a response file: between blanks or line ends, with quotes of both kinds and backslashes; # begins a comment.
std::vector<std::string> wordsOf(const SourcePtr& file) {
  const std::string_view text = file->text();
  std::vector<std::string> out;
  std::string word;
  bool inWord = false;
  char quote = 0;
  size_t quoteAt = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote) {
      if (c == quote)
        quote = 0;
      else if (c == '\\' && quote == '"' && i + 1 < text.size())
        word += text[++i];
      else
        word += c;
    } else if (c == '"' || c == '\'') {
      quote = c, inWord = true, quoteAt = i;
    } else if (c == '#' && !inWord) {
      while (i < text.size() && text[i] != '\n') ++i;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      if (inWord) out.push_back(std::exchange(word, ""));
      inWord = false;
    } else {
      word += c == '\\' && i + 1 < text.size() ? text[++i] : c;
      inWord = true;
    }
  }
  if (quote) {
    UsageError error{"the quotation is not closed"};
    const auto at = static_cast<uint32_t>(quoteAt);
    error.range = SourceRange{file.get(), at, at + 1};
    error.source = file;
    throw error;
  }
  if (inWord) out.push_back(std::move(word));
  return out;
}

// Whether the word takes the next one as its value.
bool takesValue(const std::string& word, const VerbSpec& verb) {
  for (std::span<const OptionSpec> specs : {std::span<const OptionSpec>(verb.options), commonOptionSpecs()})
    for (const OptionSpec& o : specs)
      for (const std::string& name : namesOf(o))
        if (name == word) return !o.value.empty() && !o.valueOptional;
  return false;
}

std::vector<std::string> wordsOfFile(const std::string& path, const VerbSpec& verb) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  Diagnostics diagnostics;
  Result<std::string> text = readFile(path, kMostBytes, diagnostics);
  constexpr std::string_view kValues[] = {".npy", ".npz", ".safetensors", ".pt", ".pth"};
  const bool isValue = std::ranges::any_of(kValues, [&](std::string_view end) { return path.ends_with(end); });
  if (isValue || (text && text->find('\0') != std::string::npos)) {
    UsageError error{"'@" + abbreviate(path, 80) +
                     "' stands for the words of a file of options, and this file is none"};
    if (isOption("--input", verb)) error.notes.push_back("a value is given with --input NAME=@" + abbreviate(path, 80));
    throw error;
  }
  if (text) return wordsOf(SourceFile::make(path, std::move(*text)));
  throw UsageError{"the options in " + abbreviate(path, 200) +
                   " cannot be read: " + (diagnostics.list().empty() ? "" : diagnostics.list().front().message)};
}

bool namesFile(const std::string& word) { return word.size() > 1 && word[0] == '@'; }

void checkNamesNoFiles(std::span<const std::string> words, const VerbSpec& verb, const std::string& file) {
  bool isValue = false;
  for (const std::string& word : words) {
    if (namesFile(word) && !isValue)
      throw UsageError{"the words of " + abbreviate(file, 200) + " name '" + abbreviate(word, 80) +
                       "': a file of options may not name another one"};
    isValue = !isValue && takesValue(word, verb);
  }
}

// @FILE in place of an argument stands for the words of the file, which may not name files so.
std::vector<std::string> withFiles(const VerbSpec& verb, std::span<const std::string> args) {
  std::vector<std::string> out;
  bool isValue = false, ended = false;
  for (const std::string& arg : args) {
    ended |= arg == "--" && !isValue;
    if (!namesFile(arg) || isValue || ended) {
      isValue = !isValue && takesValue(arg, verb);
      out.push_back(arg);
      continue;
    }
    // Its value was meant.
    if (!out.empty() && out.back().starts_with("--") && out.back().find('=') == std::string::npos &&
        !isOption(out.back(), verb))
      unknownOption(out.back(), verb);
    std::vector<std::string> words = wordsOfFile(arg.substr(1), verb);
    checkNamesNoFiles(words, verb, arg);
    out.insert(out.end(), words.begin(), words.end());
  }
  return out;
}

void parseWith(CLI::App& app, const std::vector<std::string>& args, const VerbSpec& verb) {
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ArgumentMismatch& e) {
    std::string what = e.what();
    bool isFlag = what.find("flag override") != std::string::npos;
    std::string name = what.substr(0, what.find_first_of(isFlag ? " " : ":"));
    throw UsageError{isFlag ? "--" + name + " takes no value" : name + " needs a value", {helpHint(verb)}};
  } catch (const CLI::ParseError& e) {
    throw UsageError{e.what(), {helpHint(verb)}};
  }
  // The mark that ends the options stays behind.
  for (const std::string& rest : app.remaining())
    if (rest != "--") unknownOption(rest, verb);
}

void checkArguments(const VerbSpec& verb, const Options& options) {
  if (verb.argumentRequired && options.arguments.empty() && !options.printDefaults) {
    const std::string argument(verb.argument);
    throw UsageError{std::string(verb.name) + " needs " + argument,
                     {argument + " is " + std::string(verb.argumentHelp), helpHint(verb)}};
  }
  size_t most = verb.argumentRepeats ? SIZE_MAX : verb.argument.empty() ? 0 : 1;
  if (options.arguments.size() <= most) return;
  const std::string& word = options.arguments[most];
  UsageError error{"unexpected argument '" + abbreviate(word, 80) + "'"};
  std::error_code ignored;
  for (const OptionSpec& spec : verb.options) {
    const std::string name = longName(spec);
    const bool isFile = name == "--input" && std::filesystem::is_regular_file(word, ignored);
    if (isFile || name == "--prompt" || name == "--text")
      error.notes.push_back("did you mean '" + name + (isFile ? " 0=@" : " ") +
                            (word.find(' ') == std::string::npos ? word : jsonQuote(abbreviate(word, 80))) + "'?");
  }
  error.notes.push_back(helpHint(verb));
  throw error;
}

void readVerb(const VerbSpec& verb, std::span<const std::string> given, Options& options) {
  const std::vector<std::string> args = withFiles(verb, given);
  if (verb.defaults) verb.defaults(options);
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  Registered all;
  std::vector<OptionSpec> common = commonOptionSpecsOf(verb);
  addOptions(app, verb.options, options, all);
  addOptions(app, common, options, all);
  app.add_option("arguments", options.arguments)->type_size(1)->expected(0, CLI::detail::expected_max_vector_size);
  parseWith(app, args, verb);
  for (const auto& [spec, option] : all) {
    if (option->count() == 0) {
      if (spec->valueOptional) setByVariable(*spec, options);
      continue;
    }
    options.said.push_back({longName(*spec), givenValues(*spec, *option)});
    if (spec->valueOptional)
      for (const std::string& value : options.said.back().values) spec->set(options, value);
  }
  if (options.help) return;
  setDefaults(verb, all, options);
  checkArguments(verb, options);
}

// Whether the first word of a command line means a file: `tscompile model.ir`.
bool looksLikeFile(const std::string& word) {
  std::error_code ignored;
  return word == "-" || word.find_first_of("./") != std::string::npos || std::filesystem::exists(word, ignored);
}

// "rn" for "run", "comp" for "compile": the same letters in the same order, from the first one on.
bool isShortFor(std::string_view word, std::string_view name) {
  if (word.size() < 2 || word[0] != name[0]) return false;
  size_t at = 0;
  for (char c : name) at += at < word.size() && word[at] == c;
  return at == word.size();
}

// What commands of other tools are called here.
std::string_view commandFor(std::string_view word) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"import", "convert"},     {"export", "convert"},     {"save", "compile"},
      {"check", "lint"},         {"validate", "lint"},      {"print", "parse"},
      {"show", "inspect"},       {"info", "inspect"},       {"checksum", "inspect"},
      {"summary", "inspect"},    {"viz", "report"},         {"view", "report"},
      {"dot", "parse --as dot"}, {"svg", "parse --as svg"}, {"exec", "run"},
      {"infer", "run"},          {"predict", "run"},        {"perf", "bench"},
      {"time", "bench"},         {"benchmark", "bench"},    {"trace", "profile --trace"},
      {"compare", "verify"},     {"env", "version"},        {"optimize", "lower"},
      {"opt", "lower"},          {"simplify", "lower"},     {"segments", "partition"},
      {"why", "explain"},        {"operators", "ops"},      {"serve", "generate"},
      {"list", "help"},          {"test", "verify"}};
  for (const auto& [there, here] : kWords)
    if (there == word) return here;
  return {};
}

}  // namespace

Options readCommandLine(std::span<const std::string> args) {
  Options options;
  const std::string first = args.empty() ? "" : args[0];
  std::error_code ignored;
  if (namesFile(first) && !std::filesystem::exists(first, ignored)) {
    std::vector<std::string> words = wordsOfFile(first.substr(1), *findVerb("run"));
    if (const VerbSpec* verb = words.empty() ? nullptr : findVerb(words[0]))
      checkNamesNoFiles(std::span(words).subspan(1), *verb, first);
    words.insert(words.end(), args.begin() + 1, args.end());
    if (words.empty() || !namesFile(words[0])) return readCommandLine(words);
  }
  if (first.empty())
    throw UsageError{"expected a command",
                     {"'tscompile inspect FILE' tells what a file is and what a model takes",
                      "'tscompile run model.pt --input 0=@x.npy' runs a model", "'tscompile help' lists the commands"}};
  if (first == "-h" || first == "--help") {
    options.verb = findVerb("help");
    return options;
  }
  if (first == "-V" || first == "--version") {
    options.verb = findVerb("version");
    return options;
  }
  options.verb = findVerb(first);
  if (options.verb) {
    readVerb(*options.verb, args.subspan(1), options);
    return options;
  }
  if (first.size() > 1 && first[0] == '-')
    throw UsageError{"expected a command before '" + abbreviate(first, 80) + "'",
                     {first == "-v" ? "'tscompile version' tells the version" : "see 'tscompile help'"}};
  if (looksLikeFile(first)) {
    options.verb = findVerb("inspect");
    try {
      readVerb(*options.verb, args, options);
    } catch (UsageError& e) {
      e.notes.insert(e.notes.begin(), "a file without a command is inspected: 'tscompile run FILE' runs a model");
      throw;
    }
    return options;
  }
  UsageError error{"unknown command '" + abbreviate(first, 80) + "'"};
  NearestName nearest(first);
  for (const VerbSpec& verb : verbSpecs()) nearest.consider(verb.name);
  std::string meant(commandFor(first));
  if (meant.empty() && nearest.found()) meant = nearest.name();
  for (const VerbSpec& verb : verbSpecs())
    if (meant.empty() && isShortFor(first, verb.name)) meant = verb.name;
  if (!meant.empty()) error.notes.push_back("did you mean '" + meant + "'?");
  error.notes.push_back("see 'tscompile help'");
  throw error;
}

}  // namespace tscompile
