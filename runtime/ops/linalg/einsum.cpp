// einsum, tensordot and bilinear forms.
#include "ir/values/size_expression.h"
#include "runtime/call/kernel_call.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/engine/network/convert_call.h"
#include "runtime/ops/linalg/contraction.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/linalg.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/matmul.h"
#include "runtime/reference/views.h"

#include <array>

namespace tscompile {
namespace {

template <class... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw ExecutionError(ErrorKind::Model, fmt::format(format, std::forward<Args>(args)...));
}

// ---- the equation ----

constexpr int kLetters = 52;
constexpr int kEllipsis = kLetters;

int labelOf(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1; }
char letterOf(int label) { return static_cast<char>(label < 26 ? 'A' + label : 'a' + label - 26); }

struct Equation {
  std::vector<std::vector<int>> operands;  // labels, or kEllipsis
  std::vector<int> output;
};

// Labels of one operand or of the output, up to the end of the text.
std::vector<int> readLabels(std::string_view text, size_t offset, const std::string& where) {
  std::vector<int> labels;
  bool ellipsis = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text[i] == '.') {
      require(!ellipsis, "found '.' for {} for which an ellipsis was already found", where);
      require(text.substr(i, 3) == "...", "found '.' for {} that is not part of any ellipsis", where);
      ellipsis = true;
      labels.push_back(kEllipsis);
      i += 2;
      continue;
    }
    int label = labelOf(text[i]);
    require(label >= 0, "invalid subscript given at index {} in the equation string, subscripts must be in [a-zA-Z]",
            offset + i);
    labels.push_back(label);
  }
  return labels;
}

Equation readEquation(std::string_view text, size_t operandCount) {
  Equation eq;
  size_t arrow = text.find("->");
  std::string_view inputs = text.substr(0, arrow);
  std::array<int, kLetters + 1> count{};
  for (size_t begin = 0;;) {
    size_t end = std::min(inputs.find(',', begin), inputs.size());
    require(eq.operands.size() < operandCount, "einsum(): fewer operands were provided than specified in the equation");
    eq.operands.push_back(
        readLabels(inputs.substr(begin, end - begin), begin, fmt::format("operand {}", eq.operands.size())));
    for (int label : eq.operands.back()) ++count[static_cast<size_t>(label)];
    if (end == inputs.size()) break;
    begin = end + 1;
  }
  require(eq.operands.size() == operandCount, "einsum(): more operands were provided than specified in the equation");
  if (arrow == std::string_view::npos) {
    // What occurs once, in alphabetical order, after the dimensions that the ellipsis stands for.
    if (count[kEllipsis]) eq.output.push_back(kEllipsis);
    for (int label = 0; label < kLetters; ++label)
      if (count[static_cast<size_t>(label)] == 1) eq.output.push_back(label);
    return eq;
  }
  eq.output = readLabels(text.substr(arrow + 2), arrow + 2, "output");
  std::array<bool, kLetters + 1> seen{};
  for (int label : eq.output) {
    auto l = static_cast<size_t>(label);
    if (label == kEllipsis) continue;
    require(!seen[l], "einsum(): output subscript {} appears more than once in the output", letterOf(label));
    require(count[l], "einsum(): output subscript {} does not appear in the equation for any input operand",
            letterOf(label));
    seen[l] = true;
  }
  return eq;
}

// Where labels stand among the common dimensions: those of the output first, then those that are summed up.
struct Layout {
  size_t ellipsisRank = 0;  // dimensions that the ellipsis stands for at most
  size_t kept = 0, rank = 0;
  std::array<int64_t, kLetters + 1> place;  // of the ellipsis: its first dimension
  Dims sizes;                               // of all, broadcast
};

// The dimensions of an operand that its ellipsis stands for.
size_t ellipsisRank(const std::vector<int>& labels, size_t rank) { return rank + 1 - labels.size(); }

