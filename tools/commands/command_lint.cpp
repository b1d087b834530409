// `tscompile lint`: everything that is wrong or suspicious in texts.
#include "ir/analysis/verifier.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/support/json_writer.h"
#include "ir/support/text.h"
#include "runtime/registry.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/reports/lint.h"
#include "tools/tasks/graphs.h"

#include <algorithm>

namespace tscompile {
namespace {

struct LintOptions {
  bool warningsAreErrors = false;
};

struct Counts {
  size_t errors = 0, warnings = 0, notes = 0;
};

// Findings of one file in the order of their places.
std::vector<Diagnostic> sorted(const Diagnostics& diagnostics, bool errorsOnly) {
  std::vector<Diagnostic> out;
  for (const Diagnostic& d : diagnostics.list())
    if (!errorsOnly || d.severity == Severity::Error) out.push_back(d);
  std::stable_sort(out.begin(), out.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return a.range.begin < b.range.begin; });
  return out;
}

class LintCommand {
 public:
  LintCommand(const LintOptions& options, Session& session) : options_(options), session_(session) {}

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
    if (session_.common.json) {
      json.newLine();
      json.endArray();
      json.field("errors", counts_.errors);
      json.field("warnings", counts_.warnings);
      json.field("notes", counts_.notes);
      json.endObject();
      json.finish();
    } else if (!session_.common.quiet) {
      session_.err << "tscompile: " << counted(counts_.errors, "error") << ", " << counted(counts_.warnings, "warning")
                   << ", " << counted(counts_.notes, "note") << "\n";
    }
    return options_.warningsAreErrors && counts_.warnings && code_ == kExitDone ? kExitNegative : code_;
  }

 private:
  void check(const std::string& file) {
    Diagnostics& diagnostics = session_.diagnostics;
    ParseOptions reading;
    reading.registry = &allOps();
    reading.noteRedefinitions = true;
    Result<ParsedText> text = session_.parse(file, reading);
    if (!text) {
      if (code_ <= kExitNegative) code_ = exitCode(diagnostics.firstErrorKind());
      return;
    }
    bool good = true;
    for (const Graph* g : topGraphs(*text)) good &= verify(*g, allOps(), diagnostics);
    lint(*text, diagnostics);
    if (!good && code_ == kExitDone) code_ = kExitNegative;
  }

  void show(JsonWriter& json) {
    Diagnostics& diagnostics = session_.diagnostics;
    DiagnosticStyle style{session_.wantsColor(session_.out)};
    for (const Diagnostic& d : sorted(diagnostics, session_.common.quiet)) {
      if (d.severity == Severity::Note) ++counts_.notes;
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
    counts_.warnings += diagnostics.warningCount();
    diagnostics.clear();
  }

  const LintOptions& options_;
  Session& session_;
  Counts counts_;
  int code_ = kExitDone;
};

}  // namespace

static int runLint(const Options& options, Session& session) {
  return LintCommand(options.own.of<LintOptions>(), session).run(options.arguments);
}

VerbSpec lintCommand() {
  return {.name = "lint",
          .summary = "report everything that is wrong or suspicious in texts",
          .argument = "FILE",
          .argumentHelp = "graph text or a module dump; -: standard input",
          .argumentRequired = true,
          .argumentRepeats = true,
          .details =
              "Findings go to standard output. The exit code is 1 if one of them is an error, 3 if a text\n"
              "cannot be read.\n",
          .options = {{"--warnings-as-errors", "", "let warnings decide the exit code as errors do",
                       [](Options& o, const std::string&) { o.own.of<LintOptions>().warningsAreErrors = true; }}},
          .command = runLint};
}

}  // namespace tscompile
