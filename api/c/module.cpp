#include "api/binding/foreign_operators.h"
#include "api/binding/load_bytes.h"
#include "api/binding/reports.h"
#include "api/c/handles.h"
#include "api/compile_settings.h"
#include "api/forgotten_weights.h"
#include "api/model_file.h"
#include "ir/support/quantities.h"
#include "ir/support/text.h"

#include <algorithm>

using namespace tscompile;
using namespace tscompile::c;

std::vector<std::string> tscompile::c::textsOf(const char* const* texts, size_t count) {
  if (count > 0) given(texts, "a list of texts");
  std::vector<std::string> out;
  for (size_t i = 0; i < count; ++i) out.emplace_back(&given(texts[i], "a text"));
  return out;
}

namespace {

void setLimit(const std::string& text, Limits& limits) {
  const size_t equal = text.find('=');
  std::optional<uint64_t> number = equal == std::string::npos ? std::nullopt : parseSize(text.substr(equal + 1));
  for (const LimitName& limit : kLimitNames)
    if (number && text.substr(0, equal) == limit.name) {
      limits.*limit.field = *number;
      return;
    }
  failUsage("'" + text + "' is no limit, such as nodes=1000");
}

LoadOptions loadOptionsOf(const tscompile_load_options* options) {
  const tscompile_load_options o = optionsOf(options, "tscompile_load_options");
  LoadOptions out;
  out.weights = textsOf(o.weights, o.weight_count);
  for (const std::string& limit : textsOf(o.limits, o.limit_count)) setLimit(limit, out.limits);
  Diagnostics diagnostics;
  Result<std::shared_ptr<const Extensions>> extensions =
      extensionsOf({textsOf(o.plugins, o.plugin_count), textsOf(o.rules, o.rule_count)}, out.limits, diagnostics);
  if (!extensions) fail(diagnostics);
  out.extensions = std::move(*extensions);
  return out;
}

CompileSpec specOf(const tscompile_compile_options* options) {
  const tscompile_compile_options o = optionsOf(options, "tscompile_compile_options");
  CompileSpec out;
  if (o.method) out.lowering.method = o.method;
  for (const std::string& input : textsOf(o.inputs, o.input_count))
    if (!addInputRange(input, out)) failUsage("'" + input + "' is no size of an input, such as x=1..8x3x224x224:f32");
  for (const std::string& setting : textsOf(o.settings, o.setting_count))
    if (!applySetting(out, setting)) failUsage(settingProblem(setting));
  return out;
}

tscompile_module* made(Module module, SourceName name, std::string path, const Diagnostics& diagnostics,
                       std::map<std::string, IValue> defaults = {}) {
  std::vector<std::string> methods = module.methods();
  Problems problems = problemsOf(diagnostics, name);
  std::unique_ptr<tscompile_error> warnings;
  if (!problems.list.empty()) warnings = errorOf(TSCOMPILE_OK, std::move(problems));
  return new tscompile_module{std::move(module),   std::move(name),    std::move(path),
                              std::move(defaults), std::move(methods), std::move(warnings)};
}

tscompile_method::Info infoOf(const ValueInfo& value, bool isOptional) {
  tscompile_method::Info out{value, typeText(withoutRefinement(value.type)), {}, isOptional};
  if (!value.type->isTensor()) return out;
  const TensorFacts& facts = value.type->tensor();
  TensorFacts shown;
  shown.dtype = facts.dtype, shown.hasRank = facts.hasRank, shown.sizes = facts.sizes;
  out.type = typeText(tensorType(shown));
  for (int64_t size : facts.sizes) out.sizes.push_back(std::max<int64_t>(size, -1));
  return out;
}

tscompile_kind kindOf(TypePtr type) {
  switch (type->kind()) {
    case TypeKind::Tensor:
      return TSCOMPILE_TENSOR;
    case TypeKind::None:
      return TSCOMPILE_NONE;
    case TypeKind::Bool:
      return TSCOMPILE_BOOL;
    case TypeKind::Int:
      return TSCOMPILE_INT;
    case TypeKind::Float:
      return TSCOMPILE_FLOAT;
    case TypeKind::Complex:
      return TSCOMPILE_COMPLEX;
    case TypeKind::String:
      return TSCOMPILE_STRING;
    case TypeKind::List:
      return TSCOMPILE_LIST;
    case TypeKind::Tuple:
      return TSCOMPILE_TUPLE;
    case TypeKind::Dict:
      return TSCOMPILE_DICT;
    default:
      return TSCOMPILE_OTHER;
  }
}

int tell(const std::vector<tscompile_method::Info>& all, size_t index, tscompile_value_info* out) {
  if (index >= all.size()) return 0;
  const tscompile_method::Info& info = all[index];
  tscompile_value_info from{};
  from.name = info.info.name.c_str();
  from.type = info.type.c_str();
  from.kind = kindOf(info.info.type);
  from.dtype = TSCOMPILE_UNKNOWN_DTYPE, from.rank = -1;
  if (info.info.type->isTensor()) {
    const TensorFacts& facts = info.info.type->tensor();
    if (facts.dtype != DType::Undefined) from.dtype = static_cast<tscompile_dtype>(facts.dtype);
    if (facts.hasRank) from.rank = static_cast<int32_t>(info.sizes.size()), from.sizes = info.sizes.data();
  }
  from.is_optional = info.isOptional;
  return fill(out, from);
}

RunOptions runOptionsOf(const tscompile_run_options* options) {
  const tscompile_run_options o = optionsOf(options, "tscompile_run_options");
  RunOptions out;
  if (o.memory_limit) out.memoryLimit = o.memory_limit;
  if (o.time_limit_ns) out.timeLimit = std::chrono::nanoseconds(std::min<uint64_t>(o.time_limit_ns, INT64_MAX));
  out.seed = o.seed;
  out.threads = std::max(o.threads, 0);
  if (o.interrupt) out.interrupt = &o.interrupt->isSet;
  if (o.state) out.state = &o.state->state;
  auto said = [&](void (*tell)(void*, const char*)) -> std::function<void(std::string_view)> {
    if (!tell) return nullptr;
    return [tell, context = o.context](std::string_view text) { tell(context, std::string(text).c_str()); };
  };
  out.print = said(o.print);
  out.warn = said(o.warn);
  return out;
}

std::vector<IValue> inputsOf(const tscompile_method& method, const tscompile_value* const* inputs, size_t count) {
  if (count > 0) given(inputs, "inputs");
  std::vector<std::optional<IValue>> values(count);
  for (size_t i = 0; i < count; ++i)
    if (inputs[i]) values[i] = inputs[i]->value;
  Diagnostics diagnostics;
  Result<std::vector<IValue>> out = method.call.complete(std::move(values), diagnostics);
  if (!out) fail(diagnostics);
  return std::move(*out);
}

}  // namespace

