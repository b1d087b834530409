// Where the time of runs goes: what engines and the interpreter do, summed up, and each event of the quickest run.
#pragma once

#include "ir/graph/node.h"
#include "runtime/call/run_observer.h"

#include <array>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace tscompile {

class OpRegistry;

class RunProfile : public RunObserver {
 public:
  // The registry of the module that runs, which has to stay.
  explicit RunProfile(const OpRegistry& registry) : registry_(&registry) {}
  // What the run that goes on adds.
  struct Addition {
    double time = 0, bytes = 0;
    size_t calls = 0;
  };
  struct Layer {
    std::string name, why, shapes, node;  // why: a kernel runs though the operator has a converter
    const Node* source = nullptr;         // the first node that it computes; may be null
    bool isNative = true;                 // else a reference kernel
    double flops = 0, bytes = 0;          // of one call
    double time = 0;                      // microseconds, of all runs
    size_t calls = 0;
    size_t live = 0;  // bytes of the engine's memory that hold something while it runs
    Addition now = {};
  };
  // A node that the interpreter has run.
  struct Interpreted {
    std::string name, node;
    const Node* source = nullptr;
    double bytes = 0, time = 0;  // of all runs
    size_t calls = 0;
    Addition now = {};
  };
  struct Engine {
    std::vector<Layer> layers;
    size_t arena = 0;  // bytes that it takes from the run
    double time = 0;
    size_t calls = 0;
    Addition now = {};
    double layerTime() const;
  };
  struct Event {
    size_t engine, layer;  // engine: kNone for the interpreter; layer: kWhole for the engine itself
    Clock::time_point begin, end;
    size_t memory;  // bytes that hold something then
  };
  // What another thread did for the run, without a pause.
  struct Work {
    Clock::time_point begin, end;
  };
  static constexpr size_t kWhole = SIZE_MAX, kNone = SIZE_MAX;
  static constexpr size_t kMostEvents = 1'000'000;

  void onLayer(const Network& network, size_t layer, Clock::time_point begin, Clock::time_point end) override;
  void onEngine(const Network& network, Clock::time_point begin, Clock::time_point end) override;
  void onNode(const Node* node, size_t bytes, Clock::time_point begin, Clock::time_point end) override;
  void onChunk(int thread, Clock::time_point begin, Clock::time_point end) override;

  void startRun();
  // Sums up what the run took. With `leavesOutDisturbed` not if it was longer by half than the quickest one: other work
  // had the processor, and some layer has its time. If it was so much quicker than those before, they go.
  void endRun();
  bool leavesOutDisturbed = false;

  double inEngines() const;
  // The time of all that was timed by itself.
  double timed() const;
  double perRun(double sum) const { return sum / static_cast<double>(runs); }
  // Which part of the time layers take that are native, and those that are not; the rest is the interpreter's, and
  // between them.
  double layerShare(bool native) const;
  double interpreterShare() const;
  // What layers and nodes of one name take together, those that take longest first: by module, where a module has what
  // its inner ones take ("layer3", "layer3.1", "layer3.1.conv2"; empty: of no known module), or by operator.
  struct Total {
    std::string name;
    double time = 0, flops = 0, bytes = 0;  // of all runs
    size_t parts = 0;                       // layers and nodes
  };
  std::vector<Total> totalsByModule() const;
  std::vector<Total> totalsByOperator() const;
  // Microseconds from the start of the quickest run.
  double since(Clock::time_point at) const;

  std::vector<Engine> engines;
  std::vector<Interpreted> nodes;
  Interpreted calls;  // of engines, with all that they do
  double steps = 0;   // microseconds of what the interpreter does for no node: constants, jumps, dropping values
  // What happened in a run. `work`: by threads; the first one's is in `events`. `dropped`: events beyond kMostEvents.
  struct Recording {
    Clock::time_point begin;
    std::vector<Event> events;
    std::array<std::vector<Work>, 128> work;
    size_t dropped = 0;
  };
  Recording quickest;
  double time = 0;  // microseconds, of all runs
  size_t runs = 0, leftOut = 0;

 private:
  template <class Visit>
  void forEachPart(Visit visit);
  void forgetRuns();
  void keep(Event event);
  template <class NamesOf>
  std::vector<Total> totals(NamesOf namesOf) const;
  size_t indexOf(const Network& network);

  Recording now_;
  double quickestTime_ = 0;  // microseconds
  Addition stepsNow_;
  std::map<const Network*, size_t> index_;
  std::unordered_map<const Node*, size_t> nodeIndex_;
  const OpRegistry* registry_;
};

}  // namespace tscompile
