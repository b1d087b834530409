#include "runtime/plugin/plugin_instance.h"

#include "ir/support/text.h"
#include "runtime/call/foreign_code.h"
#include "runtime/call/run_context.h"
#include "runtime/plugin/plugin_verifier.h"
#include "runtime/plugin/told_rows.h"
#include "runtime/reference/loops/copy.h"

#include <fmt/core.h>

#include <atomic>
#include <chrono>

namespace tscompile {
namespace {

constexpr std::string_view kPlugin = "the plugin ";

std::atomic<bool> verifying{false};
constexpr int64_t kLongWork = int64_t{1} << 40;  // so much that the clock is looked at

ErrorKind kindOf(tsc_status status) {
  switch (status) {
    case TSC_UNSUPPORTED:
      return ErrorKind::Unsupported;
    case TSC_NO_MEMORY:
      return ErrorKind::Limit;
    case TSC_CANCELLED:
      return ErrorKind::Interrupted;
    default:
      return ErrorKind::Model;
  }
}

// Tensors as the interface has them; absent ones where there are none.
std::vector<tsc_tensor> rawTensors(const PluginTensors& tensors) {
  std::vector<tsc_tensor> raw;
  raw.reserve(tensors.size());
  for (const Tensor& t : tensors) {
    if (!t.defined())
      raw.push_back({TSC_NONE, 0, nullptr, nullptr});
    else
      raw.push_back({static_cast<int32_t>(t.dtype()), static_cast<uint32_t>(t.rank()), t.sizes().data(), t.raw()});
  }
  return raw;
}

std::string dtypeNames(uint32_t mask) {
  std::vector<std::string> names;
  for (int d = 0; d < 32; ++d)
    if (mask >> d & 1) names.emplace_back(pythonName(static_cast<DType>(d)));
  return join(names, ", ", [](const std::string& n) { return n; });
}

}  // namespace

bool PluginInstance::verifyRuns(bool yes) { return verifying.exchange(yes); }

void PluginInstance::fail(tsc_status status, const std::string& problem) const {
  throw ExecutionError(kindOf(status), problem);
}

std::shared_ptr<PluginInstance> PluginInstance::create(PluginCreatorPtr creator, std::vector<tsc::Field> fields,
                                                       const OpRegistry& operators, uint32_t phase,
                                                       std::string_view label, OperatorProblem& problem) {
  std::shared_ptr<PluginInstance> made(new PluginInstance(std::move(creator), std::move(fields), operators));
  const tsc_plugin& t = made->creator_->table();
  RawPluginFields raw(made->fields_);
  void* self = nullptr;
  auto refuse = [&](const std::string& why, ErrorKind kind) {
    // What goes wrong before a run lies in the text that asks for it.
    problem = {fmt::format("{}::{}: {}", made->creator_->key.ns, made->creator_->key.name, why),
               kind == ErrorKind::Model ? ErrorKind::Input : kind};
    return nullptr;
  };
  tsc_status status;
  std::string why = callPlugin(
      [&] { return t.create(&pluginHost(), tsc::text(label), raw.data(), raw.size(), phase, &self); }, &status);
  if (why.empty() && !self) why = "it made no instance";
  if (!why.empty()) return refuse(why, kindOf(status));
  made->self_ = self;
  ++made->creator_->counters.live;
  ++made->creator_->counters.created;
  try {
    size_t count = t.outputs_of ? askPlugin([&] { return t.outputs_of(self); }) : t.output_count;
    if (count == SIZE_MAX) throw ExecutionError(ErrorKind::Model, takeFailure());
    for (size_t o = 0; o < std::min(count, t.output_count); ++o) {
      int32_t alias = t.alias_of ? askPlugin([&] { return t.alias_of(self, o); }) : t.outputs[o].alias;
      if (alias < -1) throw ExecutionError(ErrorKind::Model, takeFailure());
      if (alias < 0 || static_cast<size_t>(alias) >= t.input_count) alias = -1;
      if (alias >= 0 && std::ranges::find(made->aliases_, alias) != made->aliases_.end())
        throw ExecutionError(ErrorKind::Model, "two outputs are written over one input");
      made->aliases_.push_back(alias);
    }
  } catch (const ExecutionError& e) {
    return refuse(e.message(), e.kind());
  }
  return made;
}

namespace {

template <class F>
void quietly(F&& body) {
  try {
    body();
  } catch (...) {  // there is nobody to tell
  }
}

}  // namespace

void PluginInstance::destroy(Context& c) const {
  const tsc_plugin& t = creator_->table();
  if (c.initialized && t.terminate) quietly([&] { t.terminate(c.self); });
  quietly([&] { t.destroy(c.self); });
}

PluginInstance::~PluginInstance() {
  const tsc_plugin& t = creator_->table();
  for (std::unique_ptr<Context>& c : free_)
    if (c->self) destroy(*c);
  if (!self_) return;
  if (initialized_ && t.terminate) quietly([&] { t.terminate(self_); });
  quietly([&] { t.destroy(self_); });
  --creator_->counters.live;
}

// ---- dtypes and sizes ----

std::vector<TensorSpec> PluginInstance::infer(std::span<const Input> given) const {
  const tsc_plugin& t = creator_->table();
  auto inputs = creator_->inputs();
  TS_CHECK(given.size() == inputs.size());
  ShapeBuild build(outputs());
  std::vector<tsc_shape> shapes;
  std::vector<std::vector<const tsc_dim*>> dims(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const tsc_port& port = inputs[i];
    const Input& in = given[i];
    std::string name(tsc::view(port.name));
    if (in.dtype == TSC_NONE) {
      if (!(port.flags & TSC_PORT_OPTIONAL)) fail(TSC_INVALID, "the input " + name + " is missing");
      shapes.push_back({TSC_NONE, 0, nullptr, nullptr});
      continue;
    }
    if (in.dtype > 31 || !(port.dtypes >> in.dtype & 1))
      fail(TSC_INVALID, fmt::format("the input {} is of type {}, expected {}", name,
                                    pythonName(static_cast<DType>(in.dtype)), dtypeNames(port.dtypes)));
    int32_t like = port.same_type_as >= 0 ? given[static_cast<size_t>(port.same_type_as)].dtype : TSC_NONE;
    if (like != TSC_NONE && like != in.dtype)
      fail(TSC_INVALID, fmt::format("the input {} is of type {}, expected {} as {}", name,
                                    pythonName(static_cast<DType>(in.dtype)), pythonName(static_cast<DType>(like)),
                                    tsc::view(inputs[static_cast<size_t>(port.same_type_as)].name)));
    for (int64_t size : in.sizes)
      dims[i].push_back(
          &build.dims.emplace_back(isKnownSize(size) ? tsc_dim{size, kUnknownSize} : tsc_dim{std::nullopt, size}));
    shapes.push_back({in.dtype, static_cast<uint32_t>(in.sizes.size()), dims[i].data(),
                      in.elementsKnown ? in.elements.data() : nullptr});
  }
  tsc_status status;
  std::string problem;
  {
    std::lock_guard lock(mutex_);
    const ForeignCode running(kPlugin, creator_->key.ns, creator_->key.name);
    problem = callPlugin([&] { return t.shapes(self_, &build, shapes.data(), shapes.size()); }, &status);
  }
  if (!problem.empty()) fail(status, problem);
  if (!build.problem.empty()) fail(TSC_INVALID, build.problem);
  std::vector<TensorSpec> out;
  for (size_t i = 0; i < outputs(); ++i) {
    const tsc_port& port = creator_->outputs()[i];
    const ShapeBuild::Output& made = build.outputs[i];
    if (!made.set) fail(TSC_FAILED, fmt::format("it does not set the shape of the output {}", tsc::view(port.name)));
    if (made.dtype < 0 || made.dtype > 31 || !(port.dtypes >> made.dtype & 1))
      fail(TSC_FAILED, fmt::format("it gives the output {} a type that it cannot have", tsc::view(port.name)));
    TensorSpec spec{static_cast<DType>(made.dtype), true, {}};
    for (const tsc_dim& d : made.dims) {
      if (d.value && *d.value < 0)
        fail(TSC_INVALID, fmt::format("a size of the output {} is {}", tsc::view(port.name), *d.value));
      spec.sizes.push_back(d.value ? *d.value : d.symbol);
    }
    if (alias(i) >= 0 && given[static_cast<size_t>(alias(i))].dtype != TSC_NONE) {
      const Input& base = given[static_cast<size_t>(alias(i))];
      bool same = base.dtype == made.dtype && base.sizes.size() == spec.sizes.size();
      for (size_t d = 0; same && d < spec.sizes.size(); ++d) same = !differ(base.sizes[d], spec.sizes[d]);
      if (!same)
        fail(TSC_FAILED,
             fmt::format("the output {} is not like the input that it is written over", tsc::view(port.name)));
    }
    out.push_back(std::move(spec));
  }
  return out;
}

// ---- runs ----

void PluginInstance::initializeOnce() const {
  if (initialized_) return;
  const tsc_plugin& t = creator_->table();
  tsc_status status = TSC_OK;
  std::string problem;
  if (t.initialize) problem = callPlugin([&] { return t.initialize(self_); }, &status);
  if (!problem.empty()) fail(status, problem);
  initialized_ = true;
}

std::unique_ptr<PluginInstance::Context> PluginInstance::takeContext() const {
  const tsc_plugin& t = creator_->table();
  std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    std::unique_ptr<Context> c = std::move(free_.back());
    free_.pop_back();
    return c;
  }
  initializeOnce();
  auto made = std::make_unique<Context>();
  tsc_status status = TSC_OK;
  std::string problem;
  if (t.attach) {
    problem = callPlugin([&] { return t.attach(self_, &made->self); }, &status);
  } else {
    RawPluginFields raw(fields_);
    problem = callPlugin([&] { return t.create(&pluginHost(), {}, raw.data(), raw.size(), TSC_RUNNING, &made->self); },
                         &status);
  }
  if (!problem.empty()) fail(status, problem);
  if (!made->self) fail(TSC_FAILED, "it made no instance for a run");
  if (!t.attach) {
    if (t.initialize) problem = callPlugin([&] { return t.initialize(made->self); }, &status);
    made->initialized = problem.empty();
    if (!problem.empty()) {
      destroy(*made);
      fail(status, problem);
    }
  }
  return made;
}

