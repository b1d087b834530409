// Which nodes come together: node maps on small models, with each strategy.
#include "partition/partition.h"
#include "tests/support/partitioning.h"
#include "tests/support/pass_checks.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

struct Row {
  const char* expected;
  size_t minBlockSize = 1;
  std::vector<std::string> forced = {};
  Strategy strategy = Strategy::Dependency;
};

void expectMap(const std::string& text, const Row& row) {
  std::unique_ptr<Graph> graph = readGraph(text);
  PartitionOptions options = optionsOf(row.minBlockSize, row.strategy);
  options.fallbackOperators = row.forced;
  Partition p = segment(*graph, partitionOps(), TestSupport(), options);
  EXPECT_EQ(nodeMap(*graph, p), row.expected) << text;
  checkPartition(*graph, partitionOps(), p);
}

// conv, relu, conv, ?, conv
const char* const kSequential = R"(
graph(%x : Tensor, %w1 : Float(32, 3, 3, 3), %b1 : Float(32), %w2 : Float(16, 32, 3, 3), %b2 : Float(16),
      %w3 : Float(8, 16, 3, 3), %b3 : Float(8)):
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %zeros : int[] = prim::Constant[value=[0, 0]]()
  %no : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %c1 : Tensor = aten::_convolution(%x, %w1, %b1, %ones, %ones, %ones, %no, %zeros, %one, %no, %no, %no, %no)
  %r : Tensor = aten::relu(%c1)
  %c2 : Tensor = aten::_convolution(%r, %w2, %b2, %ones, %ones, %ones, %no, %zeros, %one, %no, %no, %no, %no)
  %l : Tensor = test::one(%c2)
  %c3 : Tensor = aten::_convolution(%l, %w3, %b3, %ones, %ones, %ones, %no, %zeros, %one, %no, %no, %no, %no)
  return (%c3)
)";

// Two branches that join; one of them passes a node without converter.
const char* const kBranch = R"(
graph(%x : Tensor, %w1 : Float(32, 3, 3, 3), %b1 : Float(32), %w2 : Float(16, 32, 3, 3), %b2 : Float(16)):
  %zeros : int[] = prim::Constant[value=[0, 0]]()
  %twos : int[] = prim::Constant[value=[2, 2]]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %no : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::_convolution(%x, %w1, %b1, %ones, %ones, %ones, %no, %zeros, %one, %no, %no, %no, %no)
  %b : Tensor = aten::_convolution(%a, %w2, %b2, %ones, %ones, %ones, %no, %zeros, %one, %no, %no, %no, %no)
  %l : Tensor = test::one(%a)
  %c : Tensor = aten::_convolution(%l, %w2, %b2, %ones, %ones, %ones, %no, %zeros, %one, %no, %no, %no, %no)
  %r : Tensor = aten::relu(%b)
  %s : Tensor = aten::add(%c, %r, %one)
  %p : Tensor = aten::max_pool2d(%s, %twos, %twos, %zeros, %ones, %no)
  return (%p)
)";

const char* const kInterleaved = R"(
graph(%x : Tensor, %y : Tensor):
  %3 : int = prim::Constant[value=0]()
  %20 : int = prim::Constant[value=1]()
  %add : Tensor = aten::add(%x, %y, %20)
  %x_lgamma : Tensor = aten::lgamma(%x)
  %mul : Tensor = aten::mul(%x, %y)
  %y_lgamma : Tensor = aten::lgamma(%y)
  %div : Tensor = aten::div(%x, %y)
  %div_lgamma : Tensor = aten::lgamma(%div)
  %27 : Tensor[] = prim::ListConstruct(%x_lgamma, %y_lgamma, %div_lgamma, %add, %mul)
  %12 : Tensor = aten::cat(%27, %3)
  return (%12)
)";

