// The one header to include: load a model, compile it, run it.
//
//   tscompile::Diagnostics diagnostics;
//   auto module = tscompile::Module::load("model.ir", {.weights = {"model.safetensors"}}, diagnostics);
//   auto compiled = module ? tscompile::compile(*module, {{{{1, 3, 224, 224}}}}, diagnostics) : ...;
//   auto outputs = compiled ? compiled->forward({{input}}, diagnostics) : ...;
//   if (diagnostics.hasErrors()) std::cerr << tscompile::renderDiagnostics(diagnostics, "my program");
#pragma once

#if __cplusplus < 202002L
#error "tscompile needs C++20: compile with -std=c++20, or target_compile_features(... cxx_std_20)"
#endif

#include "api/compile.h"
#include "api/engine_file.h"
#include "api/extensions.h"
#include "api/lower.h"
#include "api/module.h"
#include "api/refit.h"
#include "api/value_text.h"
#include "frontend/text/parse.h"
#include "ir/graph/clone.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "partition/report.h"
#include "passes/rewrite/pattern.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/registry.h"
