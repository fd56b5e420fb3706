// Arithmetic of factorizations: the same names for real and complex numbers of both precisions; inverses and roots that
// are quick for ordinary numbers, and exact ones for all.
#pragma once
#include "mansard/gpu/complex.cuh"

namespace mansard {

template <class R>
struct Range;
template <>
struct Range<double> {
  static constexpr double LEAST = 0x1p-1022, MOST = 0x1.fffffffffffffp1023;  // normal numbers
};
template <>
struct Range<float> {
  static constexpr float LEAST = 0x1p-126f, MOST = 0x1.fffffep127f;
};

template <class R>
MANSARD_DEVICE R real_part(R x) {
  return x;
}
template <class R>
MANSARD_DEVICE R real_part(Complex<R> x) {
  return x.re;
}
template <class R>
MANSARD_DEVICE R imaginary_part(R) {
  return R(0);
}
template <class R>
MANSARD_DEVICE R imaginary_part(Complex<R> x) {
  return x.im;
}
template <class T>
MANSARD_DEVICE T from_real(typename Scalar<T>::Real x) {
  if constexpr (Scalar<T>::COMPLEX) return T{x, 0};
  else return x;
}
template <class R>
MANSARD_DEVICE bool is_nan(R x) {
  return x != x;
}
template <class R>
MANSARD_DEVICE bool is_nan(Complex<R> x) {
  return x.re != x.re || x.im != x.im;
}
template <class R>
MANSARD_DEVICE bool is_zero(R x) {
  return x == 0;
}
template <class R>
MANSARD_DEVICE bool is_zero(Complex<R> x) {
  return x.re == 0 && x.im == 0;
}

// |re| + |im|: what LAPACK compares pivots by.
template <class R>
MANSARD_DEVICE R modulus_1(R x) {
  return fabs(x);
}
template <class R>
MANSARD_DEVICE R modulus_1(Complex<R> x) {
  return fabs(x.re) + fabs(x.im);
}
// |x|, without intermediate overflow.
template <class R>
MANSARD_DEVICE R modulus(R x) {
  return fabs(x);
}
template <class R>
MANSARD_DEVICE R modulus(Complex<R> x) {
  return hypot(x.re, x.im);
}
// |x|^2; may overflow or underflow.
template <class R>
MANSARD_DEVICE R modulus_square(R x) {
  return x * x;
}
template <class R>
MANSARD_DEVICE R modulus_square(Complex<R> x) {
  return fma(x.re, x.re, x.im * x.im);
}

template <class R>
MANSARD_DEVICE R negated(R x) {
  return -x;
}
template <class R>
MANSARD_DEVICE Complex<R> negated(Complex<R> x) {
  return {-x.re, -x.im};
}
template <class R>
MANSARD_DEVICE R difference(R x, R y) {
  return x - y;
}
template <class R>
MANSARD_DEVICE Complex<R> difference(Complex<R> x, Complex<R> y) {
  return {x.re - y.re, x.im - y.im};
}
// op(a) * b, with op the conjugate if CONJ
template <bool CONJ, class T>
MANSARD_DEVICE T product_of(T a, T b) {
  T result = zero<T>();
  multiply_add<CONJ>(result, a, b);
  return result;
}
// sum -= op(a) * b
template <bool CONJ, class T>
MANSARD_DEVICE void multiply_subtract(T& sum, T a, T b) {
  multiply_add<CONJ>(sum, negated(a), b);
}

// A real or complex number times a real number.
template <class R>
MANSARD_DEVICE R by_real(R x, R by) {
  return x * by;
}
template <class R>
MANSARD_DEVICE Complex<R> by_real(Complex<R> x, R by) {
  return {x.re * by, x.im * by};
}

// First approximation of 1 / x, and below of 1 / sqrt(x), for x whose inverse (root) is normal: about 20 correct bits
// of a double, 22 of a float.
MANSARD_DEVICE double inverse_guess(double x) {
#if defined(MANSARD_EMULATED)
  return 1.0 / x;
#else
  double y;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  return y;
#endif
}
MANSARD_DEVICE float inverse_guess(float x) {
#if defined(MANSARD_EMULATED)
  return 1.0f / x;
#else
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}
MANSARD_DEVICE double inverse_root_guess(double x) {
#if defined(MANSARD_EMULATED)
  return 1.0 / sqrt(x);
#else
  double y;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  return y;
#endif
}
MANSARD_DEVICE float inverse_root_guess(float x) {
#if defined(MANSARD_EMULATED)
  return 1.0f / sqrt(x);
#else
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

// 1 / x to a unit in the last place, for numbers whose inverse is normal; undefined for others.
template <class R>
MANSARD_DEVICE R quick_inverse(R x) {
  const R y = inverse_guess(x), error = fma(-x, y, R(1));
  return fma(y, fma(error, error, error), y);  // triples the number of correct bits
}
// Whether x is positive, normal and finite, from its exponent bits, which is quicker than comparing numbers.
MANSARD_DEVICE bool rootable(double x) {
  return static_cast<u32>(__double_as_longlong(x) >> 32) - 0x00100000u < 0x7fe00000u;
}
MANSARD_DEVICE bool rootable(float x) { return __float_as_uint(x) - 0x00800000u < 0x7f000000u; }
// 1 / sqrt(x) and sqrt(x) of such a number, within one or two units in the last place; roots of squares are exact.
template <class R>
MANSARD_DEVICE R quick_inverse_root(R x) {
  const R y = inverse_root_guess(x), error = fma(-x, y * y, R(1));
  return fma(fma(R(0.375), error, R(0.5)), error * y, y);
}
template <class R>
MANSARD_DEVICE R quick_root(R x, R inverse_root) {
  const R root = x * inverse_root;
  return fma(fma(-root, root, x), R(0.5) * inverse_root, root);
}
// x / by. Complex numbers by Smith's method: division by the larger part of the divisor avoids overflow.
template <class R>
MANSARD_DEVICE R divided(R x, R by) {
  return x / by;
}
template <class R>
MANSARD_DEVICE Complex<R> divided(Complex<R> x, R by) {
  return {x.re / by, x.im / by};
}
template <class R>
MANSARD_DEVICE Complex<R> divided(Complex<R> x, Complex<R> by) {
  if (fabs(by.re) < fabs(by.im)) {  // divide both by i
    x = {x.im, -x.re};
    by = {by.im, -by.re};
  }
  const R ratio = by.im / by.re, length = fma(by.im, ratio, by.re);
  return {fma(x.im, ratio, x.re) / length, fma(-x.re, ratio, x.im) / length};
}
// Makes x opaque to the compiler without changing it: addresses computed from x are not kept from an earlier use, and
// sums are formed at this point instead of keeping their terms in registers until they are needed.
#if defined(MANSARD_EMULATED)
template <class R>
MANSARD_DEVICE void renew(R&) {}
#else
MANSARD_DEVICE void renew(int& x) { asm volatile("" : "+r"(x)); }
MANSARD_DEVICE void renew(u32& x) { asm volatile("" : "+r"(x)); }
MANSARD_DEVICE void renew(float& x) { asm volatile("" : "+f"(x)); }
MANSARD_DEVICE void renew(double& x) { asm volatile("" : "+d"(x)); }
template <class R>
MANSARD_DEVICE void renew(Complex<R>& x) {
  renew(x.re);
  renew(x.im);
}
#endif
MANSARD_DEVICE int renewed(int x) {
  renew(x);
  return x;
}

// Value of x in lane `from` of each team of LANES lanes.
template <int LANES, class R>
MANSARD_DEVICE R lane_value(R x, int from) {
  return __shfl_sync(0xffffffffu, x, from, LANES);
}
template <int LANES, class R>
MANSARD_DEVICE Complex<R> lane_value(Complex<R> x, int from) {
  return {lane_value<LANES>(x.re, from), lane_value<LANES>(x.im, from)};
}

}  // namespace mansard
