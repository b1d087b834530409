// What `inspect` tells of PyTorch's files, as lines of text or as fields of an object in JSON.
#pragma once

#include "frontend/files/checkpoint.h"
#include "frontend/files/weights_index.h"
#include "ir/support/json_writer.h"

namespace tscompile {

class TorchArchive;

// A listing goes to `text`, or if it is null to `json`.
struct TorchListing {
  std::string* text;
  JsonWriter& json;
  Diagnostics& diagnostics;
  const Limits& limits;
  bool whole;  // text shows all of long lists
};

void listTorchScript(const TorchArchive& archive, uint64_t bytes, const TorchListing& out);
void listCheckpoint(const Checkpoint& checkpoint, const std::string& path, uint64_t bytes, const TorchListing& out);
void listWeightsIndex(const WeightsIndex& index, const TorchListing& out);

}  // namespace tscompile
