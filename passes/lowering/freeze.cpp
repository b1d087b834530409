// Attributes that nothing writes become constants: %w = prim::GetAttr[name="weight"](%conv) is one tensor from then on,
// %self.conv.weight. What may be written, and everything that shares its memory, stays an attribute. Small dicts are
// made of constants, so that what is asked of them is known.
#include "ir/graph/clone.h"
#include "ir/graph/value_names.h"
#include "passes/lowering/assumed_weights.h"
#include "passes/lowering/call_targets.h"
#include "passes/lowering/kept_state.h"
#include "passes/lowering/made_constants.h"
#include "passes/lowering/module_objects.h"
#include "passes/rewrite/constant_form.h"

#include <algorithm>
#include <set>
#include <unordered_set>

namespace tscompile {
namespace {

bool mayHoldObject(TypePtr t) {
  switch (t->kind()) {
    case TypeKind::Class:
    case TypeKind::Interface:
    case TypeKind::Any:
      return true;
    default:
      return std::any_of(t->elements().begin(), t->elements().end(), mayHoldObject);
  }
}

using ObjectOf = std::unordered_map<const Value*, ObjectValue*>;

// Which attributes of the module's objects may be written while a graph runs, by the graph and by all that it calls.
class WrittenAttributes {
 public:
  WrittenAttributes(const Graph& graph, Value* self, RewriteContext& context)
      : graph_(graph), self_(self), context_(context), targets_(*context.module) {}

  // False if objects go where nothing is known of what is done to them.
  bool find() {
    if (!reachGraphs()) return false;
    for (const Graph* g : reached_) otherGraph(*g);
    // What is known of an object may depend on an attribute that turns out to be written.
    do {
      grown_ = false;
      resolveObjects();
      forEachNode(graph_, [&](Node* n) {
        if (n->kind() == sym::SetAttr && n->inputCount()) mark(n->input(0), ModuleObjects::attributeOf(n));
      });
    } while (grown_);
    if (context_.facts.graphHasWrites()) findWrittenMemory();
    findStatistics();
    spreadOverMemory();
    return true;
  }

  bool contains(const ObjectValue* object, Symbol name) const {
    return ofObject_.contains({object, name}) || ofType_.contains({object->type, name}) || ofAny_.contains(name);
  }
  // The objects that values of the graph are known to be.
  const ObjectOf& objects() const { return objects_; }

 private:
  template <class Set, class Key>
  void insert(Set& set, const Key& key) {
    grown_ |= set.insert(key).second;
  }
  // An attribute of whatever object `value` may be.
  void mark(const Value* value, Symbol name) {
    auto object = objects_.find(value);
    if (object != objects_.end())
      insert(ofObject_, std::pair<const ObjectValue*, Symbol>(object->second, name));
    else if (value->type()->is(TypeKind::Class))
      insert(ofType_, std::pair(value->type(), name));
    else
      insert(ofAny_, name);
  }

  // ---- what runs besides the graph itself ----

  bool reachGraphs() {
    std::vector<const Graph*> todo{&graph_};
    std::unordered_set<const Graph*> seen{&graph_};
    bool known = true;
    auto reach = [&](const Graph* g) {
      if (!seen.insert(g).second) return;
      reached_.push_back(g);
      todo.push_back(g);
    };
    while (!todo.empty()) {
      const Graph* g = todo.back();
      todo.pop_back();
      forEachNode(*g, [&](Node* n) { known = known && reachFrom(n, reach); });
    }
    return known;
  }

  // False for a node that may do anything to an object.
  template <class Reach>
  bool reachFrom(const Node* n, Reach&& reach) {
    if (n->subgraph()) return reach(n->subgraph()), true;
    bool takesObject = false;
    for (const Use& u : n->inputs()) takesObject |= mayHoldObject(u.value->type());
    if (!takesObject) return true;
    if (n->kind() == sym::CallMethod) return reachMethods(n, ModuleObjects::attributeOf(n), reach);
    if (n->kind() == sym::CallFunction) {
      const Graph* callee = targets_.calleeOf(n);
      if (callee) reach(callee);
      return callee;
    }
    if (n->kind() == sym::Enter || n->kind() == sym::Exit) {
      // Contexts without methods of their own are modes that touch no attributes.
      reachMethods(n, Symbol::of(n->kind() == sym::Enter ? "__enter__" : "__exit__"), reach);
      return true;
    }
    if (n->kind() == sym::PythonOp) return false;
    return n->kind().nameSpace() == "prim" || context_.facts.resolve(n);
  }

