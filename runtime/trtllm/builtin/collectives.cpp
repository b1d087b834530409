// AllReduce, AllGather, ReduceScatter, GemmAllReduce, Send, Recv: shards are threads of this process.
#include "ir/values/dtype.h"
#include "runtime/trtllm/builtin/float_rows.h"
#include "runtime/trtllm/builtin/floats.h"
#include "runtime/trtllm/builtin/shard_group.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

constexpr std::string_view kGroupDoc = "ranks of the shards, in the order in which they are summed and joined";
constexpr std::string_view kRankDoc = "which of them this one is";
constexpr std::string_view kNameDoc = "shards of this process meet by this name";
constexpr std::string_view kTimeoutDoc = "how long to wait for the others, in milliseconds";

std::string described(std::string_view operation, const tsc::Tensor& t) {
  std::string sizes;
  for (int64_t s : t.sizes()) sizes += (sizes.empty() ? "" : ", ") + std::to_string(s);
  return fmt::format("{} of {} [{}]", operation, pythonName(static_cast<DType>(t.dtype())), sizes);
}

size_t bytesOf(const tsc::Tensor& t) {
  return static_cast<size_t>(t.numel()) * itemSize(static_cast<DType>(t.dtype()));
}

// A member of a group.
struct Shard {
  std::vector<int64_t> group = {0};
  int64_t rank = 0, timeout = 10000;
  std::string name = "world";
  std::shared_ptr<ShardGroup> others;

  template <class P>
  static void describeShard(tsc::Description<P>& d) {
    d.deterministic(false);  // the result depends on what other shards bring: not to be folded or merged
    d.field("group", static_cast<std::vector<int64_t> P::*>(&P::group), kGroupDoc).items(1, 1 << 10);
    d.field("rank", static_cast<int64_t P::*>(&P::rank), kRankDoc);
    d.field("group_name", static_cast<std::string P::*>(&P::name), kNameDoc);
    d.field("timeout_ms", static_cast<int64_t P::*>(&P::timeout), kTimeoutDoc).range(1, 86400000);
  }
  size_t member() const { return static_cast<size_t>(std::find(group.begin(), group.end(), rank) - group.begin()); }
  int64_t count() const { return static_cast<int64_t>(group.size()); }
  void prepare() {
    std::vector<int64_t> sorted = group;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) tsc::invalid("group has a rank twice");
    if (member() == group.size()) tsc::invalid(fmt::format("rank {} is not in group", rank));
    std::string key = "shards of " + name + ":";
    for (int64_t r : group) key.append(" ").append(std::to_string(r));
    others = sharedByName<ShardGroup>(key, [this] { return new ShardGroup(name, group); });
  }
  template <class Body>
  void meet(const tsc::Run& r, std::string what, const void* data, Body&& body) const {
    others->meet(member(), {std::move(what), data}, {r, std::chrono::milliseconds(timeout)}, body);
  }
};

// sum[i] of what all shards have at [from, from + count), in the order of ranks, in f32.
void sumParts(std::span<const ShardPart> parts, tsc_dtype dtype, int64_t from, int64_t count, float* sum) {
  std::fill_n(sum, count, 0.0f);
  for (const ShardPart& p : parts)
    withFloats(dtype, [&]<class T>(T) {
      const T* data = static_cast<const T*>(p.data) + from;
      for (int64_t i = 0; i < count; ++i) sum[i] += static_cast<float>(data[i]);
    });
}

enum class Fusion { None, ResidualRmsNorm };

struct AllReduce : Shard {
  Fusion fusion = Fusion::None;
  double epsilon = 1e-6;
  bool affine = false, biased = false;
  int64_t strategy = 0, config = 0;

  enum In { kX, kBias, kResidual, kWeight };

