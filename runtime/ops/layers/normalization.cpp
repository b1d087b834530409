// Normalization: batch_norm, instance_norm, layer_norm, group_norm, rms_norm.
#include "runtime/engine/layers/group_norm_layer.h"
#include "runtime/engine/layers/rms_norm_layer.h"
#include "runtime/engine/layers/row_layers.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/dense.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/kept_format.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/views.h"

#include <Eigen/Core>

#include <cmath>
#include <limits>

namespace tscompile {
namespace {

template <class T>
using Array = Eigen::Array<T, Eigen::Dynamic, 1>;
template <class T>
using ConstRow = Eigen::Map<const Array<T>>;
template <class T>
using Row = Eigen::Map<Array<T>>;

// Mean and variance (of the whole population).
struct Moments {
  double mean = 0, variance = 0;
};

// A sum in double of partial sums in T: short enough to be accurate, fast as T.
template <class T, class F>
double blockSum(const T* p, int64_t n, F&& f) {
  constexpr int64_t kBlock = 1024;
  double sum = 0;
  for (int64_t i = 0; i < n; i += kBlock)
    sum += static_cast<double>(f(ConstRow<T>(p + i, std::min(kBlock, n - i))).sum());
  return sum;
}

// Of `runs` runs of n elements that start `stride` elements apart.
template <class T>
Moments momentsOf(const T* p, int64_t runs, int64_t n, int64_t stride) {
  auto count = static_cast<double>(runs * n);
  Moments m;
  for (int64_t r = 0; r < runs; ++r) m.mean += blockSum(p + r * stride, n, [](const auto& x) { return x; });
  m.mean /= count;
  for (int64_t r = 0; r < runs; ++r)
    m.variance +=
        blockSum(p + r * stride, n, [mean = static_cast<T>(m.mean)](const auto& x) { return (x - mean).square(); });
  m.variance /= count;
  return m;
}

// Parameters have the dtype of the input, or float32 next to 16-bit floats.
void requireParameterType(const InferCall& call, DType input, DType parameter) {
  bool fits = input == parameter || input == DType::Undefined || parameter == DType::Undefined ||
              (computeDType(input) != input && parameter == DType::Float32);
  call.require(fits, "expected parameters of dtype {}, but found {}", pythonName(input), pythonName(parameter));
}

// ---- batch_norm ----

// A parameter with one number for each channel, or nothing.
void requirePerChannel(const InferCall& call, size_t at, int64_t channels, DType dtype, const char* what) {
  if (call.isNone(at)) return;
  TensorInfo t = call.tensor(at);
  requireParameterType(call, dtype, t.dtype);
  if (std::optional<int64_t> count = t.hasRank ? knownNumel(t.sizes) : std::nullopt)
    call.require(!differ(*count, channels), "{} should contain {} elements not {}", what, channels, *count);
}

struct BatchArguments {
  Tensor weight, bias, runningMean, runningVar;  // undefined or one number for each channel
  bool training;
  double momentum, eps;
};

// Which argument says whether it is training, before momentum and eps: none of _native_batch_norm_legit_no_training;
// the third of _native_batch_norm_legit.no_stats, which has no running statistics.
template <class Call>
bool hasStatistics(const Call& call) {
  return call.size() > 6;
}
template <class Call>
size_t trainingAt(const Call& call) {
  return !hasStatistics(call) ? 3 : call.size() > 7 ? 5 : 0;
}
template <class Call>
bool isTraining(const Call& call) {
  const size_t at = trainingAt(call);
  return at && call.flag(at);
}

BatchArguments batchArguments(const KernelCall& call) {
  const bool has = hasStatistics(call);
  const size_t momentum = trainingAt(call) ? trainingAt(call) + 1 : 5;
  return {call.tensor(1),   call.tensor(2),        has ? call.tensor(3) : Tensor(), has ? call.tensor(4) : Tensor(),
          isTraining(call), call.number(momentum), call.number(momentum + 1)};
}

void inferBatchNorm(InferCall& call) {
  TensorInfo x = call.rankedTensor(0);
  // Nothing passes, whatever its rank and the parameters.
  if (x.rank() == 1 && x.mayBeEmpty() && call.op().schema().returns.size() == 1) return call.result(x);
  call.require(x.rank() >= 2, "expected an input of at least 2 dimensions, but got size {}", dimsText(x.sizes));
  int64_t channels = x.sizes[1];
  const char* names[] = {"weight", "bias", "running_mean", "running_var"};
  const size_t parameters = hasStatistics(call) ? 4 : 2, at = trainingAt(call);
  for (size_t i = 0; i < parameters; ++i) requirePerChannel(call, i + 1, channels, x.dtype, names[i]);
  if (at && !call.constant(at)) return call.result(x);  // of the others nothing is known
  bool training = isTraining(call), empty = call.op().schema().returns.size() == 1 && knownNumel(x.sizes) == 0;
  for (size_t i = 3; i < 5; ++i)
    call.require(training || empty || (i <= parameters && !call.isNone(i)), "{} must be defined in evaluation mode",
                 names[i - 1]);
  call.result(x);
  if (call.op().schema().returns.size() == 1) return;
  // Statistics of the batch, in training only.
  DType dtype = x.dtype;
  for (size_t i = parameters; i > 0; --i)
    if (!call.isNone(i)) dtype = call.tensor(i).dtype;
  Dims saved{training ? channels : 0};
  call.result(dtype, saved);
  call.result(dtype, saved);
  for (size_t i = 3; i < call.op().schema().returns.size(); ++i) call.result(call.tensor(i));
}

// running = (1 - momentum) * running + momentum * value. Statistics that are weights of the model stay as they are:
// runs share them.
template <class T>
void updateRunning(const Tensor& running, const std::vector<double>& values, double momentum) {
  if (!running.defined() || running.storage()->readOnly()) return;
  Tensor updated = Tensor::empty(kDTypeOf<T>, running.sizes());
  Tensor old = denseTensor(running, kDTypeOf<T>);
  for (size_t c = 0; c < values.size(); ++c)
    updated.data<T>()[c] =
        static_cast<T>((1 - momentum) * static_cast<double>(old.data<T>()[c]) + momentum * values[c]);
  copyTensor(running, updated);
}

// The statistics that the input is normalized with.
struct Statistics {
  std::vector<double> mean, inverse;  // inverse: of the standard deviation
};

// The moments of each channel of x: [batch, channels, inner].
template <class T>
std::vector<Moments> channelMoments(const T* x, int64_t batch, int64_t channels, int64_t inner) {
  std::vector<Moments> moments(static_cast<size_t>(channels));
  if (inner > 1) {
    for (int64_t c = 0; c < channels; ++c) {
      moments[c] = momentsOf(x + c * inner, batch, inner, channels * inner);
      RunContext::current().checkInterrupt(batch * inner);
    }
    return moments;
  }
  // One row after the other.
  Eigen::ArrayXd sum = Eigen::ArrayXd::Zero(channels), mean, squares = sum;
  for (int64_t n = 0; n < batch; ++n) sum += ConstRow<T>(x + n * channels, channels).template cast<double>();
  mean = sum / static_cast<double>(batch);
  for (int64_t n = 0; n < batch; ++n)
    squares += (ConstRow<T>(x + n * channels, channels).template cast<double>() - mean).square();
  for (int64_t c = 0; c < channels; ++c) moments[c] = {mean[c], squares[c] / static_cast<double>(batch)};
  return moments;
}

template <class T>
Statistics batchStatistics(const Tensor& x, int64_t inner, const BatchArguments& a) {
  int64_t batch = x.size(0), channels = x.size(1);
  Statistics s;
  if (!a.training) {
    Tensor mean = denseTensor(a.runningMean, kDTypeOf<T>), var = denseTensor(a.runningVar, kDTypeOf<T>);
    for (int64_t c = 0; c < channels; ++c) {
      s.mean.push_back(static_cast<double>(mean.data<T>()[c]));
      s.inverse.push_back(static_cast<double>(T(1) / std::sqrt(var.data<T>()[c] + static_cast<T>(a.eps))));
    }
    return s;
  }
  std::vector<double> unbiased;
  auto count = static_cast<double>(batch * inner);
  for (const Moments& m : channelMoments(x.data<T>(), batch, channels, inner)) {
    s.mean.push_back(m.mean);
    s.inverse.push_back(m.variance == 0 && a.eps == 0 ? 0 : 1 / std::sqrt(m.variance + a.eps));
    unbiased.push_back(m.variance * count / (count - 1));
  }
  updateRunning<T>(a.runningMean, s.mean, a.momentum);
  updateRunning<T>(a.runningVar, unbiased, a.momentum);
  return s;
}

// x: [batch, channels, ...], with elements, contiguous in its compute dtype T, as is `out`.
template <class T>
Statistics normalizeBatch(const Tensor& x, const BatchArguments& a, T* out) {
  int64_t batch = x.size(0), channels = x.size(1), inner = x.numel() / (batch * channels);
  Statistics s = batchStatistics<T>(x, inner, a);
  Tensor weight = denseTensor(a.weight, kDTypeOf<T>), bias = denseTensor(a.bias, kDTypeOf<T>);
  Array<T> scale(channels), shift(channels);
  for (int64_t c = 0; c < channels; ++c) {
    scale[c] = static_cast<T>(s.inverse[c]) * (weight.defined() ? weight.data<T>()[c] : T(1));
    shift[c] = (bias.defined() ? bias.data<T>()[c] : T(0)) - static_cast<T>(s.mean[c]) * scale[c];
  }
  const T* in = x.data<T>();
  for (int64_t n = 0; n < batch; ++n) {
    if (inner == 1)
      Row<T>(out + n * channels, channels) = ConstRow<T>(in + n * channels, channels) * scale + shift;
    else
      for (int64_t c = 0, at = n * channels * inner; c < channels; ++c, at += inner)
        Row<T>(out + at, inner) = ConstRow<T>(in + at, inner) * scale[c] + shift[c];
    RunContext::current().checkInterrupt(channels * inner);
  }
  return s;
}

void batchNormKernel(KernelCall& call) {
  Tensor x = denseTensor(call.tensor(0));
  DenseResult out(call.out());
  BatchArguments a = batchArguments(call);
  // _native_batch_norm_legit_functional gives the running statistics out.
  for (size_t i = 3; i < call.resultCount(); ++i) {
    Tensor& running = i == 3 ? a.runningMean : a.runningVar;
    copyTensor(call.out(i), running);
    running = call.out(i);
  }
  withFloating(x.dtype(), [&](auto sample) {
    using T = decltype(sample);
    Statistics s = x.numel() ? normalizeBatch<T>(x, a, out.data<T>()) : Statistics{};
    out.store();
    for (size_t i = 1; i < std::min<size_t>(3, call.resultCount()); ++i) {
      Tensor saved = call.out(i);
      std::vector<double>& values = i == 1 ? s.mean : s.inverse;
      values.resize(static_cast<size_t>(saved.numel()), 0.0);
      copyTensor(saved, Tensor::of<double>(saved.sizes(), values));
    }
  });
}

// Of what only a run knows, or of f64: a factor and a summand of each channel.
void computeBatchNorm(ConvertCall& call) {
  const Tensor x = call.tensor(0);
  Dims sizes(static_cast<size_t>(x.rank()), 1);
  sizes[1] = x.size(1);
  auto shaped = [&](const IValue& v) { return call.compute("aten::reshape", {v, intList(sizes)}); };
  IValue factor =
      call.compute("aten::rsqrt", {call.compute("aten::add.Scalar", {call.argument(4), call.argument(7), int64_t{1}})});
  if (!call.isNone(1)) factor = call.compute("aten::mul.Tensor", {factor, call.argument(1)});
  IValue summand = call.compute("aten::mul.Tensor", {call.argument(3), factor});
  summand = call.isNone(2) ? call.compute("aten::neg", {summand})
                           : call.compute("aten::sub.Tensor", {call.argument(2), summand, int64_t{1}});
  const IValue scaled = call.compute("aten::mul.Tensor", {x, shaped(factor)});
  call.setResult(0, call.compute("aten::add.Tensor", {scaled, shaped(summand), int64_t{1}}));
}

// Whether the statistics are given, they, the weight and the bias have the dtype of the input, and no layer takes them.
bool isOfParts(const ConvertCall& call) {
  const Tensor x = call.tensor(0);
  if (call.flag(5) || call.isNone(3) || call.isNone(4) || x.rank() < 2 || x.numel() == 0) return false;
  bool isInput = false;
  for (size_t i = 1; i < 5; ++i) {
    if (!call.isNone(i) && call.tensor(i).dtype() != x.dtype()) return false;
    isInput |= call.isNetworkTensor(i);
  }
  return x.dtype() == DType::Float64 || (x.dtype() == DType::Float32 && isInput);
}

// With the statistics of the batch each channel is an instance whose places are those of all samples.
void computeOfBatch(ConvertCall& call) {
  const Tensor x = call.tensor(0);
  const int64_t batch = x.size(0), channels = x.size(1);
  Dims sizes(x.sizes());
  IValue rows = x;
  if (batch > 1) rows = call.compute("aten::transpose.int", {rows, int64_t{0}, int64_t{1}});
  rows = reshaped(call, rows, Dims{1, channels, x.numel() / channels});
  rows = call.compute("aten::instance_norm", {rows, call.argument(1), call.argument(2), IValue(), IValue(), true, 0.0,
                                              call.argument(7), false});
  std::swap(sizes[0], sizes[1]);
  if (batch > 1) rows = call.compute("aten::transpose.int", {reshaped(call, rows, sizes), int64_t{0}, int64_t{1}});
  call.setResult(0, reshaped(call, rows, Dims(x.sizes())));
}

// Whether the statistics of the batch are asked for, and no others are brought up to them.
bool isOfBatch(const ConvertCall& call) {
  const Tensor x = call.tensor(0);
  return call.flag(5) && call.isNone(3) && call.isNone(4) && isF32(x) && x.rank() >= 2 && x.numel() > 0;
}

void convertAnyBatchNorm(ConvertCall& call) {
  isOfBatch(call) ? computeOfBatch(call) : isOfParts(call) ? computeBatchNorm(call) : convertBatchNorm(call);
}

// The statistics of the batch, which are results as well, are empty outside of training.
void convertNativeBatchNorm(ConvertCall& call) {
  BatchArguments a = batchArguments(call);
  if (a.training) return convertToKernel(call, "the statistics are those of the batch");
  std::vector<IValue> arguments;
  for (size_t i = 0; i < 5; ++i) arguments.push_back(call.argument(i));
  arguments.insert(arguments.end(), {false, a.momentum, a.eps, false});
  call.setResult(0, call.compute("aten::batch_norm", std::move(arguments)));
  for (size_t i : {1, 2}) call.setResult(i, Tensor::empty(call.spec(i).dtype, Dims{0}));
}

// ---- instance_norm: batch_norm where each sample is a batch of its own ----

void inferInstanceNorm(InferCall& call) {
  TensorInfo x = call.rankedTensor(0);
  call.require(x.rank() >= 2, "expected an input of at least 2 dimensions, but got size {}", dimsText(x.sizes));
  const char* names[] = {"weight", "bias", "running_mean", "running_var"};
  for (size_t i = 0; i < 4; ++i) requirePerChannel(call, i + 1, x.sizes[1], x.dtype, names[i]);
  call.require(call.flag(5) || (!call.isNone(3) && !call.isNone(4)),
               "expected running_mean and running_var to be defined when use_input_stats is false");
  call.result(x);
}

// One parameter of [channels] for each of [batch * channels].
Tensor repeated(const Tensor& t, int64_t batch) {
  if (!t.defined()) return t;
  int64_t channels = t.numel();
  return contiguous(
      reshaped(contiguous(expandedTo(reshaped(t, Dims{1, channels}), Dims{batch, channels})), Dims{batch * channels}));
}

// The mean over the samples, brought back to the running statistics.
template <class T>
void averageRunning(const Tensor& running, const Tensor& repeatedStats, int64_t batch) {
  if (!running.defined() || running.storage()->readOnly() || batch == 0) return;
  int64_t channels = running.numel();
  Tensor mean = Tensor::zeros(kDTypeOf<T>, running.sizes()), all = denseTensor(repeatedStats, kDTypeOf<T>);
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (int64_t n = 0; n < batch; ++n) sum += static_cast<double>(all.data<T>()[n * channels + c]);
    mean.data<T>()[c] = static_cast<T>(sum / static_cast<double>(batch));
  }
  copyTensor(running, mean);
}

void instanceNormKernel(KernelCall& call) {
  Tensor x = denseTensor(call.tensor(0));
  DenseResult out(call.out());
  BatchArguments a = batchArguments(call), spread = a;
  int64_t batch = x.size(0), channels = x.size(1);
  for (auto member :
       {&BatchArguments::weight, &BatchArguments::bias, &BatchArguments::runningMean, &BatchArguments::runningVar}) {
    spread.*member = repeated(a.*member, batch);
    if ((spread.*member).defined() && (spread.*member).storage() == (a.*member).storage())
      spread.*member = cloneTensor(spread.*member);
  }
  if (x.numel() == 0) return out.store();
  Tensor flat = reshaped(x, Dims{1, batch * channels, x.numel() / (batch * channels)});
  withFloating(x.dtype(), [&](auto sample) {
    using T = decltype(sample);
    normalizeBatch<T>(flat, spread, out.data<T>());
    if (a.training) {
      averageRunning<T>(a.runningMean, spread.runningMean, batch);
      averageRunning<T>(a.runningVar, spread.runningVar, batch);
    }
  });
  out.store();
}

// ---- layer_norm, rms_norm: over the last dimensions ----

// Checks that the input ends with the normalized dimensions; returns how many come before them.
size_t outerRank(const InferCall& call, const TensorInfo& x, const Dims& shape) {
  call.require(!shape.empty(), "expected normalized_shape to be at least 1-dimensional, but got []");
  bool fits = x.rank() >= shape.size();
  size_t outer = fits ? x.rank() - shape.size() : 0;
  for (size_t i = 0; fits && i < shape.size(); ++i)
    fits = !differ(x.sizes[outer + i], shape[i]) && (shape[i] >= 0 || !call.isRun());
  if (fits) return outer;
  const std::string given(dimsText(shape));
  call.fail("given normalized_shape={}, expected input with shape [*, {}], but got input of size{}", given,
            std::string_view(given).substr(1, given.size() - 2), dimsText(x.sizes));
}

void requireNormalizedShape(const InferCall& call, const TensorInfo& t, const Dims& shape, const char* what) {
  bool fits = !t.hasRank || t.rank() == shape.size();
  for (size_t i = 0; fits && t.hasRank && i < shape.size(); ++i) fits = !differ(t.sizes[i], shape[i]);
  call.require(fits,
               "expected {} to be of same shape as normalized_shape, but got {} of shape {} and normalized_shape = {}",
               what, what, dimsText(t.sizes), dimsText(shape));
}
void requireLayerParameter(const InferCall& call, size_t at, const Dims& shape, DType dtype, const char* what) {
  if (call.isNone(at)) return;
  TensorInfo t = call.tensor(at);
  requireParameterType(call, dtype, t.dtype);
  requireNormalizedShape(call, t, shape, what);
}

void inferLayerNorm(InferCall& call) {
  TensorInfo x = call.rankedTensor(0);
  Dims shape = call.sizes(1);
  size_t outer = outerRank(call, x, shape);
  requireLayerParameter(call, 2, shape, x.dtype, "weight");
  requireLayerParameter(call, 3, shape, x.dtype, "bias");
  call.result(x);
  if (call.op().schema().returns.size() == 1) return;
  Dims statistics(x.sizes.first(outer));
  for (size_t i = 0; i < shape.size(); ++i) statistics.push_back(1);
  DType dtype = call.isNone(2) ? x.dtype : call.tensor(2).dtype;
  call.result(dtype, statistics);
  call.result(dtype, statistics);
}

// Results that hold statistics; not asked for by layer_norm and group_norm themselves.
template <class T>
struct SavedStatistics {
  explicit SavedStatistics(KernelCall& call) : call_(call), wanted_(call.resultCount() == 3) {
    if (!wanted_) return;
    mean = Tensor::empty(kDTypeOf<T>, call.spec(1).sizes);
    inverse = Tensor::empty(kDTypeOf<T>, call.spec(1).sizes);
  }
  void set(int64_t i, double m, double r) {
    if (!wanted_) return;
    mean.data<T>()[i] = static_cast<T>(m);
    inverse.data<T>()[i] = static_cast<T>(r);
  }
  void store() {
    if (!wanted_) return;
    copyTensor(call_.out(1), mean);
    copyTensor(call_.out(2), inverse);
  }
  Tensor mean, inverse;

