// C = A^H B on tensor cores, fed by rings of bulk copies: the kernel for every width, odd ones too.
//
// A contiguous tall matrix is a flat stream of bytes, fetched in chunks of ROWS rows of A and of B (mansard/ring.cuh). The
// warps read fragments from the chunk as it lies: lane t of a quad takes rows STEP t + u, and with
// STEP = BANKS / 4 / gcd(pitch, BANKS / 4) the 32 lanes hit different banks for every pitch that is not a multiple of half
// the banks; those are SPREAD. Columns past the width are read (they belong to the next row) and their products are never
// looked at, so the loop has no predicates.
//
//   WARPS_M x WARPS_N     warps side by side over C; WARPS_K of these share the rows of a chunk
//   GROUPS, STAGES, FEED  see mansard/ring.cuh
//   ROWS                  rows per chunk
//   SPREAD                of rows that begin in the same banks. rotate: their slots are read in turns (slots.cuh), which
//                         costs instructions. shift: a chunk is fetched as four blocks of rows, each displaced by a
//                         quarter of the banks, and lane t reads block t; copies that do not land on 128-byte boundaries
//                         reach 80 % of the bandwidth. none: they collide
//   KSTEP                 rows per tensor-core instruction: 4, 8 or 16
//   UNIT                  float64: float32 data is widened and summed without error. tf32x3: each float32 number is two
//                         TF32 numbers and a product three instructions, at several times the rate
//   FOLD                  rows of a narrow matrix viewed as one
#pragma once
#include "families/gram/real_tile.cuh"
#include "families/gram/slots.cuh"
#include "mansard/ring.cuh"

namespace mansard {

enum class Unit { float64, tf32x3 };
enum class Spread { none, rotate, shift };

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

  static constexpr int QUARTER = 32 / sizeof(Word);  // of the banks, in words
  static constexpr int STEP_A = lane_step(LDA, QUARTER), STEP_B = lane_step(LDB, QUARTER);
  static constexpr int STEP = STEP_A > STEP_B ? STEP_A : STEP_B;
  static constexpr bool SHIFT = P::SPREAD == Spread::shift;
  static constexpr int PIECES = SHIFT ? 4 : 1, PIECE = P::ROWS / PIECES;  // copies per operand, and their rows
  // words between the lanes of a quad
  static constexpr int LANE_A = SHIFT ? shifted(PIECE * LDA, QUARTER) : STEP * LDA;
  static constexpr int LANE_B = SHIFT ? shifted(PIECE * LDB, QUARTER) : STEP * LDB;
  static constexpr int STAGE_A = SHIFT ? 4 * LANE_A : P::ROWS * LDA;
  static constexpr int STAGE_B = P::SAME ? 0 : SHIFT ? 4 * LANE_B : P::ROWS * LDB, STAGE = STAGE_A + STAGE_B;
  static constexpr int QUADS = P::ROWS / 4 / P::WARPS_K;  // K steps of four rows per warp and chunk
  static_assert(P::ROWS % (4 * P::WARPS_K) == 0 && QUADS % (P::KSTEP / 4) == 0, "rows per chunk");
  static_assert(SHIFT ? P::ROWS % 16 == 0 : QUADS % STEP == 0, "rows per chunk must cover the lanes' stride");

  static constexpr int SLOTS_M = ceil_div(ceil_div(R::WIDTH_M, 8), P::WARPS_M);  // per warp
  static constexpr int SLOTS_N = ceil_div(ceil_div(R::WIDTH_N, 8), P::WARPS_N);
  static constexpr int BLOCK_M = SLOTS_M * P::WARPS_M * 8, BLOCK_N = SLOTS_N * P::WARPS_N * 8, PITCH = BLOCK_N + 1;
  static constexpr bool ROTATE = P::SPREAD == Spread::rotate;
  using A = Slots<Word, SLOTS_M, ROTATE ? clashing_rows(LANE_A, sizeof(Word)) : 1>;
  using B = Slots<Word, SLOTS_N, ROTATE ? clashing_rows(LANE_B, sizeof(Word)) : 1>;
  // A single warp that holds all of A^H A leaves out the tiles below the diagonal, and reads A once.
  static constexpr bool MIRROR = P::SAME && P::WARPS_M == 1 && P::WARPS_N == 1 && P::FOLD == 1;
  using Tiles = Tiling<A, B, MIRROR>;

