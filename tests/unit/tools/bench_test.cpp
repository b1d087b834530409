// What bench and profile measure, told as JSON.
#include "api/profile/run_profile.h"
#include "tests/support/cli.h"
#include "tests/support/json.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace tscompile::test {
namespace {

constexpr const char* kGraph = R"(graph(%x : Float(64, 64, strides=[64, 1])):
  %y : Tensor = aten::matmul(%x, %x)
  %z : Tensor = aten::softmax(%y, %one, %none)
  return (%z)
)";

std::string graphFile(const TemporaryFolder& folder, const std::string& size = "64") {
  std::string text = kGraph;
  for (size_t at; size != "64" && (at = text.find("64")) != std::string::npos;) text.replace(at, 2, size);
  text.insert(text.find("  %z"), "  %one : int = prim::Constant[value=1]()\n  %none : NoneType = prim::Constant()\n");
  std::string path = folder / "graph.ir";
  writeText(path, text);
  return path;
}

int count(const std::string& text, std::string_view part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++n;
  return n;
}

TEST(Bench, TellsLatenciesForEachNumberOfThreads) {
  TemporaryFolder folder;
  CliResult r = runCli({"bench", graphFile(folder), "--threads", "2,1", "--duration", "20ms", "--format", "json"});
  ASSERT_EQ(r.code, 0) << r.err;
  Json json = parseJson(r.out);
  EXPECT_EQ(json["executor"].text, "engine");
  EXPECT_GT(json["load_ms"].number, 0);
  EXPECT_GT(json["peak_memory_bytes"].number, 1e6);
  ASSERT_EQ(json["results"].size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const Json& result = json["results"][i];
    EXPECT_EQ(result["threads"].number, i == 0 ? 2 : 1);
    const Json& latency = result["latency_ms"];
    EXPECT_GT(latency["min"].number, 0);
    EXPECT_LE(latency["min"].number, latency["median"].number);
    EXPECT_LE(latency["median"].number, latency["p90"].number);
    EXPECT_LE(latency["p90"].number, latency["p99"].number);
    EXPECT_LE(latency["p99"].number, latency["max"].number);
    EXPECT_GE(latency["n"].number, 3);
    EXPECT_GT(result["warm_up_runs"].number, 3);
  }
}

TEST(Bench, TakesRangesOfThreads) {
  TemporaryFolder folder;
  CliResult r = runCli({"bench", graphFile(folder), "--threads", "1..4*2", "--concurrency", "1..2", "--duration", "5ms",
                        "--format", "json"});
  ASSERT_EQ(r.code, 0) << r.err;
  std::vector<std::pair<double, double>> measured;
  const Json json = parseJson(r.out);
  for (const Json& result : json["results"].items)
    measured.emplace_back(result["threads"].number, result["concurrency"].number);
  EXPECT_EQ(measured, (std::vector<std::pair<double, double>>{{1, 1}, {1, 2}, {2, 1}, {2, 2}, {4, 1}, {4, 2}}));
}

// What takes `ms` at one thread.
std::string savedBench(const TemporaryFolder& folder, double ms) {
  const std::string time = std::to_string(ms);
  return folder.write("saved.json",
                      R"({"schema": "tscompile.bench/1", "results": [{"threads": 1, "latency_ms": {"min": )" + time +
                          R"(, "median": )" + time + "}}]}");
}

// A log of a measurement would have a line for each of its runs.
TEST(Bench, WhatAModelPrintsIsHeardOfItsFirstRun) {
  TemporaryFolder folder;
  const std::string graph = folder / "talks.ir";
  writeText(graph,
            "graph(%x : Float(2)):\n  %s : str = prim::Constant[value=\"hello\"]()\n"
            "  %n : int = prim::Constant[value=2]()\n  %u : NoneType = aten::warn(%s, %n)\n  = prim::Print(%s)\n"
            "  %y : Tensor = aten::relu(%x)\n  return (%y)\n");
  for (std::vector<std::string> words :
       {std::vector<std::string>{"bench", graph, "--duration", "5ms", "--threads", "1,2"},
        {"profile", graph, "--runs", "3"},
        {"report", graph, "--duration", "5ms", "-o", folder / "r.html"}}) {
    const CliResult r = runCli(words);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(count(r.err, "hello"), 2) << words[0] << r.err;
  }
}

