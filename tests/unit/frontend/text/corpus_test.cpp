// Real texts of PyTorch 1.13 are read, and print back byte for byte.
#include "frontend/text/parse.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/support/text.h"
#include "runtime/registry.h"
#include "tests/support/json.h"
#include "tests/support/sha256.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <sstream>

namespace tscompile {
namespace {

const std::string kFolder = std::string(TSCOMPILE_TESTS_DIR) + "/data/corpus/text/";

std::vector<std::string> allFiles() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".ir") out.push_back(entry.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}

struct Read {
  ParsedText text;
  std::string source;
};

// The text of a corpus file, which must be readable.
Read readFileOf(const std::string& name) {
  Read r;
  r.source = test::readText(kFolder + name);
  Diagnostics diagnostics;
  ParseOptions options;
  options.registry = &allOps();
  Result<ParsedText> parsed = parseText(SourceFile::make(name, r.source), diagnostics, options);
  EXPECT_TRUE(parsed.ok()) << renderDiagnostics(diagnostics, "test");
  if (parsed) r.text = std::move(*parsed);
  return r;
}

std::string printed(const ParsedText& text, const PrintOptions& options = {}) {
  std::string out;
  TextSink sink = [&](std::string_view piece) { out += piece; };
  if (text.module) printDump(*text.module, sink, options);
  for (const auto& g : text.graphs) printGraph(*g, sink, options);
  return out;
}

// The first line in which texts differ, or "".
std::string difference(const std::string& a, const std::string& b) {
  std::istringstream left(a), right(b);
  std::string x, y;
  for (int line = 1;; ++line) {
    bool more = static_cast<bool>(std::getline(left, x)), andMore = static_cast<bool>(std::getline(right, y));
    if (!more && !andMore) return "";
    if (more != andMore || x != y) return "line " + std::to_string(line) + ":\n" + x + "\n" + y;
  }
}

// ---- the structure hash of make_corpus.py: names, kinds, attribute names, blocks ----

template <class Range, class ToName>
std::string names(const Range& range, ToName toName) {
  std::string out = join(range, ",", toName);
  return out.empty() ? "-" : out;
}
std::string nameOfUse(const Use& u) { return "%" + u.value->name(); }
std::string nameOfValue(const Value* v) { return "%" + v->name(); }

struct Structure {
  std::vector<std::string> lines;
  size_t graphs = 0, nodes = 0, nodesAll = 0, depth = 0;

  void graph(const Graph& g, bool isMain) {
    ++graphs;
    std::vector<const Node*> groups;
    lines.push_back("G " + names(g.inputs(), nameOfValue));
    block(g.block(), isMain, 0, groups);
    lines.push_back("R " + names(g.outputs(), nameOfUse));
    for (const Node* n : groups) graph(*n->subgraph(), false);
  }

  // Corpus texts nest a few levels only.
  void block(const Block* b, bool isMain, size_t level, std::vector<const Node*>& groups) {
    for (const Node* n : b->nodes()) {
      ++nodesAll;
      nodes += isMain;
      depth = std::max(depth, level);
      std::vector<std::string> attributes;
      if (!n->python)
        for (const Attribute& a : n->attributes())
          if (a.name != sym::Subgraph) attributes.push_back(std::string(a.name.text()));
      if (n->subgraph() && !n->python) groups.push_back(n);
      if (n->subgraph() && n->kind() == sym::DifferentiableGraph) attributes.clear();
      std::string kind = n->python ? "^" + n->python->name : std::string(n->kind().text());
      lines.push_back("N " + kind + " " + names(n->inputs(), nameOfUse) + " " + names(n->outputs(), nameOfValue) + " " +
                      names(attributes, [](const std::string& a) { return a; }) + " " +
                      std::to_string(n->blocks().size()));
      for (const Block* inner : n->blocks()) {
        lines.push_back("B " + names(inner->parameters(), nameOfValue));
        block(inner, isMain, level + 1, groups);
        lines.push_back("R " + names(inner->results(), nameOfUse));
      }
    }
  }

