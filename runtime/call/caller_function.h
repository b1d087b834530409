// Functions that a caller gives to a run. What they throw ends the run as an error, and goes no further.
#pragma once

#include "ir/values/error.h"

#include <exception>
#include <string>

namespace tscompile {

// `what`: how messages call it.
template <class F, class Argument>
void callCallers(const F& function, const char* what, const Argument& argument) {
  std::string failure;
  try {
    return function(argument);
  } catch (const ExecutionError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& thrown) {
    failure = thrown.what();
  } catch (...) {
    failure = "an exception";
  }
  throw ExecutionError(ErrorKind::Model, std::string(what) + " threw: " + failure);
}

}  // namespace tscompile
