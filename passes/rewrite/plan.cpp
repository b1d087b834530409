#include "passes/rewrite/plan.h"

#include "ir/clone.h"
#include "ir/literal.h"
#include "ir/printer.h"
#include "ir/random.h"
#include "ir/side_table.h"
#include "ir/support/check.h"
#include "ir/support/text.h"
#include "ir/verifier.h"
#include "passes/edits.h"
#include "passes/rewrite/compare.h"
#include "passes/rewrite/profile.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

namespace tscompile {

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

// ---- dispatch ----

namespace {

// Which rewrites are asked about a node: a small hash table from kinds, so that a node that none wants costs little.
class Dispatch {
 public:
  Dispatch(const std::vector<NodeRewrite>& rewrites, const KindTable& table) {
    std::vector<const NodeRewrite*> ordered;
    for (const NodeRewrite& r : rewrites) ordered.push_back(&r);
    std::stable_sort(ordered.begin(), ordered.end(),
                     [](const NodeRewrite* a, const NodeRewrite* b) { return a->benefit > b->benefit; });
    std::vector<std::pair<const NodeRewrite*, std::vector<Symbol>>> wanted;
    std::vector<Symbol> kinds;
    for (const NodeRewrite* r : ordered) {
      std::optional<std::vector<Symbol>> k = r->seeds ? r->seeds(table) : r->kinds;
      if (!k) continue;
      kinds.insert(kinds.end(), k->begin(), k->end());
      wanted.emplace_back(r, std::move(*k));
    }
    size_t size = 16;
    while (size < kinds.size() * 4) size *= 2;
    slots_.resize(size);
    for (Symbol kind : kinds) {
      Slot& slot = slots_[place(kind)];
      if (!slot.kind.empty()) continue;
      slot.kind = kind;
      for (const auto& [r, k] : wanted)
        if (isOfKind(kind, k)) slot.rewrites.push_back(r);
    }
    for (const auto& [r, k] : wanted)
      if (k.empty()) everywhere_.push_back(r);
    if (std::any_of(kinds.begin(), kinds.end(), [](Symbol k) { return k.name() == "*"; }))
      wildcards_ = std::move(wanted);
  }

  const std::vector<const NodeRewrite*>& of(Symbol kind) const {
    const Slot& slot = slots_[place(kind)];
    if (slot.kind == kind) return slot.rewrites;
    return wildcards_.empty() ? everywhere_ : byWildcard(kind);
  }
  bool wants(Symbol kind) const { return !of(kind).empty(); }

 private:
  struct Slot {
    Symbol kind;
    std::vector<const NodeRewrite*> rewrites;
  };
  size_t place(Symbol kind) const {
    size_t mask = slots_.size() - 1;
    size_t i = kind.hash() & mask;
    while (!slots_[i].kind.empty() && !(slots_[i].kind == kind)) i = (i + 1) & mask;
    return i;
  }
  // Of kinds that no rewrite names.
  const std::vector<const NodeRewrite*>& byWildcard(Symbol kind) const {
    auto [found, isNew] = others_.try_emplace(kind);
    if (isNew)
      for (const auto& [r, k] : wildcards_)
        if (isOfKind(kind, k)) found->second.push_back(r);
    return found->second;
  }
  std::vector<Slot> slots_;
  std::vector<const NodeRewrite*> everywhere_;
  std::vector<std::pair<const NodeRewrite*, std::vector<Symbol>>> wildcards_;  // all rewrites, if one has "aten::*"
  mutable std::unordered_map<Symbol, std::vector<const NodeRewrite*>> others_;
};

// ---- orders ----

// The nodes that a node takes something from, results of its blocks included.
void forEachProducer(const Node* n, const std::function<void(Node*)>& visit) {
  auto inputs = [&](const Node* user) {
    for (const Use& u : user->inputs())
      if (u.value->node()) visit(u.value->node());
  };
  inputs(n);
  for (const Block* b : n->blocks()) inputs(b->returnNode());
}

// The nodes that none of these values is computed by; none if there are no values.
NodeTable<bool> nodesApartFrom(const Graph& graph, const std::vector<const Value*>& values) {
  NodeTable<bool> apart(graph);
  if (values.empty()) return apart;
  forEachNode(graph, [&](Node* n) { apart[n] = true; });
  std::vector<Node*> todo;
  auto add = [&](Node* n) {
    if (!apart[n]) return;
    apart[n] = false;
    todo.push_back(n);
  };
  for (const Value* v : values)
    if (Node* n = v->node() ? v->node() : v->block()->owner()) add(n);
  while (!todo.empty()) {
    Node* n = todo.back();
    todo.pop_back();
    forEachProducer(n, add);
    if (Node* around = n->block()->owner()) add(around);
  }
  return apart;
}

std::vector<Node*> depthFirst(Graph& graph) {
  std::vector<Node*> roots, out;
  for (const Use& u : graph.outputs())
    if (u.value->node()) roots.push_back(u.value->node());
  forEachNode(graph, [&](Node* n) { roots.push_back(n); });
  NodeTable<bool> seen(graph);
  std::vector<std::pair<Node*, bool>> todo;  // node, whether those behind it are done
  for (Node* root : roots) {
    todo.emplace_back(root, false);
    while (!todo.empty()) {
      auto [n, done] = todo.back();
      todo.pop_back();
      if (done) out.push_back(n);
      if (done || seen[n]) continue;
      seen[n] = true;
      todo.emplace_back(n, true);
      size_t first = todo.size();
      forEachProducer(n, [&](Node* p) { todo.emplace_back(p, false); });
      std::reverse(todo.begin() + static_cast<std::ptrdiff_t>(first), todo.end());
    }
  }
  return out;
}

std::vector<Node*> inOrder(Graph& graph, Order order, uint64_t seed) {
  if (order == Order::DepthFirst) return depthFirst(graph);
  std::vector<Node*> nodes;
  forEachNode(graph, [&](Node* n) { nodes.push_back(n); });
  if (order == Order::Random)
    for (size_t i = nodes.size(); i > 1; --i) std::swap(nodes[i - 1], nodes[random::bits(seed, i) % i]);
  return nodes;
}

// Nodes that are still to be looked at, each at most once at a time.
class Worklist : public EditObserver {
 public:
  Worklist(EditLog& log, const Dispatch& dispatch, Revisit revisit)
      : log_(log), dispatch_(dispatch), revisit_(revisit), waiting_(log.graph()) {
    log_.attach(this);
  }
  ~Worklist() override { log_.detach(this); }

