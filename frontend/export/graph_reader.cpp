#include "frontend/export/graph_reader.h"

#include "frontend/export/arguments.h"
#include "frontend/export/composites.h"
#include "frontend/export/higher_order.h"
#include "frontend/export/symbolic_nodes.h"
#include "frontend/export/vmap_region.h"
#include "ir/graph/clone.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile::exported {
namespace {

// "torch.ops.aten.conv2d.default" is "aten::conv2d"; nothing for other forms.
std::string operatorName(std::string_view target) {
  constexpr std::string_view kPrefix = "torch.ops.";
  if (!startsWith(target, kPrefix)) return {};
  target.remove_prefix(kPrefix.size());
  size_t space = target.find('.'), overload = target.rfind('.');
  if (space == std::string_view::npos || overload == space) return {};
  std::string name =
      std::string(target.substr(0, space)) + "::" + std::string(target.substr(space + 1, overload - space - 1));
  if (target.substr(overload + 1) != "default") name += target.substr(overload);
  return name;
}

// What only tells the compiler something, or checks what the types of a program already say.
constexpr std::string_view kRemarks[] = {
    "aten::sym_constrain_range",
    "aten::sym_constrain_range_for_size",
    "aten::_assert_tensor_metadata",
    "aten::_linalg_check_errors",
    "aten::_functional_sym_constrain_range",
    "profiler::_record_function_exit._RecordFunction",
};

// What autocast on the CPU always computes in its own dtype (at::autocast, lower_precision_fp).
constexpr std::string_view kReduced[] = {
    "aten::linear",
    "aten::matmul",
    "aten::mm",
    "aten::bmm",
    "aten::addmm",
    "aten::addbmm",
    "aten::baddbmm",
    "aten::conv1d",
    "aten::conv2d",
    "aten::conv3d",
    "aten::conv_tbc",
    "aten::convolution",
    "aten::_convolution",
    "aten::conv_transpose1d",
    "aten::conv_transpose2d",
    "aten::conv_transpose3d",
    "aten::scaled_dot_product_attention",
    "aten::linalg_vecdot",
};

// Their programs say the dtype without autocast whatever the exporter.
constexpr std::string_view kReducedRecurrent[] = {"aten::lstm", "aten::rnn_tanh", "aten::rnn_relu"};

bool isOneOf(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Later versions of an operator may have arguments that ours does not know; given as nothing they change nothing.
bool isNeutral(Json argument) {
  Json v = alternative(argument);
  return !v || v.key() == "as_none" || (v.key() == "as_bool" && v.is(JsonTree::Kind::Bool) && !v.truth());
}

// A bool, or what is known to be one.
bool isTruth(Json argument) {
  Json v = alternative(argument);
  return v && (v.key() == "as_bool" || v.key() == "as_sym_bool");
}

bool isNumberOrNone(TypePtr type) {
  return type->is(TypeKind::Number) || (type->is(TypeKind::Optional) && type->element()->is(TypeKind::Number));
}

// Kinds of numbers, each of which gives way to those after it; 0: no number.
int kindOfNumber(TypeKind t) {
  return t == TypeKind::Bool ? 1 : t == TypeKind::Int ? 2 : t == TypeKind::Float ? 3 : t == TypeKind::Complex ? 4 : 0;
}
int kindOfDType(DType d) { return d == DType::Bool ? 1 : isIntegral(d, false) ? 2 : isComplex(d) ? 4 : 3; }

bool isBool(DType d) { return d == DType::Bool; }
bool isWhole(DType d) { return isIntegral(d, true); }

class NodeReader {
 public:
  NodeReader(ExportBuilder& builder, Json node, std::span<const Json> inputs, std::span<const Json> outputs)
      : b_(builder), node_(node), given_(inputs.begin(), inputs.end()), outputs_(outputs.begin(), outputs.end()) {}

  bool read(std::string_view fullName);

 private:
  bool readInputs();
  bool give(Json input, size_t index);
  bool fillDefaults();
  bool insert();
  // Inputs as the overload wants them that their types choose.
  bool resolve();
  Value* tensorOf(Value* number);
  std::optional<DType> dtypeBesideOthers(TypeKind number) const;
  bool readItem();
  bool readAssertion();
  bool bindResults();
  bool bindList(Value* list, Json names);
  bool bindResult(Value* result, Json output);
  bool readConversion();
  bool readEmptyPermuted();
  std::optional<std::vector<int64_t>> readDimensions(Json argument);
  bool readBroadcast();
  bool readProduct();
  bool readUnknown(std::string_view fullName);
  bool isFilledWithBool() const;
  Value* readTruth(Json input, size_t index);
  bool gives(bool (*isOne)(DType)) const;  // a tensor of such a dtype
  bool takesTensor(size_t index) const;
  void chooseOverload();
  std::optional<size_t> placeOf(size_t i, const Schema& schema) const;
  // In a region with autocast, inputs in the dtype that the operator computes in.
  bool castInputs();
  std::optional<DType> castTo() const;
  bool isUntold() const;
  bool inlineGraph(const Graph& graph);
  void giveTensors();
  bool bindResults(std::span<Value* const> results);
  const Schema& schema() const { return *schema_; }

  ExportBuilder& b_;
  Json node_;
  std::vector<Json> given_, outputs_;
  const Operator* operator_ = nullptr;
  const Schema* schema_ = nullptr;
  bool copies_ = false;  // results are copied
  std::vector<Value*> inputs_;
  Node* made_ = nullptr;
  TypeBindings bindings_;
};

bool NodeReader::read(std::string_view fullName) {
  if (isOneOf(fullName, kRemarks)) return true;
  if (fullName == "prims::div") fullName = gives(isWhole) ? "prims::div.trunc" : "aten::div.Tensor";
  fullName = otherName(fullName);
  if (fullName == "prims::broadcast_in_dim") return readBroadcast();
  if (fullName == "prims::prod") return readProduct();
  if (fullName == "prims::item" || fullName == "aten::item" || fullName == "aten::_local_scalar_dense")
    return readItem();
  if (fullName == "aten::_assert_scalar" || fullName == "aten::_assert_async.msg") return readAssertion();
  if (fullName == "aten::_to_copy") return readConversion();
  if (fullName == "aten::empty_permuted" || fullName == "prims::empty_permuted") return readEmptyPermuted();
  if (const Composite* c = findComposite(fullName)) {
    schema_ = &c->schema;
    if (!readInputs() || !fillDefaults() || !castInputs() || !inlineGraph(*c->graph)) return false;
    if (fullName == "aten::view") b_.addView(made_);
    return true;
  }
  operator_ = b_.registry().find(fullName);
  if (std::string base; (!operator_ || !operator_->isImplemented()) && isCopyOf(fullName, base))
    if (const Operator* copied = b_.registry().find(base)) {
      operator_ = copied;
      copies_ = true;
    }
  if (!operator_) return readUnknown(fullName);
  chooseOverload();
  return readInputs() && fillDefaults() && castInputs() && insert() && bindResults();
}

// The file tells what it gives.
bool NodeReader::readUnknown(std::string_view fullName) {
  const std::string kind(fullName.substr(0, fullName.find('.')));
  if (!b_.takesUnknown(b_.registry().isKnown(Symbol::of(kind)) ? fullName : kind)) return false;
  for (Json input : given_) {
    inputs_.push_back(readFreeArgument(b_, input.find("arg")));
    if (!inputs_.back()) return false;
  }
  made_ = b_.insert(Symbol::of(kind), inputs_, outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const std::string_view given = alternative(outputs_[i]) ? alternative(outputs_[i]).key() : "";
    made_->output(i)->setType(given == "as_tensors"     ? listType(types().tensor)
                              : given == "as_sym_int"   ? types().integer
                              : given == "as_sym_float" ? types().floating
                              : given == "as_sym_bool"  ? types().boolean
                                                        : types().tensor);
  }
  return bindResults(made_->outputs());
}

// Versions of PyTorch gave operators more arguments without giving them another name: the overload that has all that
// are there.
void NodeReader::chooseOverload() {
  auto hasAll = [&](const Operator* op) {
    for (size_t i = 0; i < given_.size(); ++i)
      if (!placeOf(i, op->schema()) && !isNeutral(given_[i].find("arg"))) return false;
    return true;
  };
  if (!hasAll(operator_))
    for (const Operator* other : b_.registry().overloads(operator_->kind()))
      if (other->outCount() == 0 && hasAll(other)) {
        operator_ = other;
        break;
      }
  schema_ = &operator_->schema();
}

// Which argument an input is; one without a name is what its place says.
std::optional<size_t> NodeReader::placeOf(size_t i, const Schema& schema) const {
  std::string_view name = textOf(given_[i].find("name"));
  if (!name.empty()) return schema.argumentIndex(name);
  return i < schema.arguments.size() ? std::optional<size_t>(i) : std::nullopt;
}

bool NodeReader::readInputs() {
  inputs_.assign(schema().arguments.size(), nullptr);
  for (size_t i = 0; i < given_.size(); ++i) {
    Json input = given_[i];
    std::optional<size_t> at = placeOf(i, schema());
    // Exported programs expand where texts do not (ir/analysis/implicit_expands.h).
    if (at && schema().name == "aten::expand" && schema().arguments[*at].name == "implicit") continue;
    if (at ? !give(input.find("arg"), *at) : !isNeutral(input.find("arg"))) {
      if (at) return false;
      return b_.fail(
          input,
          fmt::format("{} has no argument '{}'", schema().fullName(), abbreviate(textOf(input.find("name")), 80)),
          ErrorKind::Unsupported);
    }
  }
  return true;
}

bool NodeReader::give(Json input, size_t index) {
  if (inputs_[index]) return b_.fail(input, fmt::format("'{}' is given twice", schema().arguments[index].name));
  inputs_[index] = isTruth(input) && isNumberOrNone(schema().arguments[index].type)
                       ? readTruth(input, index)
                       : readArgument(b_, input, schema().arguments[index]);
  return inputs_[index] != nullptr;
}

// `m ^ True`: graphs have no bools among their numbers. A tensor of one is the same, for no dtype gives way to more
// others than bool; where the result is none of bools, so is the number 1.
Value* NodeReader::readTruth(Json input, size_t index) {
  Value* truth = readFreeArgument(b_, input);
  if (!truth || !truth->type()->is(TypeKind::Bool)) return truth;
  if (gives(isBool) && takesTensor(index)) return b_.call(sym::NumToTensor.text(), {truth}, input);
  const IValue* known = truth->node() ? truth->node()->attributeValue(sym::value) : nullptr;
  return known ? b_.constant(static_cast<int64_t>(known->toBool())) : b_.call("aten::Int", {truth}, input);
}

bool NodeReader::gives(bool (*isOne)(DType)) const {
  std::vector<Json> results = outputs_.empty() ? std::vector<Json>() : namesOf(outputs_[0]);
  return !results.empty() && isOne(b_.tensorTypeOf(textOf(results[0]))->tensor().dtype);
}

// In another overload, with tensors in the place of numbers. Where it calls them something else they are something
// else: scatter's `value` is one number for all places, its `src` a tensor of them.
bool NodeReader::takesTensor(size_t index) const {
  if (!operator_) return false;
  std::span<const Operator* const> all = b_.registry().overloads(operator_->kind());
  return std::any_of(all.begin(), all.end(), [&](const Operator* other) {
    const std::vector<Argument>& formals = other->schema().arguments;
    return other->outCount() == 0 && formals.size() == inputs_.size() && formals[index].type->isTensor() &&
           formals[index].name == schema().arguments[index].name;
  });
}

// What is filled with a bool is one of bools, unless it is said otherwise.
bool NodeReader::isFilledWithBool() const {
  if (!operator_ || operator_->kind() != Symbol::of("aten::full")) return false;
  return std::any_of(given_.begin(), given_.end(), [](Json input) {
    Json v = alternative(input.find("arg"));
    return v && v.key() == "as_bool" && textOf(input.find("name")) == "fill_value";
  });
}

bool NodeReader::fillDefaults() {
  if (std::optional<size_t> dtype = schema().argumentIndex("dtype"); dtype && !inputs_[*dtype] && isFilledWithBool())
    inputs_[*dtype] = b_.constant(static_cast<int64_t>(DType::Bool));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i]) continue;
    const Argument& a = schema().arguments[i];
    bool isOptional = a.type->is(TypeKind::Optional);
    if (!a.defaultValue && !isOptional)
      return b_.fail(node_, fmt::format("{} needs the argument '{}'", schema().fullName(), a.name));
    // Later versions gave defaults to more arguments: to those that may be None, this.
    IValue value = a.defaultValue ? *a.defaultValue : IValue();
    inputs_[i] = b_.constant(value, !value.isList() ? nullptr : isOptional ? a.type->element() : a.type);
  }
  return true;
}

