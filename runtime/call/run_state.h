// What runs leave in the attributes of a module for those that come after.
#pragma once

#include "ir/values/ivalue.h"

#include <span>
#include <unordered_map>

namespace tscompile {

// Runs share what a module holds, and none sees what another one writes: to buffers in place, to lists, by setting
// attributes. Runs that are given one of these (RunOptions::state), one after the other, go on where the last one
// ended, as calls of a module do in PyTorch; what a run that failed has written stays, too (attributes that it has set
// do not where what was lowered writes in place as well, or was read from an engine file). Empty, the run begins with
// the module as it was loaded. For methods of one module and what was compiled of it, and for one run at a time.
// Outputs may share memory with what it holds, which later runs may write to. What it would hold of a run's inputs is
// copied.
class RunState {
 public:
  // As before the first run.
  void clear();
  bool isEmpty() const { return attributes_.empty() && copies_.empty(); }

  // What was set of an attribute of an object that all runs share; null: nothing.
  const IValue* find(const ObjectValue& object, Symbol attribute) const;
  void set(ObjectValue& object, Symbol attribute, IValue value);
  // What is written to instead of a value that all runs share, with everything in it. What two values share their
  // copies share, too.
  IValue ownCopy(const IValue& shared);
  // A view of memory of which there is a copy, that another function may have written to.
  bool isCopied(const IValue& v) const;
  // Whether a value, or something in it, is shared by all runs.
  static bool isShared(const IValue& v);

  // After a run: inputs are the caller's, who may change them or free their memory. Without memory for that, it is
  // empty and ExecutionError leaves.
  void copyInputs(std::span<const IValue> inputs);

 private:
  struct Attributes {
    Ref<ObjectValue> object;
    std::unordered_map<Symbol, IValue> values;
  };
  struct Copy {
    IValue original;  // keeps the key
    IValue copy;
  };
  IValue viewOfCopy(const IValue& v);

  std::unordered_map<const ObjectValue*, Attributes> attributes_;
  std::unordered_map<const RefCounted*, Copy> copies_;  // of tensors, their memory, and containers
};

}  // namespace tscompile
