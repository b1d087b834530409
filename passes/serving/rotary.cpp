#include "passes/serving/rotary.h"

#include "ir/values/aten.h"
#include "ir/values/kind_set.h"

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

using Elements = SmallInstance::Elements;

bool isSum(Symbol kind) { return kind == aten::add || kind == aten::sub; }
bool isMultiple(Symbol kind) { return kind == aten::mul || kind == aten::neg; }
bool isJoin(Symbol kind) { return kind == aten::cat || kind == aten::stack; }
bool isPair(Symbol kind) { return kind == aten::view_as_complex || kind == aten::view_as_real; }
bool isList(Symbol kind) { return kind == sym::ListConstruct || kind == sym::ListUnpack; }

// What the rotation itself is made of.
bool isPart(const Node* n, GraphFacts& facts) {
  const Symbol kind = n->kind();
  return isSum(kind) || isMultiple(kind) || isJoin(kind) || isPair(kind) || isList(kind) || kind == aten::getitem_ ||
         facts.movesElements(n) || facts.keepsElements(n);
}

// The one value besides the positions that heads are made of; null if there are several, or if how they turn depends
// on how long texts are.
Value* rowsBehind(Value* heads, const AttentionChoices& choices, RewriteContext& context) {
  const Value* positions = choices.positions;
  Value* rows = nullptr;
  std::unordered_set<const Value*> seen;
  std::vector<Value*> stack{heads};
  while (!stack.empty() && seen.size() < 200) {
    Value* v = stack.back();
    stack.pop_back();
    if (!seen.insert(v).second || v == positions || GraphFacts::constant(v)) continue;
    if (v->type()->is(TypeKind::Int) || v->type()->isListOf(TypeKind::Int)) continue;
    if (choices.changing && choices.changing->contains(v)) return nullptr;
    if (nodesBehind(v, {positions}, context)) continue;
    if (v->node() && isPart(v->node(), context.facts)) {
      for (const Use& u : v->node()->inputs()) stack.push_back(u.value);
      continue;
    }
    if (rows && rows != v) return nullptr;
    rows = v;
  }
  return stack.empty() ? rows : nullptr;
}

// Numbers without a pattern between -1 and 1.
double sample(size_t i) { return std::fmod(std::sin(static_cast<double>(i) * 12.9898 + 1) * 437.585, 1.0); }

// Of tokens that are `step` apart.
struct Places {
  int64_t first, step;
  int64_t of(int64_t token) const { return first + step * token; }
};

class Turn {
 public:
  Turn(const HeadSource& turned, Value* rows, const Value* positions, const SmallInstance& instance)
      : turned_(turned), rows_(rows), positions_(positions), in_(instance) {}

  // Where heads come from if nothing turns.
  std::optional<HeadSource> source() {
    std::optional<Dims> sizes = in_.sizes(rows_);
    std::optional<Elements> e =
        sizes ? turnedBy({0, 0}, [](size_t i) { return static_cast<double>(i); }) : std::nullopt;
    if (!e || sizes->size() != 3 || (*sizes)[1] != in_.tokens) return std::nullopt;
    HeadSource s{rows_, HeadSource::Form::Rows, turned_.heads, turned_.size, 0, (*sizes)[2]};
    s.first = static_cast<int64_t>(std::lround(e->values[0]));
    if (s.first < 0 || s.first + s.heads * s.size > s.columns) return std::nullopt;
    bool same = true;
    forEachComponent(
        [&](size_t at, size_t from, int64_t) {
          same = same && e->values[at] == static_cast<double>(from + static_cast<size_t>(s.first));
        },
        s.columns);
    if (!same) return std::nullopt;
    return s;
  }

  // Whether all components are turned as `r` says, for these positions.
  bool agrees(const Rotary& r, Places places, double tolerance) {
    std::optional<Elements> e = turnedBy(places, sample);
    if (!e) return false;
    bool same = true;
    forEachComponent(
        [&](size_t at, size_t from, int64_t token) {
          int64_t d = static_cast<int64_t>(at) % turned_.size, half = r.dim / 2;
          size_t first = from - static_cast<size_t>(d) + static_cast<size_t>(r.source.first);
          auto x = [&](int64_t i) { return sample(first + static_cast<size_t>(i)); };
          double want = x(d);
          if (d < r.dim) {
            int64_t i = r.interleaved ? d / 2 : d % half, a = r.interleaved ? 2 * i : i,
                    b = r.interleaved ? a + 1 : i + half;
            double angle = static_cast<double>(places.of(token)) / r.scale *
                           std::pow(r.base, -2.0 * static_cast<double>(i) / static_cast<double>(r.dim));
            want = d == a ? x(a) * std::cos(angle) - x(b) * std::sin(angle)
                          : x(b) * std::cos(angle) + x(a) * std::sin(angle);
          }
          same = same && std::abs(e->values[at] - want) <= tolerance;
        },
        r.source.columns);
    return same;
  }

