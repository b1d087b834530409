// Names, tags and positions of all lowering steps.
#include "passes/catalog.h"

#include "ir/support/check.h"
#include "ir/support/diagnostic_printer.h"
#include "passes/algebra/node_rewriting.h"
#include "passes/lowering/passes.h"
#include "passes/serving/serving_passes.h"

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
namespace {

using Kind = RewriteDatabase::Kind;

// Adds entries; that one of them is wrong is a mistake in this file or in the rules.
class Catalog {
 public:
  Catalog() : lowering_(Kind::Sequence, "lowering") {}

  // A graph rewrite of the outermost sequence.
  void pass(double position, const char* name, bool (*apply)(Graph&, RewriteContext&), const char* purpose,
            Query::Tags tags = {"default"}) {
    EntryOptions options;
    options.position = position;
    options.tags = std::move(tags);
    options.purpose = purpose;
    check(lowering_.add(name, GraphRewrite{name, apply}, std::move(options), diagnostics_));
  }

  // A place in the sequence where a database inside stands.
  std::shared_ptr<RewriteDatabase> inner(double position, const char* name, Kind kind) {
    auto database = std::make_shared<RewriteDatabase>(kind, name);
    EntryOptions options;
    options.position = position;
    check(lowering_.add(name, std::shared_ptr<const RewriteDatabase>(database), std::move(options), diagnostics_));
    return inner_[name] = database;
  }

  void part(RewriteDatabase& database, const char* name, bool (*apply)(Graph&, RewriteContext&), const char* purpose,
            Role role = Role::Normal, Query::Tags tags = {"default"}) {
    EntryOptions options;
    options.tags = std::move(tags);
    options.purpose = purpose;
    options.role = role;
    check(database.add(name, GraphRewrite{name, apply}, std::move(options), diagnostics_));
  }

  void node(RewriteDatabase& database, NodeRewrite rewrite, const char* purpose, Query::Tags tags = {"default"}) {
    EntryOptions options;
    options.tags = std::move(tags);
    options.purpose = purpose;
    std::string name = rewrite.name;
    check(database.add(std::move(name), std::move(rewrite), std::move(options), diagnostics_));
  }

  // Node rewrites in the databases that they name.
  void rewrites(std::vector<NamedRewrite> list) {
    for (NamedRewrite& r : list) {
      EntryOptions options;
      options.tags = std::move(r.tags);
      options.purpose = r.purpose;
      std::string name = r.rewrite.name;
      check(inner_.at(r.group)->add(std::move(name), std::move(r.rewrite), std::move(options), diagnostics_));
    }
  }

  void rules() {
    std::string text(tscompileRulesBegin, tscompileRulesEnd);
    Result<std::vector<Rule>> rules = readRules(SourceFile::make("rules", std::move(text)), diagnostics_);
    check(rules.ok() ? addRules(lowering_, std::move(*rules), diagnostics_) : Result<void>(Failed{}));
  }

  RewriteDatabase take() { return std::move(lowering_); }

 private:
  void check(Result<void> result) {
    if (result) return;
    std::string message = renderDiagnostics(diagnostics_, "catalog");
    internalError(message.c_str(), __FILE__, __LINE__);
  }

