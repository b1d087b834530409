#include "runtime/plugin/plugin_registry.h"

#include "ir/support/check.h"
#include "ir/support/text.h"
#include "runtime/call/foreign_code.h"
#include "runtime/plugin/fields.h"
#include "runtime/plugin/plugin_host.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <set>
#include <utility>

namespace tscompile {
namespace {

constexpr size_t kLongestName = 1023;

bool isIdentifier(std::string_view s) {
  auto isWord = [](char c) { return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); };
  return !s.empty() && s.size() <= kLongestName && !(s[0] >= '0' && s[0] <= '9') &&
         std::all_of(s.begin(), s.end(), isWord);
}

// Numbers with dots between them: "1", "2.10".
bool isVersion(std::string_view s) {
  bool digit = false;
  for (char c : s) {
    if (c == '.' && !digit) return false;
    if (c != '.' && (c < '0' || c > '9')) return false;
    digit = c != '.';
  }
  return digit && s.size() <= 64;
}

int compareVersions(std::string_view a, std::string_view b) {
  while (!a.empty() || !b.empty()) {
    auto part = [](std::string_view& s) {
      std::string_view head = s.substr(0, s.find('.'));
      s.remove_prefix(std::min(s.size(), head.size() + 1));
      while (head.size() > 1 && head[0] == '0') head.remove_prefix(1);
      return head;
    };
    std::string_view x = part(a), y = part(b);
    if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
    if (int order = x.compare(y)) return order;
  }
  return 0;
}

std::string registered(const PluginKey& key) {
  return fmt::format("Registered plugin creator {} version {} in namespace {}", key.name, key.version, key.ns);
}

PluginResult bad(PluginStatus status, std::string message) { return {status, std::move(message)}; }

// ---- what a table must be like ----

std::string problemOfFields(const tsc_plugin& t) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < t.field_count; ++i) {
    const tsc_field_info& f = t.fields[i];
    std::string name(tsc::view(f.name));
    if (!isIdentifier(name)) return "a field is called '" + abbreviate(name, 80) + "'";
    if (!names.insert(tsc::view(f.name)).second) return "there are two fields " + name;
    if (isReservedAttribute(name))
      return "the field " + name + " has the name of an attribute that every node may have";
    if (f.type < TSC_BOOL || f.type > TSC_BYTES) return "the field " + name + " is of no type that there is";
    if (f.minimum > f.maximum || f.least > f.most) return "the field " + name + " has an empty range";
    if (!f.fallback && !(f.flags & TSC_FIELD_MANDATORY)) return "the field " + name + " has no default";
    if (!f.fallback) continue;
    if (std::string problem = problemOfValue(f, *f.fallback); !problem.empty())
      return "the default of the field " + name + " is wrong: " + problem;
  }
  return "";
}

std::string problemOfPorts(const tsc_plugin& t) {
  std::set<std::string_view> names;
  auto check = [&](const tsc_port* ports, size_t count, bool output) -> std::string {
    for (size_t i = 0; i < count; ++i) {
      const tsc_port& p = ports[i];
      std::string name(tsc::view(p.name));
      if (!isIdentifier(name)) return "a tensor is called '" + abbreviate(name, 80) + "'";
      if (!output && !names.insert(tsc::view(p.name)).second) return "there are two inputs " + name;
      constexpr uint32_t kKnown = tsc::kAll;
      if (!p.dtypes || (p.dtypes & ~kKnown))
        return "the tensor " + name + " has no element type, or one that there is not";
      if (p.same_type_as < -1 || p.alias < -1 || p.same_type_as >= static_cast<int32_t>(t.input_count) ||
          p.alias >= static_cast<int32_t>(t.input_count))
        return "the tensor " + name + " refers to an input that there is not";
      if (p.alias >= 0 && !output) return "the input " + name + " says that it is written over another";
      if (!output || p.alias < 0) continue;
      for (size_t j = 0; j < i; ++j)
        if (ports[j].alias == p.alias) return "two outputs are written over one input";
    }
    return "";
  };
  std::string problem = check(t.inputs, t.input_count, false);
  if (problem.empty()) problem = check(t.outputs, t.output_count, true);
  if (problem.empty() && t.output_count == 0) problem = "it has no outputs";
  return problem;
}

