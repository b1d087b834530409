#include "ir/graph/graph.h"

#include "ir/graph/edit_log.h"
#include "ir/support/check.h"
#include "ir/support/number_of_text.h"

#include <charconv>
#include <new>

namespace tscompile {

// ---- attributes ----

Attribute::Attribute(Symbol name, Payload payload) : name(name), payload(std::move(payload)) {}
Attribute::Attribute(Attribute&&) noexcept = default;
Attribute& Attribute::operator=(Attribute&&) noexcept = default;
Attribute::~Attribute() = default;

const Attribute* Node::attribute(Symbol name) const {
  for (const Attribute& a : attributes_)
    if (a.name == name) return &a;
  return nullptr;
}

const IValue* Node::attributeValue(Symbol name) const {
  const Attribute* a = attribute(name);
  return a ? a->value() : nullptr;
}

void Node::setAttribute(Symbol name, Attribute::Payload payload) {
  for (size_t i = 0; i < attributes_.size(); ++i) {
    Attribute& a = attributes_[i];
    if (a.name != name) continue;
    std::swap(a.payload, payload);
    if (EditLog* log = graph_->log_) log->attributeSet(this, i, std::move(payload));
    return;
  }
  attributes_.emplace_back(name, std::move(payload));
  if (EditLog* log = graph_->log_) log->attributeAdded(this);
}

void Node::removeAttribute(Symbol name) {
  for (size_t i = 0; i < attributes_.size(); ++i) {
    if (attributes_[i].name != name) continue;
    Attribute old = std::move(attributes_[i]);
    attributes_.erase(attributes_.begin() + static_cast<std::ptrdiff_t>(i));
    if (EditLog* log = graph_->log_) log->attributeRemoved(this, i, std::move(old));
    return;
  }
}

Graph* Node::subgraph() const {
  const Attribute* a = attribute(sym::Subgraph);
  return a ? a->graph() : nullptr;
}

// ---- uses ----

// After `previous` in the list of the value's uses; null: in front of all.
void Node::linkUseAfter(Use& use, Value* value, Use* previous) {
  use.value = value;
  use.user = this;
  use.previous = previous;
  use.next = previous ? previous->next : value->firstUse_;
  (previous ? previous->next : value->firstUse_) = &use;
  (use.next ? use.next->previous : value->lastUse_) = &use;
  ++value->useCount_;
}

void Node::unlinkUse(Use& use) {
  Value* v = use.value;
  (use.previous ? use.previous->next : v->firstUse_) = use.next;
  (use.next ? use.next->previous : v->lastUse_) = use.previous;
  --v->useCount_;
  use.value = nullptr;
}

// Moves the slots to other memory, fixing the neighbours that point at them.
void Node::relocateInputs(Use* to) {
  for (uint32_t i = 0; i < inputCount_; ++i) {
    to[i] = inputs_[i];
    Use& u = to[i];
    (u.previous ? u.previous->next : u.value->firstUse_) = &u;
    (u.next ? u.next->previous : u.value->lastUse_) = &u;
    // A value used twice in a row by this node: the neighbour may lie in the old memory; it is fixed when its turn
    // comes.
  }
}

void Node::insertInput(size_t at, Value* value) {
  if (inputCount_ == inputCapacity_) {
    uint32_t capacity = std::max<uint32_t>(1, inputCapacity_ * 2);
    Use* bigger = graph_->arena_.allocateArray<Use>(capacity);
    relocateInputs(bigger);
    graph_->arena_.release(inputs_, inputCapacity_ * sizeof(Use));
    inputs_ = bigger;
    inputCapacity_ = capacity;
  }
  new (&inputs_[inputCount_]) Use;
  linkUse(inputs_[inputCount_++], value);
  if (EditLog* log = graph_->log_) log->inputPushed(this);
  // Bring it to its place by exchanging values; the order of uses follows the order of slots only for appended ones.
  for (size_t i = inputCount_ - 1; i > at; --i) {
    Value* moved = inputs_[i - 1].value;
    replaceInput(i - 1, inputs_[i].value);
    replaceInput(i, moved);
  }
}

void Node::replaceInput(size_t i, Value* value) {
  if (inputs_[i].value == value) return;
  if (EditLog* log = graph_->log_) log->inputSet(this, i, value);
  unlinkUse(inputs_[i]);
  linkUse(inputs_[i], value);
}

void Node::removeInput(size_t i) {
  for (; i + 1 < inputCount_; ++i) replaceInput(i, inputs_[i + 1].value);
  popInput();
}

void Node::popInput() {
  if (EditLog* log = graph_->log_) log->inputPopped(this);
  unlinkUse(inputs_[--inputCount_]);
}

void Node::removeAllInputs() {
  while (inputCount_) popInput();
}

Graph* Node::graph() const { return graph_; }

// ---- values ----

Block* Value::block() const { return node_ ? node_->block() : parameterOf_; }
Graph* Value::graph() const { return node_ ? node_->graph() : parameterOf_->graph(); }
void Value::setType(TypePtr type) {
  if (type == type_) return;
  if (Graph* g = graph(); g && g->log_) g->log_->typeSet(this);
  type_ = type;
}

void Value::replaceAllUsesWith(Value* other) {
  if (other == this) return;
  while (firstUse_) {
    Use& use = *firstUse_;
    use.user->replaceInput(use.index(), other);
  }
}

std::string Value::name() const {
  std::string out;
  appendName(out);
  return out;
}

void Value::appendName(std::string& out) const {
  if (nameLength_) {
    out.append(name_, nameLength_);
    return;
  }
  char buffer[24];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, number_);
  out.append(buffer, end);
}

