// How C leaves: one triangle, or both, one the mirror of the other; by way of an image in shared memory, or directly.
#pragma once
#include "kernels/batched/rank_k/factors.cuh"

namespace mansard {

template <int VALUE_>
struct Depth {
  static constexpr int VALUE = VALUE_;
};

// Operands as kernels see them. C is row-major or has arbitrary strides; a column-major C is the other triangle of its
// transpose, whose factors are conjugated the other way round. `factor` is the alpha of A with two factors.
template <class P, class Arguments>
struct Updated {
  decltype(place_of(Arguments::A, Layout::row, 0, 0, 0)) A;
  decltype(place_of(Arguments::B, Layout::row, 0, 0, 0)) B;  // A again where there is one factor
  decltype(place_of(Arguments::C, Layout::row, 0, 0, 0)) C;
  Scales scales, factor;

  MANSARD_DEVICE explicit Updated(const Arguments& x)
      : A(place_of(x.A, P::LAYOUT_A, x.a_matrix, x.a_row, x.a_col)),
        B(place_of(x.B, P::LAYOUT_B, x.b_matrix, x.b_row, x.b_col)),
        C(place_of(x.C, Layout::row, x.c_matrix, x.c_row, x.c_col)),
        scales{x.alpha_re, x.alpha_im, x.beta_re, x.beta_im},
        factor{x.alpha_re, P::CONJ_ALPHA ? -x.alpha_im : x.alpha_im, 0.0, 0.0} {}
};

template <class R>
MANSARD_DEVICE R real_part(R x) {
  return x;
}
template <class R>
MANSARD_DEVICE Complex<R> real_part(Complex<R> x) {
  return {x.re, R(0)};
}

template <class P, class S>
struct Triangle {
  using T = typename P::T;
  using C = typename S::C;
  static constexpr int N = P::N;
  static constexpr bool FULL = P::UPLO == Uplo::full, UPPER = P::UPLO == Uplo::upper;
  // Entries of a triangle by pairs of rows p and N - 1 - p, which have N + 1 entries together.
  static constexpr int WIDTH = N + 1, ENTRIES = (N + 1) / 2 * WIDTH;
  static constexpr int AT_ONCE = 4;  // entries of a thread that are under way together

  // Entry (row, column) of the lower triangle goes to place(row, column), or (column, row), or both.
  template <class At>
  static MANSARD_DEVICE void put(int row, int column, T entry, At at) {
    const T below = S::HERMITIAN && row == column ? real_part(entry) : entry;
    if constexpr (!UPPER) at(row, column, below);
    if constexpr (UPPER || FULL)
      if (UPPER || row != column) at(column, row, S::HERMITIAN ? conjugate(below) : below);
  }
  template <class Tile>
  static MANSARD_DEVICE void gather(const Tile& tile, T* image, const Scales& scales) {
    tile.for_each(scales, [&](int row, int column, T entry) {
      put(row, column, entry, [&](int i, int j, T x) { image[i * C::PITCH + j] = x; });
    });
  }

  static MANSARD_DEVICE T with_old(const Scales& scales, T entry, T old, bool is_diagonal) {
    const T sum = scales.with_old(entry, old);
    return S::HERMITIAN && is_diagonal ? real_part(sum) : sum;
  }

  // Store the images of `count` matrices; `memory` is where they begin, up to their shift.
  template <int THREADS, class Operands>
  static MANSARD_DEVICE void store(const T* memory, const T* image, const Operands& x, i64 first, int count, int rank) {
    if constexpr (FULL) {
      C::template store<THREADS, false>(memory, x.C, first, count, x.scales, rank);
      return;
    }
    const bool across = P::GROUP > 1 && is_batch_last(x.C);  // neighbouring threads have neighbouring matrices
    const auto each = [&](int begin, auto use) {
      MANSARD_UNROLL
      for (int j = 0; j < AT_ONCE; ++j) {
        const int e = begin + j * THREADS;
        const int m = P::GROUP == 1 ? 0 : across ? e % P::GROUP : e / ENTRIES;
        const int q = P::GROUP == 1 ? e : across ? e / P::GROUP : e % ENTRIES;
        const int pair = q / WIDTH, i = q % WIDTH;
        const int row = i <= pair ? pair : N - 1 - pair, column = i <= pair ? i : i - pair - 1;
        const bool again = N % 2 == 1 && pair == N / 2 && i > pair;  // the middle row is alone
        if (m >= count || q >= ENTRIES || again) continue;
        const int r = UPPER ? N - 1 - row : row, c = UPPER ? N - 1 - column : column;
        use(j, matrix_at(x.C.base, x.C.matrix, first + m) + r * x.C.line + c * x.C.step,
            image + m * C::MATRIX + r * C::PITCH + c, r == c);
      }
    };
MANSARD_UNROLL_BY(1)
    for (int begin = rank; begin < P::GROUP * ENTRIES; begin += AT_ONCE * THREADS) {
      T old[AT_ONCE];
      if constexpr (P::ACCUMULATE) each(begin, [&](int j, const T* at, const T*, bool) { old[j] = *at; });
      each(begin, [&](int j, T* at, const T* from, bool is_diagonal) {
        *at = P::ACCUMULATE ? with_old(x.scales, *from, old[j], is_diagonal) : *from;
      });
    }
  }

  // Store a tile from registers.
  template <class Tile, class Operands>
  static MANSARD_DEVICE void direct(const Tile& tile, const Operands& x, i64 index) {
    T* to = matrix_at(x.C.base, x.C.matrix, index);
    tile.for_each(x.scales, [&](int row, int column, T entry) {
      put(row, column, entry, [&](int i, int j, T value) {
        T* at = to + i * x.C.line + j * x.C.step;
        *at = P::ACCUMULATE ? with_old(x.scales, value, *at, i == j) : value;
      });
    });
  }
};

}  // namespace mansard
