#pragma once
// Calls of operations: the plan for arrays like these from the table, or Python, whose plan is then learned.

#include "native/run.hpp"
#include "native/table.hpp"

namespace mansard {

inline Table table;

// Python's side of a group of calls: what runs one, and what names the plan that it has left, or None.
struct Answers {
  PyObject *run = nullptr, *recall = nullptr;
};

struct Python {
  Answers call, quick;
  PyObject* introduce = nullptr;  // looks at an object whose type is unknown here
  PyObject* pins = nullptr;       // context variable: what is pinned
};
inline Python python;

inline bool is_pinned() {
  PyObject* value = nullptr;
  if (PyContextVar_Get(python.pins, nullptr, &value) < 0) return PyErr_Clear(), true;
  Ref pins(value);
  return pins && PyDict_Check(pins.get()) && PyDict_GET_SIZE(pins.get()) > 0;
}

// What a call is about: its arrays as they are now.
struct Asked {
  PyObject* terms[3];  // operation or task, backend, options
  Operands with;
  Described described[3];
  Reading reading = Reading::fits;

  Asked(PyObject* what, PyObject* backend, PyObject* form, PyObject* A, PyObject* B, PyObject* out)
      : terms{what, backend, form}, with{{A, B, out}, {}} {
    TorchModes modes;
    for (int i = 0; i < 3; ++i) {
      PyObject* array = with.given[i];
      if (i && array == Py_None) continue;
      const bool alike = Py_TYPE(array) == Py_TYPE(A);
      const Reading found = alike ? read(array, described[i], modes) : Reading::unfit;
      if (found != Reading::fits || described[i].dtype >= NUMBERS) {
        reading = found == Reading::unknown ? found : Reading::unfit;
        return;
      }
      with.read[i] = &described[i];
    }
  }

  Key key(PyObject* const* named) const {
    Key key;
    for (int i = 0; i < 3; ++i) key.add(named[i]);
    key.add(std::int64_t(with.read[2] && with.read[2]->address == with.read[0]->address));  // in place
    for (const Described* array : with.read) key.add(array);
    return key;
  }

  // The key by the objects that the table keeps alive; false where something has no hash.
  bool named_key(Key& found) const {
    PyObject* named[3];
    for (int i = 0; i < 3; ++i)
      if (!(named[i] = table.name(terms[i]))) return false;
    found = key(named);
    return true;
  }

