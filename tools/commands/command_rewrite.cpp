// `tscompile rewrite`: applies a user's own rules. `tscompile passes`: lists what lowering consists of.
#include "api/lower.h"
#include "api/model_file.h"
#include "frontend/files/file_io.h"
#include "ir/graph/printer.h"
#include "ir/graph/text_graphs.h"
#include "ir/support/json_fields.h"
#include "ir/support/text.h"
#include "runtime/interpreter/evaluator.h"
#include "tools/commands/rewriting.h"
#include "tools/options/option_parts.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

Query everything(const RewriteDatabase& database) {
  Query::Tags names;
  for (const RewriteDatabase::Entry& e : database.allEntries()) names.insert(e.name);
  return Query().including(names);
}

// Module and graphs; false if they are longer than may be printed.
bool printAll(const ParsedText& text, const TextSink& sink, const Session& session) {
  PrintOptions printing;
  printing.maxBytes = session.common.limits.printBytes;
  if (text.module && !printDump(*text.module, sink, printing)) return false;
  for (size_t i = 0; i < text.graphs.size(); ++i) {
    if (i || text.module) sink("\n");
    if (!printGraph(*text.graphs[i], sink, printing)) return false;
  }
  return true;
}

// To a file or to standard output.
void writeText(const ParsedText& text, const std::string& path, Session& session) {
  std::optional<FileWriter> file;
  if (!path.empty() && path != "-") file.emplace(path, session.diagnostics);
  TextSink sink = [&](std::string_view piece) {
    if (file)
      file->write(piece);
    else
      session.out << piece;
  };
  if (!printAll(text, sink, session)) return session.failAtPrintLimit();
  if (file) file->commit();
}

// Why the rule does not apply to the graphs, one line for each reason: a module has a graph for each method.
void explain(const RewritingSetup& setup, const std::string& rule, const ParsedText& text, Session& session) {
  const auto& rewrite = std::get<NodeRewrite>(setup.entryOf(rule, loweringDatabase()).object);
  std::vector<std::pair<std::string, size_t>> reasons;
  const auto graphs = topGraphs(text);
  for (const Graph* g : graphs) {
    RewriteContext context(const_cast<Graph&>(*g), session.operators(), session.diagnostics);
    std::string why = whyNot(rewrite, context);
    if (why.empty()) why = "it matches";
    auto told = std::ranges::find(reasons, why, &std::pair<std::string, size_t>::first);
    if (told == reasons.end())
      reasons.emplace_back(std::move(why), 1);
    else
      ++told->second;
  }
  for (const auto& [why, count] : reasons)
    session.out << rule << ": " << why
                << (graphs.size() == 1 ? "" : fmt::format(", in {} of {} graphs", count, graphs.size())) << '\n';
}

// A graph with its weights, as a module: what became of it; nothing after a report.
std::optional<Module> rewriteModule(const Options& command, const RewritingSetup& setup, size_t& applied,
                                    Session& session) {
  Result<Module> module = session.loadModule(command.arguments[0], command.partition.weights);
  if (!module) return std::nullopt;
  LowerOptions options;
  options.database = &setup.database;
  options.query = setup.query;
  options.settings = setup.settings;
  options.settings.applied = [&applied, tell = setup.settings.applied](const std::string& name) {
    ++applied;
    if (tell) tell(name);
  };
  options.limits = session.common.limits;
  options.keepsState = true;
  Result<Module> rewritten = module->lowered(options, session.diagnostics);
  if (!rewritten) return std::nullopt;
  session.noteUnusedWeights(module->unusedWeights());
  return std::move(*rewritten);
}

bool isToFile(const std::string& output) { return !output.empty() && output != "-"; }

