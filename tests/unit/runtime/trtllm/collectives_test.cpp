// Collectives: shards are threads, and give what one computation gives.
#include "api/compile.h"
#include "api/extensions.h"
#include "api/module.h"
#include "ir/values/error.h"
#include "runtime/plugin/plugin_instance.h"
#include "runtime/plugin/plugin_registry.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

namespace tscompile::test {
namespace {

using Values = std::vector<double>;

// An instance of a plugin for one shard.
std::shared_ptr<PluginInstance> make(const std::string& name, std::vector<tsc::Field> fields) {
  PluginCreatorPtr creator = allPlugins().find("tensorrt_llm", name);
  ParsedFields parsed = completeFields(std::move(fields), *creator);
  EXPECT_TRUE(parsed.problems.empty()) << parsed.problems[0];
  OperatorProblem problem;
  auto made = PluginInstance::create(creator, std::move(parsed.fields), allOps(), TSC_BUILDING, "test", problem);
  EXPECT_TRUE(made) << problem.text;
  return made;
}

std::vector<tsc::Field> groupFields(const std::string& name, size_t shards, size_t rank, int64_t timeout = 20000) {
  std::vector<int64_t> group;
  for (size_t i = 0; i < shards; ++i) group.push_back(static_cast<int64_t>(10 * i));
  return {tsc::Field::of("group", group), tsc::Field::of("rank", static_cast<int64_t>(10 * rank)),
          tsc::Field::of("group_name", name), tsc::Field::of("timeout_ms", timeout)};
}

PluginTensors call(const PluginInstance& plugin, const PluginTensors& inputs) {
  std::vector<PluginInstance::Input> described;
  for (const Tensor& t : inputs)
    described.push_back(t.defined() ? PluginInstance::Input{static_cast<int32_t>(t.dtype()), Dims(t.sizes()), {}, false}
                                    : PluginInstance::Input{});
  PluginTensors outputs;
  for (const TensorSpec& s : plugin.infer(described)) {
    int alias = plugin.alias(outputs.size());
    outputs.push_back(alias >= 0 ? inputs[static_cast<size_t>(alias)] : Tensor::empty(s.dtype, s.sizes));
  }
  plugin.run(inputs, outputs, nullptr, 2);
  return outputs;
}

Tensor sample(Dims sizes, size_t shard, double phase = 0) {
  Tensor t = Tensor::empty(DType::Float32, sizes);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] =
        static_cast<float>(std::sin(phase + 1.3 * static_cast<double>(i) + 7.1 * static_cast<double>(shard)));
  return t;
}

// Runs body(shard) on a thread each; errors are texts.
std::vector<std::string> onShards(size_t count, const std::function<void(size_t)>& body) {
  std::vector<std::string> errors(count);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (const ExecutionError& e) {
        errors[i] = e.message();
      }
    });
  for (std::thread& t : threads) t.join();
  return errors;
}

void expectNearAll(const Tensor& got, const std::vector<float>& want) {
  ASSERT_EQ(got.numel(), static_cast<int64_t>(want.size()));
  for (int64_t i = 0; i < got.numel(); ++i) EXPECT_NEAR(got.data<float>()[i], want[static_cast<size_t>(i)], 1e-5) << i;
}

TEST(Collectives, SumsAreThoseOfOneShard) {
  for (size_t shards : {1, 2, 3, 5}) {
    std::vector<float> sum(12, 0), scattered;
    for (size_t s = 0; s < shards; ++s)
      for (int64_t i = 0; i < 12; ++i) sum[static_cast<size_t>(i)] += sample({3, 4}, s).data<float>()[i];
    std::vector<Tensor> reduced(shards);
    auto errors = onShards(shards, [&](size_t s) {
      auto plugin = make("AllReduce", groupFields("sums", shards, s));
      for (int round = 0; round < 20; ++round) reduced[s] = call(*plugin, {sample({3, 4}, s), {}, {}, {}})[0];
    });
    for (size_t s = 0; s < shards; ++s) {
      EXPECT_EQ(errors[s], "");
      ASSERT_TRUE(reduced[s].defined());
      EXPECT_EQ(std::memcmp(reduced[s].raw(), sum.data(), 48), 0) << "in the order of ranks";
    }
  }
}

