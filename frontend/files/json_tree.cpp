// Builds the tree from the JSON library's events: its own documents know no places and keep the last of several like
// keys.
#include "frontend/files/json_tree.h"

#include "ir/support/number_of_text.h"
#include "ir/support/quantities.h"
#include "ir/support/seen_bytes.h"
#include "ir/support/text.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace tscompile {

class JsonReader {
 public:
  // Reads from `begin` to `end` of the source.
  JsonReader(JsonTree& tree, size_t begin, size_t end, Diagnostics& diagnostics)
      : tree_(tree),
        diagnostics_(diagnostics),
        text_(tree.source_->text().substr(0, end)),
        begin_(begin),
        seen_(text_.data() + begin),
        last_(begin) {}

  bool read() {
    if (size_t zero = text_.find('\0', begin_);
        zero != std::string_view::npos)  // the JSON library would take it for the end
      return fail(zero, zero + 1, "the text contains a zero byte");
    SeenBytes begin(text_.data() + begin_, &seen_), end(text_.data() + text_.size(), &seen_);
    return nlohmann::json::sax_parse(begin, end, this);
  }

  bool null() { return scalar(JsonTree::Kind::Null); }
  bool boolean(bool truth) {
    if (!scalar(JsonTree::Kind::Bool)) return false;
    tree_.nodes_.back().truth = truth;
    return true;
  }
  bool number_integer(int64_t) { return number(); }
  bool number_unsigned(uint64_t) { return number(); }
  bool number_float(double, const std::string&) { return number(); }
  bool string(std::string& text) {
    if (!scalar(JsonTree::Kind::String)) return false;
    std::tie(tree_.nodes_.back().text, tree_.nodes_.back().length) = keep(text);
    return true;
  }
  bool binary(nlohmann::json::binary_t&) { TS_UNREACHABLE(); }  // JSON text has none
  bool key(std::string& name) {
    std::tie(key_, keyLength_) = keep(name);
    last_ = seen();
    return true;
  }
  bool start_object(size_t) { return open(JsonTree::Kind::Object); }
  bool start_array(size_t) { return open(JsonTree::Kind::Array); }
  bool end_object() {
    size_t object = open_.back().node;
    close();
    return checkKeys(object);
  }
  bool end_array() {
    close();
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&);

 private:
  struct Open {
    size_t node;
    size_t lastChild = 0;  // 0: none yet
  };

  size_t seen() const { return static_cast<size_t>(seen_ - text_.data()); }
  bool fail(size_t begin, size_t end, std::string message, ErrorKind kind = ErrorKind::Input) {
    diagnostics_.error({tree_.source_.get(), static_cast<uint32_t>(begin), static_cast<uint32_t>(end)},
                       std::move(message), kind);
    return false;
  }
  std::pair<uint32_t, uint32_t> keep(std::string_view text) {
    std::pair<uint32_t, uint32_t> at(static_cast<uint32_t>(tree_.texts_.size()), static_cast<uint32_t>(text.size()));
    tree_.texts_ += text;
    return at;
  }
  bool scalar(JsonTree::Kind kind) {
    if (!add(kind)) return false;
    tree_.nodes_.back().end = static_cast<uint32_t>(last_ = seen());
    return true;
  }
  // The library has looked at the byte after a number.
  bool number() {
    if (!add(JsonTree::Kind::Number)) return false;
    size_t end = text_.find_first_not_of("+-.0123456789eE", tree_.nodes_.back().begin);
    tree_.nodes_.back().end = static_cast<uint32_t>(last_ = std::min(end, text_.size()));
    return true;
  }
  bool add(JsonTree::Kind kind);
  bool open(JsonTree::Kind kind);
  void close() {
    tree_.nodes_[open_.back().node].end = static_cast<uint32_t>(last_ = seen());
    open_.pop_back();
  }
  bool checkKeys(size_t object);

  JsonTree& tree_;
  Diagnostics& diagnostics_;
  std::string_view text_;
  size_t begin_;
  const char* seen_;
  size_t last_;  // after the last token
  uint32_t key_ = 0, keyLength_ = 0;
  std::vector<Open> open_;
};

