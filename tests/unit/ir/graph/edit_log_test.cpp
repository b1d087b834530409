#include "ir/graph/edit_log.h"

#include "frontend/text/parse.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/builder.h"
#include "ir/graph/clone.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "runtime/registry.h"
#include "tests/support/property.h"
#include "tests/support/random_graph.h"

#include <map>
#include <set>
#include <sstream>

namespace tscompile::test {
namespace {

std::unique_ptr<Graph> parsed(const std::string& text) {
  Diagnostics diagnostics;
  Result<std::unique_ptr<Graph>> g = parseGraph(SourceFile::make("text", text), diagnostics);
  EXPECT_TRUE(g.ok()) << renderDiagnostics(diagnostics, "test") << text;
  return g ? std::move(*g) : nullptr;
}

// Return nodes included.
std::vector<Node*> everyNode(const Graph& graph) {
  std::vector<Node*> out{graph.returnNode()};
  forEachNode(graph, [&](Node* n) {
    out.push_back(n);
    for (Block* b : n->blocks()) out.push_back(b->returnNode());
  });
  return out;
}

std::vector<Value*> everyValue(const Graph& graph) {
  std::vector<Value*> out(graph.inputs().begin(), graph.inputs().end());
  forEachNode(graph, [&](Node* n) {
    out.insert(out.end(), n->outputs().begin(), n->outputs().end());
    for (Block* b : n->blocks()) out.insert(out.end(), b->parameters().begin(), b->parameters().end());
  });
  return out;
}

// Everything that must come back: the text, the order of uses, numbers and names of values, and how many nodes there
// are.
std::string stateOf(const Graph& graph) {
  std::ostringstream out;
  out << graphText(graph) << "next " << graph.nextNumber() << ", nodes " << graph.nodeCount() << "\n";
  for (const Value* v : everyValue(graph)) {
    out << v << " %" << v->name() << " #" << v->number() << " @" << v->index() << " of " << v->node() << ":";
    size_t count = 0;
    for (const Use& u : v->uses()) {
      out << ' ' << u.user << '.' << u.index();
      ++count;
      EXPECT_EQ(u.value, v);
    }
    EXPECT_EQ(count, v->useCount());
    EXPECT_EQ(graph.find(v->givenName()), v->givenName().empty() ? nullptr : v);
    out << '\n';
  }
  size_t inBlocks = 0;
  for (const Node* n : everyNode(graph)) {
    inBlocks += !n->isReturn();
    EXPECT_FALSE(n->isDestroyed());
    for (const Use& u : n->inputs()) {
      EXPECT_EQ(u.user, n);
      EXPECT_EQ(u.previous ? u.previous->next : u.value->firstUse(), &u);
    }
    if (!n->isReturn() && n->next()) {
      EXPECT_TRUE(n->isBefore(n->next()));
    }
  }
  size_t names = 0;
  graph.forEachName([&](std::string_view) { ++names; });
  out << "names " << names << ", in blocks " << inBlocks << "\n";
  return out.str();
}

// Knows the nodes of a graph and their inputs from what it is told alone.
class Mirror : public EditObserver {
 public:
  explicit Mirror(const Graph& graph) : graph_(graph) {
    for (Node* n : everyNode(graph)) {
      if (!n->isReturn()) live_.insert(n);
      for (const Use& u : n->inputs()) inputs_[n].push_back(u.value);
    }
  }
  void imported(Node* n) override { EXPECT_TRUE(live_.insert(n).second) << "imported twice"; }
  void pruned(Node* n) override { EXPECT_EQ(live_.erase(n), 1u) << "pruned twice"; }
  void moved(Node* n) override { EXPECT_TRUE(live_.contains(n)); }
  void inputChanged(Node* n, size_t i, Value* before, Value* after) override {
    std::vector<Value*>& in = inputs_[n];
    if (!before) {
      ASSERT_EQ(i, in.size());
      in.push_back(after);
      return;
    }
    ASSERT_LT(i, in.size());
    EXPECT_EQ(in[i], before);
    in[i] = after;
    if (after) return;
    ASSERT_EQ(i + 1, in.size());
    in.pop_back();
  }

