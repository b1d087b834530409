#include "tests/support/module_checks.h"

namespace tscompile::test {
namespace {

// A module: conv (with w, b, k) and block.conv, which shares the memory of w.
class FreezeCase : public ModuleCase {
 public:
  explicit FreezeCase(const std::string& text) : ModuleCase(text) {
    module.self = Ref<ObjectValue>::make(classType("__torch__.Net"));
    conv = Ref<ObjectValue>::make(classType("__torch__.Conv"));
    block = Ref<ObjectValue>::make(classType("__torch__.Block"));
    Tensor w = floats({1, 2, 3});
    conv->set(Symbol::of("w"), IValue(w));
    conv->set(Symbol::of("b"), IValue(floats({4, 5, 6})));
    conv->set(Symbol::of("k"), IValue(3));
    block->set(Symbol::of("tied"), IValue(w.withGeometry(w.sizes(), w.strides(), 0)));
    block->set(Symbol::of("own"), IValue(floats({7, 8, 9})));
    module.self->set(Symbol::of("conv"), IValue(conv));
    module.self->set(Symbol::of("block"), IValue(block));
    module.self->set(Symbol::of("names"), IValue(intList(Dims{1, 2})));
  }
  Ref<ObjectValue> conv, block;

  // "w b tied own": the attributes that are still read.
  std::string reads() const {
    std::string out;
    forEachNode(*graph, [&](Node* n) {
      if (n->kind() != sym::GetAttr || n->output()->type()->is(TypeKind::Class)) return;
      out += (out.empty() ? "" : " ") + n->attributeValue(sym::name)->toString();
    });
    return out;
  }
};

// Reads everything, then does what `more` says.
std::string readsAnd(const std::string& more) {
  return R"(graph(%self : __torch__.Net, %x : Tensor, %c : bool):
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %conv : __torch__.Conv = prim::GetAttr[name="conv"](%self)
  %block : __torch__.Block = prim::GetAttr[name="block"](%self)
  %w : Tensor = prim::GetAttr[name="w"](%conv)
  %b : Tensor = prim::GetAttr[name="b"](%conv)
  %k : int = prim::GetAttr[name="k"](%conv)
  %tied : Tensor = prim::GetAttr[name="tied"](%block)
  %own : Tensor = prim::GetAttr[name="own"](%block)
  %names : int[] = prim::GetAttr[name="names"](%self)
)" + more +
         R"(  %r : (Tensor, Tensor, int, Tensor, Tensor, int[], Tensor) = prim::TupleConstruct(%w, %b, %k, %tied, %own, %names, %x)
  return (%r)
)";
}

}  // namespace

TEST(Freeze, AttributesBecomeConstantsOfTheirPath) {
  FreezeCase c(R"(graph(%self : __torch__.Net, %x : Tensor, %c : bool):
  %conv : __torch__.Conv = prim::GetAttr[name="conv"](%self), scope: __module.conv
  %y : Tensor = prim::If(%c)
    block0():
      %w.1 : Tensor = prim::GetAttr[name="w"](%conv) # model.py:3:4
      %k : int = prim::GetAttr[name="k"](%conv)
      %1 : Tensor = aten::mul(%w.1, %k)
      -> (%1)
    block1():
      %w.2 : Tensor = prim::GetAttr[name="w"](%conv)
      -> (%w.2)
  return (%y)
)");
  EXPECT_TRUE(c.apply(pass("freeze")));
  EXPECT_EQ(c.text(), R"(graph(%x : Tensor,
      %c : bool):
  %self.conv.w : Float(3, strides=[1], requires_grad=0, device=cpu) = prim::Constant[value= 1  2  3 [ CPUFloatType{3} ]]() # model.py:3:4
  %self.conv.k : int = prim::Constant[value=3]()
  %y : Tensor = prim::If(%c)
    block0():
      %1 : Tensor = aten::mul(%self.conv.w, %self.conv.k)
      -> (%1)
    block1():
      -> (%self.conv.w)
  return (%y)
)");
  EXPECT_EQ(c.graph->find("self.conv.w")->node()->attributeValue(sym::value)->tensorImpl(),
            c.conv->find(Symbol::of("w"))->tensorImpl());
}

TEST(Freeze, NothingWrittenNothingRead) {
  FreezeCase c(readsAnd(""));
  EXPECT_TRUE(c.apply(pass("freeze")));
  EXPECT_EQ(c.reads(), "");
  EXPECT_EQ(c.graph->inputs().size(), 2u);
}

