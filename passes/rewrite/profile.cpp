#include "passes/rewrite/profile.h"

#include "ir/support/json_fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <sstream>

namespace tscompile {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;  // clang 14 makes none for aggregates

[[gnu::format(printf, 2, 3)]] void append(std::string& out, const char* format, ...) {
  char buffer[512];
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int size = std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  size_t at = out.size();
  if (size < static_cast<int>(sizeof buffer)) {
    out.append(buffer, static_cast<size_t>(size));
  } else {
    out.resize(at + static_cast<size_t>(size) + 1);
    std::vsnprintf(out.data() + at, static_cast<size_t>(size) + 1, format, again);
    out.pop_back();
  }
  va_end(again);
}

// Twelve digits, and always a sign that it is no integer: "0.0", "9.05990600586e-06".
std::string number(double v) {
  char buffer[40];
  int size = std::snprintf(buffer, sizeof buffer, "%.12g", v);
  std::string out(buffer, static_cast<size_t>(size));
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

// The slowest first; of equally slow ones the first first.
template <class T>
std::vector<const T*> byTime(const std::vector<T>& list) {
  std::vector<const T*> out;
  for (const T& t : list) out.push_back(&t);
  std::stable_sort(out.begin(), out.end(), [](const T* a, const T* b) { return a->seconds > b->seconds; });
  return out;
}

unsigned long long wide(uint64_t v) { return v; }

// The layout is that of PyTensor's profiles, spelling included: people and scripts know it.
class ProfileText {
 public:
  explicit ProfileText(std::string& out) : out_(out) {}

  void block(const Profile& p, size_t level) {
    std::visit(Overloaded{
                   [&](const Profile::Function&) {},
                   [&](const Profile::Sequence& s) { sequence(p, s, level); },
                   [&](const Profile::Equilibrium& e) { equilibrium(p, e, level); },
                   [&](const Profile::Walking& w) { walking(p, w, level); },
                   [&](const Profile::Merge& m) { merge(p, m, level); },
                   [&](const Profile::Fusion& f) { fusion(p, f, level); },
                   [&](const Profile::Gemm& g) { gemm(p, g, level); },
                   [&](const Profile::InPlace& i) { inPlace(p, i, level); },
               },
               p.detail);
  }

 private:
  // The start of a line: four blanks for each level and some more.
  std::string& line(size_t level, size_t more) { return out_.append(4 * level + more, ' '); }
  void className(const Profile& p, size_t level) {
    line(level, 1) += p.className();
    out_ += '\n';
  }
  std::string namedClass(const Profile& p, size_t level) {
    return std::string(p.className()) + std::string(4 * level + 2, ' ') + p.name;
  }

  void sequence(const Profile& p, const Profile::Sequence& s, size_t level) {
    append(line(level, 1), "%s  time %.3fs for %llu/%llu nodes before/after rewriting\n", namedClass(p, level).c_str(),
           p.seconds, wide(s.before), wide(s.after));
    append(line(level, 3), "%.3fs for fgraph.validate()\n", p.validate);
    append(line(level, 3), "%.3fs for callback\n", s.callback);
    if (level == 0) line(level, 3) += "time      - (name, class, index) - validate time\n";
    for (const Profile* child : byTime(s.children)) {
      append(line(level, 3), "%.6fs - ('%s', '%s', %zu) - %.3fs\n", child->seconds, child->name.c_str(),
             std::string(child->className()).c_str(), child->index, child->validate);
      block(*child, level + 1);
    }
  }

  void equilibrium(const Profile& p, const Profile::Equilibrium& e, size_t level) {
    line(level, 1) += namedClass(p, level) + "\n";
    append(line(level, 3), "time %.3fs for %zu passes\n", e.seconds, e.passes.size());
    append(line(level, 3), "nb nodes (start, end,  max) %llu %llu %llu\n", wide(e.start), wide(e.end), wide(e.most));
    append(line(level, 3), "time io_toposort %.3fs\n", e.toposort);
    append(line(level, 3), "time in node rewriters %.3fs\n", e.inNodeRewriters);
    append(line(level, 3), "time in graph rewriters %.3fs\n", e.inGraphRewriters);
    for (size_t i = 0; i < e.passes.size(); ++i) pass(e.passes[i], i, level);
    rewrites(e, level);
  }

  void pass(const Profile::Pass& pass, size_t index, size_t level) {
    constexpr size_t kShown = 5;
    auto counts = pass.applied;
    std::stable_sort(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second > b.second; });
    uint64_t sum = 0;
    for (auto& [name, times] : counts) sum += times;
    append(line(level, 3), "%2zu - %.3fs %llu (%.3fs in global rewrites, %.3fs io_toposort) - %llu nodes -", index,
           pass.seconds, wide(sum), pass.inGlobalRewrites, pass.toposort, wide(pass.nodes));
    for (size_t i = 0; i < std::min(kShown, counts.size()); ++i)
      append(out_, " ('%s', %llu)", counts[i].first.c_str(), wide(counts[i].second));
    out_ += counts.size() > kShown ? " ...\n" : "\n";
  }

  void rewrites(const Profile::Equilibrium& e, size_t level) {
    std::vector<const Profile::Rewrite*> unused;
    double inUnused = 0;
    bool headed = false;
    for (const Profile::Rewrite* r : byTime(e.rewrites)) {
      if (!r->applied) {
        unused.push_back(r);
        inUnused += r->seconds;
        continue;
      }
      if (!std::exchange(headed, true)) line(level, 3) += "times - times applied - nb node created - name:\n";
      append(line(level, 3), "%.3fs - %llu - %llu - %s\n", r->seconds, wide(r->applied), wide(r->created),
             r->name.c_str());
    }
    if (!headed) return;
    append(line(level, 3), "%.3fs - in %zu rewrite(s) that where not used (display only those with a runtime > 0)\n",
           inUnused, unused.size());
    for (const Profile::Rewrite* r : unused)
      if (r->seconds > 0) append(line(level, 5), "%.3fs - %s\n", r->seconds, r->name.c_str());
  }

  void walking(const Profile& p, const Profile::Walking& w, size_t level) {
    className(p, level);
    append(line(level, 3), "nb_node (start, end, changed) (%llu, %llu, %llu)\n", wide(w.start), wide(w.end),
           wide(w.changed));
    line(level, 3) += "init io_toposort " + number(w.toposort) + "\n";
    line(level, 3) += "loop time " + number(w.loop) + "\n";
    line(level, 3) += "callback_time " + number(w.callback) + "\n";
  }

  void merge(const Profile& p, const Profile::Merge& m, size_t level) {
    className(p, level);
    append(line(level, 3), "nb fail=%5llu merged=%5llu atomic=%5llu\n", wide(m.failed), wide(m.merged),
           wide(m.constants));
    append(line(level, 3), "time replace=%2.2f validate=%2.2f callback=%2.2f\n", m.replace, m.validate, m.callback);
  }

  void counter(size_t level, const char* name, uint64_t value) {
    append(line(level, 2), "%s %llu\n", name, wide(value));
  }
  void timer(size_t level, const char* name, double value) {
    append(line(level, 2), "%s %s\n", name, number(value).c_str());
  }

  void fusion(const Profile& p, const Profile::Fusion& f, size_t level) {
    className(p, level);
    counter(level, "nb_iter", f.iterations);
    counter(level, "nb_replacement", f.replacements);
    counter(level, "nb_inconsistency_replace", f.inconsistent);
    timer(level, "validate_time", f.validate);
    timer(level, "callback_time", f.callback);
    timer(level, "time_toposort", f.toposort);
  }

  void gemm(const Profile& p, const Profile::Gemm& g, size_t level) {
    className(p, level);
    counter(level, "nb_iter", g.iterations);
    counter(level, "nb_replacement", g.replacements);
    counter(level, "nb_replacement_didn_t_remove", g.notRemoved);
    counter(level, "nb_inconsistency_make", g.inconsistentMake);
    counter(level, "nb_inconsistency_replace", g.inconsistentReplace);
    timer(level, "time_canonicalize", g.canonicalize);
    timer(level, "time_factor_can", g.factorCan);
    timer(level, "time_factor_list", g.factorList);
    timer(level, "time_toposort", g.toposort);
    timer(level, "validate_time", g.validate);
    timer(level, "callback_time", g.callback);
  }

  void inPlace(const Profile& p, const Profile::InPlace& i, size_t level) {
    className(p, level);
    counter(level, "node_before", i.nodesBefore);
    counter(level, "nb_call_replace", i.replaceCalls);
    counter(level, "nb_call_validate", i.validateCalls);
    counter(level, "nb_inconsistent", i.inconsistent);
    if (i.byRank.empty()) return;
    line(level, 2) += "ndim nb\n";
    for (auto& [rank, count] : i.byRank) append(line(level, 2), "%llu %llu\n", wide(rank), wide(count));
  }

  std::string& out_;
};

// ---- JSON ----

// The fields of each kind of profile, in order.
template <class V>
void list(const Profile::Function&, V&&) {}
template <class V>
void list(const Profile::Walking& w, V&& visit) {
  visit("nodes_start", w.start);
  visit("nodes_end", w.end);
  visit("nodes_changed", w.changed);
  visit("toposort_time", w.toposort);
  visit("loop_time", w.loop);
  visit("callback_time", w.callback);
}
template <class V>
void list(const Profile::Merge& m, V&& visit) {
  visit("failed", m.failed);
  visit("merged", m.merged);
  visit("constants_merged", m.constants);
  visit("replace_time", m.replace);
  visit("merge_validate_time", m.validate);
  visit("callback_time", m.callback);
}
template <class V>
void list(const Profile::Fusion& f, V&& visit) {
  visit("iterations", f.iterations);
  visit("replacements", f.replacements);
  visit("inconsistent", f.inconsistent);
  visit("fusion_validate_time", f.validate);
  visit("callback_time", f.callback);
  visit("toposort_time", f.toposort);
}
template <class V>
void list(const Profile::Gemm& g, V&& visit) {
  visit("iterations", g.iterations);
  visit("replacements", g.replacements);
  visit("not_removed", g.notRemoved);
  visit("inconsistent_make", g.inconsistentMake);
  visit("inconsistent_replace", g.inconsistentReplace);
  visit("canonicalize_time", g.canonicalize);
  visit("factor_can_time", g.factorCan);
  visit("factor_list_time", g.factorList);
  visit("toposort_time", g.toposort);
  visit("gemm_validate_time", g.validate);
  visit("callback_time", g.callback);
}
template <class V>
void list(const Profile::InPlace& i, V&& visit) {
  visit("nodes_before", i.nodesBefore);
  visit("replace_calls", i.replaceCalls);
  visit("validate_calls", i.validateCalls);
  visit("inconsistent", i.inconsistent);
  std::vector<std::pair<std::string, uint64_t>> byRank;
  for (auto& [rank, count] : i.byRank) byRank.emplace_back(std::to_string(rank), count);
  visit("by_rank", Members<decltype(byRank)>{byRank});
}
template <class V>
void list(const Profile::Pass& p, V&& visit) {
  visit("time", p.seconds);
  visit("global_rewrites_time", p.inGlobalRewrites);
  visit("toposort_time", p.toposort);
  visit("nodes", p.nodes);
  visit("applied", Members<decltype(p.applied)>{p.applied});
}
template <class V>
void list(const Profile::Rewrite& r, V&& visit) {
  visit("name", r.name);
  visit("time", r.seconds);
  visit("applied", r.applied);
  visit("nodes_created", r.created);
}
template <class V>
void list(const Profile::Equilibrium& e, V&& visit);
template <class V>
void list(const Profile::Sequence& s, V&& visit);
template <class V>
void list(const Profile& p, V&& visit) {
  visit("name", p.name);
  visit("class", p.className());
  visit("index", p.index);
  visit("time", p.seconds);
  visit("validate_time", p.validate);
  std::visit([&](auto& detail) { list(detail, visit); }, p.detail);
}
template <class V>
void list(const CompileProfile& c, V&& visit) {
  visit("message", c.message);
  visit("calls", c.calls);
  visit("call_time", c.inCalls);
  visit("compile_time", c.total);
  visit("nodes", c.nodes);
  visit("rewriter_time", c.rewriter);
  visit("validate_time", c.validate);
  visit("linker_time", c.linker);
  visit("import_time", c.import);
  visit("gradient_time", c.gradient ? std::optional(c.gradient->second) : std::nullopt);
}

// Any of them as what writeJson() takes.
template <class T>
struct Fields {
  const T& of;
  template <class V>
  void fields(V&& visit) const {
    list(of, visit);
  }
};
template <class T>
std::vector<Fields<T>> fieldsOfAll(const std::vector<T>& all) {
  std::vector<Fields<T>> out;
  for (const T& one : all) out.push_back({one});
  return out;
}

template <class V>
void list(const Profile::Equilibrium& e, V&& visit) {
  visit("loop_time", e.seconds);
  visit("toposort_time", e.toposort);
  visit("node_rewriters_time", e.inNodeRewriters);
  visit("graph_rewriters_time", e.inGraphRewriters);
  visit("nodes_start", e.start);
  visit("nodes_end", e.end);
  visit("nodes_max", e.most);
  visit("passes", fieldsOfAll(e.passes));
  visit("rewrites", fieldsOfAll(e.rewrites));
}
template <class V>
void list(const Profile::Sequence& s, V&& visit) {
  visit("callback_time", s.callback);
  visit("nodes_before", s.before);
  visit("nodes_after", s.after);
  visit("rewriters", fieldsOfAll(s.children));
}

// ---- merging ----

// Adds by key; what is new is appended.
template <class Key>
void addCounts(std::vector<std::pair<Key, uint64_t>>& to, const std::vector<std::pair<Key, uint64_t>>& from) {
  for (auto& [key, count] : from) {
    auto it = std::find_if(to.begin(), to.end(), [&k = key](auto& entry) { return entry.first == k; });
    if (it == to.end())
      to.emplace_back(key, count);
    else
      it->second += count;
  }
}

void add(Profile::Function&, const Profile::Function&) {}
void add(Profile::Sequence& to, const Profile::Sequence& from) {
  to.callback += from.callback;
  to.before += from.before;
  to.after += from.after;
  // One of these may run several times in a sequence: each finds its own partner.
  std::vector<bool> taken(to.children.size());
  for (const Profile& child : from.children) {
    size_t i = 0;
    while (i < taken.size() && (taken[i] || to.children[i].name != child.name)) ++i;
    if (i < taken.size()) {
      taken[i] = true;
      to.children[i].merge(child);
    } else {
      size_t index = to.children.size();
      to.children.push_back(child);
      to.children.back().index = index;
    }
  }
}
void add(Profile::Equilibrium& to, const Profile::Equilibrium& from) {
  to.seconds += from.seconds;
  to.toposort += from.toposort;
  to.inNodeRewriters += from.inNodeRewriters;
  to.inGraphRewriters += from.inGraphRewriters;
  to.start += from.start;
  to.end += from.end;
  to.most += from.most;
  if (to.passes.size() < from.passes.size()) to.passes.resize(from.passes.size());
  for (size_t i = 0; i < from.passes.size(); ++i) {
    Profile::Pass& pass = to.passes[i];
    pass.seconds += from.passes[i].seconds;
    pass.inGlobalRewrites += from.passes[i].inGlobalRewrites;
    pass.toposort += from.passes[i].toposort;
    pass.nodes += from.passes[i].nodes;
    addCounts(pass.applied, from.passes[i].applied);
  }
  for (const Profile::Rewrite& r : from.rewrites) {
    Profile::Rewrite& mine = to.rewrite(r.name);
    mine.seconds += r.seconds;
    mine.applied += r.applied;
    mine.created += r.created;
  }
}
void add(Profile::Walking& to, const Profile::Walking& from) {
  to.start += from.start;
  to.end += from.end;
  to.changed += from.changed;
  to.toposort += from.toposort;
  to.loop += from.loop;
  to.callback += from.callback;
}
void add(Profile::Merge& to, const Profile::Merge& from) {
  to.failed += from.failed;
  to.merged += from.merged;
  to.constants += from.constants;
  to.replace += from.replace;
  to.validate += from.validate;
  to.callback += from.callback;
}
void add(Profile::Fusion& to, const Profile::Fusion& from) {
  to.iterations += from.iterations;
  to.replacements += from.replacements;
  to.inconsistent += from.inconsistent;
  to.validate += from.validate;
  to.callback += from.callback;
  to.toposort += from.toposort;
}
void add(Profile::Gemm& to, const Profile::Gemm& from) {
  to.iterations += from.iterations;
  to.replacements += from.replacements;
  to.notRemoved += from.notRemoved;
  to.inconsistentMake += from.inconsistentMake;
  to.inconsistentReplace += from.inconsistentReplace;
  to.canonicalize += from.canonicalize;
  to.factorCan += from.factorCan;
  to.factorList += from.factorList;
  to.toposort += from.toposort;
  to.validate += from.validate;
  to.callback += from.callback;
}
void add(Profile::InPlace& to, const Profile::InPlace& from) {
  to.nodesBefore += from.nodesBefore;
  to.replaceCalls += from.replaceCalls;
  to.validateCalls += from.validateCalls;
  to.inconsistent += from.inconsistent;
  addCounts(to.byRank, from.byRank);
  std::sort(to.byRank.begin(), to.byRank.end());
}

}  // namespace

