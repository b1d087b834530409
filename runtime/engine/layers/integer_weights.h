// Of layers whose weights are integers of eight bits, of which float32 products have to be exact.
#pragma once

#include "ir/values/tensor.h"
#include "runtime/kernels/product.h"

#include <string>
#include <string_view>

namespace tscompile {

class IntegerWeights {
 public:
  virtual ~IntegerWeights() = default;
  // The weights were made of `source`, by which a store knows them; `part` tells which ones. Before they are packed.
  void holdIntegers(const Tensor& source, std::string_view part) {
    source_ = source;
    part_ = part;
  }
  bool holdsIntegers() const { return source_.defined(); }

 protected:
  const Tensor& sourceOf(const Tensor& weight) const { return holdsIntegers() ? source_ : weight; }
  std::string keyOf(std::string name) const { return name + part_; }
  // BF16 has all integers of eight bits, and their negatives.
  WeightStorage exactStorage(WeightStorage wanted) const {
    return holdsIntegers() && wanted != WeightStorage::F32 ? WeightStorage::BF16 : wanted;
  }

 private:
  Tensor source_;
  std::string part_;
};

}  // namespace tscompile
