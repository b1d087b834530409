// LRU: the gated linear recurrence of Griffin (RG-LRU), as a graph.
#include "runtime/trtllm/builtin/requests.h"

namespace tscompile {
namespace {

struct Lru {
  int64_t dim = 0, block = 0;
  bool packed = false, paged = false, hasY = true, hasYBias = true, fused = true, gateBiased = true;
  tsc_dtype type = TSC_NONE;

  enum In {
    kX,
    kA,
    kState,
    kTypes,
    kLast,
    kSlots,
    kY,
    kYBias,
    kGate,
    kGateBias,
    kGateX,
    kGateXBias,
    kGateA,
    kGateABias
  };
  static constexpr RequestInputs kRequests{.x = kX, .types = kTypes, .last = kLast, .slots = kSlots};

  static void describe(tsc::Description<Lru>& d) {
    using P = Lru;
    d.key("tensorrt_llm", "LRU", "1",
          "of each token: r = sigmoid(gate_a + bias), i = sigmoid(gate_x + bias), log a = -8 r softplus(A), "
          "h = a h + sqrt(1 - a^2) i x (without the root for the first token of a new request), "
          "result = h * gelu_tanh(y + y_bias)");
    d.field("dim", &P::dim, "channels").mandatory().range(1, 1 << 24);
    d.field("block_size", &P::block,
            "of fuse_gate_enabled: gate has so many columns of gate_x, then of gate_a, and so on")
        .range(0, 1 << 24);
    d.choice("type_id", &P::type, kTypeNames, typeValues(), "type of the result; auto: as the input");
    d.field("remove_input_padding", &P::packed, "tokens of all requests are packed in one row");
    d.field("paged_state", &P::paged, "state is a pool, and state_slot_mapping tells whose is which");
    d.field("y_enabled", &P::hasY, "y is given");
    d.field("y_bias_enabled", &P::hasYBias, "y_bias is given");
    d.field("fuse_gate_enabled", &P::fused, "gate is given, in place of gate_x and gate_a");
    d.field("gate_bias_enabled", &P::gateBiased, "the biases of gates are given");
    d.input("x", kFloatsOfPlugins, "[requests, tokens, dim], or [tokens, dim] of packed tokens");
    d.input("A", kFloatsOfPlugins, "[dim]");
    d.input("state", kFloatsOfPlugins, "h [requests, dim]; with paged_state [slots, dim]");
    d.input("host_request_types", tsc::kI32, "[requests] 0: starts from a state of 0, else goes on; absent: goes on")
        .optional();
    d.input("last_token_ids", tsc::kI32,
            "[requests] how many tokens each has, or where packed ones end; absent: all tokens are there")
        .optional();
    d.input("state_slot_mapping", tsc::kI32, "[requests] which state is whose").optional();
    d.input("y", kFloatsOfPlugins, "[.., dim]").optional();
    d.input("y_bias", kFloatsOfPlugins, "[dim]").optional();
    d.input("gate", kFloatsOfPlugins, "[.., 2 * dim]").optional();
    d.input("gate_bias", kFloatsOfPlugins, "[2 * dim]").optional();
    d.input("gate_x", kFloatsOfPlugins, "[.., dim]").optional();
    d.input("gate_x_bias", kFloatsOfPlugins, "[dim]").optional();
    d.input("gate_a", kFloatsOfPlugins, "[.., dim]").optional();
    d.input("gate_a_bias", kFloatsOfPlugins, "[dim]").optional();
    d.output("output_tensor", kFloatsOfPlugins, "as x; 0 where no request has a token");
    d.output("state_out", kFloatsOfPlugins, "state after these tokens").sameTypeAs("state").alias("state");
  }
  static std::string_view example() {
    return "graph(%x : Float(2, 3, 4), %A : Float(4), %h : Float(2, 4), %gate : Float(2, 3, 8)):\n"
           "  %y : Tensor, %new : Tensor = tensorrt_llm::LRU[dim=4, block_size=2, y_enabled=0, y_bias_enabled=0, "
           "gate_bias_enabled=0, inputs=[\"x\", \"A\", \"state\", \"gate\"]](%x, %A, %h, %gate)\n"
           "  return (%y, %new)\n";
  }

  void prepare() const {
    if (fused && (block <= 0 || dim % block)) tsc::invalid("fuse_gate_enabled needs a block_size that divides dim");
  }