void PluginInstance::giveBack(std::unique_ptr<Context> context) const {
  std::lock_guard lock(mutex_);
  free_.push_back(std::move(context));
}

// Configures for sizes that are others than those of the run before.
void PluginInstance::prepare(Context& c, const PluginTensors& inputs, const PluginTensors& outputs,
                             RunContext* run) const {
  std::vector<int64_t> sizes;
  sizes.reserve((inputs.size() + outputs.size()) * 6);
  PluginTensors all = inputs;
  all.insert(all.end(), outputs.begin(), outputs.end());
  for (const Tensor& t : all) {
    sizes.push_back(t.defined() ? static_cast<int64_t>(t.dtype()) : -1);
    if (!t.defined()) continue;
    sizes.push_back(t.rank());
    sizes.insert(sizes.end(), t.sizes().begin(), t.sizes().end());
  }
  if (!c.fresh && sizes == c.sizes) return;
  const tsc_plugin& t = creator_->table();
  std::vector<tsc_tensor> raw = rawTensors(all);
  for (tsc_tensor& r : raw) r.data = nullptr;
  if (t.supports)
    for (size_t i = 0; i < raw.size(); ++i)
      if (!askPlugin([&] { return t.supports(c.self, i, raw.data(), inputs.size(), outputs.size()); }))
        fail(TSC_UNSUPPORTED, fmt::format("it does not take these types together, from tensor {} on", i));
  tsc_status status = TSC_OK;
  if (t.configure) {
    std::string problem =
        callPlugin([&] { return t.configure(c.self, raw.data(), raw.data(), raw.data(), raw.size()); }, &status);
    if (!problem.empty()) fail(status, problem);
  }
  int32_t first = 0;
  c.tactic = t.tactics && askPlugin([&] { return t.tactics(c.self, &first, 1); }) > 0 ? first : 0;
  if (!t.run) c.composite = compositeFor(inputs);
  c.workspaceBytes = 0;
  if (t.workspace)
    c.workspaceBytes = askPlugin([&] { return t.workspace(c.self, raw.data(), inputs.size(), outputs.size()); });
  constexpr size_t kFailed = SIZE_MAX;
  if (c.workspaceBytes == kFailed) {
    std::string problem = takeFailure();
    fail(TSC_FAILED, problem.empty() ? "it cannot tell its workspace" : problem);
  }
  uint64_t most = std::min(run ? run->options().memoryLimit : UINT64_MAX, uint64_t{1} << 40);
  if (c.workspaceBytes > most)
    fail(TSC_NO_MEMORY, fmt::format("it asks for a workspace of {}", bytesText(c.workspaceBytes)));
  if (c.workspaceBytes && (!c.workspace || c.workspace->bytes() < c.workspaceBytes)) {
    BudgetScope unlimited(nullptr);  // kept from run to run
    c.workspace = Storage::allocate(c.workspaceBytes);
  }
  PluginCounters& counters = creator_->counters;
  if (static_cast<int64_t>(c.workspaceBytes) > counters.workspacePeak)
    counters.workspacePeak = static_cast<int64_t>(c.workspaceBytes);
  c.sizes = std::move(sizes);
  c.fresh = false;
}

