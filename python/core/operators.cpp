#include "python/core/operators.h"

#include "api/binding/foreign_operators.h"
#include "ir/values/error.h"
#include "python/core/values.h"

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace tscompile::python {
namespace {
thread_local OperatorFailures* tFailures = nullptr;
}  // namespace

OperatorFailures::OperatorFailures() : before_(tFailures) { tFailures = this; }
OperatorFailures::~OperatorFailures() { tFailures = before_; }

nb::object OperatorFailures::take() {
  if (raised_.is_valid() && !PyObject_IsInstance(raised_.ptr(), PyExc_Exception)) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised_.ptr())), raised_.ptr());
    throw nb::python_error();
  }
  return std::move(raised_);
}

void OperatorFailures::note(nb::object raised) {
  if (tFailures) tFailures->raised_ = std::move(raised);
}

namespace {

// A function, let go with the interpreter's lock wherever that is.
std::shared_ptr<PyObject> held(nb::object function) {
  return {function.release().ptr(), [](PyObject* object) {
            if (!Py_IsInitialized()) return;  // the process ends, and its memory with it
            nb::gil_scoped_acquire lock;
            Py_DECREF(object);
          }};
}

// "ValueError: no such thing"
std::string wordsOf(nb::handle raised) {
  const nb::str type(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(raised.ptr()))).attr("__name__"));
  const std::string text = nb::cast<std::string>(nb::str(raised));
  return type.c_str() + (text.empty() ? "" : ": " + text);
}

std::vector<IValue> call(PyObject* function, std::span<const IValue* const> arguments,
                         std::span<const Argument> results) {
  nb::gil_scoped_acquire lock;
  try {
    nb::list given;
    for (const IValue* v : arguments) given.append(toPython(*v));
    nb::object result = nb::borrow(function)(*given);
    if (results.empty()) return {};
    if (results.size() == 1) return {fromPython(result, results[0].type)};
    std::vector<IValue> out;
    if (!PyTuple_Check(result.ptr()) && !PyList_Check(result.ptr())) return {IValue()};  // too few
    for (nb::handle item : result)
      out.push_back(fromPython(item, out.size() < results.size() ? results[out.size()].type : nullptr));
    return out;
  } catch (nb::python_error& e) {
    nb::object raised = nb::borrow(e.value());
    const bool isError = PyObject_IsInstance(raised.ptr(), PyExc_Exception) == 1;
    const std::string words = wordsOf(raised);
    OperatorFailures::note(std::move(raised));
    throw ExecutionError(isError ? ErrorKind::Model : ErrorKind::Interrupted, words);
  } catch (const nb::builtin_exception& e) {
    throw ExecutionError(ErrorKind::Model, std::string("a result: ") + e.what());
  }
}

nb::object sizesOf(DimSpan sizes) {
  nb::list out;
  for (int64_t s : sizes) out.append(s);
  return out;
}
nb::object typeOf(const TensorInfo& t) {
  const bool isKnown = t.dtype != DType::Undefined;
  return nb::make_tuple(isKnown ? std::string(pythonName(t.dtype)) : std::string(),
                        t.hasRank ? sizesOf(t.sizes) : nb::object(nb::none()));
}
nb::tuple tensorArgument(const std::optional<TensorInfo>& t) {
  return nb::make_tuple("tensor", t ? typeOf(*t) : nb::object(nb::none()));
}

