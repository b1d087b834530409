// Every graph among the golden files and samples: each node has its reason, the order is kept, and the stitched graph
// is one that can be read.
#include "frontend/text/parse.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/text_graphs.h"
#include "ir/support/diagnostic_printer.h"
#include "partition/report.h"
#include "runtime/engine/support.h"
#include "tests/support/partitioning.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace tscompile::test {
namespace {

std::vector<std::filesystem::path> files() {
  std::vector<std::filesystem::path> out;
  for (const char* folder : {"tests/golden", "samples"})
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(TSCOMPILE_SOURCE_DIR) / folder)) {
      std::string extension = entry.path().extension();
      if (entry.is_regular_file() && (extension == ".ir" || extension == ".graph" || extension == ".dump"))
        out.push_back(entry.path());
    }
  std::sort(out.begin(), out.end());
  return out;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST(PartitionFiles, EveryNodeHasItsReason) {
  size_t graphs = 0;
  std::unique_ptr<EngineSupport> support = engineSupport(partitionOps());
  for (const std::filesystem::path& path : files()) {
    SCOPED_TRACE(path.string());
    Diagnostics diagnostics;
    ParseOptions parsing;
    parsing.registry = &partitionOps();
    Result<ParsedText> text = parseText(SourceFile::make(path, contents(path)), diagnostics, parsing);
    if (!text) continue;
    for (const Graph* g : topGraphs(*text)) {
      if (!verify(*g, partitionOps(), diagnostics)) continue;
      ++graphs;
      for (Strategy s : {Strategy::Dependency, Strategy::Greedy, Strategy::Minimal, Strategy::Cost}) {
        Partition p = segment(*g, partitionOps(), *support, optionsOf(1 + graphs % 3, s));
        checkPartition(*g, partitionOps(), p);
        std::string table = explainSegments(
            *g, p, [&](PartitionOptions options) { return segment(*g, partitionOps(), *support, options); });
        EXPECT_NE(table.find("runs in"), std::string::npos);
        forEachNode(*g, [&](const Node* n) { EXPECT_FALSE(explainNode(n, p).empty()); });
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
  EXPECT_GT(graphs, 100u);
}

}  // namespace tscompile::test
