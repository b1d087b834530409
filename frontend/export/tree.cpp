#include "frontend/export/tree.h"

#include "ir/support/text.h"

#include <algorithm>
#include <charconv>

namespace tscompile::exported {
namespace {

constexpr int64_t kTreeVersion = 1;

// Keys that are all texts or all numbers, as many as there are parts.
std::vector<std::string> keysIn(Json list, size_t count, bool& hasNumbers) {
  std::vector<std::string> keys;
  std::vector<Json> all = items(list);
  hasNumbers = !all.empty() && std::all_of(all.begin(), all.end(), [](Json k) { return k.integer().has_value(); });
  for (Json k : all) keys.emplace_back(hasNumbers ? std::to_string(*k.integer()) : std::string(textOf(k)));
  bool good = keys.size() == count && std::find(keys.begin(), keys.end(), "") == keys.end();
  return good ? keys : std::vector<std::string>();
}

// The keys of a dict or of an object with named parts: its context is a JSON list of texts, the name of a type, or that
// of a dict with defaults.
std::vector<std::string> keysOf(Json context, Json namedTuples, size_t count, bool& hasNumbers) {
  if (context.is(JsonTree::Kind::Object)) return keysIn(context.find("dict_context"), count, hasNumbers);
  Diagnostics ignored;
  Result<JsonTree> text = JsonTree::parse(SourceFile::make("context", std::string(textOf(context))), ignored);
  if (!text) return {};
  Json list = text->root();
  if (list.is(JsonTree::Kind::String)) list = namedTuples.find(list.text()).find("field_names");
  return keysIn(list, count, hasNumbers);
}

// Of a named tuple, whose context is the name of its type, or of an object: the fields that are there and those that
// are None.
void readFields(Json context, Json namedTuples, Tree& out) {
  bool hasNumbers = false;
  if (Json named = namedTuples.find(textOf(context))) {
    out.fields = keysIn(named.find("field_names"), out.parts.size(), hasNumbers);
    return;
  }
  Diagnostics ignored;
  Result<JsonTree> text = JsonTree::parse(SourceFile::make("context", std::string(textOf(context))), ignored);
  if (!text || !text->root().is(JsonTree::Kind::Array)) return;
  const std::vector<Json> lists = items(text->root());
  if (!lists.empty()) out.fields = keysIn(lists[0], out.parts.size(), hasNumbers);
  if (lists.size() > 1) out.noneFields = keysIn(lists[1], items(lists[1]).size(), hasNumbers);
}

// The depth is bounded by that of JSON texts.
bool readNode(Json json, Json namedTuples, Tree& out) {
  if (!json.is(JsonTree::Kind::Object)) return false;
  Json type = json.find("type");
  if (!type.present()) return true;
  out.type = textOf(type);
  for (Json child : items(json.find("children_spec")))
    if (!readNode(child, namedTuples, out.parts.emplace_back())) return false;
  out.kind = Tree::Kind::Tuple;
  if (endsWith(out.type, "list")) out.kind = Tree::Kind::List;
  if (endsWith(out.type, ".tuple") || endsWith(out.type, "list")) return true;
  // Without keys that are texts or numbers, what a dict holds is a tuple.
  out.keys = keysOf(json.find("context"), namedTuples, out.parts.size(), out.hasNumbers);
  bool isDict = !out.keys.empty() || endsWith(out.type, "dict") || endsWith(out.type, "Dict");
  if (isDict && out.keys.size() == out.parts.size()) out.kind = Tree::Kind::Dict;
  if (out.kind == Tree::Kind::Tuple) readFields(json.find("context"), namedTuples, out);
  return true;
}

bool isIdentifier(std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  constexpr std::string_view kRest = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  return !text.empty() && kLetters.find(text[0]) != std::string_view::npos &&
         text.find_first_not_of(kRest) == std::string_view::npos;
}

class Packer {
 public:
  Packer(ExportBuilder& builder, std::span<Value* const> leaves) : b_(builder), leaves_(leaves) {}

  Value* pack(const Tree& tree) {
    if (tree.kind == Tree::Kind::Leaf) return leaves_[next_++];
    std::vector<Value*> parts;
    for (const Tree& part : tree.parts) parts.push_back(pack(part));
    TypePtr common = commonType(parts);
    if (tree.kind == Tree::Kind::List && common) return b_.list(parts, common);
    if (tree.kind == Tree::Kind::Dict) return common ? dict(tree, parts, common) : namedTuple(tree, tree.keys, parts);
    if (tree.fields.size() != parts.size()) return tuple(parts);
    std::vector<std::string> names = tree.fields;
    for (const std::string& name : tree.noneFields) {
      names.push_back(name);
      parts.push_back(b_.constant(IValue()));
    }
    return namedTuple(tree, names, parts);
  }

 private:
  // The type that all parts have; null if there is none, or no part.
  static TypePtr commonType(std::span<Value* const> parts) {
    auto plain = [](const Value* v) { return v->type()->isTensor() ? types().tensor : v->type(); };
    TypePtr type = parts.empty() ? nullptr : plain(parts[0]);
    return std::all_of(parts.begin(), parts.end(), [&](const Value* p) { return plain(p) == type; }) ? type : nullptr;
  }

