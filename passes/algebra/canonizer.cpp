// One form for sums and one for products: operands in their order, equal ones cancelled, one constant, at the end, and
// at most one subtraction or division.
#include "ir/values/aten.h"
#include "passes/algebra/node_rewriting.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

// What sums and products have in common: a sum of terms less another, a product of factors over another.
class Canonizer {
 public:
  Canonizer(Site& site, bool isProduct) : site_(site), isProduct_(isProduct) {}

  Replacement run() {
    dtype_ = site_.facts.dtype(site_.output());
    isFloat_ = kFloatingTypes.contains(dtype_);
    if ((!isFloat_ && !kIntegerTypes.contains(dtype_)) || !isPart(site_.node) || isInner()) return {};
    constant_ = integer_ = isProduct_ ? 1 : 0;
    std::string before = flatten(site_.node, false);
    if (!fits_) return {};
    cancel();
    if ((nodes_ < 2 && !lost_) || text() == before || !keepsSizes()) return {};
    return build();
  }

 private:
  struct Operand {
    Value* value;
    bool inverse;
  };

  static bool isDifference(Symbol k) { return k == aten::sub || k == aten::rsub; }

  // A node that is a sum (difference, negation) or product (quotient, reciprocal) of the root's dtype.
  bool isPart(const Node* n) {
    if (site_.facts.dtype(n->output()) != dtype_ || !site_.isTensor(n->output()) || !site_.isTensor(n->input(0)))
      return false;
    Symbol k = n->kind();
    if (isProduct_ && n->inputCount() == 1) return isFloat_ && (k == aten::reciprocal || k == aten::neg);
    if (isProduct_) return n->inputCount() == 2 && (k == aten::mul || (isFloat_ && k == aten::div));
    if (k == aten::neg) return true;
    return (k == aten::add || isDifference(k)) && n->inputCount() == 3 && site_.facts.number(n->input(2)) == 1.0;
  }

  // Whether the root is an operand of a node that would take it in.
  bool isInner() {
    if (site_.output()->useCount() != 1) return false;
    Node* user = site_.output()->firstUse()->user;
    return user->block() == site_.node->block() && !user->isReturn() && user->outputCount() == 1 && isPart(user);
  }

  // Takes a node's operands and returns its text, in which operands are numbered.
  std::string flatten(Node* n, bool inverse) {
    ++nodes_;
    Symbol k = n->kind();
    const bool isNegative = k == aten::neg && !isProduct_;
    bool first = inverse ^ (isNegative || k == aten::rsub || k == aten::reciprocal);
    bool second = inverse ^ (k == aten::sub || k == aten::div);
    if (k == aten::neg && isProduct_) constant_ = -constant_;
    std::string out = fmt::format("{}({}", k.name(), operand(n->input(0), first));
    if (n->inputCount() > 1) out += "," + operand(n->input(1), second);
    return out + ")";
  }

  std::string operand(Value* v, bool inverse) {
    constexpr int kMostNodes = 64;
    Node* inner = nodes_ < kMostNodes ? site_.soleProducer(v) : nullptr;
    if (inner && inner->inputCount() && isPart(inner)) return flatten(inner, inverse);
    if (take(v, inverse)) return "#";
    operands_.push_back({v, inverse});
    fits_ = fits_ && site_.isTensor(v) && site_.facts.dtype(v) == dtype_;
    return name(v);
  }

  // Takes a constant into the one that all become.
  bool take(Value* v, bool inverse) {
    std::optional<double> c = site_.uniform(v);
    if (!c) return false;
    if (!isFloat_) {
      const IValue* number = GraphFacts::constant(v);
      if (!number || !number->isInt()) return false;
      auto x = static_cast<uint64_t>(number->toInt()), y = static_cast<uint64_t>(integer_);
      integer_ = static_cast<int64_t>(isProduct_ ? y * x : inverse ? y - x : y + x);
    } else if (isProduct_) {
      constant_ = inverse ? constant_ / *c : constant_ * *c;
    } else {
      constant_ += inverse ? -*c : *c;
    }
    if (site_.isTensor(v)) lost_ = true;  // it may have had a say in the sizes
    return true;
  }

  std::string name(const Value* v) {
    auto known = std::find(named_.begin(), named_.end(), v);
    if (known == named_.end()) known = named_.insert(named_.end(), v);
    return std::to_string(known - named_.begin());
  }

  // x * y / x -> y
  void cancel() {
    all_ = operands_;
    for (size_t i = 0; i < operands_.size(); ++i) {
      auto twin = std::find_if(
          operands_.begin() + static_cast<std::ptrdiff_t>(i), operands_.end(),
          [&](const Operand& o) { return o.value == operands_[i].value && o.inverse != operands_[i].inverse; });
      if (twin == operands_.end()) continue;
      lost_ = true;
      operands_.erase(twin);
      operands_.erase(operands_.begin() + static_cast<std::ptrdiff_t>(i--));
    }
    // An integer in the range of the dtype, which wraps around in the same way.
    int bits = static_cast<int>(itemSize(dtype_) * 8);
    if (!isFloat_ && bits < 64) {
      int64_t modulus = int64_t{1} << bits, low = integer_ & (modulus - 1);
      integer_ = low >= modulus / 2 && dtype_ != DType::UInt8 ? low - modulus : low;
    }
  }

