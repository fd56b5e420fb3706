// Scale of a matrix by a power of two, and whether all of its entries are finite, from the bits of the entries.
//
// Squares of entries of a matrix whose largest entry is near one neither overflow nor, where they matter, underflow.
#pragma once
#include "mansard/gpu/factor_scalars.cuh"

namespace mansard {

// Exponent of the largest real or imaginary part that was added, by integer comparisons.
template <class R>
class Magnitude {
  static constexpr bool DOUBLE = sizeof(R) == 8;
  static constexpr int SHIFT = DOUBLE ? 20 : 23, LAST = DOUBLE ? 2047 : 255;  // bits beside the exponent; that of NaN
  int top = 0;  // bits of the largest modulus: of a double the upper half
  u32 low = 0;  // whether a lower half is not zero

 public:
  MANSARD_DEVICE void add(double x) {
    const u64 bits = static_cast<u64>(__double_as_longlong(x));
    top = max(top, static_cast<int>(bits >> 32 & 0x7fffffff));
    low |= static_cast<u32>(bits);
  }
  MANSARD_DEVICE void add(float x) { top = max(top, __float_as_int(x) & 0x7fffffff); }
  MANSARD_DEVICE void add(Complex<R> x) {
    add(x.re);
    add(x.im);
  }
  // A number that grows with the modulus; 0 if all entries are zero. The largest key of several threads is the key of
  // their entries.
  MANSARD_DEVICE int key() const { return max(top, low != 0 ? 1 : 0); }

  static MANSARD_DEVICE bool is_finite(int key) { return key >> SHIFT < LAST; }
  // The power of two that brings the largest part to [0.5, 1), within the range of normal numbers; 1 for zeros.
  static MANSARD_DEVICE R scale(int key) {
    const int biased = max(1, LAST - 2 - (key >> SHIFT));
    if (key == 0 || !is_finite(key)) return R(1);
    if constexpr (DOUBLE) return __longlong_as_double(static_cast<i64>(biased) << 52);
    else return __int_as_float(biased << 23);
  }
  // The factor of the entries: the scale, or NaN for a matrix that is not finite, so that its results are NaN, too.
  static MANSARD_DEVICE R factor(int key) {
    const R one = scale(key);
    return is_finite(key) ? one : one * not_a_number();
  }

 private:
  static MANSARD_DEVICE R not_a_number() {
    if constexpr (DOUBLE) return __longlong_as_double(0x7ff8000000000000ll);
    else return __int_as_float(0x7fc00000);
  }
};

}  // namespace mansard
