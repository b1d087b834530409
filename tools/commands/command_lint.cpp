// `tscompile lint`: everything that is wrong or suspicious in texts.
#include "api/model_file.h"
#include "frontend/text/partial_parse.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/text_graphs.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/support/json_writer.h"
#include "ir/support/text.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/reports/build_info.h"
#include "tools/reports/lint.h"
#include "tools/reports/sarif.h"

#include <algorithm>
#include <set>

namespace tscompile {
namespace {

struct Counts {
  size_t errors = 0, warnings = 0, notes = 0;
};

std::pair<uint32_t, uint32_t> placeOf(const Diagnostic& d) {
  if (!d.range.valid()) return {0, 0};
  const LineColumn place = d.range.file->lineColumn(d.range.begin);
  return {place.line, place.column};
}

// Findings of one file in the order of their places.
std::vector<Diagnostic> sorted(const Diagnostics& diagnostics, Severity least) {
  std::vector<Diagnostic> out;
  for (const Diagnostic& d : diagnostics.list())
    if (d.severity >= least) out.push_back(d);
  std::stable_sort(out.begin(), out.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return placeOf(a) < placeOf(b); });
  return out;
}

// Whether it may be the mistakes that keep a value from being used.
bool isAboutUses(const Diagnostic& d) {
  return d.message.find("never used") != std::string::npos || d.message.find("is used") != std::string::npos;
}

// Where something begins; statements that could not be read may have blank lines in front of them. 0: it has no place.
uint32_t lineOf(const SourceRange& range) {
  if (!range.valid()) return 0;
  const size_t blank = std::min(range.text().find_first_not_of(" \t\r\n"), range.text().size());
  return range.file->lineColumn(range.begin + static_cast<uint32_t>(blank)).line;
}

// Lines of mistakes, and of nodes of which these hide what they take or what their blocks give.
std::set<uint32_t> linesBehindMistakes(const ParsedText& text, const Diagnostics& mistakes) {
  std::set<uint32_t> out;
  for (const Diagnostic& d : mistakes.list()) out.insert(lineOf(d.range));
  const std::set<uint32_t> wrong = out;
  // What is not known of statements that could not be read is Any, and what is made of that has Any inside.
  auto isHidden = [](const Use& u) {
    const Node* n = u.value->node();
    const bool isMissing = n && n->kind() == sym::Uninitialized && !n->range.valid();
    return isMissing || typeText(u.value->type()).find("Any") != std::string::npos;
  };
  forEachGraph(topGraphs(text), [&](const Graph& g) {
    forEachNode(g, [&](const Node* n) {
      bool hides = std::any_of(n->inputs().begin(), n->inputs().end(), isHidden);
      for (const Block* b : n->blocks())
        hides |= wrong.count(lineOf(b->returnNode()->range)) || wrong.count(lineOf(b->range));
      if (!hides) return;
      out.insert(lineOf(n->range));
      for (const Block* b : n->blocks()) out.insert(lineOf(b->range));
    });
  });
  return out;
}

// Lines of nodes that take, or whose blocks give, something of a type that is none: that is told where it is made.
std::set<uint32_t> linesBehindUnknownTypes(const ParsedText& text) {
  std::set<uint32_t> out;
  auto isUnknown = [](const Use& u) { return u.value->type()->hasVariables(); };
  auto consider = [&](const Node* n) {
    if (std::any_of(n->inputs().begin(), n->inputs().end(), isUnknown)) out.insert(lineOf(n->range));
  };
  forEachGraph(topGraphs(text), [&](const Graph& g) {
    forEachNode(g, [&](const Node* n) {
      consider(n);
      for (const Block* b : n->blocks()) consider(b->returnNode());
    });
    consider(g.returnNode());
  });
  return out;
}

struct LintOptions {
  bool warningsAreErrors = false, sarif = false;
};

class LintCommand {
 public:
  LintCommand(Session& session, const LintOptions& options) : session_(session), options_(options) {}

  int run(const std::vector<std::string>& files) {
    JsonWriter json(session_.out);
    if (session_.common.json) {
      json.beginObject();
      json.field("schema", "tscompile.lint/1");
      json.key("findings");
      json.beginArray();
    }
    for (const std::string& file : files) {
      check(file);
      show(json);
    }
    if (options_.sarif) writeSarif(session_.out, all_, buildInfo().version);
    if (session_.common.json) {
      json.newLine();
      json.endArray();
      json.field("errors", counts_.errors);
      json.field("warnings", counts_.warnings);
      json.field("notes", counts_.notes);
      json.endObject();
      json.finish();
    } else if (session_.common.jsonErrors) {
      session_.note(counted(counts_.errors, "error") + ", " + counted(counts_.warnings, "warning") + ", " +
                    counted(counts_.notes, "note"));
    } else if (!session_.common.quiet) {
      session_.err << "tscompile: " << counted(counts_.errors, "error") << ", " << counted(counts_.warnings, "warning")
                   << ", " << counted(counts_.notes, "note") << "\n";
    }
    return code_ == kExitDone && options_.warningsAreErrors && counts_.warnings > 0 ? kExitNegative : code_;
  }

