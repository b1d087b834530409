// Lora: what low-rank adapters add to the results of linear layers, each request with its own.
#include "runtime/trtllm/builtin/float_rows.h"
#include "runtime/trtllm/builtin/floats.h"
#include "runtime/trtllm/builtin/graph_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

namespace tscompile {
namespace {

constexpr int64_t kTokens = 32;  // of a piece of work

struct Lora {
  int64_t width = 0, modules = 1, mostRank = 0, weightIndex = 0;
  std::vector<int64_t> widths;
  bool transA = false, transB = true, packed = false;
  tsc_dtype type = TSC_NONE;

  enum In { kX, kTypes, kRanks, kA, kB, kAdapters, kLengths };
  static constexpr size_t kModules = 8;

  static void describe(tsc::Description<Lora>& d) {
    using P = Lora;
    d.key(
        "tensorrt_llm", "Lora", "1",
        "out_m = (x A_m^T) B_m^T with the adapter of the request, of which the first lora_ranks numbers count; rank 0 "
        "gives 0. Weights are tensors here, not addresses");
    d.field("in_hidden_size", &P::width, "columns of the input").mandatory().range(1, 1 << 24);
    d.field("out_hidden_sizes", &P::widths, "columns of each output").mandatory().items(1, kModules).range(1, 1 << 24);
    d.field("num_lora_modules", &P::modules, "how many outputs there are").range(1, kModules);
    d.field("max_low_rank", &P::mostRank, "the largest rank").mandatory().range(1, 1 << 16);
    d.field("transA", &P::transA, "must be false");
    d.field("transB", &P::transB, "must be true");
    d.field("weight_index", &P::weightIndex, "must be 0");
    d.choice("type_id", &P::type, kTypeNames, typeValues(), "type of the results; auto: as the input");
    d.field("remove_input_padding", &P::packed, "tokens of all requests are packed in one row");
    d.input("input", kFloatsOfPlugins, "[requests, tokens, in_hidden_size], or [tokens, ..] of packed tokens");
    d.input("host_request_types", tsc::kI32, "[requests] 0: has host_context_lengths tokens, else 1; absent: all 0")
        .optional();
    d.input("lora_ranks", tsc::kI32, "[requests, modules]");
    d.input("lora_a", kFloatsOfPlugins, "[adapters, modules, max_low_rank, in_hidden_size]");
    d.input("lora_b", kFloatsOfPlugins, "[adapters, sum of out_hidden_sizes, max_low_rank]");
    d.input("lora_adapters", tsc::kI32, "[requests] which adapter each has; absent: request i has adapter i")
        .optional();
    d.input("host_context_lengths", tsc::kI32, "[requests], of packed tokens").optional();
    static constexpr std::string_view kNames[kModules] = {"out_0", "out_1", "out_2", "out_3",
                                                          "out_4", "out_5", "out_6", "out_7"};
    for (std::string_view name : kNames) d.output(name, kFloatsOfPlugins, "as the input with out_hidden_sizes columns");
  }
  static std::string_view example() {
    return "graph(%x : Float(2, 3, 4), %ranks : Int(2, 1), %a : Float(2, 1, 2, 4), %b : Float(2, 5, 2)):\n"
           "  %y : Tensor = tensorrt_llm::Lora[in_hidden_size=4, out_hidden_sizes=[5], max_low_rank=2, "
           "inputs=[\"input\", \"lora_ranks\", \"lora_a\", \"lora_b\"]](%x, %ranks, %a, %b)\n"
           "  return (%y)\n";
  }

