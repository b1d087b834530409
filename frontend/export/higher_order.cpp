#include "frontend/export/higher_order.h"

#include "frontend/export/arguments.h"
#include "frontend/export/graph_reader.h"
#include "frontend/export/symbolic_nodes.h"
#include "ir/support/text.h"

#include <fmt/core.h>

namespace tscompile::exported {
namespace {

class HigherOrderReader {
 public:
  HigherOrderReader(ExportBuilder& builder, Json node) : b_(builder), node_(node) {
    for (Json input : items(node.find("inputs"))) arguments_.push_back(alternative(input.find("arg")));
    for (Json output : items(node.find("outputs")))
      for (Json name : namesOf(output)) names_.push_back(name);
  }

  // cond(predicate, graph if true, graph if false, operands)
  bool readCondition();
  // wrap(settings..., graph, operands...): the graph runs once, here.
  bool readRegion();
  // Whether the argument at this place is `as_bool: true`.
  bool isTrue(size_t i) const {
    return i < arguments_.size() && arguments_[i].is(JsonTree::Kind::Bool) && arguments_[i].truth();
  }

 private:
  bool isGraph(size_t i) const { return i < arguments_.size() && arguments_[i] && arguments_[i].key() == "as_graph"; }
  Json inputAt(size_t i) const { return items(node_.find("inputs"))[i].find("arg"); }
  bool readOperands(size_t from);
  bool bindInputs(Json graph);
  // The graph's nodes where the builder is, and what they return.
  bool readGraph(Json argument, std::vector<Value*>& results);
  bool bindNames(std::span<Value* const> values);

  ExportBuilder& b_;
  Json node_;
  std::vector<Json> arguments_;
  std::vector<Json> names_;  // of the outputs
  std::vector<Value*> operands_;
};

bool HigherOrderReader::readOperands(size_t from) {
  for (size_t i = from; i < arguments_.size(); ++i)
    if (!readItems(b_, inputAt(i), operands_)) return false;
  return true;
}

bool HigherOrderReader::bindInputs(Json graph) {
  std::vector<Json> inputs = items(graph.find("inputs"));
  if (inputs.size() != operands_.size())
    return b_.fail(graph, fmt::format("the graph takes {}, but {} given", counted(inputs.size(), "input"),
                                      operands_.size() == 1 ? "1 is" : std::to_string(operands_.size()) + " are"));
  for (size_t i = 0; i < inputs.size(); ++i)
    for (Json name : namesOf(inputs[i])) b_.bind(textOf(name), operands_[i]);
  return true;
}

bool HigherOrderReader::readGraph(Json argument, std::vector<Value*>& results) {
  Json graph = argument.find("graph");
  b_.enterScope(graph);
  bool good = bindInputs(graph) && readNodes(b_, graph);
  for (Json output : items(graph.find("outputs"))) {
    if (!good) break;
    Value* v = readFreeArgument(b_, output);
    good = v != nullptr;
    results.push_back(v);
  }
  b_.leaveScope();
  b_.setNode(node_);
  return good;
}

bool HigherOrderReader::bindNames(std::span<Value* const> values) {
  if (values.size() < names_.size()) return b_.fail(node_, "the graph returns fewer values than the node has");
  for (size_t i = 0; i < names_.size(); ++i) b_.bind(textOf(names_[i]), values[i]);
  return true;
}

bool HigherOrderReader::readCondition() {
  if (!isGraph(1) || !isGraph(2)) return b_.fail(node_, "the condition does not have two graphs");
  Value* predicate = readFreeArgument(b_, inputAt(0));
  if (!predicate || !readOperands(3)) return false;
  predicate = convertNumber(b_, predicate, "as_bool", node_);
  if (!predicate) return false;
  Node* choice = b_.insert(sym::If, {predicate}, 0);
  std::vector<Value*> results[2];
  for (size_t i : {0, 1}) {
    ExportBuilder::InBlock inside(b_, choice->addBlock());
    if (!readGraph(arguments_[i + 1], results[i])) return false;
  }
  if (results[0].size() != results[1].size()) return b_.fail(node_, "the graphs return different numbers of values");
  std::vector<Value*> outputs;
  for (size_t i = 0; i < results[0].size(); ++i) {
    TypePtr type = unifyTypes(results[0][i]->type(), results[1][i]->type());
    if (!type) return b_.fail(node_, fmt::format("the graphs return different types as value {}", i));
    for (size_t k : {0, 1}) choice->block(k)->addResult(results[k][i]);
    outputs.push_back(choice->addOutput(type));
    if (i < names_.size()) ExportBuilder::name(outputs.back(), textOf(names_[i]));
  }
  return bindNames(outputs);
}

bool HigherOrderReader::readRegion() {
  size_t graph = 0;
  while (graph < arguments_.size() && !isGraph(graph)) ++graph;
  if (graph == arguments_.size()) return b_.fail(node_, "the node has no graph");
  std::vector<Value*> results;
  return readOperands(graph + 1) && readGraph(arguments_[graph], results) && bindNames(results);
}

}  // namespace

bool readHigherOrder(ExportBuilder& b, Json node, std::string_view target) {
  std::string_view name = target.substr(target.rfind('.') + 1);
  HigherOrderReader reader(b, node);
  if (name == "cond") return reader.readCondition();
  if (name == "wrap_with_set_grad_enabled") return reader.readRegion();
  if (name == "wrap_with_autocast") {
    if (!reader.isTrue(2)) return reader.readRegion();
    return b.fail(node.find("target"), "a region with autocast switched on is not supported", ErrorKind::Unsupported);
  }
  return b.fail(node.find("target"),
                fmt::format("the higher order operator '{}' is not supported", abbreviate(name, 80)),
                ErrorKind::Unsupported);
}

}  // namespace tscompile::exported
