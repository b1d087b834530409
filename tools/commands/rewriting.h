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

// Why a rule, or a rewrite in C++, does not apply to the graph of the context; "" if it does. The graph is as before
// but for the numbers of names.
std::string whyNot(const NodeRewrite& rewrite, RewriteContext& context);

// The database, the query and the settings that a command line asks for.
class RewritingSetup {
 public:
  // Nothing after reporting, if a file of rules is wrong. Throws UsageError for names that are not there.
  static std::unique_ptr<RewritingSetup> make(const RewriteCommand& command, RewriteDatabase database,
                                              const Query& otherwise, Session& session);

  RewriteDatabase database;
  Query query;
  PlanSettings settings;

  // That of a rule, which `also` may have as well. Throws UsageError if there is none.
  const RewriteDatabase::Entry& entryOf(const std::string& rule, const RewriteDatabase& also) const;

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

  const RewriteCommand& command_;
  Session& session_;
  Profile profile_;
  std::vector<std::pair<std::string, size_t>> applied_;     // in the order of their first time
  std::vector<std::pair<std::string, std::string>> after_;  // graphs after entries, for JSON
};

// Watches a rule while a plan runs, which takes the settings of the setup: whether it is applied, and if not, why not.
class RuleWatch {
 public:
  // Throws UsageError if there is no such rule.
  RuleWatch(RewritingSetup& setup, const std::string& rule, Session& session);
  // After the run. One line for each thing that is to be told.
  std::string text() const;

 private:
  void look(const std::string& entry, const Graph& graph, bool changed);

  Session& session_;
  RewriteDatabase::Entry rule_;
  bool isSelected_;
  std::string place_;  // the entry of lowering that it is, or is a part of
  size_t applied_ = 0;
  std::optional<std::string> why_;  // when its place was done
  std::string matchesAfter_;        // the first entry behind its place after which it would match
};

}  // namespace tscompile
