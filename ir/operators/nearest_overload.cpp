#include "ir/operators/nearest_overload.h"

#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace tscompile {
namespace {

// How many of the first arguments fit.
size_t fitting(const Schema& schema, const Node& node) {
  TypeBindings bindings;
  size_t count = std::min(schema.arguments.size(), node.inputCount());
  for (size_t i = 0; i < count; ++i) {
    TypePtr formal = schema.arguments[i].type, given = node.input(i)->type();
    if (!bindTypeVariables(formal, given, bindings)) return i;
    if (TypePtr bound = substituteTypeVariables(formal, bindings)) formal = bound;
    if (!isSubtype(given, formal)) return i;
  }
  return count;
}

size_t distance(size_t a, size_t b) { return a > b ? a - b : b - a; }

std::string quoted(const Argument& a) { return "'" + a.name + "'"; }

}  // namespace

NearestOverload nearestOverload(const Node& node, const OpRegistry& registry) {
  NearestOverload out;
  size_t given = node.inputCount(), fit = 0;
  for (const Operator* op : registry.overloads(node.kind())) {
    size_t have = op->schema().arguments.size(), own = fitting(op->schema(), node);
    if (out.op) {
      size_t best = out.op->schema().arguments.size();
      // All that is given fits, or the number does, or most does; rather one that does not write to an argument.
      auto rank = [&](const Operator* o, size_t arguments, size_t fits) {
        return std::tuple(fits < std::min(arguments, given), o->schema().isMutable(), distance(arguments, given),
                          given - std::min(fits, given));
      };
      if (rank(op, have, own) >= rank(out.op, best, fit)) continue;
    }
    out.op = op;
    fit = own;
  }
  if (!out.op) return out;
  const std::vector<Argument>& arguments = out.op->schema().arguments;
  if (fit < std::min(arguments.size(), given)) {
    std::string wanted = typeText(arguments[fit].type);
    out.problem = fmt::format("argument {} ({}) is {}, not {}", fit + 1, quoted(arguments[fit]),
                              typeText(withoutRefinement(node.input(fit)->type())), wanted);
    out.remedy = Remedy(Remedy::Kind::CastTo, {wanted});
  } else if (given < arguments.size()) {
    std::vector<Argument> missing(arguments.begin() + static_cast<ptrdiff_t>(given), arguments.end());
    out.problem = fmt::format("{} of {} arguments are given; {} {}", given, arguments.size(),
                              join(missing, ", ", [](const Argument& a) { return quoted(a); }),
                              missing.size() == 1 ? "is missing" : "are missing");
    out.remedy = Remedy::Kind::GiveAllArguments;
  } else {
    out.problem = fmt::format("{} {} given, but it takes {}", counted(given, "argument"), given == 1 ? "is" : "are",
                              arguments.size());
    out.remedy = arguments.empty() ? Remedy(Remedy::Kind::GiveNoArguments)
                                   : Remedy(Remedy::Kind::GiveFewerArguments, {arguments.back().name});
  }
  return out;
}

void noteOverloads(const Node& node, const OpRegistry& registry, Diagnostic& diagnostic) {
  const auto span = registry.overloads(node.kind());
  std::vector<const Operator*> list(span.begin(), span.end());
  const NearestOverload nearest = nearestOverload(node, registry);
  auto rank = [&](const Operator* o) {
    return o == nearest.op ? 0 : 1 + distance(o->schema().arguments.size(), node.inputCount());
  };
  std::stable_sort(list.begin(), list.end(), [&](auto* a, auto* b) { return rank(a) < rank(b); });
  constexpr size_t kMost = 4;
  for (size_t i = 0; i < list.size() && i < kMost; ++i)
    diagnostic.note("candidate: " + schemaText(list[i]->schema()) +
                    (list[i] == nearest.op ? ": " + nearest.problem : ""));
  if (list.size() > kMost) diagnostic.note("and " + std::to_string(list.size() - kMost) + " more");
}

}  // namespace tscompile
