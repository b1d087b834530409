#include "tools/commands/rewriting.h"

#include "ir/graph/clone.h"
#include "ir/graph/edit_log.h"
#include "ir/graph/printer.h"
#include "ir/support/json_fields.h"
#include "ir/support/text.h"
#include "passes/rewrite/trace.h"
#include "tools/tasks/rewrite_names.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

// Names of entries may be written with "-" for "_".
std::string entryName(std::string text) {
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

}  // namespace

std::unique_ptr<RewritingSetup> RewritingSetup::make(const RewriteCommand& command, RewriteDatabase database,
                                                     const Query& otherwise, Session& session) {
  std::unique_ptr<RewritingSetup> setup(new RewritingSetup(command, std::move(database), session));
  if (!setup->addRuleFiles()) return nullptr;
  setup->makeQuery(otherwise);
  setup->makeSettings();
  return setup;
}

bool RewritingSetup::addRuleFiles() {
  for (const std::string& path : command_.rules) {
    Result<std::string> text = session_.read(path);
    if (!text) return false;
    Result<std::vector<Rule>> rules = readRules(SourceFile::make(path == "-" ? "<stdin>" : path, std::move(*text)),
                                                session_.diagnostics, &session_.operators());
    if (!rules) return false;
    std::vector<std::string> names;
    for (const Rule& r : *rules) names.push_back(r.name);
    if (!addRules(database, std::move(*rules), session_.diagnostics)) return false;
    // Whoever names a file wants its rules.
    query = query.including({names.begin(), names.end()});
  }
  return true;
}

void RewritingSetup::makeQuery(const Query& otherwise) {
  if (!command_.passes.empty() && !command_.query.empty())
    throw UsageError{"--passes and --rewrite exclude each other"};
  if (!command_.mode.empty() && (!command_.passes.empty() || !command_.query.empty()))
    throw UsageError{"--mode excludes --passes and --rewrite"};
  Query::Tags ofFiles = query.included();
  if (!command_.passes.empty()) {
    Query::Tags names;
    for (const std::string& p : command_.passes) names.insert(entryName(p));
    query = Query().including(names);
  } else if (!command_.query.empty()) {
    Diagnostics found;
    Result<Query> q = Query::parse(command_.query, found);
    if (!q) throw UsageError{"--rewrite: " + found.list()[0].message};
    query = *q;
    // What only leaves out, leaves out of what there would be.
    if (query.included().empty()) query = query.including(otherwise.including(ofFiles).included());
  } else {
    query = (command_.mode.empty() ? otherwise : *loweringMode(command_.mode)).including(ofFiles);
  }
  checkRewriteNames(database, query);
  if (command_.cutoff) query = query.before(*command_.cutoff);
}

void RewritingSetup::makeSettings() {
  settings.verify = command_.check;
  settings.compare = command_.verifyRewrites;
  settings.maxNodes = session_.common.limits.nodes;
  if (command_.profile != ProfileForm::None) settings.profile = &profile_;
  if (session_.common.json)
    settings.applied = [this](const std::string& name) {
      auto known = std::find_if(applied_.begin(), applied_.end(), [&](const auto& a) { return a.first == name; });
      if (known == applied_.end())
        applied_.emplace_back(name, 1);
      else
        ++known->second;
    };
  if (!command_.trace && !command_.traceIgnore.empty())
    throw UsageError{"--trace-ignore is of --trace, which is missing"};
  checkRewriteNames(database, Query().including({command_.traceIgnore.begin(), command_.traceIgnore.end()}));
  if (command_.trace)
    settings.trace = traceWithout(command_.traceIgnore, [this](const std::string& line) {
      session_.common.jsonErrors ? session_.note(line) : void(session_.err << line << '\n');
    });
  if (command_.printAfter.empty()) return;
  std::vector<std::string> names;
  for (const std::string& n : command_.printAfter) names.push_back(entryName(n));
  Query::Tags asked(names.begin(), names.end());
  asked.erase("all");
  checkRewriteNames(database, Query().including(asked));
  settings.afterEntry = [this, names](const std::string& name, const Graph& graph, bool changed) {
    bool wanted = false;
    for (const std::string& n : names) wanted |= n == name || (n == "all" && changed);
    if (!wanted) return;
    if (session_.common.json) {
      after_.emplace_back(name, graphText(graph));
      return;
    }
    session_.out << "# after " << name << (changed ? "" : ", which changed nothing") << '\n';
    PrintOptions printing;
    printing.maxBytes = session_.common.limits.printBytes;
    if (!printGraph(
            graph, [&](std::string_view piece) { session_.out << piece; }, printing))
      session_.failAtPrintLimit();
    session_.out << '\n';
  };
}

