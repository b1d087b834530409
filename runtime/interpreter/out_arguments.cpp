#include "runtime/interpreter/out_arguments.h"

#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/cpp_types.h"
#include "runtime/reference/resized_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>

namespace tscompile {
namespace {

// What dtype the target may have.
enum class OutRule : uint8_t {
  Any,
  Cast,             // one that the result can be cast to
  Same,             // that of the result
  SameUnlessReal,   // Same, but Cast where the result is the real part or the like of complex numbers
  CastUnlessAsked,  // Cast, but Same where the argument `dtype` is given
  BoolOrByte,
  Complex,
  Floating,
  Inexact,             // Complex or Floating
  FloatingOfFloating,  // Floating, but Any where the argument is integers
};

struct OutDTypes {
  OutRule rule;
  std::string_view words;
};

const std::unordered_map<std::string_view, OutDTypes>& namedRules() {
  static const auto* table = [] {
    auto* made = new std::unordered_map<std::string_view, OutDTypes>;
    auto add = [&](OutDTypes rule, std::string_view names) {
      while (!names.empty()) {
        const size_t end = std::min(names.find(' '), names.size());
        made->emplace(names.substr(0, end), rule);
        names.remove_prefix(std::min(end + 1, names.size()));
      }
    };
#define OUT(rule, words, operators) add({OutRule::rule, words}, operators);
#include "runtime/interpreter/out_dtypes.def"
#undef OUT
    return made;
  }();
  return *table;
}

OutDTypes rulesOf(const Operator& op) {
  const auto& named = namedRules();
  const std::string_view name = op.kind().name();
  if (auto it = named.find(fmt::format("{}.{}", name, op.overload())); it != named.end()) return it->second;
  if (auto it = named.find(name); it != named.end()) return it->second;
  return {op.has(Trait::Elementwise) ? OutRule::Cast : OutRule::Same, ""};
}

bool isAsked(const Operator& op, const IValue* const* arguments, size_t count) {
  const std::optional<size_t> at = op.schema().argumentIndex("dtype");
  return at && *at < count && !arguments[*at]->isNone();
}

bool allows(OutRule rule, DType self, DType result, DType out) {
  switch (rule) {
    case OutRule::Any:
      return true;
    case OutRule::Cast:
      return canCast(result, out);
    case OutRule::Same:
      return result == out;
    case OutRule::SameUnlessReal:
      return isComplex(self) && !isComplex(result) ? canCast(result, out) : result == out;
    case OutRule::CastUnlessAsked:
      return canCast(result, out);
    case OutRule::BoolOrByte:
      return out == DType::Bool || out == DType::UInt8;
    case OutRule::Complex:
      return isComplex(out);
    case OutRule::Floating:
      return isFloating(out);
    case OutRule::Inexact:
      return isFloating(out) || isComplex(out);
    case OutRule::FloatingOfFloating:
      return isFloating(out) || !isFloating(self);
  }
  TS_UNREACHABLE();
}

void checkOutDType(const Operator& op, const IValue* const* arguments, size_t count, DType result, DType out) {
  if (result == out) return;
  OutDTypes rules = rulesOf(op);
  if (rules.rule == OutRule::CastUnlessAsked && isAsked(op, arguments, count)) rules.rule = OutRule::Same;
  const bool hasSelf = count && arguments[0]->isTensor() && arguments[0]->tensorImpl();
  if (allows(rules.rule, hasSelf ? arguments[0]->tensorImpl()->dtype() : result, result, out)) return;
  std::string_view words = rules.words;
  if (words.empty())
    words = rules.rule == OutRule::Same ? "Expected out tensor to have dtype {2}, but got {3} instead"
                                        : "result type {0} can't be cast to the desired output type {1}";
  throw ExecutionError(ErrorKind::Model, fmt::format(fmt::runtime(words), graphName(result), graphName(out),
                                                     cppName(result), cppName(out)));
}

// What joins tensors writes into none of them.
void checkJoined(std::span<const IValue> joined, const IValue& target) {
  for (const IValue& v : joined)
    if (v.isTensor() && v.tensorImpl() &&
        (v.tensorImpl() == target.tensorImpl() || memoryOverlaps(target.toTensor(), v.toTensor())))
      throw ExecutionError(ErrorKind::Model,
                           "unsupported operation: some elements of the input tensor and the written-to tensor refer "
                           "to a single memory location. Please clone() the tensor before performing the operation.");
}

}  // namespace

IntoArguments::IntoArguments(const Operator& op, const IValue* const* arguments, size_t count) {
  static constexpr std::string_view kSums[] = {"sum", "prod", "cumsum", "cumprod"};
  if (op.outCount() != 1 || std::ranges::find(kSums, op.kind().name()) == std::end(kSums)) return;
  const std::optional<size_t> at = op.schema().argumentIndex("dtype");
  if (!at || *at >= count || !arguments[*at]->isNone() || !arguments[count]->isTensor()) return;
  const TensorImpl* target = arguments[count]->tensorImpl();
  if (!target) return;
  dtype_ = IValue(static_cast<int64_t>(target->dtype()));
  changed_.assign(arguments, arguments + count + 1);
  changed_[*at] = &dtype_;
}

void checkOut(const Operator& op, const IValue* const* arguments, size_t count, const IValue& target,
              const IValue& value) {
  const TensorImpl *to = target.tensorImpl(), *from = value.tensorImpl();
  checkOutDType(op, arguments, count, from->dtype(), to->dtype());
  if (count && arguments[0]->isList()) checkJoined(arguments[0]->toList().items, target);
  if (!op.has(Trait::Elementwise) || std::ranges::equal(to->sizes(), from->sizes())) return;
  for (size_t i = 0; i < count; ++i)
    if (arguments[i]->isTensor() && arguments[i]->tensorImpl() == to)
      throw ExecutionError(ErrorKind::Model, fmt::format("output with shape {} doesn't match the broadcast shape {}",
                                                         dimsText(to->sizes()), dimsText(from->sizes())));
}

}  // namespace tscompile