  void prepare() const {
    if (widths.size() != static_cast<size_t>(modules))
      tsc::invalid(fmt::format("out_hidden_sizes has {} numbers, and num_lora_modules is {}", widths.size(), modules));
    if (transA || !transB) tsc::unsupported("transA = true and transB = false are not implemented");
    if (weightIndex != 0) tsc::unsupported("weight_index other than 0 is not implemented");
  }
  size_t outputs() const { return widths.size(); }
  int64_t allWidths() const { return std::accumulate(widths.begin(), widths.end(), int64_t{0}); }

  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(kX), ranks = s.input(kRanks);
    expectShape(s, x, "input", packed ? Sizes{-1, width} : Sizes{-1, -1, width});
    expectShape(s, ranks, "lora_ranks", {-1, modules});
    if (packed && !s.has(kLengths)) tsc::invalid("remove_input_padding needs the input host_context_lengths");
    if (!packed) expectEqual(s, ranks.dims[0], x.dims[0], "size 0 of lora_ranks");
    for (auto [input, name] : {std::pair(kTypes, "host_request_types"), std::pair(kAdapters, "lora_adapters"),
                               std::pair(kLengths, "host_context_lengths")}) {
      if (!s.has(input)) continue;
      expectShape(s, s.input(input), name, {-1});
      expectEqual(s, s.input(input).dims[0], ranks.dims[0], fmt::format("size 0 of {}", name));
    }
    expectShape(s, s.input(kA), "lora_a", {-1, modules, mostRank, width});
    expectShape(s, s.input(kB), "lora_b", {-1, allWidths(), mostRank});
    expectEqual(s, s.input(kB).dims[0], s.input(kA).dims[0], "size 0 of lora_b");
    for (size_t m = 0; m < widths.size(); ++m) {
      x.dims.back() = s.constant(widths[m]);
      s.output(m, type == TSC_NONE ? x.dtype : type, x.dims);
    }
  }

  // Some tokens of a request.
  struct Piece {
    int64_t request, first, count;
  };
  std::vector<Piece> pieces(const tsc::Run& r) const {
    tsc::Tensor x = r.input(kX), ranks = r.input(kRanks);
    std::vector<Piece> out;
    int64_t tokens = packed ? x.size(0) : x.size(1), next = 0;
    for (int64_t b = 0; b < ranks.size(0); ++b) {
      bool isContext = !r.has(kTypes) || integerAt(r.input(kTypes), b) == 0;
      int64_t length = !packed ? tokens : isContext ? integerAt(r.input(kLengths), b) : 1;
      if (length < 0 || (packed && length > tokens - next))
        tsc::invalid(fmt::format("request {} has {} tokens, and there are {} left", b, length, tokens - next));
      for (int64_t t = 0; t < length; t += kTokens) out.push_back({b, next + t, std::min(kTokens, length - t)});
      next += length;
    }
    int64_t rest = packed ? tokens - next : 0;
    for (int64_t t = 0; t < rest; t += kTokens) out.push_back({-1, next + t, std::min(kTokens, rest - t)});
    return out;
  }

