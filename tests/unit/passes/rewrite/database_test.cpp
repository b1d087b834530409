// Databases of rewrites, queries, files of rules.
#include "ir/support/diagnostic_printer.h"
#include "passes/catalog.h"
#include "passes/rewrite/unread_rules.h"
#include "tests/support/rewriting.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace tscompile::test {
namespace {

using Kind = RewriteDatabase::Kind;

NodeRewrite rename(const char* from, const char* to) {
  return substitute("r", Symbol::of("test::" + std::string(from)), Symbol::of("test::" + std::string(to)));
}

class Database : public testing::Test {
 protected:
  void add(RewriteDatabase& db, const char* name, RewriteDatabase::Object object, EntryOptions options = {}) {
    EXPECT_TRUE(db.add(name, std::move(object), std::move(options), diagnostics))
        << renderDiagnostics(diagnostics, "t");
  }
  // Why the entry is refused.
  std::string refused(RewriteDatabase& db, const char* name, RewriteDatabase::Object object,
                      EntryOptions options = {}) {
    Diagnostics d;
    EXPECT_FALSE(db.add(name, std::move(object), std::move(options), d));
    return d.list().empty() ? "" : d.list()[0].message;
  }
  Query query(std::string_view text) {
    Result<Query> q = Query::parse(text, diagnostics);
    EXPECT_TRUE(q.ok()) << text;
    return q ? *q : Query();
  }
  // The names of a plan's entries in order.
  static std::string order(const Plan& plan) {
    std::string out, text = plan.describe();
    for (size_t at = text.find("\n  "); at != std::string::npos; at = text.find("\n  ", at + 1)) {
      size_t end = text.find_first_of(":\n", at + 3);
      std::string name = text.substr(at + 3, end - at - 3);
      if (name[0] != ' ') out += (out.empty() ? "" : " ") + name;
    }
    return out;
  }
  Diagnostics diagnostics;
};

TEST_F(Database, NamesAndTagsShareOneSpace) {
  RewriteDatabase db(Kind::Sequence, "db");
  add(db, "a", rename("f", "g"), {.tags = {"fast"}});
  EXPECT_EQ(refused(db, "a", rename("f", "h")), "'a' cannot be added to 'db': it has an entry of this name");
  EXPECT_EQ(refused(db, "fast", rename("f", "h")), "'fast' cannot be added to 'db': its name is a tag");
  EXPECT_EQ(refused(db, "b", rename("f", "h"), {.tags = {"a"}}),
            "'b' cannot be added to 'db': its tag 'a' is the name of an entry");
  EXPECT_EQ(refused(db, "db", rename("f", "h")), "'db' cannot be added to 'db': its name is a tag");
  RewriteDatabase walk(Kind::Walk, "walk");
  EXPECT_EQ(refused(walk, "g", GraphRewrite{"g", nullptr}), "'g' cannot be added to 'walk': it does not fit a walk");
  RewriteDatabase e(Kind::Equilibrium, "e");
  EXPECT_EQ(refused(e, "n", rename("f", "g"), {.role = Role::Final}),
            "'n' cannot be added to 'e': only graph rewrites of an equilibrium are final or clean up");
  // Overwriting swaps what the entry does.
  add(db, "a", rename("f", "h"), {.tags = {"fast"}, .overwrite = true});
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(%x)"));
  EXPECT_EQ(runPlan(*g, db.query(query("fast"))).text, "h(x)");
}

TEST_F(Database, QueriesIncludeRequireExclude) {
  RewriteDatabase db(Kind::Sequence, "db");
  add(db, "late", rename("f", "g"), {.tags = {"fast", "inplace"}, .position = 50});
  add(db, "b", rename("f", "g"), {.tags = {"fast"}, .position = 1});
  add(db, "a", rename("f", "g"), {.tags = {"fast", "stable"}, .position = 1});
  add(db, "last", rename("f", "g"), {.tags = {"slow"}});
  EXPECT_EQ(order(db.query(query("+fast"))), "a b late");
  EXPECT_EQ(order(db.query(query("+fast +slow"))), "a b late last");
  EXPECT_EQ(order(db.query(query("fast,slow &stable"))), "a");
  EXPECT_EQ(order(db.query(query("+fast -inplace"))), "a b");
  EXPECT_EQ(order(db.query(query("+late +a"))), "a late");
  EXPECT_EQ(order(db.query(query("+fast <50"))), "a b");  // strictly before
  EXPECT_EQ(order(db.query(query("+fast <50.0001"))), "a b late");
  EXPECT_EQ(order(db.query(query("+fast").withExtra(Plan::walk("mine", {rename("f", "g")}), 0.5))), "mine a b late");
  EXPECT_TRUE(db.query(query("+nothing")).empty());
  EXPECT_EQ(db.unknownNames(query("+fast -inplce")), std::vector<std::string>{"inplce"});
  EXPECT_EQ(db.nearestName("inplce"), "inplace");
  // A sign holds as far as commas go.
  EXPECT_EQ(query("-a,b, c d").text(), "+d -a -b -c");
  EXPECT_EQ(query("a &b,c").text(), "+a &b &c");
  // The verbs leave the query as it is.
  Query q = query("+fast");
  Query without = q.excluding({"inplace"});
  EXPECT_EQ(q.text(), "+fast");
  EXPECT_EQ(without.requiring({"stable"}).text(), "+fast &stable -inplace");
  EXPECT_EQ(query("+a sub:{x: +b -c} <2.5").text(), "+a sub:{x: +b -c} <2.5");
}

TEST_F(Database, BadQueriesAreReported) {
  for (auto [text, message] : {std::pair{"+", "expected a name"},
                               {"+a }", "'}' without '{'"},
                               {"<x", "expected a position"},
                               {"sub:{x +a}", "expected the name of a database and ':'"},
                               {"sub:{x: +a", "expected '}'"},
                               {"sub:{x: sub:{y: a}}", "sub-queries do not nest"}}) {
    Diagnostics d;
    EXPECT_FALSE(Query::parse(text, d)) << text;
    ASSERT_FALSE(d.list().empty());
    EXPECT_NE(d.list()[0].message.find(message), std::string::npos) << d.list()[0].message;
  }
}

TEST_F(Database, DatabasesInsideDatabases) {
  auto canonicalize = std::make_shared<RewriteDatabase>(Kind::Equilibrium, "canonicalize");
  add(*canonicalize, "f_to_g", rename("f", "g"), {.tags = {"fast"}});
  add(*canonicalize, "g_to_h", rename("g", "h"), {.tags = {"fast"}});
  add(*canonicalize, "h_to_k", rename("h", "k"), {.tags = {"slow"}});
  RewriteDatabase db(Kind::Sequence, "db");
  add(db, "canonicalize", std::shared_ptr<const RewriteDatabase>(canonicalize), {.position = 1});
  // The same database once more, later.
  add(db, "again", std::shared_ptr<const RewriteDatabase>(canonicalize), {.position = 3});
  add(db, "k_to_f1", rename("k", "f1"), {.tags = {"fast"}, .position = 2});
  auto run = [&](std::string_view q) {
    std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(%x)"));
    return runPlan(*g, db.query(query(q))).text;
  };
  EXPECT_EQ(run("+fast"), "h(x)");
  EXPECT_EQ(run("+fast +slow"), "f1(x)");
  EXPECT_EQ(run("+canonicalize"), "k(x)");  // the name of a database is a tag of what it holds
  EXPECT_EQ(run("+fast sub:{canonicalize: +f_to_g}"), "g(x)");
  EXPECT_EQ(query("+fast").withSub("canonicalize", query("+f_to_g")).text(), "+fast sub:{canonicalize: +f_to_g}");
  EXPECT_EQ(order(db.query(query("+fast"))), "canonicalize k_to_f1 canonicalize");
  EXPECT_NE(db.find("g_to_h"), nullptr);
  EXPECT_EQ(db.find("g_to_k"), nullptr);
}

TEST_F(Database, GroupsTakeTheFirstThatApplies) {
  RewriteDatabase group(Kind::Group, "group");
  add(group, "second", rename("f", "h"), {.tags = {"fast"}, .position = 2});
  add(group, "first", rename("f", "g"), {.tags = {"fast"}, .position = 1});
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(%x)"));
  EXPECT_EQ(runPlan(*g, group.query(query("fast"))).text, "g(x)");
}

TEST_F(Database, WalksAskByPositionAndBenefit) {
  RewriteDatabase walk(Kind::Walk, "walk");
  add(walk, "second", rename("f", "h"), {.tags = {"fast"}, .position = 2});
  add(walk, "first", rename("f", "g"), {.tags = {"fast"}, .position = 1});
  add(walk, "other", rename("g", "f"), {.tags = {"slow"}});
  auto run = [&] {
    std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(%x)"));
    return runPlan(*g, walk.query(query("fast"))).text;
  };
  EXPECT_EQ(walk.query(query("fast")).describe(), "walk: walk from the inputs\n  first\n  second\n");
  EXPECT_EQ(run(), "g(x)");
  add(walk, "best", rename("f", "k"), {.tags = {"fast"}, .position = 3, .benefit = 1});
  EXPECT_EQ(run(), "k(x)");
  EXPECT_TRUE(walk.query(query("+nothing")).empty());
}

TEST_F(Database, TagsMaySayWhatIsRequired) {
  RewriteDatabase db(Kind::Sequence, "db");
  add(db, "wide", rename("f", "g"), {.tags = {"fast_run", "requires:avx512"}});
  add(db, "plain", rename("f", "h"), {.tags = {"fast_run"}});
  EXPECT_EQ(order(db.query(query("+fast_run"))), "wide plain");
  EXPECT_EQ(order(db.query(query("+fast_run -requires:avx512"))), "plain");
  EXPECT_EQ(order(db.query(query("+fast_run &requires:avx512"))), "wide");
}

TEST_F(Database, NothingInPlaceRunsBeforeItsMarker) {
  for (const RewriteDatabase::Entry& e : loweringDatabase().allEntries()) {
    if (e.tags.contains("inplace")) {
      EXPECT_GE(e.position, 50) << e.name;
    }
    EXPECT_FALSE(e.purpose.empty()) << e.name;
  }
}

// ---- files of rules ----

namespace {
std::string ruleMessages(std::string text) {
  Diagnostics d;
  EXPECT_FALSE(readRules(SourceFile::make("my.rules", std::move(text)), d));
  return renderDiagnostics(d, "t");
}
constexpr const char* kRule =
    "rule r\nmatch:\ngraph(%x):\n  %y = test::f(%x)\n  return (%y)\nreplace:\ngraph(%x):\n  %y = test::g(%x)\n  return "
    "(%y)\n";
}  // namespace

TEST_F(Database, RulesJoinGroupsAndPositions) {
  std::string text = kRule;
  text +=
      "rule s\ngroup: mine\ntags: extra\nposition: 7\nmatch:\ngraph(%x):\n  %y = test::g(%x)\n  return (%y)\n"
      "replace:\ngraph(%x):\n  %y = test::h(%x)\n  return (%y)\n";
  Result<std::vector<Rule>> rules = readRules(SourceFile::make("my.rules", text), diagnostics);
  ASSERT_TRUE(rules) << renderDiagnostics(diagnostics, "t");
  RewriteDatabase db(Kind::Sequence, "db");
  ASSERT_TRUE(addRules(db, std::move(*rules), diagnostics));
  EXPECT_EQ(order(db.query(query("+r +extra"))), "own_rules mine");
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(%x)"));
  EXPECT_EQ(runPlan(*g, db.query(query("+r +extra"))).text, "h(x)");
}

TEST_F(Database, RulesHaveBenefitsAndTakeSharedAndEqualNumbers) {
  auto rule = [](const char* name, const char* settings, const char* to) {
    return "rule " + std::string(name) + "\n" + settings +
           "match:\ngraph(%x):\n  %two = prim::Constant[value=2]()\n  %p = aten::mul(%x, %two)\n"
           "  %y = test::f(%p)\n  return (%y)\nreplace:\ngraph(%x):\n  %y = test::" +
           to + "(%x)\n  return (%y)\n";
  };
  auto run = [&](const std::string& text, const char* number, const char* returned) {
    Result<std::vector<Rule>> rules = readRules(SourceFile::make("my.rules", text), diagnostics);
    EXPECT_TRUE(rules) << renderDiagnostics(diagnostics, "t");
    RewriteDatabase db(Kind::Sequence, "db");
    EXPECT_TRUE(rules && addRules(db, std::move(*rules), diagnostics));
    std::unique_ptr<Graph> g =
        graphOf("graph(%x : Tensor):\n  %n " + std::string(number) +
                "\n  %p : Tensor = aten::mul(%x, %n)\n  %y : Tensor = test::f(%p)\n  return (" + returned + ")\n");
    return runPlan(*g, db.query(query("+own_rules"))).text;
  };
  const char *whole = ": int = prim::Constant[value=2]()", *real = ": float = prim::Constant[value=2.]()";
  EXPECT_EQ(run(rule("low", "benefit: 1\n", "g") + rule("high", "benefit: 2\n", "h"), whole, "%y"), "h(x)");
  EXPECT_EQ(run(rule("high", "benefit: 2\n", "g") + rule("low", "benefit: -1\n", "h"), whole, "%y"), "g(x)");
  EXPECT_EQ(run(rule("single", "", "g"), whole, "%y, %p"), "f(mul(x, 2)), mul(x, 2)");
  EXPECT_EQ(run(rule("shared", "sharing: shared\n", "g"), whole, "%y, %p"), "g(x), mul(x, 2)");
  EXPECT_EQ(run(rule("same", "sharing: same_use_count\n", "g"), whole, "%y, %p"), "f(mul(x, 2)), mul(x, 2)");
  EXPECT_EQ(run(rule("typed", "", "g"), real, "%y"), "f(mul(x, 2.000000))");
  EXPECT_EQ(run(rule("by_value", "constants: by_value\n", "g"), real, "%y"), "g(x)");
}

TEST_F(Database, RulesTellWhetherAConditionIsFalseOrNotKnown) {
  auto why = [&](const std::string& condition, const char* type) {
    std::string text = kRule;
    text.replace(text.find("replace:"), 0, "where: " + condition + "\n");
    Result<std::vector<Rule>> rules = readRules(SourceFile::make("my.rules", text), diagnostics);
    EXPECT_TRUE(rules) << renderDiagnostics(diagnostics, "t");
    std::unique_ptr<Graph> g =
        graphOf("graph(%x : " + std::string(type) + "):\n  %y : Tensor = test::f(%x)\n  return (%y)\n");
    RewriteContext context(*g, testOps(), diagnostics);
    std::string message = rules->at(0).rewrite.whyNot(context);
    return message.substr(0, message.find(", at "));
  };
  EXPECT_EQ(why("rank(%x) == 2", "Float(2)"), "not so: rank(%x) == 2");
  EXPECT_EQ(why("rank(%x) == 2", "Tensor"), "not known: rank(%x) == 2");
  EXPECT_EQ(why("not rank(%x) == 2", "Tensor"), "not known: not rank(%x) == 2");
  EXPECT_EQ(why("floating(%x) and rank(%x) == 2", "Long(*)"), "not so: floating(%x)");
  // However they are written, `and` binds more tightly than `or`.
  EXPECT_EQ(why("(floating(%x))or rank(%x) == 7 and rank(%x) == 8", "Float(2)"), "");
  EXPECT_EQ(why("floating(%x) and(rank(%x) == 1)or rank(%x) == 7", "Float(2)"), "");
  EXPECT_EQ(why("size(%x, 0) == 2", "Float(*)"), "not known: size(%x, 0) == 2");
  EXPECT_EQ(why("rank(%x) == 2", "Float(2, 3)"), "");
}

TEST_F(Database, MistakesInRulesAreReportedWhereTheyAre) {
  std::string good = kRule;
  auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return ruleMessages(text);
  };
  EXPECT_NE(with("rule r\n", "").find("my.rules:1:1: error: expected 'rule NAME' first"), std::string::npos);
  EXPECT_NE(with("rule r\n", "rule r\npurpse: x\n").find("did you mean 'purpose'?"), std::string::npos);
  EXPECT_NE(with("rule r\n", "rule r\nposition: x\n").find("my.rules:2:11: error: expected a number"),
            std::string::npos);
  EXPECT_NE(with("rule r\n", "rule r\nsharing: much\n").find("expected single_use, same_use_count or shared"),
            std::string::npos);
  EXPECT_NE(with("replace:\n", "where: rank(%z) == 1\nreplace:\n").find("the pattern has no value %z"),
            std::string::npos);
  EXPECT_NE(with("%y = test::g(%x)", "%y = test::g(%q)").find("my.rules:8:16: error: undefined value %q"),
            std::string::npos)
      << with("%y = test::g(%x)", "%y = test::g(%q)");
  EXPECT_NE(
      with("replace:\ngraph(%x)", "replace:\ngraph(%x, %w)").find("%w is not part of the pattern that is matched"),
      std::string::npos);
  EXPECT_NE(with("test::f(", "aten::relu_(").find("aten::relu_ writes to its input, which a rule cannot take away"),
            std::string::npos);
  EXPECT_NE(
      with("match:\ngraph(%x)", "match:\ngraph(%x, %w)").find("my.rules:3:1: error: no node of the pattern uses %w"),
      std::string::npos);
  EXPECT_NE(with("return (%y)\nreplace", "return (%x)\nreplace")
                .find("the pattern returns %x, which none of its nodes makes"),
            std::string::npos);
  EXPECT_NE(
      with("return (%y)\nreplace", "return ()\nreplace").find("the pattern returns nothing that could be replaced"),
      std::string::npos);
  EXPECT_NE(ruleMessages("rule r\nmatch:\ngraph(%x):\n  return (%x)\n").find("rule 'r' has no 'replace:'"),
            std::string::npos);
}

