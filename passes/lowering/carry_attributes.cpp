// Attributes that the graph sets become values: each is read once, at the start, and what is set is handed on, through
// branches and loops. For runs that go on where others ended it is set again at the end, once:
//   %h = prim::GetAttr[name="h"](%self)               %h = prim::GetAttr[name="h"](%self)
//   %n = aten::tanh(%h)                               %n = aten::tanh(%h)
//    = prim::SetAttr[name="h"](%self, %n)      ->     %y = aten::neg(%n)
//   %m = prim::GetAttr[name="h"](%self)
//   %y = aten::neg(%m)
// Where such a graph writes in place too, or sets other attributes where they stand, a run that fails cannot be
// repeated, and what was set before has to be there: it is set where it was, or behind the branches and loops that set
// it.
#include "ir/analysis/alias.h"
#include "ir/graph/builder.h"
#include "passes/lowering/kept_state.h"
#include "passes/lowering/module_objects.h"

#include <map>
#include <set>

namespace tscompile {
namespace {

class AttributeCarrier {
 public:
  AttributeCarrier(Graph& graph, RewriteContext& context, const ModuleObjects& objects)
      : graph_(graph), context_(context), objects_(objects) {}

  bool run() {
    findVariables();
    if (variables_.empty() || isTooMuch()) return false;
    const bool isKept = context_.arguments.contains(kKeptState);
    setsAtOnce_ = isKept && (writesOutside() || setsOthers());
    readAtStart();
    walk();
    if (isKept && !setsAtOnce_) setAtEnd();
    for (size_t i = reads_.size(); i-- > 0;)
      if (!reads_[i]->output()->hasUses()) reads_[i]->destroy();
    context_.facts.refresh();
    return true;
  }

 private:
  using Key = std::pair<const ObjectValue*, Symbol>;
  struct Variable {
    Key key;
    TypePtr type;             // wherever it is read
    Value* object = nullptr;  // at the start of the graph
    Value* now = nullptr;
  };
  // What is known of an attribute before: the type that it is read as, or that of all that is set.
  struct Accesses {
    std::vector<Node*> nodes;  // in the order of the graph
    TypePtr read = nullptr, set = nullptr;
    bool isCarried = true, hasValue = false;
  };

  // Whether it writes in place to what was there before it.
  bool writesOutside() const {
    const AliasAnalysis alias(graph_, context_.registry);
    bool writes = false;
    forEachNode(graph_, [&](const Node* n) {
      writes |= n->blocks().empty() && n->kind() != sym::SetAttr && alias.writes(n).reachOutside();
    });
    return writes;
  }

  // Whether it sets attributes that are none of the variables.
  bool setsOthers() const {
    bool any = false;
    forEachNode(graph_, [&](const Node* n) {
      any |= n->kind() == sym::SetAttr && !(objects_.accessed(n) && variableOf_.contains(keyOf(n)));
    });
    return any;
  }

  Key keyOf(const Node* n) const { return {objects_.accessed(n), ModuleObjects::attributeOf(n)}; }

  void findVariables() {
    std::map<Key, Accesses> all;  // asked by key alone
    std::vector<Key> order;
    forEachNode(graph_, [&](Node* n) {
      ObjectValue* object = objects_.accessed(n);
      if (!object) return;
      auto [at, isNew] = all.try_emplace(keyOf(n));
      if (isNew) order.push_back(at->first);
      Accesses& x = at->second;
      x.nodes.push_back(n);
      const IValue* value = object->find(at->first.second);
      x.hasValue = value;
      x.isCarried = x.isCarried && !(value && value->isObject());
      if (n->kind() == sym::GetAttr) {
        const TypePtr type = withoutRefinement(n->output()->type());
        x.isCarried = x.isCarried && (!x.read || x.read == type);
        x.read = type;
      } else {
        const TypePtr type = withoutRefinement(n->input(1)->type());
        x.set = x.set ? unifyTypes(x.set, type) : type;
        x.isCarried = x.isCarried && x.set && isBelowBranchesAndLoops(n);
      }
    });
    for (const Key& key : order) {
      const Accesses& x = all[key];
      if (!x.set || !x.isCarried || (x.read && !isSubtype(x.set, x.read))) continue;
      if (!x.read && !x.hasValue) continue;  // there is nothing to begin with
      variableOf_[key] = variables_.size();
      variables_.push_back({key, x.read ? x.read : x.set});
      for (const Node* n : x.nodes)
        if (n->kind() == sym::SetAttr)
          for (const Node* o = n->block()->owner(); o; o = o->block()->owner()) setInside_[o].insert(variableOf_[key]);
    }
  }

  // Each block around gets a result for each attribute that is set inside.
  bool isTooMuch() const {
    uint64_t results = 0;
    for (const auto& [block, inside] : setInside_) results += inside.size();
    constexpr uint64_t kMost = 100'000;
    return results > kMost;
  }

  static bool isBelowBranchesAndLoops(const Node* n) {
    for (const Node* o = n->block()->owner(); o; o = o->block()->owner())
      if (o->kind() != sym::If && o->kind() != sym::Loop) return false;
    return true;
  }

