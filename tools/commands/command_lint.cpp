// `tscompile lint`: everything that is wrong or suspicious in texts.
#include "ir/analysis/verifier.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/support/json_writer.h"
#include "ir/support/text.h"
#include "runtime/registry.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/reports/lint.h"
#include "tools/reports/repaired_text.h"
#include "tools/tasks/graphs.h"

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
std::vector<Diagnostic> sorted(const Diagnostics& diagnostics, bool errorsOnly) {
  std::vector<Diagnostic> out;
  for (const Diagnostic& d : diagnostics.list())
    if (!errorsOnly || d.severity == Severity::Error) out.push_back(d);
  std::stable_sort(out.begin(), out.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return placeOf(a) < placeOf(b); });
  return out;
}

class LintCommand {
 public:
  LintCommand(Session& session, bool warningsAreErrors) : session_(session), strict_(warningsAreErrors) {}

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
    } else if (session_.common.jsonErrors) {
      session_.note(counted(counts_.errors, "error") + ", " + counted(counts_.warnings, "warning") + ", " +
                    counted(counts_.notes, "note"));
    } else if (!session_.common.quiet) {
      session_.err << "tscompile: " << counted(counts_.errors, "error") << ", " << counted(counts_.warnings, "warning")
                   << ", " << counted(counts_.notes, "note") << "\n";
    }
    return code_ == kExitDone && strict_ && counts_.warnings > 0 ? kExitNegative : code_;
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
      lookBehind(file, reading);
      return;
    }
    bool good = true;
    for (const Graph* g : topGraphs(*text)) good &= verify(*g, allOps(), diagnostics);
    lint(*text, diagnostics);
    if (!good && code_ == kExitDone) code_ = kExitNegative;
  }

  // What else is wrong with a text that cannot be read: without the lines that cannot, again and again.
  void lookBehind(const std::string& file, const ParseOptions& reading) {
    constexpr int kMostRounds = 4;
    Diagnostics& diagnostics = session_.diagnostics;
    if (file == "-" || diagnostics.full() || diagnostics.list().empty()) return;
    const SourceFile* source = diagnostics.list().front().range.file;
    if (!source) return;
    ParseOptions options = reading;
    options.limits = session_.common.limits;
    for (int round = 0; round < kMostRounds; ++round) {
      std::set<uint32_t> lines;
      const std::string repaired = repairedText(*source, diagnostics, lines);
      if (repaired.empty()) return;
      Diagnostics found(0);
      const SourcePtr changed = SourceFile::make(source->path(), repaired);
      diagnostics.keepAlive(changed);
      Result<ParsedText> text = parseText(changed, found, options);
      if (text) {
        for (const Graph* g : topGraphs(*text)) verify(*g, allOps(), found);
        lint(*text, found);
      }
      bool isNew = false;
      for (const Diagnostic& d : found.list()) {
        if (lines.count(placeOf(d).first) || d.message.find(kLeftOut) != std::string::npos) continue;
        if (!text && d.severity != Severity::Error) continue;             // told when all can be read
        if (d.message.find("never used") != std::string::npos) continue;  // but for the lines that are left out
        diagnostics.add(d);
        isNew |= d.severity == Severity::Error;
      }
      if (text || !isNew) return;
    }
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

  Session& session_;
  bool strict_;
  Counts counts_;
  int code_ = kExitDone;
};

}  // namespace

namespace {

struct LintOptions {
  bool warningsAreErrors = false;
};

}  // namespace

static int runLint(const Options& options, Session& session) {
  return LintCommand(session, options.own.of<LintOptions>().warningsAreErrors).run(options.arguments);
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
          .options =
              OptionSpecs{{"--werror", "", "exit 1 if there is a warning, such as for an unknown operator",
                           [](Options& o, const std::string&) { o.own.of<LintOptions>().warningsAreErrors = true; }}},
          .command = runLint};
}

}  // namespace tscompile
