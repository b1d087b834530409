// What is ordered, counted, compared, scattered and written in place in random networks.
#include "tests/support/network_maker.h"

namespace tscompile::test {

Tensor NetworkMaker::distinctIndices(const Dims& sizes, int dim, int64_t below) {
  Tensor t = Tensor::empty(DType::Int64, sizes);
  const int64_t line = t.numel() == 0 ? 1 : t.stride(dim), count = sizes[static_cast<size_t>(dim)];
  const bool turns = coin();
  for (int64_t i = 0; i < t.numel(); ++i) {
    const int64_t at = i / line % count, turn = i % line + i / (line * count);
    t.data<int64_t>()[i] = (turns ? below - 1 - at + turn : at + turn) % below;
  }
  return constant(t);
}

void NetworkMaker::scatter() {
  Known x = any();
  if (x.rank() == 0 || x.tensor.numel() == 0) return;
  const auto dim = static_cast<int>(between(0, x.rank() - 1));
  const int64_t size = x.size(dim), given = coin() ? dim : dim - x.rank();
  Dims sizes(x.tensor.sizes());
  for (size_t d = 0; d < sizes.size(); ++d)
    if (c_.oneIn(3)) sizes[d] = between(1, sizes[d]);
  Dims rows(x.tensor.sizes());
  rows[static_cast<size_t>(dim)] = between(1, size);
  const Dims few{rows[static_cast<size_t>(dim)]};
  static const char* const kReductions[] = {"sum", "amax", "amin", "mean", "prod"};
  switch (c_.below(9)) {
    case 0:
      return add("aten::scatter.src", {x, given, distinctIndices(sizes, dim, size), constant(random(sizes))});
    case 1:
      return add("aten::scatter.value", {x, given, indices(sizes, size), unit()});
    case 2:
      return add("aten::scatter_add",
                 {x, given, indices(sizes, size), coin() ? Given(*twin(x)) : constant(random(sizes))});
    case 3:
      return add("aten::scatter_reduce.two", {x, given, indices(sizes, size), *twin(x), c_.oneOf(kReductions), coin()});
    case 4:
      return add("aten::index_add", {x, given, indices(few, size), constant(random(rows)), coin() ? 1 : 2});
    case 5:
      return add("aten::index_copy", {x, given, distinctIndices(few, 0, size), constant(random(rows))});
    case 6:
      return add("aten::index_fill.int_Scalar", {x, given, indices(few, size), unit()});
    case 7: {
      Dims values(x.tensor.sizes());
      const int64_t count = between(1, values[0]);
      values[0] = count;
      const bool accumulates = coin();
      const Tensor places = accumulates ? indices(Dims{count}, x.size(0)) : distinctIndices(Dims{count}, 0, x.size(0));
      return add("aten::index_put.hacked_twin",
                 {x, Given{IValue(tensorList({places}))}, constant(random(values)), accumulates});
    }
    default:
      add("aten::take_along_dim", {x, indices(rows, size), given});
  }
}

void NetworkMaker::order() {
  Known x = any();
  if (x.rank() == 0 || x.tensor.numel() == 0) return;
  const int64_t dim = dimOf(x), size = x.size(dim < 0 ? dim + x.rank() : dim);
  switch (c_.below(9)) {
    case 0:
      return add("aten::topk", {x, between(1, size), dim, coin(), true});
    case 1:
      return add("aten::sort", {x, dim, coin()});
    case 2:
      return add("aten::kthvalue", {x, between(1, size), dim, coin()});
    case 3:
      return add("aten::median.dim", {x, dim, coin()});
    case 4:
      return add("aten::cumprod", {x, dim, none()});
    case 5:
      return add(coin() ? "aten::cummax" : "aten::cummin", {x, dim});
    case 6:
      return add("aten::logcumsumexp", {x, dim});
    case 7:
      return add("aten::diff", {x, between(1, 2), dim, none(), none()});
    default:
      add("aten::prod.dim_int", {x, dim, coin(), none()});
  }
}

Known NetworkMaker::anyInput() {
  const Value* input = graph_->inputs()[c_.below(graph_->inputs().size())];
  return *std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.value == input; });
}