  void shapes(tsc::Shapes& s) const {
    expectRequests(s, kRequests, packed, dim);
    tsc::Shape x = s.input(kX), state = s.input(kState);
    if (paged != s.has(kSlots)) tsc::invalid("the input state_slot_mapping goes with paged_state");
    expectShape(s, state, "state", {-1, dim});
    if (!paged) expectEqual(s, state.dims[0], packed ? s.input(kLast).dims[0] : x.dims[0], "size 0 of state");
    expectShape(s, s.input(kA), "A", {dim});
    struct Row {
      In input;
      const char* name;
      bool wanted;
      int64_t width;
      bool ofTokens;
    };
    for (const Row& row :
         {Row{kY, "y", hasY, dim, true}, Row{kYBias, "y_bias", hasY && hasYBias, dim, false},
          Row{kGate, "gate", fused, 2 * dim, true}, Row{kGateBias, "gate_bias", fused && gateBiased, 2 * dim, false},
          Row{kGateX, "gate_x", !fused, dim, true}, Row{kGateXBias, "gate_x_bias", !fused && gateBiased, dim, false},
          Row{kGateA, "gate_a", !fused, dim, true}, Row{kGateABias, "gate_a_bias", !fused && gateBiased, dim, false}}) {
      if (s.has(row.input) != row.wanted)
        tsc::invalid(std::string("with these fields, the input ") + row.name +
                     (row.wanted ? " is missing" : " must not be given"));
      if (!row.wanted) continue;
      Sizes sizes(row.ofTokens ? x.rank() : 1, -1);
      sizes.back() = row.width;
      tsc::Shape given = s.input(row.input);
      expectShape(s, given, row.name, sizes);
      for (size_t d = 0; d + 1 < sizes.size(); ++d)
        expectEqual(s, given.dims[d], x.dims[d], "size " + std::to_string(d) + " of " + row.name);
    }
    s.output(0, type == TSC_NONE ? x.dtype : type, x.dims);
    s.output(1, state);
  }

  std::string decompose(const tsc::Tensors& in) const {
    GraphText g;
    std::vector<ValueText> names = g.inputs(in, {"x", "A", "state", "types", "last", "slots", "y", "y_bias", "gate",
                                                 "gate_bias", "gate_x", "gate_x_bias", "gate_a", "gate_a_bias"});
    RequestText requests(g, packed, names[kX], names[kTypes], names[kLast], names[kSlots]);
    auto wide = [&](In i) { return g.toFloat(names[i]); };
    auto padded = [&](In i) { return requests.padded(wide(i)); };
    auto biased = [&](ValueText t, In bias) { return names[bias].empty() ? t : g.add(t, wide(bias)); };
    ValueText gateX, gateA;
    if (fused) {
      ValueText gate = biased(padded(kGate), kGateBias);
      ValueText blocks = g.view(gate, {-1, requests.longest(), dim / block, 2 * block});
      auto half = [&](int64_t from) {
        return g.view(g.slice(blocks, 3, from, from + block), {requests.count(), requests.longest(), dim});
      };
      gateX = half(0);
      gateA = half(block);
    } else {
      gateX = biased(padded(kGateX), kGateXBias);
      gateA = biased(padded(kGateA), kGateABias);
    }
    ValueText rate = g.mul(g.op("aten::softplus", {wide(kA), 1, 20}), -8.0);
    ValueText logA = g.mul(g.op("aten::sigmoid", {gateA}), rate);
    ValueText decay = g.op("aten::exp", {logA});
    // sqrt(1 - a^2), exact for small log a as well.
    ValueText root = g.op("aten::sqrt", {g.op("aten::neg", {g.op("aten::expm1", {g.mul(logA, 2.0)})})});
    if (!names[kTypes].empty()) {
      ValueText fresh = g.unsqueeze(g.unsqueeze(g.op("aten::eq", {names[kTypes], 0}), 1), 2);
      ValueText isFirst = g.unsqueeze(g.op("aten::eq", {g.range(requests.longest()), 0}), 1);
      root = g.op("aten::masked_fill", {root, g.op("aten::logical_and", {fresh, isFirst}), 1});
    }
    ValueText added = g.mul(g.mul(padded(kX), g.op("aten::sigmoid", {gateX})), root);
    ValueText all = g.op("aten::zeros_like", {added, nullptr, nullptr, nullptr, nullptr, nullptr});
    std::vector<ValueText> ends =
        g.loop(requests.longest(), {requests.statesOf(wide(kState), 2), all}, [&](auto& s, auto& carried) {
          ValueText next = g.add(g.mul(g.select(decay, 1, s), carried[0]), g.select(added, 1, s));
          ValueText active = requests.isActive(s);
          if (!active.empty()) next = g.where(active, next, carried[0]);
          return std::vector{next, g.op("aten::select_scatter", {carried[1], next, 1, s})};
        });
    ValueText result = ends[1];
    if (hasY) result = g.mul(result, g.op("aten::gelu", {biased(padded(kY), kYBias), GraphText::text("tanh")}));
    result = requests.unpadded(result);
    return g.finish({g.to(result, type == TSC_NONE ? in.input(kX).dtype() : type),
                     requests.statesBack(names[kState], ends[0], names[kState])});
  }
};

}  // namespace

const tsc_plugin* makeLRU() { return tsc::Definition<Lru>::table(); }

}  // namespace tscompile
