#include "frontend/export/row_loop.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile::exported {
namespace {

// A loop may carry tensors of other sizes in each iteration.
TypePtr anySizes(TypePtr t) { return t->isTensor() ? types().tensor : t; }

}  // namespace

RowLoop::RowLoop(ExportBuilder& builder, Value* count, std::span<Value* const> carried, size_t stacked, bool mayBeEmpty)
    : b_(builder), mayBeEmpty_(mayBeEmpty) {
  for (size_t i = 0; i < stacked; ++i) lists_.push_back(b_.list({}, types().tensor));
  std::vector<Value*> inputs{count, b_.constant(IValue(true))};
  inputs.insert(inputs.end(), carried.begin(), carried.end());
  loop_ = b_.insert(sym::Loop, inputs, 0);
  body_ = loop_->addBlock();
  body_->addParameter(types().integer);
  for (Value* v : carried) body_->addParameter(anySizes(v->type()));
}

std::vector<Value*> RowLoop::carried() const {
  std::vector<Value*> out;
  for (size_t i = 1; i < body_->parameters().size(); ++i) out.push_back(body_->parameter(i));
  return out;
}

bool RowLoop::finish(std::span<Value* const> carried, std::span<Value* const> rows, Json at) {
  if (carried.size() + 1 != body_->parameters().size() || rows.size() != lists_.size())
    return b_.fail(at, "the graph does not return as many values as the node has");
  rows_.assign(rows.begin(), rows.end());
  mayBeEmpty_ = mayBeEmpty_ && !knownCount();
  for (size_t i = 0; i < rows.size(); ++i) {
    Value* row = rows[i];
    if (mayBeEmpty_ && knowsRow(i)) row = b_.call("aten::unsqueeze", {row, b_.constant(IValue(int64_t{0}))}, at);
    if (!row || !b_.call("aten::append", {lists_[i], row}, at)) return false;
  }
  body_->addResult(b_.constant(IValue(true)));
  for (size_t i = 0; i < carried.size(); ++i) {
    TypePtr type = body_->parameter(i + 1)->type();
    if (anySizes(carried[i]->type()) != type)
      return b_.fail(at, fmt::format("the value {} that is carried becomes one of another type", i));
    body_->addResult(carried[i]);
    loop_->addOutput(type);
  }
  return true;
}

const IValue* RowLoop::knownCount() const {
  const Node* count = loop_->input(0)->node();
  const IValue* trips = count ? count->attributeValue(sym::value) : nullptr;
  return trips && trips->isInt() ? trips : nullptr;
}

bool RowLoop::knowsRow(size_t i) const {
  const TensorFacts& row = rows_[i]->type()->tensor();
  return row.hasRank && row.dtype != DType::Undefined &&
         std::none_of(row.sizes.begin(), row.sizes.end(), [](int64_t size) { return size < 0; });
}

// What stacking no rows gives, if the body tells what one would be: stack() takes at least one.
Value* RowLoop::noRows(size_t i, int64_t dim, Json at) {
  const TensorFacts& row = rows_[i]->type()->tensor();
  if (!knowsRow(i) || dim < 0 || dim > static_cast<int64_t>(row.sizes.size())) return nullptr;
  Dims sizes(row.sizes.begin(), row.sizes.end());
  sizes.insert(static_cast<size_t>(dim), 0);
  Value* none = b_.constant(IValue());
  return b_.call("aten::zeros",
                 {b_.constant(intList(sizes)), b_.constant(IValue(static_cast<int64_t>(row.dtype))), none, none, none},
                 at);
}

// Of rows that may be none: these and an empty one, joined.
Value* RowLoop::joined(size_t i, int64_t dim, Json at) {
  Value *empty = noRows(i, 0, at), *first = b_.constant(IValue(int64_t{0}));
  if (!empty || !b_.call("aten::append", {lists_[i], empty}, at)) return nullptr;
  Value* out = b_.call("aten::cat", {lists_[i], first}, at);
  return out && dim != 0 ? b_.call("aten::movedim", {out, first, b_.constant(IValue(dim))}, at) : out;
}

bool RowLoop::results(std::span<const int64_t> dims, std::vector<Value*>& out, Json at) {
  out.insert(out.end(), loop_->outputs().begin(), loop_->outputs().end());
  const IValue* trips = knownCount();
  for (size_t i = 0; i < lists_.size(); ++i) {
    Value* stacked = trips && trips->toInt() == 0 ? noRows(i, dims[i], at)
                     : mayBeEmpty_ && knowsRow(i) ? joined(i, dims[i], at)
                                                  : nullptr;
    if (!stacked) stacked = b_.call("aten::stack", {lists_[i], b_.constant(IValue(dims[i]))}, at);
    if (!stacked) return false;
    out.push_back(stacked);
  }
  return true;
}

Value* rowOf(ExportBuilder& b, Value* tensor, int64_t dim, Value* index, Json at) {
  return b.call("aten::select", {tensor, b.constant(IValue(dim)), index}, at);
}

}  // namespace tscompile::exported
