#include "passes/rewrite/profile.h"

#include "tests/support/json.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

using Counts = std::vector<std::pair<std::string, uint64_t>>;

// `others`: how often rewrites that are not among the shown ones were applied.
Profile::Pass pass(double seconds, double global, double toposort, uint64_t nodes, Counts shown, uint64_t others) {
  Profile::Pass p{seconds, global, toposort, nodes, std::move(shown)};
  for (; others > 0; --others) p.count("other_" + std::to_string(others));
  return p;
}

// Rewrites that were never applied: those that took time, and more of them that took none.
void addUnused(Profile::Equilibrium& e, size_t count, const std::vector<std::pair<std::string, double>>& timed) {
  for (auto& [name, seconds] : timed) e.rewrites.push_back({name, seconds});
  for (size_t i = timed.size(); i < count; ++i) e.rewrites.push_back({"unused_" + std::to_string(i)});
}

void canonicalize(Profile& p) {
  auto& e = p.become<Profile::Equilibrium>();
  e.seconds = 0.751;
  e.toposort = 0.029;
  e.inNodeRewriters = 0.687;
  e.inGraphRewriters = 0.010;
  e.start = 108;
  e.end = 81;
  e.most = 117;
  e.passes = {
      pass(0.050, 0.000, 0.002, 108,
           {{"local_dimshuffle_lift", 9},
            {"local_upcast_elemwise_constant_inputs", 5},
            {"local_shape_to_shape_i", 3},
            {"local_fill_sink", 3},
            {"local_fill_to_alloc", 2}},
           5),
      pass(0.288, 0.002, 0.002, 117,
           {{"local_dimshuffle_lift", 8},
            {"local_fill_sink", 4},
            {"constant_folding", 4},
            {"local_useless_elemwise", 3},
            {"local_subtensor_make_vector", 3}},
           4),
      pass(0.044, 0.002, 0.003, 96,
           {{"constant_folding", 4},
            {"local_dimshuffle_lift", 3},
            {"local_fill_sink", 3},
            {"local_useless_elemwise", 1},
            {"local_fill_to_alloc", 1}},
           1),
      pass(0.045, 0.000, 0.002, 91,
           {{"constant_folding", 3},
            {"local_fill_to_alloc", 2},
            {"local_dimshuffle_lift", 2},
            {"local_mul_canonizer", 2},
            {"MergeOptimizer", 1}},
           1),
      pass(0.035, 0.002, 0.002, 93,
           {{"local_fill_sink", 3},
            {"local_dimshuffle_lift", 2},
            {"local_fill_to_alloc", 1},
            {"MergeOptimizer", 1},
            {"constant_folding", 1}},
           0),
      pass(0.035, 0.000, 0.002, 88,
           {{"local_fill_sink", 2},
            {"local_dimshuffle_lift", 2},
            {"local_fill_to_alloc", 1},
            {"local_mul_canonizer", 1}},
           0),
      pass(0.038, 0.001, 0.002, 95,
           {{"local_fill_sink", 3},
            {"local_dimshuffle_lift", 3},
            {"constant_folding", 2},
            {"local_fill_to_alloc", 1},
            {"MergeOptimizer", 1}},
           0),
      pass(0.032, 0.001, 0.002, 91, {{"local_fill_sink", 3}, {"MergeOptimizer", 1}, {"local_dimshuffle_lift", 1}}, 0),
      pass(0.034, 0.000, 0.002, 92, {{"local_fill_sink", 3}, {"MergeOptimizer", 1}, {"local_greedy_distributor", 1}},
           0),
      pass(0.031, 0.001, 0.002, 90,
           {{"local_fill_sink", 2},
            {"local_fill_to_alloc", 1},
            {"MergeOptimizer", 1},
            {"local_dimshuffle_lift", 1},
            {"local_greedy_distributor", 1}},
           0),
      pass(0.032, 0.000, 0.002, 89,
           {{"local_dimshuffle_lift", 2}, {"local_fill_to_alloc", 1}, {"MergeOptimizer", 1}, {"local_fill_sink", 1}},
           0),
      pass(0.030, 0.000, 0.002, 88,
           {{"local_dimshuffle_lift", 2}, {"local_fill_to_alloc", 1}, {"MergeOptimizer", 1}, {"constant_folding", 1}},
           0),
      pass(0.026, 0.000, 0.003, 81, {{"MergeOptimizer", 1}}, 0),
      pass(0.031, 0.000, 0.003, 81, {}, 0),
  };
  e.rewrites = {
      {"constant_folding", 0.263, 15, 0},
      {"local_greedy_distributor", 0.096, 2, 14},
      {"local_mul_canonizer", 0.066, 4, 19},
      {"local_fill_sink", 0.046, 28, 57},
      {"local_dimshuffle_lift", 0.042, 35, 78},
      {"local_upcast_elemwise_constant_inputs", 0.018, 5, 15},
      {"MergeOptimizer", 0.010, 11, 4},
      {"local_useless_elemwise", 0.009, 4, 0},
      {"local_fill_to_alloc", 0.005, 11, 2},
      {"local_neg_to_mul", 0.004, 3, 6},
      {"local_lift_transpose_through_dot", 0.002, 1, 3},
      {"local_shape_to_shape_i", 0.002, 3, 4},
      {"local_subtensor_lift", 0.002, 2, 4},
      {"local_subtensor_make_vector", 0.001, 3, 0},
      {"local_sum_all_to_none", 0.001, 1, 1},
  };
  addUnused(e, 62,
            {
                {"local_add_canonizer", 0.050},
                {"local_mul_zero", 0.018},
                {"local_one_minus_erf", 0.016},
                {"local_func_inv", 0.010},
                {"local_0_dot_x", 0.006},
                {"local_track_shape_i", 0.005},
                {"local_mul_switch_sink", 0.004},
                {"local_fill_cut", 0.004},
                {"local_one_minus_erf2", 0.004},
                {"local_remove_switch_const_cond", 0.003},
                {"local_cast_cast", 0.003},
                {"local_IncSubtensor_serialize", 0.002},
                {"local_sum_div_dimshuffle", 0.001},
                {"local_div_switch_sink", 0.001},
                {"local_dimshuffle_no_inplace_at_canonicalize", 0.001},
                {"local_cut_useless_reduce", 0.001},
                {"local_reduce_join", 0.001},
                {"local_sum_sum", 0.0001},
                {"local_useless_alloc", 0.0001},
                {"local_reshape_chain", 0.0001},
                {"local_useless_subtensor", 0.0001},
                {"local_reshape_lift", 0.0001},
                {"local_flatten_lift", 0.0001},
                {"local_useless_slice", 0.0001},
                {"local_subtensor_of_alloc", 0.0001},
                {"local_subtensor_of_dot", 0.0001},
                {"local_subtensor_merge", 0.0001},
            });
}

