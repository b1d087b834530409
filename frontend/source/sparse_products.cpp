#include "frontend/source/sparse_products.h"

#include "frontend/source/sparse_functions.h"
#include "frontend/source/text_nodes.h"
#include "ir/graph/builder.h"

#include <algorithm>
#include <array>
#include <sstream>

namespace tscompile {
namespace {

const Symbol kMake = Symbol::of("aten::sparse_coo_tensor");
const Symbol kOfDense = Symbol::of("aten::to_sparse");
const Symbol kCoalesce = Symbol::of("aten::coalesce");
const Symbol kToRows = Symbol::of("aten::to_sparse_csr");
const Symbol kMakeRows = Symbol::of("aten::sparse_csr_tensor");
const Symbol kMakeCompressed = Symbol::of("aten::sparse_compressed_tensor");
const Symbol kTurn = Symbol::of("aten::t");
const Symbol kTimes = Symbol::of("aten::mul");
const Symbol kDivided = Symbol::of("aten::div");
const Symbol kTranspose = Symbol::of("aten::transpose");
// What is read of a matrix; the first two are in the order of places.
const Symbol kElements = Symbol::of("aten::values");
const Symbol kPlacesOf = Symbol::of("aten::indices");
const Symbol kGivenElements = Symbol::of("aten::_values");
const Symbol kGivenPlaces = Symbol::of("aten::_indices");
const Symbol kCount = Symbol::of("aten::_nnz");
const Symbol kSizeOf = Symbol::of("aten::size");
const Symbol kRank = Symbol::of("aten::dim");
const Symbol kIsSparse = Symbol::of("prim::is_sparse");
const Symbol kIsByRows = Symbol::of("prim::is_sparse_csr");
// What becomes of the elements, and what they tell of the matrix.
const std::array kOfElements{Symbol::of("aten::to"), Symbol::of("aten::detach"), Symbol::of("aten::clone")};
const std::array kToldByElements{Symbol::of("prim::dtype"), Symbol::of("prim::device"),
                                 Symbol::of("aten::is_floating_point")};
// PyTorch's numbers of layouts.
constexpr int64_t kLayoutOfPlaces = 1, kLayoutOfRows = 2, kLayoutOfColumns = 3;
const Symbol kMatmul = Symbol::of("aten::matmul");
const Symbol kSumOfOnce = Symbol::of("aten::_sparse_sum");

// What becomes of a use, as graph text.
struct Form {
  Symbol kind;
  size_t matrixAt;
  std::string_view operands;  // names of the other arguments in the text; further ones are None
  std::string_view body;

  size_t operandCount() const {
    return operands.empty() ? 0 : static_cast<size_t>(std::ranges::count(operands, ' ')) + 1;
  }
};

// ListUnpack raises where there are not two dimensions.
constexpr std::string_view kPlaces = R"(
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %both : Tensor[] = aten::unbind(%places, %zero)
  %rows : Tensor, %columns : Tensor = prim::ListUnpack(%both)
)";

constexpr std::string_view kProduct = R"(
  %height : int, %depth : int = prim::ListUnpack(%size)
  %sizes : int[] = aten::size(%x)
  %given : int, %width : int = prim::ListUnpack(%sizes)
  %from : int[] = prim::ListConstruct(%depth, %width)
  %all : Tensor = aten::reshape(%x, %from)
  %picked : Tensor = aten::index_select(%all, %zero, %columns)
  %factors : Tensor = aten::unsqueeze(%elements, %one)
  %terms : Tensor = aten::mul(%picked, %factors)
  %to : int[] = prim::ListConstruct(%height, %width)
  %nothing : Tensor = aten::new_zeros(%elements, %to, %none, %none, %none, %none)
  %y : Tensor = aten::index_add(%nothing, %zero, %rows, %terms, %one)
)";

constexpr std::string_view kOfVector = R"(
  %height : int, %depth : int = prim::ListUnpack(%size)
  %from : int[] = prim::ListConstruct(%depth)
  %all : Tensor = aten::reshape(%x, %from)
  %picked : Tensor = aten::index_select(%all, %zero, %columns)
  %terms : Tensor = aten::mul(%picked, %elements)
  %to : int[] = prim::ListConstruct(%height)
  %nothing : Tensor = aten::new_zeros(%elements, %to, %none, %none, %none, %none)
  %y : Tensor = aten::index_add(%nothing, %zero, %rows, %terms, %one)
)";

