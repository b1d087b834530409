#include "runtime/kernels/wide/wide_reductions.h"

#include "runtime/call/thread_pool.h"

#include <algorithm>
#include <type_traits>

namespace tscompile {
namespace {

constexpr int64_t kWideColumns = 256;      // neighbours that are taken together
constexpr int64_t kSideBySide = 8;         // of a row, side by side
constexpr int64_t kSharedFrom = 32 << 10;  // elements; fewer are taken by one thread

// How elements are taken into a result, of which there may be several that are joined at last.
template <WideReduction kKind, class In, class Out>
struct Step {
  // Sums of integers may not fit: unsigned ones wrap.
  using Acc = std::conditional_t<std::is_same_v<Out, int64_t>, uint64_t, Out>;
  static constexpr bool kIsExtreme = kKind == WideReduction::Max || kKind == WideReduction::Min;
  static constexpr bool kAsks =
      kKind == WideReduction::Any || kKind == WideReduction::All || kKind == WideReduction::Count;
  using Value = std::conditional_t<kIsExtreme, Out, Acc>;

  static Value valueOf(In x) {
    if constexpr (kAsks)
      return static_cast<Value>(x != 0);
    else
      return static_cast<Value>(x);
  }
  static Value join(Value a, Value b) {
    if constexpr (kKind == WideReduction::Product || kKind == WideReduction::All)
      return static_cast<Value>(a * b);
    else if constexpr (kKind == WideReduction::Any)
      return a | b;
    else if constexpr (kKind == WideReduction::Max)
      return b > a || b != b ? b : a;
    else if constexpr (kKind == WideReduction::Min)
      return b < a || b != b ? b : a;
    else
      return static_cast<Value>(a + b);
  }
};

template <class S, class In>
auto rowOf(const In* row, int64_t count) {
  if (count < 2 * kSideBySide) {
    auto sum = S::valueOf(row[0]);
    for (int64_t i = 1; i < count; ++i) sum = S::join(sum, S::valueOf(row[i]));
    return sum;
  }
  typename S::Value sums[kSideBySide];
  for (int64_t k = 0; k < kSideBySide; ++k) sums[k] = S::valueOf(row[k]);
  int64_t i = kSideBySide;
  for (; i + kSideBySide <= count; i += kSideBySide)
    for (int64_t k = 0; k < kSideBySide; ++k) sums[k] = S::join(sums[k], S::valueOf(row[i + k]));
  for (int64_t k = 0; i < count; ++i, ++k) sums[k] = S::join(sums[k], S::valueOf(row[i]));
  for (int64_t half = kSideBySide / 2; half > 0; half /= 2)
    for (int64_t k = 0; k < half; ++k) sums[k] = S::join(sums[k], sums[k + half]);
  return sums[0];
}

template <WideReduction kKind, class In, class Out>
void reduce(int64_t outer, int64_t count, int64_t inner, const void* input, void* output, int threads) {
  using S = Step<kKind, In, Out>;
  const auto* in = static_cast<const In*>(input);
  auto* out = static_cast<Out*>(output);
  auto finished = [count](auto value) {
    if constexpr (kKind == WideReduction::Mean) value /= static_cast<Out>(count);
    return static_cast<Out>(value);
  };
  const int use = outer * count * inner < kSharedFrom ? 1 : threads;
  if (inner == 1) {
    const int64_t pieces = std::clamp<int64_t>(outer * count / kSharedFrom, 1, std::min<int64_t>(outer, 64));
    return parallelFor(pieces, use, [&](int64_t p) {
      const Piece piece = pieceOf(outer, pieces, p);
      for (int64_t o = piece.begin; o < piece.end; ++o) out[o] = finished(rowOf<S>(in + o * count, count));
    });
  }
  const int64_t parts = (inner + kWideColumns - 1) / kWideColumns;
  parallelFor(outer * parts, use, [&](int64_t i) {
    const Piece part = pieceOf(inner, parts, i % parts);
    const In* from = in + i / parts * count * inner + part.begin;
    const int64_t width = part.end - part.begin;
    typename S::Value sums[kWideColumns];
    for (int64_t c = 0; c < width; ++c) sums[c] = S::valueOf(from[c]);
    for (int64_t r = 1; r < count; ++r)
      for (int64_t c = 0; c < width; ++c) sums[c] = S::join(sums[c], S::valueOf(from[r * inner + c]));
    for (int64_t c = 0; c < width; ++c) out[i / parts * inner + part.begin + c] = finished(sums[c]);
  });
}

template <class In, class Out>
WideReducer sumOrProduct(WideReduction kind) {
  return kind == WideReduction::Sum ? reduce<WideReduction::Sum, In, Out> : reduce<WideReduction::Product, In, Out>;
}

template <class In>
WideReducer reducerOf(WideReduction kind, DType input, DType output) {
  constexpr bool kIsDouble = std::is_same_v<In, double>, kIsFloat = std::is_same_v<In, float>;
  switch (kind) {
    case WideReduction::Any:
      return output == DType::Bool ? reduce<WideReduction::Any, In, bool> : nullptr;
    case WideReduction::All:
      return output == DType::Bool ? reduce<WideReduction::All, In, bool> : nullptr;
    case WideReduction::Count:
      return output == DType::Int64 ? reduce<WideReduction::Count, In, int64_t> : nullptr;
    case WideReduction::LogSumExp:
      return nullptr;
    default:
      break;
  }
  if constexpr (!kIsFloat) {
    if (kind == WideReduction::Max && input == output) return reduce<WideReduction::Max, In, In>;
    if (kind == WideReduction::Min && input == output) return reduce<WideReduction::Min, In, In>;
  }
  if constexpr (kIsDouble) {
    if (output != DType::Float64) return nullptr;
    return kind == WideReduction::Mean ? reduce<WideReduction::Mean, In, double> : sumOrProduct<In, double>(kind);
  } else if constexpr (!kIsFloat) {
    const bool adds = kind == WideReduction::Sum || kind == WideReduction::Product;
    return adds && output == DType::Int64 ? sumOrProduct<In, int64_t>(kind) : nullptr;
  }
  return nullptr;
}

}  // namespace

WideReducer wideReducer(WideReduction kind, DType input, DType output) {
  switch (input) {
    case DType::Bool:
      return reducerOf<bool>(kind, input, output);
    case DType::Int32:
      return reducerOf<int32_t>(kind, input, output);
    case DType::Int64:
      return reducerOf<int64_t>(kind, input, output);
    case DType::Float32:
      return reducerOf<float>(kind, input, output);
    case DType::Float64:
      return reducerOf<double>(kind, input, output);
    default:
      return nullptr;
  }
}

}  // namespace tscompile
