// Rings of bulk copies: a block keeps kilobytes in flight without spending registers on them.
//
// A block has GROUPS teams of TEAM warps. Each team owns a ring of STAGES stages. One thread's instruction copies a
// chunk into a stage. Chunks are assigned to blocks and teams cyclically.
//
// Barriers (barrier -> buffer -> writer): mbarrier full[group][stage] -> chunk in the stage -> its bulk copy;  mbarrier
// empty[group][stage], one arrival per warp of the team -> chunk, read by all warps -> the next bulk copy.
//
//   FEED  producer: a warp of its own refills all rings; own: the first warp of each team refills its own
//
// The caller says how to copy (`fill(stage, barrier, chunk)`, called by one whole warp, which must arrive once with the
// bytes it expects) and what to do with a chunk (`use(stage)`, called by every warp of the team).
#pragma once
#include "mansard/gpu/async.cuh"

namespace mansard {

enum class Feed { producer, own };

template <int GROUPS_, int TEAM_, int STAGES_, int STAGE_BYTES_, Feed FEED_>
struct Ring {
  static constexpr int GROUPS = GROUPS_, TEAM = TEAM_, STAGES = STAGES_, STAGE_BYTES = STAGE_BYTES_;
  static constexpr bool OWN = FEED_ == Feed::own;
  static constexpr int THREADS = (GROUPS * TEAM + (OWN ? 0 : 1)) * 32;
  static constexpr int BARRIER_BYTES = ceil_div(2 * GROUPS * STAGES * 8, 128) * 128;
  static constexpr int BYTES = BARRIER_BYTES + GROUPS * STAGES * STAGE_BYTES;
  unsigned char* arena;
  i64 chunks;

  MANSARD_DEVICE mbarrier* full(int group, int stage) const {
    return reinterpret_cast<mbarrier*>(arena) + group * STAGES + stage;
  }
  MANSARD_DEVICE mbarrier* empty(int group, int stage) const { return full(GROUPS + group, stage); }
  MANSARD_DEVICE unsigned char* stage_of(int group, int stage) const {
    return arena + BARRIER_BYTES + (group * STAGES + stage) * STAGE_BYTES;
  }

  MANSARD_DEVICE void initialise() const {
    if (threadIdx.x == 0) {
      for (int i = 0; i < GROUPS * STAGES; ++i) {
        mbarrier_init(full(0, i), 1);
        mbarrier_init(empty(0, i), TEAM);
      }
      mbarrier_init_fence();
    }
    __syncthreads();  // barriers are initialised by thread 0
  }

  // Called by all threads of the block: when they return, the arena is ordinary memory, barriers included.
  MANSARD_DEVICE void retire() const {
    __syncthreads();  // no thread waits on a barrier any more
    for (int i = threadIdx.x; i < 2 * GROUPS * STAGES; i += THREADS) mbarrier_inval(full(0, i));
    __syncthreads();  // all barriers are invalidated before their words are reused
  }

  // The producer warp keeps every team's ring full.
  template <class Fill>
  MANSARD_DEVICE void produce(Fill fill) const {
    int stage = 0;
    u32 parity = 1;
MANSARD_UNROLL_BY(1)
    for (i64 base = blockIdx.x; base < chunks; base += static_cast<i64>(gridDim.x) * GROUPS) {
MANSARD_UNROLL_BY(1)
      for (int group = 0; group < GROUPS; ++group) {
        const i64 chunk = base + static_cast<i64>(group) * gridDim.x;
        if (chunk >= chunks) break;
        mbarrier_wait(empty(group, stage), parity);  // stage: all warps of the team have read it
        __syncwarp();                                // reconverge after the wait
        fill(stage_of(group, stage), full(group, stage), chunk);
      }
      if (++stage == STAGES) stage = 0, parity ^= 1;
    }
  }

  // Called by every warp of a team; `feeder` is true in its first warp. Returns the team's first chunk beyond the end.
  template <class Fill, class Use>
  MANSARD_DEVICE i64 consume(int group, bool feeder, Fill fill, Use use) const {
    const i64 stride = static_cast<i64>(gridDim.x) * GROUPS;
    i64 chunk = static_cast<i64>(group) * gridDim.x + blockIdx.x, ahead = chunk;
    const auto refill = [&](int stage) {
      if (feeder && ahead < chunks) fill(stage_of(group, stage), full(group, stage), ahead);
      ahead += stride;
    };
    if constexpr (OWN)
      for (int stage = 0; stage < STAGES; ++stage) refill(stage);
    int stage = 0, previous = -1;
    u32 parity = 0, previous_parity = 0;
MANSARD_UNROLL_BY(1)
    for (; chunk < chunks; chunk += stride) {
      if (OWN && TEAM > 1 && previous >= 0) {  // one chunk late: no wait for the slowest warp
        if (feeder && ahead < chunks) {
          mbarrier_wait(empty(group, previous), previous_parity);  // stage: all warps of the team have read it
          __syncwarp();                                            // reconverge after the wait
        }
        refill(previous);
      }
      mbarrier_wait(full(group, stage), parity);  // stage: the chunk has arrived
      __syncwarp();  // the warp must be converged again for mma.sync
      use(stage_of(group, stage));
      // An arrival (or a refill) may overtake reads of this stage that bank conflicts delay, and the next chunk would
      // overwrite it too early: seen on an H200. The fence waits for the reads.
      __threadfence_block();
      __syncwarp();  // stage: all lanes have read it before one of them arrives or refills
      if constexpr (OWN && TEAM == 1)
        refill(stage);
      else if (threadIdx.x % 32 == 0)
        mbarrier_arrive(empty(group, stage));
      previous = stage, previous_parity = parity;
      if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    return chunk;
  }

  // Barrier of one team's warps.
  static MANSARD_DEVICE void meet(int group) {
    if constexpr (TEAM == 1) __syncwarp();
    else named_barrier_sync(1 + group, TEAM * 32);
  }
};

}  // namespace mansard
