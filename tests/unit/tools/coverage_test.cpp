// Every operator of the texts that PyTorch made is there, apart from what docs/operators.md leaves out.
#include "tests/support/cli.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <set>

namespace tscompile {
namespace {

TEST(Coverage, OfTheCorpus) {
  const std::set<std::string> leftOut{"^py_side",
                                      "^ScaleGrad",  // calls into Python
                                      "onnx::Conv",
                                      "onnx::Flatten",
                                      "onnx::Gemm",
                                      "onnx::MaxPool",
                                      "onnx::Relu",  // operators of another format
                                      "lenet.trace_verbosity0.ir aten::_convolution",
                                      "lenet.trace_verbosity0.ir aten::max_pool2d"};  // no types
  std::set<std::string> found;
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TSCOMPILE_TESTS_DIR "/data/corpus/text")) {
    if (entry.path().extension() != ".ir") continue;
    ++files;
    test::CliResult r = test::runCli({"ops", "--coverage", entry.path(), "--format", "json"});
    nlohmann::json document = nlohmann::json::parse(r.out);
    for (const auto& op : document["files"][0]["operators"]) {
      if (op["status"] == "implemented" || op["status"] == "structure") continue;
      std::string name = op["name"];
      bool isAboutTypes = op["status"] == "no-overload";
      found.insert(isAboutTypes ? entry.path().filename().string() + " " + name : name);
    }
  }
  EXPECT_EQ(found, leftOut);
  EXPECT_GE(files, 80u);
}

}  // namespace
}  // namespace tscompile