Layout layOut(const Equation& eq, const std::vector<DimSpan>& operands) {
  Layout l;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::vector<int>& labels = eq.operands[i];
    bool ellipsis = std::find(labels.begin(), labels.end(), kEllipsis) != labels.end();
    size_t named = labels.size() - ellipsis, rank = operands[i].size();
    if (ellipsis) {
      require(named <= rank,
              "einsum(): the number of subscripts in the equation ({}) is more than the number of dimensions ({}) for "
              "operand {}",
              named, rank, i);
      l.ellipsisRank = std::max(l.ellipsisRank, rank - named);
    } else {
      require(named == rank,
              "einsum(): the number of subscripts in the equation ({}) does not match the number of dimensions ({}) "
              "for operand "
              "{} and no "
              "ellipsis was given",
              named, rank, i);
    }
  }
  l.place.fill(-1);
  auto place = [&](int label) {
    int64_t& p = l.place[static_cast<size_t>(label)];
    if (p >= 0) return;
    p = static_cast<int64_t>(l.rank);
    l.rank += label == kEllipsis ? l.ellipsisRank : 1;
  };
  for (int label : eq.output) place(label);
  l.kept = l.rank;
  place(kEllipsis);
  for (int label = 0; label < kLetters; ++label)
    for (const auto& labels : eq.operands)
      if (std::find(labels.begin(), labels.end(), label) != labels.end()) place(label);
  require(l.rank <= kMaxRank, "the equation has more than {} dimensions", kMaxRank);

  l.sizes.resize(l.rank, 1);
  for (size_t i = 0; i < operands.size(); ++i) {
    size_t at = 0;
    for (int label : eq.operands[i]) {
      size_t count = label == kEllipsis ? ellipsisRank(eq.operands[i], operands[i].size()) : 1;
      auto first =
          static_cast<size_t>(l.place[static_cast<size_t>(label)]) + (label == kEllipsis ? l.ellipsisRank - count : 0);
      for (size_t k = 0; k < count; ++k) {
        int64_t size = operands[i][at++];
        int64_t& common = l.sizes[first + k];
        require(
            size == 1 || common == 1 || !differ(size, common),
            "einsum(): subscript {} has size {} for operand {} which does not broadcast with previously seen size {}",
            label == kEllipsis ? '.' : letterOf(label), size, i, common);
        common = broadcastOf(SizeExpression::ofSize(common), SizeExpression::ofSize(size)).size();
      }
    }
  }
  return l;
}

// The operand as a view with all common dimensions; labels that it repeats become its diagonal.
Tensor aligned(const Tensor& t, const std::vector<int>& labels, const Layout& l, size_t index) {
  Dims sizes(l.rank, 1), strides(l.rank, 0);
  std::vector<bool> seen(l.rank, false);
  int at = 0;
  for (int label : labels) {
    size_t count = label == kEllipsis ? ellipsisRank(labels, t.sizes().size()) : 1;
    auto first =
        static_cast<size_t>(l.place[static_cast<size_t>(label)]) + (label == kEllipsis ? l.ellipsisRank - count : 0);
    for (size_t k = 0; k < count; ++k, ++at) {
      size_t d = first + k;
      require(!seen[d] || sizes[d] == t.size(at),
              "subscript {} is repeated for operand {} but the sizes don't match, {} != {}",
              label == kEllipsis ? '.' : letterOf(label), index, t.size(at), sizes[d]);
      sizes[d] = t.size(at);
      strides[d] += t.stride(at);
      seen[d] = true;
    }
  }
  return t.withGeometry(sizes, strides, t.offset());
}

// ---- einsum ----

void inferEinsum(InferCall& call) {
  std::vector<TensorInfo> operands = call.tensors(1);
  call.require(!operands.empty(), "at least one operand must be provided");
  Equation eq = readEquation(call.text(0), operands.size());
  std::vector<DimSpan> sizes;
  // Integers that are summed up alone become int64: only the kernel knows.
  DType dtype = operands[0].dtype;
  for (const TensorInfo& t : operands) {
    if (!t.hasRank) throw InferCall::NotKnown{};
    sizes.push_back(t.sizes);
    if (t.dtype != dtype || (isIntegral(t.dtype, true) && t.dtype != DType::Int64)) dtype = DType::Undefined;
  }
  Layout l = layOut(eq, sizes);
  call.result(dtype, DimSpan(l.sizes).first(l.kept));
}

