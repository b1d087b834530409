#include "passes/rewrite/database.h"

#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

namespace tscompile {

// ---- queries ----

namespace {
Query::Tags joined(Query::Tags a, const Query::Tags& b) {
  a.insert(b.begin(), b.end());
  return a;
}
bool intersects(const Query::Tags& a, const Query::Tags& b) {
  return std::any_of(a.begin(), a.end(), [&](const std::string& t) { return b.contains(t); });
}
}  // namespace

Query Query::including(const Tags& tags) const {
  Query q = *this;
  q.include_ = joined(include_, tags);
  return q;
}
Query Query::requiring(const Tags& tags) const {
  Query q = *this;
  q.require_ = joined(require_, tags);
  return q;
}
Query Query::excluding(const Tags& tags) const {
  Query q = *this;
  q.exclude_ = joined(exclude_, tags);
  return q;
}
Query Query::withSub(std::string database, Query query) const {
  Query q = *this;
  q.sub_[std::move(database)] = std::make_shared<const Query>(std::move(query));
  return q;
}
Query Query::before(double position) const {
  Query q = *this;
  q.cutoff_ = position;
  return q;
}
Query Query::withExtra(Plan plan, double position) const {
  Query q = *this;
  q.extra_.emplace_back(position, std::move(plan));
  return q;
}

bool Query::selects(const Tags& tags) const {
  if (!intersects(include_, tags) || intersects(exclude_, tags)) return false;
  return std::all_of(require_.begin(), require_.end(), [&](const std::string& t) { return tags.contains(t); });
}

class QueryReader {
 public:
  QueryReader(std::string_view text, Diagnostics& diagnostics) : text_(text), diagnostics_(diagnostics) {}

  Result<Query> read() {
    Query q;
    if (!readInto(q, false)) return Failed{};
    return q;
  }

 private:
  bool fail(std::string message) {
    diagnostics_.error("in the query '" + abbreviate(text_, 80) + "': " + message, ErrorKind::Input);
    return false;
  }
  static bool isBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == ','; }
  static bool isNameByte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == ':' || c == '-';
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  // Tells whether there is a comma among them.
  bool blanks() {
    bool comma = false;
    for (; at_ < text_.size() && isBlank(text_[at_]); ++at_) comma |= text_[at_] == ',';
    return comma;
  }
  std::string_view word() {
    size_t begin = at_;
    while (at_ < text_.size() && isNameByte(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // Up to the end, or to the brace that closes a sub-query.
  bool readInto(Query& q, bool inner) {
    char sign = '+';
    for (bool joined = blanks(); at_ < text_.size(); joined = blanks()) {
      char c = peek();
      if (c == '}') return inner || fail("'}' without '{'");
      if (c == '+' || c == '&' || c == '-') {
        sign = c;
        ++at_;
      } else if (c == '<') {
        if (!cutoff(q)) return false;
        continue;
      } else if (text_.substr(at_).starts_with("sub:")) {
        if (inner) return fail("sub-queries do not nest");
        if (!sub(q)) return false;
        continue;
      } else if (!joined) {
        sign = '+';
      }
      std::string_view name = word();
      if (name.empty()) return fail(fmt::format("expected a name at '{}'", abbreviate(text_.substr(at_), 20)));
      (sign == '+' ? q.include_ : sign == '&' ? q.require_ : q.exclude_).emplace(name);
    }
    return !inner || fail("expected '}'");
  }

  bool cutoff(Query& q) {
    ++at_;
    const char* end = text_.data() + text_.size();
    auto [stop, error] = std::from_chars(text_.data() + at_, end, q.cutoff_);
    if (error != std::errc() || std::isnan(q.cutoff_)) return fail("expected a position after '<'");
    at_ = static_cast<size_t>(stop - text_.data());
    return true;
  }

  // `sub:{canonicalize: +x}`
  bool sub(Query& q) {
    at_ += 4;
    if (peek() != '{') return fail("expected '{' after 'sub:'");
    ++at_;
    blanks();
    size_t begin = at_;
    while (at_ < text_.size() && isNameByte(text_[at_]) && text_[at_] != ':') ++at_;
    std::string name(text_.substr(begin, at_ - begin));
    if (name.empty() || peek() != ':') return fail("expected the name of a database and ':'");
    ++at_;
    Query inner;
    if (!readInto(inner, true)) return false;
    ++at_;
    q.sub_[name] = std::make_shared<const Query>(std::move(inner));
    return true;
  }

  std::string_view text_;
  Diagnostics& diagnostics_;
  size_t at_ = 0;
};

Result<Query> Query::parse(std::string_view text, Diagnostics& diagnostics) {
  return QueryReader(text, diagnostics).read();
}

std::string Query::text() const {
  std::string out;
  auto add = [&](std::string piece) { out += (out.empty() ? "" : " ") + piece; };
  for (const auto& [sign, tags] : {std::pair{'+', &include_}, {'&', &require_}, {'-', &exclude_}})
    for (const std::string& t : *tags) add(sign + t);
  for (const auto& [name, query] : sub_) add("sub:{" + name + ": " + query->text() + "}");
  if (cutoff_ != std::numeric_limits<double>::infinity()) add(fmt::format("<{}", cutoff_));
  return out;
}

// ---- databases ----

namespace {

bool fitsKind(RewriteDatabase::Kind kind, const RewriteDatabase::Object& object) {
  using Kind = RewriteDatabase::Kind;
  if (kind == Kind::Sequence) return true;
  if (kind == Kind::Equilibrium) {
    if (const auto* inner = std::get_if<std::shared_ptr<const RewriteDatabase>>(&object))
      return (*inner)->kind() == Kind::Group || (*inner)->kind() == Kind::Walk;
    return !std::holds_alternative<Plan>(object);
  }
  return std::holds_alternative<NodeRewrite>(object);
}

const char* kindText(RewriteDatabase::Kind kind) {
  switch (kind) {
    case RewriteDatabase::Kind::Sequence:
      return "a sequence";
    case RewriteDatabase::Kind::Equilibrium:
      return "an equilibrium";
    case RewriteDatabase::Kind::Group:
      return "a group";
    case RewriteDatabase::Kind::Walk:
      return "a walk";
  }
  return "";
}

}  // namespace

bool RewriteDatabase::hasTag(const std::string& tag) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& e) { return e.name != tag && e.tags.contains(tag); });
}

