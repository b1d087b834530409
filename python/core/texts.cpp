#include "python/core/texts.h"

#include "api/binding/foreign_operators.h"
#include "api/binding/foreign_texts.h"
#include "python/core/run_settings.h"
#include "python/core/values.h"

#include <algorithm>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace tscompile::python {
namespace {

using Texts = std::vector<std::string>;

// Python calls one function of it at a time.
struct PyTexts {
  std::unique_ptr<ForeignTexts> texts;
};

PyTexts load(const std::string& folder, const std::string& tokenizer, const Texts& plugins, int threads,
             nb::object timeLimit, nb::object memoryLimit) {
  LanguageModel::Options options;
  options.threads = threadsOf(threads);
  if (std::optional<uint64_t> bytes = memoryLimitOf(memoryLimit)) options.run.memoryLimit = *bytes;
  options.run.timeLimit = timeLimitOf(timeLimit);
  Diagnostics diagnostics;
  PyTexts out;
  {
    nb::gil_scoped_release unlocked;
    Result<std::shared_ptr<const Extensions>> extensions =
        extensionsOf({.plugins = plugins}, options.load.limits, diagnostics);
    if (extensions) {
      options.load.extensions = std::move(*extensions);
      out.texts = ForeignTexts::open(folder, tokenizer, std::move(options), diagnostics);
    }
  }
  if (!out.texts) raise(diagnostics, {});
  warn(diagnostics, {});
  return out;
}

size_t add(PyTexts& self, const std::string& request) {
  Diagnostics diagnostics;
  Result<size_t> number = self.texts->add(request, diagnostics);
  if (!number) raise(diagnostics, {});
  return *number;
}

nb::list step(PyTexts& self) {
  std::vector<std::string> events;
  {
    InterruptScope interrupts;
    nb::gil_scoped_release unlocked;
    self.texts->interruptBy(interrupts.flag());
    self.texts->step(events);
  }
  nb::list out;
  for (const std::string& e : events) out.append(textOf(e));
  return out;
}

std::vector<TokenId> encode(const PyTexts& self, const std::string& text) {
  Diagnostics diagnostics;
  Result<std::vector<TokenId>> tokens = self.texts->encode(text, diagnostics);
  if (!tokens) raise(diagnostics, {});
  return std::move(*tokens);
}

nb::str decode(const PyTexts& self, const std::vector<TokenId>& tokens) {
  Diagnostics diagnostics;
  Result<std::string> text = self.texts->decode(tokens, diagnostics);
  if (!text) raise(diagnostics, {});
  return textOf(*text);
}

nb::dict settings(const PyTexts& self) {
  nb::dict out;
  for (const auto& [name, value] : buildOptionTexts(self.texts->config())) out[textOf(name)] = textOf(value);
  return out;
}

}  // namespace

void addTexts(nb::module_& m) {
  nb::class_<PyTexts>(m, "_Texts")
      .def("add", add)
      .def("cancel", [](PyTexts& self, size_t number) { self.texts->cancel(number); })
      .def("step", step)
      .def("encode", encode)
      .def("decode", decode)
      .def_prop_ro("settings", settings)
      .def_prop_ro("vocabulary_size", [](const PyTexts& self) { return self.texts->vocabularySize(); });
  m.def("load_texts", load, nb::arg("folder"), nb::arg("tokenizer"), nb::arg("plugins"), nb::arg("threads"),
        nb::arg("time_limit").none(), nb::arg("memory_limit").none());
}

}  // namespace tscompile::python
