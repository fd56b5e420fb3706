// Rings of bulk copies whose chunks are assigned by a counter (tickets).
//
// Like mansard/gpu/ring.cuh, but a team takes the next chunk when it has a free stage: where reads and writes mix, some
// multiprocessors fall behind, and a fixed order would wait for them. FIXED assigns chunks cyclically instead, for
// results that depend on which team takes which chunk.
//
// A block has GROUPS teams of TEAM warps, each with a ring of STAGES stages. The first warp of a team feeds it.
// `counter` holds the next chunk and, behind it, the number of finished teams; both are zero before a launch and left
// so. They are the third and fourth of the counters: the first two are those of mansard/gpu/reduce.cuh, whose barrier
// leaves a bit that flips.
//
// Barriers (barrier -> buffer -> writer): mbarrier full[stage] -> chunk and its number -> the bulk copy and the leader;
// meet -> stage, read by all warps -> the next copy. There is no `empty` barrier: callers meet before they refill.
//
//   ring.start(fill);
//   for (i64 chunk; (chunk = ring.wait()) >= 0; ring.advance()) {
//     ... read ring.current(), ring.meet(), ring.refill(ring.stage, fill) ...
//   }
//   ring.finish();
//
// `fill(stage, barrier, chunk)` is called by the whole feeding warp and must arrive once on the barrier with the bytes
// it expects.
#pragma once
#include "mansard/gpu/async.cuh"

namespace mansard {

template <int GROUPS_, int TEAM_, int STAGES_, int STAGE_BYTES_, bool FIXED = false>
struct TicketRing {
  static constexpr int GROUPS = GROUPS_, TEAM = TEAM_, STAGES = STAGES_, STAGE_BYTES = STAGE_BYTES_;
  static constexpr int THREADS = GROUPS * TEAM * 32;
  static constexpr int HEAD_BYTES = ceil_div(2 * GROUPS * STAGES * 8, 128) * 128;  // barriers, chunk numbers
  static constexpr int BYTES = HEAD_BYTES + GROUPS * STAGES * STAGE_BYTES;
  unsigned char* arena;
  i64 chunks;
  u32* counter;
  int group, member;
  bool leader;  // the feeding warp's first lane
  u32 ticket = 0, parity = 0;
  int stage = 0;

  MANSARD_DEVICE TicketRing(unsigned char* memory, i64 count, u32* counters)
      : arena(memory), chunks(count), counter(counters + 2), group(threadIdx.x / 32 / TEAM), member(threadIdx.x / 32 % TEAM),
        leader(member == 0 && threadIdx.x % 32 == 0) {}

  MANSARD_DEVICE mbarrier* full(int of) const { return reinterpret_cast<mbarrier*>(arena) + group * STAGES + of; }
  MANSARD_DEVICE volatile i64* chunk_of(int of) const {
    return reinterpret_cast<volatile i64*>(arena) + (GROUPS + group) * STAGES + of;
  }
  MANSARD_DEVICE unsigned char* stage_at(int of) const {
    return arena + HEAD_BYTES + (group * STAGES + of) * STAGE_BYTES;
  }
  MANSARD_DEVICE unsigned char* current() const { return stage_at(stage); }

  // Barrier of the team's warps. Stages that they read before it may be overwritten after it: see mansard/gpu/ring.cuh.
  MANSARD_DEVICE void meet() const {
    __threadfence_block();
    if constexpr (TEAM == 1) __syncwarp();
    else named_barrier_sync(1 + group, TEAM * 32);
  }

  // Called by all threads of the block; contains a barrier, so that their earlier stores to shared memory are visible
  // to all.
  template <class Fill>
  MANSARD_DEVICE void start(Fill fill) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < GROUPS * STAGES; ++i) mbarrier_init(reinterpret_cast<mbarrier*>(arena) + i, 1);
      mbarrier_init_fence();
    }
    if (leader) ticket = FIXED ? blockIdx.x * GROUPS + group : atomicAdd(counter, 1u);
    __syncthreads();  // barriers are initialised by thread 0
    for (int of = 0; of < STAGES; ++of) refill(of, fill);
  }
  // Start the copy of the team's next chunk into stage `of`; only the feeding warp does anything.
  template <class Fill>
  MANSARD_DEVICE void refill(int of, Fill fill) {
    if (member != 0) return;
    const i64 chunk = static_cast<i64>(__shfl_sync(~0u, ticket, 0));
    if (chunk < chunks) {
      if (leader) {
        *chunk_of(of) = chunk;
        if (FIXED) ticket += gridDim.x * GROUPS;
        else ticket = atomicAdd(counter, 1u);  // one ahead: an atomic takes most of a microsecond
      }
      __syncwarp();  // chunk_of is written by the leader before the barrier announces it
      fill(stage_at(of), full(of), chunk);
    } else if (leader) {
      *chunk_of(of) = -1;
      mbarrier_arrive(full(of));
    }
    __syncwarp();  // reconverge after the leader
  }
  // Wait for the current stage; returns its chunk, or a negative number after the last one.
  MANSARD_DEVICE i64 wait() const {
    mbarrier_wait(full(stage), parity);
    __syncwarp();  // the warp must be converged again for mma.sync
    return *chunk_of(stage);
  }
  MANSARD_DEVICE void advance() {
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
  // Called by all threads of the block: when they return, the arena is ordinary memory, barriers included.
  MANSARD_DEVICE void retire() const {
    __syncthreads();  // no thread waits on a barrier any more
    for (int i = threadIdx.x; i < GROUPS * STAGES; i += THREADS) mbarrier_inval(reinterpret_cast<mbarrier*>(arena) + i);
    __syncthreads();  // all barriers are invalidated before their words are reused
  }
  // The last team to finish resets the counters for the next launch.
  MANSARD_DEVICE void finish() const {
    meet();  // all warps of the team have read their last stage
    if (!FIXED && leader && atomicAdd(counter + 1, 1u) == gridDim.x * GROUPS - 1) counter[0] = counter[1] = 0;
  }
};

}  // namespace mansard
