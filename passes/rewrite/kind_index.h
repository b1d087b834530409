// The nodes of a graph by their kind, kept while the graph changes.
#pragma once

#include "ir/graph/edit_log.h"
#include "ir/graph/side_table.h"

#include <unordered_map>
#include <vector>

namespace tscompile {

class KindIndex : public EditObserver {
 public:
  // Lives shorter than the log.
  explicit KindIndex(EditLog& log);
  ~KindIndex() override { log_.detach(this); }
  KindIndex(const KindIndex&) = delete;
  KindIndex& operator=(const KindIndex&) = delete;

  // In text order at first; what comes later, or comes back, stands after it. Valid until the next question.
  const std::vector<Node*>& nodes(Symbol kind);
  size_t count(Symbol kind) const;

  void imported(Node* node) override { add(node, node->kind()); }
  void pruned(Node* node) override { remove(node, node->kind()); }
  void kindChanged(Node* node, Symbol before, Symbol after) override;

 private:
  struct List {
    std::vector<Node*> nodes;  // null: has left since the last question
    size_t gone = 0;
  };
  void add(Node* node, Symbol kind);
  void remove(Node* node, Symbol kind);

  EditLog& log_;
  std::unordered_map<Symbol, List> lists_;
  NodeTable<uint32_t> place_;  // in its list, from 1 on; 0: in none
};

}  // namespace tscompile