// What stands for run() on such inputs. Texts that depend on sizes are kept up to a number.
std::shared_ptr<const PluginComposite> PluginInstance::compositeFor(const PluginTensors& inputs) const {
  std::vector<Input> described;
  for (const Tensor& t : inputs)
    described.push_back(t.defined() ? Input{static_cast<int32_t>(t.dtype()), Dims(t.sizes()), {}, false} : Input{});
  std::string text = decomposition(described), problem;
  if (text.empty()) problem = takeFailure();
  if (text.empty())
    fail(TSC_UNSUPPORTED, problem.empty() ? "it has neither a kernel nor a decomposition for these inputs" : problem);
  std::lock_guard lock(mutex_);
  auto it = composites_.find(text);
  if (it != composites_.end()) return it->second;
  std::shared_ptr<const PluginComposite> made;
  {
    BudgetScope unlimited(nullptr);  // kept from run to run
    made = PluginComposite::make(text, operators_, problem);
  }
  if (!made) fail(TSC_FAILED, problem);
  constexpr size_t kMost = 16;
  if (composites_.size() >= kMost) composites_.clear();
  composites_.emplace(std::move(text), made);
  return made;
}

void PluginInstance::call(Context& c, const PluginTensors& inputs, const PluginTensors& outputs, PluginRun& run) const {
  if (c.composite) {
    PluginTensors present;
    for (const Tensor& t : inputs)
      if (t.defined()) present.push_back(t);
    return c.composite->run(present, outputs, run);
  }
  std::vector<tsc_tensor> in = rawTensors(inputs), out = rawTensors(outputs);
  tsc_status status = TSC_OK;
  const ForeignCode running(kPlugin, creator_->key.ns, creator_->key.name);
  std::string problem = callPlugin(
      [&] {
        return creator_->table().run(c.self, &run, in.data(), in.size(), out.data(), out.size(),
                                     c.workspaceBytes ? c.workspace->data() : nullptr, c.workspaceBytes,
                                     run.tactic ? run.tactic : c.tactic);
      },
      &status);
  if (!problem.empty()) fail(status, problem);
}

