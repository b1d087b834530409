#include "api/binding/foreign_operators.h"
#include "api/binding/foreign_texts.h"
#include "api/c/handles.h"

#include <algorithm>
#include <chrono>

using namespace tscompile;
using namespace tscompile::c;

struct tscompile_language_model {
  std::unique_ptr<ForeignTexts> texts;
};

namespace {

const char* orEmpty(const char* text) { return text ? text : ""; }

}  // namespace

tscompile_status tscompile_language_model_build(const tscompile_module* module, const char* folder,
                                                const tscompile_build_options* options, tscompile_error** error) {
  return guarded(error, [&] {
    given(folder, "folder");
    const tscompile_module& m = given(module, "module");
    const tscompile_build_options o = optionsOf(options, "tscompile_build_options");
    Diagnostics diagnostics;
    if (!buildFolder(m.module, m.path, folder, orEmpty(o.config), textsOf(o.settings, o.setting_count), diagnostics))
      fail(diagnostics, m.name);
    if (const std::string text = problemsOf(diagnostics, m.name).text; o.warn && !text.empty())
      o.warn(o.context, text.c_str());
  });
}

tscompile_status tscompile_language_model_load(const char* folder, const tscompile_serve_options* options,
                                               tscompile_language_model** out, tscompile_error** error) {
  return guarded(error, [&] {
    clear(out, "out");
    given(folder, "folder");
    const tscompile_serve_options o = optionsOf(options, "tscompile_serve_options");
    LanguageModel::Options settings;
    Diagnostics diagnostics;
    Result<std::shared_ptr<const Extensions>> extensions =
        extensionsOf({.plugins = textsOf(o.plugins, o.plugin_count)}, settings.load.limits, diagnostics);
    if (!extensions) fail(diagnostics);
    settings.load.extensions = std::move(*extensions);
    settings.threads = std::max(o.threads, 0);
    if (o.memory_limit) settings.run.memoryLimit = o.memory_limit;
    if (o.time_limit_ns)
      settings.run.timeLimit = std::chrono::nanoseconds(std::min<uint64_t>(o.time_limit_ns, INT64_MAX));
    if (o.interrupt) settings.run.interrupt = &o.interrupt->isSet;
    std::unique_ptr<ForeignTexts> texts =
        ForeignTexts::open(folder, orEmpty(o.tokenizer), std::move(settings), diagnostics);
    if (!texts) fail(diagnostics);
    *out = new tscompile_language_model{std::move(texts)};
  });
}

void tscompile_language_model_free(tscompile_language_model* model) { delete model; }

tscompile_status tscompile_language_model_add(tscompile_language_model* model, const char* request, size_t* number,
                                              tscompile_error** error) {
  return guarded(error, [&] {
    given(model, "model");
    given(request, "request");
    Diagnostics diagnostics;
    Result<size_t> added = model->texts->add(request, diagnostics);
    if (!added) fail(diagnostics);
    if (number) *number = *added;
  });
}

void tscompile_language_model_cancel(tscompile_language_model* model, size_t number) {
  if (model) model->texts->cancel(number);
}

tscompile_status tscompile_language_model_step(tscompile_language_model* model, char** events, int* more,
                                               tscompile_error** error) {
  return guarded(error, [&] {
    clear(events, "events");
    given(model, "model");
    std::vector<std::string> lines;
    const bool isMore = model->texts->step(lines);
    if (more) *more = isMore;
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    *events = copied(text);
  });
}

tscompile_status tscompile_language_model_encode(const tscompile_language_model* model, const char* text,
                                                 tscompile_value** out, tscompile_error** error) {
  return guarded(error, [&] {
    clear(out, "out");
    given(model, "model");
    given(text, "text");
    Diagnostics diagnostics;
    Result<std::vector<TokenId>> tokens = model->texts->encode(text, diagnostics);
    if (!tokens) fail(diagnostics);
    const std::vector<int64_t> numbers(tokens->begin(), tokens->end());
    *out = new tscompile_value{intList(DimSpan(numbers))};
  });
}

tscompile_status tscompile_language_model_decode(const tscompile_language_model* model, const int32_t* tokens,
                                                 size_t count, char** out, tscompile_error** error) {
  return guarded(error, [&] {
    clear(out, "out");
    given(model, "model");
    if (count) given(tokens, "tokens");
    Diagnostics diagnostics;
    Result<std::string> text = model->texts->decode(TokenSpan(tokens, count), diagnostics);
    if (!text) fail(diagnostics);
    *out = copied(*text);
  });
}