// beta * added, of which a beta of 0 leaves nothing, + alpha * product
constexpr std::string_view kSumWithProduct = R"(
  %height : int, %depth : int = prim::ListUnpack(%size)
  %sizes : int[] = aten::size(%x)
  %given : int, %width : int = prim::ListUnpack(%sizes)
  %from : int[] = prim::ListConstruct(%depth, %width)
  %all : Tensor = aten::reshape(%x, %from)
  %picked : Tensor = aten::index_select(%all, %zero, %columns)
  %factors : Tensor = aten::unsqueeze(%elements, %one)
  %terms : Tensor = aten::mul(%picked, %factors)
  %tall : int[] = prim::ListConstruct(%height, %zero)
  %left : Tensor = aten::new_zeros(%elements, %tall, %none, %none, %none, %none)
  %wide : int[] = prim::ListConstruct(%zero, %width)
  %right : Tensor = aten::new_zeros(%elements, %wide, %none, %none, %none, %none)
  %kept : Tensor = aten::addmm(%added, %left, %right, %beta, %one)
  %dtype : int = prim::dtype(%elements)
  %factor : Tensor = aten::scalar_tensor(%alpha, %dtype, %none, %none, %none)
  %scaled : Tensor = aten::mul(%terms, %factor)
  %y : Tensor = aten::index_add(%kept, %zero, %rows, %scaled, %one)
)";

// The matrix is the right factor.
constexpr std::string_view kOnTheRight = R"(
  %height : int, %depth : int = prim::ListUnpack(%size)
  %sizes : int[] = aten::size(%x)
  %count : int, %given : int = prim::ListUnpack(%sizes)
  %from : int[] = prim::ListConstruct(%count, %height)
  %all : Tensor = aten::reshape(%x, %from)
  %picked : Tensor = aten::index_select(%all, %one, %rows)
  %terms : Tensor = aten::mul(%picked, %elements)
  %to : int[] = prim::ListConstruct(%count, %depth)
  %nothing : Tensor = aten::new_zeros(%elements, %to, %none, %none, %none, %none)
  %y : Tensor = aten::index_add(%nothing, %one, %columns, %terms, %one)
)";

constexpr std::string_view kOfVectorOnTheRight = R"(
  %height : int, %depth : int = prim::ListUnpack(%size)
  %from : int[] = prim::ListConstruct(%height)
  %all : Tensor = aten::reshape(%x, %from)
  %picked : Tensor = aten::index_select(%all, %zero, %rows)
  %terms : Tensor = aten::mul(%picked, %elements)
  %to : int[] = prim::ListConstruct(%depth)
  %nothing : Tensor = aten::new_zeros(%elements, %to, %none, %none, %none, %none)
  %y : Tensor = aten::index_add(%nothing, %zero, %columns, %terms, %one)
)";

constexpr std::string_view kSum = R"(
  %y : Tensor = aten::sum(%elements, %none)
)";

constexpr std::string_view kDense = R"(
  %yes : bool = prim::Constant[value=1]()
  %nothing : Tensor = aten::new_zeros(%elements, %size, %none, %none, %none, %none)
  %at : Tensor?[] = prim::ListConstruct(%rows, %columns)
  %y : Tensor = aten::index_put(%nothing, %at, %elements, %yes)
)";

// A dense matrix and a sparse one.
constexpr std::string_view kAdded = R"(
  %yes : bool = prim::Constant[value=1]()
  %nothing : Tensor = aten::new_zeros(%elements, %size, %none, %none, %none, %none)
  %at : Tensor?[] = prim::ListConstruct(%rows, %columns)
  %dense : Tensor = aten::index_put(%nothing, %at, %elements, %yes)
  %y : Tensor = aten::add(%x, %dense, %alpha)
)";

const Form kForms[] = {
    {Symbol::of("aten::_sparse_mm"), 0, "x", kProduct},
    {Symbol::of("aten::mm"), 0, "x", kProduct},
    {Symbol::of("aten::mm"), 1, "x", kOnTheRight},
    {kMatmul, 0, "x", kProduct},
    {kMatmul, 1, "x", kOnTheRight},
    {Symbol::of("aten::mv"), 0, "x", kOfVector},
    {Symbol::of("aten::addmm"), 1, "added x beta alpha", kSumWithProduct},
    {Symbol::of("aten::_sparse_addmm"), 1, "added x beta alpha", kSumWithProduct},
    {Symbol::of("aten::sum"), 0, "", kSum},
    {kSumOfOnce, 0, "", kSum},
    {Symbol::of("aten::to_dense"), 0, "", kDense},
    {Symbol::of("aten::add"), 1, "x alpha", kAdded},
};

