// What plugins may get wrong, and resources that they share.
#include "runtime/plugin/plugin_host.h"
#include "tests/support/plugin_graph.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

// Fails as its field says.
struct Failing {
  std::string how = "not";
  static void describe(tsc::Description<Failing>& d) {
    d.key("test", "Failing", "1", "a copy, or a failure");
    d.field("how", &Failing::how, "not|throw|other|status").choices("not|throw|other|status|create");
    d.input("x", tsc::kF32, "any sizes");
    d.output("y", tsc::kF32, "as x");
  }
  void prepare() const {
    if (how == "create") tsc::invalid("it cannot be made");
  }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run& r) const {
    if (r.input(0).data<float>()[0] < 0) return copy(r);
    if (how == "throw") throw std::runtime_error("a cable is loose");
    if (how == "other") throw 7;
    if (how == "status") tsc::unsupported("a thing that it cannot do");
    copy(r);
  }
  static void copy(tsc::Run& r) { std::ranges::copy(r.input(0).values<float>(), r.output(0).values<float>().begin()); }
};

// Fails in one function, or asks for what cannot be.
template <int kCase>
struct Broken {
  static void describe(tsc::Description<Broken>& d) {
    d.key("broken", "B", "1", "");
    d.input("x", tsc::kF32, "").optional();
    d.output("y", tsc::kF32, "");
    d.output("z", tsc::kF32, "");
  }
  size_t outputs() const {
    if (kCase == 1) throw std::runtime_error("no outputs");
    return 2;
  }
  int aliasOf(size_t) const { return kCase == 2 ? 0 : -1; }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)), s.output(1, s.input(0)); }
  size_t workspace(const tsc::Tensors&) const {
    if (kCase == 3) throw std::runtime_error("no workspace");
    return kCase == 4 ? size_t{1} << 50 : 8;
  }
  void run(tsc::Run& r) const {
    r.workspace().data()[0] = std::byte{1};
    for (int o : {0, 1}) {
      auto y = r.output(static_cast<size_t>(o)).template values<float>();
      // The largest grain is one part.
      r.parallelFor(y.size(), SIZE_MAX, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) y[i] = 3;
      });
    }
  }
};

template <int kCase>
std::string failureOf() {
  auto extensions = extensionsWith({tsc::Definition<Broken<kCase>>::table()});
  LoadOptions options;
  options.extensions = extensions;
  Diagnostics diagnostics;
  auto module = Module::fromText("graph(%x : Tensor):\n  %y : Tensor, %z : Tensor = broken::B(%x)\n  return (%y, %z)\n",
                                 "broken", options, diagnostics);
  EXPECT_TRUE(module);
  std::vector<float> x{1, 2};
  auto out = module->forward(std::vector<IValue>{Tensor::of<float>(Dims{2}, x)}, diagnostics);
  if (!out) return diagnostics.list().at(0).message;
  EXPECT_EQ(out->at(1).toTensor().real(1), 3);
  return "";
}

class PluginFailuresInGraphs : public PluginGraph {
 protected:
  PluginFailuresInGraphs() : PluginGraph({tsc::Definition<Failing>::table()}) {}
};

TEST_F(PluginFailuresInGraphs, AFailureIsAnErrorAndTheNextRunIsRight) {
  for (auto [how, message] : {std::pair("throw", "test::Failing: a cable is loose"),
                              std::pair("other", "test::Failing: an exception that is no std::exception"),
                              std::pair("status", "test::Failing: a thing that it cannot do")}) {
    Diagnostics own;
    auto module = load(std::string("graph(%x : Tensor):\n  %y : Tensor = test::Failing[how=\"") + how +
                       "\"](%x)\n  return (%y)\n");
    ASSERT_TRUE(module);
    EXPECT_FALSE(module->forward(std::vector<IValue>{tensor({1})}, own));
    EXPECT_NE(own.list().at(0).message.find(message), std::string::npos) << own.list().at(0).message;
    auto out = module->forward(std::vector<IValue>{tensor({-1})}, own);
    ASSERT_TRUE(out);
    EXPECT_EQ(values(out->at(0)), std::vector<float>{-1});
  }
}

TEST(PluginFailures, AreToldWhereverTheyAre) {
  EXPECT_EQ(failureOf<0>(), "");
  EXPECT_NE(failureOf<1>().find("no outputs"), std::string::npos) << failureOf<1>();
  EXPECT_NE(failureOf<2>().find("two outputs are written over one input"), std::string::npos) << failureOf<2>();
  EXPECT_NE(failureOf<3>().find("no workspace"), std::string::npos) << failureOf<3>();
  EXPECT_NE(failureOf<4>().find("it asks for a workspace of"), std::string::npos) << failureOf<4>();
}

TEST(PluginFailures, NamesThatMeanThemselvesAreRefused) {
  PluginRegistry registry;
  ASSERT_TRUE(registry.addAlias("my::A", "my::B", ""));
  EXPECT_EQ(registry.addAlias("my::B", "my::A", "").status, PluginStatus::BadName);
  EXPECT_EQ(registry.addAlias("my::C", "my::C", "").status, PluginStatus::BadName);
}

// A resource whose maker asks for another one.
TEST(PluginResources, MayNeedEachOther) {
  const tsc_host& host = pluginHost();
  static int made = 0;
  auto inner = [](void*) -> void* { return ++made, &made; };
  auto outer = [](void* user) -> void* {
    auto make = reinterpret_cast<void* (*)(void*)>(user);
    return pluginHost().resource(
        tsc::text("inner"), make, [](void*) {}, nullptr);
  };
  void* (*innerFunction)(void*) = inner;
  void* got = host.resource(
      tsc::text("outer"), outer, [](void*) { pluginHost().resource_release(tsc::text("inner")); },
      reinterpret_cast<void*>(innerFunction));
  EXPECT_EQ(got, &made);
  EXPECT_EQ(host.resource(tsc::text("outer"), outer, nullptr, nullptr), got) << "made once";
  EXPECT_EQ(made, 1);
  host.resource_release(tsc::text("outer"));
  EXPECT_GT(sharedResources(), 0u);
  host.resource_release(tsc::text("outer"));
  EXPECT_EQ(sharedResources(), 0u);
  EXPECT_EQ(host.resource(
                tsc::text("none"), [](void*) -> void* { return nullptr; }, nullptr, nullptr),
            nullptr);
  EXPECT_EQ(sharedResources(), 0u);
}

}  // namespace
}  // namespace tscompile::test