void NetworkMaker::computed() {
  Known x = anyInput(), y = *twin(x);
  if (x.tensor.numel() == 0) return;
  const size_t before = known_.size();
  const int64_t dim = dimOf(x), size = x.size(dim < 0 ? dim + x.rank() : dim);
  static const char* const kCompared[] = {"aten::gt.Scalar", "aten::le.Scalar", "aten::ne.Scalar"};
  std::vector<Known> made;
  anyDType_ = true;
  if (coin()) {
    Known mask = call(c_.oneOf(kCompared), x, {x, unit()});
    if (coin()) mask = call("aten::logical_and", mask, {mask, call("aten::lt.Scalar", mask, {x, unit()})});
    if (coin()) mask = call(coin() ? "aten::logical_not" : "aten::bitwise_not", mask, {mask});
    switch (c_.below(6)) {
      case 0:
        made = calls("aten::where.self", {mask, y, *twin(y)});
        break;
      case 1:
        made = calls("aten::masked_fill.Scalar", {y, mask, unit()});
        break;
      case 2:
        made = calls("aten::mul.Tensor", {y, mask});
        break;
      case 3:
        made = calls("aten::where.ScalarOther", {mask, y, unit()});
        break;
      case 4:
        made = calls("aten::to.dtype", {call("aten::sum.dim_IntList", mask, {mask, Dims{dim}, coin(), none()}),
                                        static_cast<int>(DType::Float32), false, false, none()});
        break;
      default:
        made = calls("aten::to.dtype", {call("aten::cumsum", mask, {mask, dim, none()}),
                                        static_cast<int>(DType::Float32), false, false, none()});
    }
  } else {
    Known index =
        coin() ? call("aten::argmax", x, {x, dim, true}) : call("aten::argsort.stable", x, {x, true, dim, coin()});
    if (index.value != x.value) {
      if (coin()) index = call("aten::remainder.Scalar", index, {call("aten::add.Scalar", index, {index, 2, 1}), size});
      switch (c_.below(4)) {
        case 0:
          made = calls("aten::gather", {y, dim, index, false});
          break;
        case 1:
          made = calls("aten::embedding", {constant(random(Dims{size, between(1, 17)})), index, -1, false, false});
          break;
        case 2:
          made = calls("aten::scatter.value", {y, dim, index, unit()});
          break;
        default:
          made = calls("aten::div.Scalar", {index, size});
      }
    }
  }
  anyDType_ = false;
  known_.resize(before);
  if (!made.empty() && isUseful(made[0].tensor)) known_.push_back(made[0]);
}

void NetworkMaker::moreProducts() {
  Known x = any();
  if (x.rank() == 0 || x.tensor.numel() == 0) return;
  const int64_t last = x.size(x.rank() - 1), out = c_.oneOf(kChannels);
  switch (c_.below(6)) {
    case 0:
      x = ofRank(2);
      if (x.rank() != 2) return;
      return add("aten::addmm", {constant(random(coin() ? Dims{out} : Dims{x.size(0), 1})), x,
                                 weight(Dims{x.size(1), out}, x.size(1)), unit(), 0.5});
    case 1:
      x = ofRank(3);
      if (x.rank() != 3) return;
      return add("aten::baddbmm", {constant(random(coin() ? Dims{1, 1, out} : Dims{x.size(0), x.size(1), 1})), x,
                                   weight(Dims{x.size(0), x.size(2), out}, x.size(2)), unit(), 0.5});
    case 2:
      x = ofRank(2);
      if (x.rank() != 2) return;
      return add("aten::mv", {x, weight(Dims{x.size(1)}, x.size(1))});
    case 3:
      return add("aten::tensordot", {x, weight(Dims{out, last}, last), Dims{-1}, Dims{1}});
    case 4:
      x = ofRank(2);
      return add("aten::kron", {x, constant(random(Dims{between(1, 2), between(1, 3)}))});
    default:
      x = ofRank(1);
      if (x.rank() == 1) add("aten::outer", {x, *twin(x)});
  }
}

void NetworkMaker::moreViews() {
  Known x = any();
  if (x.rank() == 0) return;
  const int64_t a = dimOf(x), b = dimOf(x);
  switch (c_.below(7)) {
    case 0:
      return add("aten::diagonal", {x, between(-1, 1), a, b});
    case 1:
      return add("aten::diag_embed", {x, between(-1, 1), -2, -1});
    case 2:
      return add("aten::rot90", {x, between(-1, 2), Dims{a, b}});
    case 3:
      return add("aten::tile", {x, Dims{between(1, 2), 1}});
    case 4:
      return add("aten::nan_to_num", {x, none(), none(), none()});
    case 5:
      return add("aten::cosine_similarity", {x, *twin(x), a, 0.1});
    default:
      add("aten::narrow", {x, a, 0, x.size(a < 0 ? a + x.rank() : a) / 2});
  }
}

