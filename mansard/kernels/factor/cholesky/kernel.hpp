// A = L L^H, or solutions of A X = B, for a batch of small matrices on CPUs: one matrix per SIMD lane.
//
// Tile of L in rows i and columns j, left-looking:  T = A_ij - sum over k < j of L_ik * L_jk^H. On the diagonal T is
// factored; below it L_ij = T L_jj^-H. The tile, TILE_M x TILE_N entries of LANES matrices, stays in registers.
//
// Team. A vector holds the same entry of LANES matrices. A thread takes GROUPS groups of LANES matrices in turn: while
// one waits for a square root, the other computes. The order N is a compile-time constant.
//
// Workspace of a group, vectors of LANES reals:
//   entries      PITCH * (N + NRHS)   A, then L; right-hand sides as further columns; column-major
//   reciprocals  N                    1 / l_kk
//
// Phases: read the lower triangles into lanes; factor tile by tile; check the last pivot of every lane; write L, or
// substitute forward and backward and write X. A matrix that is not positive definite fills its own lane with NaNs.
// Only then is the group factored again to find `info` (factor_again).
//
// Limits (Neoverse N1, float64): at 2 and 3 rows the latency of two roots and two quotients, about 60 clocks for a pair
// of matrices; 35 % of the multiply-add rate at 64 rows.
//
// Params beside T, N, NRHS (0: the factor is the result, else X), CONJ_B (conjugate right-hand sides and solutions),
// LAYOUT_A|F|B|X, STACK_A|F|B|X:
//   LANES           reals per vector: matrices at a time
//   TILE_M, TILE_N  rows and columns per register tile
//   GROUPS          groups of LANES matrices in turn
#pragma once
#include "mansard/cpu/groups.hpp"

namespace mansard {

template <class P>
struct CholeskyShape {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  using V = Vector<R, P::LANES>;
  using Entry = Number<T, P::LANES>;
  static constexpr int LANES = P::LANES, N = P::N;
  static constexpr int PITCH = N > 16 ? N | 1 : N;  // entries per column; odd where columns are long
  static constexpr int ENTRIES = PITCH * (N + P::NRHS);
  static constexpr int PER_GROUP = ENTRIES * Entry::REALS + N * LANES, WORKSPACE = P::GROUPS * PER_GROUP;
  static_assert(LANES >= 2 && LANES <= native_lanes<R>);
};

// Addresses in the workspace of a group.
template <class P>
struct CholeskyPlaces {
  using S = CholeskyShape<P>;
  using R = typename S::R;
  R* workspace;

  // Entry (i, j) of A or L; columns from N on are right-hand sides.
  MANSARD_INLINE R* entry(int i, int j) const { return workspace + (j * S::PITCH + i) * S::Entry::REALS; }
  MANSARD_INLINE R* reciprocal(int k) const { return workspace + S::ENTRIES * S::Entry::REALS + k * S::LANES; }
};

// ---- tiles ------------------------------------------------------------------------------------------------

// tile = A_ij - sum over k < j of L_ik * L_jk^H, for ROWS rows from i on and COLUMNS columns from j on.
template <class P, int ROWS, int COLUMNS>
MANSARD_INLINE void subtract_before(const CholeskyPlaces<P>& at, int i, int j,
                                    typename CholeskyShape<P>::Entry (&tile)[ROWS][COLUMNS]) {
  using Entry = typename CholeskyShape<P>::Entry;
  MANSARD_UNROLL
  for (int c = 0; c < COLUMNS; ++c) {
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r) tile[r][c] = Entry::at(at.entry(i + r, j + c));
  }
#pragma GCC unroll 1
  for (int k = 0; k < j; ++k) {
    Entry left[ROWS];
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r) left[r] = Entry::at(at.entry(i + r, k)).kept();
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      const Entry right = Entry::at(at.entry(j + c, k)).conjugate().kept();
      MANSARD_UNROLL
      for (int r = 0; r < ROWS; ++r) tile[r][c].subtract(left[r], right);
    }
  }
}

