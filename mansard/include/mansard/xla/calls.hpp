// Mansard's kernels as custom calls of XLA: one handler for CPUs, one for NVIDIA GPUs.
//
// A compiled program names a kernel by a number and holds the record of its arguments with empty pointers:
//
//   record   the words of `Arguments`: pointers | partials | counters | integers | alpha and beta
//   places   for each pointer: the buffer of XLA whose address it is (operands, then results), -1 for null
//
// The handler copies the record to its stack, fills in addresses and scratch memory, and calls the kernel. Functions are
// not in the program, which may outlive the process in a cache: they are looked up by the number, which stands for the
// kernel's code, and which whoever lowers a program has entered before.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include <xla/ffi/api/ffi.h>

namespace mansard {

namespace ffi = xla::ffi;
using Words = ffi::Span<const int64_t>;

constexpr size_t MOST_WORDS = 96;  // of a record; the longest has about 40
constexpr uint64_t ALIGNMENT = 16;  // bytes: what kernels were chosen for

// A loaded kernel and how it is launched; `grid`, `block` and what follows are a GPU's.
struct LoadedKernel {
  void* function;
  int64_t partial_bytes;  // scratch of any content
  int64_t zeroed_bytes;   // scratch that is zero before a launch
  unsigned grid[3];
  unsigned block;
  unsigned shared_bytes;
  bool cooperative;
};

// Kernels by number and device. Entries are never removed: programs may run as long as the process does.
class LoadedKernels {
 public:
  void enter(int64_t number, int device, const LoadedKernel& kernel) {
    std::unique_lock<std::shared_mutex> lock(mutex_);
    kernels_[key(number, device)] = kernel;
  }

  bool find(int64_t number, int device, LoadedKernel& kernel) {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    auto found = kernels_.find(key(number, device));
    if (found == kernels_.end()) return false;
    kernel = found->second;
    return true;
  }

 private:
  static uint64_t key(int64_t number, int device) { return uint64_t(number) ^ uint64_t(device) << 56; }
  std::shared_mutex mutex_;
  std::unordered_map<uint64_t, LoadedKernel> kernels_;
};

inline LoadedKernels& loaded() {
  static LoadedKernels kernels;
  return kernels;
}

inline ffi::Error unknown_kernel() {
  return ffi::Error(ffi::ErrorCode::kFailedPrecondition,
                    "a kernel of Mansard's was not loaded in this process: trace the program here (jax.jit) instead of "
                    "loading what another process has compiled");
}

// The record of one call, on the stack of the handler.
struct Record {
  uint64_t words[MOST_WORDS];

  // Copies the record and fills in the addresses of buffers; an error names what does not fit.
  ffi::Error fill(const Words& record, const Words& places, ffi::RemainingArgs& args, ffi::RemainingRets& rets) {
    if (record.size() > MOST_WORDS || places.size() + 2 > record.size())
      return ffi::Error(ffi::ErrorCode::kInvalidArgument, "the record of a kernel of Mansard's has a wrong length");
    std::memcpy(words, record.begin(), record.size() * sizeof(uint64_t));
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] < 0) continue;
      const size_t at = size_t(places[i]);
      if (at >= args.size() + rets.size())
        return ffi::Error(ffi::ErrorCode::kInvalidArgument, "a kernel of Mansard's has more operands than its call");
      words[i] = at < args.size() ? address(args.get<ffi::AnyBuffer>(at))
                                  : address(rets.get<ffi::AnyBuffer>(at - args.size()));
      if (words[i] % ALIGNMENT)
        return ffi::Error(ffi::ErrorCode::kInvalidArgument,
                          "a buffer does not begin on a 16-byte boundary, as XLA's own do: copy the array (jnp.copy)");
    }
    return ffi::Error::Success();
  }

 private:
  static uint64_t address(ffi::ErrorOr<ffi::AnyBuffer> buffer) {
    return reinterpret_cast<uint64_t>(buffer->untyped_data());
  }
  static uint64_t address(ffi::ErrorOr<ffi::Result<ffi::AnyBuffer>> buffer) {
    return reinterpret_cast<uint64_t>((*buffer)->untyped_data());
  }
};

// ---- CPU ------------------------------------------------------------------------------------------------------

// Scratch memory of this thread on a boundary of 64 bytes; its content is lost when a later call asks for more.
inline void* scratch_of_thread(int64_t bytes) {
  static thread_local std::unique_ptr<char[]> memory;
  static thread_local int64_t size = 0;
  if (bytes > size) {
    memory.reset(new char[size_t(bytes) + 64]);
    size = bytes;
  }
  return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory.get()) + 63) / 64 * 64);
}

