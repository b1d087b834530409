#include "runtime/call/run_context.h"

#include "ir/values/error.h"
#include "ir/values/random.h"

namespace tscompile {
namespace {
thread_local RunContext* tCurrent = nullptr;
const RunOptions kDefaultOptions;
}  // namespace

uint64_t RandomState::next() { return random::bits(seed_, counter_++); }
double RandomState::uniform() { return random::uniform(next()); }
double RandomState::normal() { return random::normal(next()); }

RunContext::RunContext(const RunOptions& options)
    : options_(options), budget_(Ref<MemoryBudget>::make(options.memoryLimit)), random_(options.seed) {
  const auto now = std::chrono::steady_clock::now();
  const auto longest = std::chrono::steady_clock::time_point::max() - now;
  if (!options.timeLimit || *options.timeLimit >= longest) return;
  deadline_ = now + *options.timeLimit;
  untilCheck_ = 1;  // a run that is short looks at least once
}

void RunContext::slowCheck() {
  if (options_.interrupt && options_.interrupt->load(std::memory_order_relaxed))
    throw ExecutionError(ErrorKind::Interrupted, "the run was interrupted");
  if (deadline_ && std::chrono::steady_clock::now() > *deadline_)
    throw ExecutionError(ErrorKind::Limit, "the run took longer than its time limit");
  untilCheck_ = kInterval;  // otherwise who goes on all the same is stopped at its next step
}

RunContext& RunContext::current() {
  if (tCurrent) return *tCurrent;
  thread_local RunContext outside(kDefaultOptions);
  return outside;
}

RunScope::RunScope(RunContext& context) : previous_(tCurrent), budget_(context.budget_.get()) { tCurrent = &context; }
RunScope::~RunScope() { tCurrent = previous_; }

}  // namespace tscompile
