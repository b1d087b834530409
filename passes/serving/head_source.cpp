#include "passes/serving/head_source.h"

#include "ir/values/aten.h"
#include "ir/values/kind_set.h"

#include <algorithm>

namespace tscompile {
namespace {

// Where element (b, h, s, d) of heads comes from if they lie in this form.
bool agrees(const HeadSource& source, const SmallInstance::Elements& places, bool swapped, int64_t batch,
            int64_t tokens) {
  int64_t heads = places.sizes[1], group = heads / source.heads, size = source.size;
  size_t at = 0;
  auto expected = [&](int64_t b, int64_t h, int64_t s, int64_t d) {
    int64_t kept = h / group;
    switch (source.form) {
      case HeadSource::Form::Rows:
        return (b * tokens + s) * source.columns + source.first + kept * size + d;
      case HeadSource::Form::HeadsInside:
        return ((b * tokens + s) * source.heads + kept) * size + d;
      case HeadSource::Form::HeadsOutside:
        return ((b * source.heads + kept) * tokens + s) * size + d;
    }
    return int64_t{-1};
  };
  int64_t outer = swapped ? size : tokens, inner = swapped ? tokens : size;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < outer; ++i)
        for (int64_t j = 0; j < inner; ++j)
          if (places.values[at++] != static_cast<double>(swapped ? expected(b, h, j, i) : expected(b, h, i, j)))
            return false;
  return true;
}

// Matrices [.., rows, columns] as a product with these other dimensions repeats them.
bool repeatMatrices(SmallInstance::Elements& e, const Dims& other) {
  const size_t rank = e.sizes.size();
  if (rank < 2 || rank > other.size() + 2) return false;
  const int64_t rows = e.sizes[rank - 2], columns = e.sizes[rank - 1];
  Dims sizes = other;
  sizes.push_back(rows);
  sizes.push_back(columns);
  return e.broadcast(sizes);
}

// Heads and sizes of [batch, heads, tokens, size], or with the last two swapped, if that is what there is row by row.
bool nameDimensions(SmallInstance::Elements& e, bool swapped, const SmallInstance& instance) {
  const size_t rank = e.sizes.size();
  if (rank < 3) return false;
  const int64_t rows = e.sizes[rank - 2], columns = e.sizes[rank - 1], size = swapped ? rows : columns;
  const int64_t heads =
      checkedNumel(e.sizes).value_or(0) / std::max<int64_t>(instance.batch * instance.tokens * size, 1);
  if ((swapped ? columns != instance.tokens : rows % instance.tokens != 0) || heads == 0) return false;
  Dims named{instance.batch, heads, swapped ? size : instance.tokens, swapped ? instance.tokens : size};
  if (checkedNumel(named) != checkedNumel(e.sizes)) return false;
  e.sizes = named;
  return true;
}

}  // namespace

std::optional<HeadSource> HeadSources::describe(Value* candidate, Value* heads, bool swapped, const Value* product,
                                                const SmallInstance& instance) {
  std::optional<Dims> sizes = instance.sizes(candidate), all;
  if (!sizes || sizes->size() < 3 || sizes->size() > 5 || (*sizes)[0] != instance.batch) return std::nullopt;
  std::optional<SmallInstance::Elements> places = instance.places(heads, candidate);
  if (!places || places->values.empty()) return std::nullopt;
  if (product) all = instance.sizes(product);
  if (all && all->size() >= 2 && !repeatMatrices(*places, Dims(all->begin(), all->end() - 2))) return std::nullopt;
  if (!nameDimensions(*places, swapped, instance)) return std::nullopt;
  HeadSource s;
  s.value = candidate;
  s.size = places->sizes[swapped ? 2 : 3];
  // Heads that begin at the same place are one head for a group of queries.
  int64_t count = places->sizes[1], perHead = instance.tokens * s.size, group = 1;
  while (group < count && places->values[static_cast<size_t>(group * perHead)] == places->values[0]) ++group;
  if (count % group) return std::nullopt;
  s.heads = count / group;
  s.isGrouped = sizes->size() == 5;
  std::vector<HeadSource::Form> forms{HeadSource::Form::Rows};
  if (sizes->size() > 3) forms = {HeadSource::Form::HeadsInside, HeadSource::Form::HeadsOutside};
  for (HeadSource::Form form : forms) {
    s.form = form;
    Dims joined = *sizes;
    if (s.isGrouped) {
      const size_t first = form == HeadSource::Form::HeadsInside ? 2 : 1;
      joined[first] *= joined[first + 1];
      joined.erase(first + 1);
    }
    if (form == HeadSource::Form::Rows) {
      s.columns = (*sizes)[2];
      s.first = static_cast<int64_t>(places->values[0]);
      if ((*sizes)[1] != instance.tokens || s.first + s.heads * s.size > s.columns) continue;
    } else {
      Dims expected = form == HeadSource::Form::HeadsInside ? Dims{instance.batch, instance.tokens, s.heads, s.size}
                                                            : Dims{instance.batch, s.heads, instance.tokens, s.size};
      if (joined != expected) continue;
    }
    if (agrees(s, *places, swapped, instance.batch, instance.tokens)) return s;
  }
  return std::nullopt;
}

