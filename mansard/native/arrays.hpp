#pragma once
// Signatures of arrays, read without Python code: what decides which plan fits, as integers, and the address.
//
//   word 0: library | dtype << 4 | dimensions << 8 | address mod 16 << 16 | read-only << 20 | conjugated << 21 | device << 32
//   then the shape, then the strides (NumPy and CuPy: bytes; PyTorch: elements)
//
// An array that cannot be read here, or whose state a signature does not capture (derivatives, lazy negation, no data),
// is "unfit": Python looks at it. Only exact types that were introduced are read; of NumPy's arrays the public head of
// PyArrayObject, of PyTorch's what DLPack's exchange functions tell, of CuPy's the attributes.

#include "native/dlpack.hpp"
#include "native/python.hpp"

namespace mansard {

enum Library { NUMPY, TORCH, CUPY };
enum Dtype { FLOAT32, FLOAT64, COMPLEX64, COMPLEX128, INT32, DTYPES };
enum class Reading { fits, unfit, unknown };  // unknown: a type that nobody has introduced

constexpr int DIMENSIONS = 6;
constexpr int NUMBERS = DTYPES - 1;  // dtypes of operands; INT32 is that of pivots and info
constexpr int TYPES = 16;

struct Described {
  std::int64_t words[1 + 2 * DIMENSIONS];
  int count;
  char* address;
  Library library;
  int dtype;
  int device;  // ordinal of a GPU; -1: memory of the CPU

  void put(int dimensions, bool readonly, bool conjugated) {
    const std::uint64_t place = reinterpret_cast<std::uintptr_t>(address) & 15;
    words[0] = library | std::int64_t(dtype) << 4 | std::int64_t(dimensions) << 8 | std::int64_t(place) << 16 |
               std::int64_t(readonly) << 20 | std::int64_t(conjugated) << 21 | std::int64_t(device + 1) << 32;
    count = 1 + 2 * dimensions;
  }
  int dimensions() const { return int(words[0] >> 8 & 255); }
  std::int64_t size(int axis) const { return words[1 + axis]; }
  std::int64_t stride(int axis) const { return words[1 + dimensions() + axis]; }
};

// What was introduced; all of it stays for as long as the process.
struct Libraries {
  struct Type {
    PyTypeObject* type;
    int library;  // -1: Python looks at such objects
  } types[TYPES];
  int count = 0;
  PyObject* numpy_dtypes[DTYPES] = {};  // NumPy's own objects of these dtypes, CuPy's, too
  const DLPackExchangeAPI* torch = nullptr;
  PyObject* grad_enabled = nullptr;   // torch.is_grad_enabled
  PyObject* tracing = nullptr;        // torch._C._get_tracing_state
  PyObject* forward_state = nullptr;  // the names of torch.autograd.forward_ad

