// Why a node cannot be a part of an engine.
#pragma once

#include "ir/operators/engine_support.h"

namespace tscompile {

// Thrown while an engine is made, and caught there.
struct Refusal {
  const Node* node;
  Verdict verdict;
  bool isMistake = false;    // of the converter: nothing is to be compiled with it
  bool isFailure = false;    // code of others failed, rather than refusing
  bool isOutOfRoom = false;  // a limit of the run was reached, which says nothing of the node
};

}  // namespace tscompile
