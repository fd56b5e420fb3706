#pragma once
// A plan's fast path: addresses, results from the array library's allocator, the overlap check, one launch. Whatever
// else a call may need (factors, an `out` near an operand, capture, an allocation that failed) is left to `general`,
// the plan's Python function, before anything was written.

#include "native/arrays.hpp"
#include "native/launches.hpp"

namespace mansard {

constexpr int PARTS = 4;   // results of an operation
constexpr int FIXED = -2;  // the place of an operand that lies among the prepared arguments

// How a result is allocated: function([like], *given, **named).
struct Maker {
  Ref function, given, names;  // names: a tuple, or empty; the last of `given` go by them
  int takes_like = 0;

  bool read(PyObject* told) {
    PyObject *f, *g, *n;
    if (!PyArg_ParseTuple(told, "OO!Op", &f, &PyTuple_Type, &g, &n, &takes_like)) return false;
    if (PyTuple_GET_SIZE(g) > 4) return PyErr_SetString(PyExc_ValueError, "maker: too many arguments"), false;
    function = Ref::shared(f), given = Ref::shared(g);
    if (n != Py_None) names = Ref::shared(n);
    return true;
  }

  PyObject* make(PyObject* like) const {
    PyObject* arguments[6];
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names.get()) : 0, all = PyTuple_GET_SIZE(given.get());
    Py_ssize_t count = 0;
    if (takes_like) arguments[count++] = like;
    for (Py_ssize_t i = 0; i < all; ++i) arguments[count++] = PyTuple_GET_ITEM(given.get(), i);
    return PyObject_Vectorcall(function.get(), arguments, count - named, names.get());
  }
};

// Bytes that an operand can touch, relative to its address.
struct Reach {
  long long first = 0, last = 0;

  bool meets(char* mine, char* other, const Reach& others) const {
    return mine + first < other + others.last && other + others.first < mine + last;
  }
};

// The caller's current stream: none (CPU), DLPack's answer, an attribute of what a function returns, or its result.
struct Stream {
  Ref function;
  int by_dlpack = 0, ordinal = 0, has_attribute = 0;

  bool read(PyObject* told) {
    if (told == Py_None) return true;
    PyObject* f;
    if (!PyArg_ParseTuple(told, "Opip", &f, &by_dlpack, &ordinal, &has_attribute)) return false;
    function = Ref::shared(f);
    return true;
  }

  bool current(std::uint64_t& stream) const {
    stream = 0;
    if (!function) return true;
    if (by_dlpack) {
      void* found = nullptr;
      if (libraries.torch->current_stream(DL_CUDA, ordinal, &found)) return PyErr_Clear(), false;
      stream = reinterpret_cast<std::uintptr_t>(found);
      return true;
    }
    Ref found(PyObject_CallNoArgs(function.get()));
    if (found && has_attribute) found = Ref(PyObject_GetAttr(found.get(), names->ptr));
    if (!found || !as_word(found.get(), stream)) return PyErr_Clear(), false;
    return true;
  }
};

struct Run {
  PyObject_HEAD
  struct Body {
    Launch launch;
    Maker makers[PARTS];
    Reach reaches[3];  // of A, B and the first result
    Stream stream;
    Ref general;   // the plan's Python function
    Ref launcher;  // the backend's Python launch, for what this one leaves
    Ref scalars;   // what it takes beside addresses
    Ref written;   // tells the library that `out` was overwritten; or empty
    int library = 0, made = 0, parts = 0, like = 0, placed = 0, in_place = 0;
    int order[POINTERS];  // of the kernel's operands: 0: A, 1: B, 2...: results, -1: null, FIXED: an address of the plan
  }* body;

  static PyTypeObject* type;
};
inline PyTypeObject* Run::type = nullptr;

// ---- one call ------------------------------------------------------------------------------------------------

struct Operands {
  PyObject* given[3];  // A, B, out; None where there is none
  const Described* read[3];
};

// `out` lies where it may: apart from A and B, or exactly in the place of the one that the kernel allows (1: A, 2: B).
inline bool is_apart(const Run::Body& run, const Operands& with) {
  char* out = with.read[2]->address;
  for (int i = 0; i < 2; ++i) {
    if (!with.read[i] || (run.in_place == i + 1 && with.read[i]->address == out)) continue;
    if (run.reaches[2].meets(out, with.read[i]->address, run.reaches[i])) return false;
  }
  return true;
}

inline PyObject* python_launch(const Run::Body& run, const std::uint64_t* pointers, std::uint64_t stream) {
  const int count = run.launch.operands();
  Ref addresses(PyTuple_New(count)), handle(PyLong_FromUnsignedLongLong(stream));
  if (!addresses || !handle) return nullptr;
  for (int i = 0; i < count; ++i) {
    PyObject* word = PyLong_FromUnsignedLongLong(pointers[i]);
    if (!word) return nullptr;
    PyTuple_SET_ITEM(addresses.get(), i, word);
  }
  return PyObject_CallFunctionObjArgs(run.launcher.get(), addresses.get(), run.scalars.get(), handle.get(), nullptr);
}

