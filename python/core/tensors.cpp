#include "python/core/tensors.h"

#include "api/binding/foreign_values.h"
#include "ir/values/error.h"
#include "python/core/dlpack.h"
#include "python/core/values.h"
#include "runtime/reference/loops/copy.h"

#include <bit>
#include <memory>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

namespace nb = nanobind;

namespace tscompile::python {

std::optional<DType> dtypeOf(DlDType type) {
  if (type.lanes != 1) return std::nullopt;
  switch (type.code << 8 | type.bits) {
    case kDlInt << 8 | 8:
      return DType::Int8;
    case kDlInt << 8 | 16:
      return DType::Int16;
    case kDlInt << 8 | 32:
      return DType::Int32;
    case kDlInt << 8 | 64:
      return DType::Int64;
    case kDlUInt << 8 | 8:
      return DType::UInt8;
    case kDlFloat << 8 | 16:
      return DType::Float16;
    case kDlFloat << 8 | 32:
      return DType::Float32;
    case kDlFloat << 8 | 64:
      return DType::Float64;
    case kDlBfloat << 8 | 16:
      return DType::BFloat16;
    case kDlComplex << 8 | 64:
      return DType::Complex64;
    case kDlComplex << 8 | 128:
      return DType::Complex128;
    case kDlBool << 8 | 8:
      return DType::Bool;
    default:
      return std::nullopt;
  }
}

namespace {

uint8_t codeOf(DType type) {
  switch (type) {
    case DType::Bool:
      return kDlBool;
    case DType::BFloat16:
      return kDlBfloat;
    case DType::UInt8:
    case DType::UInt16:
    case DType::UInt32:
    case DType::UInt64:
      return kDlUInt;
    default:
      return isComplex(type) ? kDlComplex : isFloating(type) ? kDlFloat : kDlInt;
  }
}

}  // namespace

DlDType dlDTypeOf(DType type) { return {codeOf(type), static_cast<uint8_t>(itemSize(type) * 8), 1}; }

namespace {

// ---- from Python ----

// The element type of a buffer's format, in the notation of the module struct.
std::optional<DType> dtypeOf(const char* format, Py_ssize_t itemSize) {
  if (!format) return DType::UInt8;
  std::string_view f = format;
  if (f.starts_with('@') || f.starts_with('=') || (f.starts_with('<') && std::endian::native == std::endian::little))
    f.remove_prefix(1);
  if (f == "Zf") return DType::Complex64;
  if (f == "Zd") return DType::Complex128;
  if (f.size() != 1) return std::nullopt;
  const std::string_view integers = "bhilqn";
  switch (f[0]) {
    case '?':
      return DType::Bool;
    case 'B':
      return DType::UInt8;
    case 'e':
      return DType::Float16;
    case 'f':
      return DType::Float32;
    case 'd':
      return DType::Float64;
    default:
      if (integers.find(f[0]) == std::string_view::npos) return std::nullopt;
      return itemSize == 1 ? DType::Int8 : itemSize == 2 ? DType::Int16 : itemSize == 4 ? DType::Int32 : DType::Int64;
  }
}

// Runs without the interpreter lock drop tensors.
template <class Drop>
void withLock(Drop&& drop) {
  if (!Py_IsInitialized()) return;  // the process ends, and its memory with it
  PyGILState_STATE state = PyGILState_Ensure();
  drop();
  PyGILState_Release(state);
}

void dropBuffer(void* context) {
  withLock([&] {
    auto* view = static_cast<Py_buffer*>(context);
    PyBuffer_Release(view);
    delete view;
  });
}

template <class Managed>
void dropManaged(void* context) {
  withLock([&] {
    auto* managed = static_cast<Managed*>(context);
    if (managed->drop) managed->drop(managed);
  });
}

Tensor ofBuffer(PyObject* object) {
  auto view = std::make_unique<Py_buffer>();
  bool readOnly = false;
  if (PyObject_GetBuffer(object, view.get(), PyBUF_RECORDS) != 0) {
    PyErr_Clear();
    readOnly = true;
    if (PyObject_GetBuffer(object, view.get(), PyBUF_RECORDS_RO) != 0) throw nb::python_error();
  }
  auto refuse = [&](const std::string& why) {
    PyBuffer_Release(view.get());
    throw nb::type_error(why.c_str());
  };
  std::optional<DType> dtype = dtypeOf(view->format, view->itemsize);
  if (!dtype || itemSize(*dtype) != static_cast<size_t>(view->itemsize))
    refuse(std::string("tensors cannot have elements of the format '") + (view->format ? view->format : "") + "'");
  Dims sizes, strides;
  for (int d = 0; d < view->ndim; ++d) {
    sizes.push_back(view->shape[d]);
    const Py_ssize_t stride = view->strides ? view->strides[d] : 0;
    if (stride % view->itemsize != 0) refuse("strides of an array are not multiples of its elements: copy it");
    if (view->strides) strides.push_back(stride / view->itemsize);
  }
  try {
    Py_buffer* kept = view.get();
    Tensor out = borrowTensor(*dtype, sizes, strides, kept->buf, readOnly || kept->readonly, dropBuffer, kept);
    (void)view.release();
    return out;
  } catch (...) {
    PyBuffer_Release(view.get());
    throw;
  }
}

template <class Managed>
Tensor ofManaged(Managed* managed, bool readOnly) {
  const DlTensor& t = managed->tensor;
  if (t.device.type != kDlCpu) throw nb::value_error("the tensor is not in the memory of the CPU: move it there first");
  std::optional<DType> dtype = dtypeOf(t.dtype);
  if (!dtype) throw nb::type_error("tensors cannot have elements of this dtype");
  const auto rank = static_cast<size_t>(t.rank);
  const DimSpan sizes(t.sizes, rank), strides(t.strides, t.strides ? rank : 0);
  return borrowTensor(*dtype, sizes, strides, static_cast<char*>(t.data) + t.byteOffset, readOnly, dropManaged<Managed>,
                      managed);
}

Tensor ofCapsule(nb::handle capsule) {
  auto* managed = static_cast<DlManaged*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (!managed) throw nb::python_error();
  Tensor out = ofManaged(managed, false);
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  return out;
}

// Of the type that was asked last, which stays: most calls are of one.
const DlExchange* exchangeOf(PyTypeObject* type) {
  static PyTypeObject* lastType = nullptr;
  static const DlExchange* last = nullptr;
  if (type == lastType) return last;
  const DlExchange* found = nullptr;
  auto* asked = reinterpret_cast<PyObject*>(type);
  if (nb::object capsule = nb::steal(PyObject_GetAttrString(asked, "__dlpack_c_exchange_api__")); capsule.is_valid())
    found = static_cast<const DlExchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  PyErr_Clear();
  while (found && found->major > 1) found = found->before;
  if (found && (found->major != 1 || !found->fromPython)) found = nullptr;
  Py_INCREF(asked);
  Py_XDECREF(reinterpret_cast<PyObject*>(lastType));
  lastType = type;
  return last = found;
}

// Nothing where __dlpack__ knows better: its errors are for people, and what is conjugate or negative until it is read
// looks like any memory here.
std::optional<Tensor> ofExchange(PyObject* object) {
  const DlExchange* exchange = exchangeOf(Py_TYPE(object));
  if (!exchange) return std::nullopt;
  static PyObject* const kIsNegative = PyUnicode_InternFromString("is_neg");
  nb::object isNegative = nb::steal(PyObject_CallMethodObjArgs(object, kIsNegative, nullptr));
  DlManagedVersioned* managed = nullptr;
  const bool given =
      isNegative.is_valid() && isNegative.ptr() == Py_False && exchange->fromPython(object, &managed) == 0 && managed;
  PyErr_Clear();
  if (!given) return std::nullopt;
  if (managed->tensor.device.type != kDlCpu || managed->tensor.dtype.code == kDlComplex ||
      !dtypeOf(managed->tensor.dtype)) {
    dropManaged<DlManagedVersioned>(managed);
    return std::nullopt;
  }
  try {
    return ofManaged(managed, (managed->flags & kDlReadOnly) != 0);
  } catch (...) {
    dropManaged<DlManagedVersioned>(managed);
    throw;
  }
}

// ---- to Python ----

constexpr const char* kNoFormat =
    "NumPy and the buffer protocol have no bfloat16: use DLPack, such as torch.from_dlpack";

const char* formatOf(DType dtype) {
  switch (dtype) {
    case DType::UInt8:
      return "B";
    case DType::UInt16:
      return "H";
    case DType::UInt32:
      return "I";
    case DType::UInt64:
      return "Q";
    case DType::Int8:
      return "b";
    case DType::Int16:
      return "h";
    case DType::Int32:
      return "i";
    case DType::Int64:
      return "q";
    case DType::Float16:
      return "e";
    case DType::Float32:
      return "f";
    case DType::Float64:
      return "d";
    case DType::Complex64:
      return "Zf";
    case DType::Complex128:
      return "Zd";
    case DType::Bool:
      return "?";
    default:
      return nullptr;
  }
}

// What a Py_buffer of a tensor points into.
struct Export {
  Tensor tensor;
  std::vector<Py_ssize_t> sizes, strides;
};

int getBuffer(PyObject* self, Py_buffer* view, int flags) {
  const Tensor& t = nb::inst_ptr<PyTensor>(self)->tensor;
  view->obj = nullptr;
  auto refuse = [](const char* why) {
    PyErr_SetString(PyExc_BufferError, why);
    return -1;
  };
  const char* format = formatOf(t.dtype());
  if (!format) return refuse(kNoFormat);
  const bool readOnly = t.storage()->readOnly();
  if (readOnly && (flags & PyBUF_WRITABLE)) return refuse("the tensor cannot be written: it is part of the model");
  const bool wantsStrides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
  if (!t.isContiguous() && (!wantsStrides || (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS))
    return refuse("the tensor is not contiguous");
  auto kept = std::make_unique<Export>();
  kept->tensor = t;
  const auto item = static_cast<Py_ssize_t>(itemSize(t.dtype()));
  for (int d = 0; d < t.rank(); ++d) {
    kept->sizes.push_back(t.size(d));
    kept->strides.push_back(t.stride(d) * item);
  }
  view->buf = t.raw();
  view->len = t.numel() * item;
  view->readonly = readOnly;
  view->itemsize = item;
  view->format = (flags & PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
  view->ndim = t.rank();
  view->shape = (flags & PyBUF_ND) ? kept->sizes.data() : nullptr;
  view->strides = wantsStrides ? kept->strides.data() : nullptr;
  view->suboffsets = nullptr;
  view->internal = kept.release();
  view->obj = Py_NewRef(self);
  return 0;
}
void releaseBuffer(PyObject*, Py_buffer* view) { delete static_cast<Export*>(view->internal); }

struct DlExport {
  DlManaged plain{};
  DlManagedVersioned versioned{};
  Tensor tensor;
  Dims sizes, strides;
};

nb::object toDlpack(const PyTensor& self, std::optional<std::tuple<int, int>> maxVersion) {
  const bool versioned = maxVersion && std::get<0>(*maxVersion) >= 1;
  const Tensor& t = self.tensor;
  const bool readOnly = t.storage()->readOnly();
  auto e = std::make_unique<DlExport>();
  e->tensor = t;
  e->sizes = Dims(t.sizes().begin(), t.sizes().end());
  e->strides = Dims(t.strides().begin(), t.strides().end());
  const DlTensor described{t.raw(), {kDlCpu, 0}, t.rank(), dlDTypeOf(t.dtype()), e->sizes.data(), e->strides.data(), 0};
  PyObject* capsule = nullptr;
  if (versioned) {
    e->versioned = {1,
                    0,
                    e.get(),
                    [](DlManagedVersioned* m) { delete static_cast<DlExport*>(m->context); },
                    readOnly ? uint64_t{kDlReadOnly} : 0,
                    described};
    capsule = PyCapsule_New(&e->versioned, "dltensor_versioned", [](PyObject* c) {
      if (!PyCapsule_IsValid(c, "dltensor_versioned")) return;
      auto* m = static_cast<DlManagedVersioned*>(PyCapsule_GetPointer(c, "dltensor_versioned"));
      m->drop(m);
    });
  } else {
    if (readOnly) {
      // What is written to it must not be the model.
      e->tensor = cloneTensor(t);
      e->strides = Dims(e->tensor.strides().begin(), e->tensor.strides().end());
    }
    DlTensor writable = described;
    writable.data = e->tensor.raw(), writable.strides = e->strides.data();
    e->plain = {writable, e.get(), [](DlManaged* m) { delete static_cast<DlExport*>(m->context); }};
    capsule = PyCapsule_New(&e->plain, "dltensor", [](PyObject* c) {
      if (!PyCapsule_IsValid(c, "dltensor")) return;
      auto* m = static_cast<DlManaged*>(PyCapsule_GetPointer(c, "dltensor"));
      m->drop(m);
    });
  }
  if (!capsule) throw nb::python_error();
  (void)e.release();
  return nb::steal(capsule);
}

nb::object shapeOf(const PyTensor& self) {
  nb::list out;
  for (int64_t s : self.tensor.sizes()) out.append(s);
  return nb::tuple(out);
}
nb::object stridesOf(const PyTensor& self) {
  nb::list out;
  for (int64_t s : self.tensor.strides()) out.append(s);
  return nb::tuple(out);
}

nb::object nested(const Tensor& t, int dim, int64_t offset) {
  if (dim == t.rank()) return toPython(numberOf(t.withGeometry(Dims{}, Dims{}, offset)));
  nb::list out;
  for (int64_t i = 0; i < t.size(dim); ++i) out.append(nested(t, dim + 1, offset + i * t.stride(dim)));
  return out;
}

IValue itemOf(const PyTensor& self) {
  if (self.tensor.numel() != 1) throw nb::value_error("only a tensor with one element is a number");
  return numberOf(self.tensor);
}

PyType_Slot kTensorSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(getBuffer)},
                              {Py_bf_releasebuffer, reinterpret_cast<void*>(releaseBuffer)},
                              {0, nullptr}};

}  // namespace

std::optional<Tensor> tensorOf(PyObject* object) {
  if (PyObject_CheckBuffer(object)) return ofBuffer(object);
  if (std::optional<Tensor> t = ofExchange(object)) return t;
  static PyObject* const kName = PyUnicode_InternFromString("__dlpack__");
  if (!PyObject_HasAttr(object, kName)) return std::nullopt;
  // PyTorch gives no memory away that it would have to watch for gradients; nobody asks for any here.
  nb::object source = nb::borrow(object);
  if (nb::hasattr(source, "requires_grad") && nb::hasattr(source, "detach") &&
      nb::cast<bool>(nb::bool_(source.attr("requires_grad"))))
    source = source.attr("detach")();
  // Nor does it say that elements are negative by a flag.
  if (nb::hasattr(source, "is_neg") && nb::hasattr(source, "resolve_neg") &&
      nb::cast<bool>(nb::bool_(source.attr("is_neg")())))
    source = source.attr("resolve_neg")();
  PyObject* capsule = PyObject_CallMethodObjArgs(source.ptr(), kName, nullptr);
  if (!capsule) throw nb::python_error();
  return ofCapsule(nb::steal(capsule));
}

// NumPy would take what has no format for a sequence of tensors.
static nb::object arrayOf(nb::handle self) {
  if (!formatOf(nb::cast<const PyTensor&>(self).tensor.dtype())) throw nb::type_error(kNoFormat);
  return nb::module_::import_("numpy").attr("asarray")(self);
}

// Asked where the buffer protocol fails: a dtype that is wanted can be given, and one element is a number.
static nb::object copyForNumpy(nb::handle self, nb::object dtype, nb::handle) {
  const auto& t = nb::cast<const PyTensor&>(self);
  if (formatOf(t.tensor.dtype()))
    return dtype.is_none() ? arrayOf(self) : arrayOf(self).attr("astype")(dtype, nb::arg("copy") = false);
  if (dtype.is_none() && t.tensor.numel() != 1) throw nb::type_error(kNoFormat);
  if (dtype.is_none()) dtype = nb::str("float32");
  return nb::module_::import_("numpy")
      .attr("array")(nested(t.tensor, 0, t.tensor.offset()), dtype)
      .attr("reshape")(shapeOf(t));
}

void addTensors(nb::module_& m) {
  nb::class_<PyTensor>(m, "Tensor", nb::type_slots(kTensorSlots))
      .def_prop_ro("shape", shapeOf)
      .def_prop_ro("strides", stridesOf)
      .def_prop_ro("dtype", [](const PyTensor& t) { return std::string(pythonName(t.tensor.dtype())); })
      .def_prop_ro("ndim", [](const PyTensor& t) { return t.tensor.rank(); })
      .def_prop_ro("size", [](const PyTensor& t) { return t.tensor.numel(); })
      .def_prop_ro("readonly", [](const PyTensor& t) { return t.tensor.storage()->readOnly(); })
      .def("tolist", [](const PyTensor& t) { return nested(t.tensor, 0, t.tensor.offset()); })
      .def("item", [](const PyTensor& t) { return toPython(itemOf(t)); })
      .def("numpy", arrayOf)
      .def("__array__", copyForNumpy, nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def("__float__", [](const PyTensor& t) { return itemOf(t).toDouble(); })
      .def("__bool__", [](const PyTensor& t) { return itemOf(t).toDouble() != 0; })
      .def("__int__",
           [](const PyTensor& t) {
             IValue v = itemOf(t);
             return v.isInt() ? v.toInt() : static_cast<int64_t>(v.toDouble());
           })
      .def("__len__",
           [](const PyTensor& t) {
             if (t.tensor.rank() == 0) throw nb::type_error("a tensor without dimensions has no length");
             return t.tensor.size(0);
           })
      .def("__repr__",
           [](const PyTensor& t) {
             return "tscompile.Tensor(shape=" + dimsText(t.tensor.sizes()) +
                    ", dtype=" + std::string(pythonName(t.tensor.dtype())) + ")";
           })
      .def("__dlpack_device__", [](const PyTensor&) { return nb::make_tuple(static_cast<int>(kDlCpu), 0); })
      .def(
          "__dlpack__",
          [](const PyTensor& t, nb::handle, std::optional<std::tuple<int, int>> maxVersion, nb::handle,
             std::optional<bool> copy) {
            if (copy && *copy) return toDlpack(PyTensor{cloneTensor(t.tensor)}, maxVersion);
            return toDlpack(t, maxVersion);
          },
          nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
          nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none());
}

}  // namespace tscompile::python