TEST(Freeze, WrittenAttributesStay) {
  struct Row {
    const char* what;
    const char* text;
    const char* reads;
  };
  const Row kRows[] = {
      {"an attribute that is set", "   = prim::SetAttr[name=\"b\"](%conv, %x)\n", "b"},
      {"what shares its memory", "   = prim::SetAttr[name=\"w\"](%conv, %x)\n", "w tied"},
      {"in a nested block",
       "   = prim::If(%c)\n    block0():\n       = prim::SetAttr[name=\"k\"](%conv, %one)\n      -> ()\n"
       "    block1():\n      -> ()\n",
       "k"},
      {"a tensor written in place", "  %1 : Tensor = aten::add_(%b, %x, %one)\n", "b"},
      {"and its alias", "  %1 : Tensor = aten::relu_(%tied)\n", "w tied"},
      {"through a view", "  %1 : Tensor = aten::select(%own, %zero, %one)\n  %2 : Tensor = aten::fill_(%1, %one)\n",
       "own"},
      {"through a list",
       "  %1 : Tensor[] = prim::ListConstruct(%own, %b)\n  %2 : Tensor = aten::__getitem__(%1, %zero)\n"
       "  %3 : Tensor = aten::zero_(%2)\n",
       "b own"},
      {"a list that grows", "  %1 : int[] = aten::append(%names, %one)\n", "names"},
      {"an input: no attribute", "  %1 : Tensor = aten::add_(%x, %w, %one)\n", ""},
      {"a value that becomes an attribute", "   = prim::SetAttr[name=\"own\"](%block, %b)\n", "b own"},
      {"an object that is one of two",
       "  %o : __torch__.Block = prim::If(%c)\n    block0():\n      -> (%block)\n    block1():\n      -> (%block)\n"
       "   = prim::SetAttr[name=\"own\"](%o, %x)\n",
       "own"},
      {"one of two, read and written in place",
       "  %o : __torch__.Block = prim::If(%c)\n    block0():\n      -> (%block)\n    block1():\n      -> (%block)\n"
       "  %1 : Tensor = prim::GetAttr[name=\"own\"](%o)\n  %2 : Tensor = aten::zero_(%1)\n",
       "own own"},
      {"an object that goes to Python", "  %1 : Tensor = ^Unknown()(%conv)\n", "w b k tied own names"},
  };
  for (const Row& row : kRows) {
    FreezeCase c(readsAnd(row.text));
    c.apply(pass("freeze"));
    EXPECT_EQ(c.reads(), row.reads) << row.what << "\n" << c.text();
  }
}

TEST(Freeze, WhatOtherGraphsWriteStays) {
  FreezeCase c(R"(graph(%self : __torch__.Net, %face : InterfaceType<Face>, %x : Tensor):
  %conv : __torch__.Conv = prim::GetAttr[name="conv"](%self)
  %w : Tensor = prim::GetAttr[name="w"](%conv)
  %b : Tensor = prim::GetAttr[name="b"](%conv)
  %k : int = prim::GetAttr[name="k"](%conv)
  %1 : Tensor = prim::CallMethod[name="step"](%face, %x)
  %f : Future(Tensor) = prim::fork_0(%conv, %x)
  %r : (Tensor, Tensor, int) = prim::TupleConstruct(%w, %b, %k)
  return (%r)
with prim::fork_0 = graph(%conv : __torch__.Conv, %x : Tensor):
  %k : int = prim::Constant[value=1]()
   = prim::SetAttr[name="k"](%conv, %k)
  return (%x)
)");
  c.module.methods[classType("__torch__.Other")];
  c.add("__torch__.Other", "step", R"(graph(%self : __torch__.Other, %x : Tensor):
  %conv : __torch__.Conv = prim::GetAttr[name="conv"](%self)
  %b : Tensor = prim::GetAttr[name="b"](%conv)
  %1 : Tensor = aten::zero_(%b)
  return (%1)
)");
  EXPECT_TRUE(c.apply(pass("freeze")));
  EXPECT_EQ(c.reads(), "b k");
}

TEST(Freeze, WhatIsNotKnownStays) {
  FreezeCase c(R"(graph(%self : __torch__.Net):
  %conv : __torch__.Conv = prim::GetAttr[name="conv"](%self)
  %w : int = prim::GetAttr[name="w"](%conv)
  %missing : Tensor = prim::GetAttr[name="missing"](%conv)
  %lost : Tensor = prim::GetAttr[name="lost"](%conv)
  %b : Tensor = prim::GetAttr[name="b"](%conv)
  %t : (int, Tensor, Tensor, Tensor) = prim::TupleConstruct(%w, %missing, %lost, %b)
  return (%t)
)");
  c.conv->set(Symbol::of("lost"), IValue(Ref<LiteralValue>::make("...", LiteralValue::Kind::MissingTensor)));
  EXPECT_TRUE(c.apply(pass("freeze")));
  EXPECT_EQ(c.reads(), "w missing lost");
}

}  // namespace tscompile::test
