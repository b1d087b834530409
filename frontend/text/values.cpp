#include "frontend/text/values.h"

#include "ir/support/number_of_text.h"
#include "ir/support/text.h"
#include "ir/values/carried_types.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tscompile::frontend {
namespace {

IValue missing(std::string_view text) {
  return Ref<LiteralValue>::make(std::string(text), LiteralValue::Kind::MissingTensor);
}

// Writes a number into a tensor of any dtype.
void store(const Tensor& t, int64_t index, std::complex<double> v) {
  visitDType(t.dtype(), [&](auto sample) {
    using T = decltype(sample);
    T* p = t.data<T>() + index;
    if constexpr (std::is_same_v<T, std::complex<float>>)
      *p = {static_cast<float>(v.real()), static_cast<float>(v.imag())};
    else if constexpr (std::is_same_v<T, std::complex<double>>)
      *p = v;
    else if constexpr (std::is_same_v<T, bool>)
      *p = v.real() != 0;
    else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      *p = T(static_cast<float>(v.real()));
    else if constexpr (std::is_integral_v<T>)
      *p = std::fabs(v.real()) < 9.2e18 ? static_cast<T>(static_cast<int64_t>(v.real())) : T{};
    else
      *p = static_cast<T>(v.real());
  });
}

// The least type that all items fit, for lists without an annotation.
TypePtr commonType(const Slice<Literal*>& items) {
  bool integers = true, floats = true, complexes = true, strings = true, bools = true;
  for (Literal* l : items) {
    bool isInt = l->kind == Literal::Kind::Integer, isFloat = l->kind == Literal::Kind::Float;
    integers &= isInt;
    floats &= isInt || isFloat;
    complexes &= isInt || isFloat || l->kind == Literal::Kind::Imaginary;
    strings &= l->kind == Literal::Kind::String;
    bools &= l->kind == Literal::Kind::Bool;
  }
  if (items.size == 0) return types().any;
  if (integers) return types().integer;
  if (floats) return types().floating;
  if (complexes) return types().complex;
  if (strings) return types().string;
  if (bools) return types().boolean;
  return nullptr;
}

TypePtr elementOf(TypePtr type, TypeKind kind, size_t i) {
  if (type && type->is(TypeKind::Optional)) type = type->element();
  return type && type->is(kind) && i < type->elements().size() ? type->element(i) : nullptr;
}

IValue listValue(ParseContext& ctx, Literal& l, TypePtr expected) {
  TypePtr listed = l.type ? l.type : expected;
  TypePtr element = elementOf(listed, TypeKind::List, 0);
  if (!element) element = commonType(l.items);
  std::vector<IValue> items;
  items.reserve(l.items.size);
  for (Literal* item : l.items) items.push_back(literalValue(ctx, *item, element));
  if (!element) element = dynamicType(items[0]);
  return Ref<ListValue>::make(element, std::move(items));
}

IValue dictValue(ParseContext& ctx, Literal& l, TypePtr expected) {
  TypePtr type = l.type ? l.type : expected;
  TypePtr key = elementOf(type, TypeKind::Dict, 0), value = elementOf(type, TypeKind::Dict, 1);
  std::vector<IValue> keys, values;
  for (uint32_t i = 0; i + 1 < l.items.size; i += 2) {
    keys.push_back(literalValue(ctx, *l.items[i], key));
    values.push_back(literalValue(ctx, *l.items[i + 1], value));
  }
  if (!key) key = keys.empty() ? types().any : dynamicType(keys[0]);
  if (!value) value = values.empty() ? types().any : dynamicType(values[0]);
  auto dict = Ref<DictValue>::make(key, value);
  for (size_t i = 0; i < keys.size(); ++i) dict->set(keys[i], std::move(values[i]));
  return dict;
}

}  // namespace

IValue scalarTensorLiteral(std::string_view text, Literal& number, TypePtr type) {
  // Without a dtype the text is ambiguous: 3 is printed for 3, 3.0 and True alike.
  if (!type || !type->isTensor() || type->tensor().dtype == DType::Undefined || !isSupported(type->tensor().dtype) ||
      isCarried(type->tensor().dtype))
    return missing(text);
  const TensorFacts& f = type->tensor();
  Dims sizes;
  if (f.hasRank && f.hasAllSizes()) sizes = f.sizes;
  if (checkedNumel(sizes) != 1) return missing(text);
  Tensor t = Tensor::empty(f.dtype, sizes);
  auto real = [](Literal* l) {
    return l->kind == Literal::Kind::Integer ? static_cast<double>(l->integer) : l->number;
  };
  std::complex<double> v = number.kind == Literal::Kind::Tuple
                               ? std::complex<double>(real(number.items[0]), real(number.items[1]))
                               : real(&number);
  bool exact = true;
  if (number.kind == Literal::Kind::Integer && f.dtype == DType::Int64) {
    *t.data<int64_t>() = number.integer;
  } else {
    store(t, 0, v);
    // Floats are printed with six digits; fewer mean that there are no more.
    size_t digits = 0;
    for (char c : text.substr(0, text.find('e'))) digits += c >= '0' && c <= '9';
    exact = isIntegral(f.dtype, true) || digits < 6;
  }
  t.storage()->makeReadOnly();
  return Ref<LiteralValue>::make(
      std::string(text), exact ? LiteralValue::Kind::ExactTensor : LiteralValue::Kind::RoundedTensor, std::move(t));
}

