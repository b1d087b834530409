#include "runtime/plugin/fields.h"

#include "frontend/files/section_file.h"
#include "ir/graph/graph.h"
#include "ir/support/split.h"
#include "ir/support/text.h"
#include "runtime/plugin/plugin_host.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

namespace tscompile {
namespace {

const char* typeName(uint32_t type) {
  switch (type) {
    case TSC_BOOL:
      return "bool";
    case TSC_INT:
      return "int";
    case TSC_FLOAT:
      return "float";
    case TSC_STRING:
      return "string";
    default:
      return "bytes";
  }
}
std::string kindName(uint32_t type, bool list) {
  return list ? fmt::format("list of {}", typeName(type)) : typeName(type);
}
bool isList(const tsc_field_info& info) { return info.flags & TSC_FIELD_LIST; }

bool isChoice(std::string_view choices, std::string_view value) {
  const std::vector<std::string_view> all = split(choices, '|');
  return std::find(all.begin(), all.end(), value) != all.end();
}

std::string numberText(double v) {
  return v == std::floor(v) && std::abs(v) < 1e15 ? std::to_string(static_cast<int64_t>(v)) : fmt::format("{}", v);
}

std::string problemOfItems(const tsc_field_info& info, const tsc_field& value) {
  for (size_t i = 0; i < value.count; ++i) {
    if (info.type == TSC_INT || info.type == TSC_FLOAT) {
      double v = info.type == TSC_INT ? static_cast<double>(static_cast<const int64_t*>(value.data)[i])
                                      : static_cast<const double*>(value.data)[i];
      if (!(v >= info.minimum && v <= info.maximum))
        return fmt::format("expected {}, got {}",
                           info.maximum >= 1e300    ? "at least " + numberText(info.minimum)
                           : info.minimum <= -1e300 ? "at most " + numberText(info.maximum)
                                                    : fmt::format("a number from {} to {}", numberText(info.minimum),
                                                                  numberText(info.maximum)),
                           numberText(v));
    }
    std::string_view choices = tsc::view(info.choices);
    if (info.type == TSC_STRING && !choices.empty()) {
      std::string_view v = tsc::view(static_cast<const tsc_str*>(value.data)[i]);
      if (!isChoice(choices, v)) return fmt::format("expected one of {}, got '{}'", choices, abbreviate(v, 80));
    }
  }
  return "";
}

// An attribute as a field; false if no field can be like it. Text does not tell lists without items apart, nor bool
// from int: the table does.
bool readAttribute(const IValue& v, const tsc_field_info& info, tsc::Field& f) {
  auto one = [&](const IValue& item) {
    if (item.isBool() && info.type == TSC_BOOL) return f.type = TSC_BOOL, f.bytes.push_back(item.toBool()), true;
    if (item.isInt() && info.type == TSC_BOOL && (item.toInt() == 0 || item.toInt() == 1))
      return f.type = TSC_BOOL, f.bytes.push_back(item.toInt() != 0), true;
    if (item.isBool()) return f.type = TSC_BOOL, f.bytes.push_back(item.toBool()), true;
    if (item.isInt()) return f.type = TSC_INT, f.integers.push_back(item.toInt()), true;
    if (item.isFloat()) return f.type = TSC_FLOAT, f.numbers.push_back(item.toFloat()), true;
    if (item.isString()) return f.type = TSC_STRING, f.strings.push_back(item.toString()), true;
    return false;
  };
  if (info.type == TSC_BYTES && v.isList()) {
    f.type = TSC_BYTES;
    for (const IValue& item : v.toList().items) {
      if (!item.isInt() || item.toInt() < 0 || item.toInt() > 255) return false;
      f.bytes.push_back(static_cast<uint8_t>(item.toInt()));
    }
    return true;
  }
  f.type = static_cast<tsc_field_type>(info.type);
  if (!v.isList()) return one(v);
  f.list = true;
  return std::all_of(v.toList().items.begin(), v.toList().items.end(), one);
}

const tsc_field_info* rowOf(const PluginCreator& creator, std::string_view name) {
  for (const tsc_field_info& info : creator.fields())
    if (tsc::view(info.name) == name) return &info;
  return nullptr;
}

std::string unknownField(const PluginCreator& creator, const std::string& name) {
  NearestName nearest(name);
  for (const tsc_field_info& info : creator.fields()) nearest.consider(tsc::view(info.name));
  return fmt::format("there is no field {}{}", abbreviate(name, 80),
                     nearest.found() ? ", did you mean " + nearest.name() + "?" : "");
}

// ---- bytes ----

class Writer {
 public:
  void number(uint64_t v) { raw(&v, sizeof(v)); }
  void text(std::string_view s) {
    number(s.size());
    out.append(s);
  }
  void raw(const void* data, size_t size) { out.append(static_cast<const char*>(data), size); }
  std::string out;
};

// Gives zeros and sets `failed` past the end.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  uint64_t number() {
    uint64_t v = 0;
    take(&v, sizeof(v));
    return v;
  }
  std::string text() {
    uint64_t size = number();
    if (size > rest_.size()) return fail(), "";
    std::string s(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return s;
  }
  template <class T>
  void items(std::vector<T>& into) {
    uint64_t count = number();
    if (count > rest_.size() / sizeof(T)) return fail();
    into.resize(count);
    if (count) take(into.data(), count * sizeof(T));
  }
  bool atEnd() const { return rest_.empty(); }
  bool failed = false;

 private:
  void fail() { failed = true, rest_ = {}; }
  void take(void* to, size_t size) {
    if (size > rest_.size()) return fail();
    std::memcpy(to, rest_.data(), size);
    rest_.remove_prefix(size);
  }
  std::string_view rest_;
};

tsc::Field readField(Reader& in) {
  tsc::Field f;
  f.name = in.text();
  uint64_t kind = in.number();
  f.type = static_cast<tsc_field_type>(kind & 0xff);
  f.list = kind & 0x100;
  if (f.type < TSC_BOOL || f.type > TSC_BYTES) in.failed = true;
  if (f.type == TSC_INT) in.items(f.integers);
  if (f.type == TSC_FLOAT) in.items(f.numbers);
  if (f.type == TSC_BOOL || f.type == TSC_BYTES) in.items(f.bytes);
  if (f.type == TSC_STRING)
    for (uint64_t count = in.number(); count > 0 && !in.failed; --count) f.strings.push_back(in.text());
  return f;
}

ParsedFields upgraded(const PluginCreator& creator, uint64_t version, const std::vector<tsc::Field>& fields) {
  const tsc_plugin& t = creator.table();
  ParsedFields out;
  if (!t.upgrade || version > t.fields_version) {
    out.problems.push_back(fmt::format("its fields were saved in version {}, and this plugin has version {}{}", version,
                                       t.fields_version,
                                       version > t.fields_version ? "" : ", without a way to upgrade them"));
    return out;
  }
  RawPluginFields raw(fields);
  std::vector<tsc::Field> made;
  std::string problem = callPlugin([&] {
    return t.upgrade(
        &pluginHost(), static_cast<uint32_t>(version), raw.data(), raw.size(),
        [](void* sink, const tsc_field* f) {
          static_cast<std::vector<tsc::Field>*>(sink)->push_back(tsc::Field::read(*f));
        },
        &made);
  });
  if (problem.empty()) return completeFields(std::move(made), creator);
  out.problems.push_back(fmt::format("its fields of version {} cannot be upgraded: {}", version, problem));
  return out;
}

IValue valueOf(const tsc::Field& f) {
  std::vector<IValue> items;
  TypePtr element = types().integer;
  for (int64_t v : f.integers) items.emplace_back(v);
  for (double v : f.numbers) items.emplace_back(v), element = types().floating;
  for (const std::string& v : f.strings) items.emplace_back(v), element = types().string;
  for (uint8_t v : f.bytes) items.emplace_back(static_cast<int64_t>(v));
  if (!f.list && f.type != TSC_BYTES) return items.at(0);
  if (f.type == TSC_FLOAT) element = types().floating;
  if (f.type == TSC_STRING) element = types().string;
  return Ref<ListValue>::make(element, std::move(items));
}

bool sameValues(const tsc::Field& a, const tsc::Field& b) {
  return a.type == b.type && a.list == b.list && a.integers == b.integers && a.numbers == b.numbers &&
         a.strings == b.strings && a.bytes == b.bytes;
}

}  // namespace

