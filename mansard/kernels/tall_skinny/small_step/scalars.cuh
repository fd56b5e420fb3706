// Arithmetic of small_step: the same names for real and complex double precision, and sums over lanes.
#pragma once
#include "mansard/gpu/complex.cuh"

namespace mansard {

MANSARD_DEVICE double real_part(double x) { return x; }
MANSARD_DEVICE double real_part(Complex<double> x) { return x.re; }
MANSARD_DEVICE double square(double x) { return x * x; }
MANSARD_DEVICE double square(Complex<double> x) { return x.re * x.re + x.im * x.im; }
MANSARD_DEVICE double size(double x) { return fabs(x); }
MANSARD_DEVICE double size(Complex<double> x) { return sqrt(square(x)); }
MANSARD_DEVICE bool is_finite(double x) { return x - x == 0.0; }
MANSARD_DEVICE bool is_finite(Complex<double> x) { return is_finite(x.re) && is_finite(x.im); }
MANSARD_DEVICE double times_real(double x, double by) { return x * by; }
MANSARD_DEVICE Complex<double> times_real(Complex<double> x, double by) { return {x.re * by, x.im * by}; }
MANSARD_DEVICE void set_real(double& x, double value) { x = value; }
MANSARD_DEVICE void set_real(Complex<double>& x, double value) { x = {value, 0.0}; }
// x / |x|, or 1 if x is zero.
MANSARD_DEVICE double phase_of(double x) { return x < 0.0 ? -1.0 : 1.0; }
MANSARD_DEVICE Complex<double> phase_of(Complex<double> x) {
  const double length = size(x);
  if (length > 0.0) return times_real(x, 1.0 / length);
  return {1.0, 0.0};
}
template <class Wide>
MANSARD_DEVICE Wide product(Wide a, Wide b) {
  Wide result = zero<Wide>();
  multiply_add<false>(result, a, b);
  return result;
}

template <class R>
MANSARD_DEVICE double widened(R x) {
  return static_cast<double>(x);
}
template <class R>
MANSARD_DEVICE Complex<double> widened(Complex<R> x) {
  return {static_cast<double>(x.re), static_cast<double>(x.im)};
}
MANSARD_DEVICE void narrow(float& to, double x) { to = static_cast<float>(x); }
MANSARD_DEVICE void narrow(double& to, double x) { to = x; }
template <class R>
MANSARD_DEVICE void narrow(Complex<R>& to, Complex<double> x) {
  to = {static_cast<R>(x.re), static_cast<R>(x.im)};
}

// 1 / x and 1 / sqrt(x), within one unit in the last place, in half the time of a division: there is no branch for
// numbers whose inverse is not normal, for which the result is zero or not finite.
MANSARD_DEVICE double inverse(double x) {
#if defined(MANSARD_EMULATED)
  return 1.0 / x;
#else
  double y;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));  // about 20 bits; the step below triples them
  const double error = fma(-x, y, 1.0);
  return fma(y, fma(error, error, error), y);
#endif
}
MANSARD_DEVICE double inverse_root(double x) {
#if defined(MANSARD_EMULATED)
  return 1.0 / sqrt(x);
#else
  double y;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  const double error = fma(-x, y * y, 1.0);
  return fma(fma(0.375, error, 0.5), error * y, y);
#endif
}

// Store to shared memory if `wanted`, by a predicated instruction without a branch.
MANSARD_DEVICE void store_if(bool wanted, double* to, double x) {
#if defined(MANSARD_EMULATED)
  if (wanted) *to = x;
#else
  const u32 address = static_cast<u32>(__cvta_generic_to_shared(to));
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %0, 0;\n@p st.shared.f64 [%1], %2;\n}" ::"r"(u32(wanted)),
               "r"(address), "d"(x)
               : "memory");
#endif
}
MANSARD_DEVICE void store_if(bool wanted, Complex<double>* to, Complex<double> x) {
  store_if(wanted, &to->re, x.re);
  store_if(wanted, &to->im, x.im);
}

// Upper 32 bits of x, which order positive numbers.
MANSARD_DEVICE int upper_half(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }

MANSARD_DEVICE int warp_max(int x) {
#if !defined(MANSARD_EMULATED) && __CUDA_ARCH__ >= 800
  return __reduce_max_sync(~0u, x);
#else
  for (int step = 16; step > 0; step /= 2) x = max(x, __shfl_xor_sync(~0u, x, step));
  return x;
#endif
}

// Sum over teams of LANES lanes, in every lane; below, the value of lane `from` of the team.
template <int LANES>
MANSARD_DEVICE double lane_sum(double x) {
  MANSARD_UNROLL
  for (int step = LANES / 2; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}
template <int LANES>
MANSARD_DEVICE Complex<double> lane_sum(Complex<double> x) {
  return {lane_sum<LANES>(x.re), lane_sum<LANES>(x.im)};
}
template <int LANES>
MANSARD_DEVICE double lane_of(double x, int from) {
  return __shfl_sync(~0u, x, from, LANES);
}
template <int LANES>
MANSARD_DEVICE Complex<double> lane_of(Complex<double> x, int from) {
  return {lane_of<LANES>(x.re, from), lane_of<LANES>(x.im, from)};
}

}  // namespace mansard
