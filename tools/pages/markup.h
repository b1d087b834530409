// Text of a model in pages: nothing in it is markup, and nothing of it hides.
#pragma once

#include <string>
#include <string_view>

namespace tscompile {

// At most about `most` bytes of a text, as valid UTF-8; controls and marks that turn the direction of writing are
// spelled out: "\u202e".
std::string shown(std::string_view text, size_t most = 200);
// The same with what HTML and SVG take for markup written as entities.
std::string escaped(std::string_view text, size_t most = 200);
// JSON that may stand in a <script> element.
std::string scriptSafe(std::string_view json);
// "1.23 ms", "45.6 µs", "2.10 s".
std::string timeText(double microseconds);
// "12.3" with three digits that count.
std::string number(double v);

}  // namespace tscompile
