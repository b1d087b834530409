#include "runtime/engine/network/tactics.h"

#include "ir/support/number_of_text.h"
#include "ir/support/text.h"
#include "ir/values/tensor.h"
#include "runtime/engine/network/calibration.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/line_product.h"
#include "runtime/kernels/simd.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace tscompile {
namespace {

constexpr std::string_view kFormat = "tscompile tactics 1";

std::string keyOf(const ConvShape& s, WeightStorage storage, int threads) {
  const ConvFrames& f = s.frames;
  const std::string frames = s.isVolume() ? fmt::format("{} frames by {} stride {} dilation {} padding {},{}, ", f.in,
                                                        f.kernel, f.stride, f.dilation, f.padFront, f.padBack)
                                          : "";
  return frames + fmt::format(
                      "{}conv2d {}x{}x{}x{} to {} by {}x{} stride {}x{} dilation {}x{} padding {},{},{},{} groups {} "
                      "on {} threads {}",
                      storage == WeightStorage::BF16 ? "bf16 "
                      : storage == WeightStorage::I8 ? "int8 "
                                                     : "",
                      s.batch, s.inChannels, s.inHeight, s.inWidth, s.outChannels, s.kernelHeight, s.kernelWidth,
                      s.strideHeight, s.strideWidth, s.dilationHeight, s.dilationWidth, s.padTop, s.padLeft,
                      s.padBottom, s.padRight, s.groups, threads, simdLevelName(simdLevel()));
}

// One tactic on memory of its own.
class Trial {
 public:
  Trial(const ConvTactic& tactic, const ConvShape& shape, WeightStorage storage)
      : tactic(tactic), shape_(shape), storage_(storage) {
    input_ = floats(blockedSize(shape.batch, shape.inChannels, shape.inArea()));
    output_ = floats(blockedSize(shape.batch, shape.outChannels, shape.outArea()));
    Tensor weights = floats(shape.outChannels * shape.inGroup() * shape.taps());
    packed_ = Tensor::empty(DType::UInt8, Dims{tactic.packedBytes(shape, storage)});
    workspace_ = Tensor::empty(DType::UInt8, Dims{tactic.workspace(shape, storage)});
    tactic.pack(shape, weights.data<float>(), storage, packed_.raw());
  }
  // In seconds.
  double run(int threads) {
    auto begin = std::chrono::steady_clock::now();
    tactic.run(shape_, input_.data<float>(), packed_.raw(), storage_, output_.data<float>(), {}, workspace_.raw(),
               threads);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  const ConvTactic& tactic;

 private:
  // Small numbers, so that nothing overflows or is denormal.
  static Tensor floats(int64_t count) {
    Tensor t = Tensor::empty(DType::Float32, Dims{count});
    for (int64_t i = 0; i < count; ++i) t.data<float>()[i] = static_cast<float>(i % 17) / 16.0f - 0.5f;
    return t;
  }

  ConvShape shape_;
  WeightStorage storage_;
  Tensor input_, output_, packed_, workspace_;
};

// What is to be chosen for.
struct Wanted {
  const ConvShape& shape;
  WeightStorage storage;
  const TacticCache& settings;

