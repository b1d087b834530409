// `tscompile plugins`: which plugins there are, what one takes, and whether a library's plugins do what they must.
#include "ir/support/json_fields.h"
#include "ir/support/text.h"
#include "runtime/plugin/fields.h"
#include "runtime/plugin/plugin_check.h"
#include "runtime/registry.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/session/process.h"
#include "tools/tasks/isolated_checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace tscompile {
namespace {

struct PluginsCommand {
  std::chrono::nanoseconds checkLimit = std::chrono::minutes(1);  // of one check
};

std::string kindOf(const PluginCreator& c) { return c.key.ns + "::" + c.key.name; }

std::string dtypesOf(const tsc_port& port) {
  std::string out;
  for (DType d : {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16, DType::Int8, DType::UInt8,
                  DType::Int16, DType::Int32, DType::Int64, DType::Bool})
    if (port.dtypes >> static_cast<int>(d) & 1) out += (out.empty() ? "" : ", ") + std::string(shortName(d));
  return out;
}

// ---- list ----

struct PluginRow {
  PluginRow(const PluginCreatorPtr& c) : creator(c.get()) {}  // NOLINT: as JSON has it
  const PluginCreator* creator;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("namespace", creator->key.ns);
    visit("name", creator->key.name);
    visit("version", creator->key.version);
    visit("doc", tsc::view(creator->table().doc));
    if (!creator->path.empty()) visit("library", creator->path);
  }
};

struct PluginList {
  std::vector<PluginRow> plugins;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.plugins/1");
    visit("plugins", Lines{plugins, true});
  }
};

int list(Session& session) {
  std::vector<PluginCreatorPtr> all = allPlugins().list();
  if (session.common.json) {
    writeJson(session.out, PluginList{{all.begin(), all.end()}});
    return kExitDone;
  }
  size_t width = 0;
  for (const PluginCreatorPtr& c : all) width = std::max(width, kindOf(*c).size());
  for (const PluginCreatorPtr& c : all)
    session.out << fmt::format("{:<{}}  {:<3}  {}{}\n", kindOf(*c), width, c->key.version, tsc::view(c->table().doc),
                               c->path.empty() ? "" : fmt::format(" ({})", c->path));
  return kExitDone;
}

// ---- show ----

void showPorts(Session& session, const char* title, std::span<const tsc_port> ports, std::span<const tsc_port> inputs) {
  session.out << "  " << title << "\n";
  size_t width = 0;
  for (const tsc_port& p : ports) width = std::max(width, p.name.size);
  for (const tsc_port& p : ports) {
    std::string what = dtypesOf(p);
    if (p.same_type_as >= 0) what = fmt::format("as {}", tsc::view(inputs[static_cast<size_t>(p.same_type_as)].name));
    if (p.flags & TSC_PORT_OPTIONAL) what += ", optional";
    if (p.flags & TSC_PORT_HOST) what += ", sizes depend on it";
    if (p.flags & TSC_PORT_FEWER_ROWS) what += ", a run tells how many rows there are";
    if (p.alias >= 0)
      what += fmt::format(", may be written over {}", tsc::view(inputs[static_cast<size_t>(p.alias)].name));
    session.out << fmt::format("    {:<{}}  {} ({})\n", tsc::view(p.name), width, tsc::view(p.doc), what);
  }
}

int show(const std::string& name, Session& session) {
  size_t colons = name.find("::");
  std::string ns = colons == std::string::npos ? "tensorrt_llm" : name.substr(0, colons);
  std::string plain = colons == std::string::npos ? name : name.substr(colons + 2);
  PluginCreatorPtr c = allPlugins().find(ns, plain);
  for (const PluginCreatorPtr& other : allPlugins().list())
    if (!c && colons == std::string::npos && other->key.name == plain) c = other;
  if (!c) {
    session.diagnostics.error(allPlugins().missing(ns, plain), ErrorKind::Input);
    return session.finish();
  }
  if (session.common.json) {
    JsonWriter json(session.out);
    json.beginObject();
    json.field("schema", "tscompile.plugin/1");
    json.field("name", kindOf(*c));
    json.field("version", c->key.version);
    json.key("fields");
    json.verbatim(fieldsSchema(*c));
    json.endObject();
    json.finish();
    return kExitDone;
  }
  session.out << fmt::format("{} version {}: {}\n", kindOf(*c), c->key.version, tsc::view(c->table().doc));
  showPorts(session, "inputs", c->inputs(), c->inputs());
  showPorts(session, "outputs", c->outputs(), c->inputs());
  if (c->fields().empty()) return kExitDone;
  session.out << "  fields\n";
  size_t width = 0;
  for (const tsc_field_info& f : c->fields()) width = std::max(width, f.name.size);
  for (const tsc_field_info& f : c->fields())
    session.out << fmt::format("    {:<{}}  {} ({})\n", tsc::view(f.name), width, tsc::view(f.doc), describeField(f));
  return kExitDone;
}

