// The graph of one function of TorchScript source: statements to nodes, in SSA form from the start.
#pragma once

#include "frontend/source/library.h"
#include "ir/graph/builder.h"

#include <set>

namespace tscompile::source {

// The graph of a method or function. Throws SourceError.
std::unique_ptr<Graph> compileDefinition(Library& library, MethodInfo& method);

// What an expression means: a value, or something that becomes one when it is called or selected from.
struct Meaning {
  enum class Kind : uint8_t {
    Value,      // value
    Namespace,  // text: "torch", "ops", "ops.prim", "__torch__.a.b", "CONSTANTS"
    Function,   // method
    Class,      // info
    Maker,      // info: `Class.__new__`
    Method,     // method of value
    Builtin,    // symbol, with value as first argument if there is one
    Cast,       // symbol, and the type that needs none
    Special,    // text: "annotate", "fork", "range" ...
    Closure,    // def
    Dynamic,    // text: values that are made element by element: range, zip, enumerate; parts
  };
  Kind kind = Kind::Value;
  Value* value = nullptr;
  Symbol symbol = {};
  std::string text = {};
  MethodInfo* method = nullptr;
  ClassInfo* info = nullptr;
  TypePtr type = nullptr;
  const Def* def = nullptr;
  std::vector<Meaning> parts = {};
};

// Arguments of a call.
struct Given {
  std::vector<Value*> values;
  std::vector<std::pair<std::string_view, Value*>> keywords;
};

// How the arguments of one schema are made from what is given.
struct CallPlan {
  struct Slot {
    enum class How : uint8_t { Value, Default, Repeat, Collect } how;
    Value* value = nullptr;
    size_t from = 0;         // Collect: the first of the values
    TypePtr type = nullptr;  // of the argument, variables replaced
    const Argument* argument = nullptr;
  };
  const Schema* schema = nullptr;
  bool convert = false;
  std::vector<Slot> slots;
  TypeBindings bindings;
};

class Emitter {
 public:
  Emitter(Library& library, const SourceFile* file, Graph& graph, Emitter* outer = nullptr)
      : library_(library), file_(file), graph_(graph), builder_(graph), outer_(outer) {}

  void emitMethod(MethodInfo& method);
  // The body of a function inside a function; what it reads of the outer one becomes inputs.
  void emitClosure(const Def& def);
  const std::vector<Value*>& captured() const { return captured_; }

 private:
  // ---- emitter.cpp: nodes, names ----
  [[noreturn]] void fail(std::string message, ErrorKind kind = ErrorKind::Input, std::string note = {});
  Node* insert(Symbol kind, std::span<Value* const> inputs, size_t outputs = 1);
  Value* make(Symbol kind, std::initializer_list<Value*> inputs, TypePtr type);
  Value* constant(const IValue& value, TypePtr type = nullptr);
  // The constant of a number as the code writes it: one for the graph, at its start.
  Value* literal(const IValue& number);
  Value* tuple(std::span<Value* const> elements, TypePtr type = nullptr);
  struct Frame {
    Frame* parent = nullptr;
    std::map<std::string, Meaning, std::less<>> names;
  };
  class Scope;
  const Meaning* find(std::string_view name);
  const Meaning* findInParents(std::string_view name);
  void set(const std::string& name, Meaning meaning);
  void setValue(const std::string& name, Value* value) { set(name, {Meaning::Kind::Value, value}); }
  Value* captureOf(Value* value);

  // ---- statements.cpp ----
  void emitStatements(const Slice<Stmt*>& statements);
  void emit(const Stmt& s);
  void emitAssign(const Stmt& s);
  void emitAugment(const Stmt& s);
  void assign(const Expr& target, Meaning meaning);
  void assignAttribute(const Expr& target, Value* value);
  void assignElement(const Expr& target, Value* value);
  std::vector<Value*> unpack(Value* value, size_t count);
  void emitIf(const Stmt& s);
  void emitFor(const Stmt& s);
  void emitWhile(const Stmt& s);
  void emitWith(const Stmt& s);
  void emitReturn(const Stmt& s);
  void emitRaise(const Stmt& s);
  void emitAssert(const Stmt& s);
  struct Branch {
    Block* block;
    Frame frame;
  };
  void mergeBranches(Node* node, Branch& yes, Branch& no);
  // ---- loops.cpp ----
  Value* emitChoice(Value* condition, const std::function<Value*()>& yes, const std::function<Value*()>& no);
  // `body(index)` makes the body, in which the names are assigned. Without a test the loop runs `count` times.
  void emitLoop(Value* count, const Expr* test, const std::set<std::string>& assigned,
                const std::function<void(Value*)>& body);
  void emitWhile(Value* count, const std::function<Value*(Value*)>& body);
  void emitEach(const Meaning& sequence, const Expr& target, std::set<std::string> assigned,
                const std::function<void()>& body);
  Value* lengthOf(const Meaning& sequence);
  // `sorted(objects)` and `objects.sort(reverse)` of a class with `__lt__`, which operators do not know; null for
  // others.
  Value* emitObjectSort(Symbol kind, const Given& given);
  void sortInPlace(Value* objects, MethodInfo& less, Value* reverse);
  Meaning elementOf(const Meaning& sequence, Value* index);

