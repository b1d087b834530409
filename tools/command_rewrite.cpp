// `tscompile rewrite`: applies a user's own rules. `tscompile passes`: lists what lowering consists of.
#include "frontend/file_io.h"
#include "ir/printer.h"
#include "ir/support/json_writer.h"
#include "runtime/evaluator.h"
#include "runtime/ops/ops.h"
#include "tools/graphs.h"
#include "tools/rewriting.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

Query everything(const RewriteDatabase& database) {
  Query::Tags names;
  for (const RewriteDatabase::Entry& e : database.allEntries()) names.insert(e.name);
  return Query().including(names);
}

}  // namespace

int runRewrite(const Options& options, Session& session) {
  if (options.rewrite.rules.empty()) throw UsageError{"rewrite needs --rules FILE", {"see 'tscompile help rewrite'"}};
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
  reading.registry = &allOps();
  Result<ParsedText> text = session.parse(options.arguments[0], reading);
  if (!text) return session.finish();
  std::unique_ptr<Evaluator> evaluator = makeEvaluator(allOps());
  size_t applied = 0;
  for (const Graph* g : topGraphs(*text)) {
    RewriteContext context(const_cast<Graph&>(*g), allOps(), session.diagnostics);
    context.evaluator = evaluator.get();
    applied += plan.run(context, setup->settings).applied;
  }
  if (session.diagnostics.hasErrors()) return session.finish();
  session.report();
  setup->finish();
  session.note(fmt::format("{} rewritten", applied == 1 ? "1 place was" : std::to_string(applied) + " places were"));

  std::optional<FileWriter> file;
  if (!options.rewrite.output.empty() && options.rewrite.output != "-")
    file.emplace(options.rewrite.output, session.diagnostics);
  TextSink sink = [&](std::string_view piece) {
    if (file)
      file->write(piece);
    else
      session.out << piece;
  };
  PrintOptions printing;
  printing.maxBytes = session.common.limits.printBytes;
  if (text->module) printDump(*text->module, sink, printing);
  for (size_t i = 0; i < text->graphs.size(); ++i) {
    if (i || text->module) sink("\n");
    printGraph(*text->graphs[i], sink, printing);
  }
  if (file) file->commit();
  return session.finish();
}

int runPasses(const Options& options, Session& session) {
  std::vector<RewriteDatabase::Entry> entries = loweringDatabase().allEntries();
  auto wanted = [&](const RewriteDatabase::Entry& e) {
    if (options.arguments.empty()) return true;
    return std::any_of(options.arguments.begin(), options.arguments.end(),
                       [&](const std::string& a) { return e.tags.contains(a) || e.name.find(a) != std::string::npos; });
  };
  auto tagsOf = [](const RewriteDatabase::Entry& e) {
    std::vector<std::string> tags;
    for (const std::string& t : e.tags)
      if (t != e.name && t != "lowering") tags.push_back(t);
    return tags;
  };
  if (session.common.json) {
    JsonWriter json(session.out);
    json.beginArray();
    for (const auto& e : entries) {
      if (!wanted(e)) continue;
      json.beginObject();
      json.key("name");
      json.value(e.name);
      json.key("position");
      json.value(e.position);
      json.key("tags");
      json.beginArray();
      for (const std::string& t : tagsOf(e)) json.value(t);
      json.endArray();
      json.key("purpose");
      json.value(e.purpose);
      json.endObject();
    }
    json.endArray();
    return session.finish();
  }
  size_t width = 0;
  for (const auto& e : entries) width = std::max(width, e.name.size());
  bool any = false;
  std::string group;
  for (const auto& e : entries) {
    if (!wanted(e)) continue;
    any = true;
    std::string around = e.path.empty() ? "" : e.path[0];
    if (around != group && !around.empty()) session.out << fmt::format("{:>5}  {}\n", e.position, around);
    group = around;
    std::string position = around.empty() ? fmt::format("{}", e.position) : "";
    std::string tags;
    bool isDefault = false;
    for (const std::string& t : tagsOf(e)) {
      isDefault |= t == "default";
      if (t != "default" && t != around) tags += (tags.empty() ? " [" : ", ") + t;
    }
    session.out << fmt::format("{:>5} {} {:<{}}  {}{}\n", position, isDefault ? '*' : ' ', e.name, width, e.purpose,
                               tags.empty() ? "" : tags + "]");
  }
  if (any) session.out << "* applied without being asked for\n";
  return session.finish(any ? kExitDone : kExitNegative);
}

}  // namespace tscompile
