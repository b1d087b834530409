// Which values may refer to the same memory, what each node reads and writes, and whether two nodes may change places.
#pragma once

#include "ir/graph/graph.h"
#include "ir/graph/side_table.h"
#include "ir/operators/op_registry.h"

#include <cstdint>
#include <span>
#include <vector>

namespace tscompile {

// Memory that values may refer to, as sorted numbers. The first two stand for everything that the graph did not make
// itself: inputs, attributes of modules, what unknown operators return. Lists and dicts of nothing but numbers and
// strings, such as an input int[], are apart from all else: no tensor is one of them, or holds one.
class LocationSet {
 public:
  static constexpr uint32_t kAnywhere = 0, kPlainLists = 1;
  LocationSet() = default;
  explicit LocationSet(uint32_t location) : size_(1), few_{location} {}
  void add(uint32_t location);
  void add(const LocationSet& other);
  bool contains(uint32_t location) const;
  bool reachOutside() const { return contains(kAnywhere) || contains(kPlainLists); }
  bool intersects(const LocationSet& other) const;
  bool empty() const { return size_ == 0; }
  // The one member of a set of one, or null.
  const uint32_t* only() const { return size_ == 1 ? few_ : nullptr; }
  std::span<const uint32_t> list() const { return {size_ <= kFew ? few_ : many_.data(), size_}; }

 private:
  friend class AliasAnalysis;
  friend class AliasBuilder;
  static constexpr uint32_t kFew = 3;
  void assign(std::vector<uint32_t> sorted);

  // Nearly all sets have one member: those need no memory of their own.
  uint32_t size_ = 0;
  uint32_t few_[kFew] = {};
  std::vector<uint32_t> many_;
};

// An analysis of one graph, nested blocks included, from the alias annotations of its operators' schemas. It holds for
// all orders of execution; it is valid until the graph changes. Errs on the safe side: "may" answers can be true where
// nothing is shared.
class AliasAnalysis {
 public:
  AliasAnalysis(const Graph& graph, const OpRegistry& registry);

  // Values of types such as int, float, bool, str and None refer to no memory that can be written.
  static bool canRefer(TypePtr type);

  // False for values that are newer than the analysis.
  bool knows(const Value* value) const { return elementOf_.get(value) != 0; }
  // What the value itself refers to: of a view, the memory of its base; of a list, the list.
  const LocationSet& locations(const Value* value) const;
  // The same and, for containers, what their elements refer to, at any depth.
  LocationSet reachable(const Value* value) const;
  // Whether the values, or something inside them, may be the same memory.
  bool mayShareMemory(const Value* a, const Value* b) const;

  // Of nodes with blocks: what the nodes inside read and write.
  LocationSet reads(const Node* node) const;
  LocationSet writes(const Node* node) const;
  // Whether some node of the graph may write what the value, or something inside it, refers to.
  bool isWritten(const Value* value) const { return written_.intersects(reachable(value)); }
  // The same for what the value itself refers to: a list, but not what it holds.
  bool isWrittenItself(const Value* value) const { return written_.intersects(locations(value)); }
  bool graphHasWrites() const { return !written_.empty(); }

  // Prints, raises, draws random numbers, calls what is not known, or writes memory that others may see: such nodes
  // keep their order among themselves and are never removed.
  bool hasEffects(const Node* node) const;
  // Whether exchanging two nodes may change what the graph does, apart from one using the other's outputs: one writes
  // what the other reads or writes, or both have effects.
  bool conflict(const Node* a, const Node* b) const;

 private:
  friend class AliasBuilder;
  using Element = uint32_t;
  struct Facts {
    LocationSet writes;
    bool effects = false;
  };
  // What a set of nodes reads and does.
  struct Gathered {
    LocationSet reads, writes;
    bool effects = false;
  };
  const Facts& factsOf(const Node* node) const;
  LocationSet readsAlone(const Node* node) const;
  Gathered gather(const Node* node) const;
  LocationSet leaves(Element e) const;

  ValueTable<Element> elementOf_;       // 0 of values that refer to nothing or are newer
  std::vector<LocationSet> pointsTo_;   // of each element; none: it is a location of its own
  std::vector<Element> contents_;       // what containers at this location hold; kNone: not a container
  std::vector<LocationSet> locations_;  // of each element
  NodeTable<uint32_t> factsAt_;         // 0: nothing but reads
  std::vector<Facts> facts_;
  LocationSet written_;
};

}  // namespace tscompile
