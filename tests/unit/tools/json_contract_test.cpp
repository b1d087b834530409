// What every command writes with --format json is one object that its schema describes.
#include "tests/support/cli.h"
#include "tests/support/golden_file.h"
#include "tests/support/json.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace tscompile::test {
namespace {

std::string_view kindName(const Json& v) {
  switch (v.kind) {
    case Json::Kind::Null:
      return "null";
    case Json::Kind::Bool:
      return "boolean";
    case Json::Kind::Number:
      return v.number == std::floor(v.number) ? "integer" : "number";
    case Json::Kind::String:
      return "string";
    case Json::Kind::Array:
      return "array";
    case Json::Kind::Object:
      return "object";
  }
  return "";
}

bool isOfType(const Json& v, const std::string& type) {
  return type == kindName(v) || (type == "number" && v.kind == Json::Kind::Number);
}

// The part of JSON Schema that tools/schemas use.
class Validator {
 public:
  explicit Validator(const Json& whole) : whole_(whole) {}

  // Appends what does not hold.
  void check(const Json& v, const Json& schema, const std::string& at, std::vector<std::string>& faults) const {
    if (schema.has("$ref")) return check(v, whole_["$defs"][schema["$ref"].text.substr(8)], at, faults);
    checkKnown(schema, at, faults);
    checkAny(v, schema, at, faults);
    checkValue(v, schema, at, faults);
    checkFields(v, schema, at, faults);
    if (const Json& items = schema["items"]; !items.isNull())
      for (size_t i = 0; i < v.items.size(); ++i) check(v.items[i], items, at + "[" + std::to_string(i) + "]", faults);
  }

 private:
  static void checkKnown(const Json& schema, const std::string& at, std::vector<std::string>& faults) {
    static const std::set<std::string> known = {"$schema",    "title",    "description", "type",
                                                "properties", "required", "items",       "additionalProperties",
                                                "const",      "enum",     "$defs",       "anyOf"};
    for (const auto& [name, ignored] : schema.fields)
      if (!known.count(name)) faults.push_back(at + ": the schema has '" + name + "', which nothing checks");
  }
  void checkAny(const Json& v, const Json& schema, const std::string& at, std::vector<std::string>& faults) const {
    std::vector<std::string> first;
    for (const Json& one : schema["anyOf"].items) {
      std::vector<std::string> found;
      check(v, one, at, found);
      if (found.empty()) return;
      if (first.empty()) first = std::move(found);
    }
    faults.insert(faults.end(), first.begin(), first.end());
  }
  static void checkValue(const Json& v, const Json& schema, const std::string& at, std::vector<std::string>& faults) {
    if (const Json& type = schema["type"]; !type.isNull()) {
      std::vector<Json> types = type.kind == Json::Kind::Array ? type.items : std::vector<Json>{type};
      if (std::none_of(types.begin(), types.end(), [&](const Json& t) { return isOfType(v, t.text); }))
        faults.push_back(at + " is " + std::string(kindName(v)));
    }
    if (const Json& constant = schema["const"]; !constant.isNull() && constant.text != v.text)
      faults.push_back(at + " is '" + v.text + "', not '" + constant.text + "'");
    if (const Json& choices = schema["enum"]; !choices.isNull())
      if (std::none_of(choices.items.begin(), choices.items.end(), [&](const Json& c) { return c.text == v.text; }))
        faults.push_back(at + " is '" + v.text + "'");
  }
  void checkFields(const Json& v, const Json& schema, const std::string& at, std::vector<std::string>& faults) const {
    for (const Json& name : schema["required"].items)
      if (v.kind == Json::Kind::Object && !v.has(name.text)) faults.push_back(at + " has no '" + name.text + "'");
    const Json& properties = schema["properties"];
    for (const auto& [name, value] : v.fields) {
      if (properties.has(name))
        check(value, properties[name], at + "." + name, faults);
      else if (const Json& others = schema["additionalProperties"]; !others.isNull())
        check(value, others, at + "." + name, faults);
      else if (!properties.isNull())
        faults.push_back(at + " has '" + name + "', which the schema does not tell of");
    }
  }

  const Json& whole_;
};

void validate(const Json& v, const Json& schema, const std::string& at, std::vector<std::string>& faults) {
  Validator(schema).check(v, schema, at, faults);
}

std::string joined(const std::vector<std::string>& faults) {
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(faults.size(), 20); ++i) out += faults[i] + "\n";
  return out;
}

Json schemaOf(const std::string& tag) { return parseJson(runCli({"schema", tag}).out); }

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (size_t at; (at = text.find(what)) != std::string::npos;) text.replace(at, what.size(), with);
  return text;
}

struct Call {
  std::string line;
  CliResult result;
};

