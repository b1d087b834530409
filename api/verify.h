// Verifying: every engine of a compiled method against the interpreter, to the node that goes wrong.
#pragma once

#include "api/compile.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tscompile {

// |got - want| <= absolute + relative * |want|, for each element.
struct Tolerance {
  double relative = 1e-3, absolute = 1e-4;
};

// How far values are from those that they should be.
struct Difference {
  double largest = 0;  // |got - want|
  // The least tolerances that pass, each with the other one as it was given. Infinite if none does.
  double relative = 0, absolute = 0;
  bool within = true;
  std::string wrong = {};  // what no tolerance helps against: other sizes, a failure; empty: nothing
  // Of numbers that are not integers: the sums of |want|^2 and |got - want|^2, where both are finite.
  double signal = 0, noise = 0;
  size_t numbers = 0;        // that `signal` is of
  size_t notNumbers = 0;     // that are NaN in both
  double relativeAlone = 0;  // the least relative tolerance that passes without an absolute one; infinite if none does

  // 10 log10(signal / noise); infinite if there is no noise, or nothing else.
  double signalToNoise() const;
  void add(const Difference& other);
};
// Containers are compared item by item, dicts key by key; what else a reference leads to counts as equal.
Difference difference(const IValue& got, const IValue& want, const Tolerance& tolerance);
// One that no tolerance helps against.
Difference wrongBy(std::string what);

// One engine, all its calls taken together.
struct EngineCheck {
  const Node* node = nullptr;     // of the stitched graph
  size_t nodes = 0;               // that it has
  size_t calls = 0, planned = 0;  // the others were left to the interpreter, as a whole or in part
  size_t cut = 0;                 // calls of which engines have run a part
  Difference own;                 // on the inputs that the interpreter has computed
  Difference carried;             // on the inputs that the engines in front of it have computed
  std::string output = {};        // the first one that is out of tolerance by itself
};

// The node that goes wrong.
struct Blame {
  const Node* node = nullptr;  // of the engine's graph
  bool alone = true;           // it is wrong on the interpreter's values; else only together with those in front of it
  Difference difference;
};

struct VerifyOptions {
  Tolerance tolerance;
  bool bisect = false;  // look inside the first engine that is out of tolerance
  RunOptions run;
};

struct VerifyReport {
  std::vector<EngineCheck> engines;  // in the order of the graph; some are never called
  Difference outputs;                // of the whole method, against the module as it was given to be compiled
  std::optional<Blame> blame;
  std::shared_ptr<const Module> compiled;  // has the nodes

  bool passed() const;
  // Of all engines by themselves and of the outputs.
  Difference worst() const;
};

// Compiles the method and runs it, and the interpreter, on these inputs; they stay as they are. A module that is
// compiled already, such as that of an engine file, is taken as it is, without `spec`, and what it computes is compared
// with what the interpreter makes of its graph. Fails after reporting if the method cannot be compiled, or the
// interpreter cannot run it.
Result<VerifyReport> verifyEngines(const Module& module, const CompileSpec& spec, std::span<const IValue> inputs,
                                   const VerifyOptions& options, Diagnostics& diagnostics);

}  // namespace tscompile
