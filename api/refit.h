// Refitting: weights of an engine file are replaced by name, without the text that it was made from. The file has to be
// made for it (CompileSpec::refittable). What was folded or packed is made again of the new weights, so the result is
// that of compiling them, to the last byte.
#pragma once

#include "api/engine_file.h"
#include "api/module.h"

#include <memory>
#include <string>
#include <vector>

namespace tscompile {

struct RefitOptions {
  std::vector<std::string> weights;  // files, as LoadOptions has them
  bool partial = false;              // weights that are not given stay; else each must be given
  LoadOptions load = {};             // limits, extensions; its weights are not for this
};

// Writes the engine file at `path` with other weights to `output`, which may be the same. Reports all names, sizes and
// dtypes that do not fit.
bool refitEngine(const std::string& path, const RefitOptions& options, const std::string& output,
                 Diagnostics& diagnostics);

// The source of an engine file with the weights replaced; null after reporting what does not fit, and for files that
// cannot be refitted.
std::shared_ptr<const RefitSource> refittedSource(const std::string& path, const RefitSource* source,
                                                  const RefitOptions& options, Diagnostics& diagnostics);

}  // namespace tscompile