namespace {
bool allDigits(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}
}  // namespace

bool Value::setName(std::string_view name) {
  Graph* g = graph();
  if (name.empty()) {
    g->removeName(this);
    if (g->find(std::to_string(number_))) g->renumber(this);  // a text has called another one so
    return true;
  }
  if (allDigits(name)) return false;
  if (givenName() == name) return true;
  Value* older = g->giveTextName(this, name);
  if (older) {
    // PyTorch renames the older owner to `base.N`.
    std::string renamed = g->uniqueName(name);
    g->giveTextName(older, renamed);
  }
  return true;
}

void Node::attachOutput(size_t at, Value* v) {
  if (outputCount_ == outputCapacity_) {
    uint32_t capacity = std::max<uint32_t>(1, outputCapacity_ * 2);
    Value** bigger = graph_->arena_.allocateArray<Value*>(capacity);
    std::copy_n(outputs_, outputCount_, bigger);
    graph_->arena_.release(outputs_, outputCapacity_ * sizeof(Value*));
    outputs_ = bigger;
    outputCapacity_ = capacity;
  }
  v->node_ = this;
  for (size_t i = outputCount_++; i > at; --i) outputs_[i] = outputs_[i - 1];
  outputs_[at] = v;
  for (size_t i = at; i < outputCount_; ++i) outputs_[i]->index_ = static_cast<uint32_t>(i);
}

void Node::detachOutput(size_t i) {
  for (; i + 1 < outputCount_; ++i) {
    outputs_[i] = outputs_[i + 1];
    outputs_[i]->index_ = static_cast<uint32_t>(i);
  }
  --outputCount_;
}

Value* Node::addOutput(TypePtr type) {
  Value* v = graph_->makeValue(type);
  attachOutput(outputCount_, v);
  if (EditLog* log = graph_->log_) log->outputAdded(v);
  return v;
}

void Node::removeOutput(size_t i) {
  Value* v = outputs_[i];
  TS_CHECK(!v->hasUses());
  graph_->removeName(v);
  detachOutput(i);
  if (EditLog* log = graph_->log_)
    log->outputRemoved(this, i, v);
  else
    graph_->destroyValue(v);
}

// ---- blocks ----

