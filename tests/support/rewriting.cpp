#include "tests/support/rewriting.h"

#include "frontend/text/parse.h"
#include "ir/analysis/verifier.h"
#include "ir/support/diagnostic_printer.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>

namespace tscompile::test {

const OpRegistry& testOps() {
  static const auto* kOps = [] {
    static std::deque<std::string> schemas;
    auto* ops = new OpRegistry(&allOps());
    for (const char* name : {"f", "g", "h", "k", "f1", "g1"})
      for (const char* arguments : {"(Tensor a) -> Tensor", ".two(Tensor a, Tensor b) -> Tensor",
                                    ".three(Tensor a, Tensor b, Tensor c) -> Tensor"})
        ops->add({.schema = schemas.emplace_back("test::" + std::string(name) + arguments)});
    ops->add({.schema = "test::commutes(Tensor a, Tensor b) -> Tensor", .traits = {Trait::Commutative}});
    ops->add({.schema = "test::split(Tensor a) -> (Tensor, Tensor)"});
    ops->add({.schema = "test::print(Tensor a) -> ()", .traits = {Trait::SideEffects}});
    return ops;
  }();
  return *kOps;
}

std::unique_ptr<Graph> graphOf(std::string_view text) {
  Diagnostics diagnostics;
  ParseOptions options;
  options.registry = &testOps();
  Result<std::unique_ptr<Graph>> g = parseGraph(text, diagnostics, options);
  EXPECT_TRUE(g.ok()) << renderDiagnostics(diagnostics, "test") << text;
  return g ? std::move(*g) : std::make_unique<Graph>();
}

Pattern patternOf(std::string_view text) {
  Diagnostics diagnostics;
  Result<Pattern> p = Pattern::parse(text, diagnostics);
  EXPECT_TRUE(p.ok()) << renderDiagnostics(diagnostics, "test") << text;
  return p ? *p : patternOf("graph(%x):\n  return (%x)\n");
}

namespace {

// "f(g(%x, %y), 2)" to statements.
class ShortReader {
 public:
  explicit ShortReader(std::string_view text) : text_(text) {}

  std::string read() {
    size_t colon = text_.find(':');
    std::string parameters(text_.substr(0, colon));
    at_ = colon + 1;
    std::vector<std::string> results;
    do results.push_back(expression());
    while (take(','));
    std::string out = "graph(" + parameters + "):\n" + body_ + "  return (";
    for (size_t i = 0; i < results.size(); ++i) out += (i ? ", " : "") + results[i];
    return out + ")\n";
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string word() {
    skip();
    size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '(' && text_[at_] != ')' && text_[at_] != ',' && text_[at_] != ' ')
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string expression() {
    std::string head = word();
    if (head[0] == '%') return head;
    std::string inputs;
    if (!take('(')) {
      std::string name = "%c" + std::to_string(++count_);
      body_ += "  " + name + " : int = prim::Constant[value=" + head + "]()\n";
      return name;
    }
    while (!take(')')) {
      inputs += (inputs.empty() ? "" : ", ") + expression();
      take(',');
    }
    std::string name = "%v" + std::to_string(++count_);
    body_ += "  " + name + " = " + (head.find("::") == std::string::npos ? "test::" : "") + head + "(" + inputs + ")\n";
    return name;
  }

  std::string_view text_;
  size_t at_ = 0;
  int count_ = 0;
  std::string body_;
};

}  // namespace

std::string shortGraph(std::string_view text) { return ShortReader(text).read(); }
std::unique_ptr<Graph> shortly(std::string_view text) { return graphOf(shortGraph(text)); }
NodeRewrite rule(std::string name, std::string_view from, std::string_view to) {
  return patternRewrite(std::move(name), patternOf(shortGraph(from)), patternOf(shortGraph(to)));
}

std::string shortText(const Graph& graph) {
  std::map<const Value*, std::string> texts;
  for (const Value* v : graph.inputs()) texts[v] = v->name();
  forEachNode(graph, [&](Node* n) {
    std::string t;
    if (n->kind() == sym::Constant) {
      const IValue* v = n->attributeValue(sym::value);
      t = v && v->isInt() ? std::to_string(v->toInt()) : v && v->isFloat() ? std::to_string(v->toFloat()) : "None";
    } else {
      t = std::string(n->kind().name()) + "(";
      for (size_t i = 0; i < n->inputCount(); ++i) t += (i ? ", " : "") + texts[n->input(i)];
      t += ")";
    }
    for (const Value* v : n->outputs()) texts[v] = n->outputCount() == 1 ? t : t + "." + std::to_string(v->index());
  });
  std::string out;
  for (const Use& u : graph.outputs()) out += (out.empty() ? "" : ", ") + texts[u.value];
  return out;
}

PlanResult runPlan(Graph& graph, const Plan& plan, const PlanSettings& settings) {
  Diagnostics diagnostics;
  PlanResult r;
  RewriteContext context(graph, testOps(), diagnostics);
  r.outcome = plan.run(context, settings);
  EXPECT_TRUE(verify(graph, testOps(), diagnostics)) << renderDiagnostics(diagnostics, "test");
  r.messages = renderDiagnostics(diagnostics, "test");
  r.text = shortText(graph);
  return r;
}

}  // namespace tscompile::test
