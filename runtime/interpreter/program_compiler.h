// Graphs to instruction lists.
#pragma once

#include "runtime/interpreter/machine.h"

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace tscompile {

class ProgramCompiler {
 public:
  ProgramCompiler(Program& program, Diagnostics& diagnostics) : program_(program), diagnostics_(diagnostics) {}

  // Compiles the entry graph and what it calls, directly or not.
  bool compile(const Graph& entry);

  const Program& program() const { return program_; }
  static const Function& entryOf(const Program& program) { return *program.entry_; }
  Diagnostics& diagnostics() { return diagnostics_; }
  // The function that a graph becomes; it is compiled later.
  const Function* functionFor(const Graph& graph, std::string name);
  // The same for the subgraph of a tscompile::Engine node, with its engine if one can be made.
  const Function* engineFor(const Node* node);
  // The callees of prim::CallMethod and prim::CallFunction. Null after a report; also null, without one, for a method
  // of an interface, which is found when it is called.
  const Function* calledMethod(const Node* node);
  // What a node of a `with` statement runs; other nodes run none.
  void compileContextMethods(const Node* node);
  const Function* calledFunction(const Node* node);
  // The implemented operator that a node means; null after a report.
  const Operator* resolve(const Node* node);
  // What must live as long as the program, beside what its registry owns.
  std::vector<std::shared_ptr<const void>> takeHeld() { return std::move(held_); }
  // Whether it means an operator that is known and not implemented.
  bool isMissing(const Node* n) const {
    const Operator* op = program_.registry_->resolve(*n);
    return op && !op->isImplemented();
  }
  // Outside of branches: reported if the entry graph gets to `caller` without one.
  void noteMissing(const Function& caller, const Node* node) { always_[&caller].missing.push_back(node); }
  void noteCall(const Function& caller, const Function& callee) { always_[&caller].callees.push_back(&callee); }
  // Reported when all is compiled: once for all nodes with the same message. The reference takes notes.
  Diagnostic& unsupported(const Node* node, std::string message, ErrorKind kind = ErrorKind::Unsupported);

 private:
  void reportMissing();

  Program& program_;
  Diagnostics& diagnostics_;
  std::vector<Function*> pending_;
  std::vector<std::shared_ptr<const void>> held_;
  struct Refusal {
    Diagnostic first;
    size_t nodes = 0;
  };
  std::deque<Refusal> refusals_;
  std::unordered_map<std::string, Refusal*> refusalOf_;  // by message
  Diagnostic repeated_;                                  // takes the notes that the first one has already
  struct Always {
    std::vector<const Node*> missing;
    std::vector<const Function*> callees;
  };
  std::unordered_map<const Function*, Always> always_;  // what a function does whichever branches it takes
};

// Fills in `function` from its graph.
void compileFunction(ProgramCompiler& owner, Function& function);

// Control flow, made by the compiler and executed by interpreter.cpp.
namespace control {
extern const Handler kLoadConstant;  // output 0 = constant
extern const Handler kLoadCopy;      // output 0 = a copy of the constant, a tensor that the graph writes to
extern const Handler kMove;          // output 0 takes input 0
extern const Handler kCopy;          // output 0 = input 0
extern const Handler kRelease;       // the inputs are given up
extern const Handler kJump;
extern const Handler kJumpIfFalse;  // on input 0
extern const Handler kLoopEnter;    // inputs: trip count, condition; extra: the induction variable
extern const Handler kLoopNext;     // the same; jumps back
extern const Handler kReturn;
extern const Handler kCallFunction;  // a function that is known; extra: for each input, whether it can be moved
extern const Handler kCallEngine;    // the same, by the function's engine where it can
extern const Handler kCallMethod;    // found by the type of input 0; extra: the same
extern const Handler kScalar1;       // the slot after the inputs takes the result
extern const Handler kScalar2;
extern const Handler kScalarN;
extern const Handler kOperator;
extern const Handler kOwningOperator;  // the value of input 0 is not needed after it
}  // namespace control

// A handler of its own for a function on numbers that loops are made of, or null. The instruction's `scalar` must be
// set all the same: it takes the values that the handler is not made for.
Handler scalarHandler(ScalarFunction function);

}  // namespace tscompile