  static void describe(tsc::Description<AllReduce>& d) {
    using P = AllReduce;
    d.key("tensorrt_llm", "AllReduce", "1",
          "y = sum of x of all shards; with residual_rms_norm: sum = that + bias + residual, "
          "y = sum / sqrt(mean(sum^2) + eps) * weight");
    describeShard(d);
    d.choice("fusion_op", &P::fusion, "none|residual_rms_norm", {Fusion::None, Fusion::ResidualRmsNorm},
             "what is done to the sum");
    d.field("eps", &P::epsilon, "of the norm").range(0, 1e30);
    d.field("affine", &P::affine, "the norm has a weight");
    d.field("bias", &P::biased, "a bias is added to the sum");
    d.field("strategy", &P::strategy, "not needed");
    d.field("config", &P::config, "not needed");
    d.input("x", kFloatsOfPlugins, "any sizes, the same for all shards");
    d.input("bias", kFloatsOfPlugins, "[last size of x]").optional().sameTypeAs("x");
    d.input("residual", kFloatsOfPlugins, "as x, with residual_rms_norm").optional().sameTypeAs("x");
    d.input("weight", kFloatsOfPlugins, "[last size of x], with affine").optional().sameTypeAs("x");
    d.output("y", kFloatsOfPlugins, "as x").sameTypeAs("x");
    d.output("sum", kFloatsOfPlugins, "with residual_rms_norm: what was normalised").sameTypeAs("x");
  }
  static std::string_view example() {
    return "graph(%x : Float(2, 3), %residual : Float(2, 3)):\n"
           "  %y : Tensor, %sum : Tensor = tensorrt_llm::AllReduce[fusion_op=\"residual_rms_norm\", "
           "inputs=[\"x\", \"residual\"]](%x, %residual)\n"
           "  return (%y, %sum)\n";
  }
  bool fused() const { return fusion == Fusion::ResidualRmsNorm; }
  size_t outputs() const { return fused() ? 2 : 1; }

  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(kX);
    if (fused() && x.rank() == 0) tsc::invalid("x has no dimensions, and its rows are to be normalised");
    if (s.has(kResidual) != fused()) tsc::invalid("the input residual goes with residual_rms_norm");
    if (s.has(kWeight) != (fused() && affine)) tsc::invalid("the input weight goes with residual_rms_norm and affine");
    if (s.has(kBias) != biased) tsc::invalid("the input bias goes with the field bias");
    for (auto [input, what] : {std::pair(kBias, "bias"), std::pair(kWeight, "weight")}) {
      if (!s.has(input)) continue;
      expectShape(s, s.input(input), what, {-1});
      if (x.rank() == 0) tsc::invalid("x has no dimensions, and bias has one");
      expectEqual(s, s.input(input).dims[0], x.dims.back(), fmt::format("size 0 of {}", what));
    }
    if (fused()) {
      expectShape(s, s.input(kResidual), "residual", Sizes(x.rank(), -1));
      for (size_t d = 0; d < x.rank(); ++d)
        expectEqual(s, s.input(kResidual).dims[d], x.dims[d], fmt::format("size {} of residual", d));
    }
    for (size_t o = 0; o < outputs(); ++o) s.output(o, x);
  }

  void run(tsc::Run& r) const {
    tsc::Tensor x = r.input(kX);
    int64_t width = x.rank() ? x.size(-1) : 1, rows = width ? x.numel() / width : 0;
    Floats bias(r.input(kBias)), residual(r.input(kResidual)), weight(r.input(kWeight));
    meet(r, described("AllReduce", x), x.data<void>(), [&](std::span<const ShardPart> parts) {
      r.parallelFor(static_cast<size_t>(rows), 8, [&](size_t begin, size_t end) {
        std::vector<float> row(static_cast<size_t>(width));
        for (size_t i = begin; i < end; ++i) {
          int64_t from = static_cast<int64_t>(i) * width;
          sumParts(parts, x.dtype(), from, width, row.data());
          for (int64_t c = 0; bias.data() && c < width; ++c) row[static_cast<size_t>(c)] += bias[c];
          if (fused()) normalise(r, row, residual.data() + from, weight.data(), from);
          storeFloats(row.data(), width, r.output(0), from);
        }
      });
    });
  }
  void normalise(const tsc::Run& r, std::vector<float>& row, const float* residual, const float* weight,
                 int64_t from) const {
    double squares = 0;
    for (size_t c = 0; c < row.size(); ++c) {
      row[c] += residual[c];
      squares += static_cast<double>(row[c]) * row[c];
    }
    storeFloats(row.data(), static_cast<int64_t>(row.size()), r.output(1), from);
    auto factor = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(row.size()) + epsilon));
    for (size_t c = 0; c < row.size(); ++c) row[c] *= weight ? factor * weight[c] : factor;
  }
};