std::vector<Call> runCalls(const TemporaryFolder& folder) {
  std::vector<Call> out;
  std::istringstream lines(readText(TSCOMPILE_TESTS_DIR "/data/json_calls.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::string text = replaced(line, "%M", TSCOMPILE_SOURCE_DIR "/samples/models");
    text = replaced(replaced(text, "%R", TSCOMPILE_SOURCE_DIR), "%t", folder.path());
    std::vector<std::string> words = shellWords(text);
    words.insert(words.end(), {"--format", "json"});
    out.push_back({line, runCli(words)});
  }
  return out;
}

TEST(JsonContract, EveryCommandKeepsItsSchema) {
  TemporaryFolder folder;
  std::set<std::string> commands, tags;
  for (const Call& call : runCalls(folder)) {
    commands.insert(call.line.substr(0, call.line.find(' ')));
    EXPECT_LE(call.result.code, 1) << call.line << "\n" << call.result.err;
    const Json value = parseJson(call.result.out);
    ASSERT_EQ(value.kind, Json::Kind::Object) << call.line << "\n" << call.result.out.substr(0, 200);
    const std::string tag = value["schema"].text;
    ASSERT_FALSE(tag.empty()) << call.line;
    tags.insert(tag);
    const Json schema = schemaOf(tag);
    ASSERT_EQ(schema["title"].text, tag) << call.line;
    std::vector<std::string> faults;
    validate(value, schema, "", faults);
    EXPECT_TRUE(faults.empty()) << call.line << "\n" << joined(faults);
  }
  // None is left out.
  std::istringstream def(readText(TSCOMPILE_SOURCE_DIR "/tools/commands/commands.def"));
  for (std::string line; std::getline(def, line);)
    if (line.starts_with("TS_COMMAND(")) {
      EXPECT_TRUE(commands.count(line.substr(11, line.find(')') - 11))) << line;
    }
  // And each schema is of something.
  // Of standard error, of libraries, of streams.
  tags.insert({"tscompile.diagnostic/1", "tscompile.plugins_check/1", "tscompile.generate_event/1"});
  const Json list = parseJson(runCli({"schema", "--format", "json"}).out);
  for (const Json& name : list["names"].items) EXPECT_TRUE(tags.count("tscompile." + name.text + "/1")) << name.text;
}

TEST(JsonContract, EachEventOfAStreamKeepsItsSchema) {
  TemporaryFolder folder;
  const std::string model = TSCOMPILE_SOURCE_DIR "/samples/language/byte_gpt/model";
  ASSERT_EQ(runCli({"build", model + ".ir", "--weights", model + ".weights", "-o", folder / "built", "-q"}).code, 0);
  const std::string requests = folder.write("requests.jsonl",
                                            "{\"id\": 7, \"prompt_ids\": [1, 2], \"max_new_tokens\": 2}\n"
                                            "{\"prompt_ids\": [3], \"beam_width\": 2}\n"
                                            "{\"promt\": 1}\n");
  std::istringstream lines(
      runCli({"generate", folder / "built", "--prompts", requests, "--stream", "--log-probs"}).out);
  const Json schema = schemaOf("tscompile.generate_event/1");
  size_t events = 0;
  for (std::string line; std::getline(lines, line); ++events) {
    const Json value = parseJson(line);
    EXPECT_EQ(value["schema"].text, "tscompile.generate_event/1") << line;
    std::vector<std::string> faults;
    validate(value, schema, "", faults);
    EXPECT_TRUE(faults.empty()) << line << "\n" << joined(faults);
  }
  EXPECT_GE(events, 5u);
}

// Commands of which --format json makes no object.
bool hasOwnForm(const std::string& command) {
  const std::vector<std::string> words = shellWords(command);
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    static const std::set<std::string> own = {"--stream", "--help", "-h", "dot", "sarif", "text"};
    return own.count(word) != 0;
  });
}

// Nor is one in the corpus of goldens, which has outputs of all kinds, failures among them.
TEST(JsonContract, EveryCommandOfTheGoldensKeepsItsSchema) {
  std::map<std::string, Json> schemas;
  size_t checked = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TSCOMPILE_TESTS_DIR "/golden")) {
    if (entry.path().extension() != ".ir") continue;
    for (const GoldenRun& run : runGolden(entry.path(), "--format json")) {
      if (run.result.out.empty() || hasOwnForm(run.command)) continue;
      const Json value = parseJson(run.result.out);
      ASSERT_EQ(value.kind, Json::Kind::Object) << entry.path() << ": " << run.command << "\n" << run.result.out;
      if (value.has("$schema")) continue;
      const std::string tag = value["schema"].text;
      if (!schemas.count(tag)) schemas[tag] = schemaOf(tag);
      std::vector<std::string> faults;
      validate(value, schemas[tag], "", faults);
      EXPECT_TRUE(faults.empty()) << entry.path() << ": " << run.command << "\n" << joined(faults);
      ++checked;
    }
  }
  EXPECT_GE(checked, 500u);
}

