#include "ir/operators/size_use.h"

#include "ir/values/kind_set.h"

namespace tscompile {

bool readsSizes(Symbol kind) {
  static const KindSet kKinds = {"aten::size",      "aten::sym_size", "aten::numel",
                                 "aten::sym_numel", "aten::dim",      "prim::shape"};
  return kKinds.contains(kind);
}

bool dependsOnElements(const Operator& op) {
  static const KindSet kKinds = {
      "aten::nonzero",
      "aten::nonzero_numpy",
      "aten::masked_select",
      "aten::unique_consecutive",
      "aten::unique_dim",
      "aten::_unique",
      "aten::_unique2",
      "aten::unique_dim_consecutive",
      "aten::bincount",
      "aten::item",
      "aten::Int",
      "aten::Float",
      "aten::Bool",
      "aten::Complex",
      "aten::IntImplicit",
      "aten::FloatImplicit",
      "aten::ScalarImplicit",
      "aten::is_nonzero",
      "aten::equal",
      "aten::allclose",
      "aten::_local_scalar_dense",
      "aten::argwhere",
      "aten::combinations",
      "prim::tolist",
      "aten::__contains__",
      "aten::histogramdd",
      "aten::_tensor_to_list",
      "aten::ComplexImplicit",
      "aten::_list_to_tensor",
  };
  return kKinds.contains(op.kind());
}

}  // namespace tscompile
