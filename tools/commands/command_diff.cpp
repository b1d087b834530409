// `tscompile diff`: what two graphs, or two ways of cutting one into engines, differ in.
#include "api/built_model.h"
#include "api/engine_file.h"
#include "api/lower.h"
#include "frontend/files/archive_kind.h"
#include "frontend/files/file_io.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/printer.h"
#include "ir/support/json_fields.h"
#include "ir/support/text.h"
#include "ir/values/symbol.h"
#include "partition/report.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/reports/diff_benches.h"
#include "tools/reports/diff_settings.h"
#include "tools/reports/diff_tensors.h"
#include "tools/reports/edit_script.h"
#include "tools/session/session.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <list>
#include <map>
#include <set>
#include <unordered_map>

namespace tscompile {
namespace {

struct DiffCommand {
  std::string method = "forward";
  bool ignoreNames = false;
  std::optional<double> slower;  // part by which the second of two measurements may be slower
};

constexpr size_t kInterpreter = SIZE_MAX;

// One line of a graph, engines opened.
struct PrintedLine {
  const Node* node = nullptr;  // null for the inputs; a return for the outputs of a graph or block
  std::string text;            // with names
  size_t line = 0;
  size_t engine = kInterpreter;  // that it runs in
};

using SameValues = std::unordered_map<const Value*, const Value*>;

struct Outline {
  std::vector<PrintedLine> rows;
  // Values inside of an engine by those outside, results of engines by those inside, and copies of constants by the
  // first one.
  SameValues same;
  size_t engines = 0;
};

// Without the numbers by which PyTorch keeps classes of one name apart: they tell the order of saving.
std::string withoutNumbers(std::string text) {
  constexpr std::string_view kMangled = "___torch_mangle_";
  for (size_t at = text.find(kMangled); at != std::string::npos; at = text.find(kMangled, at)) {
    size_t end = at + kMangled.size();
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    text.erase(at, end + (end < text.size() && text[end] == '.') - at);
  }
  return text;
}

std::string inputText(std::span<Value* const> values) {
  return join(values, ", ", [](const Value* v) { return "%" + v->name() + " : " + typeText(v->type()); });
}

std::string returnText(const Node* n, std::string_view word) {
  return std::string(word) + " (" + join(n->inputs(), ", ", [](const Use& u) { return "%" + u.value->name(); }) + ")";
}

class OutlineMaker {
 public:
  // Of graphs that are cut each engine has copies of the constants that it uses: one row stands for those that are
  // alike. Tensors among them may be left to whoever compares weights.
  OutlineMaker(bool isCut, bool withTensors) : isCut_(isCut), withTensors_(withTensors) {}

  Outline make(const Graph& graph) {
    out_.rows.push_back({nullptr, withoutNumbers("graph(" + inputText(graph.inputs()) + ")"), 1});
    todo_.push_back({graph.block(), kInterpreter, 0, 0});
    // An explicit stack: blocks may be nested deeply.
    while (!todo_.empty()) {
      Level& level = todo_.back();
      if (!level.next) {
        level.next = level.block->empty() ? level.block->returnNode() : level.block->first();
        if (!level.name.empty()) add(nullptr, level.name + "(" + inputText(level.block->parameters()) + ")", level);
      }
      const Node* n = level.next;
      if (n->isReturn()) {
        // What an engine returns is what its node gives.
        if (level.engine == kInterpreter || level.depth > level.engineDepth)
          add(n, returnText(n, level.depth ? "->" : "return"), level);
        else if (level.node)
          for (size_t i = 0; i < level.node->outputCount(); ++i) alias(level.node->output(i), n->input(i));
        todo_.pop_back();
        continue;
      }
      level.next = n->next() ? n->next() : level.block->returnNode();
      visit(n, level);
    }
    return std::move(out_);
  }

 private:
  struct Level {
    const Block* block;
    size_t engine, depth, engineDepth;
    std::string name = {};  // "block0" of a nested block
    const Node* next = nullptr;
    const Node* node = nullptr;  // of an engine
  };

