#include "passes/rewrite/rules_file.h"

#include "ir/support/check.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/support/number_of_text.h"
#include "ir/support/once.h"
#include "ir/support/text.h"
#include "passes/rewrite/compiled_pattern.h"
#include "passes/rewrite/condition.h"
#include "passes/rewrite/unread_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

namespace tscompile {
namespace {

struct Line {
  uint32_t begin, end;  // without the line end
  std::string_view key, value;
  uint32_t valueBegin = 0;
};

constexpr std::string_view kKeys[] = {"rule",  "purpose", "tags",        "position",  "benefit",
                                      "group", "sharing", "associative", "auto_cast", "constants",
                                      "where", "match",   "replace"};

// "were: ...": no line of a graph begins so.
bool isKey(std::string_view line) {
  const size_t end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
  return end > 0 && end != std::string_view::npos && line[end] == ':' && !line.substr(end).starts_with("::");
}

// One rule as its lines say it.
struct Draft {
  std::string name;
  SourceRange range;
  std::vector<Line> settings;
  std::optional<SourceRange> match, replace;
  std::vector<SourceRange> conditions;
};

// What Pattern::kinds() tells, from the text: `  %y, %z : Tensor = aten::add[...](...)`.
std::vector<Symbol> kindsOf(std::string_view pattern) {
  std::vector<Symbol> kinds;
  for (size_t at = 0; (at = pattern.find(" = ", at)) != std::string_view::npos;) {
    at += 3;
    const Symbol kind = Symbol::of(pattern.substr(at, pattern.find_first_of("[( ", at) - at));
    const bool told = kind != sym::Constant && !isAny(kind) && !isNamed(kind);
    if (told && std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  return kinds;
}

// The text of one rule, which is right.
class UnreadRule {
 public:
  UnreadRule(SourcePtr source, SourceRange text) : source_(std::move(source)), text_(text) {}

  const NodeRewrite& rewrite() {
    once_.call([this] { read(); });
    return rewrite_;
  }

 private:
  void read() {
    Diagnostics diagnostics;
    SourcePtr text = SourceFile::make(source_->path(), std::string(text_.text()));
    Result<std::vector<Rule>> rules = readRules(std::move(text), diagnostics);
    if (!rules) internalError(renderDiagnostics(diagnostics, "rules").c_str(), __FILE_NAME__, __LINE__);
    rewrite_ = std::move(rules->front().rewrite);
  }

  SourcePtr source_;
  SourceRange text_;
  Once once_;
  NodeRewrite rewrite_;
};

class RulesReader {
 public:
  RulesReader(SourcePtr source, Diagnostics& diagnostics, const OpRegistry* registry, UnknownOperators unknown)
      : source_(std::move(source)), diagnostics_(diagnostics), registry_(registry), unknown_(unknown) {
    diagnostics.keepAlive(source_);
  }

  Result<std::vector<Rule>> read() {
    split();
    std::vector<Rule> rules;
    for (Draft& d : drafts_)
      if (std::optional<Rule> r = rule(d)) rules.push_back(std::move(*r));
    if (!good_) return Failed{};
    return rules;
  }

  // Each rule with what its settings say; its patterns are read when it is first asked about a node.
  std::vector<Rule> readLater() {
    split();
    std::vector<Rule> rules;
    for (size_t i = 0; i < drafts_.size(); ++i) {
      const bool isLast = i + 1 == drafts_.size();
      const auto end = isLast ? static_cast<uint32_t>(source_->text().size()) : drafts_[i + 1].range.begin;
      rules.push_back(laterRule(drafts_[i], end));
    }
    TS_CHECK(good_);
    return rules;
  }

 private:
  Diagnostic& fail(SourceRange where, std::string message) {
    good_ = false;
    return diagnostics_.error(where, std::move(message));
  }
  SourceRange range(uint32_t begin, uint32_t end) const { return {source_.get(), begin, end}; }

  // `key: value`, where the key is one of ours; `rule NAME` needs no colon.
  std::optional<Line> setting(uint32_t begin, uint32_t end) const {
    std::string_view text = source_->text().substr(begin, end - begin);
    if (text.empty() || text[0] < 'a' || text[0] > 'z') return std::nullopt;
    for (std::string_view key : kKeys) {
      if (!text.starts_with(key)) continue;
      size_t at = key.size();
      bool isRule = key == "rule" && at < text.size() && text[at] == ' ';
      if (!isRule && (at >= text.size() || text[at] != ':')) continue;
      size_t value = std::min(text.find_first_not_of(" \t", at + 1), text.size());
      Line line{begin, end, key, trim(text.substr(value)), begin + static_cast<uint32_t>(value)};
      if (isRule && !line.value.empty() && line.value.back() == ':') line.value.remove_suffix(1);
      return line;
    }
    return std::nullopt;
  }

  void split() {
    std::string_view text = source_->text();
    std::optional<SourceRange>* section = nullptr;
    bool isLost = false;  // in what a misspelt key begins
    for (uint32_t begin = 0; begin < text.size();) {
      auto end = static_cast<uint32_t>(std::min(text.find('\n', begin), text.size()));
      if (std::optional<Line> line = setting(begin, end)) {
        section = nullptr, isLost = false;
        take(*line, section);
      } else if (section && !isKey(text.substr(begin, end - begin))) {
        if (!*section) *section = range(begin, end);
        (*section)->end = end;
      } else if (std::string_view rest = trim(text.substr(begin, end - begin)); !rest.empty() && rest[0] != '#') {
        section = nullptr;
        const bool isOfKey = isKey(text.substr(begin, end - begin));
        if (isOfKey || !isLost) unknown(rest, begin, end);
        isLost |= isOfKey;
      }
      begin = end + 1;
    }
  }

  void unknown(std::string_view text, uint32_t begin, uint32_t end) {
    Diagnostic& d =
        fail(range(begin, end), drafts_.empty() ? "expected 'rule NAME'" : "expected a setting of the rule");
    NearestName nearest(text.substr(0, text.find_first_of(": ")));
    for (std::string_view key : kKeys) nearest.consider(key);
    if (nearest.found()) d.note("did you mean '" + nearest.name() + "'?");
  }

  void take(const Line& line, std::optional<SourceRange>*& section) {
    SourceRange here = range(line.begin, line.end);
    if (line.key == "rule") {
      drafts_.push_back({std::string(line.value), here, {}, {}, {}, {}});
      if (line.value.empty() || line.value.find_first_of(" \t,+&{}<") != std::string_view::npos)
        fail(here, "expected a name of letters, digits and '_' after 'rule'");
      return;
    }
    if (drafts_.empty()) {
      fail(here, "expected 'rule NAME' first");
      return;
    }
    Draft& d = drafts_.back();
    if (line.key == "match" || line.key == "replace") {
      section = line.key == "match" ? &d.match : &d.replace;
      if (*section) fail(here, fmt::format("a second '{}' in this rule", line.key));
      if (!line.value.empty()) *section = range(line.valueBegin, line.end);
    } else if (line.key == "where") {
      d.conditions.push_back(range(line.valueBegin, line.valueBegin + static_cast<uint32_t>(line.value.size())));
    } else {
      for (const Line& other : d.settings)
        if (other.key == line.key) fail(here, fmt::format("a second '{}' in this rule", line.key));
      d.settings.push_back(line);
    }
  }

  // A part of the text as a source of its own, in which the lines before are empty: lines and columns stay what they
  // are.
  std::optional<Pattern> pattern(SourceRange part) {
    LineColumn begin = source_->lineColumn(part.begin);
    std::string text(begin.line - 1, '\n');
    text.append(begin.column - 1, ' ');
    text += part.text();
    Result<Pattern> p = Pattern::parse(SourceFile::make(source_->path(), std::move(text)), diagnostics_);
    if (!p) {
      good_ = false;
      return std::nullopt;
    }
    return *p;
  }

  std::optional<Rule> rule(const Draft& d) {
    if (!d.match || !d.replace) {
      fail(d.range, fmt::format("rule '{}' has no '{}:'", d.name, d.match ? "replace" : "match"));
      return std::nullopt;
    }
    Settled settled = settle(d);
    bool autoCast = settled.rule.rewrite.autoCast;
    std::optional<NodeRewrite> rewrite = rewriteOf(d, settled);
    if (!rewrite) return std::nullopt;
    settled.rule.rewrite = std::move(*rewrite);
    settled.rule.rewrite.autoCast = autoCast;
    return std::move(settled.rule);
  }

  // What the settings of a rule say.
  struct Settled {
    Rule rule;
    Sharing sharing = Sharing::SingleUse;
    std::vector<Symbol> associative;
    bool byValue = false;
  };

  Settled settle(const Draft& d) {
    Settled out;
    Rule& r = out.rule;
    r.name = d.name;
    r.range = r.options.range = d.range;
    for (const Line& s : d.settings) {
      if (s.key == "constants" && s.value != "by_value")
        fail(range(s.valueBegin, s.valueBegin + static_cast<uint32_t>(s.value.size())), "expected by_value");
      if (s.key == "constants")
        out.byValue = true;
      else
        set(r, out.sharing, out.associative, s);
    }
    return out;
  }

  Rule laterRule(const Draft& d, uint32_t end) {
    Settled settled = settle(d);
    NodeRewrite& r = settled.rule.rewrite;
    auto text = std::make_shared<UnreadRule>(source_, range(d.range.begin, end));
    r.kinds = kindsOf(d.match->text());
    r.seeds = rarestOf(r.kinds, settled.associative.empty());
    r.whyNot = [text](RewriteContext& c) { return text->rewrite().whyNot(c); };
    r.apply = [text](Node* n, RewriteContext& c) { return text->rewrite().apply(n, c); };
    return std::move(settled.rule);
  }

  std::optional<NodeRewrite> rewriteOf(const Draft& d, const Settled& settled) {
    std::optional<Pattern> from = pattern(*d.match), to = pattern(*d.replace);
    if (!from || !to) return std::nullopt;
    if (!writesNothing(*from, *d.match) || !canBeFound(*from, *d.match)) return std::nullopt;
    warnOfUnknown(*from);
    if (!to->isBuiltFrom(*from, diagnostics_) || !canBeMade(*to)) {
      good_ = false;
      return std::nullopt;
    }
    from->sharing(settled.sharing).associative(settled.associative);
    if (settled.byValue) from->constantsByValue();
    for (SourceRange c : d.conditions) {
      Result<Condition> condition = parseCondition(c.text(), c, *from, diagnostics_);
      if (!condition) {
        good_ = false;
        return std::nullopt;
      }
      // What must hold together is told apart where it does not.
      for (SourceRange part : conjuncts(c)) {
        if (part.text() != c.text()) condition = parseCondition(part.text(), part, *from, diagnostics_);
        if (!condition) {
          good_ = false;
          return std::nullopt;
        }
        from->where(std::move(condition->holds), std::string(trim(part.text())), std::move(condition->isKnown));
      }
    }
    return patternRewrite(d.name, std::move(*from), std::move(*to));
  }

  // The parts between the `and`s of a condition that is right; itself where an `or` joins them.
  std::vector<SourceRange> conjuncts(SourceRange condition) const {
    const std::string_view text = condition.text();
    auto part = [&](size_t from, size_t to) {
      return range(condition.begin + static_cast<uint32_t>(from), condition.begin + static_cast<uint32_t>(to));
    };
    auto isWord = [&](size_t at, std::string_view word) {
      auto joins = [&](size_t i) {
        return i < text.size() &&
               (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_' || text[i] == '%');
      };
      return text.substr(at).starts_with(word) && !(at > 0 && joins(at - 1)) && !joins(at + word.size());
    };
    std::vector<SourceRange> parts;
    size_t begin = 0;
    int depth = 0;
    char quote = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (quote ? c == quote : c == '"' || c == '\'') quote = quote ? 0 : c;
      if (quote) continue;
      depth += (c == '(') - (c == ')');
      if (depth) continue;
      if (isWord(i, "or")) return {condition};
      if (!isWord(i, "and")) continue;
      parts.push_back(part(begin, i));
      begin = i + 3;
    }
    parts.push_back(part(begin, text.size()));
    return parts;
  }

  // What no node leads to is never bound, and what no node makes is never replaced.
  bool canBeFound(const Pattern& from, SourceRange where) {
    const Graph& g = from.graph();
    for (const Value* v : g.inputs()) {
      if (v->hasUses()) continue;
      fail(where, "no node of the pattern uses %" + v->name());
      return false;
    }
    if (g.outputs().empty()) {
      fail(where, "the pattern returns nothing that could be replaced");
      return false;
    }
    for (const Use& u : g.outputs()) {
      if (u.value->node()) continue;
      fail(where, "the pattern returns %" + u.value->name() + ", which none of its nodes makes");
      return false;
    }
    return true;
  }

  // Graphs may hold operators that nobody knows; names that are almost known are mistakes.
  void warnOfUnknown(const Pattern& from) {
    if (!registry_) return;
    forEachNode(from.graph(), [&](const Node* n) {
      const std::string kind(n->kind().text());
      if (n->kind().nameSpace() != "aten" || registry_->isKnown(n->kind())) return;
      if (std::string nearest = registry_->nearestKind(kind); !nearest.empty())
        diagnostics_.warning(n->range, "there is no operator " + kind).note("did you mean " + nearest + "?");
    });
  }

  // What each match would be told of the replacement, whatever it has found.
  bool canBeMade(const Pattern& to) {
    bool good = true;
    if (registry_) forEachNode(to.graph(), [&](const Node* n) { good = canBeMade(*n) && good; });
    return good;
  }
  bool canBeMade(const Node& n) {
    const std::string kind(n.kind().text());
    const bool hasRest = n.inputCount() > 0 && isRest(n.input(n.inputCount() - 1));
    const std::string_view space = n.kind().nameSpace();
    if (space == "prim" || isAny(n.kind()) || isNamed(n.kind())) return true;
    if (space != "aten") {
      if (unknown_ == UnknownOperators::Kept || registry_->isKnown(n.kind())) return true;
      adviseUnknown(fail(n.range, "unknown operator " + kind), *registry_, kind);
      return false;
    }
    const auto overloads = registry_->overloads(n.kind());
    if (overloads.empty()) {
      Diagnostic& d = fail(n.range, "there is no operator " + kind);
      if (std::string nearest = registry_->nearestKind(kind); !nearest.empty()) d.note("did you mean " + nearest + "?");
      return false;
    }
    auto takes = [&](const Operator* op) {
      const Schema& schema = op->schema();
      return schema.arguments.size() == n.inputCount() ||
             (schema.varArguments && schema.arguments.size() < n.inputCount());
    };
    if (hasRest || std::ranges::any_of(overloads, takes)) return true;
    Diagnostic& d = fail(n.range, fmt::format("no overload of {} takes {}: a replacement spells out all arguments",
                                              kind, counted(n.inputCount(), "argument")));
    constexpr size_t kMostShown = 6;
    for (size_t i = 0; i < std::min(overloads.size(), kMostShown); ++i)
      d.note("there is " + std::string(overloads[i]->schemaSource()));
    return false;
  }

  // A write that a rule took away would be missed by others that see the memory.
  bool writesNothing(const Pattern& from, SourceRange where) {
    for (Symbol k : from.kinds()) {
      if (!endsWith(k.text(), "_") || endsWith(k.text(), "__")) continue;
      fail(where, std::string(k.text()) + " writes to its input, which a rule cannot take away")
          .note("'functionalise' turns such nodes into others where that is safe; match those");
      return false;
    }
    return true;
  }

  static std::vector<std::string_view> listed(std::string_view text) {
    std::vector<std::string_view> items;
    for (size_t at = 0; at <= text.size();) {
      size_t end = std::min(text.find(',', at), text.size());
      if (std::string_view item = trim(text.substr(at, end - at)); !item.empty()) items.push_back(item);
      at = end + 1;
    }
    return items;
  }

  void set(Rule& r, Sharing& sharing, std::vector<Symbol>& associative, const Line& s) {
    SourceRange value = range(s.valueBegin, s.valueBegin + static_cast<uint32_t>(s.value.size()));
    if (s.key == "purpose") {
      r.options.purpose = s.value;
    } else if (s.key == "group") {
      r.group = s.value;
    } else if (s.key == "tags") {
      for (std::string_view tag : listed(s.value)) r.options.tags.emplace(tag);
    } else if (s.key == "associative") {
      for (std::string_view kind : listed(s.value)) associative.push_back(Symbol::of(kind));
    } else if (s.key == "auto_cast") {
      r.rewrite.autoCast = s.value == "True";
      if (s.value != "True" && s.value != "False") fail(value, "expected True or False");
    } else if (s.key == "position") {
      const auto position = numberOfText<double>(s.value);
      if (position)
        r.options.position = *position;
      else
        fail(value, "expected a number, such as 2.5");
    } else if (s.key == "benefit") {
      const auto benefit = numberOfText<decltype(r.options.benefit)>(s.value);
      if (benefit)
        r.options.benefit = *benefit;
      else
        fail(value, "expected a whole number");
    } else if (s.value == "single_use" || s.value == "same_use_count" || s.value == "shared") {
      sharing = s.value == "single_use" ? Sharing::SingleUse
                : s.value == "shared"   ? Sharing::Shared
                                        : Sharing::SameUseCount;
    } else {
      fail(value, "expected single_use, same_use_count or shared");
    }
  }

  SourcePtr source_;
  Diagnostics& diagnostics_;
  const OpRegistry* registry_;
  const UnknownOperators unknown_;
  std::vector<Draft> drafts_;
  bool good_ = true;
};

}  // namespace

Result<std::vector<Rule>> readRules(SourcePtr text, Diagnostics& diagnostics, const OpRegistry* registry,
                                    UnknownOperators unknown) {
  return RulesReader(std::move(text), diagnostics, registry, unknown).read();
}

std::vector<Rule> readRulesLater(SourcePtr text) {
  Diagnostics diagnostics;
  return RulesReader(std::move(text), diagnostics, nullptr, UnknownOperators::Kept).readLater();
}

namespace {

// Calls that a rule looks for are gone where they have been inlined before.
void warnOfGoneCalls(const RewriteDatabase& database, const Rule& r, Diagnostics& diagnostics) {
  auto isCall = [](Symbol kind) { return kind == sym::CallMethod || kind == sym::CallFunction; };
  if (!std::ranges::any_of(r.rewrite.kinds, isCall)) return;
  const RewriteDatabase::Entry* inlining = database.find("inline_calls");
  if (!inlining || !r.options.position || *r.options.position < inlining->position) return;
  diagnostics
      .warning(r.range,
               fmt::format("rule '{}' looks for calls at {}, where none are left", r.name, *r.options.position))
      .note(fmt::format("calls are inlined at {}: give it a position before that", inlining->position));
}

}  // namespace

Result<void> addRules(RewriteDatabase& database, std::vector<Rule> rules, Diagnostics& diagnostics) {
  // Groups in the order of their first rule.
  std::vector<std::pair<std::string, std::vector<Rule*>>> groups;
  bool good = true;
  for (Rule& r : rules) {
    // Without a place of their own rules run together with the clean-up until nothing changes: they see what stands in
    // the text, what becomes of it, and what is left of what they made.
    if (r.group.empty() && !r.options.position) {
      const RewriteDatabase::Entry* cleanUp = database.find("canonicalize");
      constexpr double kPosition = 0.5;
      r.group = cleanUp ? cleanUp->name : "own_rules";
      r.options.position = cleanUp ? cleanUp->position : kPosition;
    }
    warnOfGoneCalls(database, r, diagnostics);
    if (r.group.empty()) {
      good &= database.add(r.name, std::move(r.rewrite), std::move(r.options), diagnostics).ok();
      continue;
    }
    auto known = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == r.group; });
    if (known == groups.end()) known = groups.insert(groups.end(), {r.group, {}});
    known->second.push_back(&r);
  }
  for (auto& [name, members] : groups) {
    std::shared_ptr<RewriteDatabase> group = database.copyOfInner(name);
    EntryOptions options;
    bool isNew = group == nullptr;
    if (isNew) {
      group = std::make_shared<RewriteDatabase>(RewriteDatabase::Kind::Equilibrium, name);
      for (const Rule* r : members)
        if (r->options.position)
          options.position = std::min(options.position.value_or(*r->options.position), *r->options.position);
    }
    for (Rule* r : members) {
      r->options.position.reset();  // in an equilibrium there is no order
      good &= group->add(r->name, std::move(r->rewrite), std::move(r->options), diagnostics).ok();
    }
    if (isNew)
      good &= database.add(name, std::shared_ptr<const RewriteDatabase>(group), options, diagnostics).ok();
    else
      database.replaceInner(group);
  }
  if (!good) return Failed{};
  return {};
}

}  // namespace tscompile
