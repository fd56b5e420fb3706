// P A = L U of a batch of small matrices on CPUs: one matrix per SIMD lane, sizes are compile-time constants.
//
// Step k:  p = argmax |a_ik| over rows that were no pivot row yet;  l_ik = a_ik / a_pk;  a_ij -= l_ik * a_pj, j > k.
//
// Team. A vector holds the same entry of LANES matrices; a thread factors one group of LANES matrices after the other.
// Rows are not exchanged: the pivot row differs from lane to lane, and exchanging would cost more than the elimination.
// A finished pivot row takes part in later steps with multiplier zero. Entries of a pivot row are gathered, or selected
// among all rows where there are at most 6 (SELECTED). Every row carries a key, SIZE * place + row: `place` is the
// row's index after LAPACK's exchanges. Among equal magnitudes the smallest key is LAPACK's choice.
//
// Workspace of a thread (LuShape, LuPlaces in results.hpp), vectors of LANES reals:
//   entries      PITCH * COLUMNS        A, followed by RIGHT right-hand sides; column-major
//   multipliers  PITCH * K, or PITCH    column k of L, zero in finished rows; a single column if there is one panel
//   upper        ENTRIES if RIGHT > 0   rows of U and of L^-1 P B, in pivot order; X replaces the latter
//   keys         M                      key of every row
//   rows         M                      pivot row of step k
//   places       K                      place of that row before step k, as LAPACK counts: its pivot index
//
// Phases: read a group into lanes; for every panel of PANEL columns apply all earlier steps, STEPS at a time, then
// factor it column by column; substitute backward (RIGHT > 0); write. Right-hand sides are columns behind those of A.
//
// Limits: every step updates all rows, finished ones included, and has keys and masks on top. Solves reach about 3, 6,
// 10, 14, 18 % of one core's peak at 4, 8, 16, 32, 64 rows (AVX-512, float64).
//
// Params beside T, M, N, NRHS, WANT, PIVOT, LAYOUT_A|F|B|X, STACK_A|F|B|X:
//   LANES    reals per vector: matrices at a time
//   PANEL    columns per panel
//   TILE_N   columns whose entries of a pivot row stay in registers
//   STEPS    earlier steps applied together to a panel
#pragma once
#include "kernels/factor/lu/results.hpp"

namespace mansard {

// ---- the choice of a pivot --------------------------------------------------------------------------------

// Key of the pivot row of step `k` in every lane: the row with the largest entry of column k; among equal ones, the row
// with the smallest place.
template <class P, class R = typename LuShape<P>::R>
MANSARD_INLINE typename LuShape<P>::V chosen_key(const LuPlaces<P>& at, int k) {
  using S = LuShape<P>;
  using V = typename S::V;
  constexpr int WAYS = smaller(S::M, 4);  // independent chains of maxima (and minima), to hide the latency
  const auto size = [&](int i) __attribute__((always_inline)) { return S::Entry::at(at.entry(i, k)).magnitude(); };
  V best[WAYS], total{}, found[WAYS];
  MANSARD_UNROLL
  for (int way = 0; way < WAYS; ++way) best[way] = all_lanes<R, S::LANES>(-1), found[way] = S::done();
  for_range<S::UNROLLED>(0, S::M, [&](int i) __attribute__((always_inline)) {
    const V magnitude = size(i);
    total += magnitude;
    const V open = select<R, S::LANES>(equal<R, S::LANES>(at.key(i), S::done()), best[0], magnitude);
    best[0] = larger_of<R, S::LANES>(open, best[0]);
    MANSARD_UNROLL
    for (int way = 0; way + 1 < WAYS; ++way) std::swap(best[way], best[way + 1]);
  });
  MANSARD_UNROLL
  for (int way = 1; way < WAYS; ++way) best[0] = larger_of<R, S::LANES>(best[way], best[0]);
  for_range<S::UNROLLED>(0, S::M, [&](int i) __attribute__((always_inline)) {
    const V candidate = select<R, S::LANES>(equal<R, S::LANES>(size(i), best[0]), at.key(i), S::done());
    found[0] = smaller_of<R, S::LANES>(candidate, found[0]);
    MANSARD_UNROLL
    for (int way = 0; way + 1 < WAYS; ++way) std::swap(found[way], found[way + 1]);
  });
  MANSARD_UNROLL
  for (int way = 1; way < WAYS; ++way) found[0] = smaller_of<R, S::LANES>(found[way], found[0]);
  if ((!equal<R, S::LANES>(total, total)).any()) {  // as LAPACK: row k wins if it, or every row, is NaN
    for (int i = 0; i < S::M; ++i) {
      const auto first = greater<R, S::LANES>(S::key_of(k + 1, 0), at.key(i));
      const auto odd = !equal<R, S::LANES>(size(i), size(i));
      found[0] = select<R, S::LANES>(first & (odd | equal<R, S::LANES>(found[0], S::done())), at.key(i), found[0]);
    }
  }
  return found[0];
}

// ---- one panel --------------------------------------------------------------------------------------------

// Reads entries of the pivot row of step k, which is another row in every lane.
template <class P>
struct PivotRow {
  using S = LuShape<P>;
  using R = typename S::R;
  using Entry = typename S::Entry;
  typename S::Index rows;
  Mask<R, S::LANES> is[S::SELECTED ? S::M : 1];

