#include "ir/values/dtype.h"

#include "ir/values/carried_types.h"

#include <array>

namespace tscompile {
namespace {

struct Names {
  std::string_view graph, python, brief;
  uint8_t size;
};

constexpr std::array<Names, kDTypeCount> kDTypeNames = {{
    {"Byte", "uint8", "u8", 1},
    {"Char", "int8", "i8", 1},
    {"Short", "int16", "i16", 2},
    {"Int", "int32", "i32", 4},
    {"Long", "int64", "i64", 8},
    {"Half", "float16", "f16", 2},
    {"Float", "float32", "f32", 4},
    {"Double", "float64", "f64", 8},
    {"ComplexHalf", "complex32", "c32", 0},
    {"ComplexFloat", "complex64", "c64", 8},
    {"ComplexDouble", "complex128", "c128", 16},
    {"Bool", "bool", "bool", 1},
    {"QInt8", "qint8", "qint8", 1},
    {"QUInt8", "quint8", "quint8", 1},
    {"QInt32", "qint32", "qint32", 4},
    {"BFloat16", "bfloat16", "bf16", 2},
    {"QUInt4x2", "quint4x2", "quint4x2", 0},
    {"QUInt2x4", "quint2x4", "quint2x4", 0},
    {"Bits1x8", "bits1x8", "bits1x8", 0},
    {"Bits2x4", "bits2x4", "bits2x4", 0},
    {"Bits4x2", "bits4x2", "bits4x2", 0},
    {"Bits8", "bits8", "bits8", 0},
    {"Bits16", "bits16", "bits16", 0},
    {"Float8_e5m2", "float8_e5m2", "f8e5m2", 1},
    {"Float8_e4m3fn", "float8_e4m3fn", "f8e4m3fn", 1},
    {"Float8_e5m2fnuz", "float8_e5m2fnuz", "f8e5m2fnuz", 1},
    {"Float8_e4m3fnuz", "float8_e4m3fnuz", "f8e4m3fnuz", 1},
    {"UInt16", "uint16", "u16", 2},
    {"UInt32", "uint32", "u32", 4},
    {"UInt64", "uint64", "u64", 8},
    {"UInt1", "uint1", "u1", 0},
    {"UInt2", "uint2", "u2", 0},
    {"UInt3", "uint3", "u3", 0},
    {"UInt4", "uint4", "u4", 0},
    {"UInt5", "uint5", "u5", 0},
    {"UInt6", "uint6", "u6", 0},
    {"UInt7", "uint7", "u7", 0},
    {"Int1", "int1", "i1", 0},
    {"Int2", "int2", "i2", 0},
    {"Int3", "int3", "i3", 0},
    {"Int4", "int4", "i4", 0},
    {"Int5", "int5", "i5", 0},
    {"Int6", "int6", "i6", 0},
    {"Int7", "int7", "i7", 0},
    {"Float8_e8m0fnu", "float8_e8m0fnu", "f8e8m0fnu", 1},
    {"Float4_e2m1fn_x2", "float4_e2m1fn_x2", "f4e2m1fnx2", 0},
}};

// Position in the lattice that promotion walks: u1 i1 i2 i4 i8 f2 f4 f8 c2 c4 c8 b1 bf.
constexpr int kPromotable = 13;
int latticeIndex(DType d) {
  if (d <= DType::Bool) return static_cast<int>(d);
  return d == DType::BFloat16 ? 12 : -1;
}

// PyTorch's c10::promoteTypes, one row for each left operand in the order above.
constexpr DType kPromotion[kPromotable][kPromotable] = {
#define U1 DType::UInt8
#define I1 DType::Int8
#define I2 DType::Int16
#define I4 DType::Int32
#define I8 DType::Int64
#define F2 DType::Float16
#define F4 DType::Float32
#define F8 DType::Float64
#define C2 DType::ComplexHalf
#define C4 DType::Complex64
#define C8 DType::Complex128
#define B1 DType::Bool
#define BF DType::BFloat16
    //        u1  i1  i2  i4  i8  f2  f4  f8  c2  c4  c8  b1  bf
    /* u1 */ {U1, I2, I2, I4, I8, F2, F4, F8, C2, C4, C8, U1, BF},
    /* i1 */ {I2, I1, I2, I4, I8, F2, F4, F8, C2, C4, C8, I1, BF},
    /* i2 */ {I2, I2, I2, I4, I8, F2, F4, F8, C2, C4, C8, I2, BF},
    /* i4 */ {I4, I4, I4, I4, I8, F2, F4, F8, C2, C4, C8, I4, BF},
    /* i8 */ {I8, I8, I8, I8, I8, F2, F4, F8, C2, C4, C8, I8, BF},
    /* f2 */ {F2, F2, F2, F2, F2, F2, F4, F8, C2, C4, C8, F2, F4},
    /* f4 */ {F4, F4, F4, F4, F4, F4, F4, F8, C4, C4, C8, F4, F4},
    /* f8 */ {F8, F8, F8, F8, F8, F8, F8, F8, C8, C8, C8, F8, F8},
    /* c2 */ {C2, C2, C2, C2, C2, C2, C4, C8, C2, C4, C8, C2, C4},
    /* c4 */ {C4, C4, C4, C4, C4, C4, C4, C8, C4, C4, C8, C4, C4},
    /* c8 */ {C8, C8, C8, C8, C8, C8, C8, C8, C8, C8, C8, C8, C8},
    /* b1 */ {U1, I1, I2, I4, I8, F2, F4, F8, C2, C4, C8, B1, BF},
    /* bf */ {BF, BF, BF, BF, BF, F4, F4, F8, C4, C4, C8, BF, BF},
#undef U1
#undef I1
#undef I2
#undef I4
#undef I8
#undef F2
#undef F4
#undef F8
#undef C2
#undef C4
#undef C8
#undef B1
#undef BF
};

}  // namespace

std::string_view graphName(DType d) {
  return d == DType::Undefined ? "Undefined" : kDTypeNames[static_cast<int>(d)].graph;
}
std::string_view pythonName(DType d) {
  return d == DType::Undefined ? "undefined" : kDTypeNames[static_cast<int>(d)].python;
}
std::string_view shortName(DType d) {
  return d == DType::Undefined ? "undefined" : kDTypeNames[static_cast<int>(d)].brief;
}
size_t itemSize(DType d) { return d == DType::Undefined ? 0 : kDTypeNames[static_cast<int>(d)].size; }

std::optional<DType> dtypeFromGraphName(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kDTypeNames[i].graph == name) return static_cast<DType>(i);
  return std::nullopt;
}

