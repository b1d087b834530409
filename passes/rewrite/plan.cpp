#include "passes/rewrite/plan.h"

#include "ir/analysis/verifier.h"
#include "ir/graph/clone.h"
#include "ir/graph/printer.h"
#include "ir/support/check.h"
#include "ir/support/text.h"
#include "passes/rewrite/compare.h"
#include "passes/rewrite/edits.h"
#include "passes/rewrite/profile.h"
#include "passes/rewrite/worklist.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

namespace tscompile {

constexpr size_t kFewPasses = 64, kNodesForPass = 16;

struct Plan::Body {
  enum class Kind : uint8_t { Nothing, Graph, Walk, Equilibrium, Sequence } kind = Kind::Nothing;
  std::string name;
  GraphRewrite graph;
  Equilibrium parts;  // of a walk: nodes alone
  Order order = Order::InToOut;
  uint64_t seed = 0;
  std::vector<Plan> children;
};

Plan::Plan() : body_(std::make_shared<Body>()) {}

Plan Plan::of(GraphRewrite rewrite) {
  auto b = std::make_shared<Body>();
  b->kind = Body::Kind::Graph;
  b->name = rewrite.name;
  b->graph = std::move(rewrite);
  return Plan(std::move(b));
}

Plan Plan::walk(std::string name, std::vector<NodeRewrite> rewrites, Order order, Revisit revisit, uint64_t seed) {
  auto b = std::make_shared<Body>();
  b->kind = Body::Kind::Walk;
  b->name = std::move(name);
  b->parts.nodes = std::move(rewrites);
  b->parts.revisit = revisit;
  b->order = order;
  b->seed = seed;
  return Plan(std::move(b));
}

Plan Plan::equilibrium(std::string name, Equilibrium parts) {
  auto b = std::make_shared<Body>();
  b->kind = Body::Kind::Equilibrium;
  b->name = std::move(name);
  b->parts = std::move(parts);
  return Plan(std::move(b));
}

Plan Plan::sequence(std::string name, std::vector<Plan> children) {
  auto b = std::make_shared<Body>();
  b->kind = Body::Kind::Sequence;
  b->name = std::move(name);
  b->children = std::move(children);
  return Plan(std::move(b));
}

const std::string& Plan::name() const { return body_->name; }
bool Plan::empty() const {
  return body_->kind == Body::Kind::Nothing || (body_->kind == Body::Kind::Sequence && body_->children.empty());
}

// ---- running ----

class PlanRunner {
 public:
  PlanRunner(RewriteContext& context, EditLog& log, const PlanSettings& settings)
      : context_(context),
        log_(log),
        settings_(settings),
        applier_(context, log),
        mostNodes_(std::max<uint64_t>(settings.maxNodes, context.graph.nodeCount())) {
    if (!settings.from.empty()) leftOut_ = nodesApartFrom(context.graph, settings.from);
    applier_.onFailure = settings.onFailure;
    applier_.failed = [this](const RewriteFailure& f) { failed(f); };
    applier_.provenance = settings.provenance;
    applier_.describe = settings.trace != nullptr;
    if (settings.compare && context.evaluator)
      applier_.veto = [this](const NodeRewrite& r, Node*, const Replacement&) { return difference(r); };
  }

  // Sequences are opened here, so that their nesting costs no stack.
  Outcome run(const Plan& plan) {
    std::vector<Open> open;
    const Plan::Body* body = plan.body_.get();
    Profile root;
    while (true) {
      Profile profile;
      profile.name = body->name;
      if (body->kind == Plan::Body::Kind::Sequence) {
        profile.become<Profile::Sequence>().before = context_.graph.nodeCount();
        open.push_back({body, 0, std::move(profile), std::chrono::steady_clock::now()});
      } else {
        entry(*body, profile);
        finished(open, std::move(profile), root);
      }
      body = nullptr;
      while (!open.empty() && !body) {
        Open& top = open.back();
        if (top.next < top.sequence->children.size() && !outcome_.failed) {
          body = top.sequence->children[top.next++].body_.get();
          continue;
        }
        Profile p = std::move(top.profile);
        p.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - top.start).count();
        std::get<Profile::Sequence>(p.detail).after = context_.graph.nodeCount();
        open.pop_back();
        finished(open, std::move(p), root);
      }
      if (body) continue;
      if (settings_.profile) *settings_.profile = std::move(root);
      tellUncompared();
      return std::move(outcome_);
    }
  }

