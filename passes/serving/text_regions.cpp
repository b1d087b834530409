#include "passes/serving/text_regions.h"

#include "ir/values/random.h"
#include "passes/serving/marked_ids.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tscompile {
namespace {

// Lengths that few dimensions of models have.
constexpr int64_t kLengths[] = {29, 19, 13};
constexpr int64_t kTokensOfPieces[] = {5, 1, 2};
constexpr size_t kMostRegionNodes = 3000;

// A dense copy of some rows.
Tensor rowsOf(const Tensor& t, int dim, int64_t begin, int64_t end) {
  Dims sizes(t.sizes().begin(), t.sizes().end()), at(sizes.size(), 0);
  sizes[static_cast<size_t>(dim)] = end - begin;
  Tensor out = Tensor::empty(t.dtype(), sizes);
  const auto item = static_cast<int64_t>(itemSize(t.dtype()));
  const std::byte* from = t.raw() + begin * t.stride(dim) * item;
  for (int64_t i = 0, offset = 0; i < out.numel(); ++i) {
    std::memcpy(out.raw() + i * item, from + offset * item, static_cast<size_t>(item));
    for (int d = t.rank(); d-- > 0;) {
      auto u = static_cast<size_t>(d);
      offset += t.stride(d);
      if (++at[u] < sizes[u]) break;
      offset -= sizes[u] * t.stride(d);
      at[u] = 0;
    }
  }
  return out;
}

Tensor inForm(const Tensor& t, int form, int64_t begin, int64_t end) {
  return form == kAllRows ? t : rowsOf(t, form, begin, end);
}

// The rows of `a`, then those of `b`, both dense.
Tensor joinRows(const Tensor& a, const Tensor& b, int dim) {
  Dims sizes(b.sizes().begin(), b.sizes().end());
  sizes[static_cast<size_t>(dim)] += a.size(dim);
  Tensor out = Tensor::empty(b.dtype(), sizes);
  const size_t item = itemSize(b.dtype());
  auto inner = [&](const Tensor& t) {
    size_t n = item;
    for (int d = dim; d < t.rank(); ++d) n *= static_cast<size_t>(t.size(d));
    return n;
  };
  size_t outer = 1, fromA = inner(a), fromB = inner(b);
  for (int d = 0; d < dim; ++d) outer *= static_cast<size_t>(b.size(d));
  for (size_t i = 0; i < outer; ++i) {
    std::memcpy(out.raw() + i * (fromA + fromB), a.raw() + i * fromA, fromA);
    std::memcpy(out.raw() + i * (fromA + fromB) + fromA, b.raw() + i * fromB, fromB);
  }
  return out;
}

Tensor dense(const Tensor& t) { return t.isContiguous() || t.rank() == 0 ? t : rowsOf(t, 0, 0, t.size(0)); }

// The same elements in another order.
Tensor mixed(const Tensor& t, uint64_t seed) {
  Tensor out = t.rank() ? rowsOf(t, 0, 0, t.size(0)) : t;
  const size_t item = itemSize(t.dtype());
  for (int64_t i = out.numel() - 1; i > 0; --i) {
    auto j = static_cast<int64_t>(random::bits(seed, static_cast<uint64_t>(i)) % static_cast<uint64_t>(i + 1));
    std::swap_ranges(out.raw() + static_cast<size_t>(i) * item, out.raw() + static_cast<size_t>(i + 1) * item,
                     out.raw() + static_cast<size_t>(j) * item);
  }
  return out;
}

double toleranceOf(DType d) {
  return d == DType::BFloat16 ? 3e-2 : d == DType::Float16 ? 4e-3 : isFloating(d) || isComplex(d) ? 2e-5 : 0;
}

// Whether elements are the same but for rounding.
bool agree(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined() || a.dtype() != b.dtype() || !std::ranges::equal(a.sizes(), b.sizes())) return false;
  Tensor x = dense(a), y = dense(b);
  if (toleranceOf(a.dtype()) == 0)
    return std::memcmp(x.raw(), y.raw(), static_cast<size_t>(x.numel()) * itemSize(x.dtype())) == 0;
  double most = 0, off = 0;
  auto compare = [&](auto v, auto w) {
    if (v == w || (v != v && w != w)) return;
    double difference = std::abs(v - w);
    off = std::isfinite(difference) ? std::max(off, difference) : INFINITY;
  };
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (isComplex(x.dtype())) {
      compare(x.complex(i), y.complex(i));
      most = std::max(most, std::abs(x.complex(i)));
      continue;
    }
    double v = x.dtype() == DType::Float32 ? static_cast<double>(x.data<float>()[i]) : x.real(i);
    double w = x.dtype() == DType::Float32 ? static_cast<double>(y.data<float>()[i]) : y.real(i);
    compare(v, w);
    if (std::isfinite(v)) most = std::max(most, std::abs(v));
  }
  return off <= toleranceOf(a.dtype()) * most;
}