const char* const kReordered = R"(
graph(%x : Tensor, %y : Tensor):
  %3 : int = prim::Constant[value=0]()
  %20 : int = prim::Constant[value=1]()
  %add : Tensor = aten::add(%x, %y, %20)
  %mul : Tensor = aten::mul(%x, %y)
  %div : Tensor = aten::div(%x, %y)
  %x_lgamma : Tensor = aten::lgamma(%x)
  %y_lgamma : Tensor = aten::lgamma(%y)
  %div_lgamma : Tensor = aten::lgamma(%div)
  %27 : Tensor[] = prim::ListConstruct(%x_lgamma, %y_lgamma, %div_lgamma, %add, %mul)
  %12 : Tensor = aten::cat(%27, %3)
  return (%12)
)";

}  // namespace

TEST(Segmentation, Sequential) {
  expectMap(kSequential, {"E{0 1 2} T{3} E{4}"});
  expectMap(kSequential, {"E{0 1 2} T{3 4}", 3});
  expectMap(kSequential, {"E{0} T{1} E{2} T{3} E{4}", 1, {"aten::relu"}});
}

TEST(Segmentation, Branches) {
  expectMap(kBranch, {"E{0 1} T{2} E{3 4 5 6}"});
  expectMap(kBranch, {"T{0 1 2} E{3 4 5 6}", 3});
  expectMap(kBranch, {"E{0 1} T{2 4} E{3 5 6}", 1, {"aten::relu"}});
}

TEST(Segmentation, NumbersFollowTheOnlyNodeThatNeedsThem) {
  const char* text = R"(
graph(%i : Tensor, %x : Tensor, %y : Tensor):
  %pair : int[] = prim::Constant[value=[-1, 5]]()
  %flat : int[] = prim::Constant[value=[-1]]()
  %two : int = prim::Constant[value=2]()
  %four : int = prim::Constant[value=4]()
  %five : int = prim::Constant[value=5]()
  %zero : int = prim::Constant[value=0]()
  %no : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::reshape(%x, %flat)
  %b : Tensor = aten::reshape(%y, %pair)
  %c : Tensor = aten::reshape(%x, %pair)
  %d : Tensor = aten::to(%a, %four, %no, %no, %none)
  %size : int = aten::size(%x, %zero)
  %sizes : int[] = prim::ListConstruct(%size, %four, %two, %five)
  %e : Tensor = test::index_add(%c, %zero, %d, %b, %one)
  %f : Tensor = aten::reshape(%e, %sizes)
  return (%f)
)";
  expectMap(text, {"E{0 1 2 3} T{4 5 6 7}", 3});
  expectMap(text, {"E{0 1 2 3} T{6} E{4 5 7}", 1});
}

TEST(Segmentation, Interleaved) {
  std::vector<std::string> forced{"aten::lgamma"};
  for (Strategy s : {Strategy::Dependency, Strategy::Minimal})
    expectMap(kInterleaved, {"E{0 2 4} T{1 3 5} E{6 7}", 1, forced, s});
  expectMap(kInterleaved, {"E{0} T{1} E{2} T{3} E{4} T{5} E{6 7}", 1, forced, Strategy::Greedy});
  expectMap(kReordered, {"E{0 1 2} T{3 4 5} E{6 7}", 1, forced, Strategy::Greedy});
}

TEST(Segmentation, OverloadsCanBeForcedAlone) {
  const char* text = R"(
graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::add(%x, %y, %one)
  %b : Tensor = aten::add(%a, %one, %one)
  return (%b)
)";
  expectMap(text, {"E{0} T{1}", 1, {"aten::add.Scalar"}});
  expectMap(text, {"T{0} E{1}", 1, {"aten::add.Tensor"}});
  expectMap(text, {"T{0 1}", 1, {"aten::add"}});
}

TEST(Segmentation, WholeGraphIsOneEngineWhateverItsSize) {
  const char* text = "graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n";
  for (Strategy s : {Strategy::Greedy, Strategy::Dependency, Strategy::Minimal, Strategy::Cost})
    expectMap(text, {"E{0}", 10, {}, s});
}

