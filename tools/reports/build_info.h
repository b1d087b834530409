// How this program was built.
#pragma once

#include "ir/support/json_fields.h"

#include <string_view>
#include <vector>

namespace tscompile {

struct BuildInfo {
  struct Library {
    std::string_view name, version;
  };
  std::string_view version, commit = "unknown", instructionSet, compiler, buildType, flags;
  std::vector<Library> libraries;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.version/1");
    visit("version", version);
    visit("commit", commit);
    visit("instruction_set", instructionSet);
    visit("compiler", compiler);
    visit("build_type", buildType);
    visit("flags", flags);
    visit("libraries", Members{libraries});
  }
};

const BuildInfo& buildInfo();
// The program says it before anything else (tools/commit.cpp.in); `commit` must live on.
void setSourceCommit(std::string_view commit);

}  // namespace tscompile