namespace {

// The numbers of an inline tensor, which stand matrix by matrix, in groups of columns, row by row.
class InlineNumbers {
 public:
  InlineNumbers(std::string_view text, const Tensor& out) : text_(text), out_(out) {
    rowLength_ = out.rank() < 2 ? out.numel() : out.size(out.rank() - 1);
    matrix_ = out.rank() < 2 ? out.numel() : rowLength_ * out.size(out.rank() - 2);
    last_ = rowLength_ - 1;
  }

  // False if the text is not such a list; `exact` tells whether every number is shown in full.
  bool read(bool& exact) {
    exact = true;
    while (true) {
      at_ = std::min(text_.find_first_not_of(' ', at_), text_.size());
      if (at_ == text_.size()) return stored_ == out_.numel();
      if (text_[at_] == '(') {
        at_ = std::min(text_.find('=', at_), text_.size() - 1) + 1;
        if (matrices_++ > 0) base_ += matrix_;
        startColumns(0, rowLength_ - 1);
      } else if (text_[at_] == 'C') {
        if (!columns()) return false;
      } else if (!number(exact)) {
        return false;
      }
    }
  }

 private:
  void startColumns(int64_t first, int64_t last) {
    first_ = column_ = first;
    last_ = last;
    row_ = 0;
    scale_ = 1;
  }

  // "Columns 1 to 6"
  bool columns() {
    const char* end = text_.data() + text_.size();
    int64_t from = 0, to = 0;
    auto a = std::from_chars(text_.data() + at_ + 8, end, from);
    if (a.ec != std::errc() || end - a.ptr < 4) return false;
    auto b = std::from_chars(a.ptr + 4, end, to);
    if (b.ec != std::errc() || from < 1 || to < from || to > rowLength_) return false;
    at_ = static_cast<size_t>(b.ptr - text_.data());
    startColumns(from - 1, to - 1);
    return true;
  }

  bool number(bool& exact) {
    size_t stop = std::min(text_.find(' ', at_), text_.size());
    std::string_view word = text_.substr(at_, stop - at_);
    double v = 0;
    if (word == "nan") {
      v = std::nan("");
    } else if (word == "inf" || word == "-inf") {
      v = word[0] == '-' ? -HUGE_VAL : HUGE_VAL;
    } else {
      const auto number = numberOfText<double>(word);
      if (!number) return false;
      v = *number;
      exact &= word.find_first_of(".e") == std::string_view::npos;
    }
    at_ = std::min(text_.find_first_not_of(' ', stop), text_.size());
    if (at_ < text_.size() && text_[at_] == '*') {  // "0.001 *": a factor of what follows
      ++at_;
      scale_ = v;
      exact = false;
      return true;
    }
    int64_t index = base_ + row_ * rowLength_ + column_;
    if (index >= out_.numel() || stored_ >= out_.numel()) return false;
    store(out_, index, v * scale_);
    ++stored_;
    if (++column_ > last_) {
      column_ = first_;
      ++row_;
    }
    return true;
  }

  std::string_view text_;
  Tensor out_;
  size_t at_ = 0;
  int64_t rowLength_, matrix_, base_ = 0, row_ = 0, first_ = 0, last_, column_ = 0, stored_ = 0;
  int matrices_ = 0;
  double scale_ = 1;
};

}  // namespace

IValue tensorLiteral(std::string_view text) {
  size_t end = text.rfind("Type{");
  size_t open = text.rfind("[ ", end);
  if (end == std::string_view::npos || open == std::string_view::npos) return missing(text);
  std::string_view name = text.substr(open + 2, end - open - 2);
  if (!startsWith(name, "CPU") && !startsWith(name, "CUDA")) return missing(text);
  name.remove_prefix(startsWith(name, "CPU") ? 3 : 4);
  std::optional<DType> dtype = dtypeFromGraphName(name);
  if (!dtype || !isSupported(*dtype) || isCarried(*dtype) || isComplex(*dtype)) return missing(text);

  Dims sizes;
  std::string_view dims = text.substr(end + 5, text.find('}', end) - end - 5);
  while (!dims.empty()) {
    int64_t size = 0;
    auto [stop, failure] = std::from_chars(dims.data(), dims.data() + dims.size(), size);
    if (failure != std::errc()) return missing(text);
    sizes.push_back(size);
    dims.remove_prefix(static_cast<size_t>(stop - dims.data()));
    if (!dims.empty()) dims.remove_prefix(1);
  }
  std::optional<int64_t> count = checkedNumel(sizes);
  constexpr int64_t kMostShown = 10;
  if (!count || *count > kMostShown) return missing(text);

  Tensor t = Tensor::empty(*dtype, sizes);
  bool exact = true;
  if (!InlineNumbers(text.substr(0, open), t).read(exact)) return missing(text);
  t.storage()->makeReadOnly();
  return Ref<LiteralValue>::make(
      std::string(text), exact ? LiteralValue::Kind::ExactTensor : LiteralValue::Kind::RoundedTensor, std::move(t));
}

