// Runs LeNet from C++: loads graph text and weights, feeds an Eigen matrix without copying it, reads the result, and
// runs the same model from several threads.
//
//   run_lenet MODEL.ir WEIGHTS
#include <Eigen/Core>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <thread>
#include <tscompile/compiler.h>
#include <vector>

using namespace tscompile;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: run_lenet MODEL.ir WEIGHTS\n");
    return 2;
  }
  // Everything that goes wrong is reported here, with its place in the text.
  Diagnostics diagnostics;
  auto fail = [&] {
    std::fputs(renderDiagnostics(diagnostics, "run_lenet").c_str(), stderr);
    return 1;
  };

  LoadOptions options;
  options.weights = {argv[2]};
  Result<Module> module = Module::load(argv[1], options, diagnostics);
  if (!module) return fail();
  Result<Method> forward = module->prepare(diagnostics);
  if (!forward) return fail();
  for (const ValueInfo& input : forward->inputs())
    std::printf("input %s : %s\n", input.name.c_str(), typeText(input.type).c_str());

  // The image stays where it is: the tensor borrows the matrix, which must outlive it.
  Eigen::Matrix<float, 32, 32, Eigen::RowMajor> image;
  for (int r = 0; r < 32; ++r)
    for (int c = 0; c < 32; ++c) image(r, c) = std::sin(0.1f * static_cast<float>(r * 32 + c));
  Tensor x = Tensor::borrow(DType::Float32, Dims{1, 1, 32, 32}, image.data());

  Result<std::vector<IValue>> outputs = forward->run(std::vector<IValue>{x}, diagnostics);
  if (!outputs) return fail();
  Tensor scores = (*outputs)[0].toTensor();
  Eigen::Map<const Eigen::VectorXf> y(scores.data<float>(), scores.numel());
  Eigen::Index best;
  y.maxCoeff(&best);
  std::printf("output %s, class %d\n", dimsText(scores.sizes()).c_str(), static_cast<int>(best));

  // A prepared method is immutable: threads share it.
  std::vector<std::thread> threads;
  std::vector<int> same(16, 0);
  for (size_t t = 0; t < same.size(); ++t)
    threads.emplace_back([&, t] {
      Diagnostics mine;
      auto again = forward->run(std::vector<IValue>{x}, mine);
      same[t] = again && std::memcmp((*again)[0].toTensor().raw(), scores.raw(),
                                     sizeof(float) * static_cast<size_t>(scores.numel())) == 0;
    });
  for (std::thread& t : threads) t.join();
  int equal = 0;
  for (int s : same) equal += s;
  std::printf("%d of %zu threads got the same bits\n", equal, same.size());

  // What goes wrong in a run is reported with the node and the line of the model.
  Diagnostics expected;
  if (forward->run(std::vector<IValue>{Tensor::zeros(DType::Float32, Dims{1, 3, 32, 32})}, expected)) return 1;
  std::printf("three channels: %s\n", expected.list()[0].message.c_str());
  return equal == static_cast<int>(same.size()) ? 0 : 1;
}