  void add(const Node* n, const std::string& text, const Level& level) {
    size_t depth = level.depth - (level.engine == kInterpreter ? 0 : 1);
    out_.rows.push_back(
        {n, std::string(2 * depth, ' ') + withoutNumbers(text), n ? lineOf(n) : out_.rows.back().line, level.engine});
  }
  void alias(const Value* v, const Value* of) {
    const auto known = out_.same.find(of);
    out_.same[v] = known == out_.same.end() ? of : known->second;
  }
  void visit(const Node* n, const Level& level) {
    if (n->kind() == sym::Engine && n->subgraph()) {
      size_t depth = level.depth + 1;
      for (size_t i = 0; i < n->inputCount(); ++i) alias(n->subgraph()->input(i), n->input(i));
      todo_.push_back({n->subgraph()->block(), out_.engines++, depth, depth, {}, nullptr, n});
      return;
    }
    PrintOptions plain;
    plain.locations = false;
    const bool isLeftOut = !withTensors_ && n->kind() == sym::Constant && n->output()->type()->isTensor();
    // Its elements are told among the weights.
    const std::string text =
        isLeftOut && !isCut_ ? "%" + n->output()->name() + " : Tensor = prim::Constant()" : nodeText(*n, plain);
    if (isCut_ && n->kind() == sym::Constant) {
      const Level shared{level.block, kInterpreter, 0, 0};
      const auto [first, isNew] = constants_.try_emplace(text, n->output());
      if (!isNew) alias(n->output(), first->second);
      if (!isLeftOut && isNew) add(n, text, shared);
      return;
    }
    add(n, text, level);
    const Level inside{nullptr, level.engine, level.depth + 1, level.engineDepth};
    for (size_t i = n->blocks().size(); i-- > 0;) {
      todo_.push_back(inside);
      todo_.back().block = n->block(i);
      todo_.back().name = "block" + std::to_string(i);
    }
  }

  bool isCut_, withTensors_;
  Outline out_;
  std::map<std::string, const Value*> constants_;
  std::vector<Level> todo_;
};

bool readsWeights(const Graph& graph) {
  bool any = false;
  forEachNode(graph, [&](const Node* n) {
    const IValue* v = n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
    any |= n->kind() == sym::GetAttr && n->output()->type()->isTensor();
    any |= v && v->isLiteral() && !v->toLiteral().data.defined() && n->output()->type()->isTensor();
  });
  return any;
}

bool hasEngines(const Graph& graph) {
  bool has = false;
  forEachNode(graph, [&](const Node* n) { has |= n->kind() == sym::Engine && n->subgraph(); });
  return has;
}

// What stays, goes, comes and changes its side.
struct Comparison {
  std::vector<size_t> removed, added;            // rows of A, of B
  std::vector<std::pair<size_t, size_t>> moved;  // rows of both
  bool same() const { return removed.empty() && added.empty() && moved.empty(); }
};

// ---- names that do not count: rows that are alike, then values that correspond ----

std::string textWithoutNames(const PrintedLine& r) {
  if (!r.node) return "graph";
  std::string out(r.node->kind().text());
  appendAttributes(*r.node, true, 3, out);
  for (const Value* v : r.node->outputs()) out += " " + typeText(v->type());
  return withoutNumbers(out) + " " + std::to_string(r.node->inputCount());
}

class Correspondence {
 public:
  bool inputs(std::span<const Use> a, std::span<const Use> b) {
    for (size_t i = 0; i < a.size(); ++i)
      if (!pair(a[i].value, b[i].value)) return false;
    return true;
  }
  bool pair(const Value* a, const Value* b) {
    return partner_.try_emplace(a, b).first->second == b && partner_.try_emplace(b, a).first->second == a;
  }