// What a node and the blocks inside take from outside of it.
std::vector<const Value*> takenBy(const Node* n) {
  std::vector<const Value*> out;
  for (const Use& u : n->inputs()) out.push_back(u.value);
  auto isOutside = [&](const Value* v) {
    for (const Block* b = v->block(); b; b = b->parent())
      if (b->owner() == n) return false;
    return true;
  };
  for (Block* block : n->blocks()) {
    auto take = [&](std::span<const Use> uses) {
      for (const Use& u : uses)
        if (isOutside(u.value)) out.push_back(u.value);
    };
    take(block->results());
    forEachNode(block, [&](Node* inner) {
      take(inner->inputs());
      for (Block* b : inner->blocks()) take(b->results());
    });
  }
  return out;
}

}  // namespace

TextRegions::TextRegions(RewriteContext& context, const Entrance& entrance, int64_t words, int64_t longest)
    : context_(context), entrance_(entrance), words_(words), longest_(longest) {}

std::vector<IValue> TextRegions::inputsOf(size_t run) const {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < static_cast<size_t>(lengths_[run]); ++i) {
    const uint64_t bits = random::bits(77 + run / 2, i);
    const size_t at = placeOfId(bits, i, words_);
    ids.push_back(at < i ? ids[at] : drawnId(bits, words_, entrance_.marked));
  }
  return inputsOfText(entrance_, ids);
}

bool TextRegions::run() {
  findWriters();
  for (const Node* n : writers_)
    if (context_.facts.aliases().writes(n).reachOutside()) return false;
  // Tables may be too short for some texts. Short beginnings tell most of what depends on all tokens, such as the
  // largest of their numbers.
  for (int64_t length : kLengths) {
    if (length > longest_ || words_ < 1) continue;
    lengths_ = {length, length - 6, length, 3, 11, 2};
    if (!record()) continue;
    classify();
    return true;
  }
  return false;
}

int64_t TextRegions::mostBefore() const { return (lengths_[1] - kTokensOfPieces[2]) / 2; }

void TextRegions::findWriters() {
  const AliasAnalysis& aliases = context_.facts.aliases();
  for (Node* n : context_.graph.block()->nodes())
    if (!aliases.writes(n).empty()) writers_.push_back(n);
}

bool TextRegions::record() {
  ValueMap copies;
  std::unique_ptr<Graph> graph = cloneGraph(context_.graph, copies);
  while (graph->outputs().size()) graph->returnNode()->removeInput(graph->outputs().size() - 1);
  uint32_t count = 0;
  auto keep = [&](const Value* v) {
    graph->addOutput(copies.at(v));
    slots_[v] = ++count;
  };
  for (const Value* v : context_.graph.inputs()) keep(v);
  for (const Node* n : context_.graph.block()->nodes())
    if (n->kind() != sym::Constant)
      for (const Value* v : n->outputs()) keep(v);
  for (size_t run = 0; run < kRuns; ++run) {
    std::optional<std::vector<IValue>> out = context_.evaluator->run(*graph, inputsOf(run));
    if (!out || out->size() != count) return false;
    recorded_[run] = std::move(*out);
  }
  return true;
}

void TextRegions::classify() {
  for (const Value* v : context_.graph.inputs()) depends_[v] = true, dims_[v] = dimsOf(v);
  for (const Node* n : context_.graph.block()->nodes()) {
    std::vector<const Value*> taken = takenBy(n);
    bool depends = std::any_of(taken.begin(), taken.end(), [&](const Value* v) { return depends_.get(v); });
    for (const Value* v : n->outputs()) {
      bool isWritten = !writers_.empty() && AliasAnalysis::canRefer(v->type()) && context_.facts.isWritten(v);
      depends_[v] = depends || isWritten;
      if (depends && !isWritten) dims_[v] = dimsOf(v);
    }
  }
}

