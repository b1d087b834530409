// `tscompile schema`: what the JSON of the commands holds.
#include "ir/support/embed.h"
#include "ir/support/json_fields.h"
#include "ir/support/text.h"
#include "tools/commands/commands.h"
#include "tools/commands/schema_names.h"

#include <algorithm>

TS_EMBED(tscompileSchemas, TSCOMPILE_SCHEMAS);

namespace tscompile {
namespace {

struct Schema {
  std::string_view name, text;
};

// The build joins the files of tools/schemas: "==== NAME" and the text.
std::vector<Schema> allSchemas() {
  constexpr std::string_view kMark = "==== ";
  std::string_view text(tscompileSchemasBegin, tscompileSchemasEnd);
  std::vector<Schema> out;
  while (text.starts_with(kMark)) {
    const size_t line = text.find('\n');
    const std::string_view name = text.substr(kMark.size(), line - kMark.size());
    text.remove_prefix(line + 1);
    const size_t end = std::min(text.find("\n==== "), text.size() - 1) + 1;
    out.push_back({name, text.substr(0, end)});
    text.remove_prefix(end);
  }
  return out;
}

// "tscompile.bench/1", as the title of a schema has it.
std::string tagOf(const Schema& schema, const std::string& version) {
  return "tscompile." + std::string(schema.name) + version;
}

struct SchemaNames {
  std::vector<std::string_view> names;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.schemas/1");
    visit("names", names);
  }
};

int runSchema(const Options& options, Session& session) {
  const std::vector<Schema> all = allSchemas();
  if (options.arguments.empty()) {
    SchemaNames list;
    for (const Schema& s : all) list.names.push_back(s.name);
    if (session.common.json) {
      writeJson(session.out, list);
      return kExitDone;
    }
    for (std::string_view name : list.names) session.out << name << '\n';
    return kExitDone;
  }
  // "tscompile.bench/1" means the same as "bench".
  std::string name = options.arguments[0];
  if (name.starts_with("tscompile.")) name = name.substr(name.find('.') + 1);
  const size_t slash = std::min(name.find('/'), name.size());
  const std::string version = name.substr(slash);
  name.resize(slash);
  for (const Schema& s : all) {
    if (s.name != name) continue;
    if (!version.empty() && s.text.find('"' + tagOf(s, version) + '"') == std::string_view::npos)
      throw UsageError{"there is no version '" + abbreviate(version.substr(1), 40) + "' of the schema " + name,
                       {"'tscompile schema " + name + "' prints the one that there is"}};
    session.out << s.text;
    return kExitDone;
  }
  UsageError error{"there is no schema '" + abbreviate(options.arguments[0], 80) + "'"};
  NearestName nearest(name);
  for (const Schema& s : all) nearest.consider(s.name);
  if (nearest.found()) error.notes.push_back("did you mean '" + nearest.name() + "'?");
  error.notes.push_back("'tscompile schema' lists them");
  throw error;
}

}  // namespace

std::vector<std::string> schemaNames() {
  std::vector<std::string> out;
  for (const auto& schema : allSchemas()) out.emplace_back(schema.name);
  return out;
}

VerbSpec schemaCommand() {
  return {.name = "schema",
          .summary = "print the JSON Schema of what commands write with --format json",
          .argument = "NAME",
          .argumentHelp = "a name, or the tag of an output: bench, tscompile.bench/1; without it: list the names",
          .details =
              "Every object has its name and version in the field 'schema'. A version changes when a field goes or\n"
              "means something else; fields may be added to it.\n\n"
              "Example:\n  tscompile schema bench\n",
          .command = runSchema};
}

}  // namespace tscompile
