#pragma once
// Products by cuBLAS, C = op(A) op(B), alone or in a stack, without Python code and without copies.
//
// All products of a device share one handle, and take turns with it. The handle's stream is set where the call before
// used another one; every stream has a workspace of its own, because work on two streams runs at the same time. What
// Python launches instead, through a handle of its own: products on a captured stream (a graph would share the
// workspace with later work), on more streams than STREAMS, and of a thread in which another context is current.

#include <list>
#include <mutex>

#include "native/python.hpp"

namespace mansard {

// Under CU_STREAM_PER_THREAD every thread has another stream.
inline bool is_same_stream(std::uint64_t one, unsigned long of_one, std::uint64_t other, unsigned long of_other) {
  constexpr std::uint64_t PER_THREAD = 2;
  return one == other && (one != PER_THREAD || of_one == of_other);
}

// A cuBLAS handle. `spaces` changes under the interpreter's lock alone, `turn` guards the rest.
struct Handle {
  static constexpr int STREAMS = 8;
  struct Space {
    std::uint64_t stream;
    unsigned long thread;
    std::uint64_t address, bytes;
  };

  explicit Handle(std::uint64_t handle) : word(handle) {}

  const Space* find(std::uint64_t stream, unsigned long thread) const {
    for (int i = 0; i < count; ++i)
      if (is_same_stream(spaces[i].stream, spaces[i].thread, stream, thread)) return spaces + i;
    return nullptr;
  }

  std::uint64_t word;
  Space spaces[STREAMS];
  int count = 0;
  std::mutex turn;
  const Space* current = nullptr;  // of the stream that cuBLAS was told last
};

// The handle of this number; handles are never destroyed.
inline Handle* handle_of(std::uint64_t word) {
  static std::list<Handle> handles;
  for (Handle& one : handles)
    if (one.word == word) return &one;
  return &handles.emplace_back(word);
}

class Product {
 public:
  enum class Answer { done, failed, python };  // python: this launch is one for Python

  // ("cublas", is_capturing, current_context, context, set_stream, set_workspace, routine, handle, (operation of the
  // left operand, of the right one, m, n, k), (operand, leading dimension, step) of left, right and result, matrices,
  // alpha and beta, workspace)
  bool read(PyObject* entry) {
    const char *name, *factors;
    Py_ssize_t size = 0;
    PyObject* workspace;
    unsigned long long handle;
    if (!PyArg_ParseTuple(entry, "sKKKKKKK(iiiii)((iiL)(iiL)(iiL))iy#O", &name, &capturing_, &current_context_,
                          &context_, &set_stream_, &set_workspace_, &routine_, &handle, &left_, &right_, &m_, &n_, &k_,
                          &sides_[0].operand, &sides_[0].pitch, &sides_[0].step, &sides_[1].operand, &sides_[1].pitch,
                          &sides_[1].step, &sides_[2].operand, &sides_[2].pitch, &sides_[2].step, &batch_, &factors,
                          &size, &workspace))
      return false;
    bool fits = size == 2 * FACTOR && batch_ > 0;
    for (const Side& side : sides_) fits = fits && side.operand >= 0 && side.operand < 3;
    if (!fits) return PyErr_SetString(PyExc_ValueError, "entry: no product of three operands"), false;
    std::memcpy(factors_, factors, sizeof(factors_));
    workspace_ = Ref::shared(workspace);
    handle_ = handle_of(handle);
    return true;
  }

  Answer run(const std::uint64_t* pointers, std::uint64_t stream) {
    void *context = nullptr, *where = reinterpret_cast<void*>(stream);
    int flag = 0;
    if (as<int(void**)>(current_context_)(&context) || context != reinterpret_cast<void*>(context_)) return Answer::python;
    if (as<int(void*, int*)>(capturing_)(where, &flag) || flag) return Answer::python;
    const Handle::Space* space = reserve(stream);
    if (!space) return Answer::python;
    int status = 0;
    Py_BEGIN_ALLOW_THREADS;
    {
      const std::lock_guard<std::mutex> turn(handle_->turn);
      status = move_to(space, where);
      if (!status) status = multiply(pointers);
    }
    Py_END_ALLOW_THREADS;
    return status ? Answer::failed : Answer::done;
  }

 private:
  static constexpr int FACTOR = 16;  // bytes of the largest number
  struct Side {
    int operand, pitch;
    long long step;
  };

  template <class F>
  static F* as(unsigned long long address) {
    return reinterpret_cast<F*>(std::uintptr_t(address));
  }

  // The workspace of a stream; null: there are too many streams, or no memory.
  const Handle::Space* reserve(std::uint64_t stream) {
    const unsigned long thread = PyThread_get_thread_ident();
    if (const Handle::Space* found = handle_->find(stream, thread)) return found;
    std::uint64_t address = 0, bytes = 0;
    Ref number(PyLong_FromUnsignedLongLong(stream));
    Ref told(number ? PyObject_CallOneArg(workspace_.get(), number.get()) : nullptr);
    if (!told || !PyArg_ParseTuple(told.get(), "KK", &address, &bytes)) return PyErr_Clear(), nullptr;
    if (const Handle::Space* found = handle_->find(stream, thread)) return found;  // another thread was faster
    if (handle_->count == Handle::STREAMS) return nullptr;
    handle_->spaces[handle_->count] = {stream, thread, address, bytes};
    return handle_->spaces + handle_->count++;
  }

  // cuBLAS forgets the workspace when it is told a stream.
  int move_to(const Handle::Space* space, void* stream) {
    if (handle_->current == space) return 0;
    handle_->current = nullptr;
    int status = as<int(void*, void*)>(set_stream_)(handle(), stream);
    if (!status)
      status = as<int(void*, void*, std::size_t)>(set_workspace_)(handle(), pointer(space->address), space->bytes);
    if (!status) handle_->current = space;
    return status;
  }

  int multiply(const std::uint64_t* pointers) const {
    const char *alpha = factors_, *beta = factors_ + FACTOR;
    const Side &l = sides_[0], &r = sides_[1], &c = sides_[2];
    void *left = pointer(pointers[l.operand]), *right = pointer(pointers[r.operand]);
    void* result = pointer(pointers[c.operand]);
    if (batch_ == 1)
      return as<Single>(routine_)(handle(), left_, right_, m_, n_, k_, alpha, left, l.pitch, right, r.pitch, beta, result,
                                  c.pitch);
    return as<Stack>(routine_)(handle(), left_, right_, m_, n_, k_, alpha, left, l.pitch, l.step, right, r.pitch, r.step,
                               beta, result, c.pitch, c.step, batch_);
  }

  using Single = int(void*, int, int, int, int, int, const void*, const void*, int, const void*, int, const void*, void*,
                     int);
  using Stack = int(void*, int, int, int, int, int, const void*, const void*, int, long long, const void*, int, long long,
                    const void*, void*, int, long long, int);
  static void* pointer(std::uint64_t word) { return reinterpret_cast<void*>(std::uintptr_t(word)); }
  void* handle() const { return pointer(handle_->word); }

  unsigned long long capturing_ = 0, current_context_ = 0, context_ = 0, set_stream_ = 0, set_workspace_ = 0, routine_ = 0;
  int left_ = 0, right_ = 0, m_ = 0, n_ = 0, k_ = 0, batch_ = 0;
  Side sides_[3] = {};
  alignas(16) char factors_[2 * FACTOR] = {};
  Handle* handle_ = nullptr;
  Ref workspace_;
};

}  // namespace mansard
