// A reader by recursive descent; conditions become closures.
#include "passes/rewrite/condition.h"

#include "ir/support/text.h"
#include "ir/values/size_expression.h"
#include "passes/rewrite/memory_order.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace tscompile {
namespace {

// Nothing: not known.
using Known = std::optional<IValue>;
using Term = std::function<Known(const Match&, RewriteContext&)>;
// A value of the pattern.
using Name = std::string;

std::optional<double> numberOf(const IValue& v) {
  if (v.isInt()) return static_cast<double>(v.toInt());
  if (v.isFloat()) return v.toFloat();
  if (v.isBool()) return v.toBool() ? 1 : 0;
  return std::nullopt;
}

Known compare(std::string_view op, const IValue& a, const IValue& b) {
  std::optional<double> x = numberOf(a), y = numberOf(b);
  if (x && y) {
    if (op == "==") return IValue(*x == *y);
    if (op == "!=") return IValue(*x != *y);
    if (op == "<") return IValue(*x < *y);
    if (op == "<=") return IValue(*x <= *y);
    if (op == ">") return IValue(*x > *y);
    return IValue(*x >= *y);
  }
  if (op == "==") return IValue(valuesEqual(a, b));
  if (op == "!=") return IValue(!valuesEqual(a, b));
  return std::nullopt;
}

Known arithmetic(char op, const IValue& a, const IValue& b) {
  if (a.isInt() && b.isInt()) {
    int64_t r = 0;
    bool over = op == '+'   ? __builtin_add_overflow(a.toInt(), b.toInt(), &r)
                : op == '-' ? __builtin_sub_overflow(a.toInt(), b.toInt(), &r)
                            : __builtin_mul_overflow(a.toInt(), b.toInt(), &r);
    return over ? Known() : IValue(r);
  }
  std::optional<double> x = numberOf(a), y = numberOf(b);
  if (!x || !y) return std::nullopt;
  return IValue(op == '+' ? *x + *y : op == '-' ? *x - *y : *x * *y);
}

Known truth(const Known& v) { return v && v->isBool() ? v : std::nullopt; }

// ---- functions of values ----

// What a function is called with: a value of the pattern, and another one or a number or string if it takes two.
struct Arguments {
  Value* value = nullptr;
  Value* other = nullptr;
  Known second = std::nullopt;
};

DType toldDType(const Value* v, RewriteContext& c) {
  return v->type()->isTensor() ? c.facts.told(v).dtype : DType::Undefined;
}
std::optional<Dims> toldSizes(const Value* v, RewriteContext& c) {
  if (!v->type()->isTensor()) return std::nullopt;
  TensorFacts t = c.facts.told(v);
  return t.hasRank && t.hasAllSizes() ? std::optional(t.sizes) : std::nullopt;
}

Known dtypeOf(const Arguments& a, RewriteContext& c) {
  DType d = toldDType(a.value, c);
  return d == DType::Undefined ? Known() : IValue(shortName(d));
}
Known rankOf(const Arguments& a, RewriteContext& c) {
  if (!a.value->type()->isTensor()) return std::nullopt;
  const TensorFacts t = c.facts.told(a.value);
  return t.hasRank ? IValue(static_cast<int64_t>(t.sizes.size())) : Known();
}
Known inSet(const Arguments& a, RewriteContext& c, DTypeSet set) {
  if (!a.value->type()->isTensor()) return std::nullopt;
  DType d = toldDType(a.value, c);
  return d == DType::Undefined ? Known() : IValue(set.contains(d));
}
Known isFloating(const Arguments& a, RewriteContext& c) { return inSet(a, c, kFloatingTypes); }
Known isIntegral(const Arguments& a, RewriteContext& c) { return inSet(a, c, kIntegerTypes | kBoolType); }
Known isComplex(const Arguments& a, RewriteContext& c) { return inSet(a, c, kComplexTypes); }
Known isConstant(const Arguments& a, RewriteContext&) { return IValue(GraphFacts::constant(a.value) != nullptr); }
Known isNone(const Arguments& a, RewriteContext&) { return IValue(GraphFacts::isNone(a.value)); }
Known useCount(const Arguments& a, RewriteContext&) { return IValue(static_cast<int64_t>(a.value->useCount())); }
Known numelOf(const Arguments& a, RewriteContext& c) {
  std::optional<Dims> sizes = toldSizes(a.value, c);
  std::optional<int64_t> count = sizes ? knownNumel(*sizes) : std::nullopt;
  return count ? IValue(*count) : Known();
}
Known isUnseen(const Arguments& a, RewriteContext& c) { return IValue(c.facts.isUnseen(a.value)); }
Known isWritten(const Arguments& a, RewriteContext& c) { return IValue(c.facts.isWritten(a.value)); }
Known lengthOf(const Arguments& a, RewriteContext& c) {
  const SymbolicValue& s = c.facts.symbolic(a.value);
  if (s.hasItems) return IValue(static_cast<int64_t>(s.items.size()));
  if (s.integers && s.type->is(TypeKind::List)) return IValue(static_cast<int64_t>(s.integers->size()));
  return std::nullopt;
}

// Open sizes are the same where they are the same expression of those of the inputs.
Known sameShape(const Arguments& a, RewriteContext& c) {
  if (!a.value->type()->isTensor() || !a.other->type()->isTensor()) return std::nullopt;
  const TensorFacts x = c.facts.told(a.value), y = c.facts.told(a.other);
  if (!x.hasRank || !y.hasRank) return std::nullopt;
  if (x.sizes.size() != y.sizes.size()) return IValue(false);
  bool isKnown = true;
  for (size_t i = 0; i < x.sizes.size(); ++i) {
    if (isKnownSize(x.sizes[i]) && isKnownSize(y.sizes[i]) && x.sizes[i] != y.sizes[i]) return IValue(false);
    isKnown &= x.sizes[i] == y.sizes[i] && x.sizes[i] != kUnknownSize;
  }
  return isKnown ? IValue(true) : Known();
}

// Sizes of an open one, too: [N, 4 * M] of [N, M, 4].
Known sameNumel(const Arguments& a, RewriteContext& c) {
  if (!a.value->type()->isTensor() || !a.other->type()->isTensor()) return std::nullopt;
  const TensorFacts x = c.facts.told(a.value), y = c.facts.told(a.other);
  if (!x.hasRank || !y.hasRank) return std::nullopt;
  const std::optional<bool> same = equal(elementCount(x.sizes), elementCount(y.sizes));
  return same ? IValue(*same) : Known();
}

// Whether the node behind a value was made in a part of the model: names between dots, one after the other.
Known inScope(const Arguments& a, RewriteContext&) {
  if (!a.value || !a.value->node()) return Known();
  std::string scope = "." + std::string(a.value->node()->scope.text()) + ".";
  for (char& c : scope)
    if (c == '/' || c == ':') c = '.';
  return IValue(scope.find("." + std::string(a.second->toString()) + ".") != std::string::npos);
}

Known isInOrder(const Arguments& a, RewriteContext& c) { return IValue(liesInOrder(a.value, c.facts)); }
Known mayReplace(const Arguments& a, RewriteContext& c) { return IValue(c.facts.mayReplace(a.other, a.value)); }

Known sizeOf(const Arguments& a, RewriteContext& c) {
  if (!a.value->type()->isTensor()) return std::nullopt;
  const TensorFacts t = c.facts.told(a.value);
  if (!t.hasRank || !a.second || !a.second->isInt()) return std::nullopt;
  int64_t i = a.second->toInt(), rank = static_cast<int64_t>(t.sizes.size());
  if (i < 0) i += rank;
  if (i < 0 || i >= rank || t.sizes[static_cast<size_t>(i)] < 0) return std::nullopt;
  return IValue(t.sizes[static_cast<size_t>(i)]);
}

// All functions; docs/rewriting.md has them in a table.
struct NamedFunction {
  std::string_view name;
  enum class Second : uint8_t { None, Value, String, Term } second;
  Known (*function)(const Arguments&, RewriteContext&);
};
using Second = NamedFunction::Second;
constexpr NamedFunction kFunctions[] = {
    {"dtype", Second::None, dtypeOf},
    {"rank", Second::None, rankOf},
    {"size", Second::Term, sizeOf},
    {"numel", Second::None, numelOf},
    {"same_shape", Second::Value, sameShape},
    {"same_numel", Second::Value, sameNumel},
    {"floating", Second::None, isFloating},
    {"integral", Second::None, isIntegral},
    {"complex", Second::None, isComplex},
    {"constant", Second::None, isConstant},
    {"none", Second::None, isNone},
    {"length", Second::None, lengthOf},
    {"uses", Second::None, useCount},
    {"written", Second::None, isWritten},
    {"unseen", Second::None, isUnseen},
    {"scope", Second::String, inScope},
    {"may_replace", Second::Value, mayReplace},
    {"in_order", Second::None, isInOrder},
};

// The value of a number, string or flag in the graph; a list of known ints as a list.
Known valueOf(Value* v, RewriteContext& c) {
  if (const IValue* k = GraphFacts::constant(v)) return k->isTensor() ? Known() : Known(*k);
  const SymbolicValue& s = c.facts.symbolic(v);
  return s.constant && !s.constant->isTensor() ? s.constant : std::nullopt;
}

// ---- reading ----

class ConditionReader {
 public:
  ConditionReader(std::string_view text, SourceRange at, const Pattern& pattern, Diagnostics& diagnostics)
      : text_(text), range_(at), pattern_(pattern), diagnostics_(diagnostics) {}