PluginTensors PluginInstance::outputsFor(PluginTensors& inputs, bool inPlace, FunctionRef<Tensor(size_t)> make) const {
  PluginTensors out;
  for (size_t o = 0; o < outputs(); ++o) {
    Tensor* over = alias(o) >= 0 ? &inputs[static_cast<size_t>(alias(o))] : nullptr;
    if (over && !over->defined()) over = nullptr;
    if (over && inPlace) {
      requireWritable(*over);
      out.push_back(*over);
      continue;
    }
    Tensor made = make(o);
    if (over) {
      if (made.raw() != over->raw()) copyTensor(made, *over);
      *over = made;
    }
    out.push_back(std::move(made));
  }
  return out;
}

void PluginInstance::run(const PluginTensors& inputs, const PluginTensors& outputs, RunContext* context, int threads,
                         std::vector<int64_t>* rows, int32_t tactic) const {
  auto start = std::chrono::steady_clock::now();
  std::unique_ptr<Context> c = takeContext();
  // A context that failed is not used again: nobody knows what state it is in.
  struct Destroy {
    const PluginInstance& plugin;
    std::unique_ptr<Context>& context;
    ~Destroy() {
      if (!context) return;
      plugin.destroy(*context);
    }
  } destroyed{*this, c};
  prepare(*c, inputs, outputs, context);
  PluginRun state{context, tactic, threads, std::vector<int64_t>(outputs.size(), -1)};
  try {
    if (verifying.load(std::memory_order_relaxed))
      PluginVerifier(*this, *c, state).run(inputs, outputs);
    else
      call(*c, inputs, outputs, state);
  } catch (const ExecutionError&) {
    // A run that is over is so whatever the plugin makes of it.
    if (context) context->checkInterrupt(kLongWork);
    throw;
  }
  if (context) context->checkInterrupt(kLongWork);
  checkRows(*creator_, outputs, state.rows);
  if (rows) *rows = std::move(state.rows);
  PluginCounters& counters = creator_->counters;
  ++counters.calls;
  counters.nanoseconds += std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  for (const Tensor& t : outputs)
    if (t.defined()) counters.bytes += t.numel() * static_cast<int64_t>(itemSize(t.dtype()));
  giveBack(std::move(c));
}

