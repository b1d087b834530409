// One job at a time. A word holds the job's number, how many workers may join, and how many chunks are not yet claimed
// from the front and from the back: a claim is one compare-exchange, and can never take a chunk of a job that has
// ended. A claim takes a share of what is left. The caller claims chunks as the workers do, so it waits only for chunks
// that a worker has begun. Half of the threads come from the back, so that one finds in its cache what it made of the
// same part of a tensor before. A worker spins for some microseconds after a job, since layers follow each other
// closely, then sleeps.
#include "runtime/call/thread_pool.h"

#include "ir/support/control_groups.h"
#include "runtime/call/run_context.h"
#include "runtime/call/run_observer.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <thread>
#include <vector>

namespace tscompile {
namespace {

constexpr int kMaxThreads = 128;
constexpr int64_t kMaxChunks = (int64_t{1} << 20) - 1;
constexpr int kSpins = 2000;  // about 50 us

inline void pause() { __builtin_ia32_pause(); }

thread_local bool insideChunk = false;

// The caller's run may be over: chunks take long enough for a look at the clock before each.
void lookAtLimits() { RunContext::current().checkInterrupt(int64_t{1} << 40); }

// Whether this thread claims chunks from the back.
thread_local bool fromBack = false;

// | job number : 16 | workers that may join : 8 | first chunk not yet claimed : 20 | behind the last such : 20 |
struct Claim {
  uint64_t bits;
  static constexpr uint64_t kOneFromFront = uint64_t{1} << 20, kOneFromBack = 1;

  static Claim of(uint32_t job, int workers, int64_t chunks) {
    return {uint64_t{job} << 48 | static_cast<uint64_t>(workers) << 40 | static_cast<uint64_t>(chunks)};
  }
  uint32_t job() const { return static_cast<uint32_t>(bits >> 48); }
  int workers() const { return static_cast<int>(bits >> 40 & 0xff); }
  int64_t first() const { return static_cast<int64_t>(bits >> 20 & 0xfffff); }
  int64_t end() const { return static_cast<int64_t>(bits & 0xfffff); }
  bool isOver() const { return first() == end(); }
  // Chunks to claim at once: fewer towards the end, so that all threads get there together.
  int64_t share() const { return std::max<int64_t>(1, (end() - first()) / (2 * (workers() + 1))); }
};

class Pool {
 public:
  bool run(int64_t chunks, int threads, FunctionRef<void(int64_t)> body) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    start(threads - 1);
    body_ = &body;
    chunks_ = chunks;
    observer_ = RunObserver::current();
    done_.store(0, std::memory_order_relaxed);
    failed_.store(false, std::memory_order_relaxed);
    const uint32_t job = (Claim{claim_.load(std::memory_order_relaxed)}.job() + 1) & 0xffff;
    int workers = static_cast<int>(std::min<int64_t>({threads - 1, chunks - 1, static_cast<int64_t>(workers_)}));
    claim_.store(Claim::of(job, workers, chunks).bits);
    if (sleeping_.load() > 0) wake(workers);
    work(job, 0);
    awaitClaimed();
    std::exception_ptr error = std::exchange(error_, nullptr);
    busy_.store(false, std::memory_order_release);
    if (error) std::rethrow_exception(error);
    return true;
  }

 private:
  // Threads are made when a caller first asks for so many.
  void start(int wanted) {
    wanted = std::min(wanted, kMaxThreads - 1);
    while (workers_ < wanted) {
      try {
        std::thread([this, index = workers_ + 1, spins = workers_ + 1 < defaultThreads()] {
          serve(index, spins);
        }).detach();
      } catch (const std::system_error&) {
        return;  // the threads there are do the work
      }
      ++workers_;
    }
  }

  // Claims and runs chunks of the job until none is left or another job has begun.
  void work(uint32_t job, int index) {
    insideChunk = true;
    fromBack = index % 2 == 1;
    Claim claim{claim_.load(std::memory_order_acquire)};
    while (claim.job() == job && !claim.isOver() && index <= claim.workers()) {
      const int64_t count = claim.share();
      const uint64_t after = fromBack ? claim.bits - static_cast<uint64_t>(count) * Claim::kOneFromBack
                                      : claim.bits + static_cast<uint64_t>(count) * Claim::kOneFromFront;
      if (!claim_.compare_exchange_weak(claim.bits, after, std::memory_order_acq_rel)) continue;
      runChunks(fromBack ? claim.end() - 1 : claim.first(), count, index);
      claim.bits = claim_.load(std::memory_order_acquire);
    }
    insideChunk = fromBack = false;
  }

  void runChunks(int64_t first, int64_t count, int thread) {
    // The last count may set the caller free, and another job may follow: nothing of this job is read after it.
    int64_t chunks = chunks_;
    for (int64_t i = 0; i < count && !failed_.load(std::memory_order_relaxed); ++i) {
      try {
        const int64_t chunk = fromBack ? first - i : first + i;
        if (thread == 0) lookAtLimits();
        if (thread == 0 || !observer_)
          (*body_)(chunk);
        else
          observe(chunk, thread);
      } catch (...) {
        if (!failed_.exchange(true)) error_ = std::current_exception();
      }
    }
    if (done_.fetch_add(count, std::memory_order_acq_rel) + count == chunks && callerSleeps_.load()) {
      std::lock_guard lock(mutex_);
      finished_.notify_all();
    }
  }

