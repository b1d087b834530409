// SelectiveScan: the state-space scan of Mamba and of Mamba 2.
#include "runtime/trtllm/builtin/float_rows.h"
#include "runtime/trtllm/builtin/requests.h"

#include <algorithm>

namespace tscompile {
namespace {

constexpr int64_t kScanChannels = 64;  // of a piece of work

struct SelectiveScan {
  int64_t dim = 0, states = 0, deltaRank = 0, heads = 1, groups = 1, chunk = 256;
  bool softplus = true, packed = false, paged = false, gated = false, isMamba2 = false;
  tsc_dtype type = TSC_NONE;

  static constexpr RequestInputs kRequests{.x = 0, .types = 7, .last = 8, .slots = 10};

  static void describe(tsc::Description<SelectiveScan>& d) {
    using P = SelectiveScan;
    d.key("tensorrt_llm", "SelectiveScan", "1",
          "of each token: dt = softplus(delta + delta_bias), h = exp(dt A) h + dt B x, y = (C h + D x) * silu(z)");
    d.field("dim", &P::dim, "channels").mandatory().range(1, 1 << 24);
    d.field("dstate", &P::states, "numbers of a channel's state").mandatory().range(1, 1 << 16);
    d.field("dt_rank", &P::deltaRank, "not needed").range(0, 1 << 24);
    d.field("nheads", &P::heads, "of Mamba 2: heads that share delta, A and D").range(1, 1 << 20);
    d.field("ngroups", &P::groups, "of Mamba 2: groups of heads that share B and C").range(1, 1 << 20);
    d.field("chunk_size", &P::chunk, "not needed").range(1, 1 << 24);
    d.field("delta_softplus", &P::softplus, "without it, dt = delta + delta_bias");
    d.choice("type_id", &P::type, kTypeNames, typeValues(), "type of the result; auto: as the input");
    d.field("remove_input_padding", &P::packed, "tokens of all requests are packed in one row");
    d.field("paged_state", &P::paged, "state is a pool, and state_slot_mapping tells whose is which");
    d.field("z_enabled", &P::gated, "the input z gates the result");
    d.field("is_mamba2", &P::isMamba2, "delta, A and D are of heads");
    d.input("input_tensor", kFloatsOfPlugins, "x [requests, tokens, dim], or [tokens, dim] of packed tokens");
    d.input(
        "state", kFloatsOfPlugins,
        "h [requests, dstate, dim]; of Mamba 2 [requests, nheads, dstate, dim / nheads]; with paged_state [slots, ..]");
    d.input("delta", kFloatsOfPlugins, "[.., dim]; of Mamba 2 [.., nheads]");
    d.input("delta_bias", kFloatsOfPlugins, "[dim]; of Mamba 2 [nheads]").optional();
    d.input("A", kFloatsOfPlugins, "[dstate, dim]; of Mamba 2 [nheads]");
    d.input("BC", kFloatsOfPlugins,
            "B and C, [.., 2 * dstate]; of Mamba 2 [.., 2 * ngroups * dstate], B of all groups first");
    d.input("D", kFloatsOfPlugins, "[dim]; of Mamba 2 [nheads]").optional();
    d.input("host_request_types", tsc::kI32, "[requests] 0: starts from a state of 0, else goes on; absent: goes on")
        .optional();
    d.input("last_token_ids", tsc::kI32,
            "[requests] how many tokens each has, or where packed ones end; absent: all tokens are there")
        .optional();
    d.input("host_context_lengths", tsc::kI32, "not needed").optional();
    d.input("state_slot_mapping", tsc::kI32, "[requests] which state is whose").optional();
    d.input("z", kFloatsOfPlugins, "[.., dim], with z_enabled").optional();
    d.output("output_tensor", kFloatsOfPlugins, "as the input; 0 where no request has a token");
    d.output("state_out", kFloatsOfPlugins, "state after these tokens").sameTypeAs("state").alias("state");
  }
  static std::string_view example() {
    return "graph(%x : Float(2, 3, 4), %h : Float(2, 2, 4), %dt : Float(2, 3, 4), %A : Float(2, 4), "
           "%BC : Float(2, 3, 4), %D : Float(4)):\n"
           "  %y : Tensor, %new : Tensor = tensorrt_llm::SelectiveScan[dim=4, dstate=2, "
           "inputs=[\"input_tensor\", \"state\", \"delta\", \"A\", \"BC\", \"D\"]](%x, %h, %dt, %A, %BC, %D)\n"
           "  return (%y, %new)\n";
  }

  // What Mamba is in terms of Mamba 2: one head, whose channels have their own delta, A and D.
  int64_t headCount() const { return isMamba2 ? heads : 1; }
  int64_t groupCount() const { return isMamba2 ? groups : 1; }
  int64_t headWidth() const { return dim / headCount(); }
  int64_t deltas() const { return isMamba2 ? heads : dim; }

