// A = Q R of a batch of small matrices on CPUs: one matrix per SIMD lane, sizes are compile-time constants.
//
// Reflection k, LAPACK's conventions (geqrf): H_k = I - tau v v^H with v_k = 1, from column k; R has a real diagonal.
// Columns j > k:  a_j -= v conj(tau) (v^H a_j).
//
// Team. A vector holds the same entry of LANES matrices; a thread factors one group of LANES matrices after the other.
// Columns are taken in tiles of TILE_N: all earlier reflections are applied to a tile two at a time, one pass over its
// rows for the dot products and one for the update; then the tile is factored column by column.
//
// Workspace of a thread (QrShape, QrPlaces in reflections.hpp), vectors of LANES reals:
//   entries     PITCH * COLUMNS     A, then R and the vectors; right-hand sides behind it; column-major
//   orthogonal  PITCH * Q_COLUMNS   Q, formed from the identity by all reflections, the last one first
//   tau         K
//   relation    K                   v_(k+1)^H v_k for even k, to apply two reflections at once
//
// Phases: read; factor tile by tile, right-hand sides last; form Q, or substitute R X = Q^H B; write.
//
// Limits: multiply-adds; 61 to 64 % of their rate from 128 to 512 rows (Neoverse N1).
//
// Params beside T, M, N, NRHS, WANT, LAYOUT_A|F|Q|B|X, STACK_A|F|Q|B|X:
//   LANES    reals per vector: matrices at a time
//   TILE_N   columns per tile
#pragma once
#include "kernels/factor/qr/reflections.hpp"

namespace mansard {

// ---- columns ----------------------------------------------------------------------------------------------

// Apply all earlier reflections to a tile of columns from j on, then factor it; right-hand sides are only reflected.
template <class P, int COLUMNS>
MANSARD_INLINE void qr_tile(const QrPlaces<P>& at, int j) {
  using S = QrShape<P>;
  const int before = smaller(j, S::K);
  int k = 0;
#pragma GCC unroll 1
  for (; k + 2 <= before; k += 2) reflect_twice<P, COLUMNS, true>(at, k, at.entry(0, j));
  if (k < before) reflect<P, COLUMNS, true>(at, k, at.entry(0, j));
  MANSARD_UNROLL
  for (int c = 0; c < COLUMNS; ++c) {
    if (j + c >= S::K || j >= S::N) break;
    make_reflection<P>(at, j + c);
    if ((j + c) % 2) relate<P>(at, j + c - 1);
    const auto rest = [&](auto columns) __attribute__((always_inline)) {
      constexpr int WIDE = decltype(columns)::value;
      if constexpr (WIDE > 0) reflect<P, WIDE, true>(at, j + c, at.entry(0, j + c + 1));
    };
    for_count<COLUMNS>(COLUMNS - 1 - c, rest);
  }
}

template <class P>
MANSARD_INLINE void qr_factor(const QrPlaces<P>& at) {
  using S = QrShape<P>;
  for_tiles<P::TILE_N>(0, S::N, [&](int j, auto columns) __attribute__((always_inline)) {
    qr_tile<P, decltype(columns)::value>(at, j);
  });
  for_tiles<P::TILE_N>(S::N, S::COLUMNS, [&](int j, auto columns) __attribute__((always_inline)) {
    qr_tile<P, decltype(columns)::value>(at, j);
  });
}

// Form Q: the columns of the identity, reflected by the last reflection first.
template <class P>
MANSARD_INLINE void qr_generate(const QrPlaces<P>& at) {
  using S = QrShape<P>;
  using R = typename S::R;
  for_tiles<P::TILE_N>(0, S::Q_COLUMNS, [&](int j, auto columns) __attribute__((always_inline)) {
    constexpr int COLUMNS = decltype(columns)::value;
    for (int c = 0; c < COLUMNS; ++c)
      for (int i = 0; i < S::M; ++i)
        S::Entry::real(all_lanes<R, S::LANES>(i == j + c)).to(at.orthogonal(i, j + c));
    int k = smaller(j + COLUMNS, S::K);  // later reflections do not change these columns
    if (k % 2) reflect<P, COLUMNS, false>(at, --k, at.orthogonal(0, j));
#pragma GCC unroll 1
    for (k -= 2; k >= 0; k -= 2) reflect_twice<P, COLUMNS, false>(at, k, at.orthogonal(0, j));
  });
}

// Backward substitution R X = Q^H B; X replaces the right-hand sides.
template <class P>
MANSARD_INLINE void qr_substitute(const QrPlaces<P>& at) {
  using S = QrShape<P>;
  using Entry = typename S::Entry;
  for_tiles<P::TILE_N>(S::N, S::COLUMNS, [&](int j, auto columns) __attribute__((always_inline)) {
    constexpr int COLUMNS = decltype(columns)::value;
#pragma GCC unroll 1
    for (int k = S::N - 1; k >= 0; --k) {
      Entry known[COLUMNS];
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) {
        known[c] = (Entry::at(at.entry(k, j + c)) / Entry::at(at.entry(k, k))).kept();
        known[c].to(at.entry(k, j + c));
      }
#pragma GCC unroll 4
      for (int i = 0; i < k; ++i) {
        const Entry factor = Entry::at(at.entry(i, k)).kept();
        MANSARD_UNROLL
        for (int c = 0; c < COLUMNS; ++c) {
          Entry entry = Entry::at(at.entry(i, j + c));
          entry.subtract(factor, known[c]);
          entry.to(at.entry(i, j + c));
        }
      }
    }
  });
}

