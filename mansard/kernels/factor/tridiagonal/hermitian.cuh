// A Hermitian matrix of which one triangle is stored, and what both kernels of its reduction share.
#pragma once
#include "kernels/factor/two_sided/exchange.cuh"
#include "kernels/factor/two_sided/reflector.cuh"
#include "kernels/factor/two_sided/scaling.cuh"

namespace mansard {

// Whether entry (i, j) is in the triangle that is read; the other triangle may hold anything.
template <class P>
MANSARD_DEVICE bool is_stored(int i, int j) {
  return P::LOWER ? j <= i : i <= j;
}

// x with an imaginary part of zero: that of a diagonal entry is not read.
template <class T>
MANSARD_DEVICE T diagonal_entry(T x) {
  return from_real<T>(real_part(x));
}

// K = u^H A u / (2 h^2) from x^H A x, (A x)_1 and A_11, with u = x - beta e_1.
template <class R>
MANSARD_DEVICE R half_quotient(const RealReflector<R>& h, R quadratic, R product, R corner) {
  return fma(h.beta, fma(h.beta, corner, R(-2) * product), quadratic) * h.inverse * h.inverse * R(0.5);
}
template <class R>
MANSARD_DEVICE R half_quotient(const Reflector<Complex<R>>& h, R quadratic, Complex<R> product, R corner) {
  const R twice = R(-2) * real_product(h.beta, product);
  return (quadratic + fma(modulus_square(h.beta), corner, twice)) * h.inverse * h.inverse * R(0.5);
}

// Phases that make the off-diagonal entries real: PHASE_0 = 1, PHASE_(k+1) = PHASE_k * phase of entry (k + 1, k).
template <class T>
struct Phases {
  MANSARD_DEVICE void advance(const Reflector<T>&) {}
  template <class Arguments>
  MANSARD_DEVICE void store(const Arguments&, i64) const {}
};
template <class R>
struct Phases<Complex<R>> {
  Complex<R> product = {1, 0};
  MANSARD_DEVICE void advance(const Reflector<Complex<R>>& h) { product = product_of<false>(product, h.phase); }
  template <class Arguments>
  MANSARD_DEVICE void store(const Arguments& a, i64 at) const {
    a.PHASE[at] = product;
  }
};

}  // namespace mansard