// Factor column c of a diagonal tile and update the tile's columns behind it. CAREFUL: `info` becomes the order of the
// first minor that is not positive.
template <class P, int COLUMNS, bool CAREFUL>
MANSARD_INLINE void diagonal_column(const CholeskyPlaces<P>& at, int j, int c,
                                    typename CholeskyShape<P>::Entry (&tile)[COLUMNS][COLUMNS],
                                    typename CholeskyShape<P>::V& info) {
  using S = CholeskyShape<P>;
  using R = typename S::R;
  using V = typename S::V;
  const V pivot = tile[c][c].re;
  if constexpr (CAREFUL) {
    const auto fails = !greater<R, S::LANES>(pivot, V{}) & equal<R, S::LANES>(info, V{});
    info = select<R, S::LANES>(fails, all_lanes<R, S::LANES>(static_cast<R>(j + c + 1)), info);
  }
  const V root = square_root<R, S::LANES>(pivot), reciprocal = 1 / root;
  S::Entry::real(root).to(at.entry(j + c, j + c));
  store<S::LANES>(at.reciprocal(j + c), reciprocal);
  MANSARD_UNROLL
  for (int r = c + 1; r < COLUMNS; ++r) {
    tile[r][c] = tile[r][c] * reciprocal;
    tile[r][c].to(at.entry(j + r, j + c));
  }
  MANSARD_UNROLL
  for (int next = c + 1; next < COLUMNS; ++next) {
    MANSARD_UNROLL
    for (int r = next; r < COLUMNS; ++r) tile[r][next].subtract(tile[r][c], tile[next][c].conjugate());
  }
}

// Factor the diagonal tiles of several groups, column by column in turn: while one waits for its root, the others
// compute. `last` receives their last pivots.
template <class P, int COLUMNS, bool CAREFUL, int GROUPS>
MANSARD_INLINE void diagonal_tiles(const CholeskyPlaces<P> (&at)[GROUPS], int j,
                                   typename CholeskyShape<P>::V (&last)[GROUPS], typename CholeskyShape<P>::V& info) {
  typename CholeskyShape<P>::Entry tiles[GROUPS][COLUMNS][COLUMNS];
  MANSARD_UNROLL
  for (int g = 0; g < GROUPS; ++g) subtract_before<P, COLUMNS, COLUMNS>(at[g], j, j, tiles[g]);
  MANSARD_UNROLL
  for (int c = 0; c < COLUMNS; ++c) {
    MANSARD_UNROLL
    for (int g = 0; g < GROUPS; ++g) diagonal_column<P, COLUMNS, CAREFUL>(at[g], j, c, tiles[g], info);
  }
  MANSARD_UNROLL
  for (int g = 0; g < GROUPS; ++g) last[g] = tiles[g][COLUMNS - 1][COLUMNS - 1].re;
}

// A tile below the diagonal tile of columns j: L_ij = (A_ij - sum) L_jj^-H.
template <class P, int ROWS, int COLUMNS>
MANSARD_INLINE void tile_below(const CholeskyPlaces<P>& at, int i, int j) {
  using S = CholeskyShape<P>;
  using Entry = typename S::Entry;
  Entry tile[ROWS][COLUMNS];
  subtract_before<P, ROWS, COLUMNS>(at, i, j, tile);
  MANSARD_UNROLL
  for (int c = 0; c < COLUMNS; ++c) {
    MANSARD_UNROLL
    for (int before = 0; before < c; ++before) {
      const Entry right = Entry::at(at.entry(j + c, j + before)).conjugate();
      MANSARD_UNROLL
      for (int r = 0; r < ROWS; ++r) tile[r][c].subtract(tile[r][before], right);
    }
    const auto reciprocal = load<S::LANES>(at.reciprocal(j + c));
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r) {
      tile[r][c] = tile[r][c] * reciprocal;
      tile[r][c].to(at.entry(i + r, j + c));
    }
  }
}

// ---- one group --------------------------------------------------------------------------------------------

// Factor all columns. `last` is positive only if all pivots were: the NaN of a failed root spreads to all later ones.
template <class P, bool CAREFUL, int GROUPS>
MANSARD_INLINE void factor_groups(const CholeskyPlaces<P> (&at)[GROUPS], typename CholeskyShape<P>::V (&last)[GROUPS],
                                  typename CholeskyShape<P>::V& info) {
  using S = CholeskyShape<P>;
  Pieces<S::N, P::TILE_N>::for_each([&](int j, auto width) __attribute__((always_inline)) {
    constexpr int COLUMNS = decltype(width)::value;
    diagonal_tiles<P, COLUMNS, CAREFUL>(at, j, last, info);
    for_tiles<P::TILE_M>(j + COLUMNS, S::N, [&](int i, auto height) __attribute__((always_inline)) {
      MANSARD_UNROLL
      for (int g = 0; g < GROUPS; ++g) tile_below<P, decltype(height)::value, COLUMNS>(at[g], i, j);
    });
  });
}

