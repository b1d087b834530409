#include "ir/graph/kind_table.h"

namespace tscompile {

uint32_t KindTable::numberOf(Symbol kind) {
  if (kind.empty()) return 0;
  if (counts_.size() * 2 > slots_.size()) {
    std::vector<Slot> old(slots_.empty() ? 32 : slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& s : old)
      if (s.number) slots_[place(s.kind)] = s;
  }
  Slot& slot = slots_[place(kind)];
  if (!slot.number) {
    slot = {kind, static_cast<uint32_t>(counts_.size())};
    counts_.push_back(0);
  }
  return slot.number;
}

void KindTable::set(uint32_t id, Symbol kind) {
  if (id >= numbers_.size()) numbers_.resize(id + 1);
  uint32_t& number = numbers_[id];
  if (number) --counts_[number];
  number = numberOf(kind);
  if (number) ++counts_[number];
}

}  // namespace tscompile