// Rows of a table that may be longer than ours: each tells its size.
template <class Row>
bool copyRows(const Row* rows, size_t count, std::vector<Row>& into) {
  constexpr size_t kMost = 1 << 16;
  if (count > kMost || (count && !rows)) return false;
  auto* at = reinterpret_cast<const std::byte*>(rows);
  for (size_t i = 0; i < count; ++i) {
    size_t size = reinterpret_cast<const Row*>(at)->size;
    if (size < sizeof(Row)) return false;
    std::memcpy(static_cast<void*>(&into.emplace_back()), at, sizeof(Row));
    at += size;
  }
  return true;
}

PluginResult checkTable(const tsc_plugin& t) {
  if (t.abi >> 16 != TSC_ABI_MAJOR)
    return bad(PluginStatus::AbiMismatch, fmt::format("it was made for version {} of the interface; this is version {}",
                                                      t.abi >> 16, TSC_ABI_MAJOR));
  if (t.size < offsetof(tsc_plugin, destroy) + sizeof(t.destroy))
    return bad(PluginStatus::BadTable, "its table is shorter than any version had it");
  std::string_view ns = tsc::view(t.ns), name = tsc::view(t.name), version = tsc::view(t.version);
  if (!isIdentifier(ns) || !isIdentifier(name))
    return bad(PluginStatus::BadName, fmt::format("'{}::{}' is no name: letters, digits and _ make one",
                                                  abbreviate(ns, 80), abbreviate(name, 80)));
  if (!isVersion(version))
    return bad(PluginStatus::BadName, fmt::format("'{}' is no version of {}::{}: numbers are, such as 1 or 2.10",
                                                  abbreviate(version, 80), ns, name));
  std::string problem;
  if (!t.create || !t.destroy || !t.shapes) problem = "create, destroy or shapes is missing";
  if (problem.empty() && !t.run && !t.decompose) problem = "run is missing, and decompose, which could stand for it";
  if (problem.empty()) problem = problemOfFields(t);
  if (problem.empty()) problem = problemOfPorts(t);
  if (!problem.empty()) return bad(PluginStatus::BadTable, fmt::format("{}::{}: {}", ns, name, problem));
  return {};
}

// "mine=/path": its plugins in another namespace.
std::pair<std::string, std::string> splitNamespace(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || text.find('/') < equals) return {"", text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// A library stays open as long as somebody holds this.
std::shared_ptr<void> openLibrary(const std::string& path, std::string& problem) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = dlerror();
    problem = why ? why : "it cannot be opened";
    return nullptr;
  }
  return {handle, [](void* h) { dlclose(h); }};
}

}  // namespace

bool operator<(const PluginKey& a, const PluginKey& b) {
  if (a.ns != b.ns) return a.ns < b.ns;
  if (a.name != b.name) return a.name < b.name;
  if (int order = compareVersions(a.version, b.version)) return order < 0;
  return a.version < b.version;
}

void PluginRegistry::setLog(Log log) {
  if (log)
    for (const PluginCreatorPtr& c : listUsed()) log(1, registered(c->key));
  std::lock_guard lock(mutex_);
  log_ = std::move(log);
}

void PluginRegistry::log(int level, const std::string& message) const {
  Log to;
  {
    std::lock_guard lock(mutex_);
    to = log_;
  }
  if (to) to(level, message);
}

