// `tscompile verify`: engines against the interpreter.
#include "api/compile_settings.h"
#include "api/engine_file.h"
#include "api/forgotten_weights.h"
#include "api/verify.h"
#include "ir/graph/printer.h"
#include "ir/support/json_fields.h"
#include "ir/support/text.h"
#include "partition/report.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/session/process.h"
#include "tools/tasks/execution.h"
#include "tools/tasks/expect.h"
#include "tools/tasks/option_effects.h"
#include "tools/tasks/partitioning.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

struct VerifyCommand {
  double relative = 1e-3, absolute = 1e-4;
  bool checkThreshold = true;
  bool bisect = false;
  std::vector<std::string> expected;  // values of the outputs
};

std::string textOf(const Difference& d) {
  return d.wrong.empty() ? fmt::format("{:.2g}", d.largest) : "wrong: " + d.wrong;
}

std::string nameOf(size_t i) { return fmt::format("Engine_{}", i); }

// Where the first difference is to be seen: the output of an engine, and what makes it.
void writePlace(const EngineCheck& e, const std::string& name, std::ostream& out) {
  if (e.output.empty()) return;
  const Value* v = e.node->subgraph()->find(e.output);
  out << "first out of tolerance: %" << e.output << " of " << name;
  if (v && v->node()) out << ", made by " << placeName(v->node());
  out << "\n";
}

void writeBlame(const Blame& b, std::ostream& out) {
  out << (b.alone ? "the node that is wrong by itself: " : "wrong together with the nodes in front of it: ")
      << placeName(b.node) << ", difference " << textOf(b.difference) << "\n  " << nodeText(*b.node) << "\n";
}

// Two digits, rounded up: what is printed must pass when it is given back.
std::string roundedUp(double x) {
  if (x == 0) return "0";
  const double unit = std::pow(10.0, std::floor(std::log10(x)) - 1);
  std::string text = fmt::format("{:.2g}", std::ceil(x / unit) * unit);
  return std::strtod(text.c_str(), nullptr) >= x ? text : fmt::format("{:.2g}", (std::ceil(x / unit) + 1) * unit);
}

// Where one tolerance is enough by itself, the smallest one.
void writeTolerance(const VerifyReport& report, const Tolerance& t, std::ostream& out) {
  const Difference worst = report.worst();
  const bool needsRelative = worst.relative > 0, needsAbsolute = worst.absolute > 0;
  std::string text;
  auto add = [&](double size, std::string_view name, std::string_view otherName, const std::string& other) {
    if (std::isinf(size)) return;
    text += fmt::format("{}--{} {} with --{} {}", text.empty() ? "" : ", or ", name, roundedUp(size), otherName, other);
  };
  add(worst.relative, "rtol", "atol", needsRelative ? fmt::format("{:g}", t.absolute) : roundedUp(worst.largest));
  if (worst.largest > 0 && (needsAbsolute || std::isfinite(worst.relativeAlone)))
    add(worst.absolute, "atol", "rtol",
        needsAbsolute ? fmt::format("{:g}", t.relative) : roundedUp(worst.relativeAlone));
  out << (text.empty() ? "no tolerance passes" : "smallest tolerance that passes: " + text) << "\n";
}

// What outputs differ by from those of the model as it was given, where engines compute another one: "int8 rounds".
std::string otherModel(const CompileSpec& spec, const Session& session) {
  const DType precision = spec.engine.precision;
  std::string out = precision == DType::Float32 ? "" : std::string(precisionName(precision)) + " rounds";
  if (!session.common.rules.empty()) out += (out.empty() ? "" : " and ") + std::string("--rules change");
  return out;
}

// Where engines are right, the graph that they compute may be another one than the model's, or what follows may choose
// otherwise: detectors keep other boxes, sorts another order.
void writeChoice(const VerifyReport& report, const std::string& otherModel, std::ostream& out) {
  if (!otherModel.empty()) {
    out << "each engine computes what the interpreter makes of the same graph; the outputs differ from the model's by "
           "what "
        << otherModel << "\n";
    return;
  }
  const auto isOther = [](const EngineCheck& e) { return !e.carried.within; };
  const auto first = std::find_if(report.engines.begin(), report.engines.end(), isOther);
  out << "each engine is within tolerance for what it is given, and the small differences of those in front change a "
         "choice (a comparison, an order, a rounding)"
      << (first == report.engines.end() ? " before the outputs"
                                        : " in front of " + nameOf(static_cast<size_t>(first - report.engines.begin())))
      << ": numbers nearly tie there\n";
}

