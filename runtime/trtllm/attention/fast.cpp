// The fast kernel: threads take sequences and heads of keys, pieces of long prompts, and chunks of the keys of long
// sequences, whose parts are merged in order.
#include "runtime/call/scratch.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/product.h"
#include "runtime/kernels/simd.h"
#include "runtime/trtllm/attention/task.h"

#include <algorithm>
#include <cmath>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/trtllm/attention/fast.cpp"
#include <hwy/foreach_target.h>
#include "runtime/trtllm/attention/blocked_queries-inl.h"
#include "runtime/trtllm/attention/single_query-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

void attendBlocked(const AttentionPlan& plan, const AttentionTask& task, int64_t tileRows, bool store) {
  BlockedQueries(plan, task, tileRows).run(store);
}

void attendSingle(const AttentionPlan& plan, const AttentionTask& task) { SingleQuery(plan, task).run(); }

// Parts of a split row, in order -> its result.
void mergeParts(const AttentionPlan& plan, const AttentionTask* tasks, int64_t count) {
  const int64_t size = plan.size;
  float* sums = threadScratch(size);
  for (int64_t g = 0; g < plan.group; ++g) {
    RowState state{kNothing, 0};
    std::fill_n(sums, size, 0.0f);
    for (int64_t t = 0; t < count; ++t) {
      const float* partial = tasks[t].partial + g * (size + 2);
      if (partial[0] == kNothing) continue;
      const float largest = std::max(state.largest, partial[0]);
      const float before = state.largest == kNothing ? 0 : std::exp(state.largest - largest);
      const float now = std::exp(partial[0] - largest);
      state.sum = state.sum * before + partial[1] * now;
      for (int64_t i = 0; i < size; ++i) sums[i] = sums[i] * before + partial[2 + i] * now;
      state.largest = largest;
    }
    finishRow(plan, *tasks[0].row, 0, tasks[0].head * plan.group + g, state, sums);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

bool isSingle(const AttentionPlan& plan, const AttentionRow& row) {
  if (row.tokens != 1 || !plan.cache.data) return false;
  // What a context row sees may be lost once its own token is stored, or lies elsewhere.
  return !row.context || (!plan.shift && !plan.cross && !plan.cache.slots.wraps(row.keys));
}

struct Work {
  std::vector<AttentionTask> tasks;
  std::vector<float> partials;
  double cost = 0;  // microseconds, about
};

int64_t keysSeen(const AttentionPlan& plan, const AttentionRow& row) {
  const VisibleKeys seen = visibleKeys(plan.maskOf(row), row.mask, 0);
  return std::min(seen.sinks, seen.begin) + std::max<int64_t>(0, seen.end - seen.begin);
}

// By shapes alone, so that results do not depend on the number of threads.
Work divide(const AttentionPlan& plan) {
  Work work;
  const int64_t pairs = static_cast<int64_t>(plan.rows.size()) * plan.kvHeads;
  const int64_t chunk = pairs >= 8 ? 4096 : 256;
  int64_t parts = 0;
  for (const AttentionRow& row : plan.rows)
    for (int64_t head = 0; head < plan.kvHeads; ++head) {
      const double width = 4e-5 * static_cast<double>(plan.group * plan.size);
      if (isSingle(plan, row)) {
        const int64_t keys = keysSeen(plan, row), pieces = std::max<int64_t>(1, (keys + chunk - 1) / chunk);
        work.cost += width * static_cast<double>(keys);
        for (int64_t i = 0; i < pieces; ++i) {
          const Piece piece = pieceOf(keys, pieces, i);
          work.tasks.push_back({&row, head, piece.begin, piece.end, true, i == pieces - 1, nullptr});
        }
        if (pieces > 1) parts += pieces;
      } else {
        const int64_t pieces =
            pairs >= 8 ? 1 : std::clamp<int64_t>(row.tokens * plan.group / 112, 1, std::max<int64_t>(1, row.tokens));
        work.cost += width * static_cast<double>(row.tokens) * static_cast<double>(row.keys);
        for (int64_t i = 0; i < pieces; ++i) {
          const Piece piece = pieceOf(row.tokens, pieces, i);
          work.tasks.push_back({&row, head, piece.begin, piece.end, false, i == 0, nullptr});
        }
      }
    }
  if (parts == 0) return work;
  const int64_t floats = plan.group * (plan.size + 2);
  work.partials.resize(static_cast<size_t>(parts * floats));
  float* at = work.partials.data();
  for (AttentionTask& task : work.tasks)
    if (task.single && !(task.begin == 0 && task.last)) {
      task.partial = at;
      at += floats;
    }
  return work;
}

}  // namespace

void runAttention(const AttentionPlan& plan, int threads) {
  for (const AttentionRow& row : plan.rows)
    for (int64_t t = plan.skip ? 0 : row.tokens; t < (plan.packed ? row.tokens : plan.q.perBatch); ++t)
      plan.clear(row.firstToken + t);
  if (plan.skip) return;
  const Work work = divide(plan);
  const int64_t count = static_cast<int64_t>(work.tasks.size());
  const int64_t tileRows = maxTileRows();
  auto blocked = TS_SIMD(attendBlocked);
  auto single = TS_SIMD(attendSingle);
  // What is in the ring may be read by another piece of the row: it is overwritten when all are done.
  auto isLate = [&](const AttentionRow& row) { return row.past > 0 && plan.cache.slots.wraps(row.keys); };
  bool late = false;
  for (const AttentionTask& task : work.tasks) late |= !task.single && isLate(*task.row);
  const int most = work.cost < 20 ? 1 : threads;
  parallelFor(count, most, [&](int64_t i) {
    const AttentionTask& task = work.tasks[static_cast<size_t>(i)];
    task.single ? single(plan, task) : blocked(plan, task, tileRows, task.last && !isLate(*task.row));
  });
  if (late)
    parallelFor(count, most, [&](int64_t i) {
      const AttentionTask& task = work.tasks[static_cast<size_t>(i)];
      if (!task.single && task.last && isLate(*task.row)) plan.store(*task.row, task.head, threadScratch(plan.size));
    });
  if (work.partials.empty()) return;
  auto merge = TS_SIMD(mergeParts);
  for (int64_t i = 0; i < count;) {
    int64_t end = i + 1;
    while (end < count && work.tasks[static_cast<size_t>(end)].row == work.tasks[static_cast<size_t>(i)].row &&
           work.tasks[static_cast<size_t>(end)].head == work.tasks[static_cast<size_t>(i)].head)
      ++end;
    if (work.tasks[static_cast<size_t>(i)].partial) merge(plan, &work.tasks[static_cast<size_t>(i)], end - i);
    i = end;
  }
}

}  // namespace tscompile
#endif
