#pragma once
// Launches of loaded kernels: a copy of the prepared arguments, with the addresses of this call, on the stack of the
// calling thread. The interpreter's lock is released while a kernel, or the driver, runs.

#include "native/blas.hpp"
#include "native/products.hpp"

namespace mansard {

constexpr int POINTERS = 12;       // operands of a kernel
constexpr int ARGUMENTS = 8 * 64;  // bytes of a kernel's arguments
constexpr int STREAMS = 16;        // streams whose workspaces a launch knows; on others Python launches

// Memory of a thread for the partial sums of a kernel, which are gone when it returns.
class Scratch {
 public:
  ~Scratch() { std::free(memory_); }

  void* reserve(std::size_t bytes) {
    if (bytes > size_) {
      std::free(memory_);
      size_ = (bytes + 4095) / 4096 * 4096;
      memory_ = std::aligned_alloc(64, size_);
      if (!memory_) size_ = 0;
    }
    return memory_;
  }

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

// Whether this process was forked from one that used CUDA: the driver serves such a child no more.
inline bool lost_cuda = false;

using Outcome = Product::Answer;

class Launch {
 public:
  // ("cpu", function, arguments, operands, bytes of partial sums),
  // ("cuda", launch, is_capturing, function, sizes, arguments, operands, cooperative, workspace),
  // ("cublas", ...), which `products.hpp` describes, or ("cblas", ...), which `blas.hpp` does
  bool read(PyObject* entry) {
    const char* name = nullptr;
    if (!PyTuple_Check(entry) || PyTuple_GET_SIZE(entry) < 1) return PyErr_SetString(PyExc_TypeError, "entry"), false;
    name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(entry, 0));
    if (!name) return false;
    is_product_ = !std::strcmp(name, "cublas");
    if (is_product_) return on_cpu_ = false, operands_ = 3, product_.read(entry);
    is_blas_ = !std::strcmp(name, "cblas");
    if (is_blas_) return operands_ = 3, blas_.read(entry);
    const char* bytes = nullptr;
    Py_ssize_t size = 0;
    on_cpu_ = !std::strcmp(name, "cpu");
    if (on_cpu_) {
      Py_ssize_t partials = 0;
      if (!PyArg_ParseTuple(entry, "sKy#in", &name, &function_, &bytes, &size, &operands_, &partials)) return false;
      partials_ = std::size_t(partials);
    } else {
      PyObject* workspace = nullptr;
      if (!PyArg_ParseTuple(entry, "sKKK(IIIII)y#ipO", &name, &launch_, &capturing_, &function_, sizes_, sizes_ + 1,
                            sizes_ + 2, sizes_ + 3, sizes_ + 4, &bytes, &size, &operands_, &cooperative_, &workspace))
        return false;
      workspace_ = Ref::shared(workspace);
    }
    if (size > ARGUMENTS || operands_ < 0 || operands_ > POINTERS || 8 * (operands_ + 2) > size)
      return PyErr_SetString(PyExc_ValueError, "entry: the kernel has more arguments than a launch takes"), false;
    std::memcpy(arguments_, bytes, size);
    size_ = int(size);
    return true;
  }

  bool on_cpu() const { return on_cpu_; }
  int operands() const { return operands_; }

  // An address among the prepared arguments.
  std::uint64_t word(int operand) const {
    std::uint64_t found;
    std::memcpy(&found, arguments_ + 8 * operand, 8);
    return found;
  }

  Outcome run(const std::uint64_t* pointers, std::uint64_t stream) {
    if (is_blas_) return blas_.run(pointers) ? Outcome::done : Outcome::python;
    if (is_product_) return product_.run(pointers, stream);
    alignas(64) char arguments[ARGUMENTS];
    std::memcpy(arguments, arguments_, size_);
    std::memcpy(arguments, pointers, 8 * operands_);
    return on_cpu_ ? run_on_cpu(arguments) : run_on_gpu(arguments, stream);
  }

 private:
  Outcome run_on_cpu(char* arguments) {
    if (partials_) {
      thread_local Scratch scratch;
      void* memory = scratch.reserve(partials_);
      if (!memory) return Outcome::python;
      std::memcpy(arguments + 8 * operands_, &memory, 8);
    }
    const auto kernel = reinterpret_cast<int (*)(const void*)>(function_);
    int status = 0;
    Py_BEGIN_ALLOW_THREADS;
    status = kernel(arguments);
    Py_END_ALLOW_THREADS;
    return status ? Outcome::failed : Outcome::done;
  }

  // A stream that is captured needs memory of its own, which Python finds; so does one that is new here.
  Outcome run_on_gpu(char* arguments, std::uint64_t stream) {
    const auto capturing = reinterpret_cast<int (*)(void*, int*)>(capturing_);
    void* handle = reinterpret_cast<void*>(stream);
    int flag = 0;
    if (capturing(handle, &flag) || flag || !add_workspace(arguments, stream)) return Outcome::python;
    void* parameters[] = {arguments};
    const unsigned* s = sizes_;
    int status = 0;
    Py_BEGIN_ALLOW_THREADS;
    if (cooperative_)
      status = reinterpret_cast<Cooperative>(launch_)(pointer(function_), s[0], s[1], s[2], s[3], 1, 1, s[4], handle,
                                                      parameters);
    else
      status = reinterpret_cast<Plain>(launch_)(pointer(function_), s[0], s[1], s[2], s[3], 1, 1, s[4], handle,
                                                parameters, nullptr);
    Py_END_ALLOW_THREADS;
    return status ? Outcome::failed : Outcome::done;
  }

  bool add_workspace(char* arguments, std::uint64_t stream) {
    const unsigned long thread = PyThread_get_thread_ident();
    for (int i = 0; i < count_; ++i)
      if (is_same_stream(spaces_[i].stream, spaces_[i].thread, stream, thread))
        return std::memcpy(arguments + 8 * operands_, spaces_[i].addresses, 16), true;
    std::uint64_t partials = 0, sums = 0;
    Ref number(PyLong_FromUnsignedLongLong(stream));
    Ref found(number ? PyObject_CallOneArg(workspace_.get(), number.get()) : nullptr);
    if (!found || !PyArg_ParseTuple(found.get(), "KK", &partials, &sums)) return PyErr_Clear(), false;
    if (count_ == STREAMS) return false;
    spaces_[count_++] = Workspace{stream, thread, {partials, sums}};
    std::memcpy(arguments + 8 * operands_, spaces_[count_ - 1].addresses, 16);
    return true;
  }

  static void* pointer(std::uint64_t word) { return reinterpret_cast<void*>(word); }

  using Plain = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                        void**);
  using Cooperative = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                              void**);
  struct Workspace {
    std::uint64_t stream;
    unsigned long thread;
    std::uint64_t addresses[2];
  };

  bool on_cpu_ = true, is_product_ = false, is_blas_ = false;
  Product product_;
  BlasProduct blas_;
  unsigned long long function_ = 0, launch_ = 0, capturing_ = 0;
  unsigned sizes_[5] = {};  // of the grid, of a block, of shared memory
  int operands_ = 0, size_ = 0, cooperative_ = 0, count_ = 0;
  std::size_t partials_ = 0;
  Ref workspace_;
  Workspace spaces_[STREAMS];
  char arguments_[ARGUMENTS];
};

}  // namespace mansard