// `judges`: whether a difference is a failure.
void writeText(const VerifyReport& report, const VerifyOptions& options, bool judges, const std::string& otherModel,
               std::ostream& out) {
  out << " engine      nodes  calls         own     carried\n";
  for (size_t i = 0; i < report.engines.size(); ++i) {
    const EngineCheck& e = report.engines[i];
    const size_t whole = e.calls - e.planned - e.cut;
    std::string left = whole == 0 ? "" : fmt::format("  {} left to the interpreter", whole);
    if (e.cut) left += fmt::format("  {} in part", e.cut);
    out << fmt::format(" {:<10}  {:>5}  {:>5}  {:>10}  {:>10}{}{}\n", nameOf(i), e.nodes, e.calls, textOf(e.own),
                       textOf(e.carried), e.own.within || !judges ? "" : "  out of tolerance", left);
  }
  constexpr double kExact = 100;  // decibels: the rounding of float32 says nothing
  const double decibels = report.outputs.signalToNoise();
  out << fmt::format(" outputs                   {:>10}{}{}\n", textOf(report.outputs),
                     report.outputs.within || !judges ? "" : "  out of tolerance",
                     decibels < kExact ? fmt::format("  signal to noise {:.1f} dB", decibels) : "");
  for (size_t i = 0; judges && i < report.engines.size(); ++i)
    if (!report.engines[i].own.within) {
      writePlace(report.engines[i], nameOf(i), out);
      break;
    }
  if (judges && !report.outputs.within &&
      std::ranges::all_of(report.engines, [](const EngineCheck& e) { return e.own.within; }))
    writeChoice(report, otherModel, out);
  if (report.blame) writeBlame(*report.blame, out);
  writeTolerance(report, options.tolerance, out);
  if (judges) out << (report.passed() ? "PASSED\n" : "FAILED\n");
}

std::optional<double> ifFinite(double x) { return std::isfinite(x) ? std::optional(x) : std::nullopt; }
std::optional<std::string> ifSaid(const std::string& text) { return text.empty() ? std::nullopt : std::optional(text); }

struct DifferenceFields {
  const Difference& d;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("within", d.within);
    visit("largest", ifFinite(d.largest));
    visit("smallest_rtol", ifFinite(d.relative));
    visit("smallest_atol", ifFinite(d.absolute));
    visit("signal_to_noise_db", ifFinite(d.signalToNoise()));
    visit("nan_in_both", d.notNumbers);
    visit("wrong", ifSaid(d.wrong));
  }
};

struct EngineFields {
  std::string name;
  const EngineCheck& e;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", name);
    visit("nodes", e.nodes);
    visit("calls", e.calls);
    visit("planned", e.planned);
    visit("cut", e.cut);
    visit("own", DifferenceFields{e.own});
    visit("carried", DifferenceFields{e.carried});
    visit("output", ifSaid(e.output));
  }
};

struct BlameFields {
  const Blame& blame;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("node", nodeText(*blame.node));
    visit("line", lineOf(blame.node));
    visit("alone", blame.alone);
    visit("difference", DifferenceFields{blame.difference});
  }
};

struct ReportFields {
  const VerifyReport& report;

  std::vector<EngineFields> engines() const {
    std::vector<EngineFields> out;
    for (const EngineCheck& e : report.engines) out.push_back({nameOf(out.size()), e});
    return out;
  }

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.verify/1");
    visit("passed", report.passed());
    visit("engines", Lines{engines()});
    visit("outputs", DifferenceFields{report.outputs});
    if (report.blame) visit("blame", BlameFields{*report.blame});
  }
};