bool isReservedAttribute(std::string_view name) {
  return name == "inputs" || name == "plugin_version" || name == "inplace" || name == kPluginPhase;
}

std::string problemOfValue(const tsc_field_info& info, const tsc_field& value) {
  bool list = isList(info);
  if (value.type != info.type || (value.list != 0) != list)
    return fmt::format("expected {}, got {}", kindName(info.type, list), kindName(value.type, value.list));
  if (!list && info.type != TSC_BYTES && value.count != 1)
    return fmt::format("expected one {}, got {} of them", typeName(info.type), value.count);
  if (value.count && !value.data) return "it has no data";
  if ((list || info.type == TSC_BYTES) && (value.count < info.least || value.count > info.most))
    return fmt::format("expected {} to {} items, got {}", info.least, info.most, value.count);
  return problemOfItems(info, value);
}

ParsedFields completeFields(std::vector<tsc::Field> given, const PluginCreator& creator) {
  ParsedFields out;
  std::map<std::string, tsc::Field> byName;
  for (tsc::Field& f : given) {
    std::string name = f.name;
    if (!rowOf(creator, name))
      out.problems.push_back(unknownField(creator, name));
    else if (!byName.emplace(name, std::move(f)).second)
      out.problems.push_back("the field " + name + " is there twice");
  }
  for (const tsc_field_info& info : creator.fields()) {
    std::string name(tsc::view(info.name));
    auto it = byName.find(name);
    if (it == byName.end() && !info.fallback) {
      out.problems.push_back(fmt::format("the field {} ({}) is missing", name, kindName(info.type, isList(info))));
      continue;
    }
    tsc::Field f = it != byName.end() ? std::move(it->second) : tsc::Field::read(*info.fallback);
    f.name = name;
    f.give([&](const tsc_field& raw) {
      std::string problem = problemOfValue(info, raw);
      if (!problem.empty()) out.problems.push_back(fmt::format("the field {}: {}", name, problem));
    });
    out.fields.push_back(std::move(f));
  }
  return out;
}

