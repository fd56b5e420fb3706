// Pivots on GPUs: comparing magnitudes by their bits, division by a pivot, maxima over a team, determinants.
//
// A pivot is ordinary if its inverse is a normal number with all its bits. Zeros, extreme numbers, infinities and NaNs
// are not; they take slower paths with exact comparisons and scaled division.
#pragma once
#include "kernels/batched/gemm/image.cuh"
#include "mansard/gpu/factor_scalars.cuh"

#if defined(MANSARD_EMULATED)
extern "C" double log(double) noexcept;
#endif

namespace mansard {

enum class Want { factor, solve, inverse, determinant, logdet, swap };
using LayoutF = Layout;
using LayoutX = Layout;
using FeedF = Feed;
using FeedX = Feed;

// Bits that order non-negative numbers: all of a float, the upper half of a double.
MANSARD_DEVICE int order_of(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
MANSARD_DEVICE int order_of(float x) { return __float_as_int(x); }

// The lower half of a double, or all bits of a float; for a complex number, those of its real part.
MANSARD_DEVICE int low_bits(double x) { return static_cast<int>(__double_as_longlong(x)); }
MANSARD_DEVICE int low_bits(float x) { return __float_as_int(x); }
template <class R>
MANSARD_DEVICE int low_bits(Complex<R> x) {
  return low_bits(x.re);
}

// order_of(|re| + |im|). For real numbers the sign bit is masked, which is quicker than arithmetic.
MANSARD_DEVICE int size_order(double x) { return order_of(x) & 0x7fffffff; }
MANSARD_DEVICE int size_order(float x) { return order_of(x) & 0x7fffffff; }
template <class R>
MANSARD_DEVICE int size_order(Complex<R> x) {
  return order_of(modulus_1(x));
}

// Ordinary magnitudes lie between 2^-EXPONENT and 2^EXPONENT. The range of complex numbers is half as wide, since their
// inverse divides by the square of the modulus.
template <class T>
struct Ordinary {
  using R = typename Scalar<T>::Real;
  static constexpr bool WIDE = sizeof(R) == 8;
  static constexpr int EXPONENT = WIDE ? (Scalar<T>::COMPLEX ? 500 : 1000) : (Scalar<T>::COMPLEX ? 60 : 100);
  static constexpr int BIAS = WIDE ? 1023 : 127, SHIFT = WIDE ? 20 : 23;
  static constexpr int LEAST = (BIAS - EXPONENT) << SHIFT, MOST = (BIAS + EXPONENT) << SHIFT;
  static MANSARD_DEVICE bool holds(int order) { return u32(order - LEAST) < u32(MOST - LEAST); }
};

template <class R>
MANSARD_DEVICE R ordinary_inverse(R x) {
  return quick_inverse(x);
}
template <class R>
MANSARD_DEVICE Complex<R> ordinary_inverse(Complex<R> x) {
  const R square = quick_inverse(modulus_square(x));
  return {x.re * square, -x.im * square};
}

MANSARD_DEVICE double infinity(double) { return __longlong_as_double(0x7ff0000000000000); }
MANSARD_DEVICE float infinity(float) { return __int_as_float(0x7f800000); }

// The inverse of any number x as scale * number: `scale` is a power of two that makes x ordinary, `number` the inverse
// of scale * x. The inverse of zero is 1 for a column of L (it is not divided), infinite for an unknown (KNOWN).
template <class T>
struct Inverse {
  using R = typename Scalar<T>::Real;
  R scale;
  T number;

  template <bool KNOWN>
  MANSARD_DEVICE void of(T x) {
    constexpr bool WIDE = sizeof(R) == 8;
    constexpr R UP = WIDE ? R(0x1p600) : R(0x1p100f), DOWN = WIDE ? R(0x1p-600) : R(0x1p-100f);
    const int order = order_of(modulus_1(x));
    scale = order < Ordinary<T>::LEAST ? UP : order < Ordinary<T>::MOST ? R(1) : DOWN;
    x = by_real(x, scale);
    number = ordinary_inverse(x);
    const R size = modulus_1(x);
    if (size == 0) scale = R(1), number = from_real<T>(KNOWN ? infinity(size) : R(1));
    if (size == infinity(size)) number = zero<T>();
  }
  MANSARD_DEVICE T times(T x) const { return product_of<false>(by_real(x, scale), number); }
};

template <class T>
MANSARD_DEVICE T chosen(bool first, T a, T b) {
  return first ? a : b;
}
template <class R>
MANSARD_DEVICE Complex<R> chosen(bool first, Complex<R> a, Complex<R> b) {
  return {first ? a.re : b.re, first ? a.im : b.im};
}

// Magnitude as LAPACK's i?amax compares it: a NaN beats everything if it is the first entry, and nothing otherwise.
template <class R>
MANSARD_DEVICE R ranked(R size, bool first) {
  if (size == size) return size;
  return first ? infinity(size) : R(-1);
}

// Maximum over the 32 lanes of a warp, in every lane.
MANSARD_DEVICE int warp_max(int x) {
#if !defined(MANSARD_EMULATED) && __CUDA_ARCH__ >= 800
  return __reduce_max_sync(~0u, x);
#else
  for (int step = 1; step < 32; step *= 2) x = max(x, __shfl_xor_sync(~0u, x, step));
  return x;
#endif
}

// Maximum over each team of LANES lanes, in every lane. `team` is the mask of the team's lanes.
template <int LANES>
MANSARD_DEVICE int team_max(int x, u32 team) {
#if !defined(MANSARD_EMULATED) && __CUDA_ARCH__ >= 800
  constexpr int REDUCED = 16;  // from this many lanes on, the warp-wide reduction instruction beats shuffles
#else
  constexpr int REDUCED = 64;
#endif
  if constexpr (LANES < REDUCED) {
    MANSARD_UNROLL
    for (int step = 1; step < LANES; step *= 2) x = max(x, __shfl_xor_sync(~0u, x, step));
    return x;
  } else if constexpr (LANES == 16) {
    const bool second = static_cast<int>(team) < 0;
    const int most = warp_max(second ? 0 : x), other = warp_max(second ? x : 0);
    return second ? other : most;
  } else {
    return warp_max(x);
  }
}

// Each lane of a team offers a row: its magnitude, place and slot. Returns the slot in the lane whose row wins (largest
// magnitude, then smallest place), and -1 in the other lanes.
template <int LANES, class R>
__device__ __noinline__ int exact_owner(R size, int place, int slot) {
  const int lane = threadIdx.x % 32;
  int winner = lane;
  MANSARD_UNROLL
  for (int step = 1; step < LANES; step *= 2) {
    const R other = __shfl_xor_sync(~0u, size, step);
    const int its_place = __shfl_xor_sync(~0u, place, step), its_lane = __shfl_xor_sync(~0u, winner, step);
    if (other > size || (other == size && its_place < place)) size = other, place = its_place, winner = its_lane;
  }
  return winner == lane ? slot : -1;
}

// Product of the pivots a thread has seen; for logdet its phase and the sum of logarithms. `gather` multiplies over the
// lanes of a team.
template <class T, Want WANT>
struct Determinant {
  using R = typename Scalar<T>::Real;
  T value = from_real<T>(R(1));
  R logarithm = 0;

  MANSARD_DEVICE void take(T pivot) {
    if constexpr (WANT == Want::logdet) {
      const R size = modulus(pivot);
      logarithm += static_cast<R>(log(static_cast<double>(size)));
      if (size > 0) pivot = scaled_to_one(pivot, size);
    }
    value = product_of<false>(value, pivot);
  }
  template <int LANES>
  MANSARD_DEVICE void gather() {
    MANSARD_UNROLL
    for (int step = 1; step < LANES; step *= 2) {
      value = product_of<false>(value, lane_value<32>(value, threadIdx.x % 32 ^ step));
      if constexpr (WANT == Want::logdet) logarithm += __shfl_xor_sync(~0u, logarithm, step);
    }
  }

 private:
  static MANSARD_DEVICE R scaled_to_one(R x, R) { return x < 0 ? R(-1) : R(1); }
  static MANSARD_DEVICE Complex<R> scaled_to_one(Complex<R> x, R size) { return {x.re / size, x.im / size}; }
};

}  // namespace mansard
