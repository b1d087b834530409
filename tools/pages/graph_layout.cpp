#include "tools/pages/graph_layout.h"

#include <algorithm>

namespace tscompile {
namespace {

// Something with a place in a layer: a box, or a line on its way through.
struct Item {
  uint32_t box = kNoBox;
  double width = 4, center = 0;
  std::vector<uint32_t> above = {}, below = {};  // items of the layers beside
};

// The boxes of one frame, from sizes to places relative to it.
class FramePlacer {
 public:
  FramePlacer(Layout& layout, LayoutFrame& frame, const std::vector<uint32_t>& lines)
      : layout_(layout), frame_(frame), lines_(lines) {}

  void place() {
    if (frame_.boxes.empty()) return;
    chooseLayers();
    fillLayers();
    sortLayers();
    chooseColumns();
    chooseRows();
    drawLines();
  }

 private:
  LayoutBox& box(uint32_t id) { return layout_.boxes[id]; }

  // As low as what it takes asks for; what takes nothing, right above what takes it.
  void chooseLayers() {
    const size_t count = frame_.boxes.size();
    for (uint32_t id : frame_.boxes) box(id).layer = 0;
    std::vector<uint32_t> inOrder(lines_), lowest(count, UINT32_MAX);
    std::stable_sort(inOrder.begin(), inOrder.end(),
                     [&](uint32_t a, uint32_t b) { return box(lineOf(a).to).order < box(lineOf(b).to).order; });
    std::vector<char> takes(count);
    for (uint32_t l : inOrder) {
      LayoutBox& to = box(lineOf(l).to);
      to.layer = std::max(to.layer, box(lineOf(l).from).layer + 1);
      takes[to.order] = 1;
    }
    uint32_t most = 0;
    for (uint32_t id : frame_.boxes) most = std::max(most, box(id).layer);
    for (uint32_t id : frame_.boxes)
      if (box(id).isLast) box(id).layer = most = std::max(most, count > 1 && !takes[box(id).order] ? most + 1 : most);
    for (uint32_t l : lines_) {
      uint32_t& low = lowest[box(lineOf(l).from).order];
      low = std::min(low, box(lineOf(l).to).layer - 1);
    }
    for (size_t i = 0; i < count; ++i) {
      LayoutBox& b = box(frame_.boxes[i]);
      if (takes[i] || b.isLast) continue;
      // What is tied to nothing stands where the program has it.
      b.layer = lowest[i] != UINT32_MAX ? lowest[i] : i > 0 ? box(frame_.boxes[i - 1]).layer : 0;
    }
  }
  LayoutLine& lineOf(uint32_t l) { return layout_.lines[l]; }

  void fillLayers() {
    uint32_t most = 0;
    for (uint32_t id : frame_.boxes) most = std::max(most, box(id).layer);
    layers_.resize(most + 1);
    for (uint32_t id : frame_.boxes) add(box(id).layer, {.box = id, .width = box(id).width});
    paths_.resize(lines_.size());
    for (size_t i = 0; i < lines_.size(); ++i) {
      const LayoutLine& line = lineOf(lines_[i]);
      const uint32_t first = box(line.from).layer, last = box(line.to).layer;
      if (last <= first || last - first > Layout::kLongest) continue;
      std::vector<uint32_t>& path = paths_[i];
      path.push_back(box(line.from).order);
      for (uint32_t layer = first + 1; layer < last; ++layer) path.push_back(add(layer, {}));
      path.push_back(box(line.to).order);
      for (size_t k = 0; k + 1 < path.size(); ++k) {
        items_[path[k]].below.push_back(path[k + 1]);
        items_[path[k + 1]].above.push_back(path[k]);
      }
    }
  }
  // Boxes come first, so that their items have the numbers of their places in the program.
  uint32_t add(uint32_t layer, Item item) {
    items_.push_back(std::move(item));
    layers_[layer].push_back(static_cast<uint32_t>(items_.size() - 1));
    return layers_[layer].back();
  }

  // Fewer crossings, by barycentres in layers (Sugiyama, Tagawa, Toda 1981): each item at the mean of its neighbours',
  // downwards and upwards in turns.
  void sortLayers() {
    constexpr int kSweeps = 6;
    std::vector<double> at(items_.size()), wish(items_.size());
    auto number = [&](const std::vector<uint32_t>& layer) {
      for (size_t i = 0; i < layer.size(); ++i)
        at[layer[i]] = static_cast<double>(i) / static_cast<double>(layer.size());
    };
    for (const auto& layer : layers_) number(layer);
    for (int sweep = 0; sweep < kSweeps; ++sweep)
      for (size_t i = 0; i < layers_.size(); ++i) {
        const bool down = sweep % 2 == 0;
        std::vector<uint32_t>& layer = layers_[down ? i : layers_.size() - 1 - i];
        for (uint32_t n : layer) wish[n] = mean(down ? items_[n].above : items_[n].below, at, at[n]);
        std::stable_sort(layer.begin(), layer.end(), [&](uint32_t a, uint32_t b) { return wish[a] < wish[b]; });
        number(layer);
      }
  }
  static double mean(const std::vector<uint32_t>& of, const std::vector<double>& at, double otherwise) {
    if (of.empty()) return otherwise;
    double sum = 0;
    for (uint32_t n : of) sum += at[n];
    return sum / static_cast<double>(of.size());
  }

