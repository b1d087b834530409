#include "passes/rewrite/compare.h"

#include "ir/operators/op_def.h"
#include "ir/support/text.h"
#include "ir/values/literal.h"
#include "ir/values/shape.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

namespace tscompile {
namespace {

// Numbers that look random and are the same everywhere.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  double between(double low, double high) { return low + (high - low) * (static_cast<double>(next() >> 11) * 0x1p-53); }

 private:
  uint64_t state_;
};

double sampleNumber(Numbers& numbers, int sample, bool floating) {
  if (!floating || sample == 1) return std::floor(numbers.between(-3, 4));
  if (sample == 2 && numbers.next() % 5 == 0) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double kSpecial[] = {kInfinity, -kInfinity, std::nan(""), 0.0, -0.0, 1e30, -1e30};
    return kSpecial[numbers.next() % std::size(kSpecial)];
  }
  return numbers.between(-2, 2);
}

void setElement(Tensor& t, int64_t i, double v) {
  visitDType(t.dtype(), [&]<class T>(T) {
    if constexpr (std::is_arithmetic_v<T>)
      t.data<T>()[i] = static_cast<T>(v);
    else
      t.data<T>()[i] = T(static_cast<float>(v));
  });
}

Tensor sampleTensor(const TensorFacts& facts, Numbers& numbers, int sample) {
  Dims sizes = facts.sizes;
  if (!facts.hasRank) sizes = {2, 3};
  int64_t unknown = 2;
  for (int64_t& s : sizes)
    if (s < 0) s = unknown++;
  DType dtype = facts.dtype == DType::Undefined ? DType::Float32 : facts.dtype;
  constexpr int64_t kMost = 1 << 20;
  std::optional<int64_t> count = knownNumel(sizes);
  if (!count || *count > kMost) return {};
  Tensor t = Tensor::empty(dtype, sizes);
  bool floating = kFloatingTypes.contains(dtype) || kComplexTypes.contains(dtype);
  for (int64_t i = 0; i < t.numel(); ++i) {
    double v = sampleNumber(numbers, sample, floating);
    if (dtype == DType::Bool || dtype == DType::UInt8) v = std::abs(v);
    setElement(t, i, v);
  }
  return t;
}

std::optional<IValue> sampleValue(TypePtr type, Numbers& numbers, int sample) {
  switch (type->kind()) {
    case TypeKind::Tensor: {
      Tensor t = sampleTensor(type->tensor(), numbers, sample);
      return t.defined() ? std::optional<IValue>(t) : std::nullopt;
    }
    case TypeKind::Int:
      return IValue(static_cast<int64_t>(numbers.next() % 4));
    case TypeKind::Float:
    case TypeKind::Number:
      return IValue(sampleNumber(numbers, sample, true));
    case TypeKind::Bool:
      return IValue(numbers.next() % 2 == 0);
    case TypeKind::Optional:
      return numbers.next() % 3 == 0 ? IValue() : sampleValue(type->element(), numbers, sample);
    case TypeKind::List: {
      std::vector<IValue> items;
      for (int i = 0; i < 2; ++i) {
        std::optional<IValue> item = sampleValue(type->element(), numbers, sample);
        if (!item) return std::nullopt;
        items.push_back(std::move(*item));
      }
      return IValue(Ref<ListValue>::make(type->element(), std::move(items)));
    }
    default:
      return std::nullopt;
  }
}

struct Statistics {
  double most = 0, mean = 0, median = 0, deviation = 0;
  explicit Statistics(std::vector<double> values) {
    if (values.empty()) return;
    std::sort(values.begin(), values.end());
    most = values.back();
    median = values[values.size() / 2];
    for (double v : values) mean += v;
    mean /= static_cast<double>(values.size());
    for (double v : values) deviation += (v - mean) * (v - mean);
    deviation = std::sqrt(deviation / static_cast<double>(values.size()));
  }
};

std::string describe(const IValue& v) {
  if (!v.isTensor()) return abbreviate(valueText(v, LiteralStyle::Schema), 80);
  Tensor t = v.toTensor();
  if (!t.defined()) return "undefined tensor";
  return std::string(shortName(t.dtype())) + dimsText(t.sizes());
}

std::string positionText(int64_t flat, DimSpan sizes) {
  Dims index(sizes.begin(), sizes.end());
  for (size_t i = index.size(); i-- > 0;) {
    index[i] = flat % sizes[i];
    flat /= sizes[i];
  }
  return dimsText(index);
}

