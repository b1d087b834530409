#include "runtime/engine/tactics.h"

#include "ir/support/text.h"
#include "ir/tensor.h"
#include "runtime/engine/layout.h"
#include "runtime/engine/simd.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace tscompile {
namespace {

constexpr std::string_view kFormat = "tscompile tactics 1";

std::string keyOf(const ConvShape& s, int threads) {
  return fmt::format(
      "conv2d {}x{}x{}x{} to {} by {}x{} stride {}x{} dilation {}x{} padding {},{},{},{} groups {} on {} threads {}",
      s.batch, s.inChannels, s.inHeight, s.inWidth, s.outChannels, s.kernelHeight, s.kernelWidth, s.strideHeight,
      s.strideWidth, s.dilationHeight, s.dilationWidth, s.padTop, s.padLeft, s.padBottom, s.padRight, s.groups, threads,
      simdLevelName(simdLevel()));
}

// One tactic on memory of its own.
class Trial {
 public:
  Trial(const ConvTactic& tactic, const ConvShape& shape) : tactic(tactic), shape_(shape) {
    input_ = floats(blockedSize(shape.batch, shape.inChannels, shape.inHeight * shape.inWidth));
    output_ = floats(blockedSize(shape.batch, shape.outChannels, shape.outHeight() * shape.outWidth()));
    Tensor weights = floats(shape.outChannels * shape.inGroup() * shape.kernelHeight * shape.kernelWidth);
    packed_ = Tensor::empty(DType::UInt8, Dims{tactic.packedBytes(shape, WeightStorage::F32)});
    workspace_ = Tensor::empty(DType::UInt8, Dims{tactic.workspace(shape)});
    tactic.pack(shape, weights.data<float>(), WeightStorage::F32, packed_.raw());
  }
  void run(int threads) {
    auto begin = std::chrono::steady_clock::now();
    tactic.run(shape_, input_.data<float>(), packed_.raw(), WeightStorage::F32, output_.data<float>(), {},
               workspace_.raw(), threads);
    seconds_.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  double median() {
    std::nth_element(seconds_.begin(), seconds_.begin() + static_cast<ptrdiff_t>(seconds_.size() / 2), seconds_.end());
    return seconds_[seconds_.size() / 2];
  }
  void forget() { seconds_.clear(); }

  const ConvTactic& tactic;

 private:
  // Small numbers, so that nothing overflows or is denormal.
  static Tensor floats(int64_t count) {
    Tensor t = Tensor::empty(DType::Float32, Dims{count});
    for (int64_t i = 0; i < count; ++i) t.data<float>()[i] = static_cast<float>(i % 17) / 16.0f - 0.5f;
    return t;
  }

  ConvShape shape_;
  Tensor input_, output_, packed_, workspace_;
  std::vector<double> seconds_;
};

bool fits(const ConvTactic& t, const ConvShape& shape, const TacticCache& settings) {
  return t.accepts(shape) && static_cast<size_t>(t.workspace(shape)) <= settings.workspaceLimit;
}

// By the model. If none keeps to the limits, the one that needs least.
const ConvTactic& cheapest(const ConvShape& shape, const TacticCache& settings) {
  const ConvTactic *best = nullptr, *smallest = nullptr;
  for (const ConvTactic& t : convTactics()) {
    if (!t.accepts(shape)) continue;
    if (!smallest || t.workspace(shape) < smallest->workspace(shape)) smallest = &t;
    if (fits(t, shape, settings) && (!best || t.cost(shape) < best->cost(shape))) best = &t;
  }
  TS_CHECK(smallest);
  return best ? *best : *smallest;
}

const ConvTactic& measured(const ConvShape& shape, const ConvTactic& favourite, const TacticCache& settings,
                           int threads) {
  constexpr double kHopeless = 4;  // times the cost of the favourite, by the model
  BudgetScope unlimited(nullptr);
  std::vector<Trial> trials;
  trials.emplace_back(favourite, shape);
  for (const ConvTactic& t : convTactics())
    if (&t != &favourite && fits(t, shape, settings) && t.cost(shape) < kHopeless * favourite.cost(shape))
      trials.emplace_back(t, shape);
  if (trials.size() == 1) return favourite;
  for (Trial& t : trials) {
    t.run(threads);  // what is slow the first time
    t.forget();
  }
  for (int round = 0; round < settings.timingRuns; ++round)
    for (Trial& t : trials) t.run(threads);
  Trial* best = &trials[0];
  double bar = best->median() / 1.1;
  for (Trial& t : trials)
    if (double m = t.median(); m < bar) {
      best = &t;
      bar = m;
    }
  return best->tactic;
}

}  // namespace

std::optional<std::string> TacticCache::find(const std::string& layer) const {
  std::lock_guard lock(mutex_);
  auto it = tactics_.find(layer);
  return it == tactics_.end() ? std::nullopt : std::optional(it->second);
}

void TacticCache::add(const std::string& layer, std::string_view tactic) {
  std::lock_guard lock(mutex_);
  tactics_.try_emplace(layer, tactic);
}

std::string TacticCache::text() const {
  std::lock_guard lock(mutex_);
  std::string out = std::string(kFormat) + "\n";
  for (const auto& [layer, tactic] : tactics_) out += layer + ": " + tactic + "\n";
  return out;
}

bool TacticCache::read(std::string_view text, const std::string& name, Diagnostics& diagnostics) {
  size_t line = 0;
  bool good = true;
  auto fail = [&](const std::string& why) {
    diagnostics.error(fmt::format("{}:{}: {}", name, line, why), ErrorKind::Input);
    good = false;
  };
  while (!text.empty() && good) {
    ++line;
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    size_t colon = row.rfind(": ");
    if (line == 1) {
      if (row != kFormat) fail(fmt::format("expected '{}'", kFormat));
    } else if (colon == std::string_view::npos) {
      fail("expected 'layer: tactic'");
    } else if (!findConvTactic(std::string(row.substr(colon + 2)).c_str())) {
      fail(fmt::format("there is no tactic '{}'", abbreviate(std::string(row.substr(colon + 2)), 40)));
    } else {
      add(std::string(row.substr(0, colon)), row.substr(colon + 2));
    }
  }
  if (line == 0) fail(fmt::format("expected '{}'", kFormat));
  return good;
}

const ConvTactic& chooseConvTactic(const ConvShape& shape, const EngineOptions& options, int threads) {
  static const TacticCache kNone;
  const TacticCache& settings = options.tactics ? *options.tactics : kNone;
  std::string key;
  if (options.tactics) {
    key = keyOf(shape, threads);
    if (std::optional<std::string> known = settings.find(key))
      if (const ConvTactic* t = findConvTactic(known->c_str()); t && fits(*t, shape, settings)) return *t;
  }
  const ConvTactic& favourite = cheapest(shape, settings);
  if (!options.measureTactics) return favourite;
  const ConvTactic& best = measured(shape, favourite, settings, threads);
  if (options.tactics) options.tactics->add(key, best.name);
  return best;
}

}  // namespace tscompile
