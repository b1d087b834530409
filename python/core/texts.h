// Language models: what `tscompile build` makes, at work.
#pragma once

#include <nanobind/nanobind.h>

namespace tscompile::python {

void addTexts(nanobind::module_& m);

}  // namespace tscompile::python