void checkPath(KernelCall& call, DimSpan path, size_t count) {
  size_t wanted = count == 1 ? 1 : 2 * (count - 1);
  call.require(path.size() == wanted, "expected the contraction path to have size {} but got {}", wanted, path.size());
  for (size_t i = 0; i + 1 < path.size(); i += 2) {
    auto left = static_cast<int64_t>(count - i / 2);
    call.require(path[i] >= 0 && path[i] < left && path[i + 1] >= 0 && path[i + 1] < left,
                 "invalid contraction ({}, {}): operand index is out of bounds", path[i], path[i + 1]);
    call.require(path[i] != path[i + 1], "invalid contraction ({}, {}): cannot contract an operand with itself",
                 path[i], path[i + 1]);
  }
}

void einsumKernel(KernelCall& call) {
  std::vector<Tensor> operands = call.tensors(1);
  Equation eq = readEquation(call.text(0), operands.size());
  std::vector<DimSpan> sizes;
  for (const Tensor& t : operands) sizes.push_back(t.sizes());
  Layout l = layOut(eq, sizes);
  std::vector<Tensor> views;
  for (size_t i = 0; i < operands.size(); ++i) views.push_back(aligned(operands[i], eq.operands[i], l, i));
  for (const Tensor& t : operands)
    if (t.numel() == 0) return call.setResult(Tensor::zeros(operands[0].dtype(), call.spec().sizes));
  Dims path;
  if (!call.isNone(2)) checkPath(call, path = call.integers(2), operands.size());
  if (operands.size() == 1) path.clear();
  call.setResult(contract(call, std::move(views), l.kept, path));
}

// ---- einsum in engines: products of two operands at a time ----

// Two operands with all common dimensions, those that the other lacks being of size 1.
struct Pair {
  ConvertCall& call;
  Dims shared, left, right, summed;  // dimensions by who has them; `summed`: both, and nobody needs them later

  // Dimensions in this order as one view: those that are shared, and the two that a product sees.
  IValue matrix(const Tensor& t, const Dims& rows, const Dims& columns) const {
    Dims order = shared, sizes;
    for (int64_t d : rows) order.push_back(d);
    for (int64_t d : columns) order.push_back(d);
    Dims rest;
    for (int64_t d = 0; d < t.rank(); ++d)
      if (std::find(order.begin(), order.end(), d) == order.end()) rest.push_back(d);  // of size 1
    auto count = [&](const Dims& dims) {
      int64_t n = 1;
      for (int64_t d : dims) n *= t.size(static_cast<int>(d));
      return n;
    };
    constexpr size_t kMostBatches = 2;  // that products know
    if (shared.size() <= kMostBatches)
      for (int64_t d : shared) sizes.push_back(t.size(static_cast<int>(d)));
    else
      sizes.push_back(count(shared));
    sizes.push_back(count(rows));
    sizes.push_back(count(columns));
    for (int64_t d : rest) order.push_back(d);
    return call.compute("aten::reshape", {call.compute("aten::permute", {t, intList(order)}), intList(sizes)});
  }