// The dtype that autocast has this operator compute in, if it is another than that of its inputs: the file knows what
// the operator gives. Lists of results are each as what was given: broadcast_tensors, unbind.
std::optional<DType> NodeReader::castTo() const {
  if (!b_.autocast() || outputs_.empty() || schema().returns[0].type->is(TypeKind::List)) return std::nullopt;
  std::vector<Json> results = namesOf(outputs_[0]);
  DType wanted = results.empty() ? DType::Undefined : b_.tensorTypeOf(textOf(results[0]))->tensor().dtype;
  if (wanted != *b_.autocast() && wanted != DType::Float32) return std::nullopt;
  DType given = DType::Undefined;  // what the inputs give together: the dtype of one with dimensions goes first
  bool isScalar = true;
  for (Json input : given_)
    for (Json name : namesOf(input.find("arg"))) {
      const TensorFacts& facts = b_.tensorTypeOf(textOf(name))->tensor();
      if (facts.dtype != DType::Float32 && facts.dtype != *b_.autocast()) continue;
      bool scalar = facts.hasRank && facts.sizes.empty();
      if (given == DType::Undefined || (isScalar && !scalar) || (isScalar == scalar && facts.dtype == DType::Float32))
        given = facts.dtype;
      isScalar &= scalar;
    }
  return given == DType::Undefined || given == wanted ? std::nullopt : std::optional<DType>(wanted);
}

