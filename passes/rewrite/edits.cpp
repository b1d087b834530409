#include "passes/rewrite/edits.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tscompile {

void replaceValue(Value* old, Value* by) {
  old->replaceAllUsesWith(by);
  bool isInput = !by->node() && !by->block()->owner();
  if (!old->isNamed() || by->isNamed() || isInput) return;
  std::string name(old->givenName());
  old->setName("");
  by->setName(name);
}

void inlineBranch(Node* branch, size_t taken) {
  Block* block = branch->block(taken);
  for (Node* n : block->nodes()) n->moveBefore(branch);
  for (size_t i = 0; i < branch->outputCount(); ++i) replaceValue(branch->output(i), block->result(i));
  branch->destroy();
}

namespace {

// Items of a list or tuple; null for other values.
const std::vector<IValue>* itemsOf(const IValue& v) {
  return v.isList() ? &v.toList().items : v.isTuple() ? &v.toTuple().items : nullptr;
}

bool sameTensors(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.impl() == b.impl()) return true;
  if (a.dtype() != b.dtype() || Dims(a.sizes()) != Dims(b.sizes()) || Dims(a.strides()) != Dims(b.strides()))
    return false;
  if (!a.isContiguous()) return false;
  if (a.storage()->quantization() != b.storage()->quantization()) return false;
  return std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.numel()) * itemSize(a.dtype())) == 0;
}

uint64_t hashOfTensor(const Tensor& t) {
  if (!t.defined()) return 0;
  uint64_t h = static_cast<uint64_t>(t.dtype());
  for (int64_t size : t.sizes()) h = hashCombine(h, static_cast<uint64_t>(size));
  if (!t.isContiguous()) return h;
  // Large tensors are told apart by their first bytes, in most cases.
  size_t bytes = std::min<size_t>(256, static_cast<size_t>(t.numel()) * itemSize(t.dtype()));
  return hashCombine(h, hashText({reinterpret_cast<const char*>(t.raw()), bytes}));
}

// The same apart from the items of containers.
bool sameAlone(const IValue& a, const IValue& b) {
  if (a.tag() != b.tag()) return false;
  switch (a.tag()) {
    case IValue::Tag::None:
      return true;
    case IValue::Tag::Float:
      return std::bit_cast<uint64_t>(a.toFloat()) == std::bit_cast<uint64_t>(b.toFloat());
    case IValue::Tag::Complex:
      return std::memcmp(&a.toComplex(), &b.toComplex(), sizeof(std::complex<double>)) == 0;
    case IValue::Tag::Tensor:
      return sameTensors(a.toTensor(), b.toTensor());
    case IValue::Tag::String:
      return a.toString() == b.toString();
    case IValue::Tag::Function:
      return a.toFunction().name == b.toFunction().name;
    case IValue::Tag::List:
      return a.toList().elementType == b.toList().elementType && a.toList().items.size() == b.toList().items.size();
    case IValue::Tag::Tuple:
      return a.toTuple().type == b.toTuple().type && a.toTuple().items.size() == b.toTuple().items.size();
    case IValue::Tag::Literal: {
      const LiteralValue &x = a.toLiteral(), &y = b.toLiteral();
      bool exact = x.kind == LiteralValue::Kind::ExactTensor && y.kind == x.kind;
      return exact && x.data.defined() && y.data.defined() && x.text == y.text && sameTensors(x.data, y.data);
    }
    default:
      return a.isSame(b);
  }
}

uint64_t hashAlone(const IValue& v) {
  auto tag = static_cast<uint64_t>(v.tag());
  switch (v.tag()) {
    case IValue::Tag::Bool:
      return hashCombine(tag, v.toBool());
    case IValue::Tag::Int:
      return hashCombine(tag, static_cast<uint64_t>(v.toInt()));
    case IValue::Tag::Float:
      return hashCombine(tag, std::bit_cast<uint64_t>(v.toFloat()));
    case IValue::Tag::Tensor:
      return hashCombine(tag, hashOfTensor(v.toTensor()));
    case IValue::Tag::String:
      return hashCombine(tag, hashText(v.toString()));
    case IValue::Tag::List:
      return hashCombine(tag, v.toList().items.size());
    case IValue::Tag::Tuple:
      return hashCombine(tag, v.toTuple().items.size());
    case IValue::Tag::Literal:
      return hashCombine(tag, hashText(v.toLiteral().text));
    default:
      return tag;
  }
}

}  // namespace

bool sameBits(const IValue& a, const IValue& b) {
  // An explicit stack: containers may be nested deep.
  std::vector<std::pair<const IValue*, const IValue*>> todo{{&a, &b}};
  while (!todo.empty()) {
    auto [x, y] = todo.back();
    todo.pop_back();
    if (!sameAlone(*x, *y)) return false;
    if (const std::vector<IValue>* items = itemsOf(*x))
      for (size_t i = 0; i < items->size(); ++i) todo.emplace_back(&(*items)[i], &(*itemsOf(*y))[i]);
  }
  return true;
}

uint64_t hashOfBits(const IValue& v) {
  uint64_t h = 0;
  std::vector<const IValue*> todo{&v};
  while (!todo.empty()) {
    const IValue* x = todo.back();
    todo.pop_back();
    h = hashCombine(h, hashAlone(*x));
    if (const std::vector<IValue>* items = itemsOf(*x))
      for (const IValue& item : *items) todo.push_back(&item);
  }
  return h;
}

bool sameAttributes(const Node& a, const Node& b) {
  if (a.attributes().size() != b.attributes().size()) return false;
  for (const Attribute& x : a.attributes()) {
    const Attribute* y = b.attribute(x.name);
    if (!y || x.payload.index() != y->payload.index()) return false;
    if (const IValue* v = x.value()) {
      if (!sameBits(*v, *y->value())) return false;
    } else if (x.type()) {
      if (x.type() != y->type()) return false;
    } else if (auto* list = std::get_if<std::vector<TypePtr>>(&x.payload)) {
      if (*list != std::get<std::vector<TypePtr>>(y->payload)) return false;
    } else {
      return false;  // graphs
    }
  }
  return true;
}

uint64_t hashOfAttributes(const Node& n) {
  uint64_t h = 0;
  for (const Attribute& a : n.attributes()) {
    uint64_t own = a.name.hash();
    if (const IValue* v = a.value()) own = hashCombine(own, hashOfBits(*v));
    h += own;  // whatever the order
  }
  return h;
}

}  // namespace tscompile