// Forward and backward substitution for COLUMNS right-hand sides from column j on. Each unknown is subtracted from the
// remaining rows as soon as it is known.
template <class P, int COLUMNS>
MANSARD_INLINE void substitute(const CholeskyPlaces<P>& at, int j) {
  using S = CholeskyShape<P>;
  using Entry = typename S::Entry;
  const auto spread = [&](int k, int begin, int end, auto factor) __attribute__((always_inline)) {
    Entry known[COLUMNS];
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      known[c] = (Entry::at(at.entry(k, j + c)) * load<S::LANES>(at.reciprocal(k))).kept();
      known[c].to(at.entry(k, j + c));
    }
#pragma GCC unroll 4
    for (int i = begin; i < end; ++i) {
      const Entry of_row = factor(i, k).kept();
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) {
        Entry entry = Entry::at(at.entry(i, j + c));
        entry.subtract(of_row, known[c]);
        entry.to(at.entry(i, j + c));
      }
    }
  };
#pragma GCC unroll 1
  for (int k = 0; k < S::N; ++k)
    spread(k, k + 1, S::N, [&](int i, int k) __attribute__((always_inline)) { return Entry::at(at.entry(i, k)); });
#pragma GCC unroll 1
  for (int k = S::N - 1; k >= 0; --k)
    spread(k, 0, k, [&](int i, int k) __attribute__((always_inline)) { return Entry::at(at.entry(k, i)).conjugate(); });
}

template <class P>
MANSARD_INLINE void conjugate_right(const CholeskyPlaces<P>& at) {
  using S = CholeskyShape<P>;
  for (int j = S::N; P::CONJ_B && j < S::N + P::NRHS; ++j)
    for (int i = 0; i < S::N; ++i) S::Entry::at(at.entry(i, j)).conjugate().to(at.entry(i, j));
}

// ---- the batch --------------------------------------------------------------------------------------------

// Write L with zeros above the diagonal. Where write_group reads entries above the diagonal from the workspace, zeros
// are stored there first: in vectors shared with the diagonal, or everywhere if it does not write line by line.
template <class P, class Arguments>
MANSARD_INLINE void write_factor(const Arguments& a, const CholeskyPlaces<P>& at, i64 b, int count) {
  using S = CholeskyShape<P>;
  using T = typename P::T;
  constexpr bool KNOWN = written_out<T, S::LANES, S::N, S::N>;  // indices are compile-time constants
  constexpr int TOGETHER = larger(1, S::LANES / S::Entry::WORDS);
  const bool by_lines =
      !as_one_line<T, S::LANES, S::N, S::N> && (P::LAYOUT_F != LayoutF::col ? a.f_col : a.f_row) == 1;
  for (int j = 1; !KNOWN && j < S::N; ++j)
    for (int i = by_lines ? j / TOGETHER * TOGETHER : 0; i < j; ++i) typename S::Entry{}.to(at.entry(i, j));
  const Matrices<T, P::STACK_F> F{a.F, a.f_matrix, a.f_row, a.f_col};
  write_group<S::N, S::N, P::LAYOUT_F != LayoutF::col, LowerTriangle>(
      Group<T, S::LANES>(F, b, count), [&](int i, int j, int word) __attribute__((always_inline)) {
        return KNOWN && i < j ? typename S::V{} : load<S::LANES>(at.entry(i, j) + word * S::LANES);
      });
}

template <class P, class Arguments>
MANSARD_INLINE void solve_right(const Arguments& a, const CholeskyPlaces<P>& at, i64 b, int count) {
  using S = CholeskyShape<P>;
  using T = typename P::T;
  const Matrices<const T, P::STACK_B> B{a.B, a.b_matrix, a.b_row, a.b_col};
  const Matrices<T, P::STACK_X> X{a.X, a.x_matrix, a.x_row, a.x_col};
  read_group<S::N, P::NRHS, P::LAYOUT_B != LayoutB::col>(
      Group<const T, S::LANES>(B, b, count),
      [&](int i, int j) __attribute__((always_inline)) { return at.entry(i, S::N + j); });
  conjugate_right<P>(at);
  for_tiles<P::TILE_N>(S::N, S::N + P::NRHS, [&](int j, auto columns) __attribute__((always_inline)) {
    substitute<P, decltype(columns)::value>(at, j);
  });
  conjugate_right<P>(at);
  write_group<S::N, P::NRHS, P::LAYOUT_X != LayoutX::col>(
      Group<T, S::LANES>(X, b, count), [&](int i, int j, int word) __attribute__((always_inline)) {
        return load<S::LANES>(at.entry(i, S::N + j) + word * S::LANES);
      });
}

