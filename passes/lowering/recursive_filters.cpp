// The filters of torchaudio write their third argument; said of the first, functionalise() can take the write away.
#include "passes/rewrite/rewrite.h"

namespace tscompile {

NodeRewrite recursiveFilters() {
  constexpr const char *kGiven = "torchaudio::_lfilter_core_loop", *kMade = "tscompile::recursive_filter_";
  NodeRewrite r;
  r.name = "recursive_filters";
  r.kinds = {Symbol::of(kGiven)};
  r.apply = [](Node* n, RewriteContext& c) -> Replacement {
    if (n->inputCount() != 3 || n->outputCount() > 1 || !c.facts.resolve(n)) return {};
    Value *signal = n->input(0), *coefficients = n->input(1), *out = n->input(2);
    n->setKind(Symbol::of(kMade));
    if (n->outputCount() == 0) n->addOutput(out->type());
    n->replaceInput(0, out);
    n->replaceInput(1, signal);
    n->replaceInput(2, coefficients);
    return Replacement::done();
  };
  return r;
}

}  // namespace tscompile
