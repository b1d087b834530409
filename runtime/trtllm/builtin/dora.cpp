// Dora: the magnitudes of adapters on the results that adapters have changed, as a graph.
#include "runtime/trtllm/builtin/floats.h"
#include "runtime/trtllm/builtin/graph_text.h"

#include <fmt/core.h>

#include <numeric>

namespace tscompile {
namespace {

struct Dora {
  std::vector<int64_t> widths;
  int64_t modules = 1;
  bool packed = false;
  tsc_dtype type = TSC_NONE;

  enum In { kX, kMagnitudes, kEnabled, kTypes, kLengths };

  static void describe(tsc::Description<Dora>& d) {
    using P = Dora;
    d.key(
        "tensorrt_llm", "Dora", "1",
        "y = x * magnitudes of the request, column by column; columns of modules that are not enabled stay. Magnitudes "
        "are tensors here, not addresses");
    d.field("out_hidden_sizes", &P::widths, "columns of each module").mandatory().items(1, 64).range(1, 1 << 24);
    d.field("num_modules", &P::modules, "how many modules there are").range(1, 64);
    d.choice("type_id", &P::type, kTypeNames, typeValues(), "type of the result; auto: as the input");
    d.field("remove_input_padding", &P::packed, "tokens of all requests are packed in one row");
    d.input("input", kFloatsOfPlugins, "[requests, tokens, sum of out_hidden_sizes], or [tokens, ..] of packed tokens");
    d.input("magnitudes", kFloatsOfPlugins, "[requests, sum of out_hidden_sizes]");
    d.input("enabled", tsc::kI32 | tsc::kBool, "[requests, modules] 0: these columns stay; absent: all are enabled")
        .optional();
    d.input("host_request_types", tsc::kI32, "[requests] 0: has host_context_lengths tokens, else 1; absent: all 0")
        .optional();
    d.input("host_context_lengths", tsc::kI32, "[requests], of packed tokens; those after the last stay").optional();
    d.output("output", kFloatsOfPlugins, "as the input");
  }
  static std::string_view example() {
    return "graph(%x : Float(2, 3, 5), %m : Float(2, 5)):\n"
           "  %y : Tensor = tensorrt_llm::Dora[out_hidden_sizes=[2, 3], num_modules=2](%x, %m)\n"
           "  return (%y)\n";
  }
  void prepare() const {
    if (widths.size() != static_cast<size_t>(modules))
      tsc::invalid(fmt::format("out_hidden_sizes has {} numbers, and num_modules is {}", widths.size(), modules));
  }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(kX), magnitudes = s.input(kMagnitudes);
    int64_t all = std::accumulate(widths.begin(), widths.end(), int64_t{0});
    expectShape(s, x, "input", packed ? Sizes{-1, all} : Sizes{-1, -1, all});
    expectShape(s, magnitudes, "magnitudes", {-1, all});
    if (packed && !s.has(kLengths)) tsc::invalid("remove_input_padding needs the input host_context_lengths");
    if (!packed) expectEqual(s, magnitudes.dims[0], x.dims[0], "size 0 of magnitudes");
    if (s.has(kEnabled)) expectShape(s, s.input(kEnabled), "enabled", {-1, modules});
    for (auto [input, name] : {std::pair(kEnabled, "enabled"), std::pair(kTypes, "host_request_types"),
                               std::pair(kLengths, "host_context_lengths")}) {
      if (!s.has(input)) continue;
      if (input != kEnabled) expectShape(s, s.input(input), name, {-1});
      expectEqual(s, s.input(input).dims[0], magnitudes.dims[0], fmt::format("size 0 of {}", name));
    }
    s.output(0, type == TSC_NONE ? x.dtype : type, x.dims);
  }

  std::string decompose(const tsc::Tensors& in) const {
    GraphText g;
    std::vector<ValueText> names = g.inputs(in, {"x", "magnitudes", "enabled", "types", "lengths"});
    ValueText x = g.toFloat(names[kX]), m = g.toFloat(names[kMagnitudes]);
    if (!names[kEnabled].empty()) {
      std::vector<GraphText::Argument> parts;
      int64_t at = 0;
      for (size_t i = 0; i < widths.size(); at += widths[i++]) {
        ValueText off =
            g.op("aten::eq", {g.slice(names[kEnabled], 1, static_cast<int64_t>(i), static_cast<int64_t>(i) + 1), 0});
        parts.emplace_back(g.op("aten::masked_fill", {g.slice(m, 1, at, at + widths[i]), off, 1}));
      }
      m = g.op("aten::cat", {g.tensors(parts), 1});
    }
    if (packed) {
      // A row of 1 for tokens of nobody.
      ValueText lengths = g.toLong(names[kLengths]);
      if (!names[kTypes].empty())
        lengths = g.op("aten::masked_fill", {lengths, g.op("aten::ne", {names[kTypes], 0}), 1});
      ValueText ends = g.op("aten::cumsum", {lengths, 0, nullptr}), tokens = g.range(g.size(x, 0));
      ValueText past = g.op("aten::ge", {g.unsqueeze(tokens, 1), g.unsqueeze(ends, 0)});
      ValueText whose = g.op("aten::sum", {past, g.ints({1}), false, 4});
      m = g.index(g.op("aten::constant_pad_nd", {m, g.ints({0, 0, 0, 1}), 1}), {whose});
    } else {
      m = g.unsqueeze(m, 1);
    }
    return g.finish({g.to(g.mul(x, m), type == TSC_NONE ? in.input(kX).dtype() : type)});
  }
};

}  // namespace

const tsc_plugin* makeDora() { return tsc::Definition<Dora>::table(); }

}  // namespace tscompile
