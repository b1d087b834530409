#include "runtime/interpreter/machine.h"

#include <fmt/core.h>

namespace tscompile {

Machine::~Machine() {
  while (!frames.empty()) popFrame();
}

IValue* Machine::allocate(size_t count) {
  if (chunks_.empty() || used_ + count > chunks_[chunk_].size) {
    size_t next = chunks_.empty() ? 0 : chunk_ + 1;
    // Chunks that are left over from a deeper call may be too small.
    for (; next < chunks_.size() && chunks_[next].size < count; chunks_.pop_back()) {
      context.budget().refund(chunks_.back().size * sizeof(IValue));
      slotCount_ -= chunks_.back().size;
    }
    if (next == chunks_.size()) addChunk(std::max(chunks_.empty() ? kFirstChunk : kChunk, count));
    chunk_ = next;
    used_ = 0;
  }
  IValue* p = chunks_[chunk_].slots.get() + used_;
  used_ += count;
  return p;
}

// The first chunk, which every run needs, is not counted against the memory limit.
void Machine::addChunk(size_t size) {
  if (!chunks_.empty()) {
    if (slotCount_ + size > kMaxSlots) throw ExecutionError(ErrorKind::Limit, "calls are nested too deep");
    chargeBudget(&context.budget(), size * sizeof(IValue));
  }
  chunks_.push_back({std::make_unique<IValue[]>(size), size});
  slotCount_ += size;
}

// A frame without slots is never left behind, whatever cannot be had.
void Machine::enter(const Function& function, const Instruction* caller) {
  Frame frame{&function, caller, nullptr, chunk_, used_};
  slots = frame.slots = allocate(function.slotCount);
  frames.push_back(frame);
}

const Instruction* Machine::start(const Function& function, std::span<const IValue> inputs) {
  enter(function, nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) slots[function.parameters[i]] = inputs[i];
  return function.code.data();
}

const Instruction* Machine::call(const Function& function, const Instruction* caller, size_t count,
                                 const uint32_t* moves, size_t nones) {
  context.checkInterrupt();
  if (frames.size() >= kMaxFrames) throw ExecutionError(ErrorKind::Limit, "calls are nested too deep");
  if (count + nones != function.parameters.size())
    fail(fmt::format("{} takes {} arguments, not {}", function.name, function.parameters.size(), count + nones));
  // The last results of a DifferentiableGraph are for its backward pass.
  const bool mayDrop = caller->node->kind() == sym::DifferentiableGraph && caller->outputs < function.resultCount;
  if (caller->outputs != function.resultCount && !mayDrop)
    fail(fmt::format("{} returns {} values, not {}", function.name, function.resultCount, caller->outputs));
  IValue* from = slots;
  enter(function, caller);
  for (size_t i = 0; i < count; ++i) {
    IValue& argument = from[caller->input(i)];
    if (moves && moves[i])
      slots[function.parameters[i]] = std::move(argument);
    else
      slots[function.parameters[i]] = argument;
  }
  return function.code.data();
}

void Machine::popFrame() {
  Frame& f = frames.back();
  for (uint32_t i = 0; i < f.function->slotCount; ++i) f.slots[i].reset();
  chunk_ = f.chunk;
  used_ = f.used;
  frames.pop_back();
  slots = frames.empty() ? nullptr : frames.back().slots;
}

const Instruction* Machine::finish(const Instruction* returning) {
  const Instruction* caller = frames.back().caller;
  if (!caller) {
    results.resize(returning->inputs);
    for (uint32_t i = 0; i < returning->inputs; ++i) results[i] = slots[returning->input(i)];
    popFrame();
    return nullptr;
  }
  IValue* to = frames[frames.size() - 2].slots;
  bool future = caller->node->kind() == sym::fork;
  for (uint32_t i = 0; i < caller->outputs; ++i) {
    IValue& v = slots[returning->input(i)];
    to[caller->output(i)] = future ? IValue(Ref<FutureValue>::make(v)) : v;
  }
  popFrame();
  return caller + 1;
}

}  // namespace tscompile