const IValue* TextRegions::recorded(const Value* v, size_t run) const {
  uint32_t slot = slots_.get(v);
  return slot ? &recorded_[run][slot - 1] : GraphFacts::constant(v);
}

Tensor TextRegions::tensor(const Value* v, size_t run) const {
  const IValue* value = recorded(v, run);
  Tensor t = value && value->isTensor() ? value->toTensor() : Tensor();
  return t.defined() && isSupported(t.dtype()) ? t : Tensor();
}

std::vector<int> TextRegions::dimsOf(const Value* v) const {
  Tensor first = tensor(v, 0);
  if (!first.defined()) return {};
  std::vector<int> out;
  for (int d = 0; d < first.rank(); ++d) {
    bool isTokens = true, isFixed = true;
    for (size_t run = 0; run < kRuns; ++run) {
      Tensor t = tensor(v, run);
      if (!t.defined() || t.rank() != first.rank() || t.dtype() != first.dtype()) return {};
      isTokens &= t.size(d) == lengths_[run];
      isFixed &= t.size(d) == first.size(d);
    }
    if (!isTokens && !isFixed) return {};
    if (isTokens) out.push_back(d);
  }
  return out;
}

const std::vector<int>& TextRegions::dims(const Value* v) const {
  static const std::vector<int> kNone;
  auto it = dims_.find(v);
  return it == dims_.end() ? kNone : it->second;
}

bool TextRegions::isData(const Value* v) const {
  Tensor a = tensor(v, 0), b = tensor(v, 2);
  return !a.defined() || !b.defined() || !agree(a, b);
}

bool TextRegions::isAlike(const Value* v) const {
  Tensor first = tensor(v, 0);
  for (size_t run = 1; run < kRuns; ++run)
    if (!first.defined() || !agree(first, tensor(v, run))) return false;
  return true;
}

bool TextRegions::isCausal(const Value* v) const {
  for (size_t run = 0; run < kRuns; run += 2) {
    Tensor longer = tensor(v, run), shorter = tensor(v, run + 1);
    for (int d : dims(v)) longer = rowsOf(longer, d, 0, lengths_[run + 1]);
    if (!agree(longer, shorter)) return false;
  }
  return true;
}

TextRegion TextRegions::regionOf(const Value* v) const {
  TextRegion out;
  out.value = v;
  std::unordered_set<const Node*> nodes;
  std::unordered_set<const Value*> seen{v};
  std::vector<const Value*> todo;
  auto add = [&](Node* n) {
    if (!nodes.insert(n).second) return;
    out.nodes.push_back(n);
    for (const Value* taken : takenBy(n)) todo.push_back(taken);
  };
  // What writes memory of a value before it is read.
  auto addWriters = [&](const Value* read) {
    const AliasAnalysis& aliases = context_.facts.aliases();
    if (writers_.empty() || !AliasAnalysis::canRefer(read->type()) || !aliases.isWritten(read)) return;
    LocationSet memory = aliases.reachable(read);
    for (Node* n : writers_)
      if (n->isBefore(v->node()) && aliases.writes(n).intersects(memory)) add(n);
  };
  add(v->node());
  addWriters(v);
  while (!todo.empty() && nodes.size() < kMostRegionNodes) {
    const Value* u = todo.back();
    todo.pop_back();
    if (!seen.insert(u).second) continue;
    if (!dims(u).empty())
      out.rows.push_back(u);
    else if (!depends_.get(u))
      out.weights.push_back(u);
    else {
      if (!u->node()) return {v};
      add(u->node());
      addWriters(u);
    }
  }
  if (!todo.empty()) return {v};
  std::sort(out.nodes.begin(), out.nodes.end(), [](const Node* a, const Node* b) { return a->isBefore(b); });
  return out;
}

bool TextRegions::isView(const TextRegion& region) const {
  return std::none_of(region.nodes.begin(), region.nodes.end(), [&](const Node* n) {
    bool isTensor = n->outputCount() && n->output()->type()->isTensor();
    return n->hasBlocks() || (isTensor && context_.facts.isFresh(n));
  });
}