// Programs that were traced as Python is read (strict) say the dtypes that there would be without autocast.
bool NodeReader::isUntold() const {
  if (!b_.autocast() || outputs_.empty()) return false;
  if (!isOneOf(schema().name, kReduced) && !isOneOf(schema().name, kReducedRecurrent)) return false;
  std::vector<Json> results = namesOf(outputs_[0]);
  return !results.empty() && b_.tensorTypeOf(textOf(results[0]))->tensor().dtype == DType::Float32;
}

bool NodeReader::castInputs() {
  if (isUntold())
    return b_.fail(node_,
                   fmt::format("in a region of autocast it computes in {}, but the file says float32: {}",
                               pythonName(*b_.autocast()),
                               isOneOf(schema().name, kReduced) ? "export the program with strict=False"
                                                                : "call it where autocast is off"),
                   ErrorKind::Unsupported);
  std::optional<DType> dtype = castTo();
  if (!dtype) return true;
  Value* no = b_.constant(IValue(false));
  auto cast = [&](Value* v) {
    DType d = v->type()->isTensor() ? v->type()->tensor().dtype : DType::Undefined;
    bool other = v->type()->isTensor() && d != *dtype && (d == DType::Undefined || isFloating(d));
    if (!other) return v;
    return b_.call("aten::to", {v, b_.constant(IValue(static_cast<int64_t>(*dtype))), no, no, b_.constant(IValue())},
                   node_);
  };
  for (Value*& v : inputs_) {
    if (v->node() && v->node()->kind() == sym::ListConstruct && v->type()->element()->isTensor()) {
      std::vector<Value*> elements;
      for (const Use& u : v->node()->inputs()) elements.push_back(cast(u.value));
      if (std::count(elements.begin(), elements.end(), nullptr)) return false;
      v = b_.list(elements, v->type()->element());
    } else {
      v = cast(v);
      if (!v) return false;
    }
  }
  return true;
}

