// Asynchronous copies and the barriers they complete on.
//
//   cp_async*   16 bytes per thread, any sm_80 or later; waited for by the thread that issued them.
//   bulk_*      one thread moves kilobytes (sm_90 or later); loads complete on an mbarrier, stores in groups.
//
// Addresses and sizes of bulk copies are multiples of 16 bytes. On an older architecture the bulk words
// compile and trap, so that a template may name them behind a run-time branch.
#pragma once

#include "platform.cuh"

#if defined(MANSARD_EMULATED)
#include "mansard/emulated/async.hpp"
#else

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define MANSARD_BULK 1
#else
#define MANSARD_BULK 0
#endif

namespace mansard {

MANSARD_DEVICE u32 shared_address(const void* shared) {
  return static_cast<u32>(__cvta_generic_to_shared(shared));
}

// --- cp.async ----------------------------------------------------------------------------------------------

MANSARD_DEVICE void cp_async16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global)
               : "memory");
}

MANSARD_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Wait until at most the N youngest groups of this thread are in flight.
template <int N>
MANSARD_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// --- mbarrier: one 8-byte word in shared memory ------------------------------------------------------------

using mbarrier = u64;

MANSARD_DEVICE void mbarrier_init(mbarrier* barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Invalidate a barrier: after the next __syncthreads its word is ordinary memory. No thread may wait on it any more.
MANSARD_DEVICE void mbarrier_inval(mbarrier* barrier) {
  asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Make initialised barriers visible to the copy engine; a __syncthreads must follow.
MANSARD_DEVICE void mbarrier_init_fence() {
#if MANSARD_BULK
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

MANSARD_DEVICE void mbarrier_arrive(mbarrier* barrier) {
  asm volatile(
      "{\n"
      ".reg .b64 state;\n"
      "mbarrier.arrive.shared.b64 state, [%0];\n"
      "}" ::"r"(shared_address(barrier))
      : "memory");
}

// Arrive, and keep the phase open until `bytes` more bytes have been copied.
MANSARD_DEVICE void mbarrier_arrive_expect(mbarrier* barrier, u32 bytes) {
#if MANSARD_BULK
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
#else
  __trap();
#endif
}

// Wait for the end of the phase of this parity. The first phase has parity 0, so waiting for parity 1 on a fresh
// barrier returns at once.
MANSARD_DEVICE void mbarrier_wait(mbarrier* barrier, u32 parity) {
  u32 done;
  do {
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
#if MANSARD_BULK
        "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
#else
        "mbarrier.test_wait.parity.shared.b64 complete, [%1], %2;\n"
#endif
        "selp.u32 %0, 1, 0, complete;\n"
        "}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  } while (!done);
}

// --- Bulk copies -------------------------------------------------------------------------------------------

MANSARD_DEVICE void bulk_load(void* shared, const void* global, u32 bytes, mbarrier* barrier) {
#if MANSARD_BULK
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
#else
  __trap();
#endif
}

MANSARD_DEVICE void bulk_store(void* global, const void* shared, u32 bytes) {
#if MANSARD_BULK
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
               "r"(shared_address(shared)), "r"(bytes)
               : "memory");
#else
  __trap();
#endif
}

MANSARD_DEVICE void bulk_commit() {
#if MANSARD_BULK
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

// Wait until all but the N youngest groups have read their shared memory, which may then be overwritten.
template <int N>
MANSARD_DEVICE void bulk_wait_read() {
#if MANSARD_BULK
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
#endif
}

// Wait until all but the N youngest groups have been written to global memory.
template <int N>
MANSARD_DEVICE void bulk_wait() {
#if MANSARD_BULK
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
#endif
}

// Order this thread's ordinary accesses to shared memory before bulk copies (and tensor-core reads) that follow.
MANSARD_DEVICE void fence_async_shared() {
#if MANSARD_BULK
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// --- Named barriers ----------------------------------------------------------------------------------------

// Barrier `id` (0 to 15; 0 is that of __syncthreads) for `threads` threads, a multiple of 32.
MANSARD_DEVICE void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace mansard

#endif
