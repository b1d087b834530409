// Operators with two names get the first one. They mean the same for all arguments, memory included, so only the name
// changes.
#include "passes/lowering/clean_up.h"
#include "passes/rewrite/rewrite.h"

#include <utility>

namespace tscompile {
namespace {

// Each also with "_" after both names, where there is such an operator.
constexpr std::pair<const char*, const char*> kAliases[] = {
    {"multiply", "mul"},
    {"divide", "div"},
    {"true_divide", "div"},
    {"subtract", "sub"},
    {"absolute", "abs"},
    {"negative", "neg"},
    {"clip", "clamp"},
    {"concat", "cat"},
    {"concatenate", "cat"},
    {"fix", "trunc"},
    {"greater", "gt"},
    {"greater_equal", "ge"},
    {"less", "lt"},
    {"less_equal", "le"},
    {"not_equal", "ne"},
    {"swapaxes", "transpose"},
    {"swapdims", "transpose"},
    {"moveaxis", "movedim"},
    {"arccos", "acos"},
    {"arcsin", "asin"},
    {"arctan", "atan"},
    {"arctan2", "atan2"},
    {"arccosh", "acosh"},
    {"arcsinh", "asinh"},
    {"arctanh", "atanh"},
    {"row_stack", "vstack"},
    {"ger", "outer"},
    {"linalg_matmul", "matmul"},
    {"special_erf", "erf"},
    {"special_erfc", "erfc"},
    {"special_erfinv", "erfinv"},
    {"special_exp2", "exp2"},
    {"special_expit", "sigmoid"},
    {"special_expm1", "expm1"},
    {"special_log1p", "log1p"},
    {"special_logit", "logit"},
    {"special_logsumexp", "logsumexp"},
    {"special_round", "round"},
    {"special_sinc", "sinc"},
    {"special_softmax", "softmax"},
    {"special_log_softmax", "log_softmax"},
};

}  // namespace

NodeRewrite aliasOperators() {
  std::unordered_map<Symbol, Symbol> names;
  NodeRewrite r;
  r.name = "alias_operators";
  for (auto [alias, name] : kAliases)
    for (const char* ending : {"", "_"}) {
      Symbol from = Symbol::of("aten::" + std::string(alias) + ending);
      names[from] = Symbol::of("aten::" + std::string(name) + ending);
      r.kinds.push_back(from);
    }
  r.apply = [names](Node* n, RewriteContext& c) -> Replacement {
    auto to = names.find(n->kind());
    if (to == names.end() || !c.facts.resolve(n)) return {};
    n->setKind(to->second);
    // Some overloads have one name only. What is not said is taken back.
    const Operator* op = c.facts.resolve(n);
    return op && op->isImplemented() ? Replacement::done() : Replacement();
  };
  return r;
}

void takeFirstNames(Graph& graph, const OpRegistry& registry) {
  Diagnostics ignored;
  RewriteContext context(graph, registry, ignored);
  const NodeRewrite rewrite = aliasOperators();
  forEachNode(graph, [&](Node* n) { rewrite.apply(n, context); });
}

}  // namespace tscompile
