// A graph as text and weights: what PyTorch's text rounds or leaves out goes to a safetensors file.
#include "api/lower.h"
#include "api/module_state.h"
#include "frontend/file_io.h"
#include "frontend/parse.h"
#include "ir/clone.h"
#include "ir/literal.h"
#include "ir/printer.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <cstring>
#include <set>

namespace tscompile {
namespace {

bool isDefined(const IValue& v) { return v.isTensor() && v.tensorImpl(); }

bool sameBits(const Tensor& a, const Tensor& b) {
  auto same = [](DimSpan x, DimSpan y) { return std::equal(x.begin(), x.end(), y.begin(), y.end()); };
  if (a.dtype() != b.dtype() || !same(a.sizes(), b.sizes()) || !same(a.strides(), b.strides())) return false;
  size_t bytes = static_cast<size_t>(a.numel()) * itemSize(a.dtype());
  return a.isContiguous() && (bytes == 0 || std::memcmp(a.raw(), b.raw(), bytes) == 0);
}

// Whether the text of a constant is read back as the same tensor.
bool textIsExact(const Tensor& t, TypePtr type) {
  constexpr int64_t kMostShown = 10;
  if (t.numel() > kMostShown) return false;
  Diagnostics ignored;
  Result<IValue> read = parseValue(valueText(IValue(t)), ignored, type);
  if (!read || !read->isLiteral() || read->toLiteral().kind != LiteralValue::Kind::ExactTensor) return false;
  return sameBits(read->toLiteral().data, t);
}

class PairWriter {
 public:
  PairWriter(const Graph& graph, Diagnostics& diagnostics) : graph_(cloneGraph(graph)), diagnostics_(diagnostics) {}

  bool write(const ObjectValue* self, const std::string& path, const Limits& limits) {
    if (self && !graph_->inputs().empty()) attributes(*self);
    collect();
    for (Node* n : lists_) addList(n);
    for (Node* n : tensors_) addTensor(n);
    for (Node* n : shown_)
      if (size_t items = n->output()->type()->is(TypeKind::List); !isFree(n->output()->name(), items))
        rename(n->output(), items);
    if (!good_) return false;
    if (!data_.empty() || !metadata_.empty())
      if (!writeSafetensors(weightsPath(path), data_, diagnostics_, metadata_)) return false;
    return writeText(path, limits);
  }

 private:
  static std::string weightsPath(std::string path) {
    if (endsWith(path, ".ir")) path.resize(path.size() - 3);
    return path + ".safetensors";
  }

  bool writeText(const std::string& path, const Limits& limits) {
    FileWriter file(path, diagnostics_);
    PrintOptions printing;
    printing.maxBytes = limits.printBytes;
    if (!printGraph(
            *graph_, [&](std::string_view piece) { file.write(piece); }, printing)) {
      diagnostics_.error(fmt::format("the printed text is longer than {} bytes", printing.maxBytes), ErrorKind::Limit)
          .note("the limit is set by --limit print=N");
      return false;
    }
    return file.commit();
  }

  // ---- attributes that are still read ----

  void attributes(const ObjectValue& self) {
    std::unordered_map<const Value*, std::pair<const ObjectValue*, std::string>> objects;
    objects[graph_->input(0)] = {&self, ""};
    forEachNode(*graph_, [&](Node* n) {
      const IValue* name = n->attributeValue(sym::name);
      if (n->kind() != sym::GetAttr || n->inputCount() != 1 || !name || !name->isString()) return;
      auto object = objects.find(n->input(0));
      if (object == objects.end()) return;
      const IValue* v = const_cast<ObjectValue*>(object->second.first)->find(Symbol::of(name->toString()));
      if (!v) return;
      std::string path = object->second.second + name->toString();
      if (v->isObject())
        objects[n->output()] = {&v->toObject(), path + "."};
      else if (taken_.insert(path).second)
        addAttribute(path, *v);
    });
  }

  void addAttribute(const std::string& path, const IValue& v) {
    if (isDefined(v))
      data_.emplace_back(path, v.toTensor());
    else if (v.isList() && v.toList().elementType->isTensor() && !v.toList().items.empty())
      addItems(path, v);
    else if (!v.isLiteral() && !v.isTensor())
      metadata_["attribute:" + path] = valueText(v, LiteralStyle::Plain);
  }

  // ---- constants ----

