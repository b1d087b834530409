// Plugins in C++20: a struct with its settings as members, a description of fields and tensors, and functions that
// compute sizes and results. This header makes the C table of tscompile_plugin.h from it; nothing else of tscompile is
// needed. docs/plugins.md is the guide. The whole of a plugin:
//
//   struct Scale {
//     double by = 1;
//     static void describe(tsc::Description<Scale>& d) {
//       d.key("mine", "Scale", "1", "y = by * x");
//       d.field("by", &Scale::by, "the factor");
//       d.input("x", tsc::kF32, "any sizes");
//       d.output("y", tsc::kF32, "as x");
//     }
//     void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
//     void run(tsc::Run& r) const {
//       auto x = r.input(0).values<float>();
//       auto y = r.output(0).values<float>();
//       for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(by) * x[i];
//     }
//   };
//   TSC_PLUGINS(Scale)
//
// Without run(), decompose() must be there: the host runs the graph that it gives.
//
// Functions that a plugin may have beside shapes and run, all on the instance; see tscompile_plugin.h for when they are
// called: `void prepare()` (fields are set: check what they mean together; `void prepare(uint32_t phase)` is given
// TSC_BUILDING or TSC_RUNNING), `void initialize()`, `void terminate()`,
// `size_t outputs() const`, `int aliasOf(size_t output) const`, `bool supports(const tsc::Tensors&, size_t position)
// const`, `void configure(const tsc::Tensors& least, const tsc::Tensors& usual, const tsc::Tensors& most)`, `size_t
// workspace(const tsc::Tensors&) const`, `std::vector<int32_t> tactics() const`, `std::string timingId() const`,
// `std::string decompose(const tsc::Tensors& inputs) const`, and `static void upgrade(uint32_t fromVersion,
// tsc::Fields& fields)`, `static std::string_view example()`. The copy constructor is what makes one for each context
// of execution. Functions fail by throwing: tsc::Error with a status, or any std::exception.
#pragma once

#include "runtime/plugin/tscompile_plugin.h"

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// Hidden: two libraries with plugins must not share what belongs to one of them.
#ifndef TSC_VISIBILITY
#define TSC_VISIBILITY [[gnu::visibility("hidden")]]
#endif
namespace TSC_VISIBILITY tsc {

inline std::string_view view(tsc_str s) { return {s.data, s.size}; }
inline tsc_str text(std::string_view s) { return {s.data(), s.size()}; }

// The host of this library; set when it is opened.
inline const tsc_host*& host() {
  static const tsc_host* theHost = nullptr;
  return theHost;
}

struct Error : std::exception {
  Error(tsc_status status, std::string message) : status(status), message(std::move(message)) {}
  const char* what() const noexcept override { return message.c_str(); }
  tsc_status status;
  std::string message;
};
[[noreturn]] inline void invalid(std::string message) { throw Error(TSC_INVALID, std::move(message)); }
[[noreturn]] inline void unsupported(std::string message) { throw Error(TSC_UNSUPPORTED, std::move(message)); }
inline void require(bool condition, const char* message) {
  if (!condition) invalid(message);
}

// Levels: 0 trace, 1 debug, 2 info, 3 warning, 4 error.
inline void log(int level, std::string_view message) { host()->log(level, text(message)); }

// ---- element types ----

inline constexpr uint32_t kF32 = TSC_DTYPE_BIT(TSC_F32), kF64 = TSC_DTYPE_BIT(TSC_F64), kF16 = TSC_DTYPE_BIT(TSC_F16),
                          kBF16 = TSC_DTYPE_BIT(TSC_BF16), kI8 = TSC_DTYPE_BIT(TSC_I8), kU8 = TSC_DTYPE_BIT(TSC_U8),
                          kI32 = TSC_DTYPE_BIT(TSC_I32), kI64 = TSC_DTYPE_BIT(TSC_I64),
                          kBool = TSC_DTYPE_BIT(TSC_BOOLEAN), kFloats = kF32 | kF64 | kF16 | kBF16,
                          kIntegers = kU8 | kI8 | TSC_DTYPE_BIT(TSC_I16) | kI32 | kI64,
                          kAll = kFloats | kIntegers | kBool;

// ---- tensors ----

class Tensor {
 public:
  explicit Tensor(const tsc_tensor& t) : t_(t) {}
  bool present() const { return t_.dtype != TSC_NONE; }
  tsc_dtype dtype() const { return static_cast<tsc_dtype>(t_.dtype); }
  size_t rank() const { return t_.rank; }
  std::span<const int64_t> sizes() const { return {t_.dims, t_.rank}; }
  // From the back if it is negative.
  int64_t size(int dim) const { return t_.dims[dim < 0 ? dim + static_cast<int>(t_.rank) : dim]; }
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t s : sizes()) n *= s;
    return present() ? n : 0;
  }
  template <class T>
  T* data() const {
    return static_cast<T*>(t_.data);
  }
  template <class T>
  std::span<T> values() const {
    return {data<T>(), static_cast<size_t>(numel())};
  }

 private:
  const tsc_tensor& t_;
};

