#include "api/module_state.h"

#include "frontend/files/attribute_tensors.h"
#include "frontend/files/shared_parts.h"
#include "frontend/text/parse.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/builder.h"
#include "ir/graph/module_path.h"
#include "ir/support/remedy.h"
#include "ir/support/text.h"
#include "ir/values/error.h"
#include "ir/values/literal.h"
#include "passes/serving/input_roles.h"
#include "runtime/reference/loops/copy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <unordered_set>

namespace tscompile {
namespace {

// ---- module dumps: objects from the listed attributes ----

// "False", "3", "None" as a value; raw strings and other things stay text.
IValue plainAttribute(std::string_view text) {
  if (text == "True") return true;
  if (text == "False") return false;
  if (text == "None") return {};
  Diagnostics ignored;
  if (!text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '-' || text[0] == '[' ||
                        text[0] == '(' || text[0] == '{' || text == "inf" || text == "nan"))
    if (Result<IValue> v = parseValue(text, ignored)) return *v;
  return IValue(text);
}

// The types by which the methods of a dump read attributes.
class AttributeTypes {
 public:
  explicit AttributeTypes(const ModuleDump& dump) {
    for (const DumpedModule& m : dump.modules)
      for (const DumpedMethod& method : m.methods) collect(method);
    for (const DumpedMethod& f : dump.functions) collect(f);
  }
  // Null if nobody reads it.
  TypePtr find(TypePtr object, Symbol name) const {
    auto it = types_.find({object, name});
    return it == types_.end() ? nullptr : it->second;
  }

 private:
  void collect(const DumpedMethod& method) {
    if (!method.graph) return;
    forEachNode(*method.graph, [this](const Node* n) {
      if (n->kind() != sym::GetAttr || n->inputCount() != 1 || n->outputCount() != 1) return;
      if (const IValue* name = n->attributeValue(sym::name); name && name->isString())
        types_.emplace(std::pair(n->input(0)->type(), Symbol::of(name->toString())), n->output()->type());
    });
  }

  std::map<std::pair<TypePtr, Symbol>, TypePtr> types_;
};

bool isContainer(TypePtr t) {
  if (t->is(TypeKind::Optional)) return isContainer(t->element());
  return t->is(TypeKind::List) || t->is(TypeKind::Tuple) || t->is(TypeKind::Dict) || t->is(TypeKind::Enum);
}

bool isTensorList(TypePtr t) { return t->is(TypeKind::List) && t->element()->isTensor(); }

// The parameters of a recurrent module of torch.nn, which its attribute `_flat_weights` lists, by their own names:
// layer by layer, forwards and backwards. A checkpoint has them so.
std::vector<Tensor> recurrentWeights(Weights& weights, const std::string& prefix) {
  std::vector<Tensor> out;
  for (int layer = 0;; ++layer) {
    const size_t before = out.size();
    for (const char* direction : {"", "_reverse"})
      for (const char* name : {"weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"})
        if (const Tensor* t = weights.find(fmt::format("{}{}_l{}{}", prefix, name, layer, direction)))
          out.push_back(*t);
    if (out.size() == before) return out;
  }
}

// A list of tensors from weights `key.0`, `key.1`, and so on; nothing if there is none.
std::optional<IValue> listOfWeights(Weights& weights, const std::string& key) {
  constexpr std::string_view kRecurrent = "_flat_weights";
  std::vector<Tensor> tensors;
  while (const Tensor* t = weights.find(key + "." + std::to_string(tensors.size()))) tensors.push_back(*t);
  if (tensors.empty() && key.ends_with(kRecurrent))
    tensors = recurrentWeights(weights, key.substr(0, key.size() - kRecurrent.size()));
  if (tensors.empty()) return std::nullopt;
  IValue list = tensorList(std::move(tensors));
  list.toList().shared = true;  // runs share it
  return list;
}

// What stands for a tensor that the weights have not, or not yet.
IValue missing(const std::string& path) {
  return IValue(Ref<LiteralValue>::make(path, LiteralValue::Kind::MissingTensor));
}

}  // namespace

