#include "frontend/export/higher_order.h"

#include "frontend/export/arguments.h"
#include "frontend/export/graph_reader.h"
#include "frontend/export/higher_order_reader.h"
#include "frontend/export/row_loop.h"
#include "frontend/export/symbolic_nodes.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <limits>

namespace tscompile::exported {

HigherOrderReader::HigherOrderReader(ExportBuilder& builder, Json node)
    : b_(builder), node_(node), inputs_(items(node.find("inputs"))), outputs_(items(node.find("outputs"))) {
  for (Json input : inputs_) arguments_.push_back(alternative(input.find("arg")));
  for (Json output : outputs_)
    for (Json name : namesOf(output)) names_.push_back(name);
}

bool HigherOrderReader::isCount(size_t n) {
  return arguments_.size() == n ||
         b_.fail(node_, fmt::format("it takes {}, not {}", counted(n, "argument"), arguments_.size()));
}

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
  for (size_t i = 0; i < names_.size(); ++i) {
    Value* v = values[i];
    if (!v->isNamed() && v->node() && v->node()->kind() != sym::Constant) ExportBuilder::name(v, textOf(names_[i]));
    b_.bind(textOf(names_[i]), v);
  }
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
  size_t first = graph + 1;  // invoke_subgraph has a name there
  if (first < arguments_.size() && arguments_[first] && arguments_[first].key() == "as_string") ++first;
  std::vector<Value*> results;
  return readOperands(first) && readGraph(arguments_[graph], results) && bindNames(results);
}

bool HigherOrderReader::readAutocast() {
  bool isOn = arguments_.size() > 2 && arguments_[2].is(JsonTree::Kind::Bool) && arguments_[2].truth();
  std::optional<int64_t> dtype = isOn ? scalarTypeOf(arguments_[1]) : std::nullopt;
  if (isOn && !dtype) return b_.fail(node_, "the dtype of the region is not known", ErrorKind::Unsupported);
  ExportBuilder::InAutocast inside(b_, isOn ? dtypeFromNumber(*dtype) : std::nullopt);
  return readRegion();
}

bool HigherOrderReader::readEffects() {
  if (arguments_.size() < 2 || !arguments_[1] || arguments_[1].key() != "as_operator" || outputs_.empty())
    return b_.fail(node_, "the node does not name an operator");
  for (Json name : namesOf(outputs_[0])) b_.bind(textOf(name), b_.constant(IValue()));
  return readCall(b_, node_, textOf(arguments_[1]), std::span(inputs_).subspan(2), std::span(outputs_).subspan(1));
}

Value* HigherOrderReader::readPredicate(Json graph) {
  std::vector<Value*> results;
  if (!readGraph(graph, results)) return nullptr;
  if (results.size() == 1) return convertNumber(b_, results[0], "as_bool", node_);
  b_.fail(node_, "the condition does not return one value");
  return nullptr;
}

bool HigherOrderReader::readWhile() {
  if (!isCount(4)) return false;
  if (!isGraph(0) || !isGraph(1)) return b_.fail(node_, "the loop does not have two graphs");
  std::vector<Value*> carried, more;
  if (!readItems(b_, inputAt(2), carried) || !readItems(b_, inputAt(3), more)) return false;
  auto setOperands = [&](std::span<Value* const> first) {
    operands_.assign(first.begin(), first.end());
    operands_.insert(operands_.end(), more.begin(), more.end());
  };
  setOperands(carried);
  Value* first = readPredicate(arguments_[0]);
  if (!first) return false;
  std::vector<Value*> inputs{b_.constant(IValue(std::numeric_limits<int64_t>::max())), first};
  inputs.insert(inputs.end(), carried.begin(), carried.end());
  Node* loop = b_.insert(sym::Loop, inputs, 0);
  Block* body = loop->addBlock();
  body->addParameter(types().integer);
  for (Value*& v : carried) v = body->addParameter(v->type()->isTensor() ? types().tensor : v->type());
  std::vector<Value*> results;
  {
    ExportBuilder::InBlock inside(b_, body);
    setOperands(carried);
    if (!readGraph(arguments_[1], results)) return false;
    if (results.size() != carried.size())
      return b_.fail(
          node_, fmt::format("the body returns {}, but {} carried", counted(results.size(), "value"), carried.size()));
    setOperands(results);
    Value* again = readPredicate(arguments_[0]);
    if (!again) return false;
    body->addResult(again);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    TypePtr type = carried[i]->type();
    if (!isSubtype(results[i]->type(), type))
      return b_.fail(node_, fmt::format("the value {} that is carried becomes one of another type", i));
    body->addResult(results[i]);
    loop->addOutput(type);
  }
  return bindNames(loop->outputs());
}