// Tells what was done to `text`, and writes it where nobody has.
int tellRewritten(const ParsedText& text, size_t applied, RewritingSetup& setup, const std::string& output,
                  bool isWritten, Session& session) {
  session.report();
  setup.finish();
  const bool toFile = isToFile(output);
  if (!session.common.json) {
    session.note(fmt::format("{} rewritten{}", applied == 1 ? "1 place was" : std::to_string(applied) + " places were",
                             applied == 0 ? "; --why RULE tells what a rule does not find" : ""));
    if (applied == 0 && text.module)
      session.note(
          "calls of methods are not put in here, and may write what rules would move: 'tscompile lower' puts "
          "them in, and takes --rules");
  }
  if (!isWritten && (toFile || !session.common.json)) writeText(text, output, session);
  auto print = [&](const TextSink& sink) { return printAll(text, sink, session); };
  if (session.common.json) setup.writeApplied(toFile ? std::function<bool(const TextSink&)>() : print);
  return session.finish();
}

// ---- passes ----

using Entries = std::vector<RewriteDatabase::Entry>;

// Those of whose tags or names one is asked for; all if nothing is.
Entries wantedEntries(const std::vector<std::string>& asked) {
  Entries entries = loweringDatabase().allEntries();
  std::erase_if(entries, [&](const RewriteDatabase::Entry& e) {
    return !asked.empty() && std::none_of(asked.begin(), asked.end(), [&](const std::string& a) {
      return e.tags.contains(a) || e.name.find(a) != std::string::npos;
    });
  });
  return entries;
}

std::vector<std::string> tagsOf(const RewriteDatabase::Entry& e) {
  std::vector<std::string> tags;
  for (const std::string& t : e.tags)
    if (t != e.name && t != "lowering") tags.push_back(t);
  return tags;
}

struct EntryFields {
  std::string_view name;
  double position;
  std::vector<std::string> tags;
  std::string_view purpose;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", name);
    visit("position", position);
    visit("tags", tags);
    visit("purpose", purpose);
  }
};

struct PassList {
  std::vector<EntryFields> passes;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.passes/1");
    visit("passes", Lines{passes});
  }
};

void writeEntriesJson(const Entries& entries, std::ostream& out) {
  PassList list;
  for (const auto& e : entries) list.passes.push_back({e.name, e.position, tagsOf(e), e.purpose});
  writeJson(out, list);
}

// One line for each, below the databases that they belong to.
// Entries of a database inside another one stand two columns further in.
std::string indented(const RewriteDatabase::Entry& e) {
  return std::string(e.path.size() > 1 ? 2 * (e.path.size() - 1) : 0, ' ') + e.name;
}

// The databases that an entry is in and the one before it was not.
void writeHeadings(const RewriteDatabase::Entry& e, const std::vector<std::string>& before, std::ostream& out) {
  auto differ = std::mismatch(e.path.begin(), e.path.end(), before.begin(), before.end()).first;
  for (auto level = differ; level != e.path.end(); ++level)
    if (level == e.path.begin())
      out << fmt::format("{:>5}  {}\n", e.position, *level);
    else
      out << fmt::format("{:>{}}{}\n", "", 6 + 2 * (level - e.path.begin()), *level);
}

void writeTable(const Entries& entries, std::ostream& out) {
  size_t width = 0;
  for (const auto& e : loweringDatabase().allEntries()) width = std::max(width, indented(e).size());
  std::vector<std::string> path;
  for (const auto& e : entries) {
    writeHeadings(e, path, out);
    path = e.path;
    std::string position = path.empty() ? fmt::format("{}", e.position) : "";
    std::string tags;
    bool isDefault = false;
    for (const std::string& t : tagsOf(e)) {
      isDefault |= t == "default";
      bool isKnown = t == "default" || std::find(path.begin(), path.end(), t) != path.end();
      if (!isKnown) tags += (tags.empty() ? " [" : ", ") + t;
    }
    out << fmt::format("{:>5} {} {:<{}}  {}{}\n", position, isDefault ? '*' : ' ', indented(e), width, e.purpose,
                       tags.empty() ? "" : tags + "]");
  }
  if (!entries.empty()) out << "* applied without being asked for\n";
}

}  // namespace

