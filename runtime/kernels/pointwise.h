// Chains of element-wise operations as one loop over tiles that stay in the first level of cache. Computes in f32,
// where operands may be stored as f16, bf16, bool or bytes; or in int64_t or f64 (wide_ops.h), where they may be
// integers or bool.
#pragma once

#include "ir/values/dtype.h"

#include <cstdint>
#include <span>
#include <vector>

namespace tscompile {

enum class PointwiseOp : uint8_t {
#define TS_STEP(name, operands) name,
#include "runtime/kernels/pointwise_ops.def"
};
int pointwiseOperands(PointwiseOp op);

// Built once, then shared by any number of threads. Values are numbered as they are added: inputs, constants and steps.
class PointwiseProgram {
 public:
  int input(DType type = DType::Float32);
  int constant(double value);
  int step(PointwiseOp op, int a, int b = -1, int c = -1, double alpha = 0, double beta = 0);
  // Of the input of that number, another type in memory.
  void retype(int input, DType type);
  // After all steps.
  void output(int value, DType type = DType::Float32);

  struct Value {
    enum class Kind : uint8_t { Input, Constant, Step } kind;
    DType type;  // of an input
    PointwiseOp op;
    int a, b, c;
    double alpha, beta;  // alpha: a constant's value
    int index;           // of an input among the inputs
    int slot;            // of a tile buffer
    bool isStored;       // of a step that only the store of the result has to do: its value is operand a's
  };
  struct Output {
    int value;
    DType type;
  };
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  int inputs() const { return inputs_; }
  int slots() const { return slots_; }
  // What it computes in: Float32, Int64 or Float64.
  DType computedIn() const { return computedIn_; }
  void computeIn(DType type) { computedIn_ = type; }

 private:
  void assignSlots();
  void markStored();

  std::vector<Value> values_;
  std::vector<Output> outputs_;
  int inputs_ = 0, slots_ = 0;
  DType computedIn_ = DType::Float32;
};

// An input of a run: strides in elements, one per dimension; 0 repeats.
struct PointwiseOperand {
  const void* data;
  std::span<const int64_t> strides;
};

// Outputs are contiguous over `dims`. An output may be the memory of an input that is contiguous over `dims` and of its
// size.
void runPointwise(const PointwiseProgram& program, std::span<const int64_t> dims,
                  std::span<const PointwiseOperand> inputs, std::span<void* const> outputs, int threads);

}  // namespace tscompile