Profile& Profile::Sequence::add(std::string name) {
  Profile& child = children.emplace_back();
  child.name = std::move(name);
  child.index = children.size() - 1;
  return child;
}

void Profile::Pass::count(std::string_view rewrite, uint64_t times) {
  for (auto& [name, count] : applied)
    if (name == rewrite) {
      count += times;
      return;
    }
  applied.emplace_back(rewrite, times);
}

Profile::Rewrite& Profile::Equilibrium::rewrite(std::string_view name) {
  for (Rewrite& r : rewrites)
    if (r.name == name) return r;
  rewrites.push_back({.name = std::string(name)});
  return rewrites.back();
}

std::string_view Profile::className() const {
  static constexpr std::array<std::string_view, std::variant_size_v<Detail>> kNames = {"FromFunctionGraphRewriter",
                                                                                       "SequentialGraphRewriter",
                                                                                       "EquilibriumGraphRewriter",
                                                                                       "WalkingGraphRewriter",
                                                                                       "MergeOptimizer",
                                                                                       "FusionOptimizer",
                                                                                       "GemmOptimizer",
                                                                                       "InplaceElementwiseOptimizer"};
  return kNames[detail.index()];
}

std::string Profile::text() const {
  std::string out = "Rewriter Profile\n----------------\n";
  ProfileText(out).block(*this, 0);
  return out;
}