// The value and those that it is a view or copy of, one after the other.
std::vector<Value*> HeadSources::pathBehind(Value* value) {
  std::vector<Value*> path{value};
  while (Node* n = quietNode(path.back(), context_)) {
    if (n->kind() == sym::ListUnpack || n->kind() == aten::getitem_) n = quietNode(n->input(0), context_);
    if (!n || !context_.facts.movesElements(n) || !n->input(0)->type()->isTensor()) break;
    path.push_back(n->input(0));
  }
  return path;
}

// From the first value that heads are views of on.
std::optional<HeadSource> HeadSources::source(Value* heads, bool swapped, const Value* product, int64_t count) {
  std::vector<Value*> path = pathBehind(heads);
  for (auto candidate = path.rbegin(); candidate != path.rend(); ++candidate) {
    std::optional<HeadSource> a = describe(*candidate, heads, swapped, product, *instances_[0]);
    if (a && (count == 0 || a->heads == count) && a == describe(*candidate, heads, swapped, product, *instances_[1]))
      return a;
  }
  return std::nullopt;
}

// Where the columns of `rows` begin in a matrix that has them side by side.
std::optional<int64_t> HeadSources::firstColumn(Value* matrix, Value* rows, const SmallInstance& instance) {
  std::optional<Dims> from = instance.sizes(matrix), to = instance.sizes(rows);
  if (!from || !to || from->size() != 3 || to->size() != 3 || !std::equal(to->begin(), to->end() - 1, from->begin()))
    return std::nullopt;
  std::optional<SmallInstance::Elements> places = instance.places(rows, matrix);
  if (!places || places->values.empty()) return std::nullopt;
  int64_t first = static_cast<int64_t>(places->values[0]), width = to->back(), columns = from->back();
  for (size_t i = 0; i < places->values.size(); ++i) {
    int64_t at = static_cast<int64_t>(i), expected = at / width * columns + first + at % width;
    if (places->values[i] != static_cast<double>(expected)) return std::nullopt;
  }
  return first;
}

void HeadSources::widen(HeadSource& rows) {
  if (rows.form != HeadSource::Form::Rows) return;
  std::vector<Value*> path = pathBehind(rows.value);
  for (auto matrix = path.rbegin(); *matrix != rows.value; ++matrix) {
    std::optional<int64_t> first = firstColumn(*matrix, rows.value, *instances_[0]);
    if (!first || first != firstColumn(*matrix, rows.value, *instances_[1])) continue;
    rows.value = *matrix;
    rows.first += *first;
    rows.columns = instances_[0]->sizes(*matrix)->back();
    return;
  }
}

Value* HeadSources::inRows(Value* heads, int64_t count, int64_t size) {
  Value* v = heads;
  auto isRows = [&](Value* rows, const SmallInstance& instance) {
    int64_t columns = count * size, at = 0;
    if (instance.sizes(rows) != Dims{instance.batch, instance.tokens, columns}) return false;
    std::optional<SmallInstance::Elements> places = instance.places(rows, heads);
    if (!places) return false;
    for (int64_t b = 0; b < instance.batch; ++b)
      for (int64_t s = 0; s < instance.tokens; ++s)
        for (int64_t h = 0; h < count; ++h)
          for (int64_t d = 0; d < size; ++d)
            if (places->values[static_cast<size_t>(at++)] !=
                static_cast<double>(((b * count + h) * instance.tokens + s) * size + d))
              return false;
    return true;
  };
  for (int steps = 0; steps < 6 && v->useCount() >= 1; ++steps) {
    // Besides the one that goes on there may be questions for sizes.
    Node* next = nullptr;
    for (const Use& u : v->uses()) {
      if (u.user->kind() == aten::size) continue;
      if (next || u.index() != 0) return nullptr;
      next = u.user;
    }
    if (!next || !context_.facts.movesElements(next) || next->outputCount() != 1 ||
        !quietNode(next->output(), context_))
      return nullptr;
    v = next->output();
    if (isRows(v, *instances_[0]) && isRows(v, *instances_[1])) return v;
  }
  return nullptr;
}

}  // namespace tscompile
