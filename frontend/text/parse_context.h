// What the scanner and the grammar share: the text, the arena of the current statement, the sink for mistakes, and the
// functions that the grammar's actions call.
#pragma once

#include "frontend/text/syntax.h"
#include "ir/support/diagnostics.h"
#include "ir/support/limits.h"

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile::frontend {

struct Scanner;
class ParseContext;
Scanner* makeScanner(std::string_view text, ParseContext* context, bool startInAttributes);
void destroyScanner(Scanner* scanner);
int scanToken(Scanner* scanner, Semantic& value, Span& span);
// Leaves brackets and special states behind after a mistake.
void resetScanner(Scanner* scanner);

// Takes the statements of a text one by one. What they point to lives until the call returns.
class StatementSink {
 public:
  virtual ~StatementSink() = default;
  virtual void onNode(NodeSyntax& node, const PlaceSyntax* place, Span span) = 0;
  virtual void onHeader(HeaderSyntax& header, Span span) = 0;
  virtual void onSubgraph(Name kind, HeaderSyntax& header, Span span) = 0;
  virtual void onBlockEnd(Slice<Name> results, Span span) = 0;
  virtual void onReturn(Slice<Name> results, Span span) = 0;
  virtual void onBrace(Span span) = 0;
  virtual void onModule(std::string_view line, Span span) = 0;
  virtual void onSection(std::string_view line, Span span) = 0;
  virtual void onMethod(std::string_view line, Span span) = 0;
  virtual void onSetting(std::string_view line, Span span) = 0;
  // A statement could not be read; `line` is its text.
  virtual void onRecovery(std::string_view line, Span span) = 0;
};

enum class StartAt : uint8_t { Text, Schema, Type, Value };

class ParseContext {
 public:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

  // The context must not outlive the source, the diagnostics, the limits and the sink.
  ParseContext(const SourceFile& source, Diagnostics& diagnostics, const Limits& limits, StatementSink* sink);
  // False if anything was reported.
  bool parse(StartAt start);
  // The text counts as ended as soon as this holds.
  void stopWhen(std::function<bool()> stop) { stop_ = std::move(stop); }

  SourceRange range(Span span) const { return {&source_, span.begin, span.end}; }
  Diagnostic& error(Span span, std::string message, ErrorKind kind = ErrorKind::Input);
  void limitError(Span span, uint64_t Limits::*limit);
  const Limits& limits() const { return limits_; }
  bool patterns = false;  // the text is a pattern: variables are attribute values
  std::string_view textOf(Span span) const { return text_.substr(span.begin, span.end - span.begin); }

  // ---- results of the starts other than Text ----
  TypePtr typeResult = nullptr;
  Literal* literalResult = nullptr;
  struct SchemaSyntax {
    std::string_view name, overload;
    Span span;
    Slice<ArgumentSyntax*>* arguments = nullptr;
    Slice<ArgumentSyntax*>* returns = nullptr;
  } schemaResult;
  Arena arena;

  // ---- called by the grammar ----
  int nextToken(Semantic& value, Span& span);
  // Kinds of symbols as the generated parser numbers them.
  void syntaxError(Span where, int found, const std::vector<int>& expected);

  template <class T, class... Args>
  T* make(Args&&... args) {
    return new (arena.allocate(sizeof(T))) T(std::forward<Args>(args)...);
  }
  template <class T>
  Slice<T>* list() {
    return make<Slice<T>>(Slice<T>::none());
  }
  template <class T>
  Slice<T>* list(const std::type_identity_t<T>& first) {
    auto* s = list<T>();
    s->push(arena, first);
    return s;
  }
  // Lists stop growing at their bound, so that no statement costs much more memory than its text.
  template <class T>
  Slice<T>* append(Slice<T>* s, const std::type_identity_t<T>& item) {
    uint64_t Limits::*limit = std::is_same_v<T, Literal*> ? &Limits::listItems : &Limits::arguments;
    if (s->size >= limits_.*limit) [[unlikely]]
      limitError(lastSpan_, limit);
    else
      s->push(arena, item);
    return s;
  }

  void onNode(NodeSyntax* node, const PlaceSyntax* place, Span span);
  void onHeader(HeaderSyntax& header, Span span);
  void onSubgraph(Name kind, HeaderSyntax& header, Span span);
  void onBlockEnd(Slice<Name> results, Span span);
  void onReturn(Slice<Name> results, Span span);
  void onBrace(Span span);
  void onModule(std::string_view line, Span span);
  void onSection(std::string_view line, Span span);
  void onMethod(std::string_view line, Span span);
  void onSetting(std::string_view line, Span span);
  void onRecovery(Span span);

  NodeSyntax* node(std::string_view kind, Span span);
  NodeSyntax* pythonNode(std::string_view name, Span span, Slice<AttributeSyntax>* attributes,
                         std::string_view scalars);

  int64_t negated(int64_t v) { return static_cast<int64_t>(-static_cast<uint64_t>(v)); }
  Literal* literal(Literal::Kind kind, Span span);
  Literal* textLiteral(Literal::Kind kind, std::string_view text, Span span);
  Literal* boolLiteral(bool v, Span span);
  Literal* integerLiteral(int64_t v, Span span);
  Literal* floatLiteral(double v, Span span);
  Literal* complexLiteral(Literal* real, double imaginary, Span span);
  Literal* container(Literal::Kind kind, Slice<Literal*>* items, Span span);
  Literal* pair(Literal* key, Literal* value, Span span);
  Literal* scalarTensor(Literal* number, Span span);
  Literal* typeLiteral(TypePtr type, Span span);
  // A type that began like a value: `(int, Tensor)?`, `Tensor[]`.
  Literal* suffixedType(Literal* literal, char suffix, Span span);
  Literal* annotated(TypePtr annotation, Literal* value, Span span);

  TypePtr namedType(std::string_view name, Span span);
  TypePtr qualifiedType(std::string_view name);
  TypePtr listOf(TypePtr element, Span span) { return checkDepth(listType(element), span); }
  TypePtr optionalOf(TypePtr element, Span span) { return checkDepth(optionalType(element), span); }
  TypePtr tupleOf(Slice<TypePtr> elements, Span span);
  TypePtr undefinedTensor(TypePtr type, Span span);
  TypePtr refinedTensor(std::string_view name, TensorItems* items, Span span);
  TypePtr parametricType(std::string_view name, Slice<TypePtr> arguments, Span span);
  // `Future[Tensor]`; also `Dict[str, int]`, which is Python's.
  TypePtr bracketedType(std::string_view name, Slice<TypePtr> arguments, Span span);
  // `List[int]`: Python's notation, an error.
  TypePtr genericType(TypePtr type, Span span);
  TypePtr wrappedType(std::string_view wrapper, std::string_view name, Span span);
  TypePtr namedTuple(FieldsSyntax* fields, Span span);
  TypePtr pythonType(std::string_view name, Slice<TypePtr>* arguments, Span span);
  // A literal as a type, or null: `None`, `int`, `(int, Tensor)`.
  TypePtr literalAsType(const Literal& literal);

  TensorItems* sizeItem(int64_t size, const int64_t* stride);
  TensorItems* strideItem(std::string_view name, Slice<int64_t>* strides, Span span);
  TensorItems* flagItem(std::string_view name, int64_t value, Span span);
  TensorItems* deviceItem(std::string_view name, std::string_view device, int64_t index, Span span);
  TensorItems* mergeItems(TensorItems* into, TensorItems* item, Span span);
  int64_t symbolicSize(int64_t symbol);
  FieldsSyntax* field(FieldsSyntax* fields, std::string_view name, TypePtr type, std::string_view defaultText);

  void nameSchema(std::string_view name, std::string_view overload, Span span) {
    schemaResult = {name, overload, span};
  }
  ArgumentSyntax* argument(ArgumentSyntax::Kind kind, Span span);
  ArgumentSyntax* argument(SchemaTypeSyntax* type, std::string_view name, Literal* defaultValue, Span span);
  SchemaTypeSyntax* schemaNamed(std::string_view name, AliasSyntax* alias, Span span);
  SchemaTypeSyntax* schemaQualified(std::string_view name, Span span);
  SchemaTypeSyntax* schemaTuple(Slice<SchemaTypeSyntax*>* elements, Span span);
  SchemaTypeSyntax* schemaParametric(std::string_view name, Slice<SchemaTypeSyntax*>* arguments, AliasSyntax* alias,
                                     Span span);
  SchemaTypeSyntax* schemaList(SchemaTypeSyntax* element, int64_t fixedSize, AliasSyntax* alias, Span span);
  SchemaTypeSyntax* schemaOptional(SchemaTypeSyntax* element, Span span);
  AliasSyntax* alias(Slice<std::string_view>* before, bool write, Slice<std::string_view>* after);
  AliasSyntax* bareWrite();

  // ---- called by the scanner ----
  void setBase(const char* base) { base_ = base; }
  uint32_t offset(const char* p) const { return static_cast<uint32_t>(p - base_); }
  uint32_t textSize() const { return static_cast<uint32_t>(text_.size()); }

  // Lengths of tokens that start at an offset.
  size_t commentLength(uint32_t at) const;
  size_t valueNameLength(uint32_t at) const;
  size_t scalarsLength(uint32_t at) const;  // 0: there is no end
  size_t scopeLength(uint32_t at, size_t prefix) const;
  size_t defaultLength(uint32_t at) const;
  size_t wordLength(Span span) const;  // reaches over `:: name`

  int valueName(std::string_view text, Semantic& value, Span span);
  int integer(std::string_view text, Semantic& value, Span span);
  int floating(std::string_view text, Semantic& value, Span span);
  int imaginary(std::string_view text, Semantic& value, Span span);
  int badNumber(Span span);
  int string(std::string_view body, size_t quote, Semantic& value, Span span);
  int unterminatedString(Span span);
  int badCharacter(Span span);
  int tensorText(std::string_view text, Semantic& value);
  int word(std::string_view text, Semantic& value);
  int attributeWord(std::string_view text, Semantic& value);
  int atEnd();
  bool takePlace(std::string_view comment, Semantic& value);

  bool insideBrackets() const { return !brackets_.empty(); }
  bool insideAttributes() const { return attributesAt_ != 0; }
  bool insideNamedTuple() const { return !brackets_.empty() && brackets_.back() == 'N'; }
  bool endsLine(uint32_t at);
  bool startsAttributes();
  void open(char bracket);
  bool close();  // true if that ended the attributes
  void openBrace();
  void closeBrace();
  bool wantsScalars() const { return sawPython_ && brackets_.empty(); }
  void sawPython() { sawPython_ = true; }
  bool startsSettings(const Semantic& value);
  bool endsSettings(std::string_view line) const;

 private:
  TypePtr checkDepth(TypePtr type, Span span);
  void endStatement() { arena.clear(); }
  bool decodeString(std::string_view body, std::string& out, Span span, size_t quote);

  const SourceFile& source_;
  std::string_view text_;
  Diagnostics& diagnostics_;
  const Limits& limits_;
  StatementSink* sink_;
  std::function<bool()> stop_;
  const char* base_ = nullptr;
  Scanner* scanner_ = nullptr;

  StartAt start_ = StartAt::Text;
  bool started_ = false;
  bool failed_ = false;
  bool givenUp_ = false;  // the rest of the text is not read: a limit was hit, or enough was reported
  int lastToken_ = 0, tokenBeforeLast_ = 0;
  Span lastSpan_{0, 0};
  uint32_t statementBegin_ = 0;  // of the line being read
  // After a syntax error, until its statement ends: brackets do not count, as they may have no partner.
  bool recovering_ = false;
  bool recoveringHeader_ = false;  // whose parameters may go on in further lines
  uint32_t recoveryBegin_ = 0;
  uint32_t unknownTypeEnd_ = 0;  // where the last type ends that was reported as unknown
  bool lineStart_ = true;
  uint32_t unnamedSets_ = 0;
  bool sawPython_ = false;
  bool reportedHere_ = false;  // the scanner has reported the token that it returned as BAD
  size_t attributesAt_ = 0;    // bracket depth of the attributes of the current node, plus one
  size_t settingsIndent_ = 0;
  std::vector<char> brackets_;  // '(', '[', '{', and 'N' for the parenthesis of a NamedTuple
};

}  // namespace tscompile::frontend
