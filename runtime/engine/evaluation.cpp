#include "runtime/engine/evaluation.h"

#include "ir/values/kind_set.h"

#include <algorithm>

namespace tscompile {
namespace {

bool takesTensor(const Argument& a) {
  TypePtr t = a.type;
  while (t->is(TypeKind::Optional) || t->is(TypeKind::List)) t = t->element();
  return t->isTensor();
}

}  // namespace

bool readsGeometryOnly(const Operator& op) {
  static const KindSet kQueries = {
      "aten::size",          "aten::dim",           "aten::numel",        "aten::stride",
      "aten::sym_size",      "aten::sym_numel",     "aten::sym_stride",   "aten::sym_storage_offset",
      "aten::element_size",  "aten::is_contiguous", "aten::get_device",   "aten::is_floating_point",
      "aten::is_complex",    "aten::is_signed",     "aten::is_same_size", "aten::is_non_overlapping_and_dense",
      "aten::result_type",   "aten::is_pinned",     "aten::is_leaf",      "aten::is_conj",
      "aten::is_neg",        "aten::is_inference",  "prim::device",       "prim::dtype",
      "prim::layout",        "prim::shape",         "prim::is_cpu",       "prim::is_cuda",
      "prim::is_quantized",  "prim::is_sparse",     "prim::is_mkldnn",    "prim::is_meta",
      "prim::requires_grad", "aten::__is__",        "aten::__isnot__",    "aten::_unwrap_optional",
      "aten::can_cast",      "aten::promote_types",
  };
  static const KindSet kLists = {
      "aten::__getitem__", "aten::append", "aten::extend", "aten::insert",    "aten::pop", "aten::clear",
      "aten::reverse",     "aten::copy",   "aten::slice",  "aten::list",      "aten::add", "aten::add_",
      "aten::mul",         "aten::mul_",   "aten::Delete", "aten::_set_item",
  };
  if (kQueries.contains(op.kind())) return true;
  const Schema& s = op.schema();
  if (s.arguments.empty()) return false;
  if (op.kind() == Symbol::of("aten::len")) return true;
  return kLists.contains(op.kind()) && s.arguments[0].type->is(TypeKind::List);
}

bool readsStrides(const Operator& op) {
  static const KindSet kKinds = {
      "aten::stride",         "aten::sym_stride",         "aten::is_contiguous",
      "aten::storage_offset", "aten::sym_storage_offset", "aten::is_non_overlapping_and_dense"};
  return kKinds.contains(op.kind());
}

bool mayGiveViews(const Operator& op) {
  const Schema& s = op.schema();
  if (s.arguments.empty() || s.returns.empty() || !op.isImplemented() || !op.def().infer) return false;
  for (const Argument& a : s.arguments)
    if (a.isWritten()) return false;
  // Those that give an argument itself where there is nothing to do, though their schemas do not say so. Their kernels
  // touch elements by shared loops and copies only, which tell symbolic tensors from others.
  static const KindSet kIdentities = {
      "aten::type_as",
      "aten::_cast_Byte",
      "aten::_cast_Char",
      "aten::_cast_Short",
      "aten::_cast_Int",
      "aten::_cast_Long",
      "aten::_cast_Half",
      "aten::_cast_Float",
      "aten::_cast_Double",
      "aten::atleast_1d",
      "aten::atleast_2d",
      "aten::atleast_3d",
      "aten::data",
      "aten::_unsafe_view",
      "aten::broadcast_tensors",
      "aten::lift",
      "aten::unsafe_split",
      "aten::unsafe_chunk",
      "aten::unsafe_split_with_sizes",
      "aten::meshgrid",
      "aten::conj_physical",
      "aten::_conj_physical",
      "aten::dropout",
      "aten::feature_dropout",
      "aten::alpha_dropout",
      "aten::feature_alpha_dropout",
  };
  if (kIdentities.contains(op.kind())) return true;
  for (const Argument& r : s.returns)
    if (!r.alias || r.alias->isWrite) return false;
  // A second tensor is one whose elements say where to cut, but for these.
  static const KindSet kLikeOther = {"aten::expand_as", "aten::view_as", "aten::reshape_as", "aten::to"};
  return kLikeOther.contains(op.kind()) ||
         std::none_of(s.arguments.begin() + 1, s.arguments.end(), [](const Argument& a) { return takesTensor(a); });
}

bool changesGeometry(const Operator& op) {
  static const KindSet kKinds = {
      "aten::t_",          "aten::transpose_", "aten::squeeze_",       "aten::unsqueeze_",  "aten::swapaxes_",
      "aten::swapdims_",   "aten::resize_",    "aten::resize_as_",     "aten::set_",        "aten::set_data",
      "aten::as_strided_", "aten::detach_",    "aten::requires_grad_", "aten::retain_grad",
  };
  return kKinds.contains(op.kind());
}

}  // namespace tscompile