PluginResult PluginRegistry::insert(const tsc_plugin& given, std::string_view ns, std::shared_ptr<void> library,
                                    const std::string& path, PluginKey& key) const {
  tsc_plugin table{};
  if (given.size < sizeof(given.size) + sizeof(given.abi)) return bad(PluginStatus::BadTable, "its table has no size");
  std::memcpy(&table, &given, std::min(given.size, sizeof(table)));
  std::vector<tsc_field_info> fields;
  std::vector<tsc_port> inputs, outputs;
  if (table.abi >> 16 == TSC_ABI_MAJOR &&
      !(copyRows(table.fields, table.field_count, fields) && copyRows(table.inputs, table.input_count, inputs) &&
        copyRows(table.outputs, table.output_count, outputs)))
    return bad(PluginStatus::BadTable, "a row of its tables is shorter than any version had it");
  table.fields = fields.data(), table.inputs = inputs.data(), table.outputs = outputs.data();
  if (PluginResult checked = checkTable(table); !checked) return checked;
  key = {std::string(ns.empty() ? tsc::view(table.ns) : ns), std::string(tsc::view(table.name)),
         std::string(tsc::view(table.version))};
  if (!isIdentifier(key.ns)) return bad(PluginStatus::BadName, "'" + abbreviate(key.ns, 80) + "' is no namespace");
  for (const char* ours : {"aten", "prim", "tscompile"})
    if (key.ns == ours) return bad(PluginStatus::BadName, "the namespace " + key.ns + " is for operators");
  auto creator = std::make_shared<PluginCreator>(key, table, std::move(library), path);
  creator->keepRows(std::move(fields), std::move(inputs), std::move(outputs));
  makeBuiltin(key.ns);
  std::lock_guard lock(mutex_);
  auto [it, isNew] = creators_.try_emplace(key, creator);
  if (isNew) return {};
  std::string of = it->second->path.empty() ? "" : " from " + it->second->path;
  return bad(PluginStatus::Duplicate, key.text() + of + " is registered already");
}

PluginResult PluginRegistry::add(const tsc_plugin& table, std::string_view ns) {
  PluginKey key;
  PluginResult result = insert(table, ns, nullptr, "", key);
  if (result) log(1, registered(key));
  return result;
}

void PluginRegistry::addBuiltin(BuiltinTables* tables, std::string_view ns) {
  std::lock_guard one(builtinMutex_);
  if (builtin_.try_emplace(std::string(ns), tables).second) ++waiting_;
}

void PluginRegistry::makeBuiltin(std::string_view ns) const {
  if (waiting_ == 0) return;
  std::lock_guard one(builtinMutex_);
  for (auto& [name, tables] : builtin_) {
    if (!tables || (!ns.empty() && ns != name)) continue;
    PluginKey key;
    for (const tsc_plugin* table : std::exchange(tables, nullptr)()) TS_CHECK(insert(*table, name, nullptr, "", key));
    --waiting_;
  }
}

void PluginRegistry::addKeeper(const void* keeper, std::function<void()> release) const {
  for (const PluginRegistry* r = this; r; r = r->parent_) {
    std::lock_guard lock(r->keepersMutex_);
    r->keepers_[keeper] = release;
  }
}

void PluginRegistry::removeKeeper(const void* keeper) const {
  for (const PluginRegistry* r = this; r; r = r->parent_) {
    std::lock_guard lock(r->keepersMutex_);
    r->keepers_.erase(keeper);
  }
}

void PluginRegistry::releaseUnused() const {
  std::lock_guard lock(keepersMutex_);
  for (const auto& [keeper, release] : keepers_) release();
}

PluginResult PluginRegistry::remove(const PluginKey& key) {
  makeBuiltin(key.ns);
  releaseUnused();
  std::lock_guard lock(mutex_);
  auto it = creators_.find(key);
  if (it == creators_.end()) return bad(PluginStatus::NotFound, key.text() + " is not registered here");
  if (int64_t live = it->second->counters.live)
    return bad(PluginStatus::InUse, fmt::format("{} has {}", key.text(), counted(live, "living instance")));
  creators_.erase(it);
  return {};
}

