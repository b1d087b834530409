// A module compiled for the interpreter: flat instruction lists over register slots. Immutable, so any number of
// threads may run it at once.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/support/arena.h"
#include "ir/support/diagnostics.h"
#include "ir/support/result.h"
#include "runtime/call/run_context.h"
#include "runtime/interpreter/compiled_segment.h"

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tscompile {

class Machine;
struct Instruction;
struct Function;

// Executes one instruction and tells the next; null ends the run.
using Handler = const Instruction* (*)(Machine&, const Instruction*);

struct Instruction {
  Handler handler = nullptr;
  const uint32_t* slots = nullptr;  // inputs, then outputs, then whatever the handler needs
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  union {
    const Operator* op = nullptr;
    ScalarFunction scalar;
    const IValue* constant;
    const Function* function;
  };
  const Node* node = nullptr;  // where an error happened
  int32_t jump = 0;            // to the other instruction of a branch, relative

  uint32_t input(size_t i) const { return slots[i]; }
  uint32_t output(size_t i = 0) const { return slots[inputs + i]; }
  uint32_t extra(size_t i) const { return slots[inputs + outputs + i]; }
};

// One graph.
struct Function {
  const Graph* graph = nullptr;
  std::string name;
  std::vector<Instruction> code;
  Arena slotLists;
  std::vector<std::unique_ptr<IValue>> constants;
  uint32_t slotCount = 0;
  std::vector<uint32_t> parameters;  // slots of the graph's inputs
  size_t resultCount = 0;
  std::shared_ptr<const CompiledSegment> segment;  // of a tscompile::Engine node: what runs instead, where it can
};

// What a program consists of besides its entry graph: classes with their methods, functions by name.
struct ProgramSources {
  // Methods of a class, by its type.
  std::unordered_map<TypePtr, std::unordered_map<std::string, const Graph*>> methods;
  std::unordered_map<std::string, const Graph*> functions;
  // Inputs of the entry graph that are known: the module itself, as its first one.
  std::vector<std::optional<IValue>> boundInputs;
  // The constants whose text does not carry their exact data: the name to supply it by, and the data if it was.
  struct OpaqueConstant {
    std::string key;
    std::optional<IValue> data;
  };
  std::unordered_map<const Node*, OpaqueConstant> constants;
  // What tscompile::Engine nodes become; without it their subgraphs are interpreted.
  SegmentCompiler compileSegment = nullptr;
  SegmentCalls* segmentCalls = nullptr;  // null: segments run; must outlive the program
};

class Program {
 public:
  // Compiles `entry` and all that it calls. The graphs must outlive the program. Reports what cannot run: operators
  // that are not implemented, constants without data, calls of what is not there.
  static Result<std::shared_ptr<const Program>> compile(const Graph& entry, const OpRegistry& registry,
                                                        ProgramSources sources, Diagnostics& diagnostics);

  // Runs the entry graph. `inputs` are those that are not bound, in order. Failures are reported with the place of the
  // node; the inputs are not changed unless the graph itself writes to them.
  Result<std::vector<IValue>> run(std::span<const IValue> inputs, const RunOptions& options,
                                  Diagnostics& diagnostics) const;

  // The inputs that run() takes.
  std::vector<const Value*> inputs() const;
  const Graph& graph() const { return *entry_->graph; }
  const OpRegistry& registry() const { return *registry_; }
  const ProgramSources& sources() const { return sources_; }
  // A method of a class, or null.
  const Function* method(TypePtr type, const std::string& name) const;

 private:
  friend class ProgramCompiler;
  Program() = default;

  ProgramSources sources_;
  const OpRegistry* registry_ = nullptr;
  const Function* entry_ = nullptr;
  std::unordered_map<const Graph*, std::unique_ptr<Function>> functions_;
};

}  // namespace tscompile
