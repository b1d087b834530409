#include "api/support/archive.h"

#include "api/support/autocast.h"
#include "frontend/archive/source_origins.h"
#include "frontend/archive/torch_archive.h"
#include "frontend/files/archive_kind.h"
#include "frontend/files/file_io.h"
#include "frontend/files/file_kind.h"
#include "frontend/source/autocast_regions.h"
#include "frontend/source/library.h"
#include "frontend/source/sparse_products.h"
#include "frontend/source/syntax.h"
#include "ir/analysis/context_kind.h"
#include "ir/values/error.h"
#include "ir/values/literal.h"
#include "ir/values/quantization.h"
#include "passes/catalog.h"
#include "passes/lowering/call_targets.h"
#include "runtime/interpreter/program.h"
#include "runtime/ops/quantized/packed_params.h"

#include <fmt/core.h>

#include <unordered_map>

namespace tscompile {
namespace {

using source::anew;
using source::ClassInfo;
using source::ClassKind;
using source::Library;
using source::MethodInfo;

class ArchiveLoader {
 public:
  ArchiveLoader(const TorchArchive& archive, const OpRegistry& registry, const Limits& limits, Diagnostics& diagnostics,
                UnknownOperators unknown)
      : archive_(archive),
        registry_(registry),
        diagnostics_(diagnostics),
        library_([this](const std::string& module) { return codeOf(module); }, registry, diagnostics, limits) {
    library_.setUnknownOperators(unknown);
  }

  bool load(OpenedArchive& out) {
    std::vector<IValue> constants;
    for (PickleRef c : archive_.constants()) constants.push_back(valueOf(c, nullptr));
    library_.setConstants(std::move(constants));
    library_.setVersion(archive_.version());
    library_.setOrigins([this](const SourceFile* file, uint32_t byte) {
      auto at = origins_.find(file);
      return at == origins_.end() ? CodeLocation() : at->second.of(byte);
    });
    PickleRef root = &archive_.data();
    IValue object = valueOf(root, nullptr);
    if (!object.isObject() || failed_) return fail(root, "the file holds no module");
    requestMethods();
    if (!library_.compile()) return false;
    if (!sparse_.empty() && !makeSparse()) return false;
    if (!restoreStates() || !castInRegions()) return false;
    for (const auto& m : rootInfo()->methods)
      for (const Argument& a : library_.schemaOf(*m).arguments)
        if (a.defaultValue) out.defaults[m->name].emplace(a.name, *a.defaultValue);
    makeDump(Ref<ObjectValue>::share(&object.toObject()), out);
    return true;
  }

 private:
  struct Instance {
    Ref<ObjectValue> object;
    ClassInfo* info;
    PickleRef state;  // for __setstate__; null: it has its attributes
  };

  bool fail(PickleRef at, std::string message, ErrorKind kind = ErrorKind::Input) {
    if (!failed_ && !diagnostics_.full())
      diagnostics_.fileError(archive_.path() + ":data.pkl", at->offset(), std::move(message), kind);
    failed_ = true;
    return false;
  }

  SourcePtr codeOf(const std::string& module) {
    std::string name = TorchArchive::codeFileOf(module + ".X");
    if (!archive_.has(name)) return nullptr;
    Result<SourcePtr> code = archive_.code(name, diagnostics_);
    if (!code) {
      failed_ = true;
      return nullptr;
    }
    addOrigins(name, code->get());
    return *code;
  }

  // Where they are missing or broken, places are those in the archive.
  void addOrigins(const std::string& name, const SourceFile* code) {
    Diagnostics ignored;
    if (auto info = archive_.debugInfo(name, ignored); info && *info)
      origins_.emplace(code, SourceOrigins((*info)->root()));
  }

  // ---- values ----

