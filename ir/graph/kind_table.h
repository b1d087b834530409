// The kinds of a graph's nodes, side by side: a walk over the nodes themselves waits for memory at every one.
#pragma once

#include "ir/values/symbol.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tscompile {

class KindTable {
 public:
  // How many nodes of the graph are of this kind; those that were made but stand nowhere yet are counted, too.
  size_t count(Symbol kind) const { return slots_.empty() ? 0 : counts_[slots_[place(kind)].number]; }

  // Calls visit(id) for the nodes of the wanted kinds, by increasing id.
  template <class Wants, class Visit>
  void forEach(const Wants& wants, const Visit& visit) const {
    std::vector<uint8_t> wanted(counts_.size());
    for (const Slot& s : slots_) wanted[s.number] = !s.kind.empty() && counts_[s.number] && wants(s.kind);
    for (uint32_t id = 0; id < numbers_.size(); ++id)
      if (wanted[numbers_[id]]) visit(id);
  }

  // No kind: there is no such node (any more).
  void set(uint32_t id, Symbol kind);

 private:
  struct Slot {
    Symbol kind;
    uint32_t number = 0;
  };
  size_t place(Symbol kind) const {
    size_t mask = slots_.size() - 1, i = kind.hash() & mask;
    while (!slots_[i].kind.empty() && slots_[i].kind != kind) i = (i + 1) & mask;
    return i;
  }
  uint32_t numberOf(Symbol kind);

  std::vector<Slot> slots_;        // open addressing; the size is a power of two
  std::vector<size_t> counts_{0};  // by number; nothing is of number 0
  std::vector<uint32_t> numbers_;  // by id
};

}  // namespace tscompile
