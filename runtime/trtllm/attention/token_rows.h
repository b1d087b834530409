// Values of heads of tokens as a tensor holds them: whole rows of a projection, parts of one, or heads apart.
#pragma once

#include "ir/values/tensor.h"
#include "runtime/trtllm/attention/value_format.h"

namespace tscompile {

struct TokenRows {
  std::byte* data = nullptr;  // of head 0 of token 0
  DType storage = DType::Float32;
  int64_t perBatch = 0;                                      // tokens of a batch entry; 0: packed
  int64_t batchStride = 0, tokenStride = 0, headStride = 0;  // elements

  std::byte* at(int64_t token, int64_t head) const {
    // Division takes longer than all else here.
    const int64_t element = perBatch == 0 || token < perBatch
                                ? token * tokenStride
                                : token / perBatch * batchStride + token % perBatch * tokenStride;
    return data + (element + head * headStride) * static_cast<int64_t>(itemSize(storage));
  }
};

}  // namespace tscompile
