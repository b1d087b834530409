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

TEST(CompileSettings, RefusesWhatCannotBe) {
  for (const char* text : {"",
                           "=",
                           "nothing",
                           "nothing=1",
                           "method",
                           "no-lower=1",
                           "min-block-size=0",
                           "min-block-size=-1",
                           "strategy=best",
                           "shape=x",
                           "precision=f64",
                           "tactics=guess",
                           "threads=0",
                           "threads=5000",
                           "workspace-size=much",
                           "require-full=101",
                           "require-full=nan",
                           "rewrite=defualt",
                           "rewrite=+a +",
                           "lowering.arguments"}) {
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
            "test: error: the method takes 2 tensors, and 1 inputs are described\n");
}

}  // namespace
}  // namespace tscompile