void localGemmToGemv(Profile& p) {
  auto& e = p.become<Profile::Equilibrium>();
  e.seconds = 0.002;
  e.toposort = 0.001;
  e.inNodeRewriters = 0.000;
  e.inGraphRewriters = 0.000;
  e.start = 80;
  e.end = 80;
  e.most = 80;
  e.passes = {
      pass(0.002, 0.000, 0.001, 80, {}, 0),
  };
}

void specialize(Profile& p) {
  auto& e = p.become<Profile::Equilibrium>();
  e.seconds = 0.031;
  e.toposort = 0.003;
  e.inNodeRewriters = 0.022;
  e.inGraphRewriters = 0.004;
  e.start = 80;
  e.end = 78;
  e.most = 80;
  e.passes = {
      pass(0.017, 0.002, 0.001, 80,
           {{"constant_folding", 2},
            {"local_mul_to_sqr", 1},
            {"local_elemwise_alloc", 1},
            {"local_div_to_inv", 1},
            {"local_mul_specialize", 1}},
           0),
      pass(0.014, 0.002, 0.001, 78, {}, 0),
  };
  e.rewrites = {
      {"local_mul_specialize", 0.003, 1, 1}, {"local_elemwise_alloc", 0.002, 1, 2}, {"constant_folding", 0.002, 2, 0},
      {"local_div_to_inv", 0.001, 1, 1},     {"local_mul_to_sqr", 0.001, 1, 1},
  };
  addUnused(e, 69,
            {
                {"crossentropy_to_crossentropy_with_softmax_with_bias", 0.004},
                {"local_one_minus_erf", 0.002},
                {"Elemwise{sub,no_inplace}(z, Elemwise{mul,no_inplace}(alpha subject to <function <lambda> at "
                 "0x7f475e4da050>, SparseDot(x, y))) -> Usmm{no_inplace}(Elemwise{neg,no_inplace}(alpha), x, y, z)",
                 0.002},
                {"local_add_specialize", 0.002},
                {"local_func_inv", 0.001},
                {"local_useless_elemwise", 0.001},
                {"local_abs_merge", 0.001},
                {"local_track_shape_i", 0.001},
                {"local_one_minus_erf2", 0.0001},
                {"local_sum_mul_by_scalar", 0.0001},
                {"local_elemwise_sub_zeros", 0.0001},
                {"local_cast_cast", 0.0001},
                {"local_alloc_unary", 0.0001},
                {"Elemwise{log,no_inplace}(Softmax(x)) -> <function make_out_pattern at 0x7f47619a8410>(x)", 0.0001},
                {"local_sum_div_dimshuffle", 0.0001},
                {"local_sum_alloc", 0.0001},
                {"local_dimshuffle_lift", 0.0001},
                {"local_reduce_broadcastable", 0.0001},
                {"local_grad_log_erfc_neg", 0.0001},
                {"local_advanced_indexing_crossentropy_onehot", 0.0001},
                {"local_log_erfc", 0.0001},
                {"local_log1p", 0.0001},
                {"local_log_add", 0.0001},
                {"local_useless_alloc", 0.0001},
                {"local_neg_neg", 0.0001},
                {"local_neg_div_neg", 0.0001},
            });
}

