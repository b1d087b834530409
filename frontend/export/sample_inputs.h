// The arguments that a program was exported with, which torch.export.save keeps beside it.
#pragma once

#include "ir/support/limits.h"
#include "ir/values/ivalue.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tscompile {

struct SampleInputs {
  std::vector<IValue> args;  // lists, tuples and dicts as Python has them, of no particular type
  std::vector<std::pair<std::string, IValue>> kwargs;
};

// Of the program with this method of the module; nothing if the file has none, or what it has is not made of tensors,
// numbers, texts, lists, tuples, dicts and objects of these: named tuples are tuples, others dicts. Reports nothing.
std::optional<SampleInputs> readSampleInputs(const std::string& path, const std::string& method,
                                             const Limits& limits = {});

// What torch.save wrote of lists, tuples and dicts, as those above. Nothing if the file is none, or of other things.
std::optional<IValue> readSavedValue(const std::string& path, const Limits& limits = {});

}  // namespace tscompile