 private:
  std::unordered_map<const Value*, const Value*> partner_;
};

bool corresponds(const Node* a, const Node* b, Correspondence& values) {
  if (!values.inputs(a->inputs(), b->inputs())) return false;
  for (size_t i = 0; i < a->outputCount(); ++i) values.pair(a->output(i), b->output(i));
  for (size_t i = 0; i < std::min(a->blocks().size(), b->blocks().size()); ++i) {
    auto x = a->block(i)->parameters(), y = b->block(i)->parameters();
    for (size_t k = 0; k < std::min(x.size(), y.size()); ++k) values.pair(x[k], y[k]);
  }
  return true;
}

// ---- comparing ----

class Comparer {
 public:
  // `comparesWeights`: somebody else does.
  Comparer(const Graph& a, const Graph& b, bool ignoreNames, bool comparesWeights) : ignoreNames_(ignoreNames) {
    isCut_ = hasEngines(a) || hasEngines(b);
    a_ = OutlineMaker(isCut_, !comparesWeights).make(a);
    b_ = OutlineMaker(isCut_, !comparesWeights).make(b);
    isCut_ ? byValues() : byRows(a, b);
  }

  const Comparison& result() const { return out_; }
  const Outline& a() const { return a_; }
  const Outline& b() const { return b_; }
  bool isCut() const { return isCut_; }

 private:
  void byRows(const Graph& a, const Graph& b) {
    std::vector<std::string> x, y;
    for (const PrintedLine& r : a_.rows) x.push_back(ignoreNames_ ? textWithoutNames(r) : r.text);
    for (const PrintedLine& r : b_.rows) y.push_back(ignoreNames_ ? textWithoutNames(r) : r.text);
    auto pairs = commonItems(x.size(), y.size(), [&](size_t i, size_t j) { return x[i] == y[j]; });
    if (ignoreNames_) {
      Correspondence values;
      std::erase_if(pairs, [&](const auto& p) {
        const Node *n = a_.rows[p.first].node, *m = b_.rows[p.second].node;
        return n && m ? !corresponds(n, m, values) : !inputsCorrespond(a, b, values);
      });
    } else {
      pairReads(x, y, pairs);
    }
    keepOnly(pairs);
  }

  // Attributes and constants are read in any order.
  void pairReads(const std::vector<std::string>& x, const std::vector<std::string>& y,
                 std::vector<std::pair<size_t, size_t>>& pairs) const {
    std::vector<bool> inA(x.size()), inB(y.size());
    for (auto [i, j] : pairs) inA[i] = inB[j] = true;
    auto isRead = [](const PrintedLine& r) {
      return r.node && (r.node->kind() == sym::GetAttr || r.node->kind() == sym::Constant);
    };
    std::multimap<std::string, size_t> rest;
    for (size_t j = 0; j < y.size(); ++j)
      if (!inB[j] && isRead(b_.rows[j])) rest.emplace(y[j], j);
    for (size_t i = 0; i < x.size(); ++i) {
      auto at = inA[i] || !isRead(a_.rows[i]) ? rest.end() : rest.find(x[i]);
      if (at == rest.end()) continue;
      pairs.emplace_back(i, at->second);
      rest.erase(at);
    }
  }

  static bool inputsCorrespond(const Graph& a, const Graph& b, Correspondence& values) {
    if (a.inputs().size() != b.inputs().size()) return false;
    for (size_t i = 0; i < a.inputs().size(); ++i) {
      if (a.input(i)->type() != b.input(i)->type()) return false;
      values.pair(a.input(i), b.input(i));
    }
    return true;
  }

  // The order of nodes is another for each way of cutting: a node is found by what it makes.
  void byValues() {
    const std::vector<std::pair<size_t, size_t>> pairs = pairsByValues();
    std::map<size_t, std::map<size_t, size_t>> votes;  // engines of A by how many nodes those of B share with them
    for (auto [i, j] : pairs)
      if (size_t e = a_.rows[i].engine, f = b_.rows[j].engine; e != kInterpreter && f != kInterpreter) ++votes[e][f];
    for (auto [i, j] : pairs) {
      size_t e = a_.rows[i].engine, f = b_.rows[j].engine;
      bool stays = e == f;
      if (e != kInterpreter && f != kInterpreter)
        stays = f == std::max_element(votes[e].begin(), votes[e].end(), [](const auto& x, const auto& y) {
                       return x.second < y.second;
                     })->first;
      if (!stays) out_.moved.emplace_back(i, j);
    }
    keepOnly(pairs);
  }