Profile& child(Profile::Sequence& s, size_t index, const char* name, double seconds, double validate = 0) {
  Profile& p = s.add(name);
  p.index = index;
  p.seconds = seconds;
  p.validate = validate;
  return p;
}

void fusion(Profile& p, Profile::Fusion f) { p.detail = f; }
void walking(Profile& p, Profile::Walking w) { p.detail = w; }

void elemwiseFusion(Profile& p) {
  auto& s = p.become<Profile::Sequence>();
  s.callback = 0.004;
  s.before = 78;
  s.after = 50;
  fusion(child(s, 0, "local_add_mul_fusion", 0.006412),
         {2, 3, 0, 6.43730163574e-05, 0.000783205032349, 0.0035240650177});
  fusion(child(s, 1, "composite_elemwise_fusion", 0.095307),
         {3, 10, 0, 0.000249624252319, 0.00316381454468, 0.00375390052795});
}

void blasOpt(Profile& p) {
  auto& s = p.become<Profile::Sequence>();
  s.callback = 0.003;
  s.before = 81;
  s.after = 80;
  walking(child(s, 0, "local_dot_to_dot22", 0.004569),
          {81, 81, 5, 0.00139284133911, 0.00312399864197, 0.00172805786133});
  child(s, 1, "gemm_optimizer", 0.035997).detail = Profile::Gemm{2,
                                                                 2,
                                                                 0,
                                                                 0,
                                                                 0,
                                                                 0.00720071792603,
                                                                 9.05990600586e-06,
                                                                 0.00128507614136,
                                                                 0.00311398506165,
                                                                 4.60147857666e-05,
                                                                 0.00174236297607};
  walking(child(s, 2, "local_dot22_to_dot22scalar", 0.002283), {80, 80, 0, 0.00171804428101, 0.000502109527588, 0});
  localGemmToGemv(child(s, 3, "local_gemm_to_gemv", 0.002257));
  walking(child(s, 4, "use_c_blas", 0.002227), {80, 80, 0, 0.0014750957489, 0.00068998336792, 0});
  walking(child(s, 5, "use_scipy_ger", 0.001632), {80, 80, 0, 0.00138401985168, 0.000202178955078, 0});
}

