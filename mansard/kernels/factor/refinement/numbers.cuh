// Powers of two, single precision and largest moduli: what the kernels of refinement share.
#pragma once
#include "mansard/gpu/factor_scalars.cuh"

namespace mansard {

constexpr int RUNNING = 0, CONVERGED = 1, FAILED = 2;  // STATE of a matrix
constexpr double LEAST_NORM = 0x1p-960, MOST_NORM = 0x1p960;  // 2^e and 2^-e are normal numbers in between

// Exponent e of a positive number: 1 <= x / 2^e < 2. Of what is smaller than 2^-1000, or larger than 2^1000, that of
// these.
MANSARD_DEVICE int exponent_of(double x) {
  const int biased = static_cast<int>(__double_as_longlong(x) >> 52 & 0x7ff);
  return max(-1000, min(1000, biased - 1023));
}
// 2^e for -1022 <= e <= 1023
MANSARD_DEVICE double power_of_two(int e) { return __longlong_as_double(static_cast<i64>(e + 1023) << 52); }

MANSARD_DEVICE float narrowed(double x) { return static_cast<float>(x); }
MANSARD_DEVICE Complex<float> narrowed(Complex<double> x) { return {static_cast<float>(x.re), static_cast<float>(x.im)}; }
MANSARD_DEVICE double widened(float x) { return x; }
MANSARD_DEVICE Complex<double> widened(Complex<float> x) { return {x.re, x.im}; }

// The larger of two moduli; NaN if one of them is.
MANSARD_DEVICE double larger(double a, double b) { return b <= a || a != a ? a : b; }

MANSARD_DEVICE double largest_of_warp(double x) {
  MANSARD_UNROLL
  for (int mask = 16; mask > 0; mask /= 2) x = larger(x, __shfl_xor_sync(0xffffffffu, x, mask));
  return x;
}

// Numbers per matrix in SIZES: |A|, then |b| and |r| of every column.
MANSARD_DEVICE i64 sizes_of(i64 matrix, i64 sides) { return matrix * (1 + 2 * sides); }

}  // namespace mansard