  // Rows that do the same with values that correspond, in the order of the first: the names of values that have only
  // numbers tell nothing of other ways of cutting.
  std::vector<std::pair<size_t, size_t>> pairsByValues() const {
    std::map<std::string, std::list<size_t>> rest;
    for (size_t j = 0; j < b_.rows.size(); ++j) rest[keyOf(b_.rows[j])].push_back(j);
    std::vector<std::pair<size_t, size_t>> pairs;
    SameValues partner, back;
    for (size_t i = 0; i < a_.rows.size(); ++i) {
      const auto alike = rest.find(keyOf(a_.rows[i]));
      if (alike == rest.end()) continue;
      std::list<size_t>& candidates = alike->second;
      size_t asked = 0;
      auto found = candidates.end();
      for (auto at = candidates.begin(); at != candidates.end() && asked++ < kMostCandidates; ++at) {
        if (!correspond(a_.rows[i].node, b_.rows[*at].node, partner, back)) continue;
        if (found == candidates.end()) found = at;
        if (a_.rows[i].text != b_.rows[*at].text) continue;
        found = at;  // by name, too
        break;
      }
      if (found == candidates.end()) continue;
      pairs.emplace_back(i, *found);
      if (const Node* n = a_.rows[i].node, *m = b_.rows[*found].node; n && m && !n->isReturn()) {
        for (size_t k = 0; k < n->outputCount(); ++k)
          partner.emplace(n->output(k), m->output(k)), back.emplace(m->output(k), n->output(k));
        for (size_t k = 0; k < std::min(n->blocks().size(), m->blocks().size()); ++k) {
          auto x = n->block(k)->parameters(), y = m->block(k)->parameters();
          for (size_t p = 0; p < std::min(x.size(), y.size()); ++p)
            partner.emplace(x[p], y[p]), back.emplace(y[p], x[p]);
        }
      }
      candidates.erase(found);
    }
    return pairs;
  }

  static bool isNumber(const std::string& name) {
    return !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
  }
  // Values that no pair makes: by their names, if these say anything.
  bool correspond(const Node* n, const Node* m, const SameValues& partner, const SameValues& back) const {
    auto first = [](const Value* v, const SameValues& same) {
      const auto at = same.find(v);
      return at == same.end() ? v : at->second;
    };
    if (!n || !m) return !n && !m;
    if (n->inputCount() != m->inputCount()) return false;
    for (size_t i = 0; i < n->inputCount(); ++i) {
      const Value *a = first(n->input(i), a_.same), *b = first(m->input(i), b_.same);
      const auto known = partner.find(a);
      if (known != partner.end() ? known->second != b : back.contains(b)) return false;
      if (known == partner.end() && a->name() != b->name() && !(isNumber(a->name()) && isNumber(b->name())))
        return false;
    }
    return true;
  }

  static std::string keyOf(const PrintedLine& r) {
    if (r.node) return textWithoutNames(r);
    std::string_view text = r.text;
    return std::string(text.substr(std::min(text.find_first_not_of(' '), text.size())));
  }

  static constexpr size_t kMostCandidates = 1000;

  void keepOnly(const std::vector<std::pair<size_t, size_t>>& pairs) {
    std::vector<bool> inA(a_.rows.size()), inB(b_.rows.size());
    for (auto [i, j] : pairs) inA[i] = inB[j] = true;
    for (size_t i = 0; i < inA.size(); ++i)
      if (!inA[i]) out_.removed.push_back(i);
    for (size_t j = 0; j < inB.size(); ++j)
      if (!inB[j]) out_.added.push_back(j);
  }

