#include "api/binding/calibrate.h"

#include "runtime/engine/network/tactics.h"

namespace tscompile {

bool calibrateBy(const std::function<bool(const Method&)>& runAll, const Module& module,
                 const std::shared_ptr<Calibration>& calibration, CompileSpec& spec, Diagnostics& diagnostics) {
  CompileSpec measured = spec;
  measured.engine.precision = DType::Float32;
  measured.engine.measureTactics = false;
  measured.engine.tactics = std::make_shared<TacticCache>();
  measured.engine.tactics->calibration = calibration;
  measured.onPartition = nullptr;
  measured.lowering.settings.profile = nullptr;
  Result<Module> compiled = module.compiled(measured, diagnostics);
  if (!compiled) return false;
  Result<Method> method = compiled->prepare(diagnostics);
  if (!method || !runAll(*method)) return false;
  if (calibration->method == Calibration::Method::Entropy) {
    calibration->beginToCount();
    if (!runAll(*method)) return false;
  }
  if (!spec.engine.tactics) spec.engine.tactics = std::make_shared<TacticCache>();
  calibration->tell(*spec.engine.tactics);
  return true;
}

}  // namespace tscompile
