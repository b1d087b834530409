// What moves, joins, picks and reduces elements in random networks.
#include "tests/support/network_maker.h"

namespace tscompile::test {

void NetworkMaker::view() {
  Known x = any();
  if (x.rank() == 0) return;
  switch (c_.below(10)) {
    case 0: {
      Dims order;
      for (int64_t d = 0; d < x.rank(); ++d) order.insert(c_.below(order.size() + 1), d);
      return add("aten::permute", {x, order});
    }
    case 1:
      return add("aten::transpose.int", {x, dimOf(x), dimOf(x)});
    case 2: {
      const int64_t first = between(0, x.rank() - 1), last = between(first, x.rank() - 1);
      return add("aten::flatten.using_ints", {x, first, last});
    }
    case 3:
      return add("aten::unsqueeze", {x, between(0, x.rank())});
    case 4:
      return add("aten::squeeze.dim", {x, dimOf(x)});
    case 5: {
      Dims sizes(x.tensor.sizes());
      for (int64_t& s : sizes)
        if (s == 1) s = c_.oneIn(2) ? 3 : 1;
      return add("aten::expand", {x, sizes, false});
    }
    case 6:
      return add("aten::contiguous", {x, c_.oneIn(3) && x.rank() == 4 ? 2 : 0});
    case 7:
    case 8: {  // two neighbours become one, or one becomes two
      Dims sizes(x.tensor.sizes());
      const size_t d = c_.below(sizes.size());
      constexpr int64_t kParts[] = {2, 4, 16, 3};
      const int64_t part = c_.oneOf(kParts);
      if (sizes[d] % part == 0 && coin()) {
        sizes[d] /= part;
        sizes.insert(d + 1, part);
      } else if (d + 1 < sizes.size()) {
        sizes[d] *= sizes[d + 1];
        sizes.erase(d + 1);
      }
      return add(coin() ? "aten::view" : "aten::reshape", {x, sizes});
    }
    default: {  // any other sizes of the same count
      constexpr int64_t kParts[] = {2, 4, 16, 3, 1};
      const int64_t part = c_.oneOf(kParts);
      add("aten::reshape", {x, coin() ? Dims{-1, part} : Dims{part, -1}});
    }
  }
}

void NetworkMaker::cut() {
  Known x = any();
  if (x.rank() == 0) return;
  const int64_t dim = dimOf(x), size = x.size(dim < 0 ? dim + x.rank() : dim);
  switch (c_.below(8)) {
    case 6: {  // a part is written over
      const int64_t at = size == 0 ? 0 : between(-size, size - 1);
      const Known part = call("aten::select.int", x, {x, dim, at});
      return add("aten::select_scatter", {x, coin() ? part : call("aten::neg", part, {part}), dim, at});
    }
    case 7: {
      const int64_t begin = between(0, size / 2), end = between(size / 2, size), step = between(1, 2);
      const Known part = call("aten::slice.Tensor", x, {x, dim, begin, end, step});
      const Known other = coin() ? part : call("aten::neg", part, {part});
      const Known written = call("aten::slice_scatter", x, {x, other, dim, begin, end, step});
      return add("aten::slice_copy.Tensor", {written, dim, 0, end, 1});
    }
    case 0:
      return add("aten::select.int", {x, dim, size == 0 ? 0 : between(-size, size - 1)});
    case 1:
      return add("aten::slice.Tensor",
                 {x, dim, between(0, size / 2), c_.oneIn(40) ? 0 : between(size / 2, size), between(1, 2)});
    case 2:
      return add("aten::chunk", {x, between(1, 4), dim});
    case 3:
      return add("aten::split.Tensor", {x, between(1, std::max<int64_t>(1, size)), dim});
    case 4:
      if (size <= 6) return add("aten::unbind.int", {x, dim});
      return;
    default: {
      const int64_t first = between(0, size);
      add("aten::split_with_sizes", {x, Dims{first, size - first}, dim});
    }
  }
}

void NetworkMaker::join() {
  Known x = any();
  std::vector<Known> items{x};
  for (int64_t more = between(0, 3); more > 0; --more) items.push_back(*twin(x));
  const int64_t dim = dimOf(x);
  if (coin()) return add("aten::stack", {Given(items), between(0, x.rank())});
  // Those that differ in this dimension alone fit as well.
  const auto at = static_cast<size_t>(dim < 0 ? dim + x.rank() : dim);
  for (const Known& k : known_) {
    if (k.rank() != x.rank() || !c_.oneIn(3) || items.size() > 5 || x.rank() == 0) continue;
    Dims sizes(k.tensor.sizes());
    sizes[at] = x.tensor.sizes()[at];
    if (std::ranges::equal(sizes, x.tensor.sizes())) items.push_back(k);
  }
  std::rotate(items.begin(), items.begin() + static_cast<ptrdiff_t>(c_.below(items.size())), items.end());
  add("aten::cat", {Given(items), dim});
}

void NetworkMaker::broadcast() {
  Known x = any();
  static const char* const kTwo[] = {"aten::add", "aten::sub",     "aten::mul",    "aten::add",
                                     "aten::mul", "aten::maximum", "aten::minimum"};
  const std::string name = c_.oneOf(kTwo);
  const bool scaled = name == "aten::add" || name == "aten::sub", plain = name.ends_with("imum");
  const std::string op = name + (plain ? "" : ".Tensor");
  auto with = [&](const Given& a, const Given& b) {
    if (scaled) return add(op, {a, b, c_.oneIn(4) ? 2 : 1});
    add(op, {a, b});
  };
  switch (c_.below(4)) {
    case 0:
      return with(x, *twin(x));
    case 1: {  // a constant that has some of the dimensions
      Dims sizes(x.tensor.sizes());
      for (int64_t& s : sizes)
        if (coin()) s = 1;
      if (!sizes.empty() && c_.oneIn(3)) sizes.erase(0);
      Tensor t = constant(random(sizes));
      return c_.oneIn(3) ? with(t, x) : with(x, t);
    }
    case 2:
      return with(any(), x);
    default:
      if (plain) return;
      add(name + ".Scalar", scaled ? std::vector<Given>{x, unit(), 1} : std::vector<Given>{x, unit()});
  }
}

void NetworkMaker::reduction() {
  Known x = any();
  if (x.rank() == 0) return;
  Dims dims;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (coin()) dims.push_back(c_.oneIn(3) ? d - x.rank() : d);
  if (dims.empty()) dims.push_back(dimOf(x));
  switch (c_.below(6)) {
    case 0:
    case 1:
      return add("aten::mean.dim", {x, dims, coin(), none()});
    case 2:
      return add(coin() ? "aten::amax" : "aten::amin", {x, dims, coin()});
    case 3:
      return add("aten::max.dim", {x, dims[0], coin()});
    case 4:
      return add("aten::var.dim", {x, dims, false, coin()});
    default:
      add("aten::sum.dim_IntList", {x, dims, coin(), none()});
  }
}

void NetworkMaker::residual() {
  Known x = ofRank(4);
  if (x.rank() != 4) return;
  const int64_t c = x.size(1);
  Known y = call("aten::conv2d", x,
                 {x, weight(Dims{c, c, 3, 3}, 9 * c), biasOrNone(c), Dims{1, 1}, Dims{1, 1}, Dims{1, 1}, 1});
  if (coin()) y = call("aten::relu", y, {y});
  y = call("aten::add.Tensor", x, {coin() ? x : y, coin() ? y : x, 1});
  add("aten::relu", {y});
}

void NetworkMaker::pad() {
  Known x = any();
  Dims margins;
  for (int64_t d = between(1, std::max(1, std::min(3, x.rank() - 1))); d > 0; --d) {
    margins.push_back(between(c_.oneIn(4) ? -1 : 0, 2));
    margins.push_back(between(0, 2));
  }
  static const char* const kModes[] = {"constant", "constant", "reflect", "replicate", "circular"};
  add("aten::pad", {x, margins, c_.oneOf(kModes), c_.oneIn(4) ? Given(0.5) : none()});
}

void NetworkMaker::resize() {
  Known x = ofRank(4);
  if (x.rank() != 4) return;
  Dims out{between(1, 9), between(1, 9)};
  const bool corners = coin();
  switch (c_.below(3)) {
    case 0:
      return add("aten::upsample_nearest2d", {x, out, none(), none()});
    case 1:
      return add("aten::upsample_bilinear2d", {x, out, corners, none(), none()});
    default:
      add("aten::upsample_bicubic2d", {x, out, corners, none(), none()});
  }
}

Tensor NetworkMaker::indices(const Dims& sizes, int64_t below) {
  Tensor t = Tensor::empty(DType::Int64, sizes);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<int64_t>()[i] = between(0, std::max<int64_t>(0, below - 1));
  return constant(t);
}

void NetworkMaker::gather() {
  Known x = any();
  if (x.rank() == 0) return;
  const int64_t dim = between(0, x.rank() - 1);
  if (coin()) return add("aten::index_select", {x, dim, indices(Dims{between(1, 6)}, x.size(dim))});
  Dims sizes(x.tensor.sizes());
  sizes[static_cast<size_t>(dim)] = between(1, 5);
  add("aten::gather", {x, dim, indices(sizes, x.size(dim)), false});
}

void NetworkMaker::resizeOther() {
  const int spatial = c_.oneIn(3) ? 3 : c_.oneIn(2) ? 2 : 1;
  Known x = ofRank(spatial + 2);
  if (x.rank() != spatial + 2) return;
  Dims out;
  for (int d = 0; d < spatial; ++d) out.push_back(between(1, 9));
  if (spatial == 2) return add("aten::_upsample_nearest_exact2d", {x, out, none(), none()});
  if (spatial == 1 && coin()) return add("aten::upsample_nearest1d", {x, out, none()});
  if (spatial == 1) return add("aten::upsample_linear1d", {x, out, coin(), none()});
  if (coin()) return add("aten::upsample_nearest3d", {x, out, none(), none(), none()});
  add("aten::upsample_trilinear3d", {x, out, coin(), none(), none(), none()});
}

void NetworkMaker::masked() {
  Known x = any();
  Dims sizes(x.tensor.sizes());
  for (int64_t& s : sizes)
    if (c_.oneIn(3)) s = 1;
  if (!sizes.empty() && c_.oneIn(3)) sizes.erase(0);
  Tensor mask = Tensor::empty(DType::Bool, sizes);
  for (int64_t i = 0; i < mask.numel(); ++i) mask.data<bool>()[i] = coin();
  mask = constant(mask);
  if (coin()) return add("aten::masked_fill.Scalar", {x, mask, unit() * 3});
  add("aten::where.self", {mask, x, *twin(x)});
}

void NetworkMaker::elements() {
  Known x = any(), y = *twin(x);
  switch (c_.below(7)) {
    case 0:
      return add("aten::clamp", {x, coin() ? Given(-0.5) : none(), 0.75});
    case 1:
      return add("aten::lerp.Scalar", {x, y, unit()});
    case 2:
      return add("aten::addcmul", {x, y, constant(random(Dims(x.tensor.sizes()))), unit()});
    case 3:
      return add("aten::pow.Tensor_Scalar", {x, between(1, 3)});
    case 4:
      return add("aten::tril", {x, between(-2, 2)});
    case 5:
      if (x.rank() > 0) add("aten::repeat_interleave.self_int", {x, between(1, 3), dimOf(x), none()});
      return;
    default:
      if (x.rank() > 0) add("aten::movedim.int", {x, dimOf(x), dimOf(x)});
  }
}

void NetworkMaker::indexed() {
  Known x = any();
  if (x.rank() == 0 || x.tensor.numel() == 0) return;
  std::vector<Tensor> lists;
  const Dims sizes = coin() ? Dims{between(1, 5)} : Dims{between(1, 3), between(1, 3)};
  for (int64_t d = between(1, std::min(2, x.rank())); d > 0; --d)
    lists.push_back(indices(sizes, x.size(static_cast<int64_t>(lists.size()))));
  add("aten::index.Tensor_hacked_twin", {x, Given{IValue(tensorList(lists))}});
}

void NetworkMaker::windows() {
  if (coin()) {
    Known x = ofRank(4);
    return add("aten::im2col", {x, Dims{between(1, 3), between(1, 3)}, Dims{between(1, 2), 1}, Dims{between(0, 1), 0},
                                Dims{between(1, 2), between(1, 2)}});
  }
  Known x = any();
  if (x.rank() > 0) add("aten::unfold", {x, dimOf(x), between(1, 3), between(1, 2)});
}

void NetworkMaker::grouped() {
  Known x = ofRank(3);
  if (x.rank() != 3 || x.tensor.numel() == 0) return;
  const int64_t batch = x.size(0), length = x.size(1), width = x.size(2), few = between(1, 2), times = between(1, 3);
  auto part = [&](int64_t heads) {
    Known p = call("aten::linear", x, {x, weight(Dims{heads * 8, width}, width), none()});
    p = call("aten::view", p, {p, Dims{batch, length, heads, 8}});
    return call("aten::transpose.int", p, {p, 1, 2});
  };
  Known q = part(few * times), k = part(few), v = part(few);
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) return;
  add("aten::scaled_dot_product_attention.gqa", {q, k, v, none(), 0.0, coin(), none(), true});
}

