#include "runtime/engine/layers/pointwise_layer.h"

#include "runtime/kernels/layout.h"
#include "runtime/reference/loops/copy.h"

#include <cmath>
#include <unordered_map>

namespace tscompile {

std::optional<PointwiseType> pointwiseType(DType d) {
  if (d == DType::Float32) return PointwiseType::F32;
  if (d == DType::Bool) return PointwiseType::Bool;
  return std::nullopt;
}

namespace {

using Op = PointwiseOp;

// Builds the program of one operator from the arguments of its call.
class StepBuilder {
 public:
  explicit StepBuilder(ConvertCall& call) : call_(call) {}

  // Argument i as a value: a tensor, or a number.
  int value(size_t i) {
    const IValue& v = call_.argument(i);
    if (v.isTensor()) {
      Tensor t = v.toTensor();
      if (t.rank() == 0 && !t.storage()->isSymbolic() && !isComplex(t.dtype())) return constant(numberOf(t).toDouble());
      std::optional<PointwiseType> type = pointwiseType(v.tensorImpl()->dtype());
      if (!type) return fail();
      inputs_.push_back(call_.operand(i));
      return program.input(*type);
    }
    if (!v.isNumber() || v.isComplex()) return fail();
    return program.constant(static_cast<float>(v.toDouble()));
  }
  double number(size_t i) {
    const IValue& v = call_.argument(i);
    if (v.isNumber() && !v.isComplex()) return v.toDouble();
    fail();
    return 0;
  }
  int step(Op op, int a, int b = -1, int c = -1, double alpha = 0, double beta = 0) {
    return failed_ ? 0 : program.step(op, a, b, c, static_cast<float>(alpha), static_cast<float>(beta));
  }
  int constant(double v) { return failed_ ? 0 : program.constant(static_cast<float>(v)); }
  // value * alpha, where an argument says so.
  int scaled(int v, size_t alphaAt) {
    double alpha = number(alphaAt);
    return alpha == 1 ? v : step(Op::Mul, v, constant(alpha));
  }
  int fail() {
    failed_ = true;
    return 0;
  }

  bool finish(int result) {
    std::optional<PointwiseType> type = pointwiseType(call_.spec().dtype);
    if (failed_ || !type || inputs_.empty()) return false;
    bool floats = false;
    for (TensorId id : inputs_) floats |= call_.network()[id].isFloat();
    if (!floats && *type != PointwiseType::F32) return false;  // logic on bool alone is integer work
    program.output(result, *type);
    TensorId output = call_.makeResult();
    auto& layer = call_.add<PointwiseLayer>();
    layer.program = std::move(program);
    layer.inputs = std::move(inputs_);
    layer.outputs = {output};
    return true;
  }

  ConvertCall& call() { return call_; }
  PointwiseProgram program;