bool NodeReader::insert() {
  made_ = b_.insert(operator_->kind(), inputs_, schema().returns.size());
  return resolve();
}

// `aten.mul.Tensor(x, 2)` is aten::mul.Scalar; where there is no such overload the number becomes a tensor.
bool NodeReader::resolve() {
  const Operator* found = b_.registry().resolve(*made_, &bindings_);
  for (size_t i = 0; !found && i < inputs_.size(); ++i) {
    TypePtr wanted = schema().arguments[i].type;
    TypeKind given = inputs_[i]->type()->kind();
    if (!kindOfNumber(given) || !isSubtype(types().tensor, wanted)) continue;
    made_->replaceInput(i, tensorOf(inputs_[i]));
  }
  if (!found) found = b_.registry().resolve(*made_, &bindings_);
  if (found) {
    operator_ = found;
    schema_ = &found->schema();
    if (schema().returns.size() == made_->outputCount()) return true;
  }
  std::string given = join(made_->inputs(), ", ", [](const Use& u) { return typeText(u.value->type()); });
  return b_.fail(node_, fmt::format("{} cannot take ({})", schema().fullName(), given));
}

// In Python a number in the place of a tensor gives way to every tensor that has a dtype of its kind, one without
// dimensions too, and beside others it is of the default dtype. A tensor of the number would count there.
Value* NodeReader::tensorOf(Value* number) {
  const auto insert = [&](Symbol kind, std::initializer_list<Value*> inputs) {
    Value* made = b_.insert(kind, inputs, 1)->output();
    made->node()->moveBefore(made_);
    return made;
  };
  Value* tensor = insert(sym::NumToTensor, {number});
  const std::optional<DType> dtype = dtypeBesideOthers(number->type()->kind());
  if (!dtype) return tensor;
  Value* no = b_.constant(IValue(false));
  return insert(Symbol::of("aten::to"),
                {tensor, b_.constant(IValue(static_cast<int64_t>(*dtype))), no, no, b_.constant(IValue())});
}

