#include "api/binding/foreign_operators.h"
#include "api/c/handles.h"

#include <array>

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
  if (status != TSCOMPILE_OK)
    throw ExecutionError(kindOf(status), message[0] ? message.data() : "the function of the operator failed");
  std::vector<IValue> out;
  for (tscompile_value* v : results.handles) out.push_back(v ? std::move(v->value) : IValue());
  return out;
}

}  // namespace

tscompile_status tscompile_register_operator(const char* schema, tscompile_operator function, void* user_data,
                                             tscompile_error** error) {
  return guarded(error, [&] {
    given(schema, "schema");
    if (!function) failUsage("function is NULL");
    Diagnostics diagnostics;
    auto compute = [=](std::span<const IValue* const> arguments, std::span<const Argument> results) {
      return call(function, user_data, arguments, results.size());
    };
    if (!registerOperator({schema, compute}, diagnostics)) fail(diagnostics);
  });
}
