#include "api/module.h"

#include "frontend/parse.h"
#include "frontend/weights.h"
#include "ir/support/text.h"
#include "ir/verifier.h"
#include "runtime/ops/ops.h"

#include <fmt/core.h>

#include <cctype>
#include <unordered_set>

namespace tscompile {

// What a module and its prepared methods share.
struct ModuleState {
  ParsedText text;
  Weights weights;
  const OpRegistry* registry = nullptr;
  std::vector<Ref<ObjectValue>> objects;  // behind the modules of a dump, in its order
};

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

bool isObjectText(std::string_view text) {
  return startsWith(text, "<") && text.find(" object at 0x") != std::string_view::npos;
}

bool isTensorList(TypePtr t) { return t->is(TypeKind::List) && t->element()->isTensor(); }

// A list of tensors from weights `key.0`, `key.1`, and so on; nothing if there is none.
std::optional<IValue> listOfWeights(Weights& weights, const std::string& key) {
  std::vector<Tensor> tensors;
  while (const Tensor* t = weights.find(key + "." + std::to_string(tensors.size()))) tensors.push_back(*t);
  if (tensors.empty()) return std::nullopt;
  IValue list = tensorList(std::move(tensors));
  list.toList().shared = true;  // runs share it
  return list;
}

class DumpBinder {
 public:
  explicit DumpBinder(ModuleState& state) : s_(state) {}

  void bind() {
    const auto& modules = s_.text.module->modules;
    for (const DumpedModule& m : modules) {
      auto object = Ref<ObjectValue>::make(classType(m.className));
      object->shared = true;
      s_.objects.push_back(std::move(object));
    }
    // Paths of attributes by module, breadth first: children come after their parents.
    std::vector<std::string> prefix(modules.size());
    for (size_t i = 0; i < modules.size(); ++i) {
      const DumpedModule& m = modules[i];
      size_t child = 0;
      for (const ModuleAttribute& a : m.attributes) {
        if (a.isParameter) continue;  // listed again among the attributes
        std::string path = prefix[i] + a.name;
        Symbol name = Symbol::of(a.name);
        if (isObjectText(a.text) && child < m.children.size()) {
          size_t index = m.children[child++];
          prefix[index] = path + ".";
          s_.objects[i]->set(name, IValue(s_.objects[index]));
        } else if (const Tensor* t = s_.weights.find(path)) {
          s_.objects[i]->set(name, *t);
        } else if (std::optional<IValue> list = listOfWeights(s_.weights, path)) {
          s_.objects[i]->set(name, std::move(*list));
        } else if (a.text == "..." || a.text.find("Type{") != std::string::npos) {
          s_.objects[i]->set(name, IValue(Ref<LiteralValue>::make(path, LiteralValue::Kind::MissingTensor)));
        } else {
          s_.objects[i]->set(name, plainAttribute(a.text));
        }
      }
    }
  }

 private:
  ModuleState& s_;
};

// ---- plain graph text: an object from the chains of prim::GetAttr ----

class GraphBinder {
 public:
  GraphBinder(ModuleState& state, const Graph& graph, Diagnostics& diagnostics)
      : s_(state), graph_(graph), diagnostics_(diagnostics) {}

  // The object behind %self, or nothing if the graph has none.
  std::optional<IValue> bind() {
    if (graph_.inputs().empty()) return std::nullopt;
    const Value* self = graph_.input(0);
    bool isModule = self->type()->is(TypeKind::Class) || self->type()->is(TypeKind::Interface);
    // Texts of PyTorch 1.0 do not give it a type.
    if (!isModule && startsWith(self->name(), "self") && self->type()->isTensor()) {
      bool attributes = self->hasUses();
      for (Use& u : self->uses()) attributes &= u.user->kind() == sym::GetAttr;
      isModule = attributes;
    }
    if (!isModule) return std::nullopt;
    auto root = Ref<ObjectValue>::make(self->type());
    root->shared = true;
    // An explicit stack: chains may be long.
    std::vector<std::tuple<const Value*, Ref<ObjectValue>, std::string>> todo{{self, root, ""}};
    while (!todo.empty()) {
      auto [value, object, prefix] = std::move(todo.back());
      todo.pop_back();
      for (Use& u : value->uses()) {
        const Node* n = u.user;
        const IValue* name = n->attributeValue(sym::name);
        if (n->kind() != sym::GetAttr || !name || !name->isString() || n->outputCount() != 1) continue;
        std::string path = prefix + name->toString();
        Symbol symbol = Symbol::of(name->toString());
        if (IValue* known = object->find(symbol)) {
          // The same attribute read again.
          if (known->isObject())
            todo.emplace_back(n->output(), Ref<ObjectValue>::share(&known->toObject()), path + ".");
        } else if (std::optional<IValue> v = attribute(path, n)) {
          object->set(symbol, std::move(*v));
        } else {
          auto inner = Ref<ObjectValue>::make(n->output()->type());
          inner->shared = true;
          object->set(symbol, IValue(inner));
          todo.emplace_back(n->output(), inner, path + ".");
        }
      }
    }
    return IValue(root);
  }

