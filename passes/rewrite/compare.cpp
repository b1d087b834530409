#include "passes/rewrite/compare.h"

#include "ir/operators/op_def.h"
#include "ir/support/text.h"
#include "ir/values/literal.h"
#include "ir/values/shape.h"
#include "passes/rewrite/samples.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

namespace tscompile {
namespace {

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

// How far apart, relatively, two numbers may be that differ in their last bit, where that is more than other steps of
// the same computation in f32 make of it.
double lastBit(DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return 0x1p-10;
    case DType::BFloat16:
      return 0x1p-7;
    default:
      return 0;
  }
}

std::optional<RewriteMismatch> compareTensors(const Tensor& a, const Tensor& b, const RewriteComparison& how) {
  RewriteMismatch m;
  m.before = describe(IValue(a));
  m.after = describe(IValue(b));
  if (a.defined() != b.defined()) return m;
  if (!a.defined()) return std::nullopt;
  if (a.dtype() != b.dtype() || Dims(a.sizes()) != Dims(b.sizes())) return m;
  bool floating = kFloatingTypes.contains(a.dtype()) || kComplexTypes.contains(a.dtype());
  const double relative = std::max(how.relative, lastBit(a.dtype()));
  std::vector<double> absolutes, relatives;
  bool bad = false;
  double worst = -1;
  for (int64_t i = 0; i < a.numel(); ++i) {
    std::complex<double> x = a.complex(i), y = b.complex(i);
    auto isNaN = [](std::complex<double> c) { return std::isnan(c.real()) || std::isnan(c.imag()); };
    auto isFinite = [](std::complex<double> c) { return std::isfinite(c.real()) && std::isfinite(c.imag()); };
    if ((isNaN(x) && isNaN(y)) || x == y || (how.assumesFinite && !isFinite(x))) {
      absolutes.push_back(0);
      relatives.push_back(0);
      continue;
    }
    double difference = std::abs(x - y), scale = std::max(std::abs(x), std::abs(y));
    bool finite = std::isfinite(difference) && std::isfinite(scale);
    bool close = finite && floating && difference <= how.absolute + relative * scale;
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

std::optional<RewriteMismatch> compareValues(const IValue& a, const IValue& b, const RewriteComparison& how) {
  std::vector<std::pair<const IValue*, const IValue*>> todo{{&a, &b}};
  while (!todo.empty()) {
    auto [x, y] = todo.back();
    todo.pop_back();
    RewriteMismatch m;
    m.before = describe(*x);
    m.after = describe(*y);
    if (x->tag() != y->tag()) return m;
    if (x->isTensor()) {
      if (auto found = compareTensors(x->toTensor(), y->toTensor(), how)) return found;
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
    } else if (x->isObject()) {
      for (const auto& [name, value] : x->toObject().attributes)
        if (const IValue* other = y->toObject().find(name)) todo.emplace_back(&value, other);
    } else if (x->isFloat()) {
      double u = x->toFloat(), v = y->toFloat();
      bool same = u == v || (std::isnan(u) && std::isnan(v)) || (how.assumesFinite && !std::isfinite(u)) ||
                  std::abs(u - v) <= how.absolute + how.relative * std::max(std::abs(u), std::abs(v));
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

std::optional<RewriteMismatch> compareResults(const std::vector<IValue>& before, const std::vector<IValue>& after,
                                              const RewriteComparison& how) {
  for (size_t i = 0; i < before.size() && i < after.size(); ++i)
    if (auto m = compareValues(before[i], after[i], how)) {
      m->output = i;
      return m;
    }
  return std::nullopt;
}

std::optional<RewriteMismatch> compareGraphs(const Graph& before, const Graph& after, Evaluator& evaluator,
                                             const RewriteComparison& how, size_t* compared) {
  // Each graph gets arguments of its own: it may write to them, and what it wrote is compared too.
  SampledGraph first(before, how.self, before), second(after, how.self, before);
  std::vector<SampleForm> forms = first.forms();
  // What fitted the graph before another rewriting is likely to fit again.
  if (how.form && *how.form)
    if (auto known = std::ranges::find(forms, **how.form); known != forms.end())
      std::rotate(forms.begin(), known, known + 1);
  constexpr int kSamples = 4, kSpecial = 2;
  for (int sample = 0; sample < kSamples; ++sample) {
    if (sample == kSpecial && how.assumesFinite) continue;
    std::optional<std::vector<IValue>> a, b;
    auto fits = [&](const SampleForm& form) {
      if (!first.fill(sample, form) || !second.fill(sample, form)) return false;
      if (first.arguments().size() != second.arguments().size()) return false;
      a = evaluator.run(first.graph(), first.arguments());
      return a.has_value();
    };
    auto form = std::find_if(forms.begin(), forms.end(), fits);
    if (form == forms.end()) {
      if (!sample) return std::nullopt;
      continue;
    }
    if (how.form) *how.form = *form;
    forms = {form, forms.end()};  // what did not fit fits no other sample
    if (compared) ++*compared;
    b = evaluator.run(second.graph(), second.arguments());
    if (!b) {
      RewriteMismatch m;
      m.before = "a result";
      m.after = "a failure";
      return m;
    }
    if (auto m = compareResults(*a, *b, how)) return m;
    if (auto m = compareResults(first.arguments(), second.arguments(), how)) {
      m->before = "argument " + m->before;
      return m;
    }
  }
  return std::nullopt;
}

}  // namespace tscompile
