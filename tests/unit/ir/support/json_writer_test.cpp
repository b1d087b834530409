#include "ir/support/json_writer.h"

#include "tests/support/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace tscompile {
namespace {

TEST(JsonWriter, WritesWhatReadersRead) {
  std::ostringstream text;
  JsonWriter json(text);
  json.beginObject();
  json.field("a\"b\n\x01", "x\\y\xff");
  json.key("list");
  json.beginArray();
  json.value(1);
  json.newLine();
  json.value(true);
  json.null();
  json.beginObject();
  json.endObject();
  json.newLine();
  json.endArray();
  json.field("least", INT64_MIN);
  json.field("greatest", UINT64_MAX);
  json.endObject();
  json.finish();
  EXPECT_EQ(text.str(),
            "{\"a\\\"b\\n\\u0001\": \"x\\\\y\xef\xbf\xbd\", \"list\": [1,\ntrue, null, {}\n], \"least\": "
            "-9223372036854775808, "
            "\"greatest\": 18446744073709551615}\n");
  test::Json read = test::parseJson(text.str());
  EXPECT_EQ(read["list"].size(), 4u);
}

TEST(JsonWriter, FloatsReadBackExactly) {
  for (double v : {0.1, 1.0, -2.5, 1e300, 5e-324, 123456789.0, -0.0}) {
    std::ostringstream text;
    JsonWriter json(text);
    json.value(v);
    json.finish();
    EXPECT_EQ(std::strtod(text.str().c_str(), nullptr), v) << text.str();
    EXPECT_NE(text.str().find_first_of(".e"), std::string::npos) << text.str();
  }
  std::ostringstream text;
  JsonWriter json(text);
  json.beginArray();
  json.value(HUGE_VAL);
  json.value(-HUGE_VAL);
  json.value(std::nan(""));
  json.endArray();
  json.finish();
  EXPECT_EQ(text.str(), "[\"inf\", \"-inf\", \"nan\"]\n");
}

}  // namespace
}  // namespace tscompile
