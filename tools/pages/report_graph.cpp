#include "tools/pages/report_graph.h"

#include "api/profile/run_profile.h"
#include "ir/graph/module_path.h"
#include "partition/root_causes.h"
#include "partition/stitch.h"

#include <algorithm>

namespace tscompile {
namespace {

// Nodes of a block in order, without those that are given.
std::vector<const Node*> workOf(const Block* block, const GivenNodes& given) {
  std::vector<const Node*> out;
  for (const Node* n : block->nodes())
    if (!given.contains(n)) out.push_back(n);
  return out;
}

std::string commonPath(const std::string& a, const std::string& b) {
  size_t same = 0, end = 0;
  while (same < a.size() && same < b.size() && a[same] == b[same]) {
    ++same;
    if ((same == a.size() || a[same] == '.') && (same == b.size() || b[same] == '.')) end = same;
  }
  return a.substr(0, end);
}

}  // namespace

ReportGraph::ReportGraph(const Graph& stitched, const Partition* partition) : partition_(partition) {
  if (partition)
    for (const Segment& s : partition->segments) segments.push_back({s.target == Target::Accelerated, 0, 0, &s});
  if (partition) matchNodes(stitched);
  addInputs(stitched);
  addRows(stitched, 0, 0, false);
  addResult(stitched);
  nameModules();
}

// Walks through both graphs: the stitched one has the nodes of each block in the order of its segments.
void ReportGraph::matchNodes(const Graph& stitched) {
  std::unordered_map<const Block*, const Partition::BlockSegments*> cut;
  for (const Partition::BlockSegments& b : partition_->blocks) cut[b.block] = &b;
  if (partition_->blocks.empty()) return;
  const GivenNodes outer(stitched);
  std::vector<std::pair<const Block*, const Block*>> todo{{stitched.block(), partition_->blocks.front().block}};
  // The same nodes in the same order, blocks inside included.
  auto matchAll = [&](std::span<const Node* const> made, std::span<const Node* const> from) {
    for (size_t i = 0; i < std::min(made.size(), from.size()); ++i) {
      if (made[i]->kind() != from[i]->kind()) return;
      sources_[made[i]] = from[i];
      for (size_t b = 0; b < std::min(made[i]->blocks().size(), from[i]->blocks().size()); ++b)
        todo.emplace_back(made[i]->block(b), from[i]->block(b));
    }
  };
  while (!todo.empty()) {
    auto [block, source] = todo.back();
    todo.pop_back();
    auto found = cut.find(source);
    if (found == cut.end()) {  // inside of an engine
      const GivenNodes given(*block->graph());
      matchAll(workOf(block, given), workOf(source, partition_->given));
      continue;
    }
    const std::vector<const Node*> made = workOf(block, outer);
    size_t at = 0;
    for (uint32_t i = 0; i < found->second->count && at < made.size(); ++i) {
      const Segment& s = partition_->segments[found->second->first + i];
      if (s.target != Target::Accelerated) {
        matchAll(std::span(made).subspan(at), s.nodes);
        at += s.nodes.size();
        continue;
      }
      const Node* engine = made[at++];
      if (engine->kind() != sym::Engine || !engine->subgraph()) return;
      engines_[engine] = &s;
      const std::vector<const Node*> inside = workOf(engine->subgraph()->block(), GivenNodes(*engine->subgraph()));
      matchAll(std::span(inside).subspan(std::min(s.recomputed.size(), inside.size())), s.nodes);
    }
  }
}

void ReportGraph::take(const Value* value, std::vector<uint32_t>& into) const {
  auto maker = makers_.find(value);
  if (maker != makers_.end() && std::find(into.begin(), into.end(), maker->second) == into.end())
    into.push_back(maker->second);
}

void ReportGraph::addInputs(const Graph& graph) {
  for (const Value* v : graph.inputs()) {
    if (v->type()->is(TypeKind::Class)) continue;
    makers_[v] = static_cast<uint32_t>(rows.size());
    ReportRow& row = rows.emplace_back();
    row.kind = ReportRow::Kind::Input;
    row.value = v;
  }
}

void ReportGraph::addResult(const Graph& graph) {
  ReportRow row;
  row.kind = ReportRow::Kind::Result;
  for (const Use& u : graph.outputs()) take(u.value, row.inputs);
  rows.push_back(std::move(row));
}

uint32_t ReportGraph::interpreterSegment(const Node* node) {
  if (auto source = sources_.find(node); source != sources_.end())
    if (uint32_t id = partition_->decisions[source->second].segment; id < segments.size()) return id;
  if (afterEngine_ || segments.empty() || segments.back().isEngine) segments.emplace_back();
  return static_cast<uint32_t>(segments.size() - 1);
}

void ReportGraph::addRows(const Graph& graph, uint32_t segment, uint32_t depth, bool inEngine) {
  const GivenNodes given(graph);
  std::unordered_map<const Block*, uint32_t> depths{{graph.block(), depth}};
  forEachNode(graph, [&](const Node* n) {
    const uint32_t own = depths[n->block()];
    for (const Block* b : n->blocks()) depths[b] = own + 1;
    if (given.contains(n)) return;
    if (n->kind() == sym::Engine && n->subgraph() && !inEngine) {
      auto known = engines_.find(n);
      uint32_t id = known == engines_.end() ? static_cast<uint32_t>(segments.size()) : known->second->id;
      if (known == engines_.end()) segments.push_back({true});
      const Graph& inside = *n->subgraph();
      // What engines take and give are the values around them.
      for (size_t i = 0; i < std::min<size_t>(n->inputCount(), inside.inputs().size()); ++i)
        if (auto maker = makers_.find(n->input(i)); maker != makers_.end()) makers_[inside.input(i)] = maker->second;
      addRows(inside, id, own, true);  // engines hold no engines: this is as deep as it goes
      for (size_t i = 0; i < std::min<size_t>(n->outputCount(), inside.outputs().size()); ++i)
        if (auto maker = makers_.find(inside.output(i)); maker != makers_.end()) makers_[n->output(i)] = maker->second;
      afterEngine_ = true;
      return;
    }
    const auto index = static_cast<uint32_t>(rows.size());
    ReportRow row;
    row.node = n;
    row.depth = own;
    row.segment = inEngine ? segment : interpreterSegment(n);
    afterEngine_ = false;
    for (const Use& u : n->inputs()) take(u.value, row.inputs);
    for (const Value* v : n->outputs()) makers_[v] = index;
    for (const Block* b : n->blocks())
      for (const Value* v : b->parameters()) makers_[v] = index;
    if (auto source = sources_.find(n); source != sources_.end()) {
      row.decision = &partition_->decisions[source->second];
      if (const std::vector<const Node*> causes = partition_->causes(source->second, 1); !causes.empty())
        row.cause = causes.front();
      rowOfSource_[source->second] = index;
    }
    rowOfNode_[n] = index;
    ++segments[row.segment].nodes;
    rows.push_back(std::move(row));
  });
}

// Nodes that say nothing belong to what those before and after them have in common.
void ReportGraph::nameModules() {
  for (ReportRow& row : rows)
    if (row.node) row.module = modulePath(row.node);
  std::vector<const std::string*> next(rows.size(), nullptr);
  const std::string* after = nullptr;
  for (size_t i = rows.size(); i-- > 0;) {
    next[i] = after;
    if (!rows[i].module.empty()) after = &rows[i].module;
  }
  const std::string* before = nullptr;
  for (size_t i = 0; i < rows.size(); ++i) {
    ReportRow& row = rows[i];
    if (!row.module.empty()) {
      before = &row.module;
    } else if (row.node && row.node->scope.empty() && before && next[i]) {
      row.module = commonPath(*before, *next[i]);
      row.isGuessed = !row.module.empty();
    }
  }
}

void ReportGraph::addTimes(const RunProfile& profile) {
  // Engines that were cut once more for the sizes of a run have nodes of their own, whose results have the same names.
  std::unordered_map<std::string, ReportRow*> rowOfName;
  for (ReportRow& row : rows)
    if (row.kind == ReportRow::Kind::Node && row.node->outputCount() > 0) {
      auto [at, isNew] = rowOfName.try_emplace(row.node->output(0)->name(), &row);
      if (!isNew) at->second = nullptr;
    }
  auto namesake = [&](const Node* n) -> ReportRow* {
    const auto found = n->outputCount() > 0 ? rowOfName.find(n->output(0)->name()) : rowOfName.end();
    const bool isSame = found != rowOfName.end() && found->second && found->second->node->kind() == n->kind();
    return isSame ? found->second : nullptr;
  };
  auto rowFor = [&](const Node* source) -> ReportRow* {
    for (const Node* n = source; n; n = n->block()->owner())
      if (auto found = rowOfNode_.find(n); found != rowOfNode_.end()) return &rows[found->second];
    for (const Node* n = source; n; n = n->block()->owner())
      if (ReportRow* row = namesake(n)) return row;
    return nullptr;
  };
  auto add = [&](ReportRow* row, double us, double flops, double bytes, double calls, const std::string& layer) {
    if (!row) return;
    row->us += us, row->flops += flops, row->bytes += bytes;
    row->calls = std::max(row->calls, calls);
    row->layer += (row->layer.empty() ? "" : ", ") + layer;
    segments[row->segment].us += us;
  };
  for (const RunProfile::Engine& e : profile.engines)
    for (const RunProfile::Layer& l : e.layers) {
      const double calls = profile.perRun(static_cast<double>(l.calls));
      add(rowFor(l.source), profile.perRun(l.time), l.flops * calls, l.bytes * calls, calls,
          l.name + (l.why.empty() ? "" : ": " + l.why));
    }
  for (const RunProfile::Interpreted& n : profile.nodes)
    add(rowFor(n.source), profile.perRun(n.time), 0, profile.perRun(n.bytes),
        profile.perRun(static_cast<double>(n.calls)), "interpreter");
}

std::optional<uint32_t> ReportGraph::rowOf(const Node* source) const {
  auto found = rowOfSource_.find(source);
  return found == rowOfSource_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace tscompile