  // Nodes of a node that is out of its block count as told of.
  void check() const {
    size_t found = 0;
    for (Node* n : everyNode(graph_)) {
      if (!n->isReturn()) {
        EXPECT_TRUE(live_.contains(n)) << nodeText(*n);
        ++found;
      }
      std::vector<Value*> in;
      for (const Use& u : n->inputs()) in.push_back(u.value);
      auto it = inputs_.find(n);
      EXPECT_EQ(in, it == inputs_.end() ? std::vector<Value*>() : it->second) << nodeText(*n);
    }
    size_t apart = 0, onTheMove = 0;
    for (Node* n : live_) {
      EXPECT_FALSE(n->isDestroyed());
      if (!n->isInserted()) {  // a move has two halves
        ++onTheMove;
        continue;
      }
      const Block* b = n->block();
      while (b->owner() && b->owner()->block()) b = b->owner()->block();
      apart += b != graph_.block();
    }
    EXPECT_LE(onTheMove, 1u);
    EXPECT_EQ(found + apart + onTheMove, live_.size());
  }

 private:
  const Graph& graph_;
  std::set<Node*> live_;
  std::map<Node*, std::vector<Value*>> inputs_;
};

// Changes a graph in every way there is; what comes out need not make sense, only hang together.
class RandomEditor {
 public:
  RandomEditor(Graph& graph, Choices& choices) : graph_(graph), choices_(choices) {}

  void edit() {
    nodes_ = everyNode(graph_);
    values_ = everyValue(graph_);
    using Edit = void (RandomEditor::*)();
    static constexpr Edit kEdits[] = {
        &RandomEditor::insertNode,   &RandomEditor::insertNode,     &RandomEditor::insertNode,
        &RandomEditor::destroyNode,  &RandomEditor::destroyNode,    &RandomEditor::moveNode,
        &RandomEditor::unlinkNode,   &RandomEditor::addInput,       &RandomEditor::replaceInput,
        &RandomEditor::replaceAll,   &RandomEditor::removeInput,    &RandomEditor::removeAllInputs,
        &RandomEditor::addOutput,    &RandomEditor::removeOutput,   &RandomEditor::addBlock,
        &RandomEditor::addParameter, &RandomEditor::parameterGoes,  &RandomEditor::setAttribute,
        &RandomEditor::setAttribute, &RandomEditor::attributeGoes,  &RandomEditor::setName,
        &RandomEditor::setName,      &RandomEditor::setType,        &RandomEditor::setKind,
        &RandomEditor::place,        &RandomEditor::copyNode,       &RandomEditor::copyNode,
        &RandomEditor::renumber,     &RandomEditor::replaceByValue,
    };
    (this->*kEdits[choices_.below(std::size(kEdits))])();
  }

 private:
  template <class T>
  T* any(const std::vector<T*>& list) {
    return list.empty() ? nullptr : list[choices_.below(list.size())];
  }
  Value* value() { return any(values_); }
  Node* node() {  // no return node; null if there is no other
    for (int tries = 0; tries < 20; ++tries)
      if (Node* n = any(nodes_); !n->isReturn()) return n;
    return nullptr;
  }
  bool isInside(const Node* n, const Node* outer) {
    while (n != outer && n->block()->owner()) n = n->block()->owner();
    return n == outer;
  }