  bool ignoreNames_, isCut_ = false;
  Outline a_, b_;
  Comparison out_;
};

std::string sideName(size_t engine) {
  return engine == kInterpreter ? "the interpreter" : fmt::format("engine {}", engine);
}

// Of graphs that are cut without constants, whose number depends on the cut.
size_t nodeCount(const Outline& o, bool isCut) {
  return static_cast<size_t>(std::count_if(o.rows.begin(), o.rows.end(), [&](const PrintedLine& r) {
    return r.node && !r.node->isReturn() && !(isCut && r.node->kind() == sym::Constant);
  }));
}

// "1 weight differs", "2 settings and 1 weight differ".
std::string countsText(size_t settings, size_t weights) {
  std::string out = settings ? counted(settings, "setting") : "";
  if (settings && weights) out += " and ";
  if (weights) out += counted(weights, "weight");
  return out + (settings + weights == 1 ? " differs" : " differ");
}

void writeText(const Comparer& c, std::span<const SettingChange> settings, std::span<const TensorChange> weights,
               std::ostream& out) {
  const Comparison& r = c.result();
  for (const SettingChange& s : settings)
    out << fmt::format("{}: {} -> {}\n", s.name, s.first.value_or("none"), s.second.value_or("none"));
  for (const TensorChange& w : weights) out << fmt::format("weight {}: {}\n", w.name, w.text);
  const bool isAnother = !settings.empty() || !weights.empty();
  if (r.same() && isAnother) {
    out << countsText(settings.size(), weights.size()) << "; the graphs do not\n";
    return;
  }
  if (r.same()) {
    out << fmt::format("no difference: {}", counted(nodeCount(c.a(), c.isCut()), "node"));
    out << (c.isCut() ? fmt::format(", {}\n", counted(c.a().engines, "engine")) : "\n");
    return;
  }
  // As the rows follow each other in both.
  size_t i = 0, j = 0;
  while (i < r.removed.size() || j < r.added.size()) {
    bool first = j == r.added.size() || (i < r.removed.size() && r.removed[i] <= r.added[j]);
    const PrintedLine& row = first ? c.a().rows[r.removed[i++]] : c.b().rows[r.added[j++]];
    out << fmt::format("{}{:<5} {}\n", first ? '-' : '+', row.line, row.text);
  }
  for (auto [x, y] : r.moved)
    out << fmt::format("~{:<5} {}: {} -> {}\n", c.b().rows[y].line, placeName(c.b().rows[y].node),
                       sideName(c.a().rows[x].engine), sideName(c.b().rows[y].engine));
  out << fmt::format("{} only in the first, {} only in the second", counted(r.removed.size(), "line"), r.added.size());
  if (c.isCut())
    out << fmt::format(", {} on another side; {} and {}", counted(r.moved.size(), "node"),
                       counted(c.a().engines, "engine"), c.b().engines);
  if (isAnother) out << ", " << countsText(settings.size(), weights.size());
  out << "\n";
}

// A line of a text, and where a node went.
struct DiffLine {
  size_t line;
  std::string text;
  std::optional<std::string> from = {}, to = {};

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("line", line);
    visit("text", text);
    visit("from", from);
    visit("to", to);
  }
};

// Of two files of weights, in the form of other comparisons.
struct WeightsReport {
  std::vector<TensorChange> weights;
  size_t count = 0;  // of tensors of the first

  bool same() const { return weights.empty(); }
  void writeText(std::ostream& out) const {
    for (const TensorChange& w : weights) out << fmt::format("weight {}: {}\n", w.name, w.text);
    out << (same() ? "no difference: " + counted(count, "weight") : countsText(0, weights.size())) << "\n";
  }

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.diff/1");
    visit("same", same());
    visit("weights", Lines{std::span(weights)});
  }
};

struct DiffReport {
  const Comparer& comparer;
  std::span<const SettingChange> settings;
  std::span<const TensorChange> weights;
  bool comparesWeights;

  bool same() const { return comparer.result().same() && settings.empty() && weights.empty(); }

  static std::vector<DiffLine> linesOf(const Outline& o, const std::vector<size_t>& rows) {
    std::vector<DiffLine> out;
    for (size_t i : rows) out.push_back({o.rows[i].line, o.rows[i].text});
    return out;
  }
  std::vector<DiffLine> moved() const {
    std::vector<DiffLine> out;
    for (auto [x, y] : comparer.result().moved) {
      const PrintedLine& row = comparer.b().rows[y];
      out.push_back({row.line, row.text, sideName(comparer.a().rows[x].engine), sideName(row.engine)});
    }
    return out;
  }

