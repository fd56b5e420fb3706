// The tensor cores' view of W = A C, and the small matrix as they read it.
//
// Tensor cores multiply real tiles. A complex matrix is a real one with twice the columns, times C' = [[Cr, Ci], [-Ci, Cr]].
// A block of four rows and eight columns of C' is a fragment: lane (g, t), with g = lane / 4 and t = lane % 4, holds row t,
// column g. (Narrow rows are not folded into wider ones as in gram: the zeros of a block-diagonal C' would carry a NaN of
// one row into its neighbours.)
#pragma once
#include "mansard/complex.cuh"
#include "mansard/mma.cuh"

namespace mansard {

template <class P>
struct RealShape {
  using Word = typename Scalar<typename P::T>::Real;
  static constexpr int WORDS = Scalar<typename P::T>::WORDS;
  static constexpr int WIDTH_M = P::M * WORDS, WIDTH_N = P::N * WORDS;  // real columns of A and of W
  static constexpr int BLOCKS_M = ceil_div(WIDTH_M, 4), BLOCKS_N = ceil_div(WIDTH_N, 8);
  // Words of a fragment in shared memory. A complex one has every number once, not four times.
  static constexpr int FRAGMENT = WORDS == 2 ? 16 : 32;
};

// alpha C (or its conjugate), entry (m, n), in double precision.
template <class P, class Arguments>
MANSARD_DEVICE auto small_entry(const Arguments& arguments, int m, int n) {
  const auto c = arguments.C[m * arguments.c_row + n * arguments.c_col];
  if constexpr (RealShape<P>::WORDS == 2) {
    const double re = c.re, im = P::CONJ ? -static_cast<double>(c.im) : static_cast<double>(c.im);
    return Complex<double>{arguments.alpha_re * re - arguments.alpha_im * im,
                           arguments.alpha_re * im + arguments.alpha_im * re};
  } else {
    return arguments.alpha_re * static_cast<double>(c);
  }
}

// Entry (row, column) of C'.
template <class P, class Arguments>
MANSARD_DEVICE double wide_entry(const Arguments& arguments, int row, int column) {
  using S = RealShape<P>;
  if (row >= S::WIDTH_M || column >= S::WIDTH_N) return 0.0;
  const auto entry = small_entry<P>(arguments, row / S::WORDS, column / S::WORDS);
  if constexpr (S::WORDS == 1) return entry;
  else return row % 2 == column % 2 ? entry.re : row % 2 ? -entry.im : entry.im;
}

// The fragments of C' in shared memory, one behind the other: block of rows, then block of columns.
template <class P, int THREADS, class Arguments>
MANSARD_DEVICE void stage_fragments(const Arguments& arguments, double* to) {
  using S = RealShape<P>;
  for (int i = threadIdx.x; i < S::BLOCKS_M * S::BLOCKS_N * S::FRAGMENT; i += THREADS) {
    const int word = i % S::FRAGMENT, block = i / S::FRAGMENT;
    const int row = block / S::BLOCKS_N * 4, column = block % S::BLOCKS_N * 8;
    if constexpr (S::WORDS == 2)  // two rows of four complex numbers
      to[i] = wide_entry<P>(arguments, row + word / 8 * 2, column + word % 8);
    else
      to[i] = wide_entry<P>(arguments, row + word % 4, column + word / 4);
  }
}

// Where a lane finds its number in a fragment, and whether it takes it with the other sign.
template <class P>
struct FragmentLane {
  int offset;
  bool negative;

  MANSARD_DEVICE FragmentLane(int g, int t) : offset(g * 4 + t), negative(false) {
    if constexpr (RealShape<P>::WORDS == 2) {
      offset = t / 2 * 8 + g / 2 * 2 + (t % 2 ^ g % 2);
      negative = t % 2 == 1 && g % 2 == 0;
    }
  }
  MANSARD_DEVICE double load(const double* fragment) const {
    const double value = fragment[offset];
    return RealShape<P>::WORDS == 2 && negative ? -value : value;
  }
};

}  // namespace mansard
