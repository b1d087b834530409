// A converter of aten::flatten, as a user would write one.
#pragma once

#include "api/compiler.h"

inline void convertFlatten(tscompile::ConvertCall& call) {
  using namespace tscompile;
  // A tensor of the network has sizes, but no elements yet. The dimensions are static values.
  Tensor in = call.tensor(0);
  int rank = static_cast<int>(in.sizes().size());
  if (rank == 0) call.refuse(Reason::Rank, "this converter takes tensors with dimensions");
  auto first = static_cast<size_t>(call.dim(1, rank)), last = static_cast<size_t>(call.dim(2, rank));
  std::vector<IValue> sizes;
  int64_t joined = 1;
  for (size_t d = 0; d < in.sizes().size(); ++d) {
    if (d < first || d > last) sizes.emplace_back(in.sizes()[d]);
    if (d >= first && d <= last) joined *= in.sizes()[d];
    if (d == last) sizes.emplace_back(joined);
  }
  // A layer of ours does the rest, and its result is that of the node.
  IValue shape = Ref<ListValue>::make(types().integer, std::move(sizes));
  call.setResult(0, call.compute("aten::reshape", {call.argument(0), shape}));
}
