// Plugins in C++20: a struct with its settings as members, a description of fields and tensors, and functions that
// compute sizes and results. This header and the two that it includes make the C table of tscompile_plugin.h from it;
// nothing else of tscompile is needed. docs/plugins.md is the guide. The whole of a plugin:
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

#include "runtime/plugin/plugin_description.h"
#include "runtime/plugin/plugin_values.h"

#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>

namespace TSC_VISIBILITY tsc {

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
    table_.save = [](void* self, tsc_put put, void* sink) {
      return guarded([&] { definition().d_.save(&of(self), put, sink); });
    };
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

  static tsc_status create(const tsc_host*, tsc_str, const tsc_field* fields, size_t count, uint32_t phase,
                           void** self) {
    return guarded([&] {
      auto made = std::make_unique<Instance>();
      definition().d_.load(&made->plugin, fields, count);
      if constexpr (requires(P & p) { p.prepare(phase); })
        made->plugin.prepare(phase);
      else if constexpr (requires(P & p) { p.prepare(); })
        made->plugin.prepare();
      *self = made.release();
    });
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
