// Every change of a graph while it lives, recorded so that it can be taken back and made again.
#pragma once

#include "ir/graph/graph.h"

#include <memory>
#include <vector>

namespace tscompile {

// Is told of changes, those that an EditLog takes back or makes again included.
class EditObserver {
 public:
  virtual ~EditObserver() = default;
  // A node came into a block; nodes of its own blocks are announced one by one.
  virtual void imported(Node*) {}
  // A node left its block and will not come back, unless the change is taken back.
  virtual void pruned(Node*) {}
  virtual void moved(Node*) {}
  // `before` is null for an input that was added, `after` for one that was removed.
  virtual void inputChanged(Node*, size_t /*index*/, Value* /*before*/, Value* /*after*/) {}
  virtual void attributeChanged(Node*, Symbol) {}
  virtual void kindChanged(Node*, Symbol /*before*/, Symbol /*after*/) {}
  // Asked before a transaction ends: why it must not, or "".
  virtual std::string veto(const Graph&) { return {}; }
  // Changes were taken back, which was told of one by one, down to this position.
  virtual void takenBack(size_t /*position*/) {}
  // All changes are about to be forgotten: what they destroyed will be freed, positions start again.
  virtual void forgetting() {}
};

// Whether a value can still be used: not removed from its node or block, nor that from the graph.
bool isPresent(const Value* value);

// While a log is attached, what is destroyed stays in memory, so that pointers to it stay valid and nothing new takes
// its address. Taking changes back restores everything that a graph shows: the order of nodes, of uses and of
// attributes, names, types and the number that the next new value gets.
class EditLog {
 public:
  // One log at a time.
  explicit EditLog(Graph& graph);
  // Changes stay made.
  ~EditLog();
  EditLog(const EditLog&) = delete;
  EditLog& operator=(const EditLog&) = delete;

  Graph& graph() const { return graph_; }
  // How many changes are made. Grows with every change.
  size_t position() const { return position_; }
  // Takes changes back, or makes changes again that were taken back. A change after a step back forgets what was taken
  // back.
  void moveTo(size_t position);
  // Whether observers are being told of a change that is taken back.
  bool isTakingBack() const { return takingBack_; }
  // A position of its own for a change that is recorded elsewhere.
  void mark();
  // The number of changes that are known, those that were taken back included.
  size_t size() const { return entries_.size(); }
  // Forgets all changes: they can no longer be taken back, and what they destroyed is freed. Positions start at 0
  // again.
  void clear();

  void attach(EditObserver* observer);
  void detach(EditObserver* observer);
  // What the first observer that objects says, or "".
  std::string veto() const {
    for (EditObserver* o : observers_)
      if (std::string why = o->veto(graph_); !why.empty()) return why;
    return {};
  }
  size_t openTransactions = 0;  // of transaction.h

  // Calls visit(node) for each node that was created, given another input or attribute, or whose output got another
  // type since `from`, if it is still there; some nodes more than once.
  template <class Visit>
  void forEachTouched(size_t from, Visit&& visit) const {
    for (size_t i = from; i < position_; ++i)
      if (Node* n = touched(entries_[i])) visit(n);
  }
  // The nodes created since `from` that are in a block, in order of creation.
  std::vector<Node*> created(size_t from) const;

  // One change, for those who show it. What it does not concern is null or 0.
  struct Change {
    std::string_view what;  // "create", "input", ...; empty for what the log keeps for itself
    Node* node = nullptr;
    Value* value = nullptr;  // also: the former input
    Value* after = nullptr;  // the new input
    size_t index = 0;
  };
  Change changeAt(size_t position) const;

 private:
  friend class Graph;
  friend class Node;
  friend class Block;
  friend class Value;

  enum class Kind : uint8_t {
    Create,
    Destroy,
    Link,
    Unlink,
    PushInput,
    PopInput,
    SetInput,
    AddOutput,
    RemoveOutput,
    AddBlock,
    InsertParameter,
    RemoveParameter,
    SetType,
    SetNaming,
    SetAttribute,
    AddAttribute,
    RemoveAttribute,
    SetKind,
    SetPlace,
    SetSuffix,
    SetNextNumber,
    Mark,
  };
  // What some changes have to remember besides.
  struct Extra {
    std::vector<Attribute> attribute;  // none or one
    SourceRange range;
    CodeLocation location;
    Symbol symbol;
    TypePtr type = nullptr;
    std::string text;
    const char* name = nullptr;
    uint64_t number = 0;
    uint32_t nameLength = 0;
    bool numericName = false;
    bool known = false;
  };
  struct Entry {
    Kind kind;
    bool moving = false;
    uint32_t index = 0;
    uint32_t place = 0;  // with `user`: the use after which the former one stood; no user: it was the first
    Node* node = nullptr;
    Node* user = nullptr;  // also: the node that another stood before
    Value* value = nullptr;
    Value* after = nullptr;
    Block* block = nullptr;
    std::unique_ptr<Extra> extra = nullptr;
  };

  // ---- called by the graph: after creations, insertions and replacements of attributes, before other changes ----
  void created(Node* node);
  void destroyed(Node* node, const std::vector<Node*>& tree);
  void linked(Node* node);
  void unlinked(Node* node);
  void inputPushed(Node* node);
  void inputPopped(Node* node);
  void inputSet(Node* node, size_t i, Value* after);
  void outputAdded(Value* value);
  void outputRemoved(Node* node, size_t i, Value* value);
  void blockAdded(Block* block);
  void parameterInserted(Value* value);
  void parameterRemoved(Block* block, size_t i, Value* value);
  void typeSet(Value* value);
  void namingSet(Value* value);
  void attributeSet(Node* node, size_t i, Attribute::Payload before);
  void attributeAdded(Node* node);
  void attributeRemoved(Node* node, size_t i, Attribute before);
  void kindSet(Node* node, Symbol after);
  void placeSet(Node* node);
  void suffixSet(const std::string& base);
  void nextNumberSet();

  Entry& record(Entry entry);
  void undo(Entry& e);
  void swap(Entry& e);
  void redo(Entry& e);
  void forgetUndone();
  void release(Entry& e, bool made);
  static Node* touched(const Entry& e);
  void swapNaming(Value* value, Extra& extra);
  static void swapPlace(Node* node, Extra& extra);
  void swapSuffix(Extra& extra);
  void setDestroyed(Node* node, bool destroyed);
  // The place of a use in the list of its value, for PopInput and SetInput.
  static void rememberPlace(Entry& e, const Use& use);
  static Use* placeOf(const Entry& e);
  template <class Tell>
  void tell(Tell&& tell) {
    for (EditObserver* o : observers_) tell(*o);
  }

  bool moving_ = false;  // unlinking and linking are one move
  bool takingBack_ = false;
  Graph& graph_;
  std::vector<Entry> entries_;
  size_t position_ = 0;
  std::vector<EditObserver*> observers_;
};

}  // namespace tscompile
