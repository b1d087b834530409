#include "runtime/call/thread_pool.h"

#include "ir/values/error.h"
#include "runtime/call/run_context.h"

#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace tscompile::test {
namespace {

// Each chunk is run exactly once.
void checkOnce(int64_t chunks, int threads) {
  std::vector<std::atomic<int>> runs(static_cast<size_t>(chunks));
  parallelFor(chunks, threads,
              [&](int64_t i) { runs[static_cast<size_t>(i)].fetch_add(1, std::memory_order_relaxed); });
  for (auto& r : runs) ASSERT_EQ(r.load(), 1);
}

double processSeconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace

TEST(ThreadPool, RunsEachChunkOnce) {
  for (int round = 0; round < 200; ++round)
    for (int threads : {1, 2, 3, 16})
      for (int64_t chunks : {0, 1, 2, 7, 300}) checkOnce(chunks, threads);
}

TEST(ThreadPool, RunsMoreChunksThanAJobHolds) {
  for (int64_t chunks : {(int64_t{1} << 20) - 1, int64_t{1} << 20, (int64_t{1} << 20) + 4097}) checkOnce(chunks, 3);
}

// One thread comes from the front and one from the back, whoever is faster.
TEST(ThreadPool, ThreadsTakeNeighbouringChunks) {
  std::vector<std::thread::id> owners(1000);
  parallelFor(1000, 2, [&](int64_t i) {
    owners[static_cast<size_t>(i)] = std::this_thread::get_id();
    const int64_t next = chunkAfter(i);
    EXPECT_TRUE(next == i + 1 || next == i - 1);
  });
  int changes = 0;
  for (size_t i = 1; i < owners.size(); ++i) changes += owners[i] != owners[i - 1];
  EXPECT_LE(changes, 1);
}

TEST(ThreadPool, StopsBetweenChunksWhenTheRunIsOver) {
  for (int threads : {1, 2, 4}) {
    std::atomic<bool> stop{false};
    RunOptions options;
    options.interrupt = &stop;
    RunContext context(options);
    RunScope scope(context);
    std::atomic<int> done{0};
    auto body = [&](int64_t) {
      ++done;
      stop = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    EXPECT_THROW(parallelFor(10000, threads, body), ExecutionError);
    EXPECT_LT(done.load(), 1000);
    stop = false;
    checkOnce(100, threads);
  }
}

TEST(ThreadPool, AChildOfForkHasThreadsOfItsOwn) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer allows no threads in a child of fork";
#endif
  std::atomic<bool> ends{false};
  std::thread busy([&] {
    while (!ends) checkOnce(64, 4);
  });
  for (int i = 0; i < 20; ++i) {
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      std::atomic<int> sum{0};
      for (int round = 0; round < 20; ++round) parallelFor(64, 4, [&](int64_t c) { sum += static_cast<int>(c); });
      _exit(sum == 20 * 2016 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  ends = true;
  busy.join();
}

TEST(ThreadPool, WakesAfterSleep) {
  for (int round = 0; round < 20; ++round) {
    checkOnce(64, 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(ThreadPool, NestedCallsRunInTheirChunk) {
  std::atomic<int> sum{0};
  parallelFor(8, 4, [&](int64_t) {
    std::thread::id self = std::this_thread::get_id();
    parallelFor(10, 4, [&](int64_t i) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      sum += static_cast<int>(i);
    });
  });
  EXPECT_EQ(sum.load(), 8 * 45);
}

TEST(ThreadPool, CallersDoNotWaitForEachOther) {
  std::vector<std::thread> callers;
  callers.reserve(4);
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([] {
      for (int round = 0; round < 200; ++round) checkOnce(50, 3);
    });
  for (std::thread& t : callers) t.join();
}

TEST(ThreadPool, ExceptionReachesTheCaller) {
  for (int threads : {1, 2, 16}) {
    EXPECT_THROW(parallelFor(100, threads,
                             [](int64_t i) {
                               if (i == 37) throw std::runtime_error("chunk");
                             }),
                 std::runtime_error);
    checkOnce(100, threads);
  }
}

TEST(ThreadPool, IdleWorkersUseNoProcessor) {
  checkOnce(100, 4);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  double before = processSeconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LT(processSeconds() - before, 0.01);
}

TEST(ThreadPool, PiecesCoverTheRange) {
  for (int64_t count : {0, 1, 13, 128})
    for (int64_t pieces : {1, 3, 7, 13}) {
      int64_t at = 0;
      for (int64_t i = 0; i < pieces; ++i) {
        Piece p = pieceOf(count, pieces, i);
        EXPECT_EQ(p.begin, at);
        EXPECT_LE(p.end - p.begin, count / pieces + 1);
        at = p.end;
      }
      EXPECT_EQ(at, count);
    }
}

}  // namespace tscompile::test