  using Chunks = Ring<P::GROUPS, P::WARPS_M * P::WARPS_N * P::WARPS_K, P::STAGES, STAGE * int(sizeof(Word)), P::FEED>;
  static constexpr int SLACK = BLOCK_M > BLOCK_N ? BLOCK_M : BLOCK_N;  // columns read past the last row
  // The teams' sums meet in as many tiles as the ring's memory holds.
  static constexpr int TEAMS = P::GROUPS * P::WARPS_K, TILE = BLOCK_M * PITCH;
  static constexpr int ROOM = P::SHARED_BYTES / (TILE * 8), MEETING = ROOM < TEAMS ? ROOM : TEAMS;
  static_assert(Chunks::BYTES + SLACK * int(sizeof(Word)) <= P::SHARED_BYTES && MEETING >= 1, "shared memory");

  // Row of the chunk that lane 0 of a quad reads in step q, relative to the warp's first, and that one.
  static MANSARD_HOST_DEVICE int row_of(int q) { return SHIFT ? q : q / STEP * 4 * STEP + q % STEP; }
  static MANSARD_HOST_DEVICE int first_row(int warp_k) { return warp_k * (SHIFT ? QUADS : 4 * QUADS); }
};

// The two matrices as a sequence of chunks.
template <class P, class Arguments>
struct Stream {
  using S = RingShape<P>;
  using Word = typename S::Word;
  const Word *A, *B;
  i64 K, chunks;  // chunks that lie wholly inside both matrices

  MANSARD_DEVICE explicit Stream(const Arguments& given)
      : A(reinterpret_cast<const Word*>(given.A)), B(reinterpret_cast<const Word*>(given.B)), K(given.K) {
    // the last row of a padded matrix may end with the array
    chunks = K == 0 ? 0 : (K - (S::PADDED ? 1 : 0)) / (static_cast<i64>(P::ROWS) * P::FOLD);
  }

  // One warp fetches a chunk.
  MANSARD_DEVICE void fill(unsigned char* stage, mbarrier* arrival, i64 chunk) const {
    const int lane = threadIdx.x % 32;
    if (lane == 0) mbarrier_arrive_expect(arrival, P::ROWS * (S::LDA + (P::SAME ? 0 : S::LDB)) * sizeof(Word));
    __syncwarp();
    Word* to = reinterpret_cast<Word*>(stage);
    if (lane < S::PIECES)
      fetch<S::LDA>(to + lane * S::LANE_A, A, chunk * S::PIECES + lane, arrival);
    else if (!P::SAME && lane < 2 * S::PIECES)
      fetch<S::LDB>(to + S::STAGE_A + (lane - S::PIECES) * S::LANE_B, B, chunk * S::PIECES + lane - S::PIECES, arrival);
    __syncwarp();
  }
  template <int LD>
  static MANSARD_DEVICE void fetch(Word* to, const Word* from, i64 piece, mbarrier* arrival) {
    bulk_load(to, from + piece * (S::PIECE * LD), S::PIECE * LD * sizeof(Word), arrival);
  }

