// Runs that go on where others ended, against what PyTorch returned for one call after the other:
// tests/tools/make_state.py.
#include "api/compile.h"
#include "api/module.h"
#include "tests/support/value_checks.h"

#include <fstream>

namespace tscompile {
namespace {

using test::expectNear;
using test::flatten;
using test::parsedValue;
using test::shown;
using test::TemporaryFolder;

std::string stateFile(const std::string& name) { return TSCOMPILE_TESTS_DIR "/data/state/" + name; }

struct Call {
  std::string method;
  std::vector<std::string> inputs;
  std::vector<IValue> outputs;
};

std::vector<Call> readCalls(const std::string& name) {
  std::ifstream file(stateFile(name));
  std::vector<Call> calls;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("call: "))
      calls.push_back({line.substr(6), {}, {}});
    else if (line.starts_with("in: "))
      calls.back().inputs.push_back(line.substr(4));
    else
      calls.back().outputs.push_back(parsedValue(line.substr(5)));
  EXPECT_GE(calls.size(), 4u);
  return calls;
}

RunOptions with(RunState* state) {
  RunOptions options;
  options.state = state;
  return options;
}

LoadOptions withTensors(std::vector<std::pair<std::string, Tensor>> tensors) {
  LoadOptions options;
  options.tensors = std::move(tensors);
  return options;
}

Module load(const std::string& path, const std::vector<std::string>& weights = {}) {
  LoadOptions options;
  options.weights = weights;
  Diagnostics d;
  Result<Module> m = Module::load(path, options, d);
  EXPECT_TRUE(m.ok()) << shown(d);
  return *m;
}

std::vector<IValue> run(const Method& method, const Call& call, RunState* state) {
  std::vector<IValue> inputs;
  for (const std::string& text : call.inputs) inputs.push_back(parsedValue(text));
  Diagnostics d;
  Result<std::vector<IValue>> out = method.run(inputs, d, with(state));
  EXPECT_TRUE(out.ok()) << shown(d);
  std::vector<IValue> leaves;
  if (!out) return leaves;
  for (const IValue& v : *out) flatten(v, leaves);
  // Memory of the caller, who does with it what he likes.
  for (const IValue& v : inputs)
    if (v.isTensor()) std::fill_n(v.toTensor().data<float>(), v.toTensor().numel(), -1e9f);
  return leaves;
}

void expectOutputs(const std::vector<IValue>& got, const Call& call) {
  ASSERT_EQ(got.size(), call.outputs.size());
  for (size_t i = 0; i < got.size(); ++i) expectNear(got[i], call.outputs[i]);
}

Method prepare(const Module& m, const std::string& name) {
  Diagnostics d;
  Result<Method> method = m.prepare(d, name);
  EXPECT_TRUE(method.ok()) << shown(d);
  return *method;
}

// All calls, from the module as it was loaded; again after the state is cleared.
void expectCalls(const Module& m, const std::vector<Call>& calls) {
  RunState state;
  for (int round = 0; round < 2; ++round) {
    for (const Call& call : calls) expectOutputs(run(prepare(m, call.method), call, &state), call);
    EXPECT_FALSE(state.isEmpty());
    state.clear();
  }
  // Others see nothing of it.
  expectOutputs(run(prepare(m, calls[0].method), calls[0], nullptr), calls[0]);
}

CompileSpec keepingState() {
  CompileSpec spec;
  spec.lowering.keepsState = true;
  return spec;
}

Module compiled(const Module& m, const CompileSpec& spec) {
  Diagnostics d;
  Result<Module> out = m.compiled(spec, d);
  EXPECT_TRUE(out.ok()) << shown(d);
  return *out;
}

std::vector<Call> only(std::vector<Call> calls, size_t count) {
  calls.resize(count);
  return calls;
}

TEST(RunState, GoesOnWhereTheLastRunEnded) {
  expectCalls(load(stateFile("stream.pt")), readCalls("stream.txt"));
  expectCalls(load(stateFile("program.pt2")), readCalls("program.txt"));
}

TEST(RunState, IsKeptByEnginesThatAreCompiledForIt) {
  expectCalls(compiled(load(stateFile("stream.pt")), keepingState()), only(readCalls("stream.txt"), 2));
  expectCalls(compiled(load(stateFile("program.pt2")), keepingState()), readCalls("program.txt"));
}

TEST(RunState, IsKeptByEngineFiles) {
  TemporaryFolder folder;
  for (const auto& [name, calls] :
       {std::pair("stream.pt", only(readCalls("stream.txt"), 2)), std::pair("program.pt2", readCalls("program.txt"))}) {
    Diagnostics d;
    const std::string path = folder.path() + "/model.tse";
    ASSERT_TRUE(compiled(load(stateFile(name)), keepingState()).save(path, d)) << shown(d);
    expectCalls(load(path), calls);
  }
}

TEST(RunState, IsKeptByText) {
  TemporaryFolder folder;
  Diagnostics d;
  const std::string path = folder.path() + "/model.ir", weights = folder.path() + "/model.safetensors";
  for (const auto& [name, calls] :
       {std::pair("stream.pt", only(readCalls("stream.txt"), 2)), std::pair("program.pt2", readCalls("program.txt"))}) {
    LowerOptions options;
    options.keepsState = true;
    Result<Module> lowered = load(stateFile(name)).lowered(options, d);
    ASSERT_TRUE(lowered.ok() && lowered->write(path, d)) << shown(d);
    const Module text = load(path, {weights});
    expectCalls(text, calls);
    // What runs for other sizes and orders is made of the text anew.
    const Module fast = compiled(text, keepingState());
    expectCalls(fast, calls);
  }
}

// Other methods of the module see what an engine wrote, and the other way round.
TEST(RunState, IsSharedByAModuleAndWhatWasCompiledOfIt) {
  const Module m = load(stateFile("stream.pt")), fast = compiled(m, keepingState());
  RunState state;
  for (const Call& call : readCalls("stream.txt"))
    expectOutputs(run(prepare(call.method == "forward" ? fast : m, call.method), call, &state), call);
}

TEST(RunState, IsRefusedWhereItWouldBeLost) {
  const Call call = readCalls("program.txt")[0];
  const Module fast = compiled(load(stateFile("program.pt2")), {});
  expectOutputs(run(prepare(fast, "forward"), call, nullptr), call);
  RunState state;
  Diagnostics d;
  EXPECT_FALSE(fast.forward({parsedValue(call.inputs[0])}, d, with(&state)).ok());
  EXPECT_EQ(shown(d),
            "test: error: the module was lowered without keeping state: its runs cannot go on where others ended\n"
            "note: compile it with the setting keep-state, in C++ lowering.keepsState of CompileSpec\n");
}

constexpr const char* kText = R"(graph(%self : __torch__.M,
      %x : Tensor):
  %one : int = prim::Constant[value=1]()
  %h : Tensor = prim::GetAttr[name="h"](%self)
  %s : Tensor = aten::add(%h, %x, %one)
   = prim::SetAttr[name="h"](%self, %s)
  %sizes : int[] = aten::size(%s)
  %y : Tensor = aten::mul(%s, %s)
  return (%s)
)";

