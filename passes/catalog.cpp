// The database of lowering, from passes.def and the rules.
#include "passes/catalog.h"

#include "ir/support/check.h"
#include "ir/support/diagnostic_printer.h"
#include "passes/rewrite/unread_rules.h"

// The text of all files of rules.
__asm__(R"(
  .section .rodata
  .globl tscompileRulesBegin
  .hidden tscompileRulesBegin
tscompileRulesBegin:
  .incbin ")" TSCOMPILE_RULES R"("
  .globl tscompileRulesEnd
  .hidden tscompileRulesEnd
tscompileRulesEnd:
  .byte 0
  .previous
)");
extern "C" const char tscompileRulesBegin[];
extern "C" const char tscompileRulesEnd[];

namespace tscompile {

#define PASS(name, function, ...) bool function(Graph&, RewriteContext&);
#define NODE(name, function, ...) NodeRewrite function();
#define FAMILY(function) std::vector<NamedRewrite> function();
#include "passes/passes.def"

namespace {

using Kind = RewriteDatabase::Kind;

// Where a step stands: at a position in the outermost sequence, or in a database inside.
struct Place {
  Place(int position) : position(position) {}     // NOLINT: implicit by design
  Place(double position) : position(position) {}  // NOLINT
  Place(const char* database, Role role = Role::Normal) : database(database), role(role) {}  // NOLINT
  std::optional<double> position = std::nullopt;
  const char* database = nullptr;
  Role role = Role::Normal;
};
Place after(const char* database) { return {database, Role::CleanUp}; }

// Adds entries; that one of them is wrong is a mistake in passes.def or in the rules.
class Catalog {
 public:
  Catalog() : lowering_(Kind::Sequence, "lowering") {}

  void database(const char* name, Place place, Kind kind) {
    auto database = std::make_shared<RewriteDatabase>(kind, name);
    inner_[name] = database;
    add(name, std::shared_ptr<const RewriteDatabase>(std::move(database)), place, {}, "");
  }

  void add(std::string name, RewriteDatabase::Object object, Place place, Query::Tags tags, const char* purpose) {
    EntryOptions options;
    options.position = place.position;
    options.tags = std::move(tags);
    options.purpose = purpose;
    options.role = place.role;
    RewriteDatabase& database = place.database ? *inner_.at(place.database) : lowering_;
    check(database.add(std::move(name), std::move(object), std::move(options), diagnostics_));
  }

  void family(std::vector<NamedRewrite> rewrites) {
    for (NamedRewrite& r : rewrites) {
      std::string name = r.rewrite.name;
      add(std::move(name), std::move(r.rewrite), r.database, std::move(r.tags), r.purpose);
    }
  }

  void rules() {
    std::string text(tscompileRulesBegin, tscompileRulesEnd);
    check(addRules(lowering_, readRulesLater(SourceFile::make("rules", std::move(text))), diagnostics_));
  }

  RewriteDatabase take() { return std::move(lowering_); }

 private:
  void check(Result<void> result) {
    if (result) return;
    std::string message = renderDiagnostics(diagnostics_, "catalog");
    internalError(message.c_str(), __FILE_NAME__, __LINE__);
  }

  RewriteDatabase lowering_;
  std::map<std::string, std::shared_ptr<RewriteDatabase>> inner_;
  Diagnostics diagnostics_;
};

RewriteDatabase makeLowering() {
  Catalog c;
#define DATABASE(name, place, kind) c.database(name, place, Kind::kind);
#define PASS(name, function, place, tag, purpose) c.add(name, GraphRewrite{name, function}, place, {tag}, purpose);
#define NODE(name, function, place, tag, purpose) c.add(name, function(), place, {tag}, purpose);
#define FAMILY(function) c.family(function());
#include "passes/passes.def"
  c.rules();
  return c.take();
}

}  // namespace

const RewriteDatabase& loweringDatabase() {
  static const RewriteDatabase& lowering =
      *new RewriteDatabase(makeLowering());  // leaked: lives as long as the process
  return lowering;
}

std::optional<Query> loweringMode(std::string_view name) {
  const Query::Tags kMinimum{"bind_inputs", "mark_fallback", "inline_calls", "freeze"};
  const Query kNothing = Query().including(kMinimum), kDefault = Query().including({"default"});
  if (name == "min" || name == "o0") return kNothing;
  if (name == "merge") return kNothing.including({"merge1"});
  if (name == "o1") return kDefault.excluding({"unroll_loops", "linalg", "specialize", "uncanonicalize"});
  if (name == "o2") return kDefault;
  if (name == "stabilize") return kDefault.including({"stabilize"}).before(1.5000001);
  const Query kFast = kDefault.including({"fast_run"});
  if (name == "o3") return kFast.excluding({"reassoc", "fast_math", "inplace"});
  if (name == "o4") return kFast.excluding({"reassoc", "fast_math"});
  if (name == "unsafe") return kFast;
  return std::nullopt;
}

}  // namespace tscompile
