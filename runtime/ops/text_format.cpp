#include "runtime/ops/text_format.h"

#include "ir/literal.h"

namespace tscompile {

std::string pythonText(const IValue& value) {
  if (value.isString()) return value.toString();
  return valueText(value, LiteralStyle::Plain);
}

}  // namespace tscompile
