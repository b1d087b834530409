// Dropout that drops nothing gives the very tensor that it was given, memory and all; so it can go in every place.
#include "passes/rewrite/rewrite.h"

namespace tscompile {

NodeRewrite removeDropout() {
  NodeRewrite r;
  r.name = "remove_dropout";
  for (const char* name : {"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"})
    for (const char* ending : {"", "_"}) r.kinds.push_back(Symbol::of("aten::" + std::string(name) + ending));
  // dropout(x, p, train)
  r.apply = [](Node* n, RewriteContext& c) -> Replacement {
    if (n->inputCount() != 3 || n->outputCount() != 1) return {};
    std::optional<double> p = c.facts.number(n->input(1));
    if (!p || !(*p >= 0 && *p <= 1)) return {};  // refused, training or not
    if (c.facts.boolean(n->input(2)) != false && *p != 0) return {};
    return Replacement::of({{n->output(), n->input(0)}}, {n});
  };
  return r;
}

}  // namespace tscompile