  bool hasConstant() const {
    double neutral = isProduct_ ? 1 : 0;
    return isFloat_ ? constant_ != neutral : integer_ != static_cast<int64_t>(neutral);
  }

  // Whether what is left is broadcast to the sizes of the root.
  bool keepsSizes() {
    if (!lost_) return true;
    std::optional<Dims> wanted = site_.facts.sizes(site_.output());
    if (!wanted) return false;
    for (const Operand& o : operands_.empty() ? all_ : operands_)
      if (site_.facts.sizes(o.value) == wanted) return true;
    return false;
  }

  // ---- the form ----
  // (p1 . p2 . c) / (q1 . q2); without p: c / (q1 . q2), as rsub, reciprocal or a change of sign.

  template <class T>
  T shape(T none, auto main, auto inverse, auto constant, auto alone, auto of) {
    T p = none, q = none;
    for (const Operand& o : operands_) {
      T& side = o.inverse ? q : p;
      side = side == none ? of(o.value) : main(side, of(o.value));
    }
    if (p != none && hasConstant()) p = constant(p);
    if (p == none) return alone(q);
    return q == none ? p : inverse(p, q);
  }

  std::string text() {
    using S = std::string;
    std::string main = isProduct_ ? "mul" : "add", inverse = isProduct_ ? "div" : "sub";
    return shape(
        S(), [&](S a, S b) { return fmt::format("{}({},{})", main, a, b); },
        [&](S a, S b) { return fmt::format("{}({},{})", inverse, a, b); },
        [&](S a) { return fmt::format("{}({},#)", main, a); },
        [&](S q) -> S {
          if (q.empty()) return "#";
          if (isProduct_)
            return hasConstant() ? fmt::format("mul(reciprocal({}),#)", q) : fmt::format("reciprocal({})", q);
          return hasConstant() ? fmt::format("rsub({},#)", q) : fmt::format("neg({})", q);
        },
        [&](const Value* v) { return name(v); });
  }

  Value* number() { return isFloat_ ? site_.constant(constant_) : site_.constant(integer_); }
  Value* join(Symbol kind, Value* a, Value* b) {
    return isProduct_ ? site_.make(kind, {a, b}) : site_.make(kind, {a, b, site_.constant(int64_t{1})});
  }

  Replacement build() {
    Value* none = nullptr;
    Value* result = shape(
        none, [&](Value* a, Value* b) { return join(isProduct_ ? aten::mul : aten::add, a, b); },
        [&](Value* a, Value* b) { return join(isProduct_ ? aten::div : aten::sub, a, b); },
        [&](Value* a) { return join(isProduct_ ? aten::mul : aten::add, a, number()); },
        [&](Value* q) { return alone(q); }, [](Value* v) { return v; });
    if (!result) return {};
    bool isOperand = std::any_of(all_.begin(), all_.end(), [&](const Operand& o) { return o.value == result; });
    return isOperand && !site_.mayReuse(result) ? Replacement() : Replacement(result);
  }

  Value* alone(Value* q) {
    if (!q) {
      std::optional<Dims> wanted = site_.facts.sizes(site_.output());
      for (const Operand& o : all_)
        if (site_.facts.sizes(o.value) == wanted) {
          Value* n = site_.none();
          return site_.make(aten::full_like, {o.value, number(), n, n, n, n, n});
        }
      return nullptr;
    }
    if (!isProduct_) return hasConstant() ? join(aten::rsub, q, number()) : site_.make(aten::neg, {q});
    Value* r = site_.make(aten::reciprocal, {q});
    return hasConstant() ? join(aten::mul, r, number()) : r;
  }

  Site& site_;
  bool isProduct_;
  DType dtype_ = DType::Undefined;
  bool isFloat_ = false, fits_ = true, lost_ = false;
  int nodes_ = 0;
  double constant_ = 0;
  int64_t integer_ = 0;
  std::vector<Operand> operands_, all_;
  std::vector<const Value*> named_;
};

template <bool kProduct, bool kFloats>
Replacement canonize(Site& site) {
  if (site.isFloating(site.output()) != kFloats) return {};
  return Canonizer(site, kProduct).run();
}

}  // namespace

std::vector<NamedRewrite> canonizerRewrites() {
  const Kinds sums{aten::add, aten::sub, aten::rsub, aten::neg},
      products{aten::mul, aten::div, aten::reciprocal, aten::neg};
  Query::Tags exact{"default", "fast_compile", "fast_run"}, loose{"fast_run", "reassoc"};
  return {
      {"canonicalize", siteRewrite("add_canonizer", sums, canonize<false, false>), "one form for sums of integers",
       exact},
      {"canonicalize", siteRewrite("add_canonizer_floats", sums, canonize<false, true>), "one form for sums of floats",
       loose},
      {"canonicalize", siteRewrite("mul_canonizer", {aten::mul}, canonize<true, false>),
       "one form for products of integers", exact},
      {"canonicalize", siteRewrite("mul_canonizer_floats", products, canonize<true, true>),
       "one form for products and quotients of floats", loose},
  };
}

}  // namespace tscompile