 private:
  // A sequence whose children are being run.
  struct Open {
    const Plan::Body* sequence;
    size_t next;
    Profile profile;
    std::chrono::steady_clock::time_point start;
  };

  static void finished(std::vector<Open>& open, Profile profile, Profile& root) {
    if (open.empty()) {
      root = std::move(profile);
      return;
    }
    auto& sequence = std::get<Profile::Sequence>(open.back().profile.detail);
    profile.index = sequence.children.size();
    open.back().profile.validate += profile.validate;
    sequence.children.push_back(std::move(profile));
  }

  void failed(const RewriteFailure& f) {
    if (settings_.trace)
      settings_.trace(
          fmt::format("rewriting: validate failed on node {}. Reason: {}, {}", trim(f.node), f.rewrite, f.message));
    if (settings_.failed) settings_.failed(f);
  }

  // What rewriting would do to the results on sample inputs; "": nothing that shows.
  std::string difference(const NodeRewrite& rewrite) {
    size_t now = log_.position();
    log_.moveTo(rewriteStart_);
    std::unique_ptr<Graph> before = cloneGraph(context_.graph);
    log_.moveTo(now);
    RewriteComparison how{.relative = rewrite.tolerance, .assumesFinite = rewrite.assumesFinite};
    if (auto self = context_.arguments.find(kSampledModule); self != context_.arguments.end())
      how.self = &self->second.toObject();
    how.form = &form_;
    size_t compared = 0;
    std::optional<RewriteMismatch> m = compareGraphs(*before, context_.graph, *context_.evaluator, how, &compared);
    if (!compared) uncompared_.add(rewrite.name);
    return m ? m->text() + madeText() : "";
  }

  // The nodes that the rewrite made, the first few of them.
  std::string madeText() const {
    constexpr size_t kMost = 8;
    std::vector<Node*> made = log_.created(rewriteStart_);
    std::string out;
    for (size_t i = 0; i < std::min(made.size(), kMost); ++i)
      out += (i ? ", " : "; made ") + std::string(trim(nodeText(*made[i])));
    return made.size() > kMost ? out + ", ..." : out;
  }

  void entry(const Plan::Body& b, Profile& profile) {
    TimedScope timed(profile.seconds);
    profile_ = &profile;
    size_t start = log_.position();
    bool changed = false;
    context_.facts.refresh();
    switch (b.kind) {
      case Plan::Body::Kind::Graph:
        changed = graph(b.graph);
        break;
      case Plan::Body::Kind::Walk:
        changed = walk(b);
        break;
      case Plan::Body::Kind::Equilibrium:
        changed = equilibrium(b);
        break;
      default:
        return;
    }
    if (settings_.verify && changed && !outcome_.failed) {
      TimedScope validating(profile.validate);
      checkGraph(b.name, start);
    }
    outcome_.changed |= changed;
    if (settings_.onFailure == OnFailure::Error && applier_.failures()) outcome_.failed = true;
    if (settings_.afterEntry) settings_.afterEntry(b.name, context_.graph, changed);
  }

  void checkGraph(const std::string& name, size_t start) {
    Diagnostics found(3);
    if (verify(context_.graph, context_.registry, found)) return;
    Diagnostic& d = context_.diagnostics.error(
        SourceRange{}, fmt::format("'{}' was taken back: it leaves a graph that is not valid", name));
    for (const Diagnostic& f : found.list()) d.note(f.range, f.message);
    log_.moveTo(start);
    outcome_.failed = true;
  }

  bool graph(const GraphRewrite& r) {
    const size_t start = log_.position();
    bool changed = false;
    if (std::string thrown = failureOf([&] { changed = r.apply(context_.graph, context_); }); !thrown.empty()) {
      context_.diagnostics.error(SourceRange{}, fmt::format("rewrite '{}' was taken back: {}", r.name, thrown));
      log_.moveTo(start);
      context_.facts.refresh();
      outcome_.failed = true;
      return false;
    }
    if (changed) {
      context_.facts.refresh();
      if (settings_.applied) settings_.applied(r.name);
      if (settings_.trace) settings_.trace("rewriting: rewrite " + r.name + " changes the graph");
    }
    return changed;
  }