const Form* formOf(Symbol kind, size_t matrixAt) {
  auto at = std::ranges::find_if(kForms, [&](const Form& f) { return f.kind == kind && f.matrixAt == matrixAt; });
  return at == std::end(kForms) ? nullptr : at;
}

bool areNone(const Node* n, size_t from) {
  for (size_t i = from; i < n->inputCount(); ++i)
    if (!n->input(i)->type()->is(TypeKind::None)) return false;
  return true;
}

bool isConstant(const Value* v, int64_t number) {
  const IValue* known =
      v->node() && v->node()->kind() == sym::Constant ? v->node()->attributeValue(sym::value) : nullptr;
  return known && known->isInt() && known->toInt() == number;
}

struct SparseMatrix {
  Value *places, *elements, *size;
  bool isOrdered = false;  // places are in order, and none of them is there twice
  int64_t layout = kLayoutOfPlaces;
};

class SparseProducts {
 public:
  explicit SparseProducts(Graph& graph) : graph_(graph) {}

  void run() {
    spellOutSparseFunctions(graph_, isMatrix);
    std::vector<Node*> made;
    forEachNode(graph_, [&](Node* n) {
      if (makesMatrix(n) && isUnderstood(n->output())) made.push_back(n);
    });
    for (Node* n : made) {
      replaceUses(n->output(), n->kind() == kMake ? given(n) : isMadeOfRows(n) ? ofRows(n) : ofDense(n));
      n->destroy();
    }
  }

 private:
  static bool makesMatrix(const Node* n) {
    if (n->outputCount() != 1 || !n->output()->hasUses()) return false;
    if (n->kind() == kOfDense || n->kind() == kToRows)
      return n->inputCount() > 0 && areNone(n, 1) && !isMatrix(n->input(0));
    if (isMadeOfRows(n)) return true;
    return n->kind() == kMake && n->inputCount() >= 4 && n->input(0)->type()->isTensor() &&
           n->input(1)->type()->isTensor() && n->input(2)->type()->is(TypeKind::List);
  }

  static bool isMadeOfRows(const Node* n) {
    if (n->inputCount() < 6 || !n->input(3)->type()->is(TypeKind::List)) return false;
    return n->kind() == kMakeRows || (n->kind() == kMakeCompressed && isConstant(n->input(5), kLayoutOfRows));
  }

  static bool isMatrix(const Value* v) {
    for (const Node* n = v->node(); n; n = n->input(0)->node()) {
      const Symbol k = n->kind();
      if (k == kMake || k == kOfDense || k == kToRows || isMadeOfRows(n)) return true;
      if (!keepsMatrix(n)) return false;
    }
    return false;
  }

  static bool keepsMatrix(const Node* n) {
    if (n->kind() == kToRows) return n->inputCount() > 0 && areNone(n, 1);
    return isTurn(n) || mapsElements(n) || (n->kind() == kCoalesce && n->inputCount() == 1);
  }
  static bool mapsElements(const Node* n) {
    return isScaling(n) || (n->inputCount() > 0 && std::ranges::count(kOfElements, n->kind()) != 0);
  }
  static bool isScaling(const Node* n) {
    if ((n->kind() != kTimes && n->kind() != kDivided) || n->inputCount() != 2) return false;
    const Value* by = n->input(1);
    if (by->type()->is(TypeKind::Int) || by->type()->is(TypeKind::Float)) return true;
    const IValue* known =
        by->node() && by->node()->kind() == sym::Constant ? by->node()->attributeValue(sym::value) : nullptr;
    return known && known->isTensor() && known->toTensor().sizes().empty();
  }
  static bool isTurn(const Node* n) {
    const auto is = [&](size_t i, int64_t dim) {
      return isConstant(n->input(i), dim) || isConstant(n->input(i), dim - 2);
    };
    if (n->kind() == kTranspose && n->inputCount() == 3) return (is(1, 0) && is(2, 1)) || (is(1, 1) && is(2, 0));
    return n->kind() == kTurn && n->inputCount() == 1;
  }

