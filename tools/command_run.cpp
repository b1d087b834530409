// `tscompile run`: executes a graph.
#include "api/compile.h"
#include "api/module.h"
#include "api/value_text.h"
#include "ir/support/text.h"
#include "tools/commands.h"
#include "tools/machine_memory.h"
#include "tools/process.h"
#include "tools/run_outputs.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

std::string describeInput(const ValueInfo& v) { return "%" + v.name + " : " + typeText(withoutRefinement(v.type)); }

// A value that the user may start from.
std::string example(TypePtr type) {
  switch (type->kind()) {
    case TypeKind::Int:
      return "3";
    case TypeKind::Float:
    case TypeKind::Number:
      return "2.5";
    case TypeKind::Bool:
      return "true";
    case TypeKind::String:
      return "'\"text\"'";
    case TypeKind::Optional:
      return example(type->element());
    case TypeKind::List: {
      std::string element = example(type->element());
      return "'[" + (element[0] == '\'' ? element.substr(1, element.size() - 2) : element) + "]'";
    }
    case TypeKind::Tuple:
      return "'(...)'";
    case TypeKind::Dict:
      return "'{...}'";
    default:
      return "@FILE.npy";
  }
}

class InputReader {
 public:
  InputReader(std::vector<ValueInfo> wanted, Session& session)
      : wanted_(std::move(wanted)), given_(wanted_.size()), session_(session) {}

  // Values for all inputs, in order.
  Result<std::vector<IValue>> read(const std::vector<std::string>& texts) {
    bool good = true;
    for (const std::string& text : texts) good &= one(text);
    if (!good) return Failed{};
    std::vector<IValue> out;
    UsageError missing;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      if (given_[i]) {
        out.push_back(*given_[i]);
        continue;
      }
      if (missing.message.empty()) missing.message = "no value was given for input " + describeInput(wanted_[i]);
      missing.notes.push_back(
          "give it with --input " + wanted_[i].name + "=" + example(wanted_[i].type) +
          (wanted_[i].type->isTensor() ? ", or --input " + wanted_[i].name + "=2x3:f32:randn(seed=0)" : ""));
    }
    if (!missing.message.empty()) {
      if (missing.notes.size() > 1) missing.message += fmt::format(", nor for {} more", missing.notes.size() - 1);
      throw missing;
    }
    return out;
  }

 private:
  // The input that a key means: by name, else by position.
  size_t find(const std::string& key) {
    std::string name = !key.empty() && key[0] == '%' ? key.substr(1) : key;
    for (size_t i = 0; i < wanted_.size(); ++i)
      if (wanted_[i].name == name) return i;
    if (!key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos)
      if (size_t at = std::stoul(key); at < wanted_.size()) return at;
    UsageError error{"the graph has no input '" + abbreviate(key, 80) + "'"};
    NearestName nearest(name);
    for (const ValueInfo& v : wanted_) nearest.consider(v.name);
    if (nearest.found()) error.notes.push_back("did you mean '" + nearest.name() + "'?");
    error.notes.push_back(wanted_.empty() ? "it takes no inputs" : "it takes " + join(wanted_, ", ", describeInput));
    throw error;
  }

  bool one(const std::string& text) {
    size_t equal = text.find('=');
    if (equal == std::string::npos || equal == 0)
      throw UsageError{"--input takes NAME=VALUE, not '" + abbreviate(text, 80) + "'"};
    size_t i = find(text.substr(0, equal));
    if (given_[i]) throw UsageError{"input %" + wanted_[i].name + " was given twice"};
    Diagnostics& diagnostics = session_.diagnostics;
    size_t before = diagnostics.list().size();
    Result<IValue> value = parseValueText(std::string_view(text).substr(equal + 1), "--input " + wanted_[i].name,
                                          diagnostics, wanted_[i].type, session_.common.limits);
    if (value) {
      if (TypePtr t = withoutRefinement(wanted_[i].type); !isInstance(*value, t))
        throw UsageError{"input %" + wanted_[i].name + " takes " + typeText(t) + ", not " +
                         typeText(withoutRefinement(dynamicType(*value)))};
      given_[i] = std::move(*value);
      return true;
    }
    // A file that is wrong is an input; a value that cannot be read is a fault of the command line.
    if (diagnostics.list().size() > before && diagnostics.list()[before].kind == ErrorKind::Input &&
        diagnostics.list()[before].path.empty()) {
      const Diagnostic d = diagnostics.list()[before];
      diagnostics.clear();
      UsageError error{d.message};
      for (const Diagnostic& note : d.notes) error.notes.push_back(note.message);
      throw error;
    }
    return false;
  }

  std::vector<ValueInfo> wanted_;
  std::vector<std::optional<IValue>> given_;
  Session& session_;
};

