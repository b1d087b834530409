// Interned names: node kinds ("aten::add"), attribute names, scopes. Compared by pointer; never freed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tscompile {

class Symbol {
 public:
  constexpr Symbol() = default;
  static Symbol of(std::string_view text);

  std::string_view text() const { return entry_ ? std::string_view(entry_->text) : std::string_view(); }
  // "aten" of "aten::add"; empty if there is no "::".
  std::string_view nameSpace() const { return text().substr(0, entry_ ? entry_->colons : 0); }
  // "add" of "aten::add".
  std::string_view name() const { return entry_ && entry_->colons ? text().substr(entry_->colons + 2) : text(); }
  bool empty() const { return entry_ == nullptr; }
  // A hash of the text, the same in every run.
  uint64_t hash() const { return entry_ ? entry_->hash : 0; }

  friend bool operator==(Symbol a, Symbol b) { return a.entry_ == b.entry_; }
  // Order of the texts, so that sorting does not depend on addresses.
  friend bool operator<(Symbol a, Symbol b) { return a.text() < b.text(); }

 private:
  struct Entry {
    std::string text;
    uint64_t hash;
    uint32_t colons;  // where "::" is; 0: nowhere
  };
  friend class SymbolTable;
  explicit constexpr Symbol(const Entry* entry) : entry_(entry) {}
  const Entry* entry_ = nullptr;
};

// FNV-1a, finished so that the low bits can index a table.
inline uint64_t hashText(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325;
  for (unsigned char c : text) h = (h ^ c) * 0x100000001b3;
  h ^= h >> 32;
  h *= 0x9e3779b97f4a7c15;
  return h ^ (h >> 29);
}
inline uint64_t hashCombine(uint64_t a, uint64_t b) {
  a ^= b + 0x9e3779b97f4a7c15 + (a << 6) + (a >> 2);
  a *= 0xff51afd7ed558ccd;
  return a ^ (a >> 33);
}

// Kinds and attribute names that the code names.
namespace sym {
#define TS_PRIM(name) inline const Symbol name = Symbol::of("prim::" #name);
TS_PRIM(Constant)
TS_PRIM(If)
TS_PRIM(Loop)
TS_PRIM(Return)
TS_PRIM(TupleConstruct)
TS_PRIM(TupleUnpack)
TS_PRIM(TupleIndex)
TS_PRIM(TupleSlice)
TS_PRIM(ListConstruct)
TS_PRIM(ListUnpack)
TS_PRIM(DictConstruct)
TS_PRIM(GetAttr)
TS_PRIM(SetAttr)
TS_PRIM(CallMethod)
TS_PRIM(CallFunction)
TS_PRIM(CreateObject)
TS_PRIM(isinstance)
TS_PRIM(unchecked_cast)
TS_PRIM(Uninitialized)
TS_PRIM(RaiseException)
TS_PRIM(Enter)
TS_PRIM(Exit)
TS_PRIM(fork)
TS_PRIM(PythonOp)
TS_PRIM(DifferentiableGraph)
TS_PRIM(NumToTensor)
#undef TS_PRIM
inline const Symbol value = Symbol::of("value");
inline const Symbol name = Symbol::of("name");
inline const Symbol types = Symbol::of("types");
inline const Symbol Engine = Symbol::of("tscompile::Engine");
inline const Symbol Subgraph = Symbol::of("Subgraph");
}  // namespace sym

}  // namespace tscompile

template <>
struct std::hash<tscompile::Symbol> {
  size_t operator()(tscompile::Symbol s) const { return s.hash(); }
};