inline ffi::Error call_on_cpu(ffi::RemainingArgs args, ffi::RemainingRets rets, int64_t number, Words record,
                              Words places) {
  LoadedKernel kernel;
  if (!loaded().find(number, 0, kernel)) return unknown_kernel();
  Record call;
  if (ffi::Error error = call.fill(record, places, args, rets); error.failure()) return error;
  call.words[places.size()] = reinterpret_cast<uint64_t>(scratch_of_thread(kernel.partial_bytes));
  const int status = reinterpret_cast<int (*)(const void*)>(kernel.function)(call.words);
  if (status != 0)
    return ffi::Error(ffi::ErrorCode::kInternal, "a kernel of Mansard's returned " + std::to_string(status));
  return ffi::Error::Success();
}

// ---- GPU ------------------------------------------------------------------------------------------------------

// The driver's functions, entered from Python: no CUDA header and no library is needed to compile this file.
struct Driver {
  int (*device)(int*);  // cuCtxGetDevice
  int (*fill)(uint64_t, unsigned char, size_t, void*);  // cuMemsetD8Async
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  int (*launch_cooperative)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**);
};

inline Driver& driver() {
  static Driver functions{};
  return functions;
}

inline ffi::Error failed(const char* what, int status) {
  return ffi::Error(ffi::ErrorCode::kInternal, std::string(what) + " of a kernel of Mansard's failed with CUDA error " +
                                                   std::to_string(status));
}

// Scratch memory is XLA's, ordered with the stream. Kernels leave `zeroed_bytes` as they found them, but XLA's memory
// comes with any content: it is cleared on the stream first.
inline ffi::Error call_on_gpu(void* stream, ffi::ScratchAllocator scratch, ffi::RemainingArgs args,
                              ffi::RemainingRets rets, int64_t number, Words record, Words places) {
  const Driver& cuda = driver();
  int device = 0;
  LoadedKernel kernel;
  if (cuda.device == nullptr) return unknown_kernel();
  if (int status = cuda.device(&device)) return failed("the device", status);
  if (!loaded().find(number, device, kernel)) return unknown_kernel();
  Record call;
  if (ffi::Error error = call.fill(record, places, args, rets); error.failure()) return error;
  const int64_t bytes[] = {kernel.partial_bytes, kernel.zeroed_bytes};
  for (size_t i = 0; i < 2; ++i) {
    if (bytes[i] == 0) continue;
    auto memory = scratch.Allocate(size_t(bytes[i]), ALIGNMENT);  // XLA refuses to promise more
    if (!memory.has_value())
      return ffi::Error(ffi::ErrorCode::kResourceExhausted, "no scratch memory for a kernel of Mansard's");
    call.words[places.size() + i] = reinterpret_cast<uint64_t>(*memory);
  }
  if (kernel.zeroed_bytes > 0)
    if (int status = cuda.fill(call.words[places.size() + 1], 0, size_t(kernel.zeroed_bytes), stream))
      return failed("clearing scratch memory", status);
  void* parameters[] = {call.words};
  const unsigned* grid = kernel.grid;
  const int status =
      kernel.cooperative
          ? cuda.launch_cooperative(kernel.function, grid[0], grid[1], grid[2], kernel.block, 1, 1,
                                    kernel.shared_bytes, stream, parameters)
          : cuda.launch(kernel.function, grid[0], grid[1], grid[2], kernel.block, 1, 1, kernel.shared_bytes, stream,
                        parameters, nullptr);
  return status ? failed("the launch", status) : ffi::Error::Success();
}

}  // namespace mansard

// ---- what Python loads ----------------------------------------------------------------------------------------

extern "C" void mansard_enter(int64_t number, int device, void* function, int64_t partial_bytes,
                              int64_t zeroed_bytes, const unsigned* grid, unsigned block, unsigned shared_bytes,
                              int cooperative) {
  mansard::loaded().enter(number, device,
                          {function, partial_bytes, zeroed_bytes, {grid[0], grid[1], grid[2]}, block, shared_bytes,
                           cooperative != 0});
}

extern "C" void mansard_enter_driver(void* device, void* fill, void* launch, void* launch_cooperative) {
  mansard::Driver& driver = mansard::driver();
  driver.fill = reinterpret_cast<decltype(driver.fill)>(fill);
  driver.launch = reinterpret_cast<decltype(driver.launch)>(launch);
  driver.launch_cooperative = reinterpret_cast<decltype(driver.launch_cooperative)>(launch_cooperative);
  driver.device = reinterpret_cast<decltype(driver.device)>(device);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(mansard_on_cpu, mansard::call_on_cpu,
                              xla::ffi::Ffi::Bind()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<int64_t>("kernel")
                                  .Attr<mansard::Words>("record")
                                  .Attr<mansard::Words>("places"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(mansard_on_gpu, mansard::call_on_gpu,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::PlatformStream<void*>>()
                                  .Ctx<xla::ffi::ScratchAllocator>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<int64_t>("kernel")
                                  .Attr<mansard::Words>("record")
                                  .Attr<mansard::Words>("places"));
