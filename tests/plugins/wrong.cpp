// Plugins with mistakes that only a run, or the sizes that are told, show.
#include "runtime/plugin/plugin_sdk.h"

#include <csignal>
#include <cstdlib>

namespace {

template <class Act>
struct Copy {
  static void describe(tsc::Description<Copy>& d) {
    d.key("wrong", Act::kName, "1", "y = x");
    d.input("x", tsc::kF32, "any sizes");
    d.output("y", tsc::kF32, "as x");
  }
  void shapes(tsc::Shapes& s) const {
    if (Act::kTellsShapes) s.output(0, s.input(0));
  }
  void run(tsc::Run& r) const {
    std::ranges::copy(r.input(0).values<float>(), r.output(0).values<float>().begin());
    Act::act(r);
  }
};

struct Falls {
  static constexpr const char* kName = "Falls";
  static constexpr bool kTellsShapes = true;
  static void act(tsc::Run&) { raise(SIGSEGV); }
};
struct Leaves {
  static constexpr const char* kName = "Leaves";
  static constexpr bool kTellsShapes = true;
  static void act(tsc::Run&) { std::exit(0); }
};
struct Shapeless {
  static constexpr const char* kName = "Shapeless";
  static constexpr bool kTellsShapes = false;
  static void act(tsc::Run&) {}
};
struct Negative {
  static constexpr const char* kName = "Negative";
  static constexpr bool kTellsShapes = true;
  static void act(tsc::Run& r) { r.setRows(0, -5); }
};
struct TooMany {
  static constexpr const char* kName = "TooMany";
  static constexpr bool kTellsShapes = true;
  static void act(tsc::Run& r) { r.setRows(0, 1000000); }
};
// Far past its output.
struct Overruns {
  static constexpr const char* kName = "Overruns";
  static constexpr bool kTellsShapes = true;
  static void act(tsc::Run& r) {
    auto* y = r.output(0).data<float>();
    for (int i = 0; i < 100000; ++i) y[i] = 1;
  }
};

}  // namespace

TSC_PLUGINS(Copy<Falls>, Copy<Leaves>, Copy<Shapeless>, Copy<Negative>, Copy<TooMany>, Copy<Overruns>)
