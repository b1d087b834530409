// The tables that composites are made of.
#pragma once

#include <span>
#include <string_view>

namespace tscompile::exported {

struct CompositeText {
  std::string_view schema;
  std::string_view body;  // graph text; the arguments are inputs by their names
};
struct OtherName {
  std::string_view from, to;
};

// The primitives that everything becomes where all known decompositions are asked for.
std::span<const CompositeText> primitiveTexts();
std::span<const OtherName> primitiveNames();

}  // namespace tscompile::exported
