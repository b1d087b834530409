#include "tools/tasks/bound_inputs.h"

#include "api/value_text.h"
#include "ir/support/text.h"
#include "passes/lowering/bound_inputs.h"
#include "tools/options/option_parts.h"
#include "tools/tasks/inputs.h"
#include "tools/tasks/partitioning.h"

namespace tscompile {

bool bindInputs(RewriteArguments& arguments, std::span<const std::string> texts, const Graph* entry, Session& session) {
  if (!entry) return true;
  const std::vector<ValueInfo> inputs = inputsOf(*entry);
  for (const std::string& text : texts) {
    const size_t equal = text.find('=');
    if (equal == std::string::npos) throw UsageError{"--bind takes NAME=VALUE, not '" + abbreviate(text, 80) + "'"};
    const ValueInfo& input = inputs[inputOf(inputs, text.substr(0, equal))];
    const std::string_view written = std::string_view(text).substr(equal + 1);
    const size_t before = session.diagnostics.list().size();
    Result<IValue> value =
        parseValueText(written, "--bind " + input.name, session.diagnostics, input.type, session.common.limits);
    if (!value) {
      blameCommandLine("--bind " + input.name, written, before, session.diagnostics,
                       meantValue(input, written, "--bind"));
      return false;
    }
    if (!isInstance(*value, withoutRefinement(input.type))) {
      UsageError error{"input %" + input.name + " takes " + typeText(input.type) + ", not " +
                       typeText(withoutRefinement(dynamicType(*value)))};
      if (std::string meant = meantValue(input, written, "--bind"); !meant.empty()) error.notes.push_back(meant);
      throw error;
    }
    arguments[boundInput(input.name)] = *value;
  }
  return true;
}

bool bindInputs(CompileSpec& spec, const Options& options, const Graph* entry, Session& session) {
  const std::vector<std::string>& texts = options.own.of<BoundInputs>().texts;
  if (!texts.empty() && !spec.lower)
    throw UsageError{"--bind makes constants of inputs where a graph is lowered, and --no-lower takes it as it is"};
  return bindInputs(spec.lowering.arguments, texts, entry, session);
}

}  // namespace tscompile