void bindDump(ModuleState& state) {
  const auto& modules = state.text.module->modules;
  const AttributeTypes types(*state.text.module);
  for (const DumpedModule& m : modules) {
    auto object = Ref<ObjectValue>::make(classType(m.className));
    object->shared = true;
    state.objects.push_back(std::move(object));
  }
  const std::vector<std::string> paths = modulePaths(*state.text.module);
  for (size_t i = 0; i < modules.size(); ++i) {
    const DumpedModule& m = modules[i];
    size_t child = 0;
    for (const ModuleAttribute& a : m.attributes) {
      if (a.isParameter) continue;  // listed again among the attributes
      std::string path = paths[i].empty() ? a.name : paths[i] + "." + a.name;
      Symbol name = Symbol::of(a.name);
      if (isObject(a) && child < m.children.size()) {
        state.objects[i]->set(name, IValue(state.objects[m.children[child++]]));
      } else if (const Tensor* t = state.weights.find(path)) {
        state.objects[i]->set(name, *t);
      } else {
        // The weights say what a value is; the text of a dump does not quote strings, so a list of them may be any.
        TypePtr type = types.find(classType(m.className), name);
        auto told = state.weights.metadata().find("attribute:" + path);
        Diagnostics ignored;
        if (told != state.weights.metadata().end())
          if (Result<IValue> v = type ? parseValue(told->second, ignored, type) : parseValue(told->second, ignored)) {
            readEnumMembers(*v, state.weights.metadata());
            state.objects[i]->set(name, withTensors(*v, path, state.weights));
            continue;
          }
        if (std::optional<IValue> list = listOfWeights(state.weights, path)) {
          state.objects[i]->set(name, std::move(*list));
          continue;
        }
        const bool hasTensors = a.text == "..." || a.text.find("Type{") != std::string::npos;
        IValue value = hasTensors ? missing(path) : plainAttribute(a.text);
        const bool isContainerText = type && isContainer(type) && value.isString();
        state.objects[i]->set(name, isContainerText ? missing(path) : std::move(value));
      }
    }
  }
}

namespace {

// ---- plain graph text: an object from the chains of prim::GetAttr ----

class GraphBinder {
 public:
  GraphBinder(ModuleState& state, const Graph& graph, Unsupplied unsupplied, Diagnostics& diagnostics)
      : s_(state), graph_(graph), unsupplied_(unsupplied), diagnostics_(diagnostics) {}

  // The object behind %self, or nothing if the graph has none.
  std::optional<IValue> bind() {
    if (graph_.inputs().empty()) return std::nullopt;
    const Value* self = graph_.input(0);
    // Texts of PyTorch 1.0 do not give it a type.
    if (!isModule(self) || (self->type()->isTensor() && !startsWith(self->name(), "self"))) return std::nullopt;
    auto root = Ref<ObjectValue>::make(self->type());
    share(*root, "");
    objects_[""] = root;
    // An explicit stack: chains may be long.
    std::vector<std::tuple<const Value*, Ref<ObjectValue>, std::string>> todo{{self, root, ""}};
    while (!todo.empty()) {
      auto [value, object, prefix] = std::move(todo.back());
      todo.pop_back();
      for (Use& u : value->uses()) {
        const Node* n = u.user;
        const IValue* name = n->attributeValue(sym::name);
        // What a subgraph takes is the same object inside.
        if (n->subgraph() && u.index() < n->subgraph()->inputs().size())
          todo.emplace_back(n->subgraph()->input(u.index()), object, prefix);
        if (n->kind() != sym::GetAttr || !name || !name->isString() || n->outputCount() != 1) continue;
        std::string path = firstPathOf(prefix + name->toString());
        Symbol symbol = Symbol::of(name->toString());
        if (IValue* known = object->find(symbol)) {
          // The same attribute read again.
          if (known->isObject())
            todo.emplace_back(n->output(), Ref<ObjectValue>::share(&known->toObject()), prefixOf(path));
        } else if (std::optional<IValue> v = supplied(path, n)) {
          object->set(symbol, std::move(*v));
        } else if (!isModule(n->output())) {
          if (unsupplied_ == Unsupplied::Reported) reportMissing(path, n);
          if (unsupplied_ == Unsupplied::Assumed && mayBeTensor(n->output()->type()))
            object->set(symbol, missing(path));
        } else {
          Ref<ObjectValue>& inner = objects_[path];
          if (!inner) inner = Ref<ObjectValue>::make(n->output()->type());
          share(*inner, path);
          object->set(symbol, IValue(inner));
          todo.emplace_back(n->output(), inner, prefixOf(path));
        }
      }
    }
    return IValue(root);
  }

 private:
  void share(ObjectValue& object, const std::string& path) {
    object.shared = true;
    std::lock_guard lock(s_.identities->mutex);
    Ref<ObjectValue>& same = s_.identities->byPath[path];
    if (!same) same = Ref<ObjectValue>::make(object.type);
    object.sameAs = same;
  }

