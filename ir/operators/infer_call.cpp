#include "ir/operators/infer_call.h"

#include "ir/values/size_expression.h"

namespace tscompile {

namespace {
// Functions of others may ask for anything.
void requireArgument(const InferCall& call, size_t i) {
  if (i >= call.size()) [[unlikely]]
    call.fail("argument {}, counted from 0, is asked for, of {}", i, call.size());
}
}  // namespace

bool InferCall::isNone(size_t i) const {
  requireArgument(*this, i);
  if (const IValue* v = known(i)) return v->isNone() || (v->isTensor() && !v->tensorImpl());
  TypePtr t = symbols_[i].type;
  if (t->is(TypeKind::None)) return true;
  if (t->is(TypeKind::Optional) || t->is(TypeKind::Any)) throw NotKnown{};
  return false;
}

bool InferCall::isTensor(size_t i) const {
  requireArgument(*this, i);
  if (const IValue* v = known(i)) return v->isTensor() && v->tensorImpl();
  return symbols_[i].type->isTensor();
}

namespace {
TensorInfo infoOf(const IValue& v) {
  const TensorImpl* t = v.tensorImpl();
  return {t->dtype(), true, t->sizes()};
}
TensorInfo infoOf(TypePtr type) {
  const TensorFacts& f = type->tensor();
  return {f.dtype, f.hasRank, f.sizes};
}
}  // namespace

TensorInfo InferCall::tensor(size_t i) const {
  requireArgument(*this, i);
  if (const IValue* v = known(i)) {
    if (!v->isTensor() || !v->tensorImpl()) {
      if (v->isLiteral() && !values_) return infoOf(symbols_[i].type);
      fail("expected a tensor as argument {}", i + 1);
    }
    return infoOf(*v);
  }
  TypePtr t = symbols_[i].type;
  if (t->is(TypeKind::Optional)) t = t->element();
  if (!t->isTensor()) throw NotKnown{};
  return infoOf(t);
}

TensorInfo InferCall::rankedTensor(size_t i) const {
  TensorInfo t = tensor(i);
  if (!t.hasRank) throw NotKnown{};
  return t;
}

std::vector<TensorInfo> InferCall::tensors(size_t i) const {
  requireArgument(*this, i);
  std::vector<TensorInfo> out;
  if (const IValue* v = known(i)) {
    if (!v->isList()) fail("expected a list of tensors as argument {}", i + 1);
    for (const IValue& item : v->toList().items) {
      if (!item.isTensor() || !item.tensorImpl()) fail("expected tensors in the list that is argument {}", i + 1);
      out.push_back(infoOf(item));
    }
    return out;
  }
  if (!symbols_[i].hasItems) throw NotKnown{};
  for (const SymbolicValue& s : symbols_[i].items) {
    if (s.constant && s.constant->isTensor() && s.constant->tensorImpl())
      out.push_back(infoOf(*s.constant));
    else if (s.type->isTensor())
      out.push_back(infoOf(s.type));
    else
      throw NotKnown{};
  }
  return out;
}

std::vector<std::optional<TensorInfo>> InferCall::optionalTensors(size_t i) const {
  requireArgument(*this, i);
  std::vector<std::optional<TensorInfo>> out;
  auto addConstant = [&](const IValue& item) {
    if (item.isTensor() && item.tensorImpl())
      out.push_back(infoOf(item));
    else if (item.isTensor() || item.isNone())
      out.push_back(std::nullopt);
    else
      fail("expected tensors or None in the list that is argument {}", i + 1);
  };
  if (const IValue* v = known(i)) {
    if (!v->isList()) fail("expected a list of tensors as argument {}", i + 1);
    for (const IValue& item : v->toList().items) addConstant(item);
    return out;
  }
  if (!symbols_[i].hasItems) throw NotKnown{};
  for (const SymbolicValue& s : symbols_[i].items) {
    if (s.constant && !s.constant->isLiteral())
      addConstant(*s.constant);
    else if (s.type->isTensor())
      out.push_back(infoOf(s.type));
    else if (s.type->is(TypeKind::None))
      out.push_back(std::nullopt);
    else
      throw NotKnown{};
  }
  return out;
}

int64_t InferCall::integer(size_t i) const {
  int64_t v = size(i);
  if (!values_ && !known(i) && isUnknownInteger(v)) throw NotKnown{};
  return v;
}

namespace {
// Where a tensor is given, integers below 0 mean something else: what is not sure to be a size is not known. Operators
// without a tensor make one of these sizes, or fail.
int64_t asArgument(const Operator& op, int64_t integer) {
  if (!isUnknownInteger(integer) || SizeExpression(integer).range().least >= 0) return integer;
  for (const Argument& a : op.schema().arguments)
    if (a.type->isTensor()) return kUnknownInteger;
  return integer;
}
}  // namespace

int64_t InferCall::size(size_t i) const {
  requireArgument(*this, i);
  if (const IValue* v = known(i)) {
    if (v->isInt()) return v->toInt();
    if (v->isBool()) return v->toBool();
    if (v->isFloat()) return static_cast<int64_t>(v->toFloat());
    fail("expected an integer as argument {}", i + 1);
  }
  if (symbols_[i].integers && symbols_[i].integers->size() == 1) return asArgument(op_, (*symbols_[i].integers)[0]);
  throw NotKnown{};
}

double InferCall::number(size_t i) const {
  requireArgument(*this, i);
  const IValue& v = needed(i);
  if (v.isComplex()) {
    if (v.toComplex().imag() != 0) fail("value cannot be converted to type double without overflow");
    return v.toComplex().real();
  }
  if (!v.isNumber()) fail("expected a number as argument {}", i + 1);
  return v.toDouble();
}

bool InferCall::flag(size_t i) const {
  requireArgument(*this, i);
  const IValue& v = needed(i);
  if (!v.isBool() && !v.isInt()) fail("expected a bool as argument {}", i + 1);
  return v.isInt() ? v.toInt() != 0 : v.toBool();
}

std::string_view InferCall::text(size_t i) const {
  requireArgument(*this, i);
  const IValue& v = needed(i);
  if (!v.isString()) fail("expected a string as argument {}", i + 1);
  return v.toString();
}

Dims InferCall::sizes(size_t i) const {
  requireArgument(*this, i);
  if (const IValue* v = known(i)) {
    Dims out;
    if (v->isInt()) {
      out.push_back(v->toInt());
    } else if (v->isList()) {
      for (const IValue& item : v->toList().items) {
        if (!item.isInt()) fail("expected integers in the list that is argument {}", i + 1);
        out.push_back(item.toInt());
      }
    } else if (!v->isNone()) {
      fail("expected a list of integers as argument {}", i + 1);
    }
    return out;
  }
  if (!symbols_[i].integers) throw NotKnown{};
  Dims out = *symbols_[i].integers;
  for (int64_t& v : out) v = asArgument(op_, v);
  return out;
}

Dims InferCall::integers(size_t i) const {
  Dims out = sizes(i);
  if (!known(i))
    for (int64_t v : out)
      if (isUnknownInteger(v)) throw NotKnown{};
  return out;
}

DType InferCall::scalarType(size_t i) const {
  requireArgument(*this, i);
  TypeKind kind;
  if (const IValue* v = known(i)) {
    if (v->isBool()) return DType::Bool;
    if (!v->isInt() && !v->isFloat() && !v->isComplex()) fail("expected a tensor or a number as argument {}", i + 1);
    kind = v->isInt() ? TypeKind::Int : v->isFloat() ? TypeKind::Float : TypeKind::Complex;
  } else {
    kind = symbols_[i].type->kind();
  }
  switch (kind) {
    case TypeKind::Bool:
      return DType::Bool;
    case TypeKind::Int:
      return DType::Int64;
    case TypeKind::Float:
      return DType::Float64;
    case TypeKind::Complex:
      return DType::Complex128;
    default:
      throw NotKnown{};
  }
}

DType InferCall::dtypeOr(size_t i, DType otherwise) const {
  requireArgument(*this, i);
  const IValue& v = needed(i);
  if (v.isNone()) return otherwise;
  std::optional<DType> dtype = v.isInt() ? dtypeFromNumber(v.toInt()) : std::nullopt;
  if (!dtype) fail("{} is not the number of a dtype", v.isInt() ? v.toInt() : -1);
  return *dtype;
}

int64_t InferCall::wrap(int64_t dim, size_t rank) const {
  int64_t wrapped = dim;
  if (!wrapDim(wrapped, static_cast<int64_t>(rank))) {
    int64_t n = rank == 0 ? 1 : static_cast<int64_t>(rank);
    fail("dimension out of range (expected to be in range of [{}, {}], but got {})", -n, n - 1, dim);
  }
  return wrapped;
}

Dims InferCall::dims(size_t i, size_t rank, bool emptyIsAll) const {
  Dims out;
  if (!isNone(i)) out = integers(i);
  if (out.empty() && emptyIsAll) {
    for (size_t d = 0; d < rank; ++d) out.push_back(static_cast<int64_t>(d));
    return out;
  }
  if (rank > kMaxRank) throw NotKnown{};
  uint64_t seen = 0;
  for (int64_t& d : out) {
    d = wrap(d, rank);
    if (seen >> d & 1) fail("dim {} appears multiple times in the list of dims", d);
    seen |= uint64_t{1} << d;
  }
  return out;
}

InferredResult& InferCall::next() {
  if (resultCount_ == kMaxResults) fail("more than {} results are told", kMaxResults);
  return *new (results() + resultCount_++) InferredResult;
}

void InferCall::result(DType dtype, DimSpan sizes) {
  InferredResult& r = next();
  r.kind = InferredResult::Kind::Tensor;
  r.tensor.dtype = dtype;
  r.tensor.hasRank = true;
  r.tensor.sizes = sizes;
  for (int64_t& s : r.tensor.sizes)
    if (isUnknownInteger(s)) s = integerAsSize(s);  // as size() and sizes() tell arguments
}

void InferCall::result(const TensorInfo& like, DType dtype) {
  if (like.hasRank)
    result(dtype, like.sizes);
  else
    resultOfUnknownRank(dtype);
}

void InferCall::resultOfUnknownRank(DType dtype) {
  InferredResult& r = next();
  r.kind = InferredResult::Kind::Tensor;
  r.tensor.dtype = dtype;
}

void InferCall::resultTensors(std::vector<TensorSpec> tensors) {
  InferredResult& r = next();
  r.kind = InferredResult::Kind::Tensors;
  r.tensors = std::move(tensors);
}

void InferCall::resultSizes(DimSpan sizes) {
  InferredResult& r = next();
  r.kind = InferredResult::Kind::Integers;
  for (int64_t s : sizes) r.tensor.sizes.push_back(sizeAsInteger(s));
}

void InferCall::resultUnknown() { next(); }

void InferCall::resultUndefined() { next().kind = InferredResult::Kind::Undefined; }

}  // namespace tscompile
