// C = A^H B on tensor cores for column-major A and B, fed by rings of bulk copies.
//
// Chunks of rows arrive column by column (columns.cuh, mansard/gpu/ring.cuh), warps read them as fragments and keep their
// part of C in registers; the tiles of sums are those of kernel_ring.cuh.
//
//   WARPS_M x WARPS_N     warps side by side over C; WARPS_K of these share the rows of a chunk
//   GROUPS, STAGES, FEED  see mansard/gpu/ring.cuh
//   ROWS, SPREAD, FOLD    see columns.cuh
//   KSTEP                 rows per tensor-core instruction: 4, 8 or 16
//   UNIT, TRIANGLE        see kernel_ring.cuh
#pragma once
#include "kernels/tall_skinny/gram/columns.cuh"
#include "kernels/tall_skinny/gram/halves.cuh"

namespace mansard {

template <class P>
struct ColumnsRing : ColumnsShape<P> {
  using C = ColumnsShape<P>;
  using Partial = typename SumOf<P::UNIT>::Type;
  using Chunks = Ring<P::GROUPS, P::WARPS_M * P::WARPS_N * P::WARPS_K, P::STAGES, C::STAGE, P::FEED>;
  using A = Columns<P, P::M, P::WARPS_M, C::PITCH_A>;
  using B = Columns<P, P::N, P::WARPS_N, P::SAME ? C::PITCH_A : C::PITCH_B>;

  static constexpr int SLOTS_M = A::COUNT, SLOTS_N = B::COUNT;
  static constexpr int BLOCK_M = SLOTS_M * 8 * (P::TRIANGLE ? 1 : P::WARPS_M);
  static constexpr int BLOCK_N = SLOTS_N * 8 * (P::TRIANGLE ? 1 : P::WARPS_N), PITCH = BLOCK_N + 1;
  // A single warp that holds all of A^H A reads it once, and leaves out the tiles below the diagonal.
  static constexpr bool WHOLE = P::SAME && P::WARPS_M == 1 && P::WARPS_N == 1 && !P::TRIANGLE;
  static constexpr bool HALF = WHOLE && P::FOLD == 1, SHARED = WHOLE || P::TRIANGLE;
  using Tiles = typename Choose<P::TRIANGLE, Turn<A::PAIRS, P::WARPS_M>, Tiling<A, B, HALF>>::Type;
  static_assert(!P::TRIANGLE || (P::SAME && P::WARPS_N == 1 && P::FOLD == 1), "a triangle is one of A^H A");

  // Lines of the unrolled loop: as few as possible where registers are scarce, else 64 rows at most, which is also the
  // length of a chain of truncating TF32 sums.
  static constexpr int OCTETS = A::OCTETS + (SHARED ? 0 : B::OCTETS);
  static constexpr bool TIGHT = P::UNIT == Unit::float64 && 8 * Tiles::COUNT + 4 * C::UNITS * OCTETS > 64;
  static constexpr int SEGMENT = TIGHT ? ceil_div(C::UNITS, 2) : gcd(C::LINES, 8 / C::HEIGHT);

  // The teams' sums meet in as many tiles as the ring's memory holds.
  static constexpr int TEAMS = P::GROUPS * P::WARPS_K, TILE = BLOCK_M * PITCH;
  static constexpr int ROOM = P::SHARED_BYTES / (TILE * 8), MEETING = ROOM < TEAMS ? ROOM : TEAMS;
  static_assert(Chunks::BYTES <= P::SHARED_BYTES && MEETING >= 1, "shared memory");

  // Whether entry (m, n) of A^H A was computed; otherwise (n, m) was.
  static MANSARD_DEVICE bool computed(int m, int n) {
    if constexpr (P::TRIANGLE) {
      const int p = m * C::WORDS / 16, q = n * C::WORDS / 16;
      return p == q ? m <= n : Tiles::computed(p, q);
    }
    return !HALF || m <= n;
  }
};

// A warp: its place in the block, where its lanes read, and its sums.
template <class P>
struct ColumnsWarp {
  using S = ColumnsRing<P>;
  using Word = typename S::Word;
  using Tiles = typename S::Tiles;
  static constexpr int READ = S::UNITS * S::HEIGHT;  // steps of four rows that are read at once
  int group, member, warp_m, warp_n, warp_k, g, t;
  typename S::A a;
  typename S::B b;
  typename S::Partial sums[Tiles::COUNT][4] = {};

