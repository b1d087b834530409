// Which engines the runs of a thread have left to the interpreter, as a whole or in part, and why.
#pragma once

#include "ir/graph/graph.h"
#include "runtime/engine/network/refusal.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tscompile {

// Watches from when it is made until it ends; of several of one thread, the latest.
class RefusalWatch {
 public:
  struct Row {
    const Graph* graph;              // of the engine; not looked at here
    std::optional<Refusal> refusal;  // nothing: the inputs do not fit the graph, or a layer has failed
    uint64_t calls = 0;
    size_t nodes = 0;     // that the interpreter had; 0: all of the engine's
    bool isTold = false;  // of what failed: a warning has told it
  };

  // What one that hands on has seen, the watch around it sees as well, once it ends.
  explicit RefusalWatch(bool handsOn = false);
  ~RefusalWatch();
  RefusalWatch(const RefusalWatch&) = delete;

  // By first call.
  const std::vector<Row>& rows() const { return rows_; }
  std::vector<Row>& rows() { return rows_; }

  static void note(const Graph& graph, const std::optional<Refusal>& refusal, size_t nodes = 0);

 private:
  void add(const Row& row);

  RefusalWatch* previous_;
  bool handsOn_;
  std::vector<Row> rows_;
};

}  // namespace tscompile