struct AllGather : Shard {
  static void describe(tsc::Description<AllGather>& d) {
    d.key("tensorrt_llm", "AllGather", "1", "y = x of all shards, one after the other");
    describeShard(d);
    d.input("x", tsc::kAll, "[rows, ..], the same sizes for all shards");
    d.output("y", tsc::kAll, "[rows * shards, ..]").sameTypeAs("x");
  }
  static std::string_view example() {
    return "graph(%x : Float(2, 3)):\n  %y : Tensor = tensorrt_llm::AllGather(%x)\n  return (%y)\n";
  }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(0);
    if (x.rank() == 0) tsc::invalid("x has no dimensions, expected one at least");
    x.dims[0] = x.dims[0] * s.constant(count());
    s.output(0, x);
  }
  void run(tsc::Run& r) const {
    tsc::Tensor x = r.input(0);
    size_t bytes = bytesOf(x);
    meet(r, described("AllGather", x), x.data<void>(), [&](std::span<const ShardPart> parts) {
      for (size_t i = 0; i < parts.size() && bytes; ++i)
        std::memcpy(r.output(0).data<std::byte>() + i * bytes, parts[i].data, bytes);
    });
  }
};

struct ReduceScatter : Shard {
  static void describe(tsc::Description<ReduceScatter>& d) {
    d.key("tensorrt_llm", "ReduceScatter", "1", "y = this shard's rows of the sum of x of all shards");
    describeShard(d);
    d.input("x", kFloatsOfPlugins, "[rows * shards, ..], the same sizes for all shards");
    d.output("y", kFloatsOfPlugins, "[rows, ..]").sameTypeAs("x");
  }
  static std::string_view example() {
    return "graph(%x : Float(2, 3)):\n  %y : Tensor = tensorrt_llm::ReduceScatter(%x)\n  return (%y)\n";
  }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(0);
    if (x.rank() == 0) tsc::invalid("x has no dimensions, expected one at least");
    int64_t rows;
    if (x.dims[0].known(&rows) && rows % count())
      tsc::invalid(fmt::format("x has {} rows, which {} shards cannot share", rows, count()));
    x.dims[0] = x.dims[0] / s.constant(count());
    s.output(0, x);
  }
  void run(tsc::Run& r) const {
    tsc::Tensor x = r.input(0), y = r.output(0);
    auto first = static_cast<int64_t>(member()) * y.numel();
    meet(r, described("ReduceScatter", x), x.data<void>(), [&](std::span<const ShardPart> parts) {
      r.parallelFor(static_cast<size_t>(y.numel()), 1024, [&](size_t begin, size_t end) {
        float sum[1024];
        auto from = static_cast<int64_t>(begin), size = static_cast<int64_t>(end - begin);
        sumParts(parts, x.dtype(), first + from, size, sum);
        storeFloats(sum, size, y, from);
      });
    });
  }
};

struct GemmAllReduce : Shard {
  double alpha = 1;
  bool transA = false, transB = true;

  static void describe(tsc::Description<GemmAllReduce>& d) {
    using P = GemmAllReduce;
    d.key("tensorrt_llm", "GemmAllReduce", "1", "y = alpha * sum over shards of A B^T, each with its part of K");
    describeShard(d);
    d.field("alpha", &P::alpha, "the factor");
    d.field("transa", &P::transA, "must be false");
    d.field("transb", &P::transB, "must be true");
    d.input("A", kFloatsOfPlugins, "[.., K of this shard]");
    d.input("B", kFloatsOfPlugins, "[N, K of this shard]").sameTypeAs("A");
    d.output("y", kFloatsOfPlugins, "[.., N]").sameTypeAs("A");
  }
  static std::string_view example() {
    return "graph(%a : Float(2, 3), %b : Float(4, 3)):\n"
           "  %y : Tensor = tensorrt_llm::GemmAllReduce(%a, %b)\n  return (%y)\n";
  }
  void prepare() {
    if (transA || !transB) tsc::unsupported("transa = true and transb = false are not implemented");
    Shard::prepare();
  }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape a = s.input(0), b = s.input(1);
    if (a.rank() == 0) tsc::invalid("A has no dimensions, expected one at least");
    expectShape(s, b, "B", {-1, -1});
    expectEqual(s, b.dims[1], a.dims.back(), "size 1 of B");
    a.dims.back() = b.dims[0];
    s.output(0, a);
  }
  void run(tsc::Run& r) const {
    tsc::Tensor y = r.output(0);
    Floats a(r.input(0)), b(r.input(1));
    int64_t k = r.input(1).size(1), n = r.input(1).size(0), m = n ? y.numel() / n : 0;
    std::vector<float> product(static_cast<size_t>(y.numel()));
    std::vector<const float*> rows;
    for (int64_t i = 0; i < m; ++i) rows.push_back(a.data() + i * k);
    r.parallelFor(static_cast<size_t>(n), 64, [&](size_t begin, size_t end) {
      auto first = static_cast<int64_t>(begin);
      productOfRows(rows.data(), m, b.data() + first * k, static_cast<int64_t>(end) - first, k, k,
                    product.data() + first, n);
    });
    meet(r, described("GemmAllReduce", y), product.data(), [&](std::span<const ShardPart> parts) {
      r.parallelFor(product.size(), 1024, [&](size_t begin, size_t end) {
        float sum[1024];
        auto from = static_cast<int64_t>(begin), size = static_cast<int64_t>(end - begin);
        sumParts(parts, TSC_F32, from, size, sum);
        for (int64_t i = 0; i < size; ++i) sum[i] *= static_cast<float>(alpha);
        storeFloats(sum, size, y, from);
      });
    });
  }
};

