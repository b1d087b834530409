// The settings of compiling, each said once: what it is called, what it takes, and where it goes. The options of a
// command line, the fields of an engine file and refitting all go by this table.
#pragma once

#include "api/compile.h"

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tscompile {

// The setting without which runs of what was compiled begin with the module as it was loaded.
inline constexpr std::string_view kKeepState = "keep-state";

struct CompileSetting {
  std::string_view name;        // "min-block-size"
  std::string_view value = {};  // "N", "model|measure" for a choice; empty: it is said or it is not
  std::string_view text = {};   // one line; {NAME} is another setting
  // Whether the value can be. Null: only programs can say it, and no file keeps it.
  bool (*set)(CompileSpec&, const std::string& value) = nullptr;
  // Its values, as `set` takes them; they are not kept if they are those of CompileSpec().
  std::vector<std::string> (*get)(const CompileSpec&) = nullptr;
  std::string_view takes = {};  // of messages: "a number from 1 up"
  bool repeats = false;         // each value is added to the others
  bool valueOptional = false;   // `set` gets an empty text if it is left out
};

std::span<const CompileSetting> compileSettings();
// Null if there is none of this name.
const CompileSetting* findCompileSetting(std::string_view name);

// Names and values of the settings that are not by default, in the order of the table.
std::vector<std::pair<const CompileSetting*, std::string>> saidSettings(const CompileSpec& spec);
// Those that have texts, as "name=value" or "name".
std::vector<std::string> settingTexts(const CompileSpec& spec);
// Takes such a text; whether it is one.
bool applySetting(CompileSpec& spec, std::string_view text);
// Why a text is none: an unknown name, or what its value may be, with the nearest one. `separator` stands between the
// words of names where "-" cannot.
std::string settingProblem(std::string_view text, char separator = '-');

// The part that a percentage stands for, rounded once: 0.9999999 for "99.99999". None for a text that is no number.
std::optional<double> partOfPercent(const std::string& text);

// "f32", "f16", "bf16", "int8": how engines store weights of products. Others than these there are not.
std::string_view precisionName(DType precision);
// Takes PyTorch's and others' names of the same dtypes as well: "bfloat16", "torch.float16", "half".
std::optional<DType> precisionFromName(std::string_view name);

}  // namespace tscompile