  template <class Visit>
  void fields(Visit&& visit) const {
    const Comparison& r = comparer.result();
    visit("schema", "tscompile.diff/1");
    visit("same", same());
    visit("removed", Lines{linesOf(comparer.a(), r.removed)});
    visit("added", Lines{linesOf(comparer.b(), r.added)});
    visit("moved", Lines{moved()});
    visit("settings", Lines{settings});
    if (comparesWeights) visit("weights", Lines{weights});
  }
};

const Graph* methodOf(const Module& module, const Options& options, size_t file, Session& session) {
  const Graph* graph = module.graph(options.own.of<DiffCommand>().method);
  if (!graph)
    session.diagnostics
        .fileError(options.arguments[file], {},
                   fmt::format("there is no method '{}'", options.own.of<DiffCommand>().method))
        .note("it has " + join(module.methods(), ", ", [](const std::string& m) { return m; }));
  return graph;
}

using Tensors = std::map<std::string, Tensor>;

// Those of texts are elsewhere.
bool hasWeights(FileKind kind) {
  return kind == FileKind::TorchScript || kind == FileKind::ExportedProgram || kind == FileKind::EngineFile;
}
bool isOfWeights(FileKind kind) {
  return kind == FileKind::Safetensors || kind == FileKind::TorchCheckpoint || kind == FileKind::LegacyCheckpoint ||
         kind == FileKind::WeightsRecipe;
}
// "tuned.pth#model" are those below "model" of the file.
FileKind kindOf(const std::string& path, const Limits& limits) {
  Diagnostics ignored;
  std::error_code unknown;
  const bool isPart = !std::filesystem::exists(path, unknown) && path.rfind('#') != std::string::npos;
  Ref<FileMapping> mapping = FileMapping::open(isPart ? path.substr(0, path.rfind('#')) : path, ignored);
  return mapping ? detectWholeFileKind(mapping->bytes(), limits) : FileKind::GraphText;
}

// The method with all that it calls.
Result<Module> inlinedMethod(const Module& module, Session& session, const std::string& method) {
  LowerOptions inlining;
  inlining.method = method;
  inlining.query = Query().including({"inline_calls"});
  inlining.limits = session.common.limits;
  return module.lowered(inlining, session.diagnostics);
}

bool hasCalls(const Graph& graph) {
  bool has = false;
  forEachNode(graph, [&](const Node* n) { has |= n->kind() == sym::CallMethod || n->kind() == sym::CallFunction; });
  return has;
}

// The weights of a model by the names of state_dict, without constants of its code.
Result<Tensors> weightsOfModel(const std::string& path, const std::string& method, Session& session) {
  Result<Module> module = session.loadModule(path, {});
  Result<Module> whole = module ? inlinedMethod(*module, session, method) : Result<Module>(Failed{});
  Result<ModuleValues> values = whole ? whole->values(session.diagnostics) : Result<ModuleValues>(Failed{});
  if (!values) return Failed{};
  for (const std::string& name : values->constants) values->tensors.erase(name);
  return std::move(values->tensors);
}

// Of two files of weights, one of which may be a model.
int diffWeights(const Options& options, std::span<const FileKind> kinds, Session& session) {
  Tensors tensors[2];
  for (size_t i = 0; i < 2; ++i) {
    const std::string& path = options.arguments[i];
    if (!isOfWeights(kinds[i])) {
      Result<Tensors> read = weightsOfModel(path, options.own.of<DiffCommand>().method, session);
      if (!read) return session.finish();
      tensors[i] = std::move(*read);
      continue;
    }
    Weights weights;
    if (!weights.addFile(path, session.diagnostics, session.common.limits)) return session.finish();
    for (const std::string& name : weights.names()) tensors[i].emplace(name, *weights.find(name));
  }
  session.progress.end();
  const WeightsReport report{changedTensors(tensors[0], tensors[1]), tensors[0].size()};
  session.common.json ? writeJson(session.out, report) : report.writeText(session.out);
  return session.finish(report.same() ? kExitDone : kExitNegative);
}

