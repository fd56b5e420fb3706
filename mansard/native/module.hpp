#pragma once
// The functions of the module `launcher`, as Python sees them (`mansard/native/__init__.py`).

#include "native/bound.hpp"
#include "native/fetch.hpp"

namespace mansard {

// attach(introduce, pins)
inline PyObject* attach(PyObject*, PyObject* given) {
  if (!PyArg_ParseTuple(given, "OO", &python.introduce, &python.pins)) return nullptr;
  Py_INCREF(given);  // for as long as the process
  Py_RETURN_NONE;
}

// serve(name, run, recall): who answers `call` or `quick` in Python
inline PyObject* serve(PyObject*, PyObject* given) {
  const char* name;
  Answers found;
  if (!PyArg_ParseTuple(given, "sOO", &name, &found.run, &found.recall)) return nullptr;
  Py_INCREF(given);
  (std::strcmp(name, "quick") ? python.call : python.quick) = found;
  Py_RETURN_NONE;
}

// know(type, library): 0 NumPy, 1 PyTorch, 2 CuPy, -1: Python looks at such objects
inline PyObject* know(PyObject*, PyObject* given) {
  PyObject* type;
  int library;
  if (!PyArg_ParseTuple(given, "O!i", &PyType_Type, &type, &library)) return nullptr;
  auto* known = reinterpret_cast<PyTypeObject*>(type);
  const bool lacks_functions = (library == TORCH && !libraries.torch) || library > CUPY || library < -1;
  if (lacks_functions) return PyErr_SetString(PyExc_ValueError, "this library was not introduced"), nullptr;
  if (libraries.library_of(known) == -2 && libraries.count < TYPES)
    libraries.types[libraries.count++] = {reinterpret_cast<PyTypeObject*>(Py_NewRef(type)), library};
  Py_RETURN_NONE;
}

// set_dtypes(float32, float64, complex64, complex128, int32)
inline PyObject* set_dtypes(PyObject*, PyObject* given) {
  if (PyTuple_GET_SIZE(given) != DTYPES) return PyErr_SetString(PyExc_TypeError, "another number of dtypes"), nullptr;
  for (int i = 0; i < DTYPES; ++i) libraries.numpy_dtypes[i] = Py_NewRef(PyTuple_GET_ITEM(given, i));
  Py_RETURN_NONE;
}

// set_torch(capsule of the exchange functions, is_grad_enabled, _get_tracing_state, names of forward_ad)
// -> whether they can be used
inline PyObject* set_torch(PyObject*, PyObject* given) {
  PyObject *capsule, *grad, *tracing, *forward;
  if (!PyArg_ParseTuple(given, "OOOO!", &capsule, &grad, &tracing, &PyDict_Type, &forward)) return nullptr;
  auto* api = static_cast<const DLPackExchangeAPI*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  if (!api) return nullptr;
  if (api->major != 1 || !api->describe || !api->current_stream) Py_RETURN_FALSE;
  libraries.grad_enabled = Py_NewRef(grad), libraries.tracing = Py_NewRef(tracing);
  libraries.forward_state = Py_NewRef(forward);
  Py_INCREF(capsule);
  libraries.torch = api;
  Py_RETURN_TRUE;
}

// describe(array) -> (address, shape, strides, dtype, device, read-only, conjugated), or None: Python looks at it
inline PyObject* describe(PyObject*, PyObject* array) {
  Described found;
  if (read(array, found) != Reading::fits) Py_RETURN_NONE;
  const int dimensions = found.dimensions();
  Ref shape(PyTuple_New(dimensions)), strides(PyTuple_New(dimensions));
  if (!shape || !strides) return nullptr;
  for (int i = 0; i < dimensions; ++i) {
    PyTuple_SET_ITEM(shape.get(), i, PyLong_FromLongLong(found.size(i)));
    PyTuple_SET_ITEM(strides.get(), i, PyLong_FromLongLong(found.stride(i)));
  }
  const auto address = static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(found.address));
  return Py_BuildValue("(KOOiiOO)", address, shape.get(), strides.get(), found.dtype, found.device,
                       found.words[0] >> 20 & 1 ? Py_True : Py_False, found.words[0] >> 21 & 1 ? Py_True : Py_False);
}

