#include "api/binding/foreign_operators.h"
#include "api/c/handles.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

using namespace tscompile;
using namespace tscompile::c;

namespace {

ErrorKind kindOf(tscompile_status status) {
  for (ErrorKind kind :
       {ErrorKind::Input, ErrorKind::Unsupported, ErrorKind::Io, ErrorKind::Limit, ErrorKind::Interrupted})
    if (statusOf(kind) == status) return kind;
  return ErrorKind::Model;
}

// Handles of results, freed whatever comes.
struct Results {
  explicit Results(size_t count) : handles(count) {}
  ~Results() {
    for (tscompile_value* v : handles) tscompile_value_free(v);
  }

  // An argument's handle, or one that is there twice, would be freed twice: such a result is let go, and its number
  // told.
  std::optional<size_t> dropForeign(std::span<const tscompile_value* const> arguments) {
    std::optional<size_t> first;
    for (size_t i = 0; i < handles.size(); ++i) {
      const auto earlier = handles.begin() + static_cast<std::ptrdiff_t>(i);
      if (!handles[i] || (std::find(arguments.begin(), arguments.end(), handles[i]) == arguments.end() &&
                          std::find(handles.begin(), earlier, handles[i]) == earlier))
        continue;
      handles[i] = nullptr;
      if (!first) first = i;
    }
    return first;
  }

  std::vector<tscompile_value*> handles;
};

std::vector<IValue> call(tscompile_operator function, void* user_data, std::span<const IValue* const> given,
                         size_t count) {
  std::vector<tscompile_value> values;
  for (const IValue* v : given) values.push_back({*v});
  std::vector<const tscompile_value*> arguments;
  for (const tscompile_value& v : values) arguments.push_back(&v);
  Results results(count);
  std::array<char, 1024> message{};
  const tscompile_status status = function(user_data, arguments.data(), arguments.size(), results.handles.data(), count,
                                           message.data(), message.size());
  message.back() = '\0';
  const std::optional<size_t> foreign = results.dropForeign(arguments);
  if (status != TSCOMPILE_OK)
    throw ExecutionError(kindOf(status), message[0] ? message.data() : "the function of the operator failed");
  if (foreign)
    throw ExecutionError(ErrorKind::Model,
                         fmt::format("its function gave the handle of an argument or of another result as result {}: "
                                     "give a handle of its own, by tscompile_value_share",
                                     *foreign + 1));
  std::vector<IValue> out;
  for (tscompile_value* v : results.handles) out.push_back(v ? std::move(v->value) : IValue());
  return out;
}

}  // namespace

struct tscompile_shapes {
  InferCall& call;
  std::vector<std::optional<TensorSpec>> told;
};

namespace {

void infer(tscompile_operator_shapes function, void* user_data, InferCall& call) {
  tscompile_shapes shapes{call, std::vector<std::optional<TensorSpec>>(call.op().schema().returns.size())};
  std::array<char, 1024> message{};
  const tscompile_status status = function(user_data, &shapes, message.data(), message.size());
  message.back() = '\0';
  if (status != TSCOMPILE_OK)
    throw ExecutionError(kindOf(status), message[0] ? message.data() : "the shape function of the operator failed");
  for (const std::optional<TensorSpec>& t : shapes.told)
    if (!t)
      call.resultUnknown();
    else
      t->hasRank ? call.result(t->dtype, t->sizes) : call.resultOfUnknownRank(t->dtype);
}

tscompile_status registerWith(const char* schema, tscompile_operator function, tscompile_operator_shapes shapes,
                              void* user_data, tscompile_error** error) {
  return guarded(error, [&] {
    given(schema, "schema");
    if (!function) failUsage("function is NULL");
    Diagnostics diagnostics;
    ForeignOperator made{schema, [=](std::span<const IValue* const> arguments, std::span<const Argument> results) {
                           return call(function, user_data, arguments, results.size());
                         }};
    if (shapes) made.infer = [=](InferCall& inferred) { infer(shapes, user_data, inferred); };
    if (!registerOperator(std::move(made), diagnostics)) fail(diagnostics);
  });
}

int fillWith(const TensorInfo& t, tscompile_tensor* out) {
  tscompile_tensor from{};
  from.dtype = t.dtype == DType::Undefined ? TSCOMPILE_UNKNOWN_DTYPE : static_cast<tscompile_dtype>(t.dtype);
  from.rank = t.hasRank ? static_cast<int32_t>(t.rank()) : -1;
  from.sizes = t.hasRank ? t.sizes.data() : nullptr;
  from.read_only = 1;
  return fill(out, from);
}

// What is asked of the arguments; `otherwise` where it is not known or no such thing.
template <class T, class Ask>
T asked(const tscompile_shapes* shapes, T otherwise, Ask&& ask) noexcept {
  if (!shapes) return otherwise;
  try {
    return ask(shapes->call);
  } catch (const InferCall::NotKnown&) {
  } catch (const std::exception&) {
  }
  return otherwise;
}

}  // namespace

