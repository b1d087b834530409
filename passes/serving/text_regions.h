// A graph of one text, run on a few of them: which dimensions of its values are tokens, what each of them is computed
// from, and whether the rows of a piece of a text can be computed from those of the piece.
#pragma once

#include "ir/graph/clone.h"
#include "passes/rewrite/rewrite.h"
#include "passes/serving/entrance.h"

#include <array>
#include <map>
#include <vector>

namespace tscompile {

// Of a value, the rows of all tokens. Else a form is the dimension along which there are those of the last ones only.
inline constexpr int kAllRows = -1;

// What a value is computed by, from the nearest values that have a row for each token.
struct TextRegion {
  const Value* value = nullptr;
  std::vector<Node*> nodes = {};           // in their order, with those that write what is read
  std::vector<const Value*> rows = {};     // values that have rows of tokens, each once
  std::vector<const Value*> weights = {};  // that no text changes
};

// An input of a node that may take what an output gave for the tokens before.
struct CarriedInput {
  const Node* node;
  size_t slot;
  std::optional<size_t> element;  // of the list that is the input
  size_t output;
};

class TextRegions {
 public:
  // The graph's inputs are those of the entrance. Texts have at most `longest` tokens, each one of `words`.
  TextRegions(RewriteContext& context, const Entrance& entrance, int64_t words, int64_t longest);
  // Runs the texts; false if one does not run, or the graph is one whose parts cannot be taken out of it.
  bool run();

  bool dependsOnText(const Value* v) const { return depends_.get(v); }
  // The dimensions that have as many rows as there are tokens, of a value that depends on the text and has no other
  // dimension that does. None: it is no such value.
  const std::vector<int>& dims(const Value* v) const;
  // Whether it depends on what the tokens are, not only on how many there are.
  bool isData(const Value* v) const;
  // Whether rows stay what they are when more tokens come.
  bool isCausal(const Value* v) const;
  // What a run gave; null: nothing is known.
  const IValue* sample(const Value* v) const { return recorded(v, 0); }

  // So many tokens before a piece are told from all of them.
  int64_t mostBefore() const;

  // Without nodes if there are too many.
  TextRegion regionOf(const Value* v) const;
  // Whether all that is computed are views.
  bool isView(const TextRegion& region) const;

  // Whether `forms` of the region's rows give the value's rows along `dim`, or with kAllRows all of a value that has
  // none.
  bool givesRows(const TextRegion& region, const std::vector<int>& forms, int dim) const;
  // The same of rows of one dimension each, if `before` rows of earlier tokens are put in front and as many rows of the
  // result dropped.
  bool givesRowsAfter(const TextRegion& region, const std::vector<int>& forms, int64_t before, int dim) const;
  // The same if the value's last row before is put in front of the only rows that it is computed from.
  bool isScan(const TextRegion& region, const std::vector<int>& forms, int dim) const;
  // The inputs that make it so, or with kAllRows give a value that has no rows, if they take what the tokens before
  // left; none: there are no such.
  std::vector<CarriedInput> carriedInputs(const TextRegion& region, const std::vector<int>& forms, int dim) const;

 private:
  static constexpr size_t kRuns = 6;  // of texts, and after each of its beginning
  // The last tokens of a text, what all of it is computed from, and what it comes to.
  struct Piece {
    int64_t begin, end;
    std::vector<Tensor> rows;
    Tensor result;
  };
  const IValue* recorded(const Value* v, size_t run) const;
  // Undefined if it is none, or of a dtype that cannot be compared.
  Tensor tensor(const Value* v, size_t run) const;
  std::vector<IValue> inputsOf(size_t run) const;
  bool record();
  void findWriters();
  void classify();
  std::vector<int> dimsOf(const Value* v) const;
  bool isAlike(const Value* v) const;
  std::optional<std::vector<Piece>> piecesOf(const TextRegion& region) const;
  // What the test says of all pieces.
  template <class Test>
  bool inAllPieces(const TextRegion& region, Test&& test) const;
  std::vector<CarriedInput> candidates(const TextRegion& region) const;
  std::optional<std::vector<IValue>> compute(const TextRegion& region, const std::vector<Tensor>& rows,
                                             const std::vector<CarriedInput>& outputs = {},
                                             const std::vector<IValue>* carried = nullptr) const;

  RewriteContext& context_;
  const Entrance& entrance_;
  int64_t words_, longest_;
  std::array<int64_t, kRuns> lengths_{};
  ValueTable<uint32_t> slots_;  // in what was recorded, counted from 1
  std::array<std::vector<IValue>, kRuns> recorded_;
  ValueTable<bool> depends_;  // on the inputs
  ValueTable<bool> written_;
  std::map<const Value*, std::vector<int>> dims_;
  std::vector<Node*> writers_;  // nodes that write memory
  // Of the region that was last asked for.
  mutable std::pair<const Value*, std::optional<std::vector<Piece>>> pieces_;
};

// The dimension along which a tensor that had nothing got something; nothing if there is no such.
std::optional<int> grownDim(const Tensor& before, const Tensor& after);

// Copies a region to where the builder stands. `values` has what its rows and weights are there. `carried` takes the
// place of these inputs.
void cloneRegion(const TextRegion& region, Builder& to, ValueMap& values, const std::vector<CarriedInput>& inputs = {},
                 const std::vector<Value*>& carried = {});

}  // namespace tscompile