  void fill(Graph& graph, Order order, uint64_t seed, const NodeTable<bool>& leftOut) {
    auto wants = [&](Symbol kind) { return dispatch_.wants(kind); };
    if (order == Order::InToOut || order == Order::OutToIn) {
      for (Node* n : graph.nodesOf(wants))
        if (!leftOut.get(n)) push(n);
      return;
    }
    for (Node* n : inOrder(graph, order, seed))
      if (wants(n->kind()) && !leftOut.get(n)) push(n);
  }
  Node* take(bool fromBack) {
    while (!queue_.empty()) {
      Node* n = fromBack ? queue_.back() : queue_.front();
      fromBack ? queue_.pop_back() : queue_.pop_front();
      waiting_[n] = false;
      pushed_ = 0;
      lookAhead(fromBack);
      if (n->isInserted() && !n->isDestroyed()) return n;
    }
    return nullptr;
  }

  void imported(Node* n) override {
    // What comes back with a change that is taken back was seen.
    if (log_.isTakingBack()) return;
    if (revisit_ == Revisit::OneSweep) made_.insert(n);
    if (revisit_ != Revisit::None && revisit_ != Revisit::OneSweep && dispatch_.wants(n->kind())) push(n);
  }
  // In one sweep: what is not to be matched again.
  const std::unordered_set<const Node*>* made() const { return revisit_ == Revisit::OneSweep ? &made_ : nullptr; }
  void inputChanged(Node* n, size_t, Value* before, Value* after) override {
    if (revisit_ == Revisit::CreatedAndUsers && !log_.isTakingBack() && before && after && !n->isReturn() &&
        dispatch_.wants(n->kind()))
      push(n);
  }
  // Nodes that are gone with it are among the last; the next change may free them.
  void takenBack(size_t) override {
    auto gone = std::remove_if(queue_.end() - static_cast<ptrdiff_t>(pushed_), queue_.end(), [this](Node* n) {
      if (n->isDestroyed()) waiting_[n] = false;
      return n->isDestroyed();
    });
    pushed_ -= static_cast<size_t>(queue_.end() - gone);
    queue_.erase(gone, queue_.end());
  }

