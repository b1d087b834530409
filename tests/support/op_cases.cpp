#include "tests/support/op_cases.h"

#include "api/compiler.h"
#include "ir/support/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tscompile::test {

std::vector<Case> readCases(const std::string& path) {
  std::vector<Case> cases;
  std::ifstream in(path);
  std::string line;
  int number = 0;
  Row row;
  bool open = false;
  auto flush = [&] {
    if (open) cases.back().rows.push_back(row);
    row = Row();
    open = false;
  };
  while (std::getline(in, line)) {
    ++number;
    auto value = [&](size_t skip) { return std::string(trim(std::string_view(line).substr(skip))); };
    if (startsWith(line, "== ")) {
      flush();
      cases.push_back({line.substr(3), path, "", -1, -1, {}});
    } else if (line.empty()) {
      flush();
    } else if (startsWith(line, "tol:")) {
      std::istringstream(value(4)) >> cases.back().rtol >> cases.back().atol;
    } else if (startsWith(line, "in:") || startsWith(line, "out:") || startsWith(line, "err:") ||
               startsWith(line, "after")) {
      if (!open) row.line = number;
      open = true;
      if (startsWith(line, "in:")) row.inputs.push_back(value(3));
      if (startsWith(line, "out:")) row.outputs.push_back(value(4));
      if (startsWith(line, "err:")) row.error = value(4);
      if (startsWith(line, "after")) row.after[std::stoul(line.substr(5))] = value(line.find(':') + 1);
    } else if (!startsWith(line, "# ") && !cases.empty()) {
      cases.back().graph += line + "\n";
    }
  }
  flush();
  return cases;
}

std::vector<std::string> allCaseFiles() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(TSCOMPILE_TESTS_DIR "/ops"))
    if (entry.path().extension() == ".cases") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

IValue read(const std::string& text, TypePtr type) {
  Diagnostics d;
  Result<IValue> v = parseValueText(text, "value", d, type);
  EXPECT_TRUE(v.ok()) << renderDiagnostics(d, "op_tests");
  return v ? *v : IValue();
}

}  // namespace tscompile::test