  void collect() {
    forEachNode(*graph_, [&](Node* n) {
      if (n->subgraph()) checkSubgraph(*n->subgraph());
      if (n->kind() != sym::Constant || n->outputCount() != 1) return;
      const IValue* v = n->attributeValue(sym::value);
      if (!v) return;
      if (v->isLiteral() || (isDefined(*v) && textIsExact(v->toTensor(), n->output()->type())))
        shown_.push_back(n);
      else if (isDefined(*v))
        tensors_.push_back(n);
      else if (v->isList() && v->toList().elementType->isTensor())
        (v->toList().items.empty() ? shown_ : lists_).push_back(n);
      else
        checkParts(n, *v);
    });
  }

  void refuse(const Node* n) {
    good_ = false;
    diagnostics_.error(n->range, fmt::format("the data of %{} cannot be written", n->output()->name()),
                       ErrorKind::Unsupported);
  }

  // Weights files have no place for tensors inside of other values.
  void checkParts(const Node* n, const IValue& value) {
    std::vector<const IValue*> todo{&value};
    while (!todo.empty()) {
      const IValue& v = *todo.back();
      todo.pop_back();
      if (v.isTensor()) return refuse(n);
      if (v.isList() || v.isTuple())
        for (const IValue& item : v.isList() ? v.toList().items : v.toTuple().items) todo.push_back(&item);
      if (v.isDict()) v.toDict().forEachValue([&](IValue& item) { todo.push_back(&item); });
    }
  }

  // Nor for those of graphs inside of attributes.
  void checkSubgraph(const Graph& graph) {
    std::vector<const Graph*> todo{&graph};
    while (!todo.empty()) {
      const Graph* g = todo.back();
      todo.pop_back();
      forEachNode(*g, [&](Node* n) {
        if (n->subgraph()) todo.push_back(n->subgraph());
        const IValue* v = n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
        if (!v || v->isLiteral() || (isDefined(*v) && textIsExact(v->toTensor(), n->output()->type()))) return;
        checkParts(n, *v);
      });
    }
  }

  // ---- names ----

  // Whether a tensor, or a list of `items` tensors, is read back under this name, and nothing else is. A reader of a
  // list goes on as long as it finds a next item.
  bool isFree(const std::string& name, size_t items) const {
    if (taken_.contains(name)) return false;
    for (size_t i = 0; items && i <= items; ++i)
      if (taken_.contains(name + "." + std::to_string(i))) return false;
    return true;
  }

  void rename(Value* v, size_t items) {
    std::string name;
    do name = fmt::format("constant.{}", ++renamed_);
    while (graph_->find(name) || !isFree(name, items));
    v->setName(name);
  }

  void addTensor(Node* n) {
    Value* v = n->output();
    Tensor t = n->attributeValue(sym::value)->toTensor();
    if (!isFree(v->name(), 0)) rename(v, 0);
    // The file has no strides: the type tells them.
    if (!t.isContiguous()) v->setType(dynamicType(IValue(t)));
    taken_.insert(v->name());
    data_.emplace_back(v->name(), t);
  }

  void addList(Node* n) {
    const IValue& list = *n->attributeValue(sym::value);
    if (!isFree(n->output()->name(), list.toList().items.size())) rename(n->output(), list.toList().items.size());
    taken_.insert(n->output()->name());
    addItems(n->output()->name(), list);
  }

  void addItems(const std::string& name, const IValue& list) {
    const auto& items = list.toList().items;
    for (size_t i = 0; i < items.size(); ++i) data_.emplace_back(name + "." + std::to_string(i), items[i].toTensor());
    for (size_t i = 0; i <= items.size(); ++i) taken_.insert(name + "." + std::to_string(i));
  }

  std::unique_ptr<Graph> graph_;
  Diagnostics& diagnostics_;
  std::vector<Node*> tensors_, lists_;  // constants whose data the text does not hold
  std::vector<Node*> shown_;            // others that would take data of their name
  std::vector<std::pair<std::string, Tensor>> data_;
  Metadata metadata_;
  std::set<std::string> taken_;  // names that mean something to a reader of the weights
  uint64_t renamed_ = 0;
  bool good_ = true;
};

}  // namespace

bool writeGraphWithWeights(const Graph& graph, const ObjectValue* self, const std::string& path,
                           Diagnostics& diagnostics, const Limits& limits) {
  return PairWriter(graph, diagnostics).write(self, path, limits);
}

bool Module::write(const std::string& path, Diagnostics& diagnostics, const Limits& limits) const {
  if (!state_->origin) {
    diagnostics.error("only a lowered module can be written", ErrorKind::Unsupported);
    return false;
  }
  const Graph* graph = this->graph();
  std::optional<IValue> self = bindSelf(*state_, *graph, true, diagnostics);
  return writeGraphWithWeights(*graph, self ? &self->toObject() : nullptr, path, diagnostics, limits);
}

}  // namespace tscompile
