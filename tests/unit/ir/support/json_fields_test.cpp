#include "ir/support/json_fields.h"

#include "ir/support/split.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

namespace tscompile {
namespace {

struct Inner {
  int n;
  template <class Visit>
  void fields(Visit&& visit) const {
    visit("n", n);
  }
};

struct Outer {
  std::optional<double> ratio;
  OrNull<std::string> name;
  std::vector<Inner> items;
  std::map<std::string, int> counts;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("ratio", ratio);
    visit("name", name);
    visit("plain", items);
    visit("lines", Lines{items, true});
    visit("counts", Line{Members{counts}});
  }
};

std::string jsonOf(const Outer& v) {
  std::ostringstream out;
  writeJson(out, v);
  return out.str();
}

TEST(JsonFields, WritesWhatIsThere) {
  EXPECT_EQ(jsonOf({0.5, {"a"}, {{1}, {2}}, {{"k", 3}}}),
            "{\"ratio\": 0.5, \"name\": \"a\", \"plain\": [{\"n\": 1}, {\"n\": 2}], \"lines\": [\n{\"n\": 1},\n{\"n\": "
            "2}\n],\n\"counts\": {\"k\": 3}}\n");
  EXPECT_EQ(jsonOf({}), "{\"name\": null, \"plain\": [], \"lines\": [\n],\n\"counts\": {}}\n");
}

TEST(Split, HasOnePieceMoreThanSeparators) {
  using Pieces = std::vector<std::string_view>;
  EXPECT_EQ(split("a,b", ','), (Pieces{"a", "b"}));
  EXPECT_EQ(split("", ','), Pieces{""});
  EXPECT_EQ(split(",a,", ','), (Pieces{"", "a", ""}));
}

}  // namespace
}  // namespace tscompile
