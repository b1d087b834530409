// Operators that end the process: what their kernel, their converter, or a layer of theirs does.
#include "api/compiler.h"

#include <csignal>

using namespace tscompile;

namespace {

class Fall : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "fall"; }
  void run(Frame&) const override { raise(SIGSEGV); }
};

void copy(KernelCall& call) {
  const Tensor from = call.tensor(0);
  Tensor to = call.out();
  for (int64_t i = 0; i < to.numel(); ++i) to.data<float>()[i] = static_cast<float>(from.real(i));
}

}  // namespace

TS_EXTENSIONS(extensions, diagnostics) {
  auto like = [](InferCall& call) { call.result(call.tensor(0)); };
  return extensions.addOperator({.schema = "crashing::kernel(Tensor x) -> Tensor",
                                 .infer = like,
                                 .kernel = [](KernelCall&) { raise(SIGSEGV); }},
                                diagnostics) &&
         extensions.addOperator({.schema = "crashing::converter(Tensor x) -> Tensor",
                                 .infer = like,
                                 .kernel = copy,
                                 .convert = [](ConvertCall&) { raise(SIGSEGV); }},
                                diagnostics) &&
         extensions.addOperator({.schema = "crashing::layer(Tensor x) -> Tensor",
                                 .infer = like,
                                 .kernel = copy,
                                 .convert =
                                     [](ConvertCall& call) {
                                       Fall& fall = call.add<Fall>();
                                       fall.inputs = {call.operand(0)};
                                       fall.outputs = {call.makeResult()};
                                     }},
                                diagnostics);
}