  void run(tsc::Run& r) const {
    for (int64_t i = 0; i < r.input(kRanks).numel(); ++i)
      if (int64_t rank = integerAt(r.input(kRanks), i); rank < 0 || rank > mostRank)
        tsc::invalid(fmt::format("lora_ranks has {}, expected 0 to {}", rank, mostRank));
    for (int64_t b = 0; b < r.input(kRanks).size(0); ++b)
      if (int64_t a = adapterOf(r, b); a < 0 || a >= r.input(kA).size(0))
        tsc::invalid(fmt::format("request {} has the adapter {}, and there are {}", b, a, r.input(kA).size(0)));
    std::vector<Piece> all = pieces(r);
    r.parallelFor(all.size(), 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) adapt(r, all[i]);
    });
  }
  static int64_t adapterOf(const tsc::Run& r, int64_t request) {
    return r.has(kAdapters) ? integerAt(r.input(kAdapters), request) : request;
  }

  void adapt(const tsc::Run& r, const Piece& p) const {
    std::vector<float> x(static_cast<size_t>(p.count * width));
    loadFloats(r.input(kX), p.first * width, p.count * width, x.data());
    int64_t offset = 0;
    for (size_t m = 0; m < widths.size(); offset += widths[m++]) {
      std::vector<float> y(static_cast<size_t>(p.count * widths[m]));
      int64_t rank = p.request < 0 ? 0 : integerAt(r.input(kRanks), p.request * modules + static_cast<int64_t>(m));
      if (rank) multiply(r, p, static_cast<int64_t>(m), rank, offset, x, y);
      storeFloats(y.data(), p.count * widths[m], r.output(m), p.first * widths[m]);
    }
  }

  void multiply(const tsc::Run& r, const Piece& p, int64_t m, int64_t rank, int64_t offset, const std::vector<float>& x,
                std::vector<float>& y) const {
    int64_t adapter = adapterOf(r, p.request), columns = widths[static_cast<size_t>(m)];
    std::vector<float> a(static_cast<size_t>(rank * width)), b(static_cast<size_t>(columns * mostRank)),
        low(static_cast<size_t>(p.count * rank));
    loadFloats(r.input(kA), (adapter * modules + m) * mostRank * width, rank * width, a.data());
    loadFloats(r.input(kB), (adapter * allWidths() + offset) * mostRank, columns * mostRank, b.data());
    std::vector<const float*> rows;
    for (int64_t t = 0; t < p.count; ++t) rows.push_back(x.data() + t * width);
    productOfRows(rows.data(), p.count, a.data(), rank, width, width, low.data(), rank);
    for (int64_t t = 0; t < p.count; ++t) rows[static_cast<size_t>(t)] = low.data() + t * rank;
    productOfRows(rows.data(), p.count, b.data(), columns, mostRank, rank, y.data(), columns);
  }

  std::string decompose(const tsc::Tensors& in) const {
    GraphText g;
    std::vector<ValueText> names = g.inputs(in, {"x", "types", "ranks", "a", "b", "adapters", "lengths"});
    ValueText x = g.toFloat(names[kX]), a = g.toFloat(names[kA]), b = g.toFloat(names[kB]);
    ValueText ranks = g.toLong(names[kRanks]), requests = g.size(ranks, 0);
    ValueText adapters = names[kAdapters].empty() ? g.range(requests) : g.toLong(names[kAdapters]), isNobodys;
    if (packed) {
      // Each token is a request of one token.
      ValueText lengths = g.toLong(names[kLengths]);
      if (!names[kTypes].empty())
        lengths = g.op("aten::masked_fill", {lengths, g.op("aten::ne", {names[kTypes], 0}), 1});
      ValueText ends = g.op("aten::cumsum", {lengths, 0, nullptr}), tokens = g.range(g.size(x, 0));
      ValueText past = g.op("aten::ge", {g.unsqueeze(tokens, 1), g.unsqueeze(ends, 0)});
      ValueText whose = g.op("aten::sum", {past, g.ints({1}), false, 4});
      isNobodys = g.unsqueeze(g.op("aten::eq", {whose, requests}), 1);
      whose = g.op("aten::clamp", {whose, nullptr, g.typed("int", "aten::sub", {requests, 1})});
      ranks = g.op("aten::masked_fill", {g.index(ranks, {whose}), isNobodys, 0});
      adapters = g.index(adapters, {whose});
      x = g.unsqueeze(x, 1);
    }
    a = g.index(a, {adapters});
    b = g.index(b, {adapters});
    std::vector<ValueText> results;
    int64_t offset = 0;
    for (size_t m = 0; m < widths.size(); offset += widths[m++]) {
      auto module = static_cast<int64_t>(m);
      ValueText rank = g.unsqueeze(g.select(ranks, 1, module), 1);
      ValueText isUnused = g.op("aten::ge", {g.unsqueeze(g.range(mostRank), 0), rank});
      ValueText low = g.matmul(x, g.transposed(g.select(a, 1, module)));
      low = g.op("aten::masked_fill", {low, g.unsqueeze(isUnused, 1), 0});
      ValueText y = g.matmul(low, g.transposed(g.slice(b, 1, offset, offset + widths[m])));
      if (packed) y = g.op("aten::squeeze", {y, 1});
      results.push_back(g.to(y, type == TSC_NONE ? in.input(0).dtype() : type));
    }
    return g.finish(results);
  }
};

}  // namespace

const tsc_plugin* makeLora() { return tsc::Definition<Lora>::table(); }

}  // namespace tscompile