void cloneRegion(const TextRegion& region, Builder& to, ValueMap& values, const std::vector<CarriedInput>& inputs,
                 const std::vector<Value*>& carried) {
  for (const Node* n : region.nodes) {
    Node* copy = cloneNode(*n, to.graph(), values);
    copy->insertBefore(to.point());
    std::map<size_t, std::vector<Value*>> lists;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].node != n) continue;
      if (inputs[i].element)
        lists[inputs[i].slot].push_back(carried[i]);
      else
        copy->replaceInput(inputs[i].slot, carried[i]);
    }
    InsertionGuard guard(to);
    to.setPoint(copy);
    for (auto& [slot, elements] : lists) copy->replaceInput(slot, to.list(elements, types().tensor));
  }
}

std::optional<std::vector<IValue>> TextRegions::compute(const TextRegion& region, const std::vector<Tensor>& rows,
                                                        const std::vector<CarriedInput>& outputs,
                                                        const std::vector<IValue>* carried) const {
  Graph part;
  Builder builder(part);
  ValueMap values;
  std::vector<IValue> arguments(rows.begin(), rows.end());
  for (const Value* v : region.rows) values[v] = part.addInput(types().tensor);
  for (const Value* v : region.weights) {
    if (v->node() && v->node()->kind() == sym::Constant) {
      part.block()->append(cloneNode(*v->node(), part, values));
      continue;
    }
    const IValue* known = recorded(v, 0);
    if (!known) return std::nullopt;
    values[v] = part.addInput(v->type());
    arguments.push_back(*known);
  }
  std::vector<Value*> inputs;
  for (size_t i = 0; carried && i < carried->size(); ++i) {
    inputs.push_back(part.addInput(types().tensor));
    arguments.push_back((*carried)[i]);
  }
  cloneRegion(region, builder, values, carried ? outputs : std::vector<CarriedInput>(), inputs);
  part.addOutput(values.at(region.value));
  for (const CarriedInput& c : outputs) part.addOutput(values.at(c.node->output(c.output)));
  return context_.evaluator->run(part, arguments);
}

// Of texts as they are, and of one whose data changed places: what is so by the numbers that a model happens to make
// from few texts shows then.
std::optional<std::vector<TextRegions::Piece>> TextRegions::piecesOf(const TextRegion& region) const {
  std::vector<Piece> out;
  auto rowsIn = [&](size_t run) {
    std::vector<Tensor> rows;
    for (const Value* v : region.rows) rows.push_back(tensor(v, run));
    return rows;
  };
  for (size_t i = 0; i < std::size(kTokensOfPieces); ++i) {
    const size_t run = i / 2;
    out.push_back({lengths_[run] - kTokensOfPieces[i], lengths_[run], rowsIn(run), tensor(region.value, run)});
  }
  std::vector<Tensor> other = rowsIn(0);
  bool isOther = false;
  for (size_t i = 0; i < other.size(); ++i) {
    if (!isFloating(other[i].dtype()) || !isData(region.rows[i])) continue;
    other[i] = mixed(other[i], i);
    isOther = true;
  }
  if (isOther) {
    std::optional<std::vector<IValue>> result = compute(region, other);
    if (!result || !(*result)[0].isTensor()) return std::nullopt;
    out.push_back({lengths_[0] - 3, lengths_[0], std::move(other), (*result)[0].toTensor()});
  }
  return out;
}

template <class Test>
bool TextRegions::inAllPieces(const TextRegion& region, Test&& test) const {
  const std::optional<std::vector<Piece>>& pieces =
      pieces_.first == region.value ? pieces_.second : (pieces_ = {region.value, piecesOf(region)}).second;
  return pieces && std::all_of(pieces->begin(), pieces->end(), test);
}

bool TextRegions::givesRows(const TextRegion& region, const std::vector<int>& forms, int dim) const {
  return inAllPieces(region, [&](const Piece& p) {
    std::vector<Tensor> rows;
    for (size_t i = 0; i < forms.size(); ++i) rows.push_back(inForm(p.rows[i], forms[i], p.begin, p.end));
    std::optional<std::vector<IValue>> got = compute(region, rows);
    return got && (*got)[0].isTensor() && agree(inForm(p.result, dim, p.begin, p.end), (*got)[0].toTensor());
  });
}

bool TextRegions::givesRowsAfter(const TextRegion& region, const std::vector<int>& forms, int64_t before,
                                 int dim) const {
  return inAllPieces(region, [&](const Piece& p) {
    const int64_t first = std::max<int64_t>(p.begin - before, 0), dropped = p.begin - first;
    std::vector<Tensor> rows;
    for (size_t i = 0; i < forms.size(); ++i) rows.push_back(rowsOf(p.rows[i], forms[i], first, p.end));
    std::optional<std::vector<IValue>> got = compute(region, rows);
    Tensor t = got && (*got)[0].isTensor() ? (*got)[0].toTensor() : Tensor();
    if (!t.defined() || t.rank() <= dim || t.size(dim) != p.end - first) return false;
    return agree(rowsOf(p.result, dim, p.begin, p.end), rowsOf(t, dim, dropped, t.size(dim)));
  });
}

