#include "runtime/reference/list_order.h"

#include "runtime/call/run_context.h"
#include "runtime/reference/loops/scalars.h"

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

// What bool(a == b) or bool(a < b) of two tensors looks at: broadcasting gives one element only if both have one.
IValue onlyItem(const TensorImpl& a, const TensorImpl& b) {
  if (a.numel() == 1 && b.numel() == 1) return itemOf(a);
  bool none = a.numel() == 0 || b.numel() == 0;
  failRun(std::string("Boolean value of Tensor with ") + (none ? "no values" : "more than one value") +
          " is ambiguous");
}

enum class Order { Less, Equal, Greater, None };  // None: one is NaN

// What NaN does to an order.
enum class NaN { Incomparable, Last };

template <class T>
Order compare(const T& a, const T& b) {
  return a < b ? Order::Less : b < a ? Order::Greater : a == b ? Order::Equal : Order::None;
}

Order compareFloats(double a, double b, NaN nan) {
  Order o = compare(a, b);
  if (o != Order::None || nan == NaN::Incomparable) return o;
  return compare(std::isnan(a), std::isnan(b));
}

Order orderOf(const IValue& a, const IValue& b, NaN nan, int depth = 0) {
  constexpr int kMaxDepth = 64;
  if (a.isInt() && b.isInt()) return compare(a.toInt(), b.toInt());
  if (a.isNumber() && b.isNumber() && !a.isComplex() && !b.isComplex())
    return compareFloats(floatOf(a), floatOf(b), nan);
  if (a.isString() && b.isString()) return compare(a.toString(), b.toString());
  if (a.isTensor() && b.isTensor()) {
    const TensorImpl& x = tensorOf(a);
    const TensorImpl& y = tensorOf(b);
    return orderOf(onlyItem(x, y), onlyItem(y, x), nan, depth);
  }
  if (a.isTuple() && b.isTuple() && depth < kMaxDepth) {
    const auto& x = a.toTuple().items;
    const auto& y = b.toTuple().items;
    RunContext::current().checkInterrupt();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (Order o = orderOf(x[i], y[i], nan, depth + 1); o != Order::Equal) return o;
    return compare(x.size(), y.size());
  }
  failRun("values of type " + typeText(withoutRefinement(dynamicType(a))) + " and " +
          typeText(withoutRefinement(dynamicType(b))) + " are not comparable");
}

bool hasNaN(const IValue& v, int depth = 0) {
  if (v.isFloat()) return std::isnan(v.toFloat());
  if (v.isTensor() && v.tensorImpl() && v.tensorImpl()->numel() == 1) return hasNaN(itemOf(*v.tensorImpl()), depth);
  if (!v.isTuple() || depth > 64) return false;
  const auto& items = v.toTuple().items;
  return std::any_of(items.begin(), items.end(), [depth](const IValue& i) { return hasNaN(i, depth + 1); });
}

}  // namespace

bool itemsEqual(const IValue& a, const IValue& b) {
  return a.isTensor() && b.isTensor() ? orderOf(a, b, NaN::Incomparable) == Order::Equal : valuesEqual(a, b);
}

bool itemLess(const IValue& a, const IValue& b) { return orderOf(a, b, NaN::Incomparable) == Order::Less; }

void sortItems(std::vector<IValue>& items, bool descending) {
  // NaN has no order that std::sort could rely on. PyTorch uses it all the same; up to this length it sorts by
  // insertion, which is safe with any order, and the result is the same here.
  constexpr size_t kInsertion = 16;
  bool ordered =
      items.size() <= kInsertion || std::none_of(items.begin(), items.end(), [](const IValue& v) { return hasNaN(v); });
  NaN nan = ordered ? NaN::Incomparable : NaN::Last;
  std::sort(items.begin(), items.end(), [=](const IValue& a, const IValue& b) {
    RunContext::current().checkInterrupt();
    if (descending && a.isTuple()) return orderOf(b, a, nan) == Order::Less;
    Order o = orderOf(a, b, nan);
    return o != Order::Equal && (o == Order::Less) != descending;
  });
}

}  // namespace tscompile