  MANSARD_INLINE PivotRow(const LuPlaces<P>& at, int k) {
    if constexpr (P::PIVOT) rows = at.rows(k);
    if constexpr (S::SELECTED) {
      MANSARD_UNROLL
      for (int i = 0; i < S::M; ++i)
        is[i] = equal<R, S::LANES>(at.row(k), all_lanes<R, S::LANES>(static_cast<R>(i)));
    }
  }
  MANSARD_INLINE Entry entry(const LuPlaces<P>& at, int k, int j) const {
    if constexpr (!P::PIVOT) return Entry::at(at.entry(k, j));
    else if constexpr (S::SELECTED) {
      Entry found = Entry::at(at.entry(0, j));
      MANSARD_UNROLL
      for (int i = 1; i < S::M; ++i) found = pick(is[i], Entry::at(at.entry(i, j)), found);
      return found;
    } else {
      return Entry::gathered_at(at.entry(0, j), rows);
    }
  }
};

// a_ij -= l_ik * a_pj for COLUMNS columns from j on: the trailing update of step k.
template <class P, int COLUMNS>
MANSARD_INLINE void eliminate(const LuPlaces<P>& at, const PivotRow<P>& pivot, int k, int j) {
  using S = LuShape<P>;
  using Entry = typename S::Entry;
  Entry row[COLUMNS];
  MANSARD_UNROLL
  for (int c = 0; c < COLUMNS; ++c) {
    row[c] = pivot.entry(at, k, j + c);
    if constexpr (S::KEEPS_U) row[c].to(at.upper(k, j + c));
    row[c] = row[c].kept();
  }
  for_range<S::UNROLLED>(P::PIVOT ? 0 : k + 1, S::M, [&](int i) __attribute__((always_inline)) {
    const Entry multiplier = Entry::at(at.multiplier(k, i)).kept();
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      Entry entry = Entry::at(at.entry(i, j + c));
      entry.subtract(multiplier, row[c]);
      entry.to(at.entry(i, j + c));
    }
  });
}

// Step k: find the pivot row, form the multipliers of the other rows, update the columns up to `end`.
template <class P>
MANSARD_INLINE void lu_step(const LuPlaces<P>& at, LuState<P>& state, int k, int end) {
  using S = LuShape<P>;
  using R = typename S::R;
  using V = typename S::V;
  using Entry = typename S::Entry;
  V key{}, place{}, displaced_by{};
  if constexpr (P::PIVOT) {
    key = chosen_key<P>(at, k);
    place = S::place_of(key);
    at.choose(k, S::row_of(key, place), place);
    displaced_by = (place - static_cast<R>(k)) * static_cast<R>(S::SIZE);
  }
  const PivotRow<P> pivot(at, k);
  const Entry diagonal = pivot.entry(at, k, k);
  const Divisor<P> divisor(diagonal);
  state.note(k, diagonal, divisor.zero, place);
  if constexpr (S::KEEPS_U) diagonal.to(at.upper(k, k));
  divisor.use([&](auto divide) __attribute__((always_inline)) {
    for_range<S::UNROLLED>(P::PIVOT ? 0 : k + 1, S::M, [&](int i) __attribute__((always_inline)) {
      const Entry entry = Entry::at(at.entry(i, k)), quotient = divide(entry);
      if constexpr (!P::PIVOT) {
        quotient.to(at.multiplier(k, i));
        if constexpr (S::KEEPS_F) quotient.to(at.entry(i, k));
      } else {
        const V old = at.key(i);
        V now = select<R, S::LANES>(greater<R, S::LANES>(S::key_of(k + 1, 0), old), old + displaced_by, old);
        now = select<R, S::LANES>(equal<R, S::LANES>(old, key), S::done(), now);
        at.set_key(i, now);
        const auto closed = equal<R, S::LANES>(now, S::done());
        pick(closed, Entry{}, quotient).to(at.multiplier(k, i));
        if constexpr (S::KEEPS_F) pick(closed, entry, quotient).to(at.entry(i, k));
      }
    });
  });
  for_tiles<P::TILE_N>(k + 1, end, [&](int j, auto columns) __attribute__((always_inline)) {
    eliminate<P, decltype(columns)::value>(at, pivot, k, j);
  });
}

// ---- earlier steps on a later panel ------------------------------------------------------------------------