  std::optional<Term> read() {
    std::optional<Term> t = either(0);
    skip();
    if (t && at_ < text_.size()) return fail("expected the end of the condition");
    return t;
  }

 private:
  std::optional<Term> fail(std::string message) {
    SourceRange where = range_;
    if (where.valid()) {
      where.begin = static_cast<uint32_t>(std::min<size_t>(range_.begin + at_, range_.end));
      where.end = std::min(where.begin + 1, std::max(range_.end, where.begin));
    }
    if (!failed_) diagnostics_.error(where, std::move(message));
    failed_ = true;
    return std::nullopt;
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  static bool isWordByte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  }
  std::string_view word() {
    skip();
    size_t begin = at_;
    while (at_ < text_.size() && isWordByte(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  bool takeWord(std::string_view wanted) {
    size_t before = at_;
    if (word() == wanted) return true;
    at_ = before;
    return false;
  }

  std::optional<Term> either(int depth) {
    constexpr int kDeepest = 50;
    if (depth > kDeepest) return fail("a condition this deep");
    std::optional<Term> a = both(depth);
    while (a && takeWord("or")) {
      std::optional<Term> b = both(depth);
      if (!b) return std::nullopt;
      a = Term([a = *a, b = *b](const Match& m, RewriteContext& c) -> Known {
        Known x = truth(a(m, c));
        if (x && x->toBool()) return x;
        return truth(b(m, c));
      });
    }
    return a;
  }

  std::optional<Term> both(int depth) {
    std::optional<Term> a = negation(depth);
    while (a && takeWord("and")) {
      std::optional<Term> b = negation(depth);
      if (!b) return std::nullopt;
      a = Term([a = *a, b = *b](const Match& m, RewriteContext& c) -> Known {
        Known x = truth(a(m, c));
        if (!x || !x->toBool()) return x;
        return truth(b(m, c));
      });
    }
    return a;
  }

  std::optional<Term> negation(int depth) {
    if (!takeWord("not")) return comparison(depth);
    std::optional<Term> a = comparison(depth);
    if (!a) return std::nullopt;
    return Term([a = *a](const Match& m, RewriteContext& c) -> Known {
      Known x = truth(a(m, c));
      return x ? Known(IValue(!x->toBool())) : x;
    });
  }

  std::optional<Term> comparison(int depth) {
    std::optional<Term> a = sum(depth);
    if (!a) return std::nullopt;
    if (takeWord("in")) return membership(*a, depth);
    for (std::string_view op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!take(op)) continue;
      std::optional<Term> b = sum(depth);
      if (!b) return std::nullopt;
      return Term([a = *a, b = *b, op](const Match& m, RewriteContext& c) -> Known {
        Known x = a(m, c), y = b(m, c);
        return x && y ? compare(op, *x, *y) : Known();
      });
    }
    return a;
  }

  std::optional<Term> membership(Term a, int depth) {
    if (!take("{")) return fail("expected '{' after 'in'");
    std::vector<Term> items;
    do {
      std::optional<Term> item = sum(depth);
      if (!item) return std::nullopt;
      items.push_back(*item);
    } while (take(","));
    if (!take("}")) return fail("expected ',' or '}'");
    return Term([a = std::move(a), items](const Match& m, RewriteContext& c) -> Known {
      Known x = a(m, c);
      if (!x) return x;
      for (const Term& item : items)
        if (Known y = item(m, c); y && compare("==", *x, *y)->toBool()) return IValue(true);
      return IValue(false);
    });
  }

  std::optional<Term> sum(int depth) {
    std::optional<Term> a = product(depth);
    while (a) {
      skip();
      char op = at_ < text_.size() ? text_[at_] : '\0';
      if (op != '+' && op != '-') break;
      ++at_;
      a = joined(*a, product(depth), op);
    }
    return a;
  }
  std::optional<Term> product(int depth) {
    std::optional<Term> a = term(depth);
    while (a && take("*")) a = joined(*a, term(depth), '*');
    return a;
  }
  static std::optional<Term> joined(Term a, std::optional<Term> b, char op) {
    if (!b) return std::nullopt;
    return Term([a = std::move(a), b = *b, op](const Match& m, RewriteContext& c) -> Known {
      Known x = a(m, c), y = b(m, c);
      return x && y ? arithmetic(op, *x, *y) : Known();
    });
  }

  std::optional<Term> term(int depth) {
    skip();
    char first = at_ < text_.size() ? text_[at_] : '\0';
    if (first == '(') {
      ++at_;
      std::optional<Term> t = either(depth + 1);
      return !t || take(")") ? t : fail("expected ')'");
    }
    if (first == '%') {
      std::optional<Name> n = name();
      if (!n) return std::nullopt;
      return Term([n = *n](const Match& m, RewriteContext& c) { return valueOf(m[n], c); });
    }
    if (first == '$') {
      ++at_;
      size_t begin = at_;
      std::string n(word());
      if (!pattern_.hasVariable(n)) {
        at_ = begin;
        return fail("the pattern has no variable $" + n);
      }
      return Term([n](const Match& m, RewriteContext&) {
        const IValue* v = m.attribute(n);
        return v ? Known(*v) : Known();
      });
    }
    if (first == '"' || first == '\'') return string(first);
    if (first == '[') return list(depth);
    if ((first >= '0' && first <= '9') || first == '-' || first == '.') return number();
    return function(depth);
  }

  std::optional<Name> name() {
    if (!take("%")) {
      fail("expected a value such as %x");
      return std::nullopt;
    }
    std::string n(word());
    if (pattern_.graph().find(n)) return n;
    fail("the pattern has no value %" + n);
    return std::nullopt;
  }

  std::optional<Term> string(char quote) {
    size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return fail("the string does not end");
    std::string s(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return constant(IValue(s));
  }

  std::optional<Term> list(int depth) {
    ++at_;
    std::vector<Term> items;
    if (!take("]")) {
      do {
        std::optional<Term> item = sum(depth);
        if (!item) return std::nullopt;
        items.push_back(*item);
      } while (take(","));
      if (!take("]")) return fail("expected ',' or ']'");
    }
    return Term([items](const Match& m, RewriteContext& c) -> Known {
      std::vector<IValue> values;
      for (const Term& item : items) {
        Known x = item(m, c);
        if (!x) return x;
        values.push_back(*x);
      }
      TypePtr element = values.empty() ? types().integer : dynamicType(values[0]);
      return IValue(Ref<ListValue>::make(element, std::move(values)));
    });
  }

  std::optional<Term> number() {
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    int64_t integer = 0;
    auto [stop, error] = std::from_chars(begin, end, integer);
    if (error == std::errc() && (stop == end || (*stop != '.' && *stop != 'e'))) {
      at_ += static_cast<size_t>(stop - begin);
      return constant(IValue(integer));
    }
    double floating = 0;
    auto [after, wrong] = std::from_chars(begin, end, floating);
    if (wrong != std::errc()) return fail("expected a number");
    at_ += static_cast<size_t>(after - begin);
    return constant(IValue(floating));
  }

  static Term constant(IValue v) {
    return [v = std::move(v)](const Match&, RewriteContext&) { return Known(v); };
  }

  std::optional<Term> function(int depth) {
    size_t before = at_;
    std::string_view w = word();
    if (w.empty()) return fail("expected a value, a number or a function");
    if (w == "True" || w == "False") return constant(IValue(w == "True"));
    if (w == "None") return constant(IValue());
    if (!take("(")) {
      const std::string_view name = w.starts_with("torch.") ? w.substr(6) : w;
      if (std::optional<DType> d = dtypeFromName(name)) return constant(IValue(shortName(*d)));
      at_ = before;
      return fail("'" + std::string(w) + "' is no dtype such as f32, no %value, number or function");
    }
    auto known = std::find_if(std::begin(kFunctions), std::end(kFunctions), [&](const auto& f) { return f.name == w; });
    if (known == std::end(kFunctions)) {
      at_ = before;
      return fail(unknownFunction(w));
    }
    std::optional<Term> call = callOf(*known, depth);
    return !call || take(")") ? call : fail("expected ')'");
  }

  static std::string unknownFunction(std::string_view name) {
    NearestName nearest(name);
    for (const NamedFunction& f : kFunctions) nearest.consider(f.name);
    return "there is no function '" + std::string(name) + "'" +
           (nearest.found() ? "; did you mean '" + nearest.name() + "'?" : "");
  }

  // What stands between the brackets of a function.
  std::optional<Term> callOf(const NamedFunction& f, int depth) {
    std::optional<Name> first = name(), other;
    if (!first) return std::nullopt;
    if (f.second != Second::None && !take(",")) return fail("expected ','");
    if (f.second == Second::Value && !(other = name())) return std::nullopt;
    std::optional<Term> second;
    if (f.second == Second::Term && !(second = sum(depth + 1))) return std::nullopt;
    if (f.second == Second::String && !(second = quoted())) return std::nullopt;
    return Term([function = f.function, first = *first, other, second](const Match& m, RewriteContext& c) {
      return function({m[first], other ? m[*other] : nullptr, second ? (*second)(m, c) : Known()}, c);
    });
  }

  std::optional<Term> quoted() {
    skip();
    bool begins = at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'');
    return begins ? string(text_[at_]) : fail("expected a string");
  }

  std::string_view text_;
  SourceRange range_;
  const Pattern& pattern_;
  Diagnostics& diagnostics_;
  size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace

Result<Condition> parseCondition(std::string_view text, SourceRange at, const Pattern& pattern,
                                 Diagnostics& diagnostics) {
  std::optional<Term> term = ConditionReader(text, at, pattern, diagnostics).read();
  if (!term) return Failed{};
  return Condition{[term = *term](const Match& m, RewriteContext& c) {
                     Known v = truth(term(m, c));
                     return v && v->toBool();
                   },
                   [term = *term](const Match& m, RewriteContext& c) { return term(m, c).has_value(); }};
}

}  // namespace tscompile