// Inputs, then outputs.
class Tensors {
 public:
  Tensors(const tsc_tensor* tensors, size_t inputs, size_t outputs)
      : tensors_(tensors), inputs_(inputs), outputs_(outputs) {}
  Tensor input(size_t i) const { return Tensor(tensors_[i]); }
  Tensor output(size_t i) const { return Tensor(tensors_[inputs_ + i]); }
  Tensor operator[](size_t i) const { return Tensor(tensors_[i]); }
  size_t inputs() const { return inputs_; }
  size_t outputs() const { return outputs_; }

 private:
  const tsc_tensor* tensors_;
  size_t inputs_, outputs_;
};

// ---- sizes that may not be known yet ----

class Dim {
 public:
  Dim(void* build, const tsc_dim* dim) : build_(build), dim_(dim) {}
  // Whether it is known, and then equal.
  bool known(int64_t* value = nullptr) const {
    int64_t ignored;
    return host()->dim_value(dim_, value ? value : &ignored);
  }
  const tsc_dim* raw() const { return dim_; }
  Dim apply(tsc_dim_op op, const Dim& other) const { return {build_, host()->dim_apply(build_, op, dim_, other.dim_)}; }
  Dim apply(tsc_dim_op op, int64_t other) const { return apply(op, Dim(build_, host()->dim_constant(build_, other))); }
  template <class T>
  friend Dim operator+(const Dim& a, const T& b) {
    return a.apply(TSC_DIM_ADD, b);
  }
  template <class T>
  friend Dim operator-(const Dim& a, const T& b) {
    return a.apply(TSC_DIM_SUB, b);
  }
  template <class T>
  friend Dim operator*(const Dim& a, const T& b) {
    return a.apply(TSC_DIM_MUL, b);
  }
  template <class T>
  friend Dim operator/(const Dim& a, const T& b) {
    return a.apply(TSC_DIM_FLOOR_DIV, b);
  }

 private:
  void* build_;
  const tsc_dim* dim_;
};

struct Shape {
  tsc_dtype dtype = TSC_NONE;
  std::vector<Dim> dims;
  std::span<const int64_t> values = {};  // of inputs declared with `host` whose elements are known
  bool present() const { return dtype != TSC_NONE; }
  size_t rank() const { return dims.size(); }
};

// What `shapes` works on.
class Shapes {
 public:
  Shapes(void* build, const tsc_shape* inputs, size_t count) : build_(build), inputs_(inputs), count_(count) {}
  size_t inputs() const { return count_; }
  bool has(size_t i) const { return inputs_[i].dtype != TSC_NONE; }
  Shape input(size_t i) const {
    const tsc_shape& s = inputs_[i];
    Shape shape{static_cast<tsc_dtype>(s.dtype), {}, {}};
    int64_t numel = 1, size = 0;
    for (uint32_t d = 0; d < s.rank; ++d) {
      shape.dims.emplace_back(build_, s.dims[d]);
      if (shape.dims.back().known(&size)) numel *= size;
    }
    if (s.values) shape.values = {s.values, static_cast<size_t>(numel)};
    return shape;
  }
  Dim constant(int64_t value) const { return {build_, host()->dim_constant(build_, value)}; }
  void output(size_t i, tsc_dtype dtype, const std::vector<Dim>& dims) {
    std::vector<const tsc_dim*> raw;
    for (const Dim& d : dims) raw.push_back(d.raw());
    host()->set_shape(build_, i, dtype, raw.data(), static_cast<uint32_t>(raw.size()));
  }
  void output(size_t i, const Shape& like) { output(i, like.dtype, like.dims); }
  // Fails if a size is known and another.
  void expect(const Dim& dim, int64_t size, const std::string& what) const {
    int64_t known;
    if (dim.known(&known) && known != size)
      invalid(what + " is " + std::to_string(known) + ", expected " + std::to_string(size));
  }

