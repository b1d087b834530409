#include "runtime/call/quantized_arguments.h"

namespace tscompile {

bool takesQuantized(const IValue* const* arguments, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const IValue* v = arguments[i];
    if (v->isList() && !v->toList().items.empty()) v = &v->toList().items[0];
    if (v->isTensor() && v->tensorImpl()) return isQuantized(v->tensorImpl()->dtype());
  }
  return false;
}

}  // namespace tscompile
