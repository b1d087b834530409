// Every operator, each of its tensors in every layout that another layer may hand it, on an engine and in the
// interpreter.
#include "api/compiler.h"
#include "ir/graph/builder.h"
#include "ir/graph/clone.h"
#include "ir/graph/printer.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/network/poison.h"
#include "runtime/interpreter/program.h"
#include "runtime/kernels/line_product.h"
#include "runtime/registry.h"
#include "tests/support/op_cases.h"
#include "tests/support/random_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tscompile::test {
namespace {

// How an input comes to an operator. All but the first are computed in the engine.
enum class Layout : uint8_t {
  Given,
  Computed,     // by an element-wise layer
  Transposed,   // seen through strides
  Part,         // of a tensor that was joined, behind others
  Column,       // of such a tensor, between others
  Expanded,     // its first part, repeated
  Blocked,      // made by a convolution, perhaps in blocks of channels
  BlockedView,  // another view of what a convolution has made
  Lines         // made by a convolution of whole channels, in engines of bf16 perhaps as lines
};
constexpr const char* kLayoutNames[] = {"given",    "computed", "transposed",      "part", "column",
                                        "expanded", "blocked",  "view of blocked", "lines"};

// Writes the calls that bring an input into a layout.
class Wrapper {
 public:
  Wrapper(Graph& graph, Value* input, const Tensor& given)
      : b_(graph, graph.block()->first() ? graph.block()->first() : graph.returnNode()), input_(input), given_(given) {}

  // False if the tensor cannot have this layout.
  bool bring(Layout layout) {
    const int rank = given_.rank();
    const bool isFloat = given_.dtype() == DType::Float32, some = given_.numel() > 0;
    if (layout == Layout::Given) return true;
    if (layout == Layout::Computed && !isFloat) return false;
    const bool isBlocked = layout == Layout::Blocked || layout == Layout::Lines;
    if ((isBlocked || layout == Layout::BlockedView) && (!isFloat || !some || given_.numel() > 512)) return false;
    if (isBlocked ? rank < 2 || rank > 5 : rank < 1) return false;
    if (layout == Layout::Transposed && rank < 2) return false;
    Value* placeholder = b_.constant(0);
    input_->replaceAllUsesWith(placeholder);
    placeholder->replaceAllUsesWith(made(layout));
    return true;
  }

 private:
  Value* call(const char* kind, std::initializer_list<Value*> inputs) {
    return b_.call(Symbol::of(kind), inputs, types().tensor);
  }
  Value* number(int64_t v) { return b_.constant(v); }
  Value* list(const Dims& v) { return b_.constant(intList(v)); }
  Value* none() { return b_.constant(IValue(), types().none); }

  Value* made(Layout layout) {
    Value* x = input_;
    switch (layout) {
      case Layout::Computed:
        return call("aten::mul", {x, b_.constant(1.0)});
      case Layout::Transposed: {
        Value* t = call("aten::clone", {call("aten::transpose", {x, number(0), number(-1)}), number(0)});
        return call("aten::transpose", {t, number(0), number(-1)});
      }
      case Layout::Part:
        return part(0);
      case Layout::Column:
        return part(given_.rank() - 1);
      case Layout::Expanded: {
        Value* first = call("aten::slice", {x, number(0), number(0), number(1), number(1)});
        return call("aten::expand", {first, list(Dims(given_.sizes())), b_.constant(false)});
      }
      case Layout::Blocked:
        return convolution(x, static_cast<size_t>(std::max(1, given_.rank() - 2)),
                           given_.size(given_.rank() == 2 ? 0 : 1));
      case Layout::Lines:
        return convolution(x, static_cast<size_t>(std::max(1, given_.rank() - 2)),
                           given_.size(given_.rank() == 2 ? 0 : 1), true);
      default: {
        Value* flat = call("aten::reshape", {x, list(Dims{1, given_.numel(), 1, 1})});
        return call("aten::view", {convolution(flat, 2, given_.numel()), list(Dims(given_.sizes()))});
      }
    }
  }

  Value* part(int64_t dim) {
    const int64_t size = given_.size(static_cast<int>(dim));
    Value* all[] = {input_, input_, input_};
    Value* joined = call("aten::cat", {b_.list(all, types().tensor), number(dim)});
    return call("aten::slice", {joined, number(dim), number(size), number(2 * size), number(1)});
  }