// One end of a channel between two shards.
struct ChannelEnd {
  int64_t rank = 0, timeout = 10000;
  std::string name = "world";
  std::shared_ptr<ShardChannel> channel;

  template <class P>
  static void describeEnd(tsc::Description<P>& d) {
    d.deterministic(false);
    d.field("rank", static_cast<int64_t P::*>(&P::rank), kRankDoc);
    d.field("group_name", static_cast<std::string P::*>(&P::name), kNameDoc);
    d.field("timeout_ms", static_cast<int64_t P::*>(&P::timeout), kTimeoutDoc).range(1, 86400000);
  }
  void open(int64_t from, int64_t to) {
    std::string key = fmt::format("channel of '{}' from rank {} to rank {}", name, from, to);
    channel = sharedByName<ShardChannel>(key, [&] { return new ShardChannel(key); });
  }
  ShardWait wait(const tsc::Run& r) const { return {r, std::chrono::milliseconds(timeout)}; }
};

struct Send : ChannelEnd {
  int64_t target = 0;
  static void describe(tsc::Description<Send>& d) {
    d.key("tensorrt_llm", "Send", "1", "gives x to another shard, whose Recv takes it; y = x. To itself, nothing");
    d.field("tgt_rank", &Send::target, "who gets it").mandatory();
    describeEnd(d);
    d.input("x", tsc::kAll, "any sizes");
    d.output("y", tsc::kAll, "as x").sameTypeAs("x").alias("x");
  }
  static std::string_view example() {
    return "graph(%x : Float(2, 3)):\n  %y : Tensor = tensorrt_llm::Send[tgt_rank=0](%x)\n  return (%y)\n";
  }
  void prepare() { open(rank, target); }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run& r) const {
    if (target == rank) return;
    tsc::Tensor x = r.input(0);
    auto* data = x.data<std::byte>();
    channel->send(described("tensor", x), std::vector<std::byte>(data, data + bytesOf(x)), wait(r));
  }
};

struct Recv : ChannelEnd {
  int64_t source = 0;
  static void describe(tsc::Description<Recv>& d) {
    d.key("tensorrt_llm", "Recv", "1", "y = what another shard has sent. From itself, like");
    d.field("src_rank", &Recv::source, "who sends it").mandatory();
    describeEnd(d);
    d.input("like", tsc::kAll, "has the type and the sizes of what comes");
    d.output("y", tsc::kAll, "as like").sameTypeAs("like");
  }
  static std::string_view example() {
    return "graph(%like : Float(2, 3)):\n  %y : Tensor = tensorrt_llm::Recv[src_rank=0](%like)\n  return (%y)\n";
  }
  void prepare() { open(source, rank); }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run& r) const {
    tsc::Tensor like = r.input(0);
    if (source == rank) {
      if (bytesOf(like)) std::memcpy(r.output(0).data<void>(), like.data<void>(), bytesOf(like));
      return;
    }
    std::vector<std::byte> bytes = channel->receive(described("tensor", r.output(0)), wait(r));
    if (!bytes.empty()) std::memcpy(r.output(0).data<void>(), bytes.data(), bytes.size());
  }
};

}  // namespace

const tsc_plugin* makeAllGather() { return tsc::Definition<AllGather>::table(); }
const tsc_plugin* makeAllReduce() { return tsc::Definition<AllReduce>::table(); }
const tsc_plugin* makeGemmAllReduce() { return tsc::Definition<GemmAllReduce>::table(); }
const tsc_plugin* makeRecv() { return tsc::Definition<Recv>::table(); }
const tsc_plugin* makeReduceScatter() { return tsc::Definition<ReduceScatter>::table(); }
const tsc_plugin* makeSend() { return tsc::Definition<Send>::table(); }

}  // namespace tscompile