  IValue product(const Tensor& a, const Tensor& b) const {
    if (summed.empty()) return call.compute("aten::mul.Tensor", {a, b});
    IValue made = call.compute("aten::matmul", {matrix(a, left, summed), matrix(b, summed, right)});
    Dims order, sizes, places(static_cast<size_t>(a.rank()), 0);
    for (const Dims* dims : {&shared, &left, &right})
      for (int64_t d : *dims) {
        order.push_back(d);
        sizes.push_back(std::max(a.size(static_cast<int>(d)), b.size(static_cast<int>(d))));
      }
    for (int64_t d = 0; d < a.rank(); ++d)
      if (std::find(order.begin(), order.end(), d) == order.end()) order.push_back(d), sizes.push_back(1);
    for (size_t i = 0; i < order.size(); ++i) places[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    return call.compute("aten::permute", {call.compute("aten::reshape", {made, intList(sizes)}), intList(places)});
  }
};

void convertEinsum(ConvertCall& call) {
  std::vector<Tensor> operands = call.tensors(1);
  const bool areComplex = operands[0].dtype() == DType::Complex64;
  for (const Tensor& t : operands) {
    if (areComplex ? t.dtype() != DType::Complex64 : !isF32OrHalf(t))
      return convertToKernel(call, "arguments are neither float32, of 16 bits nor complex64");
    if (t.numel() == 0) return convertToKernel(call, "a tensor has no elements");
  }
  Equation eq = readEquation(call.text(0), operands.size());
  std::vector<DimSpan> sizes;
  for (const Tensor& t : operands) sizes.push_back(t.sizes());
  Layout l = layOut(eq, sizes);
  for (size_t i = 0; i < operands.size(); ++i) operands[i] = aligned(operands[i], eq.operands[i], l, i);
  // What one operand alone has and nobody else needs.
  auto reduced = [&](const Tensor& t, auto&& others) {
    Dims dims;
    for (size_t d = l.kept; d < l.rank; ++d)
      if (t.size(static_cast<int>(d)) > 1 && !others(static_cast<int>(d))) dims.push_back(static_cast<int64_t>(d));
    return dims.empty() ? t : call.compute("aten::sum.dim_IntList", {t, intList(dims), true, IValue()}).toTensor();
  };
  const Dims path = call.isNone(2) || operands.size() == 1 ? Dims() : call.integers(2);
  const size_t count = operands.size();
  if (!path.empty()) checkPath(call, path, count);
  // The next two make one, which takes its turn again: at once, or as a path has it after all others.
  for (size_t i = 0; i + 1 < count; ++i) {
    const size_t first = path.empty() ? 0 : static_cast<size_t>(path[2 * i]),
                 second = path.empty() ? 1 : static_cast<size_t>(path[2 * i + 1]);
    const Tensor x = operands[first], y = operands[second];
    operands.erase(operands.begin() + static_cast<ptrdiff_t>(std::max(first, second)));
    operands.erase(operands.begin() + static_cast<ptrdiff_t>(std::min(first, second)));
    auto later = [&](int d) {
      return std::any_of(operands.begin(), operands.end(), [&](const Tensor& t) { return t.size(d) > 1; });
    };
    const Tensor a = reduced(x, [&](int d) { return later(d) || y.size(d) > 1; });
    const Tensor b = reduced(y, [&](int d) { return later(d) || x.size(d) > 1; });
    Pair pair{call, {}, {}, {}, {}};
    for (int d = 0; d < static_cast<int>(l.rank); ++d) {
      const bool inA = a.size(d) > 1, inB = b.size(d) > 1, ends = d >= static_cast<int>(l.kept) && !later(d);
      if (inA || inB) (inA && inB ? (ends ? pair.summed : pair.shared) : inA ? pair.left : pair.right).push_back(d);
    }
    operands.insert(path.empty() ? operands.begin() : operands.end(), pair.product(a, b).toTensor());
  }
  Tensor all = operands[0];
  all = reduced(all, [](int) { return false; });
  IValue result = call.compute("aten::reshape", {all, intList(call.spec().sizes)});
  // Results are tensors of their own, but for those of one operand.
  call.setResult(0, count == 1 ? result : call.compute("aten::contiguous", {result, int64_t{0}}));
}

// ---- tensordot ----

// The dimensions of both tensors that are summed up together.
void requirePairs(const InferCall& call, const TensorInfo& a, const TensorInfo& b, const Dims& x, const Dims& y) {
  call.require(x.size() == y.size(), "both dimension lists should have the same length, but they have {} and {}",
               x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) {
    int64_t m = a.sizes[static_cast<size_t>(x[i])], n = b.sizes[static_cast<size_t>(y[i])];
    call.require(
        m == 1 || n == 1 || !differ(m, n),
        "contracted dimensions need to match, but first has size {} in dim {} and second has size {} in dim {}", m,
        x[i], n, y[i]);
  }
}

void inferTensordot(InferCall& call) {
  TensorInfo a = call.rankedTensor(0), b = call.rankedTensor(1);
  call.require(a.dtype == b.dtype || a.dtype == DType::Undefined || b.dtype == DType::Undefined,
               "both inputs should have same dtype");
  Dims x = call.dims(2, a.rank(), false), y = call.dims(3, b.rank(), false), sizes;
  call.require((x.empty() || a.rank() > 0) && (y.empty() || b.rank() > 0),
               "dimension specified but tensor has no dimensions");
  requirePairs(call, a, b, x, y);
  for (size_t d = 0; d < a.rank(); ++d)
    if (std::find(x.begin(), x.end(), static_cast<int64_t>(d)) == x.end()) sizes.push_back(a.sizes[d]);
  for (size_t d = 0; d < b.rank(); ++d)
    if (std::find(y.begin(), y.end(), static_cast<int64_t>(d)) == y.end()) sizes.push_back(b.sizes[d]);
  call.result(a.dtype, sizes);
}

void tensordotKernel(KernelCall& call) {
  Tensor a = call.tensor(0), b = call.tensor(1);
  Dims x = call.dims(2, a.rank(), false), y = call.dims(3, b.rank(), false);
  // A dimension of size 1 is broadcast: the other one is summed up first.
  Dims ofA, ofB;
  int64_t depth = 1;
  for (size_t i = 0; i < x.size(); ++i) {
    int64_t m = a.size(static_cast<int>(x[i])), n = b.size(static_cast<int>(y[i]));
    if (m == n) depth *= m;
    if (n == 1 && m != 1) ofA.push_back(x[i]);
    if (m == 1 && n != 1) ofB.push_back(y[i]);
  }
  // Sums have the dtype of what is summed up.
  if (!ofA.empty()) a = convertTensor(sumOver(call, a, ofA), a.dtype());
  if (!ofB.empty()) b = convertTensor(sumOver(call, b, ofB), b.dtype());
  auto others = [](const Tensor& t, const Dims& summed, int64_t& count) {
    Dims dims;
    count = 1;
    for (int64_t d = 0; d < t.rank(); ++d)
      if (std::find(summed.begin(), summed.end(), d) == summed.end())
        dims.push_back(d), count *= t.size(static_cast<int>(d));
    return dims;
  };
  int64_t rows, columns;
  Dims left = others(a, x, rows), right = others(b, y, columns);
  left.append(x.begin(), x.end());
  Dims order = y;
  order.append(right.begin(), right.end());
  Tensor out = call.out();
  matmulInto(reshaped(out, Dims{rows, columns}), reshaped(a.permuted(left), Dims{rows, depth}),
             reshaped(b.permuted(order), Dims{depth, columns}));
}

// A permuted matrix product.
void convertTensordot(ConvertCall& call) {
  Tensor a = call.tensor(0), b = call.tensor(1);
  if (a.dtype() != b.dtype() ||
      (a.dtype() != DType::Float32 && a.dtype() != DType::Float64 && a.dtype() != DType::Complex64))
    return convertToKernel(call, "the arguments are neither float32, float64 nor complex64");
  if (a.numel() == 0 || b.numel() == 0) return convertToKernel(call, "a tensor has no elements");
  const Dims x = call.dims(2, a.rank(), false), y = call.dims(3, b.rank(), false);
  for (size_t i = 0; i < x.size(); ++i)
    if (a.size(static_cast<int>(x[i])) != b.size(static_cast<int>(y[i])))
      return convertToKernel(call, "a summed dimension is broadcast");
  if (x.empty()) return convertToKernel(call, "no dimension is summed");
  int64_t depth = 1;
  for (int64_t d : x) depth *= a.size(static_cast<int>(d));
  auto matrix = [&](const Tensor& t, const Dims& summed, bool summedLast) {
    Dims order;
    if (!summedLast) order.append(summed.begin(), summed.end());
    for (int64_t d = 0; d < t.rank(); ++d)
      if (std::find(summed.begin(), summed.end(), d) == summed.end()) order.push_back(d);
    if (summedLast) order.append(summed.begin(), summed.end());
    const Dims sizes = summedLast ? Dims{-1, depth} : Dims{depth, -1};
    return call.compute("aten::reshape", {call.compute("aten::permute", {t, intList(order)}), intList(sizes)});
  };
  const Tensor left = matrix(a, x, true).toTensor(), right = matrix(b, y, false).toTensor();
  const IValue product = a.dtype() == DType::Complex64
                             ? call.compute("aten::einsum", {"ij,jk->ik", tensorList({left, right}), IValue()})
                             : call.compute("aten::matmul", {left, right});
  call.setResult(0, call.compute("aten::reshape", {product, intList(call.spec().sizes)}));
}

// ---- bilinear: x1 @ weight[o] . x2 for each output feature ----

void inferBilinear(InferCall& call) {
  TensorInfo a = call.rankedTensor(0), b = call.rankedTensor(1), w = call.rankedTensor(2);
  call.require(a.rank() == b.rank() && a.rank() >= 1, "input dimensions do not match: got {} and {}", a.rank(),
               b.rank());
  for (size_t d = 0; d + 1 < a.rank(); ++d)
    call.require(!differ(a.sizes[d], b.sizes[d]), "input batch dimensions do not match at dim {}: got {} and {}", d,
                 a.sizes[d], b.sizes[d]);
  call.require(w.rank() == 3, "the weight must have 3 dimensions, but it has {}", w.rank());
  call.require(!differ(a.sizes.back(), w.sizes[1]), "input1 size does not match weight size: got {} but expected {}",
               a.sizes.back(), w.sizes[1]);
  call.require(!differ(b.sizes.back(), w.sizes[2]), "input2 size does not match weight size: got {} but expected {}",
               b.sizes.back(), w.sizes[2]);
  requireSameDType(call, a, b);
  requireSameDType(call, a, w);
  Dims sizes(a.sizes.first(a.rank() - 1));
  sizes.push_back(w.sizes[0]);
  if (!call.isNone(3)) {
    TensorInfo bias = call.rankedTensor(3);
    call.require(bias.rank() == 1 && !differ(bias.sizes[0], w.sizes[0]),
                 "the bias of size {} does not match the weight of size {}", dimsText(bias.sizes), dimsText(w.sizes));
    requireSameDType(call, a, bias);
  }
  call.result(a.dtype, sizes);
}

void bilinearKernel(KernelCall& call) {
  Tensor w = call.tensor(2), bias = call.tensor(3), out = call.out();
  int64_t count = 1;
  for (int d = 0; d + 1 < out.rank(); ++d) count *= out.size(d);
  // 16-bit floats are rounded once, at the end.
  DType dtype = isFloating(out.dtype()) && itemSize(out.dtype()) == 2 ? DType::Float32 : out.dtype();
  w = convertTensor(w, dtype);
  Tensor a = convertTensor(reshaped(call.tensor(0), Dims{count, w.size(1)}), dtype);
  Tensor b = convertTensor(reshaped(call.tensor(1), Dims{count, w.size(2)}), dtype);
  Tensor sum = Tensor::empty(dtype, Dims{count, w.size(0)}), rows = Tensor::empty(dtype, Dims{count, w.size(2)});
  if (bias.defined()) copyTensor(sum, bias);
  for (int64_t o = 0; o < w.size(0); ++o) {
    matmulInto(rows, a, selected(w, 0, o));
    matmulInto(unsqueezed(narrowed(sum, 1, o, 1), 2), unsqueezed(rows, 1), unsqueezed(b, 2), 1, bias.defined() ? 1 : 0);
  }
  copyTensor(out, reshaped(sum, out.sizes()));
}

// The weight as one matrix for x1; what comes of it is multiplied by x2 for each row.
void convertBilinear(ConvertCall& call) {
  const Tensor a = call.tensor(0), b = call.tensor(1), w = call.tensor(2);
  for (const Tensor& t : {a, b, w})
    if (t.dtype() != DType::Float32 || t.numel() == 0)
      return convertToKernel(call, "an argument is not float32, or has no elements");
  const int64_t out = w.size(0), x = w.size(1), y = w.size(2);
  constexpr int64_t kMost = int64_t{1} << 24;  // products at a time
  if (checkedNumel(Dims{a.numel() / x, out, y}).value_or(kMost) >= kMost)
    return convertToKernel(call, "its products would take much more memory than its result");
  const IValue matrix = call.compute(
      "aten::reshape", {call.compute("aten::permute", {w, intList(Dims{1, 0, 2})}), intList(Dims{x, out * y})});
  IValue rows = call.compute("aten::matmul", {call.compute("aten::reshape", {a, intList(Dims{-1, x})}), matrix});
  rows = call.compute("aten::reshape", {rows, intList(Dims{-1, out, y})});
  const IValue column = call.compute("aten::reshape", {b, intList(Dims{-1, y, 1})});
  IValue made = call.compute("aten::reshape", {call.compute("aten::bmm", {rows, column}), intList(call.spec().sizes)});
  if (!call.isNone(3)) made = call.compute("aten::add.Tensor", {made, call.argument(3), int64_t{1}});
  call.setResult(0, made);
}

// ---- _trilinear: three tensors, expanded at given dimensions, multiplied and summed up ----

struct Trilinear {
  std::vector<Dims> sizes;  // with the new dimensions of size 1
  Dims out;                 // of the whole product
  uint64_t summed = 0;
};

Trilinear describeTrilinear(const InferCall& call) {
  Trilinear t;
  for (size_t i = 0; i < 3; ++i) {
    TensorInfo x = call.rankedTensor(i);
    Dims expand = call.integers(3 + i), sizes(x.sizes);
    int64_t rank = static_cast<int64_t>(x.rank() + expand.size());
    call.require(rank <= kMaxRank, "a tensor has at most {} dimensions, not {}", kMaxRank, rank);
    uint64_t isNew = 0;
    for (int64_t d : expand) isNew |= uint64_t{1} << call.wrap(d, static_cast<size_t>(rank));
    for (int64_t d = 0; d < rank; ++d)
      if (isNew >> d & 1) {
        call.require(d <= static_cast<int64_t>(sizes.size()),
                     "dimension {} cannot be added to a tensor of {} dimensions", d, sizes.size());
        sizes.insert(static_cast<size_t>(d), 1);
      }
    call.require(i == 0 || t.sizes[0].size() == sizes.size(), "the expanded tensors have {} and {} dimensions",
                 t.sizes.empty() ? 0 : t.sizes[0].size(), sizes.size());
    call.require(broadcastInto(t.out, sizes), "the expanded tensors cannot be broadcast");
    t.sizes.push_back(sizes);
  }
  for (int64_t d : call.dims(6, t.out.size(), false)) t.summed |= uint64_t{1} << d;
  auto rank = static_cast<int64_t>(t.out.size());
  int64_t unroll = call.integer(7);
  call.require(unroll >= 0 && unroll < rank, "unroll_dim must be in [0, {}]", rank - 1);
  return t;
}

void inferTrilinear(InferCall& call) {
  Trilinear t = describeTrilinear(call);
  TensorInfo a = call.tensor(0);
  requireSameDType(call, a, call.tensor(1));
  requireSameDType(call, a, call.tensor(2));
  Dims sizes;
  for (size_t d = 0; d < t.out.size(); ++d)
    if (!(t.summed >> d & 1)) sizes.push_back(t.out[d]);
  call.result(a.dtype, sizes);
}

void trilinearKernel(KernelCall& call) {
  InferCall infer(call.op(), call.arguments(), call.size());
  Trilinear t = describeTrilinear(infer);
  Dims order;
  for (bool summed : {false, true})
    for (size_t d = 0; d < t.out.size(); ++d)
      if ((t.summed >> d & 1) == summed) order.push_back(static_cast<int64_t>(d));
  std::vector<Tensor> operands;
  for (size_t i = 0; i < 3; ++i) operands.push_back(reshaped(call.tensor(i), t.sizes[i]).permuted(order));
  copyTensor(call.out(), contract(call, std::move(operands), call.spec().sizes.size()));
}

}  // namespace

void registerEinsumOps(OpRegistry& ops) {
  ops.add({.schema = "aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
           .infer = inferEinsum,
           .kernel = einsumKernel,
           .convert = convertEinsum,
           .dtypes = kAllTypes,
           .traits = {Trait::MayShare, Trait::OwnStrides},  // of one tensor whose dimensions only change places
           .cost = Cost::Product});
  ops.add({.schema = "aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
           .infer = inferTensordot,
           .kernel = tensordotKernel,
           .convert = convertTensordot,
           .dtypes = kAllTypes,
           .traits = {Trait::RoundsOnce}});
  ops.add({.schema = "aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
           .infer = inferBilinear,
           .kernel = bilinearKernel,
           .convert = convertBilinear,
           .dtypes = kRealTypes | kComplexTypes});
  ops.add({.schema = "aten::_trilinear",
           .infer = inferTrilinear,
           .kernel = trilinearKernel,
           .dtypes = kRealTypes | kComplexTypes});
}

}  // namespace tscompile