tscompile_status tscompile_load(const char* path, const tscompile_load_options* options, tscompile_module** out,
                                tscompile_error** error) {
  return guarded(error, [&] {
    clear(out, "out");
    given(path, "path");
    Diagnostics diagnostics;
    constexpr FolderAdvice kAdvice{
        .built = "it is a language model that was built, which tscompile_language_model_load opens",
        .other =
            "a model is one file, as torch.export.save and torch.jit.save write it; a folder may be a language "
            "model that was built, which tscompile_language_model_load opens"};
    Result<Module> module = Failed{};
    if (!refuseFolder(path, diagnostics, kAdvice)) module = Module::load(path, loadOptionsOf(options), diagnostics);
    if (!module) fail(diagnostics);
    *out = made(std::move(*module), {}, path, diagnostics);
  });
}

tscompile_status tscompile_load_memory(const void* bytes, size_t count, const char* name,
                                       const tscompile_load_options* options, tscompile_module** out,
                                       tscompile_error** error) {
  return guarded(error, [&] {
    clear(out, "out");
    if (count > 0) given(static_cast<const char*>(bytes), "bytes");
    Diagnostics diagnostics;
    SourceName said;
    Result<Module> module = loadBytes(std::string_view(static_cast<const char*>(bytes), count),
                                      name ? name : "<memory>", loadOptionsOf(options), said, diagnostics);
    if (!module) fail(diagnostics, said);
    *out = made(std::move(*module), said, name ? name : "<memory>", diagnostics);
  });
}

void tscompile_module_free(tscompile_module* module) { delete module; }

size_t tscompile_module_method_count(const tscompile_module* module) { return module ? module->methods.size() : 0; }
const char* tscompile_module_method_name(const tscompile_module* module, size_t index) {
  return index < tscompile_module_method_count(module) ? module->methods[index].c_str() : nullptr;
}
const tscompile_error* tscompile_module_warnings(const tscompile_module* module) {
  return module ? module->warnings.get() : nullptr;
}
int tscompile_module_is_compiled(const tscompile_module* module) { return module && module->module.engineInfo(); }

tscompile_status tscompile_module_compile(const tscompile_module* module, const tscompile_compile_options* options,
                                          tscompile_module** out, tscompile_error** error) {
  return guarded(error, [&] {
    clear(out, "out");
    const tscompile_module& m = given(module, "module");
    const CompileSpec spec = specOf(options);
    Diagnostics diagnostics;
    Result<Module> compiled = m.module.compiled(spec, diagnostics);
    if (!compiled) fail(diagnostics, m.name);
    *out = made(std::move(*compiled), m.name, m.path, diagnostics, m.module.defaults(spec.lowering.method));
  });
}

tscompile_status tscompile_module_save(const tscompile_module* module, const char* path, tscompile_error** error) {
  return guarded(error, [&] {
    const tscompile_module& m = given(module, "module");
    Diagnostics diagnostics;
    if (!m.module.save(&given(path, "path"), diagnostics)) fail(diagnostics, m.name);
  });
}