  IValue valueOf(PickleRef v, TypePtr type) {
    if (type && type->is(TypeKind::Optional)) type = type->element();
    if (auto known = values_.find(v); known != values_.end()) return known->second;
    switch (v->kind()) {
      case PickleValue::Kind::None:
        return {};
      case PickleValue::Kind::Bool:
        return v->toBool();
      case PickleValue::Kind::Int:
        if (type && type->is(TypeKind::Float)) return static_cast<double>(v->toInt());
        return v->toInt();
      case PickleValue::Kind::Float:
        return v->toFloat();
      case PickleValue::Kind::Complex:
        return IValue(v->toComplex());
      case PickleValue::Kind::String:
        return IValue(v->text());
      case PickleValue::Kind::Device:
        if (std::optional<Device> d = deviceFromText(v->text())) return *d;
        break;
      case PickleValue::Kind::Tensor:
        return values_[v] = tensorOf(v);
      case PickleValue::Kind::List:
        return listOf(v, type);
      case PickleValue::Kind::Tuple:
        return tupleOf(v, type);
      case PickleValue::Kind::Dict:
        return dictOf(v, type);
      case PickleValue::Kind::Object:
        return objectOf(v);
      default:
        break;
    }
    fail(v, "the archive holds a value that TorchScript does not have", ErrorKind::Unsupported);
    return {};
  }

  IValue tensorOf(PickleRef v) {
    const PickleTensor& t = v->tensor();
    if (t.tensor.defined()) return isQuantized(t.dtype) ? quantizedTensor(t) : t.tensor;
    fail(v, fmt::format("tensors of {} are not supported", pythonName(t.dtype)), ErrorKind::Unsupported);
    return {};
  }

  // Its storage is one of its own over the same memory, which says what the integers stand for.
  static Tensor quantizedTensor(const PickleTensor& t) {
    const Storage* from = t.tensor.storage().get();
    from->retain();
    auto release = [](void* storage) { static_cast<const Storage*>(storage)->release(); };
    Ref<Storage> storage = Storage::borrow(from->data(), from->bytes(), release, const_cast<Storage*>(from), true);
    Tensor view = Tensor::view(t.tensor.dtype(), storage, t.sizes, t.tensor.strides(), t.tensor.offset());
    return quantizedAs(view, t.dtype, *t.quantization);
  }

  TypePtr taggedType(PickleRef v, TypePtr declared, TypeKind kind) {
    if (declared && declared->is(kind)) return declared;
    TypePtr tagged = v->typeTag().empty() ? nullptr : library_.typeOfText(v->typeTag());
    return tagged && tagged->is(kind) ? tagged : nullptr;
  }

  IValue listOf(PickleRef v, TypePtr type) {
    type = taggedType(v, type, TypeKind::List);
    TypePtr element = type ? type->element() : nullptr;
    auto list = Ref<ListValue>::make(element ? element : types().any, std::vector<IValue>());
    list->shared = true;
    values_[v] = IValue(list);
    for (PickleRef item : v->items()) list->items.push_back(valueOf(item, element));
    if (!element && !list->items.empty()) list->elementType = withoutRefinement(dynamicType(list->items[0]));
    return IValue(list);
  }

  IValue tupleOf(PickleRef v, TypePtr type) {
    bool typed = type && type->is(TypeKind::Tuple) && type->elements().size() == v->items().size();
    auto tuple = Ref<TupleValue>::make(std::vector<IValue>(), typed && type->isNamedTuple() ? type : nullptr);
    tuple->shared = true;
    values_[v] = IValue(tuple);
    for (size_t i = 0; i < v->items().size(); ++i)
      tuple->items.push_back(valueOf(v->items()[i], typed ? type->element(i) : nullptr));
    return IValue(tuple);
  }

  IValue dictOf(PickleRef v, TypePtr type) {
    type = taggedType(v, type, TypeKind::Dict);
    auto dict = Ref<DictValue>::make(type ? type->element(0) : types().any, type ? type->element(1) : types().any);
    dict->shared = true;
    values_[v] = IValue(dict);
    for (const PickleValue::Entry& e : v->entries()) {
      IValue key = valueOf(e.key, dict->keyType);
      bool isKey = key.isString() || key.isNumber() || key.isTensor() || key.isEnum() || key.isDevice();
      if (!isKey) {
        fail(e.key, "a dict has a key that TorchScript does not have");
        break;
      }
      dict->set(key, valueOf(e.value, dict->valueType));
    }
    return IValue(dict);
  }

