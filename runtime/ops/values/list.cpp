// Lists: Python's methods, and the functions that take lists.
#include "runtime/call/run_context.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/list_order.h"
#include "runtime/reference/loops/numbers.h"
#include "runtime/reference/loops/scalars.h"
#include "runtime/reference/loops/slices.h"
#include "runtime/reference/text_format.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

using Items = std::vector<IValue>;

// An empty list with room for `count` items.
Ref<ListValue> newList(TypePtr element, size_t count) {
  auto list = Ref<ListValue>::make(element, Items());
  list->grow(count);
  return list;
}

size_t indexIn(const Items& items, const IValue& index) {
  int64_t i = positionOf(intOf(index), items.size());
  if (i < 0) failRun("list index out of range");
  return static_cast<size_t>(i);
}

// ---- elements ----

void getListItem(Arguments a, IValue& r) {
  const Items& items = listOf(*a[0]).items;
  // The result may be the slot that holds the list.
  IValue item = items[indexIn(items, *a[1])];
  r = std::move(item);
}
void setListItem(Arguments a, IValue& r) {
  Items& items = changedList(*a[0]).items;
  items[indexIn(items, *a[1])] = *a[2];
  r = *a[0];
}
void append(Arguments a, IValue& r) {
  ListValue& list = changedList(*a[0]);
  list.grow(1);
  list.items.push_back(*a[1]);
  r = *a[0];
}
void insert(Arguments a, IValue&) {
  ListValue& list = changedList(*a[0]);
  auto n = static_cast<int64_t>(list.items.size());
  int64_t i = intOf(*a[1]);
  if (i < 0) i = i < -n ? 0 : i + n;
  list.grow(1);
  list.items.insert(list.items.begin() + std::min(i, n), *a[2]);
}
IValue take(const IValue& from, const IValue& index, const char* ifEmpty) {
  Items& items = changedList(from).items;
  if (items.empty()) failRun(ifEmpty);
  auto at = items.begin() + static_cast<ptrdiff_t>(indexIn(items, index));
  IValue item = std::move(*at);
  items.erase(at);
  return item;
}
void popFromList(Arguments a, IValue& r) { r = take(*a[0], *a[1], "pop from empty list"); }
void deleteItem(Arguments a, IValue&) { take(*a[0], *a[1], "pop index out of range"); }

// ---- whole lists ----

void listLength(Arguments a, IValue& r) { r = static_cast<int64_t>(listOf(*a[0]).items.size()); }
void clearList(Arguments a, IValue&) { Items().swap(changedList(*a[0]).items); }
void reverse(Arguments a, IValue&) {
  Items& items = changedList(*a[0]).items;
  std::reverse(items.begin(), items.end());
}

void addItems(ListValue& list, const ListValue& more) {
  size_t count = more.items.size();  // they may be the same list
  list.grow(count);
  for (size_t i = 0; i < count; ++i) list.items.push_back(more.items[i]);
}
void extend(Arguments a, IValue&) { addItems(changedList(*a[0]), listOf(*a[1])); }
void addInPlace(Arguments a, IValue& r) {
  extend(a, r);
  r = *a[0];
}
void copyList(Arguments a, IValue& r) {
  const ListValue& list = listOf(*a[0]);
  auto out = newList(list.elementType, list.items.size());
  addItems(*out, list);
  r = IValue(std::move(out));
}
void addLists(Arguments a, IValue& r) {
  const ListValue& x = listOf(*a[0]);
  const ListValue& y = listOf(*a[1]);
  // Nobody else sees a list that the sum takes the place of: PyTorch adds to it as well.
  if (a[0] == &r && x.unique()) return addItems(r.toList(), y);
  auto out = newList(x.elementType, x.items.size() + y.items.size());
  addItems(*out, x);
  addItems(*out, y);
  r = IValue(std::move(out));
}
void sliceList(Arguments a, IValue& r) {
  const ListValue& list = listOf(*a[0]);
  Slice s = sliceOf(*a[1], *a[2], *a[3], list.items.size());
  auto out = newList(list.elementType, static_cast<size_t>(s.count));
  if (s.step == 1 && s.count)
    out->items.assign(list.items.begin() + s.start, list.items.begin() + s.start + s.count);
  else
    for (int64_t k = 0; k < s.count; ++k) out->items.push_back(list.items[static_cast<size_t>(s.start + k * s.step)]);
  r = IValue(std::move(out));
}

