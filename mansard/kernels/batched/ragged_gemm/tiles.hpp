// Register tiles of ragged products on CPUs (kernel.hpp): ROWS rows and VECTORS vectors of C, from the first product to the
// last; a table has a function for each size.
#pragma once
#include "kernels/batched/gemm/operands.hpp"
#include "mansard/cpu/first_lanes.hpp"

namespace mansard {

template <class P>
struct Ragged {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int WORDS = Scalar<T>::WORDS, LANES = native_lanes<R>;
  using V = Vector<R, LANES>;
  R alpha_re, alpha_im, beta_re, beta_im;

  // Reals of C from the sums of right rows times real parts and times imaginary parts of left entries.
  MANSARD_INLINE V entries_of_c(const V (&sums)[WORDS], V old) const {
    V sum = sums[0];
    if constexpr (WORDS == 2) sum = complex_product<P::CONJ_A, P::CONJ_B, LANES, R>(sums[0], sums[1]);
    V value = scaled<WORDS, LANES>(alpha_re, alpha_im, sum);
    if constexpr (P::ACCUMULATE) add_scaled<WORDS, LANES>(value, beta_re, beta_im, old);
    return value;
  }
};

template <class P>
using RaggedTile = void (*)(const Ragged<P>&, Entries<const typename Ragged<P>::R> left,
                            Entries<const typename Ragged<P>::R> right, Entries<typename Ragged<P>::R> out, i64 deep,
                            int last);

// Compute a tile of ROWS rows and VECTORS vectors of C, the last of which has `last` reals.
template <class P, int ROWS, int VECTORS, class R = typename Ragged<P>::R>
void ragged_tile(const Ragged<P>& x, Entries<const R> left, Entries<const R> right, Entries<R> out, i64 deep,
                 int last) {
  using S = Ragged<P>;
  using V = typename S::V;
  const FirstLanes<R> end(last);
  V sums[ROWS][VECTORS][S::WORDS] = {};
  const auto step = [&](const R* a, const R* b) __attribute__((always_inline)) {
    V row[VECTORS];
    MANSARD_UNROLL
    for (int n = 0; n < VECTORS; ++n)
      row[n] = in_register(n < VECTORS - 1 ? load<S::LANES>(b + n * S::LANES) : end.load(b + n * S::LANES));
    MANSARD_UNROLL
    for (int m = 0; m < ROWS; ++m) {
      MANSARD_UNROLL
      for (int word = 0; word < S::WORDS; ++word) {
        const R entry = a[m * left.row + word];
        MANSARD_UNROLL
        for (int n = 0; n < VECTORS; ++n) add_product(sums[m][n][word], entry, row[n]);
      }
    }
  };
  i64 k = 0;
  for (; k + P::UNROLL <= deep; k += P::UNROLL) {
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u) step(left.data + (k + u) * left.column, right.data + (k + u) * right.row);
  }
  for (; k < deep; ++k) step(left.data + k * left.column, right.data + k * right.row);

  MANSARD_UNROLL
  for (int m = 0; m < ROWS; ++m) {
    MANSARD_UNROLL
    for (int n = 0; n < VECTORS; ++n) {
      R* const to = out.data + m * out.row + n * S::LANES;
      if (n < VECTORS - 1) {
        store<S::LANES>(to, x.entries_of_c(sums[m][n], P::ACCUMULATE ? load<S::LANES>(to) : V{}));
      } else {
        end.store(to, x.entries_of_c(sums[m][n], P::ACCUMULATE ? end.load(to) : V{}));
      }
    }
  }
}

// Tile functions by number of rows and vectors. Not a static member of a template: the loader would merge it with those
// of other kernels.
template <class P>
struct RaggedTiles {
  RaggedTile<P> of[P::TILE_M][P::TILE_N];
};
template <class P, int... I>
RaggedTiles<P> ragged_tiles(std::integer_sequence<int, I...>) {
  RaggedTiles<P> tiles;
  ((tiles.of[I / P::TILE_N][I % P::TILE_N] = &ragged_tile<P, I / P::TILE_N + 1, I % P::TILE_N + 1>), ...);
  return tiles;
}

}  // namespace mansard
