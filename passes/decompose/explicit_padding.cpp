// conv(x, w, b, stride, "same", dilation, groups) with the numbers that the word stands for. Where a side needs one
// more than the other, the input is padded there first.
#include "ir/values/aten.h"
#include "passes/rewrite/rewrite.h"

namespace tscompile {
namespace {

// One number for all dimensions, or one for each.
std::optional<Dims> perDimension(const std::optional<Dims>& values, size_t dims) {
  if (!values || (values->size() != dims && values->size() != 1)) return std::nullopt;
  Dims out(*values);
  while (out.size() < dims) out.push_back(out[0]);
  return out;
}

Replacement rewrite(Node* n, RewriteContext& c, size_t dims) {
  if (n->inputCount() != 7) return {};
  const IValue* mode = GraphFacts::constant(n->input(4));
  if (!mode || !mode->isString() || mode->toString() != "same") return {};
  std::optional<Dims> weight = c.facts.sizes(n->input(1));
  std::optional<Dims> dilation = perDimension(c.facts.integers(n->input(5)), dims);
  if (!weight || weight->size() != dims + 2 || !dilation) return {};
  constexpr int64_t kMost = int64_t{1} << 40;
  Dims both, missing(2 * dims, 0);
  bool uneven = false;
  for (size_t d = 0; d < dims; ++d) {
    int64_t size = (*weight)[d + 2];
    if (size < 1 || size > kMost || (*dilation)[d] < 1 || (*dilation)[d] > kMost / size) return {};
    int64_t total = (*dilation)[d] * (size - 1);
    both.push_back(total / 2);
    // Pairs of numbers for the begin and end of each dimension, the last dimension first.
    missing[2 * (dims - 1 - d) + 1] = total % 2;
    uneven |= total % 2 != 0;
  }
  Builder b = c.before(n);
  Value* x = n->input(0);
  if (uneven) {
    Node* padded = b.insert(aten::constant_pad_nd, {x, b.constant(intList(missing)), b.constant(IValue(int64_t{0}))});
    setOutputTypes(padded, nullptr, c);
    x = padded->output();
  }
  Node* made = b.insert(
      n->kind(), {x, n->input(1), n->input(2), n->input(3), b.constant(intList(both)), n->input(5), n->input(6)});
  setOutputTypes(made, nullptr, c);
  return made->output();
}

}  // namespace

NodeRewrite explicitPadding() {
  NodeRewrite r;
  r.name = "explicit_padding";
  r.kinds = {aten::conv1d, aten::conv2d, aten::conv3d};
  r.apply = [kinds = r.kinds](Node* n, RewriteContext& c) -> Replacement {
    if (c.facts.graphHasWrites())
      for (size_t i = 0; i < 3; ++i)
        if (i < n->inputCount() && c.facts.isWritten(n->input(i))) return {};
    size_t dims = n->kind() == kinds[0] ? 1 : n->kind() == kinds[1] ? 2 : 3;
    return rewrite(n, c, dims);
  };
  return r;
}

}  // namespace tscompile
