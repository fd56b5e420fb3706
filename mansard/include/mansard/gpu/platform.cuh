// The first include of every kernel: the few names that differ between a CUDA compiler and the emulator.
//
// Kernels include no system and no CUDA headers: NVRTC has only this folder on its path, and a header that costs a
// second to parse costs it for every kernel. On a GPU the names below are macros over the compiler's built-ins. With
// MANSARD_EMULATED the same names come from emulated/words.hpp and run on the CPU.
#pragma once

#if defined(MANSARD_EMULATED)
#include "mansard/emulated/words.hpp"
#elif !defined(__CUDACC__)
#error "compile kernels with NVRTC or nvcc, or define MANSARD_EMULATED to run them on the CPU"
#endif

#define MANSARD_DEVICE __device__ __forceinline__
#define MANSARD_HOST_DEVICE __host__ __device__ constexpr

#if defined(MANSARD_EMULATED)

#define MANSARD_UNROLL
#define MANSARD_UNROLL_BY(count)

#define MANSARD_SHARED_ARENA(T, name) T* name = static_cast<T*>(mansard::emulated::current->arena)

#else

#define MANSARD_PRAGMA(text) _Pragma(#text)
#define MANSARD_UNROLL _Pragma("unroll")
// A loop unrolled `count` times; 1 keeps it rolled.
#define MANSARD_UNROLL_BY(count) MANSARD_PRAGMA(unroll count)

// Declares `T* name` over the block's dynamic shared memory, which starts on a 128-byte boundary.
#define MANSARD_SHARED_ARENA(T, name)                                    \
  extern __shared__ __align__(128) unsigned char mansard_shared_arena[]; \
  T* name = reinterpret_cast<T*>(mansard_shared_arena)

// The emulator's launch function; a GPU finds the kernel by its name.
#define MANSARD_EMULATED_ENTRY(kernel, Arguments)
#define MANSARD_EMULATED_ENTRY_NAMED(symbol, kernel, Arguments)

#endif

namespace mansard {

using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

template <class A, class B>
MANSARD_HOST_DEVICE auto ceil_div(A a, B b) {
  return (a + b - 1) / b;
}

template <class Integer>
MANSARD_HOST_DEVICE Integer gcd(Integer a, Integer b) {
  while (b != 0) {
    const Integer rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

}  // namespace mansard
