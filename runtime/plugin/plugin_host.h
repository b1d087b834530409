// What plugins are given, and how they are called: whatever a callback does, a text of what went wrong comes back.
#pragma once

#include "ir/values/error.h"
#include "ir/values/shape.h"
#ifndef TSC_VISIBILITY
#define TSC_VISIBILITY  // we are one library with it
#endif
#include "runtime/plugin/plugin_sdk.h"

#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

// A size as plugins see it.
struct tsc_dim {
  std::optional<int64_t> value = {};         // none: not known yet
  int64_t symbol = tscompile::kUnknownSize;  // what it is called then
};

namespace tscompile {

class RunContext;

// The functions that every plugin is given.
const tsc_host& pluginHost();

// What the `build` of shapes() is: makes sizes, takes the shapes of outputs.
struct ShapeBuild {
  struct Output {
    int32_t dtype = TSC_NONE;
    std::vector<tsc_dim> dims;
    bool set = false;
  };
  explicit ShapeBuild(size_t outputs) : outputs(outputs) {}
  std::deque<tsc_dim> dims;
  std::vector<Output> outputs;
  std::string problem;  // of calls that cannot be carried out
};

inline constexpr int kBackwards = -1;

// What the `run` of run() is.
struct PluginRun {
  RunContext* context = nullptr;  // null: none
  int32_t tactic = 0;             // 0: the first
  int threads = 1;                // kBackwards: the caller's, from the last part of a parallel_for to the first
  std::vector<int64_t> rows;      // by output; -1: as its shape says
};

// Text of the failure that a plugin has told on this thread; then it is forgotten.
std::string takeFailure();

// Calls a callback; "" if it returned TSC_OK, else why not. `status`: what it returned.
template <class F>
std::string callPlugin(F&& callback, tsc_status* status = nullptr) {
  takeFailure();
  tsc_status result = TSC_FAILED;
  std::string problem;
  try {
    result = callback();
  } catch (const std::exception& e) {
    problem = std::string("it throws: ") + e.what();
  } catch (...) {
    problem = "it throws";
  }
  if (status) *status = result;
  if (result == TSC_OK) return "";
  if (problem.empty()) problem = takeFailure();
  return problem.empty() ? "it returned status " + std::to_string(static_cast<int>(result)) : problem;
}

// What a callback without a status gives. What it throws becomes an ExecutionError.
template <class F>
auto askPlugin(F&& callback) {
  try {
    return callback();
  } catch (const std::exception& e) {
    throw ExecutionError(ErrorKind::Model, std::string("it throws: ") + e.what());
  } catch (...) {
    throw ExecutionError(ErrorKind::Model, "it throws");
  }
}

// Where log lines of plugins go: level and text. At first, nowhere.
void setPluginLog(std::function<void(int level, std::string_view message)> log);

// Callers of plugins' resources that still hold one; for tests.
size_t sharedResources();

}  // namespace tscompile