  int library_of(PyTypeObject* type) const {
    for (int i = 0; i < count; ++i)
      if (types[i].type == type) return types[i].library;
    return -2;
  }
  int dtype_of(PyObject* dtype) const {
    for (int i = 0; i < DTYPES; ++i)
      if (numpy_dtypes[i] == dtype) return i;
    return -1;
  }
};
inline Libraries libraries;

struct Names {
  PyObject *requires_grad = interned("requires_grad"), *is_neg = interned("is_neg"), *is_conj = interned("is_conj"),
           *is_zero = interned("_is_zerotensor"), *storage = interned("untyped_storage"), *nbytes = interned("nbytes"), *level = interned("_current_level"),
           *shape = interned("shape"), *strides = interned("strides"), *dtype = interned("dtype"),
           *data = interned("data"), *ptr = interned("ptr"), *device_id = interned("device_id"),
           *out = interned("out"), *alpha = interned("alpha"), *beta = interned("beta"), *backend = interned("backend");
  PyObject *one = PyFloat_FromDouble(1.0), *zero = PyFloat_FromDouble(0.0);  // alpha and beta that were left out
};
inline Names* names = nullptr;  // made when the module is loaded

// ---- NumPy ---------------------------------------------------------------------------------------------------

// The head of PyArrayObject, the same in all versions of NumPy's binary interface.
struct NumpyArray {
  PyObject_HEAD
  char* data;
  int dimensions;
  Py_intptr_t* shape;
  Py_intptr_t* strides;
  PyObject* base;
  PyObject* dtype;
  int flags;
};
constexpr int WRITEABLE = 0x0400;

inline bool read_numpy(PyObject* object, Described& found) {
  const auto* array = reinterpret_cast<const NumpyArray*>(object);
  found.dtype = libraries.dtype_of(array->dtype);
  if (found.dtype < 0 || array->dimensions > DIMENSIONS) return false;
  found.address = array->data;
  found.device = -1;
  for (int i = 0; i < array->dimensions; ++i) {
    found.words[1 + i] = array->shape[i];
    found.words[1 + array->dimensions + i] = array->strides[i];
  }
  found.put(array->dimensions, !(array->flags & WRITEABLE), false);
  return true;
}

// ---- PyTorch -------------------------------------------------------------------------------------------------

// 1 or 0: what the method of this name, or the function, says; -1: it raised.
inline int says(PyObject* answer) {
  Ref found(answer);
  if (!found) return PyErr_Clear(), -1;
  return found.get() == Py_True;
}

inline int method_says(PyObject* array, PyObject* name) { return says(PyObject_CallMethodNoArgs(array, name)); }

inline bool records_gradients(PyObject* array) {
  Ref wanted(PyObject_GetAttr(array, names->requires_grad));
  if (!wanted) return PyErr_Clear(), true;
  return wanted.get() != Py_False && says(PyObject_CallNoArgs(libraries.grad_enabled)) != 0;
}

inline bool is_traced() {
  Ref state(PyObject_CallNoArgs(libraries.tracing));
  if (!state) PyErr_Clear();
  return state.get() != Py_None;
}

inline bool in_forward_mode() {
  PyObject* level = PyDict_GetItemWithError(libraries.forward_state, names->level);
  const long found = level ? PyLong_AsLong(level) : 0;
  if (PyErr_Occurred()) PyErr_Clear();
  return found >= 0;
}

// Tensors of a storage that was resized to nothing, and PyTorch's zeros without memory, lie at their offsets from null:
// below any memory that is mapped above the program. Addresses there are rare, and such a tensor is asked.
inline bool has_data(PyObject* array, const char* address) {
  if (!address) return false;
  if (reinterpret_cast<std::uintptr_t>(address) >= std::uintptr_t(1) << 40) return true;
  Ref storage(PyObject_CallMethodNoArgs(array, names->storage));
  Ref bytes(storage ? PyObject_CallMethodNoArgs(storage.get(), names->nbytes) : nullptr);
  const bool some = bytes && PyLong_AsLongLong(bytes.get()) > 0 && method_says(array, names->is_zero) == 0;
  if (PyErr_Occurred()) PyErr_Clear();
  return some;
}

inline int dtype_of(DLDataType type) {
  if (type.lanes != 1) return -1;
  if (type.code == DL_FLOAT) return type.bits == 32 ? FLOAT32 : type.bits == 64 ? FLOAT64 : -1;
  if (type.code == DL_COMPLEX) return type.bits == 64 ? COMPLEX64 : type.bits == 128 ? COMPLEX128 : -1;
  return type.code == DL_INT && type.bits == 32 ? INT32 : -1;
}

inline bool describe_torch(PyObject* array, DLTensor& tensor) {
  if (libraries.torch->describe(array, &tensor) != 0) return PyErr_Clear(), false;
  return tensor.dimensions <= DIMENSIONS && (tensor.dimensions == 0 || (tensor.shape && tensor.strides));
}

inline bool read_torch(PyObject* array, Described& found) {
  DLTensor tensor;
  if (records_gradients(array) || method_says(array, names->is_neg) != 0) return false;
  if (!describe_torch(array, tensor)) return false;
  found.dtype = dtype_of(tensor.dtype);
  found.address = static_cast<char*>(tensor.data) + tensor.byte_offset;
  const bool on_cpu = tensor.device.type == DL_CPU;
  if (found.dtype < 0 || !(on_cpu || tensor.device.type == DL_CUDA) || !tensor.data) return false;
  if (!has_data(array, found.address)) return false;
  const bool is_complex = found.dtype == COMPLEX64 || found.dtype == COMPLEX128;
  const int conjugated = is_complex ? method_says(array, names->is_conj) : 0;
  if (conjugated < 0) return false;
  found.device = on_cpu ? -1 : tensor.device.ordinal;
  for (int i = 0; i < tensor.dimensions; ++i) {
    found.words[1 + i] = tensor.shape[i];
    found.words[1 + tensor.dimensions + i] = tensor.strides[i];
  }
  found.put(tensor.dimensions, false, conjugated);
  return true;
}

// ---- CuPy ----------------------------------------------------------------------------------------------------

// Copy a tuple of integers; their number, or -1 if it is something else, or more.
inline int copy_integers(PyObject* owned, std::int64_t* to) {
  Ref tuple(owned);
  if (!tuple) return PyErr_Clear(), -1;
  if (!PyTuple_Check(tuple.get()) || PyTuple_GET_SIZE(tuple.get()) > DIMENSIONS) return -1;
  const int count = int(PyTuple_GET_SIZE(tuple.get()));
  for (int i = 0; i < count; ++i) to[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple.get(), i));
  if (PyErr_Occurred()) return PyErr_Clear(), -1;
  return count;
}