Result<void> RewriteDatabase::add(std::string name, Object object, EntryOptions options, Diagnostics& diagnostics) {
  auto refuse = [&](std::string why) -> Result<void> {
    diagnostics.error(options.range, fmt::format("'{}' cannot be added to '{}': {}", name, name_, why),
                      ErrorKind::Input);
    return Failed{};
  };
  auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
  if (known != entries_.end() && !options.overwrite) return refuse("it has an entry of this name");
  if (name == name_ || hasTag(name)) return refuse("its name is a tag");
  for (const std::string& t : options.tags)
    if (t != name && std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == t; }))
      return refuse("its tag '" + t + "' is the name of an entry");
  if (!fitsKind(kind_, object)) return refuse(std::string("it does not fit ") + kindText(kind_));
  if (options.role != Role::Normal && (kind_ != Kind::Equilibrium || !std::holds_alternative<GraphRewrite>(object)))
    return refuse("only graph rewrites of an equilibrium are final or clean up");
  Entry e;
  e.tags = std::move(options.tags);
  e.tags.insert({name, name_});
  double last = -1;
  for (const Entry& other : entries_) last = std::max(last, other.position);
  e.position = options.position.value_or(last + 1);
  e.benefit = options.benefit;
  e.role = options.role;
  e.purpose = std::move(options.purpose);
  e.name = std::move(name);
  e.object = std::move(object);
  if (auto* node = std::get_if<NodeRewrite>(&e.object)) {
    node->name = e.name;
    node->assumesFinite |= e.tags.contains("fast_math");
    if (e.benefit) node->benefit = e.benefit;
  } else if (auto* graph = std::get_if<GraphRewrite>(&e.object)) {
    graph->name = e.name;
  }
  if (known != entries_.end())
    *known = std::move(e);
  else
    entries_.push_back(std::move(e));
  return {};
}

std::shared_ptr<RewriteDatabase> RewriteDatabase::copyOfInner(std::string_view name) const {
  for (const Entry& e : entries_)
    if (const auto* inner = std::get_if<std::shared_ptr<const RewriteDatabase>>(&e.object);
        inner && (*inner)->name_ == name)
      return std::make_shared<RewriteDatabase>(**inner);
  return nullptr;
}

void RewriteDatabase::replaceInner(std::shared_ptr<const RewriteDatabase> database) {
  for (Entry& e : entries_)
    if (auto* inner = std::get_if<std::shared_ptr<const RewriteDatabase>>(&e.object);
        inner && (*inner)->name_ == database->name_)
      *inner = database;
}

// By position, then name: the order of registration does not matter.
std::vector<const RewriteDatabase::Entry*> RewriteDatabase::ordered() const {
  std::vector<const Entry*> out;
  for (const Entry& e : entries_) out.push_back(&e);
  std::sort(out.begin(), out.end(), [](const Entry* a, const Entry* b) {
    return a->position != b->position ? a->position < b->position : a->name < b->name;
  });
  return out;
}

std::vector<NodeRewrite> RewriteDatabase::nodeRewrites(const Query& query) const {
  std::vector<NodeRewrite> out;
  for (const Entry* e : ordered()) {
    if (const auto* inner = std::get_if<std::shared_ptr<const RewriteDatabase>>(&e->object)) {
      if ((*inner)->kind_ == Kind::Walk) continue;  // stands among the graph rewrites
      std::vector<NodeRewrite> parts = (*inner)->nodeRewrites(query);
      if (!parts.empty()) out.push_back(firstOf(e->name, std::move(parts)));
    } else if (const auto* r = std::get_if<NodeRewrite>(&e->object); r && query.selects(e->tags)) {
      out.push_back(*r);
    }
  }
  return out;
}

