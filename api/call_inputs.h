// Calling a method: inputs by position or name, defaults for those that are left out.
#pragma once

#include "api/module.h"
#include "frontend/files/weights.h"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

// A name as the source has it: "x" for "x.1".
std::string_view withoutNumber(std::string_view name);

class CallInputs {
 public:
  // `method` was prepared of `module` by this name.
  CallInputs(const Module& module, const Method& method, const std::string& name)
      : wanted_(method.inputs()), defaults_(module.defaults(name)) {}
  // The same for what `module` was compiled to.
  CallInputs(std::vector<ValueInfo> wanted, std::map<std::string, IValue> defaults)
      : wanted_(std::move(wanted)), defaults_(std::move(defaults)) {}

  // What the members of enums among the inputs stand for (frontend/files/attribute_tensors.h).
  void setMembers(Metadata members) { members_ = std::move(members); }

  const std::vector<ValueInfo>& wanted() const { return wanted_; }
  // Whether complete() would give these as they are.
  bool areComplete(std::span<const IValue> given) const;
  const std::map<std::string, IValue>& defaults() const { return defaults_; }
  // Whether a call may leave the input out.
  bool isOptional(size_t input) const;
  const IValue* defaultOf(size_t input) const;  // null: there is none
  // The input of this name; also without the ".1" that PyTorch appends to names, where that is one input's.
  std::optional<size_t> find(std::string_view name) const;

  // What Method::run() takes, of one value for each input at most, nothing where it is left out. Reports (as Input)
  // what does not fit (api/support/fitted_values.h) or is missing. Members of enums that are only named get their
  // values.
  Result<std::vector<IValue>> complete(std::vector<std::optional<IValue>> given, Diagnostics& diagnostics) const;

 private:
  std::vector<ValueInfo> wanted_;
  std::map<std::string, IValue> defaults_;
  Metadata members_;
};

}  // namespace tscompile
