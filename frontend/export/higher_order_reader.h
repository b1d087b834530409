// One node of a higher order operator: its graphs, what they take, and the names of what the node gives.
#pragma once

#include "frontend/export/export_builder.h"

#include <span>
#include <vector>

namespace tscompile::exported {

class HigherOrderReader {
 public:
  HigherOrderReader(ExportBuilder& builder, Json node);

  // cond(predicate, graph if true, graph if false, operands)
  bool readCondition();
  // wrap(settings..., graph, operands...): the graph runs once, here.
  bool readRegion();
  // wrap_with_autocast(device, dtype, enabled, cache, graph, operands...)
  bool readAutocast();
  // with_effects(token, operator, arguments...): tokens keep an order that a graph has anyhow.
  bool readEffects();
  // while_loop(condition, body, carried, more): the graphs take all of carried and more.
  bool readWhile();
  // map_impl(body, sequences, more): the body for each row of the sequences, its results stacked.
  bool readMap();
  // scan(body, carried, sequences, more): the body gives what is carried on, then rows that are stacked.
  bool readScan();

 private:
  bool isGraph(size_t i) const { return i < arguments_.size() && arguments_[i] && arguments_[i].key() == "as_graph"; }
  Json inputAt(size_t i) const { return inputs_[i].find("arg"); }
  bool isCount(size_t n);  // of arguments; reports others
  bool readOperands(size_t from);
  bool bindInputs(Json graph);
  // The graph's nodes where the builder is, given operands_, and what they return.
  bool readGraph(Json argument, std::vector<Value*>& results);
  Value* readPredicate(Json graph);
  bool bindNames(std::span<Value* const> values);
  bool readRows(std::vector<Value*> carried, size_t sequences, size_t more);

  ExportBuilder& b_;
  Json node_;
  std::vector<Json> inputs_;
  std::vector<Json> arguments_;
  std::vector<Json> outputs_;
  std::vector<Json> names_;  // of the outputs
  std::vector<Value*> operands_;
};

}  // namespace tscompile::exported
