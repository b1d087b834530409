// Which plugins there are: a registry for the process, and one of its own for a session that asks it first. Everything
// here may be called by several threads at once.
#pragma once

#ifndef TSC_VISIBILITY
#define TSC_VISIBILITY  // we are one library with it
#endif
#include "runtime/plugin/plugin_sdk.h"

#include <atomic>
#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

// What names a plugin. Versions are numbers, compared as such.
struct PluginKey {
  std::string ns, name, version;
  // "mine::Scale version 2"
  std::string text() const { return ns + "::" + name + " version " + version; }
  friend bool operator==(const PluginKey&, const PluginKey&) = default;
  friend bool operator<(const PluginKey& a, const PluginKey& b);
};

enum class PluginStatus : uint8_t {
  Ok,
  Duplicate,    // the key is taken
  BadName,      // namespace, name or version are not what they must be
  AbiMismatch,  // made for another major version of the interface
  BadTable,     // a table of the plugin contradicts itself
  NotFound,     // no such plugin or library
  BadLibrary,   // a file that is no library with plugins
  InUse,        // instances live
};

struct [[nodiscard]] PluginResult {
  PluginStatus status = PluginStatus::Ok;
  std::string message = {};  // why not
  explicit operator bool() const { return status == PluginStatus::Ok; }
};

// What all instances of a plugin did.
struct PluginCounters {
  std::atomic<int64_t> live{0}, created{0}, calls{0}, nanoseconds{0}, workspacePeak{0}, bytes{0};
};

// One registered plugin. Who holds it keeps its library open.
class PluginCreator {
 public:
  PluginCreator(PluginKey key, const tsc_plugin& table, std::shared_ptr<void> library, std::string path)
      : key(std::move(key)), library(std::move(library)), path(std::move(path)), table_(table) {}
  const tsc_plugin& table() const { return table_; }
  // Owns the rows that the table points to.
  void keepRows(std::vector<tsc_field_info> fields, std::vector<tsc_port> inputs, std::vector<tsc_port> outputs) {
    fields_ = std::move(fields), inputs_ = std::move(inputs), outputs_ = std::move(outputs);
    table_.fields = fields_.data(), table_.inputs = inputs_.data(), table_.outputs = outputs_.data();
  }
  std::span<const tsc_field_info> fields() const { return {table_.fields, table_.field_count}; }
  std::span<const tsc_port> inputs() const { return {table_.inputs, table_.input_count}; }
  std::span<const tsc_port> outputs() const { return {table_.outputs, table_.output_count}; }

  const PluginKey key;
  const std::shared_ptr<void> library;  // null: built in
  const std::string path;               // of the library
  mutable PluginCounters counters;

 private:
  tsc_plugin table_;  // members that the plugin's table is too short for are null
  std::vector<tsc_field_info> fields_;
  std::vector<tsc_port> inputs_, outputs_;
};
using PluginCreatorPtr = std::shared_ptr<const PluginCreator>;

class PluginRegistry {
 public:
  // Told of what happens, with a level as tsc_host::log has it. Each registration is one line of level 1, but for
  // plugins that come with the program: of those it is told when it is set, if they are registered by then.
  using Log = std::function<void(int level, std::string_view message)>;
  using BuiltinTables = std::span<const tsc_plugin* const>();

  explicit PluginRegistry(const PluginRegistry* parent = nullptr) : parent_(parent) {}
  PluginRegistry(const PluginRegistry&) = delete;

  // Registers a plugin under the key that its table says, or in another namespace. The table is checked and copied.
  PluginResult add(const tsc_plugin& table, std::string_view ns = {});
  // Plugins that come with the program (builtinPlugins), in one namespace. The second time for it does nothing. They
  // are registered when somebody asks for the namespace or for all: most programs use none.
  void addBuiltin(BuiltinTables* tables, std::string_view ns);
  // Refused while instances live: those of programs, and those that somebody holds. Nothing may be loaded, analysed or
  // compiled with them meanwhile.
  PluginResult remove(const PluginKey& key);

  // Opens a library and registers its plugins: all of them, or none. A library that is open already is left as it is.
  // Paths are absolute; NAMESPACE=PATH registers them in that namespace instead of their own.
  PluginResult load(const std::string& path);
  // Takes the plugins of a library out; it is closed when nobody holds one of them. Refused as remove() is.
  PluginResult unload(const std::string& path);

  // Nodes with the old name mean the new one ("my::Scale" for "my::OldScale").
  PluginResult addAlias(std::string_view oldName, std::string_view newName, std::string_view note);

  // The plugin of that version; the highest version if none is said. Null: missing() tells more.
  PluginCreatorPtr find(std::string_view ns, std::string_view name, std::string_view version = {}) const;
  // Why find() found nothing: the nearest name, or the namespaces and versions that there are.
  std::string missing(std::string_view ns, std::string_view name, std::string_view version = {}) const;
  // Sorted by key; those of the parent that are not hidden, too.
  std::vector<PluginCreatorPtr> list() const;
  // The same without those that come with the program and that nobody asked for yet.
  std::vector<PluginCreatorPtr> listUsed() const;
  bool hasKind(std::string_view ns, std::string_view name) const;

  // Who keeps instances that are at work nowhere lets go of them, by `release`, before it is decided whether plugins
  // can be taken out of this registry or one that it asks.
  void addKeeper(const void* keeper, std::function<void()> release) const;
  void removeKeeper(const void* keeper) const;

  // Whether the parent is asked for what is not here. It is at first.
  void searchParent(bool yes) { searchParent_ = yes; }
  void setLog(Log log);

 private:
  struct Alias {
    std::string newName, note;
  };
  // `key` becomes that of the plugin.
  PluginResult insert(const tsc_plugin& table, std::string_view ns, std::shared_ptr<void> library,
                      const std::string& path, PluginKey& key) const;
  // Registers the built-in plugins of a namespace, of all if it is empty, that wait to be asked for.
  void makeBuiltin(std::string_view ns) const;
  void log(int level, const std::string& message) const;
  void releaseUnused() const;
  const PluginRegistry* parent() const { return searchParent_ ? parent_ : nullptr; }
  const Alias* aliasOf(const std::string& name) const;

  const PluginRegistry* parent_;
  std::atomic<bool> searchParent_{true};
  mutable std::mutex mutex_;  // of all below
  mutable std::map<PluginKey, PluginCreatorPtr> creators_;
  std::map<std::string, Alias> aliases_;
  Log log_;
  mutable std::recursive_mutex builtinMutex_;
  mutable std::map<std::string, BuiltinTables*, std::less<>> builtin_;  // null: registered
  mutable std::atomic<size_t> waiting_{0};                              // of them
  mutable std::mutex keepersMutex_;
  mutable std::map<const void*, std::function<void()>> keepers_;
};

}  // namespace tscompile
