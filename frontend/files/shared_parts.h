// What attributes of a module share, as files tell it: memory of tensors, lists, dicts and objects that two attributes
// are. Weights have it in their metadata.
#pragma once

#include "frontend/files/weights.h"
#include "ir/support/diagnostics.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tscompile {

// "memory:PATH" = "NAME", the tensor of that name itself, or "NAME OFFSET SIZES STRIDES", a view of its elements.
inline constexpr std::string_view kMemoryOf = "memory:";
// "same:PATH" = "OTHER": the list, dict or object at that path.
inline constexpr std::string_view kSameAs = "same:";

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Of the first `count` tensors, those that share memory are taken out, but for one that has all of it, or one more
// under a name of `newName` where none has; metadata says what they are. False after a report.
bool takeSharedMemory(NamedTensors& tensors, size_t count, const std::function<std::string()>& newName,
                      Metadata& metadata, Diagnostics& diagnostics);

// Adds the tensors that were taken out. False after a report.
bool restoreSharedMemory(Weights& weights, Diagnostics& diagnostics);

// Whether metadata tells of anything that is shared.
bool tellsOfSharing(const Metadata& metadata);

}  // namespace tscompile
