// lint finds what is wrong in one run, also in texts that cannot be read.
#include "tests/support/cli.h"
#include "tests/support/json.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tscompile::test {
namespace {

// A chain of layers, some with two inputs, some in blocks, each value taken by the next.
std::vector<std::string> model(size_t nodes) {
  std::vector<std::string> out = {"graph(%x.0 : Tensor, %c : bool):", "  %one : int = prim::Constant[value=1]()"};
  for (size_t i = 0; i < nodes; ++i) {
    const std::string in = "%x." + std::to_string(i), name = "  %x." + std::to_string(i + 1) + " : Tensor = ";
    const char* calls[] = {"aten::relu(", "aten::tanh(", "aten::sigmoid("};
    if (i % 8 == 7) {
      const std::string inner = "%t." + std::to_string(i);
      for (const std::string& line :
           {name + "prim::If(%c)", std::string("    block0():"), "      -> (" + in + ")", std::string("    block1():"),
            "      " + inner + " : Tensor = aten::neg(" + in + ")", "      -> (" + inner + ")"})
        out.push_back(line);
      continue;
    }
    out.push_back(name + (i % 4 == 3 ? "aten::add(" + in + ", " + in + ", %one)" : calls[i % 3] + in + ")"));
  }
  out.push_back("  return (%x." + std::to_string(nodes) + ")");
  return out;
}

void replace(std::string& line, const std::string& what, const std::string& with) {
  const size_t at = line.find(what);
  if (at != std::string::npos) line.replace(at, what.size(), with);
}

// One mistake in a line. Operators are told of once, so `number` makes each another one.
void spoil(std::string& line, size_t kind, size_t number) {
  const size_t open = line.rfind('(');
  switch (kind) {
    case 0:  // a name that nothing has
      line.replace(line.find('%', open), 2, "%zz");
      break;
    case 1:  // no bracket
      line.erase(open, 1);
      break;
    case 2:  // no such type
      replace(line, " : Tensor", " : Tensr");
      break;
    case 3:  // no such operator
      line.insert(line.find("aten::") + 6, "x" + std::to_string(number));
      break;
    case 4:  // too many arguments
      for (size_t i = 0; i < 3 + number; ++i) line.insert(line.size() - 1, ", %one");
      break;
    case 5:  // a bracket that is never closed
      line.pop_back();
      break;
    case 6:  // a name that is none
      line.erase(line.find('%'), 1);
      break;
    case 7:  // no colon behind a block
      line.pop_back();
      break;
    default:  // no equals sign
      replace(line, " = ", " ");
  }
}

// Which mistakes a line may have.
std::vector<size_t> kindsFor(const std::string& line) {
  if (line.find("block") != std::string::npos) return {7};
  if (line.find("->") != std::string::npos) return {0, 1, 5};
  if (line.find("prim::If") != std::string::npos) return {0, 1, 2, 5, 6, 8};
  return {0, 1, 2, 3, 4, 5, 6, 8};
}

TEST(Lint, FindsMixedMistakesInOneRun) {
  constexpr size_t kNodes = 40;
  std::mt19937 random(7);
  size_t made = 0, found = 0, told = 0, spurious = 0;
  TemporaryFolder folder;
  for (int file = 0; file < 60; ++file) {
    std::vector<std::string> lines = model(kNodes);
    std::set<size_t> wrong;
    for (size_t n = 1 + random() % 8; wrong.size() < n;) {
      const size_t at = 3 + random() % (lines.size() - 4);
      if (!wrong.insert(at).second) continue;
      const std::vector<size_t> kinds = kindsFor(lines[at]);
      spoil(lines[at], kinds[random() % kinds.size()], wrong.size());
    }
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    const Json report = parseJson(runCli({"lint", folder.write("x.ir", text), "--format", "json"}).out);
    std::set<size_t> places;
    for (const Json& f : report["findings"].items) {
      const auto line = static_cast<size_t>(f["line"].number) - 1;
      places.insert(line);
      ++told;
      spurious += !wrong.count(line);
    }
    for (size_t at : wrong) found += places.count(at);
    made += wrong.size();
  }
  EXPECT_GE(static_cast<double>(found), 0.95 * static_cast<double>(made)) << found << " of " << made;
  EXPECT_LE(static_cast<double>(spurious), 0.05 * static_cast<double>(told)) << spurious << " of " << told;
}

// Lines of errors and warnings.
std::set<size_t> linesOf(const std::string& text) {
  TemporaryFolder folder;
  std::set<size_t> out;
  const Json report = parseJson(runCli({"lint", folder.write("x.ir", text), "--format", "json"}).out);
  for (const Json& f : report["findings"].items)
    if (f["severity"].text != "note") out.insert(static_cast<size_t>(f["line"].number));
  return out;
}

TEST(Lint, TypesThatAreNoneAreToldWhereTheyAre) {
  EXPECT_EQ(linesOf("graph(%x : Tensor, %n : int):\n  %c : boolx = aten::eq(%n, %n)\n  %y : Tensor = prim::If(%c)\n"
                    "    block0():\n      -> (%x)\n    block1():\n      -> (%x)\n  return (%y)\n"),
            (std::set<size_t>{2}));
  EXPECT_EQ(
      linesOf("graph(%x : Tensor):\n  %a : itn = prim::Constant[value=1]()\n  %l : itn[] = prim::ListConstruct(%a)\n"
              "  return (%l)\n"),
      (std::set<size_t>{2, 3}));
}

TEST(Lint, OperatorsAreToldThoughTheirInputsCannotBeRead) {
  EXPECT_EQ(linesOf("graph(%x : Tensor):\n  %n int = prim::Constant[value=1]()\n  %y : Tensor = aten::reluq(%x, %n)\n"
                    "  %z : Tensor = aten::relu(%y, %n, %n)\n  %w : Tensor = aten::add(%z, %z, %n)\n  return (%w)\n"),
            (std::set<size_t>{2, 3, 4}));
}

TEST(Lint, WarningsMayBeErrors) {
  TemporaryFolder folder;
  const std::string path = folder.write("x.ir", "graph(%x : Tensor):\n  %y : Tensor = aten::rleu(%x)\n  return (%y)\n");
  EXPECT_EQ(runCli({"lint", path}).code, 0);
  EXPECT_EQ(runCli({"lint", path, "--werror"}).code, 1);
  // What makes it fail is told in any case, and what is counted is what is told.
  const Json quiet = parseJson(runCli({"lint", path, "-q", "--werror", "--format", "json"}).out);
  EXPECT_EQ(quiet["findings"].items.size(), 1u);
  EXPECT_EQ(quiet["warnings"].number, 1);
  EXPECT_EQ(parseJson(runCli({"lint", path, "-q", "--format", "json"}).out)["warnings"].number, 0);
}

TEST(Lint, FindsNothingInWhatTheToolHasWritten) {
  TemporaryFolder folder;
  const std::string model = TSCOMPILE_SOURCE_DIR "/samples/models/lenet_archive/model.pt";
  ASSERT_EQ(runCli({"convert", model, "-o", folder / "text", "-q"}).code, 0);
  ASSERT_EQ(runCli({"compile", model, "--shape", "1x1x32x32", "-o", folder / "lenet.tse"}).code, 0);
  for (const std::string& file : {folder / "text/model.ir", folder / "lenet.tse"})
    EXPECT_EQ(runCli({"lint", file}).out, "") << file;
}

}  // namespace
}  // namespace tscompile::test
