// C = A^H B for float32 and complex64 by warpgroups: TF32 as in halves.cuh, at nearly twice the rate of single warps.
//
// Chunks arrive as in kernel_ring.cuh. A team is one warpgroup per 64 real columns of A: its lanes read their fragments
// of A from the chunk. The tensor cores read B themselves, and want it split and turned, rows side by side: the team
// lays a chunk of it down that way (planes of high and of low halves, a pair for every eight rows) while they still
// work on the one before.
//
// Once the team has met over a chunk of B, nobody reads the chunk before any more: that is when its stage is refilled.
//
//   GROUPS, STAGES  see mansard/gpu/ring.cuh
//   ROWS, SPREAD    see chunk.cuh; there is no rotation here
#pragma once
#include "kernels/tall_skinny/gram/kernel_ring.cuh"
#include "mansard/gpu/warpgroup.cuh"

namespace mansard {

// What the shared parts ask of a problem, and has one answer here.
template <class P>
struct Single : P {
  static constexpr int FOLD = 1, WARPS_K = 1, KSTEP = 8;
};

template <class P>
struct GroupShape : ChunkShape<Single<P>> {
  using C = ChunkShape<Single<P>>;
  static constexpr int BLOCKS = ceil_div(C::M, 64), TILES = ceil_div(C::N, 8), STEPS = P::ROWS / 8;
  using Chunks = Ring<P::GROUPS, 4 * BLOCKS, P::STAGES, C::STAGE * 4, Feed::own>;
  static constexpr int PLANE = TILES * 64, BUFFER = STEPS * 2 * PLANE;  // words of eight rows' halves; of a chunk
  static constexpr int BLOCK_M = BLOCKS * 64, PITCH = TILES * 8 + 1, TILE = BLOCK_M * PITCH;
  static constexpr int SLACK = BLOCK_M > TILES * 8 ? BLOCK_M : TILES * 8;  // columns read past the last row
  static constexpr int PLANES_AT = ceil_div(Chunks::BYTES + SLACK * 4, 128) * 128;
  static constexpr int ROOM = P::SHARED_BYTES / (TILE * 8), MEETING = ROOM < P::GROUPS ? ROOM : P::GROUPS;
  static_assert(PLANES_AT + P::GROUPS * 2 * BUFFER * 4 <= P::SHARED_BYTES && MEETING >= 1, "shared memory");
  static_assert(sizeof(typename C::Word) == 4 && P::SPREAD != Spread::rotate && P::ROWS % 8 == 0, "floats, by eight rows");
};

template <class P>
struct Warpgroup {
  using S = GroupShape<P>;
  static constexpr int TEAM = S::Chunks::TEAM * 32;
  int group, member, g, t, column, odd = 0;  // column: of A, the lane's first
  u32* planes;
  float sums[S::TILES][4] = {};
  Chain<S::TILES, P::ROWS> chain;

  MANSARD_DEVICE explicit Warpgroup(unsigned char* arena)
      : group(threadIdx.x / TEAM), member(threadIdx.x / 32 % S::Chunks::TEAM), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4),
        column(member * 16 + g), planes(reinterpret_cast<u32*>(arena + S::PLANES_AT) + group * 2 * S::BUFFER) {}

  // The lane's number of row t of quad q: column `column` or the eighth behind it.
  MANSARD_DEVICE float of_a(const float* stage, int q, int half) const {
    return stage[S::row_of(q) * S::LDA + t * S::LANE_A + column + 8 * half];
  }
  static MANSARD_DEVICE float of_b(const float* stage, int q, int lane, int n) {
    return stage[(P::SAME ? 0 : S::STAGE_A) + S::row_of(q) * S::LDB + lane * S::LANE_B + n];
  }

