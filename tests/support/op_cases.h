// The rows of tests/ops/*.cases; see README.md there.
#pragma once

#include "ir/values/ivalue.h"
#include "ir/values/type.h"

#include <map>
#include <string>
#include <vector>

namespace tscompile::test {

struct Row {
  std::vector<std::string> inputs, outputs;
  std::map<size_t, std::string> after;  // inputs as the run leaves them
  std::string error;
  int line = 0;
};
struct Case {
  std::string name, file, graph;
  double rtol = -1, atol = -1;
  std::vector<Row> rows;
};

std::vector<std::string> allCaseFiles();
std::vector<Case> readCases(const std::string& path);
// A value as rows write it.
IValue read(const std::string& text, TypePtr type);

}  // namespace tscompile::test
