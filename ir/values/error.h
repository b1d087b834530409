// The one exception type: execution or inference of a node cannot go on. The interpreter and shape propagation catch it
// at the node and add the place; no exception leaves a folder's door.
#pragma once

#include "ir/support/diagnostics.h"

#include <exception>
#include <string>

namespace tscompile {

class Node;

class ExecutionError : public std::exception {
 public:
  ExecutionError(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  // Where it happened; null: at the node that is running.
  const Node* node() const { return node_; }
  void setNode(const Node* node) { node_ = node; }

 private:
  ErrorKind kind_;
  std::string message_;
  const Node* node_ = nullptr;
};

}  // namespace tscompile
