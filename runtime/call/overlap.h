// What operators say that write to a tensor whose memory another argument has a part of.
#pragma once

#include <string_view>

namespace tscompile {

inline constexpr std::string_view kOverlapRefused =
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation.";

}  // namespace tscompile
