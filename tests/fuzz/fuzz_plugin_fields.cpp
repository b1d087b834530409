// Any bytes as what a plugin has saved: with the checksum that they have, and with the one that they should have. What
// is read comes back as the same bytes.
#include "frontend/files/section_file.h"
#include "runtime/plugin/fields.h"
#include "runtime/plugin/plugin_host.h"

#include <cstdlib>

using namespace tscompile;

namespace {

// Every kind of field, with every kind of limit; versions before this one had `old` for `count`.
struct Fuzzed {
  bool flag = true;
  int64_t count = 3;
  double factor = 0.5;
  std::string mode = "plain", label;
  std::vector<int64_t> sizes = {1, 2};
  std::vector<double> scales;
  std::vector<std::string> names;
  std::vector<uint8_t> blob;
  static void describe(tsc::Description<Fuzzed>& d) {
    d.key("fuzz", "Fuzzed", "1", "").fieldsVersion(3);
    d.field("count", &Fuzzed::count, "").mandatory().range(-8, 8);
    d.field("flag", &Fuzzed::flag, "");
    d.field("factor", &Fuzzed::factor, "").range(0, 1);
    d.field("mode", &Fuzzed::mode, "").choices("plain|rotated");
    d.field("label", &Fuzzed::label, "");
    d.field("sizes", &Fuzzed::sizes, "").items(1, 4).range(0, 100);
    d.field("scales", &Fuzzed::scales, "");
    d.field("names", &Fuzzed::names, "");
    d.field("blob", &Fuzzed::blob, "").items(0, 64);
    d.input("x", tsc::kF32, "");
    d.output("y", tsc::kF32, "");
  }
  static void upgrade(uint32_t from, tsc::Fields& fields) {
    if (from == 1) tsc::unsupported("version 1 is too old");
    fields.rename("old", "count");
  }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run&) const {}
};

const PluginCreator& creator() {
  static const PluginCreatorPtr made = [] {
    tsc::host() = &pluginHost();
    static PluginRegistry registry;
    if (!registry.add(*tsc::Definition<Fuzzed>::table())) std::abort();
    return registry.find("fuzz", "Fuzzed");
  }();
  return *made;
}

void check(std::string_view bytes) {
  keyOfSaved(bytes);
  ParsedFields read = decodeFields(creator(), bytes);
  for (const std::string& problem : read.problems)
    if (problem.empty()) std::abort();
  if (!read.problems.empty()) return;
  if (!keyOfSaved(bytes) || read.fields.size() != creator().fields().size()) std::abort();
  std::string saved = encodeFields(creator(), read.fields);
  ParsedFields again = decodeFields(creator(), saved);
  if (!again.problems.empty() || encodeFields(creator(), again.fields) != saved) std::abort();
  // The plugin takes what the table takes.
  RawPluginFields raw(again.fields);
  void* self = nullptr;
  std::string problem = callPlugin(
      [&] { return creator().table().create(&pluginHost(), {}, raw.data(), raw.size(), TSC_RUNNING, &self); });
  if (!self) std::abort();
  creator().table().destroy(self);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  check(bytes);
  uint64_t sum = checksumOf(bytes);
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
  check(bytes);
  return 0;
}