void Profile::writeJson(JsonWriter& json) const { tscompile::writeJson(json, Fields<Profile>{*this}); }

std::string Profile::json() const {
  std::ostringstream out;
  JsonWriter json(out);
  writeJson(json);
  json.finish();
  return out.str();
}

void Profile::merge(const Profile& other) {
  seconds += other.seconds;
  validate += other.validate;
  std::visit(
      [](auto& to, auto& from) {
        if constexpr (std::is_same_v<std::decay_t<decltype(to)>, std::decay_t<decltype(from)>>) add(to, from);
      },
      detail, other.detail);
}

std::string CompileProfile::text() const {
  std::string out = "Function profiling\n==================\n";
  append(out, "  Message: %s\n", message.c_str());
  append(out, "  Time in %llu calls to %s: %es\n", wide(calls), call.c_str(), inCalls);
  append(out, "  Total compile time: %es\n", total);
  append(out, "    Number of Apply nodes: %llu\n", wide(nodes));
  append(out, "    %s rewriter time: %es\n", system.c_str(), rewriter);
  append(out, "       %s validate time: %es\n", system.c_str(), validate);
  append(out, "    %s Linker time (includes %s): %es\n", system.c_str(), linkerDoes.c_str(), linker);
  append(out, "       Import time %es\n", import);
  if (gradient) append(out, "  Time in all call to %s %es\n", gradient->first.c_str(), gradient->second);
  return out;
}

void CompileProfile::writeJson(JsonWriter& json) const { tscompile::writeJson(json, Fields<CompileProfile>{*this}); }

}  // namespace tscompile
