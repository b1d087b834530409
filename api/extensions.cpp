#include "api/extensions.h"

#include "frontend/text/parse.h"
#include "ir/support/text.h"
#include "passes/catalog.h"
#include "runtime/registry.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

namespace tscompile {
namespace {

bool sameArguments(const Schema& a, const Schema& b) {
  return std::equal(a.arguments.begin(), a.arguments.end(), b.arguments.begin(), b.arguments.end(),
                    [](const Argument& x, const Argument& y) { return x.name == y.name && x.type == y.type; });
}

std::string overloadsText(const std::string& kind, std::span<const Operator* const> overloads) {
  return kind + " has the overloads " + join(overloads, ", ", [](const Operator* o) { return o->fullName(); });
}

// Why nobody but we may have such an operator; "" if anybody may.
std::string problemOfOwn(const Schema& schema) {
  const std::string_view space = std::string_view(schema.name).substr(0, schema.name.find("::"));
  if (space == "prim" || space == "tscompile")
    return fmt::format("the operators of {} are ours: {} needs another name space", space, schema.fullName());
  for (size_t i = 0; i < schema.arguments.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (schema.arguments[i].name == schema.arguments[k].name)
        return fmt::format("{} has two arguments named {}", schema.fullName(), schema.arguments[i].name);
  return "";
}

// Whether inference can tell of that many results.
bool canTell(const OpDef& def, size_t results, const OpRegistry& registry) {
  const std::unique_ptr<Operator> op = Operator::make(def, registry);
  InferCall call(*op, std::span<const SymbolicValue>());
  try {
    for (size_t i = 0; i < results; ++i) call.resultUnknown();
  } catch (const ExecutionError&) {
    return false;
  }
  return true;
}

constexpr const char* kSee = "docs/writing_converters.md tells how to write one";

}  // namespace

Extensions::Extensions(const OpRegistry* base) : base_(base ? base : &allOps()), registry_(base_) {
  registry_.setConfigured(&pluginOperators_);
}

bool Extensions::isOpen(Diagnostics& diagnostics) const {
  if (!sealed_) return true;
  diagnostics.error("operators, converters and rules are added before the first module is loaded with them",
                    ErrorKind::Unsupported);
  return false;
}

// The overload that a name or a schema means.
const Operator* Extensions::findFor(std::string_view op, Diagnostics& diagnostics) const {
  std::string name(op.substr(0, op.find('(')));
  if (const Operator* found = registry_.find(name)) {
    if (name.size() == op.size()) return found;
    Result<Schema> schema = parseSchema(op, diagnostics);
    if (!schema) return nullptr;
    if (sameArguments(*schema, found->schema())) return found;
    diagnostics.error("the schema of " + name + " has other arguments", ErrorKind::Input)
        .note("it is " + schemaText(found->schema()));
    return nullptr;
  }
  std::string kind = name.substr(0, name.find('.'));
  Diagnostic& error = diagnostics.error("there is no operator " + abbreviate(name, 80), ErrorKind::Input);
  auto overloads = registry_.overloads(Symbol::of(kind));
  if (!overloads.empty())
    error.note(overloadsText(kind, overloads));
  else if (std::string nearest = registry_.nearestKind(kind); !nearest.empty())
    error.note("did you mean " + nearest + "?");
  return nullptr;
}

bool Extensions::addConverter(std::string_view name, Converter converter, Diagnostics& diagnostics) {
  if (!isOpen(diagnostics)) return false;
  const Operator* op = findFor(name, diagnostics);
  if (!op) return false;
  std::string full = op->fullName();
  auto refuse = [&](std::string why, std::string note) {
    diagnostics.error(std::move(why), ErrorKind::Unsupported).note(std::move(note));
    return false;
  };
  if (!converter) return refuse("the converter of " + full + " is empty", kSee);
  if (!op->isImplemented())
    return refuse(full + " has no kernel, which computes it where engines cannot",
                  "add the operator with a kernel of yours");
  if (op->def().scalar) {
    const std::string kind(op->kind().text());
    return refuse(full + " computes numbers, which is done while an engine is made: it needs no converter",
                  overloadsText(kind, registry_.overloads(op->kind())));
  }
  if (op->schema().isMutable())
    return refuse(full + " writes to its arguments", "converters are for operators that make new values");
  SessionFunctions& functions = functions_.emplace_back();
  if (op->def().session) functions = *op->def().session;  // of one that was added
  OpDef& def = registry_.addCopy(*op);
  functions.convert = std::move(converter);
  def.convert = convertBySession;
  def.session = &functions;
  def.inEngines = true;
  return true;
}

bool Extensions::addOperator(UserOperator op, Diagnostics& diagnostics) {
  if (!isOpen(diagnostics)) return false;
  auto wrong = [&](std::string what) {
    diagnostics.error(std::move(what), ErrorKind::Input);
    return false;
  };
  if (op.schema.find("::") == std::string::npos || op.schema.find('(') == std::string::npos)
    return wrong("an operator needs a schema such as mine::scale(Tensor self, float by) -> Tensor, not '" +
                 abbreviate(op.schema, 80) + "'");
  Result<Schema> schema = parseSchema(op.schema, diagnostics);
  if (!schema) return false;
  if (std::string problem = problemOfOwn(*schema); !problem.empty()) return wrong(std::move(problem));
  if (schema->isMutable() && op.convert)
    return wrong(schema->fullName() + " writes to its arguments: it runs in the interpreter, and takes no converter");
  if (!op.kernel) return wrong(schema->fullName() + " needs a kernel");
  const std::string& text = schemas_.emplace_back(std::move(op.schema));
  SessionFunctions& functions = functions_.emplace_back();
  functions = {std::move(op.infer), std::move(op.kernel), std::move(op.convert)};
  const OpDef def = {.schema = text,
                     .infer = inferBySession,
                     .kernel = computeBySession,
                     .convert = functions.convert ? convertBySession : nullptr,
                     .dtypes = op.dtypes,
                     .traits = schema->returns.empty() ? TraitSet{Trait::SideEffects} : TraitSet{},
                     .inEngines = !schema->isMutable(),
                     .session = &functions};
  if (!canTell(def, schema->returns.size(), registry_))
    return wrong(fmt::format("{} has {} results, which is more than an operator may have", schema->fullName(),
                             schema->returns.size()));
  const auto known = registry_.overloads(Symbol::of(schema->name));
  const auto isSame = [&](const Operator* o) { return o->fullName() == schema->fullName(); };
  if (std::ranges::any_of(known, isSame))
    diagnostics.remark({}, schema->fullName() + " takes the place of the operator of this name that was there");
  registry_.add(def);
  return true;
}

bool Extensions::withoutConverter(std::string_view name, Diagnostics& diagnostics) {
  if (!isOpen(diagnostics)) return false;
  bool isKind = name.find('.') == std::string_view::npos;
  std::vector<const Operator*> ops;
  if (isKind) {
    auto all = base_->overloads(Symbol::of(name));
    ops.assign(all.begin(), all.end());
  }
  if (ops.empty())
    if (const Operator* op = findFor(name, diagnostics)) ops.push_back(op);
  for (const Operator* op : ops)
    if (op->isImplemented() && !op->outCount() && !op->def().hasSessionConverter())
      if (OpDef& def = registry_.addCopy(*op); !def.hasSessionConverter()) def.inEngines = false;
  return !ops.empty();
}

bool Extensions::addRules(SourcePtr text, Diagnostics& diagnostics) {
  if (!isOpen(diagnostics)) return false;
  const std::string path = text->path();
  Result<std::vector<Rule>> rules = readRules(std::move(text), diagnostics, &registry_, UnknownOperators::Refused);
  if (!rules) return false;
  for (Rule& r : *rules) {
    r.options.tags.insert("default");  // whoever adds them wants them
    ruleNames_.push_back(r.name);
  }
  if (!lowering_) lowering_ = std::make_shared<RewriteDatabase>(loweringDatabase());
  if (!tscompile::addRules(*lowering_, std::move(*rules), diagnostics).ok()) return false;
  ruleFiles_.push_back(fileNameOf(path));
  return true;
}

const RewriteDatabase& Extensions::lowering() const { return lowering_ ? *lowering_ : loweringDatabase(); }

bool Extensions::loadLibrary(const std::string& path, Diagnostics& diagnostics) {
  if (!isOpen(diagnostics)) return false;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    diagnostics.fileError(path, {}, "there is no such library", ErrorKind::Io);
    return false;
  }
  auto fail = [&](std::string why, std::string note) {
    diagnostics.fileError(path, {}, std::move(why), ErrorKind::Input).note(std::move(note));
    return false;
  };
  void* library = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail("the library cannot be loaded", dlerror());
  auto abi = reinterpret_cast<uint64_t (*)()>(dlsym(library, "tscompileExtensionAbi"));
  auto entry = reinterpret_cast<bool (*)(Extensions&, Diagnostics&)>(dlsym(library, "tscompileExtensions"));
  if (!abi || !entry)
    return fail("the library has no entry 'tscompileExtensions'",
                dlsym(library, "tscompile_plugins_v1") ? "it has plugins, which are loaded as such (docs/plugins.md)"
                                                       : "the macro TS_EXTENSIONS of api/extensions.h makes it");
  if (abi() != kExtensionAbi)
    return fail("the library was built for another version of tscompile",
                "build it again with the headers of this one");
  size_t before = diagnostics.errorCount();
  std::string what;
  try {
    if (entry(*this, diagnostics)) return true;
  } catch (const std::exception& e) {
    what = e.what();
  } catch (...) {
    what = "an exception of an unknown type";
  }
  if (diagnostics.errorCount() == before)
    fail("the library could not add what it has", what.empty() ? "its entry returned false" : what);
  return false;
}

namespace {

bool loadFrom(PluginRegistry& registry, const std::string& absolute, Diagnostics& diagnostics,
              std::string_view from = "") {
  PluginResult result = registry.load(absolute);
  if (!result) {
    const ErrorKind kind = result.status == PluginStatus::NotFound      ? ErrorKind::Io
                           : result.status == PluginStatus::AbiMismatch ? ErrorKind::Incompatible
                                                                        : ErrorKind::Input;
    diagnostics.error(std::string(from) + result.message, kind);
  }
  return static_cast<bool>(result);
}

}  // namespace

bool loadPluginLibrary(PluginRegistry& registry, const std::string& library, Diagnostics& diagnostics) {
  std::error_code ignored;
  const size_t equals = library.find('=');  // NAMESPACE=LIB
  const size_t path = equals != std::string::npos && library.find('/') > equals ? equals + 1 : 0;
  const std::string absolute = std::filesystem::absolute(library.substr(path), ignored).lexically_normal().string();
  return loadFrom(registry, library.substr(0, path) + absolute, diagnostics);
}

bool loadPluginsOfEnvironment(PluginRegistry& registry, Diagnostics& diagnostics) {
  const char* all = std::getenv("TSCOMPILE_LOAD_PLUGINS");
  bool good = true;
  for (std::string_view paths = all ? all : ""; !paths.empty();) {
    std::string path(paths.substr(0, paths.find(':')));
    paths.remove_prefix(std::min(paths.size(), path.size() + 1));
    if (!path.empty()) good &= loadFrom(registry, path, diagnostics, "TSCOMPILE_LOAD_PLUGINS: ");
  }
  return good;
}

bool Extensions::loadPlugins(const std::string& path, Diagnostics& diagnostics) {
  return loadPluginLibrary(plugins_, path, diagnostics);
}

bool Extensions::loadPluginsFromEnvironment(Diagnostics& diagnostics) {
  return loadPluginsOfEnvironment(plugins_, diagnostics);
}

}  // namespace tscompile
