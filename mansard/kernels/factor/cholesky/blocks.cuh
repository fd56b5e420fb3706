// A lower triangle in shared memory as square blocks of NB x NB elements; blocks above the diagonal are not stored.
//
// The 16-byte units of a row are permuted (xor), differently in each of eight rows, so that neither eight rows read at
// the same column nor the fragments of a product collide in the banks. Rows below the matrix hold right-hand sides.
// Also: the product of blocks that updates the triangle, and the factorization of a panel in registers.
#pragma once
#include "kernels/factor/cholesky/pivots.cuh"
#include "mansard/gpu/async_words.cuh"
#include "mansard/gpu/mma.cuh"

namespace mansard {

// N columns, ROWS rows.
template <class T_, int N_, int ROWS_>
struct Blocks {
  using T = T_;
  static constexpr int N = N_, ROWS = ROWS_, NB = 16, SIZE = NB * NB, VECTOR = 16 / int(sizeof(T));
  static constexpr int ACROSS = ceil_div(N, NB), DOWN = ceil_div(ROWS, NB);  // blocks
  static constexpr int COUNT = ACROSS * (ACROSS + 1) / 2 + (DOWN - ACROSS) * ACROSS;
  static constexpr int BYTES = COUNT * SIZE * int(sizeof(T));
  using Unit = Pack<T, VECTOR>;
  T* memory;

  MANSARD_DEVICE T* block(int i, int j) const {
    const int before = i < ACROSS ? i * (i + 1) / 2 : ACROSS * (ACROSS + 1) / 2 + (i - ACROSS) * ACROSS;
    return memory + (before + j) * SIZE;
  }
  // Offset of an element in its block; for the first column of a unit, of the unit.
  static MANSARD_DEVICE int inside(int row, int column) {
    const int turn = sizeof(T) == 4 ? row / 2 % 4 : row % 2 * 4 + row / 2 % 4;
    return row * NB + (column / VECTOR ^ turn) * VECTOR + column % VECTOR;
  }
  MANSARD_DEVICE T& at(int row, int column) const {
    return block(row / NB, column / NB)[inside(row % NB, column % NB)];
  }
  static MANSARD_DEVICE Unit& unit(T* block, int row, int column) {
    return *reinterpret_cast<Unit*>(block + inside(row, column));
  }
};

// C -= A B^H for three blocks, by one warp on the tensor cores (float64).
template <class B>
MANSARD_DEVICE void subtract_product(double* c, double* a, double* b, int lane) {
  const int group = lane / 4, member = lane % 4;
  // a lane's fragment entries along k come in adjacent pairs; the order along k is permuted alike in both operands
  const auto load = [&](double* block, int row, int half) { return B::unit(block, row, 2 * member + 8 * half); };
  double left[8], right[2][4], sums[2][4];
  MANSARD_UNROLL
  for (int half = 0; half < 2; ++half)
    MANSARD_UNROLL
    for (int i = 0; i < 2; ++i) {
      const auto rows = load(a, group + 8 * i, half), columns = load(b, group + 8 * i, half);
      const auto old = load(c, group + 8 * i, half);
      MANSARD_UNROLL
      for (int j = 0; j < 2; ++j) {
        left[4 * half + 2 * j + i] = -rows.e[j];
        right[i][2 * half + j] = columns.e[j];
        sums[half][2 * i + j] = old.e[j];
      }
    }
  MANSARD_UNROLL
  for (int half = 0; half < 2; ++half) {
    mma_m16n8k16(sums[half], left, right[half]);
    MANSARD_UNROLL
    for (int i = 0; i < 2; ++i)
      B::unit(c, group + 8 * i, 2 * member + 8 * half) = {sums[half][2 * i], sums[half][2 * i + 1]};
  }
}

// C -= A B^H for complex128: four products of real blocks on the tensor cores.
template <class B>
MANSARD_DEVICE void subtract_product(Complex<double>* c, Complex<double>* a, Complex<double>* b, int lane) {
  const int group = lane / 4, member = lane % 4;
  const auto load = [&](Complex<double>* block, int row, int column) { return B::unit(block, row, column).e[0]; };
  double re[8], minus_re[8], minus_im[8];
  MANSARD_UNROLL
  for (int i = 0; i < 8; ++i) {
    const auto entry = load(a, group + i % 2 * 8, member + i / 2 * 4);
    re[i] = entry.re, minus_re[i] = -entry.re, minus_im[i] = -entry.im;
  }
  MANSARD_UNROLL
  for (int half = 0; half < 2; ++half) {
    double right_re[4], right_im[4], sums_re[4], sums_im[4];
    MANSARD_UNROLL
    for (int i = 0; i < 4; ++i) {
      const auto entry = load(b, group + 8 * half, member + 4 * i);
      const auto old = load(c, group + i / 2 * 8, 2 * member + i % 2 + 8 * half);
      right_re[i] = entry.re, right_im[i] = entry.im, sums_re[i] = old.re, sums_im[i] = old.im;
    }
    mma_m16n8k16(sums_re, minus_re, right_re);
    mma_m16n8k16(sums_im, minus_im, right_re);
    mma_m16n8k16(sums_re, minus_im, right_im);
    mma_m16n8k16(sums_im, re, right_im);
    MANSARD_UNROLL
    for (int i = 0; i < 4; ++i)
      B::unit(c, group + i / 2 * 8, 2 * member + i % 2 + 8 * half) = {{{sums_re[i], sums_im[i]}}};
  }
}

// C -= A B^H without tensor cores: a lane has two rows and four columns of C.
template <class B, class T>
MANSARD_DEVICE void subtract_product(T* c, T* a, T* b, int lane) {
  constexpr int VECTOR = B::VECTOR, RUNS = 4 / VECTOR;
  const int down = lane % 8, across = lane / 8;
  const auto column = [&](int run) { return (across + 4 * run) * VECTOR; };
  typename B::Unit sums[2][RUNS];
  MANSARD_UNROLL
  for (int i = 0; i < 2; ++i)
    MANSARD_UNROLL
    for (int run = 0; run < RUNS; ++run) sums[i][run] = B::unit(c, down + 8 * i, column(run));
MANSARD_UNROLL_BY(4)
  for (int k = 0; k < B::NB; k += VECTOR) {
    typename B::Unit rows[2];
    MANSARD_UNROLL
    for (int i = 0; i < 2; ++i) rows[i] = B::unit(a, down + 8 * i, k);
    MANSARD_UNROLL
    for (int run = 0; run < RUNS; ++run)
      MANSARD_UNROLL
      for (int j = 0; j < VECTOR; ++j) {
        const auto other = B::unit(b, column(run) + j, k);
        MANSARD_UNROLL
        for (int i = 0; i < 2; ++i)
          MANSARD_UNROLL
          for (int e = 0; e < VECTOR; ++e) multiply_add<true>(sums[i][run].e[j], other.e[e], negated(rows[i].e[e]));
      }
  }
  MANSARD_UNROLL
  for (int i = 0; i < 2; ++i)
    MANSARD_UNROLL
    for (int run = 0; run < RUNS; ++run) B::unit(c, down + 8 * i, column(run)) = sums[i][run];
}

// A panel of NB columns in registers. Every warp factors the diagonal block itself, with its rows in lanes 0 .. 15, and
// holds rows below it in lanes 16 .. 31 and in further slots.
// Barrier: one __syncwarp per step -> place k % 2 of the warp's `columns` -> lanes 0 .. 15. The place is written again
// in step k + 2, after the barrier of step k + 1.
template <class B, int WARPS, int SLOTS>
struct Panel {
  using T = typename B::T;
  using Real = typename Scalar<T>::Real;
  static constexpr int NB = B::NB;
  int first, warp, lane;  // first: row and column where the panel begins
  T x[SLOTS][NB];

