// A plugin with every kind of field and function, which writes down what it is told.
#pragma once

#include "runtime/plugin/plugin_registry.h"

#include <string>
#include <vector>

namespace tscompile::test {

// What instances of Traced do, in order.
inline std::vector<std::string>& trace() {
  static std::vector<std::string> lines;
  return lines;
}

enum class Mode { Plain, Rotated };

struct Traced {
  int64_t num_heads = 0;
  double q_scaling = 1;
  int64_t head_size = 8;
  bool causal = true;
  Mode mode = Mode::Plain;
  std::vector<int64_t> windows = {};
  std::string label = "none";
  bool isContext = false;

  Traced() = default;
  Traced(const Traced& from)
      : num_heads(from.num_heads),
        q_scaling(from.q_scaling),
        head_size(from.head_size),
        causal(from.causal),
        mode(from.mode),
        windows(from.windows),
        label(from.label),
        isContext(true) {
    trace().push_back("attach");
  }
  ~Traced() {
    if (num_heads) trace().push_back(isContext ? "detach" : "destroy");
  }
  static void describe(tsc::Description<Traced>& d) {
    d.key("test", "Traced", "1", "y = q_scaling * x");
    d.field("num_heads", &Traced::num_heads, "heads").mandatory().range(1, 64);
    d.field("q_scaling", &Traced::q_scaling, "the factor").range(0, 100);
    d.field("head_size", &Traced::head_size, "of a head").range(1, 256);
    d.field("causal", &Traced::causal, "whether rows see what is before them only");
    d.choice("mode", &Traced::mode, "plain|rotated", {Mode::Plain, Mode::Rotated}, "how");
    d.field("windows", &Traced::windows, "sizes").items(0, 4);
    d.field("label", &Traced::label, "a text");
    d.input("x", tsc::kF32, "any sizes");
    d.output("y", tsc::kF32, "as x");
  }
  void prepare() { trace().push_back("create"); }
  void initialize() { trace().push_back("initialize"); }
  void terminate() { trace().push_back("terminate"); }
  void configure(const tsc::Tensors& least, const tsc::Tensors&, const tsc::Tensors&) {
    trace().push_back("configure " + std::to_string(least.input(0).size(0)));
  }
  size_t workspace(const tsc::Tensors& t) const { return static_cast<size_t>(t.input(0).numel()) * sizeof(float); }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run& r) const {
    trace().push_back("run");
    auto x = r.input(0).values<float>();
    auto y = r.output(0).values<float>();
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(q_scaling) * x[i];
  }
};

inline constexpr const char* kTracedGraph =
    "graph(%x : Tensor):\n"
    "  %y : Tensor = test::Traced[num_heads=2, q_scaling=3.](%x)\n"
    "  return (%y)\n";

}  // namespace tscompile::test
