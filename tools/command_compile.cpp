// `tscompile compile`: a graph with its engines and its weights becomes an engine file.
#include "api/compile.h"
#include "ir/support/json_writer.h"
#include "ir/support/text.h"
#include "partition/report.h"
#include "tools/commands.h"
#include "tools/partitioning.h"
#include "tools/quantities.h"

#include <fmt/core.h>

#include <filesystem>

namespace tscompile {
namespace {

struct Summary {
  size_t segments = 0, engines = 0, nodes = 0, inEngines = 0;
  uint64_t bytes = 0;  // of the file
};

void tell(const Summary& s, const std::string& path, Session& session) {
  if (!session.common.json) {
    session.out << fmt::format("{}: {}, {} of {} in {}, {}\n", path, counted(s.segments, "segment"), s.inEngines,
                               counted(s.nodes, "node"), counted(s.engines, "engine"), sizeText(s.bytes));
    return;
  }
  JsonWriter json(session.out);
  json.beginObject();
  json.field("format", "tscompile.compile/1");
  json.field("path", path);
  json.field("segments", s.segments);
  json.field("engines", s.engines);
  json.field("nodes", s.nodes);
  json.field("nodesInEngines", s.inEngines);
  json.field("bytes", s.bytes);
  json.endObject();
  json.finish();
}

}  // namespace

int runCompile(const Options& options, Session& session) {
  const PartitionCommand& command = options.partition;
  if (command.output.empty() || command.output == "-")
    throw UsageError{"compile needs a file to write", {"name it with --output, such as -o model.tse"}};
  CompileSpec spec = compileSpecOf(command, session.common.limits);
  Summary summary;
  spec.onPartition = [&](const Prepared&, const Partition& p) {
    summary.segments = p.segments.size();
    summary.engines = p.count(Target::Accelerated);
    summary.inEngines = p.acceleratedCount();
    for (const Segment& s : p.segments) summary.nodes += s.nodes.size();
  };
  Result<Module> module = loadForPartition(options, session);
  if (!module) return session.finish();
  Result<Module> compiled = command.oneEngine ? module->convertToEngine(spec, session.diagnostics)
                                              : module->compiled(spec, session.diagnostics);
  if (!compiled) return session.finish();
  session.noteUnusedWeights(module->unusedWeights());
  if (!compiled->save(command.output, session.diagnostics, session.common.limits)) return session.finish();
  std::error_code ignored;
  summary.bytes = std::filesystem::file_size(command.output, ignored);
  tell(summary, command.output, session);
  return session.finish();
}

}  // namespace tscompile