// ---- check ----

struct FindingRow {
  FindingRow(const PluginFinding& f) : finding(f) {}  // NOLINT: as JSON has it
  const PluginFinding& finding;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("plugin", finding.plugin);
    visit("check", finding.check);
    visit("problem", finding.problem);
  }
};

struct CheckReport {
  const PluginReport& report;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.plugins_check/1");
    visit("plugins", report.plugins);
    visit("checks", report.checks);
    visit("findings", Lines{std::vector<FindingRow>(report.findings.begin(), report.findings.end())});
  }
};

int check(const std::string& given, std::chrono::nanoseconds limit, Session& session) {
  std::error_code ignored;
  std::string path = std::filesystem::absolute(given, ignored).string();
  if (!std::filesystem::exists(path, ignored)) {
    session.diagnostics.fileError(given, {}, "there is no such library", ErrorKind::Io);
    return session.finish();
  }
  PluginReport report = isToolProcess() ? checkInProcesses(path, limit) : checkPluginLibrary(path, allOps());
  if (session.common.json) {
    writeJson(session.out, CheckReport{report});
    return report.findings.empty() ? kExitDone : kExitNegative;
  }
  for (const PluginFinding& f : report.findings)
    session.out << fmt::format("{}{}: {}\n", f.plugin.empty() ? "" : f.plugin + ", ", f.check, f.problem);
  for (const std::string& note : report.notes) session.out << note << "\n";
  std::string unchecked =
      report.notes.empty() ? "" : fmt::format(", {} not run", counted(report.notes.size(), "plugin"));
  session.out << fmt::format("{}, {}{}, {}\n", counted(report.plugins, "plugin"), counted(report.checks, "check"),
                             unchecked,
                             report.findings.empty() ? "nothing found" : counted(report.findings.size(), "finding"));
  return report.findings.empty() ? kExitDone : kExitNegative;
}

// What `check` starts: check-part LIB, to tell its plugins, or check-part LIB PLUGIN FROM, to make the checks of one.
int checkPart(const std::vector<std::string>& words) {
  auto number = [&](size_t i) -> std::optional<size_t> {
    size_t value = 0;
    if (i >= words.size()) return std::nullopt;
    auto [end, error] = std::from_chars(words[i].data(), words[i].data() + words[i].size(), value);
    return error == std::errc() ? std::optional(value) : std::nullopt;
  };
  return words.size() < 2 ? kExitUsage : runChecksForParent(words[1], number(2), number(3).value_or(0));
}

}  // namespace

static int runPlugins(const Options& options, Session& session) {
  const std::vector<std::string>& words = options.arguments;
  if (words.size() == 1 && words[0] == "list") return list(session);
  if (words.size() == 2 && words[0] == "show") return show(words[1], session);
  if (words.size() == 2 && words[0] == "check")
    return check(words[1], options.own.of<PluginsCommand>().checkLimit, session);
  if (words[0] == "check-part" && isCheckProcess()) {
    leaveCrashesToOthers();
    return checkPart(words);
  }
  throw UsageError{"plugins takes list, show NAME or check LIB", {"see 'tscompile help plugins'"}};
}

namespace {

OptionSpecs pluginsOptions() {
  return OptionSpecs{
      {"--limit-time", "DURATION", "time that each check may take, such as 250ms, 3s or 2min (default: 1min)",
       [](Options& o, const std::string& v) {
         o.own.of<PluginsCommand>().checkLimit = duration("--limit-time", "250ms, 3s or 2min", v);
       }},
  };
}

}  // namespace

VerbSpec pluginsCommand() {
  return {.name = "plugins",
          .summary = "list plugins, show what one takes, or check the plugins of a library",
          .argument = "WHAT",
          .argumentHelp = "list, show NAME, or check LIB",
          .argumentRequired = true,
          .argumentRepeats = true,
          .details =
              "Examples:\n  tscompile plugins show Identity\n  tscompile plugins check ./libmine.so\n"
              "The exit code of check is 1 if it finds something. Plugins are checked in processes of their own: one\n"
              "that crashes, or does not come to an end, is a finding.\n",
          .options = pluginsOptions(),
          .command = runPlugins};
}

}  // namespace tscompile