bool JsonReader::add(JsonTree::Kind kind) {
  size_t begin = std::min(text_.find_first_not_of(" \t\r\n,:", last_), text_.size());
  if (tree_.nodes_.size() == JsonTree::kMaxValues)
    return fail(begin, begin + 1, fmt::format("the text has more than {} values", JsonTree::kMaxValues),
                ErrorKind::Limit);
  size_t index = tree_.nodes_.size();
  JsonTree::Node& node = tree_.nodes_.emplace_back();
  node.kind = kind;
  node.begin = static_cast<uint32_t>(begin);
  node.key = key_;
  node.keyLength = std::exchange(keyLength_, 0);
  if (open_.empty()) return true;
  Open& parent = open_.back();
  if (parent.lastChild == 0)
    tree_.nodes_[parent.node].any = true;
  else
    tree_.nodes_[parent.lastChild].next = static_cast<uint32_t>(index);
  parent.lastChild = index;
  return true;
}

bool JsonReader::open(JsonTree::Kind kind) {
  if (!add(kind)) return false;
  last_ = seen();
  if (open_.size() == JsonTree::kMaxDepth)
    return fail(last_ - 1, last_, fmt::format("values are nested deeper than {}", JsonTree::kMaxDepth),
                ErrorKind::Limit);
  open_.push_back({tree_.nodes_.size() - 1});
  return true;
}

bool JsonReader::checkKeys(size_t object) {
  std::vector<std::pair<std::string_view, size_t>> keys;
  if (!tree_.nodes_[object].any) return true;
  for (size_t i = object + 1; i != 0; i = tree_.nodes_[i].next)
    keys.emplace_back(std::string_view(tree_.texts_).substr(tree_.nodes_[i].key, tree_.nodes_[i].keyLength), i);
  std::sort(keys.begin(), keys.end());
  auto same = std::adjacent_find(keys.begin(), keys.end(), [](auto& a, auto& b) { return a.first == b.first; });
  if (same == keys.end()) return true;
  const JsonTree::Node& second = tree_.nodes_[(same + 1)->second];
  return fail(second.begin, second.end,
              fmt::format("the object has the key {} twice", jsonQuote(abbreviate(same->first, 200))));
}

bool JsonReader::parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
  constexpr int kNumberOverflow = 406;
  size_t at = std::min(begin_ + (position > 0 ? position - 1 : 0), text_.size());
  if (error.id == kNumberOverflow) return fail(at, at + 1, "the number is too large");
  for (size_t i = begin_, n; i <= at && i < text_.size(); i += n)
    if ((n = utf8Length(text_.substr(i))) == 0) return fail(i, i + 1, "the text is not UTF-8");
  if (at >= text_.size()) return fail(text_.size(), text_.size(), "the text is not JSON: it ends too early");
  size_t length = utf8Length(text_.substr(at));
  return fail(at, at + length, fmt::format("the text is not JSON: unexpected {}", jsonQuote(text_.substr(at, length))));
}

Result<JsonTree> JsonTree::parse(SourcePtr source, Diagnostics& diagnostics) {
  size_t end = source->text().size();
  return parse(std::move(source), 0, end, diagnostics);
}

Result<JsonTree> JsonTree::parse(SourcePtr source, size_t begin, size_t end, Diagnostics& diagnostics) {
  diagnostics.keepAlive(source);
  JsonTree tree;
  tree.source_ = std::move(source);
  if (!JsonReader(tree, begin, end, diagnostics).read()) return Failed{};
  return tree;
}

JsonTree::Value JsonTree::root() const { return Value(this, 0); }

std::optional<int64_t> JsonTree::Value::integer() const {
  return is(Kind::Number) ? numberOfText<int64_t>(range().text()) : std::nullopt;
}

std::optional<double> JsonTree::Value::real() const {
  return is(Kind::Number) ? parseReal(std::string(range().text())) : std::nullopt;
}

JsonTree::Value JsonTree::Value::first() const {
  if (!node().any) return {};
  return Value(tree_, index_ + 1);
}

JsonTree::Value JsonTree::Value::next() const {
  if (node().next == 0) return {};
  return Value(tree_, node().next);
}

JsonTree::Value JsonTree::Value::find(std::string_view name) const {
  if (!is(Kind::Object)) return {};
  for (Value v = first(); v; v = v.next())
    if (v.key() == name) return v;
  return {};
}

size_t JsonTree::Value::count() const {
  size_t n = 0;
  for (Value v = first(); v; v = v.next()) ++n;
  return n;
}

std::string_view JsonTree::Value::kindText() const {
  switch (kind()) {
    case Kind::Null:
      return "null";
    case Kind::Bool:
      return "a bool";
    case Kind::Number:
      return "a number";
    case Kind::String:
      return "a string";
    case Kind::Array:
      return "a list";
    case Kind::Object:
      return "an object";
  }
  TS_UNREACHABLE();
}

}  // namespace tscompile