  IValue objectOf(PickleRef v) {
    const PickleObject& o = v->object();
    std::string name(o.name);
    if (isSparse(v)) {
      fail(v, "of sparse tensors only attributes are known that have coordinates (COO)", ErrorKind::Unsupported);
      return {};
    }
    ClassInfo* info = library_.declared(name);
    if (!info) {
      if (name.starts_with("__torch__.torch.classes.")) return values_[v] = packedOf(v, name);
      fail(v, fmt::format("the code has no class {}", name));
      return {};
    }
    if (info->kind == ClassKind::Enum) return values_[v] = memberOf(*info, v);
    auto object = Ref<ObjectValue>::make(info->type);
    values_[v] = IValue(object);
    bool restores = info->method("__setstate__") != nullptr;
    instances_.push_back({object, info, restores ? o.state : nullptr});
    if (restores || !o.state) return IValue(object);
    if (!o.state->is(PickleValue::Kind::Dict)) {
      fail(o.state, "expected the attributes of an object");
      return {};
    }
    for (const PickleValue::Entry& e : o.state->entries()) {
      if (!e.key->is(PickleValue::Kind::String)) continue;
      if (isSparse(e.value) && takeApart(*object, e)) continue;
      const source::AttributeInfo* a = info->attribute(e.key->text());
      object->set(Symbol::of(e.key->text()), valueOf(e.value, a ? a->type : nullptr));
    }
    return IValue(object);
  }

  static bool isSparse(PickleRef v) { return v->is(PickleValue::Kind::Object) && v->object().name == kSparseTensor; }

  // A sparse tensor with coordinates becomes attributes of its places, elements and sizes.
  bool takeApart(ObjectValue& object, const PickleValue::Entry& e) {
    using Kind = PickleValue::Kind;
    PickleRef arguments = e.value->object().arguments;
    if (!arguments || !arguments->is(Kind::Tuple) || arguments->items().size() < 5) return false;
    const auto& parts = arguments->items();
    constexpr int64_t kCoordinates = 1;
    if (!parts[0]->is(Kind::Int) || parts[0]->toInt() != kCoordinates) return false;
    if (!parts[1]->is(Kind::Tuple) || !parts[3]->is(Kind::Tensor) || !parts[4]->is(Kind::Tensor)) return false;
    auto sizes = Ref<ListValue>::make(types().integer, std::vector<IValue>());
    for (PickleRef size : parts[1]->items()) {
      if (!size->is(Kind::Int)) return false;
      sizes->items.push_back(size->toInt());
    }
    auto name = [&](std::string_view end) { return Symbol::of(std::string(e.key->text()) + std::string(end)); };
    object.set(name(kSparsePlaces), valueOf(parts[3], types().tensor));
    object.set(name(kSparseElements), valueOf(parts[4], types().tensor));
    object.set(name(kSparseSize), IValue(std::move(sizes)));
    sparse_.emplace_back(object.type, Symbol::of(e.key->text()));
    return true;
  }

  // What code says of an attribute is said for all objects of its class.
  bool makeSparse() {
    for (const auto& [type, name] : sparse_)
      for (const Instance& i : instances_)
        if (i.object->type == type && i.object->find(name))
          return fail(&archive_.data(),
                      fmt::format("the attribute '{}' of objects of {} is a sparse tensor in some and none in others",
                                  name.text(), type->name()),
                      ErrorKind::Unsupported);
    auto make = [&](const MethodInfo& m) {
      if (m.graph) makeSparseAttributes(*m.graph, sparse_);
    };
    for (const auto& info : library_.classes())
      for (const auto& m : info->methods) make(*m);
    for (const MethodInfo* f : library_.calledFunctions()) make(*f);
    return true;
  }

  // Of a class that PyTorch has built in. Where it is not known, so that nothing can run with it, it is an empty
  // object.
  IValue packedOf(PickleRef v, const std::string& name) {
    PickleRef state = v->object().state;
    if (!state) return IValue(Ref<ObjectValue>::make(classType(name)));
    IValue saved = valueOf(state, nullptr);
    try {
      return restorePacked(name, saved);
    } catch (const ExecutionError& e) {
      if (e.kind() != ErrorKind::Unsupported) fail(state, e.message(), e.kind());
      return IValue(Ref<ObjectValue>::make(classType(name)));
    }
  }