// Adds a list to another `times` times.
void addRepeated(ListValue& out, const Items& items, int64_t times) {
  size_t total;
  if (__builtin_mul_overflow(items.size(), static_cast<size_t>(times), &total)) total = SIZE_MAX - out.items.size();
  out.grow(total);
  for (int64_t k = 0; k < times && !items.empty(); ++k) {
    out.items.insert(out.items.end(), items.begin(), items.end());
    RunContext::current().checkInterrupt(static_cast<int64_t>(items.size()));
  }
}
void repeat(const IValue& listValue, const IValue& times, IValue& r) {
  const ListValue& list = listOf(listValue);
  int64_t n = intOf(times);
  if (n < 0 && !list.items.empty()) failRun(fmt::format("a list cannot be repeated {} times", n));
  auto out = newList(list.elementType, 0);
  addRepeated(*out, list.items, std::max<int64_t>(n, 0));
  r = IValue(std::move(out));
}
void mulLeft(Arguments a, IValue& r) { repeat(*a[0], *a[1], r); }
void mulRight(Arguments a, IValue& r) { repeat(*a[1], *a[0], r); }
void mulInPlace(Arguments a, IValue& r) {
  ListValue& list = changedList(*a[0]);
  int64_t n = intOf(*a[1]);
  if (n <= 0)
    Items().swap(list.items);
  else
    addRepeated(list, Items(list.items), n - 1);
  r = *a[0];
}
void rangeList(Arguments a, IValue& r) {
  int64_t n = intOf(*a[0]);
  if (n < 0) failRun(fmt::format("a list cannot have {} items", n));
  auto out = newList(types().integer, static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) out->items.emplace_back(i);
  r = IValue(std::move(out));
}
void charactersOf(Arguments a, IValue& r) {
  const std::string& text = stringOf(*a[0]);
  auto out = newList(types().string, text.size());
  for (char c : text) out->items.emplace_back(std::string(1, c));
  r = IValue(std::move(out));
}

// ---- search ----

// Items of primitive types, or tensors of one element.
// Lists of integers are compared without a call for each, which takes four times as long.
bool isItem(const IValue& a, const IValue& b) {
  return a.isInt() && b.isInt() ? a.toInt() == b.toInt() : itemsEqual(a, b);
}
size_t find(const Items& items, const IValue& wanted) {
  for (size_t i = 0; i < items.size(); ++i)
    if (isItem(items[i], wanted)) return i;
  return items.size();
}
void isInList(Arguments a, IValue& r) {
  const Items& items = listOf(*a[0]).items;
  r = find(items, *a[1]) != items.size();
}
// As a stream of C++ writes it.
std::string streamed(const IValue& v) {
  if (v.isBool()) return v.toBool() ? "1" : "0";
  return v.isFloat() ? fmt::format("{:g}", v.toFloat()) : shortText(v, 80);
}
void index(Arguments a, IValue& r) {
  const Items& items = listOf(*a[0]).items;
  size_t i = find(items, *a[1]);
  if (i == items.size()) failRun("'" + streamed(*a[1]) + "' is not in list");
  r = static_cast<int64_t>(i);
}
void countInList(Arguments a, IValue& r) {
  const Items& items = listOf(*a[0]).items;
  r = static_cast<int64_t>(
      std::count_if(items.begin(), items.end(), [&](const IValue& v) { return isItem(v, *a[1]); }));
}
void remove(Arguments a, IValue&) {
  Items& items = changedList(*a[0]).items;
  size_t i = find(items, *a[1]);
  if (i == items.size()) failRun("list.remove(x): x not in list");
  items.erase(items.begin() + static_cast<ptrdiff_t>(i));
}

