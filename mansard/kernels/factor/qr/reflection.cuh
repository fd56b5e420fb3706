// One elementary reflection H = I - tau v v^H as LAPACK's ?larfg makes it: H^H (alpha, x) = (beta, 0) with a real beta,
// v = (1, scale x). Where x is zero (and alpha real) H is the identity and tau is 0.
#pragma once
#include "mansard/gpu/factor_scalars.cuh"

namespace mansard {

// Sums of squares between LEAST and MOST are as accurate as others: nothing that matters was lost on the way, neither
// in them nor in products with other columns. Larger and smaller columns are scaled by DOWN and UP first (LARGE and
// SMALL, of their largest entry).
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

// The larger of |re| and |im|.
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
  // alpha - beta and -1 / beta: for t = below * (conj(first) * a_0 + x^H a) the same is a - x (scale * t), and a_0 - t
  // above. Both are known before scale is.
  T first;
  R below;
  R beta;
  bool safe;  // or all of the above means nothing

  static MANSARD_DEVICE Reflection identity(T alpha) {
    return {zero<T>(), zero<T>(), zero<T>(), zero<T>(), R(0), real_part(alpha), true};
  }

  // `squares` is |x|^2; at the `last` row there is no x. Roots and inverses are quick: they hold for safe sums only.
  // `strict`: what is left of the last column tells whether products with it were in range.
  static MANSARD_DEVICE Reflection quick(T alpha, R squares, bool last, bool strict = false) {
    using Safe = SafeSquares<R>;
    const R sum = modulus_square(alpha) + squares;
    Reflection h;
    h.safe = sum <= Safe::MOST && (squares >= Safe::LEAST || last && sum >= Safe::LEAST);
    const R inverse = quick_inverse_root(sum);
    // nothing waits for the last bit of the length but beta
    h.set(alpha, quick_root(sum, inverse), inverse, fma(sum, inverse, fabs(real_part(alpha))));
    if (last && is_zero(imaginary_part(alpha))) {
      const bool safe = h.safe || !strict;
      h = identity(alpha);
      h.safe = safe;
    }
    return h;
  }

  // From the length of (alpha, x), its inverse, and its sum with |re alpha|.
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