  // Straight lines where there is room: centres move towards their neighbours', in their order.
  void chooseColumns() {
    constexpr int kSweeps = 8;
    std::vector<double> center(items_.size()), wish, left, right;
    auto gap = [&](uint32_t a, uint32_t b) { return (items_[a].width + items_[b].width) / 2 + Layout::kGap; };
    auto settle = [&](const std::vector<uint32_t>& layer) {
      left = right = wish;
      for (size_t i = 1; i < layer.size(); ++i) left[i] = std::max(left[i], left[i - 1] + gap(layer[i - 1], layer[i]));
      for (size_t i = layer.size() - 1; i-- > 0;)
        right[i] = std::min(right[i], right[i + 1] - gap(layer[i], layer[i + 1]));
      for (size_t i = 0; i < layer.size(); ++i) center[layer[i]] = (left[i] + right[i]) / 2;
    };
    for (const auto& layer : layers_) {
      wish.assign(layer.size(), 0);
      settle(layer);
    }
    for (int sweep = 0; sweep < kSweeps; ++sweep)
      for (size_t i = 0; i < layers_.size(); ++i) {
        const bool down = sweep % 2 == 0;
        const std::vector<uint32_t>& layer = layers_[down ? i : layers_.size() - 1 - i];
        wish.clear();
        for (uint32_t n : layer) wish.push_back(mean(down ? items_[n].above : items_[n].below, center, center[n]));
        settle(layer);
      }
    double low = center[0], high = center[0];
    for (size_t n = 0; n < items_.size(); ++n) {
      low = std::min(low, center[n] - items_[n].width / 2);
      high = std::max(high, center[n] + items_[n].width / 2);
    }
    for (size_t n = 0; n < items_.size(); ++n) items_[n].center = center[n] - low + Layout::kMargin;
    frame_.width = high - low + 2 * Layout::kMargin;
  }

  void chooseRows() {
    double y = Layout::kMargin;
    for (const auto& layer : layers_) {
      double height = 0;
      for (uint32_t n : layer)
        if (items_[n].box != kNoBox) height = std::max(height, box(items_[n].box).height);
      for (uint32_t n : layer) {
        if (items_[n].box == kNoBox) continue;
        LayoutBox& b = box(items_[n].box);
        b.x = items_[n].center - b.width / 2;
        b.y = y;
      }
      tops_.push_back(y);
      y += height + Layout::kLayerGap;
      bottoms_.push_back(y - Layout::kLayerGap);
    }
    frame_.height = y - Layout::kLayerGap + Layout::kMargin;
  }

  void drawLines() {
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (paths_[i].empty()) continue;
      LayoutLine& line = lineOf(lines_[i]);
      const LayoutBox& from = box(line.from);
      line.points.emplace_back(items_[paths_[i].front()].center, from.y + from.height);
      for (size_t k = 1; k + 1 < paths_[i].size(); ++k) {
        const double x = items_[paths_[i][k]].center;
        line.points.emplace_back(x, tops_[from.layer + k]);
        line.points.emplace_back(x, bottoms_[from.layer + k]);
      }
      line.points.emplace_back(items_[paths_[i].back()].center, box(line.to).y);
    }
  }

  Layout& layout_;
  LayoutFrame& frame_;
  const std::vector<uint32_t>& lines_;
  std::vector<Item> items_;
  std::vector<std::vector<uint32_t>> layers_, paths_;  // items; paths: of each line, from its box to the other
  std::vector<double> tops_, bottoms_;                 // of the layers
};

// A box is as large as its text and its frames, which are placed already.
void measure(Layout& layout, LayoutBox& box) {
  double width = 0, height = 0;
  for (uint32_t f : box.frames) {
    width += layout.frames[f].width + Layout::kMargin;
    height = std::max(height, layout.frames[f].height);
  }
  box.width = std::max(box.labelWidth, box.frames.empty() ? 0 : width + Layout::kMargin);
  box.height = box.labelHeight + (box.frames.empty() ? 0 : height + Layout::kFrameTitle + Layout::kMargin);
}

}  // namespace

void place(Layout& layout) {
  std::vector<uint32_t> frameOf(layout.boxes.size());
  for (uint32_t f = 0; f < layout.frames.size(); ++f) {
    uint32_t order = 0;
    for (uint32_t id : layout.frames[f].boxes) frameOf[id] = f, layout.boxes[id].order = order++;
  }
  std::vector<std::vector<uint32_t>> lines(layout.frames.size());
  for (uint32_t l = 0; l < layout.lines.size(); ++l) lines[frameOf[layout.lines[l].from]].push_back(l);
  // Inner frames first: they decide how large the boxes around them are.
  for (size_t f = layout.frames.size(); f-- > 0;) {
    LayoutFrame& frame = layout.frames[f];
    for (uint32_t id : frame.boxes) measure(layout, layout.boxes[id]);
    FramePlacer(layout, frame, lines[f]).place();
  }
  // Then from the outside in, what was relative to the frame becomes relative to the picture.
  for (size_t f = 0; f < layout.frames.size(); ++f) {
    LayoutFrame& frame = layout.frames[f];
    for (uint32_t id : frame.boxes) {
      LayoutBox& box = layout.boxes[id];
      box.x += frame.x, box.y += frame.y;
      double x = box.x + Layout::kMargin;
      for (uint32_t inner : box.frames) {
        layout.frames[inner].x = x;
        layout.frames[inner].y = box.y + box.labelHeight + Layout::kFrameTitle;
        x += layout.frames[inner].width + Layout::kMargin;
      }
    }
    for (uint32_t l : lines[f])
      for (auto& [x, y] : layout.lines[l].points) x += frame.x, y += frame.y;
  }
}

}  // namespace tscompile
