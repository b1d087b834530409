// Of layers whose weights are integers, and whose sums have to be exact.
#pragma once

#include "ir/values/tensor.h"
#include "runtime/kernels/product.h"

#include <string>
#include <string_view>

namespace tscompile {

// Which arithmetic gives exact sums of products with such weights.
struct ExactArithmetic {
  bool floats = false;    // of float32
  bool integers = false;  // of WeightStorage::Integers: weights of eight bits, sums of 32
  bool bytes = false;     // of WeightStorage::Bytes: inputs of eight bits as well, none less than `least`
  float least = 0;
};

class IntegerWeights {
 public:
  virtual ~IntegerWeights() = default;
  // The weights were made of `source`, by which a store knows them; `part` tells which ones. Before they are packed.
  void holdIntegers(const Tensor& source, std::string_view part, ExactArithmetic exact) {
    source_ = source;
    part_ = part;
    exact_ = exact;
  }
  bool holdsIntegers() const { return source_.defined(); }
  ExactArithmetic exactArithmetic() const { return exact_; }

 protected:
  const Tensor& sourceOf(const Tensor& weight) const { return holdsIntegers() ? source_ : weight; }
  std::string keyOf(std::string name) const { return name + part_; }
  // What the kernel takes. If neither, BF16 has all integers of eight bits, and their negatives.
  WeightStorage exactStorage(WeightStorage wanted, bool takesIntegers, bool takesBytes) const {
    if (!holdsIntegers()) return wanted;
    if (exact_.bytes && takesBytes) return WeightStorage::Bytes;
    if (exact_.integers && takesIntegers) return WeightStorage::Integers;
    return wanted == WeightStorage::F32 ? wanted : WeightStorage::BF16;
  }

 private:
  Tensor source_;
  std::string part_;
  ExactArithmetic exact_;
};

}  // namespace tscompile