  // The rows behind the last whole chunk, padded with zeros, by `threads` threads.
  MANSARD_DEVICE void fill_tail(Word* stage, int thread, int threads) const {
    fill_operand<S::LDA, S::LANE_A, S::M>(stage, A, thread, threads);
    if constexpr (!P::SAME) fill_operand<S::LDB, S::LANE_B, S::N>(stage + S::STAGE_A, B, thread, threads);
  }
  template <int LD, int LANE, int WIDTH>
  MANSARD_DEVICE void fill_operand(Word* to, const Word* from, int thread, int threads) const {
    const i64 first = chunks * P::ROWS, words_left = K * WIDTH - first * LD;
    for (int i = thread; i < P::ROWS * LD; i += threads) {
      const bool inside = P::FOLD > 1 ? i < words_left : first + i / LD < K && i % LD < WIDTH;
      const int at = S::SHIFT ? i / (S::PIECE * LD) * LANE + i % (S::PIECE * LD) : i;
      to[at] = inside ? from[first * LD + i] : Word(0);
    }
  }
};

// A warp: its place in the block, where its lanes read, and its sums.
template <class P>
struct Warp {
  using S = RingShape<P>;
  using Word = typename S::Word;
  using Tiles = typename S::Tiles;
  int group, member, warp_m, warp_n, warp_k, g, t, row_a, row_b;
  typename S::A a;
  typename S::B b;
  typename S::Partial sums[Tiles::COUNT][4] = {};

  MANSARD_DEVICE Warp()
      : g(threadIdx.x % 32 / 4), t(threadIdx.x % 4), a(S::LANE_A, g, t), b(S::LANE_B, g, t) {
    const int warp = threadIdx.x / 32;
    group = warp / S::Chunks::TEAM, member = warp % S::Chunks::TEAM;
    warp_k = member / (P::WARPS_M * P::WARPS_N), warp_m = member / P::WARPS_N % P::WARPS_M, warp_n = member % P::WARPS_N;
    row_a = S::first_row(warp_k) * S::LDA + warp_m * S::SLOTS_M * 8;
    row_b = (P::SAME ? 0 : S::STAGE_A) + S::first_row(warp_k) * S::LDB + warp_n * S::SLOTS_N * 8;
  }

  // The slots of step q of a chunk.
  MANSARD_DEVICE void load(const Word* stage, int q, Word (&slots_a)[S::SLOTS_M], Word (&slots_b)[S::SLOTS_N]) const {
    a.load(stage + row_a + S::row_of(q) * S::LDA, t, slots_a);
    if constexpr (S::MIRROR) {
      MANSARD_UNROLL
      for (int s = 0; s < S::SLOTS_N; ++s) slots_b[s] = slots_a[s];
    } else {
      b.load(stage + row_b + S::row_of(q) * S::LDB, t, slots_b);
    }
  }

  MANSARD_DEVICE void multiply(const unsigned char* bytes) {
    const Word* stage = reinterpret_cast<const Word*>(bytes);
    if constexpr (P::UNIT == Unit::tf32x3) multiply_tf32(stage);
    else multiply_float64(stage);
  }

  MANSARD_DEVICE void multiply_float64(const Word* stage) {
    constexpr int STEPS = P::KSTEP / 4;
    MANSARD_UNROLL
    for (int q = 0; q < S::QUADS; q += STEPS) {
      Word slots_a[STEPS][S::SLOTS_M], slots_b[STEPS][S::SLOTS_N];
      MANSARD_UNROLL
      for (int z = 0; z < STEPS; ++z) load(stage, q + z, slots_a[z], slots_b[z]);
      MANSARD_UNROLL
      for (int tile = 0; tile < Tiles::COUNT; ++tile) {
        if (!Tiles::needed(tile)) continue;
        double left[2 * STEPS], right[STEPS];
        MANSARD_UNROLL
        for (int z = 0; z < STEPS; ++z) {
          MANSARD_UNROLL
          for (int half = 0; half < 2; ++half) {
            const int slot = Tiles::left(tile, half);
            left[2 * z + half] = static_cast<double>(Tiles::upright(tile) ? slots_a[z][slot] : slots_b[z][slot]);
          }
          const int slot = Tiles::right(tile);
          right[z] = static_cast<double>(Tiles::upright(tile) ? slots_b[z][slot] : slots_a[z][slot]);
        }
        mma_steps<P::KSTEP>(sums[tile], left, right);
      }
    }
  }

