// What the handles of the C interface are, and how failures become errors.
#pragma once

#include "api/binding/problem.h"
#include "api/c/tscompile.h"
#include "api/call_inputs.h"
#include "api/compile.h"
#include "api/module.h"
#include "ir/values/error.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

struct tscompile_error {
  tscompile_status status;
  tscompile::Problems problems;
  std::vector<std::string> notes;  // of each problem
};

struct tscompile_value {
  tscompile::IValue value;
};

struct tscompile_module {
  tscompile::Module module;
  tscompile::SourceName name;                         // that stands for its path in messages
  std::string path;                                   // what it was loaded from, or is called
  std::map<std::string, tscompile::IValue> defaults;  // of a compiled module: those of the method it was made of
  std::vector<std::string> methods;
  std::unique_ptr<tscompile_error> warnings;  // null: none
};

struct tscompile_method {
  struct Info {
    tscompile::ValueInfo info;
    std::string type;
    std::vector<int64_t> sizes;
    bool isOptional = false;
  };
  tscompile::Method method;
  tscompile::CallInputs call;
  tscompile::SourceName name;
  std::vector<Info> inputs, outputs;
};

struct tscompile_interrupt {
  std::atomic<bool> isSet{false};
};

struct tscompile_state {
  tscompile::RunState state;
};

namespace tscompile::c {

// Thrown inside of guarded(): what was reported.
struct Failure {
  tscompile_status status;
  Problems problems;
};

tscompile_status statusOf(ErrorKind kind);
[[noreturn]] void fail(const Diagnostics& diagnostics, const SourceName& name = {});
[[noreturn]] void failUsage(std::string message);
template <class T>
const T& given(const T* pointer, const char* what) {
  if (!pointer) failUsage(std::string(what) + " is NULL");
  return *pointer;
}

// Of an out parameter, before anything can fail.
template <class T>
void clear(T** out, const char* what) {
  given(out, what);
  *out = nullptr;
}

std::unique_ptr<tscompile_error> errorOf(tscompile_status status, Problems problems);
// Hands an error to the caller, who may not want it.
tscompile_status hand(Failure failure, tscompile_error** error) noexcept;

// Every function that can fail is one of these: what is thrown inside becomes its status and its error.
template <class Body>
tscompile_status guarded(tscompile_error** error, Body&& body) noexcept {
  auto plain = [&](tscompile_status status, ErrorKind kind, const char* what) {
    Failure failure{status, {}};
    try {
      Diagnostics diagnostics;
      diagnostics.error(what, kind);
      failure.problems = problemsOf(diagnostics);
    } catch (...) {  // there is no memory for the words
    }
    return hand(std::move(failure), error);
  };
  try {
    body();
    return TSCOMPILE_OK;
  } catch (Failure& failure) {
    return hand(std::move(failure), error);
  } catch (const ExecutionError& e) {
    return plain(statusOf(e.kind()), e.kind(), e.message().c_str());
  } catch (const std::bad_alloc&) {
    return plain(TSCOMPILE_LIMIT, ErrorKind::Limit, "out of memory");
  } catch (const std::exception& e) {
    return plain(TSCOMPILE_INTERNAL, ErrorKind::Input, e.what());
  } catch (...) {
    return plain(TSCOMPILE_INTERNAL, ErrorKind::Input, "an exception of an unknown kind");
  }
}

// A struct of the caller, whose `size` tells how much of it there is; zero where it ends.
template <class T>
T optionsOf(const T* options, const char* name) {
  T out{};
  if (!options) return out;
  if (options->size < sizeof(options->size)) failUsage(std::string("the size of ") + name + " is not set");
  std::memcpy(&out, options, std::min(options->size, sizeof(T)));
  return out;
}
// The other way round: as much as there is room for.
template <class T>
int fill(T* out, const T& from) {
  if (!out || out->size < sizeof(out->size)) return 0;
  const size_t size = out->size;
  std::memcpy(out, &from, std::min(size, sizeof(T)));
  out->size = size;
  return 1;
}

// A list of texts of the caller; NULL in it is a failure.
std::vector<std::string> textsOf(const char* const* texts, size_t count);

// Owned by the caller, who frees it with tscompile_string_free.
char* copied(const std::string& text);

}  // namespace tscompile::c
