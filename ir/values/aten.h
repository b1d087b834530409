// Kinds of nodes that the code names, as PyTorch spells them: aten::add. Not to be read before main() begins.
#pragma once

#include "ir/values/symbol.h"

namespace tscompile::aten {

#define TS_ATEN(name) extern const Symbol name;
#define TS_ATEN_SPECIAL(name) extern const Symbol name##_;  // getitem_ is aten::__getitem__
#include "ir/values/aten_names.def"
#undef TS_ATEN
#undef TS_ATEN_SPECIAL

}  // namespace tscompile::aten
