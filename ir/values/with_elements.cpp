#include "ir/values/with_elements.h"

namespace tscompile {

TypePtr withElements(TypePtr type, std::span<const TypePtr> elements) {
  switch (type->kind()) {
    case TypeKind::List:
      return listType(elements[0]);
    case TypeKind::Optional:
      return optionalType(elements[0]);
    case TypeKind::Future:
      return futureType(elements[0]);
    case TypeKind::Await:
      return awaitType(elements[0]);
    case TypeKind::RRef:
      return rrefType(elements[0]);
    case TypeKind::Dict:
      return dictType(elements[0], elements[1]);
    case TypeKind::Union:
      return unionType(elements);
    case TypeKind::Tuple:
      return type->isNamedTuple() ? namedTupleType(type->name(), elements, type->fields(), type->defaults())
                                  : tupleType(elements);
    default:
      return type;
  }
}

}  // namespace tscompile