std::optional<RewriteMismatch> compareTensors(const Tensor& a, const Tensor& b, double relative, double absolute) {
  RewriteMismatch m;
  m.before = describe(IValue(a));
  m.after = describe(IValue(b));
  if (a.defined() != b.defined()) return m;
  if (!a.defined()) return std::nullopt;
  if (a.dtype() != b.dtype() || Dims(a.sizes()) != Dims(b.sizes())) return m;
  bool floating = kFloatingTypes.contains(a.dtype()) || kComplexTypes.contains(a.dtype());
  std::vector<double> absolutes, relatives;
  bool bad = false;
  double worst = -1;
  for (int64_t i = 0; i < a.numel(); ++i) {
    std::complex<double> x = a.complex(i), y = b.complex(i);
    auto isNaN = [](std::complex<double> c) { return std::isnan(c.real()) || std::isnan(c.imag()); };
    if ((isNaN(x) && isNaN(y)) || x == y) {
      absolutes.push_back(0);
      relatives.push_back(0);
      continue;
    }
    double difference = std::abs(x - y), scale = std::max(std::abs(x), std::abs(y));
    bool finite = std::isfinite(difference) && std::isfinite(scale);
    bool close = finite && floating && difference <= absolute + relative * scale;
    bad |= !close;
    if (finite) {
      absolutes.push_back(difference);
      relatives.push_back(scale > 0 ? difference / scale : 0);
    }
    double rank = finite ? difference : std::numeric_limits<double>::infinity();
    if (close || rank <= worst) continue;
    worst = rank;
    m.position = positionText(i, a.sizes());
    m.valueBefore = fmt::format("{}", x.real());
    m.valueAfter = fmt::format("{}", y.real());
  }
  if (!bad) return std::nullopt;
  Statistics s(std::move(absolutes)), r(std::move(relatives));
  m.maxAbsolute = s.most;
  m.meanAbsolute = s.mean;
  m.medianAbsolute = s.median;
  m.deviationAbsolute = s.deviation;
  m.maxRelative = r.most;
  m.meanRelative = r.mean;
  m.medianRelative = r.median;
  m.deviationRelative = r.deviation;
  return m;
}

std::optional<RewriteMismatch> compareValues(const IValue& a, const IValue& b, double relative, double absolute) {
  std::vector<std::pair<const IValue*, const IValue*>> todo{{&a, &b}};
  while (!todo.empty()) {
    auto [x, y] = todo.back();
    todo.pop_back();
    RewriteMismatch m;
    m.before = describe(*x);
    m.after = describe(*y);
    if (x->tag() != y->tag()) return m;
    if (x->isTensor()) {
      if (auto found = compareTensors(x->toTensor(), y->toTensor(), relative, absolute)) return found;
    } else if (x->isList() || x->isTuple()) {
      const auto& p = x->isList() ? x->toList().items : x->toTuple().items;
      const auto& q = y->isList() ? y->toList().items : y->toTuple().items;
      if (p.size() != q.size()) return m;
      for (size_t i = p.size(); i-- > 0;) todo.emplace_back(&p[i], &q[i]);
    } else if (x->isDict()) {
      std::vector<std::pair<const IValue*, const IValue*>> p, q;
      x->toDict().forEach([&](const IValue& key, const IValue& value) { p.emplace_back(&key, &value); });
      y->toDict().forEach([&](const IValue& key, const IValue& value) { q.emplace_back(&key, &value); });
      if (p.size() != q.size()) return m;
      for (size_t i = p.size(); i-- > 0;) {
        if (!valuesEqual(*p[i].first, *q[i].first)) return m;
        todo.emplace_back(p[i].second, q[i].second);
      }
    } else if (x->isFloat()) {
      double u = x->toFloat(), v = y->toFloat();
      bool same = u == v || (std::isnan(u) && std::isnan(v)) ||
                  std::abs(u - v) <= absolute + relative * std::max(std::abs(u), std::abs(v));
      if (!same) return m;
    } else if (!valuesEqual(*x, *y)) {
      return m;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string RewriteMismatch::text() const {
  std::string out = fmt::format("output {} was {}, now {}", output, before, after);
  if (position.empty()) return out;
  return out + fmt::format(
                   "; at {}: {} was, {} is; absolute difference max {:.3g} mean {:.3g} median {:.3g} deviation {:.3g}; "
                   "relative max {:.3g} mean {:.3g} median {:.3g} deviation {:.3g}",
                   position, valueBefore, valueAfter, maxAbsolute, meanAbsolute, medianAbsolute, deviationAbsolute,
                   maxRelative, meanRelative, medianRelative, deviationRelative);
}

std::optional<std::vector<IValue>> sampleInputs(const Graph& graph, int sample) {
  Numbers numbers(static_cast<uint64_t>(sample) + 1);
  std::vector<IValue> inputs;
  for (const Value* v : graph.inputs()) {
    std::optional<IValue> value = sampleValue(v->type(), numbers, sample);
    if (!value) return std::nullopt;
    inputs.push_back(std::move(*value));
  }
  return inputs;
}

std::optional<RewriteMismatch> compareResults(const std::vector<IValue>& before, const std::vector<IValue>& after,
                                              double relative, double absolute) {
  for (size_t i = 0; i < before.size() && i < after.size(); ++i)
    if (auto m = compareValues(before[i], after[i], relative, absolute)) {
      m->output = i;
      return m;
    }
  return std::nullopt;
}

std::optional<RewriteMismatch> compareGraphs(const Graph& before, const Graph& after, Evaluator& evaluator,
                                             double relative, double absolute, size_t* compared) {
  constexpr int kSamples = 3;
  for (int sample = 0; sample < kSamples; ++sample) {
    // Each graph gets arguments of its own: it may write to them, and what it wrote is compared too.
    std::optional<std::vector<IValue>> first = sampleInputs(before, sample), second = sampleInputs(after, sample);
    if (!first || !second || first->size() != second->size()) return std::nullopt;
    std::optional<std::vector<IValue>> a = evaluator.run(before, *first);
    if (!a) continue;
    if (compared) ++*compared;
    std::optional<std::vector<IValue>> b = evaluator.run(after, *second);
    if (!b) {
      RewriteMismatch m;
      m.before = "a result";
      m.after = "a failure";
      return m;
    }
    if (auto m = compareResults(*a, *b, relative, absolute)) return m;
    if (auto m = compareResults(*first, *second, relative, absolute)) {
      m->before = "argument " + m->before;
      return m;
    }
  }
  return std::nullopt;
}

}  // namespace tscompile
