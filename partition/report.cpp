// Segments as text, and explanations.
#include "partition/report.h"

#include "ir/support/text.h"
#include "partition/root_causes.h"
#include "partition/segment_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

namespace tscompile {
namespace {

constexpr size_t kMostGroups = 20, kMostHints = 3, kMostNames = 5, kMostValues = 3, kCrossingWidth = 30,
                 kMostCrossingWidth = 72, kMostSegments = 8;

std::string padded(std::string text, size_t width) {
  size_t own = displayWidth(text);
  return own < width ? text.append(width - own, ' ') : text;
}

// Of nodes without outputs: the kind and the line.
std::string labelOf(const Node* n) { return n->outputCount() ? valueName(n->output()) : placeName(n); }

std::string percent(double part) { return fmt::format("{:.1f} %", part * 100); }

// Nodes that stay out of engines for the same reason, said in the same words, and what follows from them.
struct Group {
  Reason reason = Reason::Ok;
  std::string detail;
  Remedy remedy;
  std::vector<const Node*> nodes, followers;
  std::vector<const Node*> causes;  // of the followers, each once
};

class Explainer {
 public:
  Explainer(const Graph& graph, const Partition& partition) : partition_(partition) {
    const RootCauses roots(graph, partition);
    forEachNode(graph, [&](const Node* n) {
      if (partition.given.contains(n) || partition.decisions[n].accelerated()) return;
      const Node* root = roots.of(n);
      const Decision& d = partition.decisions[root];
      // Nodes of one kind are said once, where the words do not name their values.
      std::string words = d.detail + "|" + textOf(d.remedy);
      if (d.reason != Reason::SmallBlock) words += "|" + std::string(root->kind().text());
      auto [it, isNew] = groupOf_.try_emplace({d.reason, std::move(words)}, groups_.size());
      if (isNew) groups_.push_back({d.reason, d.detail, d.remedy, {}, {}, {}});
      Group& g = groups_[it->second];
      if (root == n) return g.nodes.push_back(n);
      g.followers.push_back(n);
      if (std::find(g.causes.begin(), g.causes.end(), root) == g.causes.end()) g.causes.push_back(root);
    });
  }

  std::string table() {
    std::vector<std::string> crossings;
    size_t width = kCrossingWidth;
    for (const Segment& s : partition_.segments) {
      crossings.push_back(crossingOf(s));
      width = std::max(width, std::min(displayWidth(crossings.back()), kMostCrossingWidth));
    }
    out_ = " seg  runs in      nodes  first…last line  " + padded("in → out", width) + "  est. share\n";
    for (size_t i = 0; i < crossings.size(); ++i) row(partition_.segments[i], padded(crossings[i], width));
    if (partition_.nodeCount() == 0) return std::move(out_ += " no node has to run\n");
    const size_t packing = partition_.wrappingCount();
    out_ += fmt::format(
        " {} of {} nodes in {}, {}{}\n", partition_.acceleratedCount(), partition_.nodeCount(),
        counted(partition_.count(Target::Accelerated), "engine"), percent(coverage(partition_)),
        packing ? fmt::format("; {} more only {} inputs or outputs", packing, packing == 1 ? "packs" : "pack") : "");
    return std::move(out_);
  }

  std::string reasons() {
    for (size_t i = 0; i < groups_.size() && i < kMostGroups; ++i) {
      const Group& g = groups_[i];
      if (g.nodes.empty()) continue;
      out_ += fmt::format(" {:<8}{:>4} × {:<14} {}: {}\n", i ? "" : "reasons", g.nodes.size(), reasonCode(g.reason),
                          someOf(g.nodes, kMostValues, placeName), g.detail);
      if (!g.remedy.empty()) out_ += fmt::format(" {:30}{}\n", "", textOf(g.remedy));
      if (!g.followers.empty())
        out_ += fmt::format(" {:<8}{:>4} × {:<14} {}: because of {}\n", "", g.followers.size(), followersCode(g),
                            someOf(g.followers, kMostNames, labelOf), someOf(g.causes, kMostNames, labelOf));
    }
    if (groups_.size() > kMostGroups)
      out_ += fmt::format(" {:<8} and {} more; {}\n", "", groups_.size() - kMostGroups,
                          textOf(Remedy(Remedy::Kind::AskForJson)));
    return std::move(out_);
  }

