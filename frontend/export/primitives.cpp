#include "frontend/export/composite_text.h"

namespace tscompile::exported {
namespace {

constexpr OtherName kNames[] = {
    {"prims::abs", "aten::abs"},
    {"prims::acos", "aten::acos"},
    {"prims::acosh", "aten::acosh"},
    {"prims::add", "aten::add.Tensor"},
    {"prims::as_strided_scatter", "aten::as_strided_scatter"},
    {"prims::asin", "aten::asin"},
    {"prims::asinh", "aten::asinh"},
    {"prims::atan", "aten::atan"},
    {"prims::atan2", "aten::atan2"},
    {"prims::atanh", "aten::atanh"},
    {"prims::bessel_i0", "aten::i0"},
    {"prims::bessel_i0e", "aten::special_i0e"},
    {"prims::bessel_i1", "aten::special_i1"},
    {"prims::bessel_i1e", "aten::special_i1e"},
    {"prims::bessel_j0", "aten::special_bessel_j0"},
    {"prims::bessel_j1", "aten::special_bessel_j1"},
    {"prims::bitwise_and", "aten::bitwise_and.Tensor"},
    {"prims::bitwise_not", "aten::bitwise_not"},
    {"prims::bitwise_or", "aten::bitwise_or.Tensor"},
    {"prims::bitwise_xor", "aten::bitwise_xor.Tensor"},
    {"prims::cat", "aten::cat"},
    {"prims::ceil", "aten::ceil"},
    {"prims::clone", "aten::clone"},
    {"prims::conj_physical", "aten::conj_physical"},
    {"prims::cos", "aten::cos"},
    {"prims::cosh", "aten::cosh"},
    {"prims::digamma", "aten::digamma"},
    {"prims::eq", "aten::eq.Tensor"},
    {"prims::erf", "aten::erf"},
    {"prims::erf_inv", "aten::erfinv"},
    {"prims::erfc", "aten::erfc"},
    {"prims::erfcx", "aten::special_erfcx"},
    {"prims::exp", "aten::exp"},
    {"prims::exp2", "aten::exp2"},
    {"prims::expm1", "aten::expm1"},
    {"prims::floor", "aten::floor"},
    {"prims::fmax", "aten::fmax"},
    {"prims::fmin", "aten::fmin"},
    {"prims::fmod", "aten::fmod.Tensor"},
    {"prims::frexp", "aten::frexp.Tensor"},
    {"prims::gcd", "aten::gcd"},
    {"prims::ge", "aten::ge.Tensor"},
    {"prims::gt", "aten::gt.Tensor"},
    {"prims::hypot", "aten::hypot"},
    {"prims::igamma", "aten::igamma"},
    {"prims::igammac", "aten::igammac"},
    {"prims::imag", "aten::imag"},
    {"prims::isfinite", "aten::isfinite"},
    {"prims::le", "aten::le.Tensor"},
    {"prims::lgamma", "aten::lgamma"},
    {"prims::log", "aten::log"},
    {"prims::log10", "aten::log10"},
    {"prims::log1p", "aten::log1p"},
    {"prims::log2", "aten::log2"},
    {"prims::lt", "aten::lt.Tensor"},
    {"prims::maximum", "aten::maximum"},
    {"prims::minimum", "aten::minimum"},
    {"prims::mul", "aten::mul.Tensor"},
    {"prims::ndtri", "aten::special_ndtri"},
    {"prims::ne", "aten::ne.Tensor"},
    {"prims::neg", "aten::neg"},
    {"prims::nextafter", "aten::nextafter"},
    {"prims::real", "aten::real"},
    {"prims::reciprocal", "aten::reciprocal"},
    {"prims::remainder", "aten::remainder.Tensor"},
    {"prims::round", "aten::round"},
    {"prims::rsqrt", "aten::rsqrt"},
    {"prims::shift_left", "aten::bitwise_left_shift.Tensor"},
    {"prims::shift_right_arithmetic", "aten::bitwise_right_shift.Tensor"},
    {"prims::sign", "aten::sign"},
    {"prims::signbit", "aten::signbit"},
    {"prims::sin", "aten::sin"},
    {"prims::sinh", "aten::sinh"},
    {"prims::spherical_bessel_j0", "aten::special_spherical_bessel_j0"},
    {"prims::sqrt", "aten::sqrt"},
    {"prims::sub", "aten::sub.Tensor"},
    {"prims::tan", "aten::tan"},
    {"prims::tanh", "aten::tanh"},
    {"prims::trunc", "aten::trunc"},
    {"prims::zeta", "aten::special_zeta"},
};

constexpr CompositeText kTexts[] = {
    // Of integers; others are divided as ever.
    {"prims::div.trunc(Tensor self, Tensor other) -> Tensor",
     R"(
  %mode : str = prim::Constant[value="trunc"]()
  %y = aten::div(%self, %other, %mode)
  return (%y))"},
    {"prims::pow(Tensor self, Tensor other) -> Tensor",
     R"(
  %y = aten::pow(%self, %other)
  return (%y))"},
    {"prims::where(Tensor pred, Tensor a, Tensor b) -> Tensor",
     R"(
  %y = aten::where(%pred, %a, %b)
  return (%y))"},
    {"prims::amax(Tensor inp, int[] dims, *, ScalarType? output_dtype=None) -> Tensor",
     R"(
  %no : bool = prim::Constant[value=0]()
  %y = aten::amax(%inp, %dims, %no)
  return (%y))"},
    {"prims::amin(Tensor inp, int[] dims, *, ScalarType? output_dtype=None) -> Tensor",
     R"(
  %no : bool = prim::Constant[value=0]()
  %y = aten::amin(%inp, %dims, %no)
  return (%y))"},
    {"prims::sum(Tensor inp, int[]? dims, *, ScalarType? output_dtype=None) -> Tensor",
     R"(
  %no : bool = prim::Constant[value=0]()
  %y = aten::sum(%inp, %dims, %no, %output_dtype)
  return (%y))"},
    {"prims::var(Tensor inp, int[]? dims, Scalar? correction=1, *, ScalarType? output_dtype=None) -> Tensor",
     R"(
  %no : bool = prim::Constant[value=0]()
  %y = aten::var(%inp, %dims, %correction, %no)
  return (%y))"},
    {"prims::iota(int length, *, int start, int step, ScalarType dtype, Device device, bool requires_grad) -> Tensor",
     R"(
  %none : NoneType = prim::Constant()
  %way : int = aten::mul(%length, %step)
  %end : int = aten::add(%start, %way)
  %y = aten::arange(%start, %end, %step, %dtype, %none, %none, %none)
  return (%y))"},
    {"prims::full(int[] shape, Scalar fill_value, *, ScalarType dtype, Device device, bool requires_grad) -> Tensor",
     R"(
  %none : NoneType = prim::Constant()
  %y = aten::full(%shape, %fill_value, %dtype, %none, %none, %none)
  return (%y))"},
    {"prims::full_like(Tensor a, Scalar fill_value, *, ScalarType dtype, Device device, bool requires_grad) -> Tensor",
     R"(
  %none : NoneType = prim::Constant()
  %y = aten::full_like(%a, %fill_value, %dtype, %none, %none, %none, %none)
  return (%y))"},
    {"prims::fill(Tensor self, Scalar value) -> Tensor",
     R"(
  %none : NoneType = prim::Constant()
  %y = aten::full_like(%self, %value, %none, %none, %none, %none, %none)
  return (%y))"},
    {"prims::empty(int[] shape, *, ScalarType dtype, Device device, bool requires_grad) -> Tensor",
     R"(
  %none : NoneType = prim::Constant()
  %y = aten::empty(%shape, %dtype, %none, %none, %none, %none)
  return (%y))"},
    {"prims::normal(int[] shape, *, Scalar mean, Scalar std, ScalarType dtype, Device device, bool requires_grad, "
     "Generator? generator=None) -> Tensor",
     R"(
  %none : NoneType = prim::Constant()
  %x = aten::empty(%shape, %dtype, %none, %none, %none, %none)
  %m : float = aten::Float(%mean)
  %s : float = aten::Float(%std)
  %y = aten::normal_(%x, %m, %s, %none)
  return (%y))"},
    {"prims::uniform(int[] shape, *, Scalar low, Scalar high, ScalarType dtype, Device device, int[] stride, "
     "Generator? generator=None) -> Tensor",
     R"(
  %none : NoneType = prim::Constant()
  %x = aten::empty_strided(%shape, %stride, %dtype, %none, %none, %none)
  %l : float = aten::Float(%low)
  %h : float = aten::Float(%high)
  %y = aten::uniform_(%x, %l, %h, %none)
  return (%y))"},
    {"prims::copy_to(Tensor a, Tensor b) -> Tensor",
     R"(
  %no : bool = prim::Constant[value=0]()
  %y = aten::copy_(%a, %b, %no)
  return (%y))"},
    {"prims::resize(Tensor a, int[] shape) -> Tensor",
     R"(
  %none : NoneType = prim::Constant()
  %y = aten::resize_(%a, %shape, %none)
  return (%y))"},
    {"prims::cbrt(Tensor self) -> Tensor",
     R"(
  %third : float = prim::Constant[value=0.33333333333333331]()
  %size = aten::abs(%self)
  %root = aten::pow(%size, %third)
  %y = aten::copysign(%root, %self)
  return (%y))"},
    {"prims::empty_strided(int[] shape, int[] strides, *, ScalarType dtype, Device device, bool requires_grad) -> "
     "Tensor",
     R"(
  %none : NoneType = prim::Constant()
  %y = aten::empty_strided(%shape, %strides, %dtype, %none, %none, %none)
  return (%y))"},
    {"prims::reshape(Tensor a, int[] shape) -> Tensor",
     R"(
  %y = aten::reshape(%a, %shape)
  return (%y))"},
    {"prims::rev(Tensor a, int[] dims) -> Tensor",
     R"(
  %y = aten::flip(%a, %dims)
  return (%y))"},
    {"prims::transpose(Tensor a, int[] permutation) -> Tensor",
     R"(
  %y = aten::permute(%a, %permutation)
  return (%y))"},
    {"prims::squeeze(Tensor a, int[] dimensions) -> Tensor",
     R"(
  %y = aten::squeeze(%a, %dimensions)
  return (%y))"},
    {"prims::split_dim(Tensor a, int dim, int outer_length) -> Tensor",
     R"(
  %rest : int = prim::Constant[value=-1]()
  %sizes : int[] = prim::ListConstruct(%outer_length, %rest)
  %y = aten::unflatten(%a, %dim, %sizes)
  return (%y))"},
    {"prims::collapse(Tensor a, int start, int end) -> Tensor",
     R"(
  %y = aten::flatten(%a, %start, %end)
  return (%y))"},
    {"prims::collapse_view(Tensor a, int start, int end) -> Tensor",
     R"(
  %y = aten::flatten(%a, %start, %end)
  return (%y))"},
    {"prims::as_strided(Tensor a, int[] size, int[] stride, int storage_offset) -> Tensor",
     R"(
  %y = aten::as_strided(%a, %size, %stride, %storage_offset)
  return (%y))"},
    {"prims::view_of(Tensor a) -> Tensor",
     R"(
  %y = aten::alias(%a)
  return (%y))"},
    {"prims::view_of_dtype(Tensor a, ScalarType dtype) -> Tensor",
     R"(
  %y = aten::view(%a, %dtype)
  return (%y))"},
    {"prims::device_put(Tensor a, Device device, bool non_blocking=False) -> Tensor",
     R"(
  %y = aten::alias(%a)
  return (%y))"},
    {"prims::conj(Tensor a) -> Tensor",
     R"(
  %y = aten::conj(%a)
  return (%y))"},
    {"prims::fft_r2c(Tensor self, *, int[] dim, bool onesided) -> Tensor",
     R"(
  %zero : int = prim::Constant[value=0]()
  %y = aten::_fft_r2c(%self, %dim, %zero, %onesided)
  return (%y))"},
    {"prims::fft_c2c(Tensor self, *, int[] dim, bool forward) -> Tensor",
     R"(
  %zero : int = prim::Constant[value=0]()
  %y = aten::_fft_c2c(%self, %dim, %zero, %forward)
  return (%y))"},
    {"prims::fft_c2r(Tensor self, *, int[] dim, int last_dim_size) -> Tensor",
     R"(
  %zero : int = prim::Constant[value=0]()
  %y = aten::_fft_c2r(%self, %dim, %zero, %last_dim_size)
  return (%y))"},
    {"prims::svd(Tensor A, *, bool full_matrices) -> (Tensor, Tensor, Tensor)",
     R"(
  %none : NoneType = prim::Constant()
  %u, %s, %v = aten::linalg_svd(%A, %full_matrices, %none)
  return (%u, %s, %v))"},
};

}  // namespace

std::span<const CompositeText> primitiveTexts() { return kTexts; }
std::span<const OtherName> primitiveNames() { return kNames; }

}  // namespace tscompile::exported