 private:
  KernelCall& call_;
  bool wanted_;
};

void layerNormKernel(KernelCall& call) {
  Tensor x = denseTensor(call.tensor(0));
  DenseResult out(call.out());
  int64_t n = 1, rank = static_cast<int64_t>(call.integers(1).size());
  for (int64_t i = x.rank() - rank; i < x.rank(); ++i) n *= x.size(static_cast<int>(i));
  int64_t rows = 1;
  for (int64_t i = 0; i < x.rank() - rank; ++i) rows *= x.size(static_cast<int>(i));
  double eps = call.number(4);
  withFloating(x.dtype(), [&](auto sample) {
    using T = decltype(sample);
    Tensor weight = denseTensor(call.tensor(2), kDTypeOf<T>), bias = denseTensor(call.tensor(3), kDTypeOf<T>);
    SavedStatistics<T> saved(call);
    for (int64_t r = 0; r < rows; ++r) {
      Moments m = momentsOf(x.data<T>() + r * n, 1, n, n);
      double inverse = 1 / std::sqrt(m.variance + eps);
      saved.set(r, m.mean, inverse);
      auto scale = static_cast<T>(inverse), mean = static_cast<T>(m.mean);
      Row<T> y(out.data<T>() + r * n, n);
      auto normal = (ConstRow<T>(x.data<T>() + r * n, n) - mean) * scale;
      if (weight.defined() && bias.defined())
        y = normal * ConstRow<T>(weight.data<T>(), n) + ConstRow<T>(bias.data<T>(), n);
      else if (weight.defined())
        y = normal * ConstRow<T>(weight.data<T>(), n);
      else if (bias.defined())
        y = normal + ConstRow<T>(bias.data<T>(), n);
      else
        y = normal;
      call.context().checkInterrupt(n);
    }
    saved.store();
  });
  out.store();
}

// x / sqrt(mean(x * x) + eps) times the weight, rounded to the dtype of x, whatever that of the weight is.
void inferRmsNorm(InferCall& call) {
  TensorInfo x = call.rankedTensor(0);
  Dims shape = call.sizes(1);
  outerRank(call, x, shape);
  if (!call.isNone(2)) requireNormalizedShape(call, call.tensor(2), shape, "weight");
  call.result(x);
}

void rmsNormKernel(KernelCall& call) {
  Tensor x = denseTensor(call.tensor(0)), weight = call.tensor(2);
  DenseResult out(call.out());
  int64_t n = 1;
  for (int64_t s : call.integers(1)) n *= s;
  withFloating(x.dtype(), [&](auto sample) {
    using T = decltype(sample);
    double eps = call.isNone(3) ? static_cast<double>(std::numeric_limits<T>::epsilon()) : call.number(3);
    withFloating(weight.defined() ? promoteTypes(kDTypeOf<T>, weight.dtype()) : kDTypeOf<T>, [&](auto wide) {
      using W = decltype(wide);
      Tensor w = denseTensor(weight, kDTypeOf<W>);
      for (int64_t at = 0; at < x.numel(); at += n) {
        ConstRow<T> row(x.data<T>() + at, n);
        Row<T> y(out.data<T>() + at, n);
        double squares = blockSum(x.data<T>() + at, n, [](const auto& v) { return v.square(); });
        y = row * static_cast<T>(1 / std::sqrt(squares / static_cast<double>(n) + eps));
        if (w.defined()) y = (y.template cast<W>() * ConstRow<W>(w.data<W>(), n)).template cast<T>();
        call.context().checkInterrupt(n);
      }
    });
  });
  out.store();
}

// ---- group_norm ----

struct Groups {
  int64_t batch, channels, inner, groups;
};

// Weight and bias of one number for each channel.
void requireGroups(const InferCall& call, const TensorInfo& x, int64_t channels, int64_t groups, size_t weight,
                   size_t bias) {
  call.require(groups > 0, "expected num_groups to be greater than 0, got {}", groups);
  call.require(
      !isKnownSize(channels) || channels % groups == 0,
      "expected number of channels in input to be divisible by num_groups, but got input of shape {} and num_groups={}",
      dimsText(x.sizes), groups);
  for (size_t at : {weight, bias}) {
    if (call.isNone(at)) continue;
    TensorInfo t = call.tensor(at);
    requireParameterType(call, x.dtype, t.dtype);
    call.require(!t.hasRank || (t.rank() == 1 && !differ(t.sizes[0], channels)),
                 "expected weight and bias to be vectors of size equal to the number of channels in input, but got "
                 "size {} and input of size {}",
                 dimsText(t.sizes), dimsText(x.sizes));
  }
}

void inferGroupNorm(InferCall& call) {
  TensorInfo x = call.rankedTensor(0);
  call.require(x.rank() >= 2, "expected at least 2 dimensions for input tensor but received {}", x.rank());
  requireGroups(call, x, x.sizes[1], call.integer(1), 2, 3);
  call.result(x);
}

void inferNativeGroupNorm(InferCall& call) {
  TensorInfo x = call.tensor(0);
  int64_t batch = call.size(3), channels = call.size(4), inner = call.size(5), groups = call.integer(6);
  requireGroups(call, x, channels, groups, 1, 2);
  std::optional<int64_t> numel = x.hasRank ? knownNumel(x.sizes) : std::nullopt;
  call.require(
      !call.isRun() ||
          (batch >= 0 && channels >= 0 && inner >= 0 && *numel == multiplySizes(multiplySizes(batch, channels), inner)),
      "expected an input of {} x {} x {} elements, but got size {}", batch, channels, inner, dimsText(x.sizes));
  DType dtype = call.isNone(1) ? x.dtype : call.tensor(1).dtype;
  call.result(x);
  call.result(dtype, Dims{batch, groups});
  call.result(dtype, Dims{batch, groups});
}

template <class T>
void normalizeGroups(KernelCall& call, const Groups& g, const Tensor& x, const Tensor& w, const Tensor& b, double eps,
                     T* out) {
  Tensor weight = denseTensor(w, kDTypeOf<T>), bias = denseTensor(b, kDTypeOf<T>);
  SavedStatistics<T> saved(call);
  int64_t perGroup = g.channels / g.groups;
  for (int64_t i = 0; i < g.batch * g.groups; ++i) {
    int64_t at = i * perGroup * g.inner;
    Moments m = momentsOf(x.data<T>() + at, 1, perGroup * g.inner, 0);
    double inverse = 1 / std::sqrt(m.variance + eps);
    saved.set(i, m.mean, inverse);
    for (int64_t k = 0; k < perGroup; ++k, at += g.inner) {
      int64_t c = i % g.groups * perGroup + k;
      T scale = static_cast<T>(inverse) * (weight.defined() ? weight.data<T>()[c] : T(1));
      T shift = bias.defined() ? bias.data<T>()[c] : T(0);
      Row<T>(out + at, g.inner) = (ConstRow<T>(x.data<T>() + at, g.inner) - static_cast<T>(m.mean)) * scale + shift;
    }
    call.context().checkInterrupt(perGroup * g.inner);
  }
  saved.store();
}

void runGroupNorm(KernelCall& call, const Groups& g, const Tensor& weight, const Tensor& bias, double eps) {
  Tensor x = denseTensor(call.tensor(0));
  DenseResult out(call.out());
  withFloating(x.dtype(), [&](auto sample) {
    using T = decltype(sample);
    normalizeGroups<T>(call, g, x, weight, bias, eps, out.data<T>());
  });
  out.store();
}

void groupNormKernel(KernelCall& call) {
  Tensor x = call.tensor(0);
  int64_t inner = 1;
  for (int d = 2; d < x.rank(); ++d) inner *= x.size(d);
  runGroupNorm(call, {x.size(0), x.size(1), inner, call.integer(1)}, call.tensor(2), call.tensor(3), call.number(4));
}

void nativeGroupNormKernel(KernelCall& call) {
  runGroupNorm(call, {call.integer(3), call.integer(4), call.integer(5), call.integer(6)}, call.tensor(1),
               call.tensor(2), call.number(7));
}

// ---- with weights that only a run knows: the norm without them, a factor and a sum ----

// `kWeight`: which argument the weight is. The bias, if there is one, follows it.
template <ConvertFunction kOfKnown, size_t kWeight, bool kHasBias, bool kByRows>
void convertNorm(ConvertCall& call) {
  const Tensor x = call.tensor(0);
  bool isKnown = !isF32(x) || x.numel() == 0;
  std::vector<IValue> arguments(call.size());
  for (size_t i = 0; i < call.size(); ++i) arguments[i] = call.argument(i);
  Dims sizes;
  if (kByRows)
    sizes = call.integers(1);
  else
    sizes.resize(static_cast<size_t>(x.rank() - 1), 1), sizes[0] = x.size(1);
  bool isInput = false;
  for (size_t i = kWeight; i < kWeight + 1 + kHasBias; ++i) {
    isInput |= call.isNetworkTensor(i);
    isKnown |= !call.isNone(i) && !isF32(call.tensor(i));
    arguments[i] = IValue();
  }
  if (isKnown || !isInput) return kOfKnown(call);
  IValue result = call.compute(call.op().fullName(), std::move(arguments));
  auto shaped = [&](size_t i) { return call.compute("aten::reshape", {call.argument(i), intList(sizes)}); };
  if (!call.isNone(kWeight)) result = call.compute("aten::mul.Tensor", {result, shaped(kWeight)});
  if (kHasBias && !call.isNone(kWeight + 1))
    result = call.compute("aten::add.Tensor", {result, shaped(kWeight + 1), 1});
  call.setResult(0, result);
}

}  // namespace

