// MambaConv1d: the causal convolution of each channel, which remembers the last tokens of its requests.
#include "runtime/trtllm/builtin/float_rows.h"
#include "runtime/trtllm/builtin/requests.h"

#include <algorithm>

namespace tscompile {
namespace {

constexpr int64_t kConvChannels = 64;  // of a piece of work

struct MambaConv1d {
  int64_t dim = 0, taps = 0, before = 0, after = 0;
  bool packed = false, paged = false, silu = true;
  tsc_dtype type = TSC_NONE;

  static constexpr RequestInputs kRequests{.x = 0, .types = 4, .last = 5, .slots = 7};

  static void describe(tsc::Description<MambaConv1d>& d) {
    using P = MambaConv1d;
    d.key("tensorrt_llm", "MambaConv1d", "1",
          "y[t, c] = bias[c] + sum over j of weight[j, c] * x[t - (dconv - 1) + j, c], then SiLU; tokens before the "
          "first are those of conv_state, which becomes the last dconv - 1 tokens");
    d.field("dim", &P::dim, "channels").mandatory().range(1, 1 << 24);
    d.field("dconv", &P::taps, "tokens that a result depends on").mandatory().range(2, 1 << 10);
    d.field("pre_stride", &P::before, "columns of the input before its channels").range(0, 1 << 24);
    d.field("post_stride", &P::after, "columns of the input after its channels").range(0, 1 << 24);
    d.choice("type_id", &P::type, kTypeNames, typeValues(), "type of the result; auto: as the input");
    d.field("remove_input_padding", &P::packed, "tokens of all requests are packed in one row");
    d.field("paged_state", &P::paged, "conv_state is a pool, and state_slot_mapping tells whose is which");
    d.field("apply_silu", &P::silu, "y * sigmoid(y) is the result");
    d.input("input_tensor", kFloatsOfPlugins,
            "[requests, tokens, pre_stride + dim + post_stride], or [tokens, ..] of packed tokens");
    d.input("conv_state", kFloatsOfPlugins, "[requests, dconv - 1, dim]; with paged_state [slots, ..]");
    d.input("weight", kFloatsOfPlugins, "[1, dconv, dim] or [dconv, dim]");
    d.input("bias", kFloatsOfPlugins, "[dim]").optional();
    d.input("host_request_types", tsc::kI32,
            "[requests] 0: starts without a state, else goes on from it; absent: goes on")
        .optional();
    d.input("last_token_ids", tsc::kI32,
            "[requests] how many tokens each has, or where packed ones end; absent: all tokens are there")
        .optional();
    d.input("host_context_lengths", tsc::kI32, "not needed").optional();
    d.input("state_slot_mapping", tsc::kI32, "[requests] which state is whose").optional();
    d.output("output_tensor", kFloatsOfPlugins, "as the input with dim columns; 0 where no request has a token");
    d.output("conv_state_out", kFloatsOfPlugins, "conv_state after these tokens")
        .sameTypeAs("conv_state")
        .alias("conv_state");
  }
  static std::string_view example() {
    return "graph(%x : Float(2, 5, 4), %state : Float(2, 2, 4), %weight : Float(1, 3, 4), %bias : Float(4)):\n"
           "  %y : Tensor, %new : Tensor = tensorrt_llm::MambaConv1d[dim=4, dconv=3](%x, %state, %weight, %bias)\n"
           "  return (%y, %new)\n";
  }

  void shapes(tsc::Shapes& s) const {
    expectRequests(s, kRequests, packed, before + dim + after);
    if (paged != s.has(7)) tsc::invalid("the input state_slot_mapping goes with paged_state");
    tsc::Shape x = s.input(0), state = s.input(1), weight = s.input(2);
    expectShape(s, state, "conv_state", {-1, taps - 1, dim});
    if (!paged) expectEqual(s, state.dims[0], packed ? s.input(5).dims[0] : x.dims[0], "size 0 of conv_state");
    expectShape(s, weight, "weight", weight.rank() == 2 ? Sizes{taps, dim} : Sizes{1, taps, dim});
    if (s.has(3)) expectShape(s, s.input(3), "bias", {dim});
    x.dims.back() = s.constant(dim);
    s.output(0, type == TSC_NONE ? x.dtype : type, x.dims);
    s.output(1, state);
  }