tscompile_status tscompile_register_operator(const char* schema, tscompile_operator function, void* user_data,
                                             tscompile_error** error) {
  return registerWith(schema, function, nullptr, user_data, error);
}

tscompile_status tscompile_register_shaped_operator(const char* schema, tscompile_operator function,
                                                    tscompile_operator_shapes shapes, void* user_data,
                                                    tscompile_error** error) {
  return registerWith(schema, function, shapes, user_data, error);
}

int tscompile_shapes_tensor(const tscompile_shapes* shapes, size_t index, tscompile_tensor* out) {
  return asked(shapes, 0, [&](const InferCall& call) { return fillWith(call.tensor(index), out); });
}

size_t tscompile_shapes_count(const tscompile_shapes* shapes, size_t index) {
  return asked(shapes, size_t{0}, [&](const InferCall& call) { return call.optionalTensors(index).size(); });
}

int tscompile_shapes_item(const tscompile_shapes* shapes, size_t index, size_t item, tscompile_tensor* out) {
  return asked(shapes, 0, [&](const InferCall& call) {
    const std::vector<std::optional<TensorInfo>> all = call.optionalTensors(index);
    return item < all.size() && all[item] ? fillWith(*all[item], out) : 0;
  });
}

int tscompile_shapes_int(const tscompile_shapes* shapes, size_t index, int64_t* out) {
  if (!out) return 0;
  *out = TSCOMPILE_OPEN;
  return asked(shapes, 0, [&](const InferCall& call) {
    const int64_t size = call.size(index);
    *out = isUnknownInteger(size) ? integerAsSize(size) : size;
    return isUnknownInteger(size) ? 0 : 1;
  });
}

tscompile_value* tscompile_shapes_value(const tscompile_shapes* shapes, size_t index) {
  return asked(shapes, static_cast<tscompile_value*>(nullptr), [&](const InferCall& call) -> tscompile_value* {
    const IValue* v = index < call.size() ? call.constant(index) : nullptr;
    if (!v || v->isTensor() || (v->isList() && v->toList().elementType && v->toList().elementType->isTensor()))
      return nullptr;
    return new tscompile_value{*v};
  });
}

tscompile_status tscompile_shapes_result(tscompile_shapes* shapes, size_t index, tscompile_dtype dtype, int32_t rank,
                                         const int64_t* sizes) {
  if (!shapes || index >= shapes->told.size() || rank < -1 || rank > kMaxRank || (rank > 0 && !sizes))
    return TSCOMPILE_USAGE;
  const std::optional<DType> known = dtypeFromNumber(dtype);
  if (dtype != TSCOMPILE_UNKNOWN_DTYPE && (!known || !isSupported(*known))) return TSCOMPILE_USAGE;
  TensorSpec told{dtype == TSCOMPILE_UNKNOWN_DTYPE ? DType::Undefined : *known, rank >= 0, {}};
  for (int32_t d = 0; d < rank; ++d) {
    if (sizes[d] < 0 && shapes->call.isRun()) return TSCOMPILE_USAGE;
    told.sizes.push_back(sizes[d]);
  }
  shapes->told[index] = std::move(told);
  return TSCOMPILE_OK;
}