// The objects of a text are made for each method that is prepared.
TEST(RunState, IsOneForAllMethodsOfAText) {
  Diagnostics d;
  const LoadOptions options = withTensors({{"h", parsedValue("2:f32=[1 2]").toTensor()}});
  Result<Module> m = Module::fromText(kText, "text.ir", options, d);
  ASSERT_TRUE(m.ok()) << shown(d);
  RunState state;
  std::string got;
  for (const Module& other : {*m, compiled(*m, keepingState()), *m}) {
    Result<std::vector<IValue>> out = prepare(other, "forward").run({parsedValue("2:f32=[10 20]")}, d, with(&state));
    ASSERT_TRUE(out.ok()) << shown(d);
    got += valueToText(out->at(0)) + "\n";
  }
  EXPECT_EQ(got, "2:f32=[11 22]\n2:f32=[21 42]\n2:f32=[31 62]\n");
}

// What it would hold of the caller's is copied, within containers, too, and what shares memory goes on sharing it.
TEST(RunState, HoldsNothingOfTheCaller) {
  constexpr const char* kHolder = R"(graph(%self : __torch__.M,
      %all : Tensor[],
      %x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %all0 : Tensor[] = prim::GetAttr[name="all"](%self)
  %x0 : Tensor = prim::GetAttr[name="x"](%self)
   = prim::SetAttr[name="all"](%self, %all)
  %row : Tensor = aten::select(%x, %zero, %one)
   = prim::SetAttr[name="x"](%self, %row)
  %n : int = aten::len(%all0)
  return (%n, %x0, %all0)
)";
  Diagnostics d;
  const LoadOptions options =
      withTensors({{"x", parsedValue("1:f32=[0]").toTensor()}, {"all.0", parsedValue("1:f32=[0]").toTensor()}});
  Result<Module> m = Module::fromText(kHolder, "text.ir", options, d);
  ASSERT_TRUE(m.ok()) << shown(d);
  float elements[] = {1, 2, 3, 4};
  RunState state;
  {
    const IValue x = Tensor::borrow(DType::Float32, {2, 2}, elements);
    const IValue list = Ref<ListValue>::make(types().tensor, std::vector<IValue>{x, x});
    ASSERT_TRUE(m->forward({list, x}, d, with(&state)).ok()) << shown(d);
    list.toList().items.clear();
    std::fill_n(elements, 4, -1.0f);
  }
  Result<std::vector<IValue>> out =
      m->forward({parsedValue("[1:f32=[0]]"), parsedValue("2x2:f32=[0 0; 0 0]")}, d, with(&state));
  ASSERT_TRUE(out.ok()) << shown(d);
  EXPECT_EQ(valueToText(out->at(0)), "2");
  EXPECT_EQ(valueToText(out->at(1)), "2:f32=[3 4]");
  EXPECT_EQ(valueToText(out->at(2)), "[2x2:f32=[1 2; 3 4], 2x2:f32=[1 2; 3 4]]");
  const std::vector<IValue>& items = out->at(2).toList().items;
  EXPECT_EQ(items[0].toTensor().storage(), items[1].toTensor().storage());
  EXPECT_EQ(items[0].toTensor().storage(), out->at(1).toTensor().storage());
}