  void run(tsc::Run& r) const {
    Floats weight(r.input(2)), bias(r.input(3));
    std::vector<RequestRows> requests = readRequests(r, kRequests, packed, r.input(1).size(0));
    int64_t blocks = (dim + kConvChannels - 1) / kConvChannels;
    r.parallelFor(requests.size() * static_cast<size_t>(blocks), 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i)
        convolve(r, requests[i / static_cast<size_t>(blocks)], static_cast<int64_t>(i) % blocks * kConvChannels,
                 weight.data(), bias.data());
    });
  }

  // Some channels of a request: its tokens go after those of the state.
  void convolve(const tsc::Run& r, const RequestRows& q, int64_t first, const float* weight, const float* bias) const {
    tsc::Tensor x = r.input(0), y = r.output(0), state = r.output(1);
    int64_t count = std::min(kConvChannels, dim - first), kept = taps - 1, columns = before + dim + after;
    std::vector<float> rows(static_cast<size_t>((kept + q.length) * kConvChannels));
    auto row = [&](int64_t i) { return rows.data() + i * kConvChannels; };
    auto stateAt = [&](int64_t i) { return (q.slot * kept + i) * dim + first; };
    for (int64_t i = 0; i < kept && !q.fresh; ++i) loadFloats(state, stateAt(i), count, row(i));
    for (int64_t t = 0; t < q.length; ++t)
      loadFloats(x, (q.first + t) * columns + before + first, count, row(kept + t));
    float sums[kConvChannels];
    for (int64_t t = 0; t < q.room; ++t) {
      std::fill_n(sums, kConvChannels, 0.0f);
      if (t < q.length) {
        if (bias) std::copy_n(bias + first, count, sums);
        for (int64_t j = 0; j < taps; ++j) {
          const float *w = weight + j * dim + first, *from = row(t + j);
          for (int64_t c = 0; c < count; ++c) sums[c] += w[c] * from[c];
        }
        if (silu) activateRow(Activation::Silu, sums, sums, count);
      }
      storeFloats(sums, count, y, (q.first + t) * dim + first);
    }
    for (int64_t i = 0; i < kept; ++i) storeFloats(row(q.length + i), count, state, stateAt(i));
  }

  std::string decompose(const tsc::Tensors& in) const {
    GraphText g;
    std::vector<ValueText> names = g.inputs(in, {"x", "state", "weight", "bias", "types", "last", "lengths", "slots"});
    RequestText requests(g, packed, names[0], names[4], names[5], names[7]);
    ValueText x = g.toFloat(g.slice(requests.padded(names[0]), -1, before, before + dim));
    ValueText rows = g.op("aten::cat", {g.tensors({requests.statesOf(g.toFloat(names[1]), 3), x}), 1});
    ValueText weight = g.view(g.toFloat(names[2]), {taps, dim}), y;
    for (int64_t j = 0; j < taps; ++j) {
      ValueText end = g.typed("int", "aten::add", {requests.longest(), j});
      ValueText term = g.mul(g.slice(rows, 1, j, end), g.select(weight, 0, j));
      y = j ? g.add(y, term) : term;
    }
    if (!names[3].empty()) y = g.add(y, g.toFloat(names[3]));
    if (silu) y = g.op("aten::silu", {y});
    y = requests.unpadded(y);
    // The last rows of each request.
    ValueText last;
    if (requests.lengths().empty()) {
      last = g.slice(rows, 1, requests.longest(), nullptr);
    } else {
      ValueText at = g.add(g.unsqueeze(requests.lengths(), 1), g.unsqueeze(g.range(taps - 1), 0));
      last = g.index(rows, {g.unsqueeze(g.range(requests.count()), 1), at});
    }
    ValueText state = requests.statesBack(names[1], last, names[1]);
    return g.finish({g.to(y, type == TSC_NONE ? in.input(0).dtype() : type), state});
  }
};

}  // namespace

const tsc_plugin* makeMambaConv1d() { return tsc::Definition<MambaConv1d>::table(); }

}  // namespace tscompile
