// Panels of op(A) and op(B) in shared memory, sizes known at run time: BLK_M rows and BLK_K columns of op(A), BLK_K
// rows and BLK_N columns of op(B). Transposed operands are turned on the way. What hangs over the end of a matrix is
// zero.
#pragma once
#include "families/gemm/image.cuh"
#include "families/ragged_gemm/items.cuh"
#include "mansard/async_words.cuh"

namespace mansard {

// LINES x LENGTH elements; the image has lines PITCH apart, or, if TURNED, its columns are the lines of memory.
template <class T, int LINES, int LENGTH, int PITCH, bool TURNED, int THREADS>
struct Panel {
  static constexpr int VECTOR = 16 / int(sizeof(T));
  static MANSARD_DEVICE int position(int line, int e) { return TURNED ? e * PITCH + line : line * PITCH + e; }

  // `lines` and `length` of the panel exist; lines of memory are `stride` elements apart.
  static MANSARD_DEVICE void fill(T* to, const T* from, i64 stride, int lines, int length, int rank) {
    const bool pieces = !TURNED && (VECTOR == 1 || stride % VECTOR == 0 && length % VECTOR == 0 &&
                                                       reinterpret_cast<u64>(from) % 16 == 0);
    if (pieces) fill_by<TURNED ? 1 : VECTOR>(to, from, stride, lines, length, rank);
    else fill_by<1>(to, from, stride, lines, length, rank);
  }

 private:
  template <int AT_ONCE>
  static MANSARD_DEVICE void fill_by(T* to, const T* from, i64 stride, int lines, int length, int rank) {
    constexpr int OF_LINE = LENGTH / AT_ONCE, COUNT = LINES * OF_LINE;
    static_assert(LENGTH % AT_ONCE == 0 && COUNT % THREADS == 0, "even shares");
MANSARD_UNROLL_BY(4)
    for (int i = rank; i < COUNT; i += THREADS) {
      const int line = i / OF_LINE, e = i % OF_LINE * AT_ONCE;
      T* const place = to + position(line, e);
      if (line < lines && e < length) {
        cp_async_word<AT_ONCE * int(sizeof(T))>(place, from + line * stride + e);
      } else {
        MANSARD_UNROLL
        for (int j = 0; j < AT_ONCE; ++j) place[j] = zero<T>();
      }
    }
  }
};

template <class P>
struct RaggedPanels {
  using T = typename P::T;
  static constexpr int PAD = 4, PITCH_A = P::BLK_K + PAD, PITCH_B = P::BLK_N + PAD;
  static constexpr int SIZE_A = P::BLK_M * PITCH_A, STAGE = SIZE_A + P::BLK_K * PITCH_B;  // elements
  static_assert(P::STAGES * STAGE * int(sizeof(T)) <= P::SHARED_BYTES, "shared memory");
  using A = Panel<T, P::TRANS_A ? P::BLK_K : P::BLK_M, P::TRANS_A ? P::BLK_M : P::BLK_K, PITCH_A, P::TRANS_A,
                  P::THREADS>;
  using B = Panel<T, P::TRANS_B ? P::BLK_N : P::BLK_K, P::TRANS_B ? P::BLK_K : P::BLK_N, PITCH_B, P::TRANS_B,
                  P::THREADS>;

  // Panel number p of the tile that begins at `row` and `column`.
  static MANSARD_DEVICE void fill(T* stage, const T* matrix_a, const T* matrix_b, const Item& item, int row, int column,
                                  int p, int rank) {
    const int k = p * P::BLK_K, rows = item.m - row, columns = item.n - column, deep = item.k - k;
    const i64 a_stride = P::TRANS_A ? item.m : item.k, b_stride = P::TRANS_B ? item.k : item.n;
    const T* a = matrix_a + (P::TRANS_A ? k * a_stride + row : row * a_stride + k);
    const T* b = matrix_b + (P::TRANS_B ? column * b_stride + k : k * b_stride + column);
    A::fill(stage, a, a_stride, P::TRANS_A ? deep : rows, P::TRANS_A ? rows : deep, rank);
    B::fill(stage + SIZE_A, b, b_stride, P::TRANS_B ? columns : deep, P::TRANS_B ? deep : columns, rank);
  }
};

}  // namespace mansard