void NetworkMaker::sums() {
  Known x = any();
  if (x.rank() == 0 || x.tensor.numel() == 0) return;
  switch (c_.below(4)) {
    case 0:
      return add("aten::cumsum", {x, dimOf(x), none()});
    case 1:
      return add("aten::logsumexp", {x, Dims{dimOf(x)}, coin()});
    case 2:
      return add("aten::std.dim", {x, Dims{dimOf(x)}, false, coin()});
    default: {
      const int64_t last = x.size(x.rank() - 1);
      add("aten::rms_norm", {x, Dims{last}, coin() ? Given(constant(random(Dims{last}))) : none(), 0.1});
    }
  }
}

void NetworkMaker::rearrange() {
  Known x = any();
  if (x.rank() == 0) return;
  const int64_t dim = dimOf(x);
  switch (c_.below(6)) {
    case 0:
      return add("aten::flip", {x, Dims{dim}});
    case 1:
      return add("aten::roll", {x, Dims{between(-3, 3)}, Dims{dim}});
    case 2:
      return add("aten::pixel_shuffle", {x, 2});
    case 3:
      return add("aten::pixel_unshuffle", {x, 2});
    case 4: {
      Dims times(static_cast<size_t>(x.rank()), 1);
      times[c_.below(times.size())] = 2;
      return add("aten::repeat", {x, times});
    }
    default:
      add("aten::channel_shuffle", {x, 2});
  }
}

