// CUDA's vocabulary for g++ and clang++: a kernel's source compiles unchanged and runs one fiber per thread.
#pragma once

#include "arithmetic.hpp"
#include "hooks.hpp"

// What a kernel library defines stays in it. Otherwise the loader would merge the static shared memory of two
// kernels that instantiate the same template under the same name, whatever its size in each.
#pragma GCC visibility push(hidden)

// --- Keywords ----------------------------------------------------------------------------------------------

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

#if defined(MANSARD_EMULATED_COOPERATIVE)
// All blocks are resident, so one static could not serve them all.
#define __shared__                                                                                         \
  static_assert(false,                                                                                     \
                "a cooperative kernel keeps its shared memory in MANSARD_SHARED_ARENA: static __shared__ " \
                "would be one variable for all resident blocks");                                          \
  static
#else
// Blocks run one after another: a plain static is private to the running block, and AddressSanitizer fences
// it.
#define __shared__ static
#endif

#define threadIdx (mansard::emulated::current->thread)
#define blockIdx (mansard::emulated::current->block)
#define blockDim (mansard::emulated::current->block_size)
#define gridDim (mansard::emulated::current->grid_size)
#define warpSize 32

// Defines the library's launch function for a kernel that takes one struct by value: params[0] points to it.
#define MANSARD_EMULATED_ENTRY(kernel, Arguments) \
  MANSARD_EMULATED_ENTRY_NAMED(mansard_launch, kernel, Arguments)
#define MANSARD_EMULATED_ENTRY_NAMED(symbol, kernel, Arguments)                                         \
  extern "C" __attribute__((visibility("default"))) int symbol(const mansard::emulated::Launch* launch, \
                                                               void* const* params) {                   \
    return mansard::emulated::run(                                                                      \
        *launch, [](const void* arguments) { kernel(*static_cast<const Arguments*>(arguments)); },      \
        params[0]);                                                                                     \
  }

// --- Vector types ------------------------------------------------------------------------------------------

#define MANSARD_EMULATED_VECTOR2(T, name) \
  struct alignas(2 * sizeof(T)) name {    \
    T x, y;                               \
  };                                      \
  inline name make_##name(T x, T y) { return {x, y}; }
#define MANSARD_EMULATED_VECTOR4(T, name) \
  struct alignas(16) name {               \
    T x, y, z, w;                         \
  };                                      \
  inline name make_##name(T x, T y, T z, T w) { return {x, y, z, w}; }

MANSARD_EMULATED_VECTOR2(float, float2)
MANSARD_EMULATED_VECTOR2(double, double2)
MANSARD_EMULATED_VECTOR2(int, int2)
MANSARD_EMULATED_VECTOR2(unsigned, uint2)
MANSARD_EMULATED_VECTOR4(float, float4)
MANSARD_EMULATED_VECTOR4(int, int4)
MANSARD_EMULATED_VECTOR4(unsigned, uint4)
#undef MANSARD_EMULATED_VECTOR2
#undef MANSARD_EMULATED_VECTOR4

// --- Barriers, fences, warp collectives --------------------------------------------------------------------

namespace mansard::emulated {

template <class T>
inline T shuffle(u32 mask, T value, u32 source, bool inside, Site site) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  const Slots slots = exchange(Collective::shuffle, mask, &value, sizeof(T), site);
  return inside ? slots.get<T>(source) : value;
}

inline u32 ballot(u32 mask, int predicate, Site site) {
  const Slots slots = exchange(Collective::vote, mask, &predicate, sizeof(predicate), site);
  u32 votes = 0;
  for (u32 lane = 0; lane < 32; ++lane) {
    if (slots.arrived >> lane & 1) votes |= static_cast<u32>(slots.get<int>(lane) != 0) << lane;
  }
  return votes;
}

// An atomic that leaves the word as it was may be one turn of a spin loop.
template <class T>
inline T replace(T* address, T next, Site site) {
  const T old = *address;
  *address = next;
  if (old != next) {
    ++visible_changes;
  } else {
    spin(site);
  }
  return old;
}

}  // namespace mansard::emulated

#define MANSARD_HERE mansard::emulated::Site site = mansard::emulated::Site::here()

inline void __syncthreads(MANSARD_HERE) { mansard::emulated::sync_threads(false, site); }
inline int __syncthreads_count(int predicate, MANSARD_HERE) {
  return static_cast<int>(mansard::emulated::sync_threads(predicate != 0, site));
}
inline int __syncthreads_or(int predicate, MANSARD_HERE) {
  return mansard::emulated::sync_threads(predicate != 0, site) != 0;
}
inline int __syncthreads_and(int predicate, MANSARD_HERE) {
  return mansard::emulated::sync_threads(predicate == 0, site) == 0;
}
[[noreturn]] inline void __trap(MANSARD_HERE) { mansard::emulated::trap(site); }
inline void __syncwarp(unsigned mask = ~0u, MANSARD_HERE) {
  mansard::emulated::exchange(mansard::emulated::Collective::sync, mask, nullptr, 0, site);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned, MANSARD_HERE) { mansard::emulated::spin(site); }

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, MANSARD_HERE) {
  const unsigned group = mansard::emulated::current->lane & ~(width - 1u);
  return mansard::emulated::shuffle(mask, value, group | (source & (width - 1u)), true, site);
}

