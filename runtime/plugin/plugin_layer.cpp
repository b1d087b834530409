#include "runtime/plugin/plugin_layer.h"

#include "frontend/files/section_file.h"
#include "ir/support/once.h"
#include "ir/support/text.h"
#include "runtime/engine/network/frame.h"
#include "runtime/engine/network/tactics.h"
#include "runtime/kernels/simd.h"
#include "runtime/plugin/fields.h"
#include "runtime/reference/loops/copy.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>

namespace tscompile {
namespace {

// With several tactics, those of the plan's sizes are timed at the first run, on what that is given: numbers that
// nobody has chosen may mean nothing to a plugin.
class PluginLayer : public Layer, public TunedLayer {
 public:
  PluginLayer(const Node* node, std::shared_ptr<const PluginInstance> plugin, bool inPlace)
      : Layer(node), plugin_(std::move(plugin)), inPlace_(inPlace) {}
  std::string name() const override {
    return "plugin " + plugin_->creator().key.ns + "::" + plugin_->creator().key.name;
  }

  void run(Frame& frame) const override {
    PluginTensors in;
    in.reserve(places.size());
    for (int place : places)
      in.push_back(place < 0 ? Tensor() : contiguous(frame.tensor(inputs[static_cast<size_t>(place)])));
    size_t next = 0;
    PluginTensors out = plugin_->outputsFor(in, inPlace_, [&](size_t) { return frame.tensor(outputs[next++]); });
    checkElements(in, out);
    if (untimed_) timed_.call([&] { time(in, out, frame); });
    plugin_->run(in, out, &frame.context(), frame.threads(), nullptr, tactic_);
  }

  void tune(const Network& network, const EngineOptions& options, int threads) override {
    offered_ = plugin_->tactics();
    if (offered_.size() < 2) return;
    tactic_ = offered_[0];
    if (!options.tactics) return;
    key_ = keyOf(network, threads);
    if (std::optional<std::string> known = options.tactics->find(key_)) {
      auto isKnown = [&](int32_t t) { return std::to_string(t) == *known; };
      if (auto it = std::ranges::find_if(offered_, isKnown); it != offered_.end()) {
        tactic_ = *it;
        return;
      }
    }
    threads_ = threads;
    if (options.measureTactics) untimed_ = options.tactics;
  }

  std::vector<int> places;  // by input of the plugin: which of `inputs` it is, or -1

 private:
  // What shapes() makes of elements that only a run knows: the engine was planned without them.
  void checkElements(const PluginTensors& in, const PluginTensors& out) const {
    std::vector<PluginInstance::Input> given(in.size());
    bool areRead = false;
    for (size_t i = 0; i < in.size(); ++i) {
      if (!in[i].defined()) continue;
      given[i] = {.dtype = static_cast<int32_t>(in[i].dtype()), .sizes = Dims(in[i].sizes())};
      if (!(plugin_->creator().inputs()[i].flags & TSC_PORT_HOST)) continue;
      given[i].elementsKnown = readElements(in[i], given[i].elements);
      areRead |= given[i].elementsKnown;
    }
    if (!areRead) return;
    std::vector<TensorSpec> told = plugin_->infer(given);
    for (size_t o = 0; o < told.size(); ++o)
      if (told[o].dtype != out[o].dtype() || Dims(out[o].sizes()) != told[o].sizes)
        throw ExecutionError(ErrorKind::Unsupported, "the sizes of a result depend on elements that only a run tells");
  }

  // Layers of one timing id share what is found, and without one those with the same fields in the same engine.
  std::string keyOf(const Network& network, int threads) {
    const PluginKey& key = plugin_->creator().key;
    std::string id = plugin_->timingId();
    isShared_ = !id.empty();
    if (!isShared_) id = encodeFields(plugin_->creator(), plugin_->saved());
    constexpr size_t kLongestId = 200;
    std::string out = fmt::format("{}{}::{} {} ", kPluginLayer, key.ns, key.name, key.version);
    out += isShared_ && id.size() <= kLongestId ? jsonQuote(id) : fmt::format("{:016x}", checksumOf(id));
    auto append = [&](const NetTensor& t) { out += fmt::format(" {}{}", shortName(t.dtype), dimsText(t.sizes)); };
    for (int place : places)
      if (place < 0)
        out += " -";
      else
        append(network[inputs[static_cast<size_t>(place)]]);
    return out + fmt::format(" threads {} {}", threads, simdLevelName(simdLevel()));
  }

