// Values between Python and tscompile.
#pragma once

#include "api/binding/problem.h"
#include "ir/values/ivalue.h"

#include <nanobind/nanobind.h>

namespace tscompile::python {

// Numbers, texts, lists, tuples, dicts and mappings, anything with the buffer protocol or DLPack. `expected` (may be
// null) tells whether an array without dimensions is to be a number. Throws Python errors.
IValue fromPython(nanobind::handle object, TypePtr expected, int depth = 0);
nanobind::object toPython(const IValue& value);

// Raises tscompile.Error or the one of its subclasses that the kind has, with what was reported, and what it came of.
[[noreturn]] void raise(const Diagnostics& diagnostics, const SourceName& name, nanobind::object cause = {});
// What a command would have warned of, as warnings of Python at the caller of the function of Python that called;
// raises where they are made errors.
void warn(const Diagnostics& diagnostics, const SourceName& name);
// Texts as Python has them, whatever bytes they hold.
nanobind::str textOf(const std::string& text);

}  // namespace tscompile::python
