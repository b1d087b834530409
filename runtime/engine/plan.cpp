#include "runtime/engine/plan.h"

#include "ir/support/fork_safe.h"
#include "ir/values/error.h"
#include "runtime/call/foreign_code.h"
#include "runtime/call/run_observer.h"
#include "runtime/call/session_functions.h"

namespace tscompile {

EnginePlan::EnginePlan(std::unique_ptr<const Network> network, std::shared_ptr<ArenaPool> arenas)
    : network_(std::move(network)), memory_(planMemory(*network_)), arenas_(std::move(arenas)) {}

size_t EnginePlan::bytes() const {
  constexpr size_t kLayer = 512, kTensor = 256;
  return network_->layers.size() * kLayer + network_->tensors.size() * kTensor;
}

std::unique_ptr<Frame> EnginePlan::takeFrame() const {
  {
    std::lock_guard lock(forkSafeMutex(this));
    if (!idle_.empty()) {
      std::unique_ptr<Frame> frame = std::move(idle_.back());
      idle_.pop_back();
      return frame;
    }
  }
  return std::make_unique<Frame>(*network_, memory_, *arenas_);
}

namespace {

// A layer may take long, so the clock is looked at before each.
constexpr int64_t kLayerWork = int64_t{1} << 40;

void runLayer(const Layer& layer, Frame& frame) {
  if (layer.ofOthers.empty()) [[likely]]
    return layer.run(frame);
  const ForeignCode running("a layer of ", "", layer.ofOthers);
  layer.run(frame);
}

void runObserved(const Layer& layer, size_t index, Frame& frame, RunObserver& observer) {
  RunObserver::Clock::time_point begin = RunObserver::Clock::now();
  runLayer(layer, frame);
  observer.onLayer(frame.network(), index, begin, RunObserver::Clock::now());
}

}  // namespace

void EnginePlan::run(std::span<const Tensor> tensors, std::span<IValue> outputs, RunContext& context,
                     int threads) const {
  std::unique_ptr<Frame> frame = takeFrame();
  const Layer* current = nullptr;
  try {
    frame->begin(tensors, context, threads);
    RunObserver* observer = RunObserver::current();
    for (size_t i = 0; i < network_->layers.size(); ++i) {
      current = network_->layers[i].get();
      context.checkInterrupt(kLayerWork);
      if (observer) [[unlikely]]
        runObserved(*current, i, *frame, *observer);
      else
        runLayer(*current, *frame);
    }
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = frame->value(network_->outputs[i]);
  } catch (ExecutionError& e) {
    frame->end();
    if (current && !e.node()) e.setNode(current->node);
    throw;
  } catch (...) {
    frame->end();
    if (!current) throw;
    try {
      throwSessionFailure(fmt::format("the layer '{}'", current->name()));
    } catch (ExecutionError& e) {
      e.setNode(current->node);
      throw;
    }
  }
  frame->end();
  std::lock_guard lock(forkSafeMutex(this));
  idle_.push_back(std::move(frame));
}

}  // namespace tscompile
