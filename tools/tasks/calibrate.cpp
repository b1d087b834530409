#include "tools/tasks/calibrate.h"

#include "api/binding/calibrate.h"
#include "ir/support/text.h"
#include "runtime/engine/network/tactics.h"
#include "tools/options/option_parts.h"
#include "tools/session/process.h"
#include "tools/tasks/inputs.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace tscompile {
namespace {

Calibration& calibrationIn(Options& options) {
  EngineOptions& engine = options.partition.spec.engine;
  if (!engine.tactics) engine.tactics = std::make_shared<TacticCache>();
  if (!engine.tactics->calibration) engine.tactics->calibration = std::make_shared<Calibration>();
  return *engine.tactics->calibration;
}

// The files that are named, and those in folders that are named, in the order of their names.
std::vector<std::string> examples(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    std::vector<std::string> inside;
    for (std::filesystem::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
      if (it->is_regular_file(error)) inside.push_back(it->path().string());
    std::sort(inside.begin(), inside.end());
    if (inside.empty()) inside.push_back(path);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

// A text file has a line for each input; another file is the only input.
Result<std::vector<IValue>> readExample(const std::string& file, const std::vector<ValueInfo>& wanted,
                                        const std::map<std::string, IValue>& defaults, Session& session) {
  RunCommand command;
  InputReader reader(wanted, session, defaults);
  if (file.ends_with(".txt"))
    command.inputFiles = {file};
  else if (const std::optional<size_t> only = reader.onlyRequired())
    command.inputs = {wanted[*only].name + "=@" + file};
  else
    throw UsageError{
        "--calibrate takes files of lines NAME=VALUE, with names that end in .txt, for a method of several "
        "inputs, not '" +
        abbreviate(file, 80) + "'"};
  Result<std::vector<std::string>> texts = givenInputs(command, session);
  if (!texts) return Failed{};
  if (!command.inputFiles.empty()) reader.setOnlyFile(file);
  return reader.read(*texts);
}

bool runOn(const std::vector<std::string>& files, const Method& method, const std::map<std::string, IValue>& defaults,
           const CompileSpec& spec, Session& session) {
  InterruptScope interrupts;
  RunOptions run = session.runLimits();
  run.threads = spec.engine.threads;
  run.interrupt = &interrupts.interrupted();
  for (const std::string& file : files) {
    Result<std::vector<IValue>> inputs = readExample(file, method.inputs(), defaults, session);
    if (!inputs || !method.run(*inputs, session.diagnostics, run)) return false;
  }
  return true;
}

}  // namespace

std::shared_ptr<Calibration> calibrationOf(CompileSpec& spec) {
  if (!spec.engine.tactics || !spec.engine.tactics->calibration) return nullptr;
  std::shared_ptr<Calibration> wanted = std::exchange(spec.engine.tactics->calibration, nullptr);
  if (wanted->inputs.empty()) throw UsageError{"--calibration goes with --calibrate"};
  if (spec.engine.precision != DType::Int8) throw UsageError{"--calibrate goes with --precision int8"};
  return wanted;
}

bool calibrate(const Module& module, const std::shared_ptr<Calibration>& calibration, CompileSpec& spec,
               Session& session) {
  const std::vector<std::string> files = examples(calibration->inputs);
  const std::map<std::string, IValue> defaults = module.defaults(spec.lowering.method);
  const auto runAll = [&](const Method& method) { return runOn(files, method, defaults, spec, session); };
  if (!calibrateBy(runAll, module, calibration, spec, session.diagnostics)) return false;
  if (!spec.engine.tactics->isOfOneEngine())
    session.note("--calibrate changes nothing: no engine has a value between convolutions");
  return true;
}

OptionSpec calibrateOption() {
  return {
      "--calibrate", "PATH",
      "with --precision int8: example inputs, from which fixed grids of the values between layers are found; a file "
      "of lines NAME=VALUE (.txt), or the value of the only input; of a folder, all files",
      [](Options& o, const std::string& v) {
        // As elsewhere, '@' may stand before a file.
        calibrationIn(o).inputs.push_back(v.starts_with('@') ? v.substr(1) : v);
      },
      true};
}

OptionSpec calibrationOption() {
  return {"--calibration", "minmax|entropy",
          "whether grids reach to all numbers that were seen (default), or leave out the outermost where that keeps "
          "their distribution better",
          [](Options& o, const std::string& v) {
            if (v != "minmax" && v != "entropy")
              throw UsageError{"--calibration takes minmax or entropy, not '" + abbreviate(v, 80) + "'"};
            calibrationIn(o).method = v == "entropy" ? Calibration::Method::Entropy : Calibration::Method::MinMax;
          }};
}

}  // namespace tscompile
