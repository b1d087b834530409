#include "tests/support/memory_program.h"

#include "ir/graph/builder.h"

#include <cmath>

namespace tscompile::test {
namespace {

constexpr int64_t kSide = 2;  // square, so that transposed views are of the same shape

class Writer {
 public:
  Writer(Choices& choices, size_t nodes) : c_(choices), graph_(std::make_unique<Graph>()), b_(*graph_), left_(nodes) {}

  std::unique_ptr<Graph> write() {
    TensorFacts facts;
    facts.dtype = DType::Float32;
    facts.hasRank = true;
    facts.sizes = Dims{kSide, kSide};
    for (int i = 0; i < 2; ++i) tensors_.push_back(graph_->addInput(c_.oneIn(2) ? types().tensor : tensorType(facts)));
    for (int i = 0; i < 2; ++i) flags_.push_back(graph_->addInput(types().boolean));
    if (c_.oneIn(3)) lists_.push_back(graph_->addInput(types().tensorList));
    block(0);
    for (size_t i = 0; i < 3; ++i) graph_->addOutput(any(tensors_));
    if (!lists_.empty()) graph_->addOutput(any(lists_));
    return std::move(graph_);
  }

 private:
  // The latest values, more often than not.
  Value* any(const std::vector<Value*>& from) {
    size_t reach = c_.oneIn(2) ? from.size() : std::min<size_t>(from.size(), 3);
    return from[from.size() - 1 - c_.below(reach)];
  }
  Value* tensor() { return any(tensors_); }
  Value* number(int64_t v) { return b_.constant(v); }
  Value* call(const char* kind, std::initializer_list<Value*> inputs) {
    return b_.call(Symbol::of(kind), inputs, types().tensor);
  }

  void block(size_t depth) {
    while (left_ > 0) {
      if (depth > 0 && c_.oneIn(4)) return;
      --left_;
      statement(depth);
    }
  }

  void statement(size_t depth) {
    switch (c_.below(depth < 3 ? 14 : 11)) {
      case 0:
      case 1:
      case 2:
        return tensors_.push_back(fresh());
      case 3:
      case 4:
        return tensors_.push_back(view());
      case 5:
      case 6:
      case 7:
      case 8: {
        Value* v = write(tensor());
        if (c_.oneIn(3)) tensors_.push_back(v);
        return;
      }
      case 9:
      case 10:
        return list();
      case 11:
      case 12:
        return branch(depth);
      default:
        return loop(depth);
    }
  }

  Value* fresh() {
    switch (c_.below(7)) {
      case 0:
        return call("aten::neg", {tensor()});
      case 1:
        return call("aten::relu", {tensor()});
      case 2:
        return call("aten::clone", {tensor(), b_.constant(IValue(), types().none)});
      case 3:
        return call("aten::mul", {tensor(), tensor()});
      case 4:
        return call("aten::mul", {tensor(), number(1)});
      case 5:
        return call("aten::add", {tensor(), b_.constant(c_.oneIn(2) ? 0.0 : -0.0), number(1)});
      default:
        return call("aten::add", {tensor(), tensor(), number(1)});
    }
  }
  Value* view() {
    switch (c_.below(5)) {
      case 0:
        return call("aten::t", {tensor()});
      case 1:
        return call("aten::expand_as", {tensor(), tensor()});
      case 2:
        return call("aten::slice", {tensor(), number(0), number(0), number(kSide), number(1)});
      case 3:
        return call("aten::type_as", {tensor(), tensor()});
      default:
        return call("aten::detach", {tensor()});
    }
  }
  Value* write(Value* x) {
    switch (c_.below(7)) {
      case 0:
        return call("aten::neg_", {x});
      case 1:
        return call("aten::relu_", {x});
      case 2:
        return call("aten::zero_", {x});
      case 3:
        return call("aten::fill_", {x, b_.constant(1.5)});
      case 4:
        return call("aten::copy_", {x, tensor(), b_.constant(false)});
      case 5:
        return call("aten::mul_", {x, tensor()});
      default:
        return call("aten::add_", {x, tensor(), number(1)});
    }
  }