// ---- order ----

void sort(Arguments a, IValue&) { sortItems(changedList(*a[0]).items, boolOf(*a[1])); }
void sorted(Arguments a, IValue& r) {
  copyList(a, r);
  sortItems(r.toList().items, false);
}

// ---- comparison and reduction ----

template <bool kEqual>
void equal(Arguments a, IValue& r) {
  const Items &x = listOf(*a[0]).items, &y = listOf(*a[1]).items;
  r = std::equal(x.begin(), x.end(), y.begin(), y.end(), isItem) == kEqual;
}
// A list of numbers is equal to itself, though NaN is not.
template <bool kEqual>
void equalNumbers(Arguments a, IValue& r) {
  if (&listOf(*a[0]) == &listOf(*a[1]))
    r = kEqual;
  else
    equal<kEqual>(a, r);
}
// The lesser (greater) of two lists in the order of dictionaries.
template <bool kMin>
void extremeList(Arguments a, IValue& r) {
  const Items& left = listOf(*a[0]).items;
  const Items& right = listOf(*a[1]).items;
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (itemsEqual(left[i], right[i])) continue;
    bool takeRight = kMin ? itemLess(right[i], left[i]) : itemLess(left[i], right[i]);
    r = *a[takeRight ? 1 : 0];
    return;
  }
  bool takeLeft = kMin ? left.size() < right.size() : left.size() > right.size();
  r = *a[takeLeft ? 0 : 1];
}
template <bool kMin>
void extreme(Arguments a, IValue& r) {
  const Items& items = listOf(*a[0]).items;
  if (items.empty()) failRun(kMin ? "min() arg is an empty sequence" : "max() arg is an empty sequence");
  const IValue* best = &items[0];
  for (const IValue& v : items)
    if (kMin ? itemLess(v, *best) : itemLess(*best, v)) best = &v;
  IValue result = *best;
  r = std::move(result);
}

// PyTorch sums integers up in 32 bits.
void sumInts(Arguments a, IValue& r) {
  int64_t sum = 0;
  for (const IValue& v : listOf(*a[0]).items) sum = wrapAdd(sum, intOf(v));
  r = static_cast<int64_t>(static_cast<int32_t>(sum));
}
void sumFloats(Arguments a, IValue& r) {
  double sum = 0;
  for (const IValue& v : listOf(*a[0]).items) sum += floatOf(v);
  r = sum;
}
void sumComplex(Arguments a, IValue& r) {
  Complex128 sum;
  for (const IValue& v : listOf(*a[0]).items) sum += complexOf(v);
  r = IValue(sum);
}
bool isTrueItem(const IValue& v) {
  return v.isString() ? !v.toString().empty() : v.isFloat() ? v.toFloat() != 0 : intOf(v) != 0;
}
void any(Arguments a, IValue& r) {
  const Items& items = listOf(*a[0]).items;
  r = std::any_of(items.begin(), items.end(), isTrueItem);
}
void all(Arguments a, IValue& r) {
  const Items& items = listOf(*a[0]).items;
  r = std::all_of(items.begin(), items.end(), isTrueItem);
}

