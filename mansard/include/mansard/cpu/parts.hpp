// Partial vectors, of which only the first lanes exist in memory, and non-temporal stores, for CPU kernels.
#pragma once
#include "mansard/cpu/fused.hpp"
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace mansard {

// Vectors of one lane are scalars.
template <class R, int LANES>
using Lanes = std::conditional_t<LANES == 1, R, Vector<R, LANES == 1 ? 2 : LANES>>;

template <class R, int LANES>
MANSARD_INLINE Vector<R, LANES / 2> low_half(Vector<R, LANES> v) {
  Vector<R, LANES / 2> half;
  std::memcpy(&half, &v, sizeof half);
  return half;
}
template <class R, int LANES>
MANSARD_INLINE Vector<R, LANES / 2> high_half(Vector<R, LANES> v) {
  Vector<R, LANES / 2> half;
  std::memcpy(&half, reinterpret_cast<const char*>(&v) + sizeof half, sizeof half);
  return half;
}

#if defined(__AVX512VL__)
#define MANSARD_MASKED(R, LANES, BITS, PREFIX, SUFFIX)                                                         \
  MANSARD_INLINE Vector<R, LANES> masked_load(Int<LANES>, const R* p, unsigned mask) {                         \
    return PREFIX##_maskz_loadu_##SUFFIX(static_cast<__mmask##BITS>(mask), p);                                 \
  }                                                                                                            \
  MANSARD_INLINE void masked_store(Int<LANES>, R* p, unsigned mask, Vector<R, LANES> v) {                      \
    PREFIX##_mask_storeu_##SUFFIX(p, static_cast<__mmask##BITS>(mask), v);                                     \
  }
MANSARD_MASKED(double, 2, 8, _mm, pd)
MANSARD_MASKED(double, 4, 8, _mm256, pd)
MANSARD_MASKED(double, 8, 8, _mm512, pd)
MANSARD_MASKED(float, 4, 8, _mm, ps)
MANSARD_MASKED(float, 8, 8, _mm256, ps)
MANSARD_MASKED(float, 16, 16, _mm512, ps)
#undef MANSARD_MASKED
#elif defined(__AVX__)
template <class Mask, int LANES, int COUNT, int... L>
MANSARD_INLINE Vector<Mask, LANES> first_lanes(std::integer_sequence<int, L...>) {
  return Vector<Mask, LANES>{(L < COUNT ? Mask(-1) : Mask(0))...};
}
MANSARD_INLINE Vector<double, 2> masked_load(const double* p, Vector<i64, 2> mask) {
  return _mm_maskload_pd(p, reinterpret_cast<__m128i>(mask));
}
MANSARD_INLINE Vector<double, 4> masked_load(const double* p, Vector<i64, 4> mask) {
  return _mm256_maskload_pd(p, reinterpret_cast<__m256i>(mask));
}
MANSARD_INLINE Vector<float, 4> masked_load(const float* p, Vector<int, 4> mask) {
  return _mm_maskload_ps(p, reinterpret_cast<__m128i>(mask));
}
MANSARD_INLINE Vector<float, 8> masked_load(const float* p, Vector<int, 8> mask) {
  return _mm256_maskload_ps(p, reinterpret_cast<__m256i>(mask));
}
#endif

// Load the first COUNT lanes; memory beyond them is not read, the other lanes are zero.
template <int LANES, int COUNT, class R>
MANSARD_INLINE Lanes<R, LANES> load_part(const R* p) {
  static_assert(COUNT >= 0 && COUNT <= LANES);
  if constexpr (COUNT == 0) return Lanes<R, LANES>{};
  else if constexpr (LANES == 1) return *p;
  else if constexpr (COUNT == LANES) return load<LANES>(p);
#if defined(__AVX512VL__)
  else if constexpr (LANES * sizeof(R) >= 16) return masked_load(Int<LANES>(), p, (1u << COUNT) - 1);
#elif defined(__AVX__)
  else if constexpr (LANES * sizeof(R) >= 16) {
    using Mask = std::conditional_t<sizeof(R) == 8, i64, int>;
    return masked_load(p, first_lanes<Mask, LANES, COUNT>(std::make_integer_sequence<int, LANES>()));
  }
#endif
  else {
    Vector<R, LANES> v{};
    MANSARD_UNROLL
    for (int lane = 0; lane < COUNT; ++lane) v[lane] = p[lane];
    return v;
  }
}

// Store the first COUNT lanes: by a masked store (MASKED) or in halves. A load waits for an earlier masked store as if
// it wrote all lanes, so halves are better where loads follow closely. AVX2's masked stores are slow on some
// processors.
template <int LANES, int COUNT, bool MASKED = true, class R>
MANSARD_INLINE void store_part(R* p, Lanes<R, LANES> v) {
  static_assert(COUNT >= 0 && COUNT <= LANES);
  if constexpr (COUNT == 0) return;
  else if constexpr (LANES == 1) *p = v;
  else if constexpr (COUNT == LANES) store<LANES>(p, v);
#if defined(__AVX512VL__)
  else if constexpr (MASKED && LANES * sizeof(R) >= 16) masked_store(Int<LANES>(), p, (1u << COUNT) - 1, v);
#endif
  else if constexpr (LANES == 2) p[0] = v[0];
  else {
    constexpr int HALF = LANES / 2;
    store_part<HALF, smaller(COUNT, HALF), MASKED>(p, low_half<R, LANES>(v));
    store_part<HALF, larger(COUNT - HALF, 0), MASKED>(p + HALF, high_half<R, LANES>(v));
  }
}

// ---- non-temporal stores ----------------------------------------------------------------------------------

// Store one vector past the caches; p must be aligned.
template <int LANES, class R>
MANSARD_INLINE void stream(R* p, Vector<R, LANES> v) {
#if defined(__clang__)
  __builtin_nontemporal_store(v, reinterpret_cast<Vector<R, LANES>*>(p));
#elif defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), reinterpret_cast<__m512i>(v));
#elif defined(__AVX__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(v));
#elif defined(__SSE2__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(p), reinterpret_cast<__m128i>(v));
#else
  store<LANES>(p, v);
#endif
}

// Order this thread's non-temporal stores before the stores that follow.
inline void finish_streams() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

// Copy full cache lines, without a partial last one, past the caches (PAST) or to them; returns the number of reals
// copied.
template <bool PAST, class R>
inline i64 copy_lines(R* to, const R* from, i64 count) {
  constexpr int LINE = CACHE_LINE / static_cast<int>(sizeof(R)), FULL = native_lanes<R>;
  const i64 place = static_cast<i64>(reinterpret_cast<std::uintptr_t>(to) / sizeof(R) % LINE);
  i64 done = smaller<i64>(count, (LINE - place) % LINE);
  for (i64 i = 0; i < done; ++i) to[i] = from[i];
  for (; done + LINE <= count; done += LINE) {
    MANSARD_UNROLL
    for (int lane = 0; lane < LINE; lane += FULL) {
      const Vector<R, FULL> v = load<FULL>(from + done + lane);
      if constexpr (PAST) stream<FULL>(to + done + lane, v);
      else store<FULL>(to + done + lane, v);
    }
  }
  return done;
}
template <class R>
inline i64 stream_lines(R* to, const R* from, i64 count) {
  return copy_lines<true>(to, from, count);
}

}  // namespace mansard