  IValue memberOf(const ClassInfo& info, PickleRef v) {
    PickleRef wanted = v->object().arguments;
    if (wanted && wanted->is(PickleValue::Kind::Tuple) && wanted->items().size() == 1) wanted = wanted->items()[0];
    IValue value = wanted ? valueOf(wanted, nullptr) : IValue();
    for (const auto& [name, member] : info.members)
      if (valuesEqual(member.toEnum().value, value)) return anew(member);
    fail(v, fmt::format("{} has no such member", info.name));
    return {};
  }

  // ---- methods ----

  // `model(x)` in Python runs hooks of the outermost module around its methods.
  void tellOfHooks(const ClassInfo& info) {
    for (const source::Stmt* s : info.syntax->body) {
      bool isList = s->kind == source::Stmt::Kind::Assign && s->value->is(source::Expr::Kind::List);
      if (!isList || s->value->items.size == 0) continue;
      const source::Expr& target = *s->targets[0];
      if (target.isName("__forward_hooks__") || target.isName("__forward_pre_hooks__"))
        diagnostics_.warning({info.file, s->span.begin, s->span.end},
                             "hooks of the outermost module are not run: its methods are");
    }
  }

  void requestMethods() {
    if (!instances_.empty()) tellOfHooks(*rootInfo());
    for (const auto& m : instances_.empty() ? kNoMethods : rootInfo()->methods) library_.request(*m);
    for (const Instance& i : instances_)
      if (i.state) library_.request(*i.info->method("__setstate__"));
  }
  ClassInfo* rootInfo() {
    const IValue& root = values_.at(&archive_.data());
    for (const Instance& i : instances_)
      if (i.object.get() == &root.toObject()) return i.info;
    return instances_[0].info;
  }

  ProgramSources sources() {
    ProgramSources out;
    for (const auto& info : library_.classes())
      for (const auto& m : info->methods)
        if (m->graph) out.methods[info->type].emplace(m->name, m->graph.get());
    for (MethodInfo* f : library_.calledFunctions())
      if (f->graph) out.functions.emplace(library_.callName(*f), f->graph.get());
    return out;
  }

  // Objects that know how to take their state do it, those inside others first.
  bool restoreStates() {
    for (size_t i = instances_.size(); i-- > 0;) {
      Instance instance = instances_[i];
      if (!instance.state) continue;
      MethodInfo* method = instance.info->method("__setstate__");
      TypePtr type = method->schema->arguments.size() > 1 ? method->schema->arguments[1].type : nullptr;
      IValue inputs[] = {IValue(instance.object), valueOf(instance.state, type)};
      if (failed_) return false;
      ProgramSources all = sources();
      all.boundInputs.resize(method->graph->inputs().size());
      auto program = Program::compile(*method->graph, registry_, std::move(all), diagnostics_);
      if (!program || !(*program)->run(inputs, {}, diagnostics_)) return false;
    }
    return true;
  }

  // ---- autocast ----

  bool castInRegions() {
    std::vector<Graph*> graphs;
    CallTargets targets;
    auto add = [&](Graph* graph) {
      if (graph && entersAutocast(*graph)) graphs.push_back(graph);
    };
    for (const auto& info : library_.classes()) {
      if (contextKindOf(info->type->name()) == ContextKind::Autocast) targets.modes.insert(info->type);
      for (const auto& m : info->methods) {
        if (m->graph) targets.methods[info->type].emplace(m->name, m->graph.get());
        add(m->graph.get());
      }
    }
    for (MethodInfo* f : library_.calledFunctions()) {
      if (f->graph) targets.functions.emplace(library_.callName(*f), f->graph.get());
      add(f->graph.get());
    }
    targets.maxNodes = library_.limits().nodes;
    for (Graph* graph : graphs)
      if (!castWithCallees(*graph, targets, registry_, diagnostics_)) return false;
    return true;
  }

  // ---- the dump ----