  // What would change most, each tried.
  std::string hints(const Repartition& again) {
    std::vector<const Group*> largest;
    bool small = false;
    for (const Group& g : groups_) {
      if (g.nodes.empty()) continue;
      small |= g.reason == Reason::SmallBlock;
      if (isMissing(g))
        missing(g);
      else if (canChange(g))
        largest.push_back(&g);
    }
    std::stable_sort(largest.begin(), largest.end(), [](const Group* a, const Group* b) {
      return a->nodes.size() + a->followers.size() > b->nodes.size() + b->followers.size();
    });
    largest.resize(std::min(largest.size(), kMostHints));
    for (const Group* g : largest) hintWithout(*g, again);
    if (small) hintOfSize(again);
    if (partition_.acceleratedCount() < partition_.nodeCount()) hintOfStrategy(again);
    return std::move(out_);
  }

 private:
  // What a segment takes and gives. A module stands for attributes that an engine has; nothing of it is handed over.
  static std::string crossingOf(const Segment& s) {
    std::vector<const Value*> taken;
    std::copy_if(s.inputs.begin(), s.inputs.end(), std::back_inserter(taken),
                 [](const Value* v) { return !v->type()->is(TypeKind::Class); });
    return someOf(taken, kMostValues, [](const Value* v) { return typedName(v); }) + " → " +
           someOf(s.outputs, kMostValues, [](const Value* v) { return valueName(v); });
  }

  void row(const Segment& s, const std::string& crossing) {
    uint32_t first = UINT32_MAX, last = 0;
    std::map<Reason, size_t> reasons;
    for (const Node* n : s.nodes) {
      if (uint32_t line = lineOf(n)) {
        first = std::min(first, line);
        last = std::max(last, line);
      }
      ++reasons[partition_.decisions[n].reason];
      if (s.target == Target::Accelerated && last != 0)
        for (Block* b : n->blocks()) forEachNode(b, [&](const Node* inner) { last = std::max(last, lineOf(inner)); });
    }
    std::string lines = last == 0 ? "-" : fmt::format("{}…{}", first, last);
    double share = partition_.seconds > 0 ? (s.seconds + s.borderSeconds) / partition_.seconds : 0;
    out_ += fmt::format(" {:>3}  {:<11} {:>6}  {}  {}  {:>10}", s.id,
                        s.target == Target::Accelerated ? "engine" : "interpreter", partition_.count(s),
                        padded(lines, 15), crossing, percent(share));
    if (partition_.strategy == Strategy::Cost && s.target == Target::Accelerated)
      out_ += fmt::format("   gains {:.1f} us, border {:.1f} us", s.gainSeconds * 1e6, s.borderSeconds * 1e6);
    std::string codes;
    for (auto [reason, count] : reasons)
      if (reason != Reason::Ok)
        codes += fmt::format("{}{} ×{}", codes.empty() ? "   " : ", ", reasonCode(reason), count);
    out_ += codes + "\n";
  }

  // Whether nothing can run the nodes, neither an engine nor the interpreter.
  static bool isMissing(const Group& g) {
    return g.reason == Reason::NoOp &&
           (g.remedy.kind == Remedy::Kind::RegisterKernel || g.remedy.kind == Remedy::Kind::NearestName ||
            g.remedy.kind == Remedy::Kind::WriteOtherwise);
  }
  void missing(const Group& g) {
    out_ += fmt::format(" {:<8}{}: the graph cannot be run without\n", missing_ ? "" : "missing",
                        someOf(g.nodes, kMostValues, placeName));
    missing_ = true;
  }

  // Whether somebody who is told what it would be like without can do something about it.
  static bool canChange(const Group& g) {
    switch (g.reason) {
      case Reason::SmallBlock:  // has a hint of its own
      case Reason::ControlFlow:
      case Reason::SideEffect:
      case Reason::DataDependent:
      case Reason::Random:
        return false;
      case Reason::Aliasing:
        return g.remedy.kind == Remedy::Kind::NewValue || g.remedy.kind == Remedy::Kind::NewPart;
      default:
        return true;
    }
  }
  PartitionOptions sameOptions() const {
    PartitionOptions options;
    options.strategy = partition_.strategy;
    options.minBlockSize = partition_.minBlockSize;
    options.countsGains = partition_.countsGains;
    return options;
  }
  void hint(const std::string& change, const Partition& then) {
    out_ += fmt::format(" {:<8}{} makes it {}, {} of the nodes in engines\n", hinted_ ? "" : "hint", change,
                        counted(then.segments.size(), "segment"), percent(coverage(then)));
    hinted_ = true;
  }

  void hintWithout(const Group& g, const Repartition& again) {
    std::unordered_set<const Node*> assumed(g.nodes.begin(), g.nodes.end());
    PartitionOptions options = sameOptions();
    options.assumed = &assumed;
    const Partition then = again(options);
    if (then.acceleratedCount() <= partition_.acceleratedCount() + g.nodes.size() &&
        then.segments.size() >= partition_.segments.size())
      return;
    const std::string places = someOf(g.nodes, 2, placeName);
    if (g.reason == Reason::Aliasing)
      hint(fmt::format("{} in place of {}", g.remedy.names[0], places), then);
    else
      hint(places + (g.nodes.size() == 1 ? " in an engine" : " in engines"), then);
  }