TEST(Collectives, FusedSumIsResidualAndNorm) {
  constexpr size_t kShards = 3;
  Tensor residual = sample({3, 4}, 9), weight = sample({4}, 8), bias = sample({4}, 7);
  std::vector<float> inter(12), want(12);
  for (size_t i = 0; i < 12; ++i) {
    float sum = 0;
    for (size_t s = 0; s < kShards; ++s) sum += sample({3, 4}, s).data<float>()[i];
    inter[i] = sum + bias.data<float>()[i % 4] + residual.data<float>()[i];
  }
  for (size_t row = 0; row < 3; ++row) {
    double squares = 0;
    for (size_t c = 0; c < 4; ++c) squares += inter[row * 4 + c] * inter[row * 4 + c];
    for (size_t c = 0; c < 4; ++c)
      want[row * 4 + c] =
          static_cast<float>(inter[row * 4 + c] / std::sqrt(squares / 4 + 0.5) * weight.data<float>()[c]);
  }
  auto errors = onShards(kShards, [&](size_t s) {
    auto fields = groupFields("fused", kShards, s);
    fields.push_back(tsc::Field::of("fusion_op", std::string("residual_rms_norm")));
    fields.push_back(tsc::Field::of("eps", 0.5));
    fields.push_back(tsc::Field::of("affine", true));
    fields.push_back(tsc::Field::of("bias", true));
    PluginTensors out = call(*make("AllReduce", fields), {sample({3, 4}, s), bias, residual, weight});
    expectNearAll(out[0], want);
    expectNearAll(out[1], inter);
  });
  for (const std::string& e : errors) EXPECT_EQ(e, "");
}

TEST(Collectives, GatherAndScatter) {
  constexpr size_t kShards = 3;
  std::vector<float> all, sum(12, 0);
  for (size_t s = 0; s < kShards; ++s) {
    Tensor t = sample({6, 2}, s);
    all.insert(all.end(), t.data<float>(), t.data<float>() + 12);
    for (size_t i = 0; i < 12; ++i) sum[i] += t.data<float>()[i];
  }
  auto errors = onShards(kShards, [&](size_t s) {
    Tensor gathered = call(*make("AllGather", groupFields("gather", kShards, s)), {sample({6, 2}, s)})[0];
    EXPECT_EQ(gathered.size(0), 18);
    expectNearAll(gathered, all);
    Tensor own = call(*make("ReduceScatter", groupFields("gather", kShards, s)), {sample({6, 2}, s)})[0];
    expectNearAll(own, {sum.begin() + static_cast<long>(4 * s), sum.begin() + static_cast<long>(4 * s + 4)});
  });
  for (const std::string& e : errors) EXPECT_EQ(e, "");
}

TEST(Collectives, AProductIsSplitByDepth) {
  constexpr size_t kShards = 4, kDepth = 5;
  std::vector<float> want(6);
  for (size_t m = 0; m < 2; ++m)
    for (size_t n = 0; n < 3; ++n) {
      double sum = 0;
      for (size_t s = 0; s < kShards; ++s)
        for (size_t k = 0; k < kDepth; ++k)
          sum += static_cast<double>(sample({2, kDepth}, s).data<float>()[m * kDepth + k]) *
                 sample({3, kDepth}, s, 1).data<float>()[n * kDepth + k];
      want[m * 3 + n] = static_cast<float>(2 * sum);
    }
  auto errors = onShards(kShards, [&](size_t s) {
    auto fields = groupFields("product", kShards, s);
    fields.push_back(tsc::Field::of("alpha", 2.0));
    expectNearAll(call(*make("GemmAllReduce", fields), {sample({2, kDepth}, s), sample({3, kDepth}, s, 1)})[0], want);
  });
  for (const std::string& e : errors) EXPECT_EQ(e, "");
}

// relu(x W1) W2, split between the products, as graphs in the interpreter and with engines around the sum.
TEST(Collectives, ASplitModelIsTheWholeOne) {
  constexpr int64_t kShards = 2, kWidth = 6, kPart = kWidth / kShards;
  auto graphOf = [](const std::string& last) {
    return "graph(%x : Float(2, 4), %up : Tensor, %down : Tensor):\n"
           "  %h : Tensor = aten::matmul(%x, %up)\n  %r : Tensor = aten::relu(%h)\n"
           "  %p : Tensor = aten::matmul(%r, %down)\n" +
           last + "  return (%y)\n";
  };
  auto resultOf = [&](const std::string& last, bool engine, const Tensor& up, const Tensor& down) {
    Diagnostics diagnostics;
    LoadOptions options;
    options.extensions = std::make_shared<Extensions>();
    Result<Module> m = Module::fromText(graphOf(last), "test", options, diagnostics);
    CompileSpec spec;
    spec.minBlockSize = 1;
    if (m && engine) m = compile(*m, spec, diagnostics);
    Result<std::vector<IValue>> out = Failed{};
    for (int i = 0; m && i < 3; ++i) out = m->forward(std::vector<IValue>{sample({2, 4}, 5), up, down}, diagnostics);
    EXPECT_TRUE(out) << (diagnostics.list().empty() ? "" : diagnostics.list()[0].message);
    return out ? out->at(0).toTensor() : Tensor();
  };
  Tensor up = sample({4, kWidth}, 1), down = sample({kWidth, 3}, 2);
  Tensor whole = resultOf("  %n : NoneType = prim::Constant()\n  %y : Tensor = aten::clone(%p, %n)\n", false, up, down);
  for (bool engine : {false, true}) {
    std::vector<Tensor> results(kShards);
    onShards(kShards, [&](size_t s) {
      auto first = static_cast<int64_t>(s) * kPart;
      Tensor ownUp = Tensor::empty(DType::Float32, Dims{4, kPart}),
             ownDown = Tensor::empty(DType::Float32, Dims{kPart, 3});
      for (int64_t i = 0; i < 4 * kPart; ++i)
        ownUp.data<float>()[i] = up.data<float>()[i / kPart * kWidth + first + i % kPart];
      std::copy_n(down.data<float>() + first * 3, kPart * 3, ownDown.data<float>());
      results[s] = resultOf("  %y : Tensor = tensorrt_llm::AllReduce[group=[0, 1], rank=" + std::to_string(s) +
                                ", group_name=\"split\"](%p)\n",
                            engine, ownUp, ownDown);
    });
    for (const Tensor& r : results) {
      ASSERT_TRUE(r.defined() && whole.defined());
      expectNearAll(r, {whole.data<float>(), whole.data<float>() + whole.numel()});
    }
  }
}

