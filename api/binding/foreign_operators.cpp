#include "api/binding/foreign_operators.h"

#include "api/support/fitted_values.h"
#include "frontend/files/file_io.h"
#include "runtime/reference/loops/copy.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace tscompile {
namespace {

// By the name of the overload.
struct Registered {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const ForeignOperator>> all;
};
Registered& registered() {
  static Registered& theOnes = *new Registered;  // functions of other languages outlive static objects
  return theOnes;
}

void addTensors(const IValue& v, std::vector<Tensor>& out) {
  if (v.isTensor() && v.tensorImpl()) out.push_back(v.toTensor());
  if (!v.isList()) return;
  for (const IValue& item : v.toList().items)
    if (item.isTensor() && item.tensorImpl()) out.push_back(item.toTensor());
}

// Arrays of other languages are new storages over memory that may be an argument's.
bool shareMemory(const Tensor& a, const Tensor& b) {
  const Storage &x = *a.storage(), &y = *b.storage();
  if (!x.data() || !y.data()) return false;
  return x.data() < y.data() + y.bytes() && y.data() < x.data() + x.bytes();
}

Tensor cloneOf(const Tensor& t) {
  Tensor out = Tensor::empty(t.dtype(), t.sizes());
  copyTensor(out, t);
  return out;
}

// A result that the schema says is new is a copy where it lies in memory that others have.
IValue asNew(IValue v, std::vector<Tensor>& others) {
  std::vector<Tensor> made;
  addTensors(v, made);
  auto isShared = [&](const Tensor& t) {
    return std::ranges::any_of(others, [&](const Tensor& o) { return shareMemory(o, t); });
  };
  if (v.isTensor() && !made.empty() && isShared(made[0])) v = IValue(cloneOf(made[0]));
  if (v.isList() && std::ranges::any_of(made, isShared)) {
    std::vector<IValue> items;
    for (const IValue& item : v.toList().items)
      items.push_back(item.isTensor() && item.tensorImpl() ? IValue(cloneOf(item.toTensor())) : item);
    v = Ref<ListValue>::make(v.toList().elementType, std::move(items));
  }
  addTensors(v, others);
  return v;
}

void compute(const ForeignOperator& op, KernelCall& call) {
  const std::vector<Argument>& returns = call.op().schema().returns;
  std::vector<IValue> results = op.compute(std::span(call.arguments(), call.size()), returns);
  call.require(results.size() == returns.size(), "its function gave {} of {} results", results.size(), returns.size());
  std::vector<Tensor> others;
  for (size_t i = 0; i < call.size(); ++i) addTensors(call.argument(i), others);
  for (size_t i = 0; i < results.size(); ++i) {
    if (returns[i].alias && call.hasOut(i)) continue;  // it is the argument
    if (std::optional<IValue> fit = fitted(results[i], returns[i].type)) results[i] = std::move(*fit);
    call.setResult(i, returns[i].alias ? std::move(results[i]) : asNew(std::move(results[i]), others));
  }
}

UserOperator userOperatorOf(const std::shared_ptr<const ForeignOperator>& op) {
  UserOperator out{.schema = op->schema, .kernel = [op](KernelCall& call) { compute(*op, call); }, .dtypes = {}};
  if (op->infer) out.infer = [op](InferCall& call) { op->infer(call); };
  return out;
}

bool addRules(const std::string& given, const Limits& limits, Extensions& out, Diagnostics& diagnostics) {
  if (given.find('\n') != std::string::npos) return out.addRules(SourceFile::make("<rules>", given), diagnostics);
  Result<std::string> text = readFile(given, limits.textBytes, diagnostics);
  return text && out.addRules(SourceFile::make(given, std::move(*text)), diagnostics);
}

}  // namespace

bool registerOperator(ForeignOperator op, Diagnostics& diagnostics) {
  const std::string name = op.schema.substr(0, op.schema.find('('));
  auto made = std::make_shared<const ForeignOperator>(std::move(op));
  Extensions trial;
  if (!trial.addOperator(userOperatorOf(made), diagnostics)) return false;
  std::shared_ptr<const ForeignOperator> before;  // let go without the mutex, which what it holds may wait for
  std::lock_guard lock(registered().mutex);
  before = std::exchange(registered().all[name], std::move(made));
  return true;
}

bool isRegistered(const std::string& name) {
  std::lock_guard lock(registered().mutex);
  return registered().all.contains(name);
}

Result<std::shared_ptr<const Extensions>> extensionsOf(const ForeignExtensions& given, const Limits& limits,
                                                       Diagnostics& diagnostics) {
  std::map<std::string, std::shared_ptr<const ForeignOperator>> operators;
  {
    std::lock_guard lock(registered().mutex);
    operators = registered().all;
  }
  if (operators.empty() && given.plugins.empty() && given.rules.empty()) return std::shared_ptr<const Extensions>();
  auto out = std::make_shared<Extensions>();
  for (const std::string& path : given.plugins)
    if (!out->loadPlugins(path, diagnostics)) return Failed{};
  for (const auto& [name, op] : operators)
    if (!out->addOperator(userOperatorOf(op), diagnostics)) return Failed{};
  for (const std::string& rules : given.rules)
    if (!addRules(rules, limits, *out, diagnostics)) return Failed{};
  return std::shared_ptr<const Extensions>(std::move(out));
}

}  // namespace tscompile
