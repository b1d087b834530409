// Tensors of the module that the graph writes to in place are copied where they are read: every run begins with those
// of the module, so the writes can be to tensors of the graph, and what holds the module's are constants. Lists and
// dicts are made of what they hold, at the start: what a model computes once and keeps (`if key not in self.cache:`) is
// known then.
#include "ir/graph/builder.h"
#include "ir/values/literal.h"
#include "passes/lowering/assumed_weights.h"
#include "passes/lowering/call_targets.h"
#include "passes/lowering/kept_state.h"
#include "passes/lowering/made_constants.h"
#include "passes/lowering/module_objects.h"
#include "passes/rewrite/memory_order.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace tscompile {
namespace {

// How often an attribute of an object is read, and whether it is set.
struct Read {
  size_t count = 0;
  bool isSet = false;
};

class BufferCopier {
 public:
  BufferCopier(Graph& graph, RewriteContext& context, const ModuleObjects& objects)
      : graph_(graph), context_(context), objects_(objects) {}

  bool run() {
    findReads();
    countViews();
    std::vector<Node*> copies;
    for (Node* n : graph_.block()->nodes()) {
      ObjectValue* object = n->kind() == sym::GetAttr ? objects_.accessed(n) : nullptr;
      if (!object || !context_.facts.isWritten(n->output())) continue;
      if (isAlone(*object, n) && !isStatistic(n->output())) copies.push_back(copyOf(n));
    }
    // What is said to be written may be so for fear that attributes share memory; copies share none.
    AliasAnalysis alias(graph_, context_.registry);
    const size_t kept = std::erase_if(copies, [&](Node* copy) { return alias.isWritten(copy->output()); });
    for (Node* copy : copies) undo(copy);
    const bool isMade = makeContainers();
    context_.facts.refresh();
    return kept > 0 || isMade;
  }

 private:
  void findReads() {
    forEachNode(graph_, [&](Node* n) {
      ObjectValue* object = objects_.accessed(n);
      if (!object) return;
      Read& read = reads_[{object, ModuleObjects::attributeOf(n)}];
      (n->kind() == sym::SetAttr ? read.isSet = true : ++read.count);
    });
  }

  void countViews() {
    for (const AttributeMemory& a : memoryOfAttributes(*context_.module->self))
      for (const RefCounted* m : a.memory) ++views_[m];
  }

  // All of a memory that nothing else shows, which is read once: its copy has its strides, and stands for it.
  bool isAlone(ObjectValue& object, const Node* n) const {
    auto read = reads_.find({&object, ModuleObjects::attributeOf(n)});
    if (read == reads_.end() || read->second.count != 1 || read->second.isSet) return false;
    const IValue* v = object.find(ModuleObjects::attributeOf(n));
    if (!v || !n->output()->type()->isTensor()) return false;
    if (v->isLiteral()) return context_.arguments.contains(kAssumedWeights);
    if (!v->isTensor() || !v->tensorImpl()) return false;
    const Tensor t = v->toTensor();
    const size_t bytes = static_cast<size_t>(t.numel()) * itemSize(t.dtype());
    return bytes == t.storage()->bytes() && isNonOverlappingAndDense(t.sizes(), t.strides()) &&
           views_.at(t.storage().get()) == 1;
  }

  // Statistics that layers in training write, and nothing reads, are as good as constants (freeze.cpp).
  bool isStatistic(const Value* value) const {
    for (const Use& u : value->uses()) {
      const Operator* op = u.user->hasBlocks() || u.user->isReturn() ? nullptr : context_.facts.resolve(u.user);
      if (!op || !op->isImplemented()) return false;
      if (u.index() < op->def().trained.first || u.index() >= op->def().trained.end) return false;
    }
    return true;
  }

  Node* copyOf(Node* n) {
    Builder builder(graph_, n->next());
    Node* copy = builder.insert(kOwnMemory, {n->output(), builder.constant(IValue(), types().none)});
    n->output()->replaceAllUsesWith(copy->output());
    copy->replaceInput(0, n->output());
    return copy;
  }
  static void undo(Node* copy) {
    Node* none = copy->input(1)->node();
    copy->output()->replaceAllUsesWith(copy->input(0));
    copy->destroy();
    none->destroy();
  }

  // ---- lists and dicts ----

