// Columns of a matrix in the registers of a few lanes, reduced by steps of which ROLL share their code.
//
// Lane r of a team owns the whole columns r, r + LANES, ...: a[s][i] = A(i, r + s LANES) at first. The registers of ROLL
// rows move by one place in every step, so that row k is always at place FIRST, the first of them; after ROLL steps they
// are back. Rows of them that are done are at the end: vectors in shared memory, which have the same order, are zero
// there.
#pragma once
#include "kernels/factor/two_sided/exchange.cuh"
#include "kernels/factor/two_sided/scaling.cuh"

namespace mansard {

template <class P>
struct RolledColumns {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N, LANES = P::LANES, SLOTS = ceil_div(N, LANES), ROLL = P::ROLL;
  static constexpr int ROWS = ceil_div(N, ROLL) * ROLL;  // registers of a column; rows beyond the matrix are zero
  static constexpr int PADDED = padded<T>(ROWS), SIZE = Chunk<T>::SIZE;
  static_assert(LANES % ROLL == 0 && (ROLL & (ROLL - 1)) == 0, "the columns of steps that share code are in one slot");

  const int rank;    // of this lane in its team
  T a[SLOTS][ROWS];  // columns rank + s LANES

  MANSARD_DEVICE explicit RolledColumns(int rank) : rank(rank) {}

  MANSARD_DEVICE int column(int s) const { return rank + s * LANES; }
  MANSARD_DEVICE bool has_column(int s) const { return N % LANES == 0 || s + 1 < SLOTS || column(s) < N; }

  // Scale by a power of two; returns the key of the largest entry (scaling.cuh).
  MANSARD_DEVICE int scale() {
    Magnitude<R> largest;
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s)
      MANSARD_UNROLL
      for (int i = 0; i < N; ++i) largest.add(a[s][i]);
    const int key = team_max<LANES>(largest.key());
    const R factor = Magnitude<R>::factor(key);
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s)
      MANSARD_UNROLL
      for (int i = 0; i < N; ++i) a[s][i] = by_real(a[s][i], factor);
    return key;
  }

  // Place of row i in registers and shared vectors while step FIRST + turn runs.
  template <int FIRST>
  static MANSARD_DEVICE int place(int i, int turn) {
    return ROLL > 1 && i >= FIRST && i < FIRST + ROLL ? FIRST + ((i - FIRST - turn) & (ROLL - 1)) : i;
  }
  // Whether the row at place p is below row FIRST + turn.
  template <int FIRST>
  static MANSARD_DEVICE bool is_below(int p, int turn) {
    return p > FIRST && (p >= FIRST + ROLL || p - FIRST + turn < ROLL);
  }
  // Move to the places of the next step.
  template <int FIRST>
  MANSARD_DEVICE void rotate() {
    if constexpr (ROLL > 1) {
      MANSARD_UNROLL
      for (int s = 0; s < SLOTS; ++s) {
        const T done = a[s][FIRST];
        MANSARD_UNROLL
        for (int p = FIRST; p < FIRST + ROLL - 1; ++p) a[s][p] = a[s][p + 1];
        a[s][FIRST + ROLL - 1] = done;
      }
    }
  }

  // Calls visit(p, entry) for the places after FIRST, with the entries of a vector in shared memory.
  template <int FIRST, class Visit>
  static MANSARD_DEVICE void rows_below(const T* vector, Visit visit) {
    MANSARD_UNROLL
    for (int at = (FIRST + 1) / SIZE * SIZE; at < ROWS; at += SIZE) {
      const Chunk<T> chunk = Chunk<T>::read(vector + at);
      MANSARD_UNROLL
      for (int n = 0; n < SIZE; ++n)
        if (at + n > FIRST && at + n < ROWS) visit(at + n, chunk.entry[n]);
    }
  }

  // Entry of row k + 1 in slot s; `ends`: step k is the last one of its ROLL.
  template <int FIRST>
  MANSARD_DEVICE T row_after(int s, bool ends) const {
    if constexpr (ROLL == 1) return a[s][FIRST + 1];
    else if constexpr (FIRST + ROLL < ROWS) return either(ends, hidden(a[s][FIRST + ROLL]), hidden(a[s][FIRST + 1]));
    else return a[s][FIRST + 1];
  }
  // What `get` returns for the slot of column k + 1, in the lane that owns it.
  template <int FIRST, class Get>
  MANSARD_DEVICE auto in_column_after(int k, Get get) const {
    constexpr int SLOT = FIRST / LANES, AFTER = (FIRST + ROLL) / LANES;
    auto value = get(ROLL == 1 ? AFTER : SLOT);
    if constexpr (ROLL > 1 && AFTER != SLOT && AFTER < SLOTS)
      value = either((k + 1) / LANES == AFTER, hidden(get(AFTER)), hidden(value));
    return lane_value<LANES>(value, (k + 1) % LANES);
  }
};

}  // namespace mansard