  // On TF32 units x y = high high + high low + low high, smallest first. The units truncate, so their chains end with the
  // chunk, whose sums are added with rounding. A chunk with infinities or NaNs, which splitting does not survive, is done
  // again in double precision.
  MANSARD_DEVICE void multiply_tf32(const Word* stage) {
    float chunk[Tiles::COUNT][4] = {};
    MANSARD_UNROLL
    for (int q = 0; q < S::QUADS; q += 2) {
      u32 high_a[2][S::SLOTS_M], low_a[2][S::SLOTS_M], high_b[2][S::SLOTS_N], low_b[2][S::SLOTS_N];
      MANSARD_UNROLL
      for (int z = 0; z < 2; ++z) {
        Word slots_a[S::SLOTS_M], slots_b[S::SLOTS_N];
        load(stage, q + z, slots_a, slots_b);
        MANSARD_UNROLL
        for (int s = 0; s < S::SLOTS_M; ++s) split_tf32(slots_a[s], high_a[z][s], low_a[z][s]);
        MANSARD_UNROLL
        for (int s = 0; s < S::SLOTS_N; ++s) split_tf32(slots_b[s], high_b[z][s], low_b[z][s]);
      }
      multiply_halves(chunk, low_a, high_b);  // tile by tile inside, so that no instruction waits for the one before it
      multiply_halves(chunk, high_a, low_b);
      multiply_halves(chunk, high_a, high_b);
    }
    float all = 0.0f;
    MANSARD_UNROLL
    for (int i = 0; i < 4 * Tiles::COUNT; ++i) all += chunk[i / 4][i % 4];
    if (__any_sync(~0u, !(fabsf(all) <= 3.0e38f))) {
      redo<0>(stage);
    } else {
      MANSARD_UNROLL
      for (int i = 0; i < 4 * Tiles::COUNT; ++i) sums[i / 4][i % 4] += chunk[i / 4][i % 4];
    }
  }
  static MANSARD_DEVICE void multiply_halves(float (&chunk)[Tiles::COUNT][4], const u32 (&a)[2][S::SLOTS_M],
                                             const u32 (&b)[2][S::SLOTS_N]) {
    MANSARD_UNROLL
    for (int tile = 0; tile < Tiles::COUNT; ++tile) {
      if (!Tiles::needed(tile)) continue;
      u32 left[4], right[2];
      MANSARD_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int slot = Tiles::left(tile, i % 2);
        left[i] = Tiles::upright(tile) ? a[i / 2][slot] : b[i / 2][slot];
      }
      MANSARD_UNROLL
      for (int z = 0; z < 2; ++z) right[z] = Tiles::upright(tile) ? b[z][Tiles::right(tile)] : a[z][Tiles::right(tile)];
      mma_tf32_m16n8k8(chunk[tile], left, right);
    }
  }

  // A chunk in double precision, tile by tile with few registers, added to float sums.
  template <int TILE>
  MANSARD_DEVICE void redo(const Word* stage) {
    if constexpr (TILE < Tiles::COUNT) {
      const auto word = [&](bool of_a, int slot, int q) -> double {
        return of_a ? a.load_one(stage + row_a + S::row_of(q) * S::LDA, slot, g)
                    : b.load_one(stage + row_b + S::row_of(q) * S::LDB, slot, g);
      };
      double tile[4] = {};
MANSARD_UNROLL_BY(1)
      for (int q = 0; q < S::QUADS; ++q)
        mma_m16n8k4(tile, word(Tiles::upright(TILE), Tiles::left(TILE, 0), q),
                    word(Tiles::upright(TILE), Tiles::left(TILE, 1), q), word(!Tiles::upright(TILE), Tiles::right(TILE), q));
      MANSARD_UNROLL
      for (int e = 0; e < 4; ++e) sums[TILE][e] += static_cast<float>(tile[e]);
      redo<TILE + 1>(stage);
    }
  }

  // Writes the warp's sums to its part of a tile in shared memory, or adds them to what is there.
  MANSARD_DEVICE void add_to(double* tile, bool add) const {
    double* origin = tile + warp_m * S::SLOTS_M * 8 * S::PITCH + warp_n * S::SLOTS_N * 8;
    MANSARD_UNROLL
    for (int n = 0; n < Tiles::COUNT; ++n)
      MANSARD_UNROLL
      for (int e = 0; e < 4; ++e) {
        if (e / 2 == 1 && Tiles::doubled(n)) continue;
        const int left = Tiles::left(n, e / 2), right = Tiles::right(n), column = 2 * t + e % 2;
        const int row = Tiles::upright(n) ? S::A::column(left, g) : S::A::column(right, column);
        double* entry = origin + row * S::PITCH + (Tiles::upright(n) ? S::B::column(right, column) : S::B::column(left, g));
        const double sum = static_cast<double>(sums[n][e]);
        *entry = add ? *entry + sum : sum;
      }
  }
};