  void prepare() const {
    if (dim % headCount()) tsc::invalid("dim must be a multiple of nheads");
    if (headCount() % groupCount()) tsc::invalid("nheads must be a multiple of ngroups");
  }

  void shapes(tsc::Shapes& s) const {
    expectRequests(s, kRequests, packed, dim);
    if (paged != s.has(10)) tsc::invalid("the input state_slot_mapping goes with paged_state");
    if (gated != s.has(11)) tsc::invalid("the input z goes with z_enabled");
    tsc::Shape x = s.input(0), state = s.input(1);
    expectShape(s, state, "state", isMamba2 ? Sizes{-1, heads, states, headWidth()} : Sizes{-1, states, dim});
    if (!paged) expectEqual(s, state.dims[0], packed ? s.input(8).dims[0] : x.dims[0], "size 0 of state");
    expectAsX(s, 2, "delta", deltas());
    expectAsX(s, 5, "BC", 2 * groupCount() * states);
    if (gated) expectAsX(s, 11, "z", dim);
    if (s.has(3)) expectShape(s, s.input(3), "delta_bias", {deltas()});
    expectShape(s, s.input(4), "A", isMamba2 ? Sizes{heads} : Sizes{states, dim});
    if (s.has(6)) expectShape(s, s.input(6), "D", {deltas()});
    s.output(0, type == TSC_NONE ? x.dtype : type, x.dims);
    s.output(1, state);
  }
  static void expectAsX(const tsc::Shapes& s, size_t input, const std::string& name, int64_t width) {
    tsc::Shape x = s.input(0), given = s.input(input);
    std::vector<int64_t> sizes(x.rank(), -1);
    sizes.back() = width;
    expectShape(s, given, name, sizes);
    for (size_t d = 0; d + 1 < x.rank(); ++d)
      expectEqual(s, given.dims[d], x.dims[d], "size " + std::to_string(d) + " of " + name);
  }

  struct Weights {
    const float *a, *d, *bias;
  };

  void run(tsc::Run& r) const {
    Floats a(r.input(4)), d(r.input(6)), bias(r.input(3));
    Weights weights{a.data(), d.data(), bias.data()};
    std::vector<RequestRows> requests = readRequests(r, kRequests, packed, r.input(1).size(0));
    int64_t blocks = (headWidth() + kScanChannels - 1) / kScanChannels, pieces = headCount() * blocks;
    r.parallelFor(requests.size() * static_cast<size_t>(pieces), 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        int64_t piece = static_cast<int64_t>(i) % pieces;
        scan(r, requests[i / static_cast<size_t>(pieces)], piece / blocks, piece % blocks * kScanChannels, weights);
      }
    });
  }

  // Channels [first, first + kScanChannels) of a head of a request.
  void scan(const tsc::Run& r, const RequestRows& q, int64_t head, int64_t first, const Weights& w) const {
    int64_t count = std::min(kScanChannels, headWidth() - first), column = head * headWidth() + first;
    int64_t groupColumn = head / (headCount() / groupCount()) * states, width = 2 * groupCount() * states;
    tsc::Tensor x = r.input(0), y = r.output(0), state = r.output(1);
    const int64_t stride = (count + kBlock - 1) / kBlock * kBlock;
    auto size = static_cast<size_t>(states * stride);
    std::vector<float> h(size), a(isMamba2 ? static_cast<size_t>(stride) : size), b(static_cast<size_t>(states)),
        c(static_cast<size_t>(states));
    auto stateAt = [&](int64_t n) { return ((q.slot * headCount() + head) * states + n) * headWidth() + first; };
    for (int64_t n = 0; n < states; ++n) {
      if (!q.fresh) loadFloats(state, stateAt(n), count, h.data() + n * stride);
      if (!isMamba2) std::copy_n(w.a + n * dim + first, count, a.data() + n * stride);
    }
    if (isMamba2) std::fill(a.begin(), a.end(), w.a[head]);
    alignas(64) float row[kScanChannels] = {}, dt[kScanChannels] = {}, dx[kScanChannels] = {}, out[kScanChannels];
    ScanStep step{states, stride, a.data(), isMamba2, dt, dx, b.data(), c.data(), h.data(), out};
    for (int64_t t = 0; t < q.room; ++t) {
      int64_t token = q.first + t;
      std::fill_n(out, kScanChannels, 0.0f);
      if (t < q.length) {
        loadFloats(x, token * dim + column, count, row);
        loadFloats(r.input(5), token * width + groupColumn, states, b.data());
        loadFloats(r.input(5), token * width + width / 2 + groupColumn, states, c.data());
        loadDelta(r.input(2), token, head, first, count, w.bias, dt);
        for (int64_t i = 0; i < count; ++i) dx[i] = dt[i] * row[i];
        scanStep(step);
        for (int64_t i = 0; w.d && i < count; ++i) out[i] += w.d[isMamba2 ? head : first + i] * row[i];
        if (gated) {
          loadFloats(r.input(11), token * dim + column, count, row);
          activateRow(Activation::Silu, row, row, count);
          for (int64_t i = 0; i < count; ++i) out[i] *= row[i];
        }
      }
      storeFloats(out, count, y, token * dim + column);
    }
    for (int64_t n = 0; n < states; ++n) storeFloats(h.data() + n * stride, count, state, stateAt(n));
  }