  bool walk(const Plan::Body& b) {
    auto& walking = profile_->become<Profile::Walking>();
    walking.start = context_.graph.nodeCount();
    Dispatch dispatch(b.parts.nodes, context_.graph.kinds());
    Worklist list(log_, dispatch, b.parts.revisit);
    {
      TimedScope timed(walking.toposort);
      list.fill(context_.graph, b.order, b.seed, leftOut_);
    }
    context_.unmatched = list.made();
    size_t limit = useLimit();
    bool changed = false;
    Uses uses;
    TimedScope timed(walking.loop);
    while (Node* n = list.take(b.order == Order::OutToIn)) {
      changed |= tryAll(dispatch, n, uses);
      if (uses.most > limit || isTooLarge()) {
        stop(b.name, {uses.mostName});
        break;
      }
    }
    context_.unmatched = nullptr;
    walking.changed = uses.total;
    walking.end = context_.graph.nodeCount();
    return changed;
  }

  // How often each rewrite was applied.
  struct Uses {
    std::map<std::string, size_t> counts;
    size_t most = 0, total = 0;
    std::string mostName;
    void add(const std::string& name) {
      ++total;
      size_t n = ++counts[name];
      if (n > most) {
        most = n;
        mostName = name;
      }
    }
    std::vector<std::string> names() const {
      std::vector<std::string> out;
      for (const auto& [name, count] : counts) out.push_back(name);
      return out;
    }
  };

  bool isTooLarge() const { return context_.graph.nodeCount() > mostNodes_; }
  size_t useLimit() const {
    double nodes = static_cast<double>(std::max<size_t>(context_.graph.nodeCount(), 16));
    return static_cast<size_t>(std::min(settings_.maxUseRatio * nodes, 1e15));
  }

  bool tryAll(const Dispatch& dispatch, Node* n, Uses& uses) {
    bool changed = false;
    for (const NodeRewrite* r : dispatch.of(n->kind())) {
      if (!n->isInserted() || n->isDestroyed()) break;
      rewriteStart_ = log_.position();
      if (!applyTimed(*r, n)) continue;
      changed = true;
      uses.add(r->name);
      ++outcome_.applied;
      if (settings_.applied) settings_.applied(r->name);
      if (settings_.trace)
        for (const std::string& what : applier_.described()) settings_.trace("rewriting: rewrite " + r->name + what);
    }
    return changed;
  }

  // The clock is asked only if somebody wants to know.
  bool applyTimed(const NodeRewrite& r, Node* n) {
    auto* equilibrium = settings_.profile ? std::get_if<Profile::Equilibrium>(&profile_->detail) : nullptr;
    if (!equilibrium) return applier_.apply(r, n);
    Profile::Rewrite& p = equilibrium->rewrite(r.name);
    bool done;
    {
      TimedScope timed(p.seconds);
      done = applier_.apply(r, n);
    }
    if (done) {
      ++p.applied;
      p.created += log_.created(rewriteStart_).size();
      equilibrium->passes.back().count(r.name);
    }
    return done;
  }

  bool equilibrium(const Plan::Body& b) {
    auto& profile = profile_->become<Profile::Equilibrium>();
    profile.start = profile.most = context_.graph.nodeCount();
    TimedScope timed(profile.seconds);
    bool changed = untilNothingChanges(b, profile);
    profile.end = context_.graph.nodeCount();
    for (const Profile::Pass& p : profile.passes) {
      profile.toposort += p.toposort;
      profile.inGraphRewriters += p.inGlobalRewrites;
    }
    return changed;
  }

  // Finds rewrites that undo each other: the graph is then what it was some passes before.
  class Cycles {
   public:
    // To be told after each pass what was applied in it. The rewrites of the cycle that has closed; none: there is
    // none.
    std::set<std::string> after(const Graph& graph, const std::vector<std::string>& applied) {
      applied_.push_back(applied);
      // Few graphs take more passes than this, and hashing costs as much as a pass.
      constexpr size_t kPassesBeforeHashing = 2;
      if (applied_.size() <= kPassesBeforeHashing) return {};
      uint64_t hash = structureHash(graph);
      auto same = std::find(seen_.begin(), seen_.end(), hash);
      std::set<std::string> cycle;
      if (same != seen_.end())
        for (auto pass = applied_.end() - (seen_.end() - same); pass != applied_.end(); ++pass)
          cycle.insert(pass->begin(), pass->end());
      seen_.push_back(hash);
      return cycle;
    }