  // ---- expressions.cpp ----
  Value* value(const Expr& e, TypePtr hint = nullptr);
  Value* asValue(const Meaning& m);
  Meaning meaning(const Expr& e, TypePtr hint = nullptr);
  Meaning nameMeaning(const Expr& e);
  struct Condition {
    Value* value;
    std::optional<bool> known;
    // What holds of a variable where the condition does, and where it does not.
    std::string name = {};
    TypePtr ifTrue = nullptr, ifFalse = nullptr;
  };
  Condition condition(const Expr& e);
  Condition isCondition(const Expr& e);
  Condition instanceCondition(const Expr& e);
  void refine(const Condition& c, bool branch);
  Value* toBool(Value* v);
  Value* emitUnary(const Expr& e);
  Value* emitBinary(const Expr& e);
  Value* emitShortCircuit(const Expr& e);
  Value* emitList(const Expr& e, TypePtr hint);
  Value* emitTuple(const Expr& e, TypePtr hint);
  Value* emitDict(const Expr& e, TypePtr hint);
  Value* emitEntry(const Expr& e, const TypePtr& wanted, TypePtr& common, const char* mismatch);
  Value* emitComprehension(const Expr& e, TypePtr hint);
  Value* emitFormat(const Expr& e);
  Value* emitSubscript(const Expr& e, TypePtr hint);
  Value* emitModule(Value* of, ClassInfo& info, Value* index, TypePtr hint);
  Value* emitTensorSubscript(Value* v, const Expr& e);
  Value* emitSlice(Value* v, const Expr& slice);
  Value* emitItem(Value* tuple, Value* index);
  int64_t constantBound(const Expr& e, size_t size);
  Meaning select(const Expr& e);
  Meaning attribute(const Meaning& of, std::string_view name);
  Meaning valueAttribute(Value* v, std::string_view name);
  Meaning classAttribute(Value* v, ClassInfo& info, std::string_view name);
  Meaning resolveGlobal(const std::string& name);
  ClassInfo* infoOf(TypePtr type);

  // ---- calls.cpp ----
  Meaning call(const Expr& e, TypePtr hint);
  Meaning callSpecial(const std::string& name, const Expr& e, TypePtr hint);
  Value* emitFork(const Expr& e, Symbol kind, TypePtr (*wrap)(TypePtr));
  Value* emitInstance(ClassInfo& info, Given given);
  Value* emitCast(const Meaning& m, Given given);
  Value* emitMethod(Value* self, MethodInfo& method, Given given);
  Value* emitFunction(MethodInfo& function, Given given);
  Given arguments(const Expr& e, size_t from = 1);
  Value* builtin(std::string_view kind, std::initializer_list<Value*> inputs);
  Value* emitBuiltin(Symbol kind, Given given);
  Value* emitUnknown(Symbol kind, const Given& given);
  [[noreturn]] void failWithoutAttributes(Symbol kind);
  std::vector<Value*> matchSignature(const Schema& schema, Given& given);
  bool fits(const Schema& schema, const Given& given, bool convert, CallPlan& plan, std::string& why);
  bool planArgument(const Argument& a, Value* v, CallPlan& plan, std::string& why);
  std::vector<Value*> inputsOf(const CallPlan& plan, const Given& given);
  bool converts(Value* v, TypePtr from, TypePtr to, bool implicitly);
  Value* converted(Value* v, TypePtr to, bool implicitly);

  Library& library_;
  const SourceFile* file_;
  Graph& graph_;
  Builder builder_;
  Emitter* outer_;
  Frame* frame_ = nullptr;
  Span span_{0, 0};
  TypePtr returns_ = nullptr;  // of the function; null: any
  bool returned_ = false;
  std::map<std::pair<bool, uint64_t>, Value*> literals_;
  std::set<const Value*> emptyLists_;  // `[]`, whose type is open
  std::set<const Value*> unknown_;     // results of operators that nobody knows
  std::map<Value*, Value*> captures_;  // of the outer function: inputs here
  std::vector<Value*> captured_;
  friend class Place;
};

// What nodes are inserted belong to this expression while it lives.
class Place {
 public:
  Place(Emitter& emitter, Span span) : emitter_(emitter), before_(emitter.span_) { emitter.span_ = span; }
  ~Place() { emitter_.span_ = before_; }
  Place(const Place&) = delete;

 private:
  Emitter& emitter_;
  Span before_;
};

// Removes what emission left behind: constants, tuples and results that nothing uses. Puts constants and the results of
// branches and loops where PyTorch has them.
void cleanUp(Graph& graph, const OpRegistry& registry);

}  // namespace tscompile::source
