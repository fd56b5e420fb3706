// Chunks of rows of A and of B: how they are fetched, and how they lie in shared memory.
//
// A contiguous tall matrix is a flat stream of bytes, fetched ROWS rows at a time. Tensor-core fragments are read from
// a chunk as it lies: lane t of a quad takes rows STEP t + u, and with STEP = BANKS / 4 / gcd(pitch, BANKS / 4) the 32
// lanes hit different banks for every pitch that is not a multiple of half the banks. For those there is
//
//   SPREAD  rotate: slots are read in turns (slots.cuh), which costs instructions. shift: a chunk is fetched as four blocks
//           of rows, each displaced by a quarter of the banks, and lane t reads block t; copies that do not land on
//           128-byte boundaries reach 80 to 95 % of the bandwidth. none: they collide
//   FOLD    rows of a narrow matrix viewed as one
#pragma once
#include "kernels/tall_skinny/gram/real_tile.cuh"
#include "mansard/gpu/async.cuh"

namespace mansard {

enum class Spread { none, rotate, shift };

// Rows between the lanes of a quad such that their reads fall into different quarters of the banks.
MANSARD_HOST_DEVICE int lane_step(int pitch, int quarter) { return quarter / gcd(pitch, quarter); }
// The next length that moves what follows by a quarter of the banks.
MANSARD_HOST_DEVICE int shifted(int words, int quarter) {
  return words + (quarter - words % (4 * quarter) + 4 * quarter) % (4 * quarter);
}

template <class P>
struct ChunkShape : RealShape<P> {
  using R = RealShape<P>;
  using Word = typename R::Word;
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

  // Row of the chunk that lane 0 of a quad reads in step q, relative to the warp's first, and that one.
  static MANSARD_HOST_DEVICE int row_of(int q) { return SHIFT ? q : q / STEP * 4 * STEP + q % STEP; }
  static MANSARD_HOST_DEVICE int first_row(int warp_k) { return warp_k * (SHIFT ? QUADS : 4 * QUADS); }
};

// The two matrices as a sequence of chunks.
template <class P, class Arguments>
struct Stream {
  using S = ChunkShape<P>;
  using Word = typename S::Word;
  const Word *A, *B;
  i64 K, chunks;  // chunks that lie wholly inside both matrices

  MANSARD_DEVICE explicit Stream(const Arguments& given)
      : A(reinterpret_cast<const Word*>(given.A)), B(reinterpret_cast<const Word*>(given.B)), K(given.K) {
    // the last row of a padded matrix may end with the array
    chunks = K == 0 ? 0 : (K - (S::PADDED ? 1 : 0)) / (static_cast<i64>(P::ROWS) * P::FOLD);
  }

  // With the one that is not whole.
  MANSARD_DEVICE i64 all_chunks() const {
    constexpr i64 ROWS = static_cast<i64>(P::ROWS) * P::FOLD;
    return (K + ROWS - 1) / ROWS;
  }

  // One warp fetches a chunk.
  MANSARD_DEVICE void fill(unsigned char* stage, mbarrier* arrival, i64 chunk) const {
    const int lane = threadIdx.x % 32;
    if (lane == 0) mbarrier_arrive_expect(arrival, P::ROWS * (S::LDA + (P::SAME ? 0 : S::LDB)) * sizeof(Word));
    __syncwarp();  // the expected bytes are announced before other lanes start their copies
    Word* to = reinterpret_cast<Word*>(stage);
    if (lane < S::PIECES)
      fetch<S::LDA>(to + lane * S::LANE_A, A, chunk * S::PIECES + lane, arrival);
    else if (!P::SAME && lane < 2 * S::PIECES)
      fetch<S::LDB>(to + S::STAGE_A + (lane - S::PIECES) * S::LANE_B, B, chunk * S::PIECES + lane - S::PIECES, arrival);
    __syncwarp();  // reconverge after the copies
  }
  template <int LD>
  static MANSARD_DEVICE void fetch(Word* to, const Word* from, i64 piece, mbarrier* arrival) {
    bulk_load(to, from + piece * (S::PIECE * LD), S::PIECE * LD * sizeof(Word), arrival);
  }

  // A chunk, read by `threads` threads themselves: the last one, padded with zeros, or any other once more.
  MANSARD_DEVICE void read(Word* stage, i64 chunk, int thread, int threads) const {
    read_operand<S::LDA, S::LANE_A, S::M>(stage, A, chunk, thread, threads);
    if constexpr (!P::SAME) read_operand<S::LDB, S::LANE_B, S::N>(stage + S::STAGE_A, B, chunk, thread, threads);
  }
  template <int LD, int LANE, int WIDTH>
  MANSARD_DEVICE void read_operand(Word* to, const Word* from, i64 chunk, int thread, int threads) const {
    const i64 first = chunk * P::ROWS, words_left = K * WIDTH - first * LD;
    for (int i = thread; i < P::ROWS * LD; i += threads) {
      const bool inside = P::FOLD > 1 ? i < words_left : first + i / LD < K && i % LD < WIDTH;
      const int at = S::SHIFT ? i / (S::PIECE * LD) * LANE + i % (S::PIECE * LD) : i;
      to[at] = inside ? from[first * LD + i] : Word(0);
    }
  }
};

}  // namespace mansard
