#include "python/core/values.h"

#include "api/binding/foreign_values.h"
#include "api/value_text.h"
#include "ir/support/error_kind.h"
#include "ir/support/text.h"
#include "python/core/tensors.h"

#include <unordered_map>

namespace nb = nanobind;

namespace tscompile::python {
namespace {

constexpr int kDeepest = 200;

bool wantsNumber(TypePtr type) {
  if (!type) return false;
  if (type->is(TypeKind::Optional)) return wantsNumber(type->element());
  return type->is(TypeKind::Int) || type->is(TypeKind::Float) || type->is(TypeKind::Bool) ||
         type->is(TypeKind::Number) || type->is(TypeKind::Complex);
}

bool wantsBool(TypePtr type) {
  return type && (type->is(TypeKind::Bool) || (type->is(TypeKind::Optional) && wantsBool(type->element())));
}

TypePtr elementOf(TypePtr type, size_t i) {
  if (type && type->is(TypeKind::Optional)) type = type->element();
  if (!type) return nullptr;
  if (type->is(TypeKind::List)) return type->element();
  if (type->is(TypeKind::Tuple)) return i < type->elements().size() ? type->element(i) : nullptr;
  return type->is(TypeKind::Dict) ? type->element(i) : nullptr;
}

// Whether it is a list of numbers as PyTorch takes one: an array of NumPy, a range, what has a length but is no tensor.
bool isListOfNumbers(nb::handle h, TypePtr expected) {
  if (expected && expected->is(TypeKind::Optional)) expected = expected->element();
  if (!expected || !expected->is(TypeKind::List)) return false;
  TypePtr element = expected;
  while (element->is(TypeKind::List)) element = element->element();
  if (!wantsNumber(element) || nb::hasattr(h, "__torch_function__") || nb::hasattr(h, "keys")) return false;
  if (PyBytes_Check(h.ptr()) || PyByteArray_Check(h.ptr()) || !nb::hasattr(h, "__iter__")) return false;
  if (PyObject_Size(h.ptr()) >= 0) return true;
  PyErr_Clear();  // an array without dimensions
  return false;
}

int64_t intOf(PyObject* object) {
  const long long out = PyLong_AsLongLong(object);
  if (out == -1 && PyErr_Occurred()) throw nb::python_error();
  return out;
}

IValue dictFrom(nb::handle items, TypePtr expected, int depth) {
  std::vector<std::pair<IValue, IValue>> out;
  for (nb::handle item : items)
    out.emplace_back(fromPython(item[0], elementOf(expected, 0), depth + 1),
                     fromPython(item[1], elementOf(expected, 1), depth + 1));
  return dictOf(std::move(out));
}

std::vector<IValue> itemsFrom(nb::handle object, TypePtr expected, int depth) {
  std::vector<IValue> out;
  size_t i = 0;
  for (nb::handle item : object) out.push_back(fromPython(item, elementOf(expected, i++), depth + 1));
  return out;
}

// The fields of a dataclass in order, as torch.export takes them apart. It leaves out those that are None, and files
// do not name those that are left.
IValue dataclassFrom(nb::handle object, TypePtr expected, int depth) {
  nb::list fields;
  for (nb::handle field : nb::module_::import_("dataclasses").attr("fields")(object)) {
    nb::object value = object.attr(field.attr("name"));
    if (value.is_none())
      throw nb::type_error(("a dataclass whose field '" + nb::cast<std::string>(field.attr("name")) +
                            "' is None may be another one to the model: give the tuple of its fields")
                               .c_str());
    fields.append(value);
  }
  return tuple(itemsFrom(fields, expected, depth));
}

// The class that stands for a type.
nb::object namedTupleClass(TypePtr type) {
  static auto* classes = new std::unordered_map<TypePtr, nb::object>;
  nb::object& made = (*classes)[type];
  if (!made.is_valid()) {
    nb::list fields;
    for (const std::string& f : type->fields()) fields.append(textOf(f));
    const std::string& name = type->name();
    const size_t dot = name.rfind('.');
    made = nb::module_::import_("tscompile._results")
               .attr("named_tuple")(
                   textOf(name.empty() ? "Outputs" : name.substr(dot == std::string::npos ? 0 : dot + 1)), fields);
  }
  return made;
}

nb::object sequenceOf(const std::vector<IValue>& items, bool list) {
  const auto count = static_cast<Py_ssize_t>(items.size());
  nb::object out = nb::steal(list ? PyList_New(count) : PyTuple_New(count));
  if (!out.is_valid()) throw nb::python_error();
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = toPython(items[static_cast<size_t>(i)]).release().ptr();
    list ? PyList_SetItem(out.ptr(), i, item) : PyTuple_SetItem(out.ptr(), i, item);
  }
  return out;
}

}  // namespace

nb::str textOf(const std::string& text) {
  PyObject* out = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (!out) throw nb::python_error();
  return nb::steal<nb::str>(out);
}

