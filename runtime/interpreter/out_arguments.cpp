#include "runtime/interpreter/out_arguments.h"

#include "runtime/call/overlap.h"
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

// Rules of operators by their names, or by those of their overloads, such as "lerp.Scalar_out".
template <class Rule>
class NamedRules {
 public:
  void add(const Rule& rule, std::string_view names) {
    while (!names.empty()) {
      const size_t end = std::min(names.find(' '), names.size());
      rules_.emplace(names.substr(0, end), rule);
      names.remove_prefix(std::min(end + 1, names.size()));
    }
  }
  const Rule* find(std::string_view name, std::string_view overload) const {
    auto it = rules_.find(fmt::format("{}.{}", name, overload));
    if (it == rules_.end()) it = rules_.find(name);
    return it == rules_.end() ? nullptr : &it->second;
  }

 private:
  std::unordered_map<std::string_view, Rule> rules_;
};

const NamedRules<OutDTypes>& dtypeRules() {
  static const auto* table = [] {
    auto* made = new NamedRules<OutDTypes>;
#define OUT(rule, words, operators) made->add({OutRule::rule, words}, operators);
#include "runtime/interpreter/out_dtypes.def"
#undef OUT
    return made;
  }();
  return *table;
}

const NamedRules<std::string_view>& overlapRules() {
  static const auto* table = [] {
    auto* made = new NamedRules<std::string_view>;
#define OVERLAP(rule, operators) made->add(rule, operators);
#include "runtime/interpreter/out_overlaps.def"
#undef OVERLAP
    return made;
  }();
  return *table;
}

OutDTypes rulesOf(const Operator& op) {
  if (const OutDTypes* rule = dtypeRules().find(op.kind().name(), op.overload())) return *rule;
  return {op.has(Trait::Elementwise) ? OutRule::Cast : OutRule::Same, ""};
}

// One letter for each argument, see out_overlaps.def.
std::string_view overlapRule(const Operator& op, bool joins) {
  std::string_view name = op.kind().name();
  if (const std::string_view* rule = overlapRules().find(name, op.overload())) return *rule;
  if (op.isInPlaceVariant()) {
    name.remove_suffix(1);
    if (const std::string_view* rule = overlapRules().find(name, op.overload())) return *rule;
  }
  if (joins) return "A";
  const bool readsAsItWrites = op.isInPlaceVariant() && op.def().inplace == InPlace::Direct;
  return op.has(Trait::Elementwise) || readsAsItWrites ? "p" : "-";
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

}  // namespace

IntoArguments::IntoArguments(const Operator& op, const IValue* const* arguments, size_t count) {
  static constexpr std::string_view kSums[] = {"sum", "prod", "cumsum", "cumprod"};
  if (op.outCount() != 1 || std::ranges::find(kSums, op.kind().name()) == std::end(kSums)) return;
  if (!op.schema().argumentIndex("dim")) return;  // the sum of all elements stays what it is
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
  checkOverlaps(op, arguments, count, target, OutSizes::Given);
  if (!op.has(Trait::Elementwise) || std::ranges::equal(to->sizes(), from->sizes())) return;
  for (size_t i = 0; i < count; ++i)
    if (arguments[i]->isTensor() && arguments[i]->tensorImpl() == to)
      throw ExecutionError(ErrorKind::Model, fmt::format("output with shape {} doesn't match the broadcast shape {}",
                                                         dimsText(to->sizes()), dimsText(from->sizes())));
}

void checkOverlaps(const Operator& op, const IValue* const* arguments, size_t count, const IValue& target,
                   OutSizes sizes) {
  const Tensor& to = target.toTensor();
  std::string_view rules;
  auto ruleAt = [&](size_t argument) {
    if (rules.empty()) rules = overlapRule(op, arguments[0]->isList());
    const char rule = rules[std::min(argument, rules.size() - 1)], lower = rule | ('a' ^ 'A');
    if (sizes == OutSizes::Final) return lower;
    return (sizes == OutSizes::Given) == (rule == lower) ? lower : '-';
  };
  auto check = [&](size_t argument, const IValue& v) {
    if (!v.isTensor() || !v.tensorImpl()) return;
    const Tensor from = v.toTensor();
    const bool isTarget = v.tensorImpl() == target.tensorImpl();
    if (!isTarget && !memoryOverlaps(to, from)) return;
    switch (ruleAt(argument)) {
      case '-':
        return;
      case 'e':
        if (!std::ranges::equal(to.sizes(), from.sizes())) return;
        [[fallthrough]];
      case 'p':
        if (isTarget || sameElements(to, from)) return;
    }
    throw ExecutionError(ErrorKind::Model, std::string(kOverlapRefused));
  };
  if (sizes != OutSizes::Final && count && repeatsElements(to.sizes(), to.strides()) && ruleAt(0) != '-')
    requireWritable(to);
  for (size_t i = op.isInPlaceVariant() ? 1 : 0; i < count; ++i) {
    if (!arguments[i]->isList())
      check(i, *arguments[i]);
    else
      for (const IValue& v : arguments[i]->toList().items) check(i, v);
  }
}

}  // namespace tscompile