TEST(Bench, ComparesWithWhatWasSaved) {
  TemporaryFolder folder;
  const std::string graph = graphFile(folder);
  auto bench = [&](const std::string& saved, const std::vector<std::string>& more, const char* threads = "1") {
    std::vector<std::string> words = {"bench", graph, "--threads", threads, "--duration", "5ms", "--baseline", saved};
    words.insert(words.end(), more.begin(), more.end());
    return runCli(words);
  };
  // Far from either: the machine may be busy.
  const CliResult slower = bench(savedBench(folder, 1e-6), {"--format", "json"});
  EXPECT_EQ(slower.code, 1) << slower.err;
  EXPECT_EQ(parseJson(slower.out)["baseline"][0]["verdict"].text, "slower");
  EXPECT_EQ(bench(savedBench(folder, 1e-6), {"--fail-if-slower", "1e12%"}).code, 0);
  const CliResult faster = bench(savedBench(folder, 1e6), {});
  EXPECT_EQ(faster.code, 0) << faster.err;
  EXPECT_NE(faster.out.find("faster"), std::string::npos) << faster.out;
  EXPECT_EQ(bench(folder.write("other.json", "{}"), {}).code, 3);
  EXPECT_EQ(bench(folder / "missing.json", {}).code, 5);
  // Before anything is measured.
  const std::string whole = readText(savedBench(folder, 1));
  const CliResult cut = bench(folder.write("cut.json", whole.substr(0, whole.size() / 2)), {});
  EXPECT_EQ(cut.code, 3);
  EXPECT_EQ(cut.out, "");
  EXPECT_NE(cut.err.find("cut.json: error: the file is cut short, or no JSON"), std::string::npos) << cut.err;
  const CliResult others = bench(savedBench(folder, 1), {}, "2,3");
  EXPECT_EQ(others.code, 3);
  EXPECT_EQ(others.out, "");
  EXPECT_NE(others.err.find("it has no measurement with 2 threads\nnote: it has one with --threads 1\n"),
            std::string::npos)
      << others.err;
}

TEST(Bench, SaysWhichBuildWasMeasured) {
  TemporaryFolder folder;
  const std::string graph = graphFile(folder);
  const CliResult now = runCli({"bench", graph, "--threads", "1", "--duration", "5ms", "--format", "json"});
  const std::string commit = parseJson(now.out)["commit"].text;
  EXPECT_EQ(commit, parseJson(runCli({"version", "--format", "json"}).out)["commit"].text);
  std::string before = now.out;
  before.replace(before.find("\"commit\": \"" + commit), 11 + commit.size(), "\"commit\": \"0123456789ab");
  const CliResult r = runCli({"diff", folder.write("before.json", before), folder.write("now.json", now.out)});
  EXPECT_NE(r.err.find("the commit differs: 0123456789ab and " + commit), std::string::npos) << r.err;
}

TEST(Profile, TimesOfLayersAreNoMoreThanThatOfTheRun) {
  TemporaryFolder folder;
  std::string trace = folder / "trace.json";
  CliResult r = runCli({"profile", graphFile(folder), "--runs", "5", "--trace", trace, "--format", "json"});
  ASSERT_EQ(r.code, 0) << r.err;
  Json json = parseJson(r.out);
  EXPECT_EQ(json["runs"].number, 5);
  EXPECT_EQ(json["version"].text, parseJson(runCli({"version", "--format", "json"}).out)["version"].text);
  EXPECT_EQ(json["inputs"].size(), 1u);
  EXPECT_GE(json["threads"].number, 1);
  EXPECT_EQ(json["checksum"].text.size(), 16u);
  ASSERT_EQ(json["engines"].size(), 1u);
  const Json& engine = json["engines"][0];
  ASSERT_EQ(engine["layers"].size(), 2u);
  EXPECT_EQ(engine["layers"][0]["node"].text, "%y");
  EXPECT_EQ(engine["layers"][0]["flops"].number, 2.0 * 64 * 64 * 64);
  EXPECT_EQ(engine["layers"][1]["calls"].number, 5);
  EXPECT_LE(engine["layers"][0]["us"].number + engine["layers"][1]["us"].number, engine["us"].number);
  EXPECT_LE(engine["us"].number, json["run_us"].number);

  // An event for each layer and one, around them, for the engine; beside them the memory at their ends, and names.
  std::vector<Json> events;
  size_t counters = 0, names = 0;
  const Json written = readJson(trace);
  for (const Json& e : written["traceEvents"].items) {
    counters += e["ph"].text == "C" && e["args"]["bytes"].number > 0;
    names += e["ph"].text == "M" && !e["args"]["name"].text.empty();
    if (e["ph"].text == "X") events.push_back(e);
  }
  EXPECT_EQ(counters, 3u);
  EXPECT_EQ(names, 2u);
  ASSERT_EQ(events.size(), 3u);
  const Json& whole = events[2];
  EXPECT_EQ(whole["name"].text, "engine 0");
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(events[i]["ph"].text, "X");
    EXPECT_GE(events[i]["ts"].number, whole["ts"].number);
    EXPECT_LE(events[i]["ts"].number + events[i]["dur"].number, whole["ts"].number + whole["dur"].number + 1e-3);
  }
}

