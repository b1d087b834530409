#include "ir/values/symbol.h"

#include <deque>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace tscompile {

class SymbolTable {
 public:
  Symbol intern(std::string_view text) {
    {
      std::shared_lock lock(mutex_);
      if (auto found = map_.find(text); found != map_.end()) return Symbol(found->second);
    }
    std::unique_lock lock(mutex_);
    if (auto found = map_.find(text); found != map_.end()) return Symbol(found->second);
    size_t colons = text.find("::");
    entries_.push_back({std::string(text), hashText(text), colons == text.npos ? 0 : static_cast<uint32_t>(colons)});
    const Symbol::Entry* entry = &entries_.back();
    map_.emplace(entry->text, entry);
    return Symbol(entry);
  }

 private:
  struct Hash {
    size_t operator()(std::string_view text) const { return hashText(text); }
  };
  std::shared_mutex mutex_;
  std::deque<Symbol::Entry> entries_;
  std::unordered_map<std::string_view, const Symbol::Entry*, Hash> map_;
};

Symbol Symbol::of(std::string_view text) {
  static SymbolTable* table = new SymbolTable;  // leaked: symbols live as long as the process
  return table->intern(text);
}

}  // namespace tscompile