Block* Node::addBlock() {
  Block* b = graph_->makeBlock(this);
  Block** bigger = graph_->arena_.allocateArray<Block*>(blockCount_ + 1);
  std::copy_n(blocks_, blockCount_, bigger);
  graph_->arena_.release(blocks_, blockCount_ * sizeof(Block*));
  blocks_ = bigger;
  blocks_[blockCount_++] = b;
  if (EditLog* log = graph_->log_) log->blockAdded(b);
  return b;
}

Value* Block::addParameter(TypePtr type) { return insertParameter(parameterCount_, type); }

void Block::attachParameter(size_t at, Value* v) {
  if (parameterCount_ == parameterCapacity_) {
    uint32_t capacity = std::max<uint32_t>(2, parameterCapacity_ * 2);
    Value** bigger = graph_->arena_.allocateArray<Value*>(capacity);
    std::copy_n(parameters_, parameterCount_, bigger);
    graph_->arena_.release(parameters_, parameterCapacity_ * sizeof(Value*));
    parameters_ = bigger;
    parameterCapacity_ = capacity;
  }
  v->parameterOf_ = this;
  for (size_t i = parameterCount_; i > at; --i) parameters_[i] = parameters_[i - 1];
  parameters_[at] = v;
  ++parameterCount_;
  for (size_t i = at; i < parameterCount_; ++i) parameters_[i]->index_ = static_cast<uint32_t>(i);
}

void Block::detachParameter(size_t i) {
  for (; i + 1 < parameterCount_; ++i) {
    parameters_[i] = parameters_[i + 1];
    parameters_[i]->index_ = static_cast<uint32_t>(i);
  }
  --parameterCount_;
}

Value* Block::insertParameter(size_t at, TypePtr type) {
  Value* v = graph_->makeValue(type);
  attachParameter(at, v);
  if (EditLog* log = graph_->log_) log->parameterInserted(v);
  return v;
}

void Block::removeParameter(size_t i) {
  Value* v = parameters_[i];
  TS_CHECK(!v->hasUses());
  graph_->removeName(v);
  detachParameter(i);
  if (EditLog* log = graph_->log_)
    log->parameterRemoved(this, i, v);
  else
    graph_->destroyValue(v);
}

void Block::prepend(Node* node) { node->insertAfter(return_); }

// ---- order ----

namespace {
constexpr int64_t kSpacing = int64_t{1} << 40;  // between nodes that are appended one after the other
}

void Block::renumber() {
  // 2^22 nodes fit at full spacing; more share the range evenly.
  int64_t count = 1;
  for (Node* n = return_->next_; n != return_; n = n->next_) ++count;
  int64_t spacing = std::max<int64_t>(2, std::min(kSpacing, (INT64_MAX / 2) / count));
  int64_t at = 0;
  for (Node* n = return_->next_; n != return_; n = n->next_) n->position_ = at += spacing;
}

void Node::place() {
  Node* end = block_->return_;
  if (next_ == end) {
    if (previous_ == end) {
      position_ = 0;
    } else if (__builtin_add_overflow(previous_->position_, kSpacing, &position_)) {
      block_->renumber();
    }
  } else if (previous_ == end) {
    if (__builtin_sub_overflow(next_->position_, kSpacing, &position_)) block_->renumber();
  } else {
    int64_t low = previous_->position_, high = next_->position_;
    position_ = low + static_cast<int64_t>((static_cast<uint64_t>(high) - static_cast<uint64_t>(low)) / 2);
    if (position_ == low) block_->renumber();
  }
}

bool Node::isBefore(const Node* other) const {
  if (this == other) return false;
  const Node* a = this;
  const Node* b = other;
  if (a->block_ != b->block_) {
    // Climb to the nodes of the innermost common block that hold them.
    size_t depthOfA = a->block_->depth(), depthOfB = b->block_->depth();
    for (; depthOfA > depthOfB; --depthOfA) a = a->block_->owner();
    for (; depthOfB > depthOfA; --depthOfB) b = b->block_->owner();
    while (a->block_ != b->block_) {
      a = a->block_->owner();
      b = b->block_->owner();
      if (!a || !b) return false;
    }
    if (a == b) {
      // One holds the other, or both are in different blocks of one node.
      if (a == this) return true;
      if (b == other) return false;
      auto blockOf = [&](const Node* n) {
        while (n->block_->owner() != a) n = n->block_->owner();
        return n->block_;
      };
      const Block* x = blockOf(this);
      for (Block* block : a->blocks())
        if (block == x)
          return x != blockOf(other);
        else if (block == blockOf(other))
          return false;
      return false;
    }
  }
  if (a->isReturn()) return false;
  if (b->isReturn()) return true;
  return a->position_ < b->position_;
}

