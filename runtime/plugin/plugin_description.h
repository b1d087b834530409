// What a plugin says of itself, for plugin_sdk.h: its fields with their values, its tensors.
#pragma once

#include "runtime/plugin/plugin_values.h"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace TSC_VISIBILITY tsc {

// A field with its values, as `upgrade` works on them.
struct Field {
  std::string name;
  tsc_field_type type = TSC_INT;
  bool list = false;
  std::vector<int64_t> integers = {};     // of TSC_INT
  std::vector<double> numbers = {};       // of TSC_FLOAT
  std::vector<std::string> strings = {};  // of TSC_STRING
  std::vector<uint8_t> bytes = {};        // of TSC_BOOL and TSC_BYTES

  static Field read(const tsc_field& f) {
    Field out{std::string(view(f.name)), static_cast<tsc_field_type>(f.type), f.list != 0};
    auto take = [&]<class T>(std::vector<T>& into) {
      auto* data = static_cast<const T*>(f.data);
      into.assign(data, data + f.count);
    };
    if (f.type == TSC_INT) take(out.integers);
    if (f.type == TSC_FLOAT) take(out.numbers);
    if (f.type == TSC_BOOL || f.type == TSC_BYTES) take(out.bytes);
    if (f.type == TSC_STRING)
      for (size_t i = 0; i < f.count; ++i) out.strings.emplace_back(view(static_cast<const tsc_str*>(f.data)[i]));
    return out;
  }
  // What F gives for the field as the C interface has it.
  template <class F>
  void give(F&& to) const {
    tsc_field f{text(name), static_cast<uint32_t>(type), list, 0, nullptr};
    std::vector<tsc_str> views;
    auto take = [&](const auto& from) {
      f.count = from.size();
      f.data = from.data();
    };
    if (type == TSC_INT) take(integers);
    if (type == TSC_FLOAT) take(numbers);
    if (type == TSC_BOOL || type == TSC_BYTES) take(bytes);
    if (type == TSC_STRING) {
      for (const std::string& s : strings) views.push_back(text(s));
      take(views);
    }
    to(f);
  }

  // Between members of plugins and values.
  void get(bool& v) const { v = bytes.at(0) != 0; }
  void get(double& v) const { v = numbers.at(0); }
  void get(float& v) const { v = static_cast<float>(numbers.at(0)); }
  void get(std::string& v) const { v = strings.at(0); }
  void get(std::vector<int64_t>& v) const { v = integers; }
  void get(std::vector<double>& v) const { v = numbers; }
  void get(std::vector<std::string>& v) const { v = strings; }
  void get(std::vector<uint8_t>& v) const { v = bytes; }
  template <std::integral T>
  requires(!std::same_as<T, bool>) void get(T& v) const { v = static_cast<T>(integers.at(0)); }
  template <class T>
  static Field of(std::string name, const T& v) {
    Field f;
    f.name = std::move(name);
    if constexpr (std::same_as<T, bool>)
      f.type = TSC_BOOL, f.bytes = {static_cast<uint8_t>(v)};
    else if constexpr (std::integral<T>)
      f.type = TSC_INT, f.integers = {static_cast<int64_t>(v)};
    else if constexpr (std::floating_point<T>)
      f.type = TSC_FLOAT, f.numbers = {static_cast<double>(v)};
    else if constexpr (std::same_as<T, std::string>)
      f.type = TSC_STRING, f.strings = {v};
    else if constexpr (std::same_as<T, std::vector<int64_t>>)
      f.type = TSC_INT, f.list = true, f.integers = v;
    else if constexpr (std::same_as<T, std::vector<double>>)
      f.type = TSC_FLOAT, f.list = true, f.numbers = v;
    else if constexpr (std::same_as<T, std::vector<std::string>>)
      f.type = TSC_STRING, f.list = true, f.strings = v;
    else if constexpr (std::same_as<T, std::vector<uint8_t>>)
      f.type = TSC_BYTES, f.bytes = v;
    else
      static_assert(!sizeof(T), "fields are bool, integers, floating-point numbers, strings, lists of them, or bytes");
    return f;
  }
};

// All fields that an older version saved, for `upgrade` to change.
class Fields {
 public:
  std::vector<Field> all;
  Field* find(std::string_view name) {
    for (Field& f : all)
      if (f.name == name) return &f;
    return nullptr;
  }
  template <class T>
  void set(std::string name, const T& value) {
    Field made = Field::of(name, value);
    if (Field* old = find(name))
      *old = std::move(made);
    else
      all.push_back(std::move(made));
  }
  void rename(std::string_view from, std::string to) {
    if (Field* f = find(from)) f->name = std::move(to);
  }
  void remove(std::string_view name) {
    std::erase_if(all, [&](const Field& f) { return f.name == name; });
  }
};

