// The data of a report. What many nodes say is said once, in lists that they have numbers into.
#include "ir/graph/node_text.h"
#include "ir/operators/op_def.h"
#include "partition/report.h"
#include "tools/pages/markup.h"
#include "tools/pages/model_report.h"

#include <fmt/core.h>

#include <cmath>
#include <map>

namespace tscompile {
namespace {

double rounded(double v) { return std::round(v * 100) / 100; }

class Strings {
 public:
  size_t operator()(const std::string& text) {
    auto [it, isNew] = index_.try_emplace(text, list.size());
    if (isNew) list.push_back(text);
    return it->second;
  }
  std::vector<std::string> list;

 private:
  std::map<std::string, size_t> index_;
};

struct ReasonFields {
  std::string code, detail, remedy;
  auto operator<=>(const ReasonFields&) const = default;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("code", code);
    visit("detail", detail);
    if (!remedy.empty()) visit("remedy", remedy);
  }
};

struct RowFields {
  std::optional<std::string> input, name, place, layer;
  std::optional<size_t> op, module, type, reason;
  std::optional<uint32_t> segment, line, cause;
  std::optional<double> us, flops, bytes;
  std::vector<uint32_t> inputs;
  bool isGuessed = false;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("input", input);
    visit("name", name);
    visit("op", op);
    visit("segment", segment);
    visit("module", module);
    if (isGuessed) visit("module_guessed", true);
    visit("type", type);
    visit("line", line);
    visit("place", place);
    visit("reason", reason);
    visit("cause", cause);
    visit("us", us);
    visit("flops", flops);
    visit("bytes", bytes);
    visit("layer", layer);
    if (!inputs.empty()) visit("inputs", inputs);
  }
};

struct SegmentFields {
  bool isEngine;
  size_t nodes;
  double us;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("target", isEngine ? "engine" : "interpreter");
    visit("nodes", nodes);
    visit("us", us);
  }
};

class DataWriter {
 public:
  explicit DataWriter(const ModelReport& report) : report_(report) {
    for (const ReportRow& row : report.graph.rows) rows_.push_back(fieldsOf(row));
    for (const ReportSegment& s : report.graph.segments) segments_.push_back({s.isEngine, s.nodes, rounded(s.us)});
  }

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.report/1");
    visit("version", report_.version);
    visit("model", shown(report_.path));
    visit("method", shown(report_.method));
    visit("command", shown(report_.made, 1000));
    visit("processor", report_.processor);
    visit("file_bytes", report_.bytes);
    visit("checksum", report_.checksum);
    visit("weight_bytes", report_.weightBytes);
    visit("inputs", report_.inputs);
    visit("outputs", report_.outputs);
    visit("node_count", report_.nodes);
    visit("nodes_in_engines", report_.nodesInEngines);
    visit("engines", report_.engines);
    visit("coverage", report_.coverage());
    visit("explanation", report_.explanation);
    visit("sweep", report_.sweep);
    visit("run", report_.run);
    visit("operators", ops_.list);
    visit("modules", modules_.list);
    visit("types", types_.list);
    visit("reasons", Lines{reasons_});
    visit("segments", Lines{segments_});
    visit("rows", Lines{rows_});
  }

 private:
  RowFields fieldsOf(const ReportRow& row) {
    RowFields out;
    out.inputs = row.inputs;
    if (row.kind == ReportRow::Kind::Input) {
      out.input = shown("%" + row.value->name());
      out.type = types_(shown(typeText(row.value->type()), 300));
    }
    if (!row.node) return out;
    const Node* n = row.node;
    if (n->outputCount() > 0) out.name = shown(valueName(n->output(0)));
    out.op = ops_(shown(n->kind().text()));
    out.segment = row.segment;
    if (!row.module.empty()) out.module = modules_(shown(row.module));
    out.isGuessed = row.isGuessed;
    std::string types;
    for (const Value* v : n->outputs()) types += (types.empty() ? "" : ", ") + typeText(v->type());
    if (!types.empty()) out.type = types_(shown(types, 300));
    if (uint32_t line = lineOf(n)) out.line = line;
    if (n->location.present() && !n->location.file.text().empty())
      out.place = fmt::format("{}:{}", shown(n->location.file.text()), n->location.line);
    if (row.decision && !row.decision->accelerated()) out.reason = reason(*row.decision);
    if (row.cause) out.cause = report_.graph.rowOf(row.cause);
    if (row.us > 0) out.us = rounded(row.us);
    if (row.flops > 0) out.flops = std::round(row.flops);
    if (row.bytes > 0) out.bytes = std::round(row.bytes);
    if (!row.layer.empty() && row.layer != "interpreter") out.layer = shown(row.layer);
    return out;
  }

  size_t reason(const Decision& d) {
    ReasonFields fields{std::string(reasonCode(d.reason)), shown(d.detail, 600), shown(textOf(d.remedy), 600)};
    auto [it, isNew] = reasonIndex_.try_emplace(fields, reasons_.size());
    if (isNew) reasons_.push_back(std::move(fields));
    return it->second;
  }

  const ModelReport& report_;
  Strings ops_, modules_, types_;
  std::vector<ReasonFields> reasons_;
  std::map<ReasonFields, size_t> reasonIndex_;
  std::vector<RowFields> rows_;
  std::vector<SegmentFields> segments_;
};

}  // namespace

void writeReportData(const ModelReport& report, std::ostream& out) { writeJson(out, DataWriter(report)); }

}  // namespace tscompile
