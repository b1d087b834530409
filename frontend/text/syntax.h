// What the grammar builds: one statement at a time, in an arena that is emptied after each. All of it is trivially
// copyable and at most 16 bytes where it travels on the parser's stack.
#pragma once

#include "ir/support/arena.h"
#include "ir/values/type.h"

#include <cstdint>
#include <cstring>
#include <string_view>

namespace tscompile::frontend {

// A half-open range of bytes of the text being read.
struct Span {
  uint32_t begin = 0;
  uint32_t end = 0;
};

// A growing array in an arena.
template <class T>
struct Slice {
  T* data;
  uint32_t size;
  uint32_t capacity;

  static Slice none() { return {nullptr, 0, 0}; }
  void push(Arena& arena, const T& item) {
    if (size == capacity) {
      uint32_t bigger = capacity ? capacity * 2 : 4;
      T* moved = arena.allocateArray<T>(bigger);
      if (size) std::memcpy(static_cast<void*>(moved), data, size * sizeof(T));
      data = moved;
      capacity = bigger;
    }
    data[size++] = item;
  }
  T* begin() const { return data; }
  T* end() const { return data + size; }
  T& operator[](size_t i) const { return data[i]; }
};

struct Name {
  std::string_view text;  // without "%" and blanks
  Span span;
};

// `%x : Tensor`, of a parameter or an output.
struct TypedName {
  Name name;
  TypePtr type;  // null: not given
};

// A value literal of an attribute.
struct Literal {
  enum class Kind : uint8_t {
    Integer,
    Float,
    Imaginary,  // `2.j`; `real` holds the real part
    Bool,
    None,
    String,
    List,
    Tuple,
    Dict,       // items: key, value, key, value ...
    Scalar,     // `{1.5}`: a tensor of one element; the number is items[0]
    Tensor,     // inline tensor text or `<Tensor>`
    Tensors,    // `[<Tensors>]`
    Graph,      // `<Graph>` or `[<Graphs>]`
    Device,     // `torch.device("cpu")`
    Generator,  // `torch.Generator(...)`
    Object,     // `object(0x1)`
    Qualified,  // `__torch__.Color.RED`
    Variable,   // of patterns: `$c`, `~"regular expression"`
    Type,
  };
  Kind kind;
  bool boolean = false;
  uint16_t depth = 0;
  Span span;
  TypePtr type = nullptr;  // of Type; the annotation of `annotate(T, value)` otherwise
  std::string_view text;   // the string's value, or the raw text
  int64_t integer = 0;
  double number = 0;
  double real = 0;
  Slice<Literal*> items = Slice<Literal*>::none();
};

struct AttributeSyntax {
  Name name;
  Literal* value;
};

// `# file:line:column`
struct PlaceSyntax {
  std::string_view file;
  uint32_t line = 0, column = 0;
  bool present = false;
};

struct NodeSyntax {
  Slice<TypedName> outputs = Slice<TypedName>::none();
  std::string_view kind;  // "aten::add", or the name after "^"
  Span kindSpan;
  bool python = false;
  bool brackets = false;  // attributes were given, if only `[]`
  std::string_view scalars;
  Slice<AttributeSyntax> attributes = Slice<AttributeSyntax>::none();
  Slice<Name> inputs = Slice<Name>::none();
  std::string_view scope;
};

struct HeaderSyntax {
  Name word;  // "graph", "block0"
  Slice<TypedName> parameters = Slice<TypedName>::none();
  bool brace = false;
};

// ---- tensor types: the items between the parentheses ----

struct TensorItems {
  Slice<int64_t> sizes = Slice<int64_t>::none();
  Slice<int64_t> strides = Slice<int64_t>::none();
  bool hasStrides = false;     // `strides=[...]`
  bool strideForEach = false;  // `size:stride`
  int8_t requiresGrad = -1;
  bool hasDevice = false;
  Device device;
};

// What travels on the parser's stack.
union Semantic {
  Semantic() : integer(0) {}
  std::string_view text;
  int64_t integer;
  double number;
  TypePtr type;
  Literal* literal;
  TensorItems* items;
  NodeSyntax* node;
  HeaderSyntax* header;
  Slice<Name>* names;
  Slice<TypedName>* typedNames;
  Slice<AttributeSyntax>* attributes;
  Slice<Literal*>* literals;
  Slice<TypePtr>* types;
  struct ArgumentSyntax* argument;
  Slice<struct ArgumentSyntax*>* arguments;
  struct AliasSyntax* alias;
  Slice<std::string_view>* texts;
  struct SchemaTypeSyntax* schemaType;
  struct FieldsSyntax* fields;
  Slice<int64_t>* integers;
  PlaceSyntax* place;
  Slice<struct SchemaTypeSyntax*>* schemaTypes;
};
static_assert(sizeof(Semantic) <= 16);

// ---- schemas ----

// `(a!|b -> *)`
struct AliasSyntax {
  Slice<std::string_view> before = Slice<std::string_view>::none();
  Slice<std::string_view> after = Slice<std::string_view>::none();
  bool write = false;
  bool arrow = false;  // `after` was given
};

// A type with what only schemas write: alias sets, fixed sizes.
struct SchemaTypeSyntax {
  TypePtr type = nullptr;
  AliasSyntax* alias = nullptr;
  AliasSyntax* elementAlias = nullptr;  // of `Tensor(a)[]`
  int32_t fixedSize = -1;
  Span span;
};

struct ArgumentSyntax {
  enum class Kind : uint8_t { Argument, Star, Ellipsis } kind = Kind::Argument;
  SchemaTypeSyntax* type = nullptr;
  std::string_view name;
  Literal* defaultValue = nullptr;
  Span span;
};

// The fields of a NamedTuple.
struct FieldsSyntax {
  Slice<std::string_view> names = Slice<std::string_view>::none();
  Slice<TypePtr> types = Slice<TypePtr>::none();
  Slice<std::string_view> defaults = Slice<std::string_view>::none();
};

}  // namespace tscompile::frontend
