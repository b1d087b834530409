// Options that a file says where the command line and the environment do not: `--defaults FILE`.
#pragma once

#include "ir/support/source.h"
#include "tools/options/options.h"

#include <map>
#include <string>
#include <vector>

namespace tscompile {

// TOML: names of options at the top, for all commands that have them, and in tables that have the names of commands.
class DefaultsFile {
 public:
  struct Entry {
    std::vector<std::string> values;  // as the command line has them; "" of a flag
    SourceRange place;
  };

  DefaultsFile() = default;
  // Throws UsageError for what cannot be read, and for what no command has.
  explicit DefaultsFile(const std::string& path);

  // What it says of this option to this command, or null.
  const Entry* find(const VerbSpec& verb, const OptionSpec& option) const;
  const SourcePtr& source() const { return source_; }

 private:
  friend class DefaultsReader;

  SourcePtr source_;
  std::map<std::string, std::map<std::string, Entry>> tables_;  // "" is the top; keys are as they are written
};

// Such a file of what was said to this command, with the other options as comments.
std::string defaultsText(const Options& options);

}  // namespace tscompile
