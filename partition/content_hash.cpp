// The identity of a segment by what it computes.
#include "ir/graph/printer.h"
#include "ir/values/literal.h"
#include "partition/segment_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <complex>
#include <cstring>

namespace tscompile {
namespace {

uint64_t hashBytes(const void* data, size_t count, uint64_t h) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (; count >= 8; count -= 8, bytes += 8) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    h = (h ^ word) * 0xff51afd7ed558ccd;
    h ^= h >> 32;
  }
  for (; count > 0; --count) h = (h ^ *bytes++) * 0x100000001b3;
  return h;
}

class ContentHasher {
 public:
  explicit ContentHasher(const Graph& graph) : numbers_(graph), order_(graph) {
    for (const Value* v : graph.inputs()) define(v);
    forEachNode(graph, [&](const Node* n) { node(n); });
    // By now every value has its number.
    forEachNode(graph, [&](const Node* n) {
      for (const Block* b : n->blocks()) results(b);
    });
    results(graph.block());
  }
  uint64_t hash() const { return hash_; }

 private:
  void add(uint64_t part) { hash_ = hashCombine(hash_, part); }
  void add(std::string_view text) { add(hashText(text)); }

  void define(const Value* v) {
    numbers_[v] = ++defined_;
    add(typeText(v->type()));
  }
  void results(const Block* b) {
    add(b->results().size());
    for (const Use& u : b->results()) add(numbers_[u.value]);
  }

  void node(const Node* n) {
    add(n->kind().hash());
    add(n->inputCount());
    for (const Use& u : n->inputs()) add(numbers_[u.value]);
    for (const Attribute& a : n->attributes()) {
      add(a.name.hash());
      attribute(a, n);
    }
    if (n->python) add(n->python->name + "(" + n->python->scalars + ")");
    add(n->outputCount());
    for (const Value* v : n->outputs()) define(v);
    order_[n] = ++nodes_;
    if (const Node* owner = n->block()->owner()) {
      add(order_[owner]);
      add(static_cast<uint64_t>(std::find(owner->blocks().begin(), owner->blocks().end(), n->block()) -
                                owner->blocks().begin()));
    }
    for (const Block* b : n->blocks())
      for (const Value* v : b->parameters()) define(v);
  }

  void attribute(const Attribute& a, const Node* n) {
    if (const IValue* v = a.value()) return value(*v, n);
    if (TypePtr t = a.type()) return add(typeText(t));
    if (const Graph* g = a.graph()) return add(graphText(*g));
    if (auto* list = std::get_if<std::vector<TypePtr>>(&a.payload))
      for (TypePtr t : *list) add(typeText(t));
  }

  void value(const IValue& v, const Node* n) {
    if (v.isTensor()) return tensor(v.toTensor());
    std::string text;
    appendValue(v, LiteralStyle::Attribute, text);
    add(text);
    // Text that does not hold the data: the name says which it is.
    if (v.isLiteral() && n->outputCount()) add(n->output()->name());
    if (v.isList())
      for (const IValue& item : v.toList().items)
        if (item.isTensor()) tensor(item.toTensor());
  }

  void tensor(const Tensor& t) {
    if (!t.defined()) return add(uint64_t{0});
    add(static_cast<uint64_t>(t.dtype()));
    for (int64_t s : t.sizes()) add(static_cast<uint64_t>(s));
    uint64_t h = 0x9e3779b97f4a7c15;
    if (!t.isContiguous()) {
      for (int64_t i = 0; i < t.numel(); ++i) {
        std::complex<double> c = t.complex(i);
        h = hashBytes(&c, sizeof c, h);
      }
      return add(h);
    }
    add(hashBytes(t.raw(), static_cast<size_t>(t.numel()) * itemSize(t.dtype()), h));
  }

  ValueTable<uint32_t> numbers_;
  NodeTable<uint32_t> order_;
  uint32_t defined_ = 0, nodes_ = 0;
  uint64_t hash_ = 0;
};

}  // namespace

std::string contentHash(const Graph& graph) { return fmt::format("{:016x}", ContentHasher(graph).hash()); }

}  // namespace tscompile
