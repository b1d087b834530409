// The report as one file of HTML: everything can be read without scripts; a script of our own adds what clicks open.
#include "ir/graph/node_text.h"
#include "ir/graph/printer.h"
#include "ir/operators/engine_support.h"
#include "ir/support/embed.h"
#include "ir/support/quantities.h"
#include "ir/support/text.h"
#include "tools/pages/charts.h"
#include "tools/pages/graph_lanes.h"
#include "tools/pages/markup.h"
#include "tools/pages/model_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <sstream>

TS_EMBED(tscompileReportCss, TSCOMPILE_REPORT_CSS);
TS_EMBED(tscompileReportJs, TSCOMPILE_REPORT_JS);

namespace tscompile {
namespace {

std::string_view styleText() { return {tscompileReportCssBegin, tscompileReportCssEnd}; }
std::string_view scriptText() { return {tscompileReportJsBegin, tscompileReportJsEnd}; }

// The hash of the script as a policy names it, of the hexadecimal digits that the build has.
std::string base64OfHex(std::string_view hex) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (char c : hex) {
    bits = bits << 4 | static_cast<uint32_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    for (count += 4; count >= 6; count -= 6) out += kDigits[bits >> (count - 6) & 63];
  }
  if (count > 0) out += kDigits[bits << (6 - count) & 63];
  while (out.size() % 4) out += '=';
  return out;
}

// What a small constant is: "[1, 1]"; else the name of the value.
std::string argumentText(const Value* v) {
  constexpr size_t kMost = 24;
  const Node* n = v->node();
  if (n && n->kind() == sym::Constant) {
    if (n->attributes().empty()) return "None";
    const IValue* value = n->attributeValue(sym::value);
    const bool isLong = value && value->isString() && value->toString().size() > kMost;
    std::string text;
    if (!isLong && !v->type()->isTensor()) appendAttributes(*n, true, 0, text);
    constexpr std::string_view kStart = "[value=";
    if (text.starts_with(kStart) && text.size() < kStart.size() + kMost)
      return std::string(trim(std::string_view(text).substr(kStart.size(), text.size() - kStart.size() - 1)));
  }
  return shown("%" + v->name(), 48);
}

// "%y = <b>aten::conv2d</b>(%x, %w, …)"
std::string nodeMarkup(const Node* n) {
  constexpr size_t kMostInputs = 10, kMostOutputs = 4;
  std::string out;
  if (n->outputCount() > 0)
    out = escaped(someOf(n->outputs(), kMostOutputs, [](const Value* v) { return shown("%" + v->name(), 48); }), 160) +
          " = ";
  out += "<b>" + escaped(n->kind().text(), 80) + "</b>(";
  return out + escaped(someOf(n->inputs(), kMostInputs, [](const Use& u) { return argumentText(u.value); }), 300) + ")";
}

std::string card(std::string_view value, std::string_view what, std::string_view kind = "") {
  return fmt::format("<li><b class=\"{}\">{}</b><span>{}</span></li>", kind, value, what);
}

std::string percent(double part) { return fmt::format("{:.1f} %", part * 100); }

class Page {
 public:
  explicit Page(const ModelReport& report) : report_(report), graph_(report.graph) {
    all_ = report.run ? report.run->profiledUs : 0;
    for (const ReportRow& row : report.graph.rows)
      for (size_t dot = row.module.rfind('.'); dot != std::string::npos && dot > 0;
           dot = row.module.rfind('.', dot - 1))
        if (!containers_.insert(row.module.substr(0, dot)).second) break;
  }

  std::string text() {
    head();
    cards();
    times();
    if (report_.run) measured();
    cutting();
    list();
    data();
    return std::move(out_);
  }

 private:
  static constexpr size_t kChunk = 20, kMostTableRows = 200;