// The results, one or a list; null with an error set; null without one: this call is `general`'s.
inline PyObject* straight(Run::Body& run, const Operands& with) {
  Ref results[PARTS];
  char* places[2 + PARTS] = {with.read[0]->address, with.read[1] ? with.read[1]->address : nullptr};
  if (!run.launch.on_cpu() && lost_cuda) return nullptr;
  if (run.placed && !is_apart(run, with)) return nullptr;
  for (int i = 0; i < run.made; ++i) {
    if (run.placed && i == 0) {
      results[i] = Ref::shared(with.given[2]), places[2] = with.read[2]->address;
      continue;
    }
    results[i] = Ref(run.makers[i].make(with.given[run.like]));
    char* place = results[i] ? address_of_result(results[i].get(), Library(run.library)) : nullptr;
    if (!place) return PyErr_Clear(), nullptr;
    places[2 + i] = place;
  }
  std::uint64_t pointers[POINTERS], stream = 0;
  for (int i = 0; i < run.launch.operands(); ++i)
    pointers[i] = run.order[i] == FIXED ? run.launch.word(i)
                  : run.order[i] < 0    ? 0
                                        : reinterpret_cast<std::uintptr_t>(places[run.order[i]]);
  if (!run.stream.current(stream)) return nullptr;
  if (run.launch.run(pointers, stream) != Outcome::done) {
    Ref done(python_launch(run, pointers, stream));
    if (!done) return nullptr;
  }
  if (run.placed && run.written) {
    Ref all(PyTuple_Pack(1, with.given[2])), told(all ? PyObject_CallOneArg(run.written.get(), all.get()) : nullptr);
    if (!told) return nullptr;
  }
  if (!run.parts) return results[0].release();
  Ref list(PyList_New(run.parts));
  for (int i = 0; list && i < run.parts; ++i) PyList_SET_ITEM(list.get(), i, results[i].release());
  return list.release();
}

// ---- the type ------------------------------------------------------------------------------------------------

inline bool read_numbers(PyObject* tuple, long long* to, Py_ssize_t most, Py_ssize_t& count) {
  count = PyTuple_Check(tuple) ? PyTuple_GET_SIZE(tuple) : -1;
  if (count < 0 || count > most) return PyErr_SetString(PyExc_ValueError, "run: a tuple of another length"), false;
  for (Py_ssize_t i = 0; i < count; ++i) to[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
  return !PyErr_Occurred();
}

// (library, order, makers, placed, parts, like, in_place, reaches, entry, stream, scalars, general, launcher, written)
inline bool read_run(Run::Body& run, PyObject* told) {
  PyObject *order, *makers, *reaches, *entry, *stream, *scalars, *general, *launcher, *written;
  if (!PyArg_ParseTuple(told, "iOO!piiiOOOOOOO", &run.library, &order, &PyTuple_Type, &makers, &run.placed, &run.parts,
                        &run.like, &run.in_place, &reaches, &entry, &stream, &scalars, &general, &launcher, &written))
    return false;
  if (!run.launch.read(entry) || !run.stream.read(stream)) return false;
  long long numbers[POINTERS];
  Py_ssize_t count = 0;
  run.made = int(PyTuple_GET_SIZE(makers));
  if (!read_numbers(order, numbers, POINTERS, count)) return false;
  if (count != run.launch.operands() || run.made < 1 || run.made > PARTS || run.parts > run.made || run.like < 0 ||
      run.like > 1)
    return PyErr_SetString(PyExc_ValueError, "run: its operands or results do not fit the kernel"), false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (numbers[i] < FIXED || numbers[i] >= 2 + run.made) return PyErr_SetString(PyExc_ValueError, "run: order"), false;
    run.order[i] = int(numbers[i]);
  }
  if (!read_numbers(reaches, numbers, 6, count)) return false;
  for (Py_ssize_t i = 0; i + 1 < count; i += 2) run.reaches[i / 2] = Reach{numbers[i], numbers[i + 1]};
  for (int i = run.placed; i < run.made; ++i)
    if (!run.makers[i].read(PyTuple_GET_ITEM(makers, i))) return false;
  run.scalars = Ref::shared(scalars), run.general = Ref::shared(general), run.launcher = Ref::shared(launcher);
  if (written != Py_None) run.written = Ref::shared(written);
  return true;
}

inline PyObject* new_run(PyObject*, PyObject* told) {
  Run* made = PyObject_New(Run, Run::type);
  if (!made) return nullptr;
  made->body = new (std::nothrow) Run::Body();
  if (!made->body || !read_run(*made->body, told)) {
    Py_DECREF(made);
    return PyErr_Occurred() ? nullptr : PyErr_NoMemory();
  }
  return reinterpret_cast<PyObject*>(made);
}

inline void delete_run(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  delete reinterpret_cast<Run*>(object)->body;
  PyObject_Free(object);
  Py_DECREF(type);
}

inline bool make_run_type() {
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(delete_run)}, {0, nullptr}};
  static PyType_Spec spec = {"mansard.native.Run", sizeof(Run), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  Run::type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return Run::type != nullptr;
}

}  // namespace mansard