  RewriteDatabase lowering_;
  std::map<std::string, std::shared_ptr<RewriteDatabase>> inner_;
  Diagnostics diagnostics_;
};

RewriteDatabase makeLowering() {
  Catalog c;
  c.pass(-4, "bind_inputs", bindInputs, "inputs that --bind gives a value become constants");
  c.pass(-3, "mark_fallback", markFallback, "mark the nodes that --fall-back keeps out of engines");
  c.pass(-2, "inline_calls", inlineCalls, "replace calls of methods and functions by their nodes");
  c.pass(-1, "freeze", freeze, "make constants of attributes that nothing writes");
  c.pass(-0.5, "forget_sizes", forgetSizes, "sizes that the text gives are examples, no promises", {"any_sizes"});
  c.pass(0, "merge1", mergeCommonSubexpressions, "compute equal things once");
  auto canonicalize = c.inner(1, "canonicalize", Kind::Equilibrium);
  // Dead nodes hold on to memory that others could have for themselves.
  c.part(*canonicalize, "drop_dead_code", removeDeadCode, "drop what nothing needs");
  c.part(*canonicalize, "functionalise", functionalise,
         "in-place operators on the graph's own memory become functional ones");
  c.part(*canonicalize, "lower_tuples", lowerTuples, "tuples that are taken apart again become their elements");
  c.part(*canonicalize, "remove_guards", removeGuards, "nodes of profiling that hand on their inputs go");
  c.part(*canonicalize, "unroll_loops", unrollLoops, "small loops with a known number of trips become their bodies");
  c.part(*canonicalize, "fold_constants", foldConstants, "compute what depends on constants alone");
  c.part(*canonicalize, "peephole", peephole, "operators that do nothing, questions that types answer");
  c.part(*canonicalize, "remove_unreachable_exceptions", removeUnreachableExceptions,
         "branches that raise go where they are never taken");
  c.part(*canonicalize, "merge", mergeCommonSubexpressions, "compute equal things once", Role::CleanUp);
  c.part(*canonicalize, "remove_contiguous", removeContiguous, "contiguous() only changes how memory is laid out");
  c.node(*canonicalize, removeDropout(), "dropout without training, or of nothing, gives its input");
  c.node(*canonicalize, aliasOperators(), "of the names of an operator, the first");
  c.node(*canonicalize, explicitPadding(), "the padding 'same' in numbers");
  c.node(*canonicalize, scalarArithmetic(), "integers stay integers where tensors of one integer are computed");
  c.node(*canonicalize, fuseAddmmBranches(), "a layer that is said twice, for two ranks, is said once");
  c.pass(1.1, "make_rotary_attention", makeRotaryAttention, "the same with rotary positions of the input position_ids",
         {"plugin_rotary"});
  c.pass(1.2, "make_attention", makeAttention, "causal attention becomes the plugin GPTAttention", {"plugins"});
  auto serving = c.inner(1.3, "serving", Kind::Walk);
  c.node(*serving, fuseQkvBias(), "the bias of the layer in front goes into GPTAttention", {"plugin_bias"});
  c.node(*serving, removePadding(), "GPTAttention of a batch sees one row of tokens", {"packed"});
  c.inner(1.5, "stabilize", Kind::Equilibrium);
  c.inner(1.7, "linalg", Kind::Equilibrium);
  c.inner(2, "specialize", Kind::Equilibrium);
  c.inner(2.5, "fusion", Kind::Equilibrium);
  c.inner(3, "uncanonicalize", Kind::Equilibrium);
  auto decompose = c.inner(4, "decompose", Kind::Equilibrium);
  const Query::Tags kDecomposition{"decomposition"};
  c.part(*decompose, "fold_what_was_made", foldConstants, "compute what depends on constants alone", Role::CleanUp,
         kDecomposition);
  c.part(*decompose, "merge_what_was_made", mergeCommonSubexpressions, "compute equal things once", Role::CleanUp,
         kDecomposition);
  c.node(*decompose, computeInFloat(), "halves as floats, rounded once", kDecomposition);
  c.node(*decompose, unpackVar(), "mean of the squares of what differs from the mean", kDecomposition);
  c.node(*decompose, unpackBatchNorm(), "x * scale + offset, outside of training", kDecomposition);
  c.node(*decompose, unpackLayerNorm(), "(x - mean) / deviation * weight + bias", kDecomposition);
  c.node(*decompose, unpackGroupNorm(), "the same for groups of channels", kDecomposition);
  c.node(*decompose, unpackGptAttention(), "GPTAttention without a cache in operators of ATen", kDecomposition);
  c.node(*decompose, unpackAttention(), "softmax(q @ k.t * scale, masked) @ v", kDecomposition);
  c.pass(5, "use_one_device", useOneDevice, "constants that name a device name another one", {"device"});
  c.pass(6, "flatten_outputs", flattenOutputs, "tensors are returned, no tuple or list of them", {"interface"});
  c.pass(49, "merge2", mergeCommonSubexpressions, "compute equal things once");
  auto inplace = c.inner(50, "inplace", Kind::Walk);
  c.node(*inplace, inplaceElementwise(), "results go into the memory of an input that nobody reads any more",
         {"fast_run"});
  c.pass(100, "merge3", mergeCommonSubexpressions, "compute equal things once");
  c.pass(101, "pool_constants", poolConstants, "equal constants become one at the top of the graph");
  c.pass(102, "remove_dead_code", removeDeadCode, "drop what nothing needs");
  for (auto list : {dimensionRewrites, subtensorRewrites, broadcastRewrites, reductionRewrites, arithmeticRewrites,
                    canonizerRewrites, castRewrites, gemmRewrites})
    c.rewrites(list());
  c.rules();
  return c.take();
}

}  // namespace

const RewriteDatabase& loweringDatabase() {
  static const RewriteDatabase kLowering = makeLowering();
  return kLowering;
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
