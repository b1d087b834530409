// Rewrites as values: a node rewrite looks at one node, a graph rewrite at a whole graph. Plans apply them (plan.h),
// databases name and order them (database.h).
#pragma once

#include "ir/graph/builder.h"
#include "ir/graph/edit_log.h"
#include "ir/graph/evaluator.h"
#include "ir/support/diagnostics.h"
#include "passes/rewrite/facts.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tscompile {

struct CallTargets;
class CallRecords;
class Profile;

// Arguments that are passed to rewrites, and what they report back, by name.
using RewriteArguments = std::map<std::string, IValue, std::less<>>;

// What a rewrite sees besides the graph. Made for one graph.
class RewriteContext {
 public:
  RewriteContext(Graph& graph, const OpRegistry& registry, Diagnostics& diagnostics)
      : graph(graph), registry(registry), diagnostics(diagnostics), facts(graph, registry) {}

  Graph& graph;
  const OpRegistry& registry;
  Diagnostics& diagnostics;
  GraphFacts facts;
  Evaluator* evaluator = nullptr;  // null: nothing is computed ahead
  uint64_t foldBytes = 1 << 20;    // results of constant folding that are larger are not kept
  RewriteArguments arguments, reports;
  const CallTargets* module = nullptr;  // methods, functions and the object behind %self; null: none are known
  CallRecords* records = nullptr;       // of the calls that were inlined; null: none were asked for
  const std::unordered_set<const Node*>* unmatched = nullptr;  // nodes that patterns pass by; null: there are none

  // Inserts in front of a node; what it makes carries the node's place.
  Builder before(Node* node) const {
    Builder b(graph, node);
    b.setPlaceOf(node);
    return b;
  }
};

// What a node rewrite wants done.
class Replacement {
 public:
  // No change.
  Replacement() = default;
  // One value for each output of the node; null is fine where the output has no uses.
  Replacement(Value* value) : outputs_{value}, kind_(Kind::Outputs) {}  // NOLINT: implicit by design
  Replacement(std::vector<Value*> outputs) : outputs_(std::move(outputs)), kind_(Kind::Outputs) {}  // NOLINT
  // Any values of the graph by others, all or none; `gone` lists nodes that must have left the graph afterwards, else
  // everything is taken back.
  static Replacement of(std::vector<std::pair<Value*, Value*>> values, std::vector<Node*> gone = {});
  // The rewrite changed the graph itself: other inputs or attributes of the node, say.
  static Replacement done();

  enum class Kind : uint8_t { None, Outputs, Values, Done };
  Kind kind() const { return kind_; }
  const std::vector<Value*>& outputs() const { return outputs_; }
  const std::vector<std::pair<Value*, Value*>>& values() const { return values_; }
  const std::vector<Node*>& gone() const { return gone_; }
  explicit operator bool() const { return kind_ != Kind::None; }

 private:
  std::vector<Value*> outputs_;
  std::vector<std::pair<Value*, Value*>> values_;
  std::vector<Node*> gone_;
  Kind kind_ = Kind::None;
};

// Looks at one node and says what is to take its place. New nodes are inserted by the function itself, in front of the
// node; if the replacement is refused, they are taken back.
struct NodeRewrite {
  std::string name;
  std::vector<Symbol> kinds;  // of the nodes that it is asked about, such as aten::add or aten::*; empty: every node
  std::function<Replacement(Node*, RewriteContext&)> apply;
  // Of patterns: the rarest of their kinds in this graph, to be asked about instead of `kinds`; nothing if the graph
  // cannot hold a match.
  std::function<std::optional<std::vector<Symbol>>(const KindTable&)> seeds = nullptr;
  int benefit = 0;  // higher ones are tried first
  // How far results may move, relatively, when rewrites are compared on sample inputs.
  double tolerance = 1e-5;
  bool autoCast = false;  // values of another dtype than what they replace are converted; else they are refused
  // Of patterns: why nothing in the graph matches, told of the place that comes nearest; "" if something does.
  std::function<std::string(RewriteContext&)> whyNot = nullptr;
  bool assumesFinite = false;  // of those with the tag fast_math: results that are not finite may become others
};

// Whether a kind is the wanted one, or of the name space that a wanted "aten::*" means.
bool isOfKind(Symbol kind, Symbol wanted);
bool isOfKind(Symbol kind, const std::vector<Symbol>& wanted);  // of one of these; none: of any

// Changes a whole graph; returns whether it did.
struct GraphRewrite {
  std::string name;
  std::function<bool(Graph&, RewriteContext&)> apply;
};

// Types of outputs: as the text of a pattern gives them, else what the schema that the inputs select returns.
void setOutputTypes(Node* made, const Node* text, RewriteContext& context);

// ---- short forms ----

// Every node of one kind by one of another kind with the same inputs.
NodeRewrite substitute(std::string name, Symbol from, Symbol to);
// Nodes of the kind go; output i becomes input i.
NodeRewrite bypass(std::string name, Symbol kind);
// The first of several that changes something.
NodeRewrite firstOf(std::string name, std::vector<NodeRewrite> rewrites);
// Of several the one after which the graph costs least; none if it costs least as it is. The cost is asked after each
// candidate was put in place of the node's outputs.
NodeRewrite bestOf(std::string name, std::vector<NodeRewrite> rewrites, std::function<double(const Graph&)> cost);
// One after the other, each on the node that the one before it made, until none applies.
NodeRewrite chain(std::string name, std::vector<NodeRewrite> rewrites);

}  // namespace tscompile
