// What raises before lowering raises after it: in-place statements of sizes and dtypes that do not fit.
#include "api/compiler.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

struct Outcome {
  bool raised = false;
  std::string value;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome outcome(const Module& module, const std::vector<IValue>& inputs) {
  Diagnostics diagnostics;
  Result<std::vector<IValue>> got = module.forward(inputs, diagnostics);
  if (got) return {false, valueToText(got->at(0))};
  return {true, ""};
}

IValue filled(DType dtype, const Dims& sizes) {
  Tensor t = Tensor::zeros(dtype, sizes);
  for (int64_t i = 0; i < t.numel(); ++i) {
    if (dtype == DType::Float32) t.data<float>()[i] = static_cast<float>(i) + 0.5f;
    if (dtype == DType::Int64) t.data<int64_t>()[i] = i + 1;
    if (dtype == DType::Bool) t.data<bool>()[i] = i % 2 == 0;
  }
  return t;
}

std::string statement(const std::string& op, bool sizesInText, const IValue& x, const IValue& y) {
  auto type = [&](const IValue& v) { return sizesInText ? typeText(dynamicType(v)) : "Tensor"; };
  std::string alpha = op == "add_" || op == "sub_" ? ", %one" : op == "copy_" ? ", %no" : "";
  if (op == "masked_fill_") alpha = ", %one";
  return "graph(%x : " + type(x) + ", %y : " + type(y) +
         "):\n"
         "  %one : int = prim::Constant[value=1]()\n"
         "  %no : bool = prim::Constant[value=0]()\n"
         "  %none : NoneType = prim::Constant()\n"
         "  %t : Tensor = aten::clone(%x, %none)\n"
         "  %u : Tensor = aten::" +
         op + "(%t, %y" + alpha +
         ")\n"
         "  %v : Tensor = aten::mul_(%u, %one)\n"
         "  return (%v)\n";
}

Module moduleIn(const std::string& text) {
  Diagnostics diagnostics;
  Result<Module> module = Module::fromText(text, "text", {}, diagnostics);
  EXPECT_TRUE(module.ok()) << renderDiagnostics(diagnostics, "test");
  return *module;
}

void expectSameOutcome(const std::string& text, const std::vector<IValue>& inputs) {
  Module module = moduleIn(text);
  Diagnostics diagnostics;
  CompileSpec spec;
  spec.minBlockSize = 1;
  Result<Module> compiled = module.compiled(spec, diagnostics);
  ASSERT_TRUE(compiled.ok()) << text << renderDiagnostics(diagnostics, "test");
  Outcome before = outcome(module, inputs), after = outcome(*compiled, inputs);
  EXPECT_EQ(before.raised, after.raised) << text << before.value << "\n" << after.value;
  EXPECT_EQ(before.value, after.value) << text;
}

}  // namespace

TEST(KeptErrors, InPlaceStatementsRaiseWhereTheyDidBefore) {
  const std::vector<Dims> sizes = {Dims{}, Dims{1}, Dims{3}, Dims{1, 3}, Dims{2, 3}, Dims{0}};
  const std::vector<std::pair<DType, DType>> dtypes = {
      {DType::Float32, DType::Float32}, {DType::Int64, DType::Float32}, {DType::Float32, DType::Int64}};
  for (const char* op : {"add_", "mul_", "div_", "copy_", "masked_fill_"})
    for (const Dims& x : sizes)
      for (const Dims& y : sizes)
        for (auto [a, b] : dtypes) {
          bool masks = std::string_view(op) == "masked_fill_";
          if (masks && b != DType::Float32) continue;
          IValue first = filled(a, x), second = filled(masks ? DType::Bool : b, y);
          for (bool sizesInText : {false, true})
            expectSameOutcome(statement(op, sizesInText, first, second), {first, second});
        }
}

TEST(KeptErrors, SizesOfTheExampleHoldForItAlone) {
  Module module = moduleIn(
      "graph(%x : Float(1, 8)):\n"
      "  %one : int = prim::Constant[value=1]()\n"
      "  %n : int = aten::size(%x, %one)\n"
      "  %y : Tensor = aten::mul(%x, %n)\n"
      "  return (%y)\n");
  Diagnostics diagnostics;
  Result<Module> compiled = module.compiled({}, diagnostics);
  ASSERT_TRUE(compiled.ok());
  for (Dims sizes : {Dims{1, 8}, Dims{1, 3}, Dims{2, 2}}) {
    std::vector<IValue> inputs = {filled(DType::Float32, sizes)};
    EXPECT_EQ(outcome(module, inputs), outcome(*compiled, inputs)) << dimsText(sizes);
  }
  std::vector<IValue> other = {filled(DType::Int64, Dims{1, 8})};
  EXPECT_EQ(outcome(module, other), outcome(*compiled, other));

  const std::string path = testing::TempDir() + "other_sizes.tse";
  ASSERT_TRUE(compiled->save(path, diagnostics)) << renderDiagnostics(diagnostics, "test");
  Result<Module> file = Module::load(path, {}, diagnostics);
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE(outcome(*file, {filled(DType::Float32, Dims{1, 8})}).raised);
  Diagnostics refused;
  EXPECT_FALSE(file->forward(std::vector{filled(DType::Float32, Dims{1, 3})}, refused).ok());
  EXPECT_EQ(refused.list().at(0).message, "input %x is Float(1, 3), and this was compiled for Float(1, 8)");
  EXPECT_EQ(refused.firstErrorKind(), ErrorKind::Model);
}