ParsedFields fieldsOf(const Node& node, const PluginCreator& creator) {
  std::vector<tsc::Field> given;
  std::vector<std::string> problems;
  for (const Attribute& a : node.attributes()) {
    std::string name(a.name.text());
    if (isReservedAttribute(name)) continue;
    const tsc_field_info* info = rowOf(creator, name);
    tsc::Field f;
    f.name = name;
    if (!info) {
      given.push_back(std::move(f));  // completeFields tells what is near
    } else if (a.value() && readAttribute(*a.value(), *info, f)) {
      given.push_back(std::move(f));
    } else {
      problems.push_back(fmt::format("the field {}: expected {}, got another kind of value", name,
                                     kindName(info->type, isList(*info))));
      f = info->fallback ? tsc::Field::read(*info->fallback) : tsc::Field{};
      f.name = name;
      if (info->fallback) given.push_back(std::move(f));
    }
  }
  ParsedFields out = completeFields(std::move(given), creator);
  out.problems.insert(out.problems.begin(), problems.begin(), problems.end());
  return out;
}

std::string problemText(const PluginCreator& creator, const std::vector<std::string>& problems) {
  return fmt::format("{}::{}: {}", creator.key.ns, creator.key.name,
                     join(problems, "; ", [](const std::string& p) { return p; }));
}

void setAttributes(Node& node, const std::vector<tsc::Field>& fields, const PluginCreator& creator, bool all) {
  for (const tsc::Field& f : fields) {
    const tsc_field_info* info = rowOf(creator, f.name);
    if (!all && info && info->fallback && sameValues(tsc::Field::read(*info->fallback), f)) {
      node.removeAttribute(Symbol::of(f.name));
      continue;
    }
    node.setAttribute(Symbol::of(f.name), valueOf(f));
  }
}

std::string encodeFields(const PluginCreator& creator, const std::vector<tsc::Field>& fields) {
  Writer w;
  w.text(creator.key.ns + "::" + creator.key.name);
  w.text(creator.key.version);
  w.number(creator.table().fields_version);
  w.number(fields.size());
  for (const tsc::Field& f : fields) {
    w.text(f.name);
    w.number(f.type | (f.list ? 0x100u : 0u));
    auto items = [&](const auto& values) {
      w.number(values.size());
      if (!values.empty()) w.raw(values.data(), values.size() * sizeof(values[0]));
    };
    if (f.type == TSC_INT) items(f.integers);
    if (f.type == TSC_FLOAT) items(f.numbers);
    if (f.type == TSC_BOOL || f.type == TSC_BYTES) items(f.bytes);
    if (f.type == TSC_STRING) {
      w.number(f.strings.size());
      for (const std::string& s : f.strings) w.text(s);
    }
  }
  w.number(checksumOf(w.out));
  return std::move(w.out);
}

ParsedFields decodeFields(const PluginCreator& creator, std::string_view bytes) {
  ParsedFields out;
  auto fail = [&](std::string problem) {
    out.fields.clear();
    out.problems = {std::move(problem)};
    return out;
  };
  if (bytes.size() < sizeof(uint64_t)) return fail("its saved fields are cut off");
  uint64_t sum;
  std::memcpy(&sum, bytes.data() + bytes.size() - sizeof(sum), sizeof(sum));
  bytes.remove_suffix(sizeof(sum));
  if (sum != checksumOf(bytes)) return fail("its saved fields are damaged: the checksum is another");
  Reader in(bytes);
  std::string name = in.text(), version = in.text();
  if (in.failed || name != creator.key.ns + "::" + creator.key.name)
    return fail("its saved fields are those of " + abbreviate(name, 80));
  uint64_t fieldsVersion = in.number();
  std::vector<tsc::Field> fields;
  for (uint64_t count = in.number(); count > 0 && !in.failed; --count) fields.push_back(readField(in));
  if (in.failed || !in.atEnd()) return fail("its saved fields are malformed");
  if (fieldsVersion != creator.table().fields_version) return upgraded(creator, fieldsVersion, fields);
  return completeFields(std::move(fields), creator);
}

