// Operators and converters that a session adds.
#include "api/compiler.h"
#include "api/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <new>
#include <stdexcept>

namespace tscompile {
namespace {

constexpr const char* kGraph = R"(graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %r : Tensor = aten::relu(%x)
  %y : Tensor = aten::mish(%r)
  %z : Tensor = aten::sigmoid(%y)
  return (%z)
)";

using ExtensionsPtr = std::shared_ptr<Extensions>;

std::string messages(const Diagnostics& d) { return renderDiagnostics(d, "test"); }

Module load(const char* text, ExtensionsPtr extensions) {
  Diagnostics d;
  LoadOptions options;
  options.extensions = std::move(extensions);
  Result<Module> m = Module::fromText(text, "test.ir", options, d);
  EXPECT_TRUE(m.ok()) << messages(d);
  return *m;
}

ExtensionsPtr withMish(Converter converter) {
  Diagnostics d;
  auto e = std::make_shared<Extensions>();
  EXPECT_TRUE(e->addConverter("aten::mish", std::move(converter), d)) << messages(d);
  return e;
}

Tensor sample(Dims sizes) {
  Tensor t = Tensor::zeros(DType::Float32, sizes);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = 0.25f * static_cast<float>(i) - 1;
  return t;
}

// The graph compiled for 2x3; whether engines give what the interpreter does, and how many nodes they have.
struct Compiled {
  bool ok = false, same = false;
  size_t accelerated = 0;
  std::string reason, messages;
};

Compiled compileAndRun(const Module& m, CompileSpec spec = {}) {
  Compiled out;
  Diagnostics d;
  spec.setInputs({{{2, 3}}});
  spec.minBlockSize = 1;
  spec.onPartition = [&](const Prepared& prepared, const Partition& p) {
    out.accelerated = p.acceleratedCount();
    forEachNode(*prepared.graph, [&](const Node* n) {
      if (!p.given.contains(n) && !p.decisions[n].accelerated()) out.reason = p.decisions[n].detail;
    });
  };
  Result<Module> compiled = compile(m, spec, d);
  out.ok = compiled.ok();
  out.messages = messages(d);
  if (!compiled) return out;
  Tensor x = sample({2, 3});
  Result<std::vector<IValue>> got = compiled->forward(std::vector<IValue>{x}, d),
                              want = m.forward(std::vector<IValue>{x}, d);
  EXPECT_TRUE(got && want) << messages(d);
  if (!got || !want) return out;
  out.same = difference((*got)[0], (*want)[0], {}).within;
  return out;
}

// forward() keeps what it prepared: engines are planned once for inputs of the same sizes.
TEST(Extensions, ForwardPlansOnce) {
  int calls = 0;
  ExtensionsPtr e = withMish([&](ConvertCall& call) {
    ++calls;
    call.setResult(0, call.compute("aten::tanh", {call.argument(0)}));
  });
  Diagnostics d;
  CompileSpec spec;
  spec.setInputs({{{2, 3}}});
  spec.minBlockSize = 1;
  Result<Module> m = compile(load(kGraph, e), spec, d);
  ASSERT_TRUE(m.ok()) << messages(d);
  std::vector<IValue> inputs{sample({2, 3})};
  ASSERT_TRUE(m->forward(inputs, d)) << messages(d);
  const int once = calls;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(m->forward(inputs, d)) << messages(d);
  EXPECT_EQ(calls, once);
}

constexpr const char* kRule =
    "rule mish_of\nmatch:\ngraph(%x):\n  %y = aten::mish(%x)\n  return (%y)\nreplace:\ngraph(%x):\n"
    "  %y = aten::silu(%x)\n  return (%y)\n";

TEST(Extensions, RulesAreAppliedByAllThatLowers) {
  Diagnostics d;
  auto e = std::make_shared<Extensions>();
  ASSERT_TRUE(e->addRules(SourceFile::make("my.rules", kRule), d)) << messages(d);
  EXPECT_EQ(e->ruleNames(), std::vector<std::string>{"mish_of"});
  Module m = load(kGraph, e);
  Result<Module> lowered = m.lowered({}, d);
  ASSERT_TRUE(lowered.ok()) << messages(d);
  EXPECT_NE(graphText(*lowered->graph()).find("aten::silu"), std::string::npos);
  LowerOptions without;
  without.query = Query().including({"default"}).excluding({"mish_of"});
  lowered = m.lowered(without, d);
  ASSERT_TRUE(lowered.ok()) << messages(d);
  EXPECT_NE(graphText(*lowered->graph()).find("aten::mish"), std::string::npos);
  CompileSpec refit;
  refit.refittable = true;
  EXPECT_FALSE(compile(m, refit, d));
  EXPECT_NE(messages(d).find("leave out rules, or refittable"), std::string::npos) << messages(d);
}

TEST(Extensions, RulesMakeOperatorsThatThereAre) {
  const std::string text = std::string(kRule).replace(std::string(kRule).find("aten::silu"), 10, "mine::silu");
  Diagnostics d;
  EXPECT_FALSE(Extensions().addRules(SourceFile::make("my.rules", text), d));
  EXPECT_NE(messages(d).find("my.rules:8:3: error: unknown operator mine::silu"), std::string::npos) << messages(d);
  Extensions e;
  Diagnostics good;
  ASSERT_TRUE(e.addOperator({.schema = "mine::silu(Tensor x) -> Tensor", .kernel = [](KernelCall&) {}}, good));
  EXPECT_TRUE(e.addRules(SourceFile::make("my.rules", text), good)) << messages(good);
}

TEST(Extensions, UnknownNamesOfQueriesAreTold) {
  Diagnostics d;
  LowerOptions options;
  options.query = Query().including({"defualt"});
  EXPECT_FALSE(load(kGraph, std::make_shared<Extensions>()).lowered(options, d));
  EXPECT_NE(messages(d).find("did you mean 'default'?"), std::string::npos) << messages(d);
}

TEST(Extensions, ConverterIsUsedInEnginesOnly) {
  int calls = 0;
  ExtensionsPtr e = withMish([&](ConvertCall& call) {
    ++calls;
    EXPECT_TRUE(call.isNetworkTensor(0));
    EXPECT_EQ(dimsText(call.tensor(0).sizes()), "[2, 3]");
    IValue soft = call.compute("aten::softplus", {call.argument(0)});
    call.setResult(0, call.compute("aten::mul.Tensor", {call.argument(0), call.compute("aten::tanh", {soft})}));
  });
  Compiled c = compileAndRun(load(kGraph, e));
  EXPECT_TRUE(c.ok && c.same) << c.messages;
  EXPECT_EQ(c.accelerated, 3u);
  EXPECT_GT(calls, 0);
}

TEST(Extensions, WrongConverterIsSeenInTheResult) {
  ExtensionsPtr e =
      withMish([](ConvertCall& call) { call.setResult(0, call.compute("aten::relu", {call.argument(0)})); });
  EXPECT_FALSE(compileAndRun(load(kGraph, e)).same);
}

TEST(Extensions, RefusalSendsTheNodeBack) {
  ExtensionsPtr e = withMish([](ConvertCall& call) { call.refuse(Reason::Rank, "only five dimensions"); });
  Compiled c = compileAndRun(load(kGraph, e));
  EXPECT_TRUE(c.ok && c.same) << c.messages;
  EXPECT_EQ(c.accelerated, 2u);
  EXPECT_EQ(c.reason, "only five dimensions");
}

TEST(Extensions, ExceptionSendsTheNodeBack) {
  ExtensionsPtr e = withMish([](ConvertCall&) { throw std::runtime_error("no such weight"); });
  Compiled c = compileAndRun(load(kGraph, e));
  EXPECT_TRUE(c.ok && c.same) << c.messages;
  EXPECT_EQ(c.accelerated, 2u);
  EXPECT_EQ(c.reason, "the converter of aten::mish failed: no such weight");
  EXPECT_EQ(compileAndRun(load(kGraph, withMish([](ConvertCall&) { throw 1; }))).reason,
            "the converter of aten::mish failed");
}

TEST(Extensions, ConvertersThatReadElementsAreTold) {
  auto reasonOf = [](Converter converter) {
    return compileAndRun(load(kGraph, withMish(std::move(converter)))).reason;
  };
  const std::string early = "the converter of aten::mish failed: the elements of a tensor are not known yet";
  EXPECT_EQ(reasonOf([](ConvertCall& call) { call.setResult(0, IValue(*call.tensor(0).data<float>())); }), early);
  EXPECT_EQ(
      reasonOf([](ConvertCall& call) { call.setResult(0, IValue(int64_t{*call.tensor(0).raw() == std::byte{0}})); }),
      early);
  EXPECT_EQ(reasonOf([](ConvertCall& call) {
              Tensor part = call.compute("aten::select.int", {call.argument(0), int64_t{0}, int64_t{1}}).toTensor();
              call.setResult(0, IValue(*part.data<float>()));
            }),
            early);
}

class Negate : public Layer {
 public:
  explicit Negate(const Node* node) : Layer(node) {}
  std::string name() const override { return "negate"; }
  void run(Frame& frame) const override {
    const Tensor x = frame.tensor(inputs[0]), y = frame.tensor(outputs[0]);
    for (int64_t i = 0; i < y.numel(); ++i) y.data<float>()[i] = -x.data<float>()[i];
  }
};

TEST(Extensions, LayersNameTensorsOfTheNetwork) {
  Compiled c = compileAndRun(load(kGraph, withMish([](ConvertCall& call) {
                                    auto& negate = call.add<Negate>();
                                    negate.inputs = {12345};
                                    negate.outputs = {call.makeResult(0)};
                                  })));
  EXPECT_FALSE(c.ok);
  EXPECT_NE(c.messages.find("the layer 'negate' names tensor 12345, and the network has "), std::string::npos)
      << c.messages;
}

// What is not its own business it hands on to the converter that is built in.
TEST(Extensions, ConvertersHandOnToOurs) {
  Compiled c = compileAndRun(load(
      kGraph, withMish([](ConvertCall& call) { call.setResult(0, call.compute("aten::mish", {call.argument(0)})); })));
  EXPECT_TRUE(c.ok && c.same) << c.messages;
  EXPECT_EQ(c.accelerated, 3u);
}

// What it gives is known when it has run: engines stand around it.
TEST(Extensions, OperatorsMayTellNothingBeforehand) {
  Diagnostics d;
  auto e = std::make_shared<Extensions>();
  ASSERT_TRUE(e->addOperator({.schema = "mine::half(Tensor self) -> Tensor",
                              .kernel =
                                  [](KernelCall& call) {
                                    const Tensor in = call.tensor(0);
                                    Tensor out = Tensor::zeros(DType::Float32, {in.size(0)});
                                    for (int64_t i = 0; i < out.numel(); ++i)
                                      out.data<float>()[i] = static_cast<float>(in.real(i)) / 2;
                                    call.setResult(out);
                                  }},
                             d))
      << messages(d);
  const Module m = load(
      "graph(%x : Tensor):\n  %r : Tensor = aten::relu(%x)\n  %y : Tensor = mine::half(%r)\n"
      "  %z : Tensor = aten::neg(%y)\n  return (%z)\n",
      e);
  Compiled c = compileAndRun(m);
  EXPECT_TRUE(c.ok && c.same) << c.messages;
  EXPECT_EQ(c.accelerated, 2u);
  EXPECT_EQ(c.reason, "mine::half has no shape function: an engine cannot plan for what it gives");
}

TEST(Extensions, UnsetOutputIsAnError) {
  Compiled c = compileAndRun(load(kGraph, withMish([](ConvertCall&) {})));
  EXPECT_FALSE(c.ok);
  EXPECT_NE(c.messages.find("the converter left output 1 of aten::mish unset"), std::string::npos) << c.messages;
  EXPECT_NE(c.messages.find("test.ir:4:3"), std::string::npos) << c.messages;
}

TEST(Extensions, OutputOfAnotherShapeIsAnError) {
  Compiled c = compileAndRun(load(
      kGraph, withMish([](ConvertCall& call) { call.setResult(0, call.compute("aten::t", {call.argument(0)})); })));
  EXPECT_FALSE(c.ok);
  EXPECT_NE(c.messages.find("another type or shape than inference"), std::string::npos) << c.messages;
}

TEST(Extensions, UnknownOperatorsOfComputeAreRefused) {
  EXPECT_EQ(compileAndRun(
                load(kGraph, withMish([](ConvertCall& call) { call.setResult(0, call.compute("aten::nothing", {})); })))
                .reason,
            "there is no operator aten::nothing");
  EXPECT_EQ(compileAndRun(load(kGraph, withMish([](ConvertCall& call) {
                                 call.setResult(0, call.compute("aten::relu", {IValue("text")}));
                               })))
                .reason,
            "argument self of aten::relu is str, not Tensor");
  // A converter that asks for itself, where there is none behind it.
  Diagnostics d;
  auto e = std::make_shared<Extensions>();
  EXPECT_TRUE(e->addOperator(
      {.schema = "mine::same(Tensor self) -> Tensor",
       .infer = [](InferCall& call) { call.result(call.tensor(0)); },
       .kernel = [](KernelCall& call) { call.setResult(Tensor::zeros(DType::Float32, call.tensor(0).sizes())); },
       .convert = [](ConvertCall& call) { call.setResult(0, call.compute("mine::same", {call.argument(0)})); }},
      d));
  EXPECT_EQ(compileAndRun(load("graph(%x : Tensor):\n  %y : Tensor = mine::same(%x)\n  return (%y)\n", e)).reason,
            "converters ask each other for mine::same");
}

// The result is new by its schema, so a write to it must not show in the argument.
TEST(Extensions, ResultsAreCopiedWhereTheSchemaSaysThatTheyAreNew) {
  ExtensionsPtr e = withMish([](ConvertCall& call) { call.setResult(0, call.argument(0)); });
  Diagnostics d;
  Module m = load("graph(%x : Tensor):\n  %y : Tensor = aten::mish(%x)\n  return (%y)\n", e);
  CompileSpec spec({{{2, 3}}});
  Result<Module> compiled = compile(m, spec, d);
  ASSERT_TRUE(compiled.ok()) << messages(d);
  Tensor x = sample({2, 3});
  Result<std::vector<IValue>> got = compiled->forward(std::vector<IValue>{x}, d);
  ASSERT_TRUE(got.ok()) << messages(d);
  EXPECT_NE((*got)[0].toTensor().raw(), x.raw());
  EXPECT_TRUE(difference((*got)[0], x, {0, 0}).within);
}

TEST(Extensions, MistakesOfRegistrationAreReported) {
  auto reported = [](auto&& add) {
    Extensions e;
    Diagnostics d;
    EXPECT_FALSE(add(e, d));
    return d.list().empty() ? "" : d.list()[0].message;
  };
  auto converter = [](const char* op) {
    return [op](Extensions& e, Diagnostics& d) {
      return e.addConverter(
          op, [](ConvertCall&) {}, d);
    };
  };
  EXPECT_EQ(reported(converter("aten::flaten")), "there is no operator aten::flaten");
  EXPECT_EQ(reported(converter("aten::flatten")), "there is no operator aten::flatten");
  EXPECT_EQ(reported(converter("aten::flatten.using_ints(Tensor self) -> Tensor")),
            "the schema of aten::flatten.using_ints has other arguments");
  EXPECT_EQ(reported(converter("aten::relu_")), "aten::relu_ writes to its arguments");
  EXPECT_EQ(reported(converter("aten::add.int")),
            "aten::add.int computes numbers, which is done while an engine is made: it needs no converter");
  auto adding = [](const char* schema) {
    return [schema](Extensions& e, Diagnostics& d) {
      return e.addOperator({.schema = schema, .infer = [](InferCall&) {}, .kernel = [](KernelCall&) {}}, d);
    };
  };
  EXPECT_EQ(reported(adding("m::nine(Tensor x) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, "
                            "Tensor)")),
            "m::nine has 9 results, which is more than an operator may have");
  EXPECT_EQ(reported(adding("m::s(Tensor x, int x) -> Tensor")), "m::s has two arguments named x");
  EXPECT_EQ(reported(adding("prim::Constant(Tensor x) -> Tensor")),
            "the operators of prim are ours: prim::Constant needs another name space");
  EXPECT_EQ(reported([](Extensions& e, Diagnostics& d) { return e.addConverter("aten::relu", nullptr, d); }),
            "the converter of aten::relu is empty");
  EXPECT_EQ(reported([](Extensions& e, Diagnostics& d) { return e.addOperator({.schema = "scale"}, d); }),
            "an operator needs a schema such as mine::scale(Tensor self, float by) -> Tensor, not 'scale'");
  EXPECT_EQ(
      reported([](Extensions& e, Diagnostics& d) { return e.addOperator({.schema = "m::s(Tensor x) -> Tensor"}, d); }),
      "m::s needs a kernel");
  EXPECT_EQ(reported([](Extensions& e, Diagnostics& d) { return e.withoutConverter("aten::flaten", d); }),
            "there is no operator aten::flaten");
  EXPECT_EQ(reported([](Extensions& e, Diagnostics& d) {
              e.registry();
              return e.addConverter(
                  "aten::relu", [](ConvertCall&) {}, d);
            }),
            "operators, converters and rules are added before the first module is loaded with them");
}

TEST(Extensions, BuiltInRegistryStaysAsItIs) {
  withMish([](ConvertCall&) {});
  Compiled c = compileAndRun(load(kGraph, nullptr));
  EXPECT_TRUE(c.ok && c.same) << c.messages;
}

TEST(Extensions, WithoutConverterTheNodeStaysOut) {
  CompileSpec spec;
  spec.withoutConverters = {"aten::mish"};
  Compiled c = compileAndRun(load(kGraph, nullptr), spec);
  EXPECT_TRUE(c.ok && c.same) << c.messages;
  EXPECT_EQ(c.accelerated, 2u);
  EXPECT_EQ(c.reason, "aten::mish has no converter");
  // One that was added is another matter.
  ExtensionsPtr e = withMish([](ConvertCall& call) { convertToKernel(call); });
  EXPECT_EQ(compileAndRun(load(kGraph, e), spec).accelerated, 3u);
}

TEST(Extensions, LayersReadWhatEarlierOnesMake) {
  Compiled c =
      compileAndRun(load(kGraph, withMish([](ConvertCall& call) {
                           auto& negate = call.add<Negate>();
                           negate.inputs = {call.idOf(call.compute("aten::tanh", {call.argument(0)}).toTensor())};
                           negate.outputs = {call.makeResult(0)};
                         })));
  EXPECT_FALSE(c.ok);
  EXPECT_NE(c.messages.find("the layer 'negate' reads a tensor that no layer before it makes: layers run in the order "
                            "in which converters add them"),
            std::string::npos)
      << c.messages;
  EXPECT_NE(c.messages.find("test.ir:4:3"), std::string::npos) << c.messages;
  c = compileAndRun(load(kGraph, withMish([](ConvertCall& call) { call.makeResult(0); })));
  EXPECT_FALSE(c.ok);
  EXPECT_NE(c.messages.find("the converter added no layer that computes output 1 of aten::mish"), std::string::npos)
      << c.messages;
}

// What compiling for `shape` tells of a converter, and a run after it; and how many nodes are in engines.
struct Told {
  size_t accelerated = 0;
  std::string compiling, running, again;
};

Told tell(Converter converter, const char* shape) {
  Told out;
  CompileSpec spec;
  if (*shape) spec.shapes = {*parseInputRange(shape)};
  spec.minBlockSize = 1;
  spec.onPartition = [&](const Prepared&, const Partition& p) { out.accelerated = p.acceleratedCount(); };
  Diagnostics d;
  Result<Module> m = load(kGraph, withMish(std::move(converter))).compiled(spec, d);
  out.compiling = messages(d);
  if (!m) return out;
  Diagnostics first, second;
  EXPECT_TRUE(m->forward(std::vector<IValue>{sample({2, 3})}, first)) << messages(first);
  EXPECT_TRUE(m->forward(std::vector<IValue>{sample({2, 3})}, second)) << messages(second);
  out.running = messages(first);
  out.again = messages(second);
  return out;
}

TEST(Extensions, ConvertersAreTriedForRangesOfSizes) {
  auto computes = [](const char* op) {
    return [op](ConvertCall& call) { call.setResult(0, call.compute(op, {call.argument(0)})); };
  };
  const Told unknown = tell(computes("aten::nothing"), "x=1..4x3");
  EXPECT_EQ(unknown.accelerated, 2u);
  EXPECT_NE(unknown.compiling.find("warning: the interpreter runs what an engine was to run: there is no operator"),
            std::string::npos)
      << unknown.compiling;
  EXPECT_EQ(unknown.running, "");
  EXPECT_EQ(tell([](ConvertCall&) { throw std::runtime_error("boom"); }, "x=1..4x3").accelerated, 2u);
  EXPECT_NE(tell([](ConvertCall&) {}, "x=1..4x3").compiling.find("left output 1 of aten::mish unset"),
            std::string::npos);
  EXPECT_NE(tell(computes("aten::sum"), "x=1..4x3").compiling.find("another type or shape than inference"),
            std::string::npos);
  // What only some of the sizes are refused for stays in, and runs in the interpreter for these.
  const Told some = tell(
      [](ConvertCall& call) {
        if (call.tensor(0).size(0) == 4) call.refuse(Reason::Rank, "no four rows");
        convertToKernel(call);
      },
      "x=1..4x3");
  EXPECT_EQ(some.accelerated, 3u);
  EXPECT_EQ(some.running, "");
}

// As in a graph: the first overload that takes such arguments.
TEST(Extensions, ConvertersComputeByNamesWithoutOverload) {
  const Told told = tell(
      [](ConvertCall& call) {
        call.setResult(0, call.compute("aten::mul", {call.argument(0), IValue(2.0)}));
      },
      "x=1..4x3");
  EXPECT_EQ(told.accelerated, 3u) << told.compiling;
  EXPECT_EQ(told.compiling + told.running, "");
  const Told none = tell(
      [](ConvertCall& call) {
        call.setResult(0, call.compute("aten::mul", {IValue(std::string("x")), IValue(2.0)}));
      },
      "x=1..4x3");
  EXPECT_NE(none.compiling.find("no overload of aten::mul takes (str, float): there are aten::mul.Tensor"),
            std::string::npos)
      << none.compiling;
}

TEST(Extensions, FailuresOfConvertersAreToldByTheFirstRun) {
  const Told unknown =
      tell([](ConvertCall& call) { call.setResult(0, call.compute("aten::nothing", {call.argument(0)})); }, "");
  EXPECT_EQ(unknown.accelerated, 3u);
  EXPECT_NE(unknown.running.find(
                "warning: the interpreter runs what an engine was to run: there is no operator aten::nothing"),
            std::string::npos)
      << unknown.running;
  EXPECT_EQ(unknown.again, "");
  EXPECT_NE(tell([](ConvertCall&) { throw std::runtime_error("boom"); }, "").running.find("failed: boom"),
            std::string::npos);
  EXPECT_NE(tell([](ConvertCall&) {}, "").running.find("left output 1"), std::string::npos);
  // To refuse is no failure.
  EXPECT_EQ(tell([](ConvertCall& call) { call.refuse(Reason::Rank, "only five dimensions"); }, "").running, "");
}

class Throwing : public Negate {
 public:
  using Negate::Negate;
  void run(Frame&) const override { throw std::runtime_error("boom"); }
};

TEST(Extensions, WhatLayersThrowIsTold) {
  const Told told = tell(
      [](ConvertCall& call) {
        auto& layer = call.add<Throwing>();
        layer.inputs = {call.operand(0)};
        layer.outputs = {call.makeResult(0)};
      },
      "x=2x3");
  EXPECT_NE(told.running.find("the layer 'negate' failed: boom"), std::string::npos) << told.running;
}

// What a run of mine::f says.
std::string runOf(std::function<void(InferCall&)> infer, std::function<void(KernelCall&)> kernel,
                  const char* returns = "Tensor") {
  Diagnostics d;
  auto e = std::make_shared<Extensions>();
  EXPECT_TRUE(e->addOperator({.schema = std::string("mine::f(Tensor self) -> ") + returns,
                              .infer = std::move(infer),
                              .kernel = std::move(kernel)},
                             d))
      << messages(d);
  Module m =
      load("graph(%x : Tensor):\n  %y : Tensor = mine::f(%x)\n  %z : Tensor = aten::relu(%y)\n  return (%z)\n", e);
  Result<std::vector<IValue>> out = m.forward(std::vector<IValue>{sample({2, 3})}, d);
  EXPECT_EQ(out.ok(), !d.hasErrors());
  return d.list().empty() ? "" : d.list()[0].message;
}

TEST(Extensions, OperatorsGiveWhatTheirSchemaSays) {
  auto like = [](InferCall& call) { call.result(call.tensor(0)); };
  auto zeros = [](KernelCall& call) { std::fill_n(call.out().data<float>(), call.out().numel(), 0.f); };
  EXPECT_EQ(runOf(like, zeros), "");
  EXPECT_EQ(runOf([](InferCall&) {}, zeros), "mine::f: its inference tells 0 of the 1 results that the schema has");
  EXPECT_EQ(runOf([](InferCall& call) { call.resultSizes(Dims{1}); }, zeros),
            "mine::f: its inference tells something else of result 1 than the schema, where it is Tensor");
  EXPECT_EQ(runOf(like, [](KernelCall&) {}), "mine::f: its kernel left result 1 unset");
  EXPECT_EQ(runOf(like, [](KernelCall& call) { call.setResult(IValue(int64_t{1})); }),
            "mine::f: its kernel gave int as result 1, which is Tensor");
  EXPECT_EQ(runOf(like, [](KernelCall& call) { call.setResult(sample({3})); }),
            "mine::f: its kernel gave Float(3) as result 1, where its inference told Float(2, 3)");
  const char* shared =
      "mine::f: its kernel gave memory of an argument or of another result as result 1, which the schema says is new: "
      "return a clone";
  EXPECT_EQ(runOf(like, [](KernelCall& call) { call.setResult(call.argument(0)); }), shared);
  auto unknown = [](InferCall& call) { call.resultUnknown(); };
  auto twice = [](KernelCall& call) { call.setResult(tensorList({sample({2}), call.tensor(0)})); };
  EXPECT_EQ(runOf(unknown, twice, "Tensor[]"), shared);
}

// Whoever writes them may be wrong of what there is.
TEST(Extensions, OperatorsAskForWhatThereIs) {
  auto like = [](InferCall& call) { call.result(call.tensor(0)); };
  EXPECT_EQ(runOf([](InferCall& call) { call.result(call.tensor(5)); }, [](KernelCall&) {}),
            "mine::f: argument 5, counted from 0, is asked for, of 1");
  EXPECT_EQ(runOf(like, [](KernelCall& call) { call.integer(5); }),
            "mine::f: argument 5, counted from 0, is asked for, of 1");
  EXPECT_EQ(runOf(like, [](KernelCall& call) { call.out(3); }),
            "mine::f: result 3, counted from 0, is asked for, of 1");
}

// An operator, and a graph of it, run as it is and compiled.
struct InBoth {
  std::vector<IValue> interpreted, compiled;
  std::string messages;
};
InBoth runInBoth(UserOperator op, const char* graph, const std::function<std::vector<IValue>()>& inputs) {
  InBoth out;
  Diagnostics d;
  auto e = std::make_shared<Extensions>();
  EXPECT_TRUE(e->addOperator(std::move(op), d)) << messages(d);
  Module m = load(graph, e);
  CompileSpec spec;
  spec.minBlockSize = 1;
  Result<Module> compiled = compile(m, spec, d);
  EXPECT_TRUE(compiled.ok()) << messages(d);
  if (!compiled) return out;
  if (auto got = m.forward(inputs(), d)) out.interpreted = *got;
  if (auto got = compiled->forward(inputs(), d)) out.compiled = *got;
  out.messages = messages(d);
  return out;
}

// Nothing uses what it gives, as it gives nothing.
TEST(Extensions, OperatorsWithoutResultsStay) {
  int calls = 0;
  InBoth both = runInBoth(
      {.schema = "mine::count(Tensor self) -> ()", .infer = [](InferCall&) {}, .kernel = [&](KernelCall&) { ++calls; }},
      "graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n   = mine::count(%y)\n"
      "  %z : Tensor = aten::neg(%y)\n  return (%z)\n",
      [] {
        return std::vector<IValue>{sample({2, 3})};
      });
  EXPECT_EQ(calls, 2) << both.messages;
}

// A state that is written, and given back, as caches are.
TEST(Extensions, OperatorsWriteWhatTheirSchemaSays) {
  Tensor state;
  UserOperator op{.schema = "mine::acc(Tensor(a!) state, Tensor x) -> Tensor(a!)",
                  .infer = [](InferCall& call) { call.result(call.tensor(0)); },
                  .kernel = [](KernelCall& call) { call.out().data<float>()[0] += call.tensor(1).data<float>()[0]; }};
  InBoth both = runInBoth(op,
                          "graph(%s : Tensor, %x : Tensor):\n  %y : Tensor = mine::acc(%s, %x)\n"
                          "  %z : Tensor = aten::neg(%s)\n  return (%y, %z)\n",
                          [&] {
                            state = Tensor::zeros(DType::Float32, {1});
                            return std::vector<IValue>{state, sample({1})};
                          });
  for (const std::vector<IValue>& out : {both.interpreted, both.compiled}) {
    ASSERT_EQ(out.size(), 2u) << both.messages;
    EXPECT_EQ(out[0].toTensor().data<float>()[0], -1);
    EXPECT_EQ(out[1].toTensor().data<float>()[0], 1);
  }
  EXPECT_EQ(state.data<float>()[0], -1);
}

// Also in engines, which have memory for results before the kernel is called.
TEST(Extensions, KernelsThatSetNothingFailInEngines) {
  InBoth both = runInBoth({.schema = "mine::f(Tensor self) -> Tensor",
                           .infer = [](InferCall& call) { call.result(call.tensor(0)); },
                           .kernel = [](KernelCall&) {}},
                          "graph(%x : Tensor):\n  %y : Tensor = mine::f(%x)\n  %z : Tensor = aten::neg(%y)\n"
                          "  return (%z)\n",
                          [] {
                            return std::vector<IValue>{sample({2, 3})};
                          });
  EXPECT_TRUE(both.interpreted.empty());
  EXPECT_TRUE(both.compiled.empty());
  EXPECT_EQ(both.messages.find("warning"), std::string::npos) << both.messages;
}

TEST(Extensions, OperatorsThatWereAddedTakeConverters) {
  Diagnostics d;
  int converted = 0;
  auto e = std::make_shared<Extensions>();
  auto kernel = [](KernelCall& call) {
    for (int64_t i = 0; i < call.out().numel(); ++i)
      call.out().data<float>()[i] = std::max(call.tensor(0).data<float>()[i], 0.f);
  };
  ASSERT_TRUE(e->addOperator({.schema = "mine::ramp(Tensor self) -> Tensor",
                              .infer = [](InferCall& call) { call.result(call.tensor(0)); },
                              .kernel = kernel},
                             d));
  ASSERT_TRUE(e->addConverter(
      "mine::ramp",
      [&](ConvertCall& call) {
        ++converted;
        call.setResult(0, call.compute("aten::relu", {call.argument(0)}));
      },
      d))
      << messages(d);
  Compiled c = compileAndRun(load("graph(%x : Tensor):\n  %y : Tensor = mine::ramp(%x)\n  return (%y)\n", e));
  EXPECT_TRUE(c.ok && c.same) << c.messages;
  EXPECT_GT(converted, 0);
}

TEST(Extensions, WhatOperatorsThrowIsAnErrorOfTheirNode) {
  auto like = [](InferCall& call) { call.result(call.tensor(0)); };
  auto zeros = [](KernelCall& call) { call.out(); };
  EXPECT_EQ(runOf([](InferCall&) { throw std::runtime_error("boom"); }, zeros), "mine::f: its inference failed: boom");
  EXPECT_EQ(runOf(like, [](KernelCall&) { throw std::out_of_range("boom"); }), "mine::f: its kernel failed: boom");
  EXPECT_EQ(runOf(like, [](KernelCall&) { throw 1; }),
            "mine::f: its kernel failed with an exception of an unknown type");
  EXPECT_EQ(runOf(like, [](KernelCall&) { throw std::bad_alloc(); }), "mine::f: out of memory");
}

}  // namespace
}  // namespace tscompile