// Nothing: that of a tensor of the number, which the result is none of by PyTorch's rules.
std::optional<DType> NodeReader::dtypeBesideOthers(TypeKind number) const {
  DType scalars = DType::Undefined;  // of tensors of the kind, none of which has dimensions
  bool isDouble = false;
  for (Json input : given_) {
    Json argument = input.find("arg"), kind = alternative(argument);
    if (kind && kind.key().starts_with("as_sym")) continue;
    for (Json name : namesOf(argument)) {
      const TensorFacts& facts = b_.tensorTypeOf(textOf(name))->tensor();
      if (facts.dtype == DType::Undefined) return std::nullopt;
      isDouble |= facts.dtype == DType::Float64;
      if (kindOfDType(facts.dtype) < kindOfNumber(number)) continue;
      if (!facts.hasRank || !facts.sizes.empty()) return std::nullopt;
      scalars = scalars == DType::Undefined ? facts.dtype : promoteTypes(scalars, facts.dtype);
    }
  }
  std::vector<Json> results = outputs_.empty() ? std::vector<Json>() : namesOf(outputs_[0]);
  const DType made = results.empty() ? DType::Undefined : b_.tensorTypeOf(textOf(results[0]))->tensor().dtype;
  // Those of another kind take the number as it is: quotients of integers, integers that are copied to.
  const int kind = made == DType::Undefined || made == DType::Bool ? kindOfNumber(number) : kindOfDType(made);
  if (scalars != DType::Undefined ? kind > kindOfDType(scalars) : kind < kindOfNumber(number)) return std::nullopt;
  if (scalars != DType::Undefined) return scalars;
  if (number == TypeKind::Complex) return isDouble ? DType::Complex128 : DType::Complex64;
  if (number != TypeKind::Float) return std::nullopt;
  // The default dtype at the time of the export.
  return isFloating(made) ? made : DType::Float32;
}

// `item` as a number whose type the output names, unless nothing reads it.
bool NodeReader::readItem() {
  const std::vector<Json>& inputs = given_;
  if (inputs.size() != 1 || outputs_.size() != 1) return b_.fail(node_, "it takes one tensor and gives one number");
  Value* tensor = readFreeArgument(b_, inputs[0].find("arg"));
  Json kind = alternative(outputs_[0]);
  std::vector<Json> names = namesOf(outputs_[0]);
  if (!tensor) return false;
  if (kind && kind.key() == "as_none") return true;
  Value* number = kind ? convertNumber(b_, tensor, kind.key(), node_) : nullptr;
  if (!number || number == tensor || names.size() != 1) return b_.fail(outputs_[0], "the output is not a number");
  return bindResult(number, names[0]);
}

// A condition on sizes or elements that the program was traced under.
bool NodeReader::readAssertion() {
  const std::vector<Json>& inputs = given_;
  if (inputs.size() != 2) return b_.fail(node_, "it takes a condition and a message");
  Value* condition = readFreeArgument(b_, inputs[0].find("arg"));
  Value* message = condition ? readFreeArgument(b_, inputs[1].find("arg")) : nullptr;
  if (!message) return false;
  if (!message->type()->is(TypeKind::String)) return b_.fail(inputs[1], "the message is not a text");
  if (condition->type()->isTensor()) {
    b_.insert(Symbol::of("aten::_assert_async"), {condition, message}, 0);
    return true;
  }
  condition = convertNumber(b_, condition, "as_bool", node_);
  if (!condition) return false;
  Node* choice = b_.insert(sym::If, {condition}, 0);
  choice->addBlock();
  ExportBuilder::InBlock inside(b_, choice->addBlock());
  b_.insert(sym::RaiseException, {message, b_.constant(IValue())}, 0);
  return true;
}