void NetworkMaker::written() {
  Known x = any();
  if (x.rank() == 0 || x.tensor.numel() == 0) return;
  std::vector<Known> copies = calls("aten::clone", {x, coin() ? none() : Given(0)});
  if (copies.empty()) return;
  Known whole = copies[0], part = whole;
  for (int64_t steps = between(0, 3); steps > 0 && part.rank() > 0; --steps) {
    const int64_t dim = dimOf(part), size = part.size(dim < 0 ? dim + part.rank() : dim);
    switch (c_.below(6)) {
      case 0:
        if (size > 0) part = call("aten::select.int", part, {part, dim, between(-size, size - 1)});
        break;
      case 1:
      case 2:
        part =
            call("aten::slice.Tensor", part, {part, dim, between(0, size / 2), between(size / 2, size), between(1, 2)});
        break;
      case 3:
        part = call("aten::transpose.int", part, {part, dim, dimOf(part)});
        break;
      case 4:
        part = call("aten::diagonal", part, {part, 0, dim, dimOf(part)});
        break;
      default:
        part = call("aten::unsqueeze", part, {part, dim});
    }
  }
  const Tensor mask = constant([&] {
    Tensor t = Tensor::empty(DType::Bool, part.tensor.sizes());
    for (int64_t i = 0; i < t.numel(); ++i) t.data<bool>()[i] = coin();
    return t;
  }());
  switch (c_.below(12)) {
    case 0: {
      const Known other = *twin(part);  // what shares memory is refused or not by how it is laid out
      const bool isApart = other.tensor.storage() != part.tensor.storage();
      add("aten::copy_", {part, isApart ? Given(other) : constant(random(part.tensor.sizes())), false});
      break;
    }
    case 1:
      add("aten::mul_.Scalar", {part, unit()});
      break;
    case 2:
      add("aten::fill_.Scalar", {part, unit()});
      break;
    case 3:
      add("aten::masked_fill_.Scalar", {part, mask, unit()});
      break;
    case 4:
      add(coin() ? "aten::relu_" : "aten::tanh_", {part});
      break;
    case 5:
      add("aten::clamp_", {part, -0.5, 0.25});
      break;
    case 6:
      add("aten::masked_scatter_", {part, mask, constant(random(part.tensor.sizes()))});
      break;
    case 7:
      add(coin() ? "aten::tril_" : "aten::triu_", {part, between(-1, 1)});
      break;
    case 8:
    case 9:
      if (part.rank() > 0 && part.tensor.numel() > 0) writeLines(part);
      break;
    default:
      add("aten::mul_.Tensor", {part, constant(random(part.tensor.sizes()))});
  }
  if (coin()) inMemoryOrder(coin() ? whole : part);
}

void NetworkMaker::writeLines(const Known& part) {
  const int64_t dim = dimOf(part), at = dim < 0 ? dim + part.rank() : dim, size = part.size(static_cast<int>(at));
  const Tensor lines = distinctIndices(Dims{between(1, size)}, 0, size);
  Dims sizes(part.tensor.sizes());
  sizes[static_cast<size_t>(at)] = lines.numel();
  switch (c_.below(4)) {
    case 0:
      return add("aten::index_add_", {part, dim, lines, constant(random(sizes)), 1});
    case 1:
      return add("aten::index_copy_", {part, dim, lines, constant(random(sizes))});
    case 2:
      return add("aten::scatter_.value", {part, dim, indices(sizes, size), unit()});
    default:
      add("aten::cumsum_", {part, dim, none()});
  }
}

// As one line of memory, which a view is where there are no gaps.
void NetworkMaker::inMemoryOrder(const Known& x) {
  Dims order(static_cast<size_t>(x.rank()));
  for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(d);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    return x.tensor.stride(static_cast<int>(a)) > x.tensor.stride(static_cast<int>(b));
  });
  const Known y = coin() ? x : call("aten::mul.Scalar", x, {x, unit()});
  add("aten::view", {call("aten::permute", y, {y, order}), Dims{-1}});
}

}  // namespace tscompile::test