  MANSARD_DEVICE int row_of(int slot) const {
    if (slot > 0) return first + NB * (1 + WARPS) + ((slot - 1) * WARPS + warp) * 32 + lane;
    return first + (lane < NB ? lane : NB * warp + lane);
  }
  MANSARD_DEVICE void load(const B& blocks) {
    MANSARD_UNROLL
    for (int slot = 0; slot < SLOTS; ++slot) {
      const int mine = row_of(slot), row = mine < B::DOWN * NB ? mine : first;  // or one that is not written yet
      T* block = blocks.block(row / NB, first / NB);
      MANSARD_UNROLL
      for (int j = 0; j < NB; j += B::VECTOR) {
        const auto some = B::unit(block, row % NB, j);
        MANSARD_UNROLL
        for (int e = 0; e < B::VECTOR; ++e) x[slot][j + e] = some.e[e];
      }
    }
  }
  MANSARD_DEVICE void store_slot(const B& blocks, int slot) const {
    const int row = row_of(slot);
    if (row >= B::ROWS) return;
    T* block = blocks.block(row / NB, first / NB);
    MANSARD_UNROLL
    for (int j = 0; j < NB; j += B::VECTOR) {
      typename B::Unit some;
      MANSARD_UNROLL
      for (int e = 0; e < B::VECTOR; ++e) some.e[e] = x[slot][j + e];
      B::unit(block, row % NB, j) = some;
    }
  }
  MANSARD_DEVICE void store_below(const B& blocks) const {
    MANSARD_UNROLL
    for (int slot = 0; slot < SLOTS; ++slot)
      if (slot > 0 || lane >= NB) store_slot(blocks, slot);
  }
  // Warp 0 stores the diagonal block, after a barrier: all warps have loaded it.
  MANSARD_DEVICE void store_diagonal(const B& blocks) const {
    if (warp == 0 && lane < NB) store_slot(blocks, 0);
  }
  // Factor the panel. `there` of its columns exist, or (WHOLE) all do. `columns` points to the warp's two places.
  // INVERSE: the diagonal becomes 1 / l_kk.
  template <bool INVERSE, bool WHOLE>
  MANSARD_DEVICE void factor(int there, T* columns, int& info) {
    MANSARD_UNROLL
    for (int k = 0; k < NB; ++k)
      if (WHOLE || k < there) step<INVERSE>(k, columns + k % 2 * NB, info);
  }

 private:
  template <bool INVERSE>
  MANSARD_DEVICE void step(int k, T* column, int& info) {
    if (lane < NB) column[lane] = x[0][k];
    const Real inverse = inverse_of_diagonal(lane_value<32>(real_part(x[0][k]), k), first + k + 1, info);
    __syncwarp();  // `column` is complete, written by lanes 0 .. 15
    T minus[SLOTS];
    MANSARD_UNROLL
    for (int slot = 0; slot < SLOTS; ++slot) {
      x[slot][k] = by_real(x[slot][k], inverse);
      minus[slot] = by_real(x[slot][k], -inverse);
    }
    MANSARD_UNROLL
    for (int run = 0; run < NB; run += B::VECTOR) {
      if (run + B::VECTOR <= k + 1) continue;
      const auto known = *reinterpret_cast<const typename B::Unit*>(column + run);
      MANSARD_UNROLL
      for (int e = 0; e < B::VECTOR; ++e)
        MANSARD_UNROLL
        for (int slot = 0; slot < SLOTS; ++slot)
          if (run + e > k) multiply_add<true>(x[slot][run + e], known.e[e], minus[slot]);
    }
    if (INVERSE && lane == k) x[0][k] = from_real<T>(inverse);
  }
};

}  // namespace mansard