bool NodeReader::bindResults() {
  for (size_t i = 0; i < made_->outputCount(); ++i) {
    TypePtr type = substituteTypeVariables(schema().returns[i].type, bindings_);
    made_->output(i)->setType(type ? type : types().tensor);
  }
  return bindResults(made_->outputs());
}

// Results that a program names and that are not there must not be used.
bool NodeReader::bindResults(std::span<Value* const> results) {
  for (size_t i = 0; i < std::min(outputs_.size(), results.size()); ++i) {
    Json kind = alternative(outputs_[i]);
    if (!kind || kind.key() == "as_none") continue;
    bool isList = results[i]->type()->is(TypeKind::List);
    if (isList ? !bindList(results[i], kind) : !bindResult(results[i], outputs_[i])) return false;
  }
  return true;
}

bool NodeReader::inlineGraph(const Graph& graph) {
  ValueMap values;
  for (size_t i = 0; i < inputs_.size(); ++i) values[graph.input(i)] = inputs_[i];
  for (Node* n : graph.block()->nodes()) {
    const IValue* constant = n->attributeValue(sym::value);
    if (n->kind() == sym::Constant) {
      values[n->output()] = b_.constant(constant ? *constant : IValue(), n->output()->type());
      continue;
    }
    std::vector<Value*> inputs;
    for (const Use& u : n->inputs()) inputs.push_back(values.at(u.value));
    made_ = b_.insert(n->kind(), inputs, n->outputCount());
    giveTensors();
    const Operator* made = b_.registry().resolve(*made_);
    if (!made || !made->schema().isMutable()) b_.mayDrop(made_);
    for (size_t i = 0; i < n->outputCount(); ++i) {
      made_->output(i)->setType(n->output(i)->type());
      values[n->output(i)] = made_->output(i);
    }
  }
  std::vector<Value*> results;
  for (const Use& u : graph.outputs()) results.push_back(values.at(u.value));
  return bindResults(results);
}

// `div(7, x, rounding_mode="trunc")`: where a composite's operator has no overload that takes a number, one that takes
// a tensor.
void NodeReader::giveTensors() {
  if (b_.registry().resolve(*made_)) return;
  const std::span<const Operator* const> overloads = b_.registry().overloads(made_->kind());
  for (size_t i = 0; i < made_->inputCount(); ++i) {
    const auto takesTensor = [&](const Operator* o) {
      const std::vector<Argument>& formals = o->schema().arguments;
      return o->outCount() == 0 && formals.size() == made_->inputCount() && formals[i].type->isTensor();
    };
    if (kindOfNumber(made_->input(i)->type()->kind()) && std::ranges::any_of(overloads, takesTensor))
      made_->replaceInput(i, tensorOf(made_->input(i)));
  }
}

// `_to_copy(x, dtype=…)`; devices and layouts are what they are.
bool NodeReader::readConversion() {
  Value *self = nullptr, *dtype = nullptr, *format = b_.constant(IValue());
  for (Json input : given_) {
    std::string_view name = textOf(input.find("name"));
    Value* v = readFreeArgument(b_, input.find("arg"));
    if (!v) return false;
    (name == "self" ? self : name == "dtype" ? dtype : name == "memory_format" ? format : v) = v;
  }
  if (!self) return b_.fail(node_, "it takes a tensor");
  Value* no = b_.constant(IValue(false));
  bool converts = dtype && dtype->type()->is(TypeKind::Int);
  Value* copy = converts ? b_.call("aten::to", {self, dtype, no, b_.constant(IValue(true)), format}, node_)
                         : b_.call("aten::clone", {self, format}, node_);
  return copy && bindResults(std::span<Value* const>(&copy, 1));
}