// Tensors of an engine file by their names, also those that the text of its graph holds.
Result<Tensors> weightsOf(const std::string& path, const Graph& graph, Session& session) {
  Ref<FileMapping> mapping = FileMapping::open(path, session.diagnostics);
  if (!mapping) return Failed{};
  Result<EngineFile> file =
      parseEngineFile(mapping->bytes(), mapping.get(), path, session.diagnostics, session.common.limits);
  if (!file) return Failed{};
  Tensors out(file->tensors.begin(), file->tensors.end());
  auto add = [&](const Node* n) {
    const IValue* v = n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
    if (!v) return;
    Tensor t = v->isTensor() ? v->toTensor() : v->isLiteral() ? v->toLiteral().data : Tensor();
    if (t.defined()) out.try_emplace(n->output()->name(), t);
  };
  forEachNode(graph, [&](const Node* n) {
    add(n);
    if (n->subgraph()) forEachNode(*n->subgraph(), add);
  });
  return out;
}

}  // namespace

// Folders that build has made: the settings, then the engines. Nothing if they are none.
static Result<std::vector<SettingChange>> diffFolders(Options& options, Session& session) {
  SettingTexts texts[2];
  for (size_t i = 0; i < 2; ++i) {
    Result<BuiltModel> built = readBuiltModel(options.arguments[i], session.diagnostics);
    if (!built) return Failed{};
    for (const auto& [name, value] : buildOptionTexts(built->usedConfig())) texts[i]["setting " + name] = value;
    for (const std::string& plugin : built->plugins) texts[i]["plugin " + plugin] = "needed";
    options.arguments[i] = built->engine;
  }
  return changedTexts(texts[0], texts[1]);
}

static int runDiff(const Options& given, Session& session) {
  if (given.arguments.size() != 2) throw UsageError{"diff takes two files"};
  Options options = given;
  std::vector<SettingChange> ofFolders;
  std::error_code ignored;
  if (std::filesystem::is_directory(options.arguments[0], ignored) &&
      std::filesystem::is_directory(options.arguments[1], ignored)) {
    Result<std::vector<SettingChange>> changes = diffFolders(options, session);
    if (!changes) return session.finish();
    ofFolders = std::move(*changes);
  }
  const std::optional<double> slower = options.own.of<DiffCommand>().slower;
  if (isBenchReport(options.arguments[0]) && isBenchReport(options.arguments[1]))
    return diffBenches(options.arguments[0], options.arguments[1], slower.value_or(kBenchNoise), session);
  if (slower) throw UsageError{"--fail-if-slower is of two measurements, which 'bench --format json' writes"};
  const FileKind kinds[] = {kindOf(options.arguments[0], session.common.limits),
                            kindOf(options.arguments[1], session.common.limits)};
  auto mayGiveWeights = [](FileKind k) {
    return isOfWeights(k) || k == FileKind::TorchScript || k == FileKind::ExportedProgram;
  };
  const bool isAnyOfWeights = isOfWeights(kinds[0]) || isOfWeights(kinds[1]);
  if (isAnyOfWeights && mayGiveWeights(kinds[0]) && mayGiveWeights(kinds[1]))
    return diffWeights(options, kinds, session);
  Result<Module> a = session.loadModule(options.arguments[0], {}), b = session.loadModule(options.arguments[1], {});
  if (!a || !b) return session.finish();
  const Graph *x = methodOf(*a, options, 0, session), *y = methodOf(*b, options, 1, session);
  if (!x || !y) return session.finish();
  for (const Graph* graph : {x, y})
    if (!verify(*graph, session.operators(), session.diagnostics)) return session.finish();
  if (options.own.of<DiffCommand>().ignoreNames && (hasEngines(*x) || hasEngines(*y)))
    throw UsageError{"--ignore-names is not for graphs with engines"};
  const std::string& method = options.own.of<DiffCommand>().method;
  const bool areEngines = a->engineInfo() && b->engineInfo();
  const bool comparesWeights =
      areEngines || (!a->engineInfo() && !b->engineInfo() && hasWeights(kinds[0]) && hasWeights(kinds[1]));
  ComparedModule compared[] = {{*a, method, {}}, {*b, method, {}}};
  Tensors tensors[2];
  std::set<std::string> constants[2];
  std::optional<Module> inlined[2];
  const bool opensCalls = hasCalls(*x) || hasCalls(*y);
  for (size_t i = 0; i < 2 && !areEngines && (comparesWeights || opensCalls); ++i) {
    Result<Module> whole = inlinedMethod(i ? *b : *a, session, method);
    Result<ModuleValues> values = whole ? whole->values(session.diagnostics) : Result<ModuleValues>(Failed{});
    if (!values) return session.finish();
    if (opensCalls) (i ? y : x) = whole->graph();
    inlined[i] = std::move(*whole);
    if (!comparesWeights) continue;
    tensors[i] = std::move(values->tensors);
    constants[i] = std::move(values->constants);
    compared[i].attributes = std::move(values->attributes);
  }
  for (size_t i = 0; i < 2 && areEngines; ++i) {
    Result<Tensors> read = weightsOf(options.arguments[i], i ? *y : *x, session);
    if (!read) return session.finish();
    tensors[i] = std::move(*read);
  }
  const Comparer comparer(*x, *y, options.own.of<DiffCommand>().ignoreNames, comparesWeights);
  const std::vector<TensorChange> weights =
      areEngines ? changedConstants(tensors[0], tensors[1]) : changedConstants(tensors[0], tensors[1], constants);
  session.progress.end();
  if (!comparesWeights && (readsWeights(*x) || readsWeights(*y)))
    session.note(
        a->engineInfo() || b->engineInfo()
            ? "weights were not compared: an engine file has what lowering made of them; 'tscompile compile' makes "
              "one of the other as well"
            : "weights were not compared: those of graph text are in other files, which diff takes as well");
  std::vector<SettingChange> settings = changedSettings(compared[0], compared[1]);
  settings.insert(settings.begin(), ofFolders.begin(), ofFolders.end());
  const DiffReport report{comparer, settings, weights, comparesWeights};
  session.common.json ? writeJson(session.out, report) : writeText(comparer, settings, weights, session.out);
  return session.finish(report.same() ? kExitDone : kExitNegative);
}

