// Puts a replacement into effect, or takes everything back: what drivers do with what a node rewrite says.
#pragma once

#include "passes/rewrite/rewrite.h"

#include <functional>
#include <string>

namespace tscompile {

// A replacement that was refused; the graph is as it was before.
struct RewriteFailure {
  std::string rewrite;
  SourceRange range;    // of the node that the rewrite was asked about
  std::string node;     // its text
  std::string message;  // what would have been wrong
};

// What becomes of failures.
enum class OnFailure : uint8_t { Error, Warn, Ignore };

// What becomes of a rewrite that makes nodes without location, scope and range, though what they replace has some.
enum class Provenance : uint8_t { Off, Warn, Error };

// Removes the nodes and what only they used, as far as nothing uses them and they have no effects.
void pruneUnused(std::vector<Node*> nodes, GraphFacts& facts);
// The type of a value that takes the place of another: what is known of either, or null if they contradict each other.
TypePtr mergedType(TypePtr before, TypePtr after);

// Runs what may be a user's function: "", or what it threw in words. Limits and interrupts pass.
std::string failureOf(const std::function<void()>& run);

class RewriteApplier {
 public:
  // `log` is attached to the graph of the context.
  RewriteApplier(RewriteContext& context, EditLog& log) : context_(context), log_(log) {}

  OnFailure onFailure = OnFailure::Error;
  Provenance provenance = Provenance::Off;
  bool describe = false;                              // whether described() is filled
  std::function<void(const RewriteFailure&)> failed;  // called besides, with the graph restored
  // Called with the graph before and after a rewrite; a text says why the rewrite is to be taken back.
  std::function<std::string(const NodeRewrite&, Node*, const Replacement&)> veto;

  // Asks the rewrite about a node and does what it says; whether the graph has changed. A replacement is refused if its
  // values are not as many as the outputs, do not fit their types, are not defined where they are used, or belong to
  // nodes that are gone; if a node that it made does not verify; or if a node with effects would go unsaid. Nodes
  // without effects whose outputs nobody uses any more are removed.
  bool apply(const NodeRewrite& rewrite, Node* node);

  size_t failures() const { return failures_; }
  // What the last rewrite that was applied did: " replaces %y of aten::div with %x of aten::mul" for each value.
  const std::vector<std::string>& described() const { return described_; }

 private:
  void takeBack(size_t start);
  bool fail(const NodeRewrite& rewrite, Node* node, size_t start, std::string problem);
  std::string perform(const NodeRewrite& rewrite, Node* node, const Replacement& r, size_t start);
  std::string pairUp(Node* node, const Replacement& r);
  std::string replaceOne(Value* from, Value* to, size_t start);
  Value* casted(Node* node, const Value* from, Value* to);
  std::string checkPlaces(const NodeRewrite& rewrite, bool hadPlace, size_t start);
  std::string checkTouched(size_t start);
  std::string checkMade(const Node* made);
  // Why a node of PyTorch's is a call of none of its operators; "" if it is one.
  std::string unresolved(const Node* node) const;
  void report(const NodeRewrite& rewrite, Node* node, std::string message);

  RewriteContext& context_;
  EditLog& log_;
  std::vector<std::pair<Value*, Value*>> pairs_;
  bool mayHaveEffects_ = false;  // the node that the rewrite is asked about has some
  std::vector<std::string> described_;
  size_t failures_ = 0;
};

}  // namespace tscompile
