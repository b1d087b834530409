#include "passes/serving/masks/mask_use.h"

#include "frontend/text/parse.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

// "shown", "hidden" or "added", and the dtype; of a graph that meets %scores with %mask.
std::string useOf(const std::string& type, const std::string& lines) {
  Diagnostics diagnostics;
  Result<std::unique_ptr<Graph>> graph = parseGraph("graph(%scores : Tensor, %mask : " + type +
                                                        "):\n"
                                                        "  %0 : int = prim::Constant[value=0]()\n"
                                                        "  %1 : int = prim::Constant[value=1]()\n"
                                                        "  %none : NoneType = prim::Constant()\n"
                                                        "  %3 : float = prim::Constant[value=3.]()\n"
                                                        "  %tiny : float = prim::Constant[value=1e-45]()\n"
                                                        "  %far : float = prim::Constant[value=-1e9]()\n"
                                                        "  %large : float = prim::Constant[value=1e9]()\n" +
                                                        lines + "  return (%y)\n",
                                                    diagnostics);
  EXPECT_TRUE(graph) << lines;
  if (!graph) return "";
  const std::optional<MaskUse> use = useOfMask(**graph, allOps(), (*graph)->input(1));
  if (!use) return "not told";
  const char* kinds[] = {"shown", "hidden", "added"};
  return kinds[static_cast<size_t>(use->kind)] + std::string(" ") + std::string(pythonName(use->dtype));
}

TEST(MaskUse, WhatIsDoneWithAMaskTellsWhatItsNumbersSay) {
  const struct {
    const char *type, *lines, *use;
  } cases[] = {
      {"Tensor", "  %y : Tensor = aten::masked_fill(%scores, %mask, %far)\n", "hidden bool"},
      {"Tensor", "  %y : Tensor = aten::where(%mask, %scores, %far)\n", "shown bool"},
      {"Tensor", "  %y : Tensor = aten::add(%scores, %mask, %1)\n", "added float32"},
      {"Tensor",
       "  %h : Tensor = aten::eq(%mask, %0)\n"
       "  %y : Tensor = aten::masked_fill(%scores, %h, %far)\n",
       "shown int64"},
      {"Tensor",
       "  %a : Tensor = aten::rsub(%mask, %1, %1)\n  %b : Tensor = aten::mul(%a, %far)\n"
       "  %y : Tensor = aten::add(%scores, %b, %1)\n",
       "shown int64"},
      {"Float(*, *)",
       "  %a : Tensor = aten::add(%mask, %tiny, %1)\n  %b : Tensor = aten::log(%a)\n"
       "  %y : Tensor = aten::add(%scores, %b, %1)\n",
       "shown float32"},
      {"Float(*, *)",
       "  %a : Tensor = aten::sub(%mask, %1, %1)\n  %b : Tensor = aten::clamp(%a, %none, %0)\n"
       "  %c : Tensor = aten::mul(%b, %large)\n  %y : Tensor = aten::add(%scores, %c, %1)\n",
       "shown float32"},
      {"Float(*, *)",
       "  %a : Tensor = aten::rsub(%mask, %1, %1)\n  %b : Tensor = aten::neg(%a)\n"
       "  %c : Tensor = aten::mul(%b, %large)\n  %y : Tensor = aten::add(%scores, %c, %1)\n",
       "shown float32"},
      // Integers are nothing to add, though minus infinity would hide as well.
      {"Long(*, *)",
       "  %h : Tensor = aten::ne(%mask, %0)\n"
       "  %y : Tensor = aten::masked_fill(%scores, %h, %far)\n",
       "hidden int64"},
      // So many times.
      {"Float(*, *)", "  %y : Tensor = aten::add(%scores, %mask, %far)\n", "hidden float32"},
      {"Float(*, *)", "  %y : Tensor = aten::sub(%scores, %mask, %large)\n", "hidden float32"},
      {"Float(*, *)", "  %y : Tensor = aten::mul(%scores, %mask)\n", "not told"},
      // No example is made of these.
      {"Half(*, *)", "  %y : Tensor = aten::add(%scores, %mask, %1)\n", "not told"},
      {"Int(*, *)", "  %y : Tensor = aten::masked_fill(%scores, %mask, %far)\n", "not told"},
  };
  for (const auto& c : cases) EXPECT_EQ(useOf(c.type, c.lines), c.use) << c.lines;
}

}  // namespace
}  // namespace tscompile::test