 private:
  // The value of a leaf; nothing for a submodule.
  std::optional<IValue> attribute(const std::string& path, const Node* n) {
    if (const Tensor* t = s_.weights.find(path)) return IValue(*t);
    if (auto m = s_.weights.metadata().find("attribute:" + path); m != s_.weights.metadata().end()) {
      Result<IValue> v = parseValue(m->second, diagnostics_, n->output()->type());
      return v ? *v : IValue();
    }
    TypePtr t = n->output()->type();
    if (isTensorList(t))
      if (std::optional<IValue> list = listOfWeights(s_.weights, path)) return list;
    bool hasParts = n->output()->hasUses();
    for (Use& u : n->output()->uses()) hasParts &= u.user->kind() == sym::GetAttr;
    if (t->is(TypeKind::Class) || t->is(TypeKind::Interface) || (t->isTensor() && hasParts)) return std::nullopt;
    if (reported_.insert(path).second) {
      std::string what = t->isTensor() || t->is(TypeKind::Optional) ? "weight" : "attribute";
      Diagnostic& d = diagnostics_.error(n->range, fmt::format("{} '{}' was not supplied", what, path));
      if (s_.weights.empty()) {
        d.note("supply it with --weights FILE.safetensors; export_torchscript.py writes such a file");
      } else {
        NearestName nearest(path);
        for (const std::string& name : s_.weights.names()) nearest.consider(name);
        if (nearest.found()) d.note("did you mean '" + nearest.name() + "' of the weights?");
      }
    }
    return IValue();
  }

  ModuleState& s_;
  const Graph& graph_;
  Diagnostics& diagnostics_;
  std::unordered_set<std::string> reported_;
};

// Finds the data of constants whose text does not carry it: by value name, in module dumps behind the name of the
// method ("__torch__.Net.forward:12") or function ("relu:3").
void supplyConstants(ModuleState& s, const Graph& graph, const std::string& prefix, ProgramSources& sources) {
  forEachNode(graph, [&](Node* n) {
    if (n->kind() != sym::Constant || n->outputCount() != 1) return;
    const IValue* v = n->attributeValue(sym::value);
    if (!v || !v->isLiteral() || v->toLiteral().kind == LiteralValue::Kind::Object) return;
    ProgramSources::OpaqueConstant& c = sources.constants[n];
    c.key = prefix + n->output()->name();
    if (const Tensor* t = s.weights.find(c.key))
      c.data = *t;
    else if (isTensorList(n->output()->type()))
      c.data = listOfWeights(s.weights, c.key);
  });
}

}  // namespace

Result<Module> Module::load(const std::string& path, const LoadOptions& options, Diagnostics& diagnostics) {
  Result<std::string> text = readFile(path, options.limits.textBytes, diagnostics);
  if (!text) return Failed{};
  return fromText(std::move(*text), path, options, diagnostics);
}

Result<Module> Module::fromText(std::string text, const std::string& name, const LoadOptions& options,
                                Diagnostics& diagnostics) {
  return fromSource(SourceFile::make(name, std::move(text)), options, diagnostics);
}