  // What the first two pairs turn by at position 1, and how many components turn.
  std::optional<Rotary> guess(const HeadSource& source, bool interleaved) {
    std::optional<Elements> e = turnedBy({0, 1}, sample), far = turnedBy({0, 1000}, sample);
    if (!e || !far || in_.tokens < 2) return std::nullopt;
    Rotary r{source, interleaved};
    // Of the first batch, second token, first head.
    size_t at = turned_.form == HeadSource::Form::HeadsInside ? static_cast<size_t>(turned_.heads * turned_.size)
                                                              : static_cast<size_t>(turned_.size);
    size_t from = static_cast<size_t>(source.columns + source.first);
    for (int64_t d = 0; d < turned_.size; ++d)
      if (std::abs(far->values[at + static_cast<size_t>(d)] - sample(from + static_cast<size_t>(d))) > 1e-6)
        r.dim = d + 1;
    if (r.dim < 4 || r.dim % 2) return std::nullopt;
    auto frequency = [&](int64_t i) {
      size_t a = static_cast<size_t>(interleaved ? 2 * i : i),
             b = interleaved ? a + 1 : a + static_cast<size_t>(r.dim / 2);
      double x = sample(from + a), y = sample(from + b), u = e->values[at + a], v = e->values[at + b];
      return std::atan2(v * x - u * y, u * x + v * y);
    };
    double first = frequency(0), second = frequency(1);
    if (!(first > 0) || !(second > 0)) return std::nullopt;
    auto rounded = [](double x) {
      double unit = std::pow(10, std::floor(std::log10(x)) - 4);
      return std::round(x / unit) * unit;
    };
    r.scale = rounded(1 / first);
    r.base = rounded(std::pow(first / second, static_cast<double>(r.dim) / 2));
    return r.base > 1 ? std::optional<Rotary>(r) : std::nullopt;
  }

 private:
  // The heads if rows hold these numbers.
  template <class Number>
  std::optional<Elements> turnedBy(Places at, Number number) {
    Dims sizes = *in_.sizes(rows_);
    int64_t count = checkedNumel(sizes).value_or(0);
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(number(i));
    std::vector<int64_t> places(static_cast<size_t>(in_.batch * in_.tokens));
    for (size_t i = 0; i < places.size(); ++i) places[i] = at.of(static_cast<int64_t>(i) % in_.tokens);
    std::optional<Elements> e =
        in_.compute(turned_.value, {{rows_, Tensor::of<float>(sizes, values)},
                                    {positions_, Tensor::of<int64_t>(Dims{in_.batch, in_.tokens}, places)}});
    size_t all = static_cast<size_t>(in_.batch * in_.tokens * turned_.heads * turned_.size);
    return e && e->values.size() == all && in_.sizes(rows_)->size() == 3 ? e : std::nullopt;
  }

  // visit(place in the heads, place in the rows without `first`, token)
  template <class Visit>
  void forEachComponent(Visit visit, int64_t columns) {
    size_t at = 0;
    bool inside = turned_.form == HeadSource::Form::HeadsInside;
    int64_t outer = inside ? in_.tokens : turned_.heads, inner = inside ? turned_.heads : in_.tokens;
    for (int64_t b = 0; b < in_.batch; ++b)
      for (int64_t i = 0; i < outer; ++i)
        for (int64_t j = 0; j < inner; ++j)
          for (int64_t d = 0; d < turned_.size; ++d) {
            int64_t token = inside ? i : j, head = inside ? j : i;
            visit(at++, static_cast<size_t>((b * in_.tokens + token) * columns + head * turned_.size + d), token);
          }
  }

  const HeadSource& turned_;
  Value* rows_;
  const Value* positions_;
  const SmallInstance& in_;
};

// Angles of far positions are as exact as they can be; the last ones are behind all bends.
bool agreesFar(Turn& turn, const Rotary& rotary, int64_t longest, int64_t tokens) {
  const int64_t step = tokens > 1 ? (longest - 1) / (tokens - 1) : 0;
  if (step <= 97) return true;
  const double tolerance = std::min(1e-3 * static_cast<double>(step) / 97, 0.1);
  return turn.agrees(rotary, {0, step}, tolerance) && turn.agrees(rotary, {longest - tokens, 1}, tolerance);
}

}  // namespace

std::optional<Rotary> findRotary(const HeadSource& turned, const AttentionChoices& choices, RewriteContext& context,
                                 std::span<const SmallInstance* const> instances) {
  if (turned.form == HeadSource::Form::Rows) return std::nullopt;
  Value* rows = rowsBehind(turned.value, choices, context);
  if (!rows) return std::nullopt;
  for (bool interleaved : {false, true}) {
    std::optional<Rotary> found;
    bool holds = true;
    for (const SmallInstance* instance : instances) {
      Turn turn(turned, rows, choices.positions, *instance);
      std::optional<HeadSource> source = turn.source();
      if (!found && source) found = turn.guess(*source, interleaved);
      holds = holds && source && found && found->source == *source && turn.agrees(*found, {0, 1}, 1e-5) &&
              turn.agrees(*found, {0, 97}, 1e-3) && agreesFar(turn, *found, choices.longest, instance->tokens);
    }
    if (holds) return found;
  }
  return std::nullopt;
}

}  // namespace tscompile
