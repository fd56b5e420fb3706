// Relaxed accesses to words that other threads read and write at the same time: they order nothing, but words are never
// torn and stores become visible eventually. A value must itself show that it has arrived.
//
//   load_relaxed, store_relaxed   words of 4 or 8 bytes in global memory, past the L1 cache
//   load_stale                    a load through the L1 cache, whose line may be old; formally a race, so its result
//                                 must be checked, and loaded again if the check fails
//   raise_relaxed                 a word becomes the maximum of itself and a value
//   peek, post                    load and store of a word of shared memory among the threads of a block; order nothing
//   peek_acquire, post_release    the same with acquire and release semantics
//   pause                         one iteration of a loop that waits
//   nanoseconds                   a clock that all blocks share; on the emulator it counts how often it was read
#pragma once
#include "mansard/gpu/platform.cuh"

namespace mansard {

#if defined(MANSARD_EMULATED)

template <class W>
inline W load_relaxed(const W* word) {
  return *word;
}
template <class W>
inline W load_stale(const W* word) {
  return *word;
}
template <class W>
inline void store_relaxed(W* word, W value) {
  ++emulated::visible_changes;
  *word = value;
}
inline void store_system(u32* word, u32 value) { store_relaxed(word, value); }
inline void raise_relaxed(u32* word, u32 value) {
  if (*word < value) store_relaxed(word, value);
}
inline int peek(const int* word) { return *word; }
inline void post(int* word, int value) {
  if (*word == value) return;
  ++emulated::visible_changes;
  *word = value;
}
inline int peek_acquire(const int* word) { return peek(word); }
inline void post_release(int* word, int value) { post(word, value); }
inline void pause(MANSARD_HERE) { emulated::spin(site); }
inline i64 nanoseconds() {
  static i64 turns = 0;
  return ++turns;
}

#else

template <class W>
MANSARD_DEVICE W load_relaxed(const W* word) {
  static_assert(sizeof(W) == 4 || sizeof(W) == 8, "words of 4 or 8 bytes");
  W value;
  if constexpr (sizeof(W) == 8) {
    u64 bits;
    asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(bits) : "l"(word));
    memcpy(&value, &bits, 8);
  } else {
    u32 bits;
    asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(bits) : "l"(word));
    memcpy(&value, &bits, 4);
  }
  return value;
}

template <class W>
MANSARD_DEVICE W load_stale(const W* word) {
  static_assert(sizeof(W) == 4 || sizeof(W) == 8, "words of 4 or 8 bytes");
  W value;
  if constexpr (sizeof(W) == 8) {
    u64 bits;
    asm volatile("ld.global.b64 %0, [%1];" : "=l"(bits) : "l"(word));
    memcpy(&value, &bits, 8);
  } else {
    u32 bits;
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(bits) : "l"(word));
    memcpy(&value, &bits, 4);
  }
  return value;
}

template <class W>
MANSARD_DEVICE void store_relaxed(W* word, W value) {
  static_assert(sizeof(W) == 4 || sizeof(W) == 8, "words of 4 or 8 bytes");
  if constexpr (sizeof(W) == 8) {
    u64 bits;
    memcpy(&bits, &value, 8);
    asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(word), "l"(bits) : "memory");
  } else {
    u32 bits;
    memcpy(&bits, &value, 4);
    asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" ::"l"(word), "r"(bits) : "memory");
  }
}

// Store to memory that the host reads while the kernel runs.
MANSARD_DEVICE void store_system(u32* word, u32 value) {
  asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

MANSARD_DEVICE void raise_relaxed(u32* word, u32 value) {
  asm volatile("red.relaxed.gpu.global.max.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

#if defined(MANSARD_RACECHECK)
// Race checkers report every word that one warp writes and another reads, unless both access it atomically.
MANSARD_DEVICE int peek(const int* word) { return atomicOr(const_cast<int*>(word), 0); }
MANSARD_DEVICE void post(int* word, int value) { atomicExch(word, value); }
MANSARD_DEVICE int peek_acquire(const int* word) {
  const int value = peek(word);
  __threadfence_block();
  return value;
}
MANSARD_DEVICE void post_release(int* word, int value) {
  __threadfence_block();
  post(word, value);
}
#else
MANSARD_DEVICE int peek(const int* word) { return *static_cast<const volatile int*>(word); }
MANSARD_DEVICE void post(int* word, int value) { *static_cast<volatile int*>(word) = value; }
// Cheaper than a fence, which would also wait for all accesses to global memory in flight.
MANSARD_DEVICE int peek_acquire(const int* word) {
  int value;
  const u32 at = static_cast<u32>(__cvta_generic_to_shared(word));
  asm volatile("ld.acquire.cta.shared.b32 %0, [%1];" : "=r"(value) : "r"(at) : "memory");
  return value;
}
MANSARD_DEVICE void post_release(int* word, int value) {
  const u32 at = static_cast<u32>(__cvta_generic_to_shared(word));
  asm volatile("st.release.cta.shared.b32 [%0], %1;" ::"r"(at), "r"(value) : "memory");
}
#endif

MANSARD_DEVICE void pause() { __nanosleep(20); }

MANSARD_DEVICE i64 nanoseconds() {
  i64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

#endif

}  // namespace mansard