  void insertNode() {
    Builder b(graph_, any(nodes_));
    if (Node* at = node()) b.setPlaceOf(at);
    if (choices_.oneIn(3)) {
      b.constant(IValue(static_cast<int64_t>(choices_.below(9))));
      return;
    }
    std::vector<Value*> inputs;
    for (size_t i = choices_.below(5); i-- > 0;) inputs.push_back(value());
    b.insert(Symbol::of("test::op"), inputs, choices_.below(4));
  }
  void destroyNode() {
    Node* n = node();
    if (!n) return;
    destroy(n);
  }
  // Values inside may be used outside here.
  void destroy(Node* n) {
    std::vector<Node*> tree{n};
    for (size_t i = 0; i < tree.size(); ++i) {
      for (Value* v : tree[i]->outputs()) v->replaceAllUsesWith(graph_.input(0));
      for (Block* b : tree[i]->blocks()) {
        for (Value* v : b->parameters()) v->replaceAllUsesWith(graph_.input(0));
        for (Node* inner : b->nodes()) tree.push_back(inner);
      }
    }
    n->destroy();
  }
  void replaceByValue() {
    Node* n = node();
    if (!n || n->outputCount() != 1) return;
    Value* made = Builder(graph_, n).insert(Symbol::of("test::made"), {graph_.input(0)})->output();
    std::string name(n->output()->isNamed() ? n->output()->givenName() : "");
    n->output()->replaceAllUsesWith(made);
    if (choices_.oneIn(2)) destroy(n);
    if (!name.empty()) made->setName(name);
  }
  void moveNode() {
    Node *n = node(), *other = any(nodes_);
    if (!n || n == other || isInside(other, n)) return;
    if (choices_.oneIn(2) && !other->isReturn())
      n->moveAfter(other);
    else
      n->moveBefore(other);
  }
  void unlinkNode() {
    Node *n = node(), *other = any(nodes_);
    if (!n || isInside(other, n)) return;
    n->unlink();
    n->insertBefore(other);
  }
  void addInput() {
    Node* n = any(nodes_);
    n->insertInput(choices_.below(n->inputCount() + 1), value());
  }
  void replaceInput() {
    Node* n = any(nodes_);
    if (n->inputCount()) n->replaceInput(choices_.below(n->inputCount()), value());
  }
  void replaceAll() { value()->replaceAllUsesWith(value()); }
  void removeInput() {
    Node* n = any(nodes_);
    if (n->inputCount()) n->removeInput(choices_.below(n->inputCount()));
  }
  void removeAllInputs() { any(nodes_)->removeAllInputs(); }
  void addOutput() {
    if (Node* n = node()) n->addOutput(types().tensor);
  }
  void removeOutput() {
    Node* n = node();
    if (!n || !n->outputCount()) return;
    size_t i = choices_.below(n->outputCount());
    if (choices_.oneIn(2)) n->output(i)->replaceAllUsesWith(graph_.input(0));
    if (!n->output(i)->hasUses()) n->removeOutput(i);
  }
  void addBlock() {
    Node* n = node();
    if (!n) return;
    Block* b = n->addBlock();
    Value* p = b->addParameter(types().tensor);
    Node* inner = graph_.create(Symbol::of("test::inner"), {p, value()});
    b->append(inner);
    b->addResult(inner->output());
  }
  Block* block() {
    std::vector<Block*> blocks{graph_.block()};
    for (Node* n : nodes_) blocks.insert(blocks.end(), n->blocks().begin(), n->blocks().end());
    return any(blocks);
  }
  void addParameter() {
    Block* b = block();
    b->insertParameter(choices_.below(b->parameters().size() + 1), types().integer);
  }
  void parameterGoes() {
    Block* b = block();
    size_t first = b == graph_.block() ? 1 : 0;  // the first input is what others are replaced by
    if (b->parameters().size() <= first) return;
    size_t i = first + choices_.below(b->parameters().size() - first);
    if (choices_.oneIn(2)) b->parameter(i)->replaceAllUsesWith(graph_.input(0));
    if (!b->parameter(i)->hasUses()) b->removeParameter(i);
  }
  Symbol attributeName() {
    static const Symbol kNames[] = {Symbol::of("a"), Symbol::of("b"), Symbol::of("Subgraph"), sym::value};
    return choices_.oneOf(kNames);
  }
  void setAttribute() {
    Node* n = node();
    if (!n) return;
    Symbol name = attributeName();
    if (name == sym::Subgraph)
      n->setAttribute(name, parsed("graph(%x : Tensor):\n  return (%x)\n"));
    else if (choices_.oneIn(3))
      n->setAttribute(name, std::vector<TypePtr>{types().tensor});
    else
      n->setAttribute(name, IValue(std::string(choices_.below(40), 'x')));
  }
  void attributeGoes() {
    Node* n = node();
    if (n) n->removeAttribute(attributeName());
  }
  void setName() {
    static const char* const kNames[] = {"x", "y", "x.1", "x.2", "x.7", "input", "", "12"};
    value()->setName(choices_.oneOf(kNames));
  }
  void setType() {
    static const TypePtr kTypes[] = {types().tensor, types().integer, types().floating};
    value()->setType(choices_.oneOf(kTypes));
  }
  void setKind() {
    if (Node* n = node()) n->setKind(Symbol::of(choices_.oneIn(2) ? "test::kind" : "aten::relu"));
  }
  void place() {
    Node *n = node(), *from = node();
    if (n) n->copyPlace(from);
  }
  void copyNode() {
    Node *n = node(), *before = any(nodes_);
    if (!n) return;
    ValueMap values;
    if (choices_.oneIn(3) && n->hasBlocks()) {
      for (Value* p : n->block(0)->parameters()) values[p] = graph_.input(0);
      if (!isInside(before, n)) cloneNodesBefore(*n->block(0), before, values);
    } else {
      cloneNode(*n, graph_, values)->insertBefore(before);
    }
  }
  void renumber() { graph_.renumber(value()); }