// Fields that no call above has are in a schema all the same.
TEST(JsonContract, EveryFieldIsInASchema) {
  std::string schemas;
  const Json list = parseJson(runCli({"schema", "--format", "json"}).out);
  for (const Json& name : list["names"].items) schemas += runCli({"schema", name.text}).out;
  // Of other formats: traces, and lines of --stream.
  const std::set<std::string> others = {"args", "cat", "ph",          "pid",     "tid",
                                        "ts",   "dur", "traceEvents", "dropped", "token"};
  const std::regex visited("visit\\(\\s*\"([a-z_A-Z]+)\"");
  size_t count = 0;
  for (const char* folder : {"/tools", "/api/profile", "/partition"})
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(TSCOMPILE_SOURCE_DIR + std::string(folder))) {
      if (!entry.is_regular_file() || entry.path().filename() == "sarif.cpp") continue;
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
      const std::string text = readText(entry.path());
      for (std::sregex_iterator at(text.begin(), text.end(), visited), end; at != end; ++at, ++count) {
        const std::string name = (*at)[1];
        if (!others.count(name)) {
          EXPECT_NE(schemas.find('"' + name + "\":"), std::string::npos) << entry.path() << ": " << name;
        }
      }
    }
  EXPECT_GE(count, 300u);
}

// Names of properties are in one style; those of a model are not ours.
void checkNames(const Json& schema, const std::string& at) {
  for (const auto& [name, property] : schema["properties"].fields) {
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos) << at << "." << name;
    checkNames(property, at + "." + name);
  }
  if (schema.has("items")) checkNames(schema["items"], at + "[]");
  for (const auto& [name, kind] : schema["$defs"].fields) checkNames(kind, at + "#" + name);
}

TEST(JsonContract, KeysAreInOneStyle) {
  const Json list = parseJson(runCli({"schema", "--format", "json"}).out);
  EXPECT_GE(list["names"].items.size(), 28u);
  for (const Json& name : list["names"].items) checkNames(schemaOf(name.text), name.text);
}

TEST(JsonContract, DiagnosticsKeepTheirSchema) {
  const Json schema = schemaOf("diagnostic");
  const CliResult bad =
      runCli({"parse", TSCOMPILE_TESTS_DIR "/golden/parse/bad_json_errors.ir", "--error-format", "json"});
  std::istringstream lines(bad.err);
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    std::vector<std::string> faults;
    validate(parseJson(line), schema, "", faults);
    EXPECT_TRUE(faults.empty()) << joined(faults) << line;
  }
  EXPECT_GE(count, 2u);
}

TEST(JsonContract, WhatIsSaidBesideIsJsonAsWell) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"lint", TSCOMPILE_SOURCE_DIR "/samples/models/loops/model.ir"},
        {"lower", TSCOMPILE_SOURCE_DIR "/samples/models/lenet_scripted/model.dump", "--trace"}}) {
    std::vector<std::string> words = args;
    words.insert(words.end(), {"--error-format", "json"});
    std::istringstream lines(runCli(words).err);
    size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count)
      EXPECT_EQ(parseJson(line)["schema"].text, "tscompile.diagnostic/1") << line;
    EXPECT_GE(count, 1u) << args[0];
  }
}

TEST(JsonContract, TheValidatorFindsFaults) {
  const Json schema = schemaOf("version");
  auto faults = [&](const std::string& text) {
    std::vector<std::string> out;
    validate(parseJson(text), schema, "", out);
    return joined(out);
  };
  const std::string good = runCli({"version", "--format", "json"}).out;
  EXPECT_EQ(faults(good), "");
  EXPECT_EQ(faults(replaced(good, "tscompile.version/1", "tscompile.version/2")),
            ".schema is 'tscompile.version/2', not 'tscompile.version/1'\n");
  EXPECT_NE(faults(replaced(good, "\"compiler\"", "\"compilr\"")).find("has no 'compiler'"), std::string::npos);
  EXPECT_NE(faults(R"({"schema": "tscompile.version/1", "version": 3})").find(".version is integer"),
            std::string::npos);
}

TEST(Schema, AnotherVersionIsRefused) {
  const CliResult r = runCli({"schema", "tscompile.bench/2"});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("no version '2' of the schema bench"), std::string::npos) << r.err;
  EXPECT_EQ(runCli({"schema", "bench/1"}).code, 0);
}

TEST(Schema, UnknownNamesAreRefusedWithTheNearest) {
  const CliResult r = runCli({"schema", "bensh"});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("did you mean 'bench'?"), std::string::npos);
}

}  // namespace
}  // namespace tscompile::test
