// Differences between neighbours and what is made of them: diff, gradient, the trapezoidal rule.
#include "ir/values/size_expression.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/tensor_math.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/promotion.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

// t[from:to] along a dimension, as Python slices: negative positions count from the end, and are cut to the size.
constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
Tensor sliced(const Tensor& t, int64_t dim, int64_t from, int64_t to = kEnd) {
  int64_t size = t.sizes()[dim];
  auto position = [size](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size); };
  int64_t start = position(from);
  return narrowed(t, dim, start, std::max<int64_t>(position(to) - start, 0));
}

// ---- diff ----

// What is put before and after the tensor has its sizes but for the dimension `dim`.
void checkJoined(const InferCall& call, const TensorInfo& t, size_t argument, int64_t dim) {
  if (call.isNone(argument)) return;
  TensorInfo other = call.rankedTensor(argument);
  call.require(other.rank() == t.rank(),
               "diff expects prepend or append to have the {} dimensions of the input, not {}", t.rank(), other.rank());
  for (size_t d = 0; d < t.rank(); ++d)
    call.require(static_cast<int64_t>(d) == dim || other.sizes[d] == t.sizes[d] || !isKnownSize(other.sizes[d]) ||
                     !isKnownSize(t.sizes[d]),
                 "diff expects what is prepended or appended to have the input's sizes except along dimension {}, but "
                 "got {} and {}",
                 dim, dimsText(other.sizes), dimsText(t.sizes));
}

void inferDiff(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  call.require(t.rank() > 0, "diff expects input to be at least one-dimensional");
  const int64_t n = call.integer(1);
  call.require(n >= 0, "order must be non-negative but got {}", n);
  if (n == 0 && call.isNone(3) && call.isNone(4)) return call.result(t);  // whatever the dimension
  const int64_t dim = call.dim(2, t.rank());
  checkJoined(call, t, 3, dim);
  checkJoined(call, t, 4, dim);
  if (n == 0) return call.result(t);  // not even joined
  Dims sizes(t.sizes);
  ResultType dtype;
  for (size_t i : {0, 3, 4}) {
    if (call.isNone(i)) continue;
    TensorInfo part = call.tensor(i);
    dtype.add(part);
    if (i) sizes[dim] = (SizeExpression::ofSize(sizes[dim]) + SizeExpression::ofSize(part.sizes[dim])).size();
  }
  sizes[dim] = greatest(SizeExpression::ofSize(sizes[dim]) - n, 0).size();
  call.result(dtype.get(), sizes);
}

void diffKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  int64_t n = call.integer(1);
  if (n == 0) return call.setResult(invoke(call, "aten::clone", {t, IValue()}));
  const int64_t dim = call.dim(2, t.rank());
  std::vector<Tensor> parts;
  for (size_t i : {3, 0, 4})
    if (!call.isNone(i)) parts.push_back(call.tensor(i));
  if (parts.size() > 1) t = TensorMath(call).cat(parts, dim);
  n = std::min(n, t.sizes()[dim]);
  if (n == 0) t = invokeTensor(call, "aten::clone", {t, IValue()});
  for (; n > 0; --n) {
    Tensor later = sliced(t, dim, 1), earlier = sliced(t, dim, 0, -1);
    t = t.dtype() == DType::Bool ? invokeTensor(call, "aten::logical_xor", {later, earlier})
                                 : TensorMath(call).sub(later, earlier);
  }
  call.setResult(t);
}

// ---- gradient ----

// One direction of a gradient: the inner elements between those at the two ends.
class Gradient {
 public:
  Gradient(const KernelCall& call, const Tensor& t, int64_t edgeOrder) : math_(call), t_(t), edgeOrder_(edgeOrder) {}

  // Elements that lie a number apart.
  Tensor even(int64_t dim, const IValue& spacing) const {
    auto at = [&](int64_t from, int64_t to = kEnd) { return sliced(t_, dim, from, to); };
    Tensor center = math_.div(math_.sub(at(2), at(0, -2)), spacing), first, last;
    if (edgeOrder_ == 1) {
      first = math_.sub(at(1, 2), at(0, 1));
      last = math_.sub(at(-1), at(-2, -1));
    } else {
      first = weighted(at(0, 1), -1.5, at(1, 2), 2, at(2, 3), -0.5);
      last = weighted(at(-3, -2), 0.5, at(-2, -1), -2, at(-1), 1.5);
    }
    return joined(math_.div(center, 2), math_.div(first, spacing), math_.div(last, spacing), dim);
  }