namespace {

// Asks a rewrite in C++ about each node of its kinds, and takes back what it did; "" if it did something.
std::string whyCodeDoesNotApply(const NodeRewrite& rewrite, RewriteContext& context) {
  EditLog log(context.graph);
  const Node* last = nullptr;
  size_t asked = 0;
  for (Node* n : context.graph.nodesOf([&](Symbol kind) { return isOfKind(kind, rewrite.kinds); })) {
    size_t start = log.position();
    bool applies = bool(rewrite.apply(n, context));
    log.moveTo(start);
    if (applies) return "";
    ++asked;
    last = n;
  }
  if (last) return fmt::format("it looks at {} in vain, such as {}", counted(asked, "node"), trim(nodeText(*last)));
  return "the graph has no " + join(rewrite.kinds, " or ", [](Symbol kind) { return std::string(kind.text()); });
}

}  // namespace

std::string whyNot(const NodeRewrite& rewrite, RewriteContext& context) {
  return rewrite.whyNot ? rewrite.whyNot(context) : whyCodeDoesNotApply(rewrite, context);
}

const RewriteDatabase::Entry& RewritingSetup::entryOf(const std::string& rule, const RewriteDatabase& also) const {
  const RewriteDatabase::Entry* entry = database.find(rule);
  if (!entry) entry = also.find(rule);
  if (entry && std::holds_alternative<NodeRewrite>(entry->object)) return *entry;
  UsageError error{"--why: there is no rule '" + abbreviate(rule, 80) + "'"};
  std::string nearest = database.nearestName(rule);
  if (nearest.empty()) nearest = also.nearestName(rule);
  if (!nearest.empty()) error.notes.push_back("did you mean '" + nearest + "'?");
  throw error;
}

RuleWatch::RuleWatch(RewritingSetup& setup, const std::string& rule, Session& session)
    : session_(session), rule_(setup.entryOf(rule, setup.database)), isSelected_(setup.query.selects(rule_.tags)) {
  for (const RewriteDatabase::Entry& e : setup.database.allEntries())
    if (e.name == rule) place_ = e.path.empty() ? e.name : e.path.front();
  setup.settings.applied = [this, tell = setup.settings.applied](const std::string& name) {
    applied_ += name == rule_.name;
    if (tell) tell(name);
  };
  setup.settings.afterEntry = [this, tell = setup.settings.afterEntry](const std::string& name, const Graph& graph,
                                                                       bool changed) {
    look(name, graph, changed);
    if (tell) tell(name, graph, changed);
  };
}

void RuleWatch::look(const std::string& entry, const Graph& graph, bool changed) {
  if (applied_ > 0 || !matchesAfter_.empty()) return;
  const bool isItsPlace = entry == place_;
  if (!isItsPlace && (!why_ || !changed)) return;
  std::unique_ptr<Graph> copy = cloneGraph(graph);
  Diagnostics dropped;
  RewriteContext context(*copy, session_.operators(), dropped);
  std::string why = whyNot(std::get<NodeRewrite>(rule_.object), context);
  if (isItsPlace)
    why_ = std::move(why);
  else if (why.empty())
    matchesAfter_ = entry;
}

std::string RuleWatch::text() const {
  const std::string& name = rule_.name;
  if (applied_ > 0)
    return fmt::format("{}: it was applied {}\n", name, applied_ == 1 ? "once" : counted(applied_, "time"));
  if (!isSelected_ || !why_) return fmt::format("{}: it is not asked: the query does not select it\n", name);
  std::string out = fmt::format("{}: {}\n", name, why_->empty() ? "it matches, and was refused" : *why_);
  if (!matchesAfter_.empty())
    out += fmt::format("{}: it is asked at '{}', and would match after '{}': give it a position behind that\n", name,
                       place_, matchesAfter_);
  return out;
}

namespace {

struct AppliedFields {
  std::string name;
  size_t count;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", name);
    visit("count", count);
  }
};

struct AfterFields {
  std::string name, text;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", name);
    visit("text", text);
  }
};

struct Rewriting {
  std::vector<AppliedFields> applied;
  std::vector<AfterFields> after;
  std::optional<std::string> text = {};

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.rewriting/1");
    visit("applied", applied);
    if (!after.empty()) visit("after", after);
    visit("text", text);
  }
};

}  // namespace

void RewritingSetup::writeApplied(const std::function<bool(const TextSink&)>& print) {
  std::string text;
  if (print && !print([&](std::string_view piece) { text += piece; })) return session_.failAtPrintLimit();
  Rewriting report;
  for (const auto& [name, count] : applied_) report.applied.push_back({name, count});
  for (const auto& [name, graph] : after_) report.after.push_back({name, graph});
  if (print) report.text = std::move(text);
  writeJson(session_.out, report);
}

void RewritingSetup::finish() {
  if (command_.profile == ProfileForm::Text) session_.err << profile_.text();
  if (command_.profile == ProfileForm::Json) session_.err << profile_.json() << '\n';
}

}  // namespace tscompile