  static std::string prefixOf(const std::string& path) { return path.empty() ? path : path + "."; }

  // Where the weights have what two paths lead to.
  std::string firstPathOf(std::string path) const {
    auto first = s_.weights.metadata().find(std::string(kSameAs) + path);
    return first == s_.weights.metadata().end() ? path : first->second;
  }

  // Of two reads of one path by two objects, one value.
  std::optional<IValue> supplied(const std::string& path, const Node* n) {
    if (auto known = values_.find(path); known != values_.end()) return known->second;
    std::optional<IValue> value = read(path, n);
    if (value) values_.emplace(path, *value);
    return value;
  }

  std::optional<IValue> read(const std::string& path, const Node* n) {
    if (const Tensor* t = s_.weights.find(path)) return IValue(*t);
    if (auto m = s_.weights.metadata().find("attribute:" + path); m != s_.weights.metadata().end()) {
      Result<IValue> v = parseValue(m->second, diagnostics_, n->output()->type());
      if (v) readEnumMembers(*v, s_.weights.metadata());
      return v ? withTensors(*v, path, s_.weights) : IValue();
    }
    if (isTensorList(n->output()->type())) return listOfWeights(s_.weights, path);
    return s_.weights.empty() ? std::nullopt : untold(path, n);
  }

  // Checkpoints do not say that a parameter is None, nor whether a module was training; what is run evaluates.
  std::optional<IValue> untold(const std::string& path, const Node* n) {
    const TypePtr type = n->output()->type();
    const bool isMode = type->kind() == TypeKind::Bool && (path == "training" || path.ends_with(".training"));
    if ((!isMode && !type->is(TypeKind::Optional)) || isWrapped()) return std::nullopt;
    if (toldUntold_.insert(isMode).second)
      diagnostics_.remark(
          n->range, fmt::format("{} is taken for {}, as the weights do not tell it", path, isMode ? "False" : "None"));
    return isMode ? IValue(false) : IValue();
  }

  static bool isModule(const Value* v) {
    bool hasParts = v->hasUses();
    for (Use& u : v->uses()) hasParts &= u.user->kind() == sym::GetAttr;
    TypePtr t = v->type();
    return t->is(TypeKind::Class) || t->is(TypeKind::Interface) || (t->isTensor() && hasParts);
  }

  static bool mayBeTensor(TypePtr t) { return withoutOptional(t)->isTensor(); }

  // Whether all names of the weights begin with one part that the graph does not have, as wrappers put it in front.
  bool isWrapped() {
    if (isWrapped_) return *isWrapped_;
    const std::vector<std::string> names = s_.weights.names();
    const std::string part = names.empty() ? "" : names[0].substr(0, names[0].find('.') + 1);
    bool all = !part.empty() && std::ranges::all_of(names, [&](const std::string& n) { return n.starts_with(part); });
    for (const Use& u : graph_.input(0)->uses()) {
      const IValue* name = u.user->attributeValue(sym::name);
      all = all && !(name && name->isString() && name->toString() + "." == part);
    }
    return *(isWrapped_ = all);
  }

  void reportMissing(const std::string& path, const Node* n) {
    if (!reported_.insert(path).second) return;
    TypePtr t = n->output()->type();
    std::string what = t->isTensor() || t->is(TypeKind::Optional) ? "weight" : "attribute";
    Diagnostic& d = diagnostics_.error(n->range, fmt::format("{} '{}' was not supplied", what, path));
    if (s_.weights.empty()) {
      d.note(textOf(Remedy::Kind::SupplyWeights));
    } else if (std::string advice = s_.weights.adviceFor(path); !advice.empty()) {
      if (!isAroundTold_) d.note(std::move(advice));
      isAroundTold_ = true;
    } else {
      NearestName nearest(path);
      for (const std::string& name : s_.weights.names())
        if (!values_.contains(name)) nearest.consider(name);  // else it is another weight of the model
      if (nearest.found()) d.note("did you mean '" + nearest.name() + "' of the weights?");
      if (!t->isTensor() && !std::exchange(isStateDictTold_, true))
        d.note(
            "no state dict holds it: give the weights that were written with the text as well, or load the state dict "
            "into the model file that the text was made from");
    }
  }

