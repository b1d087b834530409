// CpSplit: the tokens of a rank where long prompts are divided among several.
#include "runtime/trtllm/builtin/floats.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

struct CpSplit {
  int64_t ranks = 1, rank = 0;

  static void describe(tsc::Description<CpSplit>& d) {
    d.key(
        "tensorrt_llm", "CpSplit", "1",
        "of each prompt of n tokens, rank r has those from r * ceil(n / cp_size) on, ceil(n / cp_size) of them, with 0 "
        "after the last; results of all ranks one after the other, taken at join_index, are the tokens again");
    d.field("cp_size", &CpSplit::ranks, "how many ranks there are").range(1, 1 << 10);
    d.field("cp_rank", &CpSplit::rank, "which of them it is").range(0, 1 << 10);
    d.input("input_ids", tsc::kI32, "[tokens] packed prompts");
    d.input("host_request_types", tsc::kI32, "[requests] must be 0: prompts").optional();
    d.input("host_context_lengths", tsc::kI32, "[requests]");
    d.output("output_ids", tsc::kI32, "[up to tokens] of this rank").fewerRows();
    d.output("join_index", tsc::kI32, "[tokens] where each token is among the results of all ranks");
  }
  static std::string_view example() {
    return "graph(%ids : Int(0), %types : Int(0), %lengths : Int(0)):\n"
           "  %own : Tensor, %join : Tensor = tensorrt_llm::CpSplit(%ids, %types, %lengths)\n"
           "  return (%own, %join)\n";
  }
  void prepare() const {
    if (rank >= ranks) tsc::invalid("cp_rank must be below cp_size");
  }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape ids = s.input(0), lengths = s.input(2);
    expectShape(s, ids, "input_ids", {-1});
    expectShape(s, lengths, "host_context_lengths", {-1});
    if (s.has(1)) {
      expectShape(s, s.input(1), "host_request_types", {-1});
      expectEqual(s, s.input(1).dims[0], lengths.dims[0], "size 0 of host_request_types");
    }
    s.output(0, ids);
    s.output(1, ids);
  }
  void run(tsc::Run& r) const {
    tsc::Tensor ids = r.input(0), lengths = r.input(2);
    int64_t tokens = ids.numel(), sum = 0, own = 0;
    for (int64_t b = 0; b < lengths.numel(); ++b) {
      int64_t n = integerAt(lengths, b);
      if (r.has(1) && integerAt(r.input(1), b) != 0)
        tsc::unsupported(fmt::format("request {} is not a prompt: generation with context parallelism", b));
      if (n < 0 || n > tokens - sum)
        tsc::invalid(fmt::format("request {} has {} tokens, and there are {} left", b, n, tokens - sum));
      sum += n;
      own += (n + ranks - 1) / ranks;
    }
    if (sum != tokens)
      tsc::invalid(fmt::format("host_context_lengths are of {} tokens, and there are {}", sum, tokens));
    auto *in = ids.data<int32_t>(), *out = r.output(0).data<int32_t>(), *join = r.output(1).data<int32_t>();
    int64_t first = 0, at = 0;
    for (int64_t b = 0; b < lengths.numel(); ++b) {
      int64_t n = integerAt(lengths, b), part = (n + ranks - 1) / ranks;
      for (int64_t i = 0; i < part; ++i) {
        int64_t from = rank * part + i;
        out[at + i] = from < n ? in[first + from] : 0;
      }
      for (int64_t i = 0; i < n; ++i) join[first + i] = static_cast<int32_t>(i / part * own + at + i % part);
      first += n;
      at += part;
    }
    r.setRows(0, own);
  }
};

}  // namespace

const tsc_plugin* makeCpSplit() { return tsc::Definition<CpSplit>::table(); }

}  // namespace tscompile
