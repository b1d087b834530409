// Is told what engines and the interpreter do while a graph runs, for profiles.
#pragma once

#include <chrono>
#include <cstddef>

namespace tscompile {

class Network;
class Node;

class RunObserver {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~RunObserver() = default;
  // A layer of an engine has run.
  virtual void onLayer(const Network& network, size_t layer, Clock::time_point begin, Clock::time_point end) = 0;
  // All of the engine's layers have run; the time is that of the whole call.
  virtual void onEngine(const Network& network, Clock::time_point begin, Clock::time_point end) = 0;
  // The interpreter has run a node. `bytes` are those of the tensors that it took and gave; the time of an engine's
  // node is that of the engine and of what it takes to call it. Null: steps that belong to no node.
  virtual void onNode(const Node* node, size_t bytes, Clock::time_point begin, Clock::time_point end) = 0;
  // Another thread has worked for the run, and tells so before the run goes on: the run's thread is 0, and only the
  // thread itself calls with its number.
  virtual void onChunk(int thread, Clock::time_point begin, Clock::time_point end) {
    static_cast<void>(thread), static_cast<void>(begin), static_cast<void>(end);
  }

  // The one that runs of this thread tell; null if nobody wants to know.
  static RunObserver* current();

 private:
  friend class ObserverScope;
  static thread_local RunObserver* current_;
};

// Makes an observer the current one of this thread.
class ObserverScope {
 public:
  explicit ObserverScope(RunObserver& observer);
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;

 private:
  RunObserver* previous_;
};

}  // namespace tscompile
