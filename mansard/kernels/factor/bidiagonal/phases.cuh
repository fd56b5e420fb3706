// What both kernels of the reduction to bidiagonal form share: phases that make the bidiagonal real, and its results.
#pragma once
#include "kernels/factor/two_sided/exchange.cuh"
#include "kernels/factor/two_sided/reflector.cuh"
#include "kernels/factor/two_sided/scaling.cuh"

namespace mansard {

// With complex diagonal entries d_k and entries e_k right of them, |d_k| = conj(PHASE_U_k) d_k PHASE_V_k and
// |e_k| = conj(PHASE_U_k) e_k PHASE_V_(k+1), where PHASE_V_0 = 1.
template <class T>
struct PhasePairs {
  MANSARD_DEVICE void left(const Reflector<T>&) {}
  MANSARD_DEVICE void right(const Reflector<T>&) {}
  template <class Arguments>
  MANSARD_DEVICE void store_left(const Arguments&, i64) const {}
  template <class Arguments>
  MANSARD_DEVICE void store_right(const Arguments&, i64) const {}
};
template <class R>
struct PhasePairs<Complex<R>> {
  Complex<R> product = {1, 0};  // PHASE_V_k; after `left`, PHASE_U_k
  MANSARD_DEVICE void left(const Reflector<Complex<R>>& h) { product = phase_product(product, h.phase); }
  // The reflector of the conjugate of a row: its phase is the conjugate of that of e_k.
  MANSARD_DEVICE void right(const Reflector<Complex<R>>& h) { product = phase_product(product, h.phase); }
  template <class Arguments>
  MANSARD_DEVICE void store_left(const Arguments& a, i64 at) const {
    a.PHASE_U[at] = product;
  }
  template <class Arguments>
  MANSARD_DEVICE void store_right(const Arguments& a, i64 at) const {
    a.PHASE_V[at] = product;
  }
};

}  // namespace mansard