IValue fromPython(nb::handle h, TypePtr expected, int depth) {
  PyObject* o = h.ptr();
  if (depth > kDeepest) throw nb::value_error("a value is nested too deep, or holds itself");
  if (o == Py_None) return {};
  if (nb::isinstance<PyTensor>(h)) return nb::cast<PyTensor&>(h).tensor;
  if (PyBool_Check(o)) return o == Py_True;
  if (PyLong_Check(o)) return intOf(o);
  if (PyFloat_Check(o)) return PyFloat_AsDouble(o);
  if (PyUnicode_Check(o)) {
    Py_ssize_t count = 0;
    const char* bytes = PyUnicode_AsUTF8AndSize(o, &count);
    if (!bytes) throw nb::python_error();
    return IValue(std::string(bytes, static_cast<size_t>(count)));
  }
  if (PyTuple_Check(o)) return tuple(itemsFrom(h, expected, depth));
  if (PyList_Check(o)) return listOf(itemsFrom(h, expected, depth));
  if (PyDict_Check(o)) return dictFrom(nb::steal(PyDict_Items(o)), expected, depth);
  if (PyComplex_Check(o)) return std::complex<double>(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o));
  if (isListOfNumbers(h, expected)) return listOf(itemsFrom(h, expected, depth));
  // NumPy's numbers have the buffer protocol as well.
  if (wantsBool(expected) && PyNumber_Check(o)) {
    const int isTrue = PyObject_IsTrue(o);
    if (isTrue >= 0) return isTrue == 1;
    PyErr_Clear();  // an array of several, which does not fit: it is told by name
  }
  if (wantsNumber(expected) && PyIndex_Check(o)) {
    nb::object number = nb::steal(PyNumber_Index(o));
    if (number.is_valid()) return intOf(number.ptr());
    PyErr_Clear();  // an array of one float
  }
  if (wantsNumber(expected) && PyNumber_Check(o)) {
    nb::object number = nb::steal(PyNumber_Float(o));
    if (number.is_valid()) return PyFloat_AsDouble(number.ptr());
    PyErr_Clear();
  }
  if (!PyBytes_Check(o) && !PyByteArray_Check(o))
    if (std::optional<Tensor> t = tensorOf(o)) return *t;
  if (nb::hasattr(h, "keys") && nb::hasattr(h, "items"))
    return dictFrom(nb::steal(PyMapping_Items(o)), expected, depth);
  if (nb::hasattr(h, "__dataclass_fields__") && !PyType_Check(o)) return dataclassFrom(h, expected, depth);
  const nb::str type(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(o))).attr("__name__"));
  throw nb::type_error((std::string("a model takes no ") + type.c_str()).c_str());
}

nb::object toPython(const IValue& v) {
  switch (v.tag()) {
    case IValue::Tag::None:
      return nb::none();
    case IValue::Tag::Bool:
      return nb::bool_(v.toBool());
    case IValue::Tag::Int:
      return nb::int_(v.toInt());
    case IValue::Tag::Float:
      return nb::float_(v.toFloat());
    case IValue::Tag::Complex:
      return nb::steal(PyComplex_FromDoubles(v.toComplex().real(), v.toComplex().imag()));
    case IValue::Tag::String:
      return textOf(v.toString());
    case IValue::Tag::Tensor:
      if (!v.tensorImpl()) return nb::none();
      return nb::cast(PyTensor{v.toTensor()});
    case IValue::Tag::List:
      return sequenceOf(v.toList().items, true);
    case IValue::Tag::Tuple: {
      nb::object out = sequenceOf(v.toTuple().items, false);
      TypePtr type = v.toTuple().type;
      if (!type || !type->isNamedTuple()) return out;
      return namedTupleClass(type)(*nb::borrow<nb::tuple>(out));
    }
    case IValue::Tag::Dict: {
      nb::dict out;
      v.toDict().forEach([&](const IValue& key, const IValue& value) { out[toPython(key)] = toPython(value); });
      return out;
    }
    case IValue::Tag::Enum:
      return toPython(v.toEnum().value);
    default:
      return textOf(valueToText(v));
  }
}

namespace {

nb::dict fieldsOf(const Problem& p) {
  nb::dict out;
  out["severity"] = p.severity == Severity::Warning ? "warning" : "error";
  out["code"] = errorKindName(p.kind);
  out["message"] = textOf(p.message);
  out["file"] = p.file.empty() ? nb::object(nb::none()) : nb::object(textOf(p.file));
  auto number = [](uint32_t n) { return n ? nb::object(nb::int_(n)) : nb::object(nb::none()); };
  out["line"] = number(p.line), out["column"] = number(p.column);
  out["end_line"] = number(p.endLine), out["end_column"] = number(p.endColumn);
  nb::list notes;
  for (const std::string& n : p.notes) notes.append(textOf(n));
  out["notes"] = notes;
  return out;
}

}  // namespace

void raise(const Diagnostics& diagnostics, const SourceName& name, nb::object cause) {
  Problems problems = problemsOf(diagnostics, name);
  nb::list list;
  for (const Problem& p : problems.list) list.append(fieldsOf(p));
  nb::object error =
      nb::module_::import_("tscompile._errors").attr("make")(errorKindName(problems.kind), textOf(problems.text), list);
  if (cause.is_valid()) PyException_SetCause(error.ptr(), cause.release().ptr());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

void warn(const Diagnostics& diagnostics, const SourceName& name) {
  for (const Problem& p : problemsOf(diagnostics, name).list) {
    if (p.severity != Severity::Warning) continue;
    std::string text;
    if (!p.file.empty()) text = p.file + (p.line ? ":" + std::to_string(p.line) : "") + ": ";
    text += p.message;
    for (const std::string& note : p.notes) text += "\nnote: " + note;
    if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 2) != 0) throw nb::python_error();
  }
}

}  // namespace tscompile::python