// ---- the batch --------------------------------------------------------------------------------------------

template <class P, class Arguments>
MANSARD_INLINE void qr_read(const Arguments& a, const QrPlaces<P>& at, i64 b, int count) {
  using S = QrShape<P>;
  using T = typename P::T;
  const Matrices<const T, P::STACK_A> A{a.A, a.a_matrix, a.a_row, a.a_col};
  read_group<S::M, S::N, P::LAYOUT_A != LayoutA::col>(
      Group<const T, S::LANES>(A, b, count),
      [&](int i, int j) __attribute__((always_inline)) { return at.entry(i, j); });
  if constexpr (P::WANT == Want::solve) {
    const Matrices<const T, P::STACK_B> B{a.B, a.b_matrix, a.b_row, a.b_col};
    read_group<S::M, P::NRHS, P::LAYOUT_B != LayoutB::col>(
        Group<const T, S::LANES>(B, b, count),
        [&](int i, int j) __attribute__((always_inline)) { return at.entry(i, S::N + j); });
  }
}

template <class P, class Arguments>
MANSARD_INLINE void write_r(const Arguments& a, const QrPlaces<P>& at, i64 b, int count) {
  using S = QrShape<P>;
  using T = typename P::T;
  if constexpr (P::WANT != Want::raw)
    for (int j = 0; j < S::K; ++j)
      for (int i = j + 1; i < S::M; ++i) typename S::Entry{}.to(at.entry(i, j));
  const Matrices<T, P::STACK_F> F{a.F, a.f_matrix, a.f_row, a.f_col};
  write_group<S::F_ROWS, S::N, P::LAYOUT_F != LayoutF::col>(
      Group<T, S::LANES>(F, b, count), [&](int i, int j, int word) __attribute__((always_inline)) {
        return load<S::LANES>(at.entry(i, j) + word * S::LANES);
      });
}

template <class P, class Arguments>
MANSARD_INLINE void qr_write(const Arguments& a, const QrPlaces<P>& at, i64 b, int count) {
  using S = QrShape<P>;
  using T = typename P::T;
  if constexpr (P::WANT == Want::raw) {
    const Matrices<T, StackF::strided> taus{a.TAU, S::K, 1, 1};
    write_group<S::K, 1, false>(Group<T, S::LANES>(taus, b, count),
                                [&](int i, int, int word) __attribute__((always_inline)) {
                                  return load<S::LANES>(at.tau(i) + word * S::LANES);
                                });
  }
  if constexpr (S::Q_COLUMNS > 0) {
    const Matrices<T, P::STACK_Q> Q{a.Q, a.q_matrix, a.q_row, a.q_col};
    write_group<S::M, S::Q_COLUMNS, P::LAYOUT_Q != LayoutQ::col>(
        Group<T, S::LANES>(Q, b, count), [&](int i, int j, int word) __attribute__((always_inline)) {
          return load<S::LANES>(at.orthogonal(i, j) + word * S::LANES);
        });
  }
  if constexpr (P::WANT == Want::solve) {
    const Matrices<T, P::STACK_X> X{a.X, a.x_matrix, a.x_row, a.x_col};
    write_group<S::N, P::NRHS, P::LAYOUT_X != LayoutX::col>(
        Group<T, S::LANES>(X, b, count), [&](int i, int j, int word) __attribute__((always_inline)) {
          return load<S::LANES>(at.entry(i, S::N + j) + word * S::LANES);
        });
  } else {
    write_r<P>(a, at, b, count);
  }
}

template <class P, class Arguments>
int qr_simd(const Arguments& a) {
  using S = QrShape<P>;
  const i64 products = a.BATCH * S::M * S::K * (S::COLUMNS + S::Q_COLUMNS);
  for_groups<S::LANES, S::WORKSPACE>(
      a.BATCH, a.threads, products, reinterpret_cast<typename S::R*>(a.partials),
      [&](i64 b, int count, typename S::R* workspace) __attribute__((always_inline)) {
        const QrPlaces<P> at{workspace};
        qr_read<P>(a, at, b, count);
        qr_factor<P>(at);
        if constexpr (S::Q_COLUMNS > 0) qr_generate<P>(at);
        if constexpr (P::WANT == Want::solve) qr_substitute<P>(at);
        qr_write<P>(a, at, b, count);
      });
  return 0;
}

}  // namespace mansard