// Inputs of which no dtype is said are float32, and ids are not: what compiling says of that.
void tellOfDtypes(const Module& module, const CompileSpec& spec, Session& session) {
  Diagnostics said;
  const bool isOpen = std::any_of(spec.shapes.begin(), spec.shapes.end(),
                                  [](const InputRange& r) { return r.dtype == DType::Undefined; });
  if (module.engineInfo() || !isOpen || module.compiled(spec, said) || said.list().empty()) return;
  for (const Diagnostic& note : said.list().front().notes) session.diagnostics.remark({}, note.message);
}

// Engines of other precisions round more than tolerances for float32 let pass, and the graph of an engine file has the
// weights that it was compiled with.
void tellOfPrecision(const Module& module, const CompileSpec& spec, const VerifyReport& report,
                     const VerifyCommand& command, Session& session) {
  const EngineInfo* info = module.engineInfo();
  const DType precision = info ? info->precision : spec.engine.precision;
  if (precision == DType::Float32 || !command.expected.empty()) return;
  if (info)
    session.note(
        fmt::format("the differences are from the graph of the engine file, as the interpreter computes it; those "
                    "from the model before {} are told by --expect, or verify MODEL --precision {}",
                    precisionName(precision), precisionName(precision)));
  if (command.checkThreshold && !report.passed())
    session.note(
        fmt::format("{} rounds more than tolerances for f32 let pass: --no-threshold-check tells the differences "
                    "alone, and --rtol and --atol are tolerances of yours",
                    precisionName(precision)));
}

// Outputs that any model would return.
void tellOfNothing(const Difference& outputs, Session& session) {
  if (outputs.notNumbers > 0) {
    const std::string count = outputs.numbers == 0 ? "all floats" : counted(outputs.notNumbers, "number");
    session.note(
        fmt::format("{} that it returns {} NaN, in the interpreter as well, which tells nothing of what was "
                    "computed",
                    count, outputs.notNumbers == 1 && outputs.numbers > 0 ? "is" : "are"));
    session.tellOfInputs();
  } else if (outputs.numbers > 1 && outputs.signal == 0) {
    session.note("all numbers that it returns are 0, which tells nothing of what was computed");
  }
}

// What the engines compute against values from elsewhere.
int verifyExpected(const VerifyReport& report, const Options& options, std::span<const IValue> inputs,
                   const VerifyOptions& verify, Session& session) {
  const VerifyCommand& command = options.own.of<VerifyCommand>();
  Result<Method> method = report.compiled->prepare(session.diagnostics);
  if (!method) return session.finish();
  Result<std::vector<IValue>> outputs = method->run(inputs, session.diagnostics, verify.run);
  if (!outputs) return session.finish();
  Result<ExpectationReport> compared =
      compareOutputs(*outputs, Expectations{command.expected, verify.tolerance, {}, true}, session);
  if (!compared) return session.finish();
  session.common.json ? writeJson(session.out, *compared) : compared->writeText(session.out, command.checkThreshold);
  if (!compared->passed()) tellRandomInputs(options, session);
  return session.finish(compared->passed() || !command.checkThreshold ? kExitDone : kExitNegative);
}

}  // namespace

