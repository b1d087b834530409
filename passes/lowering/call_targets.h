// What calls of methods and functions mean, for the steps that look into them.
#pragma once

#include "ir/support/limits.h"
#include "passes/rewrite/rewrite.h"

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tscompile {

// A call that was inlined, told when everything that its callee calls is inlined, too.
struct CallSite {
  std::string callee;                                     // "__torch__.Net.forward", or the name of a function
  const Graph* graph;                                     // of the callee
  std::vector<std::pair<std::string, Value*>> arguments;  // by the names of the callee's inputs
  std::vector<Value*> outputs;                            // what took the place of the call's outputs
  std::vector<Node*> nodes;                               // what was made, in order, without the insides of blocks
};

// What the calls of a graph mean: the methods and functions of its module, and the object behind %self.
struct CallTargets {
  std::unordered_map<TypePtr, std::unordered_map<std::string, const Graph*>> methods;  // of a class, by its type
  std::unordered_map<std::string, const Graph*> functions;
  Ref<ObjectValue> self;                                  // null: not known
  uint64_t maxNodes = Limits().nodes;                     // of a graph whose calls are inlined
  std::function<void(const CallSite&)> onCall = nullptr;  // may be empty
  std::unordered_set<TypePtr> modes;                      // classes whose contexts call nothing: no_grad, autocast

  // The graph that a prim::CallMethod or prim::CallFunction runs, whatever the arguments, and its name; null if that is
  // not known.
  const Graph* calleeOf(const Node* call, std::string* name = nullptr) const;
};

}  // namespace tscompile
