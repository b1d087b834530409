#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/engine/optimize/uses.h"

namespace tscompile {
namespace {

constexpr size_t kMaxInputs = 12;
constexpr size_t kMaxValues = 48;  // inputs, constants and steps of one loop

// Of loops of one kind, L.
template <class L>
class PointwiseFuser {
 public:
  explicit PointwiseFuser(Network& network) : n_(network), uses_(network) {}

  void run() {
    for (size_t i = 0; i < n_.layers.size(); ++i) {
      auto* layer = dynamic_cast<L*>(n_.layers[i].get());
      if (!layer) continue;
      for (size_t k = 0; k < layer->inputs.size();) {
        size_t before = producer(i, *layer, k);
        if (before == NetworkUses::kNobody)
          ++k;
        else
          merge(i, *layer, k, before);
      }
    }
    uses_.compact();
  }

 private:
  // The layer whose result only this one reads, as it is; kNobody if there is none, or if one loop would be too long.
  size_t producer(size_t i, const L& layer, size_t k) const {
    TensorId t = layer.inputs[k];
    if (uses_.soleReader(t) != i || !uses_.isWhole(t) || !(n_[t].sizes == n_[layer.outputs[0]].sizes))
      return NetworkUses::kNobody;
    for (size_t other = 0; other < layer.inputs.size(); ++other)
      if (other != k && layer.inputs[other] != t && n_[layer.inputs[other]].buffer == n_[t].buffer)
        return NetworkUses::kNobody;
    size_t before = uses_.writer(t);
    if (before == NetworkUses::kNobody) return before;
    auto* p = dynamic_cast<L*>(n_.layers[before].get());
    bool fits = p && passesOn(*p, layer) && n_[p->outputs[0]].sizes == n_[t].sizes &&
                p->inputs.size() + layer.inputs.size() <= kMaxInputs &&
                p->program.values().size() + layer.program.values().size() <= kMaxValues;
    return fits ? before : NetworkUses::kNobody;
  }

  // Whether the second loop, had it the first one's steps, would see the result as it reads it now.
  bool passesOn(const L& first, const L& second) const {
    const DType computed = first.program.computedIn(), made = n_[first.outputs[0]].dtype;
    return computed == second.program.computedIn() && made == computed;
  }

  void merge(size_t i, L& layer, size_t k, size_t before) {
    auto& p = static_cast<L&>(*n_.layers[before]);
    TensorId t = layer.inputs[k];
    PointwiseProgram program;
    std::vector<TensorId> inputs;
    std::vector<int> values;
    auto take = [&](TensorId id) {
      auto at = std::find(inputs.begin(), inputs.end(), id);
      if (at != inputs.end()) return values[static_cast<size_t>(at - inputs.begin())];
      inputs.push_back(id);
      values.push_back(program.input(n_[id].dtype));
      return values.back();
    };
    std::vector<int> first;
    for (TensorId id : p.inputs) first.push_back(take(id));
    int made = appendProgram(program, p.program, first);
    std::vector<int> second;
    for (TensorId id : layer.inputs) second.push_back(id == t ? made : take(id));
    const DType result = layer.program.outputs()[0].type;
    program.computeIn(layer.program.computedIn());
    program.output(appendProgram(program, layer.program, second), result);
    uses_.remove(i);
    uses_.erase(before);
    layer.program = std::move(program);
    layer.inputs = std::move(inputs);
    uses_.add(i);
  }

  Network& n_;
  NetworkUses uses_;
};

}  // namespace

void fusePointwise(Network& network) {
  PointwiseFuser<PointwiseLayer>(network).run();
  PointwiseFuser<WideLoopLayer>(network).run();
}

}  // namespace tscompile