 private:
  void* build_;
  const tsc_shape* inputs_;
  size_t count_;
};

// What `run` works on.
class Run {
 public:
  Run(void* run, Tensors inputs, Tensors outputs, std::span<std::byte> workspace, int32_t tactic)
      : run_(run), inputs_(inputs), outputs_(outputs), workspace_(workspace), tactic_(tactic) {}
  bool has(size_t input) const { return this->input(input).present(); }
  Tensor input(size_t i) const { return inputs_[i]; }
  Tensor output(size_t i) const { return outputs_[i]; }
  std::span<std::byte> workspace() const { return workspace_; }
  int32_t tactic() const { return tactic_; }
  bool cancelled() const { return host()->cancelled(run_); }
  // What the host's functions take as `run`.
  void* handle() const { return run_; }
  void setRows(size_t output, int64_t rows) { host()->set_rows(run_, output, rows); }
  // body(begin, end) for parts of [0, n) of `grain` items; they do not depend on the number of threads.
  template <class F>
  void parallelFor(size_t n, size_t grain, F&& body) const {
    struct Call {
      F& body;
      std::exception_ptr failure = nullptr;
    } call{body};
    host()->parallel_for(
        run_, n, grain,
        [](void* user, size_t begin, size_t end) {
          auto* c = static_cast<Call*>(user);
          try {
            c->body(begin, end);
          } catch (...) {
            std::exception_ptr mine = std::current_exception();
            static std::atomic_flag busy;
            while (busy.test_and_set()) {
            }
            if (!c->failure) c->failure = mine;
            busy.clear();
          }
        },
        &call);
    if (call.failure) std::rethrow_exception(call.failure);
  }

 private:
  void* run_;
  Tensors inputs_, outputs_;
  std::span<std::byte> workspace_;
  int32_t tactic_;
};

// ---- fields ----

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
  std::vector<tsc_field_info> fields_;

 private:
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
    Field value = Field::of(std::string(name), initial_.*member);
    return add(
        name, std::move(value), doc, [member](P& p, const Field& f) { f.get(p.*member); },
        [member](const P& p) { return Field::of("", p.*member); });
  }
  // One whose texts stand for values: {{"none", Scaling::None}, ...}.
  template <class E, class Q>
  requires std::derived_from<P, Q> FieldEntry choice(std::string_view name, E Q::*member, std::string_view choices,
                                                     std::vector<E> values, std::string_view doc) {
    std::vector<std::string> names = textsOf(choices);
    auto nameOf = [names, values](E v) {
      for (size_t i = 0; i < values.size() && i < names.size(); ++i)
        if (values[i] == v) return names[i];
      return std::string();
    };
    FieldEntry entry = add(
        name, Field::of(std::string(name), nameOf(initial_.*member)), doc,
        [=](P& p, const Field& f) {
          for (size_t i = 0; i < values.size() && i < names.size(); ++i)
            if (names[i] == f.strings.at(0)) p.*member = values[i];
        },
        [=](const P& p) { return Field::of("", nameOf(p.*member)); });
    entry.choices(choices);
    return entry;
  }

 private:
  friend class Definition<P>;
  struct Member {
    std::function<void(P&, const Field&)> set;
    std::function<Field(const P&)> get;
  };

  FieldEntry add(std::string_view name, Field value, std::string_view doc, std::function<void(P&, const Field&)> set,
                 std::function<Field(const P&)> get) {
    members_.push_back({std::move(set), std::move(get)});
    return DescribedPlugin::add(name, std::move(value), doc);
  }

  P initial_{};
  std::vector<Member> members_;
};

// Nothing that is thrown leaves the library.
inline tsc_status guardedCall(void (*body)(void*), void* state) noexcept {
  try {
    body(state);
    return TSC_OK;
  } catch (const Error& e) {
    host()->fail(text(e.message));
    return e.status;
  } catch (const std::bad_alloc&) {
    host()->fail(text("out of memory"));
    return TSC_NO_MEMORY;
  } catch (const std::exception& e) {
    host()->fail(text(e.what()));
  } catch (...) {
    host()->fail(text("an exception that is no std::exception"));
  }
  return TSC_FAILED;
}
template <class F>
tsc_status guarded(F&& body) noexcept {
  return guardedCall([](void* state) { (*static_cast<std::remove_reference_t<F>*>(state))(); }, &body);
}

