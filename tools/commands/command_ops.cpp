// `tscompile ops`: the operators, and which of them a graph needs.
#include "ir/graph/text_graphs.h"
#include "ir/operators/unknown_operators.h"
#include "ir/support/json_fields.h"
#include "ir/support/remedy.h"
#include "ir/support/text.h"
#include "runtime/engine/support.h"
#include "runtime/interpreter/machine.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/reports/op_status.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

namespace tscompile {
namespace {

struct OpsCommand {
  std::vector<std::string> coverage;
  bool all = false;
};

// With * for any text and ? for any byte; a pattern without them is searched for anywhere.
bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.find_first_of("*?") == std::string_view::npos) return name.find(pattern) != std::string_view::npos;
  size_t p = 0, n = 0, star = std::string_view::npos, mark = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool wanted(const std::vector<std::string>& patterns, std::string_view name) {
  return patterns.empty() ||
         std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return matches(p, name); });
}

std::vector<std::string_view> dtypeNames(const OpDef& def) {
  std::vector<std::string_view> out;
  for (DType d : {DType::Bool, DType::UInt8, DType::Int8, DType::Int16, DType::Int32, DType::Int64, DType::Float16,
                  DType::BFloat16, DType::Float32, DType::Float64, DType::Complex64, DType::Complex128})
    if (def.dtypes.empty() || def.dtypes.contains(d)) out.push_back(shortName(d));
  return out;
}

// Whether the dtypes of a record say anything: its first tensor argument is what they are about.
bool takesTensor(const Operator& op) {
  for (const Argument& a : op.schema().arguments)
    if (a.type->isTensor() || (!a.type->elements().empty() && a.type->element()->isTensor())) return true;
  return false;
}

struct OperatorRow {
  std::string name, text;
  const Operator* op = nullptr;

  bool isImplemented() const { return op && op->isImplemented(); }
  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", name);
    visit("status", !op ? "structure" : isImplemented() ? "implemented" : "missing");
    if (op) visit("schema", text);
    if (isImplemented() && takesTensor(*op)) visit("dtypes", dtypeNames(op->def()));
    const EngineUse use = op ? engineUse(*op) : engineUseOfStructure(Symbol::of(name));
    if (!use.converter.empty()) visit("converter", use.converter);
    if (!use.evaluated.empty()) visit("evaluated", use.evaluated);
  }
};

struct OperatorList {
  const std::vector<OperatorRow>& operators;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.ops/1");
    visit("operators", Lines{operators, true});
  }
};

std::vector<OperatorRow> listRows(const OpsCommand& command, const std::vector<std::string>& patterns,
                                  const OpRegistry& registry) {
  std::vector<OperatorRow> rows;
  for (Symbol kind : registry.kinds(!command.all))
    for (const Operator* op : registry.overloads(kind))
      if ((command.all || op->isImplemented()) && wanted(patterns, op->fullName()))
        rows.push_back({op->fullName(), schemaText(op->schema()), op});
  for (Symbol kind : structureKinds())
    if (wanted(patterns, kind.text())) rows.push_back({std::string(kind.text()), std::string(kind.text()), nullptr});
  std::stable_sort(rows.begin(), rows.end(),
                   [](const OperatorRow& a, const OperatorRow& b) { return a.name < b.name; });
  return rows;
}

int list(const Options& options, Session& session) {
  std::vector<OperatorRow> rows = listRows(options.own.of<OpsCommand>(), options.arguments, session.operators());
  if (rows.empty()) {
    std::string message = "no operator matches '" + abbreviate(options.arguments[0], 80) + "'";
    std::string nearest = session.operators().nearestKind(options.arguments[0]);
    session.note(message + (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
  }
  if (session.common.json) {
    writeJson(session.out, OperatorList{rows});
  } else {
    for (const OperatorRow& row : rows) {
      session.out << row.text;
      if (!row.op)
        session.out << "  (structure)";
      else if (!row.op->isImplemented())
        session.out << "  (missing)";
      else if (takesTensor(*row.op))
        session.out << "  [" << join(dtypeNames(row.op->def()), " ", [](std::string_view d) { return std::string(d); })
                    << "]";
      session.out << '\n';
    }
  }
  return rows.empty() ? kExitNegative : kExitDone;
}

// ---- coverage ----

struct Need {
  std::string name;  // the kind, with the overload if one was found
  OpStatus status;
  std::string types;  // of the inputs, if no overload takes them
  size_t count = 0;
};

std::string_view statusId(OpStatus status) {
  switch (status) {
    case OpStatus::Implemented:
      return "implemented";
    case OpStatus::Structure:
      return "structure";
    case OpStatus::Unknown:
      return "unknown";
    case OpStatus::NotImplemented:
      return "missing";
    case OpStatus::NoOverload:
      return "no-overload";
    case OpStatus::OverloadMissing:
      return "missing-overload";
    case OpStatus::Python:
      return "python";
  }
  TS_UNREACHABLE();
}

std::string statusText(const Need& need) {
  switch (need.status) {
    case OpStatus::Implemented:
      return "implemented";
    case OpStatus::Structure:
      return "structure";
    case OpStatus::Unknown:
      return "missing: PyTorch 1.13 has no such operator";
    case OpStatus::NotImplemented:
      return "missing: not implemented";
    case OpStatus::NoOverload:
      return "missing: no overload takes " + need.types;
    case OpStatus::OverloadMissing:
      return "missing: this overload is not implemented";
    case OpStatus::Python:
      return "missing: a call into Python";
  }
  TS_UNREACHABLE();
}

struct NeedFields {
  NeedFields(const Need& n) : need(n) {}  // NOLINT: as JSON has it
  const Need& need;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", need.name);
    visit("count", need.count);
    visit("status", statusId(need.status));
    if (!need.types.empty()) visit("inputs", need.types);
  }
};

struct Coverage {
  std::string file;
  std::vector<Need> needs;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("file", file);
    visit("operators", Lines{std::vector<NeedFields>(needs.begin(), needs.end())});
  }
};

