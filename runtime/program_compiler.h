// Graphs to instruction lists.
#pragma once

#include <vector>

#include "runtime/machine.h"

namespace tscompile {

class ProgramCompiler {
 public:
  ProgramCompiler(Program& program, Diagnostics& diagnostics) : program_(program), diagnostics_(diagnostics) {}

  // Compiles the entry graph and what it calls, directly or not.
  bool compile(const Graph& entry);

 private:
  const Function* functionFor(const Graph& graph, std::string name);
  friend class FunctionCompiler;

  Program& program_;
  Diagnostics& diagnostics_;
  std::vector<Function*> pending_;
};

// Control flow, made by the compiler and executed by interpreter.cpp.
namespace control {
extern const Handler kLoadConstant;  // output 0 = constant
extern const Handler kMove;          // output 0 takes input 0
extern const Handler kCopy;          // output 0 = input 0
extern const Handler kRelease;       // the inputs are given up
extern const Handler kJump;
extern const Handler kJumpIfFalse;  // on input 0
extern const Handler kLoopEnter;    // inputs: trip count, condition; extra: counter, induction variable
extern const Handler kLoopNext;     // inputs: trip count, condition; extra: counter, induction variable; jumps back
extern const Handler kReturn;
extern const Handler kCallFunction;  // a function that is known
extern const Handler kCallMethod;    // found by the type of input 0
extern const Handler kScalar1;
extern const Handler kScalar2;
extern const Handler kScalarN;
extern const Handler kOperator;
}  // namespace control

}  // namespace tscompile