  void list() {
    size_t what = lists_.empty() ? 0 : c_.below(6);
    if (what == 0) {
      std::vector<Value*> items;
      for (size_t i = 1 + c_.below(3); i > 0; --i) items.push_back(tensor());
      lists_.push_back(b_.list(items, types().tensor));
    } else if (what == 1) {
      tensors_.push_back(call("aten::__getitem__", {any(lists_), number(c_.oneIn(2) ? 0 : -1)}));
    } else if (what == 2) {
      b_.call(Symbol::of("aten::_set_item"), {any(lists_), number(0), tensor()}, types().tensorList);
    } else if (what == 3) {
      lists_.push_back(b_.call(Symbol::of("aten::add"), {any(lists_), any(lists_)}, types().tensorList));
    } else {
      b_.call(Symbol::of("aten::append"), {any(lists_), tensor()}, types().tensorList);
    }
  }

  void branch(size_t depth) {
    Node* n = b_.insert(sym::If, {any(flags_)}, 0);
    size_t results = c_.below(3), tensors = tensors_.size(), lists = lists_.size();
    for (int side = 0; side < 2; ++side) {
      Block* inner = n->addBlock();
      b_.setPointAtEnd(inner);
      block(depth + 1);
      for (size_t i = 0; i < results; ++i) inner->addResult(tensor());
      tensors_.resize(tensors);
      lists_.resize(lists);
    }
    b_.setPointAfter(n);
    for (size_t i = 0; i < results; ++i) tensors_.push_back(n->addOutput(types().tensor));
  }

  void loop(size_t depth) {
    Node* n = b_.insert(sym::Loop, {number(static_cast<int64_t>(c_.below(4))), b_.constant(true)}, 0);
    size_t carried = c_.below(3), tensors = tensors_.size(), lists = lists_.size();
    for (size_t i = 0; i < carried; ++i) n->addInput(tensor());
    Block* inner = n->addBlock();
    inner->addParameter(types().integer);
    for (size_t i = 0; i < carried; ++i) tensors_.push_back(inner->addParameter(types().tensor));
    b_.setPointAtEnd(inner);
    block(depth + 1);
    inner->addResult(c_.oneIn(3) ? any(flags_) : b_.constant(true));
    for (size_t i = 0; i < carried; ++i) inner->addResult(tensor());
    tensors_.resize(tensors);
    lists_.resize(lists);
    b_.setPointAfter(n);
    for (size_t i = 0; i < carried; ++i) tensors_.push_back(n->addOutput(types().tensor));
  }

  Choices& c_;
  std::unique_ptr<Graph> graph_;
  Builder b_;
  size_t left_;
  std::vector<Value*> tensors_, lists_, flags_;  // that may be used at the builder's point
};

IValue squareTensor(Choices& c) {
  constexpr float kSpecial[] = {0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, NAN, 2.5f, -0.125f, 1e-42f};
  std::vector<float> values;
  for (int64_t i = 0; i < kSide * kSide; ++i) values.push_back(c.oneOf(kSpecial));
  return Tensor::of<float>(Dims{kSide, kSide}, values);
}

}  // namespace

std::unique_ptr<Graph> memoryProgram(Choices& choices, size_t nodes) { return Writer(choices, nodes).write(); }

std::vector<IValue> memoryProgramInputs(Choices& choices, const Graph& graph) {
  std::vector<IValue> out;
  for (const Value* v : graph.inputs()) {
    if (v->type()->isTensor())
      out.push_back(squareTensor(choices));
    else if (v->type()->is(TypeKind::Bool))
      out.emplace_back(choices.oneIn(2));
    else
      out.push_back(tensorList({squareTensor(choices).toTensor(), squareTensor(choices).toTensor()}));
  }
  return out;
}

}  // namespace tscompile::test