// What is set in one branch alone, and never read, has nothing to begin with.
TEST(RunState, AttributesThatAreOnlySetNeedNoValue) {
  constexpr const char* kSets = R"(graph(%self : __torch__.M,
      %x : Tensor,
      %on : bool):
   = prim::If(%on)
    block0():
       = prim::SetAttr[name="h"](%self, %x)
      -> ()
    block1():
      -> ()
  %y : Tensor = aten::relu(%x)
  return (%y)
)";
  Diagnostics d;
  Result<Module> m = Module::fromText(kSets, "text.ir", {}, d);
  ASSERT_TRUE(m.ok()) << shown(d);
  for (const Module& each : {*m, compiled(*m, keepingState())}) {
    RunState state;
    for (bool on : {false, true})
      EXPECT_TRUE(each.forward({parsedValue("2:f32=[1 2]"), IValue(on)}, d, with(&state)).ok()) << shown(d);
  }
}

// What a run has written before it failed stays, as in PyTorch.
TEST(RunState, KeepsWhatAFailedRunWrote) {
  constexpr const char* kFails = R"(graph(%self : __torch__.M,
      %x : Tensor):
  %one : int = prim::Constant[value=1]()
  %h : Tensor = prim::GetAttr[name="h"](%self)
  %s : Tensor = aten::add_(%h, %one, %one)
  %y : Tensor = aten::add(%s, %x, %one)
  return (%y)
)";
  Diagnostics d;
  const LoadOptions options = withTensors({{"h", parsedValue("2:f32=[1 2]").toTensor()}});
  Result<Module> m = Module::fromText(kFails, "text.ir", options, d);
  ASSERT_TRUE(m.ok()) << shown(d);
  RunState state;
  Diagnostics failure;
  EXPECT_FALSE(m->forward({parsedValue("3:f32=[0 0 0]")}, failure, with(&state)).ok());
  Result<std::vector<IValue>> out = m->forward({parsedValue("2:f32=[0 0]")}, d, with(&state));
  ASSERT_TRUE(out.ok()) << shown(d);
  EXPECT_EQ(valueToText(out->at(0)), "2:f32=[3 4]");
}

