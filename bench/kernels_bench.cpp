// Reference operators on large f32 tensors. compare.py runs the same cases in PyTorch: names and shapes must agree.
#include "api/compiler.h"
#include "ir/values/random.h"

#include <benchmark/benchmark.h>

#include <cmath>

namespace tscompile {
namespace {

struct Case {
  const char* name;
  std::vector<Dims> inputs;  // %x, %y, %z ...
  const char* body;          // defines %r
};

const Case kCases[] = {
    {"add", {{4096, 1024}, {4096, 1024}}, "%r : Tensor = aten::add(%x, %y, %one)"},
    {"mul_row", {{4096, 1024}, {1024}}, "%r : Tensor = aten::mul(%x, %y)"},
    {"mul_column", {{4096, 1024}, {4096, 1}}, "%r : Tensor = aten::mul(%x, %y)"},
    {"add_transposed",
     {{2048, 2048}, {2048, 2048}},
     "%t : Tensor = aten::t(%y)\n  %r : Tensor = aten::add(%x, %t, %one)"},
    {"relu", {{4096, 1024}}, "%r : Tensor = aten::relu(%x)"},
    {"exp", {{4096, 1024}}, "%r : Tensor = aten::exp(%x)"},
    {"tanh", {{4096, 1024}}, "%r : Tensor = aten::tanh(%x)"},
    {"sigmoid", {{4096, 1024}}, "%r : Tensor = aten::sigmoid(%x)"},
    {"gelu", {{4096, 1024}}, "%mode : str = prim::Constant[value=\"none\"]()\n  %r : Tensor = aten::gelu(%x, %mode)"},
    {"sqrt", {{4096, 1024}}, "%r : Tensor = aten::sqrt(%x)"},
    {"lt", {{4096, 1024}, {4096, 1024}}, "%r : Tensor = aten::lt(%x, %y)"},
    {"where", {{4096, 1024}, {4096, 1024}}, "%c : Tensor = aten::lt(%x, %y)\n  %r : Tensor = aten::where(%c, %x, %y)"},
    {"to_f64",
     {{4096, 1024}},
     "%d : int = prim::Constant[value=7]()\n  %r : Tensor = aten::to(%x, %d, %false, %false, %none)"},
    {"contiguous_t", {{2048, 2048}}, "%t : Tensor = aten::t(%x)\n  %r : Tensor = aten::contiguous(%t, %zero)"},
    {"cat",
     {{2048, 1024}, {2048, 1024}},
     "%l : Tensor[] = prim::ListConstruct(%x, %y)\n  %r : Tensor = aten::cat(%l, %one)"},
    {"sum_all", {{4096, 1024}}, "%r : Tensor = aten::sum(%x, %none)"},
    {"sum_rows",
     {{4096, 1024}},
     "%l : int[] = prim::ListConstruct(%one)\n  %r : Tensor = aten::sum(%x, %l, %false, %none)"},
    {"sum_columns",
     {{4096, 1024}},
     "%l : int[] = prim::ListConstruct(%zero)\n  %r : Tensor = aten::sum(%x, %l, %false, %none)"},
    {"mean_rows",
     {{4096, 1024}},
     "%l : int[] = prim::ListConstruct(%one)\n  %r : Tensor = aten::mean(%x, %l, %false, %none)"},
    {"amax_rows", {{4096, 1024}}, "%l : int[] = prim::ListConstruct(%one)\n  %r : Tensor = aten::amax(%x, %l, %false)"},
    {"max_rows", {{4096, 1024}}, "%r : Tensor, %i : Tensor = aten::max(%x, %one, %false)"},
    {"argmax_rows", {{4096, 1024}}, "%r : Tensor = aten::argmax(%x, %one, %false)"},
    {"topk_rows",
     {{1024, 1024}},
     "%k : int = prim::Constant[value=20]()\n"
     "  %r : Tensor, %i : Tensor = aten::topk(%x, %k, %one, %true, %true)"},
    {"cumsum_rows", {{4096, 1024}}, "%r : Tensor = aten::cumsum(%x, %one, %none)"},
    {"softmax", {{4096, 1024}}, "%r : Tensor = aten::softmax(%x, %one, %none)"},
    {"softmax_columns", {{4096, 1024}}, "%r : Tensor = aten::softmax(%x, %zero, %none)"},
    {"layer_norm",
     {{4096, 768}, {768}, {768}},
     "%n : int = prim::Constant[value=768]()\n  %l : int[] = prim::ListConstruct(%n)\n"
     "  %r : Tensor = aten::layer_norm(%x, %l, %y, %z, %eps, %false)"},
    {"batch_norm",
     {{8, 64, 112, 112}, {64}, {64}},
     "%r : Tensor = aten::batch_norm(%x, %y, %z, %y, %z, %false, %eps, %eps, %false)"},
    {"matmul", {{1024, 1024}, {1024, 1024}}, "%r : Tensor = aten::matmul(%x, %y)"},
    {"linear", {{128, 768}, {3072, 768}, {3072}}, "%r : Tensor = aten::linear(%x, %y, %z)"},
    {"bmm", {{96, 128, 64}, {96, 64, 128}}, "%r : Tensor = aten::bmm(%x, %y)"},
    {"matvec", {{4096, 1024}, {1024}}, "%r : Tensor = aten::mv(%x, %y)"},
    {"conv2d_3x3",
     {{1, 64, 56, 56}, {64, 64, 3, 3}, {64}},
     "%r : Tensor = aten::conv2d(%x, %y, %z, %l1, %l1, %l1, %one)"},
    {"conv2d_7x7",
     {{1, 3, 224, 224}, {64, 3, 7, 7}, {64}},
     "%r : Tensor = aten::conv2d(%x, %y, %z, %l2, %l3, %l1, %one)"},
    {"conv2d_1x1",
     {{1, 256, 56, 56}, {64, 256, 1, 1}, {64}},
     "%r : Tensor = aten::conv2d(%x, %y, %z, %l1, %l0, %l1, %one)"},
    {"conv2d_batch",
     {{16, 32, 28, 28}, {64, 32, 3, 3}, {64}},
     "%r : Tensor = aten::conv2d(%x, %y, %z, %l1, %l1, %l1, %one)"},
    {"conv2d_depthwise",
     {{1, 144, 56, 56}, {144, 1, 3, 3}, {144}},
     "%g : int = prim::Constant[value=144]()\n  %r : Tensor = aten::conv2d(%x, %y, %z, %l1, %l1, %l1, %g)"},
    {"conv2d_depthwise_s2",
     {{1, 96, 112, 112}, {96, 1, 3, 3}, {96}},
     "%g : int = prim::Constant[value=96]()\n  %r : Tensor = aten::conv2d(%x, %y, %z, %l2, %l1, %l1, %g)"},
    {"conv2d_depthwise_5x5",
     {{1, 240, 28, 28}, {240, 1, 5, 5}, {240}},
     "%g : int = prim::Constant[value=240]()\n  %l22 : int[] = prim::ListConstruct(%two, %two)\n"
     "  %r : Tensor = aten::conv2d(%x, %y, %z, %l1, %l22, %l1, %g)"},
    {"conv1d",
     {{8, 64, 1000}, {64, 64, 3}, {64}},
     "%a : int[] = prim::ListConstruct(%one)\n  %r : Tensor = aten::conv1d(%x, %y, %z, %a, %a, %a, %one)"},
    {"max_pool2d", {{1, 64, 112, 112}}, "%r : Tensor = aten::max_pool2d(%x, %l3, %l2, %l1, %l1, %false)"},
    {"avg_pool2d", {{1, 64, 112, 112}}, "%r : Tensor = aten::avg_pool2d(%x, %l2, %l2, %l0, %false, %true, %none)"},
    {"embedding",
     {{30522, 768}},
     "%n : int = prim::Constant[value=4096]()\n  %s : Tensor = aten::arange(%n, %none, %none, %none, %none)\n"
     "  %r : Tensor = aten::embedding(%x, %s, %minus, %false, %false)"},
};

constexpr const char* kPrelude = R"(
  %none : NoneType = prim::Constant()
  %true : bool = prim::Constant[value=1]()
  %false : bool = prim::Constant[value=0]()
  %minus : int = prim::Constant[value=-1]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %three : int = prim::Constant[value=3]()
  %eps : float = prim::Constant[value=1e-05]()
  %l0 : int[] = prim::ListConstruct(%zero, %zero)
  %l1 : int[] = prim::ListConstruct(%one, %one)
  %l2 : int[] = prim::ListConstruct(%two, %two)
  %l3 : int[] = prim::ListConstruct(%three, %three)
  )";

void kernel(benchmark::State& state, const Case& c) {
  std::string text = "graph(";
  std::vector<IValue> inputs;
  const char* names[] = {"%x", "%y", "%z"};
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    text += std::string(i ? ", " : "") + names[i] + " : Tensor";
    Tensor t = Tensor::empty(DType::Float32, c.inputs[i]);
    for (int64_t k = 0; k < t.numel(); ++k)
      t.data<float>()[k] = static_cast<float>(random::normal(random::bits(i, static_cast<uint64_t>(k))));
    // Variances are positive.
    if (std::string_view(c.name) == "batch_norm" && i == 2)
      for (int64_t k = 0; k < t.numel(); ++k) t.data<float>()[k] = 0.5f + std::abs(t.data<float>()[k]);
    inputs.emplace_back(t);
  }
  text += std::string("):") + kPrelude + c.body + "\n  return (%r)\n";
  Diagnostics diagnostics;
  auto module = Module::fromText(text, c.name, {}, diagnostics);
  auto method = module ? module->prepare(diagnostics) : Result<Method>(Failed{});
  if (!method) {
    state.SkipWithError(renderDiagnostics(diagnostics, "bench").c_str());
    return;
  }
  for (auto _ : state) {
    auto outputs = method->run(inputs, diagnostics);
    if (!outputs) {
      state.SkipWithError(renderDiagnostics(diagnostics, "bench").c_str());
      return;
    }
    benchmark::DoNotOptimize(outputs);
  }
}

const bool registered = [] {
  for (const Case& c : kCases)
    benchmark::RegisterBenchmark((std::string("BM_Kernel/") + c.name).c_str(), [&c](benchmark::State& s) {
      kernel(s, c);
    })->Unit(benchmark::kMicrosecond);
  return true;
}();

}  // namespace
}  // namespace tscompile