  bool fits(const ConvTactic& t) const { return t.accepts(shape) && workspace(t) <= settings.workspaceLimit; }
  size_t workspace(const ConvTactic& t) const { return static_cast<size_t>(t.workspace(shape, storage)); }
  double cost(const ConvTactic& t) const {
    return t.cost(shape) / (t.multipliesLines(shape, storage) ? lineSpeed(storage) : 1);
  }
};

// By the model. If none keeps to the limits, the one that needs least.
const ConvTactic& cheapest(const Wanted& wanted) {
  const ConvTactic *best = nullptr, *smallest = nullptr;
  for (const ConvTactic* t : convTactics()) {
    if (!t->accepts(wanted.shape)) continue;
    if (!smallest || wanted.workspace(*t) < wanted.workspace(*smallest)) smallest = t;
    if (wanted.fits(*t) && (!best || wanted.cost(*t) < wanted.cost(*best))) best = t;
  }
  TS_CHECK(smallest);
  return best ? *best : *smallest;
}

const ConvTactic& measured(const Wanted& wanted, const ConvTactic& favourite, int threads) {
  constexpr double kHopeless = 4;  // times the cost of the favourite, by the model
  BudgetScope unlimited(nullptr);
  std::vector<Trial> trials;
  trials.emplace_back(favourite, wanted.shape, wanted.storage);
  for (const ConvTactic* t : convTactics())
    if (t != &favourite && wanted.fits(*t) && wanted.cost(*t) < kHopeless * wanted.cost(favourite))
      trials.emplace_back(*t, wanted.shape, wanted.storage);
  return trials[fastestOf(trials.size(), wanted.settings.timingRuns, [&](size_t i) { return trials[i].run(threads); })]
      .tactic;
}

bool isTactic(std::string_view layer, const std::string& tactic) {
  if (!layer.starts_with(kPluginLayer)) return findConvTactic(tactic.c_str());
  return numberOfText<int32_t>(tactic).value_or(0) > 0;
}

std::string linesOf(const std::map<std::string, std::string>& tactics) {
  std::string out(kFormat);
  out += '\n';
  for (const auto& [layer, tactic] : tactics) out += layer + ": " + tactic + "\n";
  return out;
}

}  // namespace

size_t fastestOf(size_t count, int rounds, FunctionRef<double(size_t)> seconds) {
  if (count < 2) return 0;
  std::vector<std::vector<double>> times(count);
  for (size_t i = 0; i < count; ++i) seconds(i);  // what is slow the first time
  for (int round = 0; round < std::max(rounds, 1); ++round)
    for (size_t i = 0; i < count; ++i) times[i].push_back(seconds(i));
  auto median = [](std::vector<double>& all) {
    auto middle = all.begin() + static_cast<ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end());
    return *middle;
  };
  size_t best = 0;
  double bar = median(times[0]) / 1.1;
  for (size_t i = 1; i < count; ++i)
    if (double m = median(times[i]); m < bar) best = i, bar = m;
  return best;
}

std::optional<std::string> TacticCache::find(const std::string& layer) const {
  std::lock_guard lock(mutex_);
  for (const auto* tactics : {&ofEngine_, &tactics_})
    if (auto it = tactics->find(layer); it != tactics->end()) return it->second;
  return std::nullopt;
}

void TacticCache::add(const std::string& layer, std::string_view tactic, Scope scope) {
  std::lock_guard lock(mutex_);
  (scope == Scope::All ? tactics_ : ofEngine_).try_emplace(layer, tactic);
}

std::string TacticCache::text() const {
  std::lock_guard lock(mutex_);
  return linesOf(tactics_);
}

std::string TacticCache::textOfEngine() const {
  std::lock_guard lock(mutex_);
  std::map<std::string, std::string> all = ofEngine_;
  all.insert(tactics_.begin(), tactics_.end());
  return linesOf(all);
}

bool TacticCache::isOfOneEngine() const {
  std::lock_guard lock(mutex_);
  return !ofEngine_.empty();
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
    } else if (!Calibration::isRange(row) && !isTactic(row, std::string(row.substr(colon + 2)))) {
      fail(fmt::format("there is no tactic '{}'", abbreviate(std::string(row.substr(colon + 2)), 40)));
    } else {
      add(std::string(row.substr(0, colon)), row.substr(colon + 2),
          Calibration::isRange(row) ? Scope::OneEngine : Scope::All);
    }
  }
  if (line == 0) fail(fmt::format("expected '{}'", kFormat));
  return good;
}

ProductPrecision productPrecision(const EngineOptions& options) {
  auto as = [&](WeightStorage weights) { return ProductPrecision{weights, options.roundsRows}; };
  switch (options.precision) {
    case DType::Float32:
      return as(WeightStorage::F32);
    case DType::Float16:
      return as(WeightStorage::F16);
    case DType::BFloat16:
      return as(WeightStorage::BF16);
    case DType::Int8:
      return as(WeightStorage::I8);
    default:
      TS_UNREACHABLE();
  }
}

const ConvTactic& chooseConvTactic(const ConvShape& shape, const EngineOptions& options, int threads) {
  static const TacticCache kNone;
  const TacticCache& settings = options.tactics ? *options.tactics : kNone;
  const Wanted wanted{shape, productPrecision(options).weights, settings};
  std::string key;
  if (options.tactics) {
    key = keyOf(shape, wanted.storage, threads);
    if (std::optional<std::string> known = settings.find(key))
      if (const ConvTactic* t = findConvTactic(known->c_str()); t && wanted.fits(*t)) return *t;
  }
  const ConvTactic& favourite = cheapest(wanted);
  if (!options.measureTactics) return favourite;
  const ConvTactic& best = measured(wanted, favourite, threads);
  if (options.tactics) options.tactics->add(key, best.name);
  return best;
}

}  // namespace tscompile