void Node::insertBefore(Node* other) {
  TS_CHECK(!isInserted() && other->isInserted());
  block_ = other->block_;
  next_ = other;
  previous_ = other->previous_;
  previous_->next_ = this;
  next_->previous_ = this;
  place();
  if (EditLog* log = graph_->log_) log->linked(this);
}

void Node::insertAfter(Node* other) {
  TS_CHECK(!isInserted() && other->isInserted());
  insertBefore(other->next_);
}

void Node::unlink() {
  if (EditLog* log = graph_->log_) log->unlinked(this);
  previous_->next_ = next_;
  next_->previous_ = previous_;
  next_ = previous_ = nullptr;
  block_ = nullptr;
}

void Node::moveBefore(Node* other) {
  if (EditLog* log = graph_->log_) log->moving_ = true;
  unlink();
  insertBefore(other);
  if (EditLog* log = graph_->log_) log->moving_ = false;
}

void Node::moveAfter(Node* other) {
  TS_CHECK(other != this && other->isInserted());
  if (other->next_ == this) return;
  moveBefore(other->next_);
}

void Node::copyPlace(const Node* other) {
  if (EditLog* log = graph_->log_) log->placeSet(this);
  range = other->range;
  location = other->location;
  scope = other->scope;
}

void Node::setKind(Symbol kind) {
  if (EditLog* log = graph_->log_) log->kindSet(this, kind);
  graph_->setKind(this, kind);
}

void Node::destroy() {
  std::vector<Node*> tree{this};
  for (size_t i = 0; i < tree.size(); ++i)
    for (Block* b : tree[i]->blocks()) {
      b->returnNode()->removeAllInputs();
      for (Node* n : b->nodes()) tree.push_back(n);
    }
  for (Node* n : tree) n->removeAllInputs();
  if (isInserted()) unlink();
  EditLog* log = graph_->log_;
  if (!log) return graph_->freeTree(this);
  for (Node* n : tree) {
    for (Value* v : n->outputs()) {
      TS_CHECK(!v->hasUses());
      graph_->removeName(v);
    }
    for (Block* b : n->blocks())
      for (Value* v : b->parameters()) graph_->removeName(v);
  }
  log->destroyed(this, tree);
}

void Graph::freeNode(Node* n) {
  for (Value* v : n->outputs()) {
    TS_CHECK(!v->hasUses());
    destroyValue(v);
  }
  arena_.release(n->inputs_, n->inputCapacity_ * sizeof(Use));
  arena_.release(n->outputs_, n->outputCapacity_ * sizeof(Value*));
  arena_.release(n->blocks_, n->blockCount_ * sizeof(Block*));
  kinds_.set(idOf(n), Symbol());
  nodes_.destroy(n);
}

void Graph::freeBlock(Block* b) {
  for (Value* v : b->parameters()) destroyValue(v);
  arena_.release(b->parameters_, b->parameterCapacity_ * sizeof(Value*));
  freeNode(b->returnNode());
  blocks_.destroy(b);
}

void Graph::freeTree(Node* node) {
  std::vector<Node*> tree{node};
  std::vector<Block*> blocks;
  for (size_t i = 0; i < tree.size(); ++i)
    for (Block* b : tree[i]->blocks()) {
      blocks.push_back(b);
      for (Node* n : b->nodes()) tree.push_back(n);
    }
  // Inner nodes and parameters first, so that nothing points at what is gone.
  for (size_t i = tree.size(); i-- > 0;) freeNode(tree[i]);
  for (Block* b : blocks) freeBlock(b);
}

