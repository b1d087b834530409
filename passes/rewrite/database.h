// Databases of rewrites: names, tags, positions, and the queries that make plans from them. Built once, then const.
#pragma once

#include "ir/support/result.h"
#include "passes/rewrite/plan.h"

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tscompile {

// Which entries of a database are wanted, by name or tag. A value: the verbs return changed copies.
class Query {
 public:
  using Tags = std::set<std::string>;

  Query including(const Tags& tags) const;  // entries that have one of these ...
  Query requiring(const Tags& tags) const;  // ... and all of these ...
  Query excluding(const Tags& tags) const;  // ... and none of these
  // What is asked of the database of this name inside, instead of this query.
  Query withSub(std::string database, Query query) const;
  // Of sequences only entries before this position.
  Query before(double position) const;
  // One more plan at a position of the outermost sequence.
  Query withExtra(Plan plan, double position) const;

  // "+a,b &c -d sub:{canonicalize: +x} <49.5": names and tags to include, require and exclude, separated by blanks or
  // commas; a word without sign is included.
  static Result<Query> parse(std::string_view text, Diagnostics& diagnostics);
  std::string text() const;

  bool selects(const Tags& tags) const;
  const Tags& included() const { return include_; }
  const Tags& required() const { return require_; }
  double cutoff() const { return cutoff_; }

 private:
  friend class RewriteDatabase;
  friend class QueryReader;
  Tags include_, require_, exclude_;
  std::map<std::string, std::shared_ptr<const Query>> sub_;
  double cutoff_ = std::numeric_limits<double>::infinity();
  std::vector<std::pair<double, Plan>> extra_;
};

// What an entry of an equilibrium does besides being applied until nothing changes.
enum class Role : uint8_t { Normal, Final, CleanUp };

struct EntryOptions {
  Query::Tags tags = {};
  std::optional<double> position = std::nullopt;  // in a sequence; none: after the last
  int benefit = 0;
  Role role = Role::Normal;
  std::string purpose = {};  // one line
  bool overwrite = false;    // takes the place of an entry of this name
  SourceRange range = {};    // of a text that it comes from, for messages
};

// A node rewrite with what a list of databases and entries says of it.
struct NamedRewrite {
  const char* database;  // that it belongs to
  NodeRewrite rewrite;
  const char* purpose;
  Query::Tags tags = {"default"};
};

class RewriteDatabase {
 public:
  // How the entries of a query are joined: one after the other; all until nothing changes; node rewrites of which the
  // first that applies to a node is taken; node rewrites in one walk, or inside an equilibrium in walks of their own.
  enum class Kind : uint8_t { Sequence, Equilibrium, Group, Walk };
  using Object = std::variant<NodeRewrite, GraphRewrite, Plan, std::shared_ptr<const RewriteDatabase>>;

  struct Entry {
    std::string name;
    Object object;
    Query::Tags tags;  // its name and the name of its database among them
    double position = 0;
    int benefit = 0;
    Role role = Role::Normal;
    std::string purpose;
    std::vector<std::string> path;  // the databases around it, as allEntries() gives them
  };

  RewriteDatabase(Kind kind, std::string name) : kind_(kind), name_(std::move(name)) {}

  // Refused, with a report: a name that is there, or is a tag; a tag that is a name; what does not fit the kind of the
  // database. A database inside may be an entry of several others, under different names.
  Result<void> add(std::string name, Object object, EntryOptions options, Diagnostics& diagnostics);

  // A copy of the database of this name inside, at any place, to be changed and put back; null if there is none.
  std::shared_ptr<RewriteDatabase> copyOfInner(std::string_view name) const;
  void replaceInner(std::shared_ptr<const RewriteDatabase> database);

  Plan query(const Query& query) const;
  const Entry* find(std::string_view name) const;  // at any depth
  // All entries in the order in which they run, those of databases inside in the place of these.
  std::vector<Entry> allEntries() const;
  // Names and tags that the query uses and no entry has.
  std::vector<std::string> unknownNames(const Query& query) const;
  // The name or tag that is nearest to a misspelt one, or "".
  std::string nearestName(std::string_view name) const;
  const std::string& name() const { return name_; }
  Kind kind() const { return kind_; }

 private:
  bool hasTag(const std::string& tag) const;
  std::vector<const Entry*> ordered() const;
  Plan sequence(const Query& query) const;
  std::vector<NodeRewrite> nodeRewrites(const Query& query) const;

  Kind kind_;
  std::string name_;
  std::vector<Entry> entries_;
};

}  // namespace tscompile