  // Each channel times one; `whole`: plus the others times zero.
  Value* convolution(Value* x, size_t dims, int64_t channels, bool whole = false) {
    static constexpr const char* kNames[] = {"aten::conv1d", "aten::conv2d", "aten::conv3d"};
    Dims sizes(dims + 2, 1);
    sizes[0] = channels;
    if (whole) sizes[1] = channels;
    Tensor ones = Tensor::zeros(DType::Float32, sizes);
    for (int64_t c = 0; c < channels; ++c) ones.data<float>()[whole ? c * channels + c : c] = 1;
    ones.storage()->makeReadOnly();
    Value *one = list(Dims(dims, 1)), *zero = list(Dims(dims, 0));
    return call(kNames[dims - 1], {x, b_.constant(IValue(ones)), none(), one, zero, one, number(whole ? 1 : channels)});
  }

  Builder b_;
  Value* input_;
  const Tensor& given_;
};

// Equal up to rounding, relative to the largest magnitude; dtypes that are not f32 up to theirs.
std::string difference(const IValue& got, const IValue& want, double least = 2e-5) {
  if (got.tag() != want.tag()) return "another kind of value";
  if (got.isList() || got.isTuple()) {
    const auto& g = got.isList() ? got.toList().items : got.toTuple().items;
    const auto& w = want.isList() ? want.toList().items : want.toTuple().items;
    if (g.size() != w.size()) return "another length";
    for (size_t i = 0; i < g.size(); ++i)
      if (std::string wrong = difference(g[i], w[i], least); !wrong.empty()) return wrong;
    return "";
  }
  if (!got.isTensor())
    return valueToText(got) == valueToText(want) ? "" : valueToText(got) + ", expected " + valueToText(want);
  const Tensor g = got.toTensor(), w = want.toTensor();
  if (g.defined() != w.defined()) return "an undefined tensor";
  if (!g.defined()) return "";
  if (g.dtype() != w.dtype() || dimsText(g.sizes()) != dimsText(w.sizes()))
    return valueToText(got) + ", expected " + valueToText(want);
  const double tolerance = g.dtype() == DType::BFloat16  ? 2e-2
                           : g.dtype() == DType::Float16 ? std::max(least, 2e-3)
                                                         : least;
  auto finite = [](std::complex<double> c) { return std::isfinite(c.real()) && std::isfinite(c.imag()); };
  double largest = 1;
  for (int64_t i = 0; i < w.numel(); ++i)
    if (finite(w.complex(i))) largest = std::max(largest, std::abs(w.complex(i)));
  for (int64_t i = 0; i < w.numel(); ++i) {
    const std::complex<double> a = g.complex(i), b = w.complex(i);
    auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
    if (same(a.real(), b.real()) && same(a.imag(), b.imag())) continue;
    if (!finite(a) || !finite(b) || !(isFloating(g.dtype()) || isComplex(g.dtype())) ||
        std::abs(a - b) > tolerance * largest)
      return "element " + std::to_string(i) + " of " + valueToText(got) + ", expected " + valueToText(want);
  }
  return "";
}

size_t compared = 0, native = 0, rounded = 0;  // rounded: engines with activations that are lines

void compare(const Graph& graph, const std::vector<IValue>& inputs, const std::string& where,
             DType precision = DType::Float32) {
  Diagnostics d;
  Result<std::shared_ptr<const Program>> program = Program::compile(graph, allOps(), {}, d);
  if (!program) return;
  Result<std::vector<IValue>> want = (*program)->run(inputs, {}, d);
  if (!want) return;
  std::optional<Refusal> refusal;
  std::shared_ptr<Engine> engine = Engine::make(graph, allOps(), {}, {.precision = precision}, refusal);
  if (!engine) return;
  RunOptions options;
  RunContext context(options);
  RunScope scope(context);
  PoisonScope poison;
  std::shared_ptr<const EnginePlan> plan = engine->planFor(inputs, context, &refusal);
  if (!plan) return;
  std::vector<IValue> got(want->size());
  ASSERT_TRUE(engine->run(inputs, got, context)) << where << graphText(graph);
  ++compared;
  for (const auto& layer : plan->network().layers) native += layer->isNative();
  const auto& tensors = plan->network().tensors;
  rounded += std::any_of(tensors.begin(), tensors.end(), [](const NetTensor& t) { return t.elements.isLines(); });
  const double least = precision == DType::Float32 ? 2e-5 : 2e-2;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(difference(got[i], (*want)[i], least), "") << where << graphText(graph);
}

// Results that nobody has written, or that the dice give, cannot be compared; what writes its arguments would do it
// twice.
bool isComparable(const Graph& graph) {
  bool comparable = isRepeatable(graph);
  forEachNode(graph, [&](const Node* n) {
    const Operator* op = n->hasBlocks() ? nullptr : allOps().resolve(*n);
    if (op) comparable &= !op->schema().isMutable() && !op->has(Trait::Random) && !op->trains(*n);
  });
  return comparable;
}

// A row's inputs. None if its results cannot be compared.
std::vector<IValue> comparableInputs(const Result<Module>& module, const Row& row) {
  if (!module || !isComparable(*module->graph())) return {};
  std::vector<IValue> inputs;
  const auto& wanted = module->graph()->inputs();
  if (wanted.size() != row.inputs.size()) return {};
  for (size_t i = 0; i < row.inputs.size(); ++i) inputs.push_back(read(row.inputs[i], wanted[i]->type()));
  return inputs;
}

void walk(const Case& c, const Row& row) {
  Diagnostics d;
  Result<Module> module = Module::fromText(c.graph, c.name, {}, d);
  std::vector<IValue> inputs = comparableInputs(module, row);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].isTensor() || !inputs[i].tensorImpl()) continue;
    for (size_t layout = 0; layout < static_cast<size_t>(Layout::Lines); ++layout)
      for (bool others : {false, true}) {
        std::unique_ptr<Graph> graph = cloneGraph(*module->graph());
        if (!Wrapper(*graph, graph->inputs()[i], inputs[i].toTensor()).bring(static_cast<Layout>(layout))) continue;
        // The other tensors as weights.
        for (size_t k = 0; others && k < inputs.size(); ++k)
          if (k != i && inputs[k].isTensor() && inputs[k].tensorImpl()) {
            Builder b(*graph, graph->block()->first());
            Tensor weight = inputs[k].toTensor();
            weight.storage()->makeReadOnly();
            graph->inputs()[k]->replaceAllUsesWith(b.constant(IValue(weight)));
          }
        compare(*graph, inputs,
                c.file + ":" + std::to_string(row.line) + ", input " + std::to_string(i) + " " + kLayoutNames[layout] +
                    (others ? ", the others constant\n" : "\n"));
      }
  }
}

