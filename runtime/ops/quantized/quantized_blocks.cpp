// torchao's operators, which exported programs hold before they are decomposed: grids of blocks, whose sizes are given
// for each dimension. Each is computed as others, here and in engines.
#include "ir/values/carried_types.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/quantized/math_of_call.h"
#include "runtime/ops/quantized/product_grid.h"

#include <cmath>
#include <limits>

namespace tscompile {
namespace {

// A tensor with two dimensions, the blocks and what is in one, where there are several blocks of several elements.
struct Blocks {
  Dims split;                 // the sizes of the tensor
  std::vector<int64_t> dims;  // of the elements of a block
  Dims grid;                  // `split` with blocks of one element
};
template <class Call>
Blocks blocksOf(const Call& call, const Dims& blocks) {
  const Tensor x = call.tensor(0);
  call.require(static_cast<int>(blocks.size()) == x.rank(), "Got input dim:{}, block_size: {}", x.rank(),
               dimsText(blocks));
  Blocks out;
  auto add = [&](int64_t size, bool isInside) {
    if (isInside) out.dims.push_back(static_cast<int64_t>(out.split.size()));
    out.split.push_back(size);
    out.grid.push_back(isInside ? 1 : size);
  };
  for (size_t d = 0; d < blocks.size(); ++d) {
    const int64_t size = x.sizes()[d], block = blocks[d];
    if (block == size || block <= 1) {
      add(size, block != 1);
      continue;
    }
    call.require(size % block == 0,
                 "Expecting input size at {} dimension: {} to be divisible by block_size at {} dimension: {}", d, size,
                 d, block);
    add(size / block, false);
    add(block, true);
  }
  return out;
}

double mostOfSmallFloat(DType dtype) {
  return dtype == DType::Float8E4M3FN ? 448 : dtype == DType::Float8E4M3FNUZ ? 240 : 57344;
}

// The least and the greatest number of a dtype, where the call says nothing.
template <class Call>
IValue boundAt(const Call& call, size_t i, DType dtype, bool isLeast) {
  if (!call.isNone(i)) return call.argument(i);
  if (isSmallFloat(dtype)) return isLeast ? -mostOfSmallFloat(dtype) : mostOfSmallFloat(dtype);
  switch (dtype) {
    case DType::UInt8:
      return int64_t{isLeast ? 0 : 255};
    case DType::Int8:
      return int64_t{isLeast ? -128 : 127};
    case DType::Int16:
      return int64_t{isLeast ? -32768 : 32767};
    case DType::Int32:
      return static_cast<int64_t>(isLeast ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int32_t>::max());
    default:
      call.fail("Unsupported dtype: torch.{}", pythonName(dtype));
  }
}

// What zero points are, which torchao said until 0.11: steps ("INT"), numbers of the middle ("FLOAT"), or nothing.
template <class Call>
std::string domainOf(const Call& call, size_t i) {
  return call.isNone(i) ? "NONE" : call.argument(i).toString();
}
// No zero points may be a tensor without elements.
template <class Call>
IValue zerosOf(const Call& call, const MathOfCall<Call>& m, const Blocks& blocks) {
  return call.isNone(3) || call.tensor(3).numel() == 0 ? IValue() : m.reshape(call.argument(3), blocks.grid);
}
double middleOf(const IValue& least, const IValue& most) { return (most.toDouble() + least.toDouble() + 1) / 2; }

double leastNormal(DType dtype) {
  return dtype == DType::Float16 ? 0x1p-14 : dtype == DType::Float64 ? 0x1p-1022 : 0x1p-126;
}

// (input, mapping, block sizes, dtype, least, most, eps, dtype of scales, dtype of zero points, keeps dimensions, has a
// step for zero, domain of zero points)
template <class Call>
void chooseGrids(Call& call) {
  MathOfCall m(call);
  const Tensor x = call.tensor(0);
  const std::string& mapping = call.argument(1).toString();
  const DType target = dtypeFromNumber(call.integer(3)).value_or(DType::Undefined);
  const double least = boundAt(call, 4, target, true).toDouble(), most = boundAt(call, 5, target, false).toDouble();
  const Blocks blocks = blocksOf(call, call.integers(2));
  const IValue in = m.reshape(x, blocks.split), dims = intList(blocks.dims), zero = Tensor::zeros(x.dtype(), Dims{});
  const IValue keeps = call.flag(9);
  IValue below = m("aten::amin", {in, dims, keeps}), above = m("aten::amax", {in, dims, keeps});
  if (call.flag(10)) {
    below = m("aten::minimum", {below, zero});
    above = m("aten::maximum", {above, zero});
  }
  const IValue eps = call.isNone(6) ? IValue(leastNormal(x.dtype())) : call.argument(6);
  auto over = [&](const IValue& v, double by) { return m("aten::div.Scalar", {v, by}); };
  IValue scale, point;
  DType pointType = call.isNone(8) ? DType::Undefined : dtypeFromNumber(call.integer(8)).value_or(DType::Undefined);
  if (mapping == "ASYMMETRIC") {
    scale = m.clamped(over(m.sub(above, below), most - least), eps, IValue());
    if (domainOf(call, 11) == "FLOAT") {
      point = m.add(below, m.mul(scale, middleOf(least, most)));
    } else {
      const IValue steps = m.one("aten::round", m("aten::div.Tensor", {below, scale}));
      point = m.clamped(m("aten::rsub.Scalar", {steps, least, 1}), least, most);
      if (call.isNone(8)) pointType = DType::Int32;
    }
  } else {
    if (mapping == "SYMMETRIC") {
      scale = over(m("aten::maximum", {m.one("aten::neg", below), above}), (most - least) / 2);
    } else {
      call.require(mapping == "SYMMETRIC_NO_CLIPPING_ERR", "Unsupported mapping type: {}", mapping);
      const IValue low = over(below, least), high = over(above, most);
      scale = m("aten::where.self", {m("aten::gt.Tensor", {low, high}), low, high});
    }
    const double middle = std::trunc(middleOf(least, most));
    point = m("aten::full_like", {scale, middle, IValue(), IValue(), IValue(), IValue(), IValue()});
    scale = m.clamped(scale, eps, IValue());
  }
  if (call.flag(9)) {
    Dims sizes(x.sizes());
    const Dims block = call.integers(2);
    for (size_t d = 0; d < sizes.size(); ++d) sizes[d] = block[d] > 0 ? sizes[d] / block[d] : sizes[d];
    scale = m.reshape(scale, sizes);
    point = m.reshape(point, sizes);
  }
  call.setResult(0, call.isNone(7) ? scale : m.to(scale, call.argument(7)));
  call.setResult(1, pointType == DType::Undefined ? point : m.to(point, pointType));
}

void inferGrids(InferCall& call) {
  const TensorInfo x = call.tensor(0);
  const DType scale = call.dtypeOr(7, x.dtype);
  const bool hasSteps = call.constant(1) && call.text(1) == "ASYMMETRIC" && call.constant(11) && call.text(11) == "INT";
  const DType point = call.dtypeOr(8, hasSteps ? DType::Int32 : x.dtype);
  auto unknown = [&] {
    call.resultOfUnknownRank(scale);
    call.resultOfUnknownRank(point);
  };
  if (!x.hasRank || !call.constant(2) || !call.constant(9)) return unknown();
  const Dims blocks = call.integers(2);
  call.require(blocks.size() == x.sizes.size(), "Got input dim:{}, block_size: {}", x.sizes.size(), dimsText(blocks));
  const bool keeps = call.flag(9);
  Dims sizes;
  for (size_t d = 0; d < blocks.size(); ++d) {
    const bool isKnown = isKnownSize(x.sizes[d]);
    if (!keeps && !isKnown && blocks[d] > 1) return unknown();  // one block has no dimension
    if (keeps)
      sizes.push_back(isKnown && blocks[d] > 0 ? x.sizes[d] / blocks[d] : kUnknownSize);
    else if (blocks[d] == 1)
      sizes.push_back(x.sizes[d]);
    else if (blocks[d] > 1 && blocks[d] != x.sizes[d])
      sizes.push_back(x.sizes[d] / blocks[d]);
  }
  if (!keeps && std::ranges::all_of(blocks, [](int64_t b) { return b == 1; }))
    sizes.clear();  // of no dimensions is of all
  call.result(scale, sizes);
  call.result(point, sizes);
}

// (input, block sizes, scales, zero points, dtype, least, most, domain of zero points)
template <class Call>
void quantizeBlocks(Call& call) {
  MathOfCall m(call);
  const DType dtype = dtypeFromNumber(call.integer(4)).value_or(DType::Undefined);
  const Blocks blocks = blocksOf(call, call.integers(1));
  const IValue x = m.reshape(call.argument(0), blocks.split), scale = m.reshape(call.argument(2), blocks.grid);
  const IValue least = boundAt(call, 5, dtype, true), most = boundAt(call, 6, dtype, false);
  const std::string domain = domainOf(call, 7);
  const IValue zero = zerosOf(call, m, blocks);
  IValue steps;
  if (domain == "FLOAT") {
    const IValue start = m.sub(zero, m.mul(scale, middleOf(least, most)));
    steps = m.one("aten::round", m("aten::div.Tensor", {m.sub(x, start), scale}));
  } else {
    steps = m.mul(x, m.one("aten::reciprocal", scale));
    if (!isSmallFloat(dtype)) steps = m.one("aten::round", steps);
    if (!zero.isNone()) steps = m.add(steps, zero);
  }
  const IValue held = m.clamped(steps, least, most);
  call.setResult(0, m.to(m.reshape(held, Dims(call.tensor(0).sizes())), dtype));
}

// (input, block sizes, scales, zero points, dtype, least, most, dtype of the result, domain of zero points)
template <class Call>
void dequantizeBlocks(Call& call) {
  MathOfCall m(call);
  const Blocks blocks = blocksOf(call, call.integers(1));
  const IValue dtype = call.argument(7);
  const IValue x = m.reshape(call.argument(0), blocks.split), scale = m.reshape(call.argument(2), blocks.grid);
  const bool isFloat = domainOf(call, 8) == "FLOAT";
  const IValue zero = zerosOf(call, m, blocks);
  const DType from = dtypeFromNumber(call.integer(4)).value_or(DType::Undefined);
  IValue made;
  if (isFloat) {
    const double middle = middleOf(boundAt(call, 5, from, true), boundAt(call, 6, from, false));
    made = m.mul(m.to(m.sub(x, middle), dtype), scale);
    if (!zero.isNone()) made = m.add(made, zero);
  } else {
    made = m.to(x, dtype);
    if (!zero.isNone()) made = m.sub(made, m.to(zero, dtype));
    made = m.mul(made, scale);
  }
  call.setResult(0, m.to(m.reshape(made, Dims(call.tensor(0).sizes())), dtype));
}

// ---- numbers of 8 bits, with a scale for each block, whose sizes the scales tell ----

template <class Call>
Blocks blocksOfScales(const Call& call) {
  const Tensor x = call.tensor(0), scale = call.tensor(1);
  Dims sizes(x.sizes());
  if (scale.numel() == 1) return blocksOf(call, sizes);
  call.require(scale.rank() == x.rank(), "expected scales of {} dimensions, not of {}", x.rank(), scale.rank());
  for (int d = 0; d < x.rank(); ++d) {
    const int64_t parts = scale.size(d);
    call.require(parts > 0 && sizes[d] % parts == 0,
                 "Dimension {}: target size {} is not evenly divisible by scale size {}", d, sizes[d], parts);
    sizes[d] /= parts;
  }
  return blocksOf(call, sizes);
}

// (input, scales, dtype)
template <class Call>
void quantizeToFloats(Call& call) {
  MathOfCall m(call);
  const Blocks blocks = blocksOfScales(call);
  const DType dtype = dtypeFromNumber(call.integer(2)).value_or(DType::Undefined);
  call.require(isSmallFloat(dtype), "expected a dtype of 8 bits, not {}", pythonName(dtype));
  const double most = mostOfSmallFloat(dtype);
  const IValue x = m.reshape(m.to(call.argument(0), DType::Float32), blocks.split);
  const IValue steps = m("aten::div.Tensor", {x, m.reshape(call.argument(1), blocks.grid)});
  call.setResult(0, m.to(m.reshape(m.clamped(steps, -most, most), Dims(call.tensor(0).sizes())), dtype));
}

// (input, scales, dtype of the result)
template <class Call>
void dequantizeFloats(Call& call) {
  MathOfCall m(call);
  const Blocks blocks = blocksOfScales(call);
  const IValue x = m.reshape(m.to(call.argument(0), DType::Float32), blocks.split);
  const IValue made = m.mul(x, m.reshape(call.argument(1), blocks.grid));
  call.setResult(0, m.to(m.reshape(made, Dims(call.tensor(0).sizes())), call.argument(2)));
}

// ---- int8 or uint8 x int8 -> int32 ----

void inferIntegerProduct(InferCall& call) {
  const TensorInfo a = call.tensor(0), b = call.tensor(1);
  call.require(a.dtype == DType::Undefined || a.dtype == DType::Int8 || a.dtype == DType::UInt8,
               "expected an int8 or uint8 matrix, not {}", pythonName(a.dtype));
  call.require(b.dtype == DType::Undefined || b.dtype == DType::Int8, "expected an int8 matrix, not {}",
               pythonName(b.dtype));
  if (!a.hasRank || !b.hasRank) return call.resultOfUnknownRank(DType::Int32);
  call.require(a.rank() == 2 && b.rank() == 2, "expected two matrices, not {} and {} dimensions", a.rank(), b.rank());
  call.require(!isKnownSize(a.sizes[1]) || !isKnownSize(b.sizes[0]) || a.sizes[1] == b.sizes[0],
               "self.size(1) needs to match mat2.size(0), got {} and {}", a.sizes[1], b.sizes[0]);
  call.result(DType::Int32, Dims{a.sizes[0], b.sizes[1]});
}

// Sums of so many products are exact in float32.
template <class Call>
void multiplyIntegers(Call& call) {
  MathOfCall m(call);
  const Tensor a = call.tensor(0), b = call.tensor(1);
  const int64_t row = a.size(1), exact = a.dtype() == DType::Int8 ? 1024 : 512;
  const IValue left = m.to(a, DType::Float32), right = m.to(b, DType::Float32);
  auto part = [&](int64_t from, int64_t count) {
    auto cut = [&](const IValue& x, int64_t dim) {
      return count == row ? x : m("aten::narrow", {x, dim, from, count});
    };
    return m.to(m("aten::mm", {cut(left, 1), cut(right, 0)}), DType::Int32);
  };
  IValue sum = part(0, std::min(row, exact));
  for (int64_t from = exact; from < row; from += exact) sum = m.add(sum, part(from, std::min(row - from, exact)));
  call.setResult(0, sum);
}

void convertIntegerProduct(ConvertCall& call) {
  const Tensor a = call.tensor(0), b = call.tensor(1);
  Tensor sums;
  if (!call.isNetworkTensor(1) && a.numel() > 0 && b.numel() > 0) {
    const StepRange range = a.dtype() == DType::Int8 ? StepRange{-128, 127} : StepRange{0, 255};
    sums = addIntegerProduct(call, MathOfCall(call).to(a, DType::Float32).toTensor(), range, b);
  }
  sums.defined() ? call.setResult(0, sums) : multiplyIntegers(call);
}

template <size_t kDType>
void inferBlocks(InferCall& call) {
  call.result(call.tensor(0), call.dtypeOr(kDType, DType::Undefined));
}

}  // namespace

void registerQuantizedBlocksOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel, ConvertFunction convert) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .convert = convert, .dtypes = {}});
  };
  add("torchao::choose_qparams_affine(Tensor? input, str mapping_type, int[] block_size, ScalarType target_dtype, "
      "Scalar? quant_min=None, Scalar? quant_max=None, float? eps=None, ScalarType? scale_dtype=None, ScalarType? "
      "zero_point_dtype=None, bool keepdim=False, bool preserve_zero=True, str? zero_point_domain=\"INT\") -> (Tensor, "
      "Tensor)",
      inferGrids, chooseGrids<KernelCall>, chooseGrids<ConvertCall>);
  add("torchao::quantize_affine(Tensor input, int[] block_size, Tensor scale, Tensor? zero_point, ScalarType "
      "output_dtype, Scalar? quant_min=None, Scalar? quant_max=None, str? zero_point_domain=\"INT\") -> Tensor",
      inferBlocks<4>, quantizeBlocks<KernelCall>, quantizeBlocks<ConvertCall>);
  add("torchao::dequantize_affine(Tensor input, int[] block_size, Tensor scale, Tensor? zero_point, ScalarType "
      "input_dtype, Scalar? quant_min=None, Scalar? quant_max=None, ScalarType output_dtype=6, str? "
      "zero_point_domain=\"INT\") -> Tensor",
      inferBlocks<7>, dequantizeBlocks<KernelCall>, dequantizeBlocks<ConvertCall>);
  for (std::string_view schema :
       {"torchao::quantize_affine_float8(Tensor tensor, Tensor scale, ScalarType float8_dtype=24) -> Tensor",
        "torchao::quantize_affine_float8_non_decomposed(Tensor tensor, Tensor scale, ScalarType float8_dtype=24) "
        "-> Tensor"})
    add(schema, inferBlocks<2>, quantizeToFloats<KernelCall>, quantizeToFloats<ConvertCall>);
  for (std::string_view schema :
       {"torchao::dequantize_affine_float8(Tensor tensor, Tensor scale, ScalarType output_dtype=6) -> Tensor",
        "torchao::dequantize_affine_float8_non_decomposed(Tensor tensor, Tensor scale, ScalarType output_dtype=6) "
        "-> Tensor"})
    add(schema, inferBlocks<2>, dequantizeFloats<KernelCall>, dequantizeFloats<ConvertCall>);
  add("aten::_int_mm", inferIntegerProduct, multiplyIntegers<KernelCall>, convertIntegerProduct);
}

}  // namespace tscompile