bool HigherOrderReader::readRows(std::vector<Value*> carried, size_t sequences, size_t more) {
  std::vector<Value*> rows, others;
  if (!isGraph(0)) return b_.fail(node_, "the node has no graph");
  if (!readItems(b_, inputAt(sequences), rows) || !readItems(b_, inputAt(more), others)) return false;
  if (rows.empty() || names_.size() < carried.size()) return b_.fail(node_, "there is nothing to go through");
  Value* count = b_.call("aten::size", {rows[0], b_.constant(IValue(int64_t{0}))}, node_);
  if (!count) return false;
  size_t kept = carried.size();
  RowLoop loop(b_, count, carried, names_.size() - kept);
  std::vector<Value*> results;
  {
    ExportBuilder::InBlock inside(b_, loop.body());
    operands_ = loop.carried();
    for (Value* t : rows) {
      operands_.push_back(rowOf(b_, t, 0, loop.index(), node_));
      if (!operands_.back()) return false;
    }
    operands_.insert(operands_.end(), others.begin(), others.end());
    if (!readGraph(arguments_[0], results)) return false;
    if (results.size() < kept) return b_.fail(node_, "the graph returns fewer values than are carried");
    std::span<Value* const> all = results;
    if (!loop.finish(all.first(kept), all.subspan(kept), node_)) return false;
  }
  std::vector<Value*> out;
  std::vector<int64_t> dims(names_.size() - kept, 0);
  return loop.results(dims, out, node_) && bindNames(out);
}

bool HigherOrderReader::readMap() { return isCount(3) && readRows({}, 1, 2); }

bool HigherOrderReader::readScan() {
  std::vector<Value*> carried;
  return isCount(4) && readItems(b_, inputAt(1), carried) && readRows(std::move(carried), 2, 3);
}

namespace {

struct HigherOrderOperator {
  std::string_view name;
  bool (HigherOrderReader::*read)();
};
constexpr HigherOrderOperator kHigherOrder[] = {
    {"cond", &HigherOrderReader::readCondition},
    {"while_loop", &HigherOrderReader::readWhile},
    {"map_impl", &HigherOrderReader::readMap},
    {"scan", &HigherOrderReader::readScan},
    {"with_effects", &HigherOrderReader::readEffects},
    {"wrap_with_autocast", &HigherOrderReader::readAutocast},
    {"wrap_with_set_grad_enabled", &HigherOrderReader::readRegion},
    {"wrap_activation_checkpoint", &HigherOrderReader::readRegion},
    {"tag_activation_checkpoint", &HigherOrderReader::readRegion},
    {"wrap", &HigherOrderReader::readRegion},
    {"strict_mode", &HigherOrderReader::readRegion},
    {"invoke_subgraph", &HigherOrderReader::readRegion},
};

}  // namespace

bool readHigherOrder(ExportBuilder& b, Json node, std::string_view target) {
  std::string_view name = target.substr(target.rfind('.') + 1);
  HigherOrderReader reader(b, node);
  for (const HigherOrderOperator& o : kHigherOrder)
    if (o.name == name) return (reader.*o.read)();
  return b.fail(node.find("target"),
                fmt::format("the higher order operator '{}' is not supported", abbreviate(name, 80)),
                ErrorKind::Unsupported);
}

}  // namespace tscompile::exported
