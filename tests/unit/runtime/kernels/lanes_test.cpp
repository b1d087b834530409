#include "runtime/kernels/order/lanes.h"

#include "tests/support/engine_reference.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tscompile::test {
namespace {

bool isLess(float a, float b) { return a < b || (b != b && a == a); }

// Of `values` along the middle of `shape` a lane, in a stable order, as places.
std::vector<int64_t> orderOf(const std::vector<float>& values, const LaneShape& s, int64_t lane, bool isDescending) {
  auto at = [&](int64_t i) {
    return values[static_cast<size_t>(lane / s.inner * s.count * s.inner + i * s.inner + lane % s.inner)];
  };
  std::vector<int64_t> order(static_cast<size_t>(s.count));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](int64_t a, int64_t b) { return isDescending ? isLess(at(b), at(a)) : isLess(at(a), at(b)); });
  return order;
}

std::vector<std::byte> workspaceOf(size_t bytes) { return std::vector<std::byte>(bytes + 64); }
std::byte* aligned(std::vector<std::byte>& w) {
  return w.data() + (64 - reinterpret_cast<uintptr_t>(w.data()) % 64) % 64;
}

template <class Body>
void forShapes(Body&& body) {
  for (int64_t count : {1, 2, 5, 16, 17, 33, 64, 127, 128, 129, 300, 1000})
    for (const LaneShape& s :
         {LaneShape{1, count, 1}, LaneShape{19, count, 1}, LaneShape{2, count, 3}, LaneShape{1, count, 17}})
      body(s);
}

std::vector<float> valuesOf(const LaneShape& s, bool isDistinct) {
  std::vector<float> values = randomFloats(s.lanes() * s.count, 3);
  if (isDistinct) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % values.size()) - 500;
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::round(values[i] * 4) / 4;
  for (size_t i = 0; i < values.size(); i += 7) values[i] = i % 2 ? -0.0f : 0.0f;
  for (size_t i = 3; i < values.size(); i += 11) values[i] = std::numeric_limits<float>::quiet_NaN();
  for (size_t i = 5; i < values.size(); i += 13) values[i] = -std::numeric_limits<float>::infinity();
  return values;
}

}  // namespace

TEST(EngineLanes, SortsShortAndLongLanes) {
  atEachSimdLevel([] {
    forShapes([](const LaneShape& s) {
      for (bool isDistinct : {true, false})
        for (bool isDescending : {false, true}) {
          const std::vector<float> in = valuesOf(s, isDistinct);
          std::vector<float> values(in.size());
          std::vector<int64_t> places(in.size());
          auto workspace = workspaceOf(sortedLanesWorkspace(s));
          sortedLanes(isDescending, true, s, in.data(), values.data(), places.data(), aligned(workspace), 2);
          for (int64_t lane = 0; lane < s.lanes(); ++lane) {
            const std::vector<int64_t> order = orderOf(in, s, lane, isDescending);
            for (int64_t i = 0; i < s.count; ++i) {
              const auto start = static_cast<size_t>(lane / s.inner * s.count * s.inner + lane % s.inner);
              const size_t to = start + static_cast<size_t>(i * s.inner);
              const float want = in[start + static_cast<size_t>(order[static_cast<size_t>(i)] * s.inner)];
              ASSERT_EQ(places[to], order[static_cast<size_t>(i)]) << s.count << " " << s.inner;
              ASSERT_TRUE(values[to] == want || (values[to] != values[to] && want != want));
            }
          }
        }
    });
  });
}

TEST(EngineLanes, FindsTheFirstOfLanes) {
  atEachSimdLevel([] {
    forShapes([](const LaneShape& s) {
      for (int64_t k : {int64_t{1}, int64_t{3}, s.count / 3, s.count / 2, s.count - 1, s.count})
        for (bool isLargest : {false, true}) {
          if (k < 1 || k > s.count) continue;
          const std::vector<float> in = valuesOf(s, true);
          std::vector<float> values(static_cast<size_t>(s.lanes() * k));
          std::vector<int64_t> places(values.size());
          auto workspace = workspaceOf(firstOfLanesWorkspace(s, k));
          firstOfLanes(isLargest, true, k, s, in.data(), values.data(), places.data(), aligned(workspace), 2);
          for (int64_t lane = 0; lane < s.lanes(); ++lane) {
            const std::vector<int64_t> order = orderOf(in, s, lane, isLargest);
            for (int64_t i = 0; i < k; ++i) {
              const auto to = static_cast<size_t>(lane / s.inner * k * s.inner + lane % s.inner + i * s.inner);
              ASSERT_EQ(places[to], order[static_cast<size_t>(i)]) << s.count << " " << s.inner << " " << k;
              const auto from = static_cast<size_t>(lane / s.inner * s.count * s.inner + lane % s.inner);
              ASSERT_EQ(values[to], in[from + static_cast<size_t>(places[to] * s.inner)]);
            }
          }
        }
    });
  });
}

