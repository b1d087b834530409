// Operators that are made of others: assertions, products with integer weights, forms without checks, interpolation.
#include "ir/values/size_expression.h"
#include "runtime/engine/network/convert_call.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/linalg.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/scalars.h"

#include <cmath>

namespace tscompile {
namespace {

// ---- assertions ----

bool isTrue(const KernelCall& call, const Tensor& t) {
  call.require(t.numel() == 1, "expected one element to assert, not {}", t.numel());
  return t.complex(0) != 0.0;
}
void assertTensor(KernelCall& call) {
  call.require(isTrue(call, call.tensor(0)), "Expected Tensor with single nonzero value");
}
void assertWithMessage(KernelCall& call) { call.require(isTrue(call, call.tensor(0)), "{}", call.text(1)); }
void assertScalar(KernelCall& call) { call.require(call.complex(0) != 0.0, "{}", call.text(1)); }

// (tensor, sizes, strides, dtype, ...)
void assertMetadata(KernelCall& call) {
  Tensor t = call.tensor(0);
  auto check = [&](size_t i, DimSpan found, const char* what) {
    if (!call.isNone(i))
      call.require(call.integers(i) == Dims(found), "Tensor {} mismatch! Expected: {}, Got: {}", what,
                   dimsText(call.integers(i)), dimsText(found));
  };
  check(1, t.sizes(), "sizes");
  check(2, t.strides(), "strides");
  DType dtype = call.dtypeOr(3, t.dtype());
  call.require(dtype == t.dtype(), "Tensor dtype mismatch! Expected: {}, Got: {}", pythonName(dtype),
               pythonName(t.dtype()));
}

// (size, min, max)
void constrainRange(KernelCall& call) {
  double size = call.number(0);
  call.require(call.isNone(1) || size >= call.number(1), "Invalid value range: {} is below {}", size,
               call.isNone(1) ? 0 : call.number(1));
  call.require(call.isNone(2) || size <= call.number(2), "Invalid value range: {} is above {}", size,
               call.isNone(2) ? 0 : call.number(2));
}

// ---- made of others ----

template <const char* kOperator>
void asOperator(KernelCall& call) {
  std::vector<IValue> arguments;
  for (size_t i = 0; i < call.size(); ++i) arguments.push_back(call.argument(i));
  call.setResult(invoke(call, kOperator, std::span<const IValue>(arguments)));
}
constexpr char kAll[] = "aten::all", kAny[] = "aten::any", kIndex[] = "aten::index.Tensor";
constexpr char kSoftmax[] = "aten::softmax.int", kIndexPut[] = "aten::index_put",
               kGridSampler[] = "aten::grid_sampler_2d";
template <const char* kOperator>
void inferAsOperator(InferCall& call) {
  call.op().registry().builtIn().find(kOperator)->def().infer(call);
}

// (like, dim): 0, 1, ... along a dimension.
void inferDimArange(InferCall& call) {
  TensorInfo like = call.rankedTensor(0);
  call.require(like.rank() > 0, "expected a tensor with at least one dimension");
  call.result(DType::Int64, Dims{like.sizes[static_cast<size_t>(call.dim(1, like.rank()))]});
}
void dimArange(KernelCall& call) {
  Tensor out = call.out();
  for (int64_t i = 0; i < out.numel(); ++i) out.data<int64_t>()[i] = i;
}

// Rows of minus infinity become zeros instead of NaN.
void safeSoftmax(KernelCall& call) {
  Tensor x = call.tensor(0);
  Tensor probabilities = invokeTensor(call, "aten::softmax.int", {x, call.argument(1), call.argument(2)});
  Tensor out = invokeTensor(call, "aten::eq.Scalar", {x, -std::numeric_limits<double>::infinity()});
  Tensor hidden = x.rank() ? invokeTensor(call, "aten::all.dim", {out, call.argument(1), true}) : out;
  call.setResult(invoke(call, "aten::masked_fill.Scalar", {probabilities, hidden, int64_t{0}}));
}

// x times the transpose of int8 weights, which have a scale for each row.
void int8Product(KernelCall& call) {
  Tensor x = call.tensor(0), weight = call.tensor(1);
  call.require(weight.dtype() == DType::Int8, "expected int8 weights, not {}", pythonName(weight.dtype()));
  Tensor product =
      invokeTensor(call, "aten::mm", {x, invokeTensor(call, "aten::t", {convertTensor(weight, x.dtype())})});
  call.setResult(invoke(call, "aten::mul.Tensor", {product, call.tensor(2)}));
}

// ---- products with weights of four bits, as torchao makes them for processors: two in a byte, in an order that
// PyTorch chooses by the vectors of the machine that packs and multiplies ----

// Rows whose columns stand together, and whether such a block has its second half in the upper bits; in the rest, and
// without vectors, neighbours share a byte.
struct Packing {
  int64_t rows;
  bool halves;
};

Packing packing() {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  static const bool narrow = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (wide) return {64, true};
  if (narrow) return {32, true};
#endif
  return {32, false};
}

// body(row, byte, shift): where the four bits of each row and column are.
template <class Body>
void forEachWeight(int64_t rows, int64_t columns, Body body) {
  const Packing p = packing();
  for (int64_t first = 0; first < rows; first += p.rows) {
    const int64_t count = std::min(p.rows, rows - first), half = count / 2;
    const bool halves = p.halves && count == p.rows;
    for (int64_t k = 0; k < columns; ++k)
      for (int64_t n = 0; n < count; ++n) {
        const int64_t at = first * columns / 2 + k * half + (halves ? n % half : n / 2);
        body(first + n, k, at, (halves ? n / half : n % 2) * 4);
      }
  }
}

// ---- _convert_weight_to_int4pack_for_cpu(self, innerKTiles) ----

constexpr int64_t kRowsTogether = 16;

void inferPack(InferCall& call) {
  const TensorInfo t = call.rankedTensor(0);
  call.require(t.rank() == 2, "_convert_weight_to_int4pack_cpu : expect weight to be 2D tensor.");
  call.require(t.dtype == DType::Undefined || t.dtype == DType::Int32,
               "_convert_weight_to_int4pack_cpu : expect weight to be kInt.");
  call.require(!isKnownSize(t.sizes[0]) || t.sizes[0] % kRowsTogether == 0,
               "_convert_weight_to_int4pack_cpu : expect N to be dividable by 16");
  call.require(!isKnownSize(t.sizes[1]) || t.sizes[1] % 2 == 0,
               "_convert_weight_to_int4pack: expect K to be dividable by 2");
  call.result(DType::UInt8, Dims{t.sizes[0], floorDiv(SizeExpression::ofSize(t.sizes[1]), 2).size()});
}

void packKernel(KernelCall& call) {
  const Tensor w = contiguous(call.tensor(0));
  Tensor out = Tensor::zeros(DType::UInt8, call.spec().sizes);
  auto* to = out.data<uint8_t>();
  forEachWeight(w.size(0), w.size(1), [&](int64_t n, int64_t k, int64_t at, int64_t shift) {
    to[at] = static_cast<uint8_t>(to[at] | (w.data<int32_t>()[n * w.size(1) + k] & 15) << shift);
  });
  call.setResult(out);
}

// ---- _weight_int4pack_mm_for_cpu(self, mat2, qGroupSize, qScaleAndZeros) ----

void inferProductOfPacked(InferCall& call) {
  const TensorInfo x = call.rankedTensor(0), w = call.rankedTensor(1), grid = call.rankedTensor(3);
  call.require(x.dtype == DType::Undefined || (isFloating(x.dtype) && x.dtype != DType::Float64),
               "_weight_int4pack_mm_cpu : expect A to be either 32-bit or 16-bit float tensor.");
  call.require(x.rank() == 2, "_weight_int4pack_mm_cpu : expect A to be 2D tensor.");
  call.require(w.dtype == DType::Undefined || w.dtype == DType::UInt8,
               "_weight_int4pack_mm_cpu : expect B to be uint8 tensor.");
  call.require(w.rank() == 2 && !differ(x.sizes[1], (SizeExpression::ofSize(w.sizes[1]) * 2).size()),
               "_weight_int4pack_mm_cpu : expect B.size(1) to be K / 2.");
  const int64_t group = call.integer(2);
  call.require(group == 32 || group == 64 || group == 128 || group == 256,
               "_weight_int4pack_mm_cpu: expect qGroupSize to be 32, 64, 128 or 256, got {}", group);
  call.require(grid.rank() == 3 && !differ(grid.sizes[1], w.sizes[0]),
               "_weight_int4pack_mm_cpu: expect qScaleAndZeros to be 3d tensor with sizes [:, {}, 2]", w.sizes[0]);
  requireSameScalarType(call, x, grid);
  call.result(x.dtype, Dims{x.sizes[0], w.sizes[0]});
}

// (q - 8) * scale + zero, in f32.
Tensor weightsOf(const KernelCall& call) {
  const Tensor packed = contiguous(call.tensor(1));
  const Tensor grid = contiguous(convertTensor(call.tensor(3), DType::Float32));
  const int64_t rows = packed.size(0), columns = packed.size(1) * 2, group = call.integer(2);
  call.require(grid.size(0) * group >= columns && grid.size(2) == 2, "expected a scale and a zero for each group of {}",
               group);
  Tensor w = Tensor::empty(DType::Float32, Dims{rows, columns});
  forEachWeight(rows, columns, [&](int64_t n, int64_t k, int64_t at, int64_t shift) {
    const float* scale = grid.data<float>() + (k / group * rows + n) * 2;
    const int q = (packed.data<uint8_t>()[at] >> shift & 15) - 8;
    w.data<float>()[n * columns + k] = static_cast<float>(q) * scale[0] + scale[1];
  });
  return w;
}

void productOfPackedKernel(KernelCall& call) {
  const Tensor x = convertTensor(call.tensor(0), DType::Float32);
  const Tensor made = invokeTensor(call, "aten::linear", {x, weightsOf(call), IValue()});
  call.setResult(convertTensor(made, call.spec().dtype));
}

void convertProductOfPacked(ConvertCall& call) {
  if (call.isNetworkTensor(1) || call.isNetworkTensor(3)) return convertToKernel(call, "the weight is an input");
  auto to = [&](const IValue& t, DType dtype) {
    return call.compute("aten::to.dtype", {t, static_cast<int64_t>(dtype), false, false, IValue()});
  };
  const DType dtype = call.tensor(0).dtype();
  const IValue x = dtype == DType::Float32 ? call.argument(0) : to(call.argument(0), DType::Float32);
  const IValue made = call.compute("aten::linear", {x, weightsOf(call), IValue()});
  call.setResult(0, dtype == DType::Float32 ? made : to(made, dtype));
}

// ---- others ----

// The first `size` rows of nonzero, filled up: (x, size, fill).
void nonzeroStatic(KernelCall& call) {
  Tensor x = call.tensor(0), found = invokeTensor(call, "aten::nonzero", {x});
  int64_t size = call.integer(1), count = std::min(found.size(0), size);
  call.require(size >= 0, "nonzero_static: the size {} is negative", size);
  Tensor out = Tensor::empty(DType::Int64, Dims{size, found.size(1)});
  fillTensor(out, call.argument(2));
  Tensor to = invokeTensor(call, "aten::narrow", {out, 0, 0, count});
  copyTensor(to, invokeTensor(call, "aten::narrow", {found, 0, 0, count}));
  call.setResult(out);
}

void inferBoolScalar(InferCall& call) { call.result(DType::Bool, Dims{}); }

// ---- torch.nn.functional's interpolate and upsample, as the first versions of PyTorch print them ----

// (input, size, scale_factor, ...), where one number stands for as many as there are dimensions.
void inferInterpolate(InferCall& call) {
  TensorInfo x = call.rankedTensor(0);
  call.require(x.rank() >= 3 && x.rank() <= 5, "Only 3D, 4D and 5D input Tensors supported, but got size {}",
               dimsText(x.sizes));
  const IValue *size = call.constant(1), *factor = call.constant(2);
  Dims out(x.sizes);
  auto item = [&](const IValue& v, size_t i) -> const IValue& {
    if (!v.isList()) return v;
    call.require(v.toList().items.size() == out.size() - 2, "expected {} numbers, but got {}", out.size() - 2,
                 v.toList().items.size());
    return v.toList().items[i];
  };
  call.require(!size || !factor || !size->isNone() || !factor->isNone(), "either size or scale_factor must be given");
  for (size_t i = 0; i + 2 < out.size(); ++i) {
    int64_t& o = out[i + 2];
    if (size && !size->isNone()) {
      o = item(*size, i).toInt();
      call.require(o > 0, "input and output sizes should be greater than 0, but got {}", o);
    } else if (size && factor && isKnownSize(o)) {
      const IValue& f = item(*factor, i);
      const double scaled =
          std::floor(static_cast<double>(o) * (f.isInt() ? static_cast<double>(f.toInt()) : f.toFloat()));
      call.require(scaled >= 1 && scaled < 0x1p48, "a size of {} cannot be scaled so", o);
      o = static_cast<int64_t>(scaled);
    } else {
      o = kUnknownSize;
    }
  }
  call.result(x.dtype, out);
}

// The operator that computes it, with its arguments.
struct Resizing {
  std::string op;
  std::vector<IValue> arguments;
};

bool says(const KernelCall& call, size_t i) { return i < call.size() && !call.isNone(i); }

Resizing resizingOf(const KernelCall& call) {
  const std::string_view name = call.op().kind().name();
  const bool isGeneral = name == "__interpolate" || name == "__upsample";
  const std::string mode = isGeneral ? call.text(3) : name.ends_with("nearest") ? "nearest" : "bilinear";
  const Dims& sizes = call.spec().sizes;
  const size_t spatial = sizes.size() - 2;
  static constexpr const char* kModes[] = {"linear", "bilinear", "trilinear"};
  const bool isNearest = mode == "nearest", isArea = mode == "area";
  call.require(isNearest || isArea || mode == kModes[spatial - 1] || (mode == "bicubic" && spatial == 2),
               "interpolation of a tensor of {} dimensions cannot be '{}'", sizes.size(), mode);
  call.require(
      !isGeneral || !says(call, 4) || !(isNearest || isArea),
      "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear");
  call.require(!(name == "__interpolate" && says(call, 6) && call.flag(6)), "Antialias is not yet supported");
  std::vector<IValue> output;
  for (size_t d = 2; d < sizes.size(); ++d) output.emplace_back(sizes[d]);
  Resizing r{fmt::format("aten::{}{}d", isArea ? "adaptive_avg_pool" : "upsample_" + mode, spatial),
             {call.argument(0), IValue(Ref<ListValue>::make(types().integer, std::move(output)))}};
  if (isArea) return r;
  if (!isNearest) r.arguments.emplace_back(isGeneral ? says(call, 4) && call.flag(4) : true);
  // Coordinates follow from the sizes, unless they are to follow from the factor.
  const bool byFactor = name == "__interpolate" && says(call, 2) && says(call, 5) && !call.flag(5);
  for (size_t i = 0; i < spatial; ++i) {
    const IValue& f = call.argument(2);
    r.arguments.push_back(!byFactor ? IValue() : f.isList() ? f.toList().items[i] : f);
  }
  return r;
}

void interpolateKernel(KernelCall& call) {
  const Resizing r = resizingOf(call);
  call.setResult(invoke(call, r.op, std::span(r.arguments)));
}

void convertInterpolate(ConvertCall& call) {
  Resizing r = resizingOf(call);
  call.setResult(call.compute(r.op, std::move(r.arguments)));
}

}  // namespace

void registerComposedOps(OpRegistry& ops) {
  auto check = [&](const char* schema, KernelFunction kernel) {
    ops.add({.schema = schema, .kernel = kernel, .dtypes = {}, .traits = {Trait::SideEffects}});
  };
  // Engines check where the graph does: what comes after need not run with numbers that are refused here.
  auto checkElements = [&](const char* schema, KernelFunction kernel) {
    ops.add({.schema = schema,
             .infer = [](InferCall&) {},
             .kernel = kernel,
             .convert = [](ConvertCall& call) { convertToKernel(call); },
             .dtypes = {},
             .traits = {Trait::SideEffects}});
  };
  checkElements("aten::_assert_async", assertTensor);
  checkElements("aten::_assert_async.msg(Tensor self, str assert_msg) -> ()", assertWithMessage);
  check("aten::_assert_scalar", assertScalar);
  check("aten::_assert_tensor_metadata", assertMetadata);
  check(
      "aten::_assert_tensor_metadata.device(Tensor a, int[]? size=None, int[]? stride=None, ScalarType? dtype=None, *, "
      "Device? device=None, Layout? layout=None) -> ()",
      assertMetadata);
  check("aten::sym_constrain_range", constrainRange);
  check("aten::sym_constrain_range_for_size", constrainRange);

  auto add = [&](const char* schema, KernelFunction kernel, InferFunction infer = nullptr,
                 ConvertFunction convert = nullptr) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .convert = convert, .dtypes = kAllTypes});
  };
  auto addOfParts = [&]<KernelFunction kKernel>(const char* schema, InferFunction infer) {
    add(schema, kKernel, infer, convertByParts<kKernel>);
  };
  addOfParts.operator()<asOperator<kAll>>("aten::_is_all_true", inferBoolScalar);
  addOfParts.operator()<asOperator<kAny>>("aten::_is_any_true", inferBoolScalar);
  addOfParts.operator()<asOperator<kGridSampler>>("aten::_grid_sampler_2d_cpu_fallback", inferAsOperator<kGridSampler>);
  addOfParts.operator()<safeSoftmax>("aten::_safe_softmax", inferAsOperator<kSoftmax>);
  add("aten::_dim_arange", dimArange, inferDimArange);
  add("aten::_unsafe_index.Tensor", asOperator<kIndex>);
  add("aten::_unsafe_index_put", asOperator<kIndexPut>, inferSameAsSelf);
  add("aten::_weight_int8pack_mm", int8Product);
  ops.add({.schema = "aten::_convert_weight_to_int4pack_for_cpu",
           .infer = inferPack,
           .kernel = packKernel,
           .dtypes = kAllTypes});
  ops.add({.schema = "aten::_weight_int4pack_mm_for_cpu",
           .infer = inferProductOfPacked,
           .kernel = productOfPackedKernel,
           .convert = convertProductOfPacked,
           .dtypes = kFloatingTypes,
           .cost = Cost::Product});
  ops.add({.schema = "aten::nonzero_static",
           .kernel = nonzeroStatic,
           .dtypes = kAllTypes,
           .traits = {Trait::DependsOnElements}});
  for (auto schema : {"aten::__interpolate", "aten::__interpolate.scale_list", "aten::__interpolate.size_list",
                      "aten::__interpolate.size_list_scale_list", "aten::__upsample", "aten::__upsample.size_list",
                      "aten::__upsample_bilinear", "aten::__upsample_bilinear.scale_list",
                      "aten::__upsample_bilinear.size_list", "aten::__upsample_bilinear.size_list_scale_list",
                      "aten::__upsample_nearest", "aten::__upsample_nearest.size_list"})
    ops.add({.schema = schema,
             .infer = inferInterpolate,
             .kernel = interpolateKernel,
             .convert = convertInterpolate,
             .dtypes = kFloatingTypes});
}

}  // namespace tscompile
