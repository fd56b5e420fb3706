// P A = L U of a batch of tiny matrices on CPUs: one matrix per SIMD lane, all entries in registers.
//
// Step k:  p = argmax |a_ik| for i >= k;  exchange rows k and p by selects;  l_ik = a_ik / a_kk;  a_ij -= l_ik * a_kj.
//
// Team. A vector holds the same entry of LANES matrices; the M x COLUMNS vectors of a group are local variables, with
// all steps unrolled. Right-hand sides (or the unit matrix, for inverses) are columns behind those of A. Workspace: as
// in kernel.hpp; the group is read there first.
//
// Phases: read a group; factor; if a pivot of any lane is zero, or its reciprocal is not an ordinary number, factor the
// group again with kernel.hpp (`lu_again`); otherwise substitute backward and write.
//
// Limits: registers, though it wins even where the compiler spills a third of the matrix. The time to compile bounds
// the sizes in use.
//
// Params beside T, M, N, NRHS, WANT, PIVOT, LAYOUT_A|F|B|X, STACK_A|F|B|X:
//   LANES    reals per vector: matrices at a time
#pragma once
#include "kernels/factor/lu/kernel.hpp"

namespace mansard {

template <class P>
struct LuSmall {
  struct Again : P {
    static constexpr int PANEL = 64, TILE_N = 1, STEPS = 1;  // params of kernel.hpp for the fallback
  };
  using S = LuShape<Again>;
  using R = typename S::R;
  using V = typename S::V;
  using Entry = typename S::Entry;
  static constexpr int LANES = S::LANES, M = S::M, N = S::N, K = S::K, COLUMNS = S::COLUMNS;
  static constexpr int WORKSPACE = S::WORKSPACE;

  Entry entries[M][COLUMNS], reciprocals[K];
  V places[K];
  Mask<R, LANES> ordinary;

  MANSARD_INLINE explicit LuSmall(const LuPlaces<Again>& at) {
    MANSARD_UNROLL
    for (int i = 0; i < M; ++i) {
      MANSARD_UNROLL
      for (int j = 0; j < COLUMNS; ++j) entries[i][j] = Entry::at(at.entry(i, j));
    }
  }

  // Exchange row k with the row of the largest entry of column k; of equal entries the first wins. As in LAPACK, a NaN
  // is the pivot only if it stands in row k already.
  MANSARD_INLINE void exchange(int k) {
    V best = entries[k][k].magnitude();
    places[k] = all_lanes<R, LANES>(static_cast<R>(k));
    MANSARD_UNROLL
    for (int i = k + 1; i < M; ++i) {
      const V size = entries[i][k].magnitude();
      const auto larger = greater<R, LANES>(size, best);
      best = select<R, LANES>(larger, size, best);
      places[k] = select<R, LANES>(larger, all_lanes<R, LANES>(static_cast<R>(i)), places[k]);
    }
    MANSARD_UNROLL
    for (int i = k + 1; i < M; ++i) {
      const auto here = equal<R, LANES>(places[k], all_lanes<R, LANES>(static_cast<R>(i)));
      MANSARD_UNROLL
      for (int j = S::KEEPS_F ? 0 : k; j < COLUMNS; ++j) {
        const Entry up = pick(here, entries[i][j], entries[k][j]);
        entries[i][j] = pick(here, entries[k][j], entries[i][j]);
        entries[k][j] = up;
      }
    }
  }

  MANSARD_INLINE void factor() {
    constexpr R LEAST = 4 * std::numeric_limits<R>::min();
    MANSARD_UNROLL
    for (int k = 0; k < K; ++k) {
      if constexpr (P::PIVOT) exchange(k);
      const V size = entries[k][k].magnitude();
      const auto fine = greater<R, LANES>(size, all_lanes<R, LANES>(LEAST)) &
                        greater<R, LANES>(all_lanes<R, LANES>(1 / LEAST), size);
      ordinary = k == 0 ? fine : ordinary & fine;
      reciprocals[k] = Entry::real(all_lanes<R, LANES>(1)) / entries[k][k];
      MANSARD_UNROLL
      for (int i = k + 1; i < M; ++i) {
        entries[i][k] = entries[i][k] * reciprocals[k];
        MANSARD_UNROLL
        for (int j = k + 1; j < COLUMNS; ++j) entries[i][j].subtract(entries[i][k], entries[k][j]);
      }
    }
  }

  // Backward substitution U X = Y; X replaces Y in the columns behind U.
  MANSARD_INLINE void substitute() {
    MANSARD_UNROLL
    for (int k = N - 1; k >= 0; --k) {
      MANSARD_UNROLL
      for (int j = N; j < COLUMNS; ++j) {
        entries[k][j] = entries[k][j] * reciprocals[k];
        MANSARD_UNROLL
        for (int i = 0; i < k; ++i) entries[i][j].subtract(entries[i][k], entries[k][j]);
      }
    }
  }
};

// ---- the batch --------------------------------------------------------------------------------------------

template <class P, class Arguments>
MANSARD_INLINE void lu_write_small(const Arguments& a, const LuSmall<P>& all, i64 b, int count) {
  using S = LuSmall<P>;
  using T = typename P::T;
  constexpr int SHIFT = P::WANT == Want::factor ? 0 : S::N;  // first column of the result
  const auto entry = [&](int i, int j, int word) __attribute__((always_inline)) {
    return word == 0 ? all.entries[i][SHIFT + j].re : all.entries[i][SHIFT + j].imaginary();
  };
  if constexpr (P::WANT == Want::solve) {
    const Matrices<T, P::STACK_X> X{a.X, a.x_matrix, a.x_row, a.x_col};
    write_group<S::N, P::NRHS, P::LAYOUT_X != LayoutX::col>(Group<T, S::LANES>(X, b, count), entry);
  } else {
    const Matrices<T, P::STACK_F> F{a.F, a.f_matrix, a.f_row, a.f_col};
    write_group<S::M, S::N, P::LAYOUT_F != LayoutF::col>(Group<T, S::LANES>(F, b, count), entry);
  }
  MANSARD_UNROLL
  for (int lane = 0; lane < S::LANES; ++lane) {
    if (lane >= count) return;
    a.INFO[b + lane] = 0;
    MANSARD_UNROLL
    for (int k = 0; P::WANT == Want::factor && k < S::K; ++k)
      a.PIVOTS[(b + lane) * S::K + k] = P::PIVOT ? static_cast<int>(all.places[k][lane]) : k;
  }
}

// Factor a group again with kernel.hpp, which handles zero and extreme pivots.
template <class P, class Arguments>
__attribute__((noinline, cold)) void lu_again(const Arguments& a, typename LuSmall<P>::R* workspace, i64 b, int count) {
  lu_group<typename LuSmall<P>::Again>(a, b, count, workspace);
}

template <class P, class Arguments>
int lu_small(const Arguments& a) {
  using S = LuSmall<P>;
  const i64 products = a.BATCH * S::M * S::COLUMNS * S::K / 2;
  for_groups<S::LANES, S::WORKSPACE>(
      a.BATCH, a.threads, products, reinterpret_cast<typename S::R*>(a.partials),
      [&](i64 b, int count, typename S::R* workspace) __attribute__((always_inline)) {
        const LuPlaces<typename S::Again> at{workspace};
        lu_read<typename S::Again>(a, at, b, count);
        S all(at);
        all.factor();
        if (__builtin_expect((!all.ordinary).any(), false)) return lu_again<P>(a, workspace, b, count);
        if constexpr (S::COLUMNS > S::N) all.substitute();
        lu_write_small<P>(a, all, b, count);
      });
  return 0;
}

}  // namespace mansard
