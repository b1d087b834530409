// A loop over the rows of tensors whose results are stacked: what `map`, `scan` and `vmap` are in a graph.
#pragma once

#include "frontend/export/export_builder.h"

#include <span>
#include <vector>

namespace tscompile::exported {

class RowLoop {
 public:
  // `carried` are values at first; `stacked` is how many rows each iteration gives. A count that is only known at run
  // time may be 0 if `mayBeEmpty`.
  RowLoop(ExportBuilder& builder, Value* count, std::span<Value* const> carried, size_t stacked,
          bool mayBeEmpty = false);

  Block* body() const { return body_; }
  Value* index() const { return body_->parameter(0); }
  std::vector<Value*> carried() const;
  // At the end of the body. False after a report.
  bool finish(std::span<Value* const> carried, std::span<Value* const> rows, Json at);
  // After the loop: what was carried at last, then the rows stacked along these dimensions.
  bool results(std::span<const int64_t> dims, std::vector<Value*>& out, Json at);

 private:
  const IValue* knownCount() const;
  bool knowsRow(size_t i) const;
  Value* noRows(size_t i, int64_t dim, Json at);
  Value* joined(size_t i, int64_t dim, Json at);

  ExportBuilder& b_;
  Node* loop_ = nullptr;
  Block* body_ = nullptr;
  std::vector<Value*> lists_, rows_;
  bool mayBeEmpty_;
};

// `aten::select(t, dim, index)`; null after a report.
Value* rowOf(ExportBuilder& builder, Value* tensor, int64_t dim, Value* index, Json at);

}  // namespace tscompile::exported