  // Every method that a call may mean: of an interface, those of all classes. False if there is none.
  template <class Reach>
  bool reachMethods(const Node* n, Symbol name, Reach&& reach) {
    bool any = false;
    for (const auto& [type, methods] : targets_.methods) {
      if (n->input(0)->type()->is(TypeKind::Class) && n->input(0)->type() != type) continue;
      auto method = methods.find(std::string(name.text()));
      if (method == methods.end()) continue;
      reach(method->second);
      any = true;
    }
    return any;
  }

  // There, objects are known by their types only.
  void otherGraph(const Graph& g) {
    AliasAnalysis aliases(g, context_.registry);
    forEachNode(g, [&](Node* n) {
      if (n->inputCount() == 0) return;
      bool isSet = n->kind() == sym::SetAttr;
      if (isSet ||
          (n->kind() == sym::GetAttr && AliasAnalysis::canRefer(n->output()->type()) && aliases.isWritten(n->output())))
        mark(n->input(0), ModuleObjects::attributeOf(n));
    });
  }

  // ---- objects ----

  void resolveObjects() {
    objects_.clear();
    objects_[self_] = targets_.self.get();
    forEachNode(graph_, [&](Node* n) {
      if (n->kind() != sym::GetAttr || n->inputCount() != 1) return;
      auto object = objects_.find(n->input(0));
      if (object == objects_.end() || contains(object->second, ModuleObjects::attributeOf(n))) return;
      const IValue* v = object->second->find(ModuleObjects::attributeOf(n));
      if (v && v->isObject()) objects_[n->output()] = &v->toObject();
    });
  }

  // ---- memory ----

  // The analysis takes attributes for memory that everybody may hold. In a copy each of them is a constant, memory of
  // its own, so that what is done to one says nothing of the others.
  void findWrittenMemory() {
    std::unique_ptr<Graph> copy = cloneGraph(graph_);
    std::vector<Node*> copies;
    forEachNode(*copy, [&](Node* n) { copies.push_back(n); });
    std::vector<std::pair<const Node*, Node*>> reads;  // an original and what stands for it in the copy
    std::set<std::pair<const ObjectValue*, Symbol>> known;
    std::unordered_map<const ObjectValue*, std::unordered_map<Symbol, Node*>> constants;
    size_t at = 0;
    forEachNode(graph_, [&](Node* n) {
      Node* twin = copies[at++];
      if (n->kind() != sym::GetAttr || n->inputCount() != 1 || objects_.contains(n->output())) return;
      auto object = objects_.find(n->input(0));
      if (object == objects_.end()) return reads.emplace_back(n, twin), void();
      Node*& constant = constants[object->second][ModuleObjects::attributeOf(n)];
      if (!constant) {
        constant = copy->create(sym::Constant, {});
        constant->output()->setType(n->output()->type());
        copy->block()->prepend(constant);
        reads.emplace_back(n, constant);
      }
      twin->output()->replaceAllUsesWith(constant->output());
    });
    AliasAnalysis aliases(*copy, context_.registry);
    for (const auto& [read, inCopy] : reads)
      if (AliasAnalysis::canRefer(inCopy->output()->type()) && aliases.isWritten(inCopy->output()))
        mark(read->input(0), ModuleObjects::attributeOf(read));
  }

  // ---- running statistics ----

  // How the values of an attribute are used: by layers that write it without reading, as they are in training or may
  // be, and by others.
  struct StatisticUses {
    size_t written = 0, maybeWritten = 0, read = 0;
    bool areWritten() const { return written + maybeWritten > 0; }
    // A layer that may be in training reads only if it does not write.
    bool areReadToo() const {
      return areWritten() && (read > 0 || written + maybeWritten > 1) && read + maybeWritten > 0;
    }
  };

