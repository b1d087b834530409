#include "tools/driver.h"

#include "api/extensions.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/support/json_writer.h"
#include "ir/values/error.h"
#include "runtime/registry.h"
#include "tools/commands/commands.h"
#include "tools/reports/crash_report.h"
#include "tools/reports/remedy_words.h"
#include "tools/session/one_json.h"
#include "tools/session/process.h"

#include <filesystem>
#include <new>

namespace tscompile {
namespace {

// Errors of the command line are reported in the form that it asks for, though it cannot be read as a whole.
CommonOptions formOfErrors(std::span<const std::string> args) {
  CommonOptions common;
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i] == "--error-format=json" ||
        (args[i] == "--error-format" && i + 1 < args.size() && args[i + 1] == "json"))
      common.jsonErrors = true;
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
  explicit Plugins(Session& session) {
    auto tell = [&session](int level, std::string_view message) {
      constexpr int kWarning = 3;
      if (session.common.verbose || level >= kWarning) session.note(std::string(message));
    };
    allPlugins().setLog(tell);
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
    for (const std::string& path : session.common.plugins) {
      std::error_code ignored;
      std::string absolute = std::filesystem::absolute(path, ignored).lexically_normal().string();
      good &= loadPluginLibrary(allPlugins(), absolute, session.diagnostics);
    }
    return loadPluginsOfEnvironment(allPlugins(), session.diagnostics) && good;
  }
};

// With --format json, what goes to standard output is one object, whatever the command writes.
int runCommand(const Options& options, Session& session, std::istream& in, std::ostream& out, std::ostream& err) {
  if (!options.common.json) return options.verb->command(options, session);
  OneJson buffer(out);
  std::ostream wrapped(&buffer);
  Session inner(options.common, in, wrapped, err);
  const int code = options.verb->command(options, inner);
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
  LimitScope limits(session.runLimits().memoryLimit, session.common.timeLimit);
  Plugins plugins(session);
  if (!plugins.load(session)) return session.finish();
  const int code = runCommand(options, session, in, out, err);
  out.flush();
  if (!out && (code == kExitDone || code == kExitNegative)) {
    session.diagnostics.error("standard output cannot be written", ErrorKind::Io);
    return session.finish();
  }
  return code;
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
    for (const std::string& note : e.notes) d.note(note);
    return reportOne(args, in, out, err, d, kExitUsage);
  } catch (const std::bad_alloc&) {
    d.kind = ErrorKind::Limit;
    d.message = "out of memory";
  } catch (const ExecutionError& e) {
    d.kind = e.kind();
    d.message = e.message();
  } catch (const std::exception& e) {
    d.message = std::string("internal error: ") + e.what();
    if (isToolProcess())
      if (std::string path = writeCrashReport(d.message); !path.empty())
        d.note("this is a bug of tscompile; " + path + " has what is needed to repeat it, without weights");
    return reportOne(args, in, out, err, d, kExitInternal);
  }
  return reportOne(args, in, out, err, d, exitCode(d.kind));
}

}  // namespace tscompile
