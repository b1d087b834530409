#include "tools/pages/graph_svg.h"

#include "ir/graph/operation_text.h"
#include "ir/graph/printer.h"
#include "ir/support/text.h"
#include "tools/pages/graph_layout.h"
#include "tools/pages/markup.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <unordered_map>

namespace tscompile {
namespace {

constexpr size_t kMostOfLine = 44;  // letters
constexpr double kLetter = 6.7, kLine = 15, kPadding = 8;

// What a box shows.
struct BoxText {
  std::vector<std::string> lines;  // the first is its name
  std::string title;               // all of it
  bool isNode = true;
  std::string from;  // values whose lines are too long to draw
};

size_t lettersIn(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

class Picture {
 public:
  explicit Picture(const Graph& graph) {
    addFrame(graph.block(), kNoBox);
    // Frames are added while they are walked through.
    for (size_t f = 0; f < blocks_.size(); ++f) addBoxes(static_cast<uint32_t>(f));
    for (size_t i = 0; i < texts_.size(); ++i) measure(layout_.boxes[i], texts_[i]);
    std::sort(ends_.begin(), ends_.end());
    ends_.erase(std::unique(ends_.begin(), ends_.end()), ends_.end());
    for (const End& e : ends_) layout_.lines.push_back({e.from, e.to});
    place(layout_);
    nameLongLines();
  }

  double width() const { return layout_.frames[0].width; }
  double height() const { return layout_.frames[0].height; }

  // False if it is full. Frames are painted from the outside in: each with its lines below its boxes.
  bool write(std::string& out, uint64_t maxBytes) const {
    auto line = layout_.lines.begin();
    for (uint32_t f = 0; f < layout_.frames.size(); ++f) {
      const LayoutFrame& frame = layout_.frames[f];
      if (f > 0)
        out += fmt::format("<rect class=\"f\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\"/>\n",
                           frame.x, frame.y, frame.width, frame.height);
      for (; line != layout_.lines.end() && frameOf_[line->from] == f; ++line)
        if (!line->points.empty()) out += fmt::format("<path d=\"{}\"/>\n", curve(*line));
      for (uint32_t id : frame.boxes) {
        box(layout_.boxes[id], texts_[id], out);
        if (out.size() > maxBytes) return false;
      }
    }
    return true;
  }

 private:
  // From the box that makes a value to one that takes it.
  struct End {
    uint32_t from, to;
    auto operator<=>(const End&) const = default;
  };

  void addFrame(const Block* block, uint32_t owner) {
    blocks_.push_back(block);
    owners_.push_back(owner);
    if (auto& numbers = numbers_[block->graph()]; !numbers)
      numbers = std::make_unique<const SubgraphNumbers>(*block->graph());
    layout_.frames.emplace_back();
  }
  uint32_t addBox(uint32_t frame, BoxText text) {
    const auto id = static_cast<uint32_t>(layout_.boxes.size());
    layout_.boxes.emplace_back();
    layout_.frames[frame].boxes.push_back(id);
    frameOf_.push_back(frame);
    texts_.push_back(std::move(text));
    return id;
  }

  void addBoxes(uint32_t frame) {
    const Block* block = blocks_[frame];
    for (const Value* v : block->parameters()) {
      if (v->type()->is(TypeKind::Class) && !v->hasUses()) continue;
      const std::string text = describe(*v);
      makers_[v] = addBox(frame, {{abbreviate("%" + v->name(), kMostOfLine), typeOf(*v)}, text, false, {}});
    }
    for (const Node* n : block->nodes())
      if (n->kind() != sym::Constant) addNode(frame, *n);
    if (!block->results().empty()) addResult(frame, *block->returnNode());
  }

  void addNode(uint32_t frame, const Node& n) {
    BoxText text;
    std::string name;
    numbers_.at(n.graph())->appendCall(n, name);
    text.lines.push_back(abbreviate(name, kMostOfLine));
    addConstants(n, text);
    for (const Value* v : n.outputs()) {
      if (v != n.output() && n.outputCount() > 2) {
        text.lines.push_back(fmt::format("and {} more", n.outputCount() - 1));
        break;
      }
      text.lines.push_back(abbreviate(describe(*v), kMostOfLine));
    }
    text.title = nodeText(n);
    const uint32_t id = addBox(frame, std::move(text));
    for (const Value* v : n.outputs()) makers_[v] = id;
    addInputs(id, n);
    std::vector<const Block*> inside(n.blocks().begin(), n.blocks().end());
    if (const Graph* subgraph = n.subgraph()) inside.push_back(subgraph->block());
    for (const Block* b : inside) {
      layout_.boxes[id].frames.push_back(static_cast<uint32_t>(layout_.frames.size()));
      addFrame(b, id);
    }
  }

  void addResult(uint32_t frame, const Node& n) {
    BoxText text{{frame == 0 ? "result" : "gives"}, "", false, {}};
    addConstants(n, text);
    const uint32_t id = addBox(frame, std::move(text));
    layout_.boxes[id].isLast = true;
    addInputs(id, n);
  }

  void addConstants(const Node& n, BoxText& text) {
    std::string constants;
    for (const Use& u : n.inputs())
      if (const Node* from = u.value->node(); from && from->kind() == sym::Constant && constants.size() < 1000) {
        constants += constants.empty() ? "" : ", ";
        appendConstant(*from, constants);
      }
    if (!constants.empty()) text.lines.push_back(abbreviate(constants, kMostOfLine));
  }

  // Lines to the boxes of what it takes; what is made further out leads to the box there around it.
  void addInputs(uint32_t id, const Node& n) {
    constexpr int kDeepest = 64;
    for (const Use& u : n.inputs()) {
      auto maker = makers_.find(u.value);
      if (maker == makers_.end()) continue;
      uint32_t at = id;
      for (int i = 0; i < kDeepest && at != kNoBox && frameOf_[at] != frameOf_[maker->second]; ++i)
        at = owners_[frameOf_[at]];
      if (at != kNoBox && frameOf_[at] == frameOf_[maker->second] && at != maker->second)
        ends_.push_back({maker->second, at});
      if (at != id) texts_[id].from += (texts_[id].from.empty() ? "%" : ", %") + abbreviate(u.value->name(), 24);
    }
  }

  void nameLongLines() {
    for (const LayoutLine& line : layout_.lines)
      if (line.points.empty()) {
        std::string& from = texts_[line.to].from;
        const BoxText& maker = texts_[line.from];
        const std::string& made = maker.isNode ? maker.lines.back() : maker.lines.front();
        if (from.size() < kMostOfLine) from += (from.empty() ? "" : ", ") + made.substr(0, made.find(" :"));
      }
  }

  static std::string typeOf(const Value& v) { return abbreviate(typeText(v.type()), kMostOfLine); }
  static std::string describe(const Value& v) {
    return v.type()->isTensor() && typeText(v.type()) == "Tensor" ? "%" + v.name()
                                                                  : "%" + v.name() + " : " + typeText(v.type());
  }

  static void measure(LayoutBox& box, const BoxText& text) {
    size_t letters = 3;
    for (const std::string& line : text.lines) letters = std::max(letters, lettersIn(shown(line)));
    box.labelWidth = static_cast<double>(letters) * kLetter + 2 * kPadding;
    box.labelHeight = static_cast<double>(text.lines.size()) * kLine + kPadding;
  }

  // Straight through layers, bent between them.
  static std::string curve(const LayoutLine& line) {
    std::string out = fmt::format("M{:.0f} {:.0f}", line.points[0].first, line.points[0].second);
    for (size_t i = 1; i < line.points.size(); ++i) {
      auto [x0, y0] = line.points[i - 1];
      auto [x, y] = line.points[i];
      out += x == x0
                 ? fmt::format("V{:.0f}", y)
                 : fmt::format("C{:.0f} {:.0f} {:.0f} {:.0f} {:.0f} {:.0f}", x0, (y0 + y) / 2, x, (y0 + y) / 2, x, y);
    }
    return out;
  }

  static void box(const LayoutBox& b, const BoxText& text, std::string& out) {
    out += fmt::format("<g class=\"{}\">", text.isNode ? b.frames.empty() ? "n" : "n b" : "v");
    if (!text.title.empty()) out += fmt::format("<title>{}</title>", escaped(text.title, 500));
    out += fmt::format("<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"{}\"/>", b.x, b.y,
                       b.width, b.height, text.isNode ? 3 : 12);
    const double middle = b.x + b.width / 2;
    if (!text.from.empty())
      out += fmt::format("<text class=\"s\" x=\"{:.0f}\" y=\"{:.0f}\">↓ {}</text>", middle, b.y - 4,
                         escaped(abbreviate(text.from, kMostOfLine)));
    for (size_t i = 0; i < text.lines.size(); ++i)
      out += fmt::format("<text{} x=\"{:.0f}\" y=\"{:.0f}\">{}</text>", i == 0 ? " class=\"h\"" : "", middle,
                         b.y + kLine * static_cast<double>(i + 1), escaped(text.lines[i]));
    out += "</g>\n";
  }

  Layout layout_;
  std::vector<const Block*> blocks_;  // of each frame
  std::vector<uint32_t> owners_;      // the box around each frame
  std::unordered_map<const Graph*, std::unique_ptr<const SubgraphNumbers>> numbers_;
  std::vector<uint32_t> frameOf_;  // of each box
  std::vector<BoxText> texts_;
  std::vector<End> ends_;
  std::unordered_map<const Value*, uint32_t> makers_;
};

constexpr std::string_view kStyle =
    "<style>svg{background:#fff}rect{fill:#eef3fb;stroke:#4a6fa5}.b>rect{fill:#f7f7f4;stroke:#8a8a80}.v>rect{fill:#fff;"
    "stroke:#777}.f{fill:#fff;stroke:#aaa;stroke-dasharray:4 3}path{fill:none;stroke:#667;marker-end:url(#a)}"
    "text{font:11px monospace;text-anchor:middle;fill:#333}.h{font-weight:bold;fill:#111}.s{font-size:9px;fill:#777}"
    "#a path{fill:#667;stroke:none}"
    "@media(prefers-color-scheme:dark){svg{background:#16181c}rect{fill:#1f2a3a;stroke:#7aa2dc}.b>rect{fill:#22231f;"
    "stroke:#99998c}.v>rect{fill:#16181c;stroke:#999}.f{fill:#16181c;stroke:#777}path{stroke:#99a}"
    "text{fill:#ccc}.h{fill:#fff}.s{fill:#999}#a path{fill:#99a}}</style>\n"
    "<defs><marker id=\"a\" viewBox=\"0 0 6 6\" refX=\"5\" refY=\"3\" markerWidth=\"6\" markerHeight=\"6\" "
    "orient=\"auto\"><path d=\"M0 0L6 3L0 6z\"/></marker></defs>\n";

}  // namespace

std::optional<std::string> graphsAsSvg(const std::vector<std::pair<std::string, const Graph*>>& graphs,
                                       uint64_t maxBytes) {
  std::string body;
  double width = 0, height = 0;
  for (const auto& [name, graph] : graphs) {
    if (!name.empty()) {
      height += 2 * kLine;
      body += fmt::format("<text class=\"h\" style=\"text-anchor:start\" x=\"{}\" y=\"{:.0f}\">{}</text>\n",
                          Layout::kMargin, height - kPadding, escaped(name));
      width = std::max(width, static_cast<double>(lettersIn(name)) * kLetter + 2 * Layout::kMargin);
    }
    const Picture picture(*graph);
    body += fmt::format("<g transform=\"translate(0 {:.0f})\">\n", height);
    if (!picture.write(body, maxBytes)) return std::nullopt;
    body += "</g>\n";
    width = std::max(width, picture.width());
    height += picture.height();
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
             "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n",
             width, height) +
         std::string(kStyle) + body + "</svg>\n";
}

}  // namespace tscompile