// Dimensions as numbers that the file tells, each once, counted from the first.
std::optional<std::vector<int64_t>> NodeReader::readDimensions(Json argument) {
  std::vector<int64_t> dims;
  for (Json d : items(alternative(argument))) {
    std::optional<int64_t> dim = d.integer();
    if (!dim || *dim < 0 || std::count(dims.begin(), dims.end(), *dim)) {
      b_.fail(node_, "its dimensions are no numbers from 0, each once");
      return std::nullopt;
    }
    dims.push_back(*dim);
  }
  return dims;
}

// prims::broadcast_in_dim(a, shape, broadcast_dimensions): where the dimensions of `a` are in the result.
bool NodeReader::readBroadcast() {
  std::vector<Value*> sizes;
  if (given_.size() != 3 || outputs_.size() != 1) return b_.fail(node_, "it takes a tensor, sizes and dimensions");
  Value* x = readFreeArgument(b_, given_[0].find("arg"));
  if (!x || !readItems(b_, given_[1].find("arg"), sizes)) return false;
  std::optional<std::vector<int64_t>> kept = readDimensions(given_[2].find("arg"));
  if (!kept) return false;
  for (size_t i = 0; x && i < sizes.size(); ++i)
    if (const auto at = static_cast<int64_t>(i); !std::count(kept->begin(), kept->end(), at))
      x = b_.call("aten::unsqueeze", {x, b_.constant(IValue(at))}, node_);
  if (x) x = b_.call("aten::expand", {x, b_.list(sizes, types().integer), b_.constant(IValue(false))}, node_);
  return x && bindResult(x, outputs_[0]);
}

// prims::prod(inp, dims, output_dtype=…): one dimension after the other, the last first.
bool NodeReader::readProduct() {
  if (given_.size() < 2 || outputs_.size() != 1) return b_.fail(node_, "it takes a tensor and dimensions");
  Value* x = readFreeArgument(b_, given_[0].find("arg"));
  Value* dtype = given_.size() > 2 ? readFreeArgument(b_, given_[2].find("arg")) : b_.constant(IValue());
  if (isNeutral(given_[1].find("arg"))) return b_.fail(node_, "it is to have dimensions");
  std::optional<std::vector<int64_t>> dims = readDimensions(given_[1].find("arg"));
  if (!x || !dtype || !dims) return false;
  std::sort(dims->rbegin(), dims->rend());
  for (int64_t d : *dims)
    if (x) x = b_.call("aten::prod", {x, b_.constant(IValue(d)), b_.constant(IValue(false)), dtype}, node_);
  return x && bindResult(x, outputs_[0]);
}

// `empty_permuted(size, physical_layout, dtype=…)`, the size a `shape` in prims: the dimensions from the outermost in
// memory to the innermost.
bool NodeReader::readEmptyPermuted() {
  std::vector<Value*> sizes;
  std::vector<int64_t> layout;
  Value *none = b_.constant(IValue()), *dtype = none;
  for (size_t i = 0; i < given_.size(); ++i) {
    std::string_view name = textOf(given_[i].find("name"));
    Json argument = given_[i].find("arg");
    if (name.empty() ? i == 0 : name == "size" || name == "shape") {
      if (!readItems(b_, argument, sizes)) return false;
    } else if (name.empty() ? i == 1 : name == "physical_layout") {
      for (Json d : items(alternative(argument))) layout.push_back(d.integer().value_or(-1));
    } else if (name == "dtype") {
      dtype = readFreeArgument(b_, argument);
    }
  }
  Dims back(layout.size(), -1);
  std::vector<Value*> inMemory;
  for (size_t i = 0; i < layout.size() && layout.size() == sizes.size(); ++i) {
    if (layout[i] < 0 || layout[i] >= static_cast<int64_t>(sizes.size())) break;
    back[static_cast<size_t>(layout[i])] = static_cast<int64_t>(i);
    inMemory.push_back(sizes[static_cast<size_t>(layout[i])]);
  }
  if (!dtype || inMemory.size() != sizes.size() || std::count(back.begin(), back.end(), -1))
    return b_.fail(node_, "its layout is no order of its dimensions");
  Value* made = b_.call("aten::empty", {b_.list(inMemory, types().integer), dtype, none, none, none, none}, node_);
  if (made && !std::is_sorted(back.begin(), back.end()))
    made = b_.call("aten::permute", {made, b_.constant(intList(back))}, node_);
  return made && bindResults(std::span<Value* const>(&made, 1));
}