void NetworkMaker::einsum() {
  Known x = any();
  if (x.rank() == 0 || x.rank() > 4 || x.tensor.numel() == 0) return;
  std::string left, right, out;
  Dims sizes;
  for (int d = 0; d < x.rank(); ++d) {
    const char letter = static_cast<char>('a' + d);
    left += letter;
    const uint64_t what = c_.below(3);  // shared, summed or the left one's own
    if (what < 2) right.insert(right.begin() + static_cast<ptrdiff_t>(c_.below(right.size() + 1)), letter);
    if (what != 1) out.insert(out.begin() + static_cast<ptrdiff_t>(c_.below(out.size() + 1)), letter);
  }
  if (coin()) {
    right.insert(right.begin() + static_cast<ptrdiff_t>(c_.below(right.size() + 1)), 'z');
    if (!c_.oneIn(4)) out.insert(out.begin() + static_cast<ptrdiff_t>(c_.below(out.size() + 1)), 'z');
  }
  for (char letter : right) sizes.push_back(letter == 'z' ? between(1, 5) : x.size(letter - 'a'));
  const std::string equation = left + "," + right + "->" + out;
  // A value on the right as well, where its sizes fit.
  Known y = *twin(x);
  if (left == right) return add("aten::einsum", {equation.c_str(), Given(std::vector<Known>{x, y}), none()});
  Known w = y;
  w.tensor = constant(random(sizes, 0.3));
  w.value = b_.constant(IValue(w.tensor));
  add("aten::einsum", {equation.c_str(), Given(std::vector<Known>{x, w}), none()});
}

void NetworkMaker::sample() {
  Known x = ofRank(4);
  if (x.rank() != 4 || x.tensor.numel() == 0) return;
  Tensor grid = constant(random(Dims{x.size(0), between(1, 5), between(1, 20), 2}, 1.3));
  // Nearest elements change where places hardly do.
  add("aten::grid_sampler", {x, grid, 0, between(0, 2), coin()});
}

}  // namespace tscompile::test