TEST_F(Database, RulesOfTheSameNameAreReportedWhereTheyAre) {
  Result<std::vector<Rule>> rules = readRules(SourceFile::make("my.rules", std::string(kRule) + kRule), diagnostics);
  ASSERT_TRUE(rules);
  RewriteDatabase db(Kind::Sequence, "db");
  EXPECT_FALSE(addRules(db, std::move(*rules), diagnostics));
  EXPECT_EQ(renderDiagnostics(diagnostics, "t").substr(0, 78),
            "my.rules:10:1: error: 'r' cannot be added to 'own_rules': it has an entry of t");
}

TEST_F(Database, RulesOverSumsWithConversion) {
  const char* kText =
      "rule r\nassociative: test::commutes\nauto_cast: True\nmatch:\ngraph(%a, %b):\n  %f = test::f(%a)\n"
      "  %s = test::commutes(%a, %f)\n  %y = test::commutes(%s, %b)\n  return (%y)\nreplace:\ngraph(%b):\n"
      "  %y = test::g(%b)\n  return (%y)\n";
  Result<std::vector<Rule>> rules = readRules(SourceFile::make("my.rules", kText), diagnostics);
  ASSERT_TRUE(rules) << renderDiagnostics(diagnostics, "t");
  EXPECT_TRUE((*rules)[0].rewrite.autoCast);
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x, %y: commutes(commutes(%y, f(%x)), %x)"));
  EXPECT_EQ(runPlan(*g, Plan::walk("w", {(*rules)[0].rewrite})).text, "g(y)");
  std::string bad = kRule;
  bad.replace(bad.find("match:"), 0, "auto_cast: yes\n");
  EXPECT_NE(ruleMessages(bad).find("my.rules:2:12: error: expected True or False"), std::string::npos);
}

