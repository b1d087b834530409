// Operators with two names get the first one. They mean the same for all arguments, memory included, so only the name
// changes.
#include "passes/lowering/clean_up.h"
#include "passes/rewrite/operator_names.h"
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
// What x &= y calls.
constexpr std::pair<const char*, const char*> kInPlaceOperators[] = {{"__iand__", "bitwise_and_"},
                                                                     {"__ior__", "bitwise_or_"},
                                                                     {"__ixor__", "bitwise_xor_"},
                                                                     {"__ilshift__", "bitwise_left_shift_"},
                                                                     {"__irshift__", "bitwise_right_shift_"}};

}  // namespace

NodeRewrite aliasOperators() {
  std::unordered_map<Symbol, Symbol> names;
  NodeRewrite r;
  r.name = "alias_operators";
  auto add = [&](std::string_view alias, std::string_view name) {
    r.kinds.push_back(named(alias));
    names[r.kinds.back()] = named(name);
  };
  for (auto [alias, name] : kInPlaceOperators) add(alias, name);
  for (auto [alias, name] : kAliases)
    for (const char* ending : {"", "_"}) add(std::string(alias) + ending, std::string(name) + ending);
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
