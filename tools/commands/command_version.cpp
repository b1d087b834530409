// `tscompile version`: what this build is.
#include "ir/support/json_writer.h"
#include "tools/commands/commands.h"
#include "tools/reports/build_info.h"

namespace tscompile {

int runVersion(const Options&, Session& session) {
  const BuildInfo& info = buildInfo();
  if (session.common.json) {
    JsonWriter json(session.out);
    json.beginObject();
    json.field("schema", "tscompile.version/1");
    json.field("version", info.version);
    json.field("instructionSet", info.instructionSet);
    json.field("compiler", info.compiler);
    json.field("buildType", info.buildType);
    json.field("flags", info.flags);
    json.key("libraries");
    json.beginObject();
    for (const BuildInfo::Library& library : info.libraries) json.field(library.name, library.version);
    json.endObject();
    json.endObject();
    json.finish();
    return kExitDone;
  }
  session.out << "tscompile " << info.version << "\n"
              << "  built for   " << info.instructionSet << "\n"
              << "  compiler    " << info.compiler << "\n"
              << "  build       " << info.buildType << (info.flags.empty() ? "" : ", ") << info.flags << "\n"
              << "  libraries  ";
  for (const BuildInfo::Library& library : info.libraries) session.out << " " << library.name << " " << library.version;
  session.out << "\n";
  return kExitDone;
}

}  // namespace tscompile
