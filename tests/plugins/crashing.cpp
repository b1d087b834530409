// Plugins that do to the process what no plugin may, each at another time.
#include "runtime/plugin/plugin_sdk.h"

#include <csignal>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

namespace {

enum class When { Never, Prepare, Shapes, SecondRun };

// A copy of x, until it is time.
template <class Act, When kWhen>
struct Copy {
  mutable int runs = 0;
  static void describe(tsc::Description<Copy>& d) {
    d.key("crashing", Act::kName, "1", "y = x");
    d.input("x", tsc::kF32, "any sizes");
    d.output("y", tsc::kF32, "as x");
  }
  void prepare() const {
    if (kWhen == When::Prepare) Act::act();
  }
  void shapes(tsc::Shapes& s) const {
    if (kWhen == When::Shapes) Act::act();
    s.output(0, s.input(0));
  }
  void run(tsc::Run& r) const {
    if (kWhen == When::SecondRun && ++runs == 2) Act::act();
    std::ranges::copy(r.input(0).values<float>(), r.output(0).values<float>().begin());
  }
};

struct Aborts {
  static constexpr const char* kName = "Aborts";
  static void act() { std::abort(); }
};
struct Exits {
  static constexpr const char* kName = "Exits";
  static void act() { std::_Exit(0); }
};
struct Hangs {
  static constexpr const char* kName = "Hangs";
  static void act() {
    for (volatile int forever = 1; forever;) {
    }
  }
};
// To the file that the checks report to.
struct Scribbles {
  static constexpr const char* kName = "Scribbles";
  static void act() {
    constexpr std::string_view kText = "{\"check\":1,\"counts\":\"x\"}\n[]\nno json\n{\"number\":-1}\n";
    if (write(3, kText.data(), kText.size()) < 0) std::abort();
  }
};
struct Segfaults {
  static constexpr const char* kName = "Segfaults";
  static void act() { raise(SIGSEGV); }
};
struct Works {
  static constexpr const char* kName = "Works";
  static void act() {}
};

}  // namespace

TSC_PLUGINS(Copy<Aborts, When::Prepare>, Copy<Exits, When::Shapes>, Copy<Hangs, When::SecondRun>,
            Copy<Scribbles, When::SecondRun>, Copy<Segfaults, When::SecondRun>, Copy<Works, When::Never>)
