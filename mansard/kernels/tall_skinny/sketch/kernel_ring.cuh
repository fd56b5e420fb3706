// Y = S A / 4 and G = A^H A in one pass over a tall row-major A, on tensor cores; S is the sign matrix of signs.hpp.
//
// A block's eight warps are the eight groups of Y. Chunks of ROWS rows arrive by bulk copies (mansard/gpu/ring.cuh). In a
// step, a warp takes its row of each of eight octets as a fragment of 8 x 8 SLOTS (gram's slots.cuh): lane (g, t) has
// columns g of rows t and t + 4. The fragment is both operands of G, and the right one of Y, whose left operand are 16
// signs per row, made from a hash of the row's number. So Y costs no reads of shared memory.
//
// Together the warps see every row once: their sums of G meet at the end, those of Y are different rows.
//
// Shared memory, while chunks arrive: mbarriers, STAGES chunks, SLACK words that are read past the last row. Afterwards:
// the block's Y (128 rows of Y_PITCH), its G (SIDE rows of PITCH).
//
// Limit: the read bandwidth. Tensor cores form (SLOTS^2 / 2 + 2 SLOTS) tiles of 8 x 8 per step: 70 % of what they can
// at 32 columns, 80 % at 48 (computed for an H200).
//
//   ROWS, STAGES  rows per chunk, in steps of 64; chunks in shared memory
//   REDUCE        how the blocks' sums are added: mansard/gpu/reduce.cuh
#pragma once
#include "kernels/tall_skinny/gram/real_tile.cuh"
#include "kernels/tall_skinny/gram/slots.cuh"
#include "kernels/tall_skinny/sketch/signs.hpp"
#include "mansard/gpu/reduce.cuh"
#include "mansard/gpu/ring.cuh"

namespace mansard {

template <class P>
struct SketchShape : RealShape<P> {
  using S = RealShape<P>;
  using Word = typename S::Word;
  static constexpr int WARPS = SKETCH_GROUPS, SIGNS = 16, STEP_ROWS = 8 * SKETCH_GROUPS, STEPS = P::ROWS / STEP_ROWS;
  static constexpr int LDA = P::PITCH_A * S::WORDS, SLOTS = ceil_div(S::WIDTH_N, 8);
  // Rows that all begin in the same bank are read two slots at a time: half the conflicts, and no more tiles of G.
  using Columns = Slots<Word, SLOTS, LDA * int(sizeof(Word)) % 128 == 0 ? 2 : 1>;
  using Tiles = Tiling<Columns, Columns, true>;
  using Chunks = Ring<1, WARPS, P::STAGES, P::ROWS * LDA * int(sizeof(Word)), Feed::own>;
  static constexpr int SIDE = 8 * SLOTS, PITCH = SIDE + 1, Y_ROWS = WARPS * SIGNS, Y_PITCH = SIDE + 1;
  static constexpr int ENTRIES = P::N * P::N + Y_ROWS * P::N;  // of G, then of Y
  static_assert(P::ROWS % STEP_ROWS == 0 && Chunks::BYTES + SIDE * int(sizeof(Word)) <= P::SHARED_BYTES, "stages");
  static_assert((Y_ROWS * Y_PITCH + SIDE * PITCH) * 8 <= P::SHARED_BYTES, "sums");
};

// Chunks of A.
template <class P, class Arguments>
struct SketchStream {
  using S = SketchShape<P>;
  using Word = typename S::Word;
  const Word* A;
  i64 K, chunks;  // chunks that lie completely inside A

  MANSARD_DEVICE explicit SketchStream(const Arguments& given)
      // the padding of the last row may lie beyond the end of the array
      : A(reinterpret_cast<const Word*>(given.A)), K(given.K), chunks((K - (P::PITCH_A != P::N ? 1 : 0)) / P::ROWS) {}

  MANSARD_DEVICE void fill(unsigned char* stage, mbarrier* arrival, i64 chunk) const {
    constexpr int BYTES = P::ROWS * S::LDA * int(sizeof(Word));
    if (threadIdx.x % 32 == 0) {
      mbarrier_arrive_expect(arrival, BYTES);
      bulk_load(stage, A + chunk * (P::ROWS * S::LDA), BYTES, arrival);
    }
    __syncwarp();  // no buffer: the warp reconverges after the lane that starts the copy
  }
  // Copy the rows behind the last full chunk, padded with zeros.
  MANSARD_DEVICE void fill_tail(Word* stage) const {
    const i64 first = chunks * P::ROWS;
    for (int i = threadIdx.x; i < P::ROWS * S::LDA; i += S::Chunks::THREADS) {
      const bool inside = first + i / S::LDA < K && i % S::LDA < S::WIDTH_N;
      stage[i] = inside ? A[first * S::LDA + i] : Word(0);
    }
  }
};

// A warp: its group of Y, where its lanes read, and its sums.
template <class P>
struct SketchWarp {
  using S = SketchShape<P>;
  using Word = typename S::Word;
  using Tiles = typename S::Tiles;
  int group, g, t;
  SignKeys keys;
  typename S::Columns columns;
  double products[Tiles::COUNT][4] = {};  // of G
  double sums[S::SLOTS][4] = {};          // of 16 rows of Y

  MANSARD_DEVICE explicit SketchWarp(i64 seed)
      : group(threadIdx.x / 32), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4), keys(seed), columns(0, g, t, 0) {}

