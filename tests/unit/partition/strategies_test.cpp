// The strategies on dependencies alone: minimal against all ways to cut, the others against it.
#include "partition/strategies.h"

#include "tests/support/choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <set>

namespace tscompile::test {
namespace {

using Runs = std::vector<tscompile::Run>;

// A partial order of n elements, numbered so that lower ones come first: for each, all that are below it.
using Order = std::vector<uint32_t>;

// The smallest of all numberings, so that orders of one shape are equal.
Order canonical(const Order& order) {
  size_t n = order.size();
  Order best;
  std::vector<uint32_t> number(n), chosen;
  auto extend = [&](auto& self, uint32_t done) -> void {
    if (chosen.size() == n) {
      Order renamed(n);
      for (size_t i = 0; i < n; ++i)
        for (uint32_t below = order[chosen[i]]; below; below &= below - 1)
          renamed[i] |= 1u << number[static_cast<size_t>(std::countr_zero(below))];
      if (best.empty() || renamed < best) best = std::move(renamed);
      return;
    }
    for (uint32_t v = 0; v < n; ++v) {
      if ((done >> v & 1) || (order[v] & ~done)) continue;
      number[v] = static_cast<uint32_t>(chosen.size());
      chosen.push_back(v);
      self(self, done | 1u << v);
      chosen.pop_back();
    }
  };
  extend(extend, 0);
  return best;
}

// All orders of n elements up to renaming: each grows from one of n - 1 by an element that nothing is above.
std::set<Order> allOrders(size_t n) {
  std::set<Order> orders{Order{}};
  for (size_t size = 0; size < n; ++size) {
    std::set<Order> grown;
    for (const Order& o : orders)
      for (uint32_t below = 0; below < 1u << size; ++below) {
        bool closed = true;
        for (size_t v = 0; v < size; ++v) closed &= !(below >> v & 1) || !(o[v] & ~below);
        if (!closed) continue;
        Order next = o;
        next.push_back(below);
        grown.insert(canonical(next));
      }
    orders = std::move(grown);
  }
  return orders;
}

// The fewest segments of any way to run the nodes one by one.
size_t fewestSegments(const Order& order, uint32_t accelerated) {
  size_t n = order.size();
  constexpr uint8_t kNever = 100;
  std::vector<std::array<uint8_t, 2>> best(size_t{1} << n, {kNever, kNever});
  best[0] = {1, 1};
  for (uint32_t done = 0; done + 1 < 1u << n; ++done)
    for (uint32_t last = 0; last < 2; ++last) {
      if (best[done][last] == kNever) continue;
      for (uint32_t v = 0; v < n; ++v) {
        if ((done >> v & 1) || (order[v] & ~done)) continue;
        uint32_t target = accelerated >> v & 1;
        uint8_t& to = best[done | 1u << v][target];
        to = std::min<uint8_t>(to, static_cast<uint8_t>(best[done][last] + (target != last)));
      }
    }
  return std::min(best.back()[0], best.back()[1]);
}

BlockGraph blockOf(const Order& order, uint32_t accelerated) {
  std::vector<bool> flags;
  std::vector<std::vector<uint32_t>> predecessors(order.size());
  for (uint32_t v = 0; v < order.size(); ++v) {
    flags.push_back(accelerated >> v & 1);
    for (uint32_t p = 0; p < v; ++p)
      if (order[v] >> p & 1) predecessors[v].push_back(p);
  }
  return blockGraphOf(flags, predecessors);
}

// Every node once, targets as asked, nothing before what it depends on.
bool isSound(const BlockGraph& block, const Runs& runs) {
  std::vector<uint32_t> runOf(block.size(), UINT32_MAX);
  for (uint32_t r = 0; r < runs.size(); ++r)
    for (uint32_t i : runs[r].items) {
      if (runOf[i] != UINT32_MAX || (runs[r].target == Target::Accelerated) != block.accelerated[i]) return false;
      runOf[i] = r;
    }
  for (uint32_t i = 0; i < block.size(); ++i) {
    if (runOf[i] == UINT32_MAX) return false;
    for (uint32_t p : block.predecessors(i))
      if (runOf[p] > runOf[i]) return false;
  }
  return true;
}

}  // namespace

TEST(Strategies, NumberOfOrders) {
  const size_t counts[] = {1, 1, 2, 5, 16, 63, 318};
  for (size_t n = 0; n < std::size(counts); ++n) EXPECT_EQ(allOrders(n).size(), counts[n]);
}

// What matters of a graph is which node depends on which, by whatever path: a partial order. Eight nodes (16,999
// orders, 256 ways to give targets to each) take a while and are left to the soak.
TEST(Strategies, MinimalIsMinimal) {
  size_t most = std::getenv("TSCOMPILE_SOAK_MINUTES") ? 8 : 6;
  for (size_t n = 1; n <= most; ++n)
    for (const Order& order : allOrders(n))
      for (uint32_t accelerated = 0; accelerated < 1u << n; ++accelerated) {
        BlockGraph block = blockOf(order, accelerated);
        Runs minimal = minimalRuns(block);
        ASSERT_TRUE(isSound(block, minimal));
        ASSERT_EQ(minimal.size(), fewestSegments(order, accelerated)) << n << " nodes, targets " << accelerated;
        if (n > 6) continue;
        Runs dependency = dependencyRuns(block), greedy = greedyRuns(block);
        ASSERT_TRUE(isSound(block, dependency) && isSound(block, greedy));
        ASSERT_LE(minimal.size(), dependency.size());
        ASSERT_LE(dependency.size(), greedy.size());
      }
}

TEST(Strategies, LargeRandomBlocks) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Choices c(seed);
    size_t n = 50 + c.below(300);
    std::vector<bool> flags;
    std::vector<std::vector<uint32_t>> predecessors(n);
    for (uint32_t i = 0; i < n; ++i) {
      flags.push_back(c.below(3) != 0);
      for (uint64_t k = i ? c.below(4) : 0; k > 0; --k)
        predecessors[i].push_back(static_cast<uint32_t>(i - 1 - c.below(std::min<uint64_t>(i, 20))));
    }
    BlockGraph block = blockGraphOf(flags, predecessors);
    size_t least = minimalRuns(block).size();
    for (const Runs& runs : std::array{minimalRuns(block), dependencyRuns(block), greedyRuns(block)}) {
      EXPECT_TRUE(isSound(block, runs));
      EXPECT_LE(least, runs.size());
    }
  }
}

}  // namespace tscompile::test
