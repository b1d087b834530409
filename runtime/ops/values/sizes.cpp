// Lists of sizes: what gradients and fused graphs compute with.
#include "ir/values/shape.h"
#include "runtime/call/kernel_call.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/scalars.h"

namespace tscompile {
namespace {

Dims sizesOf(const IValue& v) {
  Dims out;
  for (const IValue& item : listOf(v).items) out.push_back(intOf(item));
  return out;
}

size_t dimOf(const IValue& dim, size_t rank) {
  int64_t d = intOf(dim);
  if (rank == 0 || !wrapDim(d, static_cast<int64_t>(rank)))
    failRun(fmt::format("dimension {} is out of range for {} dimensions", intOf(dim), rank));
  return static_cast<size_t>(d);
}

void broadcast(Dims& result, const Dims& sizes) {
  if (!broadcastInto(result, sizes))
    failRun(fmt::format("sizes {} and {} cannot be broadcast to each other", dimsText(result), dimsText(sizes)));
}
void broadcastTwo(Arguments a, IValue& r) {
  Dims sizes = sizesOf(*a[0]);
  broadcast(sizes, sizesOf(*a[1]));
  r = intList(sizes);
}
void broadcastAll(KernelCall& call) {
  Dims sizes;
  for (size_t i = 0; i < call.size(); ++i) broadcast(sizes, sizesOf(call.argument(i)));
  call.setResult(intList(sizes));
}

// None if the sizes are equal: then nothing need be summed up.
void unlessEqual(Arguments a, IValue& r) {
  if (sizesOf(*a[0]) == sizesOf(*a[1]))
    r.reset();
  else
    r = *a[0];
}
void same(Arguments a, IValue& r) { r = *a[0]; }

void reduced(Arguments a, IValue& r) {
  Dims sizes = sizesOf(*a[0]), out;
  bool keep = boolOf(*a[2]);
  std::vector<bool> drop(sizes.size());
  for (const IValue& axis : listOf(*a[1]).items) drop[dimOf(axis, sizes.size())] = true;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (!drop[i] || keep) out.push_back(drop[i] ? 1 : sizes[i]);
  r = intList(out);
}

void squeezed(Arguments a, IValue& r) {
  Dims out;
  for (int64_t s : sizesOf(*a[0]))
    if (s != 1) out.push_back(s);
  r = intList(out);
}
void squeezedAt(Arguments a, IValue& r) {
  Dims sizes = sizesOf(*a[0]);
  size_t d = dimOf(*a[1], sizes.size());
  if (sizes[d] == 1) sizes.erase(d);
  r = intList(sizes);
}
void unsqueezed(Arguments a, IValue& r) {
  Dims sizes = sizesOf(*a[0]);
  sizes.insert(dimOf(*a[1], sizes.size() + 1), 1);
  r = intList(sizes);
}

struct SizeFunction {
  const char* schema;
  ScalarFunction function;
  TraitSet traits = {};
};
constexpr TraitSet kGiven{Trait::MayShare};  // the list that it was given
constexpr SizeFunction kSizeFunctions[] = {
    {"aten::Size", same, kGiven},
    {"aten::_infer_size", broadcastTwo},
    {"aten::broadcast_shapes", broadcastTwo},
    {"aten::_size_if_not_equal", unlessEqual, kGiven},
    {"prim::ReductionSizes", reduced},
    {"prim::infer_squeeze_size", squeezed},
    {"prim::infer_squeeze_size.dim", squeezedAt},
    {"prim::infer_unsqueeze_size", unsqueezed},
};

}  // namespace

void registerSizesOps(OpRegistry& ops) {
  for (const SizeFunction& e : kSizeFunctions) ops.add({.schema = e.schema, .scalar = e.function, .traits = e.traits});
  ops.add({.schema = "prim::BroadcastSizes", .kernel = broadcastAll});
}

}  // namespace tscompile
