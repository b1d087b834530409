#include "frontend/source/sparse_functions.h"

#include "frontend/source/text_nodes.h"
#include "ir/graph/builder.h"

#include <optional>
#include <string>
#include <vector>

namespace tscompile {
namespace {

const Symbol kSoftmaxOfSparse = Symbol::of("aten::_sparse_softmax");
const Symbol kLogSoftmaxOfSparse = Symbol::of("aten::_sparse_log_softmax");
const Symbol kSumOfCoalesced = Symbol::of("aten::_sparse_sum");
const Symbol kPlainSum = Symbol::of("aten::sum");
const Symbol kProductOfSparse = Symbol::of("aten::_sparse_mm");
const Symbol kPlainProduct = Symbol::of("aten::mm");
const Symbol kAnyProduct = Symbol::of("aten::matmul");
const Symbol kMakesDense = Symbol::of("aten::to_dense");

constexpr std::string_view kNumbers = R"(
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %yes : bool = prim::Constant[value=1]()
)";

// The elements, of which each belongs to the group of its row or column, `kept`.
constexpr std::string_view kGroups = R"(
  %c : Tensor = aten::coalesce(%a)
  %i : Tensor = aten::indices(%c)
  %v : Tensor = aten::values(%c)
  %s : int[] = aten::size(%a)
  %group : Tensor = aten::select(%i, %zero, %kept)
  %count : int = aten::__getitem__(%s, %kept)
  %counts : int[] = prim::ListConstruct(%count)
)";

constexpr std::string_view kExponents = R"(
  %nothing : Tensor = aten::new_zeros(%x, %counts, %none, %none, %none, %none)
  %mode : str = prim::Constant[value="amax"]()
  %most : Tensor = aten::scatter_reduce(%nothing, %zero, %group, %x, %mode, %no)
  %least : Tensor = aten::index_select(%most, %zero, %group)
  %shifted : Tensor = aten::sub(%x, %least, %one)
  %e : Tensor = aten::exp(%shifted)
  %sums : Tensor = aten::index_add(%nothing, %zero, %group, %e, %one)
  %sum : Tensor = aten::index_select(%sums, %zero, %group)
)";
constexpr std::string_view kQuotient = R"(
  %p : Tensor = aten::div(%e, %sum)
)";
constexpr std::string_view kLogarithm = R"(
  %log : Tensor = aten::log(%sum)
  %p : Tensor = aten::sub(%shifted, %log, %one)
)";
constexpr std::string_view kLikeA = R"(
  %made : Tensor = aten::sparse_coo_tensor(%i, %p, %s, %none, %none, %none, %none)
  %y : Tensor = aten::coalesce(%made)
)";

// The elements as they are given, in the dtype that sums have.
constexpr std::string_view kGivenGroups = R"(
  %i : Tensor = aten::_indices(%a)
  %v : Tensor = aten::_values(%a)
  %s : int[] = aten::size(%a)
  %group : Tensor = aten::select(%i, %zero, %kept)
  %count : int = aten::__getitem__(%s, %kept)
  %counts : int[] = prim::ListConstruct(%count)
  %apart : Tensor = aten::unsqueeze(%v, %one)
  %along : int[] = prim::ListConstruct(%one)
  %x : Tensor = aten::sum(%apart, %along, %no, %dtype)
)";
constexpr std::string_view kConverted = R"(
  %x : Tensor = aten::to(%v, %dtype, %no, %no, %none)
)";
// The sums of the groups that have elements.
constexpr std::string_view kSums = R"(
  %found : Tensor, %at : Tensor, %more : Tensor = aten::_unique2(%group, %yes, %yes, %no)
  %n : int = aten::numel(%found)
  %ns : int[] = prim::ListConstruct(%n)
  %nothing : Tensor = aten::new_zeros(%x, %ns, %none, %none, %none, %none)
  %sums : Tensor = aten::index_add(%nothing, %zero, %at, %x, %one)
)";
constexpr std::string_view kKeptDim = R"(
  %zeros : Tensor = aten::zeros_like(%found, %none, %none, %none, %none, %none)
)";
constexpr std::string_view kDenseSums = R"(
  %empty : Tensor = aten::new_zeros(%sums, %counts, %none, %none, %none, %none)
  %y : Tensor = aten::index_copy(%empty, %zero, %found, %sums)
)";

