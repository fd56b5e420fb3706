// Whether `info` of any matrix is not zero: one word, which may lie in the host's memory.
//
// Team. One block of threads reads all entries, RUN at a time per thread, and votes.
// Limits: latency of a load for every RUN * threads entries.
//
//   WARPS  of the block
#pragma once
#include "mansard/gpu/complex.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void systems_check(const Arguments& a) {
  constexpr int RUN = 8, THREADS = 32 * P::WARPS;
  int found = 0;
  for (i64 first = threadIdx.x; first < a.BATCH; first += RUN * THREADS) {
    MANSARD_UNROLL
    for (int r = 0; r < RUN; ++r) {
      const i64 i = first + r * THREADS;
      found |= i < a.BATCH ? a.PIVOTS[i] : 0;
    }
  }
  found = __syncthreads_or(found != 0);
  if (threadIdx.x == 0) *a.INFO = found ? 1 : 0;
}

}  // namespace mansard