  MANSARD_DEVICE void add_chunk(const unsigned char* bytes, i64 chunk) {
    const Word* stage = reinterpret_cast<const Word*>(bytes);
MANSARD_UNROLL_BY(1)
    for (int step = 0; step < S::STEPS; ++step) {
      Word slots[2][S::SLOTS];
      double signs[4];
      MANSARD_UNROLL
      for (int z = 0; z < 2; ++z) {
        const int octet = step * 8 + 4 * z + t;
        const int row = octet * 8 + (group ^ keys.turn(chunk * (P::ROWS / 8) + octet));
        const u32 bits = keys.word(chunk * P::ROWS + row, 0);
        columns.load(stage + row * S::LDA, t, slots[z]);
        signs[2 * z] = bits >> g & 1 ? -1.0 : 1.0;
        signs[2 * z + 1] = bits >> (g + 8) & 1 ? -1.0 : 1.0;
      }
      add_products(slots);
      MANSARD_UNROLL
      for (int s = 0; s < S::SLOTS; ++s)
        mma_m16n8k8(sums[s], signs, {static_cast<double>(slots[0][s]), static_cast<double>(slots[1][s])});
    }
  }
  MANSARD_DEVICE void add_products(const Word (&slots)[2][S::SLOTS]) {
    MANSARD_UNROLL
    for (int tile = 0; tile < Tiles::COUNT; ++tile) {
      if (!Tiles::needed(tile)) continue;
      double left[4], right[2];
      MANSARD_UNROLL
      for (int z = 0; z < 2; ++z) {
        MANSARD_UNROLL
        for (int half = 0; half < 2; ++half) left[2 * z + half] = static_cast<double>(slots[z][Tiles::left(tile, half)]);
        right[z] = static_cast<double>(slots[z][Tiles::right(tile)]);
      }
      mma_m16n8k8(products[tile], left, right);
    }
  }

  MANSARD_DEVICE void store_sums(double* Y) const {
    MANSARD_UNROLL
    for (int s = 0; s < S::SLOTS; ++s)
      MANSARD_UNROLL
      for (int e = 0; e < 4; ++e)
        Y[(group * S::SIGNS + g + e / 2 * 8) * S::Y_PITCH + columns.column(s, 2 * t + e % 2)] = sums[s][e];
  }
  // Write the warp's products to the block's G, or add them to what is there.
  MANSARD_DEVICE void add_to(double* G, bool add) const {
    MANSARD_UNROLL
    for (int n = 0; n < Tiles::COUNT; ++n)
      MANSARD_UNROLL
      for (int e = 0; e < 4; ++e) {
        if (e / 2 == 1 && Tiles::doubled(n)) continue;
        const int left = columns.column(Tiles::left(n, e / 2), g), right = columns.column(Tiles::right(n), 2 * t + e % 2);
        double* entry = G + (Tiles::upright(n) ? left * S::PITCH + right : right * S::PITCH + left);
        *entry = add ? *entry + products[n][e] : products[n][e];
      }
  }
};

// Entry `entry` of the block's results: of G, then of Y.
template <class P>
MANSARD_DEVICE typename SketchShape<P>::Sum sketch_entry(const double* Y, const double* G, int entry) {
  using S = SketchShape<P>;
  if (entry < P::N * P::N) {
    const int m = entry / P::N, n = entry % P::N;
    return mirrored<P>(m <= n, m, n, [&](int i, int j) { return entry_of_tiles<P, 1, S::SIDE, S::PITCH>(G, i, j); });
  }
  const double* at = Y + (entry / P::N - P::N) * S::Y_PITCH + entry % P::N * S::WORDS;
  if constexpr (S::WORDS == 2) return {0.25 * at[0], 0.25 * at[1]};
  else return 0.25 * at[0];
}

template <class P, class Arguments>
MANSARD_DEVICE void sketch_ring(const Arguments& arguments) {
  using S = SketchShape<P>;
  using T = typename P::T;
  using Sum = typename S::Sum;
  using Chunks = typename S::Chunks;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const SketchStream<P, Arguments> stream(arguments);
  const Chunks chunks{arena, stream.chunks};
  chunks.initialise();

  SketchWarp<P> warp(arguments.seed);
  i64 chunk = blockIdx.x;
  const auto fill = [&](unsigned char* stage, mbarrier* arrival, i64 number) { stream.fill(stage, arrival, number); };
  const i64 end = chunks.consume(0, warp.group == 0, fill, [&](const unsigned char* stage) {
    warp.add_chunk(stage, chunk);
    chunk += gridDim.x;
  });
  if (end == stream.chunks && end * P::ROWS < arguments.K) {  // one block meets the remaining rows
    unsigned char* stage = chunks.stage_of(0, 0);
    Chunks::meet(0);  // stage 0 is about to be overwritten; all warps have read it
    stream.fill_tail(reinterpret_cast<typename S::Word*>(stage));
    Chunks::meet(0);  // stage 0 holds the tail, written by all threads
    warp.add_chunk(stage, end);
  }
  chunks.retire();

  double *Y = reinterpret_cast<double*>(arena), *G = Y + S::Y_ROWS * S::Y_PITCH;
  warp.store_sums(Y);
MANSARD_UNROLL_BY(1)
  for (int turn = 0; turn < S::WARPS; ++turn) {
    if (warp.group == turn) warp.add_to(G, turn > 0);
    __syncthreads();  // G has the sums of warps 0 .. turn (and Y is complete), before the next adds or they are read
  }
  const auto value = [&](int entry) { return sketch_entry<P>(Y, G, entry); };
  const auto store = [&](int entry, Sum sum) {
    T* at = entry < P::N * P::N ? arguments.G + entry : arguments.Y + (entry - P::N * P::N);
    *at = scaled<T>(sum, 1.0, 0.0, 0.0, 0.0, at);
  };
  reduce_over_blocks<P::REDUCE, Sum, S::ENTRIES, Chunks::THREADS>(arguments.partials, arguments.counters, 0, gridDim.x,
                                                                  reinterpret_cast<Sum*>(arena), value, store);
}

}  // namespace mansard