  void head() {
    const std::string title = escaped(fileNameOf(report_.path), 120);
    out_ += fmt::format(
        "<!DOCTYPE html>\n<html lang=en class=noscript><head><meta charset=utf-8>"
        "<meta name=viewport content=\"width=device-width,initial-scale=1\">"
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none';style-src 'unsafe-inline';"
        "script-src 'sha256-{}';base-uri 'none';form-action 'none'\">"
        "<title>{} – tscompile report</title><style>{}</style></head><body>\n",
        base64OfHex(TSCOMPILE_REPORT_JS_SHA256), title, styleText());
    out_ += fmt::format(
        "<header><h1>{}</h1><p class=dim>method {}, {}, checksum {}; tscompile {} on {}<br><code>{}</code>"
        "</p></header>\n<nav><div><a href=#time>Time</a>{}<a href=#cut>Segments</a>"
        "<a href=#graph>Graph</a><span class=key><span class=e>engine</span>"
        "<span class=i>interpreter</span></span></div></nav><main>\n",
        title, escaped(report_.method), sizeText(report_.bytes), report_.checksum, report_.version,
        escaped(report_.processor), escaped(report_.made, 600),
        report_.run ? "<a href=#latency>Latency</a><a href=#memory>Memory</a>" : "");
  }

  void cards() {
    out_ += "<section><ul class=cards>";
    if (const auto& run = report_.run) {
      out_ += card(timeText(run->latencyMs.median * 1e3),
                   fmt::format("a run, median of {}, {}", counted(run->latencyMs.count, "run"),
                               counted(static_cast<size_t>(run->threads), "thread")));
    }
    out_ += card(percent(report_.coverage()),
                 fmt::format("{} of {} in {}", report_.nodesInEngines, counted(report_.nodes, "node"),
                             counted(report_.engines, "engine")));
    out_ += card(std::to_string(graph_.segments.size()), graph_.segments.size() == 1 ? "segment" : "segments");
    out_ += card(sizeText(static_cast<uint64_t>(report_.weightBytes)), "weights");
    if (const auto& run = report_.run) {
      out_ += card(sizeText(static_cast<uint64_t>(run->peakBytes)), "tensors in a run, at most");
      out_ += card(timeText(run->loadMs * 1e3),
                   fmt::format("to load and compile; first run {}", timeText(run->firstMs * 1e3)));
      if (run->accuracy) accuracyCard(*run->accuracy);
    }
    out_ += "</ul>";
    if (report_.run)
      for (const std::string& note : report_.run->notes) out_ += "<p class=bad>" + escaped(note, 600) + "</p>";
    out_ += "<div class=pair><div><h3>Takes</h3>";
    signature(report_.inputs);
    out_ += "</div><div><h3>Gives</h3>";
    signature(report_.outputs);
    out_ += "</div></div></section>\n";
  }

  void accuracyCard(const ReportAccuracy& a) {
    const std::string tolerance = fmt::format("rtol {:g}, atol {:g}", a.relative, a.absolute);
    if (!a.wrong.empty())
      out_ += card("wrong", escaped(a.wrong), "bad");
    else
      out_ += card(
          a.largest == 0 ? "same bits" : fmt::format("{:.2g}", a.largest),
          (a.within ? "largest difference to the interpreter; passes " : "off the interpreter; fails ") + tolerance,
          a.within ? "good" : "bad");
  }

  void signature(const std::vector<ReportInput>& values) {
    out_ += "<ul>";
    for (const ReportInput& v : values)
      out_ += fmt::format("<li><code>{}</code> {}{}</li>", escaped(v.name, 80), escaped(v.type),
                          v.given.empty() ? "" : ", given " + escaped(v.given));
    out_ += "</ul>";
  }

  void times() {
    out_ += report_.run ? "<section id=time><h2>Where time goes</h2>" : "<section id=time><h2>What it is made of</h2>";
    out_ += report_.run ? fmt::format(
                              "<p class=dim>One run of {} from left to right, segments on top of modules. A layer "
                              "that computes several nodes counts where its first node stands.</p>",
                              timeText(all_))
                        : "<p class=dim>Nothing was run: boxes are as wide as the nodes that they have.</p>";
    out_ += timeline(report_);
    if (report_.run) {
      out_ += "<div class=pair><div><h3>By module</h3>";
      totals(report_.run->modules, "module");
      out_ += "</div><div><h3>By operator</h3>";
      totals(report_.run->operators, "operator");
      out_ += "</div></div><h3>By layer</h3>";
      layers();
    }
    out_ += "</section>\n";
  }

  std::string shareCell(double us) const {
    return fmt::format("<td class=\"n share\" style=--t:{:.1f} data-v={:.3f}>{:.1f} %", 100 * us / all_, us,
                       100 * us / all_);
  }