TEST(KeptErrors, IntegersStandForFloats) {
  Diagnostics diagnostics;
  Result<Module> module =
      Module::fromText("graph(%x : Tensor, %scale : float):\n  %y : Tensor = aten::mul(%x, %scale)\n  return (%y)\n",
                       "scaled.ir", {}, diagnostics);
  ASSERT_TRUE(module.ok()) << renderDiagnostics(diagnostics, "test");
  const float elements[] = {1, 2};
  Result<std::vector<IValue>> out = module->forward({Tensor::borrow(DType::Float32, {2}, elements), 3}, diagnostics);
  ASSERT_TRUE(out.ok()) << renderDiagnostics(diagnostics, "test");
  EXPECT_EQ((*out)[0].toTensor().data<float>()[1], 6);
}

// What a caller hands over twice is one tensor, though each has a storage of its own.
TEST(KeptErrors, InputsShareMemory) {
  const Module module = moduleIn(
      "graph(%x : Tensor, %y : Tensor):\n"
      "  %one : int = prim::Constant[value=1]()\n"
      "  %z : Tensor = aten::addmm_(%x, %y, %y, %one, %one)\n"
      "  return (%z)\n");
  Diagnostics diagnostics;
  CompileSpec spec;
  spec.minBlockSize = 1;
  Result<Module> compiled = module.compiled(spec, diagnostics);
  ASSERT_TRUE(compiled.ok()) << renderDiagnostics(diagnostics, "test");
  for (const Module* m : {&module, static_cast<const Module*>(&*compiled)}) {
    float elements[] = {1, 2, 3, 4};
    const Outcome got = outcome(
        *m, {Tensor::borrow(DType::Float32, {2, 2}, elements), Tensor::borrow(DType::Float32, {2, 2}, elements)});
    EXPECT_EQ(got.value, "2x2:f32=[8 12; 18 26]");
    EXPECT_EQ(elements[3], 26);
  }
}

// A view of what is made of an input is the reshape of it only where the input lies in order.
TEST(KeptErrors, InputsLieInAnyOrder) {
  const Module module = moduleIn(
      "graph(%x : Tensor, %l : Tensor[]):\n"
      "  %zero : int = prim::Constant[value=0]()\n"
      "  %six : int[] = prim::Constant[value=[6]]()\n"
      "  %a : Tensor = aten::relu(%x)\n"
      "  %y : Tensor = aten::view(%a, %six)\n"
      "  %b : Tensor = aten::__getitem__(%l, %zero)\n"
      "  %c : Tensor = aten::neg(%b)\n"
      "  %z : Tensor = aten::view(%c, %six)\n"
      "  return (%y, %z)\n");
  Diagnostics diagnostics;
  Result<Module> compiled = module.compiled({}, diagnostics);
  ASSERT_TRUE(compiled.ok());
  const std::string path = testing::TempDir() + "any_order.tse";
  ASSERT_TRUE(compiled->save(path, diagnostics)) << renderDiagnostics(diagnostics, "test");
  Result<Module> file = Module::load(path, {}, diagnostics);
  ASSERT_TRUE(file.ok());

  const Tensor inOrder = filled(DType::Float32, Dims{2, 3}).toTensor();
  const Tensor across = inOrder.withGeometry(Dims{2, 3}, Dims{1, 2}, 0);
  auto inputs = [](const Tensor& x, const Tensor& item) {
    return std::vector<IValue>{x, Ref<ListValue>::make(tensorType({}), std::vector<IValue>{item})};
  };
  for (const auto& given : {inputs(inOrder, inOrder), inputs(across, inOrder), inputs(inOrder, across)})
    EXPECT_EQ(outcome(module, given), outcome(*compiled, given));
  EXPECT_TRUE(outcome(*compiled, inputs(across, inOrder)).raised);
  EXPECT_TRUE(outcome(*compiled, inputs(inOrder, across)).raised);
  EXPECT_FALSE(outcome(*compiled, inputs(inOrder, inOrder)).raised);

  EXPECT_FALSE(outcome(*file, inputs(inOrder, inOrder)).raised);
  Diagnostics refused;
  EXPECT_FALSE(file->forward(inputs(inOrder, across), refused).ok());
  EXPECT_EQ(refused.list().at(0).message,
            "input %l does not lie in memory in the order of its dimensions, and the graph was lowered for inputs that "
            "do");
  EXPECT_EQ(refused.firstErrorKind(), ErrorKind::Model);
}

// An input that only has its elements read may lie anyhow, in a file too.
TEST(KeptErrors, OrderIsAskedForWhereItMatters) {
  const Module module = moduleIn("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n");
  Diagnostics diagnostics;
  Result<Module> compiled = module.compiled({}, diagnostics);
  ASSERT_TRUE(compiled.ok());
  const std::string path = testing::TempDir() + "order_unasked.tse";
  ASSERT_TRUE(compiled->save(path, diagnostics)) << renderDiagnostics(diagnostics, "test");
  Result<Module> file = Module::load(path, {}, diagnostics);
  ASSERT_TRUE(file.ok());
  const Tensor across = filled(DType::Float32, Dims{2, 3}).toTensor().withGeometry(Dims{2, 3}, Dims{1, 2}, 0);
  for (const Module* m : {&*compiled, &*file})
    EXPECT_EQ(outcome(module, {IValue(across)}), outcome(*m, {IValue(across)}));
}

}  // namespace tscompile::test
