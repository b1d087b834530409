// Values of a graph and where they are used.
#pragma once

#include "ir/values/type.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace tscompile {

class Block;
class Graph;
class Node;
class Value;

// One input slot of a node. The slots of a value are linked, so replacing one costs O(1).
struct Use {
  Value* value = nullptr;
  Node* user = nullptr;
  Use* next = nullptr;
  Use* previous = nullptr;
  // Which input of `user` this is.
  size_t index() const;
};

// Made by a node (an output) or by a block (a parameter). Owned by its graph.
class Value {
 public:
  TypePtr type() const { return type_; }
  void setType(TypePtr type);
  // The node that makes it, or null for a parameter.
  Node* node() const { return node_; }
  // The block that it is a parameter of, or in which its node stands.
  Block* block() const;
  Graph* graph() const;
  bool isParameter() const { return node_ == nullptr; }
  // Position among the outputs of its node or the parameters of its block.
  size_t index() const { return index_; }

  bool hasUses() const { return firstUse_ != nullptr; }
  size_t useCount() const { return useCount_; }
  class UseRange {
   public:
    class Iterator {
     public:
      explicit Iterator(Use* use) : use_(use), next_(use ? use->next : nullptr) {}
      Use& operator*() const { return *use_; }
      Iterator& operator++() {
        use_ = next_;
        next_ = use_ ? use_->next : nullptr;
        return *this;
      }
      bool operator!=(const Iterator& other) const { return use_ != other.use_; }

     private:
      Use* use_;
      Use* next_;  // the current use may be replaced while iterating
    };
    explicit UseRange(Use* first) : first_(first) {}
    Iterator begin() const { return Iterator(first_); }
    Iterator end() const { return Iterator(nullptr); }

   private:
    Use* first_;
  };
  // In the order in which the uses were made.
  UseRange uses() const { return UseRange(firstUse_); }
  Use* firstUse() const { return firstUse_; }
  void replaceAllUsesWith(Value* other);

  // The text behind "%": the given name, or the number of an unnamed value.
  std::string name() const;
  void appendName(std::string& out) const;
  // Whether it has a name that is not just a number.
  bool isNamed() const { return nameLength_ != 0 && !numericName_; }
  std::string_view givenName() const { return {name_, nameLength_}; }
  // Takes the name; an older owner is renamed as PyTorch does it. All-digit names are refused: false.
  bool setName(std::string_view name);
  uint64_t number() const { return number_; }

 private:
  friend class Graph;
  friend class Node;
  friend class Block;
  friend class EditLog;
  Value() = default;

  TypePtr type_ = nullptr;
  Node* node_ = nullptr;
  Block* parameterOf_ = nullptr;
  Use* firstUse_ = nullptr;
  Use* lastUse_ = nullptr;
  const char* name_ = nullptr;
  uint32_t nameLength_ = 0;
  uint32_t useCount_ = 0;
  uint32_t index_ = 0;
  bool numericName_ = false;
  uint64_t number_ = 0;  // of creation in its graph
  template <class T>
  friend class Pool;
};

}  // namespace tscompile
