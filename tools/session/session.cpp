#include "tools/session/session.h"

#include "api/engine_file.h"
#include "api/extensions.h"
#include "api/model_file.h"
#include "api/support/archive.h"
#include "frontend/export/export_file.h"
#include "frontend/files/file_io.h"
#include "frontend/files/file_kind.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/support/quantities.h"
#include "ir/support/text.h"
#include "runtime/registry.h"
#include "tools/session/machine_memory.h"
#include "tools/session/process.h"
#include "tools/session/terminal.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <unistd.h>

namespace tscompile {

int exitCode(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Input:
      return 3;
    case ErrorKind::Unsupported:
      return 4;
    case ErrorKind::Io:
      return 5;
    case ErrorKind::Limit:
      return 6;
    case ErrorKind::Incompatible:
      return 7;
    case ErrorKind::Model:
      return 8;
    case ErrorKind::Interrupted:
      return 130;
  }
  TS_UNREACHABLE();
}

Session::Session(const CommonOptions& common, std::istream& in, std::ostream& out, std::ostream& err)
    : out(out),
      err(err),
      common(common),
      diagnostics(common.maxErrors),
      progress(isTerminal(err) && !common.quiet && !common.jsonErrors ? &err : nullptr),
      in_(in) {}

Result<std::string> Session::read(const std::string& path) {
  uint64_t limit = common.limits.textBytes;
  Result<std::string> text = path == "-" ? readInput(limit + 1) : readFileStart(path, limit + 1, diagnostics);
  if (text && text->size() > limit) {
    diagnostics
        .fileError(path == "-" ? "<stdin>" : path, {}, "more than " + std::to_string(limit) + " bytes of a graph text",
                   ErrorKind::Limit)
        .note("the limit is set by --limit text=N");
    return Failed{};
  }
  return text;
}

Result<InputLines> Session::readLines() {
  if (&in_ == &std::cin) return InputLines(STDIN_FILENO, common.limits.textBytes);
  Result<std::string> text = read("-");
  if (!text) return Failed{};
  return InputLines(std::move(*text));
}

Result<std::string> Session::readInput(uint64_t most) {
  std::string text;
  std::string buffer(size_t{64} << 10, '\0');
  while (text.size() < most) {
    in_.read(buffer.data(), static_cast<std::streamsize>(std::min<uint64_t>(buffer.size(), most - text.size())));
    if (in_.gcount() == 0) break;
    text.append(buffer.data(), static_cast<size_t>(in_.gcount()));
  }
  if (in_.bad()) {
    diagnostics.error("standard input cannot be read", ErrorKind::Io);
    return Failed{};
  }
  return text;
}

Result<SourcePtr> Session::readGraphText(const std::string& path, UnknownOperators unknown) {
  ModelFile file = modelFileOf(path);
  if (file == ModelFile::Engine) return readEngineText(path);
  if (file == ModelFile::Export) return readExportText(path, unknown);
  FolderAdvice advice{
      .built =
          "it is a language model that was built, which 'tscompile generate' runs, and 'bench', 'profile' and "
          "'report' measure",
      .other =
          "a model is one file, as torch.export.save, torch.jit.save and 'tscompile convert' write it; a folder "
          "may be what 'tscompile build' has made, for generate, bench, profile, report, inspect and refit"};
  const std::string model = path + "/model.ir";
  const std::string converted = "'tscompile convert' made it: its model is " + model;
  if (std::error_code ignored; std::filesystem::exists(model, ignored)) advice.other = converted.c_str();
  if (refuseFolder(path, diagnostics, advice)) return Failed{};
  Result<std::string> text = read(path);
  if (!text) return Failed{};
  std::string name = path == "-" ? "<stdin>" : path;
  if (!checkGraphText(name, *text, diagnostics,
                      path == "-" ? "graph text, as other models do not come through pipes" : "graph text"))
    return Failed{};
  sources_.push_back(SourceFile::make(name, std::move(*text)));
  return sources_.back();
}

Result<SourcePtr> Session::readEngineText(const std::string& path) {
  Ref<FileMapping> mapping = FileMapping::open(path, diagnostics);
  if (!mapping) return Failed{};
  Result<EngineFile> file = parseEngineFile(mapping->bytes(), mapping.get(), path, diagnostics, common.limits);
  if (!file) return Failed{};
  sources_.push_back(SourceFile::make(path, std::move(file->graph)));
  return sources_.back();
}

Result<SourcePtr> Session::readExportText(const std::string& path, UnknownOperators unknown) {
  Result<ExportFile> file = readExportFile(path, operators(), diagnostics, common.limits, unknown);
  if (!file) return Failed{};
  sources_.push_back(SourceFile::make(path, file->text()));
  return sources_.back();
}

const OpRegistry& Session::operators() const { return extensions ? extensions->registry() : allOps(); }

Result<Module> Session::loadModule(const std::string& path, const std::vector<std::string>& weights) {
  ProgressStep reading(progress, "reading " + path);
  LoadOptions load;
  load.weights = weights;
  load.limits = common.limits;
  load.extensions = extensions;
  if (modelFileOf(path) != ModelFile::Text) return Module::load(path, load, diagnostics);
  Result<SourcePtr> source = readGraphText(path);
  if (!source) return Failed{};
  return Module::fromSource(*source, load, diagnostics);
}

