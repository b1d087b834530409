// Libraries that cannot be used as a whole: LIBRARY_FAULT tells how.
#include "runtime/plugin/plugin_sdk.h"

#include <cstring>
#include <stdexcept>

#ifndef PLUGIN_NAMESPACE
#define PLUGIN_NAMESPACE "faulty"
#endif

#define FAULT_NoSymbol 1
#define FAULT_UndefinedSymbol 2
#define FAULT_ThrowsWhenLoaded 3
#define FAULT_ThrowsInEntry 4
#define FAULT_Garbage 5
#define FAULT_Name 6

namespace {

struct Identity {
  static void describe(tsc::Description<Identity>& d) {
    d.key(PLUGIN_NAMESPACE, "Identity", "1", "y = x");
    d.input("x", tsc::kF32, "any sizes");
    d.output("y", tsc::kF32, "as x");
  }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run& r) const { std::ranges::copy(r.input(0).values<float>(), r.output(0).values<float>().begin()); }
};

#if LIBRARY_FAULT == FAULT_ThrowsWhenLoaded
struct Thrower {
  Thrower() { throw std::runtime_error("static initialiser"); }
} thrower;
#endif

}  // namespace

#if LIBRARY_FAULT == FAULT_UndefinedSymbol
extern "C" int nobodyHasThisFunction();
extern "C" [[gnu::visibility("default")]] int callsIt() { return nobodyHasThisFunction(); }
#endif

#if LIBRARY_FAULT == FAULT_Name || LIBRARY_FAULT == FAULT_UndefinedSymbol || LIBRARY_FAULT == FAULT_ThrowsWhenLoaded
TSC_PLUGINS(Identity)
#elif LIBRARY_FAULT == FAULT_ThrowsInEntry
extern "C" [[gnu::visibility("default")]] const tsc_plugin* const* tscompile_plugins_v1(const tsc_host*, size_t*) {
  throw std::runtime_error("no license");
}
#elif LIBRARY_FAULT == FAULT_Garbage
extern "C" [[gnu::visibility("default")]] const tsc_plugin* const* tscompile_plugins_v1(const tsc_host*,
                                                                                        size_t* count) {
  static tsc_plugin table;
  std::memset(static_cast<void*>(&table), 0x41, sizeof(table));
  table.size = sizeof(table), table.abi = TSC_ABI_VERSION;
  static const tsc_plugin* const all[] = {&table};
  *count = 1;
  return all;
}
#endif
