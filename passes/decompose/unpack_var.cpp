// var in two passes over the data: the mean first, then the squares of what differs from it. The sum of squares less
// the square of the sum would lose the digits that matter.
//   var(x) -> sum((x - mean(x))^2) / max(n - correction, 0)
#include "ir/values/aten.h"
#include "passes/rewrite/formula.h"
#include "passes/rewrite/rewrite.h"

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

// What the overloads of var and var_mean ask for: (x, unbiased), (x, dim, unbiased, keepdim), (x, dim, correction,
// keepdim).
struct Moments {
  Value* dims = nullptr;  // null: all
  int64_t correction = 1;
  Value* keep = nullptr;  // null: no
};

std::optional<Moments> momentsOf(const Node* n, RewriteContext& c) {
  Moments m;
  Value* correction = nullptr;
  if (n->inputCount() == 2) {
    correction = n->input(1);
  } else if (n->inputCount() == 4) {
    m.dims = n->input(1);
    correction = n->input(2);
    m.keep = n->input(3);
  } else {
    return std::nullopt;
  }
  if (GraphFacts::isNone(correction)) return m;
  constexpr double kMost = 1 << 30;
  std::optional<double> number = c.facts.number(correction);
  if (!number || *number < 0 || *number > kMost || *number != std::floor(*number)) return std::nullopt;
  m.correction = static_cast<int64_t>(*number);
  return m;
}

// How many elements each result is made from: a constant where the sizes are known. Null if that cannot be said.
Value* countOf(Value* x, const Moments& m, Formula& f, RewriteContext& c) {
  Dims dims;
  bool all = !m.dims || GraphFacts::isNone(m.dims);
  if (!all) {
    std::optional<Dims> known = c.facts.integers(m.dims);
    if (!known) return nullptr;
    dims = *known;
    all = dims.empty();
  }
  if (all) return f.op(aten::numel, {x});
  Value* count = nullptr;
  for (int64_t d : dims) {
    Value* size = f.op(aten::size, {x, f.integer(d)});
    count = count ? f.mul(count, size) : size;
  }
  return count;
}

// The number of elements where all sizes are known; constant folding would find it, too, but not without values.
std::optional<int64_t> knownCount(Value* x, const Moments& m, RewriteContext& c) {
  std::optional<Dims> sizes = c.facts.sizes(x);
  if (!sizes) return std::nullopt;
  std::optional<Dims> dims = !m.dims || GraphFacts::isNone(m.dims) ? Dims() : c.facts.integers(m.dims);
  if (!dims) return std::nullopt;
  auto rank = static_cast<int64_t>(sizes->size());
  if (rank == 0) return 1;
  if (dims->empty()) return checkedNumel(*sizes);
  Dims chosen;
  for (int64_t d : *dims) {
    if (d < -rank || d >= rank) return std::nullopt;
    chosen.push_back((*sizes)[static_cast<size_t>(d < 0 ? d + rank : d)]);
  }
  return checkedNumel(chosen);
}

Value* divisor(Value* x, const Moments& m, Formula& f, RewriteContext& c) {
  if (std::optional<int64_t> count = knownCount(x, m, c)) return f.integer(std::max<int64_t>(*count - m.correction, 0));
  Value* count = countOf(x, m, f, c);
  if (!count || m.correction == 0) return count;
  return f.op(Symbol::of("prim::max"), {f.op(aten::sub, {count, f.integer(m.correction)}), f.integer(0)});
}

Replacement replaceVar(Node* n, RewriteContext& c) {
  if (n->inputCount() < 2 || !areFloats({n->input(0)}, c) || !c.facts.isUndisturbed(n)) return {};
  std::optional<Moments> m = momentsOf(n, c);
  if (!m) return {};
  Formula f(n, c);
  Value *x = n->input(0), *dims = m->dims ? m->dims : f.none(), *keep = m->keep ? m->keep : f.flag(false);
  Value* below = divisor(x, *m, f, c);
  if (!below) return {};
  Value* difference = f.sub(x, f.mean(x, dims, f.flag(true)));
  Value* sum = f.op(aten::sum, {f.mul(difference, difference), dims, keep, f.none()});
  Value* result = f.div(sum, below);
  if (n->outputCount() == 1) return result;
  return std::vector<Value*>{result, f.mean(x, dims, keep)};
}

}  // namespace

NodeRewrite unpackVar() { return {"unpack_var", {aten::var, aten::var_mean}, replaceVar}; }

}  // namespace tscompile
