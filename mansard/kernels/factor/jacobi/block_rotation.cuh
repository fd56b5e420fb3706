// The rotation of a pair of columns, from approximate roots.
//
// As `annihilating` (rotations.cuh), but with first approximations of both reciprocal roots: about 20 bits of the angle
// are enough, because another sweep follows as long as a product is not negligible. One step of Newton's makes
// c^2 + |s|^2 one to rounding.
#pragma once
#include "kernels/factor/jacobi/block_columns.cuh"

namespace mansard {

// sum + SIGN |x|^2, each part rounded once.
template <int SIGN, class R>
MANSARD_DEVICE R plus_square(R x, R sum) {
  return fma(SIGN * x, x, sum);
}
template <int SIGN, class R>
MANSARD_DEVICE R plus_square(Complex<R> x, R sum) {
  return fma(SIGN * x.re, x.re, fma(SIGN * x.im, x.im, sum));
}

template <class P>
struct BlockRotation {
  using S = BlockShape<P>;
  using T = typename S::T;
  using R = typename S::R;

  static MANSARD_DEVICE Rotation<T> identity() { return {R(1), zero<T>(), R(0)}; }

  // For b = x^H y of columns with norms^2 `square` and `other`, which it changes; the identity unless `wanted`.
  static MANSARD_DEVICE Rotation<T> of(T b, R b_square, bool wanted, R& square, R& other) {
    const R apart = other - square, inverse_root = inverse_root_guess(spread_square(apart, b_square));
    const R cosine_square = fma(R(0.5) * fabs(apart), inverse_root, R(0.5));
    const R inverse_cosine = inverse_root_guess(cosine_square), factor = copysign(inverse_root * inverse_cosine, apart);
    const R cosine = cosine_square * inverse_cosine, shift = wanted ? b_square * factor * inverse_cosine : R(0);
    const T sine = by_real(b, factor);
    const R error = fma(cosine, cosine, plus_square<1>(sine, R(-1))), change = error * fma(R(0.375), error, R(-0.5));
    square -= shift;
    other += shift;
    Rotation<T> rotation = identity();
    if (wanted) rotation = {fma(cosine, change, cosine), by_real(sine, R(1) + change), R(0)};
    if constexpr (!S::HAS_VECTORS) {  // no J to compare lengths with: c^2 + |s|^2 is to be one to half a unit
      const R c = rotation.cosine, p = c * c, rest = (R(1) - p) - fma(c, c, -p);
      rotation.cosine = fma(R(0.5) * plus_square<-1>(rotation.sine, rest), R(2) - c, c);  // 1 / c is about 2 - c
    }
    return rotation;
  }
};

}  // namespace mansard
