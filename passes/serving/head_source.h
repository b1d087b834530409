// Finds what the heads of attention are views of: rows with all heads side by side, or heads of their own.
#pragma once

#include "passes/serving/small_instance.h"

#include <optional>
#include <vector>

namespace tscompile {

// Where queries, keys or values lie in the graph before they are brought into the form [batch, heads, tokens, size].
struct HeadSource {
  enum class Form : uint8_t {
    Rows,          // [batch, tokens, columns], heads side by side from column `first` on
    HeadsInside,   // [batch, tokens, heads, size]
    HeadsOutside,  // [batch, heads, tokens, size]
  };
  Value* value = nullptr;
  Form form = Form::Rows;
  int64_t heads = 0, size = 0, first = 0, columns = 0;
  bool isGrouped = false;  // heads have two dimensions there: groups, and those of each
  bool operator==(const HeadSource&) const = default;
};

class HeadSources {
 public:
  // The instances differ in all sizes that may differ, and live longer.
  HeadSources(RewriteContext& context, const SmallInstance& a, const SmallInstance& b)
      : context_(context), instances_{&a, &b} {}

  // The first value that heads [batch, heads, tokens, size] are views or copies of, whatever dimensions these are split
  // into or joined in; `swapped`: with the last two in the other order. Groups of heads that are the same are one head.
  // `product`: of matrices, which repeats heads as its other operand has them; or null. `count`: of heads that there
  // are to be, those that are the same as well; 0: any.
  std::optional<HeadSource> source(Value* heads, bool swapped, const Value* product, int64_t count = 0);
  // If the rows are columns of a larger matrix: there.
  void widen(HeadSource& rows);
  // A value [batch, tokens, heads * size] that is nothing but these heads in other order; null if there is none.
  Value* inRows(Value* heads, int64_t count, int64_t size);

 private:
  std::vector<Value*> pathBehind(Value* value);
  std::optional<HeadSource> describe(Value* candidate, Value* heads, bool swapped, const Value* product,
                                     const SmallInstance& instance);
  std::optional<int64_t> firstColumn(Value* matrix, Value* rows, const SmallInstance& instance);

  RewriteContext& context_;
  const SmallInstance* instances_[2];
};

}  // namespace tscompile