// Bytes that no copy fills are read, and TF32 products look at them: they must not look like a NaN.
template <class P>
MANSARD_DEVICE void clear(unsigned char* arena) {
  float4* at = reinterpret_cast<float4*>(arena);
  for (int i = threadIdx.x; i < P::SHARED_BYTES / int(sizeof(float4)); i += RingShape<P>::Chunks::THREADS)
    at[i] = make_float4(0, 0, 0, 0);
  fence_async_shared();
  __syncthreads();
}

template <class P, class Arguments>
MANSARD_DEVICE void gram_ring(const Arguments& arguments) {
  using S = RingShape<P>;
  using Chunks = typename S::Chunks;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  if constexpr (P::UNIT == Unit::tf32x3) clear<P>(arena);
  const Stream<P, Arguments> stream(arguments);
  const Chunks chunks{arena, stream.chunks};
  chunks.initialise();

  Warp<P> warp;
  const auto fill = [&](unsigned char* stage, mbarrier* arrival, i64 chunk) { stream.fill(stage, arrival, chunk); };
  if (warp.group == P::GROUPS) {
    chunks.produce(fill);
  } else {
    const auto multiply = [&](const unsigned char* stage) { warp.multiply(stage); };
    const i64 end = chunks.consume(warp.group, warp.member == 0, fill, multiply);
    if (end == stream.chunks && end * P::ROWS * P::FOLD < arguments.K) {  // one team meets the remaining rows
      unsigned char* stage = chunks.stage_of(warp.group, 0);
      const int team = Chunks::TEAM * 32;
      Chunks::meet(warp.group);
      stream.fill_tail(reinterpret_cast<typename S::Word*>(stage), threadIdx.x - warp.group * team, team);
      Chunks::meet(warp.group);
      multiply(stage);
    }
  }

  __syncthreads();
  double* tiles = reinterpret_cast<double*>(arena);
  const int team = warp.group * P::WARPS_K + warp.warp_k;
MANSARD_UNROLL_BY(1)
  for (int first = 0; first < S::TEAMS; first += S::MEETING) {
    if (team >= first && team < first + S::MEETING) warp.add_to(tiles + (team - first) * S::TILE, first > 0);
    __syncthreads();
  }
  const auto value = [&](int entry) {
    return mirrored<P, S::MIRROR>(entry / P::N, entry % P::N, [&](int m, int n) {
      return entry_of_tiles<P, S::MEETING, S::BLOCK_M, S::PITCH>(tiles, m, n);
    });
  };
  const auto store = [&](int entry, typename S::Sum sum) { store_entry<P>(arguments, entry / P::N, entry % P::N, sum); };
  auto* scratch = reinterpret_cast<typename S::Sum*>(arena);  // the tiles are read out before it is used
  reduce_over_blocks<P::REDUCE, typename S::Sum, P::M * P::N, Chunks::THREADS>(
      arguments.partials, arguments.counters, 0, gridDim.x, scratch, value, store);
}

}  // namespace mansard
