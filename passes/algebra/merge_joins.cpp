// Tensors that are joined in steps are joined at once, as by loops that append to what they have:
//
//   cat([cat([a, b], 1), c], 1)  ->  cat([a, b, c], 1)
#include "ir/values/aten.h"
#include "passes/algebra/node_rewriting.h"

namespace tscompile {
namespace {

// The list that an inner cat joins along the same dimension, if nothing else uses the result and no part is converted.
Node* joinedBefore(Site& site, Value* v) {
  Node* inner = site.soleProducer(v, aten::cat);
  Node* parts = inner ? site.producer(inner->input(0), sym::ListConstruct) : nullptr;
  if (!parts) return nullptr;
  std::optional<int64_t> dim = site.facts.integer(site.input(1)), innerDim = site.facts.integer(inner->input(1));
  std::optional<size_t> rank = site.facts.rank(v);
  if (!dim ||
      (dim != innerDim && (!rank || site.dimension(site.input(1), rank) != site.dimension(inner->input(1), rank))))
    return nullptr;
  for (const Use& part : parts->inputs())
    if (!site.sameDType(part.value, v)) return nullptr;
  return parts;
}

Replacement joinAtOnce(Site& site) {
  Node* list = site.soleProducer(site.input(0), sym::ListConstruct);
  if (!list || site.inputCount() != 2) return {};
  std::vector<Value*> parts;
  bool merged = false;
  for (const Use& use : list->inputs()) {
    if (Node* inner = joinedBefore(site, use.value)) {
      for (const Use& part : inner->inputs()) parts.push_back(part.value);
      merged = true;
    } else {
      parts.push_back(use.value);
    }
  }
  if (!merged) return {};
  Value* all = site.context.before(site.node).list(parts, types().tensor);
  return site.remake(site.node, {all, site.input(1)});
}

}  // namespace

NodeRewrite mergeJoins() { return siteRewrite("merge_joins", std::vector<Symbol>{aten::cat}, joinAtOnce); }

}  // namespace tscompile
