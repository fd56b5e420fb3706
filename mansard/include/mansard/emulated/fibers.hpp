// Call stacks that hand the processor to each other: one per CUDA thread, and the scheduler's own.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define MANSARD_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MANSARD_ASAN 1
#endif
#endif
#if defined(MANSARD_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// A report of AddressSanitizer is written on the stack of the thread at fault and takes more than the kernel
// itself.
#if !defined(MANSARD_EMULATED_STACK_BYTES)
#if defined(MANSARD_ASAN)
#define MANSARD_EMULATED_STACK_BYTES (256 << 10)
#else
#define MANSARD_EMULATED_STACK_BYTES (64 << 10)
#endif
#endif

// Saves the callee-saved registers on the running stack, leaves its pointer in *save, and continues on `to`.
extern "C" __attribute__((visibility("hidden"))) void mansard_switch_stack(void** save, void* to);

#if defined(__x86_64__)
asm(R"(
.text
.p2align 4
.globl mansard_switch_stack
.hidden mansard_switch_stack
.type mansard_switch_stack, @function
mansard_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size mansard_switch_stack, .-mansard_switch_stack
)");
#elif defined(__aarch64__)
asm(R"(
.text
.p2align 4
.globl mansard_switch_stack
.hidden mansard_switch_stack
.type mansard_switch_stack, %function
mansard_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size mansard_switch_stack, .-mansard_switch_stack

.p2align 4
.globl mansard_start_stack
.hidden mansard_start_stack
.type mansard_start_stack, %function
mansard_start_stack:
  mov x30, xzr
  br x19
.size mansard_start_stack, .-mansard_start_stack
)");
extern "C" void mansard_start_stack();  // nothing to return to: who walks up a stack would not stop at its end
#endif

namespace mansard::emulated {

#if defined(__x86_64__)
constexpr int kFrameWords = 8, kReturnWord = 6;  // six registers, the return address, one word of alignment
#else
constexpr int kFrameWords = 20, kReturnWord = 11;
#endif

constexpr std::size_t kStackBytes = MANSARD_EMULATED_STACK_BYTES;
constexpr std::size_t kFenceBytes = 256;  // at the low end of a stack; nothing may ever be written there
constexpr unsigned char kFenceFill = 0xA5;

// A stack that is not running: where its registers lie, and its extent for AddressSanitizer.
struct Context {
  void* pointer = nullptr;
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  void* fake_stack = nullptr;

  // Makes the context start in `entry`, which must never return.
  void prepare(unsigned char* stack, void (*entry)()) {
    bottom = stack;
    bytes = kStackBytes;
    void** frame = reinterpret_cast<void**>(stack + kStackBytes) - kFrameWords;
    std::memset(frame, 0, kFrameWords * sizeof(void*));
#if defined(__aarch64__)
    frame[0] = reinterpret_cast<void*>(entry);  // x19
    entry = mansard_start_stack;
#endif
    frame[kReturnWord] = reinterpret_cast<void*>(entry);
    pointer = frame;
  }
};

// Runs `to` until something switches back. A context that runs for the last time says so.
__attribute__((no_sanitize_address)) inline void switch_context(Context& from, Context& to,
                                                                bool last = false) {
#if defined(MANSARD_ASAN)
  __sanitizer_start_switch_fiber(last ? nullptr : &from.fake_stack, to.bottom, to.bytes);
  mansard_switch_stack(&from.pointer, to.pointer);
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#else
  (void)last;
  mansard_switch_stack(&from.pointer, to.pointer);
#endif
}

// The first thing a new context does: learns the extent of the stack it came from.
__attribute__((no_sanitize_address)) inline void enter_context(Context& origin) {
#if defined(MANSARD_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &origin.bottom, &origin.bytes);
#else
  (void)origin;
#endif
}

// The stacks of all resident threads in one mapping, whose pages cost nothing until they are touched.
class Stacks {
 public:
  explicit Stacks(std::size_t count) : bytes_((count + 1) * kStackBytes) {
    void* memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<unsigned char*>(memory);
    for (std::size_t i = 0; i < count; ++i) {
      std::memset((*this)[i], kFenceFill, kFenceBytes);
#if defined(MANSARD_ASAN)
      __asan_poison_memory_region((*this)[i], kFenceBytes);
#endif
    }
  }
  // Abandoned threads leave their frames marked in AddressSanitizer's shadow; whoever maps these pages next
  // must not inherit the marks.
  ~Stacks() {
#if defined(MANSARD_ASAN)
    __asan_unpoison_memory_region(memory_, bytes_);
#endif
    munmap(memory_, bytes_);
  }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  // Below the first stack lies a spare one, so that an overflow is found and reported instead of a crash.
  unsigned char* operator[](std::size_t i) const { return memory_ + (i + 1) * kStackBytes; }

 private:
  unsigned char* memory_;
  std::size_t bytes_;
};

__attribute__((no_sanitize_address)) inline bool overflowed(const Context& context) {
  const auto* bottom = static_cast<const unsigned char*>(context.bottom);
  if (static_cast<const unsigned char*>(context.pointer) < bottom + kFenceBytes) return true;
  for (std::size_t i = 0; i < kFenceBytes; i += 32) {
    if (bottom[i] != kFenceFill) return true;
  }
  return false;
}

}  // namespace mansard::emulated
