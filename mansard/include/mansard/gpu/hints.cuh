// L2 policies of bulk copies: evict first data that will not be read again, keep data that will.
#pragma once
#include "mansard/gpu/async.cuh"

namespace mansard {

enum class Keep { normal, first, last };  // order of eviction

#if defined(MANSARD_EMULATED) || !MANSARD_BULK

MANSARD_DEVICE u64 cache_policy(Keep) { return 0; }
MANSARD_DEVICE void bulk_load_hinted(void* shared, const void* global, u32 bytes, mbarrier* barrier, u64) {
  bulk_load(shared, global, bytes, barrier);
}

#else

MANSARD_DEVICE u64 cache_policy(Keep keep) {
  u64 policy;
  if (keep == Keep::first) asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  else if (keep == Keep::last) asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  else asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
MANSARD_DEVICE void bulk_load_hinted(void* shared, const void* global, u32 bytes, mbarrier* barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}

#endif

}  // namespace mansard