  Value* tuple(std::span<Value* const> parts) {
    Value* made = b_.insert(sym::TupleConstruct, parts, 1)->output();
    std::vector<TypePtr> elements;
    for (Value* p : parts) elements.push_back(p->type());
    made->setType(tupleType(elements));
    return made;
  }

  Value* dict(const Tree& tree, std::span<Value* const> parts, TypePtr value) {
    std::vector<Value*> inputs;
    for (size_t i = 0; i < parts.size(); ++i) {
      inputs.push_back(b_.constant(tree.keyValue(i)));
      inputs.push_back(parts[i]);
    }
    Value* made = b_.insert(sym::DictConstruct, inputs, 1)->output();
    made->setType(dictType(tree.keyType(), value));
    return made;
  }

  Value* namedTuple(const Tree& tree, const std::vector<std::string>& names, std::span<Value* const> parts) {
    Value* made = tuple(parts);
    if (parts.empty() || !std::all_of(names.begin(), names.end(), isIdentifier)) return made;
    std::string name = tree.type.substr(tree.type.rfind('.') + 1);
    if (!isIdentifier(name)) name = "Output";
    made->setType(
        namedTupleType("__torch__." + name, made->type()->elements(), names, std::vector<std::string>(names.size())));
    return made;
  }

  ExportBuilder& b_;
  std::span<Value* const> leaves_;
  size_t next_ = 0;
};

}  // namespace

size_t Tree::leafCount() const {
  if (kind == Kind::Leaf) return 1;
  size_t count = 0;
  for (const Tree& part : parts) count += part.leafCount();
  return count;
}

IValue Tree::keyValue(size_t i) const {
  int64_t number = 0;
  if (!hasNumbers) return IValue(keys[i]);
  std::from_chars(keys[i].data(), keys[i].data() + keys[i].size(), number);
  return number;
}
TypePtr Tree::keyType() const { return hasNumbers ? types().integer : types().string; }

std::optional<Tree> readTree(ExportBuilder& builder, Json spec, Json namedTuples) {
  Diagnostics problems;
  Result<JsonTree> json = JsonTree::parse(SourceFile::make("spec", std::string(textOf(spec))), problems);
  std::vector<Json> parts = json ? items(json->root()) : std::vector<Json>();
  Tree tree;
  if (parts.size() == 2 && parts[0].integer() == kTreeVersion && readNode(parts[1], namedTuples, tree)) return tree;
  builder.fail(spec, "the tree of inputs or outputs is not one of version 1");
  return std::nullopt;
}

Value* packOutput(ExportBuilder& builder, const Tree& tree, std::span<Value* const> leaves) {
  TS_CHECK(tree.leafCount() == leaves.size());
  return Packer(builder, leaves).pack(tree);
}

TypePtr inputType(const Tree& tree) {
  if (tree.kind == Tree::Kind::Leaf) return types().tensor;
  std::vector<TypePtr> parts;
  for (const Tree& part : tree.parts) {
    parts.push_back(inputType(part));
    if (!parts.back()) return nullptr;
  }
  if (tree.kind == Tree::Kind::Tuple) return tupleType(parts);
  bool same = !parts.empty() && std::all_of(parts.begin(), parts.end(), [&](TypePtr t) { return t == parts[0]; });
  if (!same) return nullptr;
  return tree.kind == Tree::Kind::List ? listType(parts[0]) : dictType(tree.keyType(), parts[0]);
}

namespace {
void addLeafPaths(const Tree& tree, bool byFields, std::vector<std::string> path,
                  std::vector<std::vector<std::string>>& out) {
  if (tree.kind == Tree::Kind::Leaf) {
    out.push_back(std::move(path));
    return;
  }
  for (size_t i = 0; i < tree.parts.size(); ++i) {
    path.push_back(tree.kind == Tree::Kind::Dict        ? tree.keys[i]
                   : byFields && i < tree.fields.size() ? tree.fields[i]
                                                        : std::to_string(i));
    addLeafPaths(tree.parts[i], byFields, path, out);
    path.pop_back();
  }
}
}  // namespace

std::vector<std::vector<std::string>> leafPaths(const Tree& tree, bool byFields) {
  std::vector<std::vector<std::string>> out;
  addLeafPaths(tree, byFields, {}, out);
  return out;
}

void unpackInput(ExportBuilder& b, const Tree& tree, Value* value, std::vector<std::string> path,
                 std::vector<InputLeaf>& out) {
  if (tree.kind == Tree::Kind::Leaf) {
    out.push_back({value, std::move(path)});
    return;
  }
  bool isDict = tree.kind == Tree::Kind::Dict;
  Node* unpack = isDict ? nullptr
                        : b.insert(tree.kind == Tree::Kind::Tuple ? sym::TupleUnpack : sym::ListUnpack, {value},
                                   tree.parts.size());
  for (size_t i = 0; i < tree.parts.size(); ++i) {
    Value* part = isDict ? b.insert(Symbol::of("aten::__getitem__"), {value, b.constant(tree.keyValue(i))}, 1)->output()
                         : unpack->output(i);
    part->setType(inputType(tree.parts[i]));
    path.push_back(isDict ? tree.keys[i] : std::to_string(i));
    unpackInput(b, tree.parts[i], part, path, out);
    path.pop_back();
  }
}

}  // namespace tscompile::exported