std::optional<PluginKey> keyOfSaved(std::string_view bytes) {
  Reader in(bytes);
  std::string name = in.text(), version = in.text();
  size_t colons = name.find("::");
  if (in.failed || colons == std::string::npos) return std::nullopt;
  return PluginKey{name.substr(0, colons), name.substr(colons + 2), version};
}

std::string describeField(const tsc_field_info& info) {
  std::string out = kindName(info.type, isList(info));
  if (info.choices.size) out += fmt::format(", one of {}", tsc::view(info.choices));
  bool low = info.minimum > -1e300, high = info.maximum < 1e300;
  if (low && high)
    out += fmt::format(", {} to {}", numberText(info.minimum), numberText(info.maximum));
  else if (low)
    out += fmt::format(", at least {}", numberText(info.minimum));
  else if (high)
    out += fmt::format(", at most {}", numberText(info.maximum));
  if (!info.fallback) return out + ", mandatory";
  tsc::Field f = tsc::Field::read(*info.fallback);
  auto items = [&]() -> std::string {
    if (f.type == TSC_INT) return join(f.integers, ", ", [](int64_t v) { return std::to_string(v); });
    if (f.type == TSC_FLOAT) return join(f.numbers, ", ", numberText);
    if (f.type == TSC_STRING) return join(f.strings, ", ", [](const std::string& s) { return jsonQuote(s); });
    if (f.type == TSC_BOOL) return join(f.bytes, ", ", [](uint8_t v) { return v ? "true" : "false"; });
    return counted(f.bytes.size(), "byte");
  };
  return out + ", default " + (isList(info) ? "[" + items() + "]" : items());
}

std::string fieldsSchema(const PluginCreator& creator) {
  nlohmann::ordered_json properties = nlohmann::ordered_json::object(), required = nlohmann::ordered_json::array();
  for (const tsc_field_info& info : creator.fields()) {
    nlohmann::ordered_json item;
    item["type"] = info.type == TSC_BOOL     ? "boolean"
                   : info.type == TSC_INT    ? "integer"
                   : info.type == TSC_FLOAT  ? "number"
                   : info.type == TSC_STRING ? "string"
                                             : "array";
    if (info.minimum > -1e300) item["minimum"] = info.minimum;
    if (info.maximum < 1e300) item["maximum"] = info.maximum;
    if (info.choices.size)
      for (std::string_view choice : split(tsc::view(info.choices), '|')) item["enum"].push_back(std::string(choice));
    if (isList(info)) item = {{"type", "array"}, {"items", item}};
    item["description"] = std::string(tsc::view(info.doc));
    if (info.fallback && info.type != TSC_BYTES) {
      nlohmann::ordered_json values = nlohmann::ordered_json::array();
      tsc::Field f = tsc::Field::read(*info.fallback);
      for (int64_t v : f.integers) values.push_back(v);
      for (double v : f.numbers) values.push_back(v);
      for (const std::string& v : f.strings) values.push_back(v);
      for (uint8_t v : f.bytes) values.push_back(v != 0);
      item["default"] = isList(info) ? values : values.at(0);
    }
    properties[std::string(tsc::view(info.name))] = item;
    if (!info.fallback) required.push_back(std::string(tsc::view(info.name)));
  }
  // What nodes of every plugin may have.
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (const tsc_port& port : creator.inputs()) names.push_back(std::string(tsc::view(port.name)));
  properties["inputs"] = {{"type", "array"},
                          {"items", {{"type", "string"}, {"enum", names}}},
                          {"uniqueItems", true},
                          {"description", "which inputs those of the node are; without it, the first ones in order"}};
  properties["plugin_version"] = {{"type", "string"},
                                  {"description", "which version of the plugin; without it, the highest"}};
  properties["inplace"] = {{"type", "integer"},
                           {"enum", {0, 1}},
                           {"description", "1: outputs that may be written over an input are"},
                           {"default", 0}};
  nlohmann::ordered_json schema = {{"title", creator.key.ns + "::" + creator.key.name},
                                   {"type", "object"},
                                   {"properties", properties},
                                   {"required", required},
                                   {"additionalProperties", false}};
  return schema.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace tscompile
