#include "runtime/plugin/plugin_operators.h"

#include "ir/graph/graph.h"
#include "ir/support/text.h"
#include "ir/values/literal.h"
#include "runtime/call/thread_pool.h"
#include "runtime/plugin/plugin_layer.h"
#include "runtime/reference/loops/copy.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

const Symbol kInputs = Symbol::of("inputs"), kVersion = Symbol::of("plugin_version"), kInPlace = Symbol::of("inplace"),
             kPhase = Symbol::of(kPluginPhase);

// The attributes that every plugin's node may have, beside `inputs`.
struct Reserved {
  std::string version;
  bool inPlace = false;
  uint32_t phase = TSC_BUILDING;
  std::vector<std::string> problems;
};
Reserved reservedOf(const Node& node) {
  Reserved r;
  if (const IValue* v = node.attributeValue(kVersion)) {
    if (v->isString())
      r.version = v->toString();
    else
      r.problems.push_back("plugin_version is a text, such as \"2\"");
  }
  if (const IValue* v = node.attributeValue(kInPlace)) {
    if (v->isInt() && (v->toInt() == 0 || v->toInt() == 1))
      r.inPlace = v->toInt() == 1;
    else
      r.problems.push_back("inplace is 0 or 1");
  }
  if (const IValue* v = node.attributeValue(kPhase)) {
    if (v->isString() && (v->toString() == "building" || v->toString() == kRunningPhase))
      r.phase = v->toString() == kRunningPhase ? TSC_RUNNING : TSC_BUILDING;
    else
      r.problems.push_back("plugin_phase is \"building\" or \"running\"");
  }
  return r;
}

// What tells two nodes apart whose operators differ.
std::string keyOf(const Node& node) {
  std::string key(node.kind().text());
  for (const Attribute& a : node.attributes()) {
    key += '\n';
    key += a.name.text();
    key += '=';
    if (a.value()) appendValue(*a.value(), LiteralStyle::Attribute, key);
  }
  key += '\n';
  for (const Use& u : node.inputs()) key += u.value->type()->is(TypeKind::None) ? '0' : '1';
  return key + std::to_string(node.outputCount());
}

TraitSet traitsOf(const PluginInstance& plugin) {
  TraitSet traits = plugin.isDeterministic() ? TraitSet{} : TraitSet{Trait::Random};
  for (size_t o = 0; o < plugin.outputs(); ++o)
    if (plugin.mayHaveFewerRows(o)) traits = traits | TraitSet{Trait::DependsOnElements};
  return traits;
}

int threadsOf(const RunContext& context) {
  return context.options().threads > 0 ? context.options().threads : defaultThreads();
}

}  // namespace

std::vector<int> PluginOperators::inputsOf(const Node& node, const PluginCreator& creator, std::string& problem) {
  auto ports = creator.inputs();
  std::vector<int> argument(ports.size(), -1);
  const IValue* names = node.attributeValue(kInputs);
  if (!names) {
    if (node.inputCount() > ports.size())
      problem = fmt::format("it has {}, not {}", counted(ports.size(), "input"), node.inputCount());
    for (size_t i = 0; i < node.inputCount() && i < ports.size(); ++i) argument[i] = static_cast<int>(i);
    return argument;
  }
  if (!names->isList() || names->toList().items.size() != node.inputCount()) {
    problem = fmt::format("the attribute inputs must name each of the {}", counted(node.inputCount(), "input"));
    return argument;
  }
  for (size_t i = 0; i < node.inputCount(); ++i) {
    const IValue& item = names->toList().items[i];
    std::string name = item.isString() ? item.toString() : "";
    auto it = std::find_if(ports.begin(), ports.end(), [&](const tsc_port& p) { return tsc::view(p.name) == name; });
    if (it == ports.end()) {
      NearestName nearest(name);
      for (const tsc_port& p : ports) nearest.consider(tsc::view(p.name));
      problem = fmt::format("there is no input '{}'{}", abbreviate(name, 80),
                            nearest.found() ? ", did you mean " + nearest.name() + "?" : "");
      return argument;
    }
    int& place = argument[static_cast<size_t>(it - ports.begin())];
    if (place >= 0) problem = fmt::format("the input {} is there twice", name);
    place = static_cast<int>(i);
  }
  return argument;
}