// A compilation that PyTensor's documents show. The children stand in the order of execution; those that are not shown
// there are left out.
Profile documented() {
  Profile p;
  p.name = "OPT_FAST_RUN";
  p.seconds = 1.152;
  p.validate = 0.028;
  auto& s = p.become<Profile::Sequence>();
  s.callback = 0.131;
  s.before = 123;
  s.after = 50;
  canonicalize(child(s, 4, "canonicalize", 0.751816, 0.004));
  blasOpt(child(s, 8, "BlasOpt", 0.048993));
  specialize(child(s, 9, "specialize", 0.031740));
  elemwiseFusion(child(s, 13, "elemwise_fusion", 0.101733));
  child(s, 30, "inplace_elemwise_optimizer", 0.090089, 0.019);
  return p;
}

}  // namespace

TEST(Profile, HasTheDocumentedLayout) {
  EXPECT_EQ(documented().text(), readText(TSCOMPILE_TESTS_DIR "/data/rewriter_profile.txt"));
}

TEST(Profile, OtherRewriters) {
  Profile p;
  p.name = "all";
  auto& s = p.become<Profile::Sequence>();
  s.add("merge1").detail = Profile::Merge{1, 12, 3, 0.25, 0.5, 0.125};
  s.add("inplace").detail = Profile::InPlace{20, 7, 8, 1, {{0, 2}, {4, 5}}};
  EXPECT_EQ(p.text(),
            "Rewriter Profile\n"
            "----------------\n"
            " SequentialGraphRewriter  all  time 0.000s for 0/0 nodes before/after rewriting\n"
            "   0.000s for fgraph.validate()\n"
            "   0.000s for callback\n"
            "   time      - (name, class, index) - validate time\n"
            "   0.000000s - ('merge1', 'MergeOptimizer', 0) - 0.000s\n"
            "     MergeOptimizer\n"
            "       nb fail=    1 merged=   12 atomic=    3\n"
            "       time replace=0.25 validate=0.50 callback=0.12\n"
            "   0.000000s - ('inplace', 'InplaceElementwiseOptimizer', 1) - 0.000s\n"
            "     InplaceElementwiseOptimizer\n"
            "      node_before 20\n"
            "      nb_call_replace 7\n"
            "      nb_call_validate 8\n"
            "      nb_inconsistent 1\n"
            "      ndim nb\n"
            "      0 2\n"
            "      4 5\n");
}

TEST(Profile, CompilationHeader) {
  CompileProfile c;
  c.message = "PATH_TO_A_FILE:23";
  c.system = "PyTensor";
  c.call = "Function.__call__";
  c.linkerDoes = "C, CUDA code generation/compiling";
  c.total = 11.31874;
  c.nodes = 50;
  c.rewriter = 1.152431;
  c.validate = 0.02790451;
  c.linker = 0.07893991;
  c.import = 0.01153541;
  c.gradient = {"pytensor.grad()", 0.04732513};
  EXPECT_EQ(c.text(),
            "Function profiling\n"
            "==================\n"
            "  Message: PATH_TO_A_FILE:23\n"
            "  Time in 0 calls to Function.__call__: 0.000000e+00s\n"
            "  Total compile time: 1.131874e+01s\n"
            "    Number of Apply nodes: 50\n"
            "    PyTensor rewriter time: 1.152431e+00s\n"
            "       PyTensor validate time: 2.790451e-02s\n"
            "    PyTensor Linker time (includes C, CUDA code generation/compiling): 7.893991e-02s\n"
            "       Import time 1.153541e-02s\n"
            "  Time in all call to pytensor.grad() 4.732513e-02s\n");
  c.gradient.reset();
  EXPECT_EQ(c.text().find("grad"), std::string::npos);
}

