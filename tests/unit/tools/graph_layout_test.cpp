// Pictures of graphs: boxes do not overlap, values go down, the same graph gives the same text.
#include "tools/pages/graph_layout.h"

#include "tests/support/cli.h"
#include "tests/support/random_graph.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

#include <random>

namespace tscompile::test {
namespace {

bool overlap(const LayoutBox& a, const LayoutBox& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

// Random boxes in two frames, one inside of a box of the other.
Layout randomLayout(std::mt19937& random) {
  Layout out;
  out.frames.resize(2);
  const uint32_t count = 4 + random() % 30, owner = random() % (count / 2);
  for (uint32_t i = 0; i < count; ++i) {
    LayoutBox& b = out.boxes.emplace_back();
    b.labelWidth = 20 + random() % 200;
    b.labelHeight = 15 + random() % 60;
    out.frames[i < count / 2 ? 0 : 1].boxes.push_back(i);
  }
  out.boxes[owner].frames.push_back(1);
  for (const LayoutFrame& f : out.frames)
    for (uint32_t i = f.boxes.front() + 1; i <= f.boxes.back(); ++i)
      for (uint32_t from = f.boxes.front(); from < i; ++from)
        if (random() % 5 == 0) out.lines.push_back({from, i});
  return out;
}

TEST(GraphLayout, BoxesStandBesideEachOtherBelowWhatTheyTake) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    Layout layout = randomLayout(random);
    place(layout);
    for (const LayoutFrame& f : layout.frames)
      for (uint32_t a : f.boxes) {
        const LayoutBox& box = layout.boxes[a];
        EXPECT_GE(box.x, f.x);
        EXPECT_LE(box.x + box.width, f.x + f.width + 1e-6);
        EXPECT_LE(box.y + box.height, f.y + f.height + 1e-6);
        for (uint32_t b : f.boxes)
          EXPECT_FALSE(a < b && overlap(box, layout.boxes[b])) << round << ": " << a << ", " << b;
      }
    for (const LayoutLine& line : layout.lines)
      EXPECT_LE(layout.boxes[line.from].y + layout.boxes[line.from].height, layout.boxes[line.to].y) << round;
  }
}

std::string svgOf(const std::string& text) {
  TemporaryFolder folder;
  const CliResult result = runCli({"parse", "--as", "svg", folder.write("x.ir", text)});
  EXPECT_EQ(result.code, 0) << result.err;
  return result.out;
}

// Every element is closed, and nothing of a name is markup.
TEST(GraphSvg, NamesAreTextWhateverTheyHold) {
  const std::string svg = svgOf(
      "graph(%x : Tensor):\n  %s : str = prim::Constant[value=\"</text><script>alert(1)</script>&\\\"\"]()\n"
      "  %y : Tensor = mine::op(%x, %s)\n  return (%y)\n");
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_NE(svg.find("&lt;script&gt;"), std::string::npos) << svg;
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(GraphSvg, LargeAndDeepGraphsAreDrawnWithinTheirLimits) {
  std::string chain = "graph(%x.0 : Tensor):\n";
  for (int i = 0; i < 10000; ++i)
    chain += "  %x." + std::to_string(i + 1) + " : Tensor = aten::add(%x." + std::to_string(i) + ", %x." +
             std::to_string(i / 2) + ", %x.0)\n";
  chain += "  return (%x.10000)\n";
  const std::string svg = svgOf(chain);
  EXPECT_LT(svg.size(), size_t{12} << 20);
  EXPECT_EQ(svg, svgOf(chain));

  std::string deep = "graph(%c : bool):\n";
  constexpr int kDepth = 900;
  for (int i = 0; i < kDepth; ++i) deep += "   = prim::If(%c)\n block0():\n";
  for (int i = 0; i < kDepth; ++i) deep += " -> ()\n block1():\n -> ()\n";
  deep += "  return (%c)\n";
  EXPECT_NE(svgOf(deep).find(">If<"), std::string::npos);

  TemporaryFolder folder;
  EXPECT_EQ(runCli({"parse", "--as", "svg", "--limit", "print=20000", folder.write("x.ir", chain)}).code, 6);
}

}  // namespace
}  // namespace tscompile::test