  PyObject* plan() const {
    PyObject* found = table.find(key(terms));
    Key other;
    return found || !named_key(other) ? found : table.find(other);
  }
};

inline bool is_exactly(PyObject* number, double value) {
  return PyFloat_CheckExact(number) && PyFloat_AS_DOUBLE(number) == value;
}

// Ask Python for the plan that a call has left; it is kept if the arrays are still what they were.
inline void learn(const Asked& asked, PyObject* recall) {
  if (asked.reading == Reading::unknown) {
    for (PyObject* object : asked.with.given)
      if (object != Py_None && libraries.library_of(Py_TYPE(object)) == -2) Ref(PyObject_CallOneArg(python.introduce, object));
    return PyErr_Clear();
  }
  if (asked.reading != Reading::fits || is_pinned()) return;
  PyObject* const* given = asked.with.given;
  PyObject* all[] = {asked.terms[0], asked.terms[1], asked.terms[2], given[0], given[1], given[2]};
  Ref run(PyObject_Vectorcall(recall, all, 6, nullptr));
  if (!run) return PyErr_Clear();
  if (run.get() == Py_None) return;
  if (table.is_full()) table.clear();
  const Asked now(asked.terms[0], asked.terms[1], asked.terms[2], given[0], given[1], given[2]);
  Key before, after;
  if (now.reading != Reading::fits || !asked.named_key(before) || !now.named_key(after)) return;
  if (before == after) table.keep(after, run.get());
}

// A plan leaves a launch; a pair (function of the operands alone, path) where a library's own function answers calls
// without factors and `out`; or its path, a Python function.
inline PyObject* general_of(const Ref& run) {
  if (Py_TYPE(run.get()) == Run::type) return reinterpret_cast<Run*>(run.get())->body->general.get();
  return PyTuple_CheckExact(run.get()) ? PyTuple_GET_ITEM(run.get(), 1) : run.get();
}

// The result of a call without factors; null without an error: the path answers.
inline PyObject* unscaled(const Ref& run, const Operands& with, bool placed) {
  if (Py_TYPE(run.get()) == Run::type) return straight(*reinterpret_cast<Run*>(run.get())->body, with);
  if (placed || !PyTuple_CheckExact(run.get())) return nullptr;
  const int count = with.given[1] == Py_None ? 1 : 2;
  PyObject* result = PyObject_Vectorcall(PyTuple_GET_ITEM(run.get(), 0), with.given, count, nullptr);
  if (!result) PyErr_Clear();  // the path says it better
  return result;
}

// (operation, A, B, out, alpha, beta, backend, form)
inline PyObject* call(PyObject*, PyObject* const* given, Py_ssize_t count) {
  if (count != 8) return PyErr_SetString(PyExc_TypeError, "call takes eight arguments"), nullptr;
  const Asked asked(given[0], given[6], given[7], given[1], given[2], given[3]);
  if (asked.reading == Reading::fits && !is_pinned()) {
    if (Ref run = Ref::shared(asked.plan())) {
      PyObject* general = general_of(run);
      if (is_exactly(given[4], 1.0) && is_exactly(given[5], 0.0)) {
        PyObject* result = unscaled(run, asked.with, given[3] != Py_None);
        if (result || PyErr_Occurred()) return result;
      }
      return PyObject_Vectorcall(general, given + 1, 5, nullptr);
    }
  }
  Ref result(PyObject_Vectorcall(python.call.run, given, 8, nullptr));
  if (result) learn(asked, python.call.recall);
  return result.release();
}

// The named arguments of a public function that `enter` serves: `out`, factors that are floats, `backend` where it is None,
// and options of the function's own, whose values make its form.
struct Named {
  static constexpr int OPTIONS = 4;
  PyObject *out = Py_None, *alpha = nullptr, *beta = nullptr, *form = nullptr;  // borrowed

  // (operation, form, folds, names of options, their defaults, forms by the values of all options)
  bool read(PyObject* entry, PyObject* kwargs) {
    PyObject *known = PyTuple_GET_ITEM(entry, 3), *values[OPTIONS], *name, *value;
    const Py_ssize_t options = PyTuple_GET_SIZE(known);
    form = PyTuple_GET_ITEM(entry, 1);
    if (!PyDict_GET_SIZE(kwargs)) return true;
    for (Py_ssize_t i = 0; i < options; ++i) values[i] = PyTuple_GET_ITEM(PyTuple_GET_ITEM(entry, 4), i);
    bool is_default = true;
    for (Py_ssize_t at = 0; PyDict_Next(kwargs, &at, &name, &value);) {
      Py_ssize_t i = 0;
      while (i < options && PyTuple_GET_ITEM(known, i) != name) ++i;  // both are interned
      if (i < options)
        is_default = is_default && values[i] == value, values[i] = value;
      else if (!is_common(name, value))
        return false;
    }
    return is_default || find(values, options, PyTuple_GET_ITEM(entry, 5));
  }

 private:
  bool is_common(PyObject* name, PyObject* value) {
    if (name == names->out) return out = value, true;
    if (name == names->alpha) return alpha = value, PyFloat_CheckExact(value);
    if (name == names->beta) return beta = value, PyFloat_CheckExact(value);
    return name == names->backend && value == Py_None;
  }

