// Fused products: a b + c and c - a b with one rounding; with two where the CPU cannot fuse.
//
// Kernels are compiled with -ffp-contract=off: a compiler that may fuse decides anew for every loop. GCC 13 tuning for
// Sapphire Rapids fuses no sum that a loop carries, GCC 14 only those in 512-bit registers; the end of a range or a
// second attempt then rounds differently from the main loop. With explicit calls equal sums have equal bits.
#pragma once
#include "mansard/cpu/simd.hpp"
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace mansard {

#if defined(__FMA__) || defined(__aarch64__) || defined(__FP_FAST_FMA)
constexpr bool CAN_FUSE = true;
#else
constexpr bool CAN_FUSE = false;  // __builtin_fma would call a software implementation
#endif

// ---- the instructions: fused is a b + c, fused_negative is c - a b ------------------------------------------

#define MANSARD_FUSED(TYPE, PLUS, MINUS)                                                 \
  MANSARD_INLINE TYPE fused(TYPE a, TYPE b, TYPE c) { return PLUS; }                     \
  MANSARD_INLINE TYPE fused_negative(TYPE a, TYPE b, TYPE c) { return MINUS; }
#define MANSARD_FUSED_VECTOR(R, LANES, PLUS, MINUS)                                      \
  MANSARD_INLINE Vector<R, LANES> fused(Vector<R, LANES> a, Vector<R, LANES> b, Vector<R, LANES> c) { return PLUS; } \
  MANSARD_INLINE Vector<R, LANES> fused_negative(Vector<R, LANES> a, Vector<R, LANES> b, Vector<R, LANES> c) { \
    return MINUS;                                                                        \
  }
MANSARD_FUSED(double, __builtin_fma(a, b, c), __builtin_fma(-a, b, c))
MANSARD_FUSED(float, __builtin_fmaf(a, b, c), __builtin_fmaf(-a, b, c))
#if defined(__FMA__)
// Two floats in the lower half of a register; the upper half is zero. There is no fma for half a register, and copies
// through memory take 15 cycles each, since a load that spans two stores waits for both.
MANSARD_INLINE __m128 widened(Vector<float, 2> a) { return _mm_castpd_ps(_mm_set_sd(__builtin_bit_cast(double, a))); }
MANSARD_INLINE Vector<float, 2> halved(__m128 a) {
  return __builtin_bit_cast(Vector<float, 2>, _mm_cvtsd_f64(_mm_castps_pd(a)));
}
MANSARD_FUSED_VECTOR(float, 2, halved(_mm_fmadd_ps(widened(a), widened(b), widened(c))),
                     halved(_mm_fnmadd_ps(widened(a), widened(b), widened(c))))
MANSARD_FUSED_VECTOR(double, 2, _mm_fmadd_pd(a, b, c), _mm_fnmadd_pd(a, b, c))
MANSARD_FUSED_VECTOR(float, 4, _mm_fmadd_ps(a, b, c), _mm_fnmadd_ps(a, b, c))
MANSARD_FUSED_VECTOR(double, 4, _mm256_fmadd_pd(a, b, c), _mm256_fnmadd_pd(a, b, c))
MANSARD_FUSED_VECTOR(float, 8, _mm256_fmadd_ps(a, b, c), _mm256_fnmadd_ps(a, b, c))
#endif
#if defined(__AVX512F__)
MANSARD_FUSED_VECTOR(double, 8, _mm512_fmadd_pd(a, b, c), _mm512_fnmadd_pd(a, b, c))
MANSARD_FUSED_VECTOR(float, 16, _mm512_fmadd_ps(a, b, c), _mm512_fnmadd_ps(a, b, c))
#endif
#if defined(__aarch64__)
MANSARD_FUSED_VECTOR(double, 2, vfmaq_f64(c, a, b), vfmsq_f64(c, a, b))
MANSARD_FUSED_VECTOR(float, 4, vfmaq_f32(c, a, b), vfmsq_f32(c, a, b))
MANSARD_FUSED_VECTOR(float, 2, vfma_f32(c, a, b), vfms_f32(c, a, b))
#endif
#undef MANSARD_FUSED
#undef MANSARD_FUSED_VECTOR

// Whether an fma instruction exists for vectors of R of `bytes` bytes.
template <class R>
constexpr bool fuses_vectors(int bytes) {
#if defined(__AVX512F__)
  if (bytes == 64) return true;
#endif
#if defined(__FMA__)
  if (bytes == 16 || bytes == 32 || (bytes == 8 && sizeof(R) == 4)) return true;
#elif defined(__aarch64__)
  if (bytes == 16 || (bytes == 8 && sizeof(R) == 4)) return true;
#endif
  return false;
}

// ---- numbers and vectors of any length ------------------------------------------------------------------------

template <class R, int LANES, int... L>
MANSARD_INLINE Vector<R, LANES> same_in_lanes(R a, std::integer_sequence<int, L...>) {
  const Vector<R, LANES> v = {(static_cast<void>(L), a)...};
  return v;
}
// A factor as a vector: a vector itself, or a number broadcast to all lanes.
template <class R, int LANES, class A>
MANSARD_INLINE Vector<R, LANES> as_vector(A a) {
  if constexpr (std::is_arithmetic_v<A>)
    return same_in_lanes<R, LANES>(static_cast<R>(a), std::make_integer_sequence<int, LANES>());
  else return a;
}

template <bool NEGATIVE, class R, int LANES>
MANSARD_INLINE Vector<R, LANES> fused_vectors(Vector<R, LANES> a, Vector<R, LANES> b, Vector<R, LANES> c) {
  if constexpr (fuses_vectors<R>(LANES * sizeof(R))) {
    if constexpr (NEGATIVE) return fused_negative(a, b, c);
    else return fused(a, b, c);
  } else if constexpr (LANES > 2 || fuses_vectors<R>(2 * LANES * sizeof(R))) {  // in halves, or padded
    constexpr int OTHER = LANES > 2 ? LANES / 2 : 2 * LANES, PARTS = LANES > OTHER ? LANES / OTHER : 1;
    Vector<R, OTHER> parts[3][PARTS] = {};
    std::memcpy(parts[0], &a, sizeof a), std::memcpy(parts[1], &b, sizeof b), std::memcpy(parts[2], &c, sizeof c);
    for (int i = 0; i < PARTS; ++i)
      parts[2][i] = fused_vectors<NEGATIVE, R, OTHER>(parts[0][i], parts[1][i], parts[2][i]);
    std::memcpy(&c, parts[2], sizeof c);
    return c;
  } else {
    for (int lane = 0; lane < LANES; ++lane) c[lane] = fused(NEGATIVE ? -a[lane] : a[lane], b[lane], c[lane]);
    return c;
  }
}

template <bool NEGATIVE, class A, class B, class V>
MANSARD_INLINE V fused_or_not(A a, B b, V c) {
  if constexpr (!CAN_FUSE) {
    return NEGATIVE ? c - a * b : c + a * b;
  } else if constexpr (std::is_arithmetic_v<V>) {
    return fused(static_cast<V>(NEGATIVE ? -a : a), static_cast<V>(b), c);
  } else {
    using R = std::remove_reference_t<decltype(c[0])>;
    constexpr int LANES = sizeof(V) / sizeof(R);
    return fused_vectors<NEGATIVE, R, LANES>(as_vector<R, LANES>(a), as_vector<R, LANES>(b), c);
  }
}
// a b + c. If c is a vector, each factor is a vector, or a number for all lanes.
template <class A, class B, class V>
MANSARD_INLINE V plus_product(V c, A a, B b) {
  return fused_or_not<false>(a, b, c);
}
// c - a b
template <class A, class B, class V>
MANSARD_INLINE V minus_product(V c, A a, B b) {
  return fused_or_not<true>(a, b, c);
}
template <class V, class A, class B>
MANSARD_INLINE void add_product(V& sum, A a, B b) {
  sum = fused_or_not<false>(a, b, sum);
}
template <class V, class A, class B>
MANSARD_INLINE void subtract_product(V& sum, A a, B b) {
  sum = fused_or_not<true>(a, b, sum);
}

}  // namespace mansard