  ModuleState& s_;
  const Graph& graph_;
  Unsupplied unsupplied_;
  Diagnostics& diagnostics_;
  std::unordered_set<std::string> reported_;
  bool isAroundTold_ = false, isStateDictTold_ = false;
  std::optional<bool> isWrapped_;
  std::set<bool> toldUntold_;                                  // of modes, of parameters
  std::unordered_map<std::string, Ref<ObjectValue>> objects_;  // by their first path
  std::unordered_map<std::string, IValue> values_;             // the same of others
};

// The tensor with the strides that the type of a constant names, if they put all elements next to each other.
Tensor laidOutAs(const Node* n, const Tensor& t, Diagnostics& diagnostics) {
  if (!n->output()->type()->isTensor()) return t;
  const TensorFacts& f = n->output()->type()->tensor();
  auto same = [](DimSpan a, DimSpan b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); };
  if (!f.hasStrides || !f.hasRank || !same(f.sizes, t.sizes()) || same(f.strides, t.strides()) ||
      !isNonOverlappingAndDense(f.sizes, f.strides))
    return t;
  try {
    Tensor copy = Tensor::emptyStrided(t.dtype(), f.sizes, f.strides);
    copyTensor(copy, t);
    copy.storage()->makeReadOnly();
    return copy;
  } catch (const ExecutionError& e) {
    diagnostics.error(n->range, e.message(), e.kind());
    return t;
  }
}

// Finds the data of constants whose text does not carry it: by value name, in module dumps after the name of the
// method ("__torch__.Net.forward:12") or function ("relu:3"). Subgraphs share the names of their graph.
void supplyConstants(ModuleState& s, const Graph& graph, const std::string& prefix, ProgramSources& sources,
                     Diagnostics& diagnostics) {
  std::vector<const Graph*> todo{&graph};
  auto supply = [&](const Node* n) {
    if (n->subgraph()) todo.push_back(n->subgraph());
    if (n->kind() != sym::Constant || n->outputCount() != 1) return;
    const IValue* v = n->attributeValue(sym::value);
    if (!v) return;
    const std::string key = prefix + n->output()->name();
    if (!v->isLiteral()) {
      if (std::optional<IValue> whole = withMissingTensors(*v, key, s.weights))
        sources.constants[n] = {key, std::move(whole)};
      return;
    }
    if (v->toLiteral().kind == LiteralValue::Kind::Object) return;
    ProgramSources::OpaqueConstant& c = sources.constants[n];
    c.key = key;
    if (const Tensor* t = s.weights.find(c.key))
      c.data = laidOutAs(n, *t, diagnostics);
    else if (isTensorList(n->output()->type()))
      c.data = listOfWeights(s.weights, c.key);
  };
  while (!todo.empty()) {
    const Graph* g = todo.back();
    todo.pop_back();
    forEachNode(*g, supply);
  }
}

}  // namespace

std::optional<IValue> bindSelf(ModuleState& state, const Graph& graph, Unsupplied unsupplied,
                               Diagnostics& diagnostics) {
  ModuleState& s = state.origin ? *state.origin : state;
  if (!state.takesSelf || graph.inputs().empty()) return std::nullopt;
  if (s.text.module) return IValue(s.objects[0]);
  return GraphBinder(s, graph, unsupplied, diagnostics).bind();
}

ProgramSources collectSources(ModuleState& state, const Graph& entry, Diagnostics& diagnostics) {
  ModuleState& s = state.origin ? *state.origin : state;
  ProgramSources sources;
  sources.boundInputs.resize(entry.inputs().size());
  if (s.text.module) {
    for (const DumpedModule& m : s.text.module->modules) {
      auto& list = sources.methods[classType(m.className)];
      for (const auto& x : m.methods) {
        if (!x.graph) continue;  // the dump leaves its code out
        if (!list.emplace(x.name, x.graph.get()).second) continue;
        verify(*x.graph, *s.registry, diagnostics);
        supplyConstants(s, *x.graph, m.className + "." + x.name + ":", sources, diagnostics);
      }
    }
    for (const DumpedMethod& f : s.text.module->functions) {
      if (!f.graph) continue;
      sources.functions.emplace(f.name, f.graph.get());
      verify(*f.graph, *s.registry, diagnostics);
      supplyConstants(s, *f.graph, f.name + ":", sources, diagnostics);
    }
  }
  if (!s.text.module || state.origin) verify(entry, *s.registry, diagnostics);
  if (!s.text.module && !state.origin) supplyConstants(s, entry, "", sources, diagnostics);
  return sources;
}