  // Elements at given coordinates.
  Tensor uneven(int64_t dim, const Tensor& coordinates) const {
    auto at = [&](int64_t from, int64_t to = kEnd) { return sliced(t_, dim, from, to); };
    Tensor steps = math_.sub(sliced(coordinates, 0, 1), sliced(coordinates, 0, 0, -1));
    Tensor before = sliced(steps, 0, 0, -1), after = sliced(steps, 0, 1), both = math_.add(before, after);
    Tensor a = math_.div(math_.neg(after), math_.mul(before, both));
    Tensor b = math_.div(math_.sub(after, before), math_.mul(before, after));
    Tensor c = math_.div(before, math_.mul(after, both));
    Tensor center = weighted(at(0, -2), along(a, dim), at(1, -1), along(b, dim), at(2), along(c, dim)), first, last;
    int64_t n = steps.size(0);
    if (edgeOrder_ == 1) {
      first = math_.div(math_.sub(at(1, 2), at(0, 1)), selected(steps, 0, 0));
      last = math_.div(math_.sub(at(-1), at(-2, -1)), selected(steps, 0, n - 1));
    } else {
      Tensor h = selected(steps, 0, 0), k = selected(steps, 0, 1), sum = math_.add(h, k);
      first = weighted(at(0, 1), math_.div(math_.neg(math_.add(math_.mul(h, 2.0), k)), math_.mul(h, sum)), at(1, 2),
                       math_.div(sum, math_.mul(h, k)), at(2, 3), math_.div(math_.neg(h), math_.mul(k, sum)));
      h = selected(steps, 0, n - 1), k = selected(steps, 0, n - 2), sum = math_.add(h, k);
      last =
          weighted(at(-3, -2), math_.div(h, math_.mul(k, sum)), at(-2, -1), math_.neg(math_.div(sum, math_.mul(h, k))),
                   at(-1), math_.div(math_.add(math_.mul(h, 2), k), math_.mul(h, sum)));
    }
    return joined(center, first, last, dim);
  }

 private:
  Tensor weighted(const Tensor& a, const IValue& x, const Tensor& b, const IValue& y, const Tensor& c,
                  const IValue& z) const {
    return math_.add(math_.add(math_.mul(a, x), math_.mul(b, y)), math_.mul(c, z));
  }
  // One-dimensional weights, to be broadcast along a dimension.
  Tensor along(const Tensor& weights, int64_t dim) const {
    Dims sizes(static_cast<size_t>(t_.rank()), 1);
    sizes[dim] = weights.size(0);
    return reshaped(weights, sizes);
  }
  Tensor joined(const Tensor& center, const Tensor& first, const Tensor& last, int64_t dim) const {
    return math_.cat({first, center, last}, dim);
  }

  TensorMath math_;
  Tensor t_;
  int64_t edgeOrder_;
};

// The dimensions that a gradient is taken along: the argument's int, list or None, which means all of them.
Dims gradientDims(const KernelCall& call, const Tensor& t, size_t argument) {
  if (!call.isNone(argument)) return call.dims(argument, t.rank(), false);
  Dims all;
  for (int64_t d = 0; d < t.rank(); ++d) all.push_back(d);
  return all;
}

void checkGradient(const KernelCall& call, const Tensor& t, const Dims& dims, int64_t edgeOrder) {
  call.require(t.dtype() != DType::UInt8, "gradient does not support uint8 input");
  call.require(edgeOrder == 1 || edgeOrder == 2, "gradient only supports an edge_order of 1 and 2, not {}", edgeOrder);
  uint64_t seen = 0;
  for (int64_t d : dims) {
    call.require(!(seen >> d & 1), "dim {} appears multiple times in the list of dims", d);
    seen |= uint64_t{1} << d;
    call.require(t.rank() > 0 && t.sizes()[d] > edgeOrder,
                 "gradient expected each dimension size to be at least edge_order + 1 = {}, but got {}", edgeOrder + 1,
                 dimsText(t.sizes()));
  }
}

// One tensor for each dimension. Coordinates may make them of another dtype.
void inferGradient(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  const std::vector<Argument>& arguments = call.op().schema().arguments;
  const size_t at = arguments[1].name == "spacing" ? 2 : 1;
  if (at == 2 && arguments[1].type->isListOf(TypeKind::Tensor)) return call.resultUnknown();
  size_t count = t.rank();
  if (!call.isNone(at)) count = arguments[at].type->is(TypeKind::List) ? call.integers(at).size() : 1;
  DType dtype = isIntegral(t.dtype, true) ? DType::Float32 : t.dtype;
  call.resultTensors(std::vector<TensorSpec>(count, {dtype, true, t.sizes}));
}

