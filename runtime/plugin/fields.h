// The settings of plugins on our side: attributes of nodes, checked against a plugin's table of fields; what stands in
// engine files; and what is told of a table to people and programs. One table drives all of it.
#pragma once

#include "runtime/plugin/plugin_registry.h"

#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

class Node;

// Attributes that a node of any plugin may have:
//   inputs=["x", "bias"]    which inputs of the plugin those of the node are; without it, the first ones in order
//   plugin_version="2"      without it, the highest
//   inplace=1               outputs that may be written over an input are: the node writes to that input
//   plugin_phase="running"  its instance is made for runs: graphs of engine files have it while they are loaded
inline constexpr std::string_view kPluginPhase = "plugin_phase", kRunningPhase = "running";
bool isReservedAttribute(std::string_view name);

// Fields as the interface has them; they point into `fields`, which must outlive it.
class RawPluginFields {
 public:
  explicit RawPluginFields(const std::vector<tsc::Field>& fields) : texts_(fields.size()) {
    for (size_t i = 0; i < fields.size(); ++i) {
      fields[i].give([&](const tsc_field& f) { raw_.push_back(f); });
      if (fields[i].type != TSC_STRING) continue;
      for (const std::string& s : fields[i].strings) texts_[i].push_back(tsc::text(s));
      raw_.back().data = texts_[i].data();
    }
  }
  const tsc_field* data() const { return raw_.data(); }
  size_t size() const { return raw_.size(); }

 private:
  std::vector<tsc_field> raw_;
  std::vector<std::vector<tsc_str>> texts_;
};

// What is wrong with a value for a row of a table; "" if nothing is.
std::string problemOfValue(const tsc_field_info& info, const tsc_field& value);

// All fields of a plugin in the order of its table, with defaults in place. Problems: one text for each thing that is
// wrong, all of them at once.
struct ParsedFields {
  std::vector<tsc::Field> fields;
  std::vector<std::string> problems;
};
ParsedFields fieldsOf(const Node& node, const PluginCreator& creator);
// The same for fields that are given by name in any order.
ParsedFields completeFields(std::vector<tsc::Field> given, const PluginCreator& creator);
// All problems in one message that names the plugin.
std::string problemText(const PluginCreator& creator, const std::vector<std::string>& problems);

// Sets them as attributes: those that differ from their defaults, or all.
void setAttributes(Node& node, const std::vector<tsc::Field>& fields, const PluginCreator& creator, bool all);

// As bytes: name, version of the table, fields by name and type, a checksum. The same fields give the same bytes.
std::string encodeFields(const PluginCreator& creator, const std::vector<tsc::Field>& fields);
// Back. Fields that an older version of the table saved go through the plugin's upgrade(). Whatever the bytes are,
// problems are told.
ParsedFields decodeFields(const PluginCreator& creator, std::string_view bytes);

// Which plugin saved such bytes; nothing if they are malformed. The checksum is not looked at.
std::optional<PluginKey> keyOfSaved(std::string_view bytes);

// "int, 1 to 8, default 4".
std::string describeField(const tsc_field_info& info);
// A JSON schema of the attributes.
std::string fieldsSchema(const PluginCreator& creator);

}  // namespace tscompile
