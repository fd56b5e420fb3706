// A^-1 by Gauss-Jordan elimination in the registers of a team of lanes; each lane holds whole rows (search.cuh).
//
// Step k, pivot row p:  m_i = -a_ik / a_pk;  a_ij += m_i * a_pj for all i != p and j != k;  a_ik = m_i;  a_pk = 1.
// Column k would become a unit vector; it holds column p of the transformed unit matrix instead. Rows are divided by
// their pivots only at the end, so that numbers stay in the range of those of L and U.
//
// All steps are alike and share their code (ROLLED): columns move by one register in every step, so that the pivot
// column is always in register 0, and after N steps all are back. Column k + 1 is updated first and searched during the
// rest of the update. Barrier (VIA shared): one __syncwarp per step -> line k % 2 -> the owner of the pivot row.
#pragma once
#include "kernels/factor/lu/search.cuh"

namespace mansard {

template <class P, int LANES>
struct Jordan : TeamRows<P, LANES> {
  using Base = TeamRows<P, LANES>;
  using typename Base::T;
  using Base::a, Base::carried, Base::inverse, Base::mask, Base::most, Base::order;
  using Base::carry, Base::choose, Base::divide, Base::each_of, Base::exchange, Base::has, Base::keep, Base::owner_of;
  using Base::search, Base::signed_entry, Base::vote;
  using Base::N, Base::SLOTS, Base::TEAMS, Base::SHARED, Base::LINE;

  using Base::Base;

  MANSARD_DEVICE void invert(const Steps<T>& steps) {
    search_next(0);
    if constexpr (P::ROLLED) {
MANSARD_UNROLL_BY(1)
      for (int k = 0; k < N; ++k) step(steps, k);
    } else {
      MANSARD_UNROLL
      for (int k = 0; k < N; ++k) step(steps, k);
    }
  }

  // Calls put(row, column, entry) for the lane's entries of the inverse; all lanes of the team have finished.
  template <class Put>
  MANSARD_DEVICE void give(const Steps<T>& steps, Put put) const {
    T by[SLOTS];
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) by[q] = steps.inverted[has(q) ? mask[q] : 0];
    MANSARD_UNROLL
    for (int j = 0; j < N; ++j) {
      const int column = steps.exchanged[j];
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q)
        if (has(q)) put(mask[q], column, product_of<false>(a[q][j], by[q]));
    }
  }

 private:
  MANSARD_DEVICE void search_next(int k) {
    T column[SLOTS];
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) column[q] = a[q][0];
    search(column, k);
  }

  MANSARD_DEVICE void step(const Steps<T>& steps, int k) {
    T multiple[SLOTS], left[SLOTS];  // m_i; new entries of column k
    const int source = decide(steps, k, multiple);
    bool mine[SLOTS];
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) mine[q] = order[q] == most;
    exchange(mine, steps, source, 0, k);
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      if (mine[q]) mask[q] = k;
      left[q] = chosen(mine[q], from_real<T>(1), multiple[q]);
      multiple[q] = chosen(mine[q], zero<T>(), multiple[q]);
    }
    T* line = carried + (SHARED ? k % 2 * TEAMS * LINE : 0);
    if constexpr (SHARED) carry(line, mine, 0);
    const auto sent = [&](const int j) {
      T u = a[0][j];
      MANSARD_UNROLL
      for (int q = 1; q < SLOTS; ++q) u = chosen(mine[q], a[q][j], u);
      return lane_value<LANES>(u, source);
    };
    const auto update = [&](const int j, T u) {
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) {
        a[q][j - 1] = a[q][j];
        multiply_add<false>(a[q][j - 1], multiple[q], u);
      }
    };
    if constexpr (N > 1) update(1, sent(1));
    search_next(k + 1);
    if constexpr (SHARED) {
      __syncwarp();  // line k % 2 is complete, written by the owner of the pivot row
      each_of(line, 1, update);
    } else {
      MANSARD_UNROLL
      for (int j = 2; j < N; ++j) update(j, sent(j));
    }
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) a[q][N - 1] = left[q];
  }

  // Find the lane that owns the pivot row, and the multipliers m_i.
  MANSARD_DEVICE int decide(const Steps<T>& steps, int k, T (&multiple)[SLOTS]) {
    const auto votes = vote();
    const bool found = votes.decide();
    int source = owner_of(votes.lanes);
    const T by = lane_value<LANES>(inverse, source);
    if (__builtin_expect(found, true)) {
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) multiple[q] = product_of<false>(signed_entry(q, 0), by);
      keep(steps, by, k);
    } else {
      source = owner_of(choose(0, k));
      divide(multiple, steps, source, 0, k);
    }
    return source;
  }
};

}  // namespace mansard
