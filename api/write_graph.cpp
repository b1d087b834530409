// A graph as text and weights: what PyTorch's text rounds or leaves out goes to a safetensors file.
#include "api/exported_sizes.h"
#include "api/lower.h"
#include "api/module_state.h"
#include "api/support/graph_parts.h"
#include "frontend/files/attribute_tensors.h"
#include "frontend/files/file_io.h"
#include "frontend/files/section_file.h"
#include "frontend/files/shared_parts.h"
#include "frontend/text/parse.h"
#include "ir/analysis/alias.h"
#include "ir/graph/clone.h"
#include "ir/graph/printer.h"
#include "ir/support/remedy.h"
#include "ir/support/text.h"
#include "ir/values/literal.h"
#include "passes/lowering/clean_up.h"
#include "runtime/ops/quantized/packed_params.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/registry.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

namespace tscompile {
namespace {

bool isDefined(const IValue& v) { return v.isTensor() && v.tensorImpl(); }

bool sameForm(const Tensor& a, const Tensor& b) {
  auto same = [](DimSpan x, DimSpan y) { return std::equal(x.begin(), x.end(), y.begin(), y.end()); };
  return a.dtype() == b.dtype() && same(a.sizes(), b.sizes()) && same(a.strides(), b.strides());
}

bool sameBits(const Tensor& a, const Tensor& b) {
  if (!sameForm(a, b)) return false;
  if (a.raw() == b.raw()) return true;
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

// Calls visit(graph) for a graph and all below it, a graph before its own.
template <class Visit>
void forEachGraphOf(Graph& graph, Visit&& visit) {
  std::vector<Graph*> todo{&graph};
  while (!todo.empty()) {
    Graph* g = todo.back();
    todo.pop_back();
    visit(*g);
    size_t first = todo.size();
    forEachNode(*g, [&](Node* n) {
      if (n->subgraph()) todo.push_back(n->subgraph());
    });
    std::reverse(todo.begin() + static_cast<ptrdiff_t>(first), todo.end());
  }
}

class Separator {
 public:
  Separator(const Graph& graph, Diagnostics& diagnostics) : graph_(cloneGraph(graph)), diagnostics_(diagnostics) {
    findGraphs();
  }

  std::optional<GraphParts> run(const ObjectValue* self, bool keepsSharing) {
    keepsSharing_ = keepsSharing;
    if (self && !graph_->inputs().empty()) attributes(*self);
    refuseWrittenViews();
    const size_t ofAttributes = data_.size();
    for (Graph* g : graphs_)
      forEachNode(*g, [&](Node* n) {
        const IValue* v = n->kind() == sym::Constant && n->outputCount() == 1 ? n->attributeValue(sym::value) : nullptr;
        if (v && isPacked(*v)) packed_.emplace_back(n, *v);
      });
    if (!packed_.empty()) unpackAll();
    for (Graph* g : graphs_) collect(*g);
    for (Node* n : lists_) addList(n);
    for (Node* n : tensors_) addTensor(n);
    for (Node* n : containers_) addContainer(n);
    for (Node* n : shown_)
      if (size_t items = n->output()->type()->is(TypeKind::List); !isFree(n->output()->name(), items))
        rename(n->output(), items);
    auto newName = [this] { return freeName("shared.", shared_); };
    std::set<std::string> constants;
    for (size_t i = ofAttributes; i < data_.size(); ++i) constants.insert(data_[i].first);
    if (!good_ || (keepsSharing && !takeSharedMemory(data_, ofAttributes, newName, metadata_, diagnostics_)))
      return std::nullopt;
    return GraphParts{std::move(graph_), std::move(data_), std::move(constants), std::move(metadata_)};
  }

 private:
  // ---- attributes that are still read ----

  struct Held {
    const Node* read;
    std::string path;
    Tensor tensor;
  };

  void findGraphs() {
    graphs_.clear();
    forEachGraphOf(*graph_, [&](Graph& g) { graphs_.push_back(&g); });
  }

  using Objects = std::unordered_map<const Value*, std::pair<const ObjectValue*, std::string>>;

  void attributes(const ObjectValue& self) {
    Objects objects;
    objects[graph_->input(0)] = {&self, ""};
    pathOf_[&self] = "";
    for (Graph* g : graphs_)
      forEachNode(*g, [&](Node* n) {
        if (n->subgraph()) passObjects(n, objects);
        const IValue* name = n->attributeValue(sym::name);
        if (n->kind() != sym::GetAttr || n->inputCount() != 1 || !name || !name->isString()) return;
        auto object = objects.find(n->input(0));
        if (object == objects.end()) return;
        const IValue* v = const_cast<ObjectValue*>(object->second.first)->find(Symbol::of(name->toString()));
        if (!v) return;
        std::string path = object->second.second + name->toString();
        if (isDefined(*v) && g == graph_.get()) held_.push_back({n, path, v->toTensor()});
        if (isPacked(*v))
          packed_.emplace_back(n, *v);
        else if (v->isObject())
          objects[n->output()] = {&v->toObject(), prefixOf(firstPathOf(v->object(), path))};
        else if (holdsAny(*v, [](const IValue& part) { return part.isObject(); }))
          refuseObjects(n, path);
        else if (taken_.insert(path).second)
          addAttribute(path, *v);
      });
  }

  // Files hold an attribute in rows, and where they do not tell of sharing, by itself: what is written to another view
  // of it would not be seen. The analysis takes attributes for memory that everybody may hold, hence a constant for
  // each.
  void refuseWrittenViews() {
    std::unordered_map<const Storage*, std::set<std::string>> paths;
    for (const Held& h : held_) paths[h.tensor.storage().get()].insert(h.path);
    std::erase_if(held_, [&](const Held& h) {
      const bool isShared = paths.at(h.tensor.storage().get()).size() > 1;
      return isShared ? keepsSharing_ : h.tensor.isContiguous();
    });
    if (held_.empty()) return;
    std::unique_ptr<Graph> copy = cloneGraph(*graph_);
    std::vector<Node*> twins;
    forEachNode(*copy, [&](Node* n) { twins.push_back(n); });
    std::unordered_map<const Node*, Value*> constants;
    size_t at = 0;
    forEachNode(*graph_, [&](const Node* n) {
      Node* twin = twins[at++];
      if (std::ranges::none_of(held_, [n](const Held& h) { return h.read == n; })) return;
      Node* constant = copy->create(sym::Constant, {});
      constant->output()->setType(n->output()->type());
      copy->block()->prepend(constant);
      twin->output()->replaceAllUsesWith(constant->output());
      constants[n] = constant->output();
    });
    AliasAnalysis aliases(*copy, allOps());
    for (const Held& h : held_)
      if (aliases.isWritten(constants.at(h.read))) return refuseView(h);
  }

  // What text cannot say is made by nodes. Lowering the text once more folds and makes them again: their places and
  // names depend on their order alone, and they are merged as lowering does it, so that it gives the same text.
  void unpackAll() {
    for (auto& [n, v] : packed_) unpack(n, v);
    for (auto& [n, v] : packed_) n->destroy();
    if (!good_) return;
    RewriteContext context(*graph_, allOps(), diagnostics_);
    mergeCommonSubexpressions(*graph_, context);
    poolConstants(*graph_, context);
    removeDeadCode(*graph_, context);
    findGraphs();
    uint64_t count = 0;
    for (Graph* g : graphs_)
      forEachNode(*g, [&](Node* n) {
        if (n->outputCount() == 1 && made_.contains(n->output()->name()))
          n->output()->setName(fmt::format("packed.{}", ++count));
      });
  }

  // Behind the constants of the graph, and what was made before.
  void unpack(Node* n, const IValue& v) {
    Node* const behind = firstOfBody(*n->graph());
    Node* last = behind->previous();
    Builder builder(*n->graph(), behind);
    builder.setPlaceOf(n);
    Value* made = insertPacked(builder, v);
    if (!made) return refuse(n);
    n->output()->replaceAllUsesWith(made);
    for (Node* m = last ? last->next() : n->graph()->block()->first(); m && m != behind; m = m->next())
      made_.insert(m->output()->name());
  }
  Node* firstOfBody(Graph& graph) {
    Node*& found = bodyOf_[&graph];
    if (found) return found;
    for (found = graph.block()->first(); found && found->kind() == sym::Constant;) found = found->next();
    return found = found ? found : graph.returnNode();
  }

  // Objects that a subgraph takes are the same inside.
  static void passObjects(const Node* n, Objects& objects) {
    for (size_t i = 0; i < std::min(n->inputCount(), n->subgraph()->inputs().size()); ++i)
      if (auto object = objects.find(n->input(i)); object != objects.end()) {
        auto known = object->second;
        objects[n->subgraph()->input(i)] = known;
      }
  }

  static std::string prefixOf(const std::string& path) { return path.empty() ? path : path + "."; }

  // The first path of an object or container; metadata tells that it is at this one as well.
  std::string firstPathOf(const RefCounted* object, const std::string& path) {
    if (!keepsSharing_) return path;
    if (auto holder = holderOf_.find(object); holder != holderOf_.end()) refuseShared(holder->second, path);
    auto [first, isNew] = pathOf_.try_emplace(object, path);
    if (!isNew && first->second != path) metadata_[std::string(kSameAs) + path] = first->second;
    return first->second;
  }

  // Files have containers inside of others by their content alone.
  bool checkInside(const std::string& path, const IValue& value) {
    std::vector<const IValue*> todo;
    auto add = [&](const IValue& v) {
      if (v.isList() || v.isTuple())
        for (const IValue& item : v.isList() ? v.toList().items : v.toTuple().items) todo.push_back(&item);
      if (v.isDict()) v.toDict().forEachValue([&](IValue& item) { todo.push_back(&item); });
    };
    for (add(value); !todo.empty();) {
      const IValue& v = *todo.back();
      todo.pop_back();
      if (v.isList() || v.isDict() || v.isObject()) {
        auto [holder, isNew] = holderOf_.try_emplace(v.object(), path);
        auto known = pathOf_.find(v.object());
        if (!isNew || known != pathOf_.end()) return refuseShared(isNew ? known->second : holder->second, path);
      }
      add(v);
    }
    return true;
  }
  bool refuseShared(const std::string& a, const std::string& b) {
    good_ = false;
    diagnostics_.error(fmt::format("'{}' and '{}' hold the same list, dict or object: files cannot say that", a, b),
                       ErrorKind::Unsupported);
    return false;
  }

  void addAttribute(const std::string& path, const IValue& v) {
    if ((v.isList() || v.isDict()) && firstPathOf(v.object(), path) != path) return;
    if (keepsSharing_ && !checkInside(path, v)) return;
    if (isDefined(v))
      data_.emplace_back(path, v.toTensor());
    else if (v.isList() && v.toList().elementType->isTensor() && !v.toList().items.empty())
      addItems(path, v);
    else if (!v.isLiteral() && !v.isTensor())
      addParts(path, v);
  }

  void addParts(const std::string& path, const IValue& v) {
    size_t before = data_.size();
    writeEnumMembers(v, metadata_);
    metadata_["attribute:" + path] = valueText(withoutTensors(v, path, data_), LiteralStyle::Plain);
    for (size_t i = before; i < data_.size(); ++i) taken_.insert(data_[i].first);
  }

  // ---- constants ----

  void collect(Graph& graph) {
    forEachNode(graph, [&](Node* n) {
      if (n->kind() != sym::Constant || n->outputCount() != 1) return;
      const IValue* v = n->attributeValue(sym::value);
      if (!v) return;
      writeEnumMembers(*v, metadata_);
      if (v->isLiteral() || (isDefined(*v) && textIsExact(v->toTensor(), n->output()->type())))
        shown_.push_back(n);
      else if (isDefined(*v))
        tensors_.push_back(n);
      else if (v->isList() && v->toList().elementType->isTensor())
        (v->toList().items.empty() ? shown_ : lists_).push_back(n);
      else if (holdsAny(*v, [](const IValue& part) { return part.isTensor(); }))
        containers_.push_back(n);
    });
  }

  void refuse(const Node* n) {
    good_ = false;
    diagnostics_.error(n->range, fmt::format("the data of %{} cannot be written", n->output()->name()),
                       ErrorKind::Unsupported);
  }

  void refuseView(const Held& h) {
    good_ = false;
    diagnostics_.error(h.read->range,
                       fmt::format("'{}' is written and does not lie in memory as files hold it", h.path),
                       ErrorKind::Unsupported);
  }

  // Text names attributes of objects, and none of objects inside of other values.
  void refuseObjects(const Node* n, const std::string& path) {
    good_ = false;
    diagnostics_.error(n->range,
                       fmt::format("'{}' holds objects of a class, which files do not hold in lists and dicts", path),
                       ErrorKind::Unsupported);
  }

  // Whether the value, or one inside of its lists, tuples and dicts, is such.
  template <class F>
  static bool holdsAny(const IValue& value, const F& isSuch) {
    std::vector<const IValue*> todo{&value};
    while (!todo.empty()) {
      const IValue& v = *todo.back();
      todo.pop_back();
      if (isSuch(v)) return true;
      if (v.isList() || v.isTuple())
        for (const IValue& item : v.isList() ? v.toList().items : v.toTuple().items) todo.push_back(&item);
      if (v.isDict()) v.toDict().forEachValue([&](IValue& item) { todo.push_back(&item); });
    }
    return false;
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

  void rename(Value* v, size_t items) { v->setName(freeName("constant.", renamed_, items)); }

  std::string freeName(std::string_view kind, uint64_t& count, size_t items = 0) const {
    std::string name;
    do name = fmt::format("{}{}", kind, ++count);
    while (isName(name) || !isFree(name, items));
    return name;
  }

  bool isName(const std::string& name) const {
    return std::any_of(graphs_.begin(), graphs_.end(), [&](const Graph* g) { return g->find(name) != nullptr; });
  }

  void addTensor(Node* n) {
    Value* v = n->output();
    Tensor t = n->attributeValue(sym::value)->toTensor();
    // The text has no strides of its own: the type tells them.
    if (!t.isContiguous()) v->setType(dynamicType(IValue(t)));
    if (auto twin = tensorOf_.find(v->name()); twin != tensorOf_.end() && sameBits(twin->second, t)) return;
    if (!isFree(v->name(), 0)) rename(v, 0);
    taken_.insert(v->name());
    tensorOf_.emplace(v->name(), t);
    data_.emplace_back(v->name(), t);
  }

  void addList(Node* n) {
    const IValue& list = *n->attributeValue(sym::value);
    const auto& items = list.toList().items;
    const std::string& name = n->output()->name();
    if (auto twin = listOf_.find(name); twin != listOf_.end())
      if (std::equal(items.begin(), items.end(), twin->second->begin(), twin->second->end(),
                     [](const IValue& a, const IValue& b) { return sameBits(a.toTensor(), b.toTensor()); }))
        return;
    if (!isFree(name, items.size())) rename(n->output(), items.size());
    taken_.insert(n->output()->name());
    listOf_.emplace(n->output()->name(), &items);
    addItems(n->output()->name(), list);
  }

  // A list, tuple or dict with tensors beside other values.
  void addContainer(Node* n) {
    const IValue container = *n->attributeValue(sym::value);
    const IValue shown(Ref<LiteralValue>::make("<Tensor>", LiteralValue::Kind::MissingTensor));
    for (Value* v = n->output();; rename(v, 0)) {
      std::vector<std::pair<std::string, Tensor>> parts;
      IValue text = withoutTensors(container, v->name(), parts, shown);
      if (taken_.contains(v->name()) || std::ranges::any_of(parts, [&](auto& p) { return taken_.contains(p.first); }))
        continue;
      n->setAttribute(sym::value, std::move(text));
      taken_.insert(v->name());
      for (auto& [name, tensor] : parts) {
        taken_.insert(name);
        data_.emplace_back(name, std::move(tensor));
      }
      return;
    }
  }

  void addItems(const std::string& name, const IValue& list) {
    const auto& items = list.toList().items;
    for (size_t i = 0; i < items.size(); ++i) data_.emplace_back(name + "." + std::to_string(i), items[i].toTensor());
    for (size_t i = 0; i <= items.size(); ++i) taken_.insert(name + "." + std::to_string(i));
  }

  std::unique_ptr<Graph> graph_;
  std::vector<Held> held_;      // attributes that are tensors, as they are read
  std::vector<Graph*> graphs_;  // it and all below it
  Diagnostics& diagnostics_;
  std::vector<Node*> tensors_, lists_, containers_;  // constants whose data the text does not hold
  std::vector<std::pair<Node*, IValue>> packed_;
  std::vector<Node*> shown_;  // others that would take data of their name
  std::vector<std::pair<std::string, Tensor>> data_;
  Metadata metadata_;
  std::map<std::string, Tensor> tensorOf_;                    // by the name of the constant
  std::map<std::string, const std::vector<IValue>*> listOf_;  // the same
  std::set<std::string> taken_;                               // names that mean something to a reader of the weights
  uint64_t renamed_ = 0, shared_ = 0;
  std::unordered_map<const RefCounted*, std::string> pathOf_;    // of objects and containers, the first
  std::unordered_map<const RefCounted*, std::string> holderOf_;  // of those inside of an attribute, its path
  bool keepsSharing_ = true;
  std::set<std::string> made_;                      // names of the values that packed ones are made of
  std::unordered_map<const Graph*, Node*> bodyOf_;  // the first node behind the constants
  bool good_ = true;
};

}  // namespace

namespace {

// How a text and its weights tell that they were written together.
constexpr std::string_view kPairLine = "# written with weights ";
constexpr const char* kPairKey = "written_with_text";

void addTensor(Checksum& sum, const std::string& name, const Tensor& tensor) {
  sum.add(name);
  sum.add(typeText(dynamicType(IValue(tensor))));
  Tensor flat = contiguous(tensor);
  sum.add(std::string_view(reinterpret_cast<const char*>(flat.raw()),
                           static_cast<size_t>(flat.numel()) * itemSize(flat.dtype())));
}

}  // namespace

std::optional<GraphParts> separateTensors(const Graph& graph, const ObjectValue* self, Diagnostics& diagnostics,
                                          bool keepsSharing) {
  return Separator(graph, diagnostics).run(self, keepsSharing);
}

bool printParts(const GraphParts& parts, bool locations, const Limits& limits, const TextSink& sink,
                Diagnostics& diagnostics) {
  PrintOptions printing;
  printing.maxBytes = limits.printBytes;
  printing.locations = locations;
  if (printGraph(*parts.graph, sink, printing)) return true;
  diagnostics.error(fmt::format("the printed text is longer than {} bytes", printing.maxBytes), ErrorKind::Limit)
      .note(textOf(Remedy(Remedy::Kind::RaiseLimit, {"print"})));
  return false;
}

namespace {

bool writeParts(std::optional<GraphParts> parts, const std::string& path, Diagnostics& diagnostics,
                const Limits& limits) {
  if (!parts) return false;
  auto print = [&](const TextSink& sink) { return printParts(*parts, true, limits, sink, diagnostics); };
  FileWriter file(path, diagnostics);
  if (parts->tensors.empty() && parts->metadata.empty())
    return print([&](std::string_view piece) { file.write(piece); }) && file.commit();

  Checksum both;
  if (!print([&](std::string_view piece) { both.add(piece); })) return false;
  for (const auto& [name, tensor] : parts->tensors) addTensor(both, name, tensor);
  for (const auto& [key, value] : parts->metadata) both.add(key), both.add(value);
  const std::string mark = fmt::format("{:016x}", both.value());
  parts->metadata[kPairKey] = mark;
  FileWriter weights((endsWith(path, ".ir") ? path.substr(0, path.size() - 3) : path) + ".safetensors", diagnostics);
  file.write(std::string(kPairLine) + mark + "\n");
  return print([&](std::string_view piece) { file.write(piece); }) &&
         putSafetensors(weights, parts->tensors, parts->metadata) && file.finish() && weights.finish() &&
         weights.commit() && file.commit();
}

}  // namespace

bool writeGraphWithWeights(const Graph& graph, const ObjectValue* self, const std::string& path,
                           Diagnostics& diagnostics, const Limits& limits) {
  return writeParts(separateTensors(graph, self, diagnostics), path, diagnostics, limits);
}

bool checkPair(const SourceFile& text, const Metadata& weights, Diagnostics& diagnostics) {
  std::string_view line = text.text();
  if (!startsWith(line, kPairLine)) return true;
  line = line.substr(kPairLine.size());
  line = line.substr(0, line.find_first_of("\r\n"));
  auto mark = weights.find(kPairKey);
  if (mark == weights.end() || mark->second == line) return true;
  diagnostics.fileError(text.path(), {}, "the text and the weights were not written together")
      .note("write both again, or remove the first line of the text to use them all the same");
  return false;
}

namespace {

std::optional<GraphParts> partsOf(const Module& module, ModuleState& state, Diagnostics& diagnostics) {
  if (!state.origin) {
    diagnostics.error("only a lowered module can be written", ErrorKind::Unsupported);
    return std::nullopt;
  }
  std::optional<IValue> self = bindSelf(state, *module.graph(), Unsupplied::LeftOut, diagnostics);
  return separateTensors(*module.graph(), self ? &self->toObject() : nullptr, diagnostics);
}

}  // namespace

bool Module::write(const std::string& path, Diagnostics& diagnostics, const Limits& limits) const {
  std::optional<GraphParts> parts = partsOf(*this, *state_, diagnostics);
  if (!parts) return false;
  writeDefaults(*state_, parts->metadata);
  writeExportedInputs(exportedInputs(*graph()), parts->metadata);
  return writeParts(std::move(parts), path, diagnostics, limits);
}

Result<ModuleValues> Module::values(Diagnostics& diagnostics) const {
  std::optional<GraphParts> parts = partsOf(*this, *state_, diagnostics);
  if (!parts) return Failed{};
  ModuleValues out;
  out.tensors.insert(parts->tensors.begin(), parts->tensors.end());
  out.constants = std::move(parts->constants);
  constexpr std::string_view kAttribute = "attribute:";
  for (const auto& [key, text] : parts->metadata)
    if (startsWith(key, kAttribute)) out.attributes.emplace(key.substr(kAttribute.size()), text);
  return out;
}

}  // namespace tscompile
