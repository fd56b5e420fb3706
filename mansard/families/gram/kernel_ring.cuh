// C = A^H B on FP64 tensor cores, fed by a ring of bulk copies: the kernel for every width, odd ones too.
//
// A contiguous tall matrix is a flat stream of bytes. Each group of warps owns a ring of STAGES chunks (ROWS rows of
// A and of B); one instruction of one thread fetches a chunk with no registers involved, and its arrival is announced
// on an mbarrier. The warps read fragments from shared memory, unpadded: lane t of a quad takes rows STEP t + u, and
// with STEP = BANKS / 4 / gcd(pitch, BANKS / 4) the 32 lanes hit different banks for every pitch that is not a
// multiple of a quarter of the banks. For those, SHIFT fetches a chunk as four blocks of rows, each displaced by a
// quarter of the banks, and lane t takes block t. Columns past the width are read (they belong to the next row) and
// their products are never looked at, so the loop has no predicates.
//
//   WARPS_M x WARPS_N     warps side by side over C; WARPS_K of these share the rows of a chunk
//   GROUPS                such teams per block, each with its own ring
//   ROWS, STAGES          rows per chunk, chunks per ring
//   FEED                  producer: a warp of its own refills the rings; own: the first warp of a team does
//   KSTEP                 rows per tensor-core instruction: 4, 8 or 16
//   UNIT                  float64: float32 data is widened and summed without error. tf32x3: each float32 number is two
//                         TF32 numbers and a product three instructions, at several times the rate
//   FOLD                  rows of a narrow matrix viewed as one
#pragma once
#include "families/gram/real_tile.cuh"
#include "mansard/async.cuh"

namespace mansard {

enum class Feed { producer, own };
enum class Unit { float64, tf32x3 };

template <Unit UNIT>
struct SumOf {
  using Type = double;
};
template <>
struct SumOf<Unit::tf32x3> {
  using Type = float;
};

// Rows between the lanes of a quad such that their reads fall into different quarters of the banks.
MANSARD_HOST_DEVICE int lane_step(int pitch, int quarter) { return quarter / gcd(pitch, quarter); }
// The next length that moves what follows by a quarter of the banks.
MANSARD_HOST_DEVICE int shifted(int words, int quarter) {
  return words + (quarter - words % (4 * quarter) + 4 * quarter) % (4 * quarter);
}

template <class P>
struct RingShape : RealShape<P> {
  using R = RealShape<P>;
  using Word = typename R::Word;
  using Partial = typename SumOf<P::UNIT>::Type;
  static constexpr int LDA = P::FOLD > 1 ? R::WIDTH_M : P::PITCH_A * R::WORDS;
  static constexpr int LDB = P::FOLD > 1 ? R::WIDTH_N : P::PITCH_B * R::WORDS;
  static constexpr bool PADDED = P::PITCH_A != P::M || P::PITCH_B != P::N;

  static constexpr int TEAM = P::WARPS_M * P::WARPS_N * P::WARPS_K;  // warps
  static constexpr int CONSUMERS = TEAM * P::GROUPS;
  static constexpr int THREADS = (CONSUMERS + (P::FEED == Feed::producer)) * 32;
  static constexpr int TILES_M = ceil_div(ceil_div(R::WIDTH_M, 16), P::WARPS_M);  // 16 x 8 tiles per warp
  static constexpr int TILES_N = ceil_div(ceil_div(R::WIDTH_N, 8), P::WARPS_N);
  static constexpr int BLOCK_M = TILES_M * P::WARPS_M * 16, BLOCK_N = TILES_N * P::WARPS_N * 8, PITCH = BLOCK_N + 1;