TEST(Profile, RunsThatOtherWorkHasDisturbedAreLeftOut) {
  using Clock = RunProfile::Clock;
  RunProfile profile;
  profile.leavesOutDisturbed = true;
  auto wait = [](std::chrono::nanoseconds time) { std::this_thread::sleep_for(time); };
  auto runFor = [&](std::chrono::nanoseconds time) {
    const Clock::time_point start = Clock::now();
    profile.startRun();
    wait(time);
    profile.onNode(nullptr, 0, start, Clock::now());
    profile.endRun();
    return Clock::now() - start;
  };
  const auto first = runFor(std::chrono::milliseconds(100));
  const double steps = profile.steps;
  runFor(2 * first);
  EXPECT_EQ(profile.runs, 1u);
  EXPECT_EQ(profile.leftOut, 1u);
  EXPECT_EQ(profile.steps, steps);
  // So much quicker a run makes those before it the disturbed ones.
  size_t quick = 0;
  while (runFor({}) > std::chrono::milliseconds(50)) ++quick;
  EXPECT_EQ(profile.runs, 1u);
  EXPECT_EQ(profile.leftOut, quick + 2);
  EXPECT_LT(profile.steps, 60e3);
  EXPECT_LT(profile.time, 60e3);
}

TEST(Profile, TheTraceHasATrackForEachThread) {
  TemporaryFolder folder;
  const CliResult r =
      runCli({"profile", graphFile(folder, "512"), "--runs", "3", "--threads", "2", "--trace", folder / "t.json"});
  ASSERT_EQ(r.code, 0) << r.err;
  double end = 0;
  size_t names = 0, worked = 0;
  const Json written = readJson(folder / "t.json");
  for (const Json& e : written["traceEvents"].items) {
    names += e["name"].text == "thread_name";
    if (e["tid"].number == 1 && e["cat"].text == "engine") end = e["ts"].number + e["dur"].number;
    if (e["tid"].number == 1) continue;
    if (e["ph"].text == "M") {
      EXPECT_EQ(e["args"]["name"].text, "worker 1");
      continue;
    }
    ++worked;
    EXPECT_EQ(e["cat"].text, "work");
    EXPECT_FALSE(e["name"].text.empty());
    EXPECT_LE(e["ts"].number + e["dur"].number, end);
  }
  // A machine with one processor may never let the other thread begin.
  EXPECT_EQ(names, worked > 0 ? 2u : 1u);
}

TEST(Profile, TheTraceMayGoToStandardOutput) {
  TemporaryFolder folder;
  const std::string graph = graphFile(folder);
  EXPECT_GT(parseJson(runCli({"profile", graph, "--runs", "1", "--trace", "-"}).out)["traceEvents"].size(), 3u);
  EXPECT_EQ(runCli({"profile", graph, "--trace", "-", "--format", "json"}).code, 2);
}

TEST(Profile, TimesSumUpToTheRun) {
  TemporaryFolder folder;
  const std::string path = graphFile(folder, "256");
  // Another process may take the processor away between two readings of the clock, but not each time.
  double nearest = 1;
  for (int attempt = 0; attempt < 20 && nearest > 0.05; ++attempt) {
    CliResult r = runCli({"profile", path, "--runs", "10", "--threads", "1", "--torch-executed-op", "aten::softmax",
                          "--min-block-size", "1", "--format", "json"});
    ASSERT_EQ(r.code, 0) << r.err;
    Json json = parseJson(r.out);
    ASSERT_EQ(json["nodes"].size(), 1u);
    const Json& node = json["nodes"][0];
    EXPECT_EQ(node["operator"].text, "aten::softmax");
    EXPECT_EQ(node["bytes"].number, 2 * 256 * 256 * 4);
    EXPECT_EQ(node["calls"].number, 10);
    const Json& engine = json["engines"][0];
    EXPECT_EQ(engine["layers"][0]["bytes"].number, 3 * 256 * 256 * 4);
    EXPECT_EQ(json["borders"]["bytes"].number, 2 * 256 * 256 * 4);
    double sum = node["us"].number + json["borders"]["us"].number + json["steps_us"].number;
    for (const Json& layer : engine["layers"].items) sum += layer["us"].number;
    EXPECT_NEAR(sum + json["rest_us"].number, json["run_us"].number, 1e-3);
    nearest = std::min(nearest, 1 - sum / json["run_us"].number);
  }
  EXPECT_LE(nearest, 0.05);
}

}  // namespace
}  // namespace tscompile::test
