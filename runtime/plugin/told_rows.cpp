#include "runtime/plugin/told_rows.h"

#include "ir/values/error.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

constexpr uint32_t kMinor = 0xffff;  // of the version of the interface

}  // namespace

void checkRows(const PluginCreator& creator, const PluginTensors& outputs, const std::vector<int64_t>& rows) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::string_view name = tsc::view(creator.outputs()[i].name);
    if (rows[i] == kNegativeRows)
      throw ExecutionError(ErrorKind::Model,
                           fmt::format("it says that the output {} has a negative number of rows", name));
    if (rows[i] >= 0 && (outputs[i].rank() == 0 || rows[i] > outputs[i].size(0)))
      throw ExecutionError(
          ErrorKind::Model,
          fmt::format("it says that the output {} has {} rows, more than its shape told", name, rows[i]));
    if (rows[i] >= 0 && rows[i] != outputs[i].size(0) && !(creator.outputs()[i].flags & TSC_PORT_FEWER_ROWS))
      throw ExecutionError(ErrorKind::Model,
                           fmt::format("it says that the output {} has {} of {} rows, which its description must allow "
                                       "with fewerRows(){}",
                                       name, rows[i], outputs[i].size(0),
                                       (creator.table().abi & kMinor) == 0 ? " (the library is older than that)" : ""));
  }
}

}  // namespace tscompile
