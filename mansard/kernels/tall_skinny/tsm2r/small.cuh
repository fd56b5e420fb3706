// The skinny matrix B for the tensor cores: chunks of DEPTH rows, as fragments in shared memory.
//
// All consumer threads load the next chunk into registers while they work on the present one, and store it where the
// lanes will read it: for every PACK steps and eight columns, lane (g, t) finds its PACK numbers of column g in 16
// adjacent bytes. Strides, conjugation, widening and the second half of a complex B' are handled on the way. Two chunks
// are kept, used in turn; the barrier is in kernel_tensor.cuh.
//
// A block of BLOCK rows is adjacent in shared memory. Threads take the rows of a block, then the columns, then other
// blocks, so that a thread's next number is always at the same distance, in global and in shared memory.
#pragma once
#include "kernels/tall_skinny/tsm2r/panels.cuh"

namespace mansard {

template <class P>
struct SmallShape : TensorShape<P> {
  using S = TensorShape<P>;
  static constexpr int WORDS_OF_CHUNK = P::DEPTH * S::ALL_N * 8;
  static constexpr int BYTES = 2 * WORDS_OF_CHUNK * int(sizeof(typename S::Number));  // two chunks

  static constexpr int BLOCK_STEPS = S::ADJACENT > S::PACK ? S::ADJACENT : S::PACK;
  static constexpr int BLOCK = 4 * BLOCK_STEPS / S::K_WORDS, BLOCKS = S::STEPS / BLOCK_STEPS;  // rows of B; per chunk
  // Columns and blocks that all threads together cover at once.
  static constexpr int MOST = S::CONSUMERS / BLOCK, COLUMNS = P::N <= MOST ? P::N : MOST / 8 * 8;
  static constexpr int FIT = COLUMNS > 0 ? S::CONSUMERS / (BLOCK * COLUMNS) : 0, AT_ONCE = FIT < BLOCKS ? FIT : BLOCKS;
  static_assert(COLUMNS > 0, "threads for eight columns");
  static constexpr int PASSES_N = ceil_div(P::N, COLUMNS), PASSES_K = ceil_div(BLOCKS, AT_ONCE);

  // Offset of the number in real row k and real column n: place_k + place_n.
  static MANSARD_HOST_DEVICE int place_k(int k) {
    const int within = k % (4 * S::ADJACENT), t = within / S::ADJACENT;
    const int step = k / (4 * S::ADJACENT) * S::ADJACENT + within % S::ADJACENT;
    return (step / S::PACK * S::ALL_N * 32 + t) * S::PACK + step % S::PACK;
  }
  static MANSARD_HOST_DEVICE int place_n(int n) { return (n / 8 * 32 + n % 8 * 4) * S::PACK; }
};

template <class P, class Arguments>
struct Small {
  using S = SmallShape<P>;
  using T = typename P::T;
  using Number = typename S::Number;
  const Arguments& arguments;
  Number* chunks;
  int row, column, block;  // position of the thread's first number
  T held[S::PASSES_K][S::PASSES_N];

  MANSARD_DEVICE Small(const Arguments& given, unsigned char* arena)
      : arguments(given), chunks(reinterpret_cast<Number*>(arena)), row(threadIdx.x % S::BLOCK),
        column(threadIdx.x / S::BLOCK % S::COLUMNS), block(threadIdx.x / (S::BLOCK * S::COLUMNS)) {}
  MANSARD_DEVICE Number* chunk(int count) const { return chunks + (count & 1) * S::WORDS_OF_CHUNK; }

  // Zero both chunks: columns beyond the width are never written, but TF32 products read them, and must not see a NaN.
  MANSARD_DEVICE void clear() const {
    for (int i = threadIdx.x; i < 2 * S::WORDS_OF_CHUNK; i += S::CONSUMERS) chunks[i] = Number(0);
  }
  MANSARD_DEVICE bool has(int i, int j) const {
    const bool there = S::CONSUMERS == S::BLOCK * S::COLUMNS * S::AT_ONCE || block < S::AT_ONCE;
    return there && (S::BLOCKS % S::AT_ONCE == 0 || block + i * S::AT_ONCE < S::BLOCKS) &&
           (P::N % S::COLUMNS == 0 || column + j * S::COLUMNS < P::N);
  }
  MANSARD_DEVICE void fetch(int chunk) {
    const i64 first = static_cast<i64>(chunk) * (S::BLOCKS * S::BLOCK) + block * S::BLOCK + row;
    const T* from = arguments.B + first * arguments.b_row + column * arguments.b_col;
    MANSARD_UNROLL
    for (int i = 0; i < S::PASSES_K; ++i)
      MANSARD_UNROLL
      for (int j = 0; j < S::PASSES_N; ++j) {
        const bool inside = has(i, j) && first + i * (S::AT_ONCE * S::BLOCK) < arguments.K;
        const i64 at = i * (S::AT_ONCE * S::BLOCK) * arguments.b_row + j * S::COLUMNS * arguments.b_col;
        held[i][j] = inside ? from[at] : zero<T>();
      }
  }
  MANSARD_DEVICE void put(Number* to) const {
    to += S::place_k((block * S::BLOCK + row) * S::K_WORDS) + S::place_n(column * S::WORDS);
    MANSARD_UNROLL
    for (int i = 0; i < S::PASSES_K; ++i)
      MANSARD_UNROLL
      for (int j = 0; j < S::PASSES_N; ++j)
        if (has(i, j)) {
          const T value = P::CONJ_B ? conjugate(held[i][j]) : held[i][j];
          put_one(to + S::place_k(i * S::AT_ONCE * S::BLOCK * S::K_WORDS) + S::place_n(j * S::COLUMNS * S::WORDS), value);
        }
  }
  static MANSARD_DEVICE void put_one(Number* to, T value) {
    if constexpr (S::WORDS == 1) {
      *to = static_cast<Number>(value);
    } else {
      const Number re = static_cast<Number>(value.re), im = static_cast<Number>(value.im);
      constexpr int NEXT = S::place_n(1), BELOW = S::place_k(1);  // the first of two real columns, and rows, is even
      to[0] = re, to[NEXT] = im;
      if constexpr (!S::COMBINE) {
        to[BELOW] = P::CONJ_A ? im : -im;
        to[BELOW + NEXT] = P::CONJ_A ? -re : re;
      }
    }
  }
};

}  // namespace mansard