// wants_gradient(operands) -> whether one of a tuple has a `requires_grad` that is true
inline PyObject* wants_gradient(PyObject*, PyObject* operands) {
  if (!PyTuple_Check(operands)) return PyErr_SetString(PyExc_TypeError, "wants_gradient(tuple)"), nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operands); ++i) {
    PyObject* one = PyTuple_GET_ITEM(operands, i);
    const int library = libraries.library_of(Py_TYPE(one));
    if (library == NUMPY || library == CUPY || (library != TORCH && !PyObject_HasAttr(one, names->requires_grad))) continue;
    Ref wanted(PyObject_GetAttr(one, names->requires_grad));
    const int is_true = wanted ? PyObject_IsTrue(wanted.get()) : -1;
    if (is_true) return is_true < 0 ? nullptr : Py_NewRef(Py_True);
  }
  Py_RETURN_FALSE;
}

// is_zero(info) -> whether all entries of a contiguous int32 array are zero, after waiting for it; None: Python looks
inline PyObject* is_zero(PyObject*, PyObject* array) {
  Described found;
  if (read(array, found) != Reading::fits || found.dtype != INT32) Py_RETURN_NONE;
  std::int64_t count = 1;
  const std::int64_t unit = found.library == TORCH ? 1 : 4;
  for (int i = found.dimensions() - 1; i >= 0; --i) {
    if (found.size(i) > 1 && found.stride(i) != unit * count) Py_RETURN_NONE;
    count *= found.size(i);
  }
  if (found.device >= 0) {
    const int answer = is_zero_on_gpu(found, count);
    return answer < 0 ? Py_NewRef(Py_None) : PyBool_FromLong(answer);
  }
  const auto* entries = reinterpret_cast<const std::int32_t*>(found.address);
  std::int32_t any = 0;
  for (std::int64_t i = 0; i < count; ++i) any |= entries[i];
  return PyBool_FromLong(any == 0);
}

inline PyObject* forget(PyObject*, PyObject*) {
  ++generation;
  table.clear();
  Py_RETURN_NONE;
}

inline PyObject* size(PyObject*, PyObject*) { return PyLong_FromLong(table.size()); }

inline PyObject* lose_cuda(PyObject*, PyObject*) {
  lost_cuda = true;
  Py_RETURN_NONE;
}

inline PyObject* make_module() {
  static PyMethodDef functions[] = {
      {"call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)), METH_FASTCALL, nullptr},
      {"enter", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(enter)), METH_FASTCALL, nullptr},
      {"quick", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(quick)), METH_FASTCALL, nullptr},
      {"make_run", new_run, METH_O, nullptr},
      {"bind", bind, METH_VARARGS, nullptr},
      {"again", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(again)), METH_FASTCALL, nullptr},
      {"attach", attach, METH_VARARGS, nullptr},
      {"serve", serve, METH_VARARGS, nullptr},
      {"know", know, METH_VARARGS, nullptr},
      {"set_dtypes", set_dtypes, METH_VARARGS, nullptr},
      {"set_torch", set_torch, METH_VARARGS, nullptr},
      {"describe", describe, METH_O, nullptr},
      {"is_zero", is_zero, METH_O, nullptr},
      {"wants_gradient", wants_gradient, METH_O, nullptr},
      {"set_fetch", set_fetch, METH_VARARGS, nullptr},
      {"forget", forget, METH_NOARGS, nullptr},
      {"size", size, METH_NOARGS, nullptr},
      {"lose_cuda", lose_cuda, METH_NOARGS, nullptr},
      {nullptr, nullptr, 0, nullptr}};
  static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "mansard_launcher", nullptr, -1, functions,
                                   nullptr, nullptr, nullptr, nullptr};
  names = new (std::nothrow) Names();
  if (!names || PyErr_Occurred() || !make_run_type() || !make_bound_type()) return nullptr;
  return PyModule_Create(&definition);
}

}  // namespace mansard

PyMODINIT_FUNC PyInit_mansard_launcher() { return mansard::make_module(); }
