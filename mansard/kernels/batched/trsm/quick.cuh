// Substitution (substitution.cuh) that checks only once, at the end, whether a quotient was extreme.
//
// A check in every step would take as many instructions as the step, and a branch that all later steps wait for.
#pragma once
#include "kernels/batched/trsm/diagonal.cuh"
#include "kernels/batched/trsm/substitution.cuh"

namespace mansard {

// Whether a quotient shows that nothing extreme was involved. A zero does: its numerator was zero or negligible.
template <class R>
MANSARD_DEVICE bool fine(R quotient) {
  return harmless(quotient) || quotient == 0;
}
template <class R>
MANSARD_DEVICE bool fine(Complex<R> quotient) {
  return fine(quotient.re) && fine(quotient.im);
}
template <class R, bool INVERT>
MANSARD_DEVICE bool fine(const Divisor<R, INVERT>& by) {
  return by.usual;
}
template <class R, bool INVERT>
MANSARD_DEVICE bool fine(const Divisor<Complex<R>, INVERT>& by) {
  return by.part.usual;
}

template <class P, int N, int LANES_M, int COLUMNS, class Tile>
struct QuickSubstitution : Substitution<P, N, LANES_M, COLUMNS, Tile> {
  using Base = Substitution<P, N, LANES_M, COLUMNS, Tile>;
  using typename Base::T;
  using Base::at, Base::rank, Base::SLOTS, Base::x;
  using Base::Base;

  // Solve like `solve`; false if something extreme was involved and the system has to be solved again.
  MANSARD_DEVICE bool solve_quickly(const T* A) {
    bool usual = true;
    this->template solve_by<true>(A, N, [&](const auto& by) { usual = usual && fine(by); },
                                  [](const auto& by, T x, bool) { return quick(by, x); });
    if constexpr (!P::UNIT && !P::INVERT)
      MANSARD_UNROLL
      for (int slot = 0; slot < SLOTS; ++slot)
        MANSARD_UNROLL
        for (int c = 0; c < COLUMNS; ++c) usual = usual && fine(x[slot][c]);
    return usual;
  }

  // Solve in shared memory with exact divisions; rare, so it is short code. entry(row, c) is the address of X in the
  // lane's column c, or nullptr if the lane has no such column.
  // Barriers (__syncwarp -> buffer -> writer): X -> the lane that divides row i;  X -> the lanes that update later
  // rows.
  template <class Entry>
  MANSARD_DEVICE void solve_carefully(const T* A, Entry entry) const {
    const auto of = [&](int row, int column) {
      return A[Base::ROW_MAJOR ? row * Tile::PITCH + column : column * Tile::PITCH + row];
    };
MANSARD_UNROLL_BY(1)
    for (int step = 0; step < N; ++step) {
      const int row = at(step);
MANSARD_UNROLL_BY(1)
      for (int c = 0; c < COLUMNS; ++c) {
        T* const known = entry(row, c);
        if (known == nullptr || rank() != step % LANES_M) continue;
        Divisor<T, false> divisor;
        divisor.prepare(P::CONJ ? conjugate(of(row, row)) : of(row, row));
        *known = divisor.divide(*known, true);
      }
      __syncwarp();  // row of X is complete, written by its owners
MANSARD_UNROLL_BY(1)
      for (int c = 0; c < COLUMNS; ++c) {
        const T* const known = entry(row, c);
        if (known == nullptr) continue;
        const T minus = negative(*known);
MANSARD_UNROLL_BY(1)
        for (int later = rank(); later < N; later += LANES_M)
          if (later > step) multiply_add<P::CONJ>(*entry(at(later), c), of(at(later), row), minus);
      }
      __syncwarp();  // later rows of X are updated by all lanes before the next one is divided
    }
  }
};

}  // namespace mansard