struct CoverageList {
  const std::vector<Coverage>& files;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.coverage/1");
    visit("files", Lines{files, true});
  }
};

std::vector<Need> needsOf(const ParsedText& text, const OpRegistry& operators) {
  OpFinder finder(operators);
  std::map<std::pair<std::string, std::string>, Need> needs;
  forEachGraph(topGraphs(text), [&](const Graph& g) {
    forEachNode(g, [&](Node* n) {
      OpFinding found = finder.find(*n);
      std::string name = found.op    ? found.op->fullName()
                         : n->python ? "^" + n->python->name
                                     : std::string(n->kind().text());
      std::string types = found.status == OpStatus::NoOverload ? inputTypesText(*n) : "";
      Need& need = needs[{name, types}];
      need.name = name;
      need.types = types;
      need.status = found.status;
      ++need.count;
    });
  });
  std::vector<Need> out;
  for (auto& [key, need] : needs) out.push_back(std::move(need));
  // What is missing first.
  std::stable_sort(out.begin(), out.end(),
                   [](const Need& a, const Need& b) { return isMissing(a.status) > isMissing(b.status); });
  return out;
}

void coverageText(const std::string& file, const std::vector<Need>& needs, std::ostream& out) {
  size_t nodes = 0, there = 0, width = 8, present = 0;
  for (const Need& n : needs) {
    nodes += n.count;
    there += isMissing(n.status) ? 0 : n.count;
    present += !isMissing(n.status);
    width = std::max(width, n.name.size());
  }
  out << file << ": " << present << " of " << needs.size() << " operators are there, " << there << " of " << nodes
      << " nodes\n";
  for (const Need& n : needs) out << fmt::format("{:7}  {:<{}}  {}\n", n.count, n.name, width, statusText(n));
}

int coverage(const Options& options, Session& session) {
  std::vector<Coverage> results;
  bool missing = false, isOwn = false;
  for (const std::string& file : options.own.of<OpsCommand>().coverage) {
    ParseOptions reading;
    reading.registry = &session.operators();
    Result<ParsedText> text = session.parse(file, reading, UnknownOperators::Kept);
    if (!text) continue;
    std::vector<Need> needs = needsOf(*text, session.operators());
    std::erase_if(needs, [&](const Need& n) { return !wanted(options.arguments, n.name); });
    isOwn |= std::any_of(needs.begin(), needs.end(),
                         [](const Need& n) { return n.status == OpStatus::Unknown && mayBeSupplied(n.name); });
    missing |= std::any_of(needs.begin(), needs.end(), [](const Need& n) { return isMissing(n.status); });
    results.push_back({file, std::move(needs)});
  }
  if (session.common.json) {
    writeJson(session.out, CoverageList{results});
  } else {
    for (const auto& [file, needs] : results) coverageText(file, needs, session.out);
  }
  if (isOwn) session.note(textOf(Remedy::Kind::LoadOperators));
  return session.finish(missing ? kExitNegative : kExitDone);
}

}  // namespace

static int runOps(const Options& options, Session& session) {
  return options.own.of<OpsCommand>().coverage.empty() ? list(options, session) : coverage(options, session);
}

namespace {

OptionSpecs opsOptions() {
  return OptionSpecs{
      {"--coverage", "FILE", "tell which operators of a graph or module dump are there; exit 1 if one is missing",
       [](Options& o, const std::string& v) { o.own.of<OpsCommand>().coverage.push_back(v); }, true},
      {"--implemented", "", "list what can run (the default)",
       [](Options& o, const std::string&) { o.own.of<OpsCommand>().all = false; }},
      {"--all", "", "list also what PyTorch has and tscompile has not",
       [](Options& o, const std::string&) { o.own.of<OpsCommand>().all = true; }},
  };
}

}  // namespace

VerbSpec opsCommand() {
  return {.name = "ops",
          .summary = "list operators, or tell which operators of a graph are there",
          .argument = "PATTERN",
          .argumentHelp = "show operators whose name contains this, or matches it if it holds * or ?",
          .argumentRepeats = true,
          .details = "Examples:\n  tscompile ops 'aten::*pool*'\n  tscompile ops --coverage model.ir\n",
          .options = opsOptions(),
          .command = runOps};
}

}  // namespace tscompile