  // Whether each use is one that can be said by elements and their places.
  static bool isUnderstood(const Value* made) {
    std::vector<std::pair<const Value*, bool>> open{{made, made->node()->kind() != kMake}};
    while (!open.empty()) {
      auto [matrix, isOrdered] = open.back();
      open.pop_back();
      for (const Use& use : matrix->uses()) {
        if (keepsMatrix(use.user) && use.index() == 0)
          open.emplace_back(use.user->output(), !isTurn(use.user) && (isOrdered || !mapsElements(use.user)));
        else if (!isRead(use.user, isOrdered) && !isSaid(use, matrix))
          return false;
      }
    }
    return true;
  }

  static bool isRead(const Node* n, bool isOrdered) {
    const Symbol k = n->kind();
    if (k == kSizeOf) return n->inputCount() <= 2;
    if (std::ranges::count(kToldByElements, k) != 0 || k == kRank || k == kIsSparse || k == kIsByRows)
      return n->inputCount() == 1;
    return (isOrdered && (k == kElements || k == kPlacesOf)) || k == kGivenElements || k == kGivenPlaces || k == kCount;
  }

  static bool isSaid(const Use& use, const Value* matrix) {
    const Node* user = use.user;
    const Form* form = formOf(user->kind(), use.index());
    if (!form || user->outputCount() != 1 || user->inputCount() <= form->operandCount()) return false;
    for (size_t i = 0; i <= form->operandCount(); ++i)
      if (i != form->matrixAt && (user->input(i) == matrix || isMatrix(user->input(i)))) return false;
    return areNone(user, form->operandCount() + 1);
  }

  Value* inDType(Node* n, Value* elements, Value* dtype) {
    if (dtype->type()->is(TypeKind::None)) return elements;
    Builder b = before(n);
    Value* no = b.constant(IValue(false));
    return b.call("aten::to", {elements, dtype, no, no, b.constant(IValue(), types().none)});
  }

  SparseMatrix given(Node* n) { return {n->input(0), inDType(n, n->input(1), n->input(3)), n->input(2)}; }

  // By where each row begins among the columns and elements.
  SparseMatrix ofRows(Node* n) {
    Builder b = before(n);
    Value *none = b.constant(IValue(), types().none), *one = b.constant(IValue(int64_t{1}));
    Value* counts = b.call("aten::diff", {n->input(0), one, b.constant(IValue(int64_t{-1})), none, none});
    Value* both[] = {b.call("aten::repeat_interleave", {counts, none}), n->input(1)};
    Value* places = b.call("aten::stack", {b.list(both, types().tensor), b.constant(IValue(int64_t{0}))});
    return {places, inDType(n, n->input(2), n->input(4)), n->input(3), true, kLayoutOfRows};
  }

  // Its elements are those that are not zero.
  SparseMatrix ofDense(Node* n) {
    Builder b = before(n);
    Value* x = n->input(0);
    Value* places = b.call("aten::t", {b.call("aten::nonzero", {x})});
    Value* elements = b.call("aten::masked_select", {x, b.call("aten::ne", {x, b.constant(IValue(int64_t{0}))})});
    const int64_t layout = n->kind() == kToRows ? kLayoutOfRows : kLayoutOfPlaces;
    return {places, elements, b.call("aten::size", {x}, types().intList), true, layout};
  }

  // What is written to the parts later is not seen in the copy.
  SparseMatrix copied(Node* n, const SparseMatrix& m) {
    Builder b = before(n);
    auto copy = [&](Value* v) { return b.call("aten::clone", {v, b.constant(IValue(), types().none)}); };
    return {copy(m.places), copy(m.elements), m.size};
  }

