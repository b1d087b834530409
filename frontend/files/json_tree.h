// A JSON text as a tree that knows where everything stands, for files whose mistakes are to be pointed at.
#pragma once

#include "ir/support/diagnostics.h"
#include "ir/support/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

class JsonTree {
 public:
  enum class Kind : uint8_t { Null, Bool, Number, String, Array, Object };
  class Value;

  // Reports what is not JSON, an object that has a key twice, what is nested deeper than kMaxDepth or has more than
  // kMaxValues values. The tree is 32 bytes for each value besides its strings.
  static Result<JsonTree> parse(SourcePtr source, Diagnostics& diagnostics);
  // The same of the bytes from `begin` to `end`: a line of a file of JSON lines.
  static Result<JsonTree> parse(SourcePtr source, size_t begin, size_t end, Diagnostics& diagnostics);
  static constexpr size_t kMaxDepth = 64;
  static constexpr size_t kMaxValues = size_t{1} << 23;

  Value root() const;
  const SourcePtr& source() const { return source_; }

 private:
  friend class JsonReader;
  struct Node {
    uint32_t begin = 0, end = 0;    // in the source
    uint32_t text = 0, length = 0;  // in texts_: of a string
    uint32_t key = 0, keyLength = 0;
    uint32_t next = 0;  // the sibling after it; 0: none
    Kind kind = Kind::Null;
    bool truth = false;
    bool any = false;  // an array or object that is not empty: the first child is the node after it
  };

  SourcePtr source_;
  std::vector<Node> nodes_;
  std::string texts_;
};

// Belongs to a tree, which must outlive it. A default-constructed one stands for what is not there; it may only be
// asked whether it is something, and for members, which it has not.
class JsonTree::Value {
 public:
  Value() = default;
  explicit operator bool() const { return tree_ != nullptr; }
  bool is(Kind kind) const { return tree_ && node().kind == kind; }
  // There, and not null.
  bool present() const { return tree_ && node().kind != Kind::Null; }
  Kind kind() const { return node().kind; }
  SourceRange range() const { return {tree_->source_.get(), node().begin, node().end}; }
  // Of a string.
  std::string_view text() const { return std::string_view(tree_->texts_).substr(node().text, node().length); }
  bool truth() const { return node().truth; }
  // A number without fraction and exponent, if it fits.
  std::optional<int64_t> integer() const;
  // Any number.
  std::optional<double> real() const;
  // Of a member of an object.
  std::string_view key() const { return std::string_view(tree_->texts_).substr(node().key, node().keyLength); }
  // Members or items in their order: for (Value v = x.first(); v; v = v.next()).
  Value first() const;
  Value next() const;
  // The member of this name, if this is an object that has it.
  Value find(std::string_view name) const;
  size_t count() const;
  // "a number": for messages.
  std::string_view kindText() const;

 private:
  friend class JsonTree;
  Value(const JsonTree* tree, size_t index) : tree_(tree), index_(index) {}
  const Node& node() const { return tree_->nodes_[index_]; }

  const JsonTree* tree_ = nullptr;
  size_t index_ = 0;
};

}  // namespace tscompile