  struct ContainerUse {
    Node* user;
    size_t input;
    Value* read;
  };
  struct Container {
    IValue value;
    std::vector<ContainerUse> uses = {};
    Node* made = nullptr;
  };

  // Those that are written. What they hold is not: it becomes constants.
  bool makeContainers() {
    std::map<std::pair<const ObjectValue*, Symbol>, size_t> places;  // asked by key alone
    std::vector<Container> all;
    const std::vector<AttributeMemory> memory = memoryOfAttributes(*context_.module->self);
    forEachNode(graph_, [&](Node* n) {
      ObjectValue* object = n->kind() == sym::GetAttr ? objects_.accessed(n) : nullptr;
      const Symbol name = ModuleObjects::attributeOf(n);
      if (!object || !isSmallContainer(*object, n)) return;
      const auto [at, isNew] = places.try_emplace({object, name}, all.size());
      if (isNew) all.push_back({*object->find(name)});
      Container& c = all[at->second];
      for (const Use& u : n->output()->uses()) c.uses.push_back({u.user, u.index(), n->output()});
    });
    for (const AttributeMemory& a : memory) {
      const auto at = places.find({a.object, a.name});
      if (at != places.end() && !std::ranges::all_of(a.memory, [&](const RefCounted* m) { return views_.at(m) == 1; }))
        all[at->second].uses.clear();
    }
    const AliasAnalysis& known = context_.facts.aliases();
    std::erase_if(all, [&](const Container& c) {
      return std::ranges::none_of(c.uses, [&](const ContainerUse& u) { return known.isWrittenItself(u.read); });
    });
    if (all.empty()) return false;
    for (Container& c : all) make(c);
    AliasAnalysis alias(graph_, context_.registry);
    const size_t kept = std::erase_if(all, [&](const Container& c) {
      return alias.isWrittenItself(c.made->output()) && !holdsWritten(c.made, alias);
    });
    for (Container& c : all) unmake(c);
    return kept > 0;
  }

  bool isSmallContainer(ObjectValue& object, const Node* n) const {
    constexpr size_t kMost = 64;
    const IValue* v = object.find(ModuleObjects::attributeOf(n));
    const TypeKind kind = n->output()->type()->kind();
    if (!v || !(v->isList() ? kind == TypeKind::List : v->isDict() && kind == TypeKind::Dict)) return false;
    return (v->isList() ? v->toList().items.size() : v->toDict().size()) <= kMost &&
           !reads_.at({&object, ModuleObjects::attributeOf(n)}).isSet && canMakeConstants(*v, /*fresh=*/true);
  }

  void make(Container& c) {
    Builder b(graph_, graph_.block()->first());
    const Value* read = c.uses[0].read;
    b.setPlaceOf(read->node());
    c.made = makeConstants(b, c.value, read->type(), /*fresh=*/true)->node();
    for (const ContainerUse& u : c.uses) u.user->replaceInput(u.input, c.made->output());
  }
  void unmake(const Container& c) {
    for (const ContainerUse& u : c.uses) u.user->replaceInput(u.input, u.read);
    std::vector<Node*> unused{c.made};
    while (!unused.empty()) {
      Node* n = unused.back();
      unused.pop_back();
      for (const Use& u : n->inputs()) unused.push_back(u.value->node());
      n->destroy();
    }
  }

  static bool holdsWritten(const Node* made, const AliasAnalysis& alias) {
    return std::ranges::any_of(made->inputs(), [&](const Use& u) {
      const Node* n = u.value->node();
      return n->kind() == sym::Constant ? AliasAnalysis::canRefer(u.value->type()) && alias.isWritten(u.value)
                                        : holdsWritten(n, alias);
    });
  }

  Graph& graph_;
  RewriteContext& context_;
  const ModuleObjects& objects_;
  std::map<std::pair<const ObjectValue*, Symbol>, Read> reads_;  // asked by key alone
  std::unordered_map<const RefCounted*, size_t> views_;
};

}  // namespace

bool copyBuffers(Graph& graph, RewriteContext& context) {
  if (context.arguments.contains(kKeptState) || !context.facts.graphHasWrites()) return false;
  std::optional<ModuleObjects> objects = ModuleObjects::of(graph, context);
  return objects && BufferCopier(graph, context, *objects).run();
}

}  // namespace tscompile