void readConstantEnums(ModuleState& state) {
  auto read = [&](const Graph* graph) {
    if (graph) readEnumMembers(*graph, state.weights.metadata());
  };
  for (const auto& graph : state.text.graphs) read(graph.get());
  if (!state.text.module) return;
  for (const DumpedModule& m : state.text.module->modules)
    for (const auto& method : m.methods) read(method.graph.get());
  for (const DumpedMethod& f : state.text.module->functions) read(f.graph.get());
}

// ---- inputs that are left out ----

namespace {

constexpr const char* kMethod = "forward";  // what the one graph is called

// Archives say "x" of an input that a text may call "x.1".
const Value* inputNamed(const Graph& graph, std::string_view name) {
  for (const Value* v : graph.inputs())
    if (v->name() == name || v->name().substr(0, v->name().rfind('.')) == name) return v;
  return nullptr;
}

}  // namespace

std::string sourceName(const ModuleState& origin) {
  if (!origin.name.empty()) return origin.name;
  return fileNameOf(origin.source ? origin.source->path() : origin.archive);
}

const ExportedInputs& exportedInputsOf(const ModuleState& state, const Graph& graph) {
  if (state.exportedRest) return *state.exportedRest;
  const ModuleState& loaded = state.origin ? *state.origin : state;
  size_t at = state.originGraph;
  const auto& graphs = loaded.text.graphs;
  if (!state.origin)
    at = static_cast<size_t>(std::find_if(graphs.begin(), graphs.end(), [&](auto& g) { return g.get() == &graph; }) -
                             graphs.begin());
  static const ExportedInputs kNothing;
  return at < loaded.exported.size() ? loaded.exported[at] : kNothing;
}

namespace {

template <class Visit>
void forEachEnumType(TypePtr type, const Visit& visit) {
  if (type->is(TypeKind::Enum)) visit(type);
  for (TypePtr element : type->elements()) forEachEnumType(element, visit);
}

}  // namespace

Metadata membersOfInputs(const ModuleState& state, const Graph& graph) {
  const Metadata& known = (state.origin ? *state.origin : state).weights.metadata();
  Metadata out;
  for (const Value* input : graph.inputs())
    forEachEnumType(input->type(), [&](TypePtr type) {
      const std::string start = memberKey(type, "");
      for (auto at = known.lower_bound(start); at != known.end() && at->first.starts_with(start); ++at) out.insert(*at);
    });
  return out;
}

void writeDefaults(const ModuleState& state, Metadata& metadata) {
  for (const auto& graph : state.text.graphs) metadata.merge(membersOfInputs(state, *graph));
  auto known = state.defaults.find(kMethod);
  if (known == state.defaults.end() || state.text.graphs.size() != 1) return;
  for (const auto& [name, value] : known->second)
    if (!value.isTensor() && inputNamed(*state.text.graphs[0], name))
      metadata[std::string(kDefaultOf) + name] = valueText(value, LiteralStyle::Plain);
}

void readDefaults(ModuleState& state, const Metadata& metadata) {
  if (state.text.graphs.size() != 1) return;
  for (const auto& [key, text] : metadata) {
    if (!startsWith(key, kDefaultOf)) continue;
    std::string name = key.substr(kDefaultOf.size());
    const Value* input = inputNamed(*state.text.graphs[0], name);
    Diagnostics ignored;
    Result<IValue> value = input ? parseValue(text, ignored, input->type()) : Result<IValue>(Failed{});
    if (value && isInstance(*value, input->type())) state.defaults[kMethod].emplace(std::move(name), *value);
  }
}

bool bindDefaults(Graph& graph, const std::map<std::string, IValue>& defaults) {
  bool changed = false;
  std::map<std::string, IValue> all = defaults;
  for (const Value* v : graph.inputs())
    if (v->type()->is(TypeKind::Optional) && roleByName(v) != ServingInput::Ids) all.emplace(v->givenName(), IValue());
  for (const auto& [name, value] : all) {
    const Value* input = inputNamed(graph, name);
    if (!input || input->type()->isTensor()) continue;
    size_t at = 0;
    while (graph.input(at) != input) ++at;
    Builder builder(graph, graph.block()->first() ? graph.block()->first() : graph.returnNode());
    graph.input(at)->replaceAllUsesWith(builder.constant(value));
    graph.block()->removeParameter(at);
    changed = true;
  }
  return changed;
}

}  // namespace tscompile