Plan RewriteDatabase::query(const Query& query) const {
  switch (kind_) {
    case Kind::Sequence:
      return sequence(query);
    case Kind::Walk: {
      std::vector<NodeRewrite> rewrites = nodeRewrites(query);
      return rewrites.empty() ? Plan() : Plan::walk(name_, std::move(rewrites));
    }
    case Kind::Group: {
      std::vector<NodeRewrite> rewrites = nodeRewrites(query);
      return rewrites.empty() ? Plan() : Plan::walk(name_, {firstOf(name_, std::move(rewrites))});
    }
    case Kind::Equilibrium:
      break;
  }
  Plan::Equilibrium parts;
  parts.nodes = nodeRewrites(query);
  for (const Entry* e : ordered()) {
    const auto* inner = std::get_if<std::shared_ptr<const RewriteDatabase>>(&e->object);
    if (inner && (*inner)->kind_ == Kind::Walk)
      if (std::vector<NodeRewrite> nodes = (*inner)->nodeRewrites(query); !nodes.empty())
        parts.global.emplace_back(Plan::Walks{e->name, std::move(nodes)});
    const auto* graph = std::get_if<GraphRewrite>(&e->object);
    if (!graph || !query.selects(e->tags)) continue;
    if (e->role == Role::Normal)
      parts.global.emplace_back(*graph);
    else
      (e->role == Role::Final ? parts.final : parts.cleanup).push_back(*graph);
  }
  if (parts.nodes.empty() && parts.global.empty() && parts.final.empty() && parts.cleanup.empty()) return {};
  // Nothing to clean up after: the clean-ups themselves are wanted.
  if (parts.nodes.empty() && parts.global.empty() && parts.final.empty())
    for (GraphRewrite& r : std::exchange(parts.cleanup, {})) parts.global.emplace_back(std::move(r));
  return Plan::equilibrium(name_, std::move(parts));
}

Plan RewriteDatabase::sequence(const Query& query) const {
  std::vector<std::pair<double, Plan>> placed;
  for (const Entry* e : ordered()) {
    if (!(e->position < query.cutoff())) continue;
    if (const auto* inner = std::get_if<std::shared_ptr<const RewriteDatabase>>(&e->object)) {
      auto sub = query.sub_.find((*inner)->name());
      Plan plan = (*inner)->query(sub == query.sub_.end() ? query : *sub->second);
      if (!plan.empty()) placed.emplace_back(e->position, std::move(plan));
    } else if (!query.selects(e->tags)) {
      continue;
    } else if (const auto* node = std::get_if<NodeRewrite>(&e->object)) {
      placed.emplace_back(e->position, Plan::walk(e->name, {*node}));
    } else if (const auto* graph = std::get_if<GraphRewrite>(&e->object)) {
      placed.emplace_back(e->position, Plan::of(*graph));
    } else {
      placed.emplace_back(e->position, std::get<Plan>(e->object));
    }
  }
  for (const auto& extra : query.extra_)
    if (extra.first < query.cutoff()) placed.push_back(extra);
  std::stable_sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Plan> children;
  for (auto& [position, plan] : placed) children.push_back(std::move(plan));
  return Plan::sequence(name_, std::move(children));
}

const RewriteDatabase::Entry* RewriteDatabase::find(std::string_view name) const {
  for (const Entry& e : entries_) {
    if (e.name == name) return &e;
    if (const auto* inner = std::get_if<std::shared_ptr<const RewriteDatabase>>(&e.object))
      if (const Entry* found = (*inner)->find(name)) return found;
  }
  return nullptr;
}

std::vector<RewriteDatabase::Entry> RewriteDatabase::allEntries() const {
  std::vector<Entry> out;
  for (const Entry* e : ordered()) {
    const auto* inner = std::get_if<std::shared_ptr<const RewriteDatabase>>(&e->object);
    if (!inner) {
      out.push_back(*e);
      continue;
    }
    for (Entry& part : (*inner)->allEntries()) {
      // Inside, all have the place of their database.
      part.position = e->position;
      part.path.insert(part.path.begin(), e->name);
      out.push_back(std::move(part));
    }
  }
  return out;
}

std::vector<std::string> RewriteDatabase::unknownNames(const Query& query) const {
  std::vector<std::string> out;
  std::vector<Entry> all = allEntries();
  auto addUnknown = [&](const Query& q, const std::vector<Entry>& entries) {
    for (const Query::Tags* tags : {&q.include_, &q.require_, &q.exclude_})
      for (const std::string& t : *tags)
        if (std::ranges::none_of(entries, [&](const Entry& e) { return e.tags.contains(t); })) out.push_back(t);
  };
  addUnknown(query, all);
  for (const auto& [name, inner] : query.sub_) {
    std::vector<Entry> inside;
    std::ranges::copy_if(all, std::back_inserter(inside),
                         [&, path = name](const Entry& e) { return std::ranges::find(e.path, path) != e.path.end(); });
    inside.empty() ? out.push_back(name) : addUnknown(*inner, inside);
  }
  return out;
}

std::string RewriteDatabase::nearestName(std::string_view name) const {
  NearestName nearest(name);
  for (const Entry& e : allEntries())
    for (const std::string& t : e.tags) nearest.consider(t);
  return nearest.name();
}

}  // namespace tscompile
