// softmax and log_softmax along one dimension.
#include <cmath>

#include <Eigen/Core>

#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/lanes.h"

namespace tscompile {
namespace {

template <class T>
using Array = Eigen::Array<T, Eigen::Dynamic, 1>;

// exp(x - max) / sum: the maximum is taken out so that nothing overflows.
template <class T>
void softmaxLane(const T* in, int64_t n, T* out) {
  if (n == 0) return;
  Eigen::Map<const Array<T>> x(in, n);
  Eigen::Map<Array<T>> y(out, n);
  T most = x.template maxCoeff<Eigen::PropagateNaN>();
  y = (x - most).exp();
  y *= T(1) / y.sum();
}

// x - max - log(sum(exp(x - max)))
template <class T>
void logSoftmaxLane(const T* in, int64_t n, T* out) {
  if (n == 0) return;
  Eigen::Map<const Array<T>> x(in, n);
  Eigen::Map<Array<T>> y(out, n);
  T most = x.template maxCoeff<Eigen::PropagateNaN>();
  T rest = std::log((x - most).exp().sum());
  y = x - most - rest;
}

void inferSoftmax(InferCall& call) {
  TensorInfo t = call.tensor(0);
  if (t.hasRank) call.dim(1, t.rank());
  call.result(t, call.dtypeOr(2, t.dtype));
}

template <auto kFloat, auto kDouble>
void softmaxKernel(KernelCall& call) {
  Tensor t = call.tensor(0), out = call.out();
  if (isIntegral(out.dtype(), true))
    call.unsupported(fmt::format("{} is not implemented for {}", call.op().kind().text(), pythonName(out.dtype())));
  int64_t dim = call.dim(1, t.rank());
  if (out.dtype() == DType::Float64)
    mapLanes<double, double>(t, out, dim, kDouble);
  else
    mapLanes<float, float>(t, out, dim, kFloat);
}

}  // namespace

void registerSoftmaxOps(OpRegistry& ops) {
  ops.add({.schema = "aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
           .infer = inferSoftmax, .kernel = softmaxKernel<softmaxLane<float>, softmaxLane<double>>});
  ops.add({.schema = "aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
           .infer = inferSoftmax, .kernel = softmaxKernel<logSoftmaxLane<float>, logSoftmaxLane<double>>});
}

}  // namespace tscompile
