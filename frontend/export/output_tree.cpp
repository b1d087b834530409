#include "frontend/export/output_tree.h"

#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile::exported {
namespace {

constexpr int64_t kTreeVersion = 1;

class TreeBuilder {
 public:
  TreeBuilder(ExportBuilder& builder, Json spec, Json namedTuples, std::span<Value* const> leaves)
      : b_(builder), spec_(spec), namedTuples_(namedTuples), leaves_(leaves) {}

  Value* build(Json tree) {
    Value* root = node(tree);
    if (root && next_ != leaves_.size())
      return fail(fmt::format("{} outputs are not in the tree", leaves_.size() - next_));
    return root;
  }

 private:
  Value* fail(std::string message) {
    b_.fail(spec_, "the tree of the outputs is wrong: " + message);
    return nullptr;
  }

  // The depth is bounded by that of the JSON text.
  Value* node(Json tree);
  Value* container(std::string_view type, Json tree, std::span<Value* const> parts);
  Value* tuple(std::span<Value* const> parts);
  Value* list(std::span<Value* const> parts);
  Value* named(std::string_view type, const std::vector<std::string>& keys, std::span<Value* const> parts);
  std::vector<std::string> keysOf(Json tree, size_t count);

  ExportBuilder& b_;
  Json spec_;
  Json namedTuples_;  // their fields by the name of the type
  std::span<Value* const> leaves_;
  size_t next_ = 0;
};

// The type that all parts have; null if there is none, or no part.
TypePtr commonType(std::span<Value* const> parts) {
  TypePtr type = parts.empty() ? nullptr : withoutRefinement(parts[0]->type());
  for (Value* p : parts)
    if (type && !(type->isTensor() && p->type()->isTensor()) && type != p->type()) return nullptr;
  return type && type->isTensor() ? types().tensor : type;
}

bool isIdentifier(std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  constexpr std::string_view kRest = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  return !text.empty() && kLetters.find(text[0]) != std::string_view::npos &&
         text.find_first_not_of(kRest) == std::string_view::npos;
}

Value* TreeBuilder::node(Json tree) {
  if (!tree.is(JsonTree::Kind::Object)) return fail("a part is not an object");
  Json type = tree.find("type");
  if (!type.present()) {
    if (next_ == leaves_.size()) return fail("it has more leaves than there are outputs");
    return leaves_[next_++];
  }
  std::vector<Value*> parts;
  for (Json child : items(tree.find("children_spec"))) {
    Value* part = node(child);
    if (!part) return nullptr;
    parts.push_back(part);
  }
  return container(textOf(type), tree, parts);
}

// The keys of a dict or of an object with named parts: its context is a JSON list of texts, or the name of a type.
std::vector<std::string> TreeBuilder::keysOf(Json tree, size_t count) {
  Diagnostics ignored;
  Result<JsonTree> context =
      JsonTree::parse(SourceFile::make("context", std::string(textOf(tree.find("context")))), ignored);
  if (!context) return {};
  Json list = context->root();
  if (list.is(JsonTree::Kind::String)) list = namedTuples_.find(list.text()).find("field_names");
  std::vector<std::string> keys;
  for (Json k : items(list)) keys.emplace_back(textOf(k));
  if (keys.size() != count || std::find(keys.begin(), keys.end(), "") != keys.end()) return {};
  return keys;
}

Value* TreeBuilder::container(std::string_view type, Json tree, std::span<Value* const> parts) {
  if (endsWith(type, ".tuple")) return tuple(parts);
  if (endsWith(type, "list")) return list(parts);
  std::vector<std::string> keys = keysOf(tree, parts.size());
  if (!keys.empty()) return named(type, keys, parts);
  return tuple(parts);
}

Value* TreeBuilder::tuple(std::span<Value* const> parts) {
  Value* made = b_.insert(sym::TupleConstruct, parts, 1)->output();
  std::vector<TypePtr> elements;
  for (Value* p : parts) elements.push_back(p->type());
  made->setType(tupleType(elements));
  return made;
}

Value* TreeBuilder::list(std::span<Value* const> parts) {
  TypePtr element = commonType(parts);
  return element ? b_.list(parts, element) : tuple(parts);
}

Value* TreeBuilder::named(std::string_view type, const std::vector<std::string>& keys, std::span<Value* const> parts) {
  if (TypePtr value = commonType(parts)) {
    std::vector<Value*> inputs;
    for (size_t i = 0; i < keys.size(); ++i) {
      inputs.push_back(b_.constant(IValue(keys[i])));
      inputs.push_back(parts[i]);
    }
    Value* dict = b_.insert(sym::DictConstruct, inputs, 1)->output();
    dict->setType(dictType(types().string, value));
    return dict;
  }
  Value* made = tuple(parts);
  if (!std::all_of(keys.begin(), keys.end(), isIdentifier)) return made;
  std::string_view name = type.substr(type.rfind('.') + 1);
  if (!isIdentifier(name)) name = "Output";
  made->setType(namedTupleType("__torch__." + std::string(name), made->type()->elements(), keys,
                               std::vector<std::string>(keys.size())));
  return made;
}

}  // namespace

Value* buildOutput(ExportBuilder& builder, Json spec, Json namedTuples, std::span<Value* const> leaves) {
  Diagnostics problems;
  Result<JsonTree> tree = JsonTree::parse(SourceFile::make("out_spec", std::string(textOf(spec))), problems);
  std::vector<Json> parts = tree ? items(tree->root()) : std::vector<Json>();
  if (parts.size() != 2 || !tree->root().is(JsonTree::Kind::Array) || parts[0].integer() != kTreeVersion) {
    builder.fail(spec, "the tree of the outputs is not one of version 1");
    return nullptr;
  }
  return TreeBuilder(builder, spec, namedTuples, leaves).build(parts[1]);
}

}  // namespace tscompile::exported
