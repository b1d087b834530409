// tscompile._core: what Python's tscompile is made of.
#include "api/binding/calibrate.h"
#include "api/binding/foreign_operators.h"
#include "api/binding/foreign_texts.h"
#include "api/binding/load_bytes.h"
#include "api/binding/reports.h"
#include "api/call_inputs.h"
#include "api/compile_settings.h"
#include "api/engine_file.h"
#include "api/forgotten_weights.h"
#include "api/input_range.h"
#include "api/model_file.h"
#include "api/named_inputs.h"
#include "api/value_text.h"
#include "ir/support/quantities.h"
#include "ir/support/text.h"
#include "ir/values/error.h"
#include "passes/lowering/bound_inputs.h"
#include "python/core/operators.h"
#include "python/core/run_settings.h"
#include "python/core/tensors.h"
#include "python/core/texts.h"
#include "python/core/values.h"
#include "runtime/engine/network/tactics.h"
#include "runtime/registry.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace tscompile::python {
namespace {

using Texts = std::vector<std::string>;

// ---- methods ----

struct PyMethod {
  Method method;
  CallInputs call;
  SourceName name;
  std::vector<ValueInfo> outputs;
};

// Other threads may use it too, one at a time.
struct PyState {
  RunState state;
  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
};

struct RunSettings {
  std::optional<std::chrono::nanoseconds> timeLimit;
  std::optional<uint64_t> memoryLimit;
  uint64_t seed = 0;
  int threads = 0;
  PyState* state = nullptr;
};

void writeOut(std::string_view text) {
  nb::gil_scoped_acquire lock;
  nb::object out = nb::module_::import_("sys").attr("stdout");
  if (!out.is_none()) out.attr("write")(textOf(std::string(text)));
}
void warnText(std::string_view text) {
  nb::gil_scoped_acquire lock;
  if (PyErr_WarnEx(PyExc_UserWarning, std::string(text).c_str(), 1) != 0) PyErr_WriteUnraisable(nullptr);
}

RunOptions optionsOf(const RunSettings& s) {
  RunOptions out;
  if (s.memoryLimit) out.memoryLimit = *s.memoryLimit;
  if (s.timeLimit) out.timeLimit = *s.timeLimit;
  out.seed = s.seed;
  out.threads = threadsOf(s.threads);
  out.print = writeOut;
  out.warn = warnText;
  return out;
}

std::string noInputText(const std::string& name, const std::vector<ValueInfo>& wanted) {
  NearestName nearest(name);
  for (const ValueInfo& input : wanted) nearest.consider(std::string(withoutNumber(input.name)));
  for (const char* option : {"threads", "seed", "time_limit", "memory_limit"}) nearest.consider(option);
  if (nearest.found()) return "the method has no input '" + name + "', did you mean '" + nearest.name() + "'?";
  if (wanted.empty()) return "the method has no input '" + name + "', it takes none";
  return "the method has no input '" + name + "', it takes " +
         join(wanted, ", ", [](const ValueInfo& input) { return std::string(withoutNumber(input.name)); });
}

// What a call of Python gives, as the method's inputs.
std::vector<IValue> inputsOf(const PyMethod& m, nb::handle args, nb::handle named) {
  const std::vector<ValueInfo>& wanted = m.call.wanted();
  const auto count = static_cast<size_t>(PyTuple_Size(args.ptr()));
  std::vector<std::optional<IValue>> given(std::max(count, wanted.size()));
  for (size_t i = 0; i < count; ++i)
    given[i] = fromPython(PyTuple_GetItem(args.ptr(), static_cast<Py_ssize_t>(i)),
                          i < wanted.size() ? wanted[i].type : nullptr);
  if (named.is_valid() && PyDict_Size(named.ptr()) > 0)
    for (auto [key, value] : nb::borrow<nb::dict>(named)) {
      const std::string name = nb::cast<std::string>(key);
      std::optional<size_t> at = m.call.find(name);
      if (!at) throw nb::type_error(noInputText(name, wanted).c_str());
      if (given[*at]) throw nb::type_error(("input '" + name + "' was given twice").c_str());
      given[*at] = fromPython(value, wanted[*at].type);
    }
  Diagnostics diagnostics;
  Result<std::vector<IValue>> out = m.call.complete(std::move(given), diagnostics);
  if (!out) raise(diagnostics, m.name);
  return std::move(*out);
}

[[noreturn]] void raiseRun(const Diagnostics& diagnostics, const SourceName& name, nb::object cause = {}) {
  if (diagnostics.firstErrorKind() == ErrorKind::Interrupted && PyErr_CheckSignals() != 0) throw nb::python_error();
  raise(diagnostics, name, std::move(cause));
}

nb::object call(const PyMethod& m, nb::handle args, nb::handle named, const RunSettings& settings) {
  std::vector<IValue> inputs = inputsOf(m, args, named);
  Diagnostics diagnostics;
  Result<std::vector<IValue>> results = Failed{};
  OperatorFailures failures;
  {
    InterruptScope interrupts;
    RunOptions options = optionsOf(settings);
    options.interrupt = interrupts.flag();
    nb::gil_scoped_release unlocked;
    std::unique_lock<std::mutex> lock;
    if (settings.state) {
      lock = std::unique_lock(*settings.state->mutex);
      options.state = &settings.state->state;
    }
    results = m.method.run(inputs, diagnostics, options);
  }
  if (!results) raiseRun(diagnostics, m.name, failures.take());
  for (const Diagnostic& d : diagnostics.list())
    if (d.severity == Severity::Warning) warnText(d.message);
  if (results->size() == 1) return toPython(results->front());
  return toPython(tuple(std::move(*results)));
}

std::string profileOf(const PyMethod& m, nb::handle args, nb::handle named, size_t runs, const RunSettings& settings) {
  std::vector<IValue> inputs = inputsOf(m, args, named);
  Diagnostics diagnostics;
  Result<std::string> out = Failed{};
  {
    InterruptScope interrupts;
    RunOptions options = optionsOf(settings);
    options.interrupt = interrupts.flag();
    nb::gil_scoped_release unlocked;
    out = profileJson(m.method, inputs, runs, options, diagnostics);
  }
  if (!out) raiseRun(diagnostics, m.name);
  return *out;
}

nb::list infosOf(const std::vector<ValueInfo>& values, const CallInputs* call) {
  nb::list out;
  for (size_t i = 0; i < values.size(); ++i) {
    const ValueInfo& v = values[i];
    nb::dict info;
    info["name"] = textOf(v.name);
    const TensorFacts facts = v.type->isTensor() ? v.type->tensor() : TensorFacts();
    TensorFacts shown;
    shown.dtype = facts.dtype, shown.hasRank = facts.hasRank, shown.sizes = facts.sizes;
    info["type"] = textOf(typeText(v.type->isTensor() ? tensorType(shown) : withoutRefinement(v.type)));
    info["dtype"] = facts.dtype == DType::Undefined ? nb::object(nb::none())
                                                    : nb::object(textOf(std::string(pythonName(facts.dtype))));
    nb::object shape = nb::none();
    if (facts.hasRank) {
      nb::list sizes;
      for (int64_t s : facts.sizes) sizes.append(s >= 0 ? nb::object(nb::int_(s)) : nb::object(nb::none()));
      shape = nb::tuple(sizes);
    }
    info["shape"] = shape;
    if (call) info["optional"] = call->isOptional(i);
    out.append(info);
  }
  return out;
}

// ---- modules ----

// Other threads may use it too: what a Module does for one at a time happens under the mutex, without Python's lock.
struct PyModule {
  Module module;
  SourceName name;
  std::string path;                        // what it was loaded from, or is called
  std::map<std::string, IValue> defaults;  // of a compiled one: those of the method it was made of
  bool isCompiled = false;
  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
};

template <class Do>
auto alone(const PyModule& m, Do&& run) {
  nb::gil_scoped_release unlocked;
  std::lock_guard lock(*m.mutex);
  return run();
}

LoadOptions loadOptionsOf(const Texts& weights, nb::dict tensors, const Texts& plugins, const Texts& rules,
                          const Texts& limits) {
  LoadOptions out;
  out.weights = weights;
  for (auto [key, value] : tensors) {
    const std::string name = nb::cast<std::string>(nb::str(key));
    std::optional<Tensor> tensor =
        nb::isinstance<PyTensor>(value) ? nb::cast<PyTensor&>(value).tensor : tensorOf(value.ptr());
    if (!tensor) {
      const std::string type = nb::cast<std::string>(nb::str(value.type().attr("__name__")));
      throw nb::type_error(("weights['" + name + "'] is no array or tensor, but of type " + type +
                            (nb::isinstance<nb::dict>(value) ? ": if it holds the weights, give that" : ""))
                               .c_str());
    }
    out.tensors.emplace_back(name, std::move(*tensor));
  }
  for (const std::string& text : limits) {
    const size_t equal = text.find('=');
    std::optional<uint64_t> number = equal == std::string::npos ? std::nullopt : parseSize(text.substr(equal + 1));
    auto limit = std::find_if(std::begin(kLimitNames), std::end(kLimitNames),
                              [&](const LimitName& l) { return text.substr(0, equal) == l.name; });
    if (!number || limit == std::end(kLimitNames))
      throw nb::value_error(("'" + text + "' is no limit, such as nodes=1000").c_str());
    out.limits.*limit->field = *number;
  }
  Diagnostics diagnostics;
  Result<std::shared_ptr<const Extensions>> extensions = extensionsOf({plugins, rules}, out.limits, diagnostics);
  if (!extensions) raise(diagnostics, {});
  warn(diagnostics, {});
  out.extensions = std::move(*extensions);
  return out;
}

PyModule made(Module module, SourceName name, std::string path) {
  const bool isCompiled = module.engineInfo();
  return PyModule{std::move(module), std::move(name), std::move(path), {}, isCompiled};
}

PyModule loadPath(const std::string& path, const Texts& weights, nb::dict tensors, const Texts& plugins,
                  const Texts& rules, const Texts& limits) {
  const LoadOptions options = loadOptionsOf(weights, tensors, plugins, rules, limits);
  Diagnostics diagnostics;
  Result<Module> module = Failed{};
  {
    nb::gil_scoped_release unlocked;
    constexpr FolderAdvice kAdvice{
        .built = "it is a language model that was built, which tscompile.LanguageModel(folder) opens",
        .other =
            "a model is one file, as torch.export.save and torch.jit.save write it; a folder may be a language "
            "model that was built, which tscompile.LanguageModel(folder) opens"};
    if (!refuseFolder(path, diagnostics, kAdvice)) module = Module::load(path, options, diagnostics);
  }
  if (!module) raise(diagnostics, {});
  warn(diagnostics, {});
  return made(std::move(*module), {}, path);
}

PyModule loadMemory(nb::bytes bytes, const std::string& name, const Texts& weights, nb::dict tensors,
                    const Texts& plugins, const Texts& rules, const Texts& limits) {
  const LoadOptions options = loadOptionsOf(weights, tensors, plugins, rules, limits);
  Diagnostics diagnostics;
  SourceName said;
  const std::string_view view(bytes.c_str(), bytes.size());
  Result<Module> module = Failed{};
  {
    nb::gil_scoped_release unlocked;
    module = loadBytes(view, name, options, said, diagnostics);
  }
  if (!module) raise(diagnostics, said);
  warn(diagnostics, said);
  return made(std::move(*module), said, name);
}

// Settings are texts, all but inputs that become constants.
void applyAll(CompileSpec& spec, const Texts& settings) {
  for (const std::string& setting : settings)
    if (!applySetting(spec, setting)) throw nb::value_error(settingProblem(setting, '_').c_str());
}

// Inputs that become constants: by name, values as a call takes them, or a text as the command line does.
void bindInputs(const PyModule& m, CompileSpec& spec, nb::dict bound) {
  const Graph* entry = m.module.graph(spec.lowering.method);
  if (!entry || bound.size() == 0) return;  // that there is no such method is told where it is compiled
  const std::vector<ValueInfo> inputs = inputsOf(*entry);
  for (auto [key, given] : bound) {
    const std::string name = nb::cast<std::string>(key);
    const size_t at = findInput(inputs, name);
    if (at == kNoInput) throw nb::value_error(("bind: " + noInputText(name, inputs)).c_str());
    const ValueInfo& input = inputs[at];
    IValue value = fromPython(given, input.type);
    if (value.isString() && !isInstance(value, withoutRefinement(input.type))) {
      Diagnostics diagnostics;
      Result<IValue> read = parseValueText(value.toString(), "bind '" + name + "'", diagnostics, input.type, {});
      if (!read) raise(diagnostics, m.name);
      value = std::move(*read);
    }
    if (!isInstance(value, withoutRefinement(input.type)))
      throw nb::type_error(("bind: input '" + name + "' takes " + typeText(withoutRefinement(input.type)) + ", not " +
                            typeText(withoutRefinement(dynamicType(value))))
                               .c_str());
    spec.lowering.arguments[boundInput(input.name)] = std::move(value);
  }
}

CompileSpec specOf(const PyModule& m, const std::string& method, const Texts& inputs, const Texts& settings,
                   nb::dict bound) {
  CompileSpec out;
  out.lowering.method = method;
  for (const std::string& input : inputs)
    if (!addInputRange(input, out)) {
      const std::string fault = sizesFault(input);
      throw nb::value_error(
          ("'" + input + "' is no size of an input, such as x=1..8x3x224x224:f32" + (fault.empty() ? "" : ": " + fault))
              .c_str());
    }
  applyAll(out, settings);
  bindInputs(m, out, bound);
  return out;
}

// Runs what was compiled in f32 on examples, pairs of arguments by position and by name.
bool runExamples(const PyModule& m, const Method& method, nb::list examples, const CompileSpec& spec,
                 Diagnostics& diagnostics) {
  nb::gil_scoped_acquire lock;
  InterruptScope interrupts;
  RunOptions options = optionsOf({});
  options.threads = spec.engine.threads;
  options.interrupt = interrupts.flag();
  const PyMethod called{method, CallInputs(method.inputs(), m.module.defaults(spec.lowering.method)), m.name, {}};
  for (nb::handle example : examples) {
    const std::vector<IValue> inputs = inputsOf(called, example[0], example[1]);
    nb::gil_scoped_release unlocked;
    if (!called.method.run(inputs, diagnostics, options)) return false;
  }
  return true;
}

// How the engines of this spec are calibrated; null: they are not.
std::shared_ptr<Calibration> calibrationOf(const CompileSpec& spec, nb::list examples, const std::string& method) {
  if (method != "minmax" && method != "entropy")
    throw nb::value_error(("calibration takes one of minmax, entropy, not '" + method + "'").c_str());
  if (examples.size() == 0) return nullptr;
  if (spec.engine.precision != DType::Int8) throw nb::value_error("calibrate goes with precision='int8'");
  auto out = std::make_shared<Calibration>();
  out->method = method == "entropy" ? Calibration::Method::Entropy : Calibration::Method::MinMax;
  return out;
}

PyModule compiled(const PyModule& m, const std::string& method, const Texts& inputs, const Texts& settings,
                  nb::dict bound, nb::list examples, const std::string& calibrationMethod) {
  CompileSpec spec = specOf(m, method, inputs, settings, bound);
  const std::shared_ptr<Calibration> calibration = calibrationOf(spec, examples, calibrationMethod);
  Diagnostics diagnostics;
  const auto runAll = [&](const Method& f32) { return runExamples(m, f32, examples, spec, diagnostics); };
  Result<Module> out = alone(m, [&]() -> Result<Module> {
    const std::vector<std::string> given = m.module.unusedWeights();
    if (calibration && !calibrateBy(runAll, m.module, calibration, spec, diagnostics)) return Failed{};
    Result<Module> compiled = m.module.compiled(spec, diagnostics);
    if (!compiled && m.module.unusedWeights().size() == given.size()) summarizeForgotten(m.path, given, diagnostics);
    return compiled;
  });
  if (!out) raise(diagnostics, m.name);
  warn(diagnostics, m.name);
  PyModule engine = made(std::move(*out), m.name, m.path);
  engine.defaults = m.module.defaults(method);
  return engine;
}

void save(const PyModule& m, const std::string& path) {
  Diagnostics diagnostics;
  if (!alone(m, [&] { return m.module.save(path, diagnostics); })) raise(diagnostics, m.name);
}

void build(const PyModule& m, const std::string& folder, const std::string& config, const Texts& settings) {
  Diagnostics diagnostics;
  if (!alone(m, [&] { return buildFolder(m.module, m.path, folder, config, settings, diagnostics); }))
    raise(diagnostics, m.name);
  warn(diagnostics, m.name);
}

std::string partitionOf(const PyModule& m, const std::string& method, const Texts& inputs, const Texts& settings,
                        nb::dict bound) {
  const CompileSpec spec = specOf(m, method, inputs, settings, bound);
  Diagnostics diagnostics;
  Result<std::string> out = alone(m, [&] { return partitionJson(m.module, spec, diagnostics); });
  if (!out) raise(diagnostics, m.name);
  return *out;
}

std::string explain(const PyModule& m, const std::string& node, const std::string& method, const Texts& inputs,
                    const Texts& settings, nb::dict bound) {
  const CompileSpec spec = specOf(m, method, inputs, settings, bound);
  Diagnostics diagnostics;
  Result<std::string> out = alone(m, [&] { return explainJson(m.module, spec, node, diagnostics); });
  if (!out) raise(diagnostics, m.name);
  return *out;
}

PyMethod prepared(const PyModule& m, const std::string& name) {
  Diagnostics diagnostics;
  Result<Method> method = alone(m, [&] { return prepareGiven(m.path, m.module, name, diagnostics); });
  if (!method) raise(diagnostics, m.name);
  std::map<std::string, IValue> defaults = m.module.defaults(name);  // of an engine file, too
  defaults.merge(std::map<std::string, IValue>(m.defaults));
  CallInputs inputs(method->inputs(), std::move(defaults));
  std::vector<ValueInfo> outputs = method->outputs();
  return PyMethod{std::move(*method), std::move(inputs), m.name, std::move(outputs)};
}

nb::object engineInfo(const PyModule& m) {
  const EngineInfo* info = m.module.engineInfo();
  if (!info) return nb::none();
  nb::dict out;
  auto texts = [](const Texts& list) {
    nb::list texts;
    for (const std::string& t : list) texts.append(textOf(t));
    return texts;
  };
  out["version"] = textOf(info->version);
  out["source"] = textOf(info->source);
  const std::string hash = alone(m, [&] { return m.module.sourceHash(); });
  out["source_hash"] = hash.empty() ? nb::object(nb::none()) : nb::object(textOf(hash));
  out["options"] = texts(info->options);
  out["cpu"] = texts(info->cpu);
  Texts inputs;
  for (const InputRange& r : info->inputs) inputs.push_back(inputRangeText(r));
  out["inputs"] = texts(inputs);
  out["precision"] = textOf(std::string(precisionName(info->precision)));
  return out;
}

// Whether an operator of PyTorch, "aten::add.Tensor", can run.
bool hasOperator(const std::string& name) {
  if (isRegistered(name)) return true;
  const size_t dot = name.find('.');
  for (const Operator* op : allOps().overloads(Symbol::of(name.substr(0, dot))))
    if (op->overload() == (dot == std::string::npos ? "" : name.substr(dot + 1))) return op->isImplemented();
  return false;
}

void addMethods(nb::module_& m) {
  nb::class_<PyState>(m, "_State").def(nb::init<>()).def("clear", [](PyState& self) {
    nb::gil_scoped_release unlocked;  // which a run that prints waits for
    std::lock_guard lock(*self.mutex);
    self.state.clear();
  });
  nb::class_<PyMethod>(m, "Method")
      .def_prop_ro("inputs", [](const PyMethod& self) { return infosOf(self.call.wanted(), &self.call); })
      .def_prop_ro("outputs", [](const PyMethod& self) { return infosOf(self.outputs, nullptr); })
      .def("__call__",
           [](const PyMethod& self, nb::args args, nb::kwargs named) { return call(self, args, named, {}); })
      .def(
          "run",
          [](const PyMethod& self, nb::args args, int threads, uint64_t seed, nb::object timeLimit,
             nb::object memoryLimit, PyState* state, nb::kwargs named) {
            return call(self, args, named, {timeLimitOf(timeLimit), memoryLimitOf(memoryLimit), seed, threads, state});
          },
          nb::arg("args"), nb::arg("threads") = 0, nb::arg("seed") = 0, nb::arg("time_limit") = nb::none(),
          nb::arg("memory_limit") = nb::none(), nb::arg("_state") = nb::none(), nb::arg("named"))
      .def(
          "_profile",
          [](const PyMethod& self, nb::args args, size_t runs, int threads, nb::kwargs named) {
            return profileOf(self, args, named, runs,
                             {.timeLimit = {}, .memoryLimit = {}, .seed = 0, .threads = threads, .state = nullptr});
          },
          nb::arg("args"), nb::arg("runs") = 0, nb::arg("threads") = 0, nb::arg("named"));
}

void addModules(nb::module_& m) {
  nb::class_<PyModule>(m, "_Module")
      .def_prop_ro("methods", [](const PyModule& self) { return self.module.methods(); })
      .def_prop_ro("is_compiled", [](const PyModule& self) { return self.isCompiled; })
      .def_prop_ro("info", engineInfo)
      .def_prop_ro("unused_weights", [](const PyModule& self) { return self.module.unusedWeights(); })
      .def("prepare", prepared, nb::arg("method") = "forward")
      .def("compile", compiled)
      .def("save", save)
      .def("build", build)
      .def("partition", partitionOf)
      .def("explain", explain);
  m.def("check_settings", [](const Texts& settings) {
    CompileSpec spec;
    applyAll(spec, settings);
  });
  m.def("load_path", loadPath);
  m.def("load_memory", loadMemory);
  m.def("has_operator", hasOperator);
  m.def("version", [] { return std::string(libraryVersion()); });
}

}  // namespace

NB_MODULE(_core, m) {
  rememberMainThread();
  // PyTorch keeps what it has compiled until the process ends.
  nb::set_leak_warnings(false);
  // What reaches us as an exception: sizes that cannot be, memory that is not there.
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const ExecutionError& e) {
      PyErr_SetString(e.kind() == ErrorKind::Limit ? PyExc_MemoryError : PyExc_ValueError, e.what());
    }
  });
  addTensors(m);
  addOperators(m);
  addMethods(m);
  addModules(m);
  addTexts(m);
}

}  // namespace tscompile::python