  bool find(PyObject* const* values, Py_ssize_t options, PyObject* forms) {
    Ref key(PyTuple_New(options));
    for (Py_ssize_t i = 0; key && i < options; ++i) PyTuple_SET_ITEM(key.get(), i, Py_NewRef(values[i]));
    form = key ? PyDict_GetItemWithError(forms, key.get()) : nullptr;
    if (PyErr_Occurred()) PyErr_Clear();  // the function says what it thinks of such a value
    return form != nullptr;
  }
};

inline bool is_entry(PyObject* entry) {
  return PyTuple_Check(entry) && PyTuple_GET_SIZE(entry) == 6 && PyTuple_Check(PyTuple_GET_ITEM(entry, 3)) &&
         PyTuple_Check(PyTuple_GET_ITEM(entry, 4)) && PyDict_Check(PyTuple_GET_ITEM(entry, 5)) &&
         PyTuple_GET_SIZE(PyTuple_GET_ITEM(entry, 3)) == PyTuple_GET_SIZE(PyTuple_GET_ITEM(entry, 4)) &&
         PyTuple_GET_SIZE(PyTuple_GET_ITEM(entry, 3)) <= Named::OPTIONS;
}

// ((operation, form, folds, ...), args, kwargs) of a public function -> the result, or NotImplemented: this call is
// Python's. It serves one or two arrays and what `Named` reads; `folds`: the same array twice is one array.
inline PyObject* enter(PyObject*, PyObject* const* given, Py_ssize_t count) {
  const bool fits = count == 3 && is_entry(given[0]) && PyTuple_Check(given[1]) && PyDict_Check(given[2]);
  if (!fits) return PyErr_SetString(PyExc_TypeError, "enter((operation, form, folds, ...), args, kwargs)"), nullptr;
  const Py_ssize_t arrays = PyTuple_GET_SIZE(given[1]);
  Named with;
  if (arrays < 1 || arrays > 2 || is_pinned() || !with.read(given[0], given[2])) Py_RETURN_NOTIMPLEMENTED;
  PyObject* A = PyTuple_GET_ITEM(given[1], 0);
  PyObject* B = arrays == 2 ? PyTuple_GET_ITEM(given[1], 1) : Py_None;
  if (A == B && PyTuple_GET_ITEM(given[0], 2) == Py_True) B = Py_None;
  const Asked asked(PyTuple_GET_ITEM(given[0], 0), Py_None, with.form, A, B, with.out);
  Ref run = Ref::shared(asked.reading == Reading::fits ? asked.plan() : nullptr);
  if (!run) Py_RETURN_NOTIMPLEMENTED;
  const bool is_plain = (!with.alpha || is_exactly(with.alpha, 1.0)) && (!with.beta || is_exactly(with.beta, 0.0));
  if (is_plain) {
    PyObject* result = unscaled(run, asked.with, with.out != Py_None);
    if (result || PyErr_Occurred()) return result;
  }
  PyObject* all[] = {A, B, with.out, with.alpha ? with.alpha : names->one, with.beta ? with.beta : names->zero};
  return PyObject_Vectorcall(general_of(run), all, 5, nullptr);
}

// (task, backend, A, B, out) -> the parts, or None: whoever asks has to look at the arrays closely
inline PyObject* quick(PyObject*, PyObject* const* given, Py_ssize_t count) {
  if (count != 5) return PyErr_SetString(PyExc_TypeError, "quick takes five arguments"), nullptr;
  const Asked asked(given[0], given[1], Py_None, given[2], given[3], given[4]);
  if (asked.reading == Reading::fits && !is_pinned()) {
    if (Ref run = Ref::shared(asked.plan())) {
      PyObject* general = run.get();
      if (Py_TYPE(run.get()) == Run::type) {
        Run::Body& body = *reinterpret_cast<Run*>(run.get())->body;
        PyObject* result = straight(body, asked.with);
        if (result || PyErr_Occurred()) return result;
        general = body.general.get();
      }
      return PyObject_Vectorcall(general, given + 2, 3, nullptr);
    }
  }
  Ref result(PyObject_Vectorcall(python.quick.run, given, 5, nullptr));
  if (result && result.get() != Py_None) learn(asked, python.quick.recall);  // None: nobody has looked at the arrays yet
  return result.release();
}

}  // namespace mansard