template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, MANSARD_HERE) {
  const unsigned lane = mansard::emulated::current->lane;
  return mansard::emulated::shuffle(mask, value, lane - delta, (lane & (width - 1u)) >= delta, site);
}

template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, MANSARD_HERE) {
  const unsigned lane = mansard::emulated::current->lane;
  const bool inside = (lane & (width - 1u)) + delta < static_cast<unsigned>(width);
  return mansard::emulated::shuffle(mask, value, lane + delta, inside, site);
}

// As on the hardware, a lane may reach into an earlier group of `width` lanes but not into a later one.
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, MANSARD_HERE) {
  const unsigned lane = mansard::emulated::current->lane, source = lane ^ static_cast<unsigned>(lane_mask);
  const bool inside = source < 32 && (source & ~(width - 1u)) <= (lane & ~(width - 1u));
  return mansard::emulated::shuffle(mask, value, source, inside, site);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, MANSARD_HERE) {
  return mansard::emulated::ballot(mask, predicate, site);
}
inline int __any_sync(unsigned mask, int predicate, MANSARD_HERE) {
  return mansard::emulated::ballot(mask, predicate, site) != 0;
}
inline int __all_sync(unsigned mask, int predicate, MANSARD_HERE) {
  return mansard::emulated::ballot(mask, !predicate, site) == 0;
}

// --- Atomics -----------------------------------------------------------------------------------------------

#define MANSARD_EMULATED_ADD(T)                                                         \
  inline T atomicAdd(T* address, T value, MANSARD_HERE) {                               \
    return mansard::emulated::replace(address, static_cast<T>(*address + value), site); \
  }
#define MANSARD_EMULATED_EXCHANGE(T)                         \
  inline T atomicExch(T* address, T value, MANSARD_HERE) {   \
    return mansard::emulated::replace(address, value, site); \
  }
#define MANSARD_EMULATED_INTEGER_ATOMICS(T)                                                    \
  inline T atomicMax(T* address, T value, MANSARD_HERE) {                                      \
    return mansard::emulated::replace(address, *address < value ? value : *address, site);     \
  }                                                                                            \
  inline T atomicMin(T* address, T value, MANSARD_HERE) {                                      \
    return mansard::emulated::replace(address, value < *address ? value : *address, site);     \
  }                                                                                            \
  inline T atomicOr(T* address, T value, MANSARD_HERE) {                                       \
    return mansard::emulated::replace(address, *address | value, site);                        \
  }                                                                                            \
  inline T atomicAnd(T* address, T value, MANSARD_HERE) {                                      \
    return mansard::emulated::replace(address, *address & value, site);                        \
  }                                                                                            \
  inline T atomicCAS(T* address, T expected, T value, MANSARD_HERE) {                          \
    return mansard::emulated::replace(address, *address == expected ? value : *address, site); \
  }

MANSARD_EMULATED_ADD(int)
MANSARD_EMULATED_ADD(unsigned)
MANSARD_EMULATED_ADD(unsigned long long)
MANSARD_EMULATED_ADD(float)
MANSARD_EMULATED_ADD(double)
MANSARD_EMULATED_EXCHANGE(int)
MANSARD_EMULATED_EXCHANGE(unsigned)
MANSARD_EMULATED_EXCHANGE(unsigned long long)
MANSARD_EMULATED_EXCHANGE(float)
MANSARD_EMULATED_INTEGER_ATOMICS(int)
MANSARD_EMULATED_INTEGER_ATOMICS(unsigned)
MANSARD_EMULATED_INTEGER_ATOMICS(unsigned long long)
#undef MANSARD_EMULATED_ADD
#undef MANSARD_EMULATED_EXCHANGE
#undef MANSARD_EMULATED_INTEGER_ATOMICS

inline unsigned atomicInc(unsigned* address, unsigned limit, MANSARD_HERE) {
  return mansard::emulated::replace(address, *address >= limit ? 0u : *address + 1, site);
}

// --- Cached loads and stores -------------------------------------------------------------------------------

template <class T>
inline T __ldg(const T* address) {
  return *address;
}
template <class T>
inline T __ldcs(const T* address) {
  return *address;
}
template <class T>
inline T __ldcg(const T* address) {
  return *address;
}
template <class T>
inline void __stcg(T* address, T value) {
  *address = value;
}
template <class T>
inline void __stcs(T* address, T value) {
  *address = value;
}