bool TextRegions::isScan(const TextRegion& region, const std::vector<int>& forms, int dim) const {
  return inAllPieces(region, [&](const Piece& p) {
    Tensor last = rowsOf(p.result, dim, p.begin - 1, p.begin), next = rowsOf(p.rows[0], forms[0], p.begin, p.end);
    if (last.dtype() != next.dtype() || last.rank() != next.rank() || forms[0] != dim) return false;
    for (int d = 0; d < last.rank(); ++d)
      if (d != dim && last.size(d) != next.size(d)) return false;
    std::optional<std::vector<IValue>> got = compute(region, {joinRows(last, next, dim)});
    Tensor t = got && (*got)[0].isTensor() ? (*got)[0].toTensor() : Tensor();
    if (!t.defined() || t.rank() <= dim || t.size(dim) != p.end - p.begin + 1) return false;
    return agree(rowsOf(p.result, dim, p.begin, p.end), rowsOf(t, dim, 1, t.size(dim)));
  });
}

// The dimension that was empty and is not; nothing if others changed.
std::optional<int> grownDim(const Tensor& before, const Tensor& after) {
  std::optional<int> found;
  if (before.rank() != after.rank()) return std::nullopt;
  for (int d = 0; d < before.rank(); ++d) {
    if (before.size(d) == after.size(d)) continue;
    if (found || before.size(d) != 0) return std::nullopt;
    found = d;
  }
  return found;
}

// Of the first node that takes tensors, always the same, of the sizes and dtypes of others that it gives: which takes
// the place of which, in their order.
std::vector<CarriedInput> TextRegions::candidates(const TextRegion& region) const {
  for (const Node* n : region.nodes) {
    std::vector<CarriedInput> out;
    size_t next = 0;
    auto match = [&](const Value* given, size_t slot, std::optional<size_t> element) {
      Tensor t = tensor(given, 0);
      if (!t.defined() || !isAlike(given)) return;
      for (size_t o = next; o < n->outputCount(); ++o) {
        Tensor left = tensor(n->output(o), 0);
        if (!left.defined() || left.dtype() != t.dtype()) continue;
        const std::vector<int>& own = dims(n->output(o));
        const bool stays = own.empty() && std::ranges::equal(left.sizes(), t.sizes());
        if (!stays && !(own.size() == 1 && grownDim(t, left) == own[0])) continue;
        out.push_back({n, slot, element, o});
        next = o + 1;
        return;
      }
    };
    for (size_t slot = 0; slot < n->inputCount(); ++slot) {
      const Node* list = n->input(slot)->node();
      if (n->input(slot)->type()->isTensor())
        match(n->input(slot), slot, std::nullopt);
      else if (list && list->kind() == sym::ListConstruct)
        for (size_t i = 0; i < list->inputCount(); ++i)
          if (list->input(i)->type()->isTensor()) match(list->input(i), slot, i);
    }
    if (!out.empty()) return out;
  }
  return {};
}

std::vector<CarriedInput> TextRegions::carriedInputs(const TextRegion& region, const std::vector<int>& forms,
                                                     int dim) const {
  std::vector<CarriedInput> carried = candidates(region);
  bool carries = !carried.empty() && inAllPieces(region, [&](const Piece& p) {
    std::vector<Tensor> before, after;
    for (size_t i = 0; i < forms.size(); ++i) {
      before.push_back(rowsOf(p.rows[i], forms[i], 0, p.begin));
      after.push_back(rowsOf(p.rows[i], forms[i], p.begin, p.end));
    }
    std::optional<std::vector<IValue>> left = compute(region, before, carried);
    if (!left) return false;
    left->erase(left->begin());
    std::optional<std::vector<IValue>> got = compute(region, after, carried, &*left);
    return got && (*got)[0].isTensor() && agree(inForm(p.result, dim, p.begin, p.end), (*got)[0].toTensor());
  });
  return carries ? carried : std::vector<CarriedInput>();
}

}  // namespace tscompile
