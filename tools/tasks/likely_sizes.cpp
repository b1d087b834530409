#include "tools/tasks/likely_sizes.h"

#include "api/input_range.h"
#include "api/lower.h"
#include "api/symbolic_ranges.h"

#include <algorithm>
#include <chrono>
#include <functional>

namespace tscompile {
namespace {

constexpr int64_t kMostSize = int64_t{1} << 20;

// Sizes of the weights, each once.
std::vector<int64_t> sizesOfWeights(const Graph& graph) {
  constexpr size_t kMost = 24;
  std::vector<int64_t> out;
  forEachNode(graph, [&](const Node* n) {
    const IValue* v = n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
    if (!v || !v->isTensor() || !v->tensorImpl()) return;
    for (int64_t size : v->toTensor().sizes())
      if (out.size() < kMost && std::ranges::count(out, size) == 0) out.push_back(size);
  });
  return out;
}

// Of a usual kind of tensor, whose rank and dtype fit: sizes that fit, where those that are usual do not and others are
// found. `fits` tells of ranges.
void settleSizes(InputRange& usual, const std::vector<int64_t>& known,
                 const std::function<bool(const InputRange&)>& fits) {
  constexpr int64_t kImages[] = {32, 28, 64, 96, 128, 256, 299};
  constexpr size_t kImageRank = 4;
  const size_t rank = usual.most.size(), sides = rank >= kImageRank ? 2 : 0;
  InputRange open = usual;
  std::ranges::fill(open.least, 1);
  std::ranges::fill(open.most, kMostSize);
  // Some dimensions at a time, of one size: the usual one, or the first of others that fits; else they stay open.
  const auto settle = [&](size_t from, size_t count, std::span<const int64_t> others) {
    InputRange tried = open;
    for (size_t k = 0; k <= others.size(); ++k) {
      for (size_t d = from; d < from + count; ++d)
        tried.least[d] = tried.most[d] = k == 0 ? usual.most[d] : others[k - 1];
      if (!fits(tried)) continue;
      for (size_t d = from; d < from + count; ++d) usual.least[d] = usual.most[d] = tried.most[d];
      open = tried;
      return;
    }
  };
  // That of a batch comes last: weights settle the others.
  for (size_t d = 1; d + sides < rank; ++d) settle(d, 1, known);
  if (sides) settle(rank - sides, sides, kImages);
  if (rank > 0) settle(0, 1, known);
}

}  // namespace

std::string likelySizes(const Module& module, const std::string& method, const std::string& input) {
  constexpr const char* kUsual[] = {"2x3:f32",      "1x3x224x224:f32", "1x9:i64",
                                    "1x64x100:f32", "3:f32",           "1x3x8x64x64:f32"};
  Diagnostics unheard;
  LowerOptions lowering;
  lowering.method = method;
  Result<Module> lowered = module.lowered(lowering, unheard);
  if (!lowered || !lowered->graph()) return "";
  const Graph& graph = *lowered->graph();
  const auto fits = [&](const InputRange& range) {
    return ShapePropagation(graph, lowered->registry(), shapeOptions(graph, {range}, false)).conflicts().empty();
  };
  for (const char* sizes : kUsual) {
    std::optional<InputRange> usual = parseInputRange(input + "=" + sizes);
    if (!usual) return "";
    InputRange open = *usual;
    std::ranges::fill(open.least, 1);
    std::ranges::fill(open.most, kMostSize);
    if (!fits(open)) continue;
    // Of large models some sizes are tried, for nobody waits for a hint.
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds kLongest{500};
    const Clock::time_point start = Clock::now();
    settleSizes(*usual, sizesOfWeights(graph),
                [&](const InputRange& range) { return Clock::now() - start < kLongest && fits(range); });
    return rangeSizesText(*usual) + ":" + std::string(shortName(usual->dtype));
  }
  return "";
}

}  // namespace tscompile