  // Statistics of layers in training are written. Those that nothing else reads are as good as constants: every run
  // begins with those of the module.
  void findStatistics() {
    std::map<std::pair<const ObjectValue*, Symbol>, StatisticUses> statistics;
    forEachNode(graph_, [&](Node* n) {
      auto object = n->kind() == sym::GetAttr && n->inputCount() == 1 ? objects_.find(n->input(0)) : objects_.end();
      if (object != objects_.end() && n->output()->type()->kind() != TypeKind::Class)
        countUses(n->output(), statistics[{object->second, ModuleObjects::attributeOf(n)}]);
    });
    std::unordered_set<Symbol> readElsewhere;
    for (const Graph* g : reached_)
      forEachNode(*g, [&](Node* n) {
        if (n->kind() == sym::GetAttr) readElsewhere.insert(ModuleObjects::attributeOf(n));
      });
    const bool keepsState = context_.arguments.contains(kKeptState);
    for (const auto& [attribute, uses] : statistics) {
      if (!uses.areWritten()) continue;
      if (keepsState || uses.areReadToo() || readElsewhere.contains(attribute.second))
        ofObject_.insert(attribute);
      else
        unread_.insert(attribute);
    }
  }

  void countUses(const Value* value, StatisticUses& uses) const {
    for (const Use& u : value->uses()) {
      const Operator* op = u.user->hasBlocks() || u.user->isReturn() ? nullptr : context_.facts.resolve(u.user);
      const TrainedArguments trained = op && op->isImplemented() ? op->def().trained : TrainedArguments();
      const bool isStatistic = u.index() >= trained.first && u.index() < trained.end;
      std::optional<bool> on = isStatistic && trained.training < u.user->inputCount()
                                   ? truthOf(u.user->input(trained.training))
                                   : std::optional(false);
      ++(!on ? uses.maybeWritten : *on ? uses.written : uses.read);
    }
  }

  // What a flag is for certain.
  std::optional<bool> truthOf(const Value* v, int depth = 0) const {
    constexpr int kDeepest = 16;
    const Node* n = v->node();
    if (!n || depth > kDeepest) return std::nullopt;
    if (n->kind() == sym::If) {
      std::optional<bool> condition = truthOf(n->input(0), depth + 1);
      return condition ? truthOf(n->block(*condition ? 0 : 1)->result(v->index()), depth + 1) : std::nullopt;
    }
    static const Symbol kNot = Symbol::of("aten::__not__"), kIs = Symbol::of("aten::__is__"),
                        kIsNot = Symbol::of("aten::__isnot__");
    if (n->kind() == kNot) {
      std::optional<bool> operand = truthOf(n->input(0), depth + 1);
      return operand ? std::optional(!*operand) : std::nullopt;
    }
    if (n->kind() == kIs || n->kind() == kIsNot) {
      std::optional<bool> none = isNone(n->input(0));
      if (!none || isNone(n->input(1)) != true) return std::nullopt;
      return *none == (n->kind() == kIs);
    }
    const IValue* value = knownValue(n);
    return value && value->isBool() ? std::optional(value->toBool()) : std::nullopt;
  }
  std::optional<bool> isNone(const Value* v) const {
    if (v->type() == types().none) return true;
    if (v->type()->isTensor()) return false;
    const IValue* value = v->node() ? knownValue(v->node()) : nullptr;
    return value ? std::optional(value->isNone()) : std::nullopt;
  }
  // Of constants, and of attributes that stay as they are.
  const IValue* knownValue(const Node* n) const {
    if (n->kind() == sym::Constant) return n->attributeValue(sym::value);
    if (n->kind() != sym::GetAttr || n->inputCount() != 1) return nullptr;
    auto object = objects_.find(n->input(0));
    if (object == objects_.end() || contains(object->second, ModuleObjects::attributeOf(n))) return nullptr;
    return object->second->find(ModuleObjects::attributeOf(n));
  }

  // Attributes that share memory with a written one are written with it.
  void spreadOverMemory() {
    std::vector<AttributeMemory> holders = memoryOfAttributes(*targets_.self);
    std::unordered_map<const RefCounted*, std::vector<size_t>> holdersOf;
    std::vector<size_t> todo;
    for (size_t i = 0; i < holders.size(); ++i) {
      for (const RefCounted* m : holders[i].memory) holdersOf[m].push_back(i);
      if (contains(holders[i].object, holders[i].name)) todo.push_back(i);
    }
    markReadByOtherNames(holders, holdersOf, todo);
    while (!todo.empty()) {
      size_t written = todo.back();
      todo.pop_back();
      for (const RefCounted* m : holders[written].memory)
        for (size_t i : std::exchange(holdersOf[m], {}))
          if (ofObject_.insert({holders[i].object, holders[i].name}).second) todo.push_back(i);
    }
  }