void registerNormalizationOps(OpRegistry& ops) {
  auto add = [&](const char* schema, InferFunction infer, KernelFunction kernel, ConvertFunction convert = nullptr,
                 TrainedArguments trained = {}, TraitSet traits = {}) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .convert = convert,
             .dtypes = kFloatingTypes,
             .traits = traits,
             .cost = Cost::Function,
             .trained = trained});
  };
  constexpr TrainedArguments kRunning{.first = 3, .end = 5, .training = 5};
  add("aten::batch_norm", inferBatchNorm, keepingFormat<batchNormKernel>, convertAnyBatchNorm, kRunning,
      {Trait::RoundsOnce});
  add("aten::native_batch_norm", inferBatchNorm, keepingFormat<batchNormKernel>, convertNativeBatchNorm, kRunning);
  for (auto name : {"aten::_native_batch_norm_legit", "aten::_native_batch_norm_legit_functional"})
    add(name, inferBatchNorm, keepingFormat<batchNormKernel>, nullptr, kRunning);
  add("aten::_native_batch_norm_legit.no_stats", inferBatchNorm, keepingFormat<batchNormKernel>);
  add("aten::_native_batch_norm_legit_no_training", inferBatchNorm, keepingFormat<batchNormKernel>,
      convertNativeBatchNorm);
  add("aten::instance_norm", inferInstanceNorm, instanceNormKernel, convertNorm<convertInstanceNorm, 1, true, false>,
      kRunning, {Trait::RoundsOnce});
  add("aten::layer_norm", inferLayerNorm, layerNormKernel, convertNorm<convertLayerNorm, 2, true, true>, {},
      {Trait::RoundsOnce});
  add("aten::native_layer_norm", inferLayerNorm, layerNormKernel);
  add("aten::rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
      inferRmsNorm, rmsNormKernel, convertNorm<convertRmsNorm, 2, false, true>, {}, {Trait::RoundsOnce});
  add("aten::group_norm", inferGroupNorm, keepingFormat<groupNormKernel>, convertNorm<convertGroupNorm, 2, true, false>,
      {}, {Trait::RoundsOnce});
  add("aten::native_group_norm", inferNativeGroupNorm, keepingFormat<nativeGroupNormKernel>);
}

}  // namespace tscompile
