#pragma once
// A fast path that an object of Python keeps for itself: a sparse matrix, whose arrays are among the kernel's operands.
//
// It serves one array, if that is like the one it was made with. It holds neither the matrix nor its memory: whoever
// keeps it keeps them. No plan outlives `forget`.

#include "native/calls.hpp"

namespace mansard {

inline std::uint64_t generation = 0;  // of plans: how often they were forgotten

struct Bound {
  PyObject_HEAD
  struct Body {
    Ref run;
    Described like;
    std::uint64_t generation = 0;
  }* body;

  static PyTypeObject* type;
};
inline PyTypeObject* Bound::type = nullptr;

// bind(description of a run, array) -> what `again` takes; None: the array cannot be read here
inline PyObject* bind(PyObject*, PyObject* given) {
  PyObject *told, *array;
  Described found;
  if (!PyArg_ParseTuple(given, "O!O", &PyTuple_Type, &told, &array)) return nullptr;
  if (read(array, found) != Reading::fits || found.dtype >= NUMBERS) Py_RETURN_NONE;
  Ref run(new_run(nullptr, told));
  if (!run) return nullptr;
  Bound* made = PyObject_New(Bound, Bound::type);
  if (!made) return nullptr;
  made->body = new (std::nothrow) Bound::Body();
  if (!made->body) return Py_DECREF(made), PyErr_NoMemory();
  made->body->run = std::move(run), made->body->like = found, made->body->generation = generation;
  return reinterpret_cast<PyObject*>(made);
}

// again(bound, array) -> the result, or None: this call is Python's
inline PyObject* again(PyObject*, PyObject* const* given, Py_ssize_t count) {
  if (count != 2 || Py_TYPE(given[0]) != Bound::type) return PyErr_SetString(PyExc_TypeError, "again(bound, array)"), nullptr;
  const Bound::Body& bound = *reinterpret_cast<const Bound*>(given[0])->body;
  Described found;
  if (bound.generation != generation || is_pinned() || read(given[1], found) != Reading::fits) Py_RETURN_NONE;
  const Described& like = bound.like;
  if (found.count != like.count || std::memcmp(found.words, like.words, sizeof(*like.words) * like.count)) Py_RETURN_NONE;
  const Ref run = Ref::shared(bound.run.get());  // another thread may drop the matrix meanwhile
  const Operands with{{given[1], Py_None, Py_None}, {&found, nullptr, nullptr}};
  PyObject* result = straight(*reinterpret_cast<Run*>(run.get())->body, with);
  return result || PyErr_Occurred() ? result : Py_NewRef(Py_None);
}

inline void delete_bound(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  delete reinterpret_cast<Bound*>(object)->body;
  PyObject_Free(object);
  Py_DECREF(type);
}

inline bool make_bound_type() {
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(delete_bound)}, {0, nullptr}};
  static PyType_Spec spec = {"mansard.native.Bound", sizeof(Bound), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  Bound::type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return Bound::type != nullptr;
}

}  // namespace mansard