// Weights in memory are no exception: neither does another run see what is written, nor whoever gave them.
TEST(RunState, WeightsInMemoryStayAsTheyAre) {
  constexpr const char* kWrites = R"(graph(%self : __torch__.M):
  %one : int = prim::Constant[value=1]()
  %h : Tensor = prim::GetAttr[name="h"](%self)
  %first : Tensor = prim::GetAttr[name="first"](%self)
  %s : Tensor = aten::add_(%h, %one, %one)
  %y : Tensor = aten::add(%s, %first, %one)
  return (%y)
)";
  Diagnostics d;
  const Tensor h = parsedValue("2:f32=[1 2]").toTensor();
  const Tensor first = Tensor::view(h.dtype(), h.storage(), Dims{1}, Dims{1}, 0);
  Result<Module> m = Module::fromText(kWrites, "text.ir", withTensors({{"h", h}, {"first", first}}), d);
  ASSERT_TRUE(m.ok()) << shown(d);
  for (const Module& each : {*m, compiled(*m, keepingState())}) {
    RunState state;
    for (RunState* kept : {static_cast<RunState*>(nullptr), &state, static_cast<RunState*>(nullptr)}) {
      Result<std::vector<IValue>> out = each.forward({}, d, with(kept));
      ASSERT_TRUE(out.ok()) << shown(d);
      EXPECT_EQ(valueToText(out->at(0)), "2:f32=[4 5]");
    }
    EXPECT_EQ(valueToText(each.forward({}, d, with(&state))->at(0)), "2:f32=[6 7]");
  }
  EXPECT_EQ(valueToText(IValue(h)), "2:f32=[1 2]");
}

// Lowered graphs set attributes at their end: what the method sets before it fails is set nevertheless, once.
TEST(RunState, KeepsWhatAFailedRunHasSet) {
  constexpr const char* kFails = R"(graph(%self : __torch__.M,
      %x : Tensor):
  %one : int = prim::Constant[value=1]()
  %n : Tensor = prim::GetAttr[name="n"](%self)
  %next : Tensor = aten::add(%n, %one, %one)
   = prim::SetAttr[name="n"](%self, %next)
  %h : Tensor = prim::GetAttr[name="h"](%self)
   = prim::SetAttr[name="h"](%self, %x)
  %s : Tensor = aten::add(%h, %x, %one)
   = prim::SetAttr[name="n"](%self, %s)
  %y : Tensor = aten::mul(%s, %next)
  return (%y)
)";
  Diagnostics d;
  LoadOptions options = withTensors({{"h", parsedValue("2:f32=[1 2]").toTensor()}});
  options.tensors.emplace_back("n", parsedValue("scalar:i64=0").toTensor());
  Result<Module> m = Module::fromText(kFails, "text.ir", options, d);
  ASSERT_TRUE(m.ok()) << shown(d);
  for (const Module& each : {*m, compiled(*m, keepingState())}) {
    RunState state;
    Diagnostics failure;
    EXPECT_FALSE(each.forward({parsedValue("3:f32=[1 1 1]")}, failure, with(&state)).ok());
    Result<std::vector<IValue>> out = each.forward({parsedValue("3:f32=[1 2 3]")}, d, with(&state));
    ASSERT_TRUE(out.ok()) << shown(d);
    EXPECT_EQ(valueToText(out->at(0)), "3:f32=[4 6 8]");
  }
}

}  // namespace
}  // namespace tscompile
