// Options that several commands have, and what their tables are put together from.
#pragma once

#include "ir/support/quantities.h"
#include "ir/support/split.h"
#include "ir/support/text.h"
#include "tools/options/options.h"

#include <initializer_list>

namespace tscompile {

template <class T>
T checked(std::optional<T> value, std::string_view option, std::string_view wanted, const std::string& text) {
  if (value) return *value;
  throw UsageError{std::string(option) + " takes " + std::string(wanted) + ", not '" + abbreviate(text, 80) + "'"};
}
// These throw UsageError for a text that is none.
std::chrono::nanoseconds duration(std::string_view option, std::string_view examples, const std::string& text);
double realNumber(std::string_view option, const std::string& text);
int64_t numberOfText(std::string_view option, const std::string& text);
// From 0 up.
double tolerance(std::string_view option, const std::string& text);
// "5" or "5%", from 0 up, as a part: 0.05.
double percentage(std::string_view option, const std::string& text);
// From 1 up.
size_t blockSize(std::string_view option, const std::string& text);
// The number of an option --threads that was given as `all`.
int threadCount(std::string_view text, const std::string& all);
// The numbers, from 1 to `most`, of "1,2,4", "1..4", "1..16*2".
std::vector<int> countList(std::string_view option, const std::string& text, uint64_t most);

// Throws UsageError if one of these was said, which has no effect beside `with`.
void refuseBeside(const Options& options, std::initializer_list<std::string_view> names, std::string_view with);

// Texts of the libraries have other settings in braces: "{opt-shape}" is --opt-shape.
std::string withOptions(std::string_view text);

// The option of a setting of api/compile_settings.h, with other names that it has on the command line ("--mbs,").
OptionSpec settingOption(std::string_view name, const std::string& aliases = "");
OptionSpec requireFullOption();
// Of what reads a model to cut it or to rewrite it.
OptionSpec weightsOption();
OptionSpec executorOption();
// Inputs that become constants when a graph is lowered.
struct BoundInputs {
  std::vector<std::string> texts;  // NAME=VALUE
};
OptionSpec bindOption();

using OptionSpecs = std::vector<OptionSpec>;
OptionSpecs operator+(OptionSpecs first, const OptionSpecs& then);
// How to cut: what all that makes engines takes, and with what all takes that tells of cutting.
OptionSpecs cuttingOptions();
OptionSpecs partitioningOptions();
// How engines store and multiply weights.
OptionSpecs precisionOptions();
// Of everything that rewrites.
OptionSpecs rewritingOptions();
// --input, of which `help` tells what it is for, and --inputs.
OptionSpecs inputOptions(const std::string& help);
// The same for what cuts and does not execute.
OptionSpecs sizesOfInputsOptions();
// Of everything that executes: what comes before its own options.
OptionSpecs modelOptions();

// Adds the names of a list with commas.
void addNames(std::vector<std::string>& names, const std::string& list);

}  // namespace tscompile
