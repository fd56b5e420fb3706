// C = A^H B on tensor cores, fed by rings of bulk copies: the kernel for every width, odd ones too.
//
// Chunks of rows arrive in shared memory (chunk.cuh, mansard/gpu/ring.cuh), warps read them as fragments (slots.cuh) and
// keep their part of C in registers. Columns past the width are read (they belong to the next row) and their products
// are never looked at, so the loop has no predicates.
//
//   WARPS_M x WARPS_N     warps side by side over C; WARPS_K of these share the rows of a chunk
//   GROUPS, STAGES, FEED  see mansard/gpu/ring.cuh
//   ROWS, SPREAD, FOLD    see chunk.cuh
//   KSTEP                 rows per tensor-core instruction: 4, 8 or 16
//   UNIT                  float64: float32 data is widened and summed without error. tf32x3: each float32 number is two
//                         TF32 numbers and a product three instructions, at several times the rate
//   TRIANGLE              of A^H A, WARPS_M warps share one half (`Turn` in slots.cuh). A single warp needs no such help
#pragma once
#include "kernels/tall_skinny/gram/chunk.cuh"
#include "kernels/tall_skinny/gram/halves.cuh"
#include "kernels/tall_skinny/gram/slots.cuh"
#include "mansard/gpu/ring.cuh"

namespace mansard {

enum class Unit { float64, tf32x3 };

template <Unit UNIT>
struct SumOf {
  using Type = double;
};
template <>
struct SumOf<Unit::tf32x3> {
  using Type = float;
};

template <bool YES, class A, class B>
struct Choose {
  using Type = A;
};
template <class A, class B>
struct Choose<false, A, B> {
  using Type = B;
};

template <class P>
struct RingShape : ChunkShape<P> {
  using C = ChunkShape<P>;
  using Word = typename C::Word;
  using Partial = typename SumOf<P::UNIT>::Type;
  using Chunks =
      Ring<P::GROUPS, P::WARPS_M * P::WARPS_N * P::WARPS_K, P::STAGES, C::STAGE * int(sizeof(Word)), P::FEED>;

  static constexpr int ALL_M = ceil_div(C::WIDTH_M, 8), ALL_N = ceil_div(C::WIDTH_N, 8);  // slots
  static constexpr int PAIRS = ceil_div(ALL_M, 2);
  static constexpr int SLOTS_M = P::TRIANGLE ? 2 * PAIRS : ceil_div(ALL_M, P::WARPS_M);  // of a warp
  static constexpr int SLOTS_N = P::TRIANGLE ? 2 * PAIRS : ceil_div(ALL_N, P::WARPS_N);
  static constexpr int BLOCK_M = SLOTS_M * 8 * (P::TRIANGLE ? 1 : P::WARPS_M);
  static constexpr int BLOCK_N = SLOTS_N * 8 * (P::TRIANGLE ? 1 : P::WARPS_N), PITCH = BLOCK_N + 1;
  // A single warp that holds all of A^H A leaves out the tiles below the diagonal.
  static constexpr bool ALONE = P::SAME && P::WARPS_M == 1 && P::WARPS_N == 1 && P::FOLD == 1 && !P::TRIANGLE;
  static constexpr bool SHARED = ALONE || P::TRIANGLE;  // A's slots are B's too
  static constexpr bool ROTATE = P::SPREAD == Spread::rotate;
  using SlotsA = Slots<Word, SLOTS_M, ROTATE ? clashing_rows(C::LANE_A, sizeof(Word)) : 1>;
  using SlotsB = Slots<Word, SLOTS_N, ROTATE ? clashing_rows(C::LANE_B, sizeof(Word)) : 1>;
  using A = typename Choose<P::TRIANGLE, TurnedSlots<Word, PAIRS>, SlotsA>::Type;
  using B = typename Choose<P::TRIANGLE, TurnedSlots<Word, PAIRS>, SlotsB>::Type;
  using Tiles = typename Choose<P::TRIANGLE, Turn<PAIRS, P::WARPS_M>, Tiling<SlotsA, SlotsB, ALONE>>::Type;
  static_assert(!P::TRIANGLE || (P::SAME && P::WARPS_N == 1 && P::FOLD == 1), "a triangle is one of A^H A");