 private:
  ConvertCall& call_;
  std::vector<TensorId> inputs_;
  bool failed_ = false;
};

using Rule = int (*)(StepBuilder&);

template <Op op>
int unary(StepBuilder& b) {
  return b.step(op, b.value(0));
}
template <Op op>
int binary(StepBuilder& b) {
  int x = b.value(0), y = b.value(1);
  return b.step(op, x, y);
}
template <Op op>
int withAlpha(StepBuilder& b) {
  int x = b.value(0), y = b.scaled(b.value(1), 2);
  return b.step(op, x, y);
}
int reversed(StepBuilder& b) {
  int x = b.scaled(b.value(0), 2), y = b.value(1);
  return b.step(Op::Sub, y, x);
}
int division(StepBuilder& b) {
  int x = b.value(0), y = b.value(1);
  if (b.call().size() > 2 && !b.call().isNone(2)) return b.fail();  // a rounding mode
  return b.step(Op::Div, x, y);
}
int power(StepBuilder& b) {
  int x = b.value(0);
  const IValue& e = b.call().argument(1);
  if (e.isNumber() && !e.isComplex()) {
    double p = e.toDouble();
    if (p == 2) return b.step(Op::Square, x);
    if (p == 1) return b.step(Op::Copy, x);
    if (p == 0.5) return b.step(Op::Sqrt, x);
    if (p == 3) return b.step(Op::Mul, b.step(Op::Square, x), x);
  }
  return b.step(Op::Pow, x, b.value(1));
}
int clamp(StepBuilder& b) {
  double low = b.call().isNone(1) ? -INFINITY : b.number(1), high = b.call().isNone(2) ? INFINITY : b.number(2);
  return b.step(Op::Clamp, b.value(0), -1, -1, low, high);
}
int clampMin(StepBuilder& b) { return b.step(Op::Clamp, b.value(0), -1, -1, b.number(1), INFINITY); }
int clampMax(StepBuilder& b) { return b.step(Op::Clamp, b.value(0), -1, -1, -INFINITY, b.number(1)); }
int relu6(StepBuilder& b) { return b.step(Op::Clamp, b.value(0), -1, -1, 0, 6); }
int gelu(StepBuilder& b) {
  bool tanh = b.call().size() > 1 && b.call().argument(1).isString() && b.call().text(1) == "tanh";
  return b.step(tanh ? Op::GeluTanh : Op::Gelu, b.value(0));
}
int leakyRelu(StepBuilder& b) { return b.step(Op::LeakyRelu, b.value(0), -1, -1, b.number(1)); }
int elu(StepBuilder& b) {
  if (b.number(2) != 1 || b.number(3) != 1) return b.fail();
  return b.step(Op::Elu, b.value(0), -1, -1, b.number(1));
}
int softplus(StepBuilder& b) {
  if (b.number(1) != 1 || b.number(2) != 20) return b.fail();
  return b.step(Op::Softplus, b.value(0));
}
int where(StepBuilder& b) {
  int c = b.value(0), x = b.value(1), y = b.value(2);
  return b.step(Op::Where, c, x, y);
}
int maskedFill(StepBuilder& b) {
  int x = b.value(0), m = b.value(1), v = b.value(2);
  return b.step(Op::Where, m, v, x);
}
int addcmul(StepBuilder& b) {
  int x = b.value(0), y = b.value(1), z = b.value(2);
  return b.step(Op::Add, x, b.scaled(b.step(Op::Mul, y, z), 3));
}
int addcdiv(StepBuilder& b) {
  int x = b.value(0), y = b.value(1), z = b.value(2);
  return b.step(Op::Add, x, b.scaled(b.step(Op::Div, y, z), 3));
}

const std::unordered_map<std::string_view, Rule>& rules() {
  static const std::unordered_map<std::string_view, Rule> kRules = {
      {"aten::relu", unary<Op::Relu>},
      {"aten::relu6", relu6},
      {"aten::sigmoid", unary<Op::Sigmoid>},
      {"aten::tanh", unary<Op::Tanh>},
      {"aten::hardtanh", clamp},
      {"aten::leaky_relu", leakyRelu},
      {"aten::elu", elu},
      {"aten::gelu", gelu},
      {"aten::silu", unary<Op::Silu>},
      {"aten::mish", unary<Op::Mish>},
      {"aten::hardswish", unary<Op::HardSwish>},
      {"aten::hardsigmoid", unary<Op::HardSigmoid>},
      {"aten::softplus", softplus},
      {"aten::abs", unary<Op::Abs>},
      {"aten::neg", unary<Op::Neg>},
      {"aten::reciprocal", unary<Op::Reciprocal>},
      {"aten::sqrt", unary<Op::Sqrt>},
      {"aten::rsqrt", unary<Op::Rsqrt>},
      {"aten::square", unary<Op::Square>},
      {"aten::exp", unary<Op::Exp>},
      {"aten::expm1", unary<Op::Expm1>},
      {"aten::log", unary<Op::Log>},
      {"aten::log1p", unary<Op::Log1p>},
      {"aten::log2", unary<Op::Log2>},
      {"aten::log10", unary<Op::Log10>},
      {"aten::sin", unary<Op::Sin>},
      {"aten::cos", unary<Op::Cos>},
      {"aten::tan", unary<Op::Tan>},
      {"aten::atan", unary<Op::Atan>},
      {"aten::erf", unary<Op::Erf>},
      {"aten::floor", unary<Op::Floor>},
      {"aten::ceil", unary<Op::Ceil>},
      {"aten::trunc", unary<Op::Trunc>},
      {"aten::add", withAlpha<Op::Add>},
      {"aten::sub", withAlpha<Op::Sub>},
      {"aten::rsub", reversed},
      {"aten::mul", binary<Op::Mul>},
      {"aten::div", division},
      {"aten::pow", power},
      {"aten::maximum", binary<Op::Max>},
      {"aten::minimum", binary<Op::Min>},
      {"aten::atan2", binary<Op::Atan2>},
      {"aten::clamp", clamp},
      {"aten::clamp_min", clampMin},
      {"aten::clamp_max", clampMax},
      {"aten::eq", binary<Op::Eq>},
      {"aten::ne", binary<Op::Ne>},
      {"aten::lt", binary<Op::Lt>},
      {"aten::le", binary<Op::Le>},
      {"aten::gt", binary<Op::Gt>},
      {"aten::ge", binary<Op::Ge>},
      {"aten::where", where},
      {"aten::masked_fill", maskedFill},
      {"aten::addcmul", addcmul},
      {"aten::addcdiv", addcdiv},
  };
  return kRules;
}

// The strides with which a tensor walks through sizes that it is broadcast to.
Dims broadcastStrides(const NetTensor& t, size_t rank) {
  Dims strides(rank, 0);
  for (size_t d = 0; d < t.sizes.size(); ++d) strides[rank - t.sizes.size() + d] = t.sizes[d] == 1 ? 0 : t.strides[d];
  return strides;
}

}  // namespace

void convertPointwise(ConvertCall& call) {
  auto rule = rules().find(call.op().kind().text());
  const TensorSpec& spec = call.spec();
  if (rule != rules().end() && allKnown(spec.sizes) && checkedNumel(spec.sizes) != 0) {
    StepBuilder builder(call);
    int result = rule->second(builder);
    if (builder.finish(result)) return;
  }
  convertToKernel(call);
}

TensorId addCopy(ConvertCall& call, TensorId from) {
  Dims sizes = call.network()[from].sizes;
  TensorId to = call.network().addTensor(DType::Float32, sizes);
  auto& layer = call.add<PointwiseLayer>();
  layer.program.output(layer.program.step(PointwiseOp::Copy, layer.program.input()));
  layer.inputs = {from};
  layer.outputs = {to};
  return to;
}

void convertCopy(ConvertCall& call) {
  Tensor x = call.tensor(0);
  const TensorSpec& spec = call.spec();
  if (x.dtype() != DType::Float32 || spec.dtype != DType::Float32 || x.numel() == 0) return convertToKernel(call);
  TensorId from = call.operand(0);
  TensorId to = call.makeResult();
  // The elements in row-major order are those of the source, whatever the sizes of the result.
  TensorId target = to;
  const NetTensor& made = call.network()[to];
  if (!(made.sizes == call.network()[from].sizes))
    target = call.network().addView(made.buffer, DType::Float32, call.network()[from].sizes,
                                    contiguousStrides(call.network()[from].sizes), 0);
  auto& layer = call.add<PointwiseLayer>();
  layer.program.output(layer.program.step(PointwiseOp::Copy, layer.program.input()));
  layer.inputs = {from};
  layer.outputs = {target};
}

void addChannelAffine(ConvertCall& call, const Tensor& scale, const Tensor& shift) {
  TensorId x = call.operand(0);
  int rank = call.network()[x].rank();
  Dims sizes(static_cast<size_t>(rank - 1), 1);
  sizes[0] = scale.numel();
  auto constant = [&](const Tensor& t) {
    return call.network().addConstant(t.withGeometry(sizes, contiguousStrides(sizes), t.offset()));
  };
  TensorId s = constant(scale), b = constant(shift);
  TensorId y = call.makeResult();
  auto& layer = call.add<PointwiseLayer>();
  PointwiseProgram& p = layer.program;
  int in = p.input(), scales = p.input(), shifts = p.input();
  p.output(p.step(PointwiseOp::MulAdd, in, scales, shifts));
  layer.inputs = {x, s, b};
  layer.outputs = {y};
}

int appendProgram(PointwiseProgram& to, const PointwiseProgram& from, std::span<const int> inputs) {
  std::vector<int> values;
  for (const PointwiseProgram::Value& v : from.values()) {
    switch (v.kind) {
      case PointwiseProgram::Value::Kind::Input:
        values.push_back(inputs[static_cast<size_t>(v.index)]);
        break;
      case PointwiseProgram::Value::Kind::Constant:
        values.push_back(to.constant(v.alpha));
        break;
      case PointwiseProgram::Value::Kind::Step: {
        auto at = [&](int operand) { return operand < 0 ? -1 : values[static_cast<size_t>(operand)]; };
        values.push_back(to.step(v.op, at(v.a), at(v.b), at(v.c), v.alpha, v.beta));
        break;
      }
    }
  }
  return values[static_cast<size_t>(from.outputs()[0].value)];
}

const PointwiseProgram::Value* PointwiseLayer::onlyStep() const {
  const PointwiseProgram::Value* only = nullptr;
  for (const PointwiseProgram::Value& v : program.values())
    if (v.kind == PointwiseProgram::Value::Kind::Step) {
      if (only) return nullptr;
      only = &v;
    }
  return only;
}

bool PointwiseLayer::isCopy() const {
  const PointwiseProgram::Value* step = onlyStep();
  return step && step->op == PointwiseOp::Copy && inputs.size() == 1;
}

std::string PointwiseLayer::name() const {
  size_t steps = 0;
  for (const PointwiseProgram::Value& v : program.values()) steps += v.kind == PointwiseProgram::Value::Kind::Step;
  return isCopy() ? "copy" : steps == 1 ? "pointwise" : "pointwise of " + std::to_string(steps);
}

void PointwiseLayer::run(Frame& frame) const {
  const Network& network = frame.network();
  const NetTensor& out = network[outputs[0]];
  Dims dims = out.sizes;
  std::vector<Dims> strides;
  if (blocked) dims = Dims{out.sizes[0], channelBlocks(out.sizes[1]), out.sizes[2] * out.sizes[3], kBlock};
  for (TensorId id : inputs) {
    const NetTensor& t = network[id];
    if (!blocked)
      strides.push_back(broadcastStrides(t, dims.size()));
    else if (t.blocked)
      strides.push_back(contiguousStrides(dims));
    else if (t.numel == 1)
      strides.push_back(Dims{0, 0, 0, 0});
    else
      strides.push_back(Dims{0, kBlock, 0, 1});
  }
  std::vector<PointwiseOperand> operands;
  for (size_t i = 0; i < inputs.size(); ++i) operands.push_back({frame.raw(inputs[i]), strides[i]});
  void* to = frame.raw(outputs[0]);
  runPointwise(program, dims, operands, std::span(&to, 1), frame.threads());
}

}  // namespace tscompile
