// What compile says of tactics reaches the engines.
#include "runtime/engine/network/tactics.h"

#include "tests/support/cli.h"
#include "tests/support/json.h"
#include "tests/support/text_file.h"
#include "tools/options/options.h"
#include "tools/tasks/partitioning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <thread>

namespace tscompile::test {
namespace {

constexpr const char* kConvolution = R"(graph(%x : Tensor):
  %w : Float(32, 32, 3, 3) = prim::Constant[value=<Tensor>]()
  %none : NoneType = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %y : Tensor = aten::conv2d(%x, %w, %none, %ones, %ones, %ones, %one)
  return (%y)
)";

class TacticOptions : public testing::Test {
 protected:
  TacticOptions() {
    text_ = folder_.write("net.ir", kConvolution);
    weights_ = folder_.write("net.weights", "w = 32x32x3x3:f32:randn(seed=1)\n");
  }
  std::string compile(const std::vector<std::string>& more, const std::string& name = "net.tse") {
    std::string out = folder_ / name;
    std::vector<std::string> words{"compile", text_, "-w", weights_, "--shape", "x=1x32x14x14", "-o", out};
    words.insert(words.end(), more.begin(), more.end());
    CliResult r = runCli(words);
    EXPECT_EQ(r.code, 0) << r.err;
    return out;
  }
  // The layers of the engine, as profile names them.
  std::string layers(const std::string& engine) {
    CliResult r = runCli({"profile", engine, "--runs", "1", "-i", "x=1x32x14x14:f32:zeros"});
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  }
  TemporaryFolder folder_;
  std::string text_, weights_;
};

TEST_F(TacticOptions, MeasurementsAreAFileThatComesFirst) {
  std::string cache = folder_ / "cache";
  compile({"--tactics", "measure", "--timing-cache", cache, "--num-avg-timing-iters", "3"});
  std::string found = readText(cache);
  size_t at = found.rfind(": ");
  ASSERT_NE(found.find("conv2d 1x32x14x14 to 32 by 3x3"), std::string::npos) << found;

  // With the same measurements the same bytes come out, whether more is measured or not.
  std::string one = readText(compile({"--tactics", "measure", "--timing-cache", cache})),
              two = readText(compile({"--tactics", "measure", "--timing-cache", cache}));
  EXPECT_EQ(one, two);
  EXPECT_EQ(readText(cache), found);

  writeText(cache, found.substr(0, at) + ": im2col\n");
  std::string engine = compile({"--timing-cache", cache});
  EXPECT_NE(layers(engine).find("im2col"), std::string::npos) << layers(engine);
  // The limit counts for what was measured as well.
  engine = compile({"--timing-cache", cache, "--workspace-size", "0"});
  EXPECT_EQ(layers(engine).find("im2col"), std::string::npos) << layers(engine);
  EXPECT_EQ(layers(compile({})).find("im2col"), std::string::npos);
}

TEST_F(TacticOptions, AreForTheThreadsThatWereAskedFor) {
  for (const char* threads : {"1", "3"}) {
    std::string cache = folder_ / "cache" + threads;
    compile({"--threads", threads, "--tactics", "measure", "--timing-cache", cache});
    std::string found = readText(cache);
    EXPECT_NE(found.find(std::string(" on ") + threads + " threads "), std::string::npos) << found;
    // The engine that is loaded takes what was found for its threads.
    writeText(cache, found.substr(0, found.rfind(": ")) + ": im2col\n");
    std::string engine = compile({"--threads", threads, "--timing-cache", cache});
    EXPECT_NE(layers(engine).find("im2col"), std::string::npos) << layers(engine);
  }
}

TEST_F(TacticOptions, CompileTellsWhatItCost) {
  CliResult r = runCli({"compile", text_, "-w", weights_, "-o", folder_ / "net.tse", "--profile", "text"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err.find("Function profiling\n==================\n  Message: " + text_ + "\n"), 0u) << r.err;
  EXPECT_NE(r.err.find("    Number of Apply nodes: 1\n"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("\nRewriter Profile\n----------------\n"), std::string::npos) << r.err;
  r = runCli({"compile", text_, "-w", weights_, "-o", folder_ / "net.tse", "--profile", "json"});
  ASSERT_EQ(r.code, 0) << r.err;
  Json json = parseJson(r.err);
  const Json& compilation = json["compilation"];
  EXPECT_EQ(compilation["nodes"].number, 1);
  EXPECT_GT(compilation["compile_time"].number, 0);
  EXPECT_FALSE(json["rewriting"].isNull());
}

TEST_F(TacticOptions, AFileIsMadeThoughThereWasNothingToMeasure) {
  const std::string cache = folder_ / "none", net = folder_.write("y.ir", "graph(%x : Tensor):\n  return (%x)\n");
  CliResult r = runCli(
      {"compile", net, "--shape", "x=2", "--tactics", "measure", "--timing-cache", cache, "-o", folder_ / "y.tse"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(readText(cache), "tscompile tactics 1\n");
  EXPECT_NE(r.err.find("no kernels were timed: nothing is in an engine"), std::string::npos) << r.err;
}

TEST_F(TacticOptions, EnginesThatDoNotRunAreTold) {
  const std::string net = folder_.write("y.ir", R"(graph(%x : Tensor):
  %most : int = prim::Constant[value=1000000]()
  %dim : int = prim::Constant[value=-1]()
  %none : NoneType = prim::Constant()
  %sum : Tensor = aten::sum(%x, %none)
  %large : Tensor = aten::gt(%sum, %most)
  %isLarge : bool = aten::Bool(%large)
  %y : Tensor = prim::If(%isLarge)
    block0():
      %a : Tensor = aten::exp(%x)
      %b : Tensor = aten::softmax(%a, %dim, %none)
      %c : Tensor = aten::tanh(%b)
      -> (%c)
    block1():
      -> (%x)
  return (%y)
)");
  CliResult r = runCli({"compile", net, "--shape", "x=2x3", "--tactics", "measure", "-o", folder_ / "y.tse"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("no kernels were timed: no engine ran"), std::string::npos) << r.err;
}

TEST_F(TacticOptions, WhatIsNotACacheIsRefused) {
  std::string cache = folder_.write("cache", "fastest please\n");
  CliResult r = runCli({"compile", text_, "-w", weights_, "--timing-cache", cache, "-o", folder_ / "x.tse"});
  EXPECT_EQ(r.code, 3);
  EXPECT_NE(r.err.find("expected 'tscompile tactics 1'"), std::string::npos) << r.err;
  EXPECT_EQ(readText(folder_ / "x.tse"), "");
}

TEST_F(TacticOptions, NumbersOfRunsAndSizesOfInputsAreHeard) {
  Options o = readCommandLine(std::vector<std::string>{"compile", "x", "--num-avg-timing-iters", "3", "--tactics",
                                                       "measure", "--workspace-size", "1M"});
  std::istringstream in;
  std::ostringstream out;
  Session session(o.common, in, out, out);
  CompileSpec spec = compileSpecOf(o.partition, session);
  EXPECT_EQ(spec.engine.tactics->timingRuns, 3);
  EXPECT_TRUE(spec.engine.measureTactics);
  EXPECT_EQ(spec.engine.tactics->workspaceLimit, size_t{1} << 20);
  // Nothing is timed on sizes that nobody told.
  CliResult r = runCli({"compile", text_, "-w", weights_, "--tactics", "measure", "-o", folder_ / "x.tse"});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("%x"), std::string::npos) << r.err;
}

// Nobody's lines are lost when several write one file, as the jobs of a build do.
TEST_F(TacticOptions, ProcessesShareACache) {
  const std::string cache = folder_ / "cache.txt";
  std::vector<std::thread> jobs;
  for (const char* size : {"12", "14", "16", "18"})
    jobs.emplace_back([=, this] {
      const std::string out = folder_ / (std::string(size) + ".tse");
      const std::string line = std::string(TSCOMPILE_TOOL) + " compile " + text_ + " -w " + weights_ +
                               " --shape 1x32x" + size + "x" + size + " --tactics measure --timing-cache " + cache +
                               " -q -o " + out;
      EXPECT_EQ(std::system(line.c_str()), 0) << line;
    });
  for (std::thread& job : jobs) job.join();
  const std::string text = readText(cache);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5) << text;
}

}  // namespace
}  // namespace tscompile::test