  // The largest minimum that gives engines as much as none does.
  void hintOfSize(const Repartition& again) {
    constexpr size_t kMostTries = 8;
    PartitionOptions options = sameOptions();
    if (options.minBlockSize == 1) return;
    options.countsGains = false;
    options.minBlockSize = 1;
    Partition best = again(options);
    if (best.acceleratedCount() <= partition_.acceleratedCount()) return;
    size_t smallest = partition_.minBlockSize - 1;
    for (const Segment& s : best.segments)
      if (s.target == Target::Accelerated) smallest = std::min(smallest, best.count(s));
    for (size_t tries = 0; smallest > 1 && tries < kMostTries; --smallest, ++tries) {
      options.minBlockSize = smallest;
      Partition then = again(options);
      if (then.acceleratedCount() != best.acceleratedCount()) continue;
      best = std::move(then);
      break;
    }
    hint(textOf(Remedy(Remedy::Kind::LowerMinimum, {}, {static_cast<int64_t>(best.minBlockSize), 0})), best);
  }

  void hintOfStrategy(const Repartition& again) {
    if (partition_.strategy == Strategy::Minimal || partition_.strategy == Strategy::Cost) return;
    PartitionOptions options = sameOptions();
    options.strategy = Strategy::Minimal;
    const Partition then = again(options);
    const size_t now = partition_.acceleratedCount();
    if (then.acceleratedCount() > now ||
        (now > 0 && then.acceleratedCount() == now && then.segments.size() < partition_.segments.size()))
      hint(textOf(Remedy(Remedy::Kind::UseStrategy, {std::string(strategyName(Strategy::Minimal))})), then);
  }

  static std::string typedName(const Value* v) {
    std::string type;
    appendTypeAtVerbosity(v->type(), 1, type);
    return valueName(v) + " : " + type;
  }

  // The commonest code of those that follow.
  std::string_view followersCode(const Group& g) const {
    std::map<Reason, size_t> counts;
    for (const Node* n : g.followers) ++counts[partition_.decisions[n].reason];
    auto most = std::max_element(counts.begin(), counts.end(),
                                 [](const auto& a, const auto& b) { return a.second < b.second; });
    return reasonCode(most->first);
  }