TEST(Profile, JsonHasEveryNumber) {
  std::string json = documented().json();
  EXPECT_FALSE(parseJson(json).isNull());
  for (
      const char* part : {
          R"("name": "OPT_FAST_RUN", "class": "SequentialGraphRewriter", "index": 0, "time": 1.152)",
          R"("callback_time": 0.131, "nodes_before": 123, "nodes_after": 50)",
          R"("nodes_start": 108, "nodes_end": 81, "nodes_max": 117)",
          R"("global_rewrites_time": 0.002, "toposort_time": 0.002, "nodes": 117, "applied": {"local_dimshuffle_lift": 8)",
          R"({"name": "constant_folding", "time": 0.263, "applied": 15, "nodes_created": 0})",
          R"({"name": "local_add_canonizer", "time": 0.05, "applied": 0, "nodes_created": 0})",
          R"("factor_can_time": 9.05990600586e-06)",
          R"("nodes_changed": 5, "toposort_time": 0.00139284133911, "loop_time": 0.00312399864197)",
      })
    EXPECT_NE(json.find(part), std::string::npos) << part;
}

TEST(Profile, MergingAddsByName) {
  Profile twice = documented();
  twice.merge(documented());
  const auto& s = std::get<Profile::Sequence>(twice.detail);
  EXPECT_DOUBLE_EQ(twice.seconds, 2.304);
  EXPECT_EQ(s.before, 246u);
  ASSERT_EQ(s.children.size(), 5u);
  EXPECT_DOUBLE_EQ(s.children[4].validate, 0.038);
  const auto& e = std::get<Profile::Equilibrium>(s.children[0].detail);
  EXPECT_EQ(e.passes.size(), 14u);
  EXPECT_EQ(e.passes[0].applied[0], (std::pair<std::string, uint64_t>("local_dimshuffle_lift", 18)));
  EXPECT_EQ(e.rewrites[0].applied, 30u);
  EXPECT_EQ(e.rewrites.size(), 15u + 62u);
  EXPECT_EQ(std::get<Profile::Gemm>(std::get<Profile::Sequence>(s.children[1].detail).children[1].detail).replacements,
            4u);
}

TEST(Profile, MergingKeepsWhatOnlyOneHas) {
  Profile a, b;
  auto& first = a.become<Profile::Sequence>();
  first.add("both").seconds = 1;
  first.add("both").seconds = 2;
  first.add("first").seconds = 4;
  auto& second = b.become<Profile::Sequence>();
  second.add("second").seconds = 8;
  second.add("both").seconds = 16;
  second.add("both").seconds = 32;
  second.children[0].become<Profile::Equilibrium>().rewrite("r").applied = 3;
  a.merge(b);
  ASSERT_EQ(first.children.size(), 4u);
  EXPECT_EQ(first.children[0].seconds, 17);
  EXPECT_EQ(first.children[1].seconds, 34);
  EXPECT_EQ(first.children[2].seconds, 4);
  EXPECT_EQ(first.children[3].name, "second");
  EXPECT_EQ(first.children[3].index, 3u);
  auto& e = std::get<Profile::Equilibrium>(first.children[3].detail);
  Profile c;
  auto& other = c.become<Profile::Equilibrium>();
  other.rewrite("q").applied = 1;
  other.rewrite("r").applied = 2;
  other.passes.resize(1);
  other.passes[0].count("r", 2);
  first.children[3].merge(c);
  EXPECT_EQ(e.rewrites[0].applied, 5u);
  EXPECT_EQ(e.rewrites[1].name, "q");
  EXPECT_EQ(e.passes.size(), 1u);
}

TEST(Profile, LongNamesAreNotCut) {
  Profile p;
  p.name = std::string(2000, 'n');
  p.become<Profile::Sequence>();
  EXPECT_NE(p.text().find(p.name + "  time 0.000s"), std::string::npos);
}

TEST(Profile, TimesAddUp) {
  double seconds = 0;
  for (int i = 0; i < 3; ++i) {
    double before = seconds;
    { TimedScope timed(seconds); }
    EXPECT_GE(seconds, before);
  }
}

}  // namespace tscompile::test
