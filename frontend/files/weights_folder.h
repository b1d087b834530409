// Folders where a file of weights is wanted.
#pragma once

#include "ir/support/diagnostics.h"

#include <string>
#include <string_view>

namespace tscompile {

bool isDistributedCheckpoint(const std::string& folder);
inline constexpr std::string_view kDistributedCheckpoint =
    "it is a checkpoint of torch.distributed.checkpoint, of which dcp_to_torch_save makes one file of weights";

// Adds what of a folder holds weights.
void noteWeightsInside(const std::string& folder, Diagnostic& report);

// Whether it is a folder, which is reported with the file in it that holds weights.
bool refuseWeightsFolder(const std::string& path, Diagnostics& diagnostics);

}  // namespace tscompile