// Apply steps k .. k + STEPS - 1 to COLUMNS columns from j on: solve for rows of U, then update the other rows.
template <class P, int STEPS, int COLUMNS>
MANSARD_INLINE void apply_steps(const LuPlaces<P>& at, int k, int j) {
  using S = LuShape<P>;
  using Entry = typename S::Entry;
  Entry rows[STEPS][COLUMNS];
  MANSARD_UNROLL
  for (int s = 0; s < STEPS; ++s) {
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      rows[s][c] = P::PIVOT ? Entry::gathered_at(at.entry(0, j + c), at.rows(k + s))
                            : Entry::at(at.entry(k + s, j + c));
      MANSARD_UNROLL
      for (int before = 0; before < s; ++before)
        rows[s][c].subtract(P::PIVOT ? Entry::gathered_at(at.multiplier(k + before, 0), at.rows(k + s))
                                     : Entry::at(at.multiplier(k + before, k + s)),
                            rows[before][c]);
      if constexpr (S::KEEPS_U) rows[s][c].to(at.upper(k + s, j + c));
      if constexpr (!P::PIVOT && S::KEEPS_F) rows[s][c].to(at.entry(k + s, j + c));
      rows[s][c] = rows[s][c].kept();
    }
  }
#pragma GCC unroll 1
  for (int i = P::PIVOT ? 0 : k + STEPS; i < S::M; ++i) {
    Entry entries[COLUMNS];
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) entries[c] = Entry::at(at.entry(i, j + c));
    MANSARD_UNROLL
    for (int s = 0; s < STEPS; ++s) {
      const Entry multiplier = Entry::at(at.multiplier(k + s, i)).kept();
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) entries[c].subtract(multiplier, rows[s][c]);
    }
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) entries[c].to(at.entry(i, j + c));
  }
}

// Apply all steps before `end` to the columns [j, stop).
template <class P>
MANSARD_INLINE void apply_before(const LuPlaces<P>& at, int end, int j, int stop) {
  for_tiles<P::STEPS>(0, end, [&](int k, auto steps) __attribute__((always_inline)) {
    for_tiles<P::TILE_N>(j, stop, [&](int column, auto columns) __attribute__((always_inline)) {
      apply_steps<P, decltype(steps)::value, decltype(columns)::value>(at, k, column);
    });
  });
}

// ---- the batch --------------------------------------------------------------------------------------------

template <class P>
MANSARD_INLINE void lu_factor(const LuPlaces<P>& at, LuState<P>& state) {
  using S = LuShape<P>;
  if constexpr (P::PIVOT)
    for_range<S::UNROLLED>(0, S::M, [&](int i) __attribute__((always_inline)) { at.set_key(i, S::key_of(i, i)); });
  for_range<S::UNROLLED>(0, S::PANELS, [&](int panel) __attribute__((always_inline)) {
    const int begin = panel * P::PANEL, end = smaller(begin + P::PANEL, S::COLUMNS);
    if constexpr (S::PANELS > 1) apply_before<P>(at, smaller(begin, S::K), begin, end);
    for_range<S::UNROLLED>(begin, smaller(end, S::K),
                           [&](int k) __attribute__((always_inline)) { lu_step<P>(at, state, k, end); });
  });
}

// Backward substitution U X = Y. Y and X are the columns of `upper` behind U.
template <class P>
MANSARD_INLINE void lu_substitute(const LuPlaces<P>& at) {
  using S = LuShape<P>;
  using Entry = typename S::Entry;
  for_tiles<P::TILE_N>(S::N, S::COLUMNS, [&](int j, auto columns) __attribute__((always_inline)) {
    constexpr int COLUMNS = decltype(columns)::value;
    for_range<S::UNROLLED>(0, S::N, [&](int step) __attribute__((always_inline)) {
      const int k = S::N - 1 - step;
      const Entry diagonal = Entry::at(at.upper(k, k));
      Entry known[COLUMNS];
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) {
        known[c] = (Entry::at(at.upper(k, j + c)) / diagonal).kept();
        known[c].to(at.upper(k, j + c));
      }
      for_range<S::UNROLLED>(0, k, [&](int i) __attribute__((always_inline)) {
        const Entry factor = Entry::at(at.upper(i, k)).kept();
        MANSARD_UNROLL
        for (int c = 0; c < COLUMNS; ++c) {
          Entry entry = Entry::at(at.upper(i, j + c));
          entry.subtract(factor, known[c]);
          entry.to(at.upper(i, j + c));
        }
      });
    });
  });
}

template <class P, class Arguments>
MANSARD_INLINE void lu_group(const Arguments& a, i64 b, int count, typename LuShape<P>::R* workspace) {
  const LuPlaces<P> at{workspace};
  LuState<P> state;
  lu_read<P>(a, at, b, count);
  lu_factor<P>(at, state);
  if constexpr (LuShape<P>::RIGHT > 0) lu_substitute<P>(at);
  lu_write<P>(a, at, state, b, count);
}

template <class P, class Arguments>
int lu_simd(const Arguments& a) {
  using S = LuShape<P>;
  const i64 products = a.BATCH * S::M * S::COLUMNS * S::K / 2;
  for_groups<S::LANES, S::WORKSPACE>(
      a.BATCH, a.threads, products, reinterpret_cast<typename S::R*>(a.partials),
      [&](i64 b, int count, typename S::R* workspace) __attribute__((always_inline)) {
        lu_group<P>(a, b, count, workspace);
      });
  return 0;
}

}  // namespace mansard
