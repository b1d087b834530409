// How this program was built.
#pragma once

#include <string_view>
#include <vector>

namespace tscompile {

struct BuildInfo {
  struct Library {
    std::string_view name, version;
  };
  std::string_view version, instructionSet, compiler, buildType, flags;
  std::vector<Library> libraries;
};

const BuildInfo& buildInfo();

}  // namespace tscompile
