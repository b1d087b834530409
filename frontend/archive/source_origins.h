// Where the lines of an archive's code come from in the model's own source: the pickle beside a file of code
// (`.debug_pkl`), which gives ranges of source texts for bytes of the file.
#pragma once

#include "frontend/pickle/pickle_value.h"
#include "ir/graph/node.h"

#include <cstdint>
#include <vector>

namespace tscompile {

class SourceOrigins {
 public:
  SourceOrigins() = default;
  // Passes over what is not as PyTorch writes it.
  explicit SourceOrigins(const PickleValue& root);
  // The place that made the code at this byte; not present() where that is not known.
  CodeLocation of(uint32_t byte) const;

 private:
  struct Entry {
    uint32_t byte;
    CodeLocation location;
  };
  std::vector<Entry> entries_;  // by byte
};

}  // namespace tscompile
