#include "runtime/trtllm/builtin/requests.h"

#include <fmt/core.h>

namespace tscompile {

std::vector<RequestRows> readRequests(const tsc::Run& run, const RequestInputs& in, bool packed, int64_t slots) {
  auto given = [&](int input) { return input >= 0 && run.has(static_cast<size_t>(input)); };
  auto at = [&](int input, size_t i) {
    return integerAt(run.input(static_cast<size_t>(input)), static_cast<int64_t>(i));
  };
  tsc::Tensor x = run.input(static_cast<size_t>(in.x));
  int64_t count = packed ? run.input(static_cast<size_t>(in.last)).size(0) : x.size(0), rows = x.size(packed ? 0 : 1);
  std::vector<RequestRows> all(static_cast<size_t>(count));
  std::vector<bool> taken(static_cast<size_t>(slots));
  int64_t end = 0;
  for (size_t b = 0; b < all.size(); ++b) {
    RequestRows& r = all[b];
    int64_t last = given(in.last) ? at(in.last, b) : rows;
    r.first = packed ? end : static_cast<int64_t>(b) * rows;
    if (last < (packed ? end : 0) || last > rows)
      tsc::invalid(fmt::format("last_token_ids[{}] is {}, expected {} to {}", b, last, packed ? end : 0, rows));
    r.length = packed ? last - end : last;
    end = last;
    r.room = packed ? r.length : rows;
    r.slot = given(in.slots) ? at(in.slots, b) : static_cast<int64_t>(b);
    if (r.slot < 0 || r.slot >= slots)
      tsc::invalid(fmt::format("request {} has the state {}, and there are {}", b, r.slot, slots));
    if (taken[static_cast<size_t>(r.slot)])
      tsc::invalid(fmt::format("request {} has the state {}, which is another's", b, r.slot));
    taken[static_cast<size_t>(r.slot)] = true;
    r.fresh = given(in.types) && at(in.types, b) == 0;
  }
  if (packed && !all.empty()) all.back().room = rows - all.back().first;
  return all;
}

void expectRequests(const tsc::Shapes& s, const RequestInputs& in, bool packed, int64_t width) {
  tsc::Shape x = s.input(static_cast<size_t>(in.x));
  expectShape(s, x, "the input", packed ? Sizes{-1, width} : Sizes{-1, -1, width});
  auto given = [&](int input) { return input >= 0 && s.has(static_cast<size_t>(input)); };
  if (packed && !given(in.last)) tsc::invalid("remove_input_padding needs the input last_token_ids");
  tsc::Dim requests = packed ? s.input(static_cast<size_t>(in.last)).dims.at(0) : x.dims[0];
  for (auto [input, name] : {std::pair(in.types, "host_request_types"), std::pair(in.last, "last_token_ids"),
                             std::pair(in.slots, "state_slot_mapping")}) {
    if (!given(input)) continue;
    tsc::Shape numbers = s.input(static_cast<size_t>(input));
    expectShape(s, numbers, name, {-1});
    expectEqual(s, numbers.dims[0], requests, fmt::format("size 0 of {}", name));
  }
}

RequestText::RequestText(GraphText& g, bool packed, ValueText x, ValueText types, ValueText last, ValueText slots)
    : g_(g), packed_(packed), types_(types), slots_(slots) {
  if (!packed) {
    count_ = g.size(x, 0);
    longest_ = g.size(x, 1);
    lengths_ = last.empty() ? ValueText() : upTo(g.toLong(last), longest_);
    return;
  }
  tokens_ = g.size(x, 0);
  ends_ = upTo(g.toLong(last), tokens_);
  count_ = g.size(ends_, 0);
  ValueText zero = g.op("aten::zeros", {g.ints({1}), 4, nullptr, nullptr, nullptr});
  starts_ = g.slice(g.op("aten::cat", {g.tensors({zero, ends_}), 0}), 0, 0, -1);
  lengths_ = upTo(g.sub(ends_, starts_), tokens_);
  longest_ = g.typed("int", "aten::Int", {g.op("aten::max", {lengths_})});
}

ValueText RequestText::below(ValueText numbers, ValueText count) {
  return g_.op("aten::index_select", {g_.range(count), 0, numbers});
}

ValueText RequestText::upTo(ValueText numbers, ValueText most) {
  return below(numbers, g_.typed("int", "aten::add", {most, 1}));
}

ValueText RequestText::isActive(ValueText s) {
  if (lengths_.empty()) return {};
  return g_.unsqueeze(g_.op("aten::gt", {lengths_, s}), 1);
}

ValueText RequestText::padded(ValueText x) {
  if (!packed_) return x;
  ValueText rows = g_.add(g_.unsqueeze(starts_, 1), g_.unsqueeze(g_.range(longest_), 0));
  ValueText last = g_.typed("int", "aten::sub", {tokens_, 1});
  return g_.index(x, {g_.op("aten::clamp", {rows, nullptr, last})});
}

ValueText RequestText::unpadded(ValueText y) {
  if (!packed_) {
    if (lengths_.empty()) return y;
    ValueText own = g_.op("aten::lt", {g_.unsqueeze(g_.range(longest_), 0), g_.unsqueeze(lengths_, 1)});
    return g_.op("aten::masked_fill", {y, g_.op("aten::logical_not", {g_.unsqueeze(own, 2)}), 0});
  }
  // Of each token: whose it is, and which of its tokens.
  ValueText tokens = g_.range(tokens_);
  ValueText past = g_.op("aten::ge", {g_.unsqueeze(tokens, 1), g_.unsqueeze(ends_, 0)});
  ValueText whose = g_.op("aten::sum", {past, g_.ints({1}), false, 4});
  ValueText isNobodys = g_.op("aten::eq", {whose, count_});
  ValueText request = g_.op("aten::clamp", {whose, nullptr, g_.typed("int", "aten::sub", {count_, 1})});
  ValueText place = g_.sub(tokens, g_.index(starts_, {request}));
  place = g_.op("aten::clamp", {place, nullptr, g_.typed("int", "aten::sub", {longest_, 1})});
  return g_.op("aten::masked_fill", {g_.index(y, {request, place}), g_.unsqueeze(isNobodys, 1), 0});
}

ValueText RequestText::statesOf(ValueText all, int rank) {
  ValueText states = slots_.empty() ? all : g_.index(all, {below(g_.toLong(slots_), g_.size(all, 0))});
  if (types_.empty()) return states;
  ValueText fresh = g_.op("aten::eq", {types_, 0});
  for (int d = 1; d < rank; ++d) fresh = g_.unsqueeze(fresh, d);
  return g_.op("aten::masked_fill", {states, fresh, 0});
}

ValueText RequestText::statesBack(ValueText all, ValueText states, ValueText dtypeLike) {
  ValueText rounded = g_.op("aten::type_as", {states, dtypeLike});
  if (slots_.empty()) return rounded;
  return g_.op("aten::index_put", {all, g_.list("Tensor?[]", {g_.toLong(slots_)}), rounded, false});
}

}  // namespace tscompile