  void makeDump(Ref<ObjectValue> root, OpenedArchive& out) {
    out.text.module = std::make_unique<ModuleDump>();
    out.objects.push_back(std::move(root));
    std::unordered_map<const RefCounted*, size_t> known{{out.objects[0].get(), 0}};
    // Children come after their parents.
    for (size_t i = 0; i < out.objects.size(); ++i) addModule(i, out, known);
    for (Instance& i : instances_) i.object->shared = true;
    for (const auto& info : library_.classes()) {
      for (const auto& [name, member] : info->members) out.members.push_back(member);
      addMethods(*info, out);
    }
    for (MethodInfo* f : library_.calledFunctions())
      out.text.module->functions.push_back({library_.callName(*f), std::move(f->graph)});
  }

  void addModule(size_t index, OpenedArchive& out, std::unordered_map<const RefCounted*, size_t>& known) {
    Ref<ObjectValue> object = out.objects[index];
    DumpedModule m;
    m.className = object->type->name();
    ClassInfo* info = library_.findClass(m.className);
    m.range = {info->file, info->syntax->span.begin, info->syntax->span.end};
    for (const auto& [name, value] : object->attributes) {
      const source::AttributeInfo* a = info->attribute(name.text());
      bool isNew = value.isObject() && library_.findClass(value.toObject().type->name()) &&
                   known.emplace(value.object(), out.objects.size()).second;
      if (isNew) {
        m.children.push_back(out.objects.size());
        out.objects.push_back(Ref<ObjectValue>::share(&value.toObject()));
      }
      m.attributes.push_back({std::string(name.text()), textOf(value, isNew, out.objects.size()), false, m.range});
      if (!a || !a->isParameter) continue;
      ModuleAttribute again = m.attributes.back();
      again.isParameter = true;
      m.attributes.push_back(std::move(again));
    }
    out.text.module->modules.push_back(std::move(m));
  }

  static std::string textOf(const IValue& value, bool isModule, size_t number) {
    if (isModule) return fmt::format("<{} object at {:#x}>", value.toObject().type->name(), number);
    if (value.isTensor() || value.isLiteral()) return "...";
    return value.isObject() ? "..." : valueText(value, LiteralStyle::Plain);
  }

  // The first instance of a class has its graphs; classes without instances stand after all others.
  void addMethods(ClassInfo& info, OpenedArchive& out) {
    std::vector<DumpedMethod> methods;
    for (const auto& m : info.methods)
      if (m->graph) methods.push_back({m->name, std::move(m->graph)});
    if (methods.empty()) return;
    auto& modules = out.text.module->modules;
    for (DumpedModule& m : modules) {
      if (m.className != info.name) continue;
      m.methods = std::move(methods);
      return;
    }
    DumpedModule alone;
    alone.className = info.name;
    alone.methods = std::move(methods);
    modules.push_back(std::move(alone));
  }

  static inline const std::vector<std::unique_ptr<MethodInfo>> kNoMethods{};
  const TorchArchive& archive_;
  const OpRegistry& registry_;
  Diagnostics& diagnostics_;
  std::unordered_map<const SourceFile*, SourceOrigins> origins_;
  Library library_;
  bool failed_ = false;
  std::unordered_map<PickleRef, IValue> values_;
  std::vector<Instance> instances_;
  SparseAttributes sparse_;
};

}  // namespace

bool isTorchArchive(const std::string& path) {
  Diagnostics ignored;
  Result<std::string> start = readFileStart(path, kFileKindBytes, ignored);
  if (!start) return false;
  FileKind kind = detectFileKind(*start);
  // The first member may be anything: files that were saved along, the folder of an archive that was packed anew.
  if (kind == FileKind::Zip)
    if (Ref<FileMapping> mapping = FileMapping::open(path, ignored)) kind = detectWholeFileKind(mapping->bytes());
  return kind == FileKind::TorchArchive || kind == FileKind::TorchScript;
}

Result<OpenedArchive> openArchive(const std::string& path, const OpRegistry& registry, const Limits& limits,
                                  Diagnostics& diagnostics, UnknownOperators unknown) {
  Result<std::shared_ptr<const TorchArchive>> archive = TorchArchive::open(path, diagnostics, limits);
  if (!archive) return Failed{};
  OpenedArchive out;
  if (!ArchiveLoader(**archive, registry, limits, diagnostics, unknown).load(out)) return Failed{};
  return out;
}

}  // namespace tscompile
