// Q = H_0 H_1 ... H_(K-1) from the vectors in shared memory: reflections applied to the unit matrix, the last one
// first.
//
// A thread holds rows and columns of Q as it did of A (team.cuh). Step k:  q_j -= v tau (v^H q_j). Vectors are only
// read and Q is written after the last step, so that threads of different columns need no barrier.
#pragma once
#include "kernels/factor/qr/factor.cuh"

namespace mansard {

template <class P, int WIDTH>
struct Orthogonal {
  using T = typename P::T;
  using Group = Team<P>;
  using Place = Workplace<P>;
  using Columns = Factor<P>;
  static constexpr int M = P::M, K = Columns::K, LM = Group::ROWS, LN = Group::COLUMNS, SLOTS = Columns::SLOTS;
  static constexpr int COLUMNS = ceil_div(WIDTH, LN);
  // steps that share code: one without ROLL; otherwise those of ROLL slots of rows and of one slot of columns
  static constexpr int SOME = P::ROLL > 0 ? P::ROLL * LM : 1;
  static constexpr int RUN = SOME < LN || P::ROLL == 0 ? SOME : LN;

  const Group& team;
  const Place& place;
  T q[COLUMNS][SLOTS];

  MANSARD_DEVICE void run() {
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c)
      MANSARD_UNROLL
      for (int r = 0; r < SLOTS; ++r)
        q[c][r] = from_real<T>(team.row + r * LM == team.column + c * LN ? 1 : 0);
    runs<(K - 1) / RUN>();
  }

  template <int WHICH>
  MANSARD_DEVICE void runs() {
    constexpr int BEGIN = WHICH * RUN, END = BEGIN + RUN < K ? BEGIN + RUN : K;
MANSARD_UNROLL_BY(1)
    for (int k = END - 1; k >= BEGIN; --k) step<BEGIN / LM, BEGIN / LN>(k);
    if constexpr (WHICH > 0) runs<WHICH - 1>();
  }

  // Apply H_k. It does not change rows before k, nor columns before k, which are still those of the unit matrix.
  template <int FIRST, int SLOT>
  MANSARD_DEVICE void step(int k) {
    const T* from = place.at(team.row, k);
    const T tau = place.tau[k];
    T v[SLOTS - FIRST], by[COLUMNS - SLOT];
    // entry of v; with `again` it is loaded anew, so that long vectors do not stay in registers
    const auto entry = [&](int r, bool again) {
      const int i = team.row + r * LM;
      T found = from_real<T>(i == k ? 1 : 0);
      if (i > k && (M % LM == 0 || i < M))
        found = again ? Columns::once_more(from + r * LM * Place::ROW) : from[r * LM * Place::ROW];
      return found;
    };
    MANSARD_UNROLL
    for (int r = FIRST; r < SLOTS; ++r) v[r - FIRST] = entry(r, false);
    MANSARD_UNROLL
    for (int c = SLOT; c < COLUMNS; ++c) {
      T sums[2] = {};
      MANSARD_UNROLL
      for (int r = FIRST; r < SLOTS; ++r) multiply_add<true>(sums[r % 2], v[r - FIRST], q[c][r]);
      add_to(sums[0], sums[1]);
      by[c - SLOT] = product_of<false>(tau, Group::sum(sums[0]));
    }
    MANSARD_UNROLL
    for (int r = FIRST; r < SLOTS; ++r) {
      const T mine = Columns::TWICE ? entry(r, true) : v[r - FIRST];
      MANSARD_UNROLL
      for (int c = SLOT; c < COLUMNS; ++c) multiply_subtract<false>(q[c][r], mine, by[c - SLOT]);
    }
  }

  // Write Q to shared memory, as rows or columns of PITCH entries.
  template <bool ROW_MAJOR, int PITCH>
  MANSARD_DEVICE void lay(T* to) const {
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c)
      MANSARD_UNROLL
      for (int r = 0; r < SLOTS; ++r) {
        const int i = team.row + r * LM, j = team.column + c * LN;
        if (i < M && j < WIDTH) to[ROW_MAJOR ? i * PITCH + j : j * PITCH + i] = q[c][r];
      }
  }
};

}  // namespace mansard