// What tscompile._shapes makes the argument of a shape function of.
nb::object shapeArgument(const InferCall& call, size_t i) {
  TypePtr type = call.op().schema().arguments[i].type;
  if (type->is(TypeKind::Optional)) type = type->element();
  const bool isList = type->is(TypeKind::List);
  const TypePtr item = isList ? type->element() : type;
  const TypePtr tensor = item->is(TypeKind::Optional) ? item->element() : item;
  try {
    if (tensor->isTensor()) {
      if (call.isNone(i)) return tensorArgument({});
      if (!isList) return tensorArgument(call.tensor(i));
      nb::list items;
      for (const std::optional<TensorInfo>& t : call.optionalTensors(i)) items.append(tensorArgument(t));
      return nb::make_tuple("list", items);
    }
    if (const IValue* v = call.constant(i)) return nb::make_tuple("known", toPython(*v));
    if (call.isNone(i)) return nb::make_tuple("known", nb::none());
    if (item->is(TypeKind::Int))
      return isList ? nb::make_tuple("integers", sizesOf(call.sizes(i))) : nb::make_tuple("integer", call.size(i));
  } catch (const InferCall::NotKnown&) {
  }
  return nb::make_tuple("open", nb::none());
}

TensorSpec specOf(nb::handle told) {
  const auto name = nb::cast<std::string>(told[0]);
  const std::optional<DType> dtype = name.empty() ? DType::Undefined : dtypeFromName(name);
  if (!dtype) throw nb::value_error(("there is no dtype '" + name + "'").c_str());
  TensorSpec out{*dtype, !told[1].is_none(), {}};
  if (out.hasRank)
    for (nb::handle s : told[1]) out.sizes.push_back(nb::cast<int64_t>(s));
  return out;
}

void tell(InferCall& call, nb::handle told) {
  const auto kind = nb::cast<std::string>(told[0]);
  nb::object value = told[1];
  if (kind == "tensor") {
    const TensorSpec t = specOf(value);
    t.hasRank ? call.result(t.dtype, t.sizes) : call.resultOfUnknownRank(t.dtype);
  } else if (kind == "tensors") {
    std::vector<TensorSpec> all;
    for (nb::handle t : value) all.push_back(specOf(t));
    call.resultTensors(std::move(all));
  } else if (kind == "integers") {
    Dims sizes;
    for (nb::handle s : value) sizes.push_back(integerAsSize(nb::cast<int64_t>(s)));
    call.resultSizes(sizes);
  } else {
    call.resultUnknown();
  }
}

// As call(), of what tells dtypes and sizes.
void infer(PyObject* function, InferCall& call) {
  nb::gil_scoped_acquire lock;
  const nb::object shapes = nb::module_::import_("tscompile._shapes");
  try {
    nb::list given;
    for (size_t i = 0; i < call.size(); ++i) given.append(shapeArgument(call, i));
    const nb::object told = shapes.attr("infer")(nb::borrow(function), given, call.op().schema().returns.size());
    for (nb::handle t : told) tell(call, t);
  } catch (nb::python_error& e) {
    nb::object raised = nb::borrow(e.value());
    if (PyObject_IsInstance(raised.ptr(), nb::object(shapes.attr("NotKnown")).ptr()) == 1) throw InferCall::NotKnown{};
    const bool isError = PyObject_IsInstance(raised.ptr(), PyExc_Exception) == 1;
    const std::string words = wordsOf(raised);
    OperatorFailures::note(std::move(raised));
    throw ExecutionError(isError ? ErrorKind::Model : ErrorKind::Interrupted, words);
  } catch (const nb::builtin_exception& e) {
    throw ExecutionError(ErrorKind::Model, std::string("what its shape function gave: ") + e.what());
  }
}

void registerFunction(const std::string& schema, nb::object function, nb::object shapes) {
  Diagnostics diagnostics;
  auto compute = [kept = held(std::move(function))](std::span<const IValue* const> arguments,
                                                    std::span<const Argument> results) {
    return call(kept.get(), arguments, results);
  };
  ForeignOperator made{schema, std::move(compute)};
  if (!shapes.is_none()) made.infer = [kept = held(std::move(shapes))](InferCall& call) { infer(kept.get(), call); };
  if (!registerOperator(std::move(made), diagnostics)) raise(diagnostics, {});
}

}  // namespace

void addOperators(nb::module_& m) {
  m.def("register_operator", registerFunction, nb::arg("schema"), nb::arg("function"), nb::arg("shapes").none());
}

}  // namespace tscompile::python
