// The tensor cores' view of the problem, and the way back.
//
// Tensor cores multiply real double-precision tiles. A complex matrix is a real one with twice the columns, and FOLD
// consecutive rows of a narrow contiguous matrix are one row of a wider one. The product of these wide matrices holds
// every product we need (and some we do not); `entry_of_tiles` picks and combines them into entries of C.
#pragma once
#include "kernels/tall_skinny/gram/entry.cuh"
#include "mansard/gpu/mma.cuh"

namespace mansard {

template <bool VALUE>
struct Bool {
  static constexpr bool value = VALUE;
};

template <class P>
struct RealShape {
  using Word = typename Scalar<typename P::T>::Real;
  using Sum = typename Scalar<typename P::T>::template With<double>;  // float32 data is summed in float64 too
  static constexpr int WORDS = Scalar<typename P::T>::WORDS;
  static constexpr int M = P::M * WORDS, N = P::N * WORDS;        // real columns of one row
  static constexpr int WIDTH_M = P::FOLD * M, WIDTH_N = P::FOLD * N;  // and of FOLD rows side by side
};

// Sum over GROUPS tiles (each ROWS x PITCH, one behind the other) and over the FOLD diagonal blocks.
template <class P, int GROUPS, int ROWS, int PITCH>
MANSARD_DEVICE double sum_of_tiles(const double* tiles, int row, int column) {
  using S = RealShape<P>;
  double sum = 0.0;
MANSARD_UNROLL_BY(4)
  for (int group = 0; group < GROUPS; ++group, tiles += ROWS * PITCH)
MANSARD_UNROLL_BY(1)
    for (int fold = 0; fold < P::FOLD; ++fold) sum += tiles[(fold * S::M + row) * PITCH + fold * S::N + column];
  return sum;
}

// Entry (m, n) of this block's product, relative to the tile's origin.
template <class P, int GROUPS, int ROWS, int PITCH>
MANSARD_DEVICE typename RealShape<P>::Sum entry_of_tiles(const double* tiles, int m, int n) {
  using S = RealShape<P>;
  const int row = m * S::WORDS, column = n * S::WORDS;
  if constexpr (S::WORDS == 1) {
    return sum_of_tiles<P, GROUPS, ROWS, PITCH>(tiles, row, column);
  } else {
    const double re_re = sum_of_tiles<P, GROUPS, ROWS, PITCH>(tiles, row, column);
    const double im_im = sum_of_tiles<P, GROUPS, ROWS, PITCH>(tiles, row + 1, column + 1);
    const double re_im = sum_of_tiles<P, GROUPS, ROWS, PITCH>(tiles, row, column + 1);
    const double im_re = sum_of_tiles<P, GROUPS, ROWS, PITCH>(tiles, row + 1, column);
    if constexpr (P::CONJ) return {re_re + im_im, re_im - im_re};
    else return {re_re - im_im, re_im + im_re};
  }
}

// Of A^H A one half is computed; an entry of the other is the mirrored one, conjugated if CONJ.
template <class P, class Value>
MANSARD_DEVICE auto mirrored(bool computed, int m, int n, Value value) {
  if (computed) return value(m, n);
  return P::CONJ ? conjugate(value(n, m)) : value(n, m);
}

// The fewer than FOLD rows at the end that do not make a folded row, for entry (m, n).
template <class P, class Arguments, class Sum>
MANSARD_DEVICE void add_unfolded(const Arguments& arguments, i64 row, int m, int n, Sum& sum) {
  using Wide = typename RealShape<P>::Sum;
  for (; row < arguments.K; ++row) {
    const auto a = arguments.A[row * P::M + m], b = arguments.B[row * P::N + n];
    if constexpr (RealShape<P>::WORDS == 2)
      multiply_add<P::CONJ>(sum, Wide{a.re, a.im}, Wide{b.re, b.im});
    else
      multiply_add<P::CONJ>(sum, static_cast<Wide>(a), static_cast<Wide>(b));
  }
}

// KSTEP / 4 stacked m16n8k4 products; a[2 * z], a[2 * z + 1], b[z] belong to step z
template <int KSTEP>
MANSARD_DEVICE void mma_steps(double (&c)[4], const double (&a)[KSTEP / 2], const double (&b)[KSTEP / 4]) {
  if constexpr (KSTEP == 4)
    mma_m16n8k4(c, a[0], a[1], b[0]);
  else if constexpr (KSTEP == 8)
    mma_m16n8k8(c, a, b);
  else
    mma_m16n8k16(c, a, b);
}

}  // namespace mansard
