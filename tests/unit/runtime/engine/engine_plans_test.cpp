// Plans of an engine: for many sizes, shared by threads, what they keep, what sizes decide.
#include "ir/values/encoded.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/refusal_watch.h"
#include "tests/support/engine_case.h"

#include <algorithm>
#include <set>
#include <thread>

namespace tscompile::test {
namespace {

// Engines see inputs as if they started at their memory's first element.
TEST(Engine, OffsetsOfInputsAreNotTold) {
  EngineCase c(R"(graph(%x : Tensor):
  %o : int = aten::sym_storage_offset(%x)
  %y : Tensor = aten::add(%x, %o, %o)
  return (%y)
)");
  EXPECT_TRUE(c.layers({randn({3}, 1)}).starts_with("refused: "));
}

TEST(Engine, ManyThreadsOneEngine) {
  EngineCase c(kBottleneck);
  Tensor x = randn({1, 32, 20, 20}, 4), y = randn({1, 32, 9, 9}, 5);
  Tensor expectedX = c.run({x})[0].toTensor(), expectedY = c.run({y})[0].toTensor();
  auto same = [](const Tensor& a, const Tensor& b) {
    return std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.numel()) * 4) == 0;
  };
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        bool first = (t + i) % 2;
        wrong += !same(c.run({first ? x : y}, 1 + t % 3)[0].toTensor(), first ? expectedX : expectedY);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Engine, ResultsAreTheCallersOwn) {
  EngineCase c(R"(graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %w : Float(3) = prim::Constant[value={0}]()
  %a : Tensor = aten::add(%x, %w, %one)
  return (%a, %w, %x)
)");
  Tensor x = floats({1, 2, 3});
  std::vector<IValue> first = c.run({x}), second = c.run({x});
  EXPECT_NE(first[0].toTensor().raw(), second[0].toTensor().raw());
  first[1].toTensor().data<float>()[0] = 99;  // the weight itself stays as it is
  EXPECT_NE(c.run({x})[1].toTensor().real(0), 99);
  EXPECT_EQ(first[2].toTensor(), x);
}

TEST(Engine, WhatCannotBePlannedIsLeftAlone) {
  EngineCase c(R"(graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::add(%x, %y, %one)
  return (%a)
)");
  RunOptions options;
  RunContext context(options);
  RunScope scope(context);
  EXPECT_EQ(c.layers({floats({1, 2}), floats({1, 2, 3})}), "refused: ");
}

TEST(Engine, SmallPlansAreKeptForManySizes) {
  EngineCase c(R"(graph(%x : Tensor):
  %y : Tensor = aten::relu(%x)
  return (%y)
)");
  const EnginePlan* first = c.plan({randn({1, 3}, 1)});
  for (int64_t n = 2; n < 200; ++n) c.plan({randn({n, 3}, 1)});
  EXPECT_EQ(c.plan({randn({1, 3}, 1)}), first);
}

// Otherwise every size packs weights of its own, and they all stay.
TEST(Engine, PlansShareWhatIsMadeOfConstants) {
  EngineCase c(graphWithConstants("%x : Tensor", R"(
  %w : Float(3) = prim::Constant[value=<Tensor>]()
  %square : Tensor = aten::mul(%w, %w)
  %more : Tensor = aten::add(%square, %w, %two)
  %y : Tensor = aten::add(%x, %more, %one)
)",
                                  "%y"));
  auto constants = [&](int64_t rows) {
    std::set<const void*> found;
    for (const NetBuffer& b : c.plan({randn({rows, 3}, 1)})->network().buffers)
      if (b.kind == NetBuffer::Kind::Constant) found.insert(b.constant.raw());
    return found;
  };
  EXPECT_EQ(constants(1).size(), 1u);
  EXPECT_EQ(constants(1), constants(2));
  c.expectClose({randn({1, 3}, 2)});
  c.expectClose({randn({5, 3}, 2)});
}

TEST(WeightStore, MakesAgainWhatCouldNotBeMade) {
  WeightStore store;
  const Tensor source = randn({2}, 1);
  auto fail = []() -> Tensor { throw ExecutionError(ErrorKind::Limit, "out of memory"); };
  EXPECT_THROW(store.get("packed", source, fail), ExecutionError);
  EXPECT_TRUE(store.get("packed", source, [&] { return source; }).defined());
}

TEST(WeightStore, CodesOfOtherScalesAreOtherWeights) {
  WeightStore store;
  const Tensor codes = Tensor::empty(DType::Int8, Dims{2});
  std::fill_n(codes.data<int8_t>(), 2, int8_t{3});
  auto scales = [](float scale) {
    Tensor t = Tensor::empty(DType::Float32, Dims{2});
    std::fill_n(t.data<float>(), 2, scale);
    return t;
  };
  auto made = [&](const Tensor& scales) {
    const Tensor weight = encodedTensor(codes, scales, 0);
    return store.get("packed", weight, [&] { return decodedOnce(weight); }).raw();
  };
  const Tensor one = scales(1), five = scales(5);
  EXPECT_NE(made(one), made(five));
  EXPECT_EQ(made(one), made(one));
}

