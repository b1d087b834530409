// The code of an archive: its files are read, its classes and functions declared, and their graphs compiled as they are
// asked for.
#pragma once

#include "frontend/source/syntax.h"
#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/operators/unknown_operators.h"
#include "ir/support/diagnostics.h"
#include "ir/support/limits.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace tscompile::source {

enum class ClassKind : uint8_t { Module, Plain, NamedTuple, Enum, Interface };

struct ClassInfo;

// A method or free function.
struct MethodInfo {
  std::string name;
  std::string qualifiedName;
  const SourceFile* file = nullptr;
  const Def* def = nullptr;
  ClassInfo* owner = nullptr;    // null: a function
  std::optional<Schema> schema;  // once it was asked for
  bool requested = false;
  std::unique_ptr<Graph> graph;  // null: not compiled
};

struct AttributeInfo {
  std::string name;
  TypePtr type = nullptr;
  std::optional<IValue> constant;  // `Final[int] = 3`
  bool isParameter = false, isBuffer = false;
};

struct ClassInfo {
  std::string name;
  ClassKind kind = ClassKind::Plain;
  TypePtr type = nullptr;
  const SourceFile* file = nullptr;
  const Class* syntax = nullptr;
  std::vector<AttributeInfo> attributes;  // once declared
  bool declared = false;
  std::vector<std::pair<std::string, IValue>> members;  // of an enum
  std::vector<std::unique_ptr<MethodInfo>> methods;

  const AttributeInfo* attribute(std::string_view name) const;
  MethodInfo* method(std::string_view name) const;
};

// A mistake in the source. Caught where compiling a definition starts.
struct SourceError {
  Span span;
  std::string message;
  ErrorKind kind = ErrorKind::Input;
  std::string note = {};
};

// A member of an enum, as a constant or an attribute has it: `is` tells each from all others.
inline IValue anew(const IValue& member) {
  const EnumValue& e = member.toEnum();
  return IValue(Ref<EnumValue>::make(e.type, e.member, e.value));
}

class Library {
 public:
  // The file of a module ("__torch__.torch.nn.modules.linear"), or null if there is none.
  using ReadFile = std::function<SourcePtr(const std::string& module)>;

  Library(ReadFile read, const OpRegistry& registry, Diagnostics& diagnostics, const Limits& limits)
      : read_(std::move(read)), registry_(registry), diagnostics_(diagnostics), limits_(limits) {}
  Library(const Library&) = delete;

  // Where a byte of a file comes from in the model's own source, if that is known; see frontend/archive.
  using FindOrigin = std::function<CodeLocation(const SourceFile*, uint32_t byte)>;
  void setOrigins(FindOrigin find) { origins_ = std::move(find); }
  // The place of a byte: its origin, or else that in the file itself.
  CodeLocation placeOf(const SourceFile* file, uint32_t byte) const;

  // What CONSTANTS.c0, CONSTANTS.c1 ... are.
  void setConstants(std::vector<IValue> constants) { constants_ = std::move(constants); }

  // Of the archive: operators mean what they meant then. Without it, what they mean today.
  void setVersion(int64_t version) { version_ = version; }
  // What the operator meant in the version of this file, if that is no operator of today; else null.
  MethodInfo* before(const Operator& op, const SourceFile* file);

  // By qualified name; null if the code has none.
  ClassInfo* findClass(const std::string& name);
  MethodInfo* findFunction(const std::string& name);
  // The method as a function, whose first argument is the object: `Class.method`.
  MethodInfo& unbound(MethodInfo& method);
  // The class with its attributes known; null after a report.
  ClassInfo* declared(const std::string& name);

  // A type as the pickles of an archive write it: "List[int]"; null if it is none.
  TypePtr typeOfText(std::string_view text);

  // Calls of operators that nobody knows are reported, once for each, and are nodes that give a tensor: what comes of a
  // wrong guess is not reported. Kept: they are only that.
  void setUnknownOperators(UnknownOperators unknown) { unknown_ = unknown; }

  // Compiles it, and later all that it calls.
  void request(MethodInfo& method);
  void requestCalls(const std::string& interfaceMethod) { openCalls_.insert(interfaceMethod); }
  // Compiles what was asked for. False if anything was reported, here or before.
  bool compile();

  // How prim::CallFunction calls a function: by its last name where that says which.
  const std::string& callName(MethodInfo& function);
  const std::vector<std::unique_ptr<ClassInfo>>& classes() const { return classes_; }
  const std::vector<MethodInfo*>& calledFunctions() const { return called_; }
  std::vector<MethodInfo*> functionsRead() const;
  const std::vector<SourcePtr>& sources() const { return sources_; }

  // ---- for the compiler ----
  const OpRegistry& registry() const { return registry_; }
  const Limits& limits() const { return limits_; }
  const IValue* constant(std::string_view name) const;  // "c12"
  void declare(ClassInfo& info);
  const Schema& schemaOf(MethodInfo& method);
  TypePtr typeOf(const Expr& e);
  // The value of a literal, converted to the type.
  IValue literal(const Expr& e, TypePtr type);
  void meetUnknown(const SourceFile* file, Span span, Symbol kind);
  bool chargeNode() { return ++nodes_ <= limits_.nodes; }

 private:
  void readModule(const std::string& module);
  void addDefinition(const std::string& module, const SourceFile* file, const Stmt& s);
  void addClass(const std::string& module, const SourceFile* file, const Class& c);
  void declareMembers(ClassInfo& info);
  void declareAttribute(ClassInfo& info, const Stmt& s);
  TypePtr namedType(const std::string& name, const Expr& e);
  TypePtr genericType(const Expr& e);
  bool report(const SourceFile* file, const SourceError& e);
  void noteOrigin(Diagnostic& d, const SourceFile* file, Span span) const;

  ReadFile read_;
  FindOrigin origins_;
  std::vector<IValue> constants_;
  int64_t version_ = INT64_MAX;
  const OpRegistry& registry_;
  Diagnostics& diagnostics_;
  const Limits& limits_;
  Arena arena_;
  UnknownOperators unknown_ = UnknownOperators::Refused;
  std::set<Symbol> unknownMet_;
  size_t unknownCalls_ = 0;
  bool failed_ = false;
  uint64_t nodes_ = 0;
  std::set<std::string> modules_;  // read, or known to have no file
  std::vector<SourcePtr> sources_;
  std::vector<std::unique_ptr<ClassInfo>> classes_;
  std::vector<std::unique_ptr<MethodInfo>> functions_;
  std::unordered_map<std::string, ClassInfo*> classByName_;
  std::unordered_map<std::string, MethodInfo*> functionByName_;
  std::unordered_map<std::string, MethodInfo*> functionByCall_;
  std::unordered_map<const MethodInfo*, std::string> callNames_;
  std::unordered_map<const MethodInfo*, MethodInfo*> unbound_;
  std::vector<MethodInfo*> called_;
  std::deque<MethodInfo*> queue_;
  std::set<std::string> openCalls_;  // methods that are called through interfaces
};

// "a.b.c" of names and attributes; "" if the expression is anything else.
std::string dottedName(const Expr& e);

}  // namespace tscompile::source