  // Statistics whose memory another attribute shows.
  void markReadByOtherNames(const std::vector<AttributeMemory>& holders,
                            const std::unordered_map<const RefCounted*, std::vector<size_t>>& holdersOf,
                            std::vector<size_t>& marked) {
    auto isUnread = [&](size_t i) { return unread_.contains({holders[i].object, holders[i].name}); };
    for (size_t i = 0; i < holders.size(); ++i) {
      if (!isUnread(i)) continue;
      for (const RefCounted* m : holders[i].memory)
        if (!std::ranges::all_of(holdersOf.at(m), isUnread))
          if (ofObject_.insert({holders[i].object, holders[i].name}).second) marked.push_back(i);
    }
  }

  const Graph& graph_;
  Value* self_;
  RewriteContext& context_;
  const CallTargets& targets_;
  std::vector<const Graph*> reached_;
  ObjectOf objects_;
  std::set<std::pair<const ObjectValue*, Symbol>> ofObject_;
  std::set<std::pair<const ObjectValue*, Symbol>> unread_;  // statistics that layers in training write for nobody
  std::set<std::pair<TypePtr, Symbol>> ofType_;
  std::set<Symbol> ofAny_;
  bool grown_ = false;
};

class Freezer {
 public:
  Freezer(Graph& graph, RewriteContext& context) : graph_(graph), context_(context) {}

  bool run() {
    if (Value* self = boundSelf()) {
      WrittenAttributes written(graph_, self, context_);
      if (written.find()) replaceReads(written);
      removeUnusedObjects(written.objects());
      if (!self->hasUses()) {
        graph_.block()->removeParameter(0);
        changed_ = true;
      }
    }
    if (changed_) context_.facts.refresh();
    return changed_;
  }

 private:
  // The input that is the module; it may have been removed.
  Value* boundSelf() const {
    if (!context_.module || !context_.module->self || graph_.inputs().empty()) return nullptr;
    Value* first = graph_.input(0);
    if (first->type() != context_.module->self->type) return nullptr;
    // Texts of PyTorch 1.0 do not give it a type.
    bool isUntyped = !first->type()->is(TypeKind::Class) && !first->type()->is(TypeKind::Interface);
    return isUntyped && !first->name().starts_with("self") ? nullptr : first;
  }

  void replaceReads(const WrittenAttributes& written) {
    std::vector<Node*> reads;
    forEachNode(graph_, [&](Node* n) {
      if (n->kind() == sym::GetAttr && n->inputCount() == 1 && written.objects().contains(n->input(0)))
        reads.push_back(n);
    });
    paths_[context_.module->self.get()] = "self.";
    for (Node* n : reads) {
      ObjectValue* object = written.objects().at(n->input(0));
      Symbol name = ModuleObjects::attributeOf(n);
      const IValue* v = object->find(name);
      if (!v || written.contains(object, name)) continue;
      if (v->isObject() && !fitsConstant(*v)) {
        paths_.try_emplace(&v->toObject(), paths_[object] + std::string(name.text()) + ".");
      } else if (isAssumed(*v, n->output()->type()) ||
                 (fitsConstant(*v) && isInstance(*v, withoutRefinement(n->output()->type())))) {
        n->output()->replaceAllUsesWith(constantFor(n, object, name, *v));
        n->destroy();
        changed_ = true;
      } else if (isSmallDict(*v) && isInstance(*v, withoutRefinement(n->output()->type()))) {
        n->output()->replaceAllUsesWith(dictFor(n, object, name, *v));
        n->destroy();
        changed_ = true;
      } else if (v->isList() || v->isDict()) {
        openObjects(n, *v, written);
      }
    }
  }

