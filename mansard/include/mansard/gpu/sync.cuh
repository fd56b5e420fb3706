// Words that blocks share through global memory, and loads and stores with cache hints.
//
// Blocks may wait for each other only in a cooperative launch. The emulator reports a wait that never ends.
#pragma once

#include "platform.cuh"

namespace mansard {

#if defined(MANSARD_EMULATED)

inline u32 load_acquire(const u32* word, MANSARD_HERE) {
  emulated::spin(site);  // usually one turn of a loop
  return *word;
}
inline void store_release(u32* word, u32 value) {
  ++emulated::visible_changes;
  *word = value;
}
inline u32 add_release(u32* word, u32 value, MANSARD_HERE) { return atomicAdd(word, value, site); }
inline u32 atomic_add_acq_rel(u32* word, u32 value, MANSARD_HERE) { return atomicAdd(word, value, site); }
inline u32 wait_until_differs(const u32* flag, u32 old, MANSARD_HERE) {
  emulated::wait_until_differs(flag, old, ~0u, site);
  return *flag;
}
inline void wait_until_flips(const u32* word, u32 old, MANSARD_HERE) {
  emulated::wait_until_differs(word, old, 0x80000000u, site);
}

#else

MANSARD_DEVICE u32 load_acquire(const u32* word) {
  u32 value;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

MANSARD_DEVICE void store_release(u32* word, u32 value) {
  asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

// Add and return the old value, with release semantics: a thread that reads the sum sees this thread's earlier stores.
MANSARD_DEVICE u32 add_release(u32* word, u32 value) {
  u32 old;
  asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(value) : "memory");
  return old;
}

MANSARD_DEVICE u32 atomic_add_acq_rel(u32* word, u32 value) {
  u32 old;
  asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(value) : "memory");
  return old;
}

// Wait until the flag differs from `old`; returns its value.
MANSARD_DEVICE u32 wait_until_differs(const u32* flag, u32 old) {
  u32 value;
  do {
    value = load_acquire(flag);
  } while (value == old);
  return value;
}

// Wait until the upper bit of the word differs from that of `old`.
MANSARD_DEVICE void wait_until_flips(const u32* word, u32 old) {
  while (((load_acquire(word) ^ old) & 0x80000000u) == 0) {
  }
}

#endif

// Load with a streaming hint, for data that are read once.
template <class V>
MANSARD_DEVICE V load_streaming(const V* address) {
  return __ldcs(address);
}

// Load past the L1 cache, which does not see stores of other blocks.
template <class V>
MANSARD_DEVICE V load_l2(const V* address) {
  return __ldcg(address);
}

template <class V>
MANSARD_DEVICE void store_l2(V* address, V value) {
  __stcg(address, value);
}

}  // namespace mansard