Result<Module> Module::fromSource(SourcePtr source, const LoadOptions& options, Diagnostics& diagnostics) {
  auto state = std::make_shared<ModuleState>();
  state->registry = options.registry ? options.registry : &allOps();
  ParseOptions parse;
  parse.registry = state->registry;
  parse.limits = options.limits;
  Result<ParsedText> parsed = parseText(std::move(source), diagnostics, parse);
  bool good = parsed.ok();
  for (const std::string& file : options.weights) good &= state->weights.addFile(file, diagnostics, options.limits);
  if (!good) return Failed{};
  state->text = std::move(*parsed);
  if (state->text.module) DumpBinder(*state).bind();
  Module m;
  m.state_ = std::move(state);
  return m;
}

const ParsedText& Module::text() const { return state_->text; }

std::vector<std::string> Module::methods() const {
  std::vector<std::string> out;
  if (state_->text.module) {
    for (const auto& m : state_->text.module->modules[0].methods) out.push_back(m.name);
  } else {
    out.push_back("forward");
  }
  return out;
}

const Graph* Module::graph(std::string_view method) const {
  if (state_->text.module) {
    const DumpedMethod* m = state_->text.module->modules[0].method(method);
    return m ? m->graph.get() : nullptr;
  }
  return method == "forward" && !state_->text.graphs.empty() ? state_->text.graphs[0].get() : nullptr;
}

Result<Method> Module::prepare(Diagnostics& diagnostics, std::string_view method) const {
  ModuleState& s = *state_;
  const Graph* entry = graph(method);
  if (!entry) {
    Diagnostic& d = diagnostics.error(fmt::format("there is no method '{}'", method), ErrorKind::Input);
    d.note("the text has " + join(methods(), ", ", [](const std::string& m) { return m; }));
    return Failed{};
  }
  size_t before = diagnostics.errorCount();
  ProgramSources sources;
  sources.boundInputs.resize(entry->inputs().size());
  if (s.text.module) {
    for (const DumpedModule& m : s.text.module->modules) {
      auto& list = sources.methods[classType(m.className)];
      for (const auto& x : m.methods) {
        if (!x.graph) continue;  // the dump leaves its code out
        if (!list.emplace(x.name, x.graph.get()).second) continue;
        verify(*x.graph, *s.registry, diagnostics);
        supplyConstants(s, *x.graph, m.className + "." + x.name + ":", sources);
      }
    }
    for (const DumpedMethod& f : s.text.module->functions) {
      if (!f.graph) continue;
      sources.functions.emplace(f.name, f.graph.get());
      verify(*f.graph, *s.registry, diagnostics);
      supplyConstants(s, *f.graph, f.name + ":", sources);
    }
    if (!sources.boundInputs.empty()) sources.boundInputs[0] = IValue(s.objects[0]);
  } else {
    verify(*entry, *s.registry, diagnostics);
    supplyConstants(s, *entry, "", sources);
    if (diagnostics.errorCount() == before)
      if (std::optional<IValue> self = GraphBinder(s, *entry, diagnostics).bind())
        sources.boundInputs[0] = std::move(self);
  }
  if (diagnostics.errorCount() != before) return Failed{};
  Result<std::shared_ptr<const Program>> program =
      Program::compile(*entry, *s.registry, std::move(sources), diagnostics);
  if (!program) return Failed{};
  Method m;
  m.state_ = state_;
  m.program_ = *program;
  return m;
}

Result<std::vector<IValue>> Module::forward(std::span<const IValue> inputs, Diagnostics& diagnostics,
                                            const RunOptions& options) const {
  Result<Method> m = prepare(diagnostics);
  if (!m) return Failed{};
  return m->run(inputs, diagnostics, options);
}

std::vector<std::string> Module::unusedWeights() const { return state_->weights.unused(); }

std::vector<ValueInfo> Method::inputs() const {
  std::vector<ValueInfo> out;
  for (const Value* v : program_->inputs()) out.push_back({v->name(), v->type()});
  return out;
}

std::vector<ValueInfo> Method::outputs() const {
  std::vector<ValueInfo> out;
  for (const Use& u : program_->graph().outputs()) out.push_back({u.value->name(), u.value->type()});
  return out;
}

Result<std::vector<IValue>> Method::run(std::span<const IValue> inputs, Diagnostics& diagnostics,
                                        const RunOptions& options) const {
  return program_->run(inputs, options, diagnostics);
}

}  // namespace tscompile
