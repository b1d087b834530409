#include "ir/values/aten.h"

namespace tscompile::aten {

#define TS_ATEN(name) const Symbol name = Symbol::of("aten::" #name);
#define TS_ATEN_SPECIAL(name) const Symbol name##_ = Symbol::of("aten::__" #name "__");
#include "ir/values/aten_names.def"
#undef TS_ATEN
#undef TS_ATEN_SPECIAL

}  // namespace tscompile::aten