// The C table of a plugin P.
template <class P>
class Definition {
 public:
  static const tsc_plugin* table() { return &definition().table_; }

 private:
  struct Instance {
    P plugin;
    std::string timing, decomposition;  // what the last call gave
  };

  Definition() {
    P::describe(d_);
    d_.fill(table_);
    table_.create = create;
    table_.destroy = [](void* self) { delete static_cast<Instance*>(self); };
    table_.shapes = [](void* self, void* build, const tsc_shape* inputs, size_t inputCount) {
      return guarded([&] {
        Shapes s(build, inputs, inputCount);
        of(self).shapes(s);
      });
    };
    table_.attach = [](void* self, void** context) {
      return guarded([&] { *context = new Instance{of(self), {}, {}}; });
    };
    table_.save = [](void* self, tsc_put put, void* sink) { return guarded([&] { give(of(self), put, sink); }); };
    addRun();
    addTensors();
    addLife();
    addTexts();
  }

  // Functions of the table that a plugin may leave out.

  void addRun() {
    if constexpr (requires(P & p, Run & r) { p.run(r); })
      table_.run = run;
    else
      static_assert(
          requires(const P& p, const Tensors& t) { p.decompose(t); }, "a plugin has run() or decompose()");
  }

  void addTensors() {
    if constexpr (requires(const P& p) { p.outputs(); })
      table_.outputs_of = [](void* self) {
        size_t count = 0;
        tsc_status status = guarded([&] { count = of(self).outputs(); });
        return status == TSC_OK ? count : std::numeric_limits<size_t>::max();
      };
    else
      static_assert(
          !requires { &P::outputs; }, "expected size_t outputs() const");
    if constexpr (requires(const P& p) { p.aliasOf(size_t{}); })
      table_.alias_of = [](void* self, size_t output) {
        constexpr int32_t kFailed = -2;
        int32_t alias = kFailed;
        guarded([&] { alias = static_cast<int32_t>(of(self).aliasOf(output)); });
        return alias;
      };
    else
      static_assert(
          !requires { &P::aliasOf; }, "expected int aliasOf(size_t output) const");
    if constexpr (requires(const P& p, const Tensors& t) { p.supports(t, size_t{}); })
      table_.supports = [](void* self, size_t position, const tsc_tensor* tensors, size_t inputs, size_t outputs) {
        bool yes = false;
        tsc_status status = guarded([&] { yes = of(self).supports(Tensors(tensors, inputs, outputs), position); });
        return static_cast<int>(status == TSC_OK && yes);
      };
    else
      static_assert(
          !requires { &P::supports; }, "expected bool supports(const tsc::Tensors&, size_t position) const");
    if constexpr (requires(P & p, const Tensors& t) { p.configure(t, t, t); })
      table_.configure = [](void* self, const tsc_tensor* least, const tsc_tensor* usual, const tsc_tensor* most,
                            size_t count) {
        return guarded([&] {
          size_t inputs = Definition::table()->input_count, outputs = count - inputs;
          of(self).configure(Tensors(least, inputs, outputs), Tensors(usual, inputs, outputs),
                             Tensors(most, inputs, outputs));
        });
      };
    else
      static_assert(
          !requires { &P::configure; },
          "expected void configure(const tsc::Tensors& least, const tsc::Tensors& usual, const tsc::Tensors& most)");
    if constexpr (requires(const P& p, const Tensors& t) { p.workspace(t); })
      table_.workspace = [](void* self, const tsc_tensor* tensors, size_t inputs, size_t outputs) {
        size_t bytes = 0;
        tsc_status status = guarded([&] { bytes = of(self).workspace(Tensors(tensors, inputs, outputs)); });
        return status == TSC_OK ? bytes : std::numeric_limits<size_t>::max();
      };
    else
      static_assert(
          !requires { &P::workspace; }, "expected size_t workspace(const tsc::Tensors&) const");
  }