template <class P, class Arguments>
MANSARD_INLINE void read_matrices(const Arguments& a, const CholeskyPlaces<P>& at, i64 b, int count) {
  using S = CholeskyShape<P>;
  using T = typename P::T;
  const Matrices<const T, P::STACK_A> A{a.A, a.a_matrix, a.a_row, a.a_col};
  read_group<S::N, S::N, P::LAYOUT_A != LayoutA::col, LowerTriangle>(
      Group<const T, S::LANES>(A, b, count),
      [&](int i, int j) __attribute__((always_inline)) { return at.entry(i, j); });
}

// Factor a group again and find `info`, for matrices with a pivot that is not positive, or infinite. 1 x 1 tiles, since
// it need not be fast.
template <class P>
struct OneByOne : P {
  static constexpr int TILE_M = 1, TILE_N = 1, GROUPS = 1;
};
template <class P, class Arguments>
__attribute__((noinline, cold)) void factor_again(const Arguments& a, typename CholeskyShape<P>::R* workspace, i64 b,
                                                  int count) {
  using S = CholeskyShape<P>;
  using T = const typename P::T;
  const CholeskyPlaces<OneByOne<P>> at[1] = {{workspace}};
  const Group<T, S::LANES> group(Matrices<T, P::STACK_A>{a.A, a.a_matrix, a.a_row, a.a_col}, b, count);
  for (int i = 0; i < S::N; ++i)
    Lines<T, S::LANES, S::N>::read_spread(group.matrices, i * group.row, group.column,
                                          [&](int j) __attribute__((always_inline)) { return at[0].entry(i, j); });
  typename S::V info{}, last[1];
  factor_groups<OneByOne<P>, true>(at, last, info);
  for (int lane = 0; lane < count; ++lane) a.INFO[b + lane] = static_cast<int>(info[lane]);
}

template <class P, class Arguments>
MANSARD_INLINE void cholesky_groups(const Arguments& a, i64 b, int count, typename CholeskyShape<P>::R* workspace) {
  using S = CholeskyShape<P>;
  using R = typename S::R;
  using V = typename S::V;
  CholeskyPlaces<P> at[P::GROUPS];
#pragma GCC unroll 1
  for (int g = 0; g < P::GROUPS; ++g) {
    at[g] = {workspace + g * S::PER_GROUP};
    const int others = smaller(g * S::LANES, count - 1);
    read_matrices<P>(a, at[g], b + others, count - others);
  }
  V none{}, last[P::GROUPS];
  factor_groups<P, false>(at, last, none);
#pragma GCC unroll 1
  for (int g = 0; g < P::GROUPS; ++g) {
    const i64 first = b + g * S::LANES;
    const int rest = smaller(count - g * S::LANES, S::LANES);
    const auto fine = greater<R, S::LANES>(last[g], V{}) &
                      greater<R, S::LANES>(all_lanes<R, S::LANES>(std::numeric_limits<R>::infinity()), last[g]);
    if (rest <= 0) return;
    MANSARD_UNROLL  // keeps the compiler from calling memset
    for (int lane = 0; lane < S::LANES; ++lane)
      if (lane < rest) a.INFO[first + lane] = 0;
    if (__builtin_expect((!fine).any(), false)) factor_again<P>(a, at[g].workspace, first, rest);
    if constexpr (P::NRHS > 0) solve_right<P>(a, at[g], first, rest);
    else write_factor<P>(a, at[g], first, rest);
  }
}

template <class P, class Arguments>
int cholesky_simd(const Arguments& a) {
  using S = CholeskyShape<P>;
  const i64 products = a.BATCH * S::N * S::N * (S::N / 6 + 1 + P::NRHS);
  for_groups<P::GROUPS * S::LANES, S::WORKSPACE>(
      a.BATCH, a.threads, products, reinterpret_cast<typename S::R*>(a.partials),
      [&](i64 b, int count, typename S::R* workspace) __attribute__((always_inline)) {
        cholesky_groups<P>(a, b, count, workspace);
      });
  return 0;
}

}  // namespace mansard
