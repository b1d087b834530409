// What an analysis knows of the nodes, blocks or values of one graph: an array beside it.
#pragma once

#include "ir/graph/graph.h"

#include <vector>

namespace tscompile {

// Entries start as T(). Objects made after the table may be looked up once they were set.
template <class Key, class T>
class SideTable {
 public:
  SideTable() = default;
  explicit SideTable(const Graph& graph) : entries_(graph.idLimit(static_cast<const Key*>(nullptr))) {}

  typename std::vector<T>::reference operator[](const Key* key) {
    uint32_t id = Graph::idOf(key);
    if (id >= entries_.size()) entries_.resize(id + 1);
    return entries_[id];
  }
  typename std::vector<T>::const_reference operator[](const Key* key) const { return entries_[Graph::idOf(key)]; }
  // T() for objects made after the table that were not set.
  T get(const Key* key) const {
    uint32_t id = Graph::idOf(key);
    return id < entries_.size() ? entries_[id] : T();
  }

 private:
  std::vector<T> entries_;
};
template <class T>
using NodeTable = SideTable<Node, T>;
template <class T>
using BlockTable = SideTable<Block, T>;
template <class T>
using ValueTable = SideTable<Value, T>;

}  // namespace tscompile
