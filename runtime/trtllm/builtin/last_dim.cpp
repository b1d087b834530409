// CumsumLastDim and TopkLastDim: sums up to each element, and the largest or smallest elements, of rows.
#include "runtime/trtllm/builtin/floats.h"
#include "runtime/trtllm/builtin/graph_text.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tscompile {
namespace {

constexpr uint32_t kLastDimTypes = kFloatsOfPlugins | tsc::kI32;

template <class F>
void withRows(tsc_dtype dtype, F&& f) {
  if (dtype == TSC_I32) return f(int32_t{});
  withFloats(dtype, f);
}

// Leading sizes as one, and the last.
struct Rows {
  int64_t rows, width;
  explicit Rows(const tsc::Tensor& x) : rows(1), width(x.size(-1)) {
    for (int64_t size : x.sizes().first(x.rank() - 1)) rows *= size;
    if (width == 0) rows = 0;  // there is nothing in them
  }
  size_t grain() const { return static_cast<size_t>(std::max<int64_t>(1, 4096 / std::max<int64_t>(width, 1))); }
};

tsc::Shape atLeastOneDim(const tsc::Shapes& s) {
  tsc::Shape x = s.input(0);
  if (x.rank() == 0) tsc::invalid("input has no dimensions, expected one at least");
  return x;
}

struct CumsumLastDim {
  int64_t length = 0;

  static void describe(tsc::Description<CumsumLastDim>& d) {
    d.key("tensorrt_llm", "CumsumLastDim", "1", "y[.., i] = x[.., 0] + .. + x[.., i]");
    d.field("input_length", &CumsumLastDim::length, "what the last size must be; 0: any").range(0, INT32_MAX);
    d.input("x", kLastDimTypes, "[.., length]; halves are summed as f32, int32 wraps");
    d.output("y", kLastDimTypes, "as x").sameTypeAs("x");
  }
  static std::string_view example() {
    return "graph(%x : Float(2, 5)):\n  %y : Tensor = tensorrt_llm::CumsumLastDim(%x)\n  return (%y)\n";
  }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = atLeastOneDim(s);
    if (length) s.expect(x.dims.back(), length, "the last size of x");
    s.output(0, x);
  }
  void run(tsc::Run& r) const {
    tsc::Tensor x = r.input(0), y = r.output(0);
    Rows all(x);
    r.parallelFor(static_cast<size_t>(all.rows), all.grain(), [&](size_t begin, size_t end) {
      withRows(x.dtype(), [&]<class T>(T) {
        using Sum = std::conditional_t<std::is_same_v<T, int32_t>, uint32_t, float>;
        for (size_t row = begin; row < end; ++row) {
          const T* from = x.data<T>() + static_cast<int64_t>(row) * all.width;
          T* to = y.data<T>() + static_cast<int64_t>(row) * all.width;
          Sum sum = 0;
          for (int64_t i = 0; i < all.width; ++i) to[i] = T(sum += static_cast<Sum>(from[i]));
        }
      });
    });
  }
  std::string decompose(const tsc::Tensors& in) const {
    GraphText g;
    ValueText x = g.input("x");
    int type = in.input(0).dtype();
    bool isInteger = type == TSC_I32;
    ValueText sums = g.op("aten::cumsum", {isInteger ? x : g.toFloat(x), -1, nullptr});
    return g.finish({g.to(sums, type)});
  }
};

struct TopkLastDim {
  int64_t k = 0;
  bool largest = true;

  static void describe(tsc::Description<TopkLastDim>& d) {
    d.key("tensorrt_llm", "TopkLastDim", "1",
          "the k largest or smallest elements of each row in order; of equal ones, the first; NaN is the largest");
    d.field("k", &TopkLastDim::k, "how many").mandatory().range(1, INT32_MAX);
    d.field("is_largest", &TopkLastDim::largest, "the largest ones, or the smallest");
    d.input("x", kLastDimTypes, "[.., n] with n >= k");
    d.output("values", kLastDimTypes, "[.., k]").sameTypeAs("x");
    d.output("indices", tsc::kI32, "[.., k] where they are");
  }
  static std::string_view example() {
    return "graph(%x : Float(2, 6)):\n"
           "  %values : Tensor, %indices : Tensor = tensorrt_llm::TopkLastDim[k=3](%x)\n"
           "  return (%values, %indices)\n";
  }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = atLeastOneDim(s);
    int64_t width;
    if (x.dims.back().known(&width) && width < k)
      tsc::invalid("k is " + std::to_string(k) + ", and the last size of x only " + std::to_string(width));
    x.dims.back() = s.constant(k);
    s.output(0, x);
    s.output(1, TSC_I32, x.dims);
  }
  void run(tsc::Run& r) const {
    tsc::Tensor x = r.input(0);
    Rows all(x);
    r.parallelFor(static_cast<size_t>(all.rows), all.grain(), [&](size_t begin, size_t end) {
      withRows(x.dtype(), [&]<class T>(T) {
        std::vector<int32_t> order(static_cast<size_t>(all.width));
        for (size_t row = begin; row < end; ++row) {
          const T* from = x.data<T>() + static_cast<int64_t>(row) * all.width;
          std::iota(order.begin(), order.end(), 0);
          std::partial_sort(order.begin(), order.begin() + k, order.end(),
                            [&](int32_t a, int32_t b) { return isBefore(from[a], a, from[b], b); });
          T* values = r.output(0).data<T>() + static_cast<int64_t>(row) * k;
          int32_t* indices = r.output(1).data<int32_t>() + static_cast<int64_t>(row) * k;
          for (int64_t i = 0; i < k; ++i) {
            indices[i] = order[static_cast<size_t>(i)];
            values[i] = from[indices[i]];
          }
        }
      });
    });
  }
  template <class T>
  bool isBefore(T a, int32_t i, T b, int32_t j) const {
    using Number = std::conditional_t<std::is_same_v<T, int32_t>, int32_t, float>;
    auto x = static_cast<Number>(a), y = static_cast<Number>(b);
    bool xIsNan = x != x, yIsNan = y != y;
    if (xIsNan != yIsNan) return xIsNan == largest;
    if (xIsNan || x == y) return i < j;
    return largest ? x > y : x < y;
  }
  std::string decompose(const tsc::Tensors& in) const {
    GraphText g;
    ValueText x = g.input("x");
    int type = in.input(0).dtype();
    ValueText wide = type == TSC_I32 ? x : g.toFloat(x);
    auto [values, order] = g.two("aten::sort", {wide, true, -1, largest});
    return g.finish({g.to(g.slice(values, -1, 0, k), type), g.to(g.slice(order, -1, 0, k), TSC_I32)});
  }
};

}  // namespace

const tsc_plugin* makeCumsumLastDim() { return tsc::Definition<CumsumLastDim>::table(); }
const tsc_plugin* makeTopkLastDim() { return tsc::Definition<TopkLastDim>::table(); }

}  // namespace tscompile