   private:
    std::vector<uint64_t> seen_;
    std::vector<std::vector<std::string>> applied_;
  };

  bool untilNothingChanges(const Plan::Body& b, Profile::Equilibrium& profile) {
    const Plan::Equilibrium& parts = b.parts;
    bool changed = false;
    Uses all;
    const size_t limit = useLimit();
    const size_t mostPasses =
        settings_.maxPasses.value_or(std::max<size_t>(kFewPasses, context_.graph.nodeCount() / kNodesForPass));
    Cycles cycles;
    for (size_t pass = 0;; ++pass) {
      Uses uses;
      profile.passes.emplace_back();
      profile.passes.back().nodes = context_.graph.nodeCount();
      profile.most = std::max<uint64_t>(profile.most, context_.graph.nodeCount());
      TimedScope timed(profile.passes.back().seconds);
      context_.facts.refresh();
      for (const auto& part : parts.global) {
        if (const auto* graph = std::get_if<GraphRewrite>(&part))
          globals({graph, 1}, uses);
        else
          walks(std::get<Plan::Walks>(part), uses, limit);
      }
      if (uses.total) globals(parts.cleanup, uses);
      const size_t cleaned = uses.total;
      nodes(parts, uses, limit);
      globals(parts.final, uses);
      if (uses.total != cleaned) {
        context_.facts.refresh();  // of what was made less is known
        globals(parts.cleanup, uses);
      }
      if (!uses.total) return changed;
      changed = true;
      for (const auto& [name, count] : uses.counts)
        for (size_t i = 0; i < count; ++i) all.add(name);
      if (all.most > limit || isTooLarge() || pass + 1 >= mostPasses) {
        stop(b.name, uses.names());
        return true;
      }
      std::set<std::string> cycle = cycles.after(context_.graph, uses.names());
      if (!cycle.empty()) {
        stop(b.name, {cycle.begin(), cycle.end()});
        return true;
      }
    }
  }

  void globals(std::span<const GraphRewrite> rewrites, Uses& uses) {
    auto& profile = std::get<Profile::Equilibrium>(profile_->detail);
    for (const GraphRewrite& r : rewrites) {
      size_t start = log_.position();
      Profile::Rewrite& p = profile.rewrite(r.name);
      bool done;
      double before = p.seconds;
      {
        TimedScope timed(p.seconds);
        done = graph(r);
      }
      profile.passes.back().inGlobalRewrites += p.seconds - before;
      if (!done) continue;
      uses.add(r.name);
      ++p.applied;
      profile.passes.back().count(r.name);
      if (settings_.profile) p.created += log_.created(start).size();
    }
  }

  void walks(const Plan::Walks& part, Uses& uses, size_t limit) {
    auto& profile = std::get<Profile::Equilibrium>(profile_->detail);
    TimedScope timed(profile.inNodeRewriters);
    for (bool changed = true; changed && uses.most <= limit && !isTooLarge();) {
      changed = false;
      Dispatch dispatch(part.nodes, context_.graph.kinds());
      Worklist list(log_, dispatch, Revisit::None);
      list.fill(context_.graph, Order::InToOut, 0, leftOut_);
      while (Node* n = list.take(false)) changed |= tryAll(dispatch, n, uses);
      if (changed) context_.facts.refresh();
    }
  }

  void nodes(const Plan::Equilibrium& parts, Uses& uses, size_t limit) {
    if (parts.nodes.empty()) return;
    auto& profile = std::get<Profile::Equilibrium>(profile_->detail);
    TimedScope timed(profile.inNodeRewriters);
    Dispatch dispatch(parts.nodes, context_.graph.kinds());
    Worklist list(log_, dispatch, parts.revisit);
    {
      TimedScope filling(profile.passes.back().toposort);
      list.fill(context_.graph, Order::OutToIn, 0, leftOut_);
    }
    while (Node* n = list.take(true)) {
      tryAll(dispatch, n, uses);
      if (uses.most > limit || isTooLarge()) return;
    }
  }