  static constexpr int SLACK = BLOCK_M > BLOCK_N ? BLOCK_M : BLOCK_N;  // columns read past the last row
  // The teams' sums meet in as many tiles as the ring's memory holds.
  static constexpr int TEAMS = P::GROUPS * P::WARPS_K, TILE = BLOCK_M * PITCH;
  static constexpr int ROOM = P::SHARED_BYTES / (TILE * 8), MEETING = ROOM < TEAMS ? ROOM : TEAMS;
  static_assert(Chunks::BYTES + SLACK * int(sizeof(Word)) <= P::SHARED_BYTES && MEETING >= 1, "shared memory");

  // Whether entry (m, n) of A^H A was computed; otherwise (n, m) was.
  static MANSARD_DEVICE bool computed(int m, int n) {
    if constexpr (P::TRIANGLE) {
      const int p = m * C::WORDS / 16, q = n * C::WORDS / 16;
      return p == q ? m <= n : Tiles::computed(p, q);
    }
    return !ALONE || m <= n;
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
  Chain<Tiles::COUNT, P::UNIT == Unit::tf32x3 ? P::ROWS / P::WARPS_K : 0> chain;

  MANSARD_DEVICE Warp()
      : group(threadIdx.x / 32 / S::Chunks::TEAM), member(threadIdx.x / 32 % S::Chunks::TEAM),
        warp_m(member / P::WARPS_N % P::WARPS_M), warp_n(member % P::WARPS_N),
        warp_k(member / (P::WARPS_M * P::WARPS_N)), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4),
        a(S::LANE_A, g, t, warp_m), b(S::LANE_B, g, t, warp_m) {
    row_a = S::first_row(warp_k) * S::LDA + (P::TRIANGLE ? 0 : warp_m * S::SLOTS_M * 8);
    row_b = (P::SAME ? 0 : S::STAGE_A) + S::first_row(warp_k) * S::LDB + warp_n * S::SLOTS_N * 8;
  }

  // The slots of step q of a chunk.
  MANSARD_DEVICE void load(const Word* stage, int q, Word (&slots_a)[S::SLOTS_M], Word (&slots_b)[S::SLOTS_N]) const {
    a.load(stage + row_a + S::row_of(q) * S::LDA, t, slots_a);
    if constexpr (S::SHARED) {
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

  // Chains of sums are short, and are added with rounding (halves.cuh).
  MANSARD_DEVICE void multiply_tf32(const Word* stage) {
    MANSARD_UNROLL
    for (int q = 0; q < S::QUADS; q += 2) {
      Word slots_a[2][S::SLOTS_M], slots_b[2][S::SLOTS_N];
      MANSARD_UNROLL
      for (int z = 0; z < 2; ++z) load(stage, q + z, slots_a[z], slots_b[z]);
      multiply_thrice<Tiles>(chain.sums, slots_a, slots_b, 0);
    }
    if (chain.is_long()) chain.end(sums);
  }
  // Whether infinities or NaNs went into the sums.
  MANSARD_DEVICE bool spoilt() {
    chain.end(sums);
    return !(watched<Tiles>(sums) <= 3.0e38f);
  }
  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int i = 0; i < 4 * Tiles::COUNT; ++i) sums[i / 4][i % 4] = 0;
  }

  MANSARD_DEVICE void redo(const unsigned char* bytes) { redo<0>(reinterpret_cast<const Word*>(bytes)); }
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
    double* origin = tile;
    if constexpr (!P::TRIANGLE) origin += warp_m * S::SLOTS_M * 8 * S::PITCH + warp_n * S::SLOTS_N * 8;
    MANSARD_UNROLL
    for (int n = 0; n < Tiles::COUNT; ++n)
      MANSARD_UNROLL
      for (int e = 0; e < 4; ++e) {
        if (e / 2 == 1 && Tiles::doubled(n)) continue;
        const int left = Tiles::left(n, e / 2), right = Tiles::right(n), column = 2 * t + e % 2;
        const int row = Tiles::upright(n) ? a.column(left, g) : a.column(right, column);
        double* entry = origin + row * S::PITCH + (Tiles::upright(n) ? b.column(right, column) : b.column(left, g));
        const double sum = static_cast<double>(sums[n][e]);
        *entry = add ? *entry + sum : sum;
      }
  }
};