PluginResult PluginRegistry::load(const std::string& text) {
  const auto [ns, given] = splitNamespace(text);
  if (given.empty() || given[0] != '/')
    return bad(PluginStatus::BadLibrary, "'" + given + "' is no absolute path: libraries are not searched for");
  static std::mutex loading;  // a library that two threads ask for is loaded once
  std::lock_guard one(loading);
  std::error_code ignored;
  std::string path = std::filesystem::weakly_canonical(given, ignored).string();
  if (ignored) path = given;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, creator] : creators_)
      if (creator->path == path && key.ns == (ns.empty() ? tsc::view(creator->table().ns) : ns)) return {};
  }
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return bad(PluginStatus::NotFound, "there is no file " + path);
  const ForeignCode running("the library ", "", path);
  std::string problem;
  std::shared_ptr<void> library = openLibrary(path, problem);
  if (!library) return bad(PluginStatus::BadLibrary, path + " is no library that can be opened: " + problem);
  auto entry = reinterpret_cast<tsc_plugins_function>(dlsym(library.get(), TSC_PLUGINS_SYMBOL));
  if (!entry)
    return bad(
        PluginStatus::BadLibrary,
        path +
            (dlsym(library.get(), "tscompileExtensions")
                 ? " has operators or converters, which are loaded as such (docs/writing_converters.md), and no plugins"
                 : " has no plugins: " TSC_PLUGINS_SYMBOL " is not in it"));
  size_t count = 0;
  const tsc_plugin* const* tables = nullptr;
  try {
    tables = entry(&pluginHost(), &count);
  } catch (...) {
    return bad(PluginStatus::BadLibrary, "the entry of " + path + " throws");
  }
  if (!tables || count == 0 || count > 10000)
    return bad(PluginStatus::BadLibrary, path + " says that it has no plugins");
  std::vector<PluginKey> added;
  for (size_t i = 0; i < count; ++i) {
    PluginKey key;
    PluginResult result =
        tables[i] ? insert(*tables[i], ns, library, path, key) : bad(PluginStatus::BadTable, "a table is null");
    if (result) {
      log(1, registered(added.emplace_back(std::move(key))));
      continue;
    }
    // Nobody can have made an instance that matters: the caller was not told yet.
    std::lock_guard lock(mutex_);
    for (const PluginKey& key : added) creators_.erase(key);
    result.message = path + ": " + result.message;
    return result;
  }
  return {};
}

PluginResult PluginRegistry::unload(const std::string& given) {
  std::error_code ignored;
  std::string path = std::filesystem::weakly_canonical(given, ignored).string();
  if (ignored) path = given;
  releaseUnused();
  std::lock_guard lock(mutex_);
  int64_t live = 0, found = 0;
  for (const auto& [key, creator] : creators_) {
    if (creator->path != path) continue;
    ++found;
    live += creator->counters.live;
  }
  if (!found) return bad(PluginStatus::NotFound, path + " is not loaded here");
  if (live) return bad(PluginStatus::InUse, fmt::format("{} has {}", path, counted(live, "living instance")));
  std::erase_if(creators_, [&](const auto& entry) { return entry.second->path == path; });
  return {};
}

PluginResult PluginRegistry::addAlias(std::string_view oldName, std::string_view newName, std::string_view note) {
  for (std::string_view name : {oldName, newName}) {
    size_t colons = name.find("::");
    if (colons == std::string_view::npos || !isIdentifier(name.substr(0, colons)) ||
        !isIdentifier(name.substr(colons + 2)))
      return bad(PluginStatus::BadName, "'" + abbreviate(name, 80) + "' is no name such as mine::Scale");
  }
  std::lock_guard lock(mutex_);
  for (std::string at(newName);;) {
    if (at == oldName) return bad(PluginStatus::BadName, std::string(oldName) + " would mean itself");
    auto it = aliases_.find(at);
    if (it == aliases_.end()) break;
    at = it->second.newName;
  }
  bool isNew = aliases_.try_emplace(std::string(oldName), Alias{std::string(newName), std::string(note)}).second;
  if (!isNew) return bad(PluginStatus::Duplicate, "there is another name for " + std::string(oldName) + " already");
  return {};
}

