// Operators, converters and rewrite rules of a user's own: laid over those that are built in, from C++ or from a shared
// library. See docs/writing_converters.md and docs/rewriting.md.
#pragma once

#include "ir/operators/infer_call.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"
#include "runtime/call/kernel_call.h"
#include "runtime/call/session_functions.h"
#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/plugin/plugin_operators.h"
#include "runtime/registry.h"

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

class RewriteDatabase;

// The functions may throw what derives from std::exception, or call fail(): it becomes an error of the node, and of
// converters a reason why no engine has it. They are called by several threads at once.
struct UserOperator {
  std::string schema;  // "mine::scale(Tensor self, float by) -> Tensor"
  // Checks the arguments, tells dtype and sizes of the results. Null: the kernel alone knows them, and sets results by
  // setResult(); without a converter the interpreter runs the operator.
  std::function<void(InferCall&)> infer = nullptr;
  std::function<void(KernelCall&)> kernel = nullptr;  // computes them
  Converter convert = nullptr;                        // null: engines call the kernel
  DTypeSet dtypes = kRealAndBool;                     // what the first tensor may be
};

// Filled first, then given to LoadOptions::extensions, and constant from then on.
class Extensions {
 public:
  // Over all that is built in; or over `base`, which must outlive this.
  explicit Extensions(const OpRegistry* base = nullptr);
  Extensions(const Extensions&) = delete;

  // Makes `converter` the one of an operator that is known: by the name of its overload ("aten::flatten.using_ints") or
  // by its schema. The operator keeps its kernel, which computes where engines cannot. False after reporting that there
  // is no such operator, or that none of its nodes can be converted.
  bool addConverter(std::string_view op, Converter converter, Diagnostics& diagnostics);
  // Adds an operator, or takes the place of one whose overload has the same name.
  bool addOperator(UserOperator op, Diagnostics& diagnostics);
  // Takes the converters that are built in from an operator ("aten::flatten") or an overload, so that its nodes stay
  // out of engines. Those that were added stay.
  bool withoutConverter(std::string_view op, Diagnostics& diagnostics);
  // Opens a shared library and lets it add what it has (TS_EXTENSIONS). It stays open until the process ends.
  bool loadLibrary(const std::string& path, Diagnostics& diagnostics);

  // The plugins that there are with these extensions: those of the process, and what is added here. It may be added to
  // at any time, but what is loaded with these extensions must not be in use when plugins are taken out.
  PluginRegistry& plugins() { return plugins_; }
  const PluginRegistry& plugins() const { return plugins_; }
  // Opens a library with plugins (docs/plugins.md) and registers all of them, or none. The path may be a relative one;
  // NAMESPACE=PATH registers them in that namespace.
  bool loadPlugins(const std::string& path, Diagnostics& diagnostics);
  // Those of the libraries that TSCOMPILE_LOAD_PLUGINS names: absolute paths with colons between them. Nothing else of
  // the library reads the environment.
  bool loadPluginsFromEnvironment(Diagnostics& diagnostics);

  // Reads the text of a file of rewrite rules (SourceFile::make(name, text)), which lowering applies with its own to
  // all that is loaded with these extensions, as if they had the tag "default". Operators of the replacements that were
  // added are added before.
  bool addRules(SourcePtr text, Diagnostics& diagnostics);
  const std::vector<std::string>& ruleNames() const { return ruleNames_; }
  // Of the texts, without folders.
  const std::vector<std::string>& ruleFiles() const { return ruleFiles_; }
  // All entries of lowering with those rules.
  const RewriteDatabase& lowering() const;

  // All operators with what was added. Nothing can be added afterwards.
  const OpRegistry& registry() const {
    sealed_ = true;
    return registry_;
  }

 private:
  bool isOpen(Diagnostics& diagnostics) const;
  const Operator* findFor(std::string_view op, Diagnostics& diagnostics) const;

  const OpRegistry* base_;
  OpRegistry registry_;
  PluginRegistry plugins_{&allPlugins()};
  PluginOperators pluginOperators_{plugins_, registry_};
  std::deque<SessionFunctions> functions_;
  std::deque<std::string> schemas_;
  std::shared_ptr<RewriteDatabase> lowering_;  // null: no rules were added
  std::vector<std::string> ruleNames_, ruleFiles_;
  mutable bool sealed_ = false;
};

// Opens libraries with plugins and registers them: one path, or NAMESPACE=PATH; or the absolute paths that
// TSCOMPILE_LOAD_PLUGINS holds.
bool loadPluginLibrary(PluginRegistry& registry, const std::string& library, Diagnostics& diagnostics);
bool loadPluginsOfEnvironment(PluginRegistry& registry, Diagnostics& diagnostics);

// What a library was built with must be what loads it: the sizes of all that goes to and fro tell most changes.
template <class... Types>
constexpr uint64_t sizesAsNumber() {
  uint64_t number = 2;  // of changes that sizes do not tell
  ((number = number * 0x9e3779b97f4a7c15 + sizeof(Types)), ...);
  return number;
}
constexpr uint64_t kExtensionAbi =
    sizesAsNumber<Extensions, UserOperator, SessionFunctions, OpDef, Schema, Argument, AliasInfo, Operator, OpRegistry,
                  InferCall, TensorInfo, TensorSpec, SymbolicValue, InferredResult, KernelCall, RunContext, RunOptions,
                  ConvertCall, NetworkTensors, Network, NetTensor, NetBuffer, NetValue, Layer, Frame, IValue, Tensor,
                  TensorImpl, Storage, TensorFacts, Dims, Diagnostics, Diagnostic>();

}  // namespace tscompile

// The entry of a shared library, once in it, followed by a body that adds what the library has and returns whether that
// went well:
//   TS_EXTENSIONS(extensions, diagnostics) { return extensions.addConverter("aten::mish", mish, diagnostics); }
#define TS_EXTENSIONS(extensions, diagnostics)                                                                      \
  extern "C" [[gnu::visibility("default")]] uint64_t tscompileExtensionAbi() { return ::tscompile::kExtensionAbi; } \
  extern "C" [[gnu::visibility("default")]] bool tscompileExtensions(::tscompile::Extensions& extensions,           \
                                                                     ::tscompile::Diagnostics& diagnostics)