// Bytes that no copy fills are read, and TF32 products look at them: they must not look like a NaN.
template <int BYTES, int THREADS>
MANSARD_DEVICE void clear(unsigned char* arena) {
  float4* at = reinterpret_cast<float4*>(arena);
  for (int i = threadIdx.x; i < BYTES / int(sizeof(float4)); i += THREADS)
    at[i] = make_float4(0, 0, 0, 0);
  fence_async_shared();  // zeros come before the bulk copies that overwrite them
  __syncthreads();       // arena is cleared by all threads
}

// A team reads a chunk without the ring.
template <class S, class Chunks, class Rows, class Use>
MANSARD_DEVICE void by_hand(const Chunks& chunks, const Rows& rows, int group, i64 chunk, Use use) {
  constexpr int TEAM = Chunks::TEAM * 32;
  unsigned char* stage = chunks.stage_of(group, 0);
  Chunks::meet(group);  // stage 0 is about to be overwritten; all warps of the team have read it
  rows.read(reinterpret_cast<typename S::Word*>(stage), chunk, threadIdx.x - group * TEAM, TEAM);
  Chunks::meet(group);  // stage 0 holds the chunk, written by all threads of the team
  use(stage);
}

// Splitting does not survive infinities and NaNs: a warp that has seen one does all its chunks again, in double
// precision, and its team reads them for it.
template <class S, class Chunks, class Rows, class Warp>
MANSARD_DEVICE void do_again(const Chunks& chunks, const Rows& rows, Warp& warp) {
  Chunks::meet(warp.group);  // stage 0 is about to be overwritten by the flag; all warps of the team have read it
  int* spoilt = reinterpret_cast<int*>(chunks.stage_of(warp.group, 0));
  if (warp.member == 0 && threadIdx.x % 32 == 0) *spoilt = 0;
  Chunks::meet(warp.group);  // the flag is cleared before any warp sets it
  if (warp.spoilt()) *spoilt = 1;
  Chunks::meet(warp.group);  // the flag has the answers of all warps of the team
  if (*spoilt == 0) return;
  warp.clear();
  const i64 stride = static_cast<i64>(gridDim.x) * Chunks::GROUPS;
MANSARD_UNROLL_BY(1)
  for (i64 chunk = static_cast<i64>(warp.group) * gridDim.x + blockIdx.x; chunk < rows.all_chunks(); chunk += stride)
    by_hand<S>(chunks, rows, warp.group, chunk, [&](const unsigned char* stage) { warp.redo(stage); });
}

template <class P, class Arguments>
MANSARD_DEVICE void gram_ring(const Arguments& arguments) {
  using S = RingShape<P>;
  using Chunks = typename S::Chunks;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  if constexpr (P::UNIT == Unit::tf32x3) clear<P::SHARED_BYTES, Chunks::THREADS>(arena);
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
    if (end == stream.chunks && end * P::ROWS * P::FOLD < arguments.K)  // one team meets the remaining rows
      by_hand<S>(chunks, stream, warp.group, end, multiply);
    if constexpr (P::UNIT == Unit::tf32x3) do_again<S>(chunks, stream, warp);
  }

  chunks.retire();
  double* tiles = reinterpret_cast<double*>(arena);
  const int team = warp.group * P::WARPS_K + warp.warp_k;
MANSARD_UNROLL_BY(1)
  for (int first = 0; first < S::TEAMS; first += S::MEETING) {
    if (team >= first && team < first + S::MEETING) warp.add_to(tiles + (team - first) * S::TILE, first > 0);
    __syncthreads();  // tiles of these teams are complete, before the next teams add to them or they are read
  }
  const auto value = [&](int entry) {
    const int m = entry / P::N, n = entry % P::N;
    return mirrored<P>(S::computed(m, n), m, n, [&](int i, int j) {
      return entry_of_tiles<P, S::MEETING, S::BLOCK_M, S::PITCH>(tiles, i, j);
    });
  };
  const auto store = [&](int entry, typename S::Sum sum) { store_entry<P>(arguments, entry / P::N, entry % P::N, sum); };
  auto* scratch = reinterpret_cast<typename S::Sum*>(arena);  // the tiles are read out before it is used
  reduce_over_blocks<P::REDUCE, typename S::Sum, P::M * P::N, Chunks::THREADS>(
      arguments.partials, arguments.counters, 0, gridDim.x, scratch, value, store);
}

}  // namespace mansard
