// The grammar's actions for types, and for the items that refine tensor types.
#pragma once

#include "frontend/text/parse_state.h"

namespace tscompile::frontend {

class TypeBuilder {
 public:
  explicit TypeBuilder(ParseState& state) : state_(state) {}

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
  TensorItems* sizeItem(int64_t size, const int64_t* stride);
  TensorItems* strideItem(std::string_view name, Slice<int64_t>* strides, Span span);
  TensorItems* flagItem(std::string_view name, int64_t value, Span span);
  TensorItems* deviceItem(std::string_view name, std::string_view device, int64_t index, Span span);
  TensorItems* mergeItems(TensorItems* into, TensorItems* item, Span span);
  // Parts of a size: integers of an analysis. Symbols have numbers or names.
  int64_t numberedSymbol(int64_t number, Span span);
  int64_t namedSymbol(std::string_view name);
  int64_t callInSize(std::string_view name, Slice<int64_t> operands, Span span);
  int64_t sizeOf(int64_t integer, Span span);
  FieldsSyntax* field(FieldsSyntax* fields, std::string_view name, TypePtr type, std::string_view defaultText);

 private:
  TypePtr checkDepth(TypePtr type, Span span);

  ParseState& state_;
  uint32_t unknownTypeEnd_ = 0;  // where the last type ends that was reported as unknown
};

}  // namespace tscompile::frontend
