// Tensors that are expanded or filled: operators compute before the expansion, and what broadcasting does anyway is
// not done twice.
#include "ir/values/aten.h"
#include "passes/algebra/node_rewriting.h"

namespace tscompile {
namespace {

const Symbol kExpand = Symbol::of("aten::expand"), kExpandAs = Symbol::of("aten::expand_as");

// The sizes that tensors of these sizes are broadcast to; nothing if they do not fit.
std::optional<Dims> broadcast(const std::vector<Dims>& all) {
  Dims out;
  for (const Dims& sizes : all) {
    while (out.size() < sizes.size()) out.insert(0, 1);
    for (size_t i = 0; i < sizes.size(); ++i) {
      int64_t& o = out[out.size() - sizes.size() + i];
      if (o == 1) o = sizes[i];
      if (sizes[i] != 1 && sizes[i] != o) return std::nullopt;
    }
  }
  return out;
}

// f(expand(a, s), c) -> f(a, c) where c has the sizes s
Replacement cut(Site& site) {
  std::vector<size_t> tensors = site.tensorInputs(site.node);
  std::optional<Dims> result = site.facts.sizes(site.output());
  if (tensors.size() < 2 || !result) return {};
  for (size_t at : tensors) {
    Node* expand = site.producer(site.input(at), kExpand);
    if (!expand) continue;
    Value* a = expand->input(0);
    std::vector<Dims> sizes;
    bool sameDTypes = true, known = true;
    for (size_t i : tensors) {
      std::optional<Dims> s = site.facts.sizes(i == at ? a : site.input(i));
      known = known && s;
      if (s) sizes.push_back(*s);
      sameDTypes = sameDTypes && site.sameDType(site.input(i), a);
    }
    // A tensor without dimensions has less of a say in the dtype of the result.
    if (!known || broadcast(sizes) != result || (site.facts.rank(a) == 0u && !sameDTypes)) continue;
    std::vector<Value*> inputs = site.inputsOf(site.node);
    inputs[at] = a;
    return site.remake(site.node, std::move(inputs));
  }
  return {};
}

// f(expand(a, s)) -> expand(f(a), s)
Replacement sink(Site& site) {
  std::vector<size_t> tensors = site.tensorInputs(site.node);
  Node* expand = tensors.size() == 1 ? site.soleProducer(site.input(tensors[0]), kExpand) : nullptr;
  if (!expand || site.mayDivideByZero(site.node) || !site.facts.isUnseen(site.output())) return {};
  std::vector<Value*> inputs = site.inputsOf(site.node), outer = site.inputsOf(expand);
  inputs[tensors[0]] = expand->input(0);
  outer[0] = site.remake(site.node, std::move(inputs));
  return site.remake(expand, std::move(outer));
}

bool sameList(Site& site, const Value* a, const Value* b) {
  if (a == b) return true;
  std::optional<Dims> x = site.facts.integers(a), y = site.facts.integers(b);
  return x && y && *x == *y;
}

// f(expand(a, s), expand(b, s)) -> expand(f(a, b), s)
Replacement sinkBoth(Site& site) {
  std::vector<size_t> tensors = site.tensorInputs(site.node);
  if (tensors.size() != 2 || site.mayDivideByZero(site.node) || !site.facts.isUnseen(site.output())) return {};
  Node* first = site.soleProducer(site.input(tensors[0]), kExpand);
  Node* second = site.soleProducer(site.input(tensors[1]), kExpand);
  if (!first || !second || !sameList(site, first->input(1), second->input(1))) return {};
  if (!site.sameDType(first->input(0), second->input(0))) return {};
  std::vector<Value*> inputs = site.inputsOf(site.node), outer = site.inputsOf(first);
  inputs[tensors[0]] = first->input(0);
  inputs[tensors[1]] = second->input(0);
  outer[0] = site.remake(site.node, std::move(inputs));
  return site.remake(first, std::move(outer));
}

// f(full(s, v)) -> expand(f(full([], v)), s)
Replacement elementwiseOfFull(Site& site) {
  std::vector<size_t> tensors = site.tensorInputs(site.node);
  Node* full = tensors.size() == 1 ? site.filling(site.input(tensors[0])) : nullptr;
  if (!full || site.mayDivideByZero(site.node)) return {};
  std::optional<size_t> rank = site.facts.rank(full->output());
  if (!rank || *rank == 0 || !site.facts.isUnseen(site.output())) return {};
  std::vector<Value*> small = site.inputsOf(full), inputs = site.inputsOf(site.node);
  Value* sizes = small[0];
  small[0] = site.integers(Dims());
  inputs[tensors[0]] = site.remake(full, std::move(small));
  Value* f = site.remake(site.node, std::move(inputs));
  return site.make(kExpand, {f, sizes, site.constant(false)});
}

// expand_as(v, x) -> expand(v, size(x));  full_like(x, v) -> full(size(x), v)
Replacement bySize(Site& site) {
  bool isExpand = site.node->kind() == kExpandAs;
  Value* model = site.input(isExpand ? 1 : 0);
  DType dtype = site.facts.dtype(site.output());
  if (!isExpand && (dtype == DType::Undefined || !site.facts.isUnseen(site.output()))) return {};
  Value* size = site.make(aten::size, {model});
  if (isExpand) return site.make(kExpand, {site.input(0), size, site.constant(false)});
  std::vector<Value*> inputs = site.inputsOf(site.node);
  std::string_view name = site.node->kind().name();
  size_t options = name == "full_like" ? 2 : 1;
  if (inputs.size() != options + 5) return {};
  inputs[0] = size;
  inputs[options] = site.constant(static_cast<int64_t>(dtype));
  inputs.pop_back();  // the memory format
  return site.make(name == "full_like" ? aten::full : name == "ones_like" ? aten::ones : aten::zeros, inputs);
}

}  // namespace

std::vector<NamedRewrite> broadcastRewrites() {
  Query::Tags always{"default", "fast_compile", "fast_run"};
  return {
      {"canonicalize", elementwiseRewrite("fill_cut", cut), "what an operator broadcasts need not be expanded before",
       always},
      {"canonicalize", elementwiseRewrite("fill_sink", sink), "elementwise operators compute before the expansion",
       always},
      {"canonicalize", elementwiseRewrite("elemwise_alloc", sinkBoth),
       "two operands are joined before both are expanded", always},
      {"canonicalize", elementwiseRewrite("alloc_unary", elementwiseOfFull),
       "of a filled tensor one element is computed", always},
      {"canonicalize",
       siteRewrite("fill_to_alloc", {"aten::expand_as", "aten::full_like", "aten::zeros_like", "aten::ones_like"},
                   bySize),
       "a tensor that only lends its sizes is not needed itself",
       {"fast_run"}},
  };
}

}  // namespace tscompile
