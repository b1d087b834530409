// Where the boxes of a picture of a graph stand: in layers from top to bottom, what is taken above what takes it,
// blocks inside of the boxes of their nodes. Linear in boxes and lines but for the sorting of layers; the same graph
// gives the same picture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tscompile {

inline constexpr uint32_t kNoBox = UINT32_MAX;

// What is drawn inside of one frame: the graph itself, or a block of a node.
struct LayoutFrame {
  std::vector<uint32_t> boxes;  // in program order
  double x = 0, y = 0, width = 0, height = 0;
};

struct LayoutBox {
  double labelWidth = 0, labelHeight = 0;  // what its text needs
  std::vector<uint32_t> frames;            // side by side, below the text
  bool isLast = false;                     // in the last layer of its frame
  double x = 0, y = 0, width = 0, height = 0;
  uint32_t layer = 0;
  uint32_t order = 0;  // among the boxes of its frame
};

// From one box to another of the same frame.
struct LayoutLine {
  uint32_t from, to;
  std::vector<std::pair<double, double>> points = {};  // empty: too long to draw, its ends are named instead
};

struct Layout {
  // Frame 0 is the graph; frames stand behind the frame that the box around them is in.
  std::vector<LayoutFrame> frames;
  std::vector<LayoutBox> boxes;
  std::vector<LayoutLine> lines;

  static constexpr double kGap = 14, kLayerGap = 26, kMargin = 10, kFrameTitle = 16;
  // Lines through more layers are left out.
  static constexpr uint32_t kLongest = 16;
};

// Gives boxes, frames and lines their places.
void place(Layout& layout);

}  // namespace tscompile