  void addLife() {
    if constexpr (requires(P & p) { p.initialize(); })
      table_.initialize = [](void* self) { return guarded([&] { of(self).initialize(); }); };
    if constexpr (requires(P & p) { p.terminate(); })
      table_.terminate = [](void* self) { guarded([&] { of(self).terminate(); }); };
    if constexpr (requires(const P& p) { p.tactics(); })
      table_.tactics = [](void* self, int32_t* ids, size_t room) {
        std::vector<int32_t> all;
        guarded([&] { all = of(self).tactics(); });
        for (size_t i = 0; i < all.size() && i < room; ++i) ids[i] = all[i];
        return all.size();
      };
    else
      static_assert(
          !requires { &P::tactics; }, "expected std::vector<int32_t> tactics() const");
    if constexpr (requires(const P& p) { p.timingId(); })
      table_.timing_id = [](void* self) {
        auto* instance = static_cast<Instance*>(self);
        guarded([&] { instance->timing = instance->plugin.timingId(); });
        return text(instance->timing);
      };
    else
      static_assert(
          !requires { &P::timingId; }, "expected std::string timingId() const");
  }

  void addTexts() {
    if constexpr (requires(const P& p, const Tensors& t) { p.decompose(t); })
      table_.decompose = [](void* self, const tsc_tensor* inputs, size_t count) {
        auto* instance = static_cast<Instance*>(self);
        instance->decomposition.clear();
        guarded([&] { instance->decomposition = instance->plugin.decompose(Tensors(inputs, count, 0)); });
        return text(instance->decomposition);
      };
    else
      static_assert(
          !requires { &P::decompose; }, "expected std::string decompose(const tsc::Tensors& inputs) const");
    if constexpr (requires { std::string_view(P::example()); })
      table_.example = [] { return text(P::example()); };
    else
      static_assert(
          !requires { &P::example; }, "expected static std::string_view example()");
    if constexpr (requires(Fields & f) { P::upgrade(uint32_t{}, f); })
      table_.upgrade = [](const tsc_host*, uint32_t from, const tsc_field* fields, size_t count, tsc_put put,
                          void* sink) {
        return guarded([&] {
          Fields all;
          for (size_t i = 0; i < count; ++i) all.all.push_back(Field::read(fields[i]));
          P::upgrade(from, all);
          for (const Field& f : all.all) f.give([&](const tsc_field& raw) { put(sink, &raw); });
        });
      };
  }

  static P& of(void* self) { return static_cast<Instance*>(self)->plugin; }
  static const Definition& definition() {
    static Definition theDefinition;
    return theDefinition;
  }
  static const Description<P>& description() { return definition().d_; }

  static tsc_status create(const tsc_host*, tsc_str, const tsc_field* fields, size_t count, uint32_t phase,
                           void** self) {
    return guarded([&] {
      auto made = std::make_unique<Instance>();
      for (size_t i = 0; i < count; ++i) description().members_[i].set(made->plugin, Field::read(fields[i]));
      if constexpr (requires(P & p) { p.prepare(phase); })
        made->plugin.prepare(phase);
      else if constexpr (requires(P & p) { p.prepare(); })
        made->plugin.prepare();
      *self = made.release();
    });
  }

  static void give(const P& plugin, tsc_put put, void* sink) {
    const Description<P>& d = description();
    for (size_t i = 0; i < d.members_.size(); ++i) {
      Field f = d.members_[i].get(plugin);
      f.name = view(d.fields_[i].name);
      f.give([&](const tsc_field& raw) { put(sink, &raw); });
    }
  }

  static tsc_status run(void* self, void* theRun, const tsc_tensor* inputs, size_t inputCount,
                        const tsc_tensor* outputs, size_t outputCount, void* workspace, size_t bytes, int32_t tactic) {
    return guarded([&] {
      Run r(theRun, Tensors(inputs, inputCount, 0), Tensors(outputs, outputCount, 0),
            {static_cast<std::byte*>(workspace), bytes}, tactic);
      of(self).run(r);
    });
  }

  Description<P> d_;
  tsc_plugin table_{};
};

template <class... P>
const tsc_plugin* const* tables(const tsc_host* theHost, size_t* count) {
  host() = theHost;
  static const tsc_plugin* const all[] = {Definition<P>::table()...};
  *count = sizeof...(P);
  return all;
}

}  // namespace tsc

// Once in a library: all plugins that it offers.
#define TSC_PLUGINS(...)                                                                                        \
  extern "C" [[gnu::visibility("default")]] const tsc_plugin* const* tscompile_plugins_v1(const tsc_host* host, \
                                                                                          size_t* count) {      \
    return ::tsc::tables<__VA_ARGS__>(host, count);                                                             \
  }
