// The history of a graph in steps with reasons, which can be walked and exported.
#pragma once

#include "ir/graph/edit_log.h"
#include "ir/values/bounded_text.h"

#include <optional>
#include <string>
#include <vector>

namespace tscompile {

// State k is the graph after k steps; state 0 is how it was found. While a state before the last one is shown, the
// graph may be read; a change there forgets the steps after it.
class Journal {
 public:
  // Uses the log that is attached to the graph, or attaches one for its own life.
  explicit Journal(Graph& graph);

  // What has changed since the last step is one step, made for this reason; nothing if nothing has changed.
  void step(std::string reason);

  size_t size() const { return steps_.size(); }
  // The state that is shown: between 0 and size().
  size_t current() const { return current_; }
  // Of the step from state k to state k + 1.
  const std::string& reason(size_t k) const { return steps_[k].reason; }

  // Changes that belong to no step yet become one, without a reason.
  void goTo(size_t state);
  void start() { goTo(0); }
  void end();
  // False if there is none.
  bool next();
  bool previous();

  // One JSON object a line: `{"step": 0, "reason": "...", "edits": [{"edit": "create", "node": "..."}]}`. The graph is
  // shown as it was afterwards.
  void write(const TextSink& sink);
  std::string text();

 private:
  struct Step {
    std::string reason;
    size_t end;  // position of the log
  };
  size_t positionOf(size_t state) const { return state ? steps_[state - 1].end : begin_; }
  void followLog();

  std::optional<EditLog> own_;
  EditLog& log_;
  size_t begin_;
  std::vector<Step> steps_;
  size_t current_ = 0;
};

}  // namespace tscompile