  const Partition& partition_;
  std::vector<Group> groups_;
  std::map<std::pair<Reason, std::string>, size_t> groupOf_;
  std::string out_;
  bool missing_ = false, hinted_ = false;
};

}  // namespace

double coverage(const Partition& partition) {
  size_t all = partition.nodeCount();
  return all == 0 ? 1 : static_cast<double>(partition.acceleratedCount()) / static_cast<double>(all);
}

bool printSegments(const Partition& partition, const TextSink& sink, const PrintOptions& options) {
  uint64_t written = 0;
  TextSink counting = [&](std::string_view piece) {
    written += piece.size();
    sink(piece);
  };
  for (const Segment& s : partition.segments) {
    counting(
        fmt::format("{}Segment Block @{}:\n    Target: {}\n    Graph: ", s.id ? "\n" : "", s.id, targetName(s.target)));
    PrintOptions rest = options;
    rest.maxBytes -= std::min(written, options.maxBytes);
    if (!printGraph(*segmentGraph(s, partition), counting, rest)) return false;
  }
  return true;
}

std::string explainSegments(const Graph& graph, const Partition& partition, const Repartition& again) {
  Explainer explainer(graph, partition);
  std::string out = explainer.table();
  out += explainer.reasons();
  return again ? out + explainer.hints(again) : out;
}

namespace {

// The end of the node's chain of causes, or the node.
const Node* rootOf(const Node* node, const Partition& partition) {
  const std::vector<const Node*> causes = partition.causes(node);
  return causes.empty() ? node : causes.back();
}

// Whether constants and these inputs are all that the node is computed from: then it goes when they are bound.
bool isComputedFrom(const Node* node, const std::unordered_set<const Value*>& bound) {
  constexpr size_t kMost = 256;
  std::vector<const Node*> todo{node};
  std::unordered_set<const Node*> seen{node};
  for (size_t i = 0; i < todo.size(); ++i) {
    if (i == kMost || todo[i]->hasBlocks() || todo[i]->subgraph()) return false;
    for (const Use& u : todo[i]->inputs()) {
      const Node* from = u.value->node();
      if (!from && !bound.contains(u.value)) return false;
      if (from && seen.insert(from).second) todo.push_back(from);
    }
  }
  return true;
}

// What keeps the node out once its cause is changed, and what after that.
std::string whatElse(const Node* node, const Partition& partition, const Repartition& again) {
  constexpr size_t kMost = 8;
  std::unordered_set<const Node*> assumed;
  std::unordered_set<const Value*> bound;
  PartitionOptions options;
  options.strategy = partition.strategy;
  options.minBlockSize = partition.minBlockSize;
  options.countsGains = partition.countsGains;
  options.assumed = &assumed;
  options.bound = &bound;
  std::optional<Partition> then;
  std::string out;
  const Partition* now = &partition;
  for (size_t i = 0; i < kMost; ++i) {
    const Node* root = rootOf(node, *now);
    const Reason reason = now->decisions[root].reason;
    if (reason == Reason::Ok || reason == Reason::ControlFlow || reason == Reason::SmallBlock) break;
    if (reason == Reason::Interface) {
      for (const Use& u : root->inputs())
        if (!u.value->node()) bound.insert(u.value);
      if (isComputedFrom(node, bound)) break;
    } else if (!assumed.insert(root).second) {
      break;
    }
    then = again(options);
    now = &*then;
    if (now->decisions[node].accelerated()) break;
    const Node* other = rootOf(node, *now);
    const Decision& d = now->decisions[other];
    if (other == root && d.reason == reason) break;
    if (i + 1 == kMost) return out + "  then     and more\n";
    out += fmt::format("  then     {}{}{}\n", other == node ? "" : placeName(other) + " is ", reasonCode(d.reason),
                       d.detail.empty() ? "" : ": " + d.detail);
    if (!d.remedy.empty()) out += "  change   " + textOf(d.remedy) + "\n";
  }
  return out;
}

}  // namespace

std::string explainNode(const Node* node, const Partition& partition, const Repartition& again,
                        std::string_view kernel) {
  std::string out = placeName(node);
  if (partition.given.contains(node)) return out + " is known when engines are made: each segment has its own copy\n";
  const Decision& d = partition.decisions[node];
  const Segment& s = partition.segments[d.segment];
  out += fmt::format(" {} (segment {} of {})\n",
                     s.target == Target::Accelerated ? "runs in an engine" : "is left to the interpreter", d.segment,
                     partition.segments.size());
  out += fmt::format("  reason   {}{}\n", reasonCode(d.reason), d.detail.empty() ? "" : ": " + d.detail);
  for (const Node* c : partition.causes(node)) {
    const Decision& because = partition.decisions[c];
    out += fmt::format("  because  {} is {}{}\n", placeName(c), reasonCode(because.reason),
                       because.detail.empty() ? "" : ": " + because.detail);
  }
  if (!kernel.empty() && s.target == Target::Accelerated)
    out += fmt::format("  kernel   it runs as in the interpreter, not as a layer: {}\n", kernel);
  std::vector<uint32_t> computing;
  std::map<std::string, std::vector<uint32_t>> takers;
  for (const Segment& other : partition.segments) {
    if (std::find(other.recomputed.begin(), other.recomputed.end(), node) != other.recomputed.end())
      computing.push_back(other.id);
    for (const Value* v : other.inputs)
      if (v->node() == node && other.id != d.segment) takers[valueName(v)].push_back(other.id);
  }
  auto segments = [](const std::vector<uint32_t>& ids) {
    return (ids.size() == 1 ? "segment " : "segments ") +
           someOf(ids, kMostSegments, [](uint32_t id) { return std::to_string(id); });
  };
  if (!computing.empty())
    out += fmt::format("  again    {} {} it for {}\n", segments(computing),
                       computing.size() == 1 ? "computes" : "compute", computing.size() == 1 ? "itself" : "themselves");
  for (const auto& [name, ids] : takers) out += fmt::format("  border   {} goes to {}\n", name, segments(ids));
  for (const Use& u : node->inputs()) {
    const Node* from = u.value->node();
    if (!from || partition.given.contains(from) || partition.decisions[from].segment == d.segment) continue;
    bool computedAgain = std::find(s.recomputed.begin(), s.recomputed.end(), from) != s.recomputed.end();
    out += fmt::format("  border   {} {} segment {}\n", valueName(u.value),
                       computedAgain ? "is computed again, as in" : "comes from", partition.decisions[from].segment);
  }
  const Remedy& remedy = partition.decisions[rootOf(node, partition)].remedy;
  if (!remedy.empty()) out += "  change   " + textOf(remedy) + "\n";
  return again ? out + whatElse(node, partition, again) : out;
}

}  // namespace tscompile
