// Substitution in a diagonal block of 32 rows, one row per lane of a warp, from pieces of BLK_K columns (pieces.cuh).
//
// Step c: x_c = r_c / a_cc in lane c goes to all lanes by a shuffle; the lanes after it subtract a_rc * x_c. Whether a
// quotient was extreme is checked once per piece instead of once per row. If one was, the piece is solved again with
// exact divisions.
#pragma once
#include "kernels/batched/trsm/pieces.cuh"
#include "kernels/batched/trsm/substitution.cuh"

namespace mansard {

// x / by, valid if nothing extreme is involved; `holds` checks that.
template <class R, bool INVERT>
MANSARD_DEVICE R quick(const Divisor<R, INVERT>& by, R x) {
  const R first = x * by.inverse;
  return INVERT ? first : fma(fma(-first, by.number, x), by.inverse, first);
}
template <class R, bool INVERT>
MANSARD_DEVICE bool holds(const Divisor<R, INVERT>& by, R x) {
  return INVERT || by.usual && (harmless(x * by.inverse) || x == 0);
}
template <class R, bool INVERT>
MANSARD_DEVICE Complex<R> numerators(const Divisor<Complex<R>, INVERT>& by, Complex<R> x) {
  if (by.turned) x = {x.im, -x.re};
  return {x.re + x.im * by.ratio, x.im - x.re * by.ratio};
}
template <class R, bool INVERT>
MANSARD_DEVICE Complex<R> quick(const Divisor<Complex<R>, INVERT>& by, Complex<R> x) {
  const Complex<R> over = numerators(by, x);
  return {quick(by.part, over.re), quick(by.part, over.im)};
}
template <class R, bool INVERT>
MANSARD_DEVICE bool holds(const Divisor<Complex<R>, INVERT>& by, Complex<R> x) {
  const Complex<R> over = numerators(by, x);
  return holds(by.part, over.re) && holds(by.part, over.im);
}

// A lane's row of the diagonal block: x is its right-hand side less the known products, `solved` its unknown at the
// end.
template <class P>
struct DiagonalRows {
  using T = typename P::T;
  int lane;
  T x, solved;

  MANSARD_DEVICE static T known_by(T x, int owner) { return from_lane<32>(x, owner); }

  // Solve for the unknowns of a piece: `count` of BLK_K columns from `first` on exist.
  MANSARD_DEVICE void solve(const Piece<P>& piece, int first, int count) {
    constexpr int READ = Pieces<P>::READ;
    const int mine = lane - first;  // column of the lane's diagonal entry in the piece
    const bool own = mine >= 0 && mine < count;
    Divisor<T, P::INVERT> divisor;
    if constexpr (!P::UNIT) {
      T diagonal = one();
      if (own) diagonal = *piece.at(lane, mine);
      divisor.prepare(P::CONJ ? conjugate(diagonal) : diagonal);
    }
    const T before = x;
    T numerator = x;
    T entries[P::BLK_K];
    MANSARD_UNROLL
    for (int column = 0; column < P::BLK_K; column += READ) piece.load(entries + column, lane, column);
    MANSARD_UNROLL
    for (int column = 0; column < P::BLK_K; ++column) {
      if (!Pieces<P>::EVEN && column % 4 == 0 && column >= count) break;
      T quotient = x;
      if constexpr (!P::UNIT) quotient = quick(divisor, x);
      const T minus = negative(known_by(quotient, first + column));
      if (mine == column) numerator = x;
      multiply_add<P::CONJ>(x, entries[column], minus);  // x of solved lanes is not used any more
    }
    if constexpr (P::UNIT) {
      if (own) solved = numerator;
    } else if (__any_sync(~0u, own && !holds(divisor, numerator))) {
      x = before;
      solve_carefully(piece, divisor, first, count);
    } else if (own) {
      solved = quick(divisor, numerator);
    }
  }

 private:
  static MANSARD_DEVICE T one() {
    if constexpr (Scalar<T>::COMPLEX) return {1, 0};
    else return T(1);
  }
  // Solve the piece with exact divisions; rare, so its loop is not unrolled.
  MANSARD_DEVICE void solve_carefully(const Piece<P>& piece, const Divisor<T, P::INVERT>& divisor, int first,
                                      int count) {
    const int mine = lane - first;
MANSARD_UNROLL_BY(1)
    for (int column = 0; column < count; ++column) {
      const T quotient = divisor.divide(x, mine == column);
      if (mine == column) solved = quotient;
      const T minus = negative(known_by(quotient, first + column));
      if (mine > column) multiply_add<P::CONJ>(x, *piece.at(lane, column), minus);
    }
  }
};

}  // namespace mansard