// Numbers that bf16 has.
Tensor roundedInput(const Tensor& t) {
  Tensor out = Tensor::empty(DType::Float32, t.sizes());
  for (int64_t i = 0; i < t.numel(); ++i)
    out.data<float>()[i] = static_cast<float>(BFloat16(static_cast<float>(t.complex(i).real())));
  return out;
}

void walkRounded(const Case& c, const Row& row) {
  Diagnostics d;
  Result<Module> module = Module::fromText(c.graph, c.name, {}, d);
  std::vector<IValue> inputs = comparableInputs(module, row);
  for (IValue& v : inputs)
    if (v.isTensor() && v.tensorImpl() && v.toTensor().dtype() == DType::Float32) v = roundedInput(v.toTensor());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].isTensor() || !inputs[i].tensorImpl()) continue;
    std::unique_ptr<Graph> graph = cloneGraph(*module->graph());
    if (!Wrapper(*graph, graph->inputs()[i], inputs[i].toTensor()).bring(Layout::Lines)) continue;
    compare(*graph, inputs, c.file + ":" + std::to_string(row.line) + ", input " + std::to_string(i) + " lines\n",
            DType::BFloat16);
  }
}

}  // namespace

TEST(Layouts, EveryOperatorTakesLinesOfBrains) {
  for (const std::string& file : allCaseFiles())
    for (const Case& c : readCases(file))
      for (const Row& row : c.rows)
        if (row.error.empty()) walkRounded(c, row);
  EXPECT_GT(compared, 1000u);
  if (hasLineProducts(WeightStorage::BF16)) {
    EXPECT_GT(rounded, 50u);
  }
}

TEST(Layouts, EveryOperatorTakesEveryLayout) {
  for (const std::string& file : allCaseFiles())
    for (const Case& c : readCases(file))
      for (const Row& row : c.rows)
        if (row.error.empty()) walk(c, row);
  EXPECT_GT(compared, 50000u);
  EXPECT_GT(native * 2, compared);
}

}  // namespace tscompile::test
