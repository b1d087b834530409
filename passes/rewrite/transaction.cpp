#include "passes/rewrite/transaction.h"

#include "ir/analysis/verifier.h"
#include "ir/support/check.h"
#include "passes/rewrite/apply.h"

#include <algorithm>

namespace tscompile {
namespace {
bool isAlive(const Node* n) { return n->isInserted() && !n->isDestroyed(); }
}  // namespace

Transaction::Transaction(Graph& graph, const OpRegistry& registry) : registry_(registry), log_(graph.editLog()) {
  if (!log_) log_ = &own_.emplace(graph);
  start_ = log_->position();
  depth_ = ++log_->openTransactions;
}

Transaction::~Transaction() {
  if (open_) rollback();
}

void Transaction::replaceIf(Value* from, Value* to, std::function<bool(const Use&)> wanted) {
  if (from == to || !failure_.empty()) return;
  if (from->node() && !isAlive(from->node())) {
    failure_ = "%" + from->name() + " is not in the graph";
    return;
  }
  if (to->node() && !isAlive(to->node())) {
    failure_ = "%" + to->name() + " was removed from the graph";
    return;
  }
  TypePtr type = mergedType(from->type(), to->type());
  if (!type) {
    failure_ = "%" + to->name() + " of type " + typeText(to->type()) + " does not fit %" + from->name() + " of type " +
               typeText(from->type());
    return;
  }
  if (to->node()) to->setType(type);
  std::vector<Use*> uses;
  for (Use& u : from->uses())
    if (!wanted || wanted(u)) uses.push_back(&u);
  for (Use* u : uses) {
    if (!dominates(to, u->user)) {
      failure_ = "%" + to->name() + " is used before it would be defined";
      return;
    }
    u->user->replaceInput(u->index(), to);
  }
  if (from->node()) former_.push_back(from->node());
}

std::string Transaction::problem() {
  if (!failure_.empty()) return failure_;
  GraphFacts facts(log_->graph(), registry_);
  pruneUnused(std::move(former_), facts);
  for (Node* n : mustGo_)
    if (isAlive(n)) return std::string(n->kind().text()) + " was to go, but is still in the graph";
  std::string found;
  log_->forEachTouched(start_, [&](Node* n) {
    Diagnostics d(1);
    if (found.empty() && !verifyNode(*n, registry_, d)) found = d.list()[0].message;
  });
  return found.empty() ? log_->veto() : found;
}

Result<void> Transaction::commit(Diagnostics& diagnostics) {
  TS_CHECK(open_);
  std::string wrong = log_->openTransactions != depth_ ? "a transaction inside this one has not ended" : problem();
  if (wrong.empty()) {
    open_ = false;
    --log_->openTransactions;
    return {};
  }
  diagnostics.error(SourceRange{}, "the change was taken back: " + wrong);
  rollback();
  return Failed{};
}

void Transaction::rollback() {
  if (!open_) return;
  open_ = false;
  // One around this may have gone back further.
  if (log_->position() > start_) log_->moveTo(start_);
  log_->openTransactions = std::min(log_->openTransactions, depth_ - 1);
}

std::string ProtectValues::veto(const Graph&) {
  for (Value* v : values_)
    if (!isPresent(v)) return "%" + v->name() + " is protected";
  return "";
}

}  // namespace tscompile