  Graph& graph_;
  Choices& choices_;
  std::vector<Node*> nodes_;
  std::vector<Value*> values_;
};

// What new values and clashing names are called from here on. The graph is as before afterwards.
std::string namesToCome(EditLog& log) {
  size_t here = log.position();
  Graph& g = log.graph();
  std::string out;
  for (const char* wanted : {"x", "x", "x.1", "y"}) {
    Value* v = Builder(g).insert(Symbol::of("test::op"), {})->output();
    out += v->name() + " ";
    v->setName(wanted);
  }
  for (Value* v : everyValue(g)) out += v->name() + " ";
  log.moveTo(here);
  return out;
}

// Random changes with random steps back and forward in between.
void checkRandomEdits(uint64_t seed, size_t steps) {
  Choices choices(seed);
  RandomGraphOptions options;
  options.nodes = 6;
  std::unique_ptr<Graph> graph = randomGraph(choices, allOps(), options);
  EditLog log(*graph);
  Mirror mirror(*graph);
  log.attach(&mirror);
  RandomEditor editor(*graph, choices);
  std::map<size_t, std::string> states{{0, stateOf(*graph)}}, names;
  names[0] = namesToCome(log);
  for (size_t i = 0; i < steps; ++i) {
    editor.edit();
    states[log.position()] = stateOf(*graph);
    ASSERT_EQ(states.rbegin()->first, log.position());
    if (choices.oneIn(4)) names[log.position()] = namesToCome(log);
    mirror.check();
    if (!choices.oneIn(5)) continue;
    for (size_t jumps = 1 + choices.below(3); jumps-- > 0;) {
      // To a place that is known, or into the middle of a change.
      size_t to = choices.below(log.size() + 1);
      log.moveTo(to);
      mirror.check();
      if (auto it = states.find(to); it != states.end()) {
        ASSERT_EQ(stateOf(*graph), it->second);
      }
    }
    log.moveTo(states.lower_bound(choices.below(states.rbegin()->first + 1))->first);
    ASSERT_EQ(stateOf(*graph), states[log.position()]);
    if (choices.oneIn(2)) {  // go on from here
      states.erase(states.upper_bound(log.position()), states.end());
      names.erase(names.upper_bound(log.position()), names.end());
      if (auto it = names.find(log.position()); it != names.end()) {
        ASSERT_EQ(namesToCome(log), it->second);
      }
    } else {
      log.moveTo(states.rbegin()->first);
    }
    ASSERT_EQ(stateOf(*graph), states[log.position()]);
  }
  log.moveTo(0);
  ASSERT_EQ(stateOf(*graph), states[0]);
  ASSERT_EQ(namesToCome(log), names[0]);
  mirror.check();
  Diagnostics diagnostics;
  EXPECT_TRUE(verify(*graph, allOps(), diagnostics)) << renderDiagnostics(diagnostics, "test");
}

constexpr const char* kText =
    "graph(%x : Tensor,\n      %c : bool):\n"
    "  %n : int = prim::Constant[value=3]()\n"
    "  %y : Tensor = aten::relu(%x)\n"
    "  %z : Tensor = prim::If(%c)\n"
    "    block0():\n"
    "      %a : Tensor = aten::mul(%y, %y)\n"
    "      -> (%a)\n"
    "    block1():\n"
    "      -> (%x)\n"
    "  %w : Tensor = aten::matmul(%z, %y)\n"
    "  return (%w)\n";

}  // namespace

TEST(EditLog, RandomEditsAreTakenBackAndMadeAgain) {
  forEachSeed(250, [](uint64_t seed) { checkRandomEdits(seed, 40); });
}

TEST(EditLog, ForgettingFreesWhatIsGoneAndKeepsTheGraph) {
  forEachSeed(60, [](uint64_t seed) {
    Choices choices(seed);
    RandomGraphOptions options;
    options.nodes = 6;
    std::unique_ptr<Graph> graph = randomGraph(choices, allOps(), options);
    EditLog log(*graph);
    RandomEditor editor(*graph, choices);
    std::vector<size_t> places{0};
    for (size_t i = 0; i < 30; ++i) {
      editor.edit();
      places.push_back(log.position());
      if (choices.oneIn(6)) {
        places.resize(1 + choices.below(places.size()));
        log.moveTo(places.back());
      }
      if (!choices.oneIn(6)) continue;
      std::string before = stateOf(*graph);
      log.clear();
      places = {0};
      ASSERT_EQ(stateOf(*graph), before);
      ASSERT_EQ(log.position(), 0u);
      ASSERT_EQ(log.size(), 0u);
    }
    log.moveTo(0);
    log.clear();
    // Only what the blocks show is left.
    size_t inBlocks = 0;
    forEachNode(*graph, [&](Node*) { ++inBlocks; });
    ASSERT_EQ(graph->nodeCount(), inBlocks);
    ASSERT_EQ(graph->valueCount(), everyValue(*graph).size());
  });
}

TEST(EditLog, AGraphLooksTheSameWithAndWithoutALog) {
  forEachSeed(60, [](uint64_t seed) {
    std::string texts[2];
    for (bool logged : {false, true}) {
      Choices choices(seed);
      RandomGraphOptions options;
      options.nodes = 6;
      std::unique_ptr<Graph> graph = randomGraph(choices, allOps(), options);
      std::optional<EditLog> log;
      if (logged) log.emplace(*graph);
      RandomEditor editor(*graph, choices);
      for (size_t i = 0; i < 40; ++i) editor.edit();
      texts[logged] = graphText(*graph) + std::to_string(graph->nodeCount());
    }
    ASSERT_EQ(texts[0], texts[1]);
  });
}

TEST(EditLog, AChangeAfterAStepBackForgetsWhatWasTakenBack) {
  auto graph = parsed(kText);
  EditLog log(*graph);
  Node* relu = graph->find("y")->node();
  relu->setKind(Symbol::of("aten::tanh"));
  relu->setKind(Symbol::of("aten::exp"));
  log.moveTo(1);
  EXPECT_EQ(relu->kind().text(), "aten::tanh");
  EXPECT_EQ(log.size(), 2u);
  relu->setKind(Symbol::of("aten::sin"));
  EXPECT_EQ(log.size(), 2u);
  EXPECT_EQ(log.position(), 2u);
  log.moveTo(0);
  EXPECT_EQ(graphText(*graph), kText);
  log.moveTo(2);
  EXPECT_EQ(relu->kind().text(), "aten::sin");
}

TEST(EditLog, DestroyedNodesStayReadableUntilTheyAreForgotten) {
  auto graph = parsed(kText);
  EditLog log(*graph);
  Node* branch = graph->find("z")->node();
  Node* inner = graph->find("a")->node();
  size_t nodes = graph->nodeCount();
  branch->output()->replaceAllUsesWith(graph->find("y"));
  branch->destroy();
  EXPECT_TRUE(branch->isDestroyed());
  EXPECT_TRUE(inner->isDestroyed());
  EXPECT_EQ(graph->nodeCount(), nodes - 2);
  EXPECT_EQ(branch->kind(), sym::If);
  EXPECT_EQ(graph->find("a"), nullptr);
  log.moveTo(0);
  EXPECT_FALSE(branch->isDestroyed());
  EXPECT_FALSE(inner->isDestroyed());
  EXPECT_EQ(graph->nodeCount(), nodes);
  EXPECT_EQ(graph->find("a"), inner->output());
}

TEST(EditLog, TellsWhichNodesWereTouchedAndCreated) {
  auto graph = parsed(kText);
  EditLog log(*graph);
  Node* product = graph->find("w")->node();
  size_t from = log.position();
  Builder b(*graph, product);
  Node* made = b.insert(Symbol::of("aten::tanh"), {graph->find("z")});
  Node* gone = b.insert(Symbol::of("aten::exp"), {graph->find("z")});
  product->replaceInput(0, made->output());
  gone->destroy();
  EXPECT_EQ(log.created(from), std::vector<Node*>{made});
  std::set<Node*> touched;
  log.forEachTouched(from, [&](Node* n) { touched.insert(n); });
  EXPECT_EQ(touched, (std::set<Node*>{made, product}));
}

TEST(EditLog, ObserversAreToldOfInnerNodesOneByOne) {
  auto graph = parsed(kText);
  EditLog log(*graph);
  struct Counter : EditObserver {
    int in = 0, out = 0, moves = 0;
    void imported(Node*) override { ++in; }
    void pruned(Node*) override { ++out; }
    void moved(Node*) override { ++moves; }
  } counter;
  log.attach(&counter);
  Node* branch = graph->find("z")->node();
  branch->moveAfter(graph->find("w")->node());
  EXPECT_EQ(counter.moves, 1);
  EXPECT_EQ(counter.in + counter.out, 0);
  branch->output()->replaceAllUsesWith(graph->find("y"));
  branch->destroy();
  EXPECT_EQ(counter.out, 2);
  log.moveTo(0);
  EXPECT_EQ(counter.in, 2);
  EXPECT_EQ(counter.moves, 2);
  log.moveTo(log.size());
  EXPECT_EQ(counter.out, 4);
  log.detach(&counter);
  log.moveTo(0);
  EXPECT_EQ(counter.in, 2);
}

TEST(EditLog, AnObserverIsAttachedOnce) {
  auto graph = parsed(kText);
  EditLog log(*graph);
  struct Counter : EditObserver {
    int count = 0;
    void kindChanged(Node*, Symbol, Symbol) override { ++count; }
  } counter;
  log.attach(&counter);
  log.attach(&counter);
  Node* relu = graph->find("y")->node();
  relu->setKind(Symbol::of("aten::tanh"));
  EXPECT_EQ(counter.count, 1);
  log.detach(&counter);
  relu->setKind(Symbol::of("aten::exp"));
  EXPECT_EQ(counter.count, 1);
}

TEST(EditLog, DeepNestingCostsNoStack) {
  Graph graph;
  Value* x = graph.addInput(types().tensor);
  EditLog log(graph);
  constexpr size_t kDepth = 100'000;
  Node* outer = nullptr;
  Block* at = graph.block();
  for (size_t i = 0; i < kDepth; ++i) {
    Node* n = graph.create(Symbol::of("test::nest"), {x});
    at->append(n);
    if (!outer) outer = n;
    at = n->addBlock();
  }
  outer->destroy();
  EXPECT_EQ(graph.nodeCount(), 0u);
  log.moveTo(log.size() - 1);
  EXPECT_EQ(graph.nodeCount(), kDepth);
  log.moveTo(log.size());
  log.clear();
  EXPECT_EQ(graph.nodeCount(), 0u);
  EXPECT_EQ(graph.valueCount(), 1u);
}

}  // namespace tscompile::test
