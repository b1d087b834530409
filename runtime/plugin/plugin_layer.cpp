#include "runtime/plugin/plugin_layer.h"

#include "runtime/engine/frame.h"
#include "runtime/reference/copy.h"

namespace tscompile {
namespace {

class PluginLayer : public Layer {
 public:
  PluginLayer(const Node* node, std::shared_ptr<const PluginInstance> plugin, bool inPlace)
      : Layer(node), plugin_(std::move(plugin)), inPlace_(inPlace) {}
  std::string name() const override {
    return "plugin " + plugin_->creator().key.ns + "::" + plugin_->creator().key.name;
  }

  void run(Frame& frame) const override {
    PluginTensors in, out;
    in.reserve(places.size());
    for (int place : places)
      in.push_back(place < 0 ? Tensor() : contiguous(frame.tensor(inputs[static_cast<size_t>(place)])));
    size_t next = 0;
    for (size_t o = 0; o < plugin_->outputs(); ++o) {
      int32_t alias = plugin_->alias(o);
      bool over = alias >= 0 && in[static_cast<size_t>(alias)].defined();
      if (over && inPlace_) {
        requireWritable(in[static_cast<size_t>(alias)]);
        out.push_back(in[static_cast<size_t>(alias)]);
        continue;
      }
      Tensor made = frame.tensor(outputs[next++]);
      if (over) {
        copyTensor(made, in[static_cast<size_t>(alias)]);
        in[static_cast<size_t>(alias)] = made;
      }
      out.push_back(made);
    }
    std::vector<int64_t> rows;
    plugin_->run(in, out, &frame.context(), frame.threads(), &rows);
    // What an engine makes has the sizes that it was planned for. The interpreter takes over, unless the engine has
    // written an input.
    for (size_t o = 0; o < rows.size(); ++o)
      if (rows[o] >= 0 && rows[o] != out[o].size(0))
        throw ExecutionError(ErrorKind::Unsupported, "how many rows a result has only a run tells");
  }

  std::vector<int> places;  // by input of the plugin: which of `inputs` it is, or -1

 private:
  std::shared_ptr<const PluginInstance> plugin_;
  bool inPlace_;
};

}  // namespace

void convertToPluginLayer(ConvertCall& call, std::shared_ptr<const PluginInstance> plugin,
                          const std::vector<int>& inputs, bool inPlace) {
  const PluginInstance& p = *plugin;
  auto isPresent = [&](int argument) { return argument >= 0 && !call.isNone(static_cast<size_t>(argument)); };
  for (size_t o = 0; o < p.outputs(); ++o) {
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