TEST_F(Database, ScopesAreConditions) {
  std::string text = kRule;
  text.replace(text.find("replace:"), 0, "where: scope(%y, \"layer1.conv\")\n");
  Result<std::vector<Rule>> rules = readRules(SourceFile::make("my.rules", text), diagnostics);
  ASSERT_TRUE(rules) << renderDiagnostics(diagnostics, "t");
  std::unique_ptr<Graph> g = graphOf(
      "graph(%x):\n  %a = test::f(%x), scope: __module.layer1/__module.layer1.conv\n"
      "  %b = test::f(%a), scope: __module.layer1.conv2\n  return (%b)\n");
  EXPECT_EQ(runPlan(*g, Plan::walk("w", {(*rules)[0].rewrite})).text, "f(g(x))");
}

// What is told of a rule before its patterns are read is what they tell.
TEST_F(Database, OwnRulesAreReadLater) {
  size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator(TSCOMPILE_SOURCE_DIR "/passes/rules")) {
    SourcePtr text = SourceFile::make(file.path().string(), readText(file.path().string()));
    Result<std::vector<Rule>> now = readRules(text, diagnostics);
    ASSERT_TRUE(now) << renderDiagnostics(diagnostics, "t");
    std::vector<Rule> later = readRulesLater(text);
    ASSERT_EQ(later.size(), now->size());
    count += later.size();
    for (size_t i = 0; i < later.size(); ++i) {
      const Rule &a = later[i], &b = (*now)[i];
      EXPECT_EQ(a.name, b.name);
      EXPECT_EQ(a.group, b.group) << a.name;
      EXPECT_EQ(a.options.tags, b.options.tags) << a.name;
      EXPECT_EQ(a.options.position, b.options.position) << a.name;
      EXPECT_EQ(a.options.benefit, b.options.benefit) << a.name;
      EXPECT_EQ(a.rewrite.kinds, b.rewrite.kinds) << a.name;
      EXPECT_EQ(a.rewrite.autoCast, b.rewrite.autoCast) << a.name;
      std::unique_ptr<Graph> none = graphOf("graph(%x):\n  return (%x)\n");
      EXPECT_EQ(a.rewrite.seeds(none->kinds()), b.rewrite.seeds(none->kinds())) << a.name;
    }
  }
  EXPECT_GT(count, 100);
}

