#include "tools/driver.h"

#include "api/extensions.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/support/json_writer.h"
#include "ir/values/error.h"
#include "runtime/registry.h"
#include "tools/commands/commands.h"
#include "tools/options/defaults_file.h"
#include "tools/options/own_inputs.h"
#include "tools/options/variables.h"
#include "tools/reports/crash_report.h"
#include "tools/reports/remedy_words.h"
#include "tools/session/one_json.h"
#include "tools/session/process.h"

#include <cstdlib>
#include <new>
#include <system_error>

namespace tscompile {
namespace {

// Errors of the command line are reported in the form that it, or a variable, asks for, though it cannot be read as a
// whole.
CommonOptions formOfErrors(std::span<const std::string> args) {
  constexpr std::string_view kOption = "--error-format";
  const char* variable = std::getenv("TSCOMPILE_ERROR_FORMAT");
  std::string_view form = variable ? variable : "";
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].starts_with(kOption) && args[i].size() > kOption.size() && args[i][kOption.size()] == '=')
      form = std::string_view(args[i]).substr(kOption.size() + 1);
    if (args[i] == kOption && i + 1 < args.size()) form = args[i + 1];
  }
  CommonOptions common;
  common.jsonErrors = form == "json";
  return common;
}

int reportOne(std::span<const std::string> args, std::istream& in, std::ostream& out, std::ostream& err,
              const Diagnostic& diagnostic, int code) {
  CommonOptions common = formOfErrors(args);
  Session session(common, in, out, err);
  session.diagnostics.add(diagnostic);
  session.report();
  return code;
}

// Libraries of the command line and of the environment. What they log goes to the session for as long as this lives.
class Plugins {
 public:
  // Those that come with the tool are told of by the command that is about plugins.
  Plugins(const Options& options, Session& session) : isTelling_(options.verb->name == "plugins") {
    auto tell = [this, &session](int level, std::string_view message) {
      constexpr int kWarning = 3;
      if ((session.common.verbose && isTelling_) || level >= kWarning) session.note(std::string(message));
    };
    if (isTelling_) allPlugins().list();  // registers them
    allPlugins().setLog(tell);
    isTelling_ = true;
    setPluginLog(tell);
    PluginInstance::verifyRuns(session.common.verifyPlugins);
  }
  ~Plugins() {
    allPlugins().setLog(nullptr);
    setPluginLog(nullptr);
    PluginInstance::verifyRuns(false);
  }

  bool load(Session& session) const {
    bool good = true;
    for (const std::string& library : session.common.plugins)
      good &= loadPluginLibrary(allPlugins(), library, session.diagnostics);
    return loadPluginsOfEnvironment(allPlugins(), session.diagnostics) && good;
  }

 private:
  bool isTelling_;
};

// What --custom-torch-ops and --rules name.
bool loadExtensions(Session& session) {
  if (session.common.libraries.empty() && session.common.rules.empty()) return true;
  auto extensions = std::make_shared<Extensions>();
  bool good = true;
  for (const std::string& library : session.common.libraries)
    good &= extensions->loadLibrary(library, session.diagnostics);
  for (const std::string& path : session.common.rules) {
    Result<std::string> text = session.read(path);
    good &= text && extensions->addRules(SourceFile::make(path == "-" ? "<stdin>" : path, std::move(*text)),
                                         session.diagnostics);
  }
  session.extensions = std::move(extensions);
  return good;
}

int printDefaults(const Options& options, Session& session) {
  session.out << defaultsText(options);
  return kExitDone;
}

// With --format json, what goes to standard output is one object, whatever the command writes.
int runCommand(const Options& options, Session& session, std::istream& in, std::ostream& out, std::ostream& err) {
  auto command = options.printDefaults ? printDefaults : options.verb->command;
  if (!options.common.json) return command(options, session);
  OneJson buffer(out);
  std::ostream wrapped(&buffer);
  Session inner(options.common, in, wrapped, err);
  inner.extensions = session.extensions;
  const int code = command(options, inner);
  wrapped.flush();
  buffer.end(options.verb->name, code);
  return code;
}

int runVerb(const Options& options, std::istream& in, std::ostream& out, std::ostream& err) {
  Session session(options.common, in, out, err);
  if (options.help) {
    out << verbHelp(*options.verb);
    return kExitDone;
  }
  setHandlerForm(session.common.jsonErrors);
  for (const std::string& text : misspeltVariables()) session.note(text);
  checkOutputIsNoInput(options);
  if (!checkOutputPlaces(options, session.diagnostics)) return session.finish();
  LimitScope limits(session.runLimits().memoryLimit, session.common.timeLimit);
  Plugins plugins(options, session);
  if (!plugins.load(session) || !loadExtensions(session)) return session.finish();
  const int code = runCommand(options, session, in, out, err);
  out.flush();
  if (!out && (code == kExitDone || code == kExitNegative)) {
    session.diagnostics.error("standard output cannot be written", ErrorKind::Io);
    return session.finish();
  }
  return code;
}

// Of threads, say, of which a user may have so many.
bool isLackOfResources(const std::exception& e) {
  const auto* error = dynamic_cast<const std::system_error*>(&e);
  return error &&
         (error->code() == std::errc::resource_unavailable_try_again || error->code() == std::errc::not_enough_memory);
}

}  // namespace

int run(std::span<const std::string> args, std::istream& in, std::ostream& out, std::ostream& err) {
  RemedyWordsScope words(commandLineWords);
  rememberCommandLine(args);
  reportCrashesWith(writeCrashReport);
  Diagnostic d;
  try {
    return runVerb(readCommandLine(args), in, out, err);
  } catch (const UsageError& e) {
    d.message = e.message;
    d.range = e.range;
    d.source = e.source;
    for (const std::string& note : e.notes) d.note(note);
    return reportOne(args, in, out, err, d, kExitUsage);
  } catch (const std::bad_alloc&) {
    d.kind = ErrorKind::Limit;
    d.message = "out of memory";
  } catch (const ExecutionError& e) {
    d.kind = e.kind();
    d.message = e.message();
  } catch (const std::exception& e) {
    if (isLackOfResources(e)) {
      d.kind = ErrorKind::Limit;
      d.message = std::string("the system gives no more: ") + e.what();
      return reportOne(args, in, out, err, d, exitCode(d.kind));
    }
    d.message = std::string(kInternalError) + e.what();
    if (isToolProcess())
      if (std::string path = writeCrashReport(d.message); !path.empty())
        d.note("this is a bug of tscompile; " + path + " has what is needed to repeat it, without weights");
    return reportOne(args, in, out, err, d, kExitInternal);
  }
  return reportOne(args, in, out, err, d, exitCode(d.kind));
}

}  // namespace tscompile