// Spacing: a number for all dimensions or None; or a list with an item for each.
enum class Spacing { None, Number, List };
template <Spacing kSpacing>
void gradientKernel(KernelCall& call) {
  constexpr size_t kDims = kSpacing == Spacing::None ? 1 : 2;
  Tensor t = call.tensor(0);
  int64_t edgeOrder = call.integer(kDims + 1);
  Dims dims = gradientDims(call, t, kDims);
  std::vector<IValue> spacing(dims.size(), IValue(1));
  if (kSpacing == Spacing::Number && !call.isNone(1)) spacing.assign(dims.size(), call.argument(1));
  if (kSpacing == Spacing::List) {
    call.require(call.argument(1).isList(), "gradient expected a list as spacing");
    const auto& items = call.argument(1).toList().items;
    spacing.assign(items.begin(), items.end());
  }
  call.require(spacing.size() == dims.size(), "gradient expected as many spacings as dimensions, but got {} for {}",
               spacing.size(), dims.size());
  checkGradient(call, t, dims, edgeOrder);

  Gradient gradient(call, t, edgeOrder);
  std::vector<Tensor> results;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!spacing[i].isTensor()) {
      call.require(spacing[i].isNumber(), "gradient expected numbers or tensors as spacing");
      results.push_back(gradient.even(dims[i], spacing[i]));
      continue;
    }
    Tensor coordinates = spacing[i].toTensor();
    call.require(coordinates.defined() && coordinates.rank() == 1 && coordinates.size(0) > edgeOrder,
                 "gradient expected each element of spacing to have one dimension and more than {} coordinates",
                 edgeOrder);
    results.push_back(gradient.uneven(dims[i], coordinates));
  }
  call.setResult(tensorList(std::move(results)));
}

// ---- trapezoid, cumulative_trapezoid ----

// The sum of two neighbours each.
Tensor neighbourSums(const KernelCall& call, const Tensor& y, int64_t dim) {
  return TensorMath(call).add(sliced(y, dim, 0, -1), sliced(y, dim, 1));
}

// The distances of the samples, to be broadcast to them.
Tensor sampleSteps(const KernelCall& call, const Tensor& y, Tensor x, int64_t dim) {
  if (x.rank() == 1) {
    call.require(x.size(0) == y.sizes()[dim], "trapezoid: There must be one `x` value for each sample point");
    Dims sizes(static_cast<size_t>(y.rank()), 1);
    sizes[dim] = x.size(0);
    x = reshaped(x, sizes);
  }
  while (x.rank() < y.rank()) x = unsqueezed(x, 0);
  return TensorMath(call).sub(sliced(x, dim, 1), sliced(x, dim, 0, -1));
}

double sampleStep(const KernelCall& call) {
  call.require(!call.argument(1).isComplex(), "only a real number is supported as dx");
  return call.number(1);
}

// y, its dimension, and whether x or dx (argument 1) is a tensor.
struct Samples {
  explicit Samples(const KernelCall& call) : y(call.tensor(0)), xIsTensor(call.argument(1).isTensor()) {
    call.require(y.rank() > 0, "expected a tensor with dimensions");
    dim = call.dim(2, y.rank());
  }
  void requireNumbers(const KernelCall& call) const {
    bool isBool = y.dtype() == DType::Bool || (xIsTensor && call.tensor(1).dtype() == DType::Bool);
    call.require(!isBool, "{}: received a bool input for `{}`, but bool is not supported",
                 call.op().kind().name().starts_with("cumulative") ? "cumulative_trapezoid" : "trapezoid",
                 xIsTensor ? "x` or `y" : "y");
  }
  Tensor y;
  bool xIsTensor;
  int64_t dim = 0;
};

// The dtype of areas, which are halved.
DType areaDType(const InferCall& call) {
  DType dtype = call.tensor(0).dtype;
  if (call.isTensor(1)) dtype = promotedDType(call, 2);
  return isIntegral(dtype, true) ? DType::Float32 : dtype;
}