template <class P>
class Definition;

// What a description says of a plugin, whatever its class: here once, not for each class.
class DescribedPlugin {
 public:
  class FieldEntry {
   public:
    explicit FieldEntry(tsc_field_info& info) : info_(info) {}
    FieldEntry& mandatory() {
      info_.flags |= TSC_FIELD_MANDATORY;
      return *this;
    }
    FieldEntry& range(double minimum, double maximum) {
      info_.minimum = minimum, info_.maximum = maximum;
      return *this;
    }
    FieldEntry& items(size_t least, size_t most) {
      info_.least = least, info_.most = most;
      return *this;
    }
    // "none|linear": one of these texts.
    FieldEntry& choices(std::string_view choices) {
      info_.choices = text(choices);
      return *this;
    }

   private:
    tsc_field_info& info_;
  };
  class PortEntry {
   public:
    PortEntry(const DescribedPlugin& d, tsc_port& port) : d_(d), port_(port) {}
    PortEntry& optional() { return flag(TSC_PORT_OPTIONAL); }
    // Shapes depend on its elements.
    PortEntry& host() { return flag(TSC_PORT_HOST); }
    // An output that may have fewer rows than its shape says: run() tells how many with setRows.
    PortEntry& fewerRows() { return flag(TSC_PORT_FEWER_ROWS); }
    PortEntry& sameTypeAs(std::string_view input) {
      port_.same_type_as = d_.known(input);
      return *this;
    }
    // An output that may be written over this input.
    PortEntry& alias(std::string_view input) {
      port_.alias = d_.known(input);
      return *this;
    }

   private:
    PortEntry& flag(uint32_t f) {
      port_.flags |= f;
      return *this;
    }
    const DescribedPlugin& d_;
    tsc_port& port_;
  };

  PortEntry input(std::string_view name, uint32_t dtypes, std::string_view doc) {
    return add(inputs_, name, dtypes, doc);
  }
  PortEntry output(std::string_view name, uint32_t dtypes, std::string_view doc) {
    return add(outputs_, name, dtypes, doc);
  }

 protected:
  // An input by its name; the host refuses -2.
  int32_t known(std::string_view name) const {
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (view(inputs_[i].name) == name) return static_cast<int32_t>(i);
    return -2;
  }
  // A setting at this many bytes in a plugin, whose default is `initial`.
  template <class M>
  FieldEntry addField(std::string_view name, size_t offset, const M& initial, std::string_view doc) {
    members_.push_back({offset, [](void* m, const Field& f) { f.get(*static_cast<M*>(m)); },
                        [](const void* m) { return Field::of("", *static_cast<const M*>(m)); }});
    return add(name, Field::of(std::string(name), initial), doc);
  }
  template <class E>
  FieldEntry addChoice(std::string_view name, size_t offset, E initial, std::string_view choices, std::vector<E> values,
                       std::string_view doc) {
    std::vector<std::string> names = textsOf(choices);
    auto nameOf = [names, values](E v) {
      for (size_t i = 0; i < values.size() && i < names.size(); ++i)
        if (values[i] == v) return names[i];
      return std::string();
    };
    FieldEntry entry = add(name, Field::of(std::string(name), nameOf(initial)), doc);
    auto set = [names, values = std::move(values)](void* m, const Field& f) {
      for (size_t i = 0; i < values.size() && i < names.size(); ++i)
        if (names[i] == f.strings.at(0)) *static_cast<E*>(m) = values[i];
    };
    members_.push_back({offset, std::move(set), [nameOf = std::move(nameOf)](const void* m) {
                          return Field::of("", nameOf(*static_cast<const E*>(m)));
                        }});
    entry.choices(choices);
    return entry;
  }
  // All settings of a plugin, and into one.
  void save(const void* plugin, tsc_put put, void* sink) const {
    for (size_t i = 0; i < members_.size(); ++i) {
      Field f = members_[i].get(static_cast<const std::byte*>(plugin) + members_[i].offset);
      f.name = view(fields_[i].name);
      f.give([&](const tsc_field& raw) { put(sink, &raw); });
    }
  }
  void load(void* plugin, const tsc_field* fields, size_t count) const {
    for (size_t i = 0; i < count; ++i)
      members_[i].set(static_cast<std::byte*>(plugin) + members_[i].offset, Field::read(fields[i]));
  }
  PortEntry add(std::vector<tsc_port>& ports, std::string_view name, uint32_t dtypes, std::string_view doc) {
    ports.push_back({sizeof(tsc_port), text(name), 0, dtypes, -1, -1, text(doc)});
    return PortEntry(*this, ports.back());
  }
  static std::vector<std::string> textsOf(std::string_view choices) {
    std::vector<std::string> names;
    for (size_t at = 0; at <= choices.size();) {
      size_t end = std::min(choices.find('|', at), choices.size());
      names.emplace_back(choices.substr(at, end - at));
      at = end + 1;
    }
    return names;
  }
  // After all of it was described: the part of the table that says so. Points into this.
  void fill(tsc_plugin& table) {
    giveDefaults();
    table.size = sizeof(tsc_plugin);
    table.abi = TSC_ABI_VERSION;
    table.flags = flags_;
    table.ns = text(ns_), table.name = text(name_), table.version = text(version_);
    table.doc = text(doc_);
    table.fields_version = fieldsVersion_;
    table.fields = fields_.data(), table.field_count = fields_.size();
    table.inputs = inputs_.data(), table.input_count = inputs_.size();
    table.outputs = outputs_.data(), table.output_count = outputs_.size();
  }

