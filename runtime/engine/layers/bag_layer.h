// Bags of rows of a table: embedding_bag.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"

namespace tscompile {

// out[b] = sum, mean or maximum of the rows of a table that the numbers from offset b on name.
// Inputs: the table, the numbers, the offsets, and a factor for each number if `weighted`; all are contiguous.
class BagLayer : public Layer {
 public:
  enum class Mode : uint8_t { Sum, Mean, Max };
  using Layer::Layer;
  std::string name() const override { return "bags"; }
  void run(Frame& frame) const override;

  Mode mode = Mode::Sum;
  bool weighted = false;
  int64_t rows = 0, columns = 0, count = 0;  // of the table; numbers
  int64_t bags = 0, offsets = 0;
  int64_t padding = -1;  // a row that is left out

 private:
  struct Bag {
    int64_t number, begin, end, counted;  // the numbers that a mean counts end later than those that it adds
  };
  template <class Numbers>
  void join(Frame& frame, const Bag& bag, const Numbers& numbers) const;
};

void convertEmbeddingBag(ConvertCall& call);

}  // namespace tscompile
