#pragma once
// The interpreter, and references to its objects.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace mansard {

// An owned reference; empty: null.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() { Py_XDECREF(object_); }

  static Ref shared(PyObject* borrowed) { return Ref(Py_XNewRef(borrowed)); }
  Ref(Ref&& other) noexcept : object_(other.release()) {}
  Ref& operator=(Ref&& other) noexcept {
    PyObject* before = object_;
    object_ = other.release();
    Py_XDECREF(before);
    return *this;
  }

  PyObject* get() const { return object_; }
  PyObject* release() {
    PyObject* found = object_;
    object_ = nullptr;
    return found;
  }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

inline PyObject* or_none(PyObject* object) { return object ? object : Py_None; }

// A number that stands for an address or a handle.
inline bool as_word(PyObject* number, std::uint64_t& word) {
  word = PyLong_AsUnsignedLongLong(number);
  return !(word == ~std::uint64_t(0) && PyErr_Occurred());
}

inline PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

}  // namespace mansard
