// Which way of running a layer is taken where there are several: by a model of costs, by measuring, or as an earlier
// measurement has found.
#pragma once

#include "ir/support/diagnostics.h"
#include "runtime/call/function_ref.h"
#include "runtime/engine/network/engine_options.h"
#include "runtime/kernels/conv.h"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace tscompile {

class Calibration;
class Network;

// What is to be known of tactics. First of all what measurements have found, by a text that tells the layer, its sizes,
// the threads and the instruction set; and the ranges of values that calibration has found. As a file: one line "layer:
// tactic" each, sorted, below a line that names the format. An input like any other: with the same cache the same
// tactics are taken.
class TacticCache {
 public:
  std::optional<std::string> find(const std::string& layer) const;
  // What was found for one engine alone stands in its file, and in no other.
  enum class Scope : uint8_t { All, OneEngine };
  void add(const std::string& layer, std::string_view tactic, Scope scope = Scope::All);
  // What others may take, too.
  std::string text() const;
  // That, and what was found for this engine alone.
  std::string textOfEngine() const;
  bool isOfOneEngine() const;  // whether something was found for this engine alone
  // False after a report if the text is not one of these. Lines of layers that are there already are ignored.
  bool read(std::string_view text, const std::string& name, Diagnostics& diagnostics);

  int timingRuns = 9;                        // of each tactic that is timed
  std::shared_ptr<Calibration> calibration;  // engines that are made now compute in f32 and are measured; may be null
  size_t workspaceLimit = SIZE_MAX;  // bytes that a tactic may need for itself, if there is one that keeps to it

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> tactics_, ofEngine_;
};

// The fastest of some ways to do a thing: each is done once without being timed, then in turn. The first one stays
// unless another is faster by more than a tenth, in medians. `seconds(i)` does it in way i and tells how long it took.
size_t fastestOf(size_t count, int rounds, FunctionRef<double(size_t)> seconds);

// Layers that know their ways to run themselves, such as plugins. Told once, when the plan is made. Their keys in the
// cache begin with kPluginLayer, and their tactics are numbers.
class TunedLayer {
 public:
  virtual void tune(const Network& network, const EngineOptions& options, int threads) = 0;

 protected:
  ~TunedLayer() = default;
};
inline constexpr std::string_view kPluginLayer = "plugin ";

// The cheapest tactic that accepts the shape within the limits; a tactic that the cache names comes first. With
// `measureTactics`, what the cache does not know is timed and added: the cheapest by the model stays unless another is
// faster by more than a tenth, in medians of interleaved runs.
ProductPrecision productPrecision(const EngineOptions& options);

const ConvTactic& chooseConvTactic(const ConvShape& shape, const EngineOptions& options, int threads);

}  // namespace tscompile
