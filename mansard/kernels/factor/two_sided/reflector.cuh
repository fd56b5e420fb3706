// Elementary reflectors of two-sided reductions: H = I - u u^H / h with H x = beta e_1, where u is not normalised.
//
//   beta = -phase(x_1) |x|,   u = x - beta e_1,   h = |x|^2 + |x_1| |x|   (real)
//
// u differs from x in its first entry alone: a product A u = A x - beta A e_1 can start before the norm of x is known.
#pragma once
#include "mansard/gpu/factor_scalars.cuh"

namespace mansard {

// Sums of squares up to this count as zero: no result of a matrix with entries near one depends on such entries.
template <class R>
MANSARD_HOST_DEVICE R negligible() {
  return sizeof(R) == 8 ? R(1e-290) : R(1e-36);
}

template <class T>
struct Reflector;

template <class R>
struct RealReflector {
  R beta, first;  // first = x_1 - beta
  R inverse;      // 1 / h; 0 if H is the identity, where beta = x_1

  // From x_1 and the sum of squares of the other entries.
  MANSARD_DEVICE RealReflector(R head, R squares) : beta(head), first(0), inverse(0) {
    const R sum = fma(head, head, squares);
    if (squares > negligible<R>()) {
      const R norm = sum * quick_inverse_root(sum);
      beta = head >= 0 ? -norm : norm;
      inverse = quick_inverse(fma(-head, beta, sum));
      first = head - beta;
    }
  }
  MANSARD_DEVICE R off_diagonal() const { return beta; }  // of the reduced matrix
};
template <>
struct Reflector<double> : RealReflector<double> {
  using RealReflector::RealReflector;
};
template <>
struct Reflector<float> : RealReflector<float> {
  using RealReflector::RealReflector;
};

template <class R>
struct Reflector<Complex<R>> {
  Complex<R> beta, first;
  R inverse;
  Complex<R> phase;  // of the entry that is left, whose modulus is length
  R length;

  MANSARD_DEVICE Reflector(Complex<R> head, R squares) : first{0, 0}, inverse(0), phase{1, 0}, length(0) {
    R square = modulus_square(head);
    if (square <= negligible<R>()) {
      square = 0;  // also in the sum below, or H would not be unitary
    } else {       // NaN stays NaN
      const R root = quick_inverse_root(square);
      phase = by_real(head, root);
      length = square * root;
    }
    if (squares > negligible<R>()) {
      const R sum = square + squares, norm = sum * quick_inverse_root(sum);
      inverse = quick_inverse(fma(length, norm, sum));
      first = by_real(phase, length + norm);
      phase = negated(phase);
      length = norm;
    }
    beta = difference(head, first);  // with the u that there is, also where x_1 was negligible
  }
  MANSARD_DEVICE R off_diagonal() const { return length; }  // of the reduced matrix, once the phases are divided out
};

}  // namespace mansard