  // In the order of places, none of which is there twice.
  SparseMatrix ordered(Node* n, const SparseMatrix& m) {
    Builder b = before(n);
    Value *zero = b.constant(IValue(int64_t{0})), *one = b.constant(IValue(int64_t{1}));
    Value *yes = b.constant(IValue(true)), *no = b.constant(IValue(false)), *none = b.constant(IValue(), types().none);
    Value* width = sizesOf(b, m)[1];
    Value* wide = b.constant(IValue(static_cast<int64_t>(DType::Int64)));
    auto at = [&](Value* i) {
      return b.call("aten::to", {b.call("aten::select", {m.places, zero, i}), wide, no, no, none});
    };
    Value* keys = b.call("aten::add", {b.call("aten::mul", {at(zero), width}), at(one), one});
    Node* found = b.insert(Symbol::of("aten::_unique2"), {keys, yes, yes, no}, 3);
    Value* mode = b.constant(IValue(std::string("floor")));
    Value* both[] = {b.call("aten::div", {found->output(0), width, mode}),
                     b.call("aten::remainder", {found->output(0), width})};
    Value* count[] = {b.call("aten::numel", {found->output(0)}, types().integer)};
    Value* nothing = b.call("aten::new_zeros", {m.elements, b.list(count, types().integer), none, none, none, none});
    return {b.call("aten::stack", {b.list(both, types().tensor), zero}),
            b.call("aten::index_add", {nothing, zero, found->output(1), m.elements, one}), m.size, true};
  }

  // The two sizes of a matrix; of other tensors that fails.
  static std::array<Value*, 2> sizesOf(Builder& b, const SparseMatrix& m) {
    const Node* both = b.insert(sym::ListUnpack, {m.size}, 2);
    for (Value* size : both->outputs()) size->setType(types().integer);
    return {both->output(0), both->output(1)};
  }

  static bool isReadInOrder(const Value* matrix) {
    std::vector<const Value*> open{matrix};
    while (!open.empty()) {
      matrix = open.back();
      open.pop_back();
      for (const Use& use : matrix->uses()) {
        if (keepsMatrix(use.user)) open.push_back(use.user->output());
        const Symbol k = use.user->kind();
        if (k == kElements || k == kPlacesOf || k == kGivenElements || k == kGivenPlaces || k == kCount) return true;
      }
    }
    return false;
  }

  Value* read(Node* n, const SparseMatrix& m) {
    const Symbol k = n->kind();
    if (k == kElements || k == kGivenElements) return m.elements;
    if (k == kPlacesOf || k == kGivenPlaces) return m.places;
    Builder b = before(n);
    if (k == kIsSparse) return b.constant(IValue(m.layout == kLayoutOfPlaces));
    if (k == kIsByRows) return b.constant(IValue(m.layout == kLayoutOfRows));
    if (k == kRank) return b.call("aten::len", {m.size}, types().integer);
    if (std::ranges::count(kToldByElements, k) != 0) return b.call(k.text(), {m.elements}, n->output()->type());
    if (k == kCount) return b.call("aten::size", {m.elements, b.constant(IValue(int64_t{0}))}, types().integer);
    if (n->inputCount() == 1) return m.size;
    return b.call("aten::__getitem__", {m.size, n->input(1)}, types().integer);
  }

  SparseMatrix mapped(Node* n, const SparseMatrix& m) {
    Node* made = before(n).insert(n->kind(), {m.elements});
    for (size_t i = 1; i < n->inputCount(); ++i) made->addInput(n->input(i));
    return {m.places, made->output(), m.size, m.isOrdered, m.layout};
  }

  SparseMatrix turned(Node* n, const SparseMatrix& m) {
    Builder b = before(n);
    Value* zero = b.constant(IValue(int64_t{0}));
    const Node* rows = b.insert(sym::ListUnpack, {b.call("aten::unbind", {m.places, zero}, types().tensorList)}, 2);
    Value* turned[] = {rows->output(1), rows->output(0)};
    const std::array<Value*, 2> sizes = sizesOf(b, m);
    Value* size[] = {sizes[1], sizes[0]};
    const int64_t layout = m.layout == kLayoutOfRows      ? kLayoutOfColumns
                           : m.layout == kLayoutOfColumns ? kLayoutOfRows
                                                          : m.layout;
    Value* places = b.call("aten::stack", {b.list(turned, types().tensor), zero});
    return {places, m.elements, b.list(size, types().integer), false, layout};
  }

  SparseMatrix kept(Node* n, const SparseMatrix& m) {
    if (isTurn(n)) return turned(n, m);
    if (mapsElements(n)) return mapped(n, m);
    SparseMatrix made = m.isOrdered ? m : isReadInOrder(n->output()) ? ordered(n, m) : copied(n, m);
    if (n->kind() == kToRows) made.layout = kLayoutOfRows;
    return made;
  }