class RunCommandExecutor {
 public:
  RunCommandExecutor(const Options& options, Session& session)
      : options_(options), run_(options.run), session_(session) {}

  int run() {
    std::optional<Method> method = prepare();
    if (!method) return session_.finish();
    Result<std::vector<IValue>> inputs = InputReader(method->inputs(), session_).read(run_.inputs);
    if (!inputs) return session_.finish();
    session_.report();

    InterruptScope interrupts(run_.timeLimit);
    Result<std::vector<IValue>> outputs = method->run(*inputs, session_.diagnostics, runOptions(interrupts));
    if (!outputs) {
      int code = session_.finish();
      return interrupts.signal() ? 128 + interrupts.signal() : code;
    }
    deliver(*outputs);
    return session_.finish();
  }

 private:
  std::optional<Method> prepare() {
    Result<Module> module = session_.loadModule(options_.arguments[0], run_.weights);
    if (!module) return std::nullopt;
    module_ = std::move(*module);
    std::string entry = run_.method;
    if (run_.engine && !module_->engineInfo()) {
      CompileSpec spec;
      spec.partition.lowering.method = run_.method;
      spec.partition.lowering.limits = session_.common.limits;
      Result<Module> compiled = module_->compiled(spec, session_.diagnostics);
      if (!compiled) return std::nullopt;
      module_ = std::move(*compiled);
      entry = "forward";
    }
    Result<Method> method = module_->prepare(session_.diagnostics, entry);
    if (!method) return std::nullopt;
    session_.noteUnusedWeights(module_->unusedWeights());
    return *method;
  }

  RunOptions runOptions(const InterruptScope& interrupts) {
    RunOptions o;
    o.memoryLimit = run_.memoryLimit ? *run_.memoryLimit : availableMemory() / 5 * 4;
    o.timeLimit = run_.timeLimit;
    o.interrupt = &interrupts.interrupted();
    o.seed = run_.seed;
    o.print = [this](std::string_view text) { session_.err << text; };
    o.warn = [this](std::string_view text) {
      Diagnostic d;
      d.severity = Severity::Warning;
      d.message = text;
      session_.diagnostics.add(d);
      session_.report();
    };
    return o;
  }

  void deliver(std::span<const IValue> outputs) {
    checkOutputs(outputs);
    if (!run_.outputs.empty() && !writeOutputs(run_.outputs, outputs, session_.diagnostics)) return;
    if (session_.common.json) {
      if (run_.outputs.empty() || run_.print) describeOutputsJson(outputs, run_.print, session_.out);
    } else if (run_.print) {
      for (const IValue& v : outputs) session_.out << valueToText(v) << '\n';
    } else if (run_.outputs.empty()) {
      describeOutputs(outputs, session_.out);
    }
  }

  const Options& options_;
  const RunCommand& run_;
  Session& session_;
  std::optional<Module> module_;
};

}  // namespace

int runRun(const Options& options, Session& session) { return RunCommandExecutor(options, session).run(); }

}  // namespace tscompile