  static constexpr int BANKS = 128 / sizeof(Word), QUARTER = BANKS / 4, BLOCK_ROWS = P::ROWS / 4;
  static constexpr int STEP_A = lane_step(LDA, QUARTER), STEP_B = lane_step(LDB, QUARTER);
  static constexpr int STEP = STEP_A > STEP_B ? STEP_A : STEP_B;
  // what lane t adds to its address, in words
  static constexpr int LANE_A = P::SHIFT ? shifted(BLOCK_ROWS * LDA, QUARTER) : STEP * LDA;
  static constexpr int LANE_B = P::SHIFT ? shifted(BLOCK_ROWS * LDB, QUARTER) : STEP * LDB;
  static constexpr int STAGE_A = P::SHIFT ? 4 * LANE_A : P::ROWS * LDA;
  static constexpr int STAGE_B = P::SAME ? 0 : P::SHIFT ? 4 * LANE_B : P::ROWS * LDB;
  static constexpr int STAGE = STAGE_A + STAGE_B;
  static constexpr int QUADS = P::ROWS / 4 / P::WARPS_K;  // K steps of four rows per warp and chunk
  static constexpr int BARRIER_BYTES = ceil_div(2 * P::GROUPS * P::STAGES * 8, 128) * 128;
  static constexpr int SLACK = BLOCK_M > BLOCK_N ? BLOCK_M : BLOCK_N;  // columns read past the last row
  static constexpr int RING_BYTES = BARRIER_BYTES + (P::GROUPS * P::STAGES * STAGE + SLACK) * int(sizeof(Word));
  // The teams' sums meet in as many tiles as the ring's memory holds.
  static constexpr int TEAMS = P::GROUPS * P::WARPS_K, TILE = BLOCK_M * PITCH;
  static constexpr int ROOM = P::SHARED_BYTES / (TILE * 8), TILES = ROOM < TEAMS ? ROOM : TEAMS;
  static_assert(RING_BYTES <= P::SHARED_BYTES && TILES >= 1, "shared memory");
  static_assert(P::ROWS % (4 * P::WARPS_K) == 0 && QUADS % (P::KSTEP / 4) == 0, "rows per chunk");
  static_assert(P::SHIFT || QUADS % STEP == 0, "rows per chunk must cover the lanes' stride");

  // A single warp that holds all of A^H A leaves out the tiles below the diagonal.
  static constexpr bool MIRROR = P::SAME && P::WARPS_M == 1 && P::WARPS_N == 1 && P::FOLD == 1;

  // Row of the chunk that lane 0 of a quad reads in step q, relative to the warp's first.
  static MANSARD_HOST_DEVICE int row_of(int q) { return P::SHIFT ? q : q / STEP * 4 * STEP + q % STEP; }
};

template <class P, class Arguments>
struct Ring {
  using S = RingShape<P>;
  using Word = typename S::Word;
  const Arguments& arguments;
  unsigned char* arena;
  i64 chunks;  // chunks that lie wholly inside both matrices

  MANSARD_DEVICE Ring(const Arguments& given, unsigned char* shared) : arguments(given), arena(shared) {
    // the last row of a padded matrix may end with the array
    chunks = (given.K - (S::PADDED ? 1 : 0)) / (static_cast<i64>(P::ROWS) * P::FOLD);
    if (given.K == 0) chunks = 0;
  }
  MANSARD_DEVICE mbarrier* full(int group, int stage) const {
    return reinterpret_cast<mbarrier*>(arena) + group * P::STAGES + stage;
  }
  MANSARD_DEVICE mbarrier* empty(int group, int stage) const { return full(P::GROUPS + group, stage); }
  MANSARD_DEVICE Word* stage_of(int group, int stage) const {
    return reinterpret_cast<Word*>(arena + S::BARRIER_BYTES) + (group * P::STAGES + stage) * S::STAGE;
  }

  MANSARD_DEVICE void initialise() const {
    if constexpr (P::UNIT == Unit::tf32x3) {  // bytes that no copy fills must not look like a NaN
      float4* at = reinterpret_cast<float4*>(arena + S::BARRIER_BYTES);
      const int count = (P::SHARED_BYTES - S::BARRIER_BYTES) / int(sizeof(float4));
      for (int i = threadIdx.x; i < count; i += S::THREADS) at[i] = make_float4(0, 0, 0, 0);
      fence_async_shared();
    }
    if (threadIdx.x == 0) {
      for (int i = 0; i < P::GROUPS * P::STAGES; ++i) {
        mbarrier_init(full(0, i), 1);
        mbarrier_init(empty(0, i), S::TEAM);
      }
      mbarrier_init_fence();
    }
    __syncthreads();
  }

  // One warp fetches a chunk: whole operands, or four blocks of rows each.
  MANSARD_DEVICE void fill(int group, int stage, i64 chunk) const {
    constexpr int PIECES = P::SHIFT ? 4 : 1, ROWS = P::ROWS / PIECES;
    const int lane = threadIdx.x % 32;
    mbarrier* arrival = full(group, stage);
    if (lane == 0) mbarrier_arrive_expect(arrival, P::ROWS * (S::LDA + (P::SAME ? 0 : S::LDB)) * sizeof(Word));
    __syncwarp();
    Word* to = stage_of(group, stage);
    if (lane < PIECES)
      bulk_load(to + lane * S::LANE_A, words(arguments.A) + (chunk * P::ROWS + lane * ROWS) * S::LDA,
                ROWS * S::LDA * sizeof(Word), arrival);
    else if (!P::SAME && lane < 2 * PIECES)
      bulk_load(to + S::STAGE_A + (lane - PIECES) * S::LANE_B,
                words(arguments.B) + (chunk * P::ROWS + (lane - PIECES) * ROWS) * S::LDB, ROWS * S::LDB * sizeof(Word),
                arrival);
    __syncwarp();
  }
  static MANSARD_DEVICE const Word* words(const typename P::T* matrix) { return reinterpret_cast<const Word*>(matrix); }