// Where a product has elements, zeros among them, the product of the matrices of ones tells.
constexpr std::string_view kBothSparse = R"(
  %ai : Tensor = aten::_indices(%a)
  %av : Tensor = aten::_values(%a)
  %as : int[] = aten::size(%a)
  %bi : Tensor = aten::_indices(%b)
  %bv : Tensor = aten::_values(%b)
  %bs : int[] = aten::size(%b)
  %ao : Tensor = aten::ones_like(%av, %none, %none, %none, %none, %none)
  %bo : Tensor = aten::ones_like(%bv, %none, %none, %none, %none, %none)
  %a1 : Tensor = aten::sparse_coo_tensor(%ai, %ao, %as, %none, %none, %none, %none)
  %b1 : Tensor = aten::sparse_coo_tensor(%bi, %bo, %bs, %none, %none, %none, %none)
  %bd : Tensor = aten::to_dense(%b, %none)
  %bp : Tensor = aten::to_dense(%b1, %none)
  %product : Tensor = aten::mm(%a, %bd)
  %pattern : Tensor = aten::mm(%a1, %bp)
  %there : Tensor = aten::gt(%pattern, %zero)
  %where : Tensor = aten::nonzero(%there)
  %places : Tensor = aten::t(%where)
  %elements : Tensor = aten::masked_select(%product, %there)
  %ys : int[] = aten::size(%product)
  %made : Tensor = aten::sparse_coo_tensor(%places, %elements, %ys, %none, %none, %none, %none)
  %y : Tensor = aten::coalesce(%made)
)";

const IValue* constantOf(const Value* v) {
  return v->node() && v->node()->kind() == sym::Constant ? v->node()->attributeValue(sym::value) : nullptr;
}

// The one dimension of a matrix that an argument names, counted from the first.
std::optional<int64_t> dimensionOf(const Value* v) {
  if (v->node() && v->node()->kind() == sym::ListConstruct) {
    if (v->node()->inputCount() != 1) return std::nullopt;
    v = v->node()->input(0);
  }
  const IValue* known = constantOf(v);
  if (known && known->isList() && known->toList().items.size() == 1) known = &known->toList().items[0];
  if (!known || !known->isInt()) return std::nullopt;
  const int64_t dim = known->toInt() < 0 ? known->toInt() + 2 : known->toInt();
  return dim == 0 || dim == 1 ? std::optional(dim) : std::nullopt;
}

class SparseFunctions {
 public:
  SparseFunctions(Graph& graph, IsSparse isSparse) : graph_(graph), isSparse_(isSparse) {}

  void run() {
    std::vector<Node*> all;  // what is made of one may be the matrix of another
    forEachNode(graph_, [&](Node* n) {
      if (n->outputCount() == 1 && n->inputCount() >= 2 && isOne(n->kind())) all.push_back(n);
    });
    for (Node* n : all)
      if (isSparse_(n->input(0))) rewrite(n);
  }

 private:
  static bool isProduct(Symbol k) { return k == kProductOfSparse || k == kPlainProduct || k == kAnyProduct; }
  static bool isOne(Symbol k) {
    return isProduct(k) || k == kSoftmaxOfSparse || k == kLogSoftmaxOfSparse || k == kSumOfCoalesced || k == kPlainSum;
  }

  void rewrite(Node* n) {
    const Symbol k = n->kind();
    if (isProduct(k)) {
      if (n->inputCount() == 2 && isSparse_(n->input(1)))
        replace(n, insert(n, kBothSparse, {{"a", n->input(0)}, {"b", n->input(1)}}));
    } else if (k == kSoftmaxOfSparse || k == kLogSoftmaxOfSparse) {
      softmax(n);
    } else if (k == kSumOfCoalesced || k == kPlainSum) {
      sum(n);
    }
  }