tscompile_status tscompile_module_partition(const tscompile_module* module, const tscompile_compile_options* options,
                                            char** json, tscompile_error** error) {
  return guarded(error, [&] {
    clear(json, "json");
    const tscompile_module& m = given(module, "module");
    Diagnostics diagnostics;
    Result<std::string> text = partitionJson(m.module, specOf(options), diagnostics);
    if (!text) fail(diagnostics, m.name);
    *json = copied(*text);
  });
}

tscompile_status tscompile_module_explain(const tscompile_module* module, const tscompile_compile_options* options,
                                          const char* node, char** json, tscompile_error** error) {
  return guarded(error, [&] {
    clear(json, "json");
    const tscompile_module& m = given(module, "module");
    Diagnostics diagnostics;
    Result<std::string> text = explainJson(m.module, specOf(options), &given(node, "node"), diagnostics);
    if (!text) fail(diagnostics, m.name);
    *json = copied(*text);
  });
}

tscompile_status tscompile_module_prepare(const tscompile_module* module, const char* name, tscompile_method** out,
                                          tscompile_error** error) {
  return guarded(error, [&] {
    clear(out, "out");
    const tscompile_module& m = given(module, "module");
    const std::string called = name ? name : "forward";
    Diagnostics diagnostics;
    Result<Method> method = prepareGiven(m.path, m.module, called, diagnostics);
    if (!method) fail(diagnostics, m.name);
    CallInputs call(method->inputs(), m.defaults.empty() ? m.module.defaults(called) : m.defaults);
    auto made = std::make_unique<tscompile_method>(*method, std::move(call), m.name);
    for (size_t i = 0; i < made->call.wanted().size(); ++i)
      made->inputs.push_back(infoOf(made->call.wanted()[i], made->call.isOptional(i)));
    for (const ValueInfo& output : method->outputs()) made->outputs.push_back(infoOf(output, false));
    *out = made.release();
  });
}

void tscompile_method_free(tscompile_method* method) { delete method; }
size_t tscompile_method_input_count(const tscompile_method* method) { return method ? method->inputs.size() : 0; }
size_t tscompile_method_output_count(const tscompile_method* method) { return method ? method->outputs.size() : 0; }
int tscompile_method_input(const tscompile_method* method, size_t index, tscompile_value_info* out) {
  return method ? tell(method->inputs, index, out) : 0;
}
int tscompile_method_output(const tscompile_method* method, size_t index, tscompile_value_info* out) {
  return method ? tell(method->outputs, index, out) : 0;
}

tscompile_status tscompile_method_run(const tscompile_method* method, const tscompile_value* const* inputs,
                                      size_t input_count, const tscompile_run_options* options,
                                      tscompile_value** outputs, size_t output_count, tscompile_error** error) {
  return guarded(error, [&] {
    if (output_count > 0) given(outputs, "outputs");
    std::fill_n(outputs, output_count, nullptr);
    const tscompile_method& m = given(method, "method");
    if (output_count != m.outputs.size())
      failUsage("the method has " + counted(m.outputs.size(), "output") + ", and there is room for " +
                std::to_string(output_count));
    const RunOptions settings = runOptionsOf(options);
    Diagnostics diagnostics;
    Result<std::vector<IValue>> results = m.method.run(inputsOf(m, inputs, input_count), diagnostics, settings);
    if (!results) fail(diagnostics, m.name);
    // All or none.
    std::vector<std::unique_ptr<tscompile_value>> handles;
    for (IValue& v : *results) handles.push_back(std::make_unique<tscompile_value>(std::move(v)));
    for (size_t i = 0; i < handles.size(); ++i) outputs[i] = handles[i].release();
  });
}

tscompile_status tscompile_method_profile(const tscompile_method* method, const tscompile_value* const* inputs,
                                          size_t input_count, const tscompile_run_options* options, size_t runs,
                                          char** json, tscompile_error** error) {
  return guarded(error, [&] {
    clear(json, "json");
    const tscompile_method& m = given(method, "method");
    const RunOptions settings = runOptionsOf(options);
    Diagnostics diagnostics;
    Result<std::string> text = profileJson(m.method, inputsOf(m, inputs, input_count), runs, settings, diagnostics);
    if (!text) fail(diagnostics, m.name);
    *json = copied(*text);
  });
}

tscompile_interrupt* tscompile_interrupt_new(void) { return new (std::nothrow) tscompile_interrupt; }
void tscompile_interrupt_set(tscompile_interrupt* interrupt, int value) {
  if (interrupt) interrupt->isSet = value != 0;
}
void tscompile_interrupt_free(tscompile_interrupt* interrupt) { delete interrupt; }

tscompile_state* tscompile_state_new(void) { return new (std::nothrow) tscompile_state; }
void tscompile_state_clear(tscompile_state* state) {
  if (state) state->state.clear();
}
void tscompile_state_free(tscompile_state* state) { delete state; }