  template <class Stream>
  MANSARD_DEVICE explicit ColumnsWarp(const Stream& stream)
      : group(threadIdx.x / 32 / S::Chunks::TEAM), member(threadIdx.x / 32 % S::Chunks::TEAM),
        warp_m(member / P::WARPS_N % P::WARPS_M), warp_n(member % P::WARPS_N),
        warp_k(member / (P::WARPS_M * P::WARPS_N)), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4),
        a(stream.A, stream.pitch_a, g, t, warp_m),
        b(P::SAME ? stream.A : stream.B, P::SAME ? stream.pitch_a : stream.pitch_b, g, t,
          P::TRIANGLE ? warp_m : warp_n) {}

  MANSARD_DEVICE void multiply(const unsigned char* stage) {
    const unsigned char* lines = stage + warp_k * (S::LINES * S::LINE);
MANSARD_UNROLL_BY(1)
    for (int line = 0; line < S::LINES; line += S::SEGMENT, lines += S::SEGMENT * S::LINE) {
      if constexpr (P::UNIT == Unit::tf32x3) multiply_tf32(lines);
      else multiply_float64(lines);
    }
  }

  // The slots of READ steps from unit n on.
  MANSARD_DEVICE void load(const unsigned char* lines, int n, Word (&slots_a)[READ][S::SLOTS_M],
                           Word (&slots_b)[READ][S::SLOTS_N]) const {
    a.load(lines, n, slots_a);
    if constexpr (S::SHARED) {
      MANSARD_UNROLL
      for (int z = 0; z < READ; ++z)
        MANSARD_UNROLL
        for (int s = 0; s < S::SLOTS_N; ++s) slots_b[z][s] = slots_a[z][s];
    } else {
      b.load(lines + (P::SAME ? 0 : S::STAGE_A), n, slots_b);
    }
  }

  MANSARD_DEVICE void multiply_float64(const unsigned char* lines) {
    MANSARD_UNROLL
    for (int n = 0; n < 2 * S::SEGMENT; n += S::UNITS) {
      Word slots_a[READ][S::SLOTS_M], slots_b[READ][S::SLOTS_N];
      load(lines, n, slots_a, slots_b);
      MANSARD_UNROLL
      for (int first = 0; first < READ; first += P::KSTEP / 4)
        MANSARD_UNROLL
        for (int tile = 0; tile < Tiles::COUNT; ++tile)
          if (Tiles::needed(tile)) multiply_tile(tile, first, slots_a, slots_b);
    }
  }
  MANSARD_DEVICE void multiply_tile(int tile, int first, const Word (&slots_a)[READ][S::SLOTS_M],
                                    const Word (&slots_b)[READ][S::SLOTS_N]) {
    double left[P::KSTEP / 2], right[P::KSTEP / 4];
    MANSARD_UNROLL
    for (int z = 0; z < P::KSTEP / 4; ++z) {
      const Word *of_a = slots_a[first + z], *of_b = slots_b[first + z];
      MANSARD_UNROLL
      for (int half = 0; half < 2; ++half)
        left[2 * z + half] = static_cast<double>((Tiles::upright(tile) ? of_a : of_b)[Tiles::left(tile, half)]);
      right[z] = static_cast<double>((Tiles::upright(tile) ? of_b : of_a)[Tiles::right(tile)]);
    }
    mma_steps<P::KSTEP>(sums[tile], left, right);
  }

