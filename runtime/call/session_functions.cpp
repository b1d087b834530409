#include "runtime/call/session_functions.h"

#include "runtime/call/foreign_code.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <unordered_set>

namespace tscompile {

void throwSessionFailure(std::string_view what) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    throw SessionFailure(fmt::format("{} failed: {}", what, e.what()));
  } catch (...) {
    throw SessionFailure(fmt::format("{} failed with an exception of an unknown type", what));
  }
}

bool fits(const IValue& value, const TensorSpec& spec) {
  if (!value.isTensor() || !value.tensorImpl()) return false;
  const TensorImpl& t = *value.tensorImpl();
  if (spec.dtype != DType::Undefined && spec.dtype != t.dtype()) return false;
  return !spec.hasRank || !allKnown(spec.sizes) || std::ranges::equal(spec.sizes, t.sizes());
}

namespace {

using Kind = InferredResult::Kind;

bool isOfKind(const InferredResult& result, TypePtr type) {
  const TypePtr item = type->is(TypeKind::Optional) ? type->element(0) : type;
  switch (result.kind) {
    case Kind::Unknown:
      return true;
    case Kind::Tensor:
    case Kind::Undefined:
      return item->isTensor();
    case Kind::Tensors:
      return item->is(TypeKind::List) && item->element(0)->isTensor();
    case Kind::Integers:
      return item->is(TypeKind::Int) || item->is(TypeKind::List);
  }
  return true;
}

void checkInferred(const InferCall& call) {
  const std::vector<Argument>& returns = call.op().schema().returns;
  if (call.resultCount() != returns.size())
    call.fail("its inference tells {} of the {} results that the schema has", call.resultCount(), returns.size());
  for (size_t i = 0; i < returns.size(); ++i)
    if (!isOfKind(call.inferred(i), returns[i].type))
      call.fail("its inference tells something else of result {} than the schema, where it is {}", i + 1,
                typeText(returns[i].type));
}

}  // namespace

void inferBySession(InferCall& call) {
  if (!call.op().def().session->infer) {
    for (size_t i = 0; i < call.op().schema().returns.size(); ++i) call.resultUnknown();
    return;
  }
  const ForeignCode running("the inference of ", "", call.op().kind().text());
  try {
    call.op().def().session->infer(call);
  } catch (const ExecutionError&) {
    throw;
  } catch (const InferCall::NotKnown&) {
    throw;
  } catch (...) {
    throwSessionFailure("its inference");
  }
  if (call.isRun()) checkInferred(call);
}

namespace {

// The tensors of a value, in containers too, which may hold themselves.
std::vector<Tensor> tensorsOf(const IValue& value) {
  std::vector<Tensor> out;
  std::vector<IValue> todo{value};
  std::unordered_set<const void*> seen;
  while (!todo.empty()) {
    const IValue v = std::move(todo.back());
    todo.pop_back();
    if (v.isTensor() && v.tensorImpl()) out.push_back(v.toTensor());
    if (!(v.isList() || v.isTuple() || v.isDict()) || !seen.insert(v.object()).second) continue;
    if (v.isDict())
      v.toDict().forEachValue([&](const IValue& item) { todo.push_back(item); });
    else
      for (const IValue& item : v.isList() ? v.toList().items : v.toTuple().items) todo.push_back(item);
  }
  return out;
}

// Arguments that the schema says are written may be; a result that it says is one of them is it.
void prepareWrites(KernelCall& call) {
  const Schema& schema = call.op().schema();
  if (!schema.isMutable()) return;
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    const Argument& a = schema.arguments[i];
    if (!a.isWritten() || call.isNone(i)) continue;
    for (const Tensor& t : tensorsOf(call.argument(i))) requireWritable(t);
    if (!call.argument(i).isTensor()) continue;
    for (size_t r = 0; r < std::min(schema.returns.size(), call.resultCount()); ++r)
      if (schema.returns[r].alias == a.alias) call.setResult(r, call.argument(i));
  }
}

}  // namespace

void computeBySession(KernelCall& call) {
  prepareWrites(call);
  const ForeignCode running("the kernel of ", "", call.op().kind().text());
  try {
    call.op().def().session->kernel(call);
  } catch (const ExecutionError&) {
    throw;
  } catch (...) {
    throwSessionFailure("its kernel");
  }
}

namespace {

// A result whose schema does not say whose memory it has is new. In engines all tensors lie in one storage.
void checkNewMemory(const Operator& op, const InferCall& inferred, std::span<const IValue> results) {
  const std::vector<Argument>& returns = op.schema().returns;
  std::vector<Tensor> others, made;
  for (size_t i = 0; i < inferred.size(); ++i)
    if (const IValue* argument = inferred.constant(i))
      for (Tensor& t : tensorsOf(*argument)) others.push_back(std::move(t));
  for (size_t i = 0; i < std::min(returns.size(), results.size()); ++i) {
    made = tensorsOf(results[i]);
    for (const Tensor& t : made) {
      auto isShared = [&](const Tensor& o) { return boundsOverlap(o, t); };
      if (!returns[i].alias && std::ranges::any_of(others, isShared))
        inferred.fail(
            "its kernel gave memory of an argument or of another result as result {}, which the schema says "
            "is new: return a clone",
            i + 1);
      others.push_back(t);
    }
  }
}

}  // namespace

// "Float(2, 3)"
static std::string tensorText(DType dtype, DimSpan sizes) {
  return fmt::format("{}({})", dtype == DType::Undefined ? "Tensor" : graphName(dtype), fmt::join(sizes, ", "));
}

void checkSessionResults(const Operator& op, const InferCall& inferred, std::span<const IValue> results) {
  // Plugins, which may be forgotten, may give fewer rows than they told; what holds them checks that.
  const bool maySizesDiffer = !op.def().session->lifetime.expired();
  const std::vector<Argument>& returns = op.schema().returns;
  for (size_t i = 0; i < std::min(returns.size(), results.size()); ++i) {
    const TypePtr type = returns[i].type;
    if (type->hasVariables()) continue;
    const IValue& result = results[i];
    const bool isInstanceOf = isInstance(result, type);
    if (result.isNone() && !isInstanceOf) inferred.fail("its kernel left result {} unset", i + 1);
    if (!isInstanceOf)
      inferred.fail("its kernel gave {} as result {}, which is {}", typeText(dynamicType(result)), i + 1,
                    typeText(type));
    if (!maySizesDiffer && inferred.inferred(i).kind == Kind::Tensor && result.isTensor() && result.tensorImpl() &&
        !fits(result, inferred.inferred(i).tensor))
      inferred.fail("its kernel gave {} as result {}, where its inference told {}",
                    tensorText(result.toTensor().dtype(), result.toTensor().sizes()), i + 1,
                    tensorText(inferred.inferred(i).tensor.dtype, inferred.inferred(i).tensor.sizes));
  }
  checkNewMemory(op, inferred, results);
}

}  // namespace tscompile