namespace {

constexpr std::string_view kDiffDetails =
    R"(A line for each node that only one of them has: '-' of the first, '+' of the second, each with the
line of its text; of modules, those of all that the method calls as well. Weights and other attributes of
archives and exports, and weights of engine files, are compared as well, bit by bit; those of
graph text are in files of their own, two of which (safetensors, checkpoints, or FILE#PATH of what is
below PATH in one) can be given instead, and one of them beside an archive or export.
Of two language models that were built (folders) the settings and the engines are compared.
If one of them has engines (an engine file, 'partition --emit graph'), nodes are
found by what they make, in any order, and '~' tells those that run on another side. The sizes that
models take and the defaults of inputs are compared, too, and the precision and tactics of engine files.
The exit code is 1 if there is a difference.

Of two measurements ('bench --format json') the times are compared: the exit code is 1 if the second is
slower by more than 3 %, or --fail-if-slower, in both its least and its median time, with the same
number of threads.

Examples:
  tscompile diff before.ir after.ir
  tscompile diff greedy.ir dependency.ir
  tscompile diff before.json after.json --fail-if-slower 5
)";

OptionSpecs diffOptions() {
  return OptionSpecs{
      {"--method", "NAME", "the method to compare (default: forward)",
       [](Options& o, const std::string& v) { o.own.of<DiffCommand>().method = v; }},
      {"--ignore-names", "", "values may have other names; not for graphs with engines",
       [](Options& o, const std::string&) { o.own.of<DiffCommand>().ignoreNames = true; }},
      {"--fail-if-slower", "PERCENT", "by how much the second of two measurements may be slower (default: 3)",
       [](Options& o, const std::string& v) { o.own.of<DiffCommand>().slower = percentage("--fail-if-slower", v); }},
  };
}

}  // namespace

VerbSpec diffCommand() {
  return {.name = "diff",
          .summary = "tell what two models, engine files, weights or measurements differ in",
          .argument = "FILE",
          .argumentHelp =
              "two files: models (.pt, .pt2, graph text, module dumps), engine files, weights or "
              "measurements; or two folders that build has made",
          .argumentRequired = true,
          .argumentRepeats = true,
          .details = kDiffDetails,
          .options = diffOptions(),
          .command = runDiff};
}

}  // namespace tscompile