std::shared_ptr<PluginOperators::Bound> PluginOperators::make(const Node& node, OperatorProblem& problem) const {
  Reserved reserved = reservedOf(node);
  PluginCreatorPtr creator = registry_.find(node.kind().nameSpace(), node.kind().name(), reserved.version);
  if (!creator) {
    problem.text = registry_.missing(node.kind().nameSpace(), node.kind().name(), reserved.version);
    return nullptr;
  }
  auto bound = std::make_shared<Bound>();
  ParsedFields parsed = fieldsOf(node, *creator);
  parsed.problems.insert(parsed.problems.end(), reserved.problems.begin(), reserved.problems.end());
  std::string wrongInputs;
  bound->inputs = inputsOf(node, *creator, wrongInputs);
  const bool knowsInputs = wrongInputs.empty();
  if (!knowsInputs) parsed.problems.push_back(std::move(wrongInputs));
  auto isPresent = [&](size_t port) {
    int at = bound->inputs[port];
    return at >= 0 && !node.input(static_cast<size_t>(at))->type()->is(TypeKind::None);
  };
  for (size_t i = 0; i < bound->inputs.size(); ++i) {
    const tsc_port& p = creator->inputs()[i];
    if (!(p.flags & TSC_PORT_OPTIONAL) && !isPresent(i) && knowsInputs)
      parsed.problems.push_back(fmt::format("the input {} is missing", tsc::view(p.name)));
  }
  if (!parsed.problems.empty()) {
    problem.text = problemText(*creator, parsed.problems);
    return nullptr;
  }
  bound->instance =
      PluginInstance::create(creator, std::move(parsed.fields), operators_.builtIn(), reserved.phase, "", problem);
  if (!bound->instance) return nullptr;
  if (bound->instance->outputs() != node.outputCount() && node.outputCount() != 0) {
    problem.text =
        problemText(*creator, {fmt::format("with these fields it has {}, not {}",
                                           counted(bound->instance->outputs(), "output"), node.outputCount())});
    return nullptr;
  }
  bound->inPlace = reserved.inPlace;

  // The schema of this very node: its inputs in their order.
  auto isOverwritten = [&](size_t port, size_t outputs) {
    for (size_t o = 0; o < outputs && bound->inPlace; ++o)
      if (bound->instance->alias(o) == static_cast<int32_t>(port) && isPresent(port)) return true;
    return false;
  };
  std::vector<std::string> arguments(node.inputCount()), returns;
  for (size_t i = 0; i < bound->inputs.size(); ++i) {
    if (bound->inputs[i] < 0) continue;
    std::string_view name = tsc::view(creator->inputs()[i].name);
    arguments[static_cast<size_t>(bound->inputs[i])] = isOverwritten(i, bound->instance->outputs())
                                                           ? fmt::format("Tensor(a{}!) {}", i, name)
                                                           : fmt::format("Tensor? {}", name);
  }
  for (size_t o = 0; o < bound->instance->outputs(); ++o) {
    int32_t alias = bound->instance->alias(o);
    bool over = alias >= 0 && isOverwritten(static_cast<size_t>(alias), o + 1);
    returns.push_back(over ? fmt::format("Tensor(a{}!)", alias) : "Tensor");
  }
  auto list = [](const std::vector<std::string>& items) { return join(items, ", ", [](auto& s) { return s; }); };
  bound->schema = fmt::format("{}({}) -> {}", node.kind().text(), list(arguments),
                              returns.size() == 1 ? returns[0] : "(" + list(returns) + ")");
  Bound* b = bound.get();
  bound->functions.infer = [b](InferCall& call) { b->infer(call); };
  bound->functions.kernel = [b](KernelCall& call) { b->run(call); };
  bound->functions.convert = [b](ConvertCall& call) { convertToPluginLayer(call, b->instance, b->inputs, b->inPlace); };
  bound->functions.lifetime = bound;
  bound->def = {.schema = bound->schema,
                .infer = inferBySession,
                .kernel = computeBySession,
                .convert = convertBySession,
                .dtypes = kAllTypes,
                .traits = traitsOf(*bound->instance),
                .session = &bound->functions};
  bound->op = Operator::make(bound->def, operators_);
  return bound;
}

const PluginOperators::Bound* PluginOperators::bind(const Node& node, OperatorProblem* problem) const {
  std::string key = keyOf(node);
  std::lock_guard lock(mutex_);
  auto it = bound_.find(key);
  if (it == bound_.end()) {
    OperatorProblem why;
    std::shared_ptr<Bound> made = make(node, why);
    if (!made) {
      if (problem) *problem = std::move(why);
      return nullptr;
    }
    it = bound_.emplace(std::move(key), std::move(made)).first;
  }
  return it->second.get();
}

