#include "api/serving/kept_texts.h"

#include "runtime/reference/loops/copy.h"

#include <algorithm>

namespace tscompile {
namespace {

// Rows of a tensor, in its memory.
Tensor narrowed(const Tensor& t, int64_t dim, int64_t begin, int64_t count) {
  Dims sizes(t.sizes().begin(), t.sizes().end()), strides(t.strides().begin(), t.strides().end());
  sizes[static_cast<size_t>(dim)] = count;
  return t.withGeometry(sizes, strides, t.offset() + begin * t.stride(static_cast<int>(dim)));
}

IValue inOrder(const IValue& v) {
  if (v.isTensor()) return v.toTensor().defined() ? IValue(contiguous(v.toTensor())) : v;
  if (v.isTuple()) return tuple(inOrder(v.toTuple().items));
  if (v.isList()) return IValue(Ref<ListValue>::make(v.toList().elementType, inOrder(v.toList().items)));
  return v;
}

}  // namespace

std::vector<IValue> inOrder(std::vector<IValue> values) {
  for (IValue& v : values) v = inOrder(v);
  return values;
}

Tensor joinTensors(const std::vector<Tensor>& parts, int64_t dim) {
  if (parts.size() == 1) return contiguous(parts[0]);
  const int d = static_cast<int>(dim);
  Dims sizes(parts[0].sizes().begin(), parts[0].sizes().end());
  sizes[static_cast<size_t>(dim)] = 0;
  for (const Tensor& t : parts) sizes[static_cast<size_t>(dim)] += t.size(d);
  Tensor out = Tensor::empty(parts[0].dtype(), sizes);
  int64_t at = 0;
  for (const Tensor& t : parts) {
    if (t.numel()) copyTensor(narrowed(out, dim, at, t.size(d)), t);
    at += t.size(d);
  }
  return out;
}

bool KeptTexts::mayShare() const {
  return std::ranges::all_of(forms_, [](const KeptState& s) { return s.batch >= 0; });
}

std::optional<KeptTexts::Part> KeptTexts::after(TokenSpan tokens) const {
  for (size_t i = kept_.size(); i-- > 0;)
    if (std::ranges::equal(kept_[i].tokens, tokens)) return kept_[i].part;
  if (!tokens.empty()) return std::nullopt;
  auto first = std::make_shared<Shared>();
  for (const KeptState& s : forms_) first->states.push_back(Tensor::empty(s.dtype, s.sizes));
  return Part{std::move(first)};
}

void KeptTexts::forget(TokenSpan tokens) {
  for (size_t i = kept_.size(); i-- > 0;)
    if (std::ranges::equal(kept_[i].tokens, tokens)) {
      kept_.erase(kept_.begin() + static_cast<ptrdiff_t>(i));
      return;
    }
}

void KeptTexts::keep(TokenSpan tokens, Part part) {
  if (kept_.size() >= most_) kept_.erase(kept_.begin());
  kept_.push_back({{tokens.begin(), tokens.end()}, std::move(part)});
}

bool KeptTexts::fit(const Part& a, const Part& b) const {
  for (size_t i = 0; i < forms_.size(); ++i) {
    const Tensor &x = a.shared->states[i], &y = b.shared->states[i];
    for (int d = 0; d < x.rank(); ++d)
      if (d != forms_[i].batch && x.size(d) != y.size(d)) return false;
  }
  return true;
}

Tensor KeptTexts::rowsOf(const Part& part, size_t state) const {
  const Tensor& all = part.shared->states[state];
  if (part.shared->texts == 1) return all;
  const int64_t dim = forms_[state].batch,
                each = all.size(static_cast<int>(dim)) / static_cast<int64_t>(part.shared->texts);
  return narrowed(all, dim, static_cast<int64_t>(part.at) * each, each);
}

std::vector<IValue> KeptTexts::joined(const std::vector<Part>& parts) const {
  // Texts that ran together before lie as they should.
  bool areAll = parts.size() == parts[0].shared->texts;
  for (size_t i = 0; i < parts.size() && areAll; ++i) areAll = parts[i].shared == parts[0].shared && parts[i].at == i;
  if (areAll) return {parts[0].shared->states.begin(), parts[0].shared->states.end()};
  std::vector<IValue> out;
  for (size_t s = 0; s < forms_.size(); ++s) {
    std::vector<Tensor> rows;
    for (const Part& part : parts) rows.push_back(rowsOf(part, s));
    out.emplace_back(joinTensors(rows, std::max<int64_t>(forms_[s].batch, 0)));
  }
  return out;
}

}  // namespace tscompile
