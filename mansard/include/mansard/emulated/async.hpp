// The words of async.cuh on the emulator. Copies land as late as the rules allow: a missing wait reads NaN.
#pragma once

#include "words.hpp"

namespace mansard {

inline void cp_async16(void* shared, const void* global, MANSARD_HERE) {
  emulated::cp_async(shared, global, 16, site);
}
inline void cp_async_commit() { emulated::cp_async_commit(); }
template <int N>
inline void cp_async_wait() {
  emulated::cp_async_wait(N);
}

using mbarrier = unsigned long long;

inline void mbarrier_init(mbarrier* barrier, unsigned arrivals, MANSARD_HERE) {
  emulated::mbarrier_init(barrier, arrivals, site);
}
inline void mbarrier_inval(mbarrier* barrier, MANSARD_HERE) { emulated::mbarrier_inval(barrier, site); }
inline void mbarrier_init_fence() {}
inline void mbarrier_arrive(mbarrier* barrier, MANSARD_HERE) { emulated::mbarrier_arrive(barrier, 0, site); }
inline void mbarrier_arrive_expect(mbarrier* barrier, unsigned bytes, MANSARD_HERE) {
  emulated::mbarrier_arrive(barrier, bytes, site);
}
inline void mbarrier_wait(mbarrier* barrier, unsigned parity, MANSARD_HERE) {
  emulated::mbarrier_wait(barrier, parity, site);
}

inline void bulk_load(void* shared, const void* global, unsigned bytes, mbarrier* barrier, MANSARD_HERE) {
  emulated::bulk_load(shared, global, bytes, barrier, site);
}
inline void bulk_store(void* global, const void* shared, unsigned bytes, MANSARD_HERE) {
  emulated::bulk_store(global, shared, bytes, site);
}
inline void bulk_commit() { emulated::bulk_commit(); }
template <int N>
inline void bulk_wait_read() {
  emulated::bulk_wait(N, true);
}
template <int N>
inline void bulk_wait() {
  emulated::bulk_wait(N, false);
}
inline void fence_async_shared() {}

inline void named_barrier_sync(int id, int threads, MANSARD_HERE) { emulated::sync_named(id, threads, site); }

}  // namespace mansard
