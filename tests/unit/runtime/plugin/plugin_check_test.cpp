// The checks of plugins for third parties: what is right passes, planted faults are found.
#include "runtime/plugin/plugin_check.h"

#include "api/extensions.h"
#include "runtime/plugin/plugin_instance.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tscompile::test {
namespace {

// What a plugin may do wrong, one thing each.
enum class Fault {
  None,
  Parts,
  WritesInput,
  Workspace,
  Unwritten,
  Shapes,
  Throws,
  Random,
  Leaks,
  Threads,
  Prefix,
  Function,
  Operator
};

template <Fault kFault>
struct Faulty {
  static inline std::atomic<float> shared[64];  // the fault is the results' alone
  static inline std::atomic<int> runs{0};
  static inline char* volatile lost = nullptr;
  static void describe(tsc::Description<Faulty>& d) {
    d.key("faulty", "F", "1", "y = 2 x");
    d.input("x", tsc::kF32, "[rows, columns]");
    d.output("y", tsc::kF32, "as x");
  }
  static std::string_view example() {
    return "graph(%x : Float(6, 4)):\n  %y : Tensor = faulty::F(%x)\n  return (%y)\n";
  }
  void prepare() const {
    if (kFault == Fault::Leaks) lost = new char[64];
  }
  bool supports(const tsc::Tensors& t, size_t position) const {
    return kFault != Fault::Prefix || position > 0 || t.output(0).dtype() == TSC_F32;
  }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(0);
    if (kFault == Fault::Shapes) return s.output(0, x.dtype, {x.dims[0], s.constant(5)});
    s.output(0, x);
  }
  size_t workspace(const tsc::Tensors&) const { return 16; }
  std::string decompose(const tsc::Tensors&) const {
    return std::string("graph(%x : Tensor):\n  %c : int = prim::Constant[value=") +
           (kFault == Fault::Function ? "3" : "2") +
           "]()\n  %y : Tensor = aten::" + (kFault == Fault::Operator ? "mulx" : "mul") + "(%x, %c)\n  return (%y)\n";
  }
  void run(tsc::Run& r) const {
    auto x = r.input(0).values<float>();
    auto y = r.output(0).values<float>();
    if (kFault == Fault::Throws) throw std::runtime_error("no");
    if (kFault == Fault::WritesInput) x[0] = 9;
    if (kFault == Fault::Workspace) r.workspace().data()[16] = std::byte{1};
    size_t count = std::min(x.size(), y.size()) - (kFault == Fault::Unwritten);
    if (kFault == Fault::Threads) {
      for (size_t i = 0; i < count; ++i) shared[i] = x[i];
      std::this_thread::yield();
      for (size_t i = 0; i < count; ++i) y[i] = 2 * shared[i];
      return;
    }
    if (kFault == Fault::Parts) {
      std::atomic<float> last = 0;  // what the part before has left
      return r.parallelFor(count, 1, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) {
          if (!begin) last = 1;
          y[i] = 2 * x[i] + last - 1;
        }
      });
    }
    for (size_t i = 0; i < count; ++i) y[i] = 2 * x[i];
    if (kFault == Fault::Random) y[0] = static_cast<float>(++runs);
  }
};

template <Fault kFault>
PluginReport reportOf() {
  tsc::host() = &pluginHost();
  PluginRegistry registry;
  EXPECT_TRUE(registry.add(*tsc::Definition<Faulty<kFault>>::table()));
  PluginReport report;
  checkPlugin(registry.find("faulty", "F"), allOps(), report);
  return report;
}

template <Fault kFault>
void expectFinding(const std::string& check, const std::string& problem) {
  PluginReport report = reportOf<kFault>();
  bool found = false;
  for (const PluginFinding& f : report.findings)
    found |= f.check == check && f.problem.find(problem) != std::string::npos;
  std::string all;
  for (const PluginFinding& f : report.findings) all += f.check + ": " + f.problem + "\n";
  EXPECT_TRUE(found) << all;
}

TEST(PluginCheck, PassesWhatIsRight) {
  PluginReport report = reportOf<Fault::None>();
  for (const PluginFinding& f : report.findings) ADD_FAILURE() << f.check << ": " << f.problem;
  EXPECT_EQ(report.plugins, 1u);
  EXPECT_EQ(report.checks, 11u);
  for (const PluginCreatorPtr& builtin : allPlugins().list()) {
    PluginReport own;
    checkPlugin(builtin, allOps(), own);
    for (const PluginFinding& f : own.findings) ADD_FAILURE() << f.plugin << ", " << f.check << ": " << f.problem;
    EXPECT_TRUE(own.notes.empty()) << own.notes[0];
  }
}

TEST(PluginCheck, FindsPlantedFaults) {
  expectFinding<Fault::WritesInput>("runs", "it writes to the input x");
  expectFinding<Fault::Workspace>("runs", "it writes past the end of its workspace of 16 bytes");
  expectFinding<Fault::Unwritten>("runs", "it does not write the element 23 of the output y");
  expectFinding<Fault::Shapes>("runs", "it does not write the element 24 of the output y");
  expectFinding<Fault::Throws>("runs", "no");
  expectFinding<Fault::Random>("runs", "two runs on the same inputs give other values");
  expectFinding<Fault::Threads>("threads", "disturb each other");
  expectFinding<Fault::Parts>("parts", "the parts of its parallel_for");
  expectFinding<Fault::Function>("decomposition",
                                 "what it decomposes into is another function: element 0 of the output y is");
  expectFinding<Fault::Operator>(
      "decomposition", "its decomposition has a node aten::mulx: there is no such operator, did you mean aten::mul?");
  expectFinding<Fault::Prefix>("formats", "depends on tensors after it");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  expectFinding<Fault::Leaks>("leaks", "leaves about");
#endif
}

TEST(PluginCheck, FindsFaultsOfLibraries) {
  auto path = [](const char* name) { return std::string(TSCOMPILE_TEST_PLUGINS) + "/" + name + ".so"; };
  PluginReport good = checkPluginLibrary(path("scale_plugins"), allOps());
  EXPECT_EQ(good.plugins, 2u);
  for (const PluginFinding& f : good.findings) ADD_FAILURE() << f.check << ": " << f.problem;
  PluginReport other = checkPluginLibrary(path("other_abi_plugins"), allOps());
  ASSERT_EQ(other.findings.size(), 1u);
  EXPECT_NE(other.findings[0].problem.find("it was made for version 2 of the interface"), std::string::npos);
  PluginReport clashing = checkPluginLibrary(path("clashing_plugins"), allOps());
  ASSERT_EQ(clashing.findings.size(), 1u);
  EXPECT_NE(clashing.findings[0].problem.find("is registered already"), std::string::npos);
}

}  // namespace
}  // namespace tscompile::test