inline bool memory_of_cupy(PyObject* array, char*& address, int* device) {
  Ref memory(PyObject_GetAttr(array, names->data));
  Ref pointer(memory ? PyObject_GetAttr(memory.get(), names->ptr) : nullptr);
  Ref ordinal(pointer && device ? PyObject_GetAttr(memory.get(), names->device_id) : nullptr);
  std::uint64_t word = 0;
  if (pointer && as_word(pointer.get(), word)) address = reinterpret_cast<char*>(word);
  if (ordinal) *device = int(PyLong_AsLong(ordinal.get()));
  if (PyErr_Occurred()) return PyErr_Clear(), false;
  return pointer && (!device || ordinal);
}

inline bool read_cupy(PyObject* array, Described& found) {
  Ref dtype(PyObject_GetAttr(array, names->dtype));
  if (!dtype) return PyErr_Clear(), false;
  found.dtype = libraries.dtype_of(dtype.get());
  if (found.dtype < 0 || !memory_of_cupy(array, found.address, &found.device) || found.device < 0) return false;
  const int dimensions = copy_integers(PyObject_GetAttr(array, names->shape), found.words + 1);
  if (dimensions < 0) return false;
  if (copy_integers(PyObject_GetAttr(array, names->strides), found.words + 1 + dimensions) != dimensions) return false;
  found.put(dimensions, false, false);
  return true;
}

// ---- any of them ---------------------------------------------------------------------------------------------

// Modes of PyTorch that concern all tensors of a call: asked once, with the first of them.
class TorchModes {
 public:
  bool are_plain() {
    if (!asked_) asked_ = true, plain_ = !in_forward_mode() && !is_traced();
    return plain_;
  }

 private:
  bool asked_ = false, plain_ = false;
};

inline Reading read(PyObject* array, Described& found, TorchModes& modes) {
  const int library = libraries.library_of(Py_TYPE(array));
  if (library < 0) return library == -1 ? Reading::unfit : Reading::unknown;
  found.library = Library(library);
  if (library == TORCH && !modes.are_plain()) return Reading::unfit;
  const bool fits = library == NUMPY   ? read_numpy(array, found)
                    : library == TORCH ? read_torch(array, found)
                                       : read_cupy(array, found);
  return fits ? Reading::fits : Reading::unfit;
}

inline Reading read(PyObject* array, Described& found) {
  TorchModes modes;
  return read(array, found, modes);
}

// Where a result that the library has just allocated begins; null: it is not what was asked for.
inline char* address_of_result(PyObject* array, Library library) {
  if (libraries.library_of(Py_TYPE(array)) != library) return nullptr;
  if (library == NUMPY) return reinterpret_cast<const NumpyArray*>(array)->data;
  char* address = nullptr;
  if (library == CUPY) return memory_of_cupy(array, address, nullptr) ? address : nullptr;
  DLTensor tensor;
  if (!describe_torch(array, tensor) || !tensor.data) return nullptr;
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

}  // namespace mansard