  // One that fails is not taken, unless it is the first one: then the run tells.
  void time(const PluginTensors& in, const PluginTensors& out, Frame& frame) const {
    BudgetScope unlimited(nullptr);
    PluginTensors given = in, made = out;
    for (size_t o = 0; o < out.size(); ++o) {
      auto over = std::ranges::find_if(in, [&](const Tensor& t) { return t.defined() && t.raw() == out[o].raw(); });
      made[o] = Tensor::empty(out[o].dtype(), Dims(out[o].sizes()));
      if (over != in.end()) given[static_cast<size_t>(over - in.begin())] = made[o];
    }
    auto seconds = [&](size_t i) {
      for (size_t t = 0; t < in.size(); ++t)
        if (in[t].defined() && given[t].raw() != in[t].raw()) copyTensor(given[t], in[t]);
      auto begin = std::chrono::steady_clock::now();
      try {
        plugin_->run(given, made, &frame.context(), threads_, nullptr, offered_[i]);
      } catch (const ExecutionError& e) {
        if (e.kind() == ErrorKind::Interrupted) throw;
        return 1e9;
      }
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    int32_t best = offered_[fastestOf(offered_.size(), untimed_->timingRuns, seconds)];
    tactic_ = best;
    untimed_->add(key_, std::to_string(best), isShared_ ? TacticCache::Scope::All : TacticCache::Scope::OneEngine);
  }

  std::shared_ptr<const PluginInstance> plugin_;
  bool inPlace_;
  std::vector<int32_t> offered_;
  std::string key_;                       // of this layer in the cache
  int threads_ = 1;                       // that the key tells
  bool isShared_ = false;                 // what is found may be told to others
  std::shared_ptr<TacticCache> untimed_;  // takes what is found; null: nothing is to be timed
  mutable Once timed_;
  mutable std::atomic<int32_t> tactic_{0};
};

}  // namespace

bool readElements(const Tensor& t, std::vector<int64_t>& into) {
  constexpr int64_t kMost = 1 << 16;
  if (!t.defined() || t.storage()->isSymbolic() || t.numel() > kMost || !kIntegerTypes.contains(t.dtype()))
    return false;
  for (int64_t i = 0; i < t.numel(); ++i) into.push_back(t.integer(i));
  return true;
}

void convertToPluginLayer(ConvertCall& call, std::shared_ptr<const PluginInstance> plugin,
                          const std::vector<int>& inputs, bool inPlace) {
  const PluginInstance& p = *plugin;
  auto isPresent = [&](int argument) { return argument >= 0 && !call.isNone(static_cast<size_t>(argument)); };
  for (size_t o = 0; o < p.outputs(); ++o) {
    if (p.mayHaveFewerRows(o)) call.refuse(Reason::DataDependent, "how many rows a result has only a run tells");
    int32_t alias = p.alias(o);
    if (!inPlace || alias < 0 || !isPresent(inputs[static_cast<size_t>(alias)])) continue;
    auto argument = static_cast<size_t>(inputs[static_cast<size_t>(alias)]);
    if (!call.isNetworkTensor(argument) || !call.tensor(argument).isContiguous())
      call.refuse(Reason::Aliasing, "a tensor that is written in place must be contiguous, and no constant");
    const NetTensor& written = call.network()[call.operand(argument)];
    if (written.input == NetTensor::kNotAnInput)
      call.refuse(Reason::Aliasing, "a tensor that is written in place must be an input of the engine");
    call.network().writtenInputs.push_back(static_cast<uint32_t>(written.input));
  }
  auto& layer = call.add<PluginLayer>(std::move(plugin), inPlace);
  for (int argument : inputs) {
    layer.places.push_back(isPresent(argument) ? static_cast<int>(layer.inputs.size()) : -1);
    if (isPresent(argument)) layer.inputs.push_back(call.operand(static_cast<size_t>(argument)));
  }
  for (size_t o = 0; o < p.outputs(); ++o) {
    int32_t alias = p.alias(o);
    int argument = alias >= 0 ? inputs[static_cast<size_t>(alias)] : -1;
    if (inPlace && isPresent(argument))
      call.setResult(o, call.argument(static_cast<size_t>(argument)));
    else
      layer.outputs.push_back(call.makeResult(o));
  }
}

}  // namespace tscompile
