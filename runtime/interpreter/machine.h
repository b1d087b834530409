// The state of one run: frames of slots on the heap, so that neither calls nor nested blocks use the stack.
#pragma once

#include "ir/values/error.h"
#include "runtime/call/run_state.h"
#include "runtime/interpreter/program.h"

#include <memory>
#include <vector>

namespace tscompile {

class Machine {
 public:
  Machine(const Program& program, RunContext& context)
      : program(program), context(context), state_(context.options().state ? context.options().state : &ownState_) {}
  ~Machine();

  // Calls `function` with the first `count` inputs of `caller`; those that `moves` marks (if it is given) are taken out
  // of the caller's slots. The results go to the caller's outputs. Returns the first instruction of the callee.
  // Arguments that the caller does not have are None.
  const Instruction* call(const Function& function, const Instruction* caller, size_t count, const uint32_t* moves,
                          size_t nones = 0);
  // Ends the current frame; moves its results out and returns where to go on. Null: the run is over.
  const Instruction* finish(const Instruction* returning);
  const Instruction* start(const Function& function, std::span<const IValue> inputs);

  IValue& slot(uint32_t i) { return slots[i]; }
  [[noreturn]] static void fail(std::string message) { throw ExecutionError(ErrorKind::Model, std::move(message)); }

  struct Frame {
    const Function* function;
    const Instruction* caller;  // the call that made it; null for the entry
    IValue* slots;
    size_t chunk, used;  // of the slot memory, to give back
  };

  const Program& program;
  RunContext& context;
  IValue* slots = nullptr;  // of the current frame
  std::vector<Frame> frames;
  std::vector<IValue> results;
  RunState& state() { return *state_; }

 private:
  RunState ownState_;
  RunState* state_;
  static constexpr size_t kFirstChunk = 64, kChunk = 4096;  // slots
  static constexpr size_t kMaxFrames = 100'000;
  static constexpr size_t kMaxSlots = size_t{1} << 26;
  struct Chunk {
    std::unique_ptr<IValue[]> slots;
    size_t size;
  };
  void enter(const Function& function, const Instruction* caller);
  IValue* allocate(size_t count);
  void addChunk(size_t size);
  void popFrame();
  std::vector<Chunk> chunks_;
  size_t chunk_ = 0, used_ = 0;
  size_t slotCount_ = 0;  // of all chunks
};

// Handlers of the prim:: nodes that depend on more than their inputs: attributes, output types, the module. Null if
// there is none for this kind.
Handler structureHandler(Symbol kind);
// prim::GetAttr of a tensor that its graph writes to: what belongs to the module is copied for the run.
extern const Handler kGetAttrToWrite;
// An operator that is not implemented, in a branch that may not be taken.
extern const Handler kNotImplemented;
// All kinds that have one, and those that the compiler turns into jumps and calls.
std::vector<Symbol> structureKinds();

}  // namespace tscompile
