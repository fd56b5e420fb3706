// Substitution (substitution.cuh) that asks once, in the end, whether a quotient was extreme. To ask in every step takes
// as many instructions as the step, and a branch that all that follows waits for.
#pragma once
#include "kernels/batched/trsm/diagonal.cuh"
#include "kernels/batched/trsm/substitution.cuh"

namespace mansard {

// Whether a quotient says that nothing extreme was involved. Zero does: its numerator was zero, or nearly.
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

  // Solves for x as `solve` does; false where that has to be done again, since something extreme was involved.
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

  // The same in shared memory, divided as usual: rare, and short. `entry(row, c)` is where the lane's column c of X is,
  // nullptr where the lane has none.
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
      __syncwarp();
MANSARD_UNROLL_BY(1)
      for (int c = 0; c < COLUMNS; ++c) {
        const T* const known = entry(row, c);
        if (known == nullptr) continue;
        const T minus = negative(*known);
MANSARD_UNROLL_BY(1)
        for (int later = rank(); later < N; later += LANES_M)
          if (later > step) multiply_add<P::CONJ>(*entry(at(later), c), of(at(later), row), minus);
      }
      __syncwarp();
    }
  }
};

}  // namespace mansard
