// Settings of engines.
#pragma once

namespace tscompile {

struct EngineOptions {
  bool optimize = true;  // fuse layers and choose layouts; else each node is a layer
};

}  // namespace tscompile