  void replaceUses(Value* made, const SparseMatrix& given) {
    std::vector<std::pair<Value*, SparseMatrix>> open{{made, given}};
    std::vector<Node*> gone;
    while (!open.empty()) {
      auto [matrix, m] = open.back();
      open.pop_back();
      for (const Use& use : matrix->uses()) gone.push_back(use.user);
      for (size_t i = gone.size() - matrix->useCount(); i < gone.size(); ++i) {
        Node* n = gone[i];
        if (keepsMatrix(n))
          open.emplace_back(n->output(), kept(n, m));
        else if (isRead(n, true))
          n->output()->replaceAllUsesWith(read(n, m));
        else
          n->output()->replaceAllUsesWith(computed(n, n->input(0) == matrix ? 0 : 1, m));
      }
    }
    for (size_t i = gone.size(); i-- > 0;) gone[i]->destroy();
  }

  Value* computed(Node* n, size_t matrixAt, const SparseMatrix& m) {
    const Form& form = *formOf(n->kind(), matrixAt);
    // Of bools that are there twice, one is summed.
    if (form.kind == kSumOfOnce && !m.isOrdered) return insert(form, form.body, n, n, ordered(n, m));
    if (form.kind != kMatmul) return insert(form, form.body, n, n, m);
    Builder b = before(n);
    Value* rank = b.call("aten::dim", {n->input(1 - matrixAt)}, types().integer);
    Value* isVector = b.call("aten::eq", {rank, b.constant(IValue(int64_t{1}))}, types().boolean);
    Node* choice = b.insert(sym::If, {isVector});
    for (std::string_view body : {matrixAt == 0 ? kOfVector : kOfVectorOnTheRight, form.body}) {
      Block* branch = choice->addBlock();
      branch->addResult(insert(form, body, branch->returnNode(), n, m));
    }
    return choice->output();
  }

  // The nodes of a text in front of `point`, at the place of `n` in the source.
  static Value* insert(const Form& form, std::string_view body, Node* point, const Node* n, const SparseMatrix& m) {
    NamedOperands operands{{"places", m.places}, {"elements", m.elements}, {"size", m.size}};
    std::istringstream names{std::string(form.operands)};
    for (std::string name; names >> name;) {
      const size_t i = operands.size() - 3;
      operands.emplace_back(name, n->input(i < form.matrixAt ? i : i + 1));
    }
    return insertText(std::string(kPlaces).append(body), operands, point, n);
  }

  Builder before(Node* n) {
    Builder b(graph_, n);
    b.setPlaceOf(n);
    return b;
  }

  Graph& graph_;
};

void spellOut(Graph* graph) {
  if (!graph) return;
  const Symbol makers[] = {kMake, kOfDense, kToRows, kMakeRows, kMakeCompressed};
  if (std::ranges::any_of(makers, [&](Symbol k) { return graph->kinds().count(k) != 0; })) SparseProducts(*graph).run();
}

}  // namespace

void makeSparseAttributes(Graph& graph, const SparseAttributes& attributes) {
  std::vector<Node*> read;
  forEachNode(graph, [&](Node* n) {
    const IValue* name = n->kind() == sym::GetAttr ? n->attributeValue(sym::name) : nullptr;
    if (!name || n->inputCount() != 1) return;
    const std::pair attribute(n->input(0)->type(), Symbol::of(name->toString()));
    if (std::ranges::find(attributes, attribute) != attributes.end()) read.push_back(n);
  });
  for (Node* n : read) {
    Builder b(graph, n);
    b.setPlaceOf(n);
    const std::string name(n->attributeValue(sym::name)->toString());
    auto part = [&](std::string_view end, TypePtr type) {
      Node* made = b.insert(sym::GetAttr, {n->input(0)});
      made->setAttribute(sym::name, IValue(name + std::string(end)));
      made->output()->setType(type);
      return made->output();
    };
    Value* none = b.constant(IValue(), types().none);
    Value* matrix = b.call(kMake, {part(kSparsePlaces, types().tensor), part(kSparseElements, types().tensor),
                                   part(kSparseSize, types().intList), none, none, none, none});
    n->output()->replaceAllUsesWith(matrix);
    n->destroy();
  }
}

void spellOutSparseProducts(const ParsedText& text) {
  for (const auto& graph : text.graphs) spellOut(graph.get());
  if (!text.module) return;
  for (const DumpedModule& m : text.module->modules)
    for (const DumpedMethod& method : m.methods) spellOut(method.graph.get());
  for (const DumpedMethod& f : text.module->functions) spellOut(f.graph.get());
}

}  // namespace tscompile