  // Of objects in a list or dict, each attribute becomes a list or dict of what they have there:
  //   %o = aten::__getitem__(%objects, %key), %a = prim::GetAttr[name="a"](%o)   ->   %a = aten::__getitem__(%as, %key)
  void openObjects(Node* read, const IValue& objects, const WrittenAttributes& written) {
    std::vector<Node*> readers;
    for (const Use& item : read->output()->uses())
      if (item.user->kind() == aten::getitem_)
        for (const Use& u : item.user->output()->uses())
          if (u.user->kind() == sym::GetAttr) readers.push_back(u.user);
    std::unordered_map<Symbol, Value*> made;
    for (Node* n : readers) {
      const Symbol name = ModuleObjects::attributeOf(n);
      if (!made.contains(name)) made[name] = attributesOf(read, objects, name, n->output()->type(), written);
      if (!made[name]) continue;
      Value* key = n->input(0)->node()->inputs()[1].value;
      n->removeAllInputs();
      n->removeAttribute(sym::name);
      n->setKind(aten::getitem_);
      n->addInput(made[name]);
      n->addInput(key);
      changed_ = true;
    }
  }
  // An attribute of all objects; null if it is not known.
  Value* attributesOf(Node* read, const IValue& objects, Symbol name, TypePtr type, const WrittenAttributes& written) {
    auto find = [&](const IValue& item) {
      const IValue* v = item.isObject() ? item.toObject().find(name) : nullptr;
      return v && !written.contains(&item.toObject(), name) && isInstance(*v, withoutRefinement(type)) ? v : nullptr;
    };
    IValue values;
    TypePtr whole = listType(type);
    bool isKnown = true;
    if (objects.isList()) {
      std::vector<IValue> items;
      for (const IValue& item : objects.toList().items)
        if (const IValue* v = isKnown ? find(item) : nullptr; (isKnown = v)) items.push_back(*v);
      values = IValue(Ref<ListValue>::make(type, std::move(items)));
    } else {
      auto dict = Ref<DictValue>::make(objects.toDict().keyType, type);
      objects.toDict().forEach([&](const IValue& key, const IValue& item) {
        if (const IValue* v = isKnown ? find(item) : nullptr; (isKnown = v)) dict->set(key, *v);
      });
      whole = dictType(dict->keyType, type);
      values = IValue(dict);
    }
    if (!isKnown || !canMakeConstants(values, /*fresh=*/false)) return nullptr;
    Builder b(graph_, read);
    b.setPlaceOf(read);
    return makeConstants(b, values, whole, /*fresh=*/false);
  }

  static bool isSmallDict(const IValue& value) {
    constexpr size_t kMostEntries = 32;
    return value.isDict() && value.toDict().size() <= kMostEntries && canMakeConstants(value, /*fresh=*/false);
  }

  // One dict for all reads of an attribute, at the start of the graph.
  Value* dictFor(Node* read, const ObjectValue* object, Symbol name, const IValue& value) {
    Node*& made = constants_[object][name];
    if (made) return made->output();
    Builder b(graph_, last_ ? last_->next() : graph_.block()->first());
    b.setPlaceOf(read);
    made = makeConstants(b, value, read->output()->type(), /*fresh=*/false)->node();
    last_ = made;
    return made->output();
  }

  // A tensor without data that is taken for a constant all the same.
  bool isAssumed(const IValue& value, TypePtr read) const {
    return value.isLiteral() && value.toLiteral().kind == LiteralValue::Kind::MissingTensor &&
           withoutOptional(read)->isTensor() && context_.arguments.contains(kAssumedWeights);
  }

  // One constant for all reads of an attribute, at the start of the graph.
  Value* constantFor(Node* read, const ObjectValue* object, Symbol name, const IValue& value) {
    Node*& made = constants_[object][name];
    if (made) return made->output();
    made = graph_.create(sym::Constant, {});
    const TypePtr type = read->output()->type();
    if (isAssumed(value, type)) {
      made->setAttribute(sym::value, IValue(Ref<LiteralValue>::make("<Tensor>", LiteralValue::Kind::MissingTensor)));
      made->output()->setType(withoutOptional(type));
    } else {
      if (!value.isNone()) made->setAttribute(sym::value, value);
      made->output()->setType(constantType(value, type));
    }
    made->copyPlace(read);
    if (last_)
      made->insertAfter(last_);
    else
      graph_.block()->prepend(made);
    last_ = made;
    const std::string called = readableName(paths_[object] + std::string(name.text()));
    if (!graph_.find(called)) made->output()->setName(called);
    return made->output();
  }

  void removeUnusedObjects(const ObjectOf& objects) {
    std::vector<Node*> reads;
    forEachNode(graph_, [&](Node* n) {
      if (n->kind() == sym::GetAttr && objects.contains(n->output())) reads.push_back(n);
    });
    for (size_t i = reads.size(); i-- > 0;) {
      if (reads[i]->output()->hasUses()) continue;
      reads[i]->destroy();
      changed_ = true;
    }
  }

  Graph& graph_;
  RewriteContext& context_;
  std::unordered_map<const ObjectValue*, std::string> paths_;
  std::unordered_map<const ObjectValue*, std::unordered_map<Symbol, Node*>> constants_;
  Node* last_ = nullptr;
  bool changed_ = false;
};

}  // namespace

bool freeze(Graph& graph, RewriteContext& context) { return Freezer(graph, context).run(); }

}  // namespace tscompile