static int runVerify(const Options& options, Session& session) {
  const VerifyCommand& command = options.own.of<VerifyCommand>();
  if (command.bisect && !command.expected.empty())
    throw UsageError{"--bisect goes without --expect: what is expected is known of the outputs alone"};
  CompileSpec spec = compileSpecOf(options.partition, session);
  Result<Module> module = loadForPartition(options, spec, session, "--input");
  if (!module) return session.finish();
  if (const EngineInfo* info = module->engineInfo()) {
    checkOptionEffects(options, *module);
    // Those on the command line come first.
    spec.shapes.insert(spec.shapes.end(), info->inputs.begin(), info->inputs.end());
  }
  Result<Method> method = prepareGiven(options.arguments[0], *module, spec.lowering.method, session.diagnostics);
  if (!method) return session.finish();
  const Executable given{*module, *method, module->defaults(spec.lowering.method)};
  Options said = options;
  said.run.method = spec.lowering.method;
  Result<std::vector<IValue>> inputs = readInputs(given, said, true, session);
  if (!inputs) return session.finish();

  // As a run with these inputs is compiled.
  CompileSpec sized = spec;
  if (!module->engineInfo()) {
    addSizes(sized, method->inputs(), *inputs);
    bindNone(sized, method->inputs(), *inputs);
  }
  std::vector<size_t> bound = boundInputs(sized, method->inputs());
  session.progress.step("comparing");
  InterruptScope interrupts;
  VerifyOptions verify;
  verify.tolerance = {command.relative, command.absolute};
  verify.bisect = command.bisect;
  verify.run = session.runLimits();
  verify.run.interrupt = &interrupts.interrupted();
  Diagnostics ofSizes;
  Result<VerifyReport> report = verifyEngines(*module, sized, *inputs, verify, ofSizes);
  if (report) warnAgain(ofSizes, session.diagnostics);
  if (!report) {
    bound = boundInputs(spec, method->inputs());
    report = verifyEngines(*module, spec, *inputs, verify, session.diagnostics);
  }
  if (!report) {
    tellOfDtypes(*module, spec, session);
    int code = session.finish();
    return interrupts.signal() ? 128 + interrupts.signal() : code;
  }
  session.noteUnusedWeights(module->unusedWeights());
  session.progress.end();
  tellOfNothing(report->outputs, session);
  tellOfPrecision(*module, sized, *report, command, session);
  if (std::ranges::none_of(report->engines, [](const EngineCheck& e) { return e.planned + e.cut > 0; }))
    session.note("no engine ran: the interpreter was compared with itself");
  removeAt(*inputs, bound);
  if (!command.expected.empty()) return verifyExpected(*report, options, *inputs, verify, session);
  if (session.common.json)
    writeJson(session.out, ReportFields{*report});
  else
    writeText(*report, verify, command.checkThreshold, module->engineInfo() ? "" : otherModel(spec, session),
              session.out);
  return session.finish(report->passed() || !command.checkThreshold ? kExitDone : kExitNegative);
}

namespace {

constexpr std::string_view kVerifyDetails =
    R"(The method is compiled as 'run' does. Each engine runs on the values that the
interpreter has computed ('own'), and on those of the engines in front of it ('carried'). An element
passes if |got - want| <= atol + rtol * |want|. The exit code is 1 if one does not. An engine file is
taken as it is; its outputs are compared with those of its graph without engines.

Examples:
  tscompile verify model.tse
  tscompile verify model.ir -w model.safetensors --shape x=1x3x224x224
  tscompile verify model.ir -w model.safetensors -i x=@cat.npy --rtol 1e-5 --bisect
)";

OptionSpecs verifyOptions() {
  return partitioningOptions() + OptionSpecs{requireFullOption()} + precisionOptions() +
         inputOptions("an input; without it, --shape gives the sizes of random numbers") +
         OptionSpecs{
             {"--rtol", "X", "part of an element that a difference may be (default: 0.001)",
              [](Options& o, const std::string& v) { o.own.of<VerifyCommand>().relative = tolerance("--rtol", v); }},
             {"--atol", "X", "that a difference may be besides (default: 0.0001)",
              [](Options& o, const std::string& v) { o.own.of<VerifyCommand>().absolute = tolerance("--atol", v); }},
             {"--expect", "VALUES",
              "compare the outputs with these instead: a folder of 'run --outputs', @FILE, or NAME=@FILE for an "
              "output, or an item of a tuple or dict",
              [](Options& o, const std::string& v) { o.own.of<VerifyCommand>().expected.push_back(v); }, true},
             {"--no-threshold-check", "", "tell the differences and judge none of them: the exit code is 0",
              [](Options& o, const std::string&) { o.own.of<VerifyCommand>().checkThreshold = false; }},
             {"--bisect", "", "find the node inside the first engine that is out of tolerance",
              [](Options& o, const std::string&) { o.own.of<VerifyCommand>().bisect = true; }},
         };
}

}  // namespace

VerbSpec verifyCommand() {
  return {
      .name = "verify",
      .summary = "compare every engine of a graph with the interpreter",
      .argument = "FILE",
      .argumentHelp = "a model (.pt, .pt2, graph text, a module dump) or an engine file; -: text from standard input",
      .argumentRequired = true,
      .details = kVerifyDetails,
      .options = verifyOptions(),
      .command = runVerify};
}

}  // namespace tscompile
