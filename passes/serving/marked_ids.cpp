#include "passes/serving/marked_ids.h"

#include <algorithm>
#include <unordered_set>

namespace tscompile {
namespace {

constexpr size_t kMost = 64;

class Marks {
 public:
  Marks(const Value* ids, RewriteContext& context) : context_(context) { fromIds_.insert(ids); }

  // Twice, since what a branch or a loop gives is known after it.
  std::vector<int64_t> run(const Graph& graph) {
    for (int round = 0; round < 2; ++round) forEachNode(graph, [&](const Node* n) { visit(n); });
    return std::move(marks_);
  }

 private:
  void visit(const Node* n) {
    for (const Block* b : n->blocks()) {
      size_t offset = n->kind() == sym::Loop ? 1 : 0;
      for (size_t i = 0; offset && i + 2 < n->inputCount(); ++i) passOn(n->input(i + 2), b->parameter(i + 1));
      for (size_t i = 0; i < n->outputCount(); ++i) passOn(b->result(i + offset), n->output(i));
    }
    if (mayCompare(n))
      for (size_t i : {0, 1})
        if (fromIds_.contains(n->input(i))) take(n->input(1 - i));
    if (isOfIds(n))
      for (const Value* v : n->outputs()) fromIds_.insert(v);
  }

  // What is computed of ids and numbers beside each other may compare them; what gives a bool most likely does.
  bool mayCompare(const Node* n) const {
    static const Symbol kIsIn = Symbol::of("aten::isin");
    if (n->inputCount() < 2 || n->outputCount() != 1) return false;
    const Operator* op = context_.registry.resolve(*n);
    return n->kind() == kIsIn || n->output()->type()->kind() == TypeKind::Bool || (op && op->has(Trait::Elementwise));
  }

  void passOn(const Value* from, const Value* to) {
    if (fromIds_.contains(from)) fromIds_.insert(to);
  }

  // Views, copies and arithmetic of ids. Tables that they choose rows of come first among the arguments.
  bool isOfIds(const Node* n) const {
    const Operator* op = context_.registry.resolve(*n);
    if (op && (op->has(Trait::ReadsGeometry) || op->has(Trait::ReadsSizes))) return false;
    bool any = n->kind() == sym::ListConstruct || (op && op->has(Trait::Elementwise));
    size_t count = std::min<size_t>(n->inputCount(), any ? n->inputCount() : 1);
    for (size_t i = 0; i < count; ++i)
      if (fromIds_.contains(n->input(i))) return true;
    return false;
  }

  void take(const Value* v) {
    const Node* n = v->node();
    if (n && n->kind() == sym::ListConstruct)
      for (const Use& u : n->inputs()) take(u.value);
    const IValue* known = GraphFacts::constant(v);
    if (!known) return;
    if (known->isInt()) return add(known->toInt());
    if (known->isList())
      for (const IValue& item : known->toList().items)
        if (item.isInt()) add(item.toInt());
    if (!known->isTensor() || !known->toTensor().defined()) return;
    const Tensor t = known->toTensor();
    if (t.dtype() != DType::Int64 || !t.isContiguous() || t.numel() > static_cast<int64_t>(kMost)) return;
    for (int64_t i = 0; i < t.numel(); ++i) add(t.data<int64_t>()[i]);
  }

  void add(int64_t id) {
    if (marks_.size() < kMost && std::find(marks_.begin(), marks_.end(), id) == marks_.end()) marks_.push_back(id);
  }

  RewriteContext& context_;
  std::unordered_set<const Value*> fromIds_;
  std::vector<int64_t> marks_;
};

}  // namespace

std::vector<int64_t> markedIds(const Graph& graph, const Value* ids, RewriteContext& context) {
  return Marks(ids, context).run(graph);
}

int32_t drawnId(uint64_t bits, int64_t words, const std::vector<int64_t>& marked) {
  const auto count = static_cast<uint64_t>(words);
  if (!marked.empty() && bits % 3 == 0) {
    int64_t id = marked[bits / 3 % marked.size()];
    if (id >= 0 && id < words) return static_cast<int32_t>(id);
  }
  return static_cast<int32_t>(bits % count);
}

}  // namespace tscompile