  std::string hash() const {
    return test::sha256(join(lines, "\n", [](const std::string& l) { return l; }));
  }
};

TEST(Sha256, IsTheStandardOne) {
  EXPECT_EQ(test::sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(test::sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// ---- tests ----

TEST(Corpus, IsRead) {
  std::vector<std::string> files = allFiles();
  EXPECT_EQ(files.size(), 87u);
  for (const std::string& name : files) {
    SCOPED_TRACE(name);
    Read r = readFileOf(name);
    EXPECT_TRUE(r.text.module || r.text.graphs.size() == 1);
  }
}

TEST(Corpus, PrintsBackByteForByteAndHasThisStructure) {
  test::Json index = test::readJson(kFolder + "index.json");
  size_t checked = 0;
  for (const test::Json& entry : index["files"].items) {
    if (entry["synthetic"].boolean || !entry.has("structure")) continue;
    SCOPED_TRACE(entry["file"].text);
    Read r = readFileOf(entry["file"].text);
    ASSERT_EQ(r.text.graphs.size(), 1u);
    EXPECT_EQ(difference(printed(r.text), r.source), "");
    Structure s;
    s.graph(*r.text.graphs[0], true);
    EXPECT_EQ(s.hash(), entry["structure"].text);
    EXPECT_EQ(s.graphs, entry["graphs"].number);
    EXPECT_EQ(s.nodes, entry["nodes"].number);
    EXPECT_EQ(s.nodesAll, entry["nodes_all"].number);
    EXPECT_EQ(s.depth, entry["max_depth"].number);
    ++checked;
  }
  EXPECT_EQ(checked, 74u);
}

TEST(Corpus, PrintingIsAFixpoint) {
  for (const std::string& name : allFiles()) {
    SCOPED_TRACE(name);
    std::string once = printed(readFileOf(name).text);
    Diagnostics diagnostics;
    Result<ParsedText> again = parseText(SourceFile::make(name, once), diagnostics);
    ASSERT_TRUE(again.ok()) << renderDiagnostics(diagnostics, "test");
    EXPECT_EQ(difference(printed(*again), once), "");
  }
}

TEST(Corpus, Verifies) {
  for (const std::string& name : allFiles()) {
    SCOPED_TRACE(name);
    Read r = readFileOf(name);
    Diagnostics diagnostics;
    std::vector<const Graph*> graphs;
    for (const auto& g : r.text.graphs) graphs.push_back(g.get());
    if (r.text.module) {
      for (const DumpedModule& m : r.text.module->modules)
        for (const DumpedMethod& method : m.methods) graphs.push_back(method.graph.get());
    }
    for (const Graph* g : graphs)
      EXPECT_TRUE(g && verify(*g, allOps(), diagnostics)) << renderDiagnostics(diagnostics, "test");
  }
}

// Class names as they were before PyTorch made them unique: "__torch__.___torch_mangle_8.LeNet".
std::string withoutMangling(const std::string& text) {
  return std::regex_replace(text, std::regex("___torch_mangle_[0-9]+\\."), "");
}

std::string structureText(const Graph& g) {
  Structure s;
  s.graph(g, true);
  return s.hash();
}

// The type verbosity of a text changes how much it says, not what graph it is.
TEST(Corpus, VerbosityFormsAreTheSameGraph) {
  Read full = readFileOf("lenet.trace_inlined.ir");
  for (int verbosity : {0, 1, 2}) {
    std::string name = "lenet.trace_verbosity" + std::to_string(verbosity) + ".ir";
    SCOPED_TRACE(name);
    Read r = readFileOf(name);
    PrintOptions options;
    options.typeVerbosity = verbosity;
    EXPECT_EQ(difference(printed(r.text, options), r.source), "");
    EXPECT_EQ(difference(withoutMangling(printed(full.text, options)), withoutMangling(r.source)), "");
    EXPECT_EQ(structureText(*full.text.graphs[0]), structureText(*r.text.graphs[0]));
  }
}

// Texts in the notations of older versions are the graphs that 1.13 prints otherwise; tests/golden/parse/legacy_* hold
// what they print as.
TEST(Corpus, LegacyNotationsAreTheSameGraph) {
  std::string lenet = structureText(*readFileOf("lenet.trace_inlined.ir").text.graphs[0]);
  for (const char* version : {"v10", "v12", "v14", "v16", "v17"}) {
    SCOPED_TRACE(version);
    EXPECT_EQ(structureText(*readFileOf(std::string("legacy_lenet.") + version + ".ir").text.graphs[0]), lenet);
  }
  EXPECT_EQ(structureText(*readFileOf("legacy_loops.v10.ir").text.graphs[0]),
            structureText(*readFileOf("legacy_loops.v12.ir").text.graphs[0]));
}

// Dumps print their values as they found them; addresses of objects and all.
TEST(Corpus, DumpsPrintBack) {
  for (const char* name : {"lenet.module_dump.ir", "tinygpt.module_dump.ir", "vae.module_dump.ir"}) {
    SCOPED_TRACE(name);
    Read r = readFileOf(name);
    ASSERT_TRUE(r.text.module);
    EXPECT_EQ(difference(printed(r.text), r.source), "");
  }
}

TEST(Corpus, MethodsOfDumpsAreTheGraphsThatModulesPrint) {
  Read dump = readFileOf("lenet.module_dump.ir"), graph = readFileOf("lenet.script.ir");
  ASSERT_TRUE(dump.text.module);
  const DumpedMethod* forward = dump.text.module->modules[0].method("forward");
  ASSERT_TRUE(forward && forward->graph);
  EXPECT_EQ(difference(graphText(*forward->graph), graph.source), "");
}

}  // namespace
}  // namespace tscompile