static int runRewrite(const Options& options, Session& session) {
  if (options.rewrite.rules.empty() && options.rewrite.why.empty())
    throw UsageError{"rewrite needs --rules FILE", {"see 'tscompile help rewrite'"}};
  std::unique_ptr<RewritingSetup> setup = RewritingSetup::make(
      options.rewrite, RewriteDatabase(RewriteDatabase::Kind::Sequence, "rules"), Query(), session);
  if (!setup) return session.finish();
  if (setup->query.included().empty()) setup->query = everything(setup->database);
  Plan plan = setup->database.query(setup->query);
  if (options.rewrite.plan) {
    session.out << plan.describe();
    return session.finish();
  }
  ParseOptions reading;
  reading.registry = &session.operators();
  Result<ParsedText> text = session.parse(options.arguments[0], reading);
  if (!text) return session.finish();
  if (!options.rewrite.why.empty()) {
    explain(*setup, options.rewrite.why, *text, session);
    return session.finish();
  }
  const bool toFile = isToFile(options.rewrite.output);
  const bool isExport = toFile && modelFileOf(options.arguments[0]) == ModelFile::Export;
  const bool isOneGraph = text->graphs.size() == 1 && !text->module;
  const bool hasWeights = !options.partition.weights.empty();
  if (hasWeights && !isOneGraph)
    throw UsageError{"rewrite takes --weights of a file with one graph",
                     {"'tscompile lower' makes one of a module, and applies rules as well"}};
  size_t applied = 0;
  if (isOneGraph && (isExport || hasWeights)) {
    std::optional<Module> rewritten = rewriteModule(options, *setup, applied, session);
    if (!rewritten) return session.finish();
    if (toFile && !rewritten->write(options.rewrite.output, session.diagnostics, session.common.limits))
      return session.finish();
    return tellRewritten(rewritten->text(), applied, *setup, options.rewrite.output, toFile, session);
  }
  std::unique_ptr<Evaluator> evaluator = makeEvaluator(session.operators());
  for (const Graph* g : topGraphs(*text)) {
    RewriteContext context(const_cast<Graph&>(*g), session.operators(), session.diagnostics);
    context.evaluator = evaluator.get();
    applied += plan.run(context, setup->settings).applied;
  }
  if (session.diagnostics.hasErrors()) return session.finish();
  if (isExport)
    session.note("the weights of these programs stay in " + options.arguments[0] +
                 ", to be given with the text, which is run by its first graph");
  return tellRewritten(*text, applied, *setup, options.rewrite.output, false, session);
}

static int runPasses(const Options& options, Session& session) {
  Entries entries = wantedEntries(options.arguments);
  if (session.common.json) {
    writeEntriesJson(entries, session.out);
    return session.finish();
  }
  if (entries.empty())
    session.note("no step of lowering has such a tag or a name that contains it; 'rewrite --rules' applies your own");
  else
    writeTable(entries, session.out);
  return session.finish(entries.empty() ? kExitNegative : kExitDone);
}

namespace {

constexpr std::string_view kRewriteDetails =
    R"(All rules of the files are applied until nothing changes, unless --rewrite chooses among them.

Example:
  tscompile rewrite model.ir --rules fuse.rules -o fused.ir
)";

OptionSpecs rewriteOptions() {
  return OptionSpecs{
             weightsOption(),
             {"--why", "RULE", "tell why this rule does not apply: where it fits best, and what does not fit there",
              [](Options& o, const std::string& v) { o.rewrite.why = v; }},
             writing(
                 Written::File,
                 {"-o,--output", "FILE",
                  "write there instead of to standard output; of a .pt2, and with --weights, the tensors to FILE with "
                  ".safetensors in place of .ir",
                  [](Options& o, const std::string& v) { o.rewrite.output = v; }}),
         } +
         rewritingOptions();
}

}  // namespace

VerbSpec rewriteCommand() {
  return {.name = "rewrite",
          .summary = "apply rules of your own to a graph",
          .argument = "FILE",
          .argumentHelp = "a model: .pt, .pt2, graph text, a module dump; -: text from standard input",
          .argumentRequired = true,
          .details = kRewriteDetails,
          .options = rewriteOptions(),
          .command = runRewrite};
}

VerbSpec passesCommand() {
  return {.name = "passes",
          .summary = "list the steps of lowering with their positions and tags",
          .argument = "NAME",
          .argumentHelp = "show entries that have this tag, or whose name contains this",
          .argumentRepeats = true,
          .command = runPasses};
}

}  // namespace tscompile
