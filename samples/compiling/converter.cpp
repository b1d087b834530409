// A graph whose aten::flatten has no converter is not compiled in full; with the converter of a user it is. So is one
// with an operator of a user's own, whose converter adds a layer of its own.
#include "samples/compiling/flatten.h"
#include "samples/compiling/sample.h"

using namespace tscompile;

namespace {

constexpr const char* kFlatten = R"(graph(%x.1 : Tensor):
  %11 : int = prim::Constant[value=1]()
  %5 : int = prim::Constant[value=-1]()
  %input.1 : Tensor = aten::flatten(%x.1, %11, %5)
  return (%input.1)
)";

constexpr const char* kScale = R"(graph(%x : Tensor):
  %by : float = prim::Constant[value=0.5]()
  %r : Tensor = aten::relu(%x)
  %y : Tensor = mine::scale(%r, %by)
  %z : Tensor = aten::sigmoid(%y)
  return (%z)
)";

void withoutConverter() {
  Diagnostics diagnostics;
  Result<Module> mod = Module::fromText(kFlatten, "flatten.ir", {}, diagnostics);
  if (!mod) stop(diagnostics);
  CompileSpec spec({{{2, 3, 4}}});
  spec.withoutConverters = {"aten::flatten"};
  spec.requiredCoverage = 1;
  if (!compile(*mod, spec, diagnostics)) std::printf("%s", renderDiagnostics(diagnostics, "sample").c_str());
}

void withConverter() {
  Diagnostics diagnostics;
  auto extensions = std::make_shared<Extensions>();
  if (!extensions->addConverter("aten::flatten.using_ints", convertFlatten, diagnostics)) stop(diagnostics);
  LoadOptions options;
  options.extensions = extensions;
  Result<Module> mod = Module::fromText(kFlatten, "flatten.ir", options, diagnostics);
  if (!mod) stop(diagnostics);
  CompileSpec spec({{{2, 3, 4}}});
  spec.withoutConverters = {"aten::flatten"};  // ours is out of the way
  spec.requiredCoverage = 1;
  Result<Module> compiled = compile(*mod, spec, diagnostics);
  if (!compiled) stop(diagnostics);
  Tensor in = randomTensor("2x3x4");
  Tensor out = runOne(*compiled, in, diagnostics);
  std::printf("with the user's converter: %s, interpreter and engines %s\n", dimsText(out.sizes()).c_str(),
              sameText(out, runOne(*mod, in, diagnostics)));
}

// Multiplies by a number, one element after the other.
class ScaleLayer : public Layer {
 public:
  ScaleLayer(const Node* node, float by) : Layer(node), by_(by) {}
  std::string name() const override { return "scale"; }
  void run(Frame& frame) const override {
    const float* from = frame.data<float>(inputs[0]);
    float* to = frame.data<float>(outputs[0]);
    for (int64_t i = 0; i < frame.network()[outputs[0]].numel; ++i) to[i] = by_ * from[i];
  }

 private:
  float by_;
};

void convertScale(ConvertCall& call) {
  Tensor dense = call.compute("aten::contiguous", {call.argument(0)}).toTensor();
  ScaleLayer& layer = call.add<ScaleLayer>(static_cast<float>(call.number(1)));
  layer.inputs = {call.idOf(dense)};
  layer.outputs = {call.makeResult()};
}

void ownOperator() {
  Diagnostics diagnostics;
  auto extensions = std::make_shared<Extensions>();
  bool added = extensions->addOperator({.schema = "mine::scale(Tensor self, float by) -> Tensor",
                                        .infer = [](InferCall& call) { call.result(call.tensor(0)); },
                                        .kernel =
                                            [](KernelCall& call) {
                                              Tensor in = call.tensor(0), out = call.out();
                                              for (int64_t i = 0; i < out.numel(); ++i)
                                                out.data<float>()[i] = static_cast<float>(in.real(i) * call.number(1));
                                            },
                                        .convert = convertScale,
                                        .dtypes = {DType::Float32}},
                                       diagnostics);
  if (!added) stop(diagnostics);
  LoadOptions options;
  options.extensions = extensions;
  Result<Module> mod = Module::fromText(kScale, "scale.ir", options, diagnostics);
  if (!mod) stop(diagnostics);
  CompileSpec spec({{{2, 3}}});
  spec.requiredCoverage = 1;
  Result<Module> compiled = compile(*mod, spec, diagnostics);
  if (!compiled) stop(diagnostics);
  Tensor in = randomTensor("2x3");
  std::printf("an operator of one's own: interpreter and engines %s\n",
              sameText(runOne(*compiled, in, diagnostics), runOne(*mod, in, diagnostics)));
}

}  // namespace

int main() {
  withoutConverter();
  withConverter();
  ownOperator();
}
