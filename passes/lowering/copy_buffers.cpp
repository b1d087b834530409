// Tensors of the module that the graph writes to in place are copied where they are read: every run begins with those
// of the module, so the writes can be to tensors of the graph, and what holds the module's are constants.
#include "ir/graph/builder.h"
#include "ir/values/literal.h"
#include "passes/lowering/assumed_weights.h"
#include "passes/lowering/call_targets.h"
#include "passes/lowering/kept_state.h"
#include "passes/lowering/module_objects.h"
#include "passes/rewrite/memory_order.h"

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
    context_.facts.refresh();
    return kept > 0;
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