  void loadDelta(const tsc::Tensor& delta, int64_t token, int64_t head, int64_t first, int64_t count, const float* bias,
                 float* dt) const {
    int64_t from = isMamba2 ? head : first, own = isMamba2 ? 1 : count;
    loadFloats(delta, token * deltas() + from, own, dt);
    for (int64_t i = 0; bias && i < own; ++i) dt[i] += bias[from + i];
    if (softplus) activateRow(Activation::Softplus, dt, dt, own);
    if (isMamba2) std::fill_n(dt, count, dt[0]);
  }

  std::string decompose(const tsc::Tensors& in) const {
    GraphText g;
    std::vector<ValueText> names =
        g.inputs(in, {"x", "state", "delta", "bias", "A", "BC", "D", "types", "last", "lengths", "slots", "z"});
    RequestText requests(g, packed, names[0], names[7], names[8], names[10]);
    auto wide = [&](size_t i) { return g.toFloat(names[i]); };
    // States as [requests, heads, dstate, width]; numbers of tokens as [requests, tokens, heads, 1, width or 1].
    int64_t h = headCount(), each = isMamba2 ? 1 : dim;
    auto perHead = [&](ValueText t, int64_t width) {
      return g.view(t, {requests.count(), requests.longest(), h, 1, width});
    };
    ValueText x = requests.padded(wide(0)), delta = requests.padded(wide(2)), bc = requests.padded(wide(5));
    if (!names[3].empty()) delta = g.add(delta, wide(3));
    if (softplus) delta = g.op("aten::softplus", {delta, 1, 20});
    ValueText dt = perHead(delta, each), xs = perHead(x, headWidth()), dx = g.mul(dt, xs);
    ValueText a = isMamba2 ? g.view(wide(4), {h, 1, 1}) : g.unsqueeze(wide(4), 0);
    auto ofGroups = [&](int64_t from) {
      ValueText part = g.slice(bc, -1, from, from + groupCount() * states);
      part = g.view(part, {requests.count(), requests.longest(), groupCount(), 1, states});
      part = g.op("aten::expand", {part, g.ints({-1, -1, -1, h / groupCount(), -1}), false});
      return g.view(part, {requests.count(), requests.longest(), h, states, 1});
    };
    ValueText b = ofGroups(0), c = ofGroups(groupCount() * states);
    ValueText start = g.view(requests.statesOf(wide(1), isMamba2 ? 4 : 3), {requests.count(), h, states, headWidth()});
    // y is filled token by token.
    ValueText ys = g.op("aten::zeros_like", {xs, nullptr, nullptr, nullptr, nullptr, nullptr});
    std::vector<ValueText> ends = g.loop(requests.longest(), {start, ys}, [&](auto& s, auto& carried) {
      ValueText decay = g.op("aten::exp", {g.mul(g.select(dt, 1, s), a)});
      ValueText next = g.add(g.mul(decay, carried[0]), g.mul(g.select(b, 1, s), g.select(dx, 1, s)));
      ValueText active = requests.isActive(s);
      if (!active.empty()) next = g.where(g.unsqueeze(g.unsqueeze(active, 2), 3), next, carried[0]);
      ValueText y = g.op("aten::sum", {g.mul(g.select(c, 1, s), next), g.ints({2}), true, nullptr});
      return std::vector{next, g.op("aten::select_scatter", {carried[1], y, 1, s})};
    });
    ValueText y = ends[1];
    if (!names[6].empty()) y = g.add(y, g.mul(isMamba2 ? g.view(wide(6), {h, 1, 1}) : wide(6), xs));
    y = g.view(y, {requests.count(), requests.longest(), dim});
    if (gated) y = g.mul(y, g.op("aten::silu", {requests.padded(wide(11))}));
    y = requests.unpadded(y);
    ValueText last = isMamba2 ? ends[0] : g.op("aten::squeeze", {ends[0], 1});
    return g.finish(
        {g.to(y, type == TSC_NONE ? in.input(0).dtype() : type), requests.statesBack(names[1], last, names[1])});
  }
};

}  // namespace

const tsc_plugin* makeSelectiveScan() { return tsc::Definition<SelectiveScan>::table(); }

}  // namespace tscompile