  // The producer warp keeps every group's ring full.
  MANSARD_DEVICE void produce() const {
    int stage = 0;
    u32 parity = 1;
MANSARD_UNROLL_BY(1)
    for (i64 base = blockIdx.x; base < chunks; base += static_cast<i64>(gridDim.x) * P::GROUPS) {
MANSARD_UNROLL_BY(1)
      for (int group = 0; group < P::GROUPS; ++group) {
        const i64 chunk = base + static_cast<i64>(group) * gridDim.x;
        if (chunk >= chunks) break;
        mbarrier_wait(empty(group, stage), parity);
        __syncwarp();
        fill(group, stage, chunk);
      }
      if (++stage == P::STAGES) stage = 0, parity ^= 1;
    }
  }

  // Calls multiply(stage) for every chunk of the group; returns the number of the first chunk past the end.
  template <class Multiply>
  MANSARD_DEVICE i64 consume(int group, bool feeder, Multiply multiply) const {
    constexpr bool OWN = P::FEED == Feed::own;
    const i64 stride = static_cast<i64>(gridDim.x) * P::GROUPS;
    i64 chunk = static_cast<i64>(group) * gridDim.x + blockIdx.x, ahead = chunk;
    if constexpr (OWN)
      for (int stage = 0; stage < P::STAGES; ++stage, ahead += stride)
        if (feeder && ahead < chunks) fill(group, stage, ahead);
    int stage = 0, previous = -1;
    u32 parity = 0, previous_parity = 0;
MANSARD_UNROLL_BY(1)
    for (; chunk < chunks; chunk += stride) {
      if (OWN && S::TEAM > 1 && previous >= 0) {  // refill one chunk late, so that nobody waits for the slowest warp
        if (feeder && ahead < chunks) {
          mbarrier_wait(empty(group, previous), previous_parity);
          __syncwarp();
          fill(group, previous, ahead);
        }
        ahead += stride;
      }
      mbarrier_wait(full(group, stage), parity);
      __syncwarp();  // the warp must be converged again for mma.sync
      multiply(stage_of(group, stage));
      // An arrival (or a refill) may overtake reads of this stage that bank conflicts hold up, and the next chunk
      // would land under them: seen on an H200. The fence waits for the reads.
      __threadfence_block();
      __syncwarp();
      if constexpr (OWN && S::TEAM == 1) {
        if (ahead < chunks) fill(group, stage, ahead);
        ahead += stride;
      } else {
        if (threadIdx.x % 32 == 0) mbarrier_arrive(empty(group, stage));
      }
      previous = stage, previous_parity = parity;
      if (++stage == P::STAGES) stage = 0, parity ^= 1;
    }
    return chunk;
  }

