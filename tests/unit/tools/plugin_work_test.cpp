// What commands tell of the work of plugins, and of their fields.
#include "tests/support/cli.h"
#include "tests/support/json.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

constexpr const char* kGraph =
    "graph(%x : Float(2, 3)):\n"
    "  %y : Tensor = tensorrt_llm::Identity(%x)\n"
    "  %z : Tensor = tensorrt_llm::Identity(%y)\n"
    "  return (%z)\n";

TEST(PluginWork, IsToldBehindARun) {
  TemporaryFolder folder;
  std::string graph = folder.write("g.ir", kGraph);
  CliResult r = runCli({"run", graph, "-i", "x=2x3:f32:zeros", "-v"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("tensorrt_llm::Identity version 1: 2 calls, "), std::string::npos) << r.err;
  EXPECT_NE(r.err.find(" us, 48 bytes of results, workspace 0 bytes, "), std::string::npos) << r.err;
  r = runCli({"run", graph, "-i", "x=2x3:f32:zeros"});
  EXPECT_EQ(r.err.find("calls"), std::string::npos) << r.err;
}

TEST(PluginWork, IsPartOfAProfile) {
  TemporaryFolder folder;
  std::string graph = folder.write("g.ir", kGraph);
  CliResult r = runCli({"profile", graph, "--runs", "3"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("\nplugins, in all runs\n  tensorrt_llm::Identity version 1: 6 calls, "), std::string::npos)
      << r.out;
  r = runCli({"profile", graph, "--runs", "3", "--format", "json"});
  Json json = parseJson(r.out);
  const Json& work = json["plugins"][0];
  EXPECT_EQ(work["plugin"].text, "tensorrt_llm::Identity version 1");
  EXPECT_EQ(work["calls"].number, 6);
  EXPECT_EQ(work["bytes"].number, 6 * 24);
  EXPECT_GE(work["instances"].number, 1);
  std::string plain = folder.write("p.ir", "graph(%x : Float(2)):\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n");
  EXPECT_EQ(runCli({"profile", plain, "--runs", "3"}).out.find("plugins"), std::string::npos);
}

TEST(PluginWork, SchemasHaveTheAttributesOfEveryPlugin) {
  Json schema = parseJson(runCli({"plugins", "show", "Rmsnorm", "--format", "json"}).out);
  const Json& properties = schema["fields"]["properties"];
  EXPECT_EQ(properties["inputs"]["items"]["enum"][0].text, "x");
  EXPECT_EQ(properties["plugin_version"]["type"].text, "string");
  EXPECT_EQ(properties["inplace"]["enum"][1].number, 1);
}

}  // namespace
}  // namespace tscompile::test
