// Values that are not what their types say, given to every operator in the place of each argument: there are messages,
// never a crash, in the interpreter's call and in engines.
#include "ir/values/error.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/plan.h"
#include "runtime/interpreter/call_operator.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

Tensor someTensor() {
  Tensor t = Tensor::zeros(DType::Float32, Dims{2, 3});
  for (int i = 0; i < 6; ++i) t.data<float>()[i] = static_cast<float>(i) / 4;
  return t;
}

// Something that the type may well be.
IValue plausible(TypePtr type) {
  switch (type->kind()) {
    case TypeKind::Tensor:
      return someTensor();
    case TypeKind::Int:
    case TypeKind::Number:
      return 1;
    case TypeKind::Float:
      return 0.5;
    case TypeKind::Bool:
      return false;
    case TypeKind::Complex:
      return std::complex<double>(1, 2);
    case TypeKind::String:
      return "mean";
    case TypeKind::Device:
      return Device();
    case TypeKind::List: {
      IValue item = plausible(type->element());
      return Ref<ListValue>::make(type->element(), std::vector<IValue>{item, item});
    }
    default:
      return {};
  }
}

std::vector<std::pair<const char*, IValue>> wrongValues() {
  IValue undefined = Tensor();
  return {{"None", IValue()},
          {"an undefined tensor", undefined},
          {"a number", 2},
          {"a float", 1.5},
          {"a bool", true},
          {"a text", "a"},
          {"a tensor", someTensor()},
          {"a list of ints", intList(Dims{1, 2})},
          {"a list of None", Ref<ListValue>::make(types().any, std::vector<IValue>{IValue(), undefined})},
          {"a tuple", tuple({IValue(2), IValue()})},
          {"a dict", Ref<DictValue>::make(types().string, types().integer)},
          {"nothing initialised", IValue::uninitialized()}};
}

std::vector<IValue> plausibleArguments(const Operator& op) {
  std::vector<IValue> arguments;
  for (const Argument& a : op.schema().arguments)
    arguments.push_back(a.defaultValue ? *a.defaultValue : plausible(a.type));
  return arguments;
}

RunOptions limits() {
  RunOptions options;
  options.memoryLimit = 64 << 20;
  options.timeLimit = std::chrono::seconds(1);
  return options;
}

// Calls f(operator, arguments, what) with each argument of each operator replaced.
template <class F>
void forEachWrongCall(F&& f) {
  for (Symbol kind : allOps().kinds(true))
    for (const Operator* op : allOps().overloads(kind)) {
      if (!op->isImplemented()) continue;
      for (size_t i = 0; i < op->schema().arguments.size(); ++i)
        for (auto& [what, value] : wrongValues()) {
          std::vector<IValue> arguments = plausibleArguments(*op);
          arguments[i] = value;
          f(*op, std::move(arguments), op->fullName() + ": " + what + " as argument " + std::to_string(i + 1));
        }
    }
}

std::unique_ptr<Graph> graphOf(const Operator& op) {
  auto graph = std::make_unique<Graph>();
  SmallVector<Value*, 16> inputs;
  for (const Argument& a : op.schema().arguments)
    inputs.push_back(graph->addInput(a.type->hasVariables() ? types().any : a.type));
  size_t outputs = op.schema().returns.size();
  Node* node = graph->create(op.kind(), inputs, outputs);
  for (size_t i = 0; i < outputs; ++i) {
    TypePtr type = op.schema().returns[i].type;
    node->output(i)->setType(type->hasVariables() ? types().any : type);
  }
  graph->block()->append(node);
  for (Value* v : node->outputs()) graph->block()->addResult(v);
  return graph;
}

}  // namespace

TEST(WrongValues, OperatorsAnswerWithMessages) {
  forEachWrongCall([](const Operator& op, std::vector<IValue> arguments, const std::string& what) {
    RunOptions options = limits();
    RunContext context(options);
    RunScope scope(context);
    std::vector<const IValue*> pointers;
    for (const IValue& v : arguments) pointers.push_back(&v);
    std::vector<IValue> results(op.schema().returns.size() + 1);
    try {
      callOperator(op, pointers.data(), pointers.size(), results.data(), op.schema().returns.size(), context);
    } catch (const ExecutionError& e) {
      EXPECT_FALSE(e.message().empty()) << what;
    } catch (const std::exception& e) {
      ADD_FAILURE() << what << ": " << e.what();
    }
  });
}

TEST(WrongValues, EnginesLeaveThemToTheInterpreter) {
  const Operator* last = nullptr;
  std::unique_ptr<Graph> graph;
  std::shared_ptr<Engine> engine;
  forEachWrongCall([&](const Operator& op, std::vector<IValue> arguments, const std::string& what) {
    if (&op != last) {
      last = &op;
      graph = graphOf(op);
      std::optional<Refusal> refusal;
      engine = Engine::make(*graph, allOps(), {}, {}, refusal);
    }
    if (!engine) return;
    RunOptions options = limits();
    RunContext context(options);
    RunScope scope(context);
    std::vector<IValue> outputs(graph->outputs().size());
    try {
      engine->run(arguments, outputs, context);
    } catch (const ExecutionError& e) {
      EXPECT_FALSE(e.message().empty()) << what;
    } catch (const std::exception& e) {
      ADD_FAILURE() << what << ": " << e.what();
    }
  });
}

}  // namespace tscompile::test
