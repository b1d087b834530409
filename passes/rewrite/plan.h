// Plans: rewrites in the order and manner in which they are applied to a graph. Values that can be shared and run on
// any number of graphs; databases make them from queries (database.h).
#pragma once

#include "ir/support/limits.h"
#include "passes/rewrite/apply.h"

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tscompile {

// Text order, that order backwards, the nodes after each result before it, or any order that a seed chooses.
enum class Order : uint8_t { InToOut, OutToIn, DepthFirst, Random };
// Which nodes are looked at again: those that a rewrite made, and those that use another value since. OneSweep: none,
// and patterns do not match nodes that were made meanwhile, so matches that overlap one that was replaced are skipped.
enum class Revisit : uint8_t { None, Created, CreatedAndUsers, OneSweep };

// How a plan is run.
struct PlanSettings {
  OnFailure onFailure = OnFailure::Error;
  std::function<void(const RewriteFailure&)> failed;
  // Verify the graph after each entry; an entry that breaks it is taken back and reported.
  bool verify = false;
  // Compares the graph before and after each rewrite on sample inputs, if the context has an evaluator.
  bool compare = false;
  // An equilibrium ends when one rewrite was applied this many times the number of nodes.
  double maxUseRatio = 8;
  Provenance provenance = Provenance::Off;
  // If there are any: rewrites are asked about the nodes that these values are computed by, and what comes of them.
  std::vector<const Value*> from;
  // Of an equilibrium; if it is not given 64, or one for 16 nodes: layers that compute with the sizes of those before
  // (einops in scripts) are known one after another.
  std::optional<size_t> maxPasses;
  // Walks and equilibria end when the graph has more nodes, and more than it had.
  uint64_t maxNodes = Limits().nodes;
  // Called after each entry that is not a part of another: its name, and whether it changed the graph.
  std::function<void(const std::string&, const Graph&, bool)> afterEntry;
  // Called with the name of each rewrite that is applied.
  std::function<void(const std::string&)> applied;
  // Takes a line for each rewrite that is applied.
  std::function<void(const std::string&)> trace;
  class Profile* profile = nullptr;
};

struct Outcome {
  bool changed = false;
  bool failed = false;    // a rewrite was refused (OnFailure::Error) or broke the graph; reported
  bool converged = true;  // false: an equilibrium was ended by its bounds
  std::string stoppedBy;  // then: the rewrites that went on
  size_t applied = 0;     // rewrites of nodes
};

class Plan {
 public:
  // A plan that does nothing.
  Plan();
  static Plan of(GraphRewrite rewrite);
  // Looks at every node once, in this order; of several rewrites for a node, in order of benefit.
  static Plan walk(std::string name, std::vector<NodeRewrite> rewrites, Order order = Order::InToOut,
                   Revisit revisit = Revisit::Created, uint64_t seed = 0);
  // Node rewrites that stand among graph rewrites: walks from the inputs on, until one changes nothing.
  struct Walks {
    std::string name;
    std::vector<NodeRewrite> nodes;
  };
  // Graph rewrites, then nodes from the outputs on, then `final`, again until a fixpoint is reached; `cleanup` after
  // each of them.
  struct Equilibrium {
    std::vector<std::variant<GraphRewrite, Walks>> global;
    std::vector<NodeRewrite> nodes;
    std::vector<GraphRewrite> final;
    std::vector<GraphRewrite> cleanup;
    Revisit revisit = Revisit::Created;
  };
  static Plan equilibrium(std::string name, Equilibrium parts);
  static Plan sequence(std::string name, std::vector<Plan> children);

  // Runs it on the graph of the context. An EditLog is attached for the time if there is none.
  Outcome run(RewriteContext& context, const PlanSettings& settings = {}) const;

  const std::string& name() const;
  // One line for each entry, indented; `depth` levels.
  std::string describe(int depth = std::numeric_limits<int>::max()) const;
  bool empty() const;

 private:
  friend class PlanRunner;
  struct Body;
  explicit Plan(std::shared_ptr<const Body> body) : body_(std::move(body)) {}
  std::shared_ptr<const Body> body_;
};

// The same for graphs that differ in names and places only.
uint64_t structureHash(const Graph& graph);

}  // namespace tscompile
