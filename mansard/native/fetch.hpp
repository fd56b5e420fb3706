#pragma once
// `info` of a call that raises, fetched from a GPU without Python code: one copy into page-locked memory on the caller's
// stream, and a wait for it. Copies to ordinary memory pass through a buffer of the driver's, and take three times as long.

#include <map>
#include <utility>
#include <vector>

#include "native/run.hpp"

namespace mansard {

// What the driver offers for arrays of one library on one device.
class Fetch {
 public:
  static constexpr std::int64_t MOST = 4096;  // entries; of more, a kernel says whether one is not zero

  // (stream, (cuCtxGetCurrent, context, cuStreamIsCapturing, cuMemcpyDtoHAsync, cuStreamSynchronize, cuMemHostAlloc))
  bool read(PyObject* stream, PyObject* functions) {
    return stream_.read(stream) &&
           PyArg_ParseTuple(functions, "KKKKKK", &current_, &context_, &capturing_, &copy_, &wait_, &allocate_);
  }

  // 1 or 0: whether all entries are zero; -1: Python is to look.
  int is_zero(const char* address, std::int64_t count) {
    std::uint64_t stream = 0;
    void* context = nullptr;
    int flag = 0;
    if (lost_cuda || count < 1 || count > MOST || !stream_.current(stream)) return -1;
    void* where = reinterpret_cast<void*>(std::uintptr_t(stream));
    if (as<int(void**)>(current_)(&context) || context != reinterpret_cast<void*>(std::uintptr_t(context_))) return -1;
    if (as<int(void*, int*)>(capturing_)(where, &flag) || flag) return -1;
    std::int32_t* memory = take();
    if (!memory) return -1;
    int status = 0;
    std::int32_t any = 0;
    Py_BEGIN_ALLOW_THREADS;
    status = as<int(void*, const void*, std::size_t, void*)>(copy_)(memory, address, 4 * count, where);
    if (!status) status = as<int(void*)>(wait_)(where);
    for (std::int64_t i = 0; !status && i < count; ++i) any |= memory[i];
    Py_END_ALLOW_THREADS;
    if (status) return -1;  // the copy may still come: this memory is not used again
    idle_.push_back(memory);
    return any == 0;
  }

 private:
  template <class F>
  static F* as(unsigned long long address) {
    return reinterpret_cast<F*>(std::uintptr_t(address));
  }

  // Memory of this call alone.
  std::int32_t* take() {
    if (!idle_.empty()) {
      std::int32_t* found = idle_.back();
      idle_.pop_back();
      return found;
    }
    constexpr unsigned PORTABLE = 1;  // page-locked for every context
    void* made = nullptr;
    if (as<int(void**, std::size_t, unsigned)>(allocate_)(&made, 4 * MOST, PORTABLE)) return nullptr;
    return static_cast<std::int32_t*>(made);
  }

  Stream stream_;
  unsigned long long current_ = 0, context_ = 0, capturing_ = 0, copy_ = 0, wait_ = 0, allocate_ = 0;
  std::vector<std::int32_t*> idle_;  // changes under the interpreter's lock alone
};

// By library and device. Never destroyed: it owns objects of Python, which is gone when static objects are destroyed.
inline auto& fetches = *new std::map<std::pair<int, int>, Fetch>();

// set_fetch(library, device, stream, functions)
inline PyObject* set_fetch(PyObject*, PyObject* given) {
  int library, device;
  PyObject *stream, *functions;
  if (!PyArg_ParseTuple(given, "iiOO!", &library, &device, &stream, &PyTuple_Type, &functions)) return nullptr;
  Fetch made;
  if (!made.read(stream, functions)) return nullptr;
  fetches.insert_or_assign({library, device}, std::move(made));
  Py_RETURN_NONE;
}

// What `is_zero` says of an array on a GPU; -1: Python is to look.
inline int is_zero_on_gpu(const Described& found, std::int64_t count) {
  const auto at = fetches.find({int(found.library), found.device});
  return at == fetches.end() ? -1 : at->second.is_zero(found.address, count);
}

}  // namespace mansard
