// Asynchronous copies of 4, 8 or 16 bytes per thread, for operands without 16-byte alignment.
#pragma once
#include "mansard/gpu/async.cuh"

namespace mansard {

// Both addresses are multiples of BYTES; waited for like cp_async16. On the emulator only copies of 16 bytes are
// delayed.
#if defined(MANSARD_EMULATED)
template <int BYTES>
inline void cp_async_word(void* shared, const void* global, MANSARD_HERE) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "4, 8 or 16 bytes");
  if ((reinterpret_cast<u64>(shared) | reinterpret_cast<u64>(global)) % BYTES) emulated::trap(site);
  if constexpr (BYTES == 16) emulated::cp_async(shared, global, 16, site);
  else __builtin_memcpy(shared, global, BYTES);
}
#else
template <int BYTES>
MANSARD_DEVICE void cp_async_word(void* shared, const void* global) {
  if constexpr (BYTES == 16) cp_async16(shared, global);
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(shared)), "l"(global), "n"(BYTES)
                 : "memory");
}
#endif

}  // namespace mansard