  // Splits and turns B, four rows of one column at a time.
  MANSARD_DEVICE void lay_down(const float* stage, u32* to) const {
    constexpr int ITEMS = 2 * S::STEPS * S::TILES * 8;
MANSARD_UNROLL_BY(4)
    for (int i = threadIdx.x % TEAM; i < ITEMS; i += TEAM) {
      const int q = i / (S::TILES * 8), n = i % (S::TILES * 8);
      uint4 high, low;
      split_tf32(of_b(stage, q, 0, n), high.x, low.x);
      split_tf32(of_b(stage, q, 1, n), high.y, low.y);
      split_tf32(of_b(stage, q, 2, n), high.z, low.z);
      split_tf32(of_b(stage, q, 3, n), high.w, low.w);
      u32* at = to + q / 2 * 2 * S::PLANE + warpgroup_word(q % 2 * 4, n);
      *reinterpret_cast<uint4*>(at) = high;
      *reinterpret_cast<uint4*>(at + S::PLANE) = low;
    }
  }

  struct Numbers {  // of A, a lane's share of eight rows
    float at[4];
  };
  MANSARD_DEVICE Numbers numbers(const float* stage, int step) const {
    return {{of_a(stage, 2 * step, 0), of_a(stage, 2 * step, 1), of_a(stage, 2 * step + 1, 0), of_a(stage, 2 * step + 1, 1)}};
  }

  // `met` is called once the tensor cores have something to do.
  template <class Met>
  MANSARD_DEVICE void multiply(const unsigned char* bytes, Met met) {
    const float* stage = reinterpret_cast<const float*>(bytes);
    u32* buffer = planes + odd * S::BUFFER;
    odd ^= 1;
    lay_down(stage, buffer);
    Numbers next = numbers(stage, 0);
    warpgroup_wait<0>();
    if (chain.is_long()) chain.end(sums);
    fence_async_shared();
    __threadfence_block();  // see mansard/gpu/ring.cuh
    S::Chunks::meet(group);
    MANSARD_UNROLL
    for (int step = 0; step < S::STEPS; ++step) {
      u32 high[4], low[4];
      MANSARD_UNROLL
      for (int i = 0; i < 4; ++i) split_tf32(next.at[i], high[i], low[i]);
      const u32* b = buffer + step * 2 * S::PLANE;
      warpgroup_arrive();
      wgmma_tf32(chain.sums, low, b, true);
      wgmma_tf32(chain.sums, high, b + S::PLANE, true);
      wgmma_tf32(chain.sums, high, b, true);
      warpgroup_commit();
      if (step == 0) met();
      if (step + 1 < S::STEPS) next = numbers(stage, step + 1);
      warpgroup_wait<1>();  // the halves of the step before may go
    }
  }

  // All chunks of the team; returns the first one past the end.
  template <class Rows>
  MANSARD_DEVICE i64 consume(const typename S::Chunks& ring, const Rows& rows) {
    const i64 stride = static_cast<i64>(gridDim.x) * P::GROUPS;
    i64 chunk = static_cast<i64>(group) * gridDim.x + blockIdx.x, ahead = chunk;
    const auto refill = [&](int stage) {
      if (member == 0 && ahead < ring.chunks) rows.fill(ring.stage_of(group, stage), ring.full(group, stage), ahead);
      ahead += stride;
    };
    for (int stage = 0; stage < P::STAGES; ++stage) refill(stage);
    int stage = 0, previous = -1;
    u32 parity = 0;
MANSARD_UNROLL_BY(1)
    for (; chunk < ring.chunks; chunk += stride) {
      mbarrier_wait(ring.full(group, stage), parity);  // stage: the chunk has arrived
      __syncwarp();                                    // reconverge after the wait
      multiply(ring.stage_of(group, stage), [&]() {
        if (previous >= 0) refill(previous);
      });
      previous = stage;
      if (++stage == P::STAGES) stage = 0, parity ^= 1;
    }
    return chunk;
  }