  // (self, dim, dtype)
  void softmax(Node* n) {
    const std::optional<int64_t> dim = n->inputCount() == 3 ? dimensionOf(n->input(1)) : std::nullopt;
    if (!dim) return;
    std::string text = std::string(kGroups) + converted(n->input(2)) + std::string(kExponents);
    text.append(n->kind() == kSoftmaxOfSparse ? kQuotient : kLogarithm).append(kLikeA);
    replace(n, insert(n, text, grouped(n, *dim, n->input(2))));
  }

  // _sparse_sum(self, dim[, dtype]) and sum(self, dim, keepdim, dtype)
  void sum(Node* n) {
    const std::optional<int64_t> dim = dimensionOf(n->input(1));
    const bool isPlain = n->kind() == kPlainSum;
    if (!dim || (isPlain && n->inputCount() != 4)) return;
    const IValue* keeps = isPlain ? constantOf(n->input(2)) : nullptr;
    if (isPlain && (!keeps || !keeps->isBool())) return;
    Value* dtype = isPlain ? n->input(3) : n->inputCount() == 3 ? n->input(2) : noneBefore(n);
    const bool isConverted = isPlain || !dtype->type()->is(TypeKind::None);  // before what is there twice is summed
    std::string text(isConverted ? kGivenGroups : kGroups);
    if (!isConverted) text.append(converted(dtype));
    text.append(kSums);
    if (keeps && keeps->toBool()) {
      const bool isRow = *dim == 0;
      text.append(kKeptDim);
      text.append("  %both : Tensor[] = prim::ListConstruct(")
          .append(isRow ? "%zeros, %found)\n" : "%found, %zeros)\n");
      text.append("  %sizes : int[] = prim::ListConstruct(").append(isRow ? "%one, %count)\n" : "%count, %one)\n");
      text.append("  %i2 : Tensor = aten::stack(%both, %zero)\n");
      text.append("  %made : Tensor = aten::sparse_coo_tensor(%i2, %sums, %sizes, %none, %none, %none, %none)\n");
      text.append("  %y : Tensor = aten::coalesce(%made)\n");
      return replace(n, insert(n, text, grouped(n, *dim, dtype)));
    }
    for (const Use& use : n->output()->uses())
      if (use.user->kind() != kMakesDense || use.index() != 0) return;
    Value* dense = insert(n, text + std::string(kDenseSums), grouped(n, *dim, dtype));
    std::vector<Node*> reads;
    for (const Use& use : n->output()->uses()) reads.push_back(use.user);
    for (Node* read : reads) replace(read, dense);
    n->destroy();
  }

  NamedOperands grouped(Node* n, int64_t dim, Value* dtype) {
    return {{"a", n->input(0)}, {"kept", before(n).constant(IValue(1 - dim))}, {"dtype", dtype}};
  }
  Value* noneBefore(Node* n) { return before(n).constant(IValue(), types().none); }

  static void replace(Node* n, Value* by) {
    n->output()->replaceAllUsesWith(by);
    n->destroy();
  }

  static std::string converted(const Value* dtype) {
    return dtype->type()->is(TypeKind::None) ? "  %x : Tensor = aten::alias(%v)\n" : std::string(kConverted);
  }

  static Value* insert(Node* n, std::string_view body, const NamedOperands& operands) {
    return insertText(std::string(kNumbers).append(body), operands, n, n);
  }

  Builder before(Node* n) {
    Builder b(graph_, n);
    b.setPlaceOf(n);
    return b;
  }

  Graph& graph_;
  IsSparse isSparse_;
};

}  // namespace

void spellOutSparseFunctions(Graph& graph, IsSparse isSparse) { SparseFunctions(graph, isSparse).run(); }

}  // namespace tscompile