TEST(Collectives, TensorsArriveInOrder) {
  auto sender =
      make("Send", {tsc::Field::of("tgt_rank", int64_t{1}), tsc::Field::of("group_name", std::string("line"))});
  auto receiver = make("Recv", {tsc::Field::of("src_rank", int64_t{0}), tsc::Field::of("rank", int64_t{1}),
                                tsc::Field::of("group_name", std::string("line"))});
  auto errors = onShards(2, [&](size_t s) {
    for (size_t i = 0; i < 50; ++i) {
      Tensor want = sample({2, 3}, i);
      if (s == 0)
        call(*sender, {want});
      else
        expectNearAll(call(*receiver, {Tensor::empty(DType::Float32, Dims{2, 3})})[0],
                      {want.data<float>(), want.data<float>() + 6});
    }
  });
  for (const std::string& e : errors) EXPECT_EQ(e, "");
}

TEST(Collectives, WhoDoesNotComeIsNamed) {
  auto start = std::chrono::steady_clock::now();
  auto errors = onShards(2, [&](size_t s) {
    call(*make("AllReduce", groupFields("lonely", 3, s, 100)), {sample({2}, s), {}, {}, {}});
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  bool named = false;
  for (const std::string& e : errors) {
    EXPECT_NE(e.find("did not come within 100 ms"), std::string::npos) << e;
    named |= e == "in the group 'lonely', rank 20 did not come within 100 ms";
  }
  EXPECT_TRUE(named) << errors[0];
  // Those who gave up are not counted when all come.
  std::vector<std::shared_ptr<PluginInstance>> all;
  for (size_t s = 0; s < 3; ++s) all.push_back(make("AllReduce", groupFields("lonely", 3, s)));
  for (const std::string& e : onShards(3, [&](size_t s) { call(*all[s], {sample({2}, s), {}, {}, {}}); }))
    EXPECT_EQ(e, "");
  auto receiver = make("Recv", {tsc::Field::of("src_rank", int64_t{4}), tsc::Field::of("timeout_ms", int64_t{50})});
  try {
    call(*receiver, {sample({2}, 0)});
    ADD_FAILURE() << "nothing was sent";
  } catch (const ExecutionError& e) {
    EXPECT_EQ(e.message(), "channel of 'world' from rank 4 to rank 0: nothing was sent within 50 ms");
  }
}

TEST(Collectives, OthersMustBringTheSame) {
  auto errors = onShards(2, [&](size_t s) {
    call(*make("AllReduce", groupFields("unequal", 2, s)), {sample({s ? 3 : 2}, s), {}, {}, {}});
  });
  for (const std::string& e : errors)
    EXPECT_EQ(e,
              "in the group 'unequal', rank 0 brings AllReduce of float32 [2], and rank 10 "
              "AllReduce of float32 [3]");
}

TEST(Collectives, RefuseWrongGroups) {
  auto problemOf = [](std::vector<int64_t> group, int64_t rank) {
    PluginCreatorPtr creator = allPlugins().find("tensorrt_llm", "AllGather");
    ParsedFields parsed = completeFields({tsc::Field::of("group", group), tsc::Field::of("rank", rank)}, *creator);
    OperatorProblem problem;
    EXPECT_FALSE(PluginInstance::create(creator, parsed.fields, allOps(), TSC_BUILDING, "test", problem));
    return problem.text;
  };
  EXPECT_NE(problemOf({0, 1, 0}, 0).find("group has a rank twice"), std::string::npos);
  EXPECT_NE(problemOf({0, 1}, 2).find("rank 2 is not in group"), std::string::npos);
}

}  // namespace
}  // namespace tscompile::test
