// Files of torch.export.save (`.pt2`): programs with their weights.
#pragma once

#include "frontend/export/program.h"
#include "ir/support/limits.h"
#include "ir/values/tensor.h"

#include <string>
#include <utility>
#include <vector>

namespace tscompile {

struct ExportFile {
  struct Program {
    std::string name;  // "forward" for the only one
    ExportedProgram program;
  };
  std::vector<Program> programs;  // by name
  // Parameters, buffers and constants by path, read-only; mapped where the file has them in place. In a file of several
  // programs, paths begin with the program's name: "encoder.fc.weight".
  std::vector<std::pair<std::string, Tensor>> tensors;
  std::vector<std::string> stored;  // names of those that are its state_dict()

  // The graphs of all programs, one after the other, as text.
  std::string text() const;
};

// Whether a file is a zip archive with a program, or a compiled package, which readExportFile() refuses by its name.
bool isExportFile(const std::string& path);
// Both layouts: `serialized_exported_program.json` of PyTorch 2.1 to 2.7, and `models/NAME.json` since 2.8.
Result<ExportFile> readExportFile(const std::string& path, const OpRegistry& registry, Diagnostics& diagnostics,
                                  const Limits& limits = {}, UnknownOperators unknown = UnknownOperators::Refused);

}  // namespace tscompile
