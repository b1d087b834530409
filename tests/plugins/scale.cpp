// Two plugins that tests load: a scaled copy, and the sum of rows.
#include "runtime/plugin/plugin_sdk.h"

#ifndef PLUGIN_NAMESPACE
#define PLUGIN_NAMESPACE "testlib"
#endif
#ifndef PLUGIN_SECOND
#define PLUGIN_SECOND "RowSum"
#endif

namespace {

struct Scale {
  double by = 1;
  static void describe(tsc::Description<Scale>& d) {
    d.key(PLUGIN_NAMESPACE, "Scale", "1", "y = by * x");
    d.field("by", &Scale::by, "the factor");
    d.input("x", tsc::kF32, "any sizes");
    d.output("y", tsc::kF32, "as x");
  }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run& r) const {
    auto x = r.input(0).values<float>();
    auto y = r.output(0).values<float>();
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(by) * x[i];
  }
};

struct RowSum {
  static void describe(tsc::Description<RowSum>& d) {
    d.key(PLUGIN_NAMESPACE, PLUGIN_SECOND, "1", "y = the sums of the rows of x");
    d.input("x", tsc::kF32, "[rows, columns]");
    d.output("y", tsc::kF32, "[rows]");
  }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(0);
    tsc::require(x.rank() == 2, "x must have two dimensions");
    s.output(0, x.dtype, {x.dims[0]});
  }
  void run(tsc::Run& r) const {
    auto x = r.input(0).values<float>();
    auto y = r.output(0).values<float>();
    auto columns = static_cast<size_t>(r.input(0).size(1));
    r.parallelFor(y.size(), 4, [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        y[row] = 0;
        for (size_t c = 0; c < columns; ++c) y[row] += x[row * columns + c];
      }
    });
  }
};

}  // namespace

#ifdef PLUGIN_OTHER_ABI
extern "C" [[gnu::visibility("default")]] const tsc_plugin* const* tscompile_plugins_v1(const tsc_host* host,
                                                                                        size_t* count) {
  tsc::host() = host;
  static tsc_plugin changed = *tsc::Definition<Scale>::table();
  changed.abi = (TSC_ABI_MAJOR + 1) << 16;
  static const tsc_plugin* const all[] = {&changed};
  *count = 1;
  return all;
}
#else
TSC_PLUGINS(Scale, RowSum)
#endif
