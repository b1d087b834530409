// What `lower`, `rewrite` and `passes` share: the options of rewriting, read.
#pragma once

#include "ir/values/bounded_text.h"
#include "passes/catalog.h"
#include "passes/rewrite/profile.h"
#include "tools/commands/commands.h"

#include <functional>
#include <memory>
#include <optional>

namespace tscompile {

// The database, the query and the settings that a command line asks for.
class RewritingSetup {
 public:
  // Nothing after reporting, if a file of rules is wrong. Throws UsageError for names that are not there.
  static std::unique_ptr<RewritingSetup> make(const RewriteCommand& command, RewriteDatabase database,
                                              const Query& otherwise, Session& session);

  RewriteDatabase database;
  Query query;
  PlanSettings settings;

  // Writes the profile, if one was asked for.
  void finish();
  // As JSON on standard output: which entries were applied how often, and the text that `print` writes, if there is
  // such.
  void writeApplied(const std::function<bool(const TextSink&)>& print);

 private:
  RewritingSetup(const RewriteCommand& command, RewriteDatabase base, Session& session)
      : database(std::move(base)), command_(command), session_(session) {}
  bool addRuleFiles();
  void makeQuery(const Query& otherwise);
  void makeSettings();
  void checkNames(const Query& query) const;

  const RewriteCommand& command_;
  Session& session_;
  Profile profile_;
  std::vector<std::pair<std::string, size_t>> applied_;     // in the order of their first time
  std::vector<std::pair<std::string, std::string>> after_;  // graphs after entries, for JSON
};

}  // namespace tscompile
