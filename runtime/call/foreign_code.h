// Which code of others is executing, plugins and operators, for whoever has to tell it when the process ends there.
#pragma once

#include <string_view>

namespace tscompile {

class ForeignCode {
 public:
  // From here to the end of the scope this thread executes it: "the plugin ", "mine", "Scale". No name space: the name
  // alone tells it. All must live as long.
  ForeignCode(std::string_view what, std::string_view nameSpace, std::string_view name);
  ~ForeignCode();
  ForeignCode(const ForeignCode&) = delete;

  const std::string_view what, nameSpace, name;

  // That of this thread; of threads that only help one, that which began last and is not done. Null: none. May be asked
  // by a signal handler.
  static const ForeignCode* current();

 private:
  const ForeignCode *own_, *shared_;  // those before
};

}  // namespace tscompile