 private:
  void check(const std::string& file) {
    Diagnostics& diagnostics = session_.diagnostics;
    ParseOptions reading;
    reading.registry = &session_.operators();
    reading.noteRedefinitions = true;
    Result<ParsedText> text = session_.parse(file, reading);
    if (!text) {
      if (code_ <= kExitNegative) code_ = exitCode(diagnostics.firstErrorKind());
      lookBehind(reading);
      return;
    }
    Diagnostics found(0);
    for (const Graph* g : topGraphs(*text)) verify(*g, session_.operators(), found);
    lint(*text, session_.operators(), found, modelFileOf(file) != ModelFile::Text);
    const std::set<uint32_t> followers = linesBehindUnknownTypes(*text);
    for (const Diagnostic& d : found.list())
      if (!followers.count(lineOf(d.range)) || isAboutType(d)) diagnostics.add(d);
    if (found.hasErrors() && code_ == kExitDone) code_ = kExitNegative;
  }

  static bool isAboutType(const Diagnostic& d) { return d.message.starts_with("there is no type"); }

  // What else is wrong with a text that cannot be read as a whole.
  void lookBehind(ParseOptions reading) {
    Diagnostics& diagnostics = session_.diagnostics;
    if (diagnostics.full() || diagnostics.list().empty()) return;
    const SourcePtr source = diagnostics.list().front().source;
    if (!source) return;
    reading.limits = session_.common.limits;
    Diagnostics told(0), found(0);
    const ParsedText text = parsePartly(source, told, reading);
    std::set<uint32_t> followers = linesBehindMistakes(text, told), operators;
    followers.merge(linesBehindUnknownTypes(text));
    for (const Node* n : wrongOperators(text, session_.operators())) operators.insert(lineOf(n->range));
    for (const Graph* g : topGraphs(text)) verify(*g, session_.operators(), found);
    lint(text, session_.operators(), found);
    for (const Diagnostic& d : found.list())
      if (d.range.valid() && !isAboutUses(d) && (!followers.count(lineOf(d.range)) || isCertain(d, operators)))
        diagnostics.add(d);
  }

  // Whether it holds whatever the mistakes hide.
  static bool isCertain(const Diagnostic& d, const std::set<uint32_t>& wrongOperators) {
    return isAboutType(d) || (d.severity == Severity::Warning && wrongOperators.count(lineOf(d.range)));
  }

  void show(JsonWriter& json) {
    Diagnostics& diagnostics = session_.diagnostics;
    DiagnosticStyle style{session_.wantsColor(session_.out)};
    // What makes the command fail is said in any case.
    const Severity least = !session_.common.quiet       ? Severity::Note
                           : options_.warningsAreErrors ? Severity::Warning
                                                        : Severity::Error;
    for (const Diagnostic& d : sorted(diagnostics, least)) {
      counts_.notes += d.severity == Severity::Note;
      counts_.warnings += d.severity == Severity::Warning;
      if (options_.sarif) {
        all_.push_back(d);
        continue;
      }
      if (!session_.common.json) {
        session_.out << renderDiagnostic(d, "tscompile", style);
        continue;
      }
      std::string line = diagnosticJson(d);
      line.pop_back();
      json.newLine();
      json.verbatim(line);
    }
    if (diagnostics.full())
      session_.note("stopped at " + counted(diagnostics.errorCount(), "error") + "; --max-errors 0 shows all");
    counts_.errors += diagnostics.errorCount();
    diagnostics.clear();
  }

  Session& session_;
  const LintOptions& options_;
  std::vector<Diagnostic> all_;  // for SARIF
  Counts counts_;
  int code_ = kExitDone;
};

}  // namespace

static int runLint(const Options& options, Session& session) {
  return LintCommand(session, options.own.of<LintOptions>()).run(options.arguments);
}

VerbSpec lintCommand() {
  return {.name = "lint",
          .summary = "report everything that is wrong or suspicious in texts",
          .argument = "FILE",
          .argumentHelp = "a model: .pt, .pt2, graph text, a module dump; -: text from standard input",
          .argumentRequired = true,
          .argumentRepeats = true,
          .details =
              "Findings go to standard output. The exit code is 1 if one of them is an error, 3 if a text\n"
              "cannot be read.\n",
          .options =
              OptionSpecs{{"--format", "text|json|sarif", "form of the output (default: text)",
                           [](Options& o, const std::string& v) {
                             o.common.json = v == "json";
                             o.own.of<LintOptions>().sarif = v == "sarif";
                           }},
                          {"--werror", "", "exit 1 if there is a warning, such as for an unknown operator",
                           [](Options& o, const std::string&) { o.own.of<LintOptions>().warningsAreErrors = true; }}},
          .command = runLint};
}

}  // namespace tscompile