void PluginOperators::forgetUnused() const {
  std::vector<std::shared_ptr<Bound>> unused;  // destroyed without the lock: that calls plugins
  std::lock_guard lock(mutex_);
  for (auto it = bound_.begin(); it != bound_.end();)
    if (it->second.use_count() == 1)
      unused.push_back(std::move(it->second)), it = bound_.erase(it);
    else
      ++it;
}

const Operator* PluginOperators::resolve(const Node& node, OperatorProblem* problem) const {
  const Bound* bound = bind(node, problem);
  return bound ? bound->op.get() : nullptr;
}

std::shared_ptr<const PluginInstance> PluginOperators::instanceOf(const Node& node, OperatorProblem* problem) const {
  const Bound* bound = bind(node, problem);
  return bound ? bound->instance : nullptr;
}

std::vector<Symbol> PluginOperators::kinds() const {
  std::vector<Symbol> out;
  for (const PluginCreatorPtr& c : registry_.list()) out.push_back(Symbol::of(c->key.ns + "::" + c->key.name));
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// ---- calls ----

std::vector<PluginInstance::Input> PluginOperators::Bound::describe(const InferCall& call) const {
  std::vector<PluginInstance::Input> out(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] < 0) continue;
    auto at = static_cast<size_t>(inputs[i]);
    if (call.isNone(at)) continue;
    TensorInfo t = call.rankedTensor(at);
    if (t.dtype == DType::Undefined) throw InferCall::NotKnown{};
    out[i].dtype = static_cast<int32_t>(t.dtype);
    out[i].sizes = Dims(t.sizes);
    const IValue* known = call.constant(at);
    if ((instance->creator().inputs()[i].flags & TSC_PORT_HOST) && known && known->isTensor())
      out[i].elementsKnown = readElements(known->toTensor(), out[i].elements);
  }
  return out;
}

std::vector<PluginInstance::Input> PluginOperators::Bound::described(const PluginTensors& given) const {
  std::vector<PluginInstance::Input> out(given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined()) continue;
    out[i] = {static_cast<int32_t>(given[i].dtype()), Dims(given[i].sizes()), {}, false};
    if (instance->creator().inputs()[i].flags & TSC_PORT_HOST)
      out[i].elementsKnown = readElements(given[i], out[i].elements);
  }
  return out;
}

void PluginOperators::Bound::infer(InferCall& call) const {
  std::vector<TensorSpec> specs = instance->infer(describe(call));
  for (size_t o = 0; o < specs.size(); ++o) {
    if (instance->mayHaveFewerRows(o) && !specs[o].sizes.empty()) specs[o].sizes[0] = kUnknownSize;
    call.result(specs[o].dtype, specs[o].sizes);
  }
}

void PluginOperators::Bound::run(KernelCall& call) const {
  PluginTensors in(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] < 0 || call.isNone(static_cast<size_t>(inputs[i]))) continue;
    in[i] = contiguous(call.tensor(static_cast<size_t>(inputs[i])));
  }
  for (size_t o = 0; o < instance->outputs() && inPlace; ++o) {
    auto base = static_cast<size_t>(instance->alias(o));
    if (instance->alias(o) < 0 || !in[base].defined()) continue;
    const Tensor& given = call.tensor(static_cast<size_t>(inputs[base]));
    if (!given.isContiguous())
      call.fail("the tensor {} is written in place, and must be contiguous",
                tsc::view(instance->creator().inputs()[base].name));
    call.setResult(o, given);
  }
  auto boundOf = [&](size_t o) {
    const TensorSpec spec = instance->infer(described(in))[o];
    return Tensor::empty(spec.dtype, spec.sizes);
  };
  PluginTensors out = instance->outputsFor(
      in, inPlace, [&](size_t o) { return instance->mayHaveFewerRows(o) ? boundOf(o) : call.out(o); });
  std::vector<int64_t> rows;
  instance->run(in, out, &call.context(), threadsOf(call.context()), &rows);
  for (size_t o = 0; o < rows.size(); ++o) {
    if (!instance->mayHaveFewerRows(o)) continue;
    Dims sizes(out[o].sizes());
    if (rows[o] >= 0) sizes[0] = rows[o];
    call.setResult(o, out[o].withGeometry(sizes, contiguousStrides(sizes), out[o].offset()));
  }
}

}  // namespace tscompile