const PluginRegistry::Alias* PluginRegistry::aliasOf(const std::string& name) const {
  std::lock_guard lock(mutex_);
  auto it = aliases_.find(name);
  return it == aliases_.end() ? nullptr : &it->second;
}

PluginCreatorPtr PluginRegistry::find(std::string_view ns, std::string_view name, std::string_view version) const {
  if (const Alias* alias = aliasOf(std::string(ns) + "::" + std::string(name))) {
    size_t colons = alias->newName.find("::");
    log(3, fmt::format("{}::{} is now {}{}{}", ns, name, alias->newName, alias->note.empty() ? "" : ": ", alias->note));
    return find(alias->newName.substr(0, colons), alias->newName.substr(colons + 2), version);
  }
  makeBuiltin(ns);
  PluginCreatorPtr best;
  {
    std::lock_guard lock(mutex_);
    PluginKey from{std::string(ns), std::string(name), ""};
    for (auto it = creators_.lower_bound(from); it != creators_.end(); ++it) {
      if (it->first.ns != ns || it->first.name != name) break;
      if (version.empty() || compareVersions(it->first.version, version) == 0) best = it->second;
    }
  }
  if (!best && parent()) return parent()->find(ns, name, version);
  return best;
}

std::string PluginRegistry::missing(std::string_view ns, std::string_view name, std::string_view version) const {
  std::vector<std::string> versions, namespaces;
  std::string wanted = std::string(ns) + "::" + std::string(name);
  NearestName nearest(wanted);
  for (const PluginCreatorPtr& c : list()) {
    if (c->key.name == name && c->key.ns == ns) versions.push_back(c->key.version);
    if (c->key.name == name && c->key.ns != ns) namespaces.push_back(c->key.ns);
    nearest.consider(c->key.ns + "::" + c->key.name);
  }
  std::string text = "there is no plugin " + wanted + (version.empty() ? "" : " version " + std::string(version));
  if (!versions.empty()) return text + "; it has the versions " + join(versions, ", ", [](auto& v) { return v; });
  namespaces.erase(std::unique(namespaces.begin(), namespaces.end()), namespaces.end());
  if (!namespaces.empty())
    return text + "; there is one of that name in " + join(namespaces, ", ", [](auto& n) { return n; });
  return nearest.found() ? text + "; the nearest is " + nearest.name() : text;
}

std::vector<PluginCreatorPtr> PluginRegistry::list() const {
  for (const PluginRegistry* r = this; r; r = r->parent()) r->makeBuiltin({});
  return listUsed();
}

std::vector<PluginCreatorPtr> PluginRegistry::listUsed() const {
  std::map<PluginKey, PluginCreatorPtr> all;
  if (const PluginRegistry* p = parent())
    for (PluginCreatorPtr& c : p->listUsed()) all.emplace(c->key, c);
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, creator] : creators_) all[key] = creator;
  }
  std::vector<PluginCreatorPtr> out;
  for (auto& [key, creator] : all) out.push_back(creator);
  return out;
}

bool PluginRegistry::hasKind(std::string_view ns, std::string_view name) const {
  makeBuiltin(ns);
  {
    std::lock_guard lock(mutex_);
    if (aliases_.contains(std::string(ns) + "::" + std::string(name))) return true;
    auto it = creators_.lower_bound({std::string(ns), std::string(name), ""});
    if (it != creators_.end() && it->first.ns == ns && it->first.name == name) return true;
  }
  return parent() && parent()->hasKind(ns, name);
}

}  // namespace tscompile