// ---- graph ----

Graph::Graph() { block_ = makeBlock(nullptr); }

namespace {
// Graphs inside attributes of graphs are destroyed one by one, however deep they are nested.
thread_local std::vector<std::unique_ptr<Graph>>* tDyingGraphs = nullptr;

void takeSubgraphs(Attribute& attribute, std::vector<std::unique_ptr<Graph>>& into) {
  if (auto* one = std::get_if<std::unique_ptr<Graph>>(&attribute.payload)) {
    if (*one) into.push_back(std::move(*one));
  } else if (auto* many = std::get_if<std::vector<std::unique_ptr<Graph>>>(&attribute.payload)) {
    for (auto& g : *many) into.push_back(std::move(g));
    many->clear();
  }
}
}  // namespace

Graph::~Graph() {
  std::vector<std::unique_ptr<Graph>> local;
  bool outermost = tDyingGraphs == nullptr;
  if (outermost) tDyingGraphs = &local;
  try {
    forEachNode(block_, [](Node* n) {
      for (Attribute& a : n->attributes_) takeSubgraphs(a, *tDyingGraphs);
    });
  } catch (const std::bad_alloc&) {
    // Without memory for the list the others go with the nodes that hold them, one inside the other.
  }
  if (!outermost) return;
  while (!local.empty()) {
    std::unique_ptr<Graph> next = std::move(local.back());
    local.pop_back();
    next.reset();
  }
  tDyingGraphs = nullptr;
}

Value* Graph::makeValue(TypePtr type) {
  Value* v = values_.make();
  v->type_ = type;
  v->number_ = nextNumber_++;
  return v;
}

void Graph::destroyValue(Value* value) {
  removeName(value);
  values_.destroy(value);
}

Block* Graph::makeBlock(Node* owner) {
  Block* b = blocks_.make(this, owner);
  Node* end = nodes_.make(sym::Return, b);
  end->graph_ = this;
  end->next_ = end->previous_ = end;
  b->return_ = end;
  return b;
}

Node* Graph::create(Symbol kind, std::span<Value* const> inputs, size_t outputs) {
  Node* n = nodes_.make(kind, nullptr);
  n->graph_ = this;
  kinds_.set(idOf(n), kind);
  if (log_) log_->created(n);
  if (!inputs.empty()) {
    n->inputCapacity_ = static_cast<uint32_t>(inputs.size());
    n->inputs_ = arena_.allocateArray<Use>(inputs.size());
    for (Value* v : inputs) {
      new (&n->inputs_[n->inputCount_]) Use;
      n->linkUse(n->inputs_[n->inputCount_++], v);
      if (log_) log_->inputPushed(n);
    }
  }
  if (outputs) {
    n->outputCapacity_ = static_cast<uint32_t>(outputs);
    n->outputs_ = arena_.allocateArray<Value*>(outputs);
    TypePtr tensor = types().tensor;
    for (size_t i = 0; i < outputs; ++i) n->addOutput(tensor);
  }
  return n;
}

void Graph::setKind(Node* node, Symbol kind) {
  node->kind_ = kind;
  kinds_.set(idOf(node), kind);
}

void Graph::hide(Node* node, bool hidden) {
  node->destroyed_ = hidden;
  hiddenNodes_ += hidden ? 1 : -1;
  kinds_.set(idOf(node), hidden ? Symbol() : node->kind());
}

std::vector<Node*> Graph::nodesOf(const std::function<bool(Symbol)>& wants) const {
  std::vector<Node*> nodes;
  kinds_.forEach(wants, [&](uint32_t id) {
    Node* n = nodes_.at(id);
    __builtin_prefetch(n);
    nodes.push_back(n);
  });
  std::erase_if(nodes, [](const Node* n) { return !n->isInserted(); });
  // Most graphs were made in text order.
  auto before = [](const Node* a, const Node* b) { return a->isBefore(b); };
  if (!std::is_sorted(nodes.begin(), nodes.end(), before)) std::stable_sort(nodes.begin(), nodes.end(), before);
  return nodes;
}