 private:
  // Begins to load what the next rewrites will look at: in large graphs most of the time goes into waiting for memory.
  void lookAhead(bool fromBack) const {
    // Each step needs what the one before has brought.
    constexpr size_t kNode = 10, kLists = 8, kValues = 6, kNeighbours = 4, kUser = 2;
    if (queue_.size() <= kNode) return;
    auto at = [&](size_t i) -> const Node* {
      Node* n = fromBack ? queue_[queue_.size() - 1 - i] : queue_[i];
      return n->isDestroyed() ? nullptr : n;
    };
    auto load = [](const void* p) { __builtin_prefetch(p); };
    auto output = [&](size_t i) {
      const Node* n = at(i);
      return n && n->outputCount() ? n->output(0) : nullptr;
    };
    auto input = [&](size_t i) {
      const Node* n = at(i);
      return n && n->inputCount() ? n->input(0) : nullptr;
    };
    load(fromBack ? queue_[queue_.size() - 1 - kNode] : queue_[kNode]);
    if (const Node* n = at(kLists)) {
      load(n->inputs().data());
      load(n->outputs().data());
    }
    load(input(kValues));
    load(output(kValues));
    if (const Value* v = input(kNeighbours)) load(v->node());
    if (const Value* v = output(kNeighbours)) load(v->firstUse());
    if (const Value* v = output(kUser); v && v->firstUse()) load(v->firstUse()->user);
  }
  void push(Node* n) {
    if (waiting_[n]) return;
    waiting_[n] = true;
    ++pushed_;
    queue_.push_back(n);
  }
  EditLog& log_;
  const Dispatch& dispatch_;
  Revisit revisit_;
  NodeTable<bool> waiting_;
  std::deque<Node*> queue_;
  size_t pushed_ = 0;  // since the last one was taken
  std::unordered_set<const Node*> made_;
};

}  // namespace

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
      applier_.veto = [this](const NodeRewrite& r, Node*, const Replacement&) { return difference(r.tolerance); };
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
  std::string difference(double tolerance) {
    size_t now = log_.position();
    log_.moveTo(rewriteStart_);
    std::unique_ptr<Graph> before = cloneGraph(context_.graph);
    log_.moveTo(now);
    std::optional<RewriteMismatch> m = compareGraphs(*before, context_.graph, *context_.evaluator, tolerance);
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
    bool changed = r.apply(context_.graph, context_);
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
    Cycles cycles;
    for (int pass = 0;; ++pass) {
      Uses uses;
      profile.passes.emplace_back();
      profile.passes.back().nodes = context_.graph.nodeCount();
      profile.most = std::max<uint64_t>(profile.most, context_.graph.nodeCount());
      TimedScope timed(profile.passes.back().seconds);
      context_.facts.refresh();
      globals(parts.global, uses);
      if (uses.total) globals(parts.cleanup, uses);
      nodes(parts, uses, limit);
      size_t before = uses.total;
      globals(parts.final, uses);
      if (uses.total != before || (before && pass == 0)) globals(parts.cleanup, uses);
      if (!uses.total) return changed;
      changed = true;
      for (const auto& [name, count] : uses.counts)
        for (size_t i = 0; i < count; ++i) all.add(name);
      if (all.most > limit || isTooLarge() || pass + 1 >= settings_.maxPasses) {
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

  void globals(const std::vector<GraphRewrite>& rewrites, Uses& uses) {
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
  NodeTable<bool> leftOut_;  // of the nodes that were there at first: those that rewrites are not asked about
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
    auto [b, level] = todo.back();
    todo.pop_back();
    std::string indent(static_cast<size_t>(level) * 2, ' ');
    auto line = [&](const std::string& text) { out += indent + text + "\n"; };
    auto parts = [&](const char* title, const auto& rewrites) {
      if (level < depth)
        for (const auto& r : rewrites) line("  " + r.name + title);
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
        parts(" (graph)", b->parts.global);
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

// ---- structure ----

namespace {

// Hashes a graph by position: values by where they were defined, so that names do not matter.
class StructureHasher {
 public:
  explicit StructureHasher(const Graph& graph) : numbers_(graph), order_(graph) {
    for (const Value* v : graph.inputs()) define(v);
    walk(graph);
  }
  uint64_t hash() const { return hash_; }

 private:
  void add(uint64_t x) { hash_ = hashCombine(hash_, x); }
  void define(const Value* v) {
    numbers_[v] = ++count_;
    add(v->type()->hash());
  }
  // Large tensors by where they are: to read them all would take as long as a pass.
  void value(const IValue& v) {
    if (!v.isTensor()) return add(hashText(valueText(v, LiteralStyle::Schema)));
    add(hashOfBits(v));
    constexpr size_t kRead = 256;  // by hashOfBits
    const Tensor& t = v.toTensor();
    if (t.defined() && (!t.isContiguous() || static_cast<size_t>(t.numel()) * itemSize(t.dtype()) > kRead))
      add(reinterpret_cast<uintptr_t>(t.raw()));
  }
  void inputs(const Node* n) {
    add(n->inputCount());
    for (const Use& u : n->inputs()) add(numbers_[u.value]);
  }
  void walk(const Graph& graph) {
    const Block* last = graph.block();
    forEachNode(graph, [&](Node* n) {
      if (n->block() != last) {
        last = n->block();
        add(last->owner() ? order_[last->owner()] : 0);
      }
      order_[n] = ++nodes_;
      add(n->kind().hash());
      inputs(n);
      for (const Attribute& a : n->attributes()) {
        add(a.name.hash());
        if (const IValue* v = a.value()) value(*v);
      }
      for (const Value* v : n->outputs()) define(v);
      for (const Block* b : n->blocks()) {
        for (const Value* p : b->parameters()) define(p);
      }
    });
    forEachNode(graph, [&](Node* n) {
      for (const Block* b : n->blocks()) inputs(b->returnNode());
    });
    inputs(graph.returnNode());
  }

  ValueTable<uint64_t> numbers_;
  NodeTable<uint64_t> order_;
  uint64_t count_ = 0, nodes_ = 0, hash_ = 0;
};

}  // namespace

uint64_t structureHash(const Graph& graph) { return StructureHasher(graph).hash(); }

}  // namespace tscompile