TEST_F(Database, RulesThatAreReadLaterRewriteAsOthers) {
  std::string text = std::string("rule before\npurpose: nothing\n") + std::string(kRule).substr(7) +
                     "rule s\nmatch:\ngraph(%x):\n  %y = test::h(%x)\n  return (%y)\nwhere: uses(%x) == 1\n"
                     "replace:\ngraph(%x):\n  %y = test::g(%x)\n  return (%y)\n";
  std::vector<Rule> rules = readRulesLater(SourceFile::make("my.rules", text));
  ASSERT_EQ(rules.size(), 2);
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(h(%x))"));
  EXPECT_EQ(runPlan(*g, Plan::walk("w", {rules[0].rewrite, rules[1].rewrite})).text, "g(g(x))");
}

TEST_F(Database, Conditions) {
  // One rule, asked about one node of which everything is known.
  auto applies = [&](const std::string& condition) {
    std::string text =
        "rule r\nmatch:\ngraph(%x, %y, %n):\n  %z = aten::add(%x, %y, %n)\n  return (%z)\nwhere: " + condition +
        "\nreplace:\ngraph(%x):\n  %z = test::g(%x)\n  return (%z)\n";
    Diagnostics d;
    Result<std::vector<Rule>> rules = readRules(SourceFile::make("c.rules", text), d);
    EXPECT_TRUE(rules) << renderDiagnostics(d, "t");
    if (!rules) return false;
    std::unique_ptr<Graph> g = graphOf(R"(graph(%x : Float(2, 3), %y : Float(2, 3), %u : Tensor):
  %n : int = prim::Constant[value=2]()
  %z : Tensor = aten::add(%x, %y, %n)
  return (%z)
)");
    return runPlan(*g, Plan::walk("w", {(*rules)[0].rewrite})).outcome.changed;
  };
  for (const char* yes : {"%n == 2", "%n != 3 and rank(%x) == 2", "dtype(%x) in {f32, f64}",
                          "size(%x, -1) == size(%x, 0) + 1", "same_shape(%x, %y)", "floating(%x) and not integral(%x)",
                          "constant(%n) and not constant(%x)", "%n * 3 - 1 == 5", "(%n > 5 or %n >= 2) and %n <= 2",
                          "uses(%x) == 1", "not written(%x)", "not none(%n)", "%n == 2.0", "%n < 2.5",
                          "dtype(%x) == \"f32\"", "numel(%x) == 6 and numel(%y) == size(%x, 0) * 3", "unseen(%x)"})
    EXPECT_TRUE(applies(yes)) << yes;
  for (auto [wrong, message] : {std::pair{"dtype(%x) == f23", "'f23' is no dtype"},
                                {"rank(%x) == two", "'two' is no dtype"},
                                {"$k == 1", "the pattern has no variable $k"},
                                {"%q == 1", "the pattern has no value %q"},
                                {"rank(%x == 2", "expected ')'"},
                                {"rank(%x) ==", "expected a value"},
                                {"rank(%x) in f32", "expected '{'"}}) {
    std::string text = kRule;
    text.replace(text.find("replace:"), 0, std::string("where: ") + wrong + "\n");
    std::string found = ruleMessages(text);
    EXPECT_NE(found.find("my.rules:6:"), std::string::npos) << found;
    EXPECT_NE(found.find(message), std::string::npos) << found;
  }
  for (const char* no :
       {"%n == 3", "rank(%x) == 3", "dtype(%x) in {f64}", "integral(%x)", "complex(%x)", "none(%n)", "size(%x, 5) == 1",
        "not size(%x, 5) == 1", "%n", "%n == \"a\"", "numel(%x) == 5", "unseen(%z)", "may_replace(%x, %z)"})
    EXPECT_FALSE(applies(no)) << no;
}

}  // namespace
}  // namespace tscompile::test
