// `tscompile version`: what this build is.
#include "ir/support/json_fields.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/reports/build_info.h"

namespace tscompile {

static int runVersion(const Options&, Session& session) {
  const BuildInfo& info = buildInfo();
  if (session.common.json) {
    writeJson(session.out, info);
    return kExitDone;
  }
  session.out << "tscompile " << info.version << "\n"
              << "  commit      " << info.commit << "\n"
              << "  built for   " << info.instructionSet << "\n"
              << "  compiler    " << info.compiler << "\n"
              << "  build       " << info.buildType << (info.flags.empty() ? "" : ", ") << info.flags << "\n"
              << "  libraries  ";
  for (const BuildInfo::Library& library : info.libraries) session.out << " " << library.name << " " << library.version;
  session.out << "\n";
  return kExitDone;
}

VerbSpec versionCommand() {
  return {.name = "version", .summary = "tell the version and how it was built", .command = runVersion};
}

}  // namespace tscompile
