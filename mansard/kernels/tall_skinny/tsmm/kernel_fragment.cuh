// W = alpha A C + beta W for few rows: fragments straight from global memory, tensor cores, results straight back.
//
// The latency of a single row counts here, not the throughput: a warp loads its rows of A and its part of C at the same
// time, multiplies, stores, and is done. There is no set-up, no shared memory and no barrier.
//
//   TILES  tiles of 16 rows per warp
//   WARPS  warps per block
#pragma once
#include "kernels/tall_skinny/tsmm/pairs.cuh"

namespace mansard {

template <class P>
struct FragmentShape : PairShape<P> {
  using S = PairShape<P>;
  static constexpr int OCTETS = 2 * P::TILES, ROWS = 8 * OCTETS;  // per warp
  static constexpr int AT_A_TIME = S::BLOCKS < 8 ? 16 / S::BLOCKS : 1;  // tiles of C in registers
  // load or store two words at once, where pairs are aligned
  static constexpr bool PAIRED_A = P::ALIGNED && !S::SPLIT;
  static constexpr bool PAIRED_W = P::ALIGNED && S::WORDS == 1 && P::N % 2 == 0 && P::PITCH_W % 2 == 0;
};

// Load the lane's two words of a block of eight; zeros beyond the width and beyond the last row.
template <class P>
MANSARD_DEVICE Pair<double> load_pair(const typename PairShape<P>::Word* row, int block, int t, bool there) {
  using S = FragmentShape<P>;
  using Word = typename S::Word;
  const int x = block * 8 + S::x_of(t), y = block * 8 + S::y_of(t);
  const bool whole = block * 8 + 8 <= S::WIDTH;
  Word first = 0, second = 0;
  if (S::PAIRED_A && (whole || y < S::WIDTH)) {
    if (there) {
      const Pair<Word> both = *reinterpret_cast<const Pair<Word>*>(row + x);
      first = both.x, second = both.y;
    }
  } else {
    if (there && (whole || x < S::WIDTH)) first = row[x];
    if (there && (whole || y < S::WIDTH)) second = row[y];
  }
  return {static_cast<double>(first), static_cast<double>(second)};
}

// An entry of W: a result plus beta times the old entry.
template <class P, class Arguments>
MANSARD_DEVICE typename P::T entry_of(const Arguments& arguments, const double* re, const double* im, const typename P::T* w) {
  using T = typename P::T;
  if constexpr (Scalar<T>::COMPLEX)
    return scaled<T>(Complex<double>{*re, *im}, 1.0, 0.0, arguments.beta_re, arguments.beta_im, w);
  else
    return scaled<T>(*re, 1.0, 0.0, arguments.beta_re, arguments.beta_im, w);
}

template <class P>
MANSARD_DEVICE void put(typename P::T* at, typename P::T entry) {
  if constexpr (P::ALIGNED && Scalar<typename P::T>::COMPLEX)
    *reinterpret_cast<Pair<typename Scalar<typename P::T>::Real>*>(at) = {entry.re, entry.im};
  else
    *at = entry;
}

// Store two neighbouring entries of a row.
template <class P, class Arguments>
MANSARD_DEVICE void store_pair(const Arguments& arguments, i64 row, int column, const double* re, const double* im) {
  using S = FragmentShape<P>;
  using T = typename P::T;
  if (row >= arguments.K) return;
  T* w = arguments.W + row * arguments.w_row + column;
  if constexpr (S::PAIRED_W) {
    if (column < P::N)
      *reinterpret_cast<Pair<T>*>(w) = {entry_of<P>(arguments, re, im, w), entry_of<P>(arguments, re + 1, im, w + 1)};
  } else {
    if (column < P::N) put<P>(w, entry_of<P>(arguments, re, im, w));
    if (column + 1 < P::N) put<P>(w + 1, entry_of<P>(arguments, re + 1, im + 1, w + 1));
  }
}

template <class P, class Arguments>
MANSARD_DEVICE void tsmm_fragment(const Arguments& arguments) {
  using S = FragmentShape<P>;
  using Word = typename S::Word;
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const i64 step = static_cast<i64>(gridDim.x) * P::WARPS * S::ROWS;
MANSARD_UNROLL_BY(1)
  for (i64 first = (static_cast<i64>(blockIdx.x) * P::WARPS + threadIdx.x / 32) * S::ROWS; first < arguments.K; first += step) {
    Pair<double> a[S::BLOCKS][S::OCTETS];
    MANSARD_UNROLL
    for (int b = 0; b < S::BLOCKS; ++b)
      MANSARD_UNROLL
      for (int o = 0; o < S::OCTETS; ++o) {
        const i64 row = first + 8 * o + g;
        a[b][o] = load_pair<P>(reinterpret_cast<const Word*>(arguments.A) + row * S::LDA, b, t, row < arguments.K);
      }
MANSARD_UNROLL_BY(S::AT_A_TIME)
    for (int j = 0; j < S::COLUMNS; ++j) {
      double sums[P::TILES][S::WORDS][4] = {};
      MANSARD_UNROLL
      for (int b = 0; b < S::BLOCKS; ++b) {
        const Fragment c = fragment_of<P, false>(arguments, b, j, g, t);
        const double x = c.wide[0], y = c.wide[1];
        MANSARD_UNROLL
        for (int i = 0; i < P::TILES; ++i) {
          const Pair<double> up = a[b][2 * i], low = a[b][2 * i + 1];
          const double left[4] = {up.x, low.x, up.y, low.y};
          mma_m16n8k8(sums[i][0], left, {x, S::WORDS == 2 ? -y : y});
          if constexpr (S::WORDS == 2) mma_m16n8k8(sums[i][1], left, {y, x});
        }
      }
      MANSARD_UNROLL
      for (int i = 0; i < P::TILES; ++i)
        MANSARD_UNROLL
        for (int half = 0; half < 2; ++half)
          store_pair<P>(arguments, first + 16 * i + 8 * half + g, 8 * j + 2 * t, sums[i][0] + 2 * half,
                        sums[i][S::WORDS - 1] + 2 * half);
    }
  }
}

}  // namespace mansard
