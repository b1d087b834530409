// The page of `tscompile report`: its data and its structure, without a browser (tests/tools/report_test.py has one).
#include "tests/support/cli.h"
#include "tests/support/json.h"
#include "tests/support/text_file.h"
#include "tools/pages/markup.h"

#include <gtest/gtest.h>

#include <regex>

namespace tscompile::test {
namespace {

std::string model(const std::string& name) { return TSCOMPILE_SOURCE_DIR "/samples/models/" + name; }

std::string page(std::vector<std::string> args, const TemporaryFolder& folder) {
  args.insert(args.begin(), "report");
  args.insert(args.end(), {"-o", folder / "report.html", "-q"});
  const CliResult r = runCli(args);
  EXPECT_EQ(r.code, 0) << r.err;
  return readText(folder / "report.html");
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  if (from == std::string::npos) return "";
  return text.substr(from + begin.size(), text.find(end, from) - from - begin.size());
}

Json dataOf(const std::string& html) { return parseJson(between(html, "id=data>", "</script>")); }

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(Report, HasTheModelItsTimesAndItsGraph) {
  TemporaryFolder folder;
  const std::string html =
      page({model("lenet_archive/model.pt"), "-i", "1x1x32x32:f32:ones", "--duration", "30ms"}, folder);
  const Json data = dataOf(html);
  ASSERT_EQ(data["schema"].text, "tscompile.report/1");
  EXPECT_EQ(data["coverage"].number, 1);
  EXPECT_TRUE(data["run"]["accuracy"]["within"].boolean);
  EXPECT_GT(data["run"]["latency_ms"]["median"].number, 0);
  EXPECT_GT(data["run"]["peak_tensor_bytes"].number, 1 * 6 * 30 * 30 * 4);
  EXPECT_GT(data["run"]["peaks"]["gflops"].number, 0);
  EXPECT_GT(data["run"]["memory"].size(), 1u);
  // Each node has a row, which says what it is; the time of all rows is that of the run.
  double us = data["run"]["other_us"].number;
  std::vector<std::string> modules;
  for (size_t i = 0; i < data["rows"].size(); ++i) {
    const Json& row = data["rows"][i];
    EXPECT_NE(html.find("<tr id=n" + std::to_string(i)), std::string::npos);
    us += row["us"].number;
    if (row.has("module")) modules.push_back(data["modules"][static_cast<size_t>(row["module"].number)].text);
    for (const Json& from : row["inputs"].items) EXPECT_LT(from.number, i);
  }
  EXPECT_NEAR(us, data["run"]["profiled_us"].number, 0.02 * us + 1);
  EXPECT_EQ(modules.front(), "feat.conv1");
  EXPECT_EQ(modules.back(), "classifer.fc3");
  // Where the script of the page takes things from.
  for (const char* part :
       {"id=time", "id=latency", "id=memory", "id=cut", "id=graph", "id=list", "id=node", "id=filter"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

// An engine that was cut once more for the sizes of a run has other nodes than the graph that is shown.
TEST(Report, HasTimesOfEnginesThatWereCutOnceMore) {
  TemporaryFolder folder;
  const std::string graph = folder / "m.ir";
  std::string nodes;
  const auto chain = [&](const std::string& from, const std::string& to) {
    for (int i = 0; i < 8; ++i)
      nodes += "  %" + to + std::to_string(i) + " : Tensor = aten::" + (i % 2 ? "tanh" : "exp") + "(%" +
               (i ? to + std::to_string(i - 1) : from) + ")\n";
  };
  chain("u", "before");
  nodes += "  %p : Tensor, %l : Tensor = aten::_pad_packed_sequence(%before7, %sizes, %yes, %pad, %3)\n";
  chain("p", "after");
  writeText(graph,
            "graph(%x : Tensor, %sizes : Tensor):\n  %0 : int = prim::Constant[value=0]()\n"
            "  %1 : int = prim::Constant[value=1]()\n  %3 : int = prim::Constant[value=3]()\n"
            "  %yes : bool = prim::Constant[value=1]()\n  %pad : float = prim::Constant[value=0.]()\n"
            "  %m : Tensor = aten::gt(%x, %0)\n  %k : Tensor = aten::masked_select(%x, %m)\n"
            "  %u : Tensor = aten::unsqueeze(%k, %1)\n" +
                nodes + "  return (%after7)\n");
  const Json data = dataOf(page({graph, "-i", "x=6:f32=[1 -1 2 3 4 5]", "-i", "sizes=3:i64=[2 2 1]", "--min-block-size",
                                 "1", "--duration", "30ms"},
                                folder));
  std::string notes;
  for (const Json& note : data["run"]["notes"].items) notes += note.text + '\n';
  ASSERT_NE(notes.find("nodes of an engine"), std::string::npos) << notes;
  std::string untimed;
  for (const Json& segment : data["segments"].items)
    if (segment["us"].number <= 0) untimed += std::to_string(static_cast<int>(segment["nodes"].number)) + ' ';
  EXPECT_EQ(untimed, "");
}

TEST(Report, NeedsNothingElse) {
  TemporaryFolder folder;
  const std::string html = page({model("lenet_scripted/frozen.ir"), "--no-run"}, folder);
  EXPECT_LT(html.size(), 150'000u);
  EXPECT_EQ(html.find("http:"), std::string::npos);
  EXPECT_EQ(html.find("src="), std::string::npos);
  EXPECT_EQ(html.find("@import"), std::string::npos);
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(html.find("script-src 'sha256-"), std::string::npos);
  // Data and script, and no others.
  EXPECT_EQ(count(html, "<script"), 2u);
  EXPECT_EQ(count(html, "</script"), 2u);
}

TEST(Report, TellsWhyNodesAreNotInEngines) {
  TemporaryFolder folder;
  const std::string html =
      page({model("lenet_scripted/frozen.ir"), "--no-run", "--torch-executed-op", "aten::relu"}, folder);
  const Json data = dataOf(html);
  size_t refused = 0;
  for (const Json& row : data["rows"].items) {
    if (!row.has("reason")) continue;
    ++refused;
    EXPECT_EQ(data["segments"][static_cast<size_t>(row["segment"].number)]["target"].text, "interpreter");
  }
  EXPECT_GE(refused, 4u);
  EXPECT_EQ(data["reasons"][0]["code"].text, "USER_EXCLUDED");
  EXPECT_EQ(data["reasons"][0]["remedy"].text, "leave out --torch-executed-op aten::relu");
  EXPECT_NE(html.find("<td>USER_EXCLUDED"), std::string::npos);
  EXPECT_GT(data["sweep"].size(), 3u);
  EXPECT_NE(html.find("What --min-block-size would give"), std::string::npos);
}

// Names are anybody's.
TEST(Report, NamesOfAModelAreNoMarkup) {
  TemporaryFolder folder;
  const std::string evil = "<img src=x onerror=alert(1)>\xE2\x80\xAE&\"'";
  const std::string path =
      folder.write("a<b>&.ir",
                   "graph(%x : Tensor):\n  %k : str = prim::Constant[value=\"</script><b>\\n\"]()\n"
                   "  %y : Tensor = aten::relu(%x), scope: __module." +
                       evil + "\n  %n : int = aten::len(%k), scope: </script>" + evil + "\n  return (%y, %n)\n");
  const std::string html = page({path, "--no-run"}, folder);
  EXPECT_EQ(count(html, "<script"), 2u);
  EXPECT_EQ(count(html, "</script"), 2u);
  EXPECT_EQ(html.find("<img"), std::string::npos);
  EXPECT_EQ(html.find("<b>&"), std::string::npos);
  EXPECT_EQ(html.find("\xE2\x80\xAE"), std::string::npos);
  const Json data = dataOf(html);
  ASSERT_EQ(data["modules"].size(), 1u);
  EXPECT_NE(data["modules"][0].text.find("<img src=x onerror=alert(1)>\\u202e&"), std::string::npos)
      << data["modules"][0].text;
}

TEST(Report, LabelsOfTenMegabytesAreCutShort) {
  TemporaryFolder folder;
  const std::string label(10'000'000, 'a');
  const std::string path =
      folder.write("long.ir", "graph(%x : Tensor):\n  %k : str = prim::Constant[value=\"" + label + "\"]()\n" + "  %y" +
                                  label.substr(0, 60'000) + " : Tensor = aten::relu(%x), scope: __module." +
                                  label.substr(0, 60'000) + "\n  %n : int = aten::len(%k)\n  return (%n)\n");
  EXPECT_LT(page({path, "--no-run"}, folder).size(), 200'000u);
}

TEST(Report, TenThousandNodesAreThreeMegabytes) {
  TemporaryFolder folder;
  std::string text =
      "graph(%x.1 : Float(4, 8, strides=[8, 1], requires_grad=0, device=cpu)):\n"
      "  %one : int = prim::Constant[value=1]()\n";
  std::string last = "x.1", before = "x.1";
  for (int i = 0; i < 10'000; ++i) {
    const std::string name = "input." + std::to_string(i);
    const std::string scope = ", scope: __module.layers." + std::to_string(i / 20) + "/__module.layers." +
                              std::to_string(i / 20) + (i % 2 ? ".norm" : ".act") + " # model.py:" + std::to_string(i) +
                              ":1\n";
    text += "  %" + name +
            " : Tensor = " + (i % 2 ? "aten::add(%" + last + ", %" + before + ", %one)" : "aten::relu(%" + last + ")") +
            scope;
    before = last, last = name;
  }
  const std::string path = folder.write("large.ir", text + "  return (%" + last + ")\n");
  const std::string html = page({path, "--no-run"}, folder);
  EXPECT_LT(html.size(), 3'000'000u);
  EXPECT_EQ(count(html, "<tr id=n"), 10'002u);
  EXPECT_EQ(dataOf(html)["rows"].size(), 10'002u);
}

// Of a folder that build has made a run is a text.
TEST(Report, HasTheStepsOfALanguageModelThatWasBuilt) {
  TemporaryFolder folder;
  const std::string text = TSCOMPILE_SOURCE_DIR "/samples/language/byte_gpt/model", built = folder / "built";
  ASSERT_EQ(runCli({"build", text + ".ir", "-w", text + ".weights", "-o", built, "--set", "max_seq_len=32"}).code, 0);
  const std::vector<std::string> words = {built, "--duration", "20ms", "--shape", "prompt=8", "--shape", "new=4"};
  const Json data = dataOf(page(words, folder));
  EXPECT_EQ(data["model"].text, built);
  EXPECT_EQ(data["inputs"].size(), 2u);
  EXPECT_EQ(data["inputs"][0]["name"].text, "prompt");
  EXPECT_EQ(data["inputs"][0]["given"].text, "8");
  EXPECT_EQ(data["inputs"][1]["given"].text, "4");
  EXPECT_GT(data["file_bytes"].number, 1'000'000);
  EXPECT_GT(data["weight_bytes"].number, 500'000);
  EXPECT_GT(data["run"]["latency_ms"]["median"].number, 0);
  double us = data["run"]["other_us"].number;
  for (const Json& row : data["rows"].items) {
    us += row["us"].number;
    // Of the cache, which has some hundred kilobytes, a step reads and writes little.
    if (!row["layer"].text.starts_with("plugin")) continue;
    EXPECT_LT(row["bytes"].number, 1e5) << row["layer"].text;
  }
  EXPECT_NEAR(us, data["run"]["profiled_us"].number, 0.02 * us + 1);
  EXPECT_GT(data["run"]["modules"].size(), 0u);
  const CliResult look = runCli({"report", built, "--no-run", "--format", "json", "-q"});
  EXPECT_EQ(look.code, 0) << look.err;
  EXPECT_EQ(parseJson(look.out)["rows"].size(), data["rows"].size());
  const CliResult other = runCli({"report", built, "-i", "x=3", "-o", folder / "r.html"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("--input is for other models"), std::string::npos) << other.err;
}

TEST(Report, NeedsAFileToWrite) {
  const CliResult r = runCli({"report", model("lenet_scripted/frozen.ir")});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("report needs a file to write"), std::string::npos);
}

TEST(Markup, WhatHidesIsSpelledOut) {
  EXPECT_EQ(shown("a\tb\x01\xE2\x80\xAE\xFF"), "a\\u0009b\\u0001\\u202e\uFFFD");
  EXPECT_EQ(shown("größe"), "größe");
  EXPECT_EQ(shown("ääääää", 5), "äää…");
  EXPECT_EQ(escaped("<a href='x'>&\""), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;");
  EXPECT_EQ(scriptSafe("{\"a\": \"</script>\"}"), "{\"a\": \"\\u003c/script>\"}");
  EXPECT_EQ(timeText(1234.5), "1.23 ms");
  EXPECT_EQ(timeText(0.5), "0.500 µs");
  EXPECT_EQ(number(0), "0");
}

}  // namespace
}  // namespace tscompile::test