  // The rows behind the last whole chunk, padded with zeros, into stage 0 by all threads of the team.
  MANSARD_DEVICE void fill_tail(int group, int thread) const {
    Word* to = stage_of(group, 0);
    fill_operand<S::LDA, S::LANE_A, S::M>(to, words(arguments.A), thread);
    if constexpr (!P::SAME) fill_operand<S::LDB, S::LANE_B, S::N>(to + S::STAGE_A, words(arguments.B), thread);
  }
  template <int LD, int LANE, int WIDTH>
  MANSARD_DEVICE void fill_operand(Word* to, const Word* from, int thread) const {
    const i64 first = chunks * P::ROWS, words_left = arguments.K * WIDTH - first * LD;
    for (int i = thread; i < P::ROWS * LD; i += S::TEAM * 32) {
      const int row = i / LD, column = i % LD;
      const bool inside = P::FOLD > 1 ? i < words_left : first + row < arguments.K && column < WIDTH;
      const int at = P::SHIFT ? row / S::BLOCK_ROWS * LANE + row % S::BLOCK_ROWS * LD + column : i;
      to[at] = inside ? from[first * LD + i] : Word(0);
    }
  }
};

// A warp's part of C: tiles of 16 x 8, four sums per lane each.
template <class P>
struct Sums {
  typename RingShape<P>::Partial at[RingShape<P>::TILES_M][RingShape<P>::TILES_N][4];
};
template <class P, class Visit>
MANSARD_DEVICE void for_each_sum(Visit visit) {
  MANSARD_UNROLL
  for (int i = 0; i < RingShape<P>::TILES_M; ++i)
    MANSARD_UNROLL
    for (int j = 0; j < RingShape<P>::TILES_N; ++j)
      MANSARD_UNROLL
      for (int e = 0; e < 4; ++e) visit(i, j, e);
}

// One warp, one chunk: `a` and `b` already point at the lane's first element.
template <class P>
MANSARD_DEVICE void multiply_chunk(Sums<P>& sums, const typename RingShape<P>::Word* a,
                                   const typename RingShape<P>::Word* b) {
  using S = RingShape<P>;
  constexpr int STEPS = P::KSTEP / 4;
  MANSARD_UNROLL
  for (int q = 0; q < S::QUADS; q += STEPS) {
    double fragment_a[S::TILES_M][2 * STEPS], fragment_b[S::TILES_N][STEPS];
    MANSARD_UNROLL
    for (int z = 0; z < STEPS; ++z) {
      MANSARD_UNROLL
      for (int i = 0; i < 2 * S::TILES_M; ++i)
        fragment_a[i / 2][2 * z + i % 2] = static_cast<double>(a[S::row_of(q + z) * S::LDA + i * 8]);
      MANSARD_UNROLL
      for (int j = 0; j < S::TILES_N; ++j) fragment_b[j][z] = static_cast<double>(b[S::row_of(q + z) * S::LDB + j * 8]);
    }
    MANSARD_UNROLL
    for (int i = 0; i < S::TILES_M; ++i)
      MANSARD_UNROLL
      for (int j = 0; j < S::TILES_N; ++j)
        if (!S::MIRROR || 8 * j + 7 >= 16 * i) mma_steps<P::KSTEP>(sums.at[i][j], fragment_a[i], fragment_b[j]);
  }
}

// A chunk in double precision, tile by tile with few registers, added to float sums: for the rare chunk below.
template <class P, int I, int J>
MANSARD_DEVICE void multiply_tile(float (&sums)[4], const float* a, const float* b) {
  using S = RingShape<P>;
  double tile[4] = {};
  MANSARD_UNROLL_BY(1)
  for (int q = 0; q < S::QUADS; ++q) {
    const float* row_a = a + S::row_of(q) * S::LDA + I * 16;
    mma_m16n8k4(tile, row_a[0], row_a[8], b[S::row_of(q) * S::LDB + J * 8]);
  }
  MANSARD_UNROLL
  for (int e = 0; e < 4; ++e) sums[e] += static_cast<float>(tile[e]);
}
template <class P, int TILE = 0>
MANSARD_DEVICE void multiply_tiles(Sums<P>& sums, const float* a, const float* b) {
  constexpr int I = TILE / RingShape<P>::TILES_N, J = TILE % RingShape<P>::TILES_N;
  if constexpr (I < RingShape<P>::TILES_M) {
    multiply_tile<P, I, J>(sums.at[I][J], a, b);
    multiply_tiles<P, TILE + 1>(sums, a, b);
  }
}

// The same on TF32 units: x y = high high + high low + low high, smallest first. The units truncate, so their chains end
// with the chunk, whose sums are added with rounding. A chunk with infinities or NaNs, which splitting does not survive,
// is done again in double precision.
template <class P>
MANSARD_DEVICE void multiply_chunk_tf32(Sums<P>& sums, const float* a, const float* b) {
  using S = RingShape<P>;
  Sums<P> chunk = {};
  MANSARD_UNROLL
  for (int q = 0; q < S::QUADS; q += 2) {
    u32 high_a[S::TILES_M][4], low_a[S::TILES_M][4], high_b[S::TILES_N][2], low_b[S::TILES_N][2];
    MANSARD_UNROLL
    for (int z = 0; z < 2; ++z) {
      MANSARD_UNROLL
      for (int i = 0; i < 2 * S::TILES_M; ++i)
        split_tf32(a[S::row_of(q + z) * S::LDA + i * 8], high_a[i / 2][2 * z + i % 2], low_a[i / 2][2 * z + i % 2]);
      MANSARD_UNROLL
      for (int j = 0; j < S::TILES_N; ++j) split_tf32(b[S::row_of(q + z) * S::LDB + j * 8], high_b[j][z], low_b[j][z]);
    }
    const auto multiply = [&](const u32 (&left)[S::TILES_M][4], const u32 (&right)[S::TILES_N][2]) {
      MANSARD_UNROLL
      for (int i = 0; i < S::TILES_M; ++i)
        MANSARD_UNROLL
        for (int j = 0; j < S::TILES_N; ++j)
          if (!S::MIRROR || 8 * j + 7 >= 16 * i) mma_tf32_m16n8k8(chunk.at[i][j], left[i], right[j]);
    };
    multiply(low_a, high_b);  // tile by tile inside, so that no instruction waits for the one before it
    multiply(high_a, low_b);
    multiply(high_a, high_b);
  }
  float all = 0.0f;
  for_each_sum<P>([&](int i, int j, int e) { all += chunk.at[i][j][e]; });
  if (__any_sync(~0u, !(fabsf(all) <= 3.0e38f)))
    multiply_tiles<P>(sums, a, b);
  else
    for_each_sum<P>([&](int i, int j, int e) { sums.at[i][j][e] += chunk.at[i][j][e]; });
}

// Writes a warp's sums to a tile in shared memory, or adds them to what is there.
template <class P>
MANSARD_DEVICE void add_to_tile(const Sums<P>& sums, double* tile, bool add) {
  using S = RingShape<P>;
  const int lane = threadIdx.x % 32;
  double* start = tile + lane / 4 * S::PITCH + lane % 4 * 2;
  for_each_sum<P>([&](int i, int j, int e) {
    double* entry = start + (i * 16 + e / 2 * 8) * S::PITCH + j * 8 + e % 2;
    const double sum = static_cast<double>(sums.at[i][j][e]);
    *entry = add ? *entry + sum : sum;
  });
}

template <class P, class Arguments>
MANSARD_DEVICE void gram_ring(const Arguments& arguments) {
  using S = RingShape<P>;
  using Word = typename S::Word;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const Ring<P, Arguments> ring(arguments, arena);
  ring.initialise();

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int group = warp / S::TEAM, member = warp % S::TEAM;
  const int warp_k = member / (P::WARPS_M * P::WARPS_N), warp_m = member / P::WARPS_N % P::WARPS_M;
  const int warp_n = member % P::WARPS_N;
  Sums<P> sums = {};
  if (group == P::GROUPS) {
    ring.produce();
  } else {
    const int first_row = warp_k * (P::SHIFT ? S::QUADS : 4 * S::QUADS);
    const int offset_a = first_row * S::LDA + t * S::LANE_A + warp_m * S::TILES_M * 16 + g;
    const int offset_b = (P::SAME ? 0 : S::STAGE_A) + first_row * S::LDB + t * S::LANE_B + warp_n * S::TILES_N * 8 + g;
    const auto multiply = [&](const Word* stage) {
      if constexpr (P::UNIT == Unit::tf32x3) multiply_chunk_tf32<P>(sums, stage + offset_a, stage + offset_b);
      else multiply_chunk<P>(sums, stage + offset_a, stage + offset_b);
    };
    const i64 end = ring.consume(group, member == 0, multiply);
    if (end == ring.chunks && ring.chunks * P::ROWS * P::FOLD < arguments.K) {  // one team meets the remaining rows
      const auto meet = [&] {
        if constexpr (S::TEAM == 1) __syncwarp();
        else named_barrier_sync(1 + group, S::TEAM * 32);
      };
      meet();
      ring.fill_tail(group, threadIdx.x - group * S::TEAM * 32);
      meet();
      multiply(ring.stage_of(group, 0));
    }
  }

  __syncthreads();
  double* tiles = reinterpret_cast<double*>(arena);
  const int team = group * P::WARPS_K + warp_k;
  const int origin = warp_m * S::TILES_M * 16 * S::PITCH + warp_n * S::TILES_N * 8;
  MANSARD_UNROLL_BY(1)
  for (int first = 0; first < S::TEAMS; first += S::TILES) {
    if (team >= first && team < first + S::TILES)
      add_to_tile<P>(sums, tiles + (team - first) * S::TILE + origin, first > 0);
    __syncthreads();
  }
  const auto value = [&](int entry) {
    return mirrored<P, S::MIRROR>(entry / P::N, entry % P::N, [&](int m, int n) {
      return entry_of_tiles<P, S::TILES, S::BLOCK_M, S::PITCH>(tiles, m, n);
    });
  };
  const auto store = [&](int entry, typename S::Sum sum) { store_entry<P>(arguments, entry / P::N, entry % P::N, sum); };
  auto* scratch = reinterpret_cast<typename S::Sum*>(arena);  // the tiles are read out before it is used
  reduce_over_blocks<P::REDUCE, typename S::Sum, P::M * P::N, S::THREADS>(arguments.partials, arguments.counters, 0,
                                                                         gridDim.x, scratch, value, store);
}

}  // namespace mansard