  std::string_view ns_, name_, version_, doc_;
  uint32_t flags_ = TSC_DETERMINISTIC, fieldsVersion_ = 1;

 private:
  // How a setting is read and written where it lies.
  struct Member {
    size_t offset;
    std::function<void(void*, const Field&)> set;
    std::function<Field(const void*)> get;
  };

  FieldEntry add(std::string_view name, Field value, std::string_view doc) {
    double most = std::numeric_limits<double>::max();
    fields_.push_back({sizeof(tsc_field_info),
                       text(name),
                       static_cast<uint32_t>(value.type),
                       value.list ? TSC_FIELD_LIST : 0u,
                       nullptr,
                       -most,
                       most,
                       0,
                       std::numeric_limits<size_t>::max(),
                       {},
                       text(doc)});
    defaults_.push_back(std::move(value));
    return FieldEntry(fields_.back());
  }
  void giveDefaults() {
    size_t count = fields_.size();
    rawDefaults_.resize(count);
    rawTexts_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      Field& value = defaults_[i];
      value.give([&](const tsc_field& f) { rawDefaults_[i] = f; });
      if (value.type == TSC_STRING) {
        for (const std::string& s : value.strings) rawTexts_[i].push_back(text(s));
        rawDefaults_[i].data = rawTexts_[i].data();
      }
      if (!(fields_[i].flags & TSC_FIELD_MANDATORY)) fields_[i].fallback = &rawDefaults_[i];
    }
  }

  std::vector<tsc_field_info> fields_;
  std::vector<Member> members_;
  std::vector<Field> defaults_;
  std::vector<tsc_field> rawDefaults_;
  std::vector<std::vector<tsc_str>> rawTexts_;
  std::vector<tsc_port> inputs_, outputs_;
};

// What `describe` fills. Texts must be literals, or live as long as the library.
template <class P>
class Description : public DescribedPlugin {
 public:
  Description& key(std::string_view ns, std::string_view name, std::string_view version, std::string_view doc = {}) {
    ns_ = ns, name_ = name, version_ = version, doc_ = doc;
    return *this;
  }
  Description& deterministic(bool yes = true) {
    flags_ = yes ? TSC_DETERMINISTIC : 0;
    return *this;
  }
  // Of the table of fields; a larger one than that of what was saved makes upgrade() be called.
  Description& fieldsVersion(uint32_t version) {
    fieldsVersion_ = version;
    return *this;
  }
  // A setting, a member of P or of a base of it; its default is what a new P has.
  template <class M, class Q>
  requires std::derived_from<P, Q> FieldEntry field(std::string_view name, M Q::*member, std::string_view doc) {
    return addField(name, offsetOf(member), initial_.*member, doc);
  }
  // One whose texts stand for values: {{"none", Scaling::None}, ...}.
  template <class E, class Q>
  requires std::derived_from<P, Q> FieldEntry choice(std::string_view name, E Q::*member, std::string_view choices,
                                                     std::vector<E> values, std::string_view doc) {
    return addChoice(name, offsetOf(member), initial_.*member, choices, std::move(values), doc);
  }

 private:
  friend class Definition<P>;

  template <class M, class Q>
  size_t offsetOf(M Q::*member) const {
    const void* at = &(initial_.*member);
    return static_cast<const std::byte*>(at) - static_cast<const std::byte*>(static_cast<const void*>(&initial_));
  }

  P initial_{};
};

}  // namespace tsc