struct ListMethod {
  const char* kind;
  ScalarFunction function;
  std::initializer_list<const char*> overloads;
  ContainerUse container = ContainerUse::None;
  TraitSet traits = {};
};
// What a list holds need not be known: tensors in it may have no elements yet.
constexpr TraitSet kMoves{Trait::ReadsGeometry};
using Use = ContainerUse;
const ListMethod kListMethods[] = {
    {"aten::__getitem__", getListItem, {"t"}, Use::Take, kMoves},
    {"aten::select", getListItem, {"t"}, Use::Take, kMoves},
    {"aten::_set_item", setListItem, {"t"}, Use::Put, kMoves},
    {"aten::append", append, {"t"}, Use::Put, kMoves},
    {"aten::insert", insert, {"t"}, Use::Put, kMoves},
    {"aten::pop", popFromList, {"t"}, Use::Take, kMoves},
    {"aten::Delete", deleteItem, {"t"}, Use::None, kMoves},
    {"aten::len", listLength, {"t", "any"}, Use::None, kMoves},
    {"aten::clear", clearList, {"t"}, Use::None, kMoves},
    {"aten::reverse", reverse, {"t"}, Use::None, kMoves},
    {"aten::extend", extend, {"t"}, Use::PutAll, kMoves},
    {"aten::add_", addInPlace, {"t"}, Use::PutAll, kMoves},
    {"aten::copy", copyList, {"t"}, Use::Rebuild, kMoves},
    {"aten::list", copyList, {"t"}, Use::Rebuild, kMoves},
    {"aten::list", charactersOf, {""}},
    {"aten::add", addLists, {"t"}, Use::Rebuild, kMoves},
    {"aten::slice", sliceList, {"t"}, Use::Rebuild, kMoves},
    {"aten::mul", mulLeft, {"left_t"}, Use::Rebuild, kMoves},
    {"aten::mul", mulRight, {"right_"}, Use::Rebuild, kMoves},
    {"aten::mul_", mulInPlace, {"t"}, Use::None, kMoves},
    {"aten::__contains__", isInList, {"int_list", "str_list", "float_list"}, Use::None, {Trait::DependsOnElements}},
    {"aten::index", index, {"list_int", "list_float", "list_bool", "list_str", "list_Tensor"}},
    {"aten::count", countInList, {"int", "float", "bool", "str", "Tensor"}},
    {"aten::remove", remove, {"int", "float", "bool", "str", "Tensor"}},
    {"aten::sort", sort, {"int", "float", "bool", "str", "Tensor", "any"}},
    {"aten::sorted", sorted, {"int", "float", "bool", "str", "Tensor", "any"}, Use::Rebuild},
    {"aten::eq", equal<true>, {"int_list", "bool_list", "str_list", "Tensor_list"}},
    {"aten::ne", equal<false>, {"int_list", "bool_list", "str_list", "Tensor_list"}},
    {"aten::eq", equalNumbers<true>, {"float_list"}, Use::None, {Trait::ComparesObjects}},
    {"aten::ne", equalNumbers<false>, {"float_list"}, Use::None, {Trait::ComparesObjects}},
    // One of the two lists.
    {"prim::min", extremeList<true>, {"int_list", "float_list", "bool_list"}, Use::None, {Trait::MayShare}},
    {"prim::max", extremeList<false>, {"int_list", "float_list", "bool_list"}, Use::None, {Trait::MayShare}},
    {"prim::min", extreme<true>, {"self_int", "self_float", "self_bool"}},
    {"prim::max", extreme<false>, {"self_int", "self_float", "self_bool"}},
    {"aten::sum", sumInts, {"int", "bool"}},
    {"aten::sum", sumFloats, {"float"}},
    {"aten::sum", sumComplex, {"complex"}},
    {"aten::any", any, {"int", "float", "bool", "str"}},
    {"aten::all", all, {"int", "float", "bool"}},
    {"prim::rangelist", rangeList, {""}},
};

}  // namespace

void registerListOps(OpRegistry& ops) {
  for (const ListMethod& e : kListMethods)
    for (const char* overload : e.overloads) {
      std::string schema = e.kind;
      if (*overload) schema.append(".").append(overload);
      ops.add(
          {.schema = Symbol::of(schema).text(), .scalar = e.function, .traits = e.traits, .container = e.container});
    }
}

}  // namespace tscompile
