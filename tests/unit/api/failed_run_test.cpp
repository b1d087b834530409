// What runs that fail leave in the attributes of a module that keeps state: what the module leaves as it is written.
#include "api/compile.h"
#include "api/module.h"
#include "tests/support/choices.h"
#include "tests/support/property.h"
#include "tests/support/value_checks.h"

#include <fmt/format.h>

namespace tscompile {
namespace {

using test::Choices;
using test::expectNear;
using test::parsedValue;
using test::shown;

// A method that reads, sets and writes the attributes h and g, and fails where it adds a %y of another size. Of its
// input it keeps nothing: where that is written, a run that fails may not come to it.
class StatefulText {
 public:
  explicit StatefulText(Choices& choices) : choices_(choices) {
    for (size_t n = 3 + choices.below(10); n-- > 0;) statement();
    const std::string h = attribute(), g = attribute();
    line("%end : Tensor = aten::add({}, %y, %one)", value());
    line("%out : Tensor[] = prim::ListConstruct(%end, {}, {}, {}{})", h, g, value(), results_);
  }
  std::string text() const {
    return "graph(%self : __torch__.M,\n      %x : Tensor,\n      %y : Tensor,\n      %on : bool):\n"
           "  %zero : int = prim::Constant[value=0]()\n  %one : int = prim::Constant[value=1]()\n"
           "  %half : float = prim::Constant[value=0.5]()\n  %u : Tensor = aten::tanh(%x)\n" +
           text_ + "  return (%out)\n";
  }

  // Whether it writes to an attribute in place; else an engine file sets all at the end, and has no original to run.
  bool writes() const { return writes_; }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += "  " + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  std::string value() { return values_[choices_.below(values_.size())]; }
  std::string name() { return choices_.oneIn(2) ? "h" : "g"; }
  std::string made() { return values_.emplace_back("%v" + std::to_string(count_++)); }
  std::string attribute() {
    const std::string from = name(), v = made();
    line("{} : Tensor = prim::GetAttr[name=\"{}\"](%self)", v, from);
    return v;
  }

  void statement() {
    const std::string a = value(), b = value();
    switch (choices_.below(8)) {
      case 0:
        return line("{} : Tensor = aten::tanh({})", made(), a);
      case 1:
        return line("{} : Tensor = aten::sub({}, {}, %one)", made(), a, b);
      case 2:
        results_ += ", " + made();
        return line("{} : Tensor = aten::add({}, %y, %one)", values_.back(), a);
      case 3:
        return line(" = prim::SetAttr[name=\"{}\"](%self, {})", name(), a);
      case 4: {
        writes_ = true;
        const std::string to = attribute();
        return line("%w{} : Tensor = aten::add_({}, {}, %one)", count_++, to, a);
      }
      case 5: {
        const int row = count_++;
        line("%r{} : Tensor = aten::select({}, %zero, %one)", row, a);
        return line("%w{} : Tensor = aten::mul_(%r{}, %half)", row, row);
      }
      case 6:
        return line("%w{} : Tensor = aten::tanh_({})", count_++, a);
      default:
        line(
            " = prim::If(%on)\n    block0():\n       = prim::SetAttr[name=\"{}\"](%self, {})\n      -> ()\n"
            "    block1():\n      -> ()",
            name(), a);
    }
  }

  Choices& choices_;
  std::vector<std::string> values_{"%u"};
  std::string text_, results_;  // all that may fail is returned: else it may be dropped
  int count_ = 0;
  bool writes_ = false;
};

// What the calls return, what they leave in their input, and what state they leave to those that follow.
void expectSameCalls(const Module& written, const Module& other) {
  RunState state, otherState;
  int call = 0;
  for (bool fails : {true, false, true, true, false, false}) {
    SCOPED_TRACE("call " + std::to_string(++call));
    const IValue on(fails);
    const IValue y = parsedValue(fails ? "4:f32=[1 2 3 4]" : "2x3:f32=[0.5 0.25 -0.5; 0.125 1 -1]");
    std::vector<IValue> xs;
    std::vector<Result<std::vector<IValue>>> outs;
    for (const auto& [m, s] : {std::pair(&written, &state), std::pair(&other, &otherState)}) {
      Diagnostics d;
      RunOptions options;
      options.state = s;
      xs.push_back(parsedValue("2x3:f32=[0.1 -0.2 0.3; 0.4 -0.5 0.6]"));
      outs.push_back(m->forward({xs.back(), y, on}, d, options));
      EXPECT_EQ(outs.back().ok(), !fails) << shown(d);
    }
    expectNear(xs[1], xs[0]);
    if (!outs[0] || !outs[1]) continue;
    const std::vector<IValue>&want = outs[0]->at(0).toList().items, &got = outs[1]->at(0).toList().items;
    SCOPED_TRACE(valueToText(outs[0]->at(0)) + "\n" + valueToText(outs[1]->at(0)));
    for (size_t i = 0; i < want.size(); ++i) expectNear(got.at(i), want[i]);
  }
}

TEST(FailedRunProperty, LeavesWhatTheMethodLeavesAsItIsWritten) {
  test::TemporaryFolder folder;
  LoadOptions options;
  options.tensors = {{"h", parsedValue("2x3:f32=[1 2 3; 4 5 6]").toTensor()},
                     {"g", parsedValue("2x3:f32=[-1 0 1; 0.5 0.25 2]").toTensor()}};
  CompileSpec spec;
  spec.lowering.keepsState = true;
  test::forEachSeed(300, [&](uint64_t seed) {
    Choices choices(seed);
    const StatefulText method(choices);
    const std::string text = method.text();
    SCOPED_TRACE(text);
    Diagnostics d;
    Result<Module> m = Module::fromText(text, "text.ir", options, d);
    ASSERT_TRUE(m.ok()) << shown(d);
    Result<Module> lowered = m->lowered(spec.lowering, d), compiled = m->compiled(spec, d);
    ASSERT_TRUE(lowered.ok() && compiled.ok()) << shown(d);
    const std::string path = folder.path() + "/model.tse";
    ASSERT_TRUE(compiled->save(path, d)) << shown(d);
    Result<Module> file = Module::load(path, {}, d);
    ASSERT_TRUE(file.ok()) << shown(d);
    for (const auto& [name, other] :
         {std::pair("lowered", &*lowered), std::pair("compiled", &*compiled), std::pair("file", &*file)}) {
      SCOPED_TRACE(name);
      if (other != &*file || method.writes()) expectSameCalls(*m, *other);
    }
  });
}

}  // namespace
}  // namespace tscompile