  // Objects are attributes of others: their chains are read again in front of everything.
  void readAtStart() {
    start_ = firstOf(graph_.block());
    Builder b(graph_, start_);
    std::unordered_map<const ObjectValue*, Value*> known{{objects_.find(graph_.input(0)), graph_.input(0)}};
    auto read = [&](Value* object, Symbol name, TypePtr type) {
      Node* n = b.insert(sym::GetAttr, {object});
      n->setAttribute(sym::name, IValue(std::string(name.text())));
      n->output()->setType(type);
      reads_.push_back(n);
      return n->output();
    };
    // In the order of the graph, so that a chain begins with what is known.
    std::vector<const Node*> chains;
    forEachNode(graph_, [&](const Node* n) {
      if (n->kind() == sym::GetAttr && objects_.find(n->output())) chains.push_back(n);
    });
    for (const Node* n : chains) {
      Value*& object = known[objects_.find(n->output())];
      if (!object) object = read(known.at(objects_.accessed(n)), ModuleObjects::attributeOf(n), n->output()->type());
    }
    for (Variable& x : variables_) {
      x.object = known.at(x.key.first);
      x.now = read(x.object, x.key.second, x.type);
    }
  }

  // ---- the latest value everywhere ----

  // A block that is being walked, and of its node the values in front of it and at the ends of its blocks.
  struct Level {
    Block* block;
    Node* next;
    std::vector<Value*> before = {};
    std::vector<std::vector<Value*>> ends = {};
  };

  void walk() {
    std::vector<Level> levels;
    levels.push_back({graph_.block(), start_});
    while (!levels.empty()) {
      Level& level = levels.back();
      Node* n = level.next;
      if (n->isReturn()) {
        Level done = std::move(level);
        levels.pop_back();
        if (!levels.empty()) leave(std::move(done), levels);
        continue;
      }
      level.next = n->next() ? n->next() : level.block->returnNode();
      if (!n->blocks().empty())
        enter(n, levels);
      else
        access(n);
    }
  }
  static Node* firstOf(Block* block) { return block->empty() ? block->returnNode() : block->first(); }

  void access(Node* n) {
    auto found = objects_.accessed(n) ? variableOf_.find(keyOf(n)) : variableOf_.end();
    if (found == variableOf_.end()) return;
    Variable& x = variables_[found->second];
    if (n->kind() == sym::SetAttr)
      x.now = n->input(1);
    else
      n->output()->replaceAllUsesWith(x.now);
    if (n->kind() != sym::SetAttr || !setsAtOnce_ || n->block() != graph_.block()) n->destroy();
  }

  const std::set<size_t>& setInside(const Node* n) const {
    static const std::set<size_t> kNone;
    auto found = setInside_.find(n);
    return found == setInside_.end() ? kNone : found->second;
  }

  void enter(Node* n, std::vector<Level>& levels) {
    Level level{n->block(0), firstOf(n->block(0))};
    for (size_t i : setInside(n)) {
      Variable& x = variables_[i];
      level.before.push_back(x.now);
      if (n->kind() != sym::Loop) continue;
      n->addInput(x.now);
      x.now = n->block(0)->addParameter(x.type);
    }
    levels.push_back(std::move(level));
  }

  void leave(Level done, std::vector<Level>& levels) {
    Node* n = done.block->owner();
    const std::set<size_t>& inside = setInside(n);
    done.ends.emplace_back();
    for (size_t i : inside) done.ends.back().push_back(variables_[i].now);
    if (n->kind() != sym::Loop && done.ends.size() < n->blocks().size()) {
      size_t k = 0;
      for (size_t i : inside) variables_[i].now = done.before[k++];
      done.block = n->block(done.ends.size());
      done.next = firstOf(done.block);
      levels.push_back(std::move(done));
      return;
    }
    size_t k = 0;
    for (size_t i : inside) {
      for (size_t b = 0; b < done.ends.size(); ++b) n->block(b)->addResult(done.ends[b][k]);
      variables_[i].now = n->addOutput(variables_[i].type);
      ++k;
    }
    if (setsAtOnce_ && n->block() == graph_.block())
      for (size_t i : inside) set(variables_[i], n->next() ? n->next() : graph_.block()->returnNode());
  }

  void set(const Variable& x, Node* before) {
    Node* n = Builder(graph_, before).insert(sym::SetAttr, {x.object, x.now}, 0);
    n->setAttribute(sym::name, IValue(std::string(x.key.second.text())));
  }
  void setAtEnd() {
    for (const Variable& x : variables_) set(x, graph_.block()->returnNode());
  }

  Graph& graph_;
  RewriteContext& context_;
  const ModuleObjects& objects_;
  std::vector<Variable> variables_;                              // in the order of the graph
  std::map<Key, size_t> variableOf_;                             // asked by key alone
  std::unordered_map<const Node*, std::set<size_t>> setInside_;  // blocks
  bool setsAtOnce_ = false;
  Node* start_ = nullptr;     // the first node that was there
  std::vector<Node*> reads_;  // that were put at the start
};

}  // namespace

bool carryAttributes(Graph& graph, RewriteContext& context) {
  bool sets = false;
  forEachNode(graph, [&](const Node* n) { sets |= n->kind() == sym::SetAttr; });
  if (!sets) return false;
  std::optional<ModuleObjects> objects = ModuleObjects::of(graph, context);
  return objects && AttributeCarrier(graph, context, *objects).run();
}

}  // namespace tscompile
