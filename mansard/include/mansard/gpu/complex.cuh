// Scalars of the kernels: real numbers, and complex ones in the layout of NumPy and of CUDA libraries.
#pragma once
#include "mansard/gpu/platform.cuh"

namespace mansard {

// No alignas: a complex128 array may start at any multiple of eight bytes. Wide loads are requested explicitly.
template <class R>
struct Complex {
  R re, im;
};

template <class T>
struct Scalar {
  using Real = T;
  static constexpr bool COMPLEX = false;
  static constexpr int WORDS = 1;  // real numbers per element
  template <class R>
  using With = R;
};
template <class R>
struct Scalar<Complex<R>> {
  using Real = R;
  static constexpr bool COMPLEX = true;
  static constexpr int WORDS = 2;
  template <class Q>
  using With = Complex<Q>;
};

template <class T>
MANSARD_DEVICE T zero() {
  return T{};
}

MANSARD_DEVICE void add_to(float& sum, float x) { sum += x; }
MANSARD_DEVICE void add_to(double& sum, double x) { sum += x; }
template <class R>
MANSARD_DEVICE void add_to(Complex<R>& sum, Complex<R> x) {
  sum.re += x.re;
  sum.im += x.im;
}

// sum += op(a) * b, with op the conjugate if CONJ
template <bool CONJ>
MANSARD_DEVICE void multiply_add(float& sum, float a, float b) {
  sum = fmaf(a, b, sum);
}
template <bool CONJ>
MANSARD_DEVICE void multiply_add(double& sum, double a, double b) {
  sum = fma(a, b, sum);
}
template <bool CONJ, class R>
MANSARD_DEVICE void multiply_add(Complex<R>& sum, Complex<R> a, Complex<R> b) {
  const R ai = CONJ ? -a.im : a.im;
  sum.re = sum.re + a.re * b.re;
  sum.im = sum.im + a.re * b.im;
  sum.re = sum.re - ai * b.im;
  sum.im = sum.im + ai * b.re;
}

template <class R>
MANSARD_DEVICE R conjugate(R x) {
  return x;
}
template <class R>
MANSARD_DEVICE Complex<R> conjugate(Complex<R> x) {
  return {x.re, -x.im};
}

// alpha * sum + beta * c; a zero imaginary part is not multiplied, so that infinities do not become NaNs.
template <class T, class Acc>
MANSARD_DEVICE T scaled(Acc sum, double alpha_re, double, double beta_re, double, const T* c) {
  using R = decltype(sum + 0.0f);
  R result = static_cast<R>(alpha_re) * sum;
  if (beta_re != 0.0) result += static_cast<R>(beta_re) * static_cast<R>(*c);
  return static_cast<T>(result);
}
template <class R>
MANSARD_DEVICE Complex<R> times(double re, double im, Complex<R> x) {
  const R r = static_cast<R>(re), i = static_cast<R>(im);
  if (im == 0.0) return {r * x.re, r * x.im};
  return {r * x.re - i * x.im, r * x.im + i * x.re};
}
template <class T, class R>
MANSARD_DEVICE T scaled(Complex<R> sum, double alpha_re, double alpha_im, double beta_re, double beta_im, const T* c) {
  Complex<R> result = times(alpha_re, alpha_im, sum);
  if (beta_re != 0.0 || beta_im != 0.0) {
    const Complex<R> old = {static_cast<R>(c->re), static_cast<R>(c->im)};
    add_to(result, times(beta_re, beta_im, old));
  }
  using Real = typename Scalar<T>::Real;
  return {static_cast<Real>(result.re), static_cast<Real>(result.im)};
}

}  // namespace mansard