void Graph::keepAlive(SourcePtr source) {
  if (source && std::find(sources_.begin(), sources_.end(), source) == sources_.end())
    sources_.push_back(std::move(source));
}

// ---- names ----

namespace {
Value* const kRemoved = reinterpret_cast<Value*>(1);
}

Value* Graph::find(std::string_view name) const {
  if (names_.empty()) return nullptr;
  size_t mask = names_.size() - 1;
  for (size_t i = hashText(name) & mask;; i = (i + 1) & mask) {
    Value* v = names_[i];
    if (!v) return nullptr;
    if (v != kRemoved && v->givenName() == name) return v;
  }
}

void Graph::growNames() {
  std::vector<Value*> old = std::move(names_);
  names_.assign(std::max<size_t>(64, old.size() * 2), nullptr);
  nameCount_ = 0;
  for (Value* v : old)
    if (v && v != kRemoved) addName(v);
}

void Graph::addName(Value* value) {
  if ((nameCount_ + 1) * 2 > names_.size()) growNames();
  size_t mask = names_.size() - 1;
  size_t i = hashText(value->givenName()) & mask;
  while (names_[i] && names_[i] != kRemoved) i = (i + 1) & mask;
  if (!names_[i]) ++nameCount_;  // removed entries stay counted until the table grows
  names_[i] = value;
}

void Graph::renumber(Value* value) {
  if (log_) log_->namingSet(value);
  recordNextNumber();
  value->number_ = nextNumber_++;
}

void Graph::reserveNumbers(uint64_t next) {
  recordNextNumber();
  nextNumber_ = std::max(nextNumber_, next);
}

void Graph::recordNextNumber() {
  if (log_) log_->nextNumberSet();
}

void Graph::removeName(Value* value) {
  if (!value->nameLength_) return;
  if (log_) log_->namingSet(value);
  takeFromNames(value);
  value->nameLength_ = 0;
}

void Graph::takeFromNames(Value* value) {
  size_t mask = names_.size() - 1;
  size_t i = hashText(value->givenName()) & mask;
  while (names_[i] != value) i = (i + 1) & mask;
  names_[i] = kRemoved;
}

Value* Graph::giveTextName(Value* value, std::string_view name) {
  Value* older = find(name);
  if (older == value) return nullptr;
  if (older) removeName(older);
  std::string_view copy = arena_.copy(name);  // before the old name goes: they may be the same text
  removeName(value);
  if (log_) log_->namingSet(value);
  value->name_ = copy.data();
  value->nameLength_ = static_cast<uint32_t>(copy.size());
  value->numericName_ = allDigits(copy);
  addName(value);
  return older;
}

void Graph::copyNaming(Value* to, const Value* from) {
  if (log_) log_->namingSet(to);
  to->number_ = from->number_;
  if (from->nameLength_) giveTextName(to, from->givenName());
}

std::string Graph::uniqueName(std::string_view wanted) {
  std::string base(wanted);
  uint64_t suffix = 1;
  size_t dot = wanted.rfind('.');
  if (dot != std::string_view::npos && dot + 1 < wanted.size() && allDigits(wanted.substr(dot + 1))) {
    const auto number = numberOfText<uint64_t>(wanted.substr(dot + 1));
    if (number && *number < (uint64_t{1} << 62)) {
      base = wanted.substr(0, dot);
      suffix = *number;
    }
  }
  if (auto it = suffixes_.find(base); it != suffixes_.end()) suffix = std::max(suffix, it->second + 1);
  std::string candidate;
  do candidate = base + "." + std::to_string(suffix++);
  while (find(candidate));
  if (log_) log_->suffixSet(base);
  suffixes_[base] = suffix;
  return candidate;
}

void Graph::forEachName(const std::function<void(std::string_view)>& visit) const {
  for (Value* v : names_)
    if (v && v != kRemoved) visit(v->givenName());
}

}  // namespace tscompile