Result<ParsedText> Session::parse(const std::string& path, ParseOptions options, UnknownOperators unknown) {
  if (modelFileOf(path) == ModelFile::Archive) {
    Result<OpenedArchive> archive =
        openArchive(path, options.registry ? *options.registry : operators(), common.limits, diagnostics, unknown);
    if (!archive) return Failed{};
    return std::move(archive->text);
  }
  Result<SourcePtr> source = readGraphText(path, unknown);
  if (!source) return Failed{};
  options.limits = common.limits;
  return parseText(*source, diagnostics, options);
}

void Session::note(const std::string& text) {
  if (common.quiet) return;
  progress.end();
  Diagnostic d;
  d.severity = Severity::Note;
  d.message = text;
  if (common.jsonErrors)
    err << diagnosticJson(d);
  else
    err << "tscompile: " << renderDiagnostic(d, "tscompile");
}

void Session::failAtPrintLimit() {
  diagnostics
      .error("the printed text is longer than " + std::to_string(common.limits.printBytes) + " bytes", ErrorKind::Limit)
      .note(textOf(Remedy(Remedy::Kind::RaiseLimit, {"print"})));
}

void Session::noteUnusedWeights(const std::vector<std::string>& unused) {
  if (unused.empty()) return;
  constexpr size_t kMost = 3;
  std::string names;
  for (size_t i = 0; i < unused.size() && i < kMost; ++i) names += (i ? ", '" : "'") + unused[i] + "'";
  if (unused.size() > kMost) names += " and " + std::to_string(unused.size() - kMost) + " more tensors";
  note(names + " of the weights " + (unused.size() == 1 ? "is" : "are") + " not used");
}

RunOptions Session::runLimits() const {
  RunOptions limits;
  limits.memoryLimit = common.memoryLimit ? *common.memoryLimit : availableMemory() / 5 * 4;
  limits.timeLimit = remainingTime();
  return limits;
}

bool Session::wantsColor(const std::ostream& stream) const {
  if (common.color != ColorMode::Auto) return common.color == ColorMode::Always;
  auto isSet = [](const char* name) {
    const char* value = std::getenv(name);
    return value && *value && std::string_view(value) != "0";
  };
  if (const char* no = std::getenv("NO_COLOR"); no && *no) return false;
  if (isSet("CLICOLOR_FORCE")) return true;
  const char* terminal = std::getenv("TERM");
  return isTerminal(stream) && !(terminal && std::string_view(terminal) == "dumb");
}

void Session::report() {
  progress.end();
  if (common.jsonErrors) {
    for (const Diagnostic& d : diagnostics.list())
      if (!common.quiet || d.severity == Severity::Error) err << diagnosticJson(d);
  } else {
    DiagnosticStyle style{wantsColor(err)};
    for (const Diagnostic& d : diagnostics.list())
      if (!common.quiet || d.severity == Severity::Error) err << renderDiagnostic(d, "tscompile", style);
    if (diagnostics.full() && !common.quiet)
      err << "tscompile: note: stopped at " << common.maxErrors << (common.maxErrors == 1 ? " error" : " errors")
          << "; --max-errors 0 shows all\n";
  }
  diagnostics.clear();
}

// A rule that finds nothing changes nothing, which nobody would see.
void Session::tellOfRules() {
  if (!extensions || common.rules.empty()) return;
  for (const std::string& name : extensions->ruleNames())
    if (!applied.contains(name))
      note("rule '" + name + "' was not applied: 'tscompile lower --rules " + common.rules.front() + " --why " + name +
           "' tells why");
}

void Session::tellOfInputs() {
  for (const std::string& text : notesIfModelFails_) note(text);
  notesIfModelFails_.clear();
}

int Session::finish(int otherwise) {
  int code = diagnostics.hasErrors() ? exitCode(diagnostics.firstErrorKind()) : otherwise;
  if (!diagnostics.hasErrors()) {
    for (const std::string& text : notesUnlessFailed_) note(text);
    tellOfRules();
  }
  auto isSaid = [&](const std::string& text) {
    return std::ranges::any_of(diagnostics.list(), [&](const Diagnostic& d) {
      return std::ranges::any_of(d.notes, [&](const Diagnostic& note) { return note.message == text; });
    });
  };
  for (const std::string& text : notesUnlessSaid_)
    if (!isSaid(text)) note(text);
  const bool hasOutOfMemory = std::ranges::any_of(
      diagnostics.list(), [](const Diagnostic& d) { return d.message.find("out of memory") != std::string::npos; });
  if (code == exitCode(ErrorKind::Limit) && common.memoryLimit && hasOutOfMemory)
    note(fmt::format("the memory limit is {} (--limit-mem)", sizeText(*common.memoryLimit)));
  notesUnlessFailed_.clear();
  notesUnlessSaid_.clear();
  const bool hasFailed = std::ranges::any_of(diagnostics.list(), [](const Diagnostic& d) {
    return d.severity == Severity::Error && d.kind == ErrorKind::Model && d.source;
  });
  report();
  if (hasFailed) tellOfInputs();
  notesIfModelFails_.clear();
  return code;
}

}  // namespace tscompile