  void totals(const std::vector<ReportTotal>& totals, std::string_view what) {
    out_ += fmt::format(
        "<div class=scroll tabindex=0><table class=sheet><thead><tr><th>{}<th class=n>layers<th class=n>time<th "
        "class=n>share"
        "</thead><tbody>",
        what);
    for (size_t i = 0; i < std::min(totals.size(), kMostTableRows); ++i) {
      const ReportTotal& t = totals[i];
      const std::string name = t.name.empty() ? fmt::format("(no {})", what) : t.name;
      out_ += fmt::format("<tr><td class=wide>{}<td class=n data-v={}>{}<td class=n data-v={:.3f}>{}{}", escaped(name),
                          t.parts, t.parts, t.us, timeText(t.us), shareCell(t.us));
    }
    out_ += "</table></div>";
  }

  void layers() {
    std::vector<uint32_t> order;
    for (uint32_t r = 0; r < graph_.rows.size(); ++r)
      if (graph_.rows[r].us > 0) order.push_back(r);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return graph_.rows[a].us > graph_.rows[b].us; });
    const auto& peaks = report_.run->peaks;
    out_ +=
        "<div class=scroll tabindex=0><table class=sheet><thead><tr><th class=n>time<th class=n>share"
        "<th class=n>GFLOP/s<th class=n>of peak<th class=n>GB/s<th class=n>of "
        "peak<th>node<th>layer<th>module</thead><tbody>";
    for (size_t i = 0; i < std::min(order.size(), kMostTableRows); ++i) {
      const ReportRow& row = graph_.rows[order[i]];
      const double gflops = row.flops / row.us / 1e3, gbytes = row.bytes / row.us / 1e3;
      auto amount = [](double v) {
        return v > 0 ? fmt::format("<td class=n data-v={:.4f}>{}", v, number(v)) : std::string("<td class=n data-v=0>");
      };
      auto part = [&](double v, double peak) {
        return v > 0 && peak > 0 ? fmt::format("<td class=\"n share\" style=--t:{0:.0f} data-v={0:.2f}>{0:.0f} %",
                                               std::min(100 * v / peak, 999.0))
                                 : std::string("<td class=n data-v=0>");
      };
      out_ += fmt::format("<tr><td class=n data-v={:.3f}>{}{}{}{}{}{}", row.us, timeText(row.us), shareCell(row.us),
                          amount(gflops), part(gflops, peaks ? peaks->gflops : 0), amount(gbytes),
                          part(gbytes, peaks ? peaks->gbytes : 0));
      out_ += fmt::format("<td><a href=#n{}>{}</a><td class=wide>{}<td class=wide>{}", order[i],
                          escaped(shortName(row.node), 40), escaped(row.layer, 120), escaped(row.module, 120));
    }
    out_ += "</table></div>";
    if (order.size() > kMostTableRows)
      out_ += fmt::format("<p class=dim>The first {} of {}.</p>", kMostTableRows, order.size());
    if (peaks)
      out_ += fmt::format(
          "<p class=dim>Peaks were measured with the same threads: {} GFLOP/s of a product of two "
          "matrices, {} GB/s of tensors that no cache holds. A convolution that saves "
          "products, and tensors that a cache holds, may be above.</p>",
          number(peaks->gflops), number(peaks->gbytes));
  }

  void measured() {
    const ReportRun& run = *report_.run;
    out_ +=
        "<section><div class=pair><div id=latency><h2>Latency</h2>" + latencyChart(run) + "<table class=sheet><tbody>";
    const Statistics& s = run.latencyMs;
    auto row = [&](std::string_view name, const std::string& value) {
      out_ += fmt::format("<tr><th>{}<td class=n>{}", name, value);
    };
    std::vector<double> ascending = run.samplesMs;
    std::sort(ascending.begin(), ascending.end());
    row("least", timeText(s.min * 1e3));
    for (auto [name, q] : {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}})
      row(name, s.count >= samplesFor(q) ? timeText(quantile(ascending, q) * 1e3)
                                         : fmt::format("n/a: {}, {} needed", counted(s.count, "run"), samplesFor(q)));
    row("most", timeText(s.max * 1e3));
    row("mean", fmt::format("{} ± {:.1f} %", timeText(s.mean * 1e3), s.variation() * 100));
    out_ += "</table></div><div id=memory><h2>Memory</h2>" + memoryChart(run) +
            fmt::format(
                "<p class=dim>Tensors of one run over its time: {} at most, beside {} of weights.</p></div></div>"
                "</section>\n",
                sizeText(static_cast<uint64_t>(run.peakBytes)), sizeText(static_cast<uint64_t>(report_.weightBytes)));
  }

  void cutting() {
    out_ +=
        "<section id=cut><h2>Segments</h2><div class=pair><div><div class=scroll tabindex=0><table class=sheet>"
        "<thead><tr><th>segment<th>runs in<th class=n>nodes<th class=n>time<th>why not in an engine</thead><tbody>";
    std::vector<std::map<std::string_view, size_t>> reasons(graph_.segments.size());
    for (const ReportRow& row : graph_.rows)
      if (row.node && row.decision && !row.decision->accelerated())
        ++reasons[row.segment][reasonCode(row.decision->reason)];
    for (size_t i = 0; i < std::min<size_t>(graph_.segments.size(), 1000); ++i) {
      const ReportSegment& s = graph_.segments[i];
      std::string codes;
      for (auto [code, count] : reasons[i]) codes += fmt::format("{}{} × {}", codes.empty() ? "" : ", ", count, code);
      out_ += fmt::format(
          "<tr><td data-v={0}><a href=#s{0}>@{0}</a><td>{1}<td class=n data-v={2}>{2}"
          "<td class=n data-v={3:.3f}>{4}<td class=words>{5}",
          i, s.isEngine ? "engine" : "interpreter", s.nodes, s.us, report_.run && s.us > 0 ? timeText(s.us) : "",
          codes);
    }
    out_ += "</table></div></div><div>";
    const bool differ = std::any_of(report_.sweep.begin(), report_.sweep.end(), [&](const ReportSweep& s) {
      return s.segments != report_.sweep[0].segments || s.coverage != report_.sweep[0].coverage;
    });
    if (differ)
      out_ += "<h3>What --min-block-size would give</h3>" + sweepChart(report_.sweep) +
              "<p class=dim>The part of the nodes in engines, and above it the number of segments.</p>";
    out_ += "</div></div>";
    if (!report_.explanation.empty()) {
      out_ += "<h3>Reasons, and what would join segments</h3><pre tabindex=0>";
      for (const std::string& line : report_.explanation) out_ += escaped(line, 400) + "\n";
      out_ += "</pre>";
    }
    out_ += "</section>\n";
  }

  // A line of the list: a row, or a heading in front of it.
  struct Line {
    uint32_t row = kNoRow;
    std::string markup;
  };

  std::vector<Line> lines() const {
    std::vector<Line> out;
    uint32_t segment = kNoRow;
    std::vector<bool> seen(graph_.segments.size());
    std::optional<std::string> module;
    for (uint32_t r = 0; r < graph_.rows.size(); ++r) {
      const ReportRow& row = graph_.rows[r];
      if (row.node && row.segment != segment) {
        segment = row.segment;
        module.reset();
        out.push_back({kNoRow, segmentHeading(segment, seen[segment])});
        seen[segment] = true;
      }
      const std::string group = groupOf(row.module);
      if (row.node && (!module || *module != group) && !(group.empty() && !module))
        out.push_back({kNoRow, "<tr class=m><th colspan=3>" + escaped(group.empty() ? "–" : group, 160)});
      if (row.node) module = group;
      out.push_back({r, rowMarkup(r)});
    }
    return out;
  }

  // Modules without modules inside stand below the one that they are in, one row beside the other.
  std::string groupOf(const std::string& module) const {
    const bool hasInner = containers_.contains(module);
    const size_t dot = module.rfind('.');
    return hasInner ? module : dot == std::string::npos ? "" : module.substr(0, dot);
  }

  std::string segmentHeading(uint32_t id, bool again) const {
    const ReportSegment& s = graph_.segments[id];
    const std::string time =
        report_.run && s.us > 0 ? fmt::format(", {}, {}", timeText(s.us), percent(s.us / all_)) : "";
    return fmt::format("<tr class=\"s {}\"{}><th colspan=3>@{} {}{}", s.isEngine ? "e" : "i",
                       again ? "" : fmt::format(" id=s{}", id), id, s.isEngine ? "engine" : "interpreter",
                       again ? ", continued" : ", " + counted(s.nodes, "node") + time);
  }

  std::string rowMarkup(uint32_t r) const {
    const ReportRow& row = graph_.rows[r];
    if (row.kind == ReportRow::Kind::Input)
      return fmt::format("<tr id=n{}><td><td><b>input</b> {}<td>", r, escaped("%" + row.value->name(), 80));
    if (row.kind == ReportRow::Kind::Result) return fmt::format("<tr id=n{}><td><td><b>return</b><td>", r);
    const double share = all_ > 0 ? 100 * row.us / all_ : 0;
    const bool out = row.decision && !row.decision->accelerated();
    const std::string last = escaped(row.module.substr(row.module.rfind('.') + 1), 24);
    return fmt::format("<tr id=n{} class={}><td{}>{}<td{}>{}<td>{}", r,
                       graph_.segments[row.segment].isEngine ? "e"
                       : out                                 ? "\"i w\""
                                                             : "i",
                       share >= 0.05 ? fmt::format(" style=--t:{:.1f}", share) : "",
                       share >= 0.05 ? fmt::format("{:.1f} %", share) : "",
                       row.depth > 0 ? fmt::format(" style=--d:{}", std::min(row.depth, 20u)) : "",
                       nodeMarkup(row.node), out ? reasonCode(row.decision->reason) : last);
  }

  void list() {
    const std::vector<Line> lines = this->lines();
    std::vector<uint32_t> rows;
    for (const Line& line : lines) rows.push_back(line.row);
    const LaneDrawing lanes = drawLanes(graph_, rows, kChunk);
    out_ +=
        "<section id=graph><h2>The graph, in the order in which it runs</h2><div class=tools><input id=filter "
        "class=needs type=search placeholder=\"filter: operator, value, module, reason\" aria-label=\"Filter the "
        "graph\"><span id=found role=status class=dim></span><button id=save class=needs type=button>Save the data as "
        "JSON</button><span class=\"dim needs\">Arrow keys move; a click tells more.</span></div>"
        "<div class=split><div id=list role=grid tabindex=0 aria-label=\"Nodes of the graph\">";
    for (size_t c = 0; c < lanes.chunks.size(); ++c) {
      const size_t end = std::min((c + 1) * kChunk, lines.size()), count = end - c * kChunk;
      out_ += fmt::format("<div class=k style=--n:{};--rail:{}px><svg width={} height={} aria-hidden=true>", count,
                          lanes.width, lanes.width, count * LaneDrawing::kLineHeight);
      for (const auto& [name, d] : {std::pair{"l", &lanes.chunks[c].lines},
                                    {"de", &lanes.chunks[c].engineDots},
                                    {"di", &lanes.chunks[c].otherDots},
                                    {"dp", &lanes.chunks[c].plainDots}})
        if (!d->empty()) out_ += fmt::format("<path class={} d=\"{}\"/>", name, *d);
      out_ += "</svg><table><colgroup><col class=ct><col><col class=cr></colgroup>";
      for (size_t i = c * kChunk; i < end; ++i) out_ += lines[i].markup + "\n";
      out_ += "</table></div>";
    }
    out_ +=
        "</div><aside id=node class=needs aria-live=polite aria-label=\"About the node\"><p class=dim>Choose a row, or "
        "a box above.</p></aside></div></section></main>\n";
  }

  void data() {
    std::ostringstream text;
    writeReportData(report_, text);
    out_ += fmt::format(
        "<footer>Data as tscompile.report/1 are in this file: <code>tscompile schema report</code>. "
        "Nothing is loaded from elsewhere.</footer>\n<script type=\"application/json\" id=data>{}</script>"
        "\n<script>{}</script></body></html>\n",
        scriptSafe(text.view()), scriptText());
  }

  const ModelReport& report_;
  const ReportGraph& graph_;
  double all_;                        // microseconds of a run that is watched
  std::set<std::string> containers_;  // paths of modules that have modules inside
  std::string out_;
};

}  // namespace

std::string reportPage(const ModelReport& report) { return Page(report).text(); }

}  // namespace tscompile
