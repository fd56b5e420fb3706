// Rings of bulk copies whose chunks are dealt out by a counter.
//
// Like mansard/ring.cuh, but a team takes the next chunk when it has room for one: where reads and writes mix, some
// multiprocessors fall behind, and a fixed order would wait for them. Results must not depend on who takes which chunk.
//
// A block has GROUPS teams of TEAM warps, each with a ring of STAGES stages. The first warp of a team feeds it. `counter`
// holds the next chunk and, behind it, the teams that are done; both are zero before a launch and left so.
#pragma once
#include "mansard/async.cuh"

namespace mansard {

template <int GROUPS_, int TEAM_, int STAGES_, int STAGE_BYTES_>
struct TicketRing {
  static constexpr int GROUPS = GROUPS_, TEAM = TEAM_, STAGES = STAGES_, STAGE_BYTES = STAGE_BYTES_;
  static constexpr int THREADS = GROUPS * TEAM * 32;
  static constexpr int HEAD_BYTES = ceil_div(2 * GROUPS * STAGES * 8, 128) * 128;  // barriers, and the chunks they announce
  static constexpr int BYTES = HEAD_BYTES + GROUPS * STAGES * STAGE_BYTES;
  unsigned char* arena;
  i64 chunks;
  u32* counter;

  MANSARD_DEVICE mbarrier* full(int group, int stage) const {
    return reinterpret_cast<mbarrier*>(arena) + group * STAGES + stage;
  }
  MANSARD_DEVICE volatile i64* chunk_of(int group, int stage) const {
    return reinterpret_cast<volatile i64*>(arena) + (GROUPS + group) * STAGES + stage;
  }
  MANSARD_DEVICE unsigned char* stage_of(int group, int stage) const {
    return arena + HEAD_BYTES + (group * STAGES + stage) * STAGE_BYTES;
  }

  MANSARD_DEVICE void initialise() const {
    if (threadIdx.x == 0) {
      for (int i = 0; i < GROUPS * STAGES; ++i) mbarrier_init(full(0, i), 1);
      mbarrier_init_fence();
    }
    __syncthreads();
  }
  // A barrier of one team's warps.
  static MANSARD_DEVICE void meet(int group) {
    if constexpr (TEAM == 1) __syncwarp();
    else named_barrier_sync(1 + group, TEAM * 32);
  }

  // All warps of a team: read(stage) once per chunk, then, when nobody needs the stage any more, write(chunk). `fill` is
  // called by one whole warp and must arrive once on the barrier with the bytes it expects.
  template <class Fill, class Read, class Write>
  MANSARD_DEVICE void run(int group, bool feeder, Fill fill, Read read, Write write) const {
    const bool first = feeder && threadIdx.x % 32 == 0;
    u32 ticket = first ? atomicAdd(counter, 1u) : 0;  // drawn one ahead: it takes most of a microsecond
    const auto feed = [&](int stage) {
      const i64 chunk = static_cast<i64>(__shfl_sync(~0u, ticket, 0));
      if (chunk < chunks) {
        if (first) *chunk_of(group, stage) = chunk, ticket = atomicAdd(counter, 1u);
        __syncwarp();
        fill(stage_of(group, stage), full(group, stage), chunk);
      } else if (first) {
        *chunk_of(group, stage) = -1;
        mbarrier_arrive(full(group, stage));
      }
      __syncwarp();
    };
    if (feeder)
      for (int stage = 0; stage < STAGES; ++stage) feed(stage);
    int stage = 0;
    u32 parity = 0;
MANSARD_UNROLL_BY(1)
    for (;;) {
      mbarrier_wait(full(group, stage), parity);
      __syncwarp();  // the warp must be converged again for mma.sync
      const i64 chunk = *chunk_of(group, stage);
      if (chunk < 0) break;
      read(stage_of(group, stage));
      __threadfence_block();  // the reads are done before the next chunk may land under them: see mansard/ring.cuh
      meet(group);
      if (feeder) feed(stage);
      write(chunk);
      if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    meet(group);
    if (first && atomicAdd(counter + 1, 1u) == gridDim.x * GROUPS - 1) counter[0] = counter[1] = 0;
  }
};

}  // namespace mansard
