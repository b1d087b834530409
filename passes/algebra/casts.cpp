// Conversions between dtypes: those that change nothing, two in a row, and those of constants that operators make
// themselves.
#include "ir/values/aten.h"
#include "passes/algebra/node_rewriting.h"

namespace tscompile {
namespace {

// to(x, dtype, non_blocking, copy, memory_format) with constants; or type_as.
struct Cast {
  Value* x = nullptr;
  DType to = DType::Undefined;
  bool isNew = false;  // the result may be new memory though the dtype is the same
  bool setsLayout = false;
};

std::optional<Cast> castOf(Site& site, const Node* n) {
  Cast c;
  if (n->kind() == aten::to) {
    const Operator* op = site.facts.resolve(n);
    if (!op || op->overload() != "dtype") return std::nullopt;
    std::optional<bool> copy = site.facts.boolean(n->input(3));
    c.setsLayout = !GraphFacts::isNone(n->input(4));
    c.isNew = copy != false || c.setsLayout;
  } else if (n->kind() != aten::type_as) {
    return std::nullopt;
  }
  c.x = n->input(0);
  c.to = site.facts.dtype(n->output());
  return c.to == DType::Undefined ? std::nullopt : std::optional(c);
}

// to(x, dtype of x) -> x
Replacement dropCast(Site& site) {
  std::optional<Cast> cast = castOf(site, site.node);
  if (!cast || site.facts.dtype(cast->x) != cast->to || (cast->isNew && !site.mayReuse(cast->x))) return {};
  return cast->x;
}

int bitsOf(DType d) { return static_cast<int>(itemSize(d)) * 8; }

// Whether every number of one dtype is one of the other.
bool losesNothing(DType from, DType to) {
  if (from == to || from == DType::Bool) return true;
  bool fromInteger = kIntegerTypes.contains(from), toInteger = kIntegerTypes.contains(to);
  if (fromInteger && toInteger) return bitsOf(to) > bitsOf(from) && to != DType::UInt8;
  if (fromInteger && kFloatingTypes.contains(to)) {
    int digits = to == DType::Float64 ? 53 : to == DType::Float32 ? 24 : to == DType::Float16 ? 11 : 8;
    return bitsOf(from) <= digits;
  }
  if (!kFloatingTypes.contains(from) || !kFloatingTypes.contains(to)) return false;
  return bitsOf(to) > bitsOf(from);
}

// to(to(x, f64), f16) -> to(x, f16) where x is f32
Replacement mergeCasts(Site& site) {
  std::optional<Cast> outer = castOf(site, site.node);
  Node* producer = outer ? site.producer(outer->x) : nullptr;
  std::optional<Cast> inner = producer ? castOf(site, producer) : std::nullopt;
  if (inner && (inner->setsLayout || outer->setsLayout)) return {};
  DType from = inner ? site.facts.dtype(inner->x) : DType::Undefined;
  if (!inner || from == DType::Undefined || from == inner->to || !losesNothing(from, inner->to)) return {};
  // What becomes of floats beyond the range of an integer depends on the dtype that they come from.
  if (kFloatingTypes.contains(from) && !kFloatingTypes.contains(outer->to)) return {};
  if (outer->to == from && !site.mayReuse(inner->x)) return {};
  Value* no = site.constant(false);
  return site.make(aten::to, {inner->x, site.constant(static_cast<int64_t>(outer->to)), no, no, site.none()});
}

// x + c -> x + to(c, f32) where the sum is f32 and the constant c is not
Replacement castConstants(Site& site) {
  DType dtype = site.facts.dtype(site.output());
  bool fits = dtype == DType::Float32 || dtype == DType::Float64 || kIntegerTypes.contains(dtype);
  if (!fits) return {};
  std::vector<Value*> inputs = site.inputsOf(site.node);
  bool changed = false;
  for (size_t i : {0u, 1u}) {
    const IValue* c = GraphFacts::constant(inputs[i]);
    DType from = c && c->isTensor() ? c->toTensor().dtype() : dtype;
    if (from == dtype || kComplexTypes.contains(from)) continue;
    Value* no = site.constant(false);
    inputs[i] = site.make(aten::to, {inputs[i], site.constant(static_cast<int64_t>(dtype)), no, no, site.none()});
    changed = true;
  }
  return changed ? Replacement(site.remake(site.node, std::move(inputs))) : Replacement();
}

}  // namespace

std::vector<NamedRewrite> castRewrites() {
  Query::Tags always{"default", "fast_compile", "fast_run"};
  return {
      {"canonicalize", siteRewrite("useless_cast", {aten::to, aten::type_as}, dropCast),
       "a conversion to the dtype that is there", always},
      {"canonicalize", siteRewrite("cast_cast", {aten::to, aten::type_as}, mergeCasts),
       "of two conversions the first goes if it loses nothing", always},
      {"canonicalize",
       siteRewrite("upcast_elemwise_constant_inputs", {aten::add, aten::sub, aten::mul, aten::maximum, aten::minimum},
                   castConstants),
       "constants get the dtype that they are computed in",
       {"fast_run"}},
  };
}

}  // namespace tscompile
