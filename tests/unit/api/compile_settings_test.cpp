#include "api/compile_settings.h"

#include "ir/support/diagnostic_printer.h"

#include <gtest/gtest.h>

namespace tscompile {
namespace {

// Engine files keep settings as texts: what is read back must be what was written.
TEST(CompileSettings, TextsComeBack) {
  const std::vector<std::string> texts = {"method=encode",
                                          "min-block-size=1",
                                          "strategy=minimal",
                                          "torch-executed-op=aten::relu",
                                          "torch-executed-op=aten::add.Tensor",
                                          "torch-executed-module=layer1.0",
                                          "torch-executed-node=%a=b",
                                          "shape=x=1..8x3x224x224:f32",
                                          "opt-shape=x=4x3x224x224:f32",
                                          "without-converter=aten::mish",
                                          "rewrite=+default +fast_run -log1p <2",
                                          "no-lower",
                                          "precision=int8",
                                          "tactics=measure",
                                          "threads=3",
                                          "workspace-size=1048576",
                                          "refittable",
                                          "keep-state",
                                          "require-full=33.3333333"};
  CompileSpec spec;
  for (const std::string& text : texts) EXPECT_TRUE(applySetting(spec, text)) << text;
  std::vector<std::string> names;
  for (const std::string& text : settingTexts(spec)) {
    names.push_back(text.substr(0, text.find('=')));
    CompileSpec alone;
    EXPECT_TRUE(applySetting(alone, text)) << text;
    EXPECT_EQ(settingTexts(alone), std::vector<std::string>{text});
  }
  // All that have texts were tried.
  for (const CompileSetting& s : compileSettings())
    EXPECT_EQ(std::find(names.begin(), names.end(), s.name) != names.end(), s.set != nullptr) << s.name;
}

TEST(CompileSettings, WhatIsByDefaultIsNotSaid) {
  EXPECT_TRUE(saidSettings(CompileSpec()).empty());
  CompileSpec spec;
  for (const char* text :
       {"method=forward", "strategy=dependency", "precision=f32", "tactics=model", "rewrite=default"})
    EXPECT_TRUE(applySetting(spec, text)) << text;
  EXPECT_TRUE(saidSettings(spec).empty());
}

TEST(CompileSettings, PrecisionsHaveOtherNamesOfTheirDtypes) {
  for (const auto& [said, meant] : std::initializer_list<std::pair<const char*, const char*>>{
           {"bfloat16", "bf16"}, {"torch.float16", "f16"}, {"half", "f16"}, {"float32", "f32"}, {"int8", "int8"}}) {
    CompileSpec spec;
    ASSERT_TRUE(applySetting(spec, std::string("precision=") + said)) << said;
    EXPECT_EQ(precisionName(spec.engine.precision), meant);
  }
}

TEST(CompileSettings, RefusesWhatCannotBe) {
  for (const char* text :
       {"", "=", "nothing", "nothing=1", "method", "no-lower=1", "min-block-size=0", "min-block-size=-1",
        "strategy=best", "shape=x", "precision=f64", "tactics=guess", "threads=0", "threads=5000",
        "workspace-size=much", "require-full=101", "require-full=nan", "rewrite=+a +", "lowering.arguments"}) {
    CompileSpec spec;
    EXPECT_FALSE(applySetting(spec, text)) << text;
  }
}

TEST(CompileSettings, InputsInOrderGetTheNamesOfTensors) {
  Diagnostics diagnostics;
  Result<Module> module = Module::fromText(
      "graph(%a : Tensor, %n : int, %b : Tensor):\n  %c : Tensor = aten::add(%a, %b, %n)\n  return (%c)\n", "sum", {},
      diagnostics);
  ASSERT_TRUE(module);
  CompileSpec spec({CompileInput({1, 2}, {3, 2}, {8, 2}), CompileInput({2})});
  Result<PartitionSpec> named = partitionSpecOf(spec, module->graph(), diagnostics);
  ASSERT_TRUE(named) << renderDiagnostics(diagnostics, "test");
  ASSERT_EQ(named->shapes.size(), 2u);
  EXPECT_EQ(inputRangeText(named->shapes[0]), "a=1..8x2:float32");
  EXPECT_EQ(inputRangeText(named->shapes[1]), "b=2:float32");
  EXPECT_EQ(inputRangeText(named->usualShapes[0]), "a=3x2:float32");
  spec.setInputs({CompileInput({4})});
  EXPECT_FALSE(partitionSpecOf(spec, module->graph(), diagnostics));
  EXPECT_EQ(renderDiagnostics(diagnostics, "test"),
            "test: error: the method takes 2 tensors, and 1 input is described\n");
}

TEST(CompileSettings, SizesAreOfInputsThatThereAre) {
  Diagnostics diagnostics;
  Result<Module> module =
      Module::fromText("graph(%a : Tensor, %scale : float):\n  %b : Tensor = aten::mul(%a, %scale)\n  return (%b)\n",
                       "product", {}, diagnostics);
  ASSERT_TRUE(module);
  auto said = [&](const char* shape, const char* usual) {
    CompileSpec spec;
    if (*shape) spec.shapes = {*parseInputRange(shape)};
    if (*usual) spec.usualShapes = {*parseInputRange(usual)};
    Diagnostics problems;
    const bool compiles = module->compiled(spec, problems).ok();
    EXPECT_EQ(compiles, !problems.hasErrors());
    EXPECT_EQ(problems.hasErrors() ? problems.firstErrorKind() : ErrorKind::Input, ErrorKind::Input);
    return renderDiagnostics(problems, "test");
  };
  const std::string none = "test: error: the graph has no input 'nope'\nnote: it takes %a : Tensor, %scale : float\n";
  EXPECT_EQ(said("nope=1..8x16", ""), none);
  EXPECT_EQ(said("", "nope=4x16"), none);
  EXPECT_EQ(said("scale=4x4", ""), "test: error: input %scale is float and has no shape\n");
  EXPECT_EQ(said("", "scale=4x4"), "test: error: input %scale is float and has no shape\n");
  EXPECT_EQ(said("a=1..8x16", "a=40x16"),
            "test: error: the usual sizes of input %a are outside of those that it may have\n"
            "note: usual are 40x16, and it may be 1..8x16\n");
  EXPECT_EQ(said("a=1..8x16", "a=2..4x16"),
            "test: error: the usual sizes of input %a are not one for each dimension\nnote: they are 2..4x16\n");
  EXPECT_EQ(said("0=1..8x16", "%a=4x16"), "");
  CompileSpec spec;
  spec.setInputs({{{8, 16}, {4, 16}, {1, 16}}});
  EXPECT_FALSE(module->compiled(spec, diagnostics));
  EXPECT_EQ(renderDiagnostics(diagnostics, "test"),
            "test: error: the sizes of input %a do not go from least to most\n"
            "note: they go from [8, 16] to [1, 16]\n");
}

}  // namespace
}  // namespace tscompile