TEST(Segmentation, NumbersAcrossAnotherNodeAreNoBorder) {
  const char* text = R"(
graph(%x : Float(1, 3, 16, 16), %w : Float(16, 3, 3, 3), %b : Float(16)):
  %zeros : int[] = prim::Constant[value=[0, 0]]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %no : bool = prim::Constant[value=0]()
  %zero : int = prim::Constant[value=0]()
  %groups : int = aten::size(%x, %zero)
  %l : Tensor = test::one(%x)
  %c : Tensor = aten::_convolution(%l, %w, %b, %ones, %zeros, %ones, %no, %zeros, %groups, %no, %no, %no, %no)
  %r : Tensor = aten::relu(%c)
  return (%r)
)";
  expectMap(text, {"T{1} E{0 2 3}"});
}

TEST(Segmentation, OneListForTwoNodesAroundAnother) {
  const char* text = R"(
graph(%x : Float(1, 3, 16, 16), %w : Float(16, 6, 3, 3), %b : Float(16)):
  %zeros : int[] = prim::Constant[value=[0, 0]]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %no : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %list : Tensor[] = prim::ListConstruct(%x, %x)
  %rows : Tensor = aten::cat(%list, %zero)
  %l : Tensor = test::one(%rows)
  %columns : Tensor = aten::cat(%list, %one)
  %c : Tensor = aten::_convolution(%columns, %w, %b, %ones, %zeros, %ones, %no, %zeros, %one, %no, %no, %no, %no)
  %r : Tensor = aten::relu(%c)
  %out : (Tensor, Tensor) = prim::TupleConstruct(%l, %r)
  return (%out)
)";
  expectMap(text, {"E{0 1 3 4 5} T{2 6}"});
}

TEST(Segmentation, ListBesideAnother) {
  const char* text = R"(
graph(%x : Float(1, 3, 16, 16), %w : Float(16, 6, 3, 3), %b : Float(16)):
  %zeros : int[] = prim::Constant[value=[0, 0]]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %no : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %list : Tensor[] = prim::ListConstruct(%x, %x)
  %l : Tensor = test::one(%x)
  %columns : Tensor = aten::cat(%list, %one)
  %c : Tensor = aten::_convolution(%columns, %w, %b, %ones, %zeros, %ones, %no, %zeros, %one, %no, %no, %no, %no)
  %r : Tensor = aten::relu(%c)
  %out : (Tensor, Tensor) = prim::TupleConstruct(%l, %r)
  return (%out)
)";
  expectMap(text, {"E{0 2 3 4} T{1 5}"});
}

// The dict is written, so it stays with those that write it; it enters the first segment and leaves by the last.
TEST(Segmentation, DictsStayOutside) {
  const char* text = R"(
graph(%x : Tensor, %y : Tensor):
  %ins : str = prim::Constant[value="INS"]()
  %outs : str = prim::Constant[value="OUTS"]()
  %no : bool = prim::Constant[value=0]()
  %minus : int = prim::Constant[value=-1]()
  %dict : Dict(str, Tensor) = prim::DictConstruct()
  = aten::_set_item(%dict, %ins, %x)
  %7 : Tensor = aten::__getitem__(%dict, %ins)
  %8 : Tensor = aten::lt(%7, %y)
  %9 : Tensor?[] = prim::ListConstruct(%8)
  %10 : int = prim::dtype(%7)
  %11 : Device = prim::device(%7)
  %12 : Tensor = aten::tensor(%minus, %10, %11, %no)
  %13 : Tensor = aten::index_put(%7, %9, %12, %no)
  = aten::_set_item(%dict, %outs, %13)
  %14 : Tensor = aten::__getitem__(%dict, %ins)
  %15 : Tensor = aten::__getitem__(%dict, %outs)
  return (%14, %15)
)";
  expectMap(text, {"T{0 1 2} E{3 4 5 6 7 8} T{9 10 11}"});
  std::unique_ptr<Graph> graph = readGraph(text);
  Partition p = segment(*graph, partitionOps(), TestSupport(), optionsOf());
  auto has = [&](const std::vector<const Value*>& values) {
    return std::any_of(values.begin(), values.end(), [](const Value* v) { return v->type()->is(TypeKind::Dict); });
  };
  EXPECT_TRUE(!has(p.segments[0].inputs) && has(p.segments[0].outputs));
  EXPECT_TRUE(has(p.segments[2].inputs) && !has(p.segments[2].outputs));
}

}  // namespace tscompile::test