// ---- while it is built ----

void PluginInstance::configure(std::span<const Input> least, std::span<const Input> usual,
                               std::span<const Input> most) const {
  const tsc_plugin& t = creator_->table();
  if (!t.configure) return;
  struct Described {
    std::vector<Dims> dims;
    std::vector<tsc_tensor> tensors;
  };
  auto describe = [&](std::span<const Input> inputs) {
    Described d;
    std::vector<TensorSpec> specs = infer(inputs);
    auto add = [&](int32_t dtype, DimSpan sizes) {
      Dims& dims = d.dims.emplace_back(sizes);
      for (int64_t& s : dims) s = isKnownSize(s) ? s : -1;
      d.tensors.push_back({dtype, static_cast<uint32_t>(dims.size()), nullptr, nullptr});
    };
    for (const Input& in : inputs) add(in.dtype, in.sizes);
    for (const TensorSpec& s : specs) add(static_cast<int32_t>(s.dtype), s.sizes);
    for (size_t i = 0; i < d.tensors.size(); ++i) d.tensors[i].dims = d.dims[i].data();
    return d;
  };
  Described from = describe(least), middle = describe(usual), to = describe(most);
  tsc_status status = TSC_OK;
  std::lock_guard lock(mutex_);
  std::string problem = callPlugin(
      [&] {
        return t.configure(self_, from.tensors.data(), middle.tensors.data(), to.tensors.data(), from.tensors.size());
      },
      &status);
  if (!problem.empty()) fail(status, problem);
}

std::vector<int32_t> PluginInstance::tactics() const {
  const tsc_plugin& t = creator_->table();
  if (!t.tactics) return {};
  constexpr size_t kMost = 64;
  int32_t ids[kMost] = {};
  std::lock_guard lock(mutex_);
  size_t count = std::min(kMost, askPlugin([&] { return t.tactics(self_, ids, kMost); }));
  std::vector<int32_t> out;
  for (int32_t id : std::span(ids, count))
    if (id > 0 && std::ranges::find(out, id) == out.end()) out.push_back(id);
  return out;
}

std::string PluginInstance::timingId() const {
  const tsc_plugin& t = creator_->table();
  if (!t.timing_id) return "";
  std::lock_guard lock(mutex_);
  return askPlugin([&] { return std::string(tsc::view(t.timing_id(self_))); });
}

// ---- for engine files, and as graphs ----

std::vector<tsc::Field> PluginInstance::saved() const {
  const tsc_plugin& t = creator_->table();
  if (!t.save) return fields_;
  std::vector<tsc::Field> out;
  tsc_status status = TSC_OK;
  std::lock_guard lock(mutex_);
  std::string problem = callPlugin(
      [&] {
        return t.save(
            self_,
            [](void* sink, const tsc_field* f) {
              static_cast<std::vector<tsc::Field>*>(sink)->push_back(tsc::Field::read(*f));
            },
            &out);
      },
      &status);
  if (!problem.empty()) fail(status, problem);
  ParsedFields checked = completeFields(std::move(out), *creator_);
  if (!checked.problems.empty())
    fail(TSC_FAILED, "what it saves is wrong: " + join(checked.problems, "; ", [](const std::string& p) { return p; }));
  return std::move(checked.fields);
}

std::string PluginInstance::decomposition(std::span<const Input> inputs) const {
  const tsc_plugin& t = creator_->table();
  if (!t.decompose) return "";
  std::vector<tsc_tensor> raw;
  for (const Input& in : inputs)
    raw.push_back({in.dtype, static_cast<uint32_t>(in.sizes.size()), in.sizes.data(), nullptr});
  std::lock_guard lock(mutex_);
  std::string text;
  callPlugin([&] {
    text = tsc::view(t.decompose(self_, raw.data(), raw.size()));
    return TSC_OK;
  });
  return text;
}

}  // namespace tscompile