  void observe(int64_t chunk, int thread) {
    const auto begin = RunObserver::Clock::now();
    (*body_)(chunk);
    observer_->onChunk(thread, begin, RunObserver::Clock::now());
  }

  void awaitClaimed() {
    auto finished = [this] { return done_.load(std::memory_order_acquire) == chunks_; };
    for (int i = 0; i < 8 * kSpins; ++i) {
      if (finished()) return;
      pause();
    }
    callerSleeps_.store(true);
    {
      std::unique_lock lock(mutex_);
      // A worker that counted before it could see that the caller sleeps does not notify: so look again soon.
      while (!finished()) finished_.wait_for(lock, std::chrono::milliseconds(1));
    }
    callerSleeps_.store(false);
  }

  void wake(int workers) {
    moveAwayFromCaller();
    std::lock_guard lock(mutex_);
    if (workers == 1 && workers_ == 1)
      begun_.notify_one();
    else
      begun_.notify_all();
  }

  // A worker woken on the processor of the spinning caller would wait for milliseconds.
  void moveAwayFromCaller() {
    int processor = sched_getcpu();
    if (workers_ >= defaultThreads() || processor < 0 || processor == avoided_) return;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
    CPU_CLR(processor, &allowed);
    if (CPU_COUNT(&allowed) == 0) return;
    std::lock_guard lock(mutex_);
    for (pthread_t worker : handles_) pthread_setaffinity_np(worker, sizeof(allowed), &allowed);
    if (static_cast<int>(handles_.size()) == workers_) avoided_ = processor;
  }

  [[noreturn]] void serve(int index, bool spins) {
    {
      std::lock_guard lock(mutex_);
      handles_.push_back(pthread_self());
    }
    uint32_t last = 0;
    for (;;) {
      last = nextJob(last, spins);
      work(last, index);
    }
  }

  uint32_t nextJob(uint32_t last, bool spins) {
    auto fresh = [&] {
      Claim claim{claim_.load()};
      return claim.job() != last && !claim.isOver();
    };
    for (int i = 0; spins && i < kSpins; ++i) {
      if (fresh()) return Claim{claim_.load(std::memory_order_acquire)}.job();
      pause();
    }
    std::unique_lock lock(mutex_);
    sleeping_.fetch_add(1);
    begun_.wait(lock, fresh);
    sleeping_.fetch_sub(1);
    return Claim{claim_.load(std::memory_order_acquire)}.job();
  }

  std::atomic<bool> busy_{false};
  alignas(64) std::atomic<uint64_t> claim_{0};
  alignas(64) std::atomic<int64_t> done_{0};
  std::atomic<bool> failed_{false}, callerSleeps_{false};
  std::atomic<int> sleeping_{0};
  // Of the job; read by a worker after a claim only, and written while the pool is taken.
  const FunctionRef<void(int64_t)>* body_ = nullptr;
  int64_t chunks_ = 0;
  RunObserver* observer_ = nullptr;
  std::exception_ptr error_;
  int workers_ = 0, avoided_ = -1;
  std::mutex mutex_;
  std::condition_variable begun_, finished_;
  std::vector<pthread_t> handles_;
};

// Never destroyed: its threads sleep in it until the process ends.
std::atomic<Pool*> gPool{nullptr};

Pool& pool() {
  // A child of fork() has none of the threads, and the pool that it inherits may be in the middle of a job.
  static Pool* first = [] {
    gPool = new Pool;
    pthread_atfork(nullptr, nullptr, [] { gPool = new Pool; });
    return gPool.load();
  }();
  static_cast<void>(first);
  return *gPool;
}

}  // namespace

void parallelFor(int64_t chunks, int threads, FunctionRef<void(int64_t chunk)> body) {
  if (chunks > kMaxChunks) {
    constexpr int64_t kRuns = 4096;
    return parallelFor(kRuns, threads, [&](int64_t run) {
      const Piece piece = pieceOf(chunks, kRuns, run);
      for (int64_t i = piece.begin; i < piece.end; ++i) body(i);
    });
  }
  if (chunks > 1 && threads > 1 && !insideChunk && pool().run(chunks, std::min(threads, kMaxThreads), body)) return;
  for (int64_t i = 0; i < chunks; ++i) {
    if (chunks > 1) lookAtLimits();
    body(i);
  }
}

int64_t chunkAfter(int64_t chunk, int64_t alike) {
  const int64_t group = chunk / alike;
  return fromBack ? group * alike - 1 : (group + 1) * alike;
}

namespace {

int allowedProcessors() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return CPU_COUNT(&allowed);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

int defaultThreads() {
  static const int count = [] {
    double processors = allowedProcessors();
    // Rounded down: a thread more would make all of them wait for the rest of each period.
    if (std::optional<double> quota = controlGroupLimits().processors) processors = std::min(processors, *quota);
    return std::max(1, static_cast<int>(processors));
  }();
  return count;
}

}  // namespace tscompile