  // As in kernel_ring.cuh: three products of halves, chains that end with the segment, and the segment once more in
  // double precision if it has infinities or NaNs.
  MANSARD_DEVICE void multiply_tf32(const unsigned char* lines) {
    float chain[Tiles::COUNT][4] = {};
    MANSARD_UNROLL
    for (int n = 0; n < 2 * S::SEGMENT; n += S::UNITS) {
      Word slots_a[READ][S::SLOTS_M], slots_b[READ][S::SLOTS_N];
      load(lines, n, slots_a, slots_b);
      MANSARD_UNROLL
      for (int first = 0; first < READ; first += 2) multiply_thrice<Tiles>(chain, slots_a, slots_b, first);
    }
    if (__any_sync(~0u, !(watched<Tiles>(chain) <= 3.0e38f))) {
      redo<0>(lines);
    } else {
      MANSARD_UNROLL
      for (int i = 0; i < 4 * Tiles::COUNT; ++i) sums[i / 4][i % 4] += chain[i / 4][i % 4];
    }
  }

  // A segment in double precision, tile by tile with few registers, added to float sums.
  template <int TILE>
  MANSARD_DEVICE void redo(const unsigned char* lines) {
    if constexpr (TILE < Tiles::COUNT) {
      const auto word = [&](bool of_a, int slot, int q) -> double {
        return of_a ? a.load_one(lines, slot, q) : b.load_one(lines + (P::SAME ? 0 : S::STAGE_A), slot, q);
      };
      constexpr bool UPRIGHT = Tiles::upright(TILE);
      double tile[4] = {};
MANSARD_UNROLL_BY(1)
      for (int q = 0; q < 2 * S::SEGMENT * S::HEIGHT; ++q)
        mma_m16n8k4(tile, word(UPRIGHT, Tiles::left(TILE, 0), q), word(UPRIGHT, Tiles::left(TILE, 1), q),
                    word(!UPRIGHT, Tiles::right(TILE), q));
      MANSARD_UNROLL
      for (int e = 0; e < 4; ++e) sums[TILE][e] += static_cast<float>(tile[e]);
      redo<TILE + 1>(lines);
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
        const int row = Tiles::upright(n) ? a.place(left, g) : a.place(right, column);
        double* entry = origin + row * S::PITCH + (Tiles::upright(n) ? a.place(right, column) : a.place(left, g));
        const double sum = static_cast<double>(sums[n][e]);
        *entry = add ? *entry + sum : sum;
      }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void gram_columns(const Arguments& arguments) {
  using S = ColumnsRing<P>;
  using Chunks = typename S::Chunks;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const ColumnStream<P, Arguments> stream(arguments);
  const Chunks chunks{arena, stream.chunks};
  chunks.initialise();

  ColumnsWarp<P> warp(stream);
  const auto fill = [&](unsigned char* stage, mbarrier* arrival, i64 chunk) { stream.fill(stage, arrival, chunk); };
  if (warp.group == P::GROUPS) {
    chunks.produce(fill);
  } else {
    const auto multiply = [&](const unsigned char* stage) { warp.multiply(stage); };
    const i64 end = chunks.consume(warp.group, warp.member == 0, fill, multiply);
    if (end == stream.chunks && end * P::ROWS < arguments.K) {  // one team meets the remaining rows
      unsigned char* stage = chunks.stage_of(warp.group, 0);
      const int team = Chunks::TEAM * 32;
      Chunks::meet(warp.group);  // stage 0 is about to be overwritten by the tail; all warps of the team have read it
      stream.fill_tail(stage, threadIdx.x - warp.group * team, team);
      Chunks::meet(warp.group);  // stage 0 holds the tail, written by all threads of the team
      multiply(stage);
    }
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
  const auto store = [&](int entry, typename S::Sum sum) {
    store_entry<P>(arguments, entry / P::N, entry % P::N, sum);
  };
  auto* scratch = reinterpret_cast<typename S::Sum*>(arena);  // the tiles are read out before it is used
  reduce_over_blocks<P::REDUCE, typename S::Sum, P::M * P::N, Chunks::THREADS>(
      arguments.partials, arguments.counters, 0, gridDim.x, scratch, value, store);
}

}  // namespace mansard
