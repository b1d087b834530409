// `tscompile verify`: engines against the interpreter.
#include "api/engine_file.h"
#include "api/verify.h"
#include "ir/graph/printer.h"
#include "ir/support/json_writer.h"
#include "ir/support/text.h"
#include "partition/report.h"
#include "tools/commands/commands.h"
#include "tools/session/machine_memory.h"
#include "tools/session/process.h"
#include "tools/work/inputs.h"
#include "tools/work/partitioning.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

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
  if (std::isinf(x)) return "none";
  if (x == 0) return "0";
  const double unit = std::pow(10.0, std::floor(std::log10(x)) - 1);
  std::string text = fmt::format("{:.2g}", std::ceil(x / unit) * unit);
  return std::strtod(text.c_str(), nullptr) >= x ? text : fmt::format("{:.2g}", (std::ceil(x / unit) + 1) * unit);
}

void writeTolerance(const VerifyReport& report, const Tolerance& t, std::ostream& out) {
  Difference worst = report.worst();
  if (std::isinf(worst.relative) && std::isinf(worst.absolute)) {
    out << "no tolerance passes\n";
    return;
  }
  out << fmt::format("smallest tolerance that passes: --rtol {} with --atol {:g}, or --atol {} with --rtol {:g}\n",
                     roundedUp(worst.relative), t.absolute, roundedUp(worst.absolute), t.relative);
}

void writeText(const VerifyReport& report, const VerifyOptions& options, std::ostream& out) {
  out << " engine      nodes  calls         own     carried\n";
  for (size_t i = 0; i < report.engines.size(); ++i) {
    const EngineCheck& e = report.engines[i];
    std::string left = e.planned == e.calls ? "" : fmt::format("  {} left to the interpreter", e.calls - e.planned);
    out << fmt::format(" {:<10}  {:>5}  {:>5}  {:>10}  {:>10}{}{}\n", nameOf(i), e.nodes, e.calls, textOf(e.own),
                       textOf(e.carried), e.own.within ? "" : "  out of tolerance", left);
  }
  out << fmt::format(" outputs                   {:>10}{}\n", textOf(report.outputs),
                     report.outputs.within ? "" : "  out of tolerance");
  for (size_t i = 0; i < report.engines.size(); ++i)
    if (!report.engines[i].own.within) {
      writePlace(report.engines[i], nameOf(i), out);
      break;
    }
  if (report.blame) writeBlame(*report.blame, out);
  writeTolerance(report, options.tolerance, out);
}

void writeDifference(std::string_view key, const Difference& d, JsonWriter& json) {
  json.key(key);
  json.beginObject();
  json.field("within", d.within);
  if (std::isfinite(d.largest)) json.field("largest", d.largest);
  if (std::isfinite(d.relative)) json.field("smallest_rtol", d.relative);
  if (std::isfinite(d.absolute)) json.field("smallest_atol", d.absolute);
  if (!d.wrong.empty()) json.field("wrong", d.wrong);
  json.endObject();
}

void writeJson(const VerifyReport& report, std::ostream& out) {
  JsonWriter json(out);
  json.beginObject();
  json.field("format", "tscompile.verify/1");
  json.field("passed", report.passed());
  json.key("engines");
  json.beginArray();
  for (size_t i = 0; i < report.engines.size(); ++i) {
    const EngineCheck& e = report.engines[i];
    json.newLine();
    json.beginObject();
    json.field("name", nameOf(i));
    json.field("nodes", e.nodes);
    json.field("calls", e.calls);
    json.field("planned", e.planned);
    writeDifference("own", e.own, json);
    writeDifference("carried", e.carried, json);
    if (!e.output.empty()) json.field("output", e.output);
    json.endObject();
  }
  json.endArray();
  writeDifference("outputs", report.outputs, json);
  if (report.blame) {
    json.key("blame");
    json.beginObject();
    json.field("node", nodeText(*report.blame->node));
    json.field("line", lineOf(report.blame->node));
    json.field("alone", report.blame->alone);
    writeDifference("difference", report.blame->difference, json);
    json.endObject();
  }
  json.endObject();
  json.finish();
}

// An engine file is cut and compiled; only what to run it on may be said.
void checkOptionsOfEngineFile(const PartitionCommand& c) {
  auto refuse = [](bool given, std::string_view option) {
    if (given) throw UsageError{fmt::format("{} is for graph text: an engine file is compiled already", option)};
  };
  refuse(c.minBlockSize.has_value(), "--min-block-size");
  refuse(!c.operators.empty(), "--torch-executed-op");
  refuse(!c.modules.empty(), "--torch-executed-module");
  refuse(!c.nodes.empty(), "--torch-executed-node");
  refuse(!c.withoutConverters.empty(), "--without-converter");
  refuse(c.precision != Precision::F32, "--enable-precision");
  refuse(c.requireFull.has_value(), "--require-full");
  refuse(!c.lower, "--no-lower");
}

}  // namespace

int runVerify(const Options& options, Session& session) {
  CompileSpec spec = compileSpecOf(options.partition, session.common.limits);
  Result<Module> module = loadForPartition(options, session);
  if (!module) return session.finish();
  if (const EngineInfo* info = module->engineInfo()) {
    checkOptionsOfEngineFile(options.partition);
    // Those on the command line come first.
    spec.partition.shapes.insert(spec.partition.shapes.end(), info->inputs.begin(), info->inputs.end());
  }
  Result<Method> method = module->prepare(session.diagnostics, options.partition.method);
  if (!method) return session.finish();
  Result<std::vector<IValue>> inputs =
      InputReader(method->inputs(), session).readOrMake(inputTexts(options.verify.inputs, spec.partition), 0);
  if (!inputs) return session.finish();

  session.progress.step("comparing");
  InterruptScope interrupts(std::nullopt);
  VerifyOptions verify;
  verify.tolerance = {options.verify.relative, options.verify.absolute};
  verify.bisect = options.verify.bisect;
  verify.run.memoryLimit = availableMemory() / 5 * 4;
  verify.run.interrupt = &interrupts.interrupted();
  Result<VerifyReport> report = verifyEngines(*module, spec, *inputs, verify, session.diagnostics);
  if (!report) {
    int code = session.finish();
    return interrupts.signal() ? 128 + interrupts.signal() : code;
  }
  session.noteUnusedWeights(module->unusedWeights());
  session.progress.end();
  if (session.common.json)
    writeJson(*report, session.out);
  else
    writeText(*report, verify, session.out);
  return session.finish(report->passed() || !options.verify.checkThreshold ? kExitDone : kExitNegative);
}

}  // namespace tscompile