// The sizes of the areas between neighbours.
Dims areaSizes(const InferCall& call, int64_t dim) {
  auto between = [](int64_t n) { return greatest(SizeExpression::ofSize(n) - 1, 0).size(); };
  Dims sizes(call.tensor(0).sizes);
  sizes[dim] = between(sizes[dim]);
  if (!call.isTensor(1)) return sizes;
  TensorInfo x = call.rankedTensor(1);
  if (x.rank() == 1) return sizes;
  Dims steps(x.sizes);
  while (steps.size() < sizes.size()) steps.insert(0, 1);
  steps[dim] = between(steps[dim]);
  call.require(broadcastInto(sizes, steps), "the sizes {} and {} cannot be broadcast together",
               dimsText(call.tensor(0).sizes), dimsText(x.sizes));
  return sizes;
}

template <bool kCumulative>
void inferTrapezoid(InferCall& call) {
  TensorInfo y = call.rankedTensor(0);
  call.require(y.rank() > 0, "expected a tensor with dimensions");
  int64_t dim = call.dim(2, y.rank());
  if (!kCumulative && y.sizes[dim] == 0) {
    Dims sizes(y.sizes);
    sizes.erase(static_cast<size_t>(dim));
    return call.result(y.dtype, sizes);
  }
  if (!kCumulative && !isKnownSize(y.sizes[dim])) return call.resultUnknown();
  Dims sizes = areaSizes(call, dim);
  if (!kCumulative) sizes.erase(static_cast<size_t>(dim));
  call.result(areaDType(call), sizes);
}

void trapezoidKernel(KernelCall& call) {
  Samples s(call);
  TensorMath math(call);
  if (s.y.sizes()[s.dim] == 0) {
    Dims sizes(s.y.sizes());
    sizes.erase(static_cast<size_t>(s.dim));
    return call.setResult(Tensor::zeros(s.y.dtype(), sizes));
  }
  s.requireNumbers(call);
  if (s.xIsTensor) {
    Tensor areas = math.mul(neighbourSums(call, s.y, s.dim), sampleSteps(call, s.y, call.tensor(1), s.dim));
    return call.setResult(math.div(math.sum(areas, s.dim), 2.0));
  }
  int64_t last = s.y.sizes()[s.dim] - 1;
  Tensor ends = math.add(selected(s.y, s.dim, 0), selected(s.y, s.dim, last));
  call.setResult(math.mul(math.sub(math.sum(s.y, s.dim), math.mul(ends, 0.5)), sampleStep(call)));
}

void cumulativeTrapezoidKernel(KernelCall& call) {
  Samples s(call);
  s.requireNumbers(call);
  TensorMath math(call);
  auto cumulated = [&](const Tensor& t) { return invokeTensor(call, "aten::cumsum", {t, s.dim, IValue()}); };
  if (!s.xIsTensor) return call.setResult(cumulated(math.mul(neighbourSums(call, s.y, s.dim), sampleStep(call) / 2)));
  Tensor steps = sampleSteps(call, s.y, call.tensor(1), s.dim);
  call.setResult(math.div(cumulated(math.mul(neighbourSums(call, s.y, s.dim), steps)), 2.0));
}

}  // namespace

void registerDifferencesOps(OpRegistry& ops) {
  ops.add({.schema = "aten::diff",
           .infer = inferDiff,
           .kernel = diffKernel,
           .convert = convertByParts<diffKernel>,
           .dtypes = kAllTypes});
  auto add = [&]<KernelFunction kKernel>(std::string_view schema, InferFunction infer) {
    ops.add(
        {.schema = schema, .infer = infer, .kernel = kKernel, .convert = convertByParts<kKernel>, .dtypes = kAllTypes});
  };
  add.operator()<gradientKernel<Spacing::None>>("aten::gradient.array", inferGradient);
  for (auto schema : {"aten::gradient.scalarint", "aten::gradient.scalararray"})
    add.operator()<gradientKernel<Spacing::Number>>(schema, inferGradient);
  for (auto schema : {"aten::gradient.scalarrayint", "aten::gradient.scalarrayarray", "aten::gradient.tensorarrayint",
                      "aten::gradient.tensorarray"})
    add.operator()<gradientKernel<Spacing::List>>(schema, inferGradient);
  for (auto schema : {"aten::trapezoid.x", "aten::trapezoid.dx", "aten::trapz.x", "aten::trapz.dx"})
    add.operator()<trapezoidKernel>(schema, inferTrapezoid<false>);
  for (auto schema : {"aten::cumulative_trapezoid.x", "aten::cumulative_trapezoid.dx"})
    add.operator()<cumulativeTrapezoidKernel>(schema, inferTrapezoid<true>);
}

}  // namespace tscompile
