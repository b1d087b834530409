// A fixed set of kinds of nodes, by their names.
#pragma once

#include "ir/values/symbol.h"

#include <initializer_list>
#include <unordered_set>

namespace tscompile {

class KindSet {
 public:
  KindSet(std::initializer_list<const char*> names) {
    for (const char* n : names) set_.insert(Symbol::of(n));
  }
  KindSet(std::initializer_list<Symbol> kinds) : set_(kinds) {}
  bool contains(Symbol kind) const { return set_.contains(kind); }

 private:
  std::unordered_set<Symbol> set_;
};

}  // namespace tscompile