std::optional<DType> dtypeFromName(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kDTypeNames[i].python == name || kDTypeNames[i].brief == name) return static_cast<DType>(i);
  return std::nullopt;
}

std::optional<DType> dtypeFromNumber(int64_t number) {
  if (number < 0 || number >= kDTypeCount) return std::nullopt;
  return static_cast<DType>(number);
}

DType promoteTypes(DType a, DType b) {
  if (a == b) return a;
  if (isWideUnsigned(a) && isFloating(b)) return b;
  if (isFloating(a) && isWideUnsigned(b)) return a;
  int i = latticeIndex(a), j = latticeIndex(b);
  return i < 0 || j < 0 ? DType::Undefined : kPromotion[i][j];
}

bool canCast(DType from, DType to) {
  if (isComplex(from) && !isComplex(to)) return false;
  if (isFloating(from) && isIntegral(to, false)) return false;
  return from == DType::Bool || to != DType::Bool;
}

DType realPart(DType d) {
  switch (d) {
    case DType::ComplexHalf:
      return DType::Float16;
    case DType::Complex64:
      return DType::Float32;
    case DType::Complex128:
      return DType::Float64;
    default:
      return d;
  }
}

DType complexOf(DType d) {
  switch (d) {
    case DType::Float64:
      return DType::Complex128;
    case DType::Complex64:
    case DType::Complex128:
      return d;
    default:
      return DType::Complex64;
  }
}

}  // namespace tscompile
