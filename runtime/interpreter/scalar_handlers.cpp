// Instructions of their own for the operators on numbers that loops are made of: one indirect call less than the
// others.
#include "runtime/interpreter/program_compiler.h"
#include "runtime/reference/loops/numbers.h"
#include "runtime/reference/loops/scalars.h"

#include <functional>
#include <unordered_map>

namespace tscompile {
namespace {

const Instruction* general(Machine& m, const Instruction* in) {
  const IValue* arguments[] = {m.slots + in->slots[0], m.slots + in->slots[1]};
  in->scalar(arguments, m.slots[in->slots[2]]);
  return in + 1;
}

template <auto kF>
const Instruction* onInts(Machine& m, const Instruction* in) {
  const IValue& a = m.slots[in->slots[0]];
  const IValue& b = m.slots[in->slots[1]];
  if (!a.isInt() || !b.isInt()) [[unlikely]]
    return general(m, in);
  m.slots[in->slots[2]] = kF(a.toInt(), b.toInt());
  return in + 1;
}

template <auto kF>
const Instruction* onFloats(Machine& m, const Instruction* in) {
  const IValue& a = m.slots[in->slots[0]];
  const IValue& b = m.slots[in->slots[1]];
  if (!a.isFloat() || !b.isFloat()) [[unlikely]]
    return general(m, in);
  m.slots[in->slots[2]] = kF(a.toFloat(), b.toFloat());
  return in + 1;
}

template <auto... kFs>
void addInts(std::unordered_map<ScalarFunction, Handler>& handlers) {
  (handlers.emplace(intOperator<kFs>, onInts<kFs>), ...);
}
template <auto... kFs>
void addFloats(std::unordered_map<ScalarFunction, Handler>& handlers) {
  (handlers.emplace(floatOperator<kFs>, onFloats<kFs>), ...);
}

}  // namespace

Handler scalarHandler(ScalarFunction function) {
  static const auto kHandlers = [] {
    std::unordered_map<ScalarFunction, Handler> handlers;
    addInts<wrapAdd, wrapSub, wrapMul, std::less<int64_t>{}, std::less_equal<int64_t>{}, std::greater<int64_t>{},
            std::greater_equal<int64_t>{}, std::equal_to<int64_t>{}, std::not_equal_to<int64_t>{}>(handlers);
    addFloats<std::plus<double>{}, std::minus<double>{}, std::multiplies<double>{}, std::less<double>{},
              std::greater<double>{}>(handlers);
    return handlers;
  }();
  auto it = kHandlers.find(function);
  return it == kHandlers.end() ? nullptr : it->second;
}

}  // namespace tscompile
