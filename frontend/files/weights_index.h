// `model.safetensors.index.json` and `pytorch_model.bin.index.json`: which of several files has which tensor.
#pragma once

#include "frontend/files/tensor_formats.h"

#include <map>

namespace tscompile {

struct WeightsIndex {
  std::map<std::string, std::string> tensors;  // to files, beside the index
  std::vector<std::string> files;              // each once, in the order of their names
};

Result<WeightsIndex> parseWeightsIndex(const FilePart& file, Diagnostics& diagnostics, const Limits& limits);

}  // namespace tscompile
