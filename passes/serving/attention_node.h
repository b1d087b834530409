// The node tensorrt_llm::GPTAttention: its fields are attributes, its inputs have names, which the attribute `inputs`
// lists in their order.
#pragma once

#include "ir/graph/builder.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tscompile {

namespace sym {
inline const Symbol GptAttention = Symbol::of("tensorrt_llm::GPTAttention");
}

class AttentionNode {
 public:
  explicit AttentionNode(Node* node) : node_(node) {}
  // A node with one output and without inputs and fields, in front of the builder's point.
  static AttentionNode make(Builder& builder) { return AttentionNode(builder.insert(sym::GptAttention, {})); }
  // In text order, those in blocks as well.
  static std::vector<AttentionNode> all(const Graph& graph);

  Node* node() const { return node_; }
  // Whether `inputs` names as many inputs as there are.
  bool isWellFormed() const;
  std::vector<std::string> inputNames() const;
  // Null if there is none of this name.
  Value* input(std::string_view name) const;
  // Takes the place of the input of this name, or is inserted where plugins expect it.
  void setInput(std::string_view name, Value* value);
  // Of the field, or what it is where it is left out.
  int64_t integer(std::string_view field, int64_t otherwise) const;
  double number(std::string_view field, double otherwise) const;
  std::string text(std::string_view field, std::string_view otherwise) const;
  void set(std::string_view field, IValue value) { node_->setAttribute(Symbol::of(field), std::move(value)); }

  int64_t heads() const { return integer("num_heads", 0); }
  int64_t kvHeads() const { return integer("num_kv_heads", heads()); }
  int64_t headSize() const { return integer("head_size", 0); }

 private:
  void setInputNames(const std::vector<std::string>& names);
  Node* node_;
};

}  // namespace tscompile
