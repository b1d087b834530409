// Mathematical functions of eight floats or four doubles at a time. They come from glibc's vector library (within 4
// units in the last place, special values as in <cmath>); where that is not to be had, from <cmath> lane by lane.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace tscompile {

using F32x8 = float __attribute__((vector_size(32)));
using F64x4 = double __attribute__((vector_size(32)));

template <class V>
concept Vector = std::is_same_v<V, F32x8> || std::is_same_v<V, F64x4>;

// The type of one number in a vector; of a number, itself.
template <class V>
struct LaneOf {
  using Type = V;
};
template <Vector V>
struct LaneOf<V> {
  using Type = std::remove_cvref_t<decltype(V()[0])>;
};
template <class V>
using Lane = typename LaneOf<std::remove_cvref_t<V>>::Type;
template <class V>
inline constexpr int kLanes = sizeof(V) / sizeof(Lane<V>);
// What comparing two vectors gives: all bits of a lane set, or none.
template <Vector V>
using Mask = decltype(V() < V());

// ---- one function for numbers and vectors, so that operators are written once ----

// The number itself, or a vector that has it in every lane.
template <class V, class X>
V splat(X x) {
  if constexpr (Vector<V> && !Vector<X>)
    return static_cast<Lane<V>>(x) - V{};
  else
    return x;
}
// `mask ? a : b`, lane by lane; one of the two may be a number.
template <class M, class A, class B>
auto select(M mask, A a, B b) {
  using V = std::conditional_t<Vector<A>, A, B>;
  return mask ? splat<V>(a) : splat<V>(b);
}
template <Vector V>
V abs(V x) {
  constexpr auto kMagnitude = std::bit_cast<std::remove_cvref_t<decltype(Mask<V>()[0])>>(Lane<V>(-0.0));
  return std::bit_cast<V>(std::bit_cast<Mask<V>>(x) & ~kMagnitude);
}

// ---- functions ----

// clang-format off
#define TS_UNARY_VECTOR_FUNCTIONS(F) \
  F(acos) F(acosh) F(asin) F(asinh) F(atan) F(atanh) F(cos) F(cosh) F(erf) F(erfc) F(exp) F(exp2) F(expm1) F(log) F(log10) \
  F(log1p) F(log2) F(sin) F(sinh) F(tan) F(tanh)
// clang-format on
#define TS_BINARY_VECTOR_FUNCTIONS(F) F(atan2) F(hypot) F(pow)

#if defined(__AVX2__) && defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)

#define TS_UNARY(name)                                         \
  extern "C" F32x8 _ZGVdN8v_##name##f(F32x8);                  \
  extern "C" F64x4 _ZGVdN4v_##name(F64x4);                     \
  inline F32x8 name(F32x8 x) { return _ZGVdN8v_##name##f(x); } \
  inline F64x4 name(F64x4 x) { return _ZGVdN4v_##name(x); }
#define TS_BINARY(name)                                                     \
  extern "C" F32x8 _ZGVdN8vv_##name##f(F32x8, F32x8);                       \
  extern "C" F64x4 _ZGVdN4vv_##name(F64x4, F64x4);                          \
  inline F32x8 name(F32x8 x, F32x8 y) { return _ZGVdN8vv_##name##f(x, y); } \
  inline F64x4 name(F64x4 x, F64x4 y) { return _ZGVdN4vv_##name(x, y); }

#else

#define TS_UNARY(name)                                          \
  template <Vector V>                                           \
  V name(V x) {                                                 \
    for (int i = 0; i < kLanes<V>; ++i) x[i] = std::name(x[i]); \
    return x;                                                   \
  }
#define TS_BINARY(name)                                               \
  template <Vector V>                                                 \
  V name(V x, V y) {                                                  \
    for (int i = 0; i < kLanes<V>; ++i) x[i] = std::name(x[i], y[i]); \
    return x;                                                         \
  }

#endif

TS_UNARY_VECTOR_FUNCTIONS(TS_UNARY)
TS_BINARY_VECTOR_FUNCTIONS(TS_BINARY)
#undef TS_UNARY
#undef TS_BINARY
#undef TS_UNARY_VECTOR_FUNCTIONS
#undef TS_BINARY_VECTOR_FUNCTIONS

}  // namespace tscompile
