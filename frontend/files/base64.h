// Bytes that JSON files write as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tscompile {

// What a text in base64 stands for; nothing if it is none.
std::optional<std::string> bytesOfBase64(std::string_view text);

}  // namespace tscompile
