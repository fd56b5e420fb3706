// One elementary reflection H = I - tau v v^H as in LAPACK's ?larfg: H^H (alpha, x) = (beta, 0) with a real beta,
// v = (1, scale x). If x is zero and alpha real, H is the identity and tau is 0.
#pragma once
#include "mansard/gpu/factor_scalars.cuh"

namespace mansard {

// Sums of squares between LEAST and MOST are safe: no significant term overflowed or underflowed, neither in them nor
// in products with other columns. Other columns are scaled first: by DOWN if their largest entry exceeds LARGE, by UP
// if it is below SMALL.
template <class R>
struct SafeSquares;
template <>
struct SafeSquares<double> {
  static constexpr double LEAST = 0x1p-500, MOST = 0x1p500;
  static constexpr double LARGE = 0x1p400, SMALL = 0x1p-400, DOWN = 0x1p-700, UP = 0x1p700;
};
template <>
struct SafeSquares<float> {
  static constexpr float LEAST = 0x1p-80f, MOST = 0x1p80f;
  static constexpr float LARGE = 0x1p40f, SMALL = 0x1p-40f, DOWN = 0x1p-80f, UP = 0x1p90f;
};

// max(|re|, |im|).
template <class R>
MANSARD_DEVICE R largest_part(R x) {
  return fabs(x);
}
template <class R>
MANSARD_DEVICE R largest_part(Complex<R> x) {
  return fmax(fabs(x.re), fabs(x.im));
}

template <class T>
struct Reflection {
  using R = typename Scalar<T>::Real;
  T tau, scale;
  T by;  // conj(tau) * scale: H^H a = a - x (by * g) for g = a_0 + conj(scale) * (x^H a), below the first entry
  // first = alpha - beta and below = -1 / beta give the same product without `scale`, which is known later: with
  // t = below * (conj(first) * a_0 + x^H a) it is a_0 - t in the first entry and a - x (scale * t) below it.
  T first;
  R below;
  R beta;
  bool safe;  // otherwise the members above are not valid

  static MANSARD_DEVICE Reflection identity(T alpha) {
    return {zero<T>(), zero<T>(), zero<T>(), zero<T>(), R(0), real_part(alpha), true};
  }

  // The reflection of (alpha, x) with |x|^2 = squares; in the `last` row there is no x. Quick roots and inverses are
  // valid for safe sums only. `strict`: alpha of the last row, too, must be safe, as it shows whether earlier products
  // with this column were in range.
  static MANSARD_DEVICE Reflection quick(T alpha, R squares, bool last, bool strict = false) {
    using Safe = SafeSquares<R>;
    const R sum = modulus_square(alpha) + squares;
    Reflection h;
    h.safe = sum <= Safe::MOST && (squares >= Safe::LEAST || last && sum >= Safe::LEAST);
    const R inverse = quick_inverse_root(sum);
    // only beta needs the corrected root; the other members use sum * inverse, which is known earlier
    h.set(alpha, quick_root(sum, inverse), inverse, fma(sum, inverse, fabs(real_part(alpha))));
    if (last && is_zero(imaginary_part(alpha))) {
      const bool safe = h.safe || !strict;
      h = identity(alpha);
      h.safe = safe;
    }
    return h;
  }

  // Members from the length of (alpha, x), its inverse, and `away` = length + |re alpha|.
  MANSARD_DEVICE void set(T alpha, R length, R inverse, R away) {
    const R head = real_part(alpha);
    below = copysign(inverse, head);
    beta = -copysign(length, head);
    if constexpr (Scalar<T>::COMPLEX) {
      const R square = quick_inverse(fma(away, away, alpha.im * alpha.im));
      tau = {fma(fabs(head), inverse, R(1)), alpha.im * below};
      scale = {copysign(away * square, head), -alpha.im * square};
      by = product_of<true>(tau, scale);
      first = {copysign(away, head), alpha.im};
    } else {
      tau = fma(fabs(head), inverse, R(1));
      scale = copysign(quick_inverse(away), head);
      by = below;
      first = copysign(away, head);
    }
  }
};

}  // namespace mansard
