// Regions of `torch.vmap` in programs that were not decomposed: what is between the marks of their begin and end runs
// for each element of a batch.
#pragma once

#include "frontend/export/export_builder.h"

#include <functional>
#include <span>

namespace tscompile::exported {

// Whether the node begins a region.
bool beginsVmap(Json node);
// Whether the node only prepares PyTorch for regions.
bool isVmapRemark(std::string_view target);
// Reads the region that `nodes` begin with. `readAll` reads what is inside. How many nodes it has, 0 after a report.
size_t readVmapRegion(ExportBuilder& builder, std::span<const Json> nodes,
                      const std::function<bool(std::span<const Json>)>& readAll);

}  // namespace tscompile::exported