// Neither where it fails to begin, nor in the middle.
TEST(Engine, RunsThatFailForLackOfMemoryHoldNone) {
  EngineCase c(R"(graph(%x : Tensor):
  %a : Tensor = aten::matmul(%x, %x)
  %b : Tensor = aten::matmul(%a, %x)
  %c : Tensor = aten::matmul(%b, %x)
  return (%b, %c)
)");
  const Tensor x = randn({64, 64}, 1);
  size_t failed = 0;
  for (uint64_t limit = 1 << 10; limit < 200 << 10; limit += 1 << 10) {
    RunOptions options;
    options.memoryLimit = limit;
    RunContext context(options);
    RunScope scope(context);
    RefusalWatch watch;
    if (c.tryRun({x}, context)) continue;
    ++failed;
    EXPECT_EQ(context.budget().used(), 0u) << limit;
    ASSERT_EQ(watch.rows().size(), 1u);
    ASSERT_TRUE(watch.rows()[0].refusal);
    EXPECT_NE(watch.rows()[0].refusal->verdict.detail.find("memory limit"), std::string::npos)
        << watch.rows()[0].refusal->verdict.detail;
  }
  EXPECT_GT(failed, 8u);
}

TEST(Engine, ABranchFindsWhatIsMadeOfConstants) {
  EngineCase c(graphWithConstants("%x : Tensor", R"(
  %w : Float(3) = prim::Constant[value=<Tensor>]()
  %square : Tensor = aten::mul(%w, %w)
  %rows : int = aten::size(%x, %zero)
  %single : bool = aten::eq(%rows, %one)
  %y : Tensor = prim::If(%single)
    block0():
      -> (%x)
    block1():
      %more : Tensor = aten::add(%square, %w, %two)
      %sum : Tensor = aten::add(%x, %more, %one)
      -> (%sum)
)",
                                  "%y"));
  for (int64_t rows : {1, 2, 3, 1, 2}) c.expectClose({randn({rows, 3}, 2)});
}

TEST(Engine, PlansTakeTurnsInOneArena) {
  EngineOptions kernels;
  kernels.optimize = false;
  EngineCase c(graphWithConstants("%x : Tensor", R"(
  %a : Tensor = aten::tanh(%x)
  %b : Tensor = aten::mul(%a, %x)
  %c : Tensor = aten::softmax(%b, %last, %none)
  %d : Tensor = aten::add(%c, %a, %one)
)",
                                  "%d"),
               kernels);
  for (int64_t rows : {3, 500, 7, 500, 3, 2000, 7, 7}) c.expectClose({randn({rows, 8}, 1)});
}

TEST(ArenaPool, GivesTheLastOneThatIsLargeEnough) {
  ArenaPool pool;
  Ref<Storage> first = pool.take(1000), second = pool.take(10);
  const std::byte *large = first->data(), *small = second->data();
  pool.giveBack(std::move(second));
  pool.giveBack(std::move(first));
  first = pool.take(500);
  EXPECT_EQ(first->data(), large);
  second = pool.take(10);
  EXPECT_EQ(second->data(), small);
  pool.giveBack(std::move(second));
  EXPECT_GE(pool.take(4000)->bytes(), 4000u);
}

TEST(Engine, SizesDecideBranches) {
  EngineCase c(R"(graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %message : str = prim::Constant[value="too long"]()
  %none : NoneType = prim::Constant()
  %size : int = aten::size(%x, %zero)
  %isOne : bool = aten::eq(%size, %one)
  %y : Tensor, %n : int = prim::If(%isOne)
    block0():
      %a : Tensor = aten::relu(%x)
      -> (%a, %two)
    block1():
      %long : bool = aten::gt(%size, %two)
       = prim::If(%long)
        block0():
           = prim::RaiseException(%message, %none)
          -> ()
        block1():
          -> ()
      %b : Tensor = aten::exp(%x)
      -> (%b, %one)
  %z : Tensor = aten::mul(%y, %n)
  return (%z)
)");
  EXPECT_EQ(c.layers({randn({1, 3}, 1)}), "pointwise of 2");
  EXPECT_EQ(c.layers({randn({2, 3}, 1)}), "pointwise of 2");
  c.expectClose({randn({1, 3}, 2)});
  c.expectClose({randn({2, 3}, 2)});
  // Whoever interprets it tells the error with its place.
  EXPECT_EQ(c.layers({randn({3, 3}, 1)}), "refused: prim::RaiseException does more than give a value");
}

TEST(Engine, SizesDecideIterations) {
  EngineCase c(R"(graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %yes : bool = prim::Constant[value=1]()
  %length : int = aten::size(%x, %zero)
  %h : Tensor = aten::select(%x, %zero, %zero)
  %last : Tensor = prim::Loop(%length, %yes, %h)
    block0(%t : int, %before : Tensor):
      %xt : Tensor = aten::select(%x, %zero, %t)
      %sum : Tensor = aten::add(%before, %xt, %one)
      %next : Tensor = aten::tanh(%sum)
      -> (%yes, %next)
  return (%last)
)");
  for (int64_t length : {1, 2, 7}) c.expectClose({randn({length, 4}, static_cast<uint64_t>(length))});
  EXPECT_EQ(c.layers({randn({2000, 1}, 1)}), "refused: its iterations are more than 4096 nodes, too many for a plan");
}

}  // namespace
}  // namespace tscompile::test