IValue literalValue(ParseContext& ctx, Literal& l, TypePtr expected) {
  if (expected && expected->is(TypeKind::Optional)) expected = expected->element();
  TypeKind kind = expected ? expected->kind() : TypeKind::Any;
  switch (l.kind) {
    case Literal::Kind::Integer:
      if (kind == TypeKind::Float) return static_cast<double>(l.integer);
      if (kind == TypeKind::Complex) return std::complex<double>(static_cast<double>(l.integer), 0);
      if (kind == TypeKind::Bool && (l.integer == 0 || l.integer == 1)) return l.integer == 1;
      return l.integer;
    case Literal::Kind::Float:
      if (kind == TypeKind::Complex) return std::complex<double>(l.number, 0);
      return l.number;
    case Literal::Kind::Imaginary:
      return std::complex<double>(l.real, l.number);
    case Literal::Kind::Bool:
      return l.boolean;
    case Literal::Kind::None:
      return {};
    case Literal::Kind::String:
      if (kind == TypeKind::Device) {
        if (auto device = deviceFromText(l.text)) return *device;
        ctx.error(l.span, "unknown device '" + abbreviate(l.text, 80) + "'");
      }
      return IValue(l.text);
    case Literal::Kind::Device:
      if (auto device = deviceFromText(l.text)) return *device;
      ctx.error(l.span, "unknown device '" + abbreviate(l.text, 80) + "'");
      return {};
    case Literal::Kind::List:
      return listValue(ctx, l, expected);
    case Literal::Kind::Dict:
      return dictValue(ctx, l, expected);
    case Literal::Kind::Tuple: {
      std::vector<IValue> items;
      for (uint32_t i = 0; i < l.items.size; ++i)
        items.push_back(literalValue(ctx, *l.items[i], elementOf(expected, TypeKind::Tuple, i)));
      TypePtr named = expected && expected->isNamedTuple() ? expected : nullptr;
      return Ref<TupleValue>::make(std::move(items), named);
    }
    case Literal::Kind::Scalar:
      return scalarTensorLiteral(l.text, *l.items[0], expected);
    case Literal::Kind::Tensor:
      return tensorLiteral(l.text);
    case Literal::Kind::Tensors:
      return missing(l.text);
    case Literal::Kind::Graph:
    case Literal::Kind::Generator:
    case Literal::Kind::Object:
      return Ref<LiteralValue>::make(std::string(l.text), LiteralValue::Kind::Object);
    case Literal::Kind::Qualified:
      if (kind == TypeKind::Enum) {
        size_t dot = l.text.rfind('.');
        return Ref<EnumValue>::make(expected, std::string(l.text.substr(dot + 1)), IValue());
      }
      return Ref<LiteralValue>::make(std::string(l.text), LiteralValue::Kind::Object);
    case Literal::Kind::Variable:
      return Ref<LiteralValue>::make(std::string(l.text), LiteralValue::Kind::Variable);
    case Literal::Kind::Type:
      ctx.error(l.span, "expected a value, not a type");
      return {};
  }
  return {};
}

Attribute::Payload attributePayload(ParseContext& ctx, Literal& l, TypePtr expected) {
  if (l.kind == Literal::Kind::Type) return l.type;
  if (l.kind == Literal::Kind::Qualified && !(expected && expected->is(TypeKind::Enum)))
    return classType(std::string(l.text));
  bool enums = expected && expected->is(TypeKind::List) && expected->element()->is(TypeKind::Enum);
  if (l.kind == Literal::Kind::List && l.items.size != 0 && !enums) {
    // `types=[int, (str, Tensor), NoneType]`
    std::vector<TypePtr> listed;
    bool any = false;
    for (Literal* item : l.items) {
      TypePtr t = item->kind == Literal::Kind::None ? nullptr : literalAsType(*item);
      any |= t != nullptr;
      listed.push_back(t || item->kind != Literal::Kind::None ? t : types().none);
    }
    if (any) {
      if (std::find(listed.begin(), listed.end(), nullptr) == listed.end()) return listed;
      ctx.error(l.span, "a list mixes types and values");
      return IValue();
    }
  }
  return literalValue(ctx, l, expected);
}

}  // namespace tscompile::frontend