bool NodeReader::bindResult(Value* result, Json output) {
  std::vector<Json> names = output.is(JsonTree::Kind::String) ? std::vector<Json>{output} : namesOf(output);
  if (names.size() != 1) return b_.fail(output, "the output has no name");
  std::string_view name = textOf(names[0]);
  if (copies_ && result->type()->isTensor()) {
    result = b_.call("aten::clone", {result, b_.constant(IValue())}, output);
    if (!result) return false;
  }
  if (result->type()->isTensor()) result->setType(b_.tensorTypeOf(name));
  ExportBuilder::name(result, name);
  b_.bind(name, result);
  return true;
}

bool NodeReader::bindList(Value* list, Json names) {
  if (!names.is(JsonTree::Kind::Array)) return b_.fail(names, "the output is not a list");
  std::vector<Json> all = items(names);
  Node* unpack = b_.insert(sym::ListUnpack, {list}, all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    unpack->output(i)->setType(list->type()->element());
    Json name = all[i].find("name");
    if (!name) name = alternative(all[i]);
    if (!name || !name.is(JsonTree::Kind::String)) return b_.fail(all[i], "the output has no name");
    if (!bindResult(unpack->output(i), name)) return false;
  }
  return true;
}

// Of a parameter whose class wraps other tensors, such as one that torchao quantised, one of these: an attribute as
// well.
bool readWrapped(ExportBuilder& b, std::span<const Json> inputs, std::span<const Json> outputs) {
  const std::vector<Json> of = inputs.size() == 2 ? namesOf(inputs[0].find("arg")) : std::vector<Json>();
  const std::vector<Json> result = outputs.size() == 1 ? namesOf(outputs[0]) : std::vector<Json>();
  const std::string_view name = of.empty() ? std::string_view() : textOf(alternative(inputs[1].find("arg")));
  const std::string path = of.empty() ? "" : b.attributePath(textOf(of[0]));
  if (path.empty() || name.empty() || result.size() != 1)
    return b.fail({}, "only parameters and buffers may be tensors that wrap others", ErrorKind::Unsupported);
  b.bindAttribute(textOf(result[0]), path + "." + std::string(name));
  return true;
}

bool readNode(ExportBuilder& b, Json node) {
  std::string_view target = textOf(node.find("target"));
  b.setNode(node);
  if (startsWith(target, "torch.ops.higher_order.")) return readHigherOrder(b, node, target);
  if (isSymbolicTarget(target)) return readSymbolicNode(b, node, target);
  if (isVmapRemark(target)) return true;
  std::vector<Json> inputs = items(node.find("inputs")), outputs = items(node.find("outputs"));
  if (target == "torch.ops.export.access_subclass_inner_tensor.default") return readWrapped(b, inputs, outputs);
  return readCall(b, node, target, inputs, outputs);
}

// Goes on after a node that is refused, to tell of others; what it gives is not there.
bool readAll(ExportBuilder& b, std::span<const Json> nodes) {
  bool good = true;
  for (size_t i = 0; i < nodes.size();) {
    if (beginsVmap(nodes[i])) {
      size_t count =
          readVmapRegion(b, nodes.subspan(i), [&](std::span<const Json> inner) { return readAll(b, inner); });
      if (count == 0) return false;
      i += count;
      continue;
    }
    Json node = nodes[i++];
    if (readNode(b, node)) continue;
    good = false;
    for (Json output : items(node.find("outputs")))
      for (Json name : namesOf(output)) b.bind(textOf(name), nullptr);
  }
  return good;
}

}  // namespace

bool readCall(ExportBuilder& b, Json node, std::string_view target, std::span<const Json> inputs,
              std::span<const Json> outputs) {
  std::string name = operatorName(target);
  if (name.empty())
    return b.fail(node.find("target"), fmt::format("{} is not an operator of a graph", abbreviate(target, 200)),
                  ErrorKind::Unsupported);
  return NodeReader(b, node, inputs, outputs).read(name);
}

bool readNodes(ExportBuilder& b, Json graph) {
  Json nodes = graph.find("nodes");
  if (!nodes.is(JsonTree::Kind::Array)) return b.fail(graph, "the graph has no list of nodes");
  bool good = readAll(b, items(nodes));
  b.setNode({});
  return good;
}

}  // namespace tscompile::exported
