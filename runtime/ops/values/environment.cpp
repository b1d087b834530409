// What a model asks of its surroundings: devices, modes, the random generator, warnings. And what is left of gradients
// and of optional values in inference graphs.
#include "runtime/call/caller_function.h"
#include "runtime/call/kernel_call.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/scalars.h"

#include <chrono>

namespace tscompile {
namespace {

template <bool kAnswer>
void answer(Arguments, IValue& r) {
  r = kAnswer;
}
void answerNoForAll(KernelCall& call) { call.setResult(false); }

// ---- devices ----

IValue namedDevice(const std::string& text) {
  std::optional<Device> device = deviceFromText(text);
  if (!device) failRun("unknown device '" + text.substr(0, 80) + "'");
  return *device;
}
void deviceOfText(Arguments a, IValue& r) { r = namedDevice(stringOf(*a[0])); }
void deviceWithIndex(Arguments a, IValue& r) { r = namedDevice(fmt::format("{}:{}", stringOf(*a[0]), intOf(*a[1]))); }
void deviceKind(Arguments a, IValue& r) { r = IValue(deviceText(Device{deviceOf(*a[0]).kind, -1})); }
void deviceIndex(Arguments a, IValue& r) {
  int64_t index = deviceOf(*a[0]).index;
  if (index < 0)
    r.reset();
  else
    r = index;
}

// ---- modes and effects ----

// Of regions of autocast that name none.
void autocastDType(Arguments a, IValue& r) {
  std::optional<Device> device = deviceFromText(stringOf(*a[0]));
  if (!device) failRun("unknown device '" + stringOf(*a[0]).substr(0, 80) + "'");
  const bool isCpu = deviceText(Device{device->kind, -1}) == "cpu";
  r = static_cast<int64_t>(isCpu ? DType::BFloat16 : DType::Float16);
}

void isGradEnabled(KernelCall& call) { call.setResult(call.context().gradEnabled); }
void setGradEnabled(KernelCall& call) { call.context().gradEnabled = boolOf(call.argument(0)); }
void manualSeed(KernelCall& call) { call.context().random().seed(static_cast<uint64_t>(intOf(call.argument(0)))); }
void warn(KernelCall& call) {
  if (const auto& sink = call.context().options().warn)
    callCallers(sink, "the function that takes warnings", stringOf(call.argument(0)));
}
void timePoint(Arguments, IValue& r) {
  r = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
void doNothing(Arguments, IValue&) {}

// Marks for PyTorch's profiler around a part of a model.
void beginMark(Arguments, IValue& r) {
  r = IValue(Ref<ObjectValue>::make(classType("__torch__.torch.classes.profiler._RecordFunction")));
}
void beginOldMark(Arguments, IValue& r) { r = Tensor::zeros(DType::Float32, {1}); }

// ---- optional values, selection ----

void unwrap(Arguments a, IValue& r) {
  if (a[0]->isNone()) failRun("unwrapping null optional");
  r = *a[0];
}
void select(Arguments a, IValue& r) { r = boolOf(*a[0]) ? *a[1] : *a[2]; }
void identityNumber(Arguments a, IValue& r) {
  // Not the address: results would differ from run to run.
  r = a[0]->isNone() ? int64_t{0} : int64_t{1};
}

// What torchvision answers where it was built without CUDA.
void noVersion(Arguments, IValue& r) { r = int64_t{-1}; }

// ---- gradients: undefined tensors stand for zero ----

bool isDefined(const IValue& v) {
  auto isTensor = [](const IValue& item) { return item.isTensor() && item.tensorImpl(); };
  return v.isList() ? std::ranges::any_of(v.toList().items, isTensor) : isTensor(v);
}
void zeroGradient(Arguments, IValue& r) { r = IValue(Tensor()); }
void anyDefined(KernelCall& call) {
  bool any = false;
  for (size_t i = 0; i < call.size(); ++i) any |= isDefined(call.argument(i));
  call.setResult(any);
}
template <bool kDefined>
void allAre(KernelCall& call) {
  bool all = true;
  for (size_t i = 0; i < call.size(); ++i) all &= isDefined(call.argument(i)) == kDefined;
  call.setResult(all);
}
void addGradients(KernelCall& call) {
  const IValue& a = call.argument(0);
  const IValue& b = call.argument(1);
  if (isDefined(a) && isDefined(b))
    call.setResult(invoke(call, "aten::add.Tensor", {a, b, IValue(1)}));
  else
    call.setResult(isDefined(a) ? a : isDefined(b) ? b : IValue(Tensor()));
}

// ---- tensors, then a dimension, as separate arguments ----

template <const char* kOperator>
void joined(KernelCall& call) {
  call.require(call.size() > 0, "expected tensors and a dimension");
  size_t count = call.size() - 1;
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < count; ++i) tensors.push_back(call.tensor(i));
  call.setResult(invoke(call, kOperator, {tensorList(std::move(tensors)), IValue(intOf(call.argument(count)))}));
}
constexpr char kCat[] = "aten::cat";
constexpr char kStack[] = "aten::stack";

struct EnvironmentFunction {
  const char* schema;
  ScalarFunction function;
  TraitSet traits = {};
};
constexpr EnvironmentFunction kEnvironmentFunctions[] = {
    {"aten::is_autocast_enabled", answer<false>},
    {"aten::is_autocast_cpu_enabled", answer<false>},
    {"aten::get_autocast_dtype", autocastDType},
    {"aten::is_scripting", answer<true>},
    {"aten::_get_tracing_state", answer<false>},
    {"aten::_nnpack_available", answer<false>},
    {"aten::is_vulkan_available", answer<false>},
    {"aten::_use_cudnn_rnn_flatten_weight", answer<false>},
    {"aten::device", deviceOfText},
    {"aten::device.with_index", deviceWithIndex},
    {"prim::type", deviceKind},
    {"prim::index", deviceIndex},
    {"aten::_unwrap_optional", unwrap, {Trait::ReadsGeometry}},
    {"prim::IfThenElse", select},
    {"prim::id", identityNumber},
    {"prim::AutogradZero", zeroGradient},
    {"torchvision::_cuda_version", noVersion},
    {"profiler::_record_function_enter_new", beginMark},
    {"profiler::_record_function_enter", beginOldMark},
    {"profiler::_record_function_exit", doNothing},
    {"profiler::_record_function_exit._RecordFunction", doNothing},
};

}  // namespace

void registerEnvironmentOps(OpRegistry& ops) {
  for (const EnvironmentFunction& e : kEnvironmentFunctions)
    ops.add({.schema = e.schema, .scalar = e.function, .traits = e.traits});
  ops.add({.schema = "aten::has_torch_function", .kernel = answerNoForAll});
  // Answers differ from place to place.
  ops.add({.schema = "aten::is_grad_enabled", .kernel = isGradEnabled, .traits = {Trait::Random}});
  ops.add({.schema = "aten::set_grad_enabled", .kernel = setGradEnabled, .traits = {Trait::SideEffects}});
  ops.add({.schema = "aten::manual_seed", .kernel = manualSeed, .traits = {Trait::SideEffects}});
  ops.add({.schema = "aten::warn", .kernel = warn, .traits = {Trait::SideEffects}});
  ops.add({.schema = "prim::AddStatValue", .scalar = doNothing, .traits = {Trait::SideEffects}});
  ops.add({.schema = "prim::TimePoint", .scalar = timePoint, .traits = {Trait::Random}});
  ops.add({.schema = "prim::AutogradAnyNonZero", .kernel = anyDefined});
  ops.add({.schema = "prim::AutogradAllNonZero", .kernel = allAre<true>});
  ops.add({.schema = "prim::AutogradAllZero", .kernel = allAre<false>});
  ops.add({.schema = "prim::AutogradAdd", .kernel = addGradients, .traits = {Trait::MayShare}});
  ops.add({.schema = "prim::VarConcat", .kernel = joined<kCat>});
  ops.add({.schema = "prim::VarStack", .kernel = joined<kStack>});
}

}  // namespace tscompile
