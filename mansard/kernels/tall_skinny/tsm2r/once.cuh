// Bulk copies of data that are read only once: an L2 policy that evicts them first. Also the election of the lane that
// issues them.
#pragma once
#include "mansard/gpu/async.cuh"

namespace mansard {

#if defined(MANSARD_EMULATED) || !MANSARD_BULK

MANSARD_DEVICE u64 once_policy() { return 0; }
MANSARD_DEVICE bool elected() { return threadIdx.x % 32 == 0; }
MANSARD_DEVICE void bulk_load_once(void* shared, const void* global, u32 bytes, mbarrier* barrier, u64) {
  bulk_load(shared, global, bytes, barrier);
}

#else

// True in one lane of a warp; all lanes must call it. The compiler then knows that a branch on it has a single lane,
// and needs no loop over lanes for the uniform registers of a bulk copy.
MANSARD_DEVICE bool elected() {
  u32 one;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(one));
  return one != 0;
}
MANSARD_DEVICE u64 once_policy() {
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
MANSARD_DEVICE void bulk_load_once(void* shared, const void* global, u32 bytes, mbarrier* barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
          shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}

#endif

}  // namespace mansard
