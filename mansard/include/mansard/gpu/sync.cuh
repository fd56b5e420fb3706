// Words that blocks share through global memory, and loads and stores that choose their cache.
//
// Blocks may wait for each other only in a cooperative launch. On the emulator a wait that nobody ends is
// reported.
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

// Adds and returns the word's old value; what this thread wrote before is visible to who reads the sum.
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

// Waits until the flag has another value than `old`, and returns it.
MANSARD_DEVICE u32 wait_until_differs(const u32* flag, u32 old) {
  u32 value;
  do {
    value = load_acquire(flag);
  } while (value == old);
  return value;
}

// Waits until the upper bit of the word differs from that of `old`.
MANSARD_DEVICE void wait_until_flips(const u32* word, u32 old) {
  while (((load_acquire(word) ^ old) & 0x80000000u) == 0) {
  }
}

#endif

// Read once: leaves the caches to others.
template <class V>
MANSARD_DEVICE V load_streaming(const V* address) {
  return __ldcs(address);
}

// Past the L1 cache, which does not see what other blocks write.
template <class V>
MANSARD_DEVICE V load_l2(const V* address) {
  return __ldcg(address);
}

template <class V>
MANSARD_DEVICE void store_l2(V* address, V value) {
  __stcg(address, value);
}

}  // namespace mansard
