#include "runtime/ops/linalg/contraction.h"

#include "runtime/ops/call_op.h"
#include "runtime/reference/linalg.h"
#include "runtime/reference/loops/loop.h"
#include "runtime/reference/matmul.h"
#include "runtime/reference/promotion.h"
#include "runtime/reference/views.h"

#include <numeric>

namespace tscompile {
namespace {

TensorInfo infoOf(const Tensor& t) { return {t.dtype(), true, t.sizes()}; }

Dims broadcastSizes(const Tensor& a, const Tensor& b) {
  Dims sizes(a.sizes());
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] == 1) sizes[d] = b.sizes()[d];
  return sizes;
}

Tensor product(const Tensor& a, const Tensor& b) {
  ResultType type;
  type.add(infoOf(a));
  type.add(infoOf(b));
  const Dims sizes = broadcastSizes(a, b);
  const Tensor* tensors[] = {&a, &b};
  Tensor out = Tensor::emptyStrided(type.get(), sizes, elementwiseStrides(sizes, tensors));
  multiplyElements(out, a, b);
  return out;
}

Tensor firstDims(const Tensor& t, size_t count) {
  return t.withGeometry(t.sizes().first(count), t.strides().first(count), t.offset());
}

// The sum of a * b over `dims`, which both have and which stay with size 1.
Tensor sumOfProducts(const KernelCall& call, Tensor a, Tensor b, DimSpan dims) {
  if (dims.empty()) return product(a, b);
  call.require(a.dtype() == b.dtype(), "expected operands of the same dtype, but got {} and {}", pythonName(a.dtype()),
               pythonName(b.dtype()));
  // A batched matrix product: dimensions that both have, that only a or b has, and that are summed up.
  Dims both, left, right, sum(dims), outSizes;
  int64_t batch = 1, rows = 1, columns = 1, depth = 1;
  for (int d = 0; d < a.rank(); ++d) {
    if (std::find(sum.begin(), sum.end(), d) != sum.end())
      depth *= a.size(d);
    else if (a.size(d) != 1 && b.size(d) != 1)
      both.push_back(d), batch *= a.size(d);
    else if (a.size(d) != 1)
      left.push_back(d), rows *= a.size(d);
    else
      right.push_back(d), columns *= b.size(d);
  }
  // Where those of b come first the result lies in rows, as PyTorch has it.
  if (!left.empty() && !right.empty() && right.back() < left.front()) {
    std::swap(a, b);
    std::swap(left, right);
    std::swap(rows, columns);
  }
  auto arranged = [](const Tensor& t, std::initializer_list<const Dims*> groups, DimSpan sizes) {
    Dims order;
    for (const Dims* group : groups) order.append(group->begin(), group->end());
    return reshaped(t.permuted(order), sizes);
  };
  Tensor out = Tensor::empty(a.dtype(), Dims{batch, rows, columns});
  matmulInto(out, arranged(a, {&both, &left, &sum, &right}, Dims{batch, rows, depth}),
             arranged(b, {&both, &sum, &right, &left}, Dims{batch, depth, columns}));
  // Back to the order of a and b.
  Dims place(static_cast<size_t>(a.rank()));
  for (const Dims* group : {&both, &left, &right, &sum})
    for (int64_t d : *group) {
      place[static_cast<size_t>(d)] = static_cast<int64_t>(outSizes.size());
      outSizes.push_back(group == &sum     ? 1
                         : group == &right ? b.size(static_cast<int>(d))
                                           : a.size(static_cast<int>(d)));
    }
  return reshaped(out, outSizes).permuted(place);
}

}  // namespace

Tensor sumOver(const KernelCall& call, const Tensor& t, DimSpan dims) {
  if (dims.empty()) return t;
  return invokeTensor(call, "aten::sum.dim_IntList", {t, intList(dims), true, IValue()});
}

Tensor contract(const KernelCall& call, std::vector<Tensor> operands, size_t kept, DimSpan path) {
  size_t rank = operands[0].sizes().size();
  // How many operands still have a dimension that is to be summed up.
  Dims holders(rank, 0);
  for (const Tensor& t : operands)
    for (size_t d = kept; d < rank; ++d) holders[d] += t.sizes()[d] != 1;
  for (size_t step = 0; operands.size() > 1; ++step) {
    auto take = [&](int64_t i) {
      Tensor t = operands[static_cast<size_t>(i)];
      operands.erase(operands.begin() + i);
      return t;
    };
    int64_t i = path.empty() ? 0 : path[2 * step], j = path.empty() ? 1 : path[2 * step + 1];
    if (j < i) std::swap(i, j);
    Tensor b = take(j), a = take(i);
    Dims now, ofA, ofB;
    for (size_t d = kept; d < rank; ++d) {
      bool hasA = a.sizes()[d] != 1, hasB = b.sizes()[d] != 1;
      if (hasA && hasB && --holders[d] == 1) {
        now.push_back(static_cast<int64_t>(d));
        holders[d] = 0;
      } else if (hasA != hasB && holders[d] == 1) {
        (hasA ? ofA : ofB).push_back(static_cast<int64_t>(d));
        holders[d] = 0;
      }
    }
    Tensor joined = sumOfProducts(call, sumOver(call, a, ofA), sumOver(call, b, ofB), now);
    operands.insert(path.empty() ? operands.begin() : operands.end(), joined);
    call.context().checkInterrupt();
    if (operands.size() == 1) return firstDims(joined, kept);
  }
  if (kept == rank) return operands[0];
  Dims summed(rank - kept);
  std::iota(summed.begin(), summed.end(), static_cast<int64_t>(kept));
  return firstDims(sumOver(call, operands[0], summed), kept);
}

}  // namespace tscompile