  // Whether infinities or NaNs went into the sums; those of columns past the width are nobody's.
  MANSARD_DEVICE bool spoilt() {
    warpgroup_wait<0>();
    chain.end(sums);
    float all = 0.0f;
    for_each([&](int tile, int e, int, int) { all += sums[tile][e]; });
    return !(fabsf(all) <= 3.0e38f);
  }
  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int i = 0; i < 4 * S::TILES; ++i) sums[i / 4][i % 4] = 0;
  }
  // A chunk in double precision, tile by tile with few registers.
  MANSARD_DEVICE void redo(const unsigned char* bytes) {
    const float* stage = reinterpret_cast<const float*>(bytes);
    MANSARD_UNROLL
    for (int tile = 0; tile < S::TILES; ++tile) {
      double some[4] = {};
MANSARD_UNROLL_BY(1)
      for (int q = 0; q < 2 * S::STEPS; ++q)
        mma_m16n8k4(some, double(of_a(stage, q, 0)), double(of_a(stage, q, 1)), double(of_b(stage, q, t, tile * 8 + g)));
      MANSARD_UNROLL
      for (int e = 0; e < 4; ++e) sums[tile][e] += static_cast<float>(some[e]);
    }
  }

  // Calls use(tile, e, row, column) for the lane's sums inside the product.
  template <class Use>
  MANSARD_DEVICE void for_each(Use use) const {
    MANSARD_UNROLL
    for (int tile = 0; tile < S::TILES; ++tile)
      MANSARD_UNROLL
      for (int e = 0; e < 4; ++e) {
        const int m = column + e / 2 * 8, n = tile * 8 + 2 * t + e % 2;
        if (m < S::M && n < S::N) use(tile, e, m, n);
      }
  }
  MANSARD_DEVICE void add_to(double* tile, bool add) const {
    for_each([&](int j, int e, int m, int n) {
      double& entry = tile[m * S::PITCH + n];
      entry = add ? entry + double(sums[j][e]) : double(sums[j][e]);
    });
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void gram_group(const Arguments& arguments) {
  using S = GroupShape<P>;
  using Chunks = typename S::Chunks;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  clear<P::SHARED_BYTES, Chunks::THREADS>(arena);
  const Stream<Single<P>, Arguments> stream(arguments);
  const Chunks chunks{arena, stream.chunks};
  chunks.initialise();

  Warpgroup<P> team(arena);
  const i64 end = team.consume(chunks, stream);
  if (end == stream.chunks && end * P::ROWS < arguments.K)  // one team meets the remaining rows
    by_hand<S>(chunks, stream, team.group, end, [&](const unsigned char* stage) { team.multiply(stage, []() {}); });
  do_again<S>(chunks, stream, team);

  chunks.retire();
  double* tiles = reinterpret_cast<double*>(arena);
MANSARD_UNROLL_BY(1)
  for (int first = 0; first < P::GROUPS; first += S::MEETING) {
    if (team.group >= first && team.group < first + S::MEETING)
      team.add_to(tiles + (team.group - first) * S::TILE, first > 0);
    __syncthreads();  // tiles of these teams are complete, before the next teams add to them or they are read
  }
  const auto value = [&](int entry) {
    const int m = entry / P::N, n = entry % P::N;
    return mirrored<P>(!P::SAME || m <= n, m, n, [&](int i, int j) {
      return entry_of_tiles<Single<P>, S::MEETING, S::BLOCK_M, S::PITCH>(tiles, i, j);
    });
  };
  const auto store = [&](int entry, typename S::Sum sum) { store_entry<P>(arguments, entry / P::N, entry % P::N, sum); };
  auto* scratch = reinterpret_cast<typename S::Sum*>(arena);  // the tiles are read out before it is used
  reduce_over_blocks<P::REDUCE, typename S::Sum, P::M * P::N, Chunks::THREADS>(
      arguments.partials, arguments.counters, 0, gridDim.x, scratch, value, store);
}

}  // namespace mansard