  void tellUncompared() {
    if (!uncompared_.total) return;
    Diagnostic& d = context_.diagnostics.warning(
        SourceRange{},
        fmt::format("{} not compared: the graph does not run on samples",
                    uncompared_.total == 1 ? "1 rewriting was" : fmt::format("{} rewritings were", uncompared_.total)));
    d.note("of " + join(uncompared_.names(), ", ", [](const std::string& s) { return s; }));
  }

  void stop(const std::string& name, const std::vector<std::string>& rewrites) {
    outcome_.converged = false;
    outcome_.stoppedBy = join(rewrites, ", ", [](const std::string& s) { return s; });
    Diagnostic& d = context_.diagnostics.warning(SourceRange{},
                                                 fmt::format("'{}' was ended before nothing changed any more", name));
    d.note("rewrites that went on: " + outcome_.stoppedBy);
    if (isTooLarge()) d.note(fmt::format("the graph has more than {} nodes", mostNodes_));
  }

  RewriteContext& context_;
  EditLog& log_;
  const PlanSettings& settings_;
  RewriteApplier applier_;
  Outcome outcome_;
  Profile* profile_ = nullptr;  // of the entry that is running
  size_t rewriteStart_ = 0;
  const uint64_t mostNodes_;
  Uses uncompared_;                 // rewrites whose effect on results no sample has shown
  std::optional<SampleForm> form_;  // of the samples that compared the last one
  NodeTable<bool> leftOut_;         // of the nodes that were there at first: those that rewrites are not asked about
};

Outcome Plan::run(RewriteContext& context, const PlanSettings& settings) const {
  std::optional<EditLog> own;
  EditLog* log = context.graph.editLog();
  if (!log) log = &own.emplace(context.graph);
  Outcome outcome = PlanRunner(context, *log, settings).run(*this);
  context.facts.refresh();
  return outcome;
}

// ---- description ----

namespace {
const char* orderText(Order order) {
  switch (order) {
    case Order::InToOut:
      return ": walk from the inputs";
    case Order::OutToIn:
      return ": walk from the outputs";
    case Order::DepthFirst:
      return ": walk depth first";
    case Order::Random:
      return ": walk in random order";
  }
  TS_UNREACHABLE();
}
}  // namespace

std::string Plan::describe(int depth) const {
  std::string out;
  std::vector<std::pair<const Body*, int>> todo{{body_.get(), 0}};
  while (!todo.empty()) {
    const Body* const b = todo.back().first;
    const int level = todo.back().second;
    todo.pop_back();
    std::string indent(static_cast<size_t>(level) * 2, ' ');
    auto line = [&](const std::string& text) { out += indent + text + "\n"; };
    auto parts = [&](const char* title, const auto& rewrites) {
      if (level < depth)
        for (const auto& r : rewrites) line("  " + r.name + title);
    };
    auto globals = [&](const auto& all) {
      for (const auto& part : all) {
        if (const auto* graph = std::get_if<GraphRewrite>(&part)) {
          parts(" (graph)", std::span(graph, 1));
          continue;
        }
        const auto& walks = std::get<Walks>(part);
        if (level < depth) line("  " + walks.name + ": walks from the inputs");
        for (const NodeRewrite& r : walks.nodes)
          if (level + 1 < depth) line("    " + r.name);
      }
    };
    switch (b->kind) {
      case Body::Kind::Nothing:
        break;
      case Body::Kind::Graph:
        line(b->name);
        break;
      case Body::Kind::Walk:
        line(b->name + orderText(b->order));
        parts("", b->parts.nodes);
        break;
      case Body::Kind::Equilibrium:
        line(b->name + ": equilibrium");
        globals(b->parts.global);
        parts("", b->parts.nodes);
        parts(" (final)", b->parts.final);
        parts(" (clean-up)", b->parts.cleanup);
        break;
      case Body::Kind::Sequence:
        line(b->name + ": sequence");
        if (level < depth)
          for (size_t i = b->children.size(); i-- > 0;) todo.emplace_back(b->children[i].body_.get(), level + 1);
        break;
    }
  }
  return out;
}

}  // namespace tscompile