// Of equal values those that std::nth_element and std::sort leave there, sorted, reversed and many alike as well.
TEST(EngineLanes, LeavesEqualValuesWhereTheStandardLibraryDoes) {
  struct Item {
    float value;
    int64_t place;
  };
  for (int64_t n : {2, 3, 4, 5, 17, 100, 257, 3000})
    for (int64_t k : {int64_t{1}, n / 40 + 1, n / 3 + 1, n - 1})
      for (int pattern = 0; pattern < 4; ++pattern)
        for (bool isSorted : {false, true}) {
          if (k * 64 <= n) continue;
          std::vector<float> in(static_cast<size_t>(n));
          for (size_t i = 0; i < in.size(); ++i) {
            const auto random = static_cast<float>((i * 7919 + i * i * 31) % 23);
            in[i] = pattern == 0   ? random
                    : pattern == 1 ? static_cast<float>(i / 3)
                    : pattern == 2 ? -static_cast<float>(i)
                                   : 0;
            if (pattern == 0 && i % 29 == 3) in[i] = std::numeric_limits<float>::quiet_NaN();
          }
          std::vector<Item> want;
          for (size_t i = 0; i < in.size(); ++i) want.push_back({in[i], static_cast<int64_t>(i)});
          auto isBefore = [](const Item& a, const Item& b) {
            return (a.value != a.value && b.value == b.value) || a.value > b.value;
          };
          std::nth_element(want.begin(), want.begin() + (k - 1), want.end(), isBefore);
          if (isSorted) std::sort(want.begin(), want.begin() + (k - 1), isBefore);
          const LaneShape s{1, n, 1};
          std::vector<float> values(static_cast<size_t>(k));
          std::vector<int64_t> places(values.size());
          auto workspace = workspaceOf(firstOfLanesWorkspace(s, k));
          firstOfLanes(true, isSorted, k, s, in.data(), values.data(), places.data(), aligned(workspace), 1);
          for (size_t i = 0; i < places.size(); ++i)
            ASSERT_EQ(places[i], want[i].place) << n << " " << k << " " << pattern << " " << isSorted << " " << i;
        }
}

TEST(EngineLanes, FindsMedians) {
  atEachSimdLevel([] {
    forShapes([](const LaneShape& s) {
      for (bool isDistinct : {true, false})
        for (bool skipsNan : {false, true}) {
          const std::vector<float> in = valuesOf(s, isDistinct);
          std::vector<float> values(static_cast<size_t>(s.lanes()));
          std::vector<int64_t> places(values.size());
          auto workspace = workspaceOf(mediansOfLanesWorkspace(s));
          mediansOfLanes(skipsNan, s, in.data(), values.data(), places.data(), aligned(workspace), 2);
          for (int64_t lane = 0; lane < s.lanes(); ++lane) {
            const std::vector<int64_t> order = orderOf(in, s, lane, false);
            const auto start = static_cast<size_t>(lane / s.inner * s.count * s.inner + lane % s.inner);
            auto at = [&](int64_t place) { return in[start + static_cast<size_t>(place * s.inner)]; };
            const int64_t nans = std::ranges::count_if(order, [&](int64_t i) { return at(i) != at(i); });
            const int64_t numbers = s.count - nans;
            if (numbers == 0 && skipsNan) continue;
            const int64_t rank = nans > 0 && !skipsNan ? numbers : std::max<int64_t>(numbers - 1, 0) / 2;
            const int64_t want = order[static_cast<size_t>(rank)];
            ASSERT_EQ(places[static_cast<size_t>(lane)], want) << s.count << " " << s.inner;
            const float value = values[static_cast<size_t>(lane)];
            ASSERT_TRUE(value == at(want) || (value != value && at(want) != at(want)));
          }
        }
    });
  });
}

}  // namespace tscompile::test
